/* h2_rig.h - an HTTP/2 client and our side of a connection, in one thread and without a socket.
 *
 * The client is nghttp2's own. Time is virtual, the methods are those of test_service.h; what is blocking runs at once.
 * h2_rig_run moves bytes to and fro until nothing moves any more.
 *
 * Threads: none. */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "net/http/conn.h"
#include "net/test_service.h"
#include "support/clock/virtual_env.h"

enum { H2_RIG_STREAMS_MAX = 4096 };

typedef struct h2_exchange {
    int32_t id;
    tide_buffer request; /* bytes that have not gone yet */
    bool is_request_over;
    bool is_waiting;
    tide_buffer head; /* "name: value\n" of each field */
    tide_buffer body;
    tide_buffer trailers;
    bool is_closed;
    uint32_t code; /* of the end */
} h2_exchange;

typedef struct h2_rig {
    virtual_env env;
    tide_net_limits limits;
    test_service service;
    tide_routes *routes;
    tide_server_context *context;
    tide_conn *conn;
    nghttp2_session *client;
    bool is_woken;
    bool is_goaway;
    uint32_t goaway_code;
    int32_t goaway_stream;
    bool holds_windows; /* the client gives no window back */
    int64_t next_us;    /* what the last step said */
    h2_exchange *exchanges[H2_RIG_STREAMS_MAX];
    size_t exchange_count;
} h2_rig;

/* limits NULL: the standard ones. With authorisation: the tokens of test_service.h. */
void h2_rig_init(h2_rig *rig, const tide_net_limits *limits, bool has_auth);
void h2_rig_done(h2_rig *rig);

void h2_rig_run(h2_rig *rig);

/* Bytes that the client's library would never send. */
void h2_rig_feed(h2_rig *rig, const void *bytes, size_t len);

/* fields: name, value, ..., NULL; :method etc. are made from the path. The body follows with h2_write. */
h2_exchange *h2_open(h2_rig *rig, const char *method, const char *path, const char *const *fields);
void h2_write(h2_rig *rig, h2_exchange *exchange, tide_view bytes, bool is_last);
void h2_reset(h2_rig *rig, h2_exchange *exchange);

/* A whole gRPC call with one message, and as plain POST. */
h2_exchange *h2_call(h2_rig *rig, const char *path, tide_view message);
h2_exchange *h2_post(h2_rig *rig, const char *path, const char *type, tide_view body);

/* One framed message behind what out holds. */
void h2_frame(tide_buffer *out, bool is_compressed, tide_view message);

/* The value in "name: value\n" lines; "": none. Borrowed until the next call. */
const char *h2_field(const tide_buffer *lines, const char *name);

/* SimpleRequest{response_size}, StreamingOutputCallRequest{response_parameters: size, ...} */
tide_view h2_simple_request(tide_buffer *out, int32_t response_size);
tide_view h2_output_request(tide_buffer *out, const int32_t *sizes, size_t count);
