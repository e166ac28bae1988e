/* sink_sql_position.c - a position as columns. See sink_sql.h. */
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "colony/sink_sql.h"

enum {
    POINT_LEN = 8 + 8 + TIDE_FEED_DIGEST_SIZE,
    CURSOR_LEN_MAX = 64 + TIDE_POSITION_HOLES_MAX * 2 * TIDE_VARINT_LEN_MAX,
};

void tide_sink_sql_text(char *out, size_t size, tide_view text)
{
    const size_t len = text.len < size ? text.len : size - 1;
    if (len > 0)
        memcpy(out, text.ptr, len);
    out[len] = '\0';
}

void tide_sink_sql_bind_time(tide_query *query, const char *name, int64_t us)
{
    if (us == 0)
        tide_query_bind_null(query, name);
    else
        tide_query_bind_time(query, name, us);
}

int64_t tide_sink_sql_col_time(tide_query *query)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t us = tide_query_col_time(query);
    return is_null ? 0 : us;
}

/* ---- writing ---- */

static tide_status bind_cursor(tide_query *query, const tide_cursor *cursor, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(CURSOR_LEN_MAX);
    TIDE_TRY(tide_cursor_encode(cursor, &bytes, err));
    tide_query_bind_blob(query, "cursor", tide_buffer_view(&bytes));
    tide_query_bind_i64(query, "holes", (int64_t)cursor->hole_count);
    tide_query_bind_i64(query, "held", tide_cursor_pending(cursor));
    tide_query_bind_i64(query, "highest_seq_id", tide_cursor_highest(cursor));
    return TIDE_OK;
}

static void put_u64(char *out, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        out[i] = (char)(number >> 8 * i);
}

static uint64_t get_u64(const char *bytes)
{
    uint64_t number = 0;
    for (int i = 7; i >= 0; i--)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static void bind_points(tide_query *query, const tide_position *position)
{
    char bytes[POINT_LEN * TIDE_FEED_POINTS_MAX];
    for (int i = 0; i < position->point_count; i++) {
        char *at = bytes + (ptrdiff_t)i * POINT_LEN;
        put_u64(at, (uint64_t)position->points[i].seq);
        put_u64(at + 8, (uint64_t)position->points[i].epoch);
        memcpy(at + 16, position->points[i].digest, TIDE_FEED_DIGEST_SIZE);
    }
    tide_query_bind_blob(query, "points",
                         tide_view_bytes(bytes, (size_t)position->point_count * POINT_LEN));
}

tide_status tide_sink_sql_bind_position(tide_query *query, const tide_position *position,
                                        int64_t source_id, int64_t version, tide_error *err)
{
    tide_query_bind_i64(query, "source_id", source_id);
    tide_query_bind_text(query, "agent_id", position->agent_id);
    tide_query_bind_text(query, "data_type", position->data_type);
    tide_query_bind_text(query, "session_id", position->session_id);
    tide_query_bind_i64(query, "epoch", position->epoch);
    tide_query_bind_text(query, "epoch_id", position->epoch_id);
    tide_query_bind_i64(query, "version", version);
    tide_query_bind_i64(query, "first_seq_id", position->first);
    tide_query_bind_i64(query, "last_seq_id", position->last_seq);
    tide_query_bind_i64(query, "head_seq_id", position->head);
    tide_query_bind_i64(query, "oldest_seq_id", position->oldest);
    TIDE_TRY(bind_cursor(query, &position->cursor, err));
    tide_query_bind_i64(query, "stored", position->stored);
    tide_query_bind_i64(query, "dead", position->dead);
    tide_query_bind_i64(query, "filtered", position->filtered);
    bind_points(query, position);
    tide_query_bind_bool(query, "is_foreign", position->is_foreign);
    tide_query_bind_i64(query, "next_arrived_ms", position->next_arrived_ms);
    tide_query_bind_i64(query, "head_arrived_ms", position->head_arrived_ms);
    tide_query_bind_i64(query, "agent_now_ms", position->agent_now_ms);
    tide_query_bind_i64(query, "retention_ms", position->retention_ms);
    tide_query_bind_time(query, "created_at", position->created_at_us);
    tide_query_bind_time(query, "updated_at", position->updated_at_us);
    tide_query_bind_time(query, "last_poll_time", position->last_poll_us);
    tide_sink_sql_bind_time(query, "closed_at", position->closed_at_us);
    tide_query_bind_text(query, "closed_reason", position->closed_reason);
    return TIDE_OK;
}

/* ---- reading ---- */

static tide_status read_points(tide_position *out, tide_view bytes, tide_error *err)
{
    if (bytes.len % POINT_LEN != 0 ||
        bytes.len > sizeof out->points / sizeof out->points[0] * POINT_LEN)
        return tide_fail(err, TIDE_E_DAMAGED, "the points of %s, %s have %zu bytes", out->agent_id,
                         out->data_type, bytes.len);
    out->point_count = (int)(bytes.len / POINT_LEN);
    for (int i = 0; i < out->point_count; i++) {
        const char *at = bytes.ptr + (ptrdiff_t)i * POINT_LEN;
        out->points[i].seq = (int64_t)get_u64(at);
        out->points[i].epoch = (int64_t)get_u64(at + 8);
        memcpy(out->points[i].digest, at + 16, TIDE_FEED_DIGEST_SIZE);
    }
    return TIDE_OK;
}

static tide_status read_numbers(tide_position *out, tide_query *query, tide_error *err)
{
    out->version = tide_query_col_i64(query);
    out->first = tide_query_col_i64(query);
    out->last_seq = tide_query_col_i64(query);
    (void)tide_query_col_i64(query); /* highest_seq_id: the cursor knows */
    out->head = tide_query_col_i64(query);
    out->oldest = tide_query_col_i64(query);
    (void)tide_query_col_i64(query); /* holes */
    (void)tide_query_col_i64(query); /* held */
    tide_cursor cursor;
    const tide_view bytes = tide_query_col_blob(query);
    const tide_status status = tide_cursor_decode(&cursor, bytes, TIDE_POSITION_HOLES_MAX, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "the cursor of %s, %s", out->agent_id,
                                 out->data_type);
    out->cursor = cursor;
    out->stored = tide_query_col_i64(query);
    out->dead = tide_query_col_i64(query);
    out->filtered = tide_query_col_i64(query);
    return read_points(out, tide_query_col_blob(query), err);
}

static void read_times(tide_position *out, tide_query *query)
{
    out->is_foreign = tide_query_col_bool(query);
    out->next_arrived_ms = tide_query_col_i64(query);
    out->head_arrived_ms = tide_query_col_i64(query);
    out->agent_now_ms = tide_query_col_i64(query);
    out->retention_ms = tide_query_col_i64(query);
    out->created_at_us = tide_query_col_time(query);
    out->updated_at_us = tide_query_col_time(query);
    out->last_poll_us = tide_query_col_time(query);
    out->closed_at_us = tide_sink_sql_col_time(query);
    tide_sink_sql_text(out->closed_reason, sizeof out->closed_reason, tide_query_col_text(query));
}

tide_status tide_sink_sql_read_position(tide_position *out, tide_query *query, tide_error *err)
{
    tide_position_init(out, "", "");
    out->source_id = tide_query_col_i64(query);
    tide_sink_sql_text(out->agent_id, sizeof out->agent_id, tide_query_col_text(query));
    tide_sink_sql_text(out->data_type, sizeof out->data_type, tide_query_col_text(query));
    tide_sink_sql_text(out->session_id, sizeof out->session_id, tide_query_col_text(query));
    out->epoch = tide_query_col_i64(query);
    tide_sink_sql_text(out->epoch_id, sizeof out->epoch_id, tide_query_col_text(query));
    const tide_status status = read_numbers(out, query, err);
    if (status < TIDE_OK) {
        tide_position_done(out);
        return status;
    }
    read_times(out, query);
    out->expired = tide_query_col_i64(query);
    out->folded_void = tide_query_col_i64(query);
    out->folded_lost = tide_query_col_i64(query);
    out->folded_recovered = tide_query_col_i64(query);
    return TIDE_OK;
}
