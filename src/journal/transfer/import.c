/* import.c - an export, or the older document, comes in: all or nothing, and a second time nothing. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/check/chunk_gc.h"
#include "journal/transfer/import_run.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct importer {
    tide_import_run run;
    tide_import_reader reader;
    tide_import_batch *batch;
    tide_journal_progress_fn *progress;
    void *arg;
    int64_t total;
} importer;

static void importer_freep(importer **im)
{
    if (!*im)
        return;
    tide_import_reader_done(&(*im)->reader);
    tide_import_batch_freep(&(*im)->batch);
    free(*im);
}

static tide_status stage(importer *im, tide_error *err)
{
    TIDE_TRY(tide_import_stage(im->batch, err));
    if (im->progress)
        im->progress(im->arg, im->run.checkpoints, im->total);
    return TIDE_OK;
}

/* Records go into the batch; header and end say something about the run. */
static tide_status take_record(importer *im, bool *is_end, tide_error *err)
{
    tide_import_batch *batch = im->batch;
    tide_import_record *record = &batch->records[batch->count];
    const tide_status status = tide_import_next(&im->reader, record, &batch->arena, err);
    TIDE_TRY(status);
    *is_end = status == TIDE_NONE;
    if (*is_end)
        return TIDE_OK;
    switch (record->kind) {
    case TIDE_IMPORT_HEADER:
        im->run.is_legacy = record->as.header.is_legacy;
        im->run.is_own =
            record->as.header.session && strcmp(record->as.header.session, im->run.session) == 0;
        im->total = record->as.header.checkpoints;
        return TIDE_OK;
    case TIDE_IMPORT_END:
        im->run.head = record->as.end.head;
        return TIDE_OK;
    case TIDE_IMPORT_TYPE:
    case TIDE_IMPORT_TASK:
    case TIDE_IMPORT_CHECKPOINT:
        batch->count++;
        break;
    }
    return tide_import_batch_is_full(batch) ? stage(im, err) : TIDE_OK;
}

static tide_status read_all(importer *im, tide_error *err)
{
    bool is_end = false;
    while (!is_end)
        TIDE_TRY(take_record(im, &is_end, err));
    TIDE_TRY(stage(im, err));
    return tide_import_check(&im->run, err);
}

tide_status tide_journal_import(tide_store *store, tide_journal_read_fn *read, void *arg,
                                tide_journal_progress_fn *progress, tide_journal_transfer *out,
                                tide_error *err)
{
    TIDE_NEED(store && read, err);
    TIDE_CLEANUP(importer_freep) TIDE_NEW(importer, im, err);
    im->run.store = store;
    tide_identity identity;
    tide_store_identity(store, &identity);
    memcpy(im->run.session, identity.session_id, sizeof im->run.session);
    im->progress = progress;
    im->arg = arg;
    im->batch = tide_import_batch_new(&im->run);
    TIDE_NEED_MEMORY(im->batch, err);
    TIDE_TRY(tide_import_reader_init(&im->reader, read, arg, err));
    TIDE_TRY(tide_import_clean(store, err));
    TIDE_TRY(tide_import_run_begin(&im->run, err));
    tide_journal_transfer counts = {0};
    tide_status status = read_all(im, err);
    if (status >= TIDE_OK)
        status = tide_import_publish(&im->run, &counts, err);
    /* What is left over now is garbage, which the next import would remove as well. */
    int64_t chunks = 0;
    int64_t bytes = 0;
    TIDE_IGNORE(tide_import_clear(store, im->run.import_id, NULL));
    TIDE_IGNORE(tide_journal_chunk_gc(store, &chunks, &bytes, NULL));
    if (status >= TIDE_OK && out)
        *out = counts;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* What imports leave in the staging tables, removed in bounded steps. */

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
