/* retain.c - what is dropped, and when.
 *
 *                      everybody has read it           somebody has not
 *     older than       keep_us: dropped                hard_us: dropped, "expired", receipt
 *     more than        keep_bytes: the oldest go       hard_bytes: the oldest go, "evicted", receipt
 *
 * A stream is cut at its old end only, a batch at a time: its floor rises. The stream of receipts is kept for hard_us and is not
 * cut for its size. A step is several transactions of a bounded number of batches and bytes each, so that writers get in
 * between. */
#include "base/interface/caller.h"
#include "feed/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>
#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "core/retention_clock.h"
#include "feed/walk.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    TURN_BATCHES = 256,
    TURN_BYTES = 32 << 20,
    STEP_TURNS = 8,
    LOG_LONG = 1 << 20, /* bytes of a log that keeps room from a full disk */
};

static const int64_t second_us = 1000000;
#define LONG_US (INT64_C(1000) * 365 * 86400 * 1000000)
static const int64_t idle_us = INT64_C(60) * 1000000;

/* A stream and its oldest batch. */
typedef struct kept_stream {
    tide_stream_state state;
    int64_t settled;
    bool has_batch;
    int64_t batch_id;
    int64_t first_seq;
    int64_t last_seq;
    int64_t arrived_us;
    int64_t through; /* stored_through */
    tide_digest128 chain;
    bool is_sound;
    bool is_cut; /* in this turn */
    tide_loss losses[4];
    int loss_count;
} kept_stream;

typedef struct turn {
    tide_feed *feed;
    tide_stream_name_list names;
    kept_stream streams[TIDE_FEED_STREAMS_MAX];
    int count;
    int64_t now_us;
    int64_t expire_us; /* what has ended by then goes: retention_clock.h */
    bool is_note_due;  /* ... and is to be noted */
    int64_t since_us;  /* when this feed looked for the first time */
    int64_t bytes;
    int64_t dropped;
    int current;                             /* whose batch is being worked on; -1: nobody's */
    int heading;                             /* whose last batch is being read; -1: nobody's */
    bool is_headless[TIDE_FEED_STREAMS_MAX]; /* by index: its last batch cannot be read */
    int troubles;                            /* how many of both */
    tide_error why_left_out;                 /* of the last one */
    bool is_due;                             /* there is, or may be, more to do */
    int64_t next_us;
} turn;

/* ---- what is there ---- */

/* A damaged row may tell any number: the floor rises no higher than where the next sound batch begins. */
static tide_status end_before_next(tide_query *query, const tide_stream_state *state,
                                   int64_t *last_seq, tide_error *err)
{
    TIDE_OK_IF_NONE(tide_query_step(query, err));
    tide_batch_head next;
    tide_feed_walk_read(query, &next);
    if (tide_batch_is_head_sound(&next, state->id) && next.first_seq > state->floor_seq + 1 &&
        next.first_seq <= *last_seq)
        *last_seq = next.first_seq - 1;
    return TIDE_OK;
}

static tide_status look_at_oldest(tide_tx *tx, const turn *t, kept_stream *stream, tide_error *err)
{
    const tide_stream_state *state = &stream->state;
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, state->id, state->floor_seq, err);
    const tide_status status = tide_query_step(query, err);
    TIDE_TRY(status);
    stream->has_batch = status == TIDE_OK;
    if (!stream->has_batch)
        return TIDE_OK;
    tide_batch_head head;
    tide_feed_walk_read(query, &head);
    stream->is_sound = tide_batch_is_head_sound(&head, state->id);
    stream->batch_id = head.id;
    stream->first_seq = state->floor_seq + 1;
    stream->last_seq = head.last_seq < state->head_seq ? head.last_seq : state->head_seq;
    stream->arrived_us = stream->is_sound ? head.arrived_us : state->floor_arrived_us;
    /* From a boot whose clock was behind: it came later than what was before it. From one whose clock was ahead: it came before we
     * looked for the first time. */
    if (stream->arrived_us < state->floor_arrived_us)
        stream->arrived_us = state->floor_arrived_us;
    if (stream->arrived_us > t->now_us)
        stream->arrived_us = t->since_us;
    stream->through = stream->is_sound ? head.stored_through : state->floor_bytes + head.body_len;
    memset(&stream->chain, 0, sizeof stream->chain);
    if (stream->is_sound)
        stream->chain = head.chain;
    return stream->is_sound ? TIDE_OK : end_before_next(query, state, &stream->last_seq, err);
}

static tide_status look_at_stream(tide_tx *tx, turn *t, int index, tide_error *err)
{
    kept_stream *stream = &t->streams[index];
    t->current = index;
    TIDE_TRY(tide_stream_find_listed(&stream->state, tx, t->names.names[index], err));
    TIDE_TRY(look_at_oldest(tx, t, stream, err));
    t->current = -1;
    if (!stream->has_batch)
        return TIDE_OK;
    t->heading = index;
    if (!t->is_headless[index])
        TIDE_TRY(tide_stream_read_head(&stream->state, tx, err));
    t->heading = -1;
    t->bytes += stream->state.stored_through - stream->state.floor_bytes;
    return tide_reader_settled(tx, stream->state.id, &stream->settled, err);
}

static void note_since(turn *t)
{
    int64_t since_us = 0;
    if (t->now_us == INT64_MAX) /* the first moments after a boot: no anchor yet */
        t->since_us = INT64_MAX;
    else if (atomic_compare_exchange_strong(&t->feed->since_us, &since_us, t->now_us))
        t->since_us = t->now_us;
    else
        t->since_us = since_us;
}

static tide_status look_at_all(tide_tx *tx, turn *t, tide_error *err)
{
    t->bytes = 0;
    t->dropped = 0;
    t->current = -1;
    t->heading = -1;
    t->is_due = false;
    tide_retention_clock clock;
    TIDE_TRY(tide_lease_now(tx, &t->now_us, err));
    TIDE_TRY(tide_retention_clock_read(tx, "feed", t->now_us, &clock, err));
    t->expire_us = clock.now_us < t->now_us ? clock.now_us : t->now_us;
    t->is_note_due = clock.is_note_due;
    note_since(t);
    TIDE_TRY(tide_stream_names(tx, &t->names, err));
    t->count = t->names.count;
    for (int i = 0; i < t->count; i++) {
        memset(&t->streams[i], 0, sizeof t->streams[i]);
        if (!atomic_load(&t->feed->is_left_out[i]))
            TIDE_TRY(look_at_stream(tx, t, i, err));
    }
    return TIDE_OK;
}

/* ---- what goes ---- */

static bool is_receipts(const kept_stream *stream)
{
    return stream->state.type->kind == TIDE_STREAM_LOSS_RECEIPTS;
}

static bool is_unread(const kept_stream *stream)
{
    return stream->last_seq > stream->settled;
}

/* When its oldest batch is too old. */
static int64_t get_end_us(const turn *t, const kept_stream *stream)
{
    const tide_feed_options *options = &t->feed->options;
    const bool is_kept_long = is_receipts(stream) || is_unread(stream);
    return stream->arrived_us + (is_kept_long ? options->hard_us : options->keep_us);
}

static int find_oldest(const turn *t, bool may_be_unread)
{
    int best = -1;
    for (int i = 0; i < t->count; i++) {
        const kept_stream *stream = &t->streams[i];
        if (!stream->has_batch || is_receipts(stream) || (is_unread(stream) && !may_be_unread))
            continue;
        if (best < 0 || stream->arrived_us < t->streams[best].arrived_us)
            best = i;
    }
    return best;
}

/* The stream to be cut next; -1: none. *reason is for what is unread in it. */
static int choose(const turn *t, const char **reason)
{
    const tide_feed_options *options = &t->feed->options;
    *reason = "expired";
    for (int i = 0; i < t->count; i++)
        if (t->streams[i].has_batch && get_end_us(t, &t->streams[i]) <= t->expire_us)
            return i;
    *reason = "evicted";
    int found = -1;
    if (t->bytes > options->keep_bytes)
        found = find_oldest(t, false);
    if (found < 0 && t->bytes > options->hard_bytes)
        found = find_oldest(t, true);
    return found;
}

static void add_loss(kept_stream *stream, int64_t first_seq, const char *reason, const char *detail)
{
    tide_loss *last = stream->loss_count > 0 ? &stream->losses[stream->loss_count - 1] : NULL;
    if (last && last->last_seq + 1 == first_seq && strcmp(last->reason, reason) == 0) {
        last->last_seq = stream->last_seq;
        return;
    }
    last = &stream->losses[stream->loss_count++];
    *last = (tide_loss){.first_seq = first_seq, .last_seq = stream->last_seq, .reason = reason};
    (void)snprintf(last->detail, sizeof last->detail, "%s", detail);
}

/* What goes unread is a loss; what was damaged is one in any case. */
static void note_drop(const turn *t, kept_stream *stream, const char *reason)
{
    char detail[160];
    if (!stream->is_sound) {
        add_loss(stream, stream->first_seq, "damaged", "the head's checksum does not fit");
        return;
    }
    if (!is_unread(stream) || stream->settled == INT64_MAX)
        return;
    const tide_feed_options *options = &t->feed->options;
    if (strcmp(reason, "evicted") == 0)
        (void)snprintf(detail, sizeof detail, "unread, more than %" PRId64 " bytes were stored",
                       options->hard_bytes);
    else
        (void)snprintf(detail, sizeof detail, "unread for more than %" PRId64 " s",
                       options->hard_us / second_us);
    const int64_t first =
        stream->settled >= stream->first_seq ? stream->settled + 1 : stream->first_seq;
    add_loss(stream, first, reason, detail);
}

static tide_status drop_oldest(tide_tx *tx, turn *t, int index, const char *reason, tide_error *err)
{
    kept_stream *stream = &t->streams[index];
    t->current = index;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_FEED_BATCH_DROP, NULL, err,
                          tide_bind_i64("id", stream->batch_id)));
    note_drop(t, stream, reason);
    tide_stream_state *state = &stream->state;
    t->bytes -= stream->through - state->floor_bytes;
    state->floor_seq = stream->last_seq;
    state->floor_chain = stream->chain;
    state->floor_arrived_us = stream->arrived_us;
    state->floor_bytes = stream->through;
    stream->is_cut = true;
    t->dropped++;
    TIDE_TRY(look_at_oldest(tx, t, stream, err));
    t->current = -1;
    return TIDE_OK;
}

/* ---- one transaction ---- */

static tide_status raise_floor(tide_tx *tx, const tide_stream_state *state, tide_error *err)
{
    return tide_tx_exec(
        tx, TIDE_SQL_FEED_FLOOR_RAISE, NULL, err, tide_bind_i64("stream", state->id),
        tide_bind_i64("seq", state->floor_seq),
        tide_bind_blob("chain", tide_view_bytes(state->floor_chain.bytes, TIDE_DIGEST128_LEN)),
        TIDE_BIND_IF(state->floor_arrived_us > 0,
                     tide_bind_time("arrived_at", state->floor_arrived_us)),
        tide_bind_i64("bytes", state->floor_bytes));
}

static tide_status forget_idle(tide_tx *tx, const turn *t, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_FEED_READER_FORGET, err);
    /* Seen by a clock that was ahead, and not since we look: gone as well. */
    const int64_t idle_us_max = t->feed->options.reader_idle_us;
    const bool is_long = t->now_us - t->since_us > idle_us_max;
    tide_query_bind_time(query, "before", t->expire_us - idle_us_max);
    tide_query_bind_time(query, "ahead", t->now_us + (is_long ? 0 : LONG_US));
    return tide_query_run(query, NULL, err);
}

static tide_status finish_turn(tide_tx *tx, turn *t, tide_error *err)
{
    for (int i = 0; i < t->count; i++) {
        const kept_stream *stream = &t->streams[i];
        if (!stream->is_cut)
            continue;
        TIDE_TRY(raise_floor(tx, &stream->state, err));
        if (stream->loss_count > 0)
            TIDE_TRY(tide_loss_note(t->feed, tx, &stream->state, stream->losses, stream->loss_count,
                                    t->now_us, err));
    }
    return t->dropped > 0 ? tide_tx_notify(tx, TIDE_FEED_TOPIC, err) : TIDE_OK;
}

static void plan_next(turn *t)
{
    t->next_us = idle_us;
    for (int i = 0; i < t->count; i++) {
        const kept_stream *stream = &t->streams[i];
        if (!stream->has_batch)
            continue;
        const int64_t left_us = get_end_us(t, stream) - t->expire_us;
        if (left_us < t->next_us)
            t->next_us = left_us > second_us ? left_us : second_us;
    }
}

static tide_status drop_some(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    TIDE_TRY(look_at_all(tx, t, err));
    TIDE_TRY(forget_idle(tx, t, err));
    for (int i = 0; i < t->count; i++)
        if (t->streams[i].has_batch)
            TIDE_TRY(tide_reader_settled(tx, t->streams[i].state.id, &t->streams[i].settled, err));
    const int64_t bytes_before = t->bytes;
    const char *reason = NULL;
    int chosen = choose(t, &reason);
    while (chosen >= 0 && t->dropped < TURN_BATCHES && bytes_before - t->bytes < TURN_BYTES &&
           t->streams[chosen].loss_count < 3) {
        TIDE_TRY(drop_oldest(tx, t, chosen, reason, err));
        chosen = choose(t, &reason);
    }
    t->is_due = chosen >= 0;
    plan_next(t);
    return finish_turn(tx, t, err);
}

/* ---- a batch that the file cannot give up ---- */

typedef struct skipping {
    tide_feed *feed;
    const char *stream;
} skipping;

/* The floor rises past it, and its row is left where it is: a damaged page keeps its place until the store is salvaged. */
static tide_status skip_oldest(tide_tx *tx, void *arg, tide_error *err)
{
    const skipping *s = arg;
    tide_stream_state state;
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_stream_find_listed(&state, tx, s->stream, err));
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_BATCH_RANGE, err, tide_bind_i64("stream", state.id),
                   tide_bind_i64("after", state.floor_seq));
    tide_loss loss = {.reason = "damaged", .detail = "its pages cannot be read from the file"};
    loss.first_seq = tide_query_col_i64(query);
    loss.last_seq = tide_query_col_i64(query);
    if (loss.first_seq <= state.floor_seq || loss.last_seq > state.head_seq)
        return tide_fail(err, TIDE_E_DAMAGED, "%s: the index of its batches is damaged", s->stream);
    state.floor_seq = loss.last_seq;
    memset(&state.floor_chain, 0, sizeof state.floor_chain);
    TIDE_TRY(raise_floor(tx, &state, err));
    return tide_loss_note(s->feed, tx, &state, &loss, 1, now_us, err);
}

/* Others go on without it: one that cannot be cut must not keep everything. */
static tide_status leave_out(turn *t, tide_status status, tide_error *err)
{
    const char *name = t->names.names[t->current];
    if (status != TIDE_E_DAMAGED)
        TIDE_IGNORE(tide_fail(err, TIDE_E_DAMAGED, "%s: its oldest batch cannot be read", name));
    atomic_store(&t->feed->is_left_out[t->current], true);
    t->troubles++;
    t->why_left_out = (tide_error){.status = TIDE_E_DAMAGED};
    if (err)
        t->why_left_out = *err;
    return TIDE_OK;
}

static tide_status take_turn(turn *t, tide_error *err)
{
    const tide_status status = tide_feed_write_firmly(t->feed, drop_some, t, err);
    if (status != TIDE_E_DAMAGED || (t->current < 0 && t->heading < 0))
        return status;
    t->dropped = 0;
    t->is_due = true;
    if (t->heading >= 0) {
        t->is_headless[t->heading] = true;
        t->troubles++;
        return TIDE_OK;
    }
    skipping s = {.feed = t->feed, .stream = t->names.names[t->current]};
    const tide_status skipped = tide_feed_write_firmly(t->feed, skip_oldest, &s, err);
    if (skipped == TIDE_E_DAMAGED || skipped == TIDE_NONE)
        return leave_out(t, skipped, err);
    return skipped;
}

/* ---- what others are told, and whether there is anything to do ---- */

static tide_status put_metadata(tide_tx *tx, const char *key, int64_t value, tide_error *err)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return tide_tx_exec(tx, TIDE_SQL_METADATA_PUT, NULL, err, tide_bind_text("key", key),
                        tide_bind_text("value", text));
}

/* Which retention is in force: for other programs that look at the store. */
static tide_status tell_retention(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_feed_options *options = arg;
    TIDE_TRY(put_metadata(tx, "feed_keep_us", options->keep_us, err));
    TIDE_TRY(put_metadata(tx, "feed_hard_us", options->hard_us, err));
    TIDE_TRY(put_metadata(tx, "feed_keep_bytes", options->keep_bytes, err));
    return put_metadata(tx, "feed_hard_bytes", options->hard_bytes, err);
}

static tide_status has_idle_reader(tide_tx *tx, const turn *t, bool *out, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_READER_OLDEST, err, TIDE_NO_BIND);
    const int64_t seen_us = tide_query_col_is_null(query) ? INT64_MAX : tide_query_col_time(query);
    *out = seen_us < t->expire_us - t->feed->options.reader_idle_us;
    return TIDE_OK;
}

/* Looking needs no write: most steps end here. */
static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    turn *t = arg;
    const char *reason = NULL;
    bool is_reader_idle = false;
    TIDE_TRY(look_at_all(tx, t, err));
    TIDE_TRY(has_idle_reader(tx, t, &is_reader_idle, err));
    const bool is_noting = t->is_note_due && !atomic_load(&t->feed->is_full);
    t->is_due = is_reader_idle || is_noting || choose(t, &reason) >= 0;
    plan_next(t);
    return TIDE_OK;
}

/* ---- the step ---- */

static tide_status take_turns(turn *t, tide_error *err)
{
    tide_feed *feed = t->feed;
    int64_t dropped = 0;
    tide_status status = TIDE_OK;
    for (int i = 0; i < STEP_TURNS + t->troubles && t->is_due; i++) {
        status = take_turn(t, err);
        if (status < TIDE_OK)
            break;
        dropped += t->dropped;
        atomic_fetch_add(&feed->dropped, t->dropped);
        for (int j = 0; j < t->count; j++)
            tide_loss_tell(feed, t->names.names[j], t->streams[j].losses, t->streams[j].loss_count);
    }
    const bool is_full = atomic_load(&feed->is_full);
    if (dropped > 0)
        tide_feed_shorten(feed, is_full);
    return status;
}

tide_status tide_feed_step(tide_feed *feed, int64_t *next_us, tide_error *err)
{
    TIDE_NEED(feed && next_us, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(turn, t, err);
    t->feed = feed;
    if (!atomic_load(&feed->has_told_retention) &&
        tide_store_write(feed->store, tell_retention, &feed->options, NULL) >= TIDE_OK)
        atomic_store(&feed->has_told_retention, true);
    const tide_status looked = tide_store_read(feed->store, look, t, err);
    if (looked == TIDE_E_DAMAGED && (t->current >= 0 || t->heading >= 0))
        t->is_due = true; /* the turn deals with it */
    else
        TIDE_TRY(looked);
    tide_feed_hold_log(feed);
    if (atomic_load(&feed->is_full) && (t->is_due || tide_feed_log_len(feed) > LOG_LONG))
        tide_feed_make_room(feed);
    const tide_status turned = take_turns(t, err);
    tide_feed_release_log(feed);
    tide_reserve_restore(feed->reserve);
    if (!tide_reserve_is_lent(feed->reserve))
        atomic_store(&feed->is_full, false);
    TIDE_TRY(turned);
    atomic_store(&feed->bytes, t->bytes);
    *next_us = t->is_due ? 0 : t->next_us;
    if (tide_reserve_is_lent(feed->reserve) && *next_us > second_us)
        *next_us = second_us;
    if (t->why_left_out.status < TIDE_OK && !t->is_due) {
        if (err)
            *err = t->why_left_out;
        return TIDE_E_DAMAGED;
    }
    return TIDE_OK;
}
