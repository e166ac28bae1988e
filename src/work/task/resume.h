/* resume.h - what a resumer of a task is told, read in one snapshot.
 *
 * Threads: as safe as the tide_tx. Limits: TIDE_RESUME_PAGES_MAX pages of checkpoints. */
#pragma once

#include "journal/checkpoint_iter.h"
#include "journal/page.h"
#include "work/item.h"

enum { TIDE_RESUME_PAGES_MAX = 64 }; /* of checkpoints behind the last iteration_end */

typedef struct tide_resume {
    const char *task_id;
    tide_item_clock clock;
    tide_work_item *items; /* unfinished, held by nobody */
    int item_count;
    tide_idempotency_key *keys; /* completed */
    int key_count;
    tide_lineage lineage;
    tide_journal_page *end; /* holds the newest iteration_end, or nothing */
    int64_t end_count;
    tide_journal_page *later[TIDE_RESUME_PAGES_MAX]; /* tools and responses behind it */
    int later_count;
    tide_arena arena;
} tide_resume;

TIDE_MUST_CHECK tide_status tide_resume_init(tide_resume *resume, const char *task_id,
                                             tide_error *err);
void tide_resume_done(tide_resume *resume);

/* Fits tide_store_read, and may be run again: *arg is a tide_resume. */
TIDE_MUST_CHECK tide_status tide_resume_read(tide_tx *tx, void *arg, tide_error *err);
