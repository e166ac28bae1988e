/* http1.h - HTTP/1.1: methods by POST, plain routes.
 *
 *     head ---- opened (authorised) ---- body ---- answer ---- head ...
 *       |             |                                |
 *       |             100 Continue, if asked for       close: asked for, or the request was not
 *                                                      read to its end
 *       400, 408, 414, 431 and close: no byte behind a refused head is parsed
 *
 * One request at a time: bytes behind it are not taken before its answer is out, so a pipelining
 * peer is bounded by what its driver keeps. The head is gathered whole, read (http1_head.h);
 * nothing of a body is kept before the call that wants it is authorised.
 *
 * A connection is made by tide_http1_new (conn.h) and driven as conn.h says.
 *
 * Limits: limits.h. */
#pragma once

#include "base/buffer.h"
#include "net/call/call_core.h"
#include "net/http/conn.h"
#include "net/http/http1_chunks.h"

typedef enum tide_http1_state {
    TIDE_HTTP1_HEAD,
    TIDE_HTTP1_LENGTH_BODY,
    TIDE_HTTP1_CHUNKED_BODY,
    TIDE_HTTP1_RESPONSE, /* the request is complete, or will not be read any further */
    TIDE_HTTP1_CLOSE,
} tide_http1_state;

/* The inside, shared by http1.c (what comes in) and http1_response.c (what goes out). */
typedef struct tide_http1 {
    tide_conn conn; /* first */
    tide_server_context *context;
    char *peer;
    tide_peer_owner owner;
    char *certificate;
    void (*wake)(void *arg);
    void *wake_arg;
    tide_http1_state state;
    tide_buffer head; /* the bytes of a head that is not complete */
    uint64_t body_left;
    tide_chunk_decoder chunks;
    tide_call *call;
    tide_buffer out; /* being pulled */
    bool is_pulled;  /* out was handed over */
    bool is_kept_alive;
    bool is_http10;
    bool is_answering; /* the answer's head is out */
    bool is_chunked;   /* ... its body goes in chunks */
    bool is_draining;
    bool has_served; /* a request was answered before */
    int64_t now_us;
    int64_t since_us; /* the connection or the last answer; then the first byte of a head */
} tide_http1;

extern const tide_conn_class tide_http1_class;

/* Answer without a call, and close. */
void tide_http1_refuse(tide_http1 *http1, int http_code, const char *message);

/* Close without an answer. */
void tide_http1_drop(tide_http1 *http1);

/* The class's feed. */
size_t tide_http1_feed(tide_conn *conn, tide_view bytes, int64_t now_us);

/* Queue bytes that come before any answer. */
void tide_http1_continue(tide_http1 *http1);
