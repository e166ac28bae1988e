/* HTTP/2 frames without a socket: for streams that have ended, blocks of headers, and every cut. */
#include <string.h>

#include "base/cleanup.h"
#include "net/http/h2_case.h"

/* ---- frames for streams that are over ---- */

/* A frame, as bytes. The payload may be NULL: zeros. */
static void feed_frame(fixture *f, int type, int flags, int32_t id, const void *payload, size_t len)
{
    uint8_t *bytes = calloc(1, len + 9);
    assert_non_null(bytes);
    bytes[0] = (uint8_t)(len >> 16);
    bytes[1] = (uint8_t)(len >> 8);
    bytes[2] = (uint8_t)len;
    bytes[3] = (uint8_t)type;
    bytes[4] = (uint8_t)flags;
    bytes[7] = (uint8_t)(id >> 8);
    bytes[8] = (uint8_t)id;
    if (payload)
        memcpy(bytes + 9, payload, len);
    h2_rig_feed(&f->rig, bytes, len + 9);
    free(bytes);
}

/* GET /files/ of "a" */
static const char GET_BLOCK[] = "\x82\x86\x04\x07/files/\x41\x01"
                                "a";

static void feed_get(fixture *f, int32_t id)
{
    feed_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, id,
               GET_BLOCK, sizeof GET_BLOCK - 1);
}

static void assert_ended(fixture *f, uint32_t code)
{
    h2_rig_run(&f->rig);
    assert_true(f->rig.is_goaway);
    assert_int_equal(code, f->rig.goaway_code);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_malformed));
}

static void data_for_a_finished_stream_is_an_error(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_open(&f->rig, "GET", "/healthz", NULL);
    assert_true(e->is_closed);
    feed_frame(f, NGHTTP2_DATA, 0, e->id, NULL, 10);
    assert_ended(f, NGHTTP2_STREAM_CLOSED);
}

static void headers_for_a_finished_stream_are_an_error(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_open(&f->rig, "GET", "/healthz", NULL);
    feed_get(f, e->id);
    assert_ended(f, NGHTTP2_STREAM_CLOSED);
}

static void data_for_a_stream_that_its_peer_reset_is_an_error(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", "/echo", NULL);
    h2_reset(&f->rig, e);
    feed_frame(f, NGHTTP2_DATA, 0, e->id, NULL, 10);
    assert_ended(f, NGHTTP2_STREAM_CLOSED);
}

static void a_new_id_that_does_not_rise_is_an_error(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    feed_get(f, 5);
    feed_get(f, 3);
    /* The client's library knows nothing of stream 5: only what we send last is looked at. */
    bool has_goaway = false;
    for (tide_view out = f->rig.conn->class->pull(f->rig.conn); out.len > 0;
         out = f->rig.conn->class->pull(f->rig.conn)) {
        const char *code = out.ptr + out.len - 4;
        has_goaway = has_goaway ||
                     (out.len >= 17 && memcmp(code, "\0\0\0\x01", 4) == 0); /* PROTOCOL_ERROR */
    }
    assert_true(has_goaway);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
}

static void pull_all(fixture *f)
{
    (void)f->rig.conn->class->step(f->rig.conn, f->rig.env.mono_us);
    while (f->rig.conn->class->pull(f->rig.conn).len > 0)
        ;
}

/* As much as its window allows may be on its way to a stream when we reset it. */
static void assert_window_is_tolerated(fixture *f, int32_t id)
{
    const size_t window = TIDE_H2_STREAM_WINDOW;
    for (size_t sent = 1000; sent + 16000 <= window; sent += 16000) {
        feed_frame(f, NGHTTP2_DATA, 0, id, NULL, 16000);
        pull_all(f);
    }
    assert_false(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(0, tide_counted(&f->rig.context->counters.refused_malformed));
    feed_frame(f, NGHTTP2_DATA, 0, id, NULL, 16000);
    pull_all(f);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_malformed));
}

/* A client that has not seen SETTINGS yet opens more streams than it may, and sends their bodies: in the same packet, when
 * our RST_STREAM is not even sent. */
static void frames_for_a_refused_stream_are_tolerated(void **state)
{
    fixture *f = *state;
    static const char start[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    f->limits.streams = 1;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_feed(&f->rig, start, sizeof start - 1);
    for (int32_t id = 1; id <= 3; id += 2)
        feed_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, GET_BLOCK,
                   sizeof GET_BLOCK - 1);
    feed_frame(f, NGHTTP2_DATA, 0, 3, NULL, 1000);
    pull_all(f);
    assert_window_is_tolerated(f, 3);
}

static void frames_for_a_stream_that_we_reset_are_tolerated(void **state)
{
    fixture *f = *state;
    static const char block[] = "\x82\x86\x84\x41\x01"
                                "a\x00\x01X\x01y"; /* a name in capitals is malformed */
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    feed_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, sizeof block - 1);
    feed_frame(f, NGHTTP2_DATA, 0, 1, NULL, 1000);
    pull_all(f);
    feed_frame(f, NGHTTP2_DATA, 0, 1, NULL, 1000);
    pull_all(f);
    assert_window_is_tolerated(f, 1);
}

/* A field in the dynamic table, and then one byte for each time that it is meant. */
static void feed_bomb(fixture *f, char last, size_t count)
{
    /* A literal field: its value has 127 + 0x51 + (15 << 7) = 2128 bytes. */
    static const char field[] = "\x40\x01x\x7f\xd1\x0f";
    const size_t value_len = 2128;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer block = tide_buffer_of(16384);
    assert_ok(tide_buffer_append(&block, GET_BLOCK, sizeof GET_BLOCK - 1));
    assert_ok(tide_buffer_append(&block, field, sizeof field - 1));
    for (size_t i = 0; i + 1 < value_len; i++)
        assert_ok(tide_buffer_append(&block, "a", 1));
    assert_ok(tide_buffer_append(&block, &last, 1));
    for (size_t i = 0; i < count; i++)
        assert_ok(tide_buffer_append(&block, "\xbe", 1));
    feed_frame(f, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, 1, block.ptr,
               block.len);
}

/* Limit header_list_len: above it a request is refused, above four times of it the connection ends. Fields with a byte that
 * no value has are dropped by the library, and cost as much. */
static void a_header_block_is_decoded_to_four_times_the_limit(void **state)
{
    fixture *f = *state;
    static const char lasts[] = {'a', '\n'};
    for (size_t i = 0; i < sizeof lasts; i++) {
        if (i > 0)
            h2_rig_done(&f->rig);
        h2_rig_init(&f->rig, &f->limits, false);
        h2_rig_run(&f->rig);
        feed_bomb(f, lasts[i], 10000);
        h2_rig_run(&f->rig);
        assert_true(f->rig.is_goaway);
        assert_int_equal(NGHTTP2_ENHANCE_YOUR_CALM, f->rig.goaway_code);
        assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_headers));
        assert_int_equal(0, tide_counted(&f->rig.context->counters.calls_running));
    }
    h2_rig_done(&f->rig);
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    feed_bomb(f, 'a', 20); /* 45 kB: above the limit, below four times of it */
    while (f->rig.conn->class->step(f->rig.conn, f->rig.env.mono_us) == 0)
        ;
    assert_false(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_headers));
}

/* What comes in is followed frame by frame, wherever it is cut. */
static void every_cut_of_frames_is_answered_alike(void **state)
{
    fixture *f = *state;
    static const char bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                "\0\0\0\x04\0\0\0\0\0"
                                "\0\0\x0e\x01\x05\0\0\0\x01"
                                "\x82\x86\x04\x07/files/\x41\x01"
                                "a"
                                "\0\0\x0e\x01\x05\0\0\0\x03"
                                "\x82\x86\x04\x07/files/\x41\x01"
                                "a"
                                "\0\0\x03\0\0\0\0\0\x01"
                                "abc"
                                "\0\0\x0e\x01\x05\0\0\0\x05"
                                "\x82\x86\x04\x07/files/\x41\x01"
                                "a";
    h2_rig_init(&f->rig, &f->limits, false);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole = tide_buffer_of(65536);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer cut = tide_buffer_of(65536);
    const size_t len = sizeof bytes - 1;
    for (size_t at = 0; at < len; at++) {
        const tide_conn_setup setup = {
            .context = f->rig.context, .peer = "192.0.2.1:5", .wake = ignore_wake};
        tide_conn *conn = tide_h2_new(&setup, f->rig.env.mono_us);
        assert_non_null(conn);
        tide_buffer_clear(&cut);
        (void)conn->class->feed(conn, tide_view_bytes(bytes, at), f->rig.env.mono_us);
        (void)conn->class->feed(conn, tide_view_bytes(bytes + at, len - at), f->rig.env.mono_us);
        (void)conn->class->step(conn, f->rig.env.mono_us);
        for (tide_view out = conn->class->pull(conn); out.len > 0; out = conn->class->pull(conn))
            assert_ok(tide_buffer_append_view(at == 0 ? &whole : &cut, out));
        assert_true(conn->class->is_over(conn));
        if (at > 0)
            assert_true(tide_view_equal(tide_buffer_view(&whole), tide_buffer_view(&cut)));
        conn->class->free(conn);
    }
    assert_non_null(memmem(whole.ptr, whole.len, "\0\0\0\x05", 4)); /* STREAM_CLOSED */
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        H2_CASE(data_for_a_finished_stream_is_an_error),
        H2_CASE(headers_for_a_finished_stream_are_an_error),
        H2_CASE(data_for_a_stream_that_its_peer_reset_is_an_error),
        H2_CASE(a_new_id_that_does_not_rise_is_an_error),
        H2_CASE(frames_for_a_refused_stream_are_tolerated),
        H2_CASE(frames_for_a_stream_that_we_reset_are_tolerated),
        H2_CASE(a_header_block_is_decoded_to_four_times_the_limit),
        H2_CASE(every_cut_of_frames_is_answered_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
