/* expire_rows.c - rows that no snapshot sees any more go, from the leaves to the roots; see expire.h.
 *
 * Delete files go before data files, and files before their tables, which know where they lie. A step is one transaction: it goes through the stages until it has
 * taken a batch of rows away, or files, whose rows go at the transaction's end. */

#include "base/cleanup.h"
#include "lake/expire_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

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
    const tide_sql *drops[4]; /* by :id; NULL ends */
} file_stage;

static const file_stage file_stages[FILE_STAGES] = {
    {TIDE_LAKE_DELETE_FILE_KIND,
     TIDE_LAKE_SQL_EXPIRE_DELETE_FILES,
     TIDE_LAKE_SQL_EXPIRE_SCHEDULE_DELETE,
     {TIDE_LAKE_SQL_EXPIRE_DELETE_FILE}},
    {TIDE_LAKE_DATA_FILE,
     TIDE_LAKE_SQL_EXPIRE_DATA_FILES,
     TIDE_LAKE_SQL_EXPIRE_SCHEDULE_DATA,
     {TIDE_LAKE_SQL_EXPIRE_DATA_FILE, TIDE_LAKE_SQL_EXPIRE_FILE_STATS,
      TIDE_LAKE_SQL_EXPIRE_FILE_PARTITION}},
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

static tide_status send_of_file(tide_expiry *e, tide_tx *tx, const tide_sql *sql, int64_t id,
                                tide_error *err)
{
    TIDE_QUERY(query, tx, sql, err, tide_bind_i64("id", id));
    return tide_expiry_send(e, &query, err);
}

/* Its file is scheduled and its row goes, in one transaction. */
static tide_status drop_file(tide_expiry *e, tide_tx *tx, const file_stage *stage, int64_t id,
                             int64_t now_us, tide_error *err)
{
    TIDE_QUERY(schedule, tx, stage->schedule, err, tide_bind_i64("id", id),
               tide_bind_time("now", now_us));
    TIDE_TRY(tide_expiry_send(e, &schedule, err));
    for (const tide_sql *const *drop = stage->drops; *drop; drop++)
        TIDE_TRY(send_of_file(e, tx, *drop, id, err));
    TIDE_QUERY(ended, tx, TIDE_LAKE_SQL_EXPIRE_FILE_ENDED, err, tide_bind_i64("id", id),
               tide_bind_i64("kind", stage->kind));
    return tide_expiry_send(e, &ended, err);
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

void tide_expiry_sweep_start(tide_expiry *e)
{
    e->stage = 0;
    e->after = -1;
}

bool tide_expiry_is_swept(const tide_expiry *e)
{
    return e->stage == STAGE_OVER;
}

void tide_expiry_sweep_on(tide_expiry *e)
{
    e->stage = e->next_stage;
    e->after = e->next_after;
}

tide_status tide_expiry_sweep(tide_expiry *e, tide_tx *tx, tide_error *err)
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
