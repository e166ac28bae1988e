/* read.c - one page for a caller: what was found on the way is noted, and the reader too. */
#include <tidemark/feed.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>
#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "feed/page.h"
#include "feed/parts.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    UNREADABLE_MAX = 16, /* batches that one read finds unreadable and passes over */
    NOTES_MAX = 2,       /* readers' positions that are being noted at a time */
};

typedef struct finding {
    tide_feed *feed;
    const char *stream;
    const tide_loss *losses;
    int count;
} finding;

static tide_status note_losses(tide_tx *tx, void *arg, tide_error *err)
{
    const finding *f = arg;
    int64_t now_us = 0;
    tide_stream_state state;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_stream_find(&state, tx, f->stream, err));
    TIDE_TRY(tide_loss_note(f->feed, tx, &state, f->losses, f->count, now_us, err));
    return tide_tx_notify(tx, TIDE_FEED_TOPIC, err);
}

/* ---- batches that cannot be read from the file ---- */

typedef struct unreadable {
    const tide_page *page;
    int64_t after;
    tide_loss loss;
} unreadable;

/* The index still knows which numbers the batch has. */
static tide_status find_range(tide_tx *tx, void *arg, tide_error *err)
{
    unreadable *u = arg;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, u->page->request->stream, err));
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_BATCH_RANGE, err, tide_bind_i64("stream", state.id),
                   tide_bind_i64("after", u->after));
    u->loss.first_seq = tide_query_col_i64(query);
    u->loss.last_seq = tide_query_col_i64(query);
    return TIDE_OK;
}

/* The batch becomes a hole, noted if that can be done: where the file cannot be written to any more, the answer has the hole all the
 * same, and the next read finds it again. Where even the index is unreadable the answer ends before it, and the next one fails (check_progress). */
static void pass_unreadable(tide_feed *feed, tide_page *page)
{
    unreadable u = {.page = page, .after = page->unreadable_after};
    const tide_status status = tide_store_read(feed->store, find_range, &u, NULL);
    if (status != TIDE_OK || u.loss.first_seq < 1 || u.loss.last_seq < u.loss.first_seq ||
        u.loss.last_seq <= u.after || page->passed_count == TIDE_PAGE_PASSED_MAX) {
        page->end_seq = u.after;
        return;
    }
    u.loss.reason = "damaged";
    (void)strcpy(u.loss.detail, "its pages cannot be read from the file");
    finding f = {.feed = feed, .stream = page->request->stream, .losses = &u.loss, .count = 1};
    if (tide_feed_write_firmly(feed, note_losses, &f, NULL) < TIDE_OK) {
        page->passed[page->passed_count++] = u.loss;
        return;
    }
    atomic_fetch_add(&feed->damaged, 1);
    tide_loss_tell(feed, f.stream, f.losses, f.count);
}

/* ---- reading ---- */

static tide_status read_page(tide_feed *feed, tide_page *page, tide_error *err)
{
    for (int tries = 0;; tries++) {
        const tide_status status = tide_store_read(feed->store, tide_page_read, page, err);
        if (status != TIDE_E_DAMAGED || tries == 2 * UNREADABLE_MAX)
            return status;
        if (page->unreadable_after >= 0 && tries >= UNREADABLE_MAX)
            page->end_seq = page->unreadable_after;
        else if (page->unreadable_after >= 0)
            pass_unreadable(feed, page);
        else if (!page->is_head_given_up)
            page->is_head_given_up = true;
        else
            return status;
    }
}

/* The answer has the holes in any case; if they cannot be noted now, the next read finds them again. */
static void note_found(tide_feed *feed, const tide_page *page)
{
    if (page->found_count == 0)
        return;
    finding f = {.feed = feed,
                 .stream = page->request->stream,
                 .losses = page->found,
                 .count = page->found_count};
    if (tide_feed_write_firmly(feed, note_losses, &f, NULL) < TIDE_OK)
        return;
    atomic_fetch_add(&feed->damaged, page->found_count);
    tide_loss_tell(feed, f.stream, f.losses, f.count);
}

static tide_status note_reader(tide_feed *feed, const tide_page *page, tide_error *err)
{
    /* While the store cannot be written to, few wait for it: a position that is not noted only keeps records longer, and comes with the
     * next poll. A token must be noted: it keeps an earlier holder out. */
    const bool is_crowded = atomic_load(&feed->notes) >= NOTES_MAX;
    if (page->reader_due == TIDE_READER_NOT_DUE ||
        (page->reader_due == TIDE_READER_MAY && is_crowded))
        return TIDE_OK;
    const tide_reader_standing standing = {.standing = page->answer->standing,
                                           .matched_seq = page->answer->matched_seq};
    const tide_status status = tide_reader_note(feed, page->request, &standing, err);
    /* What was read may be had all the same: a position that could not be noted only keeps records longer. */
    const bool is_refusal = status == TIDE_E_LEASE_LOST || status == TIDE_E_LIMIT;
    return is_refusal ? status : TIDE_OK;
}

/* An answer that stays where it began would be asked for for ever. */
static tide_status check_progress(const tide_page *page, tide_error *err)
{
    const tide_feed_answer *answer = page->answer;
    const bool is_stuck = page->end_seq >= 0 && answer->has_more &&
                          answer->scanned_through_seq <= page->request->start_seq;
    if (!is_stuck)
        return TIDE_OK;
    return tide_fail_advised(err, TIDE_E_DAMAGED,
                             "stream %s cannot be read behind %" PRId64
                             ": neither its batches nor their index; copy what is readable with "
                             "'tidemark feed salvage'",
                             page->request->stream, answer->scanned_through_seq);
}

tide_status tide_feed_read(tide_feed *feed, const tide_feed_request *given,
                           tide_feed_answer *answer, tide_error *err)
{
    TIDE_NEED(feed && answer, err);
    tide_feed_request request;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_feed_request, err));
    TIDE_CLEANUP(tide_feed_answer_done) tide_feed_answer found = {0};
    TIDE_CLEANUP(tide_page_done) tide_page page;
    TIDE_TRY(tide_page_init(&page, feed, &request, &found, err));
    TIDE_TRY(read_page(feed, &page, err));
    if (tide_epochs_raise(&page))
        TIDE_TRY(read_page(feed, &page, err));
    note_found(feed, &page);
    TIDE_TRY(check_progress(&page, err));
    TIDE_TRY(note_reader(feed, &page, err));
    *answer = found;
    answer->bytes = TIDE_TAKE(page.bytes.ptr);
    answer->len = page.bytes.len;
    tide_buffer_init(&page.bytes, 0);
    found.holes = NULL;
    found.epochs = NULL;
    return TIDE_OK;
}

void tide_feed_answer_done(tide_feed_answer *answer)
{
    if (!answer)
        return;
    free(answer->bytes);
    free(answer->holes);
    free(answer->epochs);
    answer->bytes = NULL;
    answer->epochs = NULL;
    answer->epoch_count = 0;
    answer->holes = NULL;
    answer->len = 0;
    answer->hole_count = 0;
}
