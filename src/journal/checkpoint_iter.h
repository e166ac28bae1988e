/* checkpoint_iter.h - checkpoints in the order of their numbers, page by page: what listing, exporting and verifying share.
 *
 *     tide_checkpoint_iter_begin(&walk, store, &filter, what, err)
 *     while ((status = tide_checkpoint_iter_next(&walk, err)) == TIDE_OK)
 *         walk.page->rows[walk.order == newest first ? count - 1 - i : i]
 *
 * A task's history is a chain of segments: its own numbers, and those of what it was forked from up to the fork points. Each
 * page is one durable snapshot.
 *
 * Threads: one at a time. Limits: TIDE_JOURNAL_DEPTH_MAX forks in a line. */
#pragma once

#include "journal/page.h"

/* Numbers above low up to high of this task belong to the history. */
typedef struct tide_segment {
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
    int64_t low;
    int64_t high;
} tide_segment;

typedef struct tide_lineage {
    tide_segment segments[TIDE_JOURNAL_DEPTH_MAX + 1]; /* oldest first */
    int count;                                         /* 0: there is no such task */
} tide_lineage;

TIDE_MUST_CHECK tide_status tide_lineage_read(tide_lineage *lineage, tide_tx *tx,
                                              const char *task_id, tide_error *err);

typedef struct tide_checkpoint_iter {
    tide_store *store;
    tide_journal_filter filter; /* borrowed texts */
    unsigned what;              /* flags of tide_page_what */
    tide_journal_page *page;
    tide_lineage lineage; /* of filter.task_id */
    int segment;          /* the one that is read */
    int64_t left;         /* of filter.limit */
    bool is_last;         /* the next page would be empty */
    /* Of the page that was read: */
    int64_t last_number; /* of its last row, in the order of the walk */
    int64_t last_global;
    int picked;
    bool is_full; /* the segment may go on behind it */
} tide_checkpoint_iter;

/* TIDE_E_NOT_FOUND: no such task. TIDE_E_INVALID: a bad filter. */
TIDE_MUST_CHECK tide_status tide_checkpoint_iter_begin(tide_checkpoint_iter *walk,
                                                       tide_store *store,
                                                       const tide_journal_filter *filter,
                                                       unsigned what, tide_error *err);
/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_checkpoint_iter_done(tide_checkpoint_iter *walk);

/* The next page. TIDE_NONE: there is no more. */
TIDE_MUST_CHECK tide_status tide_checkpoint_iter_next(tide_checkpoint_iter *walk, tide_error *err);

/* The two halves of tide_checkpoint_iter_next, for who has more to do in the same transaction: read the page (possibly empty) of
 * the current segment, and, after the transaction, go on. */
TIDE_MUST_CHECK tide_status tide_checkpoint_iter_read_in(tide_checkpoint_iter *walk, tide_tx *tx,
                                                         tide_error *err);
void tide_checkpoint_iter_move_on(tide_checkpoint_iter *walk);
bool tide_checkpoint_iter_is_done(const tide_checkpoint_iter *walk);

/* The page's rows in the order of the walk. */
const tide_journal_row *tide_checkpoint_iter_row(const tide_checkpoint_iter *walk, int index);

/* Bind a time so that it compares rightly with what others wrote: SQLite holds times as text of 19 to 26 bytes, so
 * it is bound without the zeroes at its end. */
void tide_journal_bind_bound(tide_query *query, tide_tx *tx, const char *name, int64_t us);
