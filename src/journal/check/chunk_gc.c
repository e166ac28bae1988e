#include "journal/check/chunk_gc.h"

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { STEP = 500 };

typedef struct collect_step {
    int64_t after;
    int64_t last; /* candidate of this step */
    int count;
    int64_t chunks;
    int64_t bytes;
} collect_step;

static tide_status be_alone(tide_tx *tx, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    return tide_tx_exec(tx, TIDE_SQL_CHUNKS_ALONE, NULL, err, TIDE_NO_BIND);
}

static tide_status find_candidates(collect_step *step, tide_tx *tx, tide_error *err)
{
    step->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_CHUNKS_CANDIDATES, err, tide_bind_i64("after", step->after),
               tide_bind_i64("limit", STEP));
    TIDE_EACH(tide_query_step(query, err)) {
        step->last = tide_query_col_i64(query);
        step->count++;
    }
    return TIDE_OK;
}

static tide_status collect(tide_tx *tx, void *arg, tide_error *err)
{
    collect_step *step = arg;
    step->chunks = 0;
    step->bytes = 0;
    TIDE_TRY(be_alone(tx, err));
    TIDE_TRY(find_candidates(step, tx, err));
    if (step->count == 0)
        return TIDE_OK;
    TIDE_QUERY(query, tx, TIDE_SQL_CHUNKS_COLLECT, err, tide_bind_i64("first", step->after + 1),
               tide_bind_i64("last", step->last));
    TIDE_EACH(tide_query_step(query, err)) {
        step->chunks++;
        step->bytes += tide_query_col_i64(query);
    }
    return tide_tx_exec(tx, TIDE_SQL_CHUNKS_COLLECTED, NULL, err,
                        tide_bind_i64("first", step->after + 1), tide_bind_i64("last", step->last));
}

/* Most of the time there is nothing to do, and looking needs no lock. */
static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    return find_candidates(arg, tx, err);
}

tide_status tide_journal_chunk_gc(tide_store *store, int64_t *chunks, int64_t *bytes,
                                  tide_error *err)
{
    collect_step step = {0};
    TIDE_TRY(tide_store_read_local(store, look, &step, err));
    while (step.count > 0) {
        TIDE_TRY(tide_store_write(store, collect, &step, err));
        *chunks += step.chunks;
        *bytes += step.bytes;
        step.after = step.last;
    }
    return TIDE_OK;
}

/* ---- free pages ---- */

static tide_status read_free_pages(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FILE_FREE_PAGES, err, TIDE_NO_BIND);
    *(int64_t *)arg = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status shrink_step(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_FILE_SHRINK, NULL, err, TIDE_NO_BIND));
    return read_free_pages(tx, arg, err);
}

tide_status tide_journal_shrink(tide_store *store, tide_error *err)
{
    if (tide_store_engine(store) != TIDE_ENGINE_SQLITE)
        return TIDE_OK;
    int64_t before = 0;
    TIDE_TRY(tide_store_read_local(store, read_free_pages, &before, err));
    while (before > 0) {
        int64_t after = before;
        TIDE_TRY(tide_store_write(store, shrink_step, &after, err));
        if (after >= before)
            break; /* an older file, which does not shrink */
        before = after;
    }
    return TIDE_OK;
}
