/* epochs.c - the epochs of a stream, told to readers of another one; and the epoch that a reader's points make necessary. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "feed/page.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    STEP = 8
}; /* epochs that may pass at once; a wider step waits as long as several: nobody uses them all up */

/* ---- telling ---- */

static void reverse(tide_feed_epoch *epochs, int count)
{
    for (int i = 0; i < count / 2; i++) {
        const tide_feed_epoch kept = epochs[i];
        epochs[i] = epochs[count - 1 - i];
        epochs[count - 1 - i] = kept;
    }
}

static void copy(char *to, size_t size, tide_view from)
{
    (void)snprintf(to, size, "%.*s", (int)from.len, from.len ? from.ptr : "");
}

/* The present one, in which nothing was written to this stream yet. */
static tide_status add_present(const tide_page *page, tide_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_feed_epoch *to = &page->answer->epochs[page->answer->epoch_count++];
    *to = (tide_feed_epoch){.epoch = page->state.epoch, .first_seq = page->state.epoch_first_seq};
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_EPOCH_FIND, err,
                                tide_bind_i64("epoch", page->state.epoch)));
    copy(to->epoch_id, sizeof to->epoch_id, tide_query_col_text(query));
    copy(to->reason, sizeof to->reason, tide_query_col_text(query));
    return TIDE_OK;
}

static tide_status read_epochs(tide_query *query, tide_feed_epoch *out, int *count, tide_error *err)
{
    TIDE_EACH(tide_query_step(query, err)) {
        tide_feed_epoch *to = &out[(*count)++];
        to->epoch = tide_query_col_i64(query);
        to->first_seq = tide_query_col_i64(query);
        copy(to->epoch_id, sizeof to->epoch_id, tide_query_col_text(query));
        copy(to->reason, sizeof to->reason, tide_query_col_text(query));
    }
    return TIDE_OK;
}

static tide_status add_written(const tide_page *page, tide_tx *tx, tide_error *err)
{
    tide_feed_answer *answer = page->answer;
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_EPOCH_STARTS, err, tide_bind_i64("stream", page->state.id),
               tide_bind_i64("limit", TIDE_FEED_EPOCHS_MAX - answer->epoch_count));
    return read_epochs(query, answer->epochs, &answer->epoch_count, err);
}

/* There are more than one answer tells. Half of it is then what the reader needs now: the epoch that it is in, or that owns the oldest number if
 * it names none, and those that follow. It goes from one to the next, so what is left out in the middle is told when it comes there. */
static tide_status tell_earlier(const tide_page *page, tide_tx *tx, tide_error *err)
{
    enum { EARLIER = TIDE_FEED_EPOCHS_MAX / 2 };
    tide_feed_epoch *epochs = page->answer->epochs;
    int64_t from = page->request->epoch;
    if (from == 0)
        TIDE_TRY(tide_stream_epoch_of(&page->state, tx, page->state.floor_seq + 1, &from, err));
    if (page->answer->epoch_count < TIDE_FEED_EPOCHS_MAX || from >= epochs[0].epoch)
        return TIDE_OK;
    int count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_EPOCH_STARTS_FROM, err,
               tide_bind_i64("stream", page->state.id), tide_bind_i64("epoch", from),
               tide_bind_i64("limit", EARLIER));
    /* In place of the older half: as many that begin earlier end before the newer half begins. */
    return read_epochs(query, epochs, &count, err);
}

tide_status tide_epochs_tell(tide_page *page, tide_tx *tx, tide_error *err)
{
    const tide_feed_request *request = page->request;
    tide_feed_answer *answer = page->answer;
    /* Who names none and is told numbers of earlier epochs, too, has to know whose they are. */
    const bool is_of_another = request->epoch != 0
                                   ? request->epoch != page->state.epoch
                                   : page->state.floor_seq + 1 < page->state.epoch_first_seq;
    if (!is_of_another && answer->standing != TIDE_FEED_STANDING_DIVERGED)
        return TIDE_OK;
    if (!answer->epochs)
        answer->epochs = calloc(TIDE_FEED_EPOCHS_MAX, sizeof *answer->epochs);
    TIDE_NEED_MEMORY(answer->epochs, err);
    if (page->state.written_epoch != page->state.epoch)
        TIDE_TRY(add_present(page, tx, err));
    TIDE_TRY(add_written(page, tx, err));
    reverse(answer->epochs, answer->epoch_count);
    return tell_earlier(page, tx, err);
}

/* ---- judging ---- */

/* An epoch that we never had, or know by another id, was begun by another copy of this store. */
static tide_status is_ours(const tide_feed_request *request, tide_tx *tx, bool *out,
                           tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_EPOCH_FIND, err, tide_bind_i64("epoch", request->epoch));
    TIDE_TRY(status);
    *out = status == TIDE_OK &&
           (!request->epoch_id ||
            tide_view_equal(tide_query_col_text(query), tide_view_of(request->epoch_id)));
    return TIDE_OK;
}

/* The last number of the epoch that the reader names, as we have it: what it knows above was cut off. */
static tide_status find_end(const tide_page *page, tide_tx *tx, int64_t *out, tide_error *err)
{
    const tide_stream_state *state = &page->state;
    *out = state->head_seq;
    if (page->request->epoch >= state->epoch)
        return TIDE_OK;
    if (state->epoch_first_seq - 1 < *out)
        *out = state->epoch_first_seq - 1;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_EPOCH_AFTER, err,
                  tide_bind_i64("stream", state->id), tide_bind_i64("epoch", page->request->epoch));
    if (!tide_query_col_is_null(query)) {
        const int64_t next_first = tide_query_col_i64(query);
        if (next_first - 1 < *out)
            *out = next_first - 1;
    }
    return TIDE_OK;
}

tide_status tide_epochs_judge(tide_page *page, tide_tx *tx, tide_error *err)
{
    const tide_feed_request *request = page->request;
    tide_feed_answer *answer = page->answer;
    bool is_known = false;
    int64_t end_seq = 0;
    if (request->epoch == 0 && request->session && request->point_count == 0 &&
        request->start_seq > page->state.head_seq)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "number %" PRId64 " was never given: the stream ends at %" PRId64,
                         request->start_seq, page->state.head_seq);
    if (request->epoch == 0) {
        if (request->point_count == 0 && request->start_seq > page->state.head_seq)
            answer->standing = TIDE_FEED_STANDING_AHEAD;
        return TIDE_OK;
    }
    TIDE_TRY(is_ours(request, tx, &is_known, err));
    TIDE_TRY(find_end(page, tx, &end_seq, err));
    if (is_known && request->start_seq <= end_seq)
        return TIDE_OK;
    if (request->point_count == 0 && !request->epoch_id)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "number %" PRId64 " of epoch %" PRId64
                         " is not of this history: it is in epoch %" PRId64 " now, and that one %s",
                         request->start_seq, request->epoch, page->state.epoch,
                         is_known ? "ended before" : "never was");
    /* Without points the end of an epoch that is over is what both have; of the present one nothing is known. */
    if (request->point_count == 0)
        answer->matched_seq = is_known && request->epoch < page->state.epoch ? end_seq : 0;
    else if (is_known && answer->matched_seq > end_seq)
        answer->matched_seq = end_seq;
    answer->standing = TIDE_FEED_STANDING_DIVERGED;
    return TIDE_OK;
}

/* ---- raising ---- */

/* The highest epoch that was shown; a cut is explained if every point that differs is of an epoch before the present one. */
static int64_t find_shown(const tide_feed_request *request, int64_t present, bool *is_explained)
{
    int64_t shown = request->epoch;
    *is_explained = request->epoch < present;
    for (int i = 0; i < request->point_count; i++) {
        if (request->points[i].epoch > shown)
            shown = request->points[i].epoch;
        if (request->points[i].epoch >= present)
            *is_explained = false;
    }
    return shown;
}

/* One of many that ask at a time, and not again too soon: no more than STEP epochs in TIDE_FEED_RAISE_US. */
static bool may_raise(tide_feed *feed, int64_t step)
{
    tide_env *env = tide_store_env(feed->store);
    const int64_t now_us = env->mono_us(env) + 1;
    const int64_t turns = step > TIDE_EPOCH_MAX ? TIDE_EPOCH_MAX : (step + STEP - 1) / STEP;
    int64_t last_us = atomic_load(&feed->diverged_at_us);
    if (last_us != 0 && now_us - last_us < turns * TIDE_FEED_RAISE_US)
        return false;
    return atomic_compare_exchange_strong(&feed->diverged_at_us, &last_us, now_us) &&
           (last_us != 0 || turns <= 1);
}

bool tide_epochs_raise(tide_page *page)
{
    const tide_feed_request *request = page->request;
    const tide_feed_answer *answer = page->answer;
    if (answer->standing != TIDE_FEED_STANDING_DIVERGED || !request->session || request->epoch == 0)
        return false;
    bool is_explained = false;
    const int64_t shown = find_shown(request, answer->epoch, &is_explained);
    if (is_explained || !may_raise(page->feed, shown > answer->epoch ? shown - answer->epoch : 1))
        return false;
    char evidence[200];
    (void)snprintf(evidence, sizeof evidence,
                   "a reader of '%s' was at %" PRId64 " of epoch %" PRId64
                   "; our history has %" PRId64 " in common with it, and ends at %" PRId64,
                   request->stream, request->start_seq, shown, answer->matched_seq,
                   answer->head_seq);
    if (tide_identity_raise_above(page->feed->store, shown, "diverged", evidence, NULL, NULL) <
        TIDE_OK)
        return false;
    page->has_diverged = true; /* whatever the new epoch makes of it */
    page->diverged_seq = answer->matched_seq;
    return true;
}
