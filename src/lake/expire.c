/* expire.c - snapshots go; see expire.h. */
#include "lake/expire.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "lake/expire_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- rows ---- */

/* Delete files go before data files, and files before their tables, which know where they lie. A
 * step is one transaction: it goes through the stages until it has taken a batch of rows away, or
 * files, whose rows go at the transaction's end. */
enum {
    FILE_STAGES = 2,
    ROW_STAGES = 9,
    REST_STAGES = 10,
    STAGE_ENDED = FILE_STAGES + ROW_STAGES,
    STAGE_REST = STAGE_ENDED + 1,
    STAGE_OVER = STAGE_REST + 1,
};

/* How files of a kind are taken away. */
typedef struct file_stage {
    tide_lake_kind kind;
    const tide_sql *page;
    const tide_sql *schedule;
    const tide_sql *drops[5]; /* by :id; NULL ends */
} file_stage;

static const file_stage file_stages[FILE_STAGES] = {
    {TIDE_LAKE_DELETE_FILE_KIND,
     TIDE_LAKE_SQL_EXPIRE_DELETE_FILES,
     TIDE_LAKE_SQL_EXPIRE_SCHEDULE_DELETE,
     {TIDE_LAKE_SQL_EXPIRE_DELETE_FILE, TIDE_LAKE_SQL_EXPIRE_FILE_DIGEST}},
    {TIDE_LAKE_DATA_FILE,
     TIDE_LAKE_SQL_EXPIRE_DATA_FILES,
     TIDE_LAKE_SQL_EXPIRE_SCHEDULE_DATA,
     {TIDE_LAKE_SQL_EXPIRE_DATA_FILE, TIDE_LAKE_SQL_EXPIRE_FILE_STATS,
      TIDE_LAKE_SQL_EXPIRE_FILE_PARTITION, TIDE_LAKE_SQL_EXPIRE_FILE_DIGEST}},
};

/* By :catalog and :limit. */
static const tide_sql *const row_stages[ROW_STAGES] = {
    TIDE_LAKE_SQL_EXPIRE_COLUMN_TAGS, TIDE_LAKE_SQL_EXPIRE_TAGS,   TIDE_LAKE_SQL_EXPIRE_COLUMNS,
    TIDE_LAKE_SQL_EXPIRE_PARTITIONS,  TIDE_LAKE_SQL_EXPIRE_SORTS,  TIDE_LAKE_SQL_EXPIRE_MACROS,
    TIDE_LAKE_SQL_EXPIRE_VIEWS,       TIDE_LAKE_SQL_EXPIRE_TABLES, TIDE_LAKE_SQL_EXPIRE_SCHEMAS,
};

/* What hangs on rows that are gone: looked for only after some went. */
static const tide_sql *const rest_stages[REST_STAGES] = {
    TIDE_LAKE_SQL_EXPIRE_PARTITION_KEYS,     TIDE_LAKE_SQL_EXPIRE_TABLE_STATS,
    TIDE_LAKE_SQL_EXPIRE_TABLE_COLUMN_STATS, TIDE_LAKE_SQL_EXPIRE_SCHEMA_VERSIONS,
    TIDE_LAKE_SQL_EXPIRE_MACRO_IMPLS,        TIDE_LAKE_SQL_EXPIRE_MACRO_PARAMETERS,
    TIDE_LAKE_SQL_EXPIRE_SORT_EXPRESSIONS,   TIDE_LAKE_SQL_EXPIRE_VARIANT_STATS,
    TIDE_LAKE_SQL_EXPIRE_COLUMN_MAPPINGS,    TIDE_LAKE_SQL_EXPIRE_NAME_MAPPINGS,
};

/* ---- files ---- */

static tide_status find_files(tide_expiry *e, tide_tx *tx, const file_stage *stage, bool *is_last,
                              tide_error *err)
{
    TIDE_QUERY(query, tx, stage->page, err, tide_bind_i64("catalog", e->catalog_id),
               tide_bind_i64("after", e->next_after), tide_bind_i64("limit", e->batch));
    e->count = 0;
    int64_t seen = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        e->next_after = tide_query_col_i64(query);
        if (!tide_query_col_bool(query))
            e->ids[e->count++] = e->next_after;
        seen++;
    }
    *is_last = seen < e->batch;
    return TIDE_OK;
}

/* Hand a statement over to the end of the transaction; in a rehearsal, which never gets there, run it. */
static tide_status expiry_send(const tide_expiry *e, tide_query **query, tide_error *err)
{
    return e->is_dry_run ? tide_query_run(*query, NULL, err) : tide_query_defer(query, err);
}

static tide_status send_of_file(tide_expiry *e, tide_tx *tx, const tide_sql *sql, int64_t id,
                                tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_i64("id", id));
    return expiry_send(e, &query, err);
}

/* Its file is scheduled and its row goes, in one transaction. */
static tide_status drop_file(tide_expiry *e, tide_tx *tx, const file_stage *stage, int64_t id,
                             int64_t now_us, tide_error *err)
{
    TIDE_QUERY(schedule, tx, stage->schedule, err, tide_bind_i64("id", id),
               tide_bind_time("now", now_us));
    TIDE_TRY(expiry_send(e, &schedule, err));
    for (const tide_sql *const *drop = stage->drops; *drop; drop++)
        TIDE_TRY(send_of_file(e, tx, *drop, id, err));
    TIDE_QUERY(ended, tx, TIDE_LAKE_SQL_EXPIRE_FILE_ENDED, err, tide_bind_i64("id", id),
               tide_bind_i64("kind", stage->kind));
    return expiry_send(e, &ended, err);
}

static tide_status sweep_files(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    const file_stage *stage = &file_stages[e->next_stage];
    int64_t now_us = 0;
    bool is_last = false;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_TRY(find_files(e, tx, stage, &is_last, err));
    for (int64_t i = 0; i < e->count; i++)
        TIDE_TRY(drop_file(e, tx, stage, e->ids[i], now_us, err));
    e->turn.files += e->count;
    e->turn.rows += e->count;
    if (is_last) {
        e->next_stage++;
        e->next_after = -1;
    }
    return TIDE_OK;
}

/* ---- other rows ---- */

static tide_status sweep_rows(tide_expiry *e, tide_tx *tx, const tide_sql *sql, bool is_of_catalog,
                              tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err,
               TIDE_BIND_IF(is_of_catalog, tide_bind_i64("catalog", e->catalog_id)),
               tide_bind_i64("limit", e->batch));
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    e->turn.rows += changed;
    if (changed < e->batch)
        e->next_stage++;
    return TIDE_OK;
}

static tide_status sweep_rest(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    e->next_stage++;
    if (e->total.rows + e->turn.rows == 0)
        return TIDE_OK;
    for (int i = 0; i < REST_STAGES; i++) {
        TIDE_QUERY_BY(query, tide_query_begin, tx, rest_stages[i], err);
        int64_t changed = 0;
        TIDE_TRY(tide_query_run(query, &changed, err));
        e->turn.rows += changed;
    }
    return TIDE_OK;
}

static void expiry_sweep_start(tide_expiry *e)
{
    e->stage = 0;
    e->after = -1;
}

static bool expiry_is_swept(const tide_expiry *e)
{
    return e->stage == STAGE_OVER;
}

static void expiry_sweep_on(tide_expiry *e)
{
    e->stage = e->next_stage;
    e->after = e->next_after;
}

/* One step is a bounded piece of a transaction. sweep_on continues behind it once it is committed. */
static tide_status expiry_sweep(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    e->next_stage = e->stage;
    e->next_after = e->after;
    const int64_t rows_before = e->turn.rows;
    while (e->next_stage < STAGE_OVER && e->turn.rows - rows_before < e->batch) {
        if (e->next_stage < FILE_STAGES) {
            TIDE_TRY(sweep_files(e, tx, err));
            if (e->count > 0)
                return TIDE_OK; /* what follows must see that they are gone */
        } else if (e->next_stage < STAGE_ENDED) {
            TIDE_TRY(sweep_rows(e, tx, row_stages[e->next_stage - FILE_STAGES], true, err));
        } else if (e->next_stage == STAGE_ENDED) {
            TIDE_TRY(sweep_rows(e, tx, TIDE_LAKE_SQL_EXPIRE_ENDED, false, err));
        } else {
            TIDE_TRY(sweep_rest(e, tx, err));
        }
    }
    return TIDE_OK;
}

/* Beyond every snapshot's time. */
#define FAR_FUTURE_US INT64_C(253402300799000000)

static tide_status expiry_lock(tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_LAKE_SQL_EXPIRE_LOCK, NULL, err, TIDE_NO_BIND);
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
    return expiry_send(e, &query, err);
}

static tide_status send_of_catalog(tide_expiry *e, tide_tx *tx, const tide_sql *sql,
                                   tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_i64("catalog", e->catalog_id));
    return expiry_send(e, &query, err);
}

static tide_status forget_pins(tide_expiry *e, tide_tx *tx, int64_t now_us, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_EXPIRE_PINS, err, tide_bind_time("now", now_us));
    return expiry_send(e, &query, err);
}

/* What snapshots changed is forgotten but for the newest of them, which from then on refuses stock clients that began before it. */
static tide_status forget_changes(tide_expiry *e, tide_tx *tx, int64_t now_us, tide_error *err)
{
    const tide_sql *const all[] = {TIDE_LAKE_SQL_EXPIRE_CHANGES,
                                   TIDE_LAKE_SQL_EXPIRE_CHANGES_REFUSE};
    for (size_t i = 0; i < 2; i++) {
        TIDE_QUERY(query, tx, all[i], err, tide_bind_i64("catalog", e->catalog_id),
                   tide_bind_time("due", e->is_dropped ? FAR_FUTURE_US
                                                       : now_us - e->conflict_retention_us));
        TIDE_TRY(expiry_send(e, &query, err));
    }
    return TIDE_OK;
}

static tide_status drop_snapshots(tide_expiry *e, tide_tx *tx, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(expiry_lock(tx, err));
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
    TIDE_TRY(expiry_lock(tx, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_LAKE_SQL_EXPIRE_IS_OVER, err,
                                tide_bind_i64("catalog", e->catalog_id)));
    const tide_sql *const all[] = {
        TIDE_LAKE_SQL_EXPIRE_OVER_ENDED,    TIDE_LAKE_SQL_EXPIRE_OVER_MARKS,
        TIDE_LAKE_SQL_EXPIRE_OVER_CHANGES,  TIDE_LAKE_SQL_EXPIRE_OVER_COMMITS,
        TIDE_LAKE_SQL_EXPIRE_OVER_STATS,    TIDE_LAKE_SQL_EXPIRE_OVER_COLUMN_STATS,
        TIDE_LAKE_SQL_EXPIRE_OVER_VERSIONS, TIDE_LAKE_SQL_EXPIRE_OVER_UNBOUNDED,
        TIDE_LAKE_SQL_EXPIRE_OVER_METADATA, TIDE_LAKE_SQL_EXPIRE_OVER_PINS,
        TIDE_LAKE_SQL_EXPIRE_OVER_HEAD,     TIDE_LAKE_SQL_EXPIRE_OVER_ANCESTORS,
        TIDE_LAKE_SQL_EXPIRE_OVER_CATALOG,  NULL,
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
    TIDE_TRY(expiry_lock(tx, err));
    return expiry_sweep(e, tx, err);
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
    expiry_sweep_start(e);
    while (!expiry_is_swept(e)) {
        TIDE_TRY(expiry_sweep(e, tx, err));
        expiry_sweep_on(e);
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
    expiry_sweep_start(e);
    while (!expiry_is_swept(e)) {
        TIDE_TRY(commit_step(e, sweep, err));
        expiry_sweep_on(e);
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
    TIDE_EACH(tide_store_read_local(tide_lake_store(e->lake), find_catalog, &search, err)) {
        e->catalog_id = search.catalog_id;
        e->is_dropped = search.is_dropped;
        TIDE_TRY(expire_catalog(e, err));
        if (catalog)
            return TIDE_OK;
        search.before = search.catalog_id;
    }
    return TIDE_OK;
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
