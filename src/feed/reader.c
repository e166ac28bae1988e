/* reader.c - readers with a name: what they have settled, and when they were last seen. See parts.h.
 *
 * A position only rises within an epoch of the store. Positions are written when they move, and when the row says little more
 * than that the reader is alive, now and then. */
#include "base/interface/caller.h"
#include "feed/parts.h"

#include <tidemark/lease.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "feed/reader_token.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    SEEN_PARTS = 16
}; /* a reader that does not move is noted so often before it would be forgotten */

typedef struct reader_row {
    int64_t epoch;
    int64_t position;
    int64_t lease_token;
    int64_t seen_us;
    int64_t opened_seq; /* -1: the store was not opened since */
} reader_row;

static tide_status find_reader(tide_tx *tx, int64_t stream_id, const char *reader, reader_row *out,
                               tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_FEED_READER_FIND, err, tide_bind_i64("stream", stream_id),
                   tide_bind_text("reader", reader));
    out->epoch = tide_query_col_i64(query);
    out->position = tide_query_col_i64(query);
    out->lease_token = tide_query_col_i64(query);
    out->seen_us = tide_query_col_time(query);
    out->opened_seq = tide_query_col_is_null(query) ? -1 : tide_query_col_i64(query);
    return TIDE_OK;
}

/* Nobody has read what was not given, nor, of a history that has parted from his, what he did not have in common with it:
 * whoever comes from an earlier epoch, and does not show that he knows this one, stands before its first number. */
static int64_t clamp_position(const tide_stream_state *state, const tide_feed_request *request,
                              int64_t row_epoch, const tide_reader_standing *standing)
{
    int64_t position = request->start_seq < state->head_seq ? request->start_seq : state->head_seq;
    const bool is_known =
        standing->standing == TIDE_FEED_STANDING_OK || request->epoch == state->epoch;
    if (standing->standing == TIDE_FEED_STANDING_DIVERGED && standing->matched_seq < position)
        position = standing->matched_seq;
    else if (!is_known && row_epoch != 0 && row_epoch != state->epoch &&
             state->epoch_first_seq <= position)
        position = state->epoch_first_seq - 1;
    return position;
}

tide_status tide_reader_check(tide_feed *feed, tide_tx *tx, const tide_stream_state *state,
                              const tide_feed_request *request, int64_t now_us,
                              tide_reader_due *due, tide_error *err)
{
    reader_row row = {0};
    *due = TIDE_READER_NOT_DUE;
    const tide_status status = find_reader(tx, state->id, request->reader, &row, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE) {
        *due = TIDE_READER_MUST;
        return TIDE_OK;
    }
    if (request->lease_token < row.lease_token)
        return tide_reader_token_refuse(request->reader, request->lease_token, row.lease_token,
                                        err);
    const int64_t position =
        clamp_position(state, request, row.epoch, &(tide_reader_standing){.matched_seq = 0});
    if (request->lease_token > row.lease_token || (row.opened_seq >= 0 && request->point_count > 0))
        *due = TIDE_READER_MUST;
    else if (row.epoch != state->epoch || position > row.position || row.seen_us > now_us ||
             now_us - row.seen_us > feed->options.reader_idle_us / SEEN_PARTS)
        *due = TIDE_READER_MAY;
    return TIDE_OK;
}

static tide_status check_room(tide_tx *tx, const tide_stream_state *state, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_READER_COUNT, err,
                  tide_bind_i64("stream", state->id));
    if (tide_query_col_i64(query) >= TIDE_FEED_READERS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%s has %d readers already", state->name,
                         TIDE_FEED_READERS_MAX);
    return TIDE_OK;
}

typedef struct note {
    tide_feed *feed;
    const tide_feed_request *request;
    tide_reader_standing standing;
} note;

static tide_status put_reader(tide_tx *tx, void *arg, tide_error *err)
{
    const note *n = arg;
    int64_t now_us = 0;
    tide_reader_due due = TIDE_READER_NOT_DUE;
    tide_stream_state state;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_stream_find(&state, tx, n->request->stream, err));
    TIDE_TRY(tide_reader_check(n->feed, tx, &state, n->request, now_us, &due, err));
    if (due == TIDE_READER_NOT_DUE)
        return TIDE_OK;
    reader_row row = {.opened_seq = -1};
    const tide_status found = find_reader(tx, state.id, n->request->reader, &row, err);
    TIDE_TRY(found);
    if (found == TIDE_NONE)
        TIDE_TRY(check_room(tx, &state, err));
    const int64_t position = clamp_position(&state, n->request, row.epoch, &n->standing);
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_READER_PUT, err, tide_bind_i64("stream", state.id),
               tide_bind_text("reader", n->request->reader), tide_bind_i64("epoch", state.epoch),
               tide_bind_i64("position", row.epoch == state.epoch && row.position > position
                                             ? row.position
                                             : position),
               tide_bind_i64("token", n->request->lease_token), tide_bind_time("now", now_us));
    /* It has served once the reader has shown what it has, and that this history can have given it. */
    if (row.opened_seq >= 0 && (n->standing.standing == TIDE_FEED_STANDING_NONE ||
                                n->standing.standing == TIDE_FEED_STANDING_AHEAD ||
                                n->standing.standing == TIDE_FEED_STANDING_DIVERGED))
        tide_query_bind_i64(query, "opened", row.opened_seq);
    else
        tide_query_bind_null(query, "opened");
    return tide_query_run(query, NULL, err);
}

tide_status tide_reader_note(tide_feed *feed, const tide_feed_request *request,
                             const tide_reader_standing *standing, tide_error *err)
{
    note n = {.feed = feed, .request = request, .standing = *standing};
    atomic_fetch_add(&feed->notes, 1);
    const tide_status status = tide_store_write(feed->store, put_reader, &n, err);
    atomic_fetch_sub(&feed->notes, 1);
    return status;
}

tide_status tide_reader_given(tide_tx *tx, const tide_stream_state *state, const char *reader,
                              int64_t *given, tide_error *err)
{
    reader_row row = {.epoch = 0};
    TIDE_TRY_FOUND(find_reader(tx, state->id, reader, &row, err));
    *given = row.opened_seq >= 0 ? row.opened_seq : state->head_seq;
    return TIDE_OK;
}

static tide_status put_opened(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tide_tx_exec(tx, TIDE_SQL_FEED_READER_OPEN, NULL, err, TIDE_NO_BIND);
}

bool tide_reader_open_all(tide_feed *feed)
{
    int64_t count = 0;
    if (tide_store_number(&count, feed->store, TIDE_SQL_FEED_READER_UNOPENED, NULL, TIDE_NO_BIND) <
        TIDE_OK)
        return false;
    return count == 0 || tide_feed_write_firmly(feed, put_opened, NULL, NULL) >= TIDE_OK;
}

tide_status tide_reader_settled(tide_tx *tx, int64_t stream_id, int64_t *out, tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_FEED_SETTLED, err,
                  tide_bind_i64("stream", stream_id));
    *out = tide_query_col_is_null(query) ? INT64_MAX : tide_query_col_i64(query);
    return TIDE_OK;
}

/* ---- for people ---- */

typedef struct reader_list {
    const char *stream;
    tide_feed_reader rows[TIDE_FEED_READERS_MAX];
    int count;
} reader_list;

static tide_status list_readers(tide_tx *tx, void *arg, tide_error *err)
{
    reader_list *list = arg;
    list->count = 0;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, list->stream, err));
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_READER_LIST, err, tide_bind_i64("stream", state.id));
    tide_status status = TIDE_OK;
    while (list->count < TIDE_FEED_READERS_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK) {
        tide_feed_reader *row = &list->rows[list->count++];
        tide_view_copy(row->name, sizeof row->name, tide_query_col_text(query));
        row->epoch = tide_query_col_i64(query);
        row->position = tide_query_col_i64(query);
        row->lease_token = tide_query_col_i64(query);
        row->seen_at_us = tide_query_col_time(query);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status tide_feed_readers(tide_feed *feed, const char *stream, tide_feed_reader_fn *fn,
                              void *arg, tide_error *err)
{
    TIDE_NEED(feed && stream && fn, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(reader_list, list, err);
    list->stream = stream;
    TIDE_TRY(tide_store_read(feed->store, list_readers, list, err));
    for (int i = 0; i < list->count; i++)
        TIDE_TRY(tide_callback_check(fn(arg, &list->rows[i], err), err));
    return TIDE_OK;
}

typedef struct forget_request {
    const char *stream;
    const char *reader;
} forget_request;

static tide_status drop_reader(tide_tx *tx, void *arg, tide_error *err)
{
    const forget_request *request = arg;
    tide_stream_state state;
    TIDE_TRY(tide_stream_find(&state, tx, request->stream, err));
    TIDE_QUERY(query, tx, TIDE_SQL_FEED_READER_DROP, err, tide_bind_i64("stream", state.id),
               tide_bind_text("reader", request->reader));
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed > 0 ? TIDE_OK : TIDE_NONE;
}

tide_status tide_feed_forget(tide_feed *feed, const char *stream, const char *reader,
                             tide_error *err)
{
    TIDE_NEED(feed && stream && reader, err);
    forget_request request = {.stream = stream, .reader = reader};
    return tide_store_write(feed->store, drop_reader, &request, err);
}
