/* import.c - an export, or the older document, comes in: all or nothing, and a second time nothing. */
#include <tidemark/journal.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "journal/check/chunk_gc.h"
#include "journal/transfer/import_run.h"

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
