/* import_clean.c - what imports leave in the staging tables, removed in bounded steps. */
#include "base/cleanup.h"
#include "journal/transfer/import_run.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct clear_step {
    int64_t import_id;
    const tide_sql *sql;
    int64_t removed;
} clear_step;

static tide_status clear(tide_tx *tx, void *arg, tide_error *err)
{
    clear_step *step = arg;
    return tide_tx_exec(tx, step->sql, &step->removed, err,
                        tide_bind_i64("import_id", step->import_id),
                        TIDE_BIND_IF(step->sql != TIDE_SQL_IMPORT_CLEAR_TYPES &&
                                         step->sql != TIDE_SQL_IMPORT_CLEAR_RUN,
                                     tide_bind_i64("limit", TIDE_IMPORT_CLEAR_MAX)));
}

/* The run goes last: whatever is still there belongs to one that is known. */
tide_status tide_import_clear(tide_store *store, int64_t import_id, tide_error *err)
{
    const tide_sql *const statements[] = {
        TIDE_SQL_IMPORT_CLEAR_ORDER, TIDE_SQL_IMPORT_CLEAR_CHUNKS, TIDE_SQL_IMPORT_CLEAR_ROWS,
        TIDE_SQL_IMPORT_CLEAR_TASKS, TIDE_SQL_IMPORT_CLEAR_TYPES,  TIDE_SQL_IMPORT_CLEAR_RUN,
    };
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        clear_step step = {.import_id = import_id, .sql = statements[i]};
        do
            TIDE_TRY(tide_store_write(store, clear, &step, err));
        while (step.removed >= TIDE_IMPORT_CLEAR_MAX);
    }
    return TIDE_OK;
}

typedef struct stale {
    int64_t after;
    int64_t import_id;
} stale;

static tide_status find_stale(tide_tx *tx, void *arg, tide_error *err)
{
    stale *found = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_IMPORT_STALE, err,
                                           tide_bind_now_plus("before", -TIDE_IMPORT_SILENCE_US),
                                           tide_bind_i64("after", found->after));
    if (status == TIDE_OK)
        found->import_id = tide_query_col_i64(query);
    return status;
}

tide_status tide_import_clean(tide_store *store, tide_error *err)
{
    stale found = {0};
    TIDE_EACH(tide_store_read_local(store, find_stale, &found, err)) {
        TIDE_TRY(tide_import_clear(store, found.import_id, err));
        found.after = found.import_id;
    }
    return TIDE_OK;
}
