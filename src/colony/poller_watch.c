/* poller_watch.c - the watch call (agent.proto):
 *
 *     WatchStreamsRequest    1 repeated StreamHead seen {1 stream, 2 head_seq_id}, 2 wait_ms, 3 session_id
 *     ListStreamsResponse    1 repeated StreamState streams, 2 session_id, 3 agent
 *
 * The answer is looked through twice: first everything is checked, then it is told. */
#include "base/cleanup.h"
#include "colony/poller_parts.h"
#include "colony/reply_field.h"

/* ---- request ---- */

static tide_status put_tag(tide_buffer *out, uint32_t field, int wire)
{
    return tide_buffer_append_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

static tide_status put_number(tide_buffer *out, uint32_t field, int64_t number)
{
    if (number <= 0)
        return TIDE_OK;
    TIDE_TRY(put_tag(out, field, TIDE_WIRE_VARINT));
    return tide_buffer_append_varint(out, (uint64_t)number);
}

static tide_status put_bytes(tide_buffer *out, uint32_t field, tide_view bytes)
{
    TIDE_TRY(put_tag(out, field, TIDE_WIRE_BYTES));
    TIDE_TRY(tide_buffer_append_varint(out, bytes.len));
    return tide_buffer_append_view(out, bytes);
}

static tide_status put_seen(tide_buffer *out, const tide_poll_watch_seen *seen)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer inner = {0};
    tide_buffer_init(&inner, TIDE_FEED_NAME_MAX + 64);
    TIDE_TRY(put_bytes(&inner, 1, tide_view_of(seen->stream)));
    TIDE_TRY(put_number(&inner, 2, seen->head));
    return put_bytes(out, 1, tide_buffer_view(&inner));
}

static tide_status put_request(tide_buffer *out, const tide_poll_watch_seen *seen, int count,
                               const char *session_id, int64_t wait_us)
{
    for (int i = 0; i < count; i++)
        TIDE_TRY(put_seen(out, &seen[i]));
    TIDE_TRY(put_number(out, 2, wait_us / 1000));
    return *session_id ? put_bytes(out, 3, tide_view_of(session_id)) : TIDE_OK;
}

tide_status tide_poll_watch_encode(tide_buffer *out, const tide_poll_watch_seen *seen, int count,
                                   const char *session_id, int64_t wait_us, tide_error *err)
{
    const tide_status status = put_request(out, seen, count, session_id, wait_us);
    return status < TIDE_OK ? tide_fail(err, status, "no room for a watch request") : TIDE_OK;
}

/* ---- answer ---- */

static tide_status read_state_field(tide_poll_watch_stream *out, const tide_wire_field *f)
{
    switch (f->number) {
    case 1:
        return tide_field_number(f, &out->epoch);
    case 2:
        return tide_field_number(f, &out->oldest_seq);
    case 4:
        return tide_field_number(f, &out->head_seq);
    case 10:
        return tide_field_number(f, &out->head_arrived_ms);
    case 13:
        return tide_field_number(f, &out->now_ms);
    case 14:
        return tide_field_number(f, &out->retention_ms);
    case 15:
        return tide_field_text(f, out->stream, sizeof out->stream);
    default:
        return TIDE_OK;
    }
}

static tide_status read_state(tide_poll_watch_stream *out, tide_view bytes)
{
    *out = (tide_poll_watch_stream){.epoch = 0};
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field f;
    for (;;) {
        const tide_status status = tide_field_next(&reader, &f);
        if (status != TIDE_OK)
            return status == TIDE_NONE && *out->stream ? TIDE_OK : TIDE_E_DAMAGED;
        TIDE_TRY(read_state_field(out, &f));
    }
}

/* Is everything in order? */
static tide_status check_answer(tide_view bytes, char session_id[TIDE_POSITION_ID_MAX + 1])
{
    tide_reader reader = tide_reader_of(bytes);
    int count = 0;
    tide_wire_field f;
    *session_id = '\0';
    TIDE_EACH(tide_field_next(&reader, &f)) {
        tide_poll_watch_stream stream;
        if (f.number > 2)
            continue;
        if (f.type != TIDE_WIRE_BYTES || (f.number == 1 && ++count > TIDE_POLL_WATCH_STREAMS_MAX))
            return TIDE_E_DAMAGED;
        TIDE_TRY(f.number == 1 ? read_state(&stream, f.bytes)
                               : tide_field_text(&f, session_id, TIDE_POSITION_ID_MAX + 1));
    }
    return TIDE_OK;
}

tide_status tide_poll_watch_read(tide_view bytes, char session_id[TIDE_POSITION_ID_MAX + 1],
                                 tide_poll_watch_fn *fn, void *arg, tide_error *err)
{
    if (bytes.len > TIDE_POLL_WATCH_ANSWER_MAX || check_answer(bytes, session_id) < TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "what came is no answer to a watch");
    if (*session_id == '\0')
        return tide_fail(err, TIDE_E_INVALID, "the agent's answer to a watch has no session id");
    tide_reader reader = tide_reader_of(bytes);
    tide_wire_field f;
    while (tide_field_next(&reader, &f) == TIDE_OK) {
        tide_poll_watch_stream stream;
        if (f.number != 1)
            continue;
        TIDE_TRY(read_state(&stream, f.bytes));
        TIDE_TRY(fn(arg, &stream, err));
    }
    return TIDE_OK;
}
