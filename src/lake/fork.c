/* fork.c - a catalog that begins as another is at one snapshot.
 *
 * The parent's head is locked until the fork is there: the point is one snapshot, and nothing is committed to the parent meanwhile. Nothing is copied:
 * lake_ancestor is the parent's line, each ancestor bounded by the point, so reading is one join whatever the depth, and costs an index
 * look-up per ancestor. */
#include "lake/catalog_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { DEPTH_MAX = 256 };

static tide_status lock_parent(tide_tx *tx, lake_making *m, tide_error *err)
{
    char key[TIDE_TX_KEY_MAX + 1];
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_PARENT_TAKE, err,
               tide_bind_i64("catalog_id", m->parent_id));
    /* Before "lake/head/...", whatever the numbers: the fork's own id must be taken when the parent stands still, or it could be lower than its point. Nobody else
     * waits for the fork's head, so the order does no harm. */
    (void)snprintf(key, sizeof key, "lake/fork/%" PRId64, m->parent_id);
    return tide_tx_declare_counter(tx, key, &query, &m->locked_head, err);
}

static tide_status check_depth(tide_tx *tx, const lake_making *m, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_LAKE_FORK_DEPTH, err,
                  tide_bind_i64("catalog_id", m->parent_id));
    if (tide_query_col_i64(query) < DEPTH_MAX)
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_LIMIT,
        "catalog %s is the fork of a fork, %d times: fork one of its ancestors, or copy "
        "its tables into a new catalog",
        m->parent, DEPTH_MAX);
}

typedef struct fork_point {
    int64_t snapshot;
    int64_t schema_version;
    int64_t digest[2];
} fork_point;

static tide_status find_point(tide_tx *tx, const lake_making *m, tide_lake_catalog *parent,
                              fork_point *out, tide_error *err)
{
    parent->head = m->locked_head;
    TIDE_TRY(tide_lake_find_snapshot(tx, parent, m->at, &out->snapshot, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_LAKE_FORK_POINT, err,
                                           tide_bind_i64("parent_id", m->parent_id),
                                           tide_bind_i64("snapshot", out->snapshot));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "snapshot %" PRId64 " of catalog %s has expired: fork a newer one",
                         out->snapshot, parent->name);
    out->schema_version = tide_query_col_i64(query);
    out->digest[0] = tide_query_col_i64(query);
    out->digest[1] = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status write_line(tide_tx *tx, const lake_making *m, const fork_point *point,
                              tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_FORK_ANCESTORS, err,
               tide_bind_i64("catalog_id", m->out.catalog_id),
               tide_bind_i64("parent_id", m->parent_id),
               tide_bind_i64("snapshot", point->snapshot));
    TIDE_TRY(tide_query_defer(&query, err));
    TIDE_TRY(tide_query_start(
        &query, tx, TIDE_LAKE_SQL_LAKE_FORK_HEAD, err,
        tide_bind_i64("catalog_id", m->out.catalog_id), tide_bind_i64("snapshot", point->snapshot),
        tide_bind_i64("schema_version", point->schema_version),
        tide_bind_i64("digest_a", point->digest[0]), tide_bind_i64("digest_b", point->digest[1])));
    return tide_query_defer(&query, err);
}

static tide_status make_fork(tide_tx *tx, void *arg, tide_error *err)
{
    lake_making *m = arg;
    tide_lake_catalog parent;
    fork_point point;
    const uint64_t nothing[2] = {0, 0};
    m->out = (tide_lake_created){.was_there = false};
    const tide_status found = lake_catalog_there(tx, m, err);
    TIDE_TRY(found);
    if (found == TIDE_OK)
        return m->is_replay ? TIDE_OK : lake_catalog_exists(m, err);
    TIDE_TRY(tide_lake_find_catalog(tx, m->parent, &parent, err));
    m->parent_id = parent.catalog_id;
    TIDE_TRY(check_depth(tx, m, err));
    TIDE_TRY(lake_catalog_begin(tx, m, err));
    TIDE_TRY(lock_parent(tx, m, err));
    TIDE_TRY(tide_lake_next_snapshot(tx, m->out.catalog_id, 0, nothing, &m->out.snapshot_id, err));
    TIDE_TRY(tide_tx_take_counters(tx, err));
    TIDE_TRY(find_point(tx, m, &parent, &point, err));
    m->out.parent_snapshot_id = point.snapshot;
    TIDE_TRY(write_line(tx, m, &point, err));
    return lake_catalog_finish(tx, m, "", "[]", err);
}

tide_status tide_lake_fork(tide_lake *lake, const char *parent, const char *child, const char *at,
                           const tide_lake_commit_options *options, tide_lake_created *out,
                           tide_error *err)
{
    TIDE_TRY(tide_lake_check_name(child, "catalog", err));
    TIDE_TRY(tide_lake_check_name(parent, "catalog", err));
    TIDE_TRY(lake_check_options(options, err));
    lake_making m = {.name = child, .parent = parent, .at = at ? at : "", .options = options};
    lake_making_init(&m, lake);
    const tide_status status = lake_catalog_try(lake, make_fork, &m, err);
    if (status == TIDE_E_DAMAGED) /* the parent's head went while we waited for it */
        return tide_fail(err, TIDE_E_NOT_FOUND, "catalog '%.100s' was dropped meanwhile", parent);
    TIDE_TRY(status);
    *out = m.out;
    return TIDE_OK;
}
