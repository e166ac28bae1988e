/* Positions and gaps as rows of checkpoint_states and gap_states. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/sink_duckdb.h"

enum { POINT_LEN = 16 + TIDE_FEED_DIGEST_SIZE, POINTS_LEN_MAX = TIDE_FEED_POINTS_MAX * POINT_LEN };

/* A time, or NULL where there is none. */
static void put_time_or_null(tide_duck_appender *out, int64_t us)
{
    if (us == 0)
        tide_duck_put_null(out);
    else
        tide_duck_put_time(out, us);
}

/* Points lie one behind the other: number, epoch, digest. */
static tide_status put_points(tide_duck_appender *out, const tide_position *position,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(POINTS_LEN_MAX);
    for (int i = 0; i < position->point_count; i++) {
        const tide_feed_point *point = &position->points[i];
        if (tide_buffer_append_u64(&bytes, (uint64_t)point->seq) < TIDE_OK ||
            tide_buffer_append_u64(&bytes, (uint64_t)point->epoch) < TIDE_OK ||
            tide_buffer_append(&bytes, point->digest, sizeof point->digest) < TIDE_OK)
            return tide_no_memory(err);
    }
    tide_duck_put_blob(out, tide_buffer_view(&bytes));
    return TIDE_OK;
}

static tide_status put_cursor(tide_duck_appender *out, const tide_cursor *cursor, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(1 << 20);
    TIDE_TRY(tide_cursor_encode(cursor, &bytes, err));
    tide_duck_put_blob(out, tide_buffer_view(&bytes));
    return TIDE_OK;
}

tide_status tide_duck_put_state(tide_duck_appender *out, const tide_position *position,
                                const tide_duck_event *event, tide_error *err)
{
    tide_duck_put_i64(out, position->source_id);
    tide_duck_put_i64(out, position->version);
    tide_duck_put_text(out, tide_view_of(position->agent_id));
    tide_duck_put_text(out, tide_view_of(position->data_type));
    tide_duck_put_text(out, tide_view_of(position->session_id));
    tide_duck_put_i64(out, position->epoch);
    tide_duck_put_text(out, tide_view_of(position->epoch_id));
    tide_duck_put_i64(out, position->first);
    tide_duck_put_i64(out, position->last_seq);
    tide_duck_put_i64(out, tide_cursor_highest(&position->cursor));
    tide_duck_put_i64(out, (int64_t)position->cursor.hole_count);
    tide_duck_put_i64(out, tide_cursor_pending(&position->cursor));
    TIDE_TRY(put_cursor(out, &position->cursor, err));
    tide_duck_put_i64(out, position->head);
    tide_duck_put_i64(out, position->stored);
    tide_duck_put_i64(out, position->dead);
    tide_duck_put_i64(out, position->filtered);
    TIDE_TRY(put_points(out, position, err));
    tide_duck_put_bool(out, position->is_foreign);
    tide_duck_put_i64(out, position->next_arrived_ms);
    tide_duck_put_i64(out, position->head_arrived_ms);
    tide_duck_put_i64(out, position->agent_now_ms);
    tide_duck_put_i64(out, position->retention_ms);
    tide_duck_put_i64(out, position->oldest);
    put_time_or_null(out, position->created_at_us);
    put_time_or_null(out, position->updated_at_us);
    put_time_or_null(out, position->last_poll_us);
    put_time_or_null(out, position->closed_at_us);
    tide_duck_put_text(out, tide_view_of(position->closed_reason));
    tide_duck_put_bool(out, event->is_current);
    tide_duck_put_text(out, tide_view_of(event->event));
    tide_duck_put_text(out, tide_view_of(event->note));
    tide_duck_put_time(out, event->at_us);
    tide_duck_end_row(out);
    return TIDE_OK;
}

static void read_text(tide_duck_query *row, char *out, size_t size)
{
    const tide_view text = tide_duck_col_text(row);
    (void)snprintf(out, size, "%.*s", (int)text.len, text.ptr);
}

static tide_status read_points(tide_duck_query *row, tide_position *out, tide_error *err)
{
    const tide_view bytes = tide_duck_col_blob(row);
    if (bytes.len % POINT_LEN != 0 || bytes.len > POINTS_LEN_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "the points of %s/%s are %zu bytes", out->agent_id,
                         out->data_type, bytes.len);
    tide_reader reader = tide_reader_of(bytes);
    while (tide_reader_left(&reader) > 0) {
        tide_feed_point *point = &out->points[out->point_count++];
        uint64_t seq = 0;
        uint64_t epoch = 0;
        tide_view digest = {0};
        TIDE_TRY(tide_reader_u64(&reader, &seq));
        TIDE_TRY(tide_reader_u64(&reader, &epoch));
        TIDE_TRY(tide_reader_bytes(&reader, TIDE_FEED_DIGEST_SIZE, &digest));
        point->seq = (int64_t)seq;
        point->epoch = (int64_t)epoch;
        memcpy(point->digest, digest.ptr, sizeof point->digest);
    }
    return TIDE_OK;
}

tide_status tide_duck_read_state(tide_duck_query *row, tide_position *out, tide_error *err)
{
    tide_position_init(out, "", "");
    out->source_id = tide_duck_col_i64(row);
    out->version = tide_duck_col_i64(row);
    read_text(row, out->agent_id, sizeof out->agent_id);
    read_text(row, out->data_type, sizeof out->data_type);
    read_text(row, out->session_id, sizeof out->session_id);
    out->epoch = tide_duck_col_i64(row);
    read_text(row, out->epoch_id, sizeof out->epoch_id);
    out->first = tide_duck_col_i64(row);
    out->last_seq = tide_duck_col_i64(row);
    tide_cursor_done(&out->cursor);
    TIDE_TRY(
        tide_cursor_decode(&out->cursor, tide_duck_col_blob(row), TIDE_POSITION_HOLES_MAX, err));
    out->head = tide_duck_col_i64(row);
    out->stored = tide_duck_col_i64(row);
    out->dead = tide_duck_col_i64(row);
    out->filtered = tide_duck_col_i64(row);
    TIDE_TRY(read_points(row, out, err));
    out->is_foreign = tide_duck_col_bool(row);
    out->next_arrived_ms = tide_duck_col_i64(row);
    out->head_arrived_ms = tide_duck_col_i64(row);
    out->agent_now_ms = tide_duck_col_i64(row);
    out->retention_ms = tide_duck_col_i64(row);
    out->oldest = tide_duck_col_i64(row);
    out->created_at_us = tide_duck_col_time(row);
    out->updated_at_us = tide_duck_col_time(row);
    out->last_poll_us = tide_duck_col_time(row);
    out->closed_at_us = tide_duck_col_time(row);
    read_text(row, out->closed_reason, sizeof out->closed_reason);
    out->expired = tide_duck_col_i64(row);
    out->folded_void = tide_duck_col_i64(row);
    out->folded_lost = tide_duck_col_i64(row);
    out->folded_recovered = tide_duck_col_i64(row);
    return TIDE_OK;
}

/* ---- gaps ---- */

void tide_duck_put_gap(tide_duck_appender *out, const tide_gap *gap, int64_t revision)
{
    tide_duck_put_i64(out, gap->id);
    tide_duck_put_i64(out, revision);
    tide_duck_put_i64(out, gap->source_id);
    tide_duck_put_text(out, tide_view_of(gap->agent_id));
    tide_duck_put_text(out, tide_view_of(gap->data_type));
    tide_duck_put_text(out, tide_view_of(gap->session_id));
    tide_duck_put_i64(out, gap->epoch);
    tide_duck_put_i64(out, gap->start_seq);
    tide_duck_put_i64(out, gap->end_seq);
    tide_duck_put_text(out, tide_view_of(tide_gap_status_name(gap->status)));
    tide_duck_put_text(out, tide_view_of(gap->reason));
    tide_duck_put_text(out, tide_view_of(gap->evidence));
    tide_duck_put_i64(out, gap->attempts);
    put_time_or_null(out, gap->detected_at_us);
    put_time_or_null(out, gap->recovered_at_us);
    put_time_or_null(out, gap->last_attempt_us);
    put_time_or_null(out, gap->settled_at_us);
    tide_duck_end_row(out);
}

static tide_status read_status(tide_duck_query *row, tide_gap *out, tide_error *err)
{
    const tide_view name = tide_duck_col_text(row);
    for (int i = 0; i < TIDE_GAP_STATUS_COUNT; i++) {
        if (tide_view_equal(name, tide_view_of(tide_gap_status_name((tide_gap_status)i)))) {
            out->status = (tide_gap_status)i;
            return TIDE_OK;
        }
    }
    return tide_fail(err, TIDE_E_DAMAGED, "gap %lld has the status '%.*s'", (long long)out->id,
                     (int)name.len, name.ptr);
}

tide_status tide_duck_read_gap(tide_duck_query *row, tide_gap *out, tide_error *err)
{
    *out = (tide_gap){.id = tide_duck_col_i64(row)};
    out->source_id = tide_duck_col_i64(row);
    read_text(row, out->agent_id, sizeof out->agent_id);
    read_text(row, out->data_type, sizeof out->data_type);
    read_text(row, out->session_id, sizeof out->session_id);
    out->epoch = tide_duck_col_i64(row);
    out->start_seq = tide_duck_col_i64(row);
    out->end_seq = tide_duck_col_i64(row);
    TIDE_TRY(read_status(row, out, err));
    read_text(row, out->reason, sizeof out->reason);
    read_text(row, out->evidence, sizeof out->evidence);
    out->attempts = (int)tide_duck_col_i64(row);
    out->detected_at_us = tide_duck_col_time(row);
    out->recovered_at_us = tide_duck_col_time(row);
    out->last_attempt_us = tide_duck_col_time(row);
    out->settled_at_us = tide_duck_col_time(row);
    return TIDE_OK;
}
