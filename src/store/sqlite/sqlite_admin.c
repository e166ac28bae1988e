/* sqlite_admin.c - looking after a SQLite store: description, check, backup. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "store/sqlite/sqlite_engine.h"
#include "store/sqlite/sqlite_file.h"
#include "tidemark_sql.h"

/* ---- description ---- */

typedef struct fact {
    const char *name;
    const char *pragma;
} fact;

static const fact pragma_facts[] = {
    {"journal_mode", "PRAGMA journal_mode"},
    {"synchronous", "PRAGMA synchronous"},
    {"wal_autocheckpoint", "PRAGMA wal_autocheckpoint"},
    {"foreign_keys", "PRAGMA foreign_keys"},
    {"page_size", "PRAGMA page_size"},
    {"page_count", "PRAGMA page_count"},
    {"freelist_count", "PRAGMA freelist_count"},
    {"auto_vacuum", "PRAGMA auto_vacuum"},
};

static const char *name_value(const char *fact_name, const char *value)
{
    static const char *const levels[] = {"off", "normal", "full", "extra"};
    static const char *const vacuums[] = {"none", "full", "incremental"};
    if (strcmp(fact_name, "synchronous") == 0 && value[0] >= '0' && value[0] <= '3')
        return levels[value[0] - '0'];
    if (strcmp(fact_name, "auto_vacuum") == 0 && value[0] >= '0' && value[0] <= '2')
        return vacuums[value[0] - '0'];
    return value;
}

tide_status tide_sqlite_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                                 tide_error *err)
{
    fn(arg, "engine_version", sqlite3_libversion());
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(tide_sqlite_take_reader(&reader, store, err));
    assert(reader);
    /* A read of the file first: on a fresh connection PRAGMA journal_mode hides an I/O error behind
     * "delete". */
    char ignored[TIDE_SQLITE_VALUE_SIZE];
    tide_status status = tide_sqlite_ask(reader, "PRAGMA schema_version", ignored, err);
    for (size_t i = 0; status >= TIDE_OK && i < sizeof pragma_facts / sizeof pragma_facts[0]; i++) {
        char value[TIDE_SQLITE_VALUE_SIZE];
        status = tide_sqlite_ask(reader, pragma_facts[i].pragma, value, err);
        if (status >= TIDE_OK)
            fn(arg, pragma_facts[i].name, name_value(pragma_facts[i].name, value));
    }
    tide_sqlite_give_reader(reader);
    fn(arg, "group_commit", store->options.is_inline ? "inline" : "writer thread");
    fn(arg, "door_lock", "on");
    return status;
}

/* ---- check ---- */

typedef struct finding_request {
    tide_store_finding_fn *fn;
    void *arg;
    int count;
} finding_request;

static tide_status look_for_damage(tide_tx *tx, void *arg, tide_error *err)
{
    finding_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_INTEGRITY_CHECK, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        char text[512];
        tide_view_copy(text, sizeof text, tide_query_col_text(query));
        if (strcmp(text, "ok") == 0)
            continue;
        request->count++;
        request->fn(request->arg, text);
    }
    TIDE_TRY(status);
    TIDE_CLEANUP(tide_query_endp) tide_query *keys = NULL;
    TIDE_TRY(tide_query_begin(&keys, tx, TIDE_SQL_FOREIGN_KEY_CHECK, err));
    while ((status = tide_query_step(keys, err)) == TIDE_OK) {
        char text[512];
        const tide_view table = tide_query_col_text(keys);
        (void)snprintf(text, sizeof text, "a row of %.*s refers to nothing", (int)table.len,
                       table.ptr);
        request->count++;
        request->fn(request->arg, text);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

typedef struct schema_comparison {
    sqlite3 *actual;
    finding_request *request;
} schema_comparison;

/* Called for each object that the migrations make: is it in the store, word for word? */
static int compare_object(void *arg, int width, char **values, char **names)
{
    (void)width;
    (void)names;
    schema_comparison *c = arg;
    sqlite3_stmt *statement = NULL;
    bool is_same = false;
    if (sqlite3_prepare_v2(c->actual, "SELECT 1 FROM sqlite_master WHERE name = ?1 AND sql = ?2",
                           -1, &statement, NULL) == SQLITE_OK) {
        (void)sqlite3_bind_text(statement, 1, values[0], -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(statement, 2, values[1], -1, SQLITE_STATIC);
        is_same = sqlite3_step(statement) == SQLITE_ROW;
    }
    (void)sqlite3_finalize(statement);
    if (!is_same) {
        char text[128];
        (void)snprintf(text, sizeof text, "%s is missing or was altered", values[0]);
        c->request->count++;
        c->request->fn(c->request->arg, text);
    }
    return SQLITE_OK;
}

/* Tables and triggers guard the promises: they are compared with what the migrations make in an
 * empty place. Those that the store lists, that is: one opened as it is may be older than this
 * program. */
static tide_status compare_schema(tide_sqlite_connection *reader, finding_request *request,
                                  tide_error *err)
{
    char applied[TIDE_SQLITE_VALUE_SIZE];
    TIDE_TRY(tide_sqlite_ask(reader, "SELECT coalesce(max(number), 0) FROM schema_version", applied,
                             err));
    const long newest = strtol(applied, NULL, 10);
    sqlite3 *expected = NULL;
    schema_comparison c = {.actual = reader->db, .request = request};
    int code =
        sqlite3_open_v2(":memory:", &expected,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY, NULL);
    for (const tide_migration *m = tide_sql_migrations;
         code == SQLITE_OK && m->number > 0 && m->number <= newest; m++)
        code = sqlite3_exec(expected, m->text[TIDE_ENGINE_SQLITE], NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(expected, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL",
                            compare_object, &c, NULL);
    const tide_status status =
        code == SQLITE_OK ? TIDE_OK : tide_sqlite_fail(err, expected, code, "comparing the schema");
    (void)sqlite3_close(expected);
    return status;
}

tide_status tide_sqlite_check(tide_store *store, tide_store_finding_fn *fn, void *arg,
                              tide_error *err)
{
    finding_request request = {.fn = fn, .arg = arg};
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(tide_sqlite_take_reader(&reader, store, err));
    assert(reader);
    tide_sqlite_set_limits(reader);
    reader->budget_until_us = 0; /* a large file takes what it takes */
    tide_status status = tide_sqlite_read_on(reader, look_for_damage, &request, err);
    if (status >= TIDE_OK)
        status = compare_schema(reader, &request, err);
    tide_sqlite_give_reader(reader);
    /* Our own statements fail on a schema only if it is not what it was. */
    if (status == TIDE_E_FOREIGN || status == TIDE_E_IO || status == TIDE_E_FAILED)
        return tide_fail_context(err, TIDE_E_DAMAGED, "%s cannot be read", store->name);
    TIDE_TRY(status);
    if (request.count > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%s: %d findings", store->name, request.count);
    return TIDE_OK;
}

/* ---- backup ---- */

static tide_status sync_path(const char *path, int flags, tide_error *err)
{
    TIDE_CLEANUP(tide_file_closep) int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot sync %s: %s", path, strerror(errno));
    return TIDE_OK;
}

static tide_status sync_directory_of(const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *directory = strdup(path);
    if (!directory)
        return tide_no_memory(err);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory ? 1 : 0] = '\0';
    return sync_path(slash ? directory : ".", O_RDONLY | O_DIRECTORY, err);
}

/* One statement reads one snapshot: VACUUM INTO writes it, compacted, to a file nobody else
 * knows. */
static tide_status copy_into(tide_store *store, const char *path, tide_error *err)
{
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(tide_sqlite_take_reader(&reader, store, err));
    assert(reader);
    reader->budget_until_us = 0;
    tide_error ignored;
    char *text = sqlite3_mprintf("PRAGMA query_only=OFF; VACUUM INTO %Q", path);
    const tide_status status = text ? tide_sqlite_exec(reader, text, err) : tide_no_memory(err);
    sqlite3_free(text);
    TIDE_IGNORE(tide_sqlite_exec(reader, "PRAGMA query_only=ON", &ignored));
    tide_sqlite_give_reader(reader);
    return status;
}

/* The copy is as private as the original. SQLite fills an empty file that is there already. */
static tide_status make_private(const char *path, const char *like, tide_error *err)
{
    struct stat info;
    if (stat(like, &info) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot look at %s: %s", like, strerror(errno));
    TIDE_CLEANUP(tide_file_closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, info.st_mode & 0777) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot make %s: %s", path, strerror(errno));
    return TIDE_OK;
}

static tide_status check_copy(const char *path, tide_error *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    bool is_sound = false;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        is_sound = strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return is_sound ? TIDE_OK : tide_fail(err, TIDE_E_DAMAGED, "the copy %s is not sound", path);
}

/* link(2), not rename(2): it refuses to replace a file that appeared meanwhile. */
static tide_status publish(const char *from, const char *path, tide_error *err)
{
    TIDE_TRY(sync_path(from, O_RDWR, err));
    if (link(from, path) != 0)
        return tide_fail(err, errno == EEXIST ? TIDE_E_EXISTS : TIDE_E_IO,
                         "cannot name the backup %s: %s", path, strerror(errno));
    (void)unlink(from);
    return sync_directory_of(path, err);
}

tide_status tide_sqlite_backup(tide_store *store, const char *path, tide_error *err)
{
    if (access(path, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already; a backup never overwrites", path);
    TIDE_TRY(tide_sqlite_check_directory(path, err));
    char part[4096];
    if (!tide_sqlite_backup_part(path, part, sizeof part))
        return tide_fail(err, TIDE_E_INVALID, "the path %.64s... is too long", path);
    (void)unlink(part);
    tide_status status = make_private(part, ((tide_sqlite_engine *)store->engine)->path, err);
    if (status >= TIDE_OK)
        status = copy_into(store, part, err);
    if (status >= TIDE_OK)
        status = check_copy(part, err);
    if (status >= TIDE_OK)
        status = publish(part, path, err);
    if (status < TIDE_OK)
        (void)unlink(part);
    return status;
}
