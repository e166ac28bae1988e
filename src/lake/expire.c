/* expire.c - snapshots go; see expire.h. What they leave behind is swept by expire_rows.c. */
#include "lake/expire.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "lake/expire_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* Beyond every snapshot's time. */
#define FAR_FUTURE_US INT64_C(253402300799000000)

tide_status tide_expiry_lock(tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_LAKE_SQL_EXPIRE_LOCK, NULL, err, TIDE_NO_BIND);
}

tide_status tide_expiry_send(const tide_expiry *e, tide_query **query, tide_error *err)
{
    return e->is_dry_run ? tide_query_run(*query, NULL, err) : tide_query_defer(query, err);
}

/* ---- snapshots ---- */

static tide_status find_boundary(tide_expiry *e, tide_tx *tx, int64_t *boundary, tide_error *err)
{
    *boundary = INT64_MAX;
    if (e->keep_last <= 0 || e->is_dropped)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_LAKE_SQL_EXPIRE_BOUNDARY, err,
                    tide_bind_i64("catalog", e->catalog_id), tide_bind_i64("keep", e->keep_last));
    TIDE_TRY(status);
    *boundary = status == TIDE_NONE ? 0 : tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status find_snapshots(tide_expiry *e, tide_tx *tx, int64_t now_us, tide_error *err)
{
    int64_t boundary = 0;
    TIDE_TRY(find_boundary(e, tx, &boundary, err));
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_EXPIRE_SNAPSHOTS, err,
               tide_bind_i64("catalog", e->catalog_id), tide_bind_i64("boundary", boundary),
               tide_bind_time("older_than", e->older_than_us > 0 && !e->is_dropped
                                                ? e->older_than_us
                                                : FAR_FUTURE_US),
               tide_bind_time("now", now_us), tide_bind_i64("limit", e->batch));
    e->count = 0;
    TIDE_EACH(tide_query_step(query, err))
        e->ids[e->count++] = tide_query_col_i64(query);
    return TIDE_OK;
}

static void count_snapshot(tide_query *query, void *arg)
{
    (void)query;
    tide_expiry *e = arg;
    e->turn.snapshots++;
}

static tide_status drop_snapshot(tide_expiry *e, tide_tx *tx, int64_t snapshot, int64_t now_us,
                                 tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_EXPIRE_SNAPSHOT, err, tide_bind_i64("snapshot", snapshot),
               tide_bind_time("now", now_us));
    if (!e->is_dry_run)
        return tide_query_defer_rows(&query, count_snapshot, e, err);
    const tide_status status = tide_query_one(query, err);
    e->turn.snapshots += status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status send_of_snapshot(tide_expiry *e, tide_tx *tx, const tide_sql *sql,
                                    int64_t snapshot, const int64_t *now_us, tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_i64("snapshot", snapshot),
               TIDE_BIND_IF(now_us, tide_bind_time("now", *now_us)));
    return tide_expiry_send(e, &query, err);
}

static tide_status send_of_catalog(tide_expiry *e, tide_tx *tx, const tide_sql *sql,
                                   tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_i64("catalog", e->catalog_id));
    return tide_expiry_send(e, &query, err);
}

static tide_status forget_pins(tide_expiry *e, tide_tx *tx, int64_t now_us, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_EXPIRE_PINS, err, tide_bind_time("now", now_us));
    return tide_expiry_send(e, &query, err);
}

static tide_status forget_changes(tide_expiry *e, tide_tx *tx, int64_t now_us, tide_error *err)
{
    TIDE_QUERY(
        query, tx, TIDE_LAKE_SQL_EXPIRE_CHANGES, err, tide_bind_i64("catalog", e->catalog_id),
        tide_bind_time("due", e->is_dropped ? FAR_FUTURE_US : now_us - e->conflict_retention_us));
    return tide_expiry_send(e, &query, err);
}

static tide_status drop_snapshots(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_expiry_lock(tx, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(find_snapshots(e, tx, now_us, err));
    e->turn.more = e->count == e->batch;
    for (int64_t i = 0; i < e->count; i++) {
        TIDE_TRY(drop_snapshot(e, tx, e->ids[i], now_us, err));
        TIDE_TRY(send_of_snapshot(e, tx, TIDE_LAKE_SQL_EXPIRE_COMMIT, e->ids[i], &now_us, err));
    }
    TIDE_TRY(forget_changes(e, tx, now_us, err));
    return forget_pins(e, tx, now_us, err);
}

/* The head is locked by a transaction that locks nothing else: commits wait for a moment, and forks, which hold a head and then a snapshot,
 * cannot deadlock with expiring. Marks go when nobody can come who would have to be checked against them. */
static tide_status raise_base(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    TIDE_TRY(send_of_catalog(e, tx, TIDE_LAKE_SQL_EXPIRE_BASE, err));
    return send_of_catalog(e, tx, TIDE_LAKE_SQL_EXPIRE_MARKS, err);
}

/* ---- a dropped catalog's end ---- */

static tide_status end_catalog(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    if (!e->is_dropped)
        return TIDE_OK;
    TIDE_TRY(tide_expiry_lock(tx, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_LAKE_SQL_EXPIRE_IS_OVER, err,
                                           tide_bind_i64("catalog", e->catalog_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return TIDE_OK;
    const tide_sql *const all[] = {
        TIDE_LAKE_SQL_EXPIRE_OVER_ENDED,
        TIDE_LAKE_SQL_EXPIRE_OVER_MARKS,
        TIDE_LAKE_SQL_EXPIRE_OVER_COMMITS,
        TIDE_LAKE_SQL_EXPIRE_OVER_STATS,
        TIDE_LAKE_SQL_EXPIRE_OVER_COLUMN_STATS,
        TIDE_LAKE_SQL_EXPIRE_OVER_VERSIONS,
        TIDE_LAKE_SQL_EXPIRE_OVER_UNBOUNDED,
        TIDE_LAKE_SQL_EXPIRE_OVER_METADATA,
        TIDE_LAKE_SQL_EXPIRE_OVER_PINS,
        TIDE_LAKE_SQL_EXPIRE_OVER_HEAD,
        TIDE_LAKE_SQL_EXPIRE_OVER_ANCESTORS,
        TIDE_LAKE_SQL_EXPIRE_OVER_CATALOG,
        NULL,
    };
    for (const tide_sql *const *next = all; *next; next++)
        TIDE_TRY(send_of_catalog(e, tx, *next, err));
    e->turn.catalogs++;
    return TIDE_OK;
}

/* ---- turns ---- */

typedef tide_status expiry_fn(tide_expiry *e, tide_tx *tx, tide_error *err);

static tide_status run_step(tide_tx *tx, void *arg, tide_error *err)
{
    tide_expiry *e = arg;
    e->turn = (tide_lake_expired){0};
    return e->step(e, tx, err);
}

static void add_up(tide_lake_expired *total, const tide_lake_expired *turn)
{
    total->snapshots += turn->snapshots;
    total->rows += turn->rows;
    total->files += turn->files;
    total->catalogs += turn->catalogs;
    total->more = total->more || turn->more;
}

/* A closure may run again: what a turn counted is added when it is committed. */
static tide_status commit_step(tide_expiry *e, expiry_fn *step, tide_error *err)
{
    e->step = step;
    /* Again, after a lost answer: what is gone is gone, and is counted by neither. */
    TIDE_TRY(tide_store_write_by_id(tide_lake_store(e->lake), run_step, e, false, err));
    add_up(&e->total, &e->turn);
    return TIDE_OK;
}

static tide_status sweep(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    TIDE_TRY(tide_expiry_lock(tx, err));
    return tide_expiry_sweep(e, tx, err);
}

/* Are snapshots of this catalog to go? */
static bool is_asked(const tide_expiry *e)
{
    return e->is_dropped || e->older_than_us > 0 || e->keep_last > 0;
}

/* Everything at once, and undone: the numbers are what counts. */
static tide_status rehearse(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    if (is_asked(e))
        TIDE_TRY(drop_snapshots(e, tx, err));
    tide_expiry_sweep_start(e);
    while (!tide_expiry_is_swept(e)) {
        TIDE_TRY(tide_expiry_sweep(e, tx, err));
        tide_expiry_sweep_on(e);
    }
    TIDE_TRY(end_catalog(e, tx, err));
    e->rehearsed = e->turn;
    return tide_fail(err, TIDE_E_INTERRUPTED, "a rehearsal");
}

static tide_status rehearse_catalog(tide_expiry *e, tide_error *err)
{
    e->step = rehearse;
    const tide_status status = tide_store_write(tide_lake_store(e->lake), run_step, e, err);
    if (status != TIDE_E_INTERRUPTED)
        return status;
    add_up(&e->total, &e->rehearsed);
    return TIDE_OK;
}

static tide_status expire_catalog(tide_expiry *e, tide_error *err)
{
    if (e->is_dry_run)
        return rehearse_catalog(e, err);
    if (is_asked(e))
        TIDE_TRY(commit_step(e, drop_snapshots, err));
    if (!e->is_dropped)
        TIDE_TRY(commit_step(e, raise_base, err));
    tide_expiry_sweep_start(e);
    while (!tide_expiry_is_swept(e)) {
        TIDE_TRY(commit_step(e, sweep, err));
        tide_expiry_sweep_on(e);
    }
    return e->is_dropped ? commit_step(e, end_catalog, err) : TIDE_OK;
}

/* ---- which catalogs ---- */

typedef struct catalog_search {
    const char *name; /* NULL: the next below `before` */
    int64_t before;
    int64_t catalog_id;
    bool is_dropped;
} catalog_search;

static tide_status find_catalog(tide_tx *tx, void *arg, tide_error *err)
{
    catalog_search *search = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(
        &query, tx, search->name ? TIDE_LAKE_SQL_EXPIRE_FIND : TIDE_LAKE_SQL_EXPIRE_CATALOG, err,
        search->name ? tide_bind_text("name", search->name)
                     : tide_bind_i64("before", search->before));
    if (status == TIDE_NONE && search->name)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "no catalog '%s': 'tidemark lake catalog ls' lists those there are",
                         search->name);
    if (status != TIDE_OK)
        return status;
    search->catalog_id = tide_query_col_i64(query);
    search->is_dropped = search->name ? false : tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status expire_all(tide_expiry *e, const char *catalog, tide_error *err)
{
    catalog_search search = {.name = catalog, .before = INT64_MAX};
    for (;;) {
        const tide_status status =
            tide_store_read_local(tide_lake_store(e->lake), find_catalog, &search, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return TIDE_OK;
        e->catalog_id = search.catalog_id;
        e->is_dropped = search.is_dropped;
        TIDE_TRY(expire_catalog(e, err));
        if (catalog)
            return TIDE_OK;
        search.before = search.catalog_id;
    }
}

tide_status tide_lake_expire(tide_lake *lake, const char *catalog,
                             const tide_lake_expire_options *options, tide_lake_expired *out,
                             tide_error *err)
{
    if (options->older_than_us < 0 || options->keep_last < 0 || options->batch < 0 ||
        options->batch > TIDE_LAKE_EXPIRE_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "a time, a count and a batch of at most %d are wanted, none below 0",
                         TIDE_LAKE_EXPIRE_BATCH_MAX);
    if (catalog && options->older_than_us == 0 && options->keep_last == 0)
        return tide_fail(
            err, TIDE_E_INVALID,
            "which snapshots of '%s' are to go? Say from when on (--older-than) or how "
            "many stay (--keep)",
            catalog);
    tide_expiry e = {
        .lake = lake,
        .older_than_us = options->older_than_us,
        .keep_last = options->keep_last,
        .conflict_retention_us =
            options->conflict_retention_us == 0  ? TIDE_LAKE_CONFLICT_RETENTION_US
            : options->conflict_retention_us < 0 ? 0
                                                 : options->conflict_retention_us,
        .is_dry_run = options->is_dry_run,
        .batch = options->batch > 0 ? options->batch : TIDE_LAKE_EXPIRE_BATCH,
    };
    TIDE_CLEANUP(tide_freep) int64_t *ids = calloc((size_t)e.batch, sizeof *ids);
    TIDE_NEED_MEMORY(ids, err);
    e.ids = ids;
    TIDE_TRY(expire_all(&e, catalog, err));
    *out = e.total;
    return TIDE_OK;
}
