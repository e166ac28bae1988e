/* catalog.c - catalogs are made and dropped. */
#include "lake/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/uuid.h"
#include "lake/catalog_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- what making and forking share ---- */

static bool has_key(const lake_making *m)
{
    return m->options && m->options->request_key;
}

static const char *key_of(const lake_making *m)
{
    return has_key(m) ? m->options->request_key : m->uuid;
}

/* The key was used for this catalog: by the same request? */
static tide_status check_request(const lake_making *m, tide_view hash, tide_error *err)
{
    if (tide_view_equal(hash, m->options->request_hash))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "request key '%.100s' was used for another request (snapshot %" PRId64
                     " of catalog %s): use a new key for a new request",
                     key_of(m), m->out.snapshot_id, m->there.name);
}

void lake_making_init(lake_making *m, tide_lake *lake)
{
    tide_uuid uuid;
    tide_uuid_v4(tide_store_env(tide_lake_store(lake)), &uuid);
    tide_uuid_format(&uuid, m->uuid);
}

tide_status lake_catalog_there(tide_tx *tx, lake_making *m, tide_error *err)
{
    const tide_status status = tide_lake_find_catalog(tx, m->name, &m->there, err);
    if (status != TIDE_OK)
        return status == TIDE_E_NOT_FOUND ? TIDE_NONE : status;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_LAKE_CATALOG_FIRST, err,
                  tide_bind_i64("catalog_id", m->there.catalog_id));
    m->out = (tide_lake_created){.catalog_id = m->there.catalog_id, .was_there = true};
    m->out.snapshot_id = tide_query_col_i64(query);
    const tide_view key = tide_query_col_text(query);
    m->out.parent_snapshot_id = tide_query_col_i64(query);
    m->is_replay = tide_view_equal(key, tide_view_of(key_of(m)));
    m->is_own = strcmp(m->there.uuid, m->uuid) == 0;
    if (m->is_own)
        m->out.was_there = false; /* an earlier try of ours, whose answer was lost */
    return m->is_replay && has_key(m) && !m->may_exist
               ? check_request(m, tide_query_col_blob(query), err)
               : TIDE_OK;
}

tide_status lake_catalog_begin(tide_tx *tx, lake_making *m, tide_error *err)
{
    TIDE_TRY(tide_lake_next_ids(tx, TIDE_LAKE_CATALOG_IDS, 1, &m->out.catalog_id, err));
    return tide_tx_exec(tx, TIDE_LAKE_SQL_LAKE_HEAD_ADD, NULL, err,
                        tide_bind_i64("catalog_id", m->out.catalog_id), tide_bind_now("now"));
}

tide_status lake_catalog_finish(tide_tx *tx, lake_making *m, const char *changes, const char *marks,
                                tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_CATALOG_ADD, err,
               tide_bind_i64("catalog_id", m->out.catalog_id), tide_bind_text("name", m->name),
               tide_bind_text("uuid", m->uuid));
    if (m->parent_id > 0) {
        tide_query_bind_i64(query, "parent_id", m->parent_id);
        tide_query_bind_i64(query, "fork_snapshot", m->out.parent_snapshot_id);
    }
    TIDE_TRY(tide_query_defer(&query, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_ANCESTOR_SELF, err,
                              tide_bind_i64("catalog_id", m->out.catalog_id)));
    TIDE_TRY(tide_query_defer(&query, err));
    const lake_publication what = {.catalog_id = m->out.catalog_id,
                                   .changes = changes,
                                   .marks = marks,
                                   .key = key_of(m),
                                   .attempt = m->uuid,
                                   .hash = m->options ? m->options->request_hash
                                                      : tide_view_bytes("", 0),
                                   .options = m->options,
                                   .parent = &m->parent_of_first};
    return lake_publish(tx, &what, err);
}

/* Two who take one name at once: the constraint lets one of them through, and the other looks again. Which of us made it is told by the key. */
tide_status lake_catalog_try(tide_lake *lake, tide_tx_fn *fn, lake_making *m, tide_error *err)
{
    tide_env *env = tide_store_env(tide_lake_store(lake));
    static const tide_backoff policy = {.base_us = 4000, .cap_us = 250000};
    bool is_unknown = false; /* a try may have committed */
    for (int attempt = 0;; attempt++) {
        m->parent_of_first = 0;
        tide_status status = tide_store_write(tide_lake_store(lake), fn, m, err);
        if (status >= TIDE_OK && m->parent_of_first == TIDE_LAKE_UNANSWERED)
            status = tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "the answer to the commit was lost");
        is_unknown = is_unknown || status == TIDE_E_OUTCOME_UNKNOWN;
        const bool is_taken = status == TIDE_E_EXISTS && !m->out.was_there;
        const bool is_transient = status == TIDE_E_SERIALIZATION || status == TIDE_E_BUSY ||
                                  status == TIDE_E_OUTCOME_UNKNOWN ||
                                  (is_unknown && status == TIDE_E_UNAVAILABLE);
        const bool is_again = is_taken || is_transient;
        const bool is_over = attempt + 1 >= TIDE_LAKE_TRIES_MAX;
        if (is_again && is_over && is_unknown)
            return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN,
                                     "after %d tries, one of which may have committed; repeat with "
                                     "the same request key '%s'",
                                     attempt + 1, key_of(m));
        if (!is_again || is_over)
            return is_again ? tide_fail_context(err, status, "after %d tries", attempt + 1)
                            : status;
        if (is_taken)
            TIDE_TRY(tide_lake_heal_behind(lake, err));
        env->sleep_us(env, tide_backoff_next(&policy, attempt, env));
    }
}

tide_status lake_catalog_exists(const lake_making *m, tide_error *err)
{
    return tide_fail(err, TIDE_E_EXISTS,
                     "there is a catalog '%.100s' already (number %" PRId64
                     "): choose another name",
                     m->there.name, m->there.catalog_id);
}

/* ---- making ---- */

static void fill_main(tide_lake_object_row *row, const lake_making *m, int64_t schema_id,
                      tide_env *env)
{
    char catalog[96];
    char own[96];
    tide_uuid uuid;
    tide_uuid_v4(env, &uuid);
    memset(row, 0, sizeof *row);
    row->seen.kind = TIDE_LAKE_SCHEMA;
    row->seen.id = schema_id;
    row->seen.schema_id = schema_id;
    row->is_relative = true;
    tide_uuid_format(&uuid, row->seen.uuid);
    (void)snprintf(row->seen.name, sizeof row->seen.name, "main");
    tide_lake_directory(catalog, m->name, m->uuid);
    tide_lake_directory(own, "main", row->seen.uuid);
    (void)snprintf(row->path, sizeof row->path, "%s%s", catalog, own);
}

static tide_status make_catalog(tide_tx *tx, void *arg, tide_error *err)
{
    lake_making *m = arg;
    int64_t schema_id = 0;
    m->out = (tide_lake_created){.was_there = false};
    const tide_status found = lake_catalog_there(tx, m, err);
    TIDE_TRY(found);
    if (found == TIDE_OK)
        return m->may_exist || m->is_replay ? TIDE_OK : lake_catalog_exists(m, err);
    TIDE_TRY(lake_catalog_begin(tx, m, err));
    TIDE_TRY(tide_lake_next_ids(tx, TIDE_LAKE_OBJECT_IDS, 1, &schema_id, err));
    tide_lake_object_row main_row;
    tide_lake_digest digest;
    fill_main(&main_row, m, schema_id, tide_store_env(tide_tx_store(tx)));
    TIDE_TRY(tide_lake_object_digest(&main_row, &digest, err));
    TIDE_TRY(
        tide_lake_next_snapshot(tx, m->out.catalog_id, 0, digest.sums, &m->out.snapshot_id, err));
    TIDE_TRY(lake_add_object(tx, m->out.catalog_id, &main_row, err));
    return lake_catalog_finish(tx, m, "created_schema:\"main\"", "[\"name-schema main\"]", err);
}

tide_status tide_lake_create_catalog(tide_lake *lake, const char *name, bool may_exist,
                                     const tide_lake_commit_options *options,
                                     tide_lake_created *out, tide_error *err)
{
    TIDE_TRY(tide_lake_check_name(name, "catalog", err));
    TIDE_TRY(lake_check_options(options, err));
    lake_making m = {.name = name, .may_exist = may_exist, .options = options};
    lake_making_init(&m, lake);
    TIDE_TRY(lake_catalog_try(lake, make_catalog, &m, err));
    *out = m.out;
    return TIDE_OK;
}

/* ---- dropping ---- */

typedef struct catalog_drop {
    const char *name;
    int64_t head;
    int64_t tried_id; /* 0: of no earlier try, whose answer was lost */
    bool is_unknown;
} catalog_drop;

static tide_status drop_catalog(tide_tx *tx, void *arg, tide_error *err)
{
    catalog_drop *drop = arg;
    tide_lake_catalog catalog = {.catalog_id = 0};
    char key[TIDE_TX_KEY_MAX + 1];
    const tide_status found = tide_lake_find_catalog(tx, drop->name, &catalog, err);
    const bool is_another = found == TIDE_OK && catalog.catalog_id != drop->tried_id;
    if (drop->is_unknown && (found == TIDE_E_NOT_FOUND || is_another))
        return TIDE_OK; /* the first try has dropped it */
    TIDE_TRY(found);
    drop->tried_id = catalog.catalog_id;
    if (catalog.exposed_as[0])
        return tide_fail(
            err, TIDE_E_CONFLICT,
            "catalog %s is exposed to stock clients as schema %s: take that back first "
            "('tidemark lake unexpose %s')",
            catalog.name, catalog.exposed_as, catalog.name);
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_HEAD_REMOVE, err,
               tide_bind_i64("catalog_id", catalog.catalog_id));
    (void)snprintf(key, sizeof key, "lake/head/%" PRId64, catalog.catalog_id);
    TIDE_TRY(tide_tx_declare_counter(tx, key, &query, &drop->head, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_CATALOG_HIDE, err,
                              tide_bind_i64("catalog_id", catalog.catalog_id),
                              tide_bind_now("now")));
    return tide_query_defer(&query, err);
}

tide_status tide_lake_drop_catalog(tide_lake *lake, const char *name, tide_error *err)
{
    catalog_drop drop = {.name = name};
    tide_status status = tide_store_write(tide_lake_store(lake), drop_catalog, &drop, err);
    if (status == TIDE_E_OUTCOME_UNKNOWN) {
        drop.is_unknown = true;
        status = tide_store_write_by_id(tide_lake_store(lake), drop_catalog, &drop, false, err);
    }
    if (status == TIDE_E_DAMAGED) /* its head went while we waited for it */
        return tide_fail(err, TIDE_E_NOT_FOUND, "catalog '%.100s' was dropped by somebody else",
                         name);
    return status;
}
