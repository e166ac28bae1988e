/* verify.c - is everything there, and is it what was written?
 *
 * Every batch is read: the checksums of head and body, whole records numbered without a gap, the chain from the batch
 * before and through its records, times and services that cover the records, arrivals that do not go back. Between
 * batches, and between the last one and the counter, every number is covered by a loss. A page of batches per read transaction, so that
 * others can write; retention may cut off what was not looked at yet. */
#include <tidemark/feed.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "feed/parts.h"
#include "feed/walk.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    PAGE_BYTES = 32 << 20,
    FINDING_SIZE = 320,
    PENDING_MAX = 64, /* findings of one page, handed out when its transaction has ended */
};

typedef struct verification {
    tide_feed *feed;
    const char *stream;
    bool is_listed; /* all streams are verified, and this one is of their list */
    tide_feed_finding_fn *fn;
    void *arg;
    int64_t findings;
    /* where the next page begins */
    int64_t position;
    tide_digest128 chain;
    bool is_chain_known;
    int64_t arrived_us;
    bool is_done;
    /* of the page under way: taken over when its transaction has succeeded */
    int64_t at;
    tide_digest128 at_chain;
    bool is_at_chain_known;
    int64_t at_arrived_us;
    int64_t reading; /* the batch whose row is being read begins behind this number; -1: none is */
    tide_buffer raw;
    char pending[PENDING_MAX][FINDING_SIZE];
    int pending_count;
} verification;

TIDE_PRINTF(2, 3) static void find(verification *v, const char *format, ...)
{
    if (v->pending_count == PENDING_MAX)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(v->pending[v->pending_count++], FINDING_SIZE, format, args);
    va_end(args);
}

static void hand_out(verification *v)
{
    for (int i = 0; i < v->pending_count; i++)
        if (v->fn)
            v->fn(v->arg, v->stream, v->pending[i]);
    v->findings += v->pending_count;
    v->pending_count = 0;
}

/* Numbers without a batch: are they all accounted for? */
static tide_status check_gap(verification *v, tide_tx *tx, const tide_stream_state *state,
                             int64_t last_seq, tide_error *err)
{
    while (v->at < last_seq) {
        tide_loss loss;
        const tide_status status = tide_loss_next(tx, state->id, v->at, &loss, err);
        TIDE_TRY(status);
        const bool has_loss = status == TIDE_OK && loss.first_seq <= last_seq;
        const int64_t bare_end = has_loss ? loss.first_seq - 1 : last_seq;
        if (bare_end > v->at)
            find(v, "%" PRId64 " to %" PRId64 ": no batch has these numbers, and no loss is noted",
                 v->at + 1, bare_end);
        v->at = has_loss && loss.last_seq < last_seq ? loss.last_seq : last_seq;
    }
    v->is_at_chain_known = false;
    return TIDE_OK;
}

/* Retention deletes a batch when it raises the floor past it. It leaves one that cannot be read, and
 * notes its loss. Any other batch below the floor means that the floor is not what was written. */
static tide_status check_floor(verification *v, tide_tx *tx, const tide_stream_state *state,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_loss loss = {.first_seq = 0};
    /* Every read looks for losses: their table must be readable also where there is none. */
    TIDE_TRY(tide_loss_next(tx, state->id, 0, &loss, err));
    if (state->floor_seq == 0)
        return TIDE_OK;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_FEED_BATCH_RANGE, err,
                                tide_bind_i64("stream", state->id), tide_bind_i64("after", 0)));
    const int64_t first_seq = tide_query_col_i64(query);
    const int64_t last_seq = tide_query_col_i64(query);
    if (last_seq > state->floor_seq)
        return TIDE_OK;
    const tide_status covered = tide_loss_next(tx, state->id, last_seq - 1, &loss, err);
    TIDE_TRY(covered);
    if (covered == TIDE_NONE || loss.first_seq > first_seq)
        find(v, "%" PRId64 " to %" PRId64 ": stored below the floor, which is %" PRId64, first_seq,
             last_seq, state->floor_seq);
    return TIDE_OK;
}

/* The records: do head and chain tell the truth of them? */
static void check_records(verification *v, const tide_stream_type *type,
                          const tide_batch_head *head)
{
    tide_view rest = tide_buffer_view(&v->raw);
    tide_record record;
    tide_digest128 chain = head->chain_before;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_record_row row;
        chain = tide_record_chain(chain, record.bytes);
        if (tide_record_decode(type, record.message, &row) != TIDE_OK) {
            find(v, "%" PRId64 ": not a record of %s", record.seq, type->name);
            continue;
        }
        const int64_t time_ms = row.values[type->time_column].i64;
        if (time_ms < head->min_time_ms || time_ms > head->max_time_ms)
            find(v, "%" PRId64 ": its time lies outside its batch's times", record.seq);
        if (type->service_column < 0 || head->services.len == 0)
            continue;
        const tide_view service = row.values[type->service_column].bytes;
        char name[TIDE_RECORD_SERVICES_LEN_MAX + 1];
        (void)snprintf(name, sizeof name, "%.*s", (int)service.len, service.ptr ? service.ptr : "");
        const char *const names[] = {name};
        if (!tide_record_services_may_hold(head->services, names, 1))
            find(v, "%" PRId64 ": its service is not among its batch's", record.seq);
    }
    if (!tide_digest128_equal(&chain, &head->chain))
        find(v, "%" PRId64 " to %" PRId64 ": the chain does not fit the records", head->first_seq,
             head->last_seq);
}

static tide_status check_batch(verification *v, tide_tx *tx, const tide_stream_state *state,
                               const tide_batch_head *head, tide_error *err)
{
    if (!tide_batch_is_head_sound(head, state->id)) {
        find(v, "%" PRId64 " to %" PRId64 ": the head's checksum does not fit", v->at + 1,
             head->last_seq);
        v->at = head->last_seq > v->at ? head->last_seq : v->at;
        v->is_at_chain_known = false;
        return TIDE_OK;
    }
    if (head->first_seq > v->at + 1)
        TIDE_TRY(check_gap(v, tx, state, head->first_seq - 1, err));
    if (head->first_seq <= v->at)
        find(v, "%" PRId64 ": stands in two batches", head->first_seq);
    if (v->is_at_chain_known && !tide_digest128_equal(&v->at_chain, &head->chain_before))
        find(v, "%" PRId64 ": the chain is broken before it", head->first_seq);
    if (head->arrived_us < v->at_arrived_us &&
        v->at_arrived_us - head->arrived_us < TIDE_FEED_AHEAD_US)
        find(v, "%" PRId64 ": arrived before the batch before it", head->first_seq);
    bool is_row_readable = false;
    tide_error why;
    const tide_status status =
        tide_stream_read_body(tx, state->type, head, &v->raw, &is_row_readable, &why);
    if (status == TIDE_E_DAMAGED && is_row_readable)
        find(v, "%" PRId64 " to %" PRId64 ": %.200s", head->first_seq, head->last_seq, why.text);
    else if (status < TIDE_OK)
        return tide_fail(err, status, "%s", why.text);
    else
        check_records(v, state->type, head);
    v->at = head->last_seq;
    v->at_chain = head->chain;
    v->is_at_chain_known = true;
    v->at_arrived_us = head->arrived_us;
    return TIDE_OK;
}

/* ---- a page of batches ---- */

static void begin_page(verification *v, const tide_stream_state *state)
{
    v->pending_count = 0;
    v->at = v->position;
    v->at_chain = v->chain;
    v->is_at_chain_known = v->is_chain_known;
    v->at_arrived_us = v->arrived_us;
    static const tide_digest128 nothing;
    if (v->at < state->floor_seq || v->position == 0) { /* the first, or retention has been here */
        v->at = state->floor_seq;
        v->at_chain = state->floor_chain;
        v->is_at_chain_known =
            state->floor_seq == 0 || !tide_digest128_equal(&state->floor_chain, &nothing);
        v->at_arrived_us = state->floor_arrived_us;
    }
}

static tide_status verify_page(tide_tx *tx, void *arg, tide_error *err)
{
    verification *v = arg;
    tide_stream_state state;
    v->reading = -1;
    TIDE_TRY(v->is_listed ? tide_stream_find_listed(&state, tx, v->stream, err)
                          : tide_stream_find(&state, tx, v->stream, err));
    begin_page(v, &state);
    if (v->position == 0)
        TIDE_TRY(check_floor(v, tx, &state, err));
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, state.id, v->at, err);
    int64_t bytes = 0;
    v->is_done = false;
    while (bytes < PAGE_BYTES && v->pending_count < PENDING_MAX / 2) {
        v->reading = v->at;
        const tide_status status = tide_query_step(query, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE) {
            v->is_done = true;
            if (v->at < state.head_seq)
                TIDE_TRY(check_gap(v, tx, &state, state.head_seq, err));
            if (v->at > state.head_seq)
                find(v, "%" PRId64 ": stored, but the counter stands at %" PRId64, v->at,
                     state.head_seq);
            return TIDE_OK;
        }
        tide_batch_head head;
        tide_feed_walk_read(query, &head);
        TIDE_TRY(check_batch(v, tx, &state, &head, err));
        bytes += head.raw_len;
    }
    return TIDE_OK;
}

typedef struct range_request {
    const char *stream;
    int64_t after;
    int64_t first_seq;
    int64_t last_seq;
} range_request;

static tide_status find_range(tide_tx *tx, void *arg, tide_error *err)
{
    range_request *request = arg;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, request->stream, err));
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_BATCH_RANGE, err, tide_bind_i64("stream", state.id),
                   tide_bind_i64("after", request->after));
    request->first_seq = tide_query_col_i64(query);
    request->last_seq = tide_query_col_i64(query);
    return TIDE_OK;
}

/* Its pages cannot be read: name it by what the index knows, and go on behind it. */
static tide_status pass_unreadable(verification *v, tide_error *err)
{
    range_request range = {.stream = v->stream, .after = v->reading};
    v->pending_count = 0;
    const tide_status status = tide_store_read(v->feed->store, find_range, &range, err);
    if (status != TIDE_OK || range.last_seq <= v->reading) {
        find(v, "behind %" PRId64 ": neither the batches nor their index can be read", v->reading);
        v->is_done = true;
        return TIDE_OK;
    }
    find(v, "%" PRId64 " to %" PRId64 ": its pages cannot be read from the file", range.first_seq,
         range.last_seq);
    v->position = range.last_seq;
    v->is_chain_known = false;
    return TIDE_OK;
}

static tide_status verify_stream(verification *v, tide_error *err)
{
    v->position = 0;
    v->is_chain_known = false;
    v->arrived_us = 0;
    v->is_done = false;
    while (!v->is_done) {
        tide_error why;
        const tide_status status = tide_store_read(v->feed->store, verify_page, v, &why);
        if (status == TIDE_E_DAMAGED && v->reading >= 0) {
            TIDE_TRY(pass_unreadable(v, err));
        } else if (status == TIDE_E_DAMAGED) { /* the others are verified all the same */
            v->pending_count = 0;
            find(v, "%.250s", why.text);
            v->is_done = true;
        } else if (status < TIDE_OK) {
            return tide_fail(err, status, "%s", why.text);
        } else {
            v->position = v->at;
            v->chain = v->at_chain;
            v->is_chain_known = v->is_at_chain_known;
            v->arrived_us = v->at_arrived_us;
        }
        hand_out(v);
    }
    return TIDE_OK;
}

static tide_status read_identity(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_identity_read(tx, arg, err);
}

/* Every answer names session and epoch: without them no stream can be read. */
static tide_status check_identity(verification *v, tide_error *err)
{
    tide_identity identity;
    tide_error why;
    const tide_status status = tide_store_read(v->feed->store, read_identity, &identity, &why);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return tide_fail(err, status, "%s", why.text);
    if (status == TIDE_E_DAMAGED) {
        v->stream = "db_metadata";
        find(v, "%.250s", why.text);
        hand_out(v);
    }
    return TIDE_OK;
}

static tide_status list_streams(verification *v, tide_stream_name_list *list, tide_error *err)
{
    const tide_status status = tide_store_read(v->feed->store, tide_stream_names, list, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    if (status == TIDE_E_DAMAGED) {
        v->stream = "feed_streams";
        find(v, "the list of streams ends behind %d of them: it cannot be read", list->count);
        hand_out(v);
    }
    tide_stream_names_complete(list);
    return TIDE_OK;
}

tide_status tide_feed_verify(tide_feed *feed, const char *stream, tide_feed_finding_fn *fn,
                             void *arg, tide_error *err)
{
    TIDE_NEED(feed, err);
    TIDE_CLEANUP(tide_freep) tide_stream_name_list *list = calloc(1, sizeof *list);
    TIDE_CLEANUP(tide_freep) verification *v = calloc(1, sizeof *v);
    TIDE_NEED_MEMORY(list && v, err);
    *v = (verification){.feed = feed, .fn = fn, .arg = arg};
    tide_buffer_init(&v->raw, TIDE_FEED_BATCH_BYTES_MAX);
    v->is_listed = !stream;
    tide_status status = check_identity(v, err);
    if (status >= TIDE_OK && !stream)
        status = list_streams(v, list, err);
    for (int i = 0; i < (stream ? 1 : list->count) && status >= TIDE_OK; i++) {
        v->stream = stream ? stream : list->names[i];
        status = verify_stream(v, err);
    }
    tide_buffer_done(&v->raw);
    TIDE_TRY(status);
    if (v->findings > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%" PRId64 " findings", v->findings);
    return TIDE_OK;
}
