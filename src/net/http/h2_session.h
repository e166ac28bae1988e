/* h2_session.h - the inside of an HTTP/2 connection, shared by h2.c (what comes in) and
 * h2_response.c (what goes out). */
#pragma once

#include <nghttp2/nghttp2.h>

#include "net/call/call_core.h"
#include "net/http/conn.h"
#include "net/http/h2.h"
#include "net/http/h2_closed.h"

enum { TIDE_H2_FRAME_HEAD_LEN = 9 };

typedef struct tide_h2 tide_h2;

typedef struct tide_h2_stream {
    tide_h2 *h2;
    struct tide_h2_stream *next;
    struct tide_h2_stream **link; /* what points to us */
    int32_t id;
    tide_headers head; /* until the call takes it */
    tide_call *call;
    bool is_head_too_large;
    bool is_input_over;
    bool is_answered;   /* HEADERS were submitted */
    bool is_waiting;    /* nghttp2 was told to wait for data */
    size_t uncredited;  /* bytes received for which the peer got no window back */
    int64_t stalled_us; /* since when bytes wait and few go; INT64_MAX: none wait */
    size_t moved_len;   /* bytes that went since then */
    int64_t busy_us;    /* since when bytes wait, however many went; INT64_MAX: none wait */
    uint64_t busy_len;  /* bytes that went since then */
    size_t crowd;       /* the most streams that the connection had meanwhile */
    int64_t refuse_us;  /* answered before it was asked to the end: reset then; INT64_MAX: no */
    size_t refused_len; /* bytes that were thrown away since */
} tide_h2_stream;

typedef struct tide_h2_bucket {
    int64_t count;
    int64_t since_us;
} tide_h2_bucket;

struct tide_h2 {
    tide_conn conn; /* first */
    tide_server_context *context;
    char *peer;
    tide_peer_owner owner;
    char *certificate;
    void (*wake)(void *arg);
    void *wake_arg;
    nghttp2_session *session;
    tide_h2_stream *streams;
    size_t stream_count;
    int64_t now_us;
    int64_t opened_us;
    int64_t last_call_us;
    int64_t head_since_us; /* a header block is open since; INT64_MAX: none */
    uint8_t frame_head[TIDE_H2_FRAME_HEAD_LEN];
    size_t frame_head_len; /* bytes of it that have come */
    size_t payload_left;   /* bytes until the next frame's head; at first, of the preface */
    tide_h2_closed closed;
    int32_t opening_id; /* of the last HEADERS, until its stream exists; 0: none */
    size_t block_len;   /* bytes that the header block has been decoded to so far */
    uint32_t end_code;  /* with which a callback ends the connection; 0: none */
    tide_h2_bucket control;
    tide_h2_bucket resets;
    uint64_t unreset_count; /* streams that came to a good end and were not reset after it */
    bool has_settings;      /* the peer's first SETTINGS came */
    bool is_draining;
    bool is_flooded;
    bool is_broken; /* nothing more is read */
};

extern const tide_conn_class tide_h2_class;

/* Give the peer window back, unless messages wait for their receiver. */
void tide_h2_credit(tide_h2_stream *stream);

/* The peer goes too far: say so and close. Returns what a callback does. */
int tide_h2_end_flood(tide_h2 *h2);

/* A frame begins, and those before it have been received: may it be for its stream? If not,
 * end_code says why. The library ignores frames for streams that it does not know any more. */
void tide_h2_check_frame(tide_h2 *h2, uint8_t type, int32_t stream_id, size_t len);

/* The stream is gone: let go of its call. */
void tide_h2_forget(tide_h2_stream *stream);
