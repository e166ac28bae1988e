/* page.h - one answer, made inside one read transaction.
 *
 * A page walks over the batches behind start_seq and copies records until one of the request's limits is met. What it passes
 * on the way that cannot be served becomes a hole: known losses, what lies below the floor, and what is found damaged
 * or missing now. The latter are also handed out, so that they can be noted. */
#pragma once

#include <tidemark/identity.h>

#include "feed/parts.h"

enum {
    TIDE_PAGE_FOUND_MAX = 16,
    TIDE_PAGE_PASSED_MAX = 16,
};

typedef struct tide_page {
    tide_feed *feed;
    const tide_feed_request *request;
    int64_t max_records;
    size_t max_bytes;
    int where_column; /* of the type; -1: none */

    /* filled */
    tide_identity identity;
    tide_stream_state state;
    tide_feed_answer *answer;
    tide_buffer bytes;
    tide_buffer raw;
    int64_t scanned_bytes;
    bool is_full;
    bool has_unsound;      /* a batch behind the position has a head that is not what was written */
    bool is_chain_known;   /* the answer's, at scanned_through */
    bool is_head_given_up; /* the last batch's row cannot be read: go on without it */
    tide_reader_due reader_due;
    tide_loss next_loss; /* the first that ends above the position; last_seq 0: there is none */
    tide_loss found[TIDE_PAGE_FOUND_MAX];
    int found_count;
    int64_t unreadable_after; /* a page of the file failed behind this number; -1: none did */

    /* kept when it is read again */
    tide_loss passed[TIDE_PAGE_PASSED_MAX]; /* unreadable, and it could not be noted */
    int passed_count;
    int64_t end_seq;      /* nothing behind this number can be read; -1: unknown */
    bool has_diverged;    /* a new epoch was begun because of this reader */
    int64_t diverged_seq; /* ... which has so much in common with us */
} tide_page;

/* Check the request and get ready; the answer is filled as the page is read. */
TIDE_MUST_CHECK tide_status tide_page_init(tide_page *page, tide_feed *feed,
                                           const tide_feed_request *request,
                                           tide_feed_answer *answer, tide_error *err);
void tide_page_done(tide_page *page);

/* Fits tide_store_read; starts over when it is run again. TIDE_E_DAMAGED with unreadable_after set: the batch behind that number cannot be
 * read from the file. */
TIDE_MUST_CHECK tide_status tide_page_read(tide_tx *tx, void *page, tide_error *err);

/* epochs.c: does the epoch that the reader names, and how far it came in it, belong to another history? The answer's standing says so;
 * TIDE_E_CONFLICT: it does, and the reader is one that does not look at the standing (neither points nor an id). */
TIDE_MUST_CHECK tide_status tide_epochs_judge(tide_page *page, tide_tx *tx, tide_error *err);
/* The stream's epochs, where the reader needs them. */
TIDE_MUST_CHECK tide_status tide_epochs_tell(tide_page *page, tide_tx *tx, tide_error *err);
/* Begin a new epoch if the reader's points tell of a cut that nobody noticed; true: the page is to be read again. */
bool tide_epochs_raise(tide_page *page);
