/* open.c - the feed, and which streams it has. See feed.h and parts.h. */
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "feed/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "feed/walk.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static const int64_t hour_us = INT64_C(3600) * 1000000;
static const int64_t mebibyte = INT64_C(1) << 20;

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static tide_status set_options(tide_feed *feed, const tide_feed_options *given, tide_error *err)
{
    tide_feed_options options;
    TIDE_TRY(TIDE_SIZED_COPY_OPTIONAL(&options, given, tide_feed_options, err));
    options.keep_us = or_default(options.keep_us, hour_us);
    options.keep_bytes = or_default(options.keep_bytes, 1024 * mebibyte);
    options.hard_us = or_default(options.hard_us, 24 * hour_us);
    options.hard_bytes = or_default(options.hard_bytes, 4096 * mebibyte);
    options.reader_idle_us = or_default(options.reader_idle_us, 24 * hour_us);
    options.reserve_bytes = or_default(options.reserve_bytes, mebibyte);
    const char *codec = options.codec ? options.codec : "lz4";
    if (strcmp(codec, "lz4") == 0)
        feed->codec = TIDE_CODEC_LZ4;
    else if (strcmp(codec, "zstd") == 0)
        feed->codec = TIDE_CODEC_ZSTD;
    else if (strcmp(codec, "none") == 0)
        feed->codec = TIDE_CODEC_NONE;
    else
        return tide_fail(err, TIDE_E_INVALID, "codec '%.32s', want lz4, zstd or none", codec);
    if (options.keep_us < 0 || options.keep_bytes < 0 || options.reader_idle_us < 0)
        return tide_fail(err, TIDE_E_INVALID, "times and sizes are not negative");
    if (options.hard_us < options.keep_us)
        return tide_fail(err, TIDE_E_INVALID,
                         "hard-for (%" PRId64 " s) is below keep-for (%" PRId64
                         " s): set both, or a hard cap that is not below the soft one",
                         options.hard_us / 1000000, options.keep_us / 1000000);
    if (options.hard_bytes < options.keep_bytes)
        return tide_fail(err, TIDE_E_INVALID,
                         "hard-bytes (%" PRId64 ") is below keep-bytes (%" PRId64
                         "): set both, or a hard cap that is not below the soft one",
                         options.hard_bytes, options.keep_bytes);
    options.codec = codec;
    feed->options = options;
    return TIDE_OK;
}

/* ---- counters ---- */

/* The highest number of a stream that a sound batch carries, if it is above the counter; otherwise the counter. */
static tide_status find_highest(tide_tx *tx, const tide_stream_state *state, int64_t *highest,
                                int64_t *arrived_us, tide_error *err)
{
    *highest = state->head_seq;
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, state->id, state->head_seq, err);
    TIDE_EACH(tide_query_step(query, err)) {
        tide_batch_head head;
        tide_feed_walk_read(query, &head);
        if (!tide_batch_is_head_sound(&head, state->id) || head.last_seq <= *highest)
            continue;
        *highest = head.last_seq;
        *arrived_us = head.arrived_us;
    }
    return TIDE_OK;
}

typedef struct raising {
    tide_stream_name_list names;
    int64_t behind; /* streams whose counter was */
    bool is_writing;
} raising;

static tide_status raise_one(raising *r, tide_tx *tx, const char *name, tide_error *err)
{
    tide_stream_state state;
    int64_t highest = 0;
    int64_t arrived_us = 0;
    TIDE_TRY(tide_stream_find_listed(&state, tx, name, err));
    TIDE_TRY(find_highest(tx, &state, &highest, &arrived_us, err));
    if (highest == state.head_seq)
        return TIDE_OK;
    r->behind++;
    if (!r->is_writing)
        return TIDE_OK;
    return tide_feed_sequence_raise(tx, &state, highest, arrived_us, err);
}

static tide_status raise_all(tide_tx *tx, void *arg, tide_error *err)
{
    raising *r = arg;
    r->behind = 0;
    TIDE_TRY(tide_stream_names(tx, &r->names, err));
    for (int i = 0; i < r->names.count; i++)
        TIDE_TRY(raise_one(r, tx, r->names.names[i], err));
    return TIDE_OK;
}

/* A counter that stands below numbers that are stored was damaged: it would give them a second time. Where the rows cannot be
 * read there is nothing to go by, and those who read and write say so. */
static tide_status raise_counters(tide_feed *feed, tide_error *err)
{
    if (feed->store->options.mode == TIDE_STORE_AS_IS)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) TIDE_NEW(raising, r, err);
    const tide_status looked = tide_store_read(feed->store, raise_all, r, err);
    if (looked == TIDE_E_DAMAGED || (looked >= TIDE_OK && r->behind == 0))
        return TIDE_OK;
    TIDE_TRY(looked);
    r->is_writing = true;
    TIDE_TRY(tide_store_write(feed->store, raise_all, r, err));
    atomic_store(&feed->raised, r->behind);
    return TIDE_OK;
}

tide_status tide_feed_open(tide_feed **out, tide_store *store, const tide_feed_options *options,
                           tide_error *err)
{
    TIDE_NEED(out && store, err);
    if (tide_store_engine(store) != TIDE_ENGINE_SQLITE)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "streams are kept in SQLite files, beside the program that writes them; "
                         "%s is on another engine",
                         tide_store_name(store));
    TIDE_CLEANUP(tide_feed_closep) TIDE_NEW(tide_feed, feed, err);
    feed->store = store;
    TIDE_TRY(set_options(feed, options, err));
    int64_t streams = 0; /* is it a store with a feed? */
    TIDE_TRY(tide_store_number(&streams, store, TIDE_SQL_FEED_STREAM_COUNT, err, TIDE_NO_BIND));
    TIDE_TRY(raise_counters(feed, err));
    if (feed->options.reserve_bytes > 0)
        tide_reserve_open(&feed->reserve, store, feed->options.reserve_bytes);
    if (store->options.mode != TIDE_STORE_AS_IS) {
        TIDE_TRY(tide_loss_receipt_tails(feed, err));
        (void)tide_reader_open_all(feed);
    }
    *out = TIDE_TAKE(feed);
    return TIDE_OK;
}

void tide_feed_close(tide_feed *feed)
{
    if (!feed)
        return;
    tide_reserve_close(feed->reserve);
    free(feed);
}

TIDE_CLOSE_FN(tide_feed_closep, tide_feed, tide_feed_close)

tide_store *tide_feed_store(const tide_feed *feed)
{
    return feed ? feed->store : NULL;
}

const tide_feed_options *tide_feed_get_options(const tide_feed *feed)
{
    return feed ? &feed->options : NULL;
}

void tide_feed_count(const tide_feed *feed, tide_feed_counters *out)
{
    if (!feed || !out)
        return;
    out->commits = atomic_load(&feed->commits);
    out->records = atomic_load(&feed->records);
    out->raw_bytes = atomic_load(&feed->raw_bytes);
    out->stored_bytes = atomic_load(&feed->stored_bytes);
    out->redone = atomic_load(&feed->redone);
    out->damaged = atomic_load(&feed->damaged);
    out->receipts = atomic_load(&feed->receipts);
    out->dropped = atomic_load(&feed->dropped);
    out->raised = atomic_load(&feed->raised);
}

/* ---- declaring ---- */

static tide_status add_stream(tide_tx *tx, void *arg, tide_error *err)
{
    const char *name = arg;
    tide_error ignored;
    tide_stream_state state;
    const tide_status found = tide_stream_find(&state, tx, name, &ignored);
    if (found != TIDE_E_NOT_FOUND)
        return found < TIDE_OK ? tide_fail(err, found, "%s", ignored.text) : TIDE_OK;
    int64_t count = 0;
    TIDE_TRY(tide_tx_number(&count, tx, TIDE_SQL_FEED_STREAM_COUNT, err, TIDE_NO_BIND));
    if (count >= TIDE_FEED_STREAMS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "there are %d streams already", TIDE_FEED_STREAMS_MAX);
    char sequence[TIDE_FEED_NAME_MAX + 8];
    (void)snprintf(sequence, sizeof sequence, "seq_%s", name);
    int64_t added = 0;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_FEED_STREAM_ADD, &added, err, tide_bind_text("name", name),
                          tide_bind_text("sequence", sequence), tide_bind_now("now")));
    if (added == 0)
        return tide_fail(err, TIDE_E_EXISTS, "the sequence %s is used by somebody else", sequence);
    return TIDE_OK;
}

static tide_status find_stream(tide_tx *tx, void *arg, tide_error *err)
{
    tide_stream_state state;
    return tide_stream_find(&state, tx, arg, err);
}

tide_status tide_feed_declare(tide_feed *feed, const char *stream, tide_error *err)
{
    TIDE_NEED(feed, err);
    TIDE_TRY(tide_stream_check_name(stream, err));
    char name[TIDE_FEED_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, "%s", stream);
    /* Mostly it is there. To look does not wait for whoever writes, or for a disk that cannot be written. */
    tide_error ignored;
    if (tide_store_read(feed->store, find_stream, name, &ignored) == TIDE_OK)
        return TIDE_OK;
    return tide_store_write(feed->store, add_stream, name, err);
}

/* ---- looking ---- */

static tide_status ask_number(tide_tx *tx, const tide_sql *sql, int64_t stream_id, int64_t *out,
                              tide_error *err)
{
    return tide_tx_number(out, tx, sql, err, tide_bind_i64("stream", stream_id));
}

static tide_status ask_created(tide_tx *tx, const char *name, int64_t *out, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_STREAM_CREATED, err,
                  tide_bind_text("name", name));
    *out = tide_query_col_is_null(query) ? 0 : tide_query_col_time(query);
    return TIDE_OK;
}

static tide_status ask_oldest(tide_tx *tx, const tide_stream_state *state, int64_t *arrived_us,
                              tide_error *err)
{
    *arrived_us = 0;
    TIDE_QUERY_BY(query, tide_feed_walk_begin, tx, state->id, state->floor_seq, err);
    TIDE_TRY_FOUND(tide_query_step(query, err));
    tide_batch_head head;
    tide_feed_walk_read(query, &head);
    *arrived_us = tide_batch_is_head_sound(&head, state->id) ? head.arrived_us : 0;
    return TIDE_OK;
}

static tide_status show_stream(tide_tx *tx, void *arg, tide_error *err)
{
    tide_feed_stream *out = arg;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, out->name, err));
    TIDE_TRY(tide_stream_read_head(&state, tx, err));
    memcpy(out->sequence, state.sequence, sizeof out->sequence);
    out->is_built_in = state.type->kind != TIDE_STREAM_OPAQUE;
    out->oldest_seq = state.floor_seq < state.head_seq ? state.floor_seq + 1 : state.head_seq + 1;
    out->head_seq = state.head_seq;
    out->bytes = state.stored_through - state.floor_bytes;
    out->epoch = state.epoch;
    out->epoch_first_seq = state.epoch_first_seq;
    out->head_arrived_us = state.arrived_us;
    TIDE_TRY(ask_created(tx, out->name, &out->created_at_us, err));
    TIDE_TRY(ask_number(tx, TIDE_SQL_FEED_BATCH_COUNT, state.id, &out->batches, err));
    TIDE_TRY(ask_oldest(tx, &state, &out->oldest_arrived_us, err));
    TIDE_TRY(tide_reader_settled(tx, state.id, &out->settled_seq, err));
    if (out->settled_seq == INT64_MAX)
        out->settled_seq = -1;
    return TIDE_OK;
}

tide_status tide_feed_show(tide_feed *feed, const char *stream, tide_feed_stream *out,
                           tide_error *err)
{
    TIDE_NEED(feed && out, err);
    if (!stream || strlen(stream) > TIDE_FEED_NAME_MAX)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no such stream");
    tide_feed_stream found = {0};
    (void)snprintf(found.name, sizeof found.name, "%s", stream);
    TIDE_TRY(tide_store_read(feed->store, show_stream, &found, err));
    *out = found;
    return TIDE_OK;
}

tide_status tide_stream_names(tide_tx *tx, void *arg, tide_error *err)
{
    tide_stream_name_list *list = arg;
    list->count = 0;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_FEED_STREAM_LIST, err);
    tide_status status = TIDE_OK;
    while (list->count < TIDE_FEED_STREAMS_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK) {
        const tide_view name = tide_query_col_text(query);
        (void)snprintf(list->names[list->count++], TIDE_FEED_NAME_MAX + 1, "%.*s", (int)name.len,
                       name.ptr);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

void tide_stream_names_complete(tide_stream_name_list *list)
{
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++) {
        const char *name = tide_stream_type_of((tide_stream_kind)kind)->name;
        int at = 0;
        while (at < list->count && strcmp(list->names[at], name) != 0)
            at++;
        if (at == list->count && list->count < TIDE_FEED_STREAMS_MAX)
            (void)snprintf(list->names[list->count++], TIDE_FEED_NAME_MAX + 1, "%s", name);
    }
}

tide_status tide_feed_list(tide_feed *feed, tide_feed_stream_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(feed && fn, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(tide_stream_name_list, list, err);
    TIDE_TRY(tide_store_read(feed->store, tide_stream_names, list, err));
    for (int i = 0; i < list->count; i++) {
        tide_feed_stream stream;
        TIDE_TRY(tide_feed_show(feed, list->names[i], &stream, err));
        TIDE_TRY(tide_callback_check(fn(arg, &stream, err), err));
    }
    return TIDE_OK;
}

typedef struct head_look {
    tide_feed_head_fn *fn;
    void *arg;
} head_look;

static tide_status look_at_heads(tide_tx *tx, void *arg, tide_error *err)
{
    const head_look *look = arg;
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_FEED_STREAM_HEADS, err);
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view name = tide_query_col_text(query);
        TIDE_TRY(
            tide_callback_check(look->fn(look->arg, name, tide_query_col_i64(query), err), err));
    }
    return TIDE_OK;
}

tide_status tide_feed_heads(tide_feed *feed, tide_feed_head_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(feed && fn, err);
    head_look look = {.fn = fn, .arg = arg};
    return tide_store_read(feed->store, look_at_heads, &look, err);
}
