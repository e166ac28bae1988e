/* lake.c - a metabase is made, opened, healed. */
#include "base/buffer.h"
#include "base/interface/caller.h"
#include "lake/known.h"
#include "lake/lake_parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "lake/owner.h"
#include "store/migration.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- the data directory ---- */

static tide_status fail_directory(const char *path, tide_error *err)
{
    const int code = errno;
    const tide_status status = code == EACCES || code == EPERM || code == EROFS ? TIDE_E_DENIED
                               : code == ENOSPC                                 ? TIDE_E_FULL
                               : code == ENOENT || code == ENOTDIR              ? TIDE_E_NOT_FOUND
                                                                                : TIDE_E_IO;
    return tide_fail(err, status, "cannot use %s as the data directory: %s", path, strerror(code));
}

/* Absolute, with a slash at its end; made where it is missing. */
static tide_status settle_directory(char **out, const char *path, tide_error *err)
{
    if (!path[0] || !tide_utf8_valid(tide_view_of(path)))
        return tide_fail(err, TIDE_E_INVALID,
                         "the data directory must be named, in UTF-8: --data DIR");
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return fail_directory(path, err);
    TIDE_CLEANUP(tide_freep) char *whole = realpath(path, NULL);
    if (!whole)
        return fail_directory(path, err);
    struct stat what;
    if (stat(whole, &what) != 0)
        return fail_directory(path, err);
    if (!S_ISDIR(what.st_mode)) {
        errno = ENOTDIR;
        return fail_directory(path, err);
    }
    const size_t len = strlen(whole);
    char *made = malloc(len + 2);
    TIDE_NEED_MEMORY(made, err);
    memcpy(made, whole, len + 1);
    if (len == 0 || made[len - 1] != '/')
        memcpy(made + len, "/", 2);
    *out = made;
    return TIDE_OK;
}

tide_status tide_lake_check_directory(const char *data_dir, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *whole = NULL;
    return settle_directory(&whole, data_dir, err);
}

/* ---- what is there ---- */

static tide_status look(tide_tx *tx, bool *is_ours, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_LAKE_LOOK, err, TIDE_NO_BIND);
    *is_ours = tide_query_col_bool(query);
    const bool is_any = tide_query_col_bool(query);
    if (is_any && !*is_ours)
        return tide_fail(err, TIDE_E_FOREIGN,
                         "%s holds a DuckLake catalog of another program (ducklake_snapshot): name "
                         "another --store",
                         tide_store_name(tide_tx_store(tx)));
    return TIDE_OK;
}

static const tide_migration_set schema = {.name = "lake",
                                          .migrations = tide_lake_sql_migrations,
                                          .list = TIDE_LAKE_SQL_LAKE_VERSION_LIST,
                                          .add = TIDE_LAKE_SQL_LAKE_VERSION_ADD};

static tide_status read_setting(tide_tx *tx, const char *key, char **out, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_SETTING_GET, err, tide_bind_text("key", key));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED, "the metabase in %s does not say its %s",
                         tide_store_name(tide_tx_store(tx)), key);
    const tide_view value = tide_query_col_text(query);
    free(*out);
    *out = strndup(value.ptr, value.len);
    return *out ? TIDE_OK : tide_no_memory(err);
}

/* ---- making one ---- */

static tide_status lock_alone(tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_LOCK, NULL, err, TIDE_NO_BIND);
}

static tide_status add_setting(tide_tx *tx, const char *key, const char *value, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_SETTING_ADD, NULL, err, tide_bind_text("key", key),
                        tide_bind_text("value", value));
}

typedef struct making {
    const char *data_dir; /* NULL: only bring the schema up to date */
    char *there;          /* the directory of the metabase that is there */
    bool was_there;
    bool has_files;
} making;

static tide_status look_for_files(tide_tx *tx, bool *has_files, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_LAKE_HAS_FILES, err, TIDE_NO_BIND);
    *has_files = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status make(tide_tx *tx, void *arg, tide_error *err)
{
    making *m = arg;
    int64_t applied = 0;
    TIDE_TRY(lock_alone(tx, err));
    TIDE_TRY(look(tx, &m->was_there, err));
    if (m->was_there)
        TIDE_TRY(tide_migrations_check(&schema, tx, &applied, err));
    TIDE_TRY(tide_migrations_apply(&schema, tx, applied, err));
    TIDE_TRY(look_for_files(tx, &m->has_files, err));
    if (m->was_there)
        return read_setting(tx, "data_path", &m->there, err);
    TIDE_TRY(add_setting(tx, "created_by", "Tidemark", err));
    TIDE_TRY(add_setting(tx, "data_path", m->data_dir, err));
    return add_setting(tx, "encrypted", "false", err);
}

tide_status tide_lake_init(tide_store *store, const char *data_dir, bool *was_there,
                           tide_error *err)
{
    TIDE_NEED(store && data_dir, err);
    TIDE_CLEANUP(tide_freep) char *whole = NULL;
    TIDE_TRY(settle_directory(&whole, data_dir, err));
    TIDE_TRY(tide_lake_owner_look(store, whole, err));
    making m = {.data_dir = whole};
    const tide_status status = tide_store_write(store, make, &m, err);
    TIDE_CLEANUP(tide_freep) char *there = m.there;
    TIDE_TRY(status);
    assert(whole && (there || !m.was_there));
    if (m.was_there && strcmp(there, whole) != 0)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the metabase in %s has its data in %s: use that directory, or another "
                         "--store",
                         tide_store_name(store), there);
    const tide_status marked = tide_lake_owner_mark(store, whole, m.has_files, err);
    if (marked != TIDE_E_DENIED || !m.was_there) /* who may only read needs no mark */
        TIDE_TRY(marked);
    if (was_there)
        *was_there = m.was_there;
    return TIDE_OK;
}

/* ---- healing ---- */

typedef struct behind {
    char name[32];
    char sequence[64];
    int64_t wanted;
} behind;

enum { COUNTER_MAX = 8 };

static tide_status find_behind(tide_tx *tx, behind *list, int *count, tide_error *err)
{
    *count = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_LAKE_SQL_LAKE_COUNTERS, err);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK && *count < COUNTER_MAX) {
        behind *found = &list[*count];
        tide_view_copy(found->name, sizeof found->name, tide_query_col_text(query));
        tide_view_copy(found->sequence, sizeof found->sequence, tide_query_col_text(query));
        const int64_t last = tide_query_col_i64(query);
        found->wanted = tide_query_col_i64(query);
        *count += last < found->wanted;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status raise_one(tide_tx *tx, const behind *found, tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_LAKE_SQL_LAKE_RAISE, NULL, err, tide_bind_text("name", found->name),
        tide_bind_text("sequence", found->sequence), tide_bind_i64("wanted", found->wanted));
}

static tide_status heal(tide_tx *tx, void *arg, tide_error *err)
{
    behind list[COUNTER_MAX];
    int count = 0;
    TIDE_TRY(lock_alone(tx, err));
    TIDE_TRY(find_behind(tx, list, &count, err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(raise_one(tx, &list[i], err));
    *(int *)arg = count;
    return TIDE_OK;
}

tide_status tide_lake_heal(tide_store *store, int *raised, tide_error *err)
{
    int count = 0;
    TIDE_TRY(tide_store_write(store, heal, &count, err));
    if (raised)
        *raised = count;
    return TIDE_OK;
}

/* ---- opening ---- */

typedef struct opening {
    bool is_there;
    bool is_older;
    int behind;
    char *data_dir;
} opening;

static tide_status look_inside(tide_tx *tx, void *arg, tide_error *err)
{
    opening *o = arg;
    int64_t applied = 0;
    behind list[COUNTER_MAX];
    TIDE_TRY(look(tx, &o->is_there, err));
    if (!o->is_there)
        return TIDE_OK;
    TIDE_TRY(tide_migrations_check(&schema, tx, &applied, err));
    o->is_older = tide_migrations_are_missing(&schema, applied);
    TIDE_TRY(read_setting(tx, "data_path", &o->data_dir, err));
    return find_behind(tx, list, &o->behind, err);
}

static tide_status bring_up(tide_store *store, const opening *o, tide_error *err)
{
    making m = {.data_dir = NULL};
    if (o->is_older) {
        const tide_status status = tide_store_write(store, make, &m, err);
        free(m.there);
        TIDE_TRY(status);
    }
    return o->behind > 0 ? tide_lake_heal(store, NULL, err) : TIDE_OK;
}

tide_status tide_lake_open(tide_lake **out, tide_store *store, tide_error *err)
{
    TIDE_NEED(out && store, err);
    opening o = {.is_there = false};
    const tide_status status = tide_store_read(store, look_inside, &o, err);
    TIDE_CLEANUP(tide_freep) char *data_dir = o.data_dir;
    TIDE_TRY(status);
    if (!o.is_there)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "there is no lake in %s: make one with 'tidemark lake init --store %s "
                         "--data DIR'",
                         tide_store_name(store), tide_store_name(store));
    TIDE_TRY(bring_up(store, &o, err));
    tide_lake *lake = calloc(1, sizeof *lake);
    tide_combiner *crew = tide_combiner_new(TIDE_COMBINER_BATCH_MAX, TIDE_LAKE_GROUPS, 0);
    tide_combiner *heads = tide_combiner_new(TIDE_COMBINER_BATCH_MAX, TIDE_LAKE_GROUPS, 0);
    if (!lake || !crew || !heads) {
        free(lake);
        tide_combiner_free(crew);
        tide_combiner_free(heads);
        return tide_no_memory(err);
    }
    lake->store = store;
    lake->crew = crew;
    lake->heads = heads;
    lake->data_dir = TIDE_TAKE(data_dir);
    atomic_flag_clear(&lake->spare.is_held);
    atomic_flag_clear(&lake->known.is_held);
    *out = lake;
    return TIDE_OK;
}

void tide_lake_close(tide_lake *lake)
{
    if (!lake)
        return;
    tide_combiner_free(lake->crew);
    tide_combiner_free(lake->heads);
    lake_known_done(&lake->known);
    free(lake->data_dir);
    free(lake);
}

void tide_lake_closep(tide_lake **lake)
{
    tide_lake_close(*lake);
    *lake = NULL;
}

tide_store *tide_lake_store(tide_lake *lake)
{
    return lake->store;
}

const char *tide_lake_data_dir(const tide_lake *lake)
{
    return lake ? lake->data_dir : NULL;
}
