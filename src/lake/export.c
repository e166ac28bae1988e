/* export.c - a catalog as a file for stock clients. See expose.h. */
#include "lake/expose.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "base/text/uuid.h"
#include "lake/export_files.h"
#include "lake/lake_parts.h"
#include "store/foreign/foreign_db.h"
#include "store/sql_template.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { COLUMNS_MAX = 16, SCRIPT_MAX = 64 << 10 };

/* A table of the file, what fills it, and its columns: n number, t text, b boolean, z time. */
typedef struct export_table {
    const char *name;
    const tide_sql *sql;
    const char *columns;
} export_table;

static const export_table tables[] = {
    {"ducklake_metadata", TIDE_LAKE_SQL_LAKE_EXPORT_METADATA, "tttn"},
    {"ducklake_snapshot", TIDE_LAKE_SQL_LAKE_EXPORT_SNAPSHOT, "nznnn"},
    {"ducklake_snapshot_changes", TIDE_LAKE_SQL_LAKE_EXPORT_SNAPSHOT_CHANGES, "ntttt"},
    {"ducklake_schema", TIDE_LAKE_SQL_LAKE_EXPORT_SCHEMA, "ntnnttb"},
    {"ducklake_table", TIDE_LAKE_SQL_LAKE_EXPORT_TABLE, "ntnnnttb"},
    {"ducklake_view", TIDE_LAKE_SQL_LAKE_EXPORT_VIEW, "ntnnntttt"},
    {"ducklake_column", TIDE_LAKE_SQL_LAKE_EXPORT_COLUMN, "nnnnnttttbntt"},
    {"ducklake_tag", TIDE_LAKE_SQL_LAKE_EXPORT_TAG, "nnntt"},
    {"ducklake_column_tag", TIDE_LAKE_SQL_LAKE_EXPORT_COLUMN_TAG, "nnnntt"},
    {"ducklake_data_file", TIDE_LAKE_SQL_LAKE_EXPORT_DATA_FILE, "nnnnntbtnnnnntnn"},
    {"ducklake_delete_file", TIDE_LAKE_SQL_LAKE_EXPORT_DELETE_FILE, "nnnnntbtnnntn"},
    {"ducklake_file_column_stats", TIDE_LAKE_SQL_LAKE_EXPORT_FILE_COLUMN_STATS, "nnnnnnttbt"},
    {"ducklake_file_variant_stats", TIDE_LAKE_SQL_LAKE_EXPORT_FILE_VARIANT_STATS, "nnnttnnnttbt"},
    {"ducklake_table_stats", TIDE_LAKE_SQL_LAKE_EXPORT_TABLE_STATS, "nnnn"},
    {"ducklake_table_column_stats", TIDE_LAKE_SQL_LAKE_EXPORT_TABLE_COLUMN_STATS, "nnbbttt"},
    {"ducklake_partition_info", TIDE_LAKE_SQL_LAKE_EXPORT_PARTITION_INFO, "nnnn"},
    {"ducklake_partition_column", TIDE_LAKE_SQL_LAKE_EXPORT_PARTITION_COLUMN, "nnnnt"},
    {"ducklake_file_partition_value", TIDE_LAKE_SQL_LAKE_EXPORT_FILE_PARTITION_VALUE, "nnnt"},
    {"ducklake_column_mapping", TIDE_LAKE_SQL_LAKE_EXPORT_COLUMN_MAPPING, "nnt"},
    {"ducklake_name_mapping", TIDE_LAKE_SQL_LAKE_EXPORT_NAME_MAPPING, "nntnnb"},
    {"ducklake_schema_versions", TIDE_LAKE_SQL_LAKE_EXPORT_SCHEMA_VERSIONS, "nnn"},
    {"ducklake_macro", TIDE_LAKE_SQL_LAKE_EXPORT_MACRO, "nntnn"},
    {"ducklake_macro_impl", TIDE_LAKE_SQL_LAKE_EXPORT_MACRO_IMPL, "nnttt"},
    {"ducklake_macro_parameters", TIDE_LAKE_SQL_LAKE_EXPORT_MACRO_PARAMETERS, "nnntttt"},
    {"ducklake_sort_info", TIDE_LAKE_SQL_LAKE_EXPORT_SORT_INFO, "nnnn"},
    {"ducklake_sort_expression", TIDE_LAKE_SQL_LAKE_EXPORT_SORT_EXPRESSION, "nnntttt"},
};

typedef struct exporting {
    tide_lake *lake;
    const char *catalog_name;
    tide_lake_catalog catalog;
    char data_dir[PATH_MAX]; /* its own, with a slash at its end; "": the lake's */
    bool is_dir_empty;       /* in the beginning */
    tide_foreign_tx *file;
    tide_lake_exported out;
} exporting;

/* ---- rows ---- */

static tide_sql_value read_value(tide_query *query, char type, char time[TIDE_TIME_TEXT_SIZE + 3])
{
    if (tide_query_col_is_null(query)) {
        (void)tide_query_col_text(query);
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    }
    if (type == 'n')
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = tide_query_col_i64(query)};
    if (type == 'b')
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64,
                                .i64 = tide_query_col_bool(query) ? 1 : 0};
    if (type == 't')
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_query_col_text(query)};
    /* As DuckDB writes a time with a zone. */
    if (tide_time_format(tide_query_col_time(query), time) < TIDE_OK)
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    char *between = strchr(time, 'T');
    if (between)
        *between = ' ';
    char *zone = strchr(time, 'Z');
    if (zone)
        *zone = '\0';
    memcpy(time + strlen(time), "+00", sizeof "+00");
    return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(time)};
}

static tide_status write_insert(tide_buffer *out, const export_table *table, tide_error *err)
{
    tide_template_item columns[COLUMNS_MAX] = {0};
    const int count = (int)strlen(table->columns);
    for (int i = 0; i < count; i++)
        columns[i].n = i + 1;
    const tide_template_value name = {.hole = "table", .name = table->name};
    const tide_template_list list = {.hole = "columns", .items = columns, .count = count};
    const tide_template_context context = {
        .values = &name, .value_count = 1, .lists = &list, .list_count = 1, .flags = ""};
    return tide_template_fill(out, TIDE_TEMPLATE_LAKE_FILE_INSERT, &context, err);
}

static tide_status copy_table(tide_tx *tx, exporting *e, const export_table *table, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(SCRIPT_MAX);
    TIDE_TRY(write_insert(&text, table, err));
    TIDE_FOREIGN_QUERY_BY(insert, tide_foreign_begin, e->file, tide_buffer_text(&text), err);
    TIDE_QUERY(query, tx, table->sql, err, tide_bind_i64("catalog_id", e->catalog.catalog_id));
    TIDE_EACH(tide_query_step(query, err)) {
        char time[TIDE_TIME_TEXT_SIZE + 3];
        tide_foreign_reset(insert);
        for (int i = 0; table->columns[i]; i++) {
            const tide_sql_value value = read_value(query, table->columns[i], time);
            tide_foreign_bind_at(insert, i + 1, value);
        }
        TIDE_TRY(tide_foreign_run(insert, NULL, err));
        e->out.snapshots += strcmp(table->name, "ducklake_snapshot") == 0;
    }
    return TIDE_OK;
}

static tide_status count_live(void *arg, const tide_lake_object *object, tide_error *err)
{
    (void)err;
    *(int64_t *)arg += object->kind == TIDE_LAKE_TABLE;
    return TIDE_OK;
}

typedef struct counting {
    tide_tx *tx;
    exporting *e;
} counting;

static tide_status count_schema(void *arg, const tide_lake_object *schema, tide_error *err)
{
    counting *c = arg;
    return tide_lake_each_object(c->tx, c->e->catalog.catalog_id, c->e->catalog.head, schema->id,
                                 count_live, &c->e->out.tables, err);
}

/* One look at the metabase; if it has to be taken again, the file begins anew. */
static tide_status copy_all(tide_tx *tx, void *arg, tide_error *err)
{
    exporting *e = arg;
    e->out = (tide_lake_exported){0};
    TIDE_TRY(tide_lake_find_catalog(tx, e->catalog_name, &e->catalog, err));
    e->out.snapshot_id = e->catalog.head;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer schema = tide_buffer_of(SCRIPT_MAX);
    const tide_template_context nothing = {.flags = ""};
    TIDE_TRY(tide_template_fill(&schema, TIDE_TEMPLATE_LAKE_FILE_SCHEMA, &nothing, err));
    TIDE_TRY(tide_foreign_script(e->file, tide_buffer_text(&schema), err));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        TIDE_TRY(copy_table(tx, e, &tables[i], err));
    counting count = {.tx = tx, .e = e};
    return tide_lake_each_schema(tx, e->catalog.catalog_id, e->catalog.head, count_schema, &count,
                                 err);
}

static tide_status fill_file(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    exporting *e = arg;
    e->file = tx;
    TIDE_TRY(tide_store_read(e->lake->store, copy_all, e, err));
    if (!e->data_dir[0])
        return TIDE_OK;
    return tide_lake_export_files(tx, e->lake->data_dir, e->data_dir, &e->out.files, err);
}

/* ---- the file ---- */

static tide_status fail_errno(const char *what, const char *path, tide_error *err)
{
    const int code = errno;
    const tide_status status = code == ENOENT   ? TIDE_E_NOT_FOUND
                               : code == EACCES ? TIDE_E_DENIED
                               : code == ENOSPC ? TIDE_E_FULL
                               : code == EEXIST ? TIDE_E_EXISTS
                                                : TIDE_E_IO;
    return tide_fail(err, status, "cannot %s %s: %s", what, path, strerror(code));
}

static tide_status sync_path(const char *path, int flags, tide_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return fail_errno("open", path, err);
    const tide_status status = fsync(fd) == 0 ? TIDE_OK : fail_errno("sync", path, err);
    (void)close(fd);
    return status;
}

/* A log beside a file belongs to it: another file under its name would be read with it. */
static tide_status check_target(const char *path, bool is_forced, tide_error *err)
{
    static const char *const logs[] = {"-wal", "-journal"};
    struct stat there;
    if (stat(path, &there) != 0)
        return TIDE_OK;
    if (!is_forced)
        return tide_fail(err, TIDE_E_EXISTS,
                         "there is a file %s: name another one, or replace it with --force", path);
    if (!S_ISREG(there.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is not a file", path);
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        char log[PATH_MAX];
        if (snprintf(log, sizeof log, "%s%s", path, logs[i]) < (int)sizeof log &&
            stat(log, &there) == 0 && there.st_size > 0)
            return tide_fail(err, TIDE_E_BUSY,
                             "somebody has %s open (%s): close it, or name another file", path,
                             log);
    }
    return TIDE_OK;
}

/* link does not replace what is there; rename does. */
static tide_status publish(const char *partial, const char *path, bool is_forced, tide_error *err)
{
    TIDE_TRY(sync_path(partial, 0, err));
    if (is_forced ? rename(partial, path) != 0 : link(partial, path) != 0)
        return fail_errno("write", path, err);
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", path);
    return sync_path(dirname(copy), O_DIRECTORY, err);
}

/* "name.<uuid>.partial", and the journal beside it. */
static bool is_partial_of(const char *found, const char *name)
{
    enum { TOKEN_LEN = TIDE_UUID_TEXT_SIZE - 1 };
    const size_t len = strlen(name);
    tide_uuid token;
    if (strlen(found) <= len + 1 + TOKEN_LEN || strncmp(found, name, len) != 0 ||
        found[len] != '.' ||
        tide_uuid_parse(&token, tide_view_bytes(found + len + 1, TOKEN_LEN)) < TIDE_OK)
        return false;
    const char *rest = found + len + 1 + TOKEN_LEN;
    return strcmp(rest, ".partial") == 0 || strcmp(rest, ".partial-journal") == 0;
}

/* What exports have left here that died: nobody has touched it for an hour. */
static void remove_leftovers(const char *path, tide_env *env)
{
    enum { AGE_S = 3600 };
    char copy[PATH_MAX];
    char other[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", path);
    (void)snprintf(other, sizeof other, "%s", path);
    const char *name = basename(other);
    const time_t due = (time_t)(env->wall_us(env) / 1000000) - AGE_S;
    DIR *dir = opendir(dirname(copy));
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        struct stat there;
        if (is_partial_of(entry->d_name, name) &&
            fstatat(dirfd(dir), entry->d_name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            there.st_mtime < due)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}

static tide_status write_file(exporting *e, const char *partial, tide_error *err)
{
    const tide_foreign_options options = {
        .env = tide_store_env(e->lake->store), .is_new = true, .is_as_is = true, .state_dir = ""};
    const int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_errno("write", partial, err);
    (void)close(fd);
    TIDE_CLEANUP(tide_foreign_closep) tide_foreign_db *app = NULL;
    TIDE_TRY(tide_foreign_open(&app, partial, &options, err));
    return tide_foreign_write(app, fill_file, e, err);
}

/* Absolute, with a slash at its end. Within the lake's it would be cleaned up with it. */
static tide_status name_directory(exporting *e, const char *path,
                                  const tide_lake_export_options *options, tide_error *err)
{
    char here[PATH_MAX] = "";
    char *out = e->data_dir;
    if (options->is_reference)
        return TIDE_OK;
    const char *given = options->data_dir ? options->data_dir : path;
    if (given[0] != '/' && !getcwd(here, sizeof here))
        return fail_errno("find", ".", err);
    const size_t len = strlen(given);
    const int written = snprintf(out, PATH_MAX, "%s%s%s%s", here, here[0] ? "/" : "", given,
                                 !options->data_dir                 ? ".files/"
                                 : len > 0 && given[len - 1] == '/' ? ""
                                                                    : "/");
    if (written >= PATH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "the name of the directory is too long");
    TIDE_TRY(tide_lake_export_directory(out, options->is_forced, &e->is_dir_empty, err));
    char real[PATH_MAX];
    char real_lake[PATH_MAX];
    if (!realpath(out, real) || !realpath(e->lake->data_dir, real_lake))
        return fail_errno("find", out, err);
    const size_t lake_len = strlen(real_lake);
    if (strncmp(real, real_lake, lake_len) == 0 && (real[lake_len] == '/' || !real[lake_len]))
        return tide_fail(err, TIDE_E_INVALID,
                         "%s is within the lake's data directory: name another one with --data",
                         out);
    return TIDE_OK;
}

tide_status tide_lake_export(tide_lake *lake, const char *catalog, const char *path,
                             const tide_lake_export_options *options, tide_lake_exported *out,
                             tide_error *err)
{
    char token[TIDE_UUID_TEXT_SIZE];
    char partial[PATH_MAX];
    tide_uuid uuid;
    tide_uuid_v7(tide_store_env(lake->store), &uuid);
    tide_uuid_format(&uuid, token);
    if (snprintf(partial, sizeof partial, "%s.%s.partial", path, token) >= (int)sizeof partial)
        return tide_fail(err, TIDE_E_INVALID, "the name of the file is too long");
    TIDE_TRY(check_target(path, options->is_forced, err));
    exporting e = {.lake = lake, .catalog_name = catalog};
    TIDE_TRY(name_directory(&e, path, options, err));
    remove_leftovers(path, tide_store_env(lake->store));
    tide_status status = write_file(&e, partial, err);
    if (status >= TIDE_OK)
        status = publish(partial, path, options->is_forced, err);
    (void)unlink(partial); /* gone already where it was renamed */
    if (status < TIDE_OK && e.is_dir_empty)
        tide_lake_export_undo(e.data_dir);
    TIDE_TRY(status);
    *out = e.out;
    return TIDE_OK;
}
