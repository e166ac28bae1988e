/* import_run.h - an import under way: staged in steps, published at once, cleaned up.
 *
 *     read ---> stage (bounded transactions; nobody sees it) ---> publish (one transaction) ---> clean
 *                  |                                                 |
 *                  +--- a crash leaves garbage, cleaned by the       +--- all or nothing
 *                       next import once it has been silent
 *                       for an hour
 *
 * That hour is no matter of safety: an import whose rows were taken away is refused when it wants to publish.
 *
 * Threads: one at a time; several imports may run beside each other. */
#pragma once

#include <tidemark/identity.h>

#include "journal/snapshot/snapshot.h"
#include "journal/transfer/import_reader.h"

enum {
    TIDE_IMPORT_BATCH_MAX = 200,     /* records of one transaction */
    TIDE_IMPORT_BATCH_LEN = 2 << 20, /* bytes of them, unless one is larger */
    TIDE_IMPORT_CLEAR_MAX = 500,     /* rows removed by one transaction */
};

#define TIDE_IMPORT_SILENCE_US INT64_C(3600000000)

typedef struct tide_import_run {
    tide_store *store;
    int64_t import_id;
    bool is_legacy;
    char session[TIDE_SESSION_ID_SIZE]; /* of this store */
    bool is_own;                        /* the file was made by this store: its numbers are ours */
    int64_t head;                       /* of the file */
    int64_t tasks;                      /* staged */
    int64_t checkpoints;                /* staged */
    int64_t depth_max;
    int64_t known_plain; /* rows here from plain SQL whose content was found equal */
} tide_import_run;

/* ---- import_stage.c ---- */

typedef struct tide_import_batch {
    tide_import_run *run;
    tide_arena arena; /* what the records refer to */
    tide_import_record records[TIDE_IMPORT_BATCH_MAX];
    tide_snapshot snapshots[TIDE_IMPORT_BATCH_MAX];
    int count;
} tide_import_batch;

tide_import_batch *tide_import_batch_new(tide_import_run *run); /* NULL: no memory */
void tide_import_batch_freep(tide_import_batch **batch);
/* It should be staged before another record is read into it. */
bool tide_import_batch_is_full(const tide_import_batch *batch);

TIDE_MUST_CHECK tide_status tide_import_run_begin(tide_import_run *run, tide_error *err);
/* Stage the records of a batch and empty it. */
TIDE_MUST_CHECK tide_status tide_import_stage(tide_import_batch *batch, tide_error *err);
/* All is staged: is it whole? TIDE_E_DAMAGED: a checkpoint twice or without its task; forks in a circle.
 * TIDE_E_MISMATCH: a checkpoint is here with other content. */
TIDE_MUST_CHECK tide_status tide_import_check(tide_import_run *run, tide_error *err);

/* ---- import_publish.c ---- */

TIDE_MUST_CHECK tide_status tide_import_publish(tide_import_run *run, tide_journal_transfer *out,
                                                tide_error *err);

/* ---- import.c ---- */

/* Remove what this import staged. */
TIDE_MUST_CHECK tide_status tide_import_clear(tide_store *store, int64_t import_id,
                                              tide_error *err);
/* Remove what imports left that are over or dead. */
TIDE_MUST_CHECK tide_status tide_import_clean(tide_store *store, tide_error *err);
