/* http1.c - HTTP/1.1 for calls: heads, bodies, time. */
#include "net/http/http1.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/http/http1_head.h"

enum { OUT_MAX = 256 * 1024 };

/* The call is open: what follows its head? */
static void begin_body(tide_http1 *http1, const tide_http1_head *head)
{
    tide_call *call = http1->call;
    http1->body_left = head->body_len;
    if (!head->is_chunked && http1->body_left == 0) {
        http1->state = TIDE_HTTP1_RESPONSE;
        tide_call_feed_end(call);
        return;
    }
    if (head->expects_unknown)
        tide_call_refuse(call, TIDE_GRPC_FAILED_PRECONDITION, 417, 0,
                         "only 100-continue can be expected");
    if (!tide_call_wants_body(call)) {
        http1->is_kept_alive = false; /* the body will not be read */
        http1->state = TIDE_HTTP1_RESPONSE;
        return;
    }
    if (head->expects_continue)
        tide_http1_continue(http1);
    tide_chunk_init(&http1->chunks);
    http1->state = head->is_chunked ? TIDE_HTTP1_CHUNKED_BODY : TIDE_HTTP1_LENGTH_BODY;
}

static void open_call(tide_http1 *http1, tide_http1_head *head)
{
    const tide_call_origin origin = {
        .method = head->method,
        .target = head->target,
        .peer = http1->peer,
        .owner = http1->owner,
        .certificate = http1->certificate,
        .head = &head->fields,
        .wake = http1->wake,
        .wake_arg = http1->wake_arg,
    };
    http1->is_http10 = head->is_http10;
    http1->is_kept_alive = head->is_kept_alive && !http1->is_draining;
    http1->call = tide_call_open(http1->context, &origin);
    if (http1->call)
        begin_body(http1, head);
    else
        tide_http1_refuse(http1, 503, tide_status_get(TIDE_E_NOMEM)->text);
}

static void read_head(tide_http1 *http1)
{
    const char *wrong = NULL;
    TIDE_CLEANUP(tide_http1_head_done) tide_http1_head head;
    const int code = tide_http1_head_read(&head, tide_buffer_view(&http1->head),
                                          (size_t)http1->context->limits.header_list_len, &wrong);
    if (code == 0)
        open_call(http1, &head);
    else if (code == TIDE_HTTP1_NO_HTTP && !http1->has_served)
        tide_http1_drop(http1);
    else
        tide_http1_refuse(http1, code == TIDE_HTTP1_NO_HTTP ? 400 : code, wrong);
}

/* Gather the head up to its empty line. Returns what was taken. */
static size_t feed_head(tide_http1 *http1, tide_view bytes)
{
    tide_buffer *head = &http1->head;
    if (head->len == 0) {
        /* Some clients send an empty line behind a body. */
        if (http1->has_served && bytes.len >= 2 && memcmp(bytes.ptr, "\r\n", 2) == 0)
            return 2;
        http1->since_us = http1->now_us;
    } else if (http1->has_served && head->len == 1 && head->ptr[0] == '\r' && bytes.len > 0 &&
               bytes.ptr[0] == '\n') {
        tide_buffer_truncate(head, 0); /* the same empty line, in two pieces */
        return 1;
    }
    const size_t room = head->max - head->len;
    const size_t part = bytes.len < room ? bytes.len : room;
    const size_t from = head->len < 3 ? 0 : head->len - 3;
    if (tide_buffer_append(head, bytes.ptr, part) != TIDE_OK) {
        tide_http1_refuse(http1, 503, tide_status_get(TIDE_E_NOMEM)->text);
        return bytes.len;
    }
    /* An empty line ends the head also where its CR is missing: the reader then refuses it. */
    const char *end = memmem(head->ptr + from, head->len - from, "\n\r\n", 3);
    size_t end_len = 3;
    const char *bare = memmem(head->ptr + from, head->len - from, "\n\n", 2);
    if (bare && (!end || bare < end)) {
        end = bare;
        end_len = 2;
    }
    if (!end) {
        if (head->len == head->max)
            tide_http1_refuse(http1, 431, "the header fields are too long");
        return part;
    }
    const size_t head_len = (size_t)(end - head->ptr) + end_len;
    const size_t behind = head->len - head_len;
    tide_buffer_truncate(head, head_len);
    read_head(http1);
    tide_buffer_done(head);
    return part - behind;
}

static void end_body(tide_http1 *http1)
{
    http1->state = TIDE_HTTP1_RESPONSE;
    tide_call_feed_end(http1->call);
}

/* Hand on content of a body. false: its call has ended meanwhile and is answered at once. The rest
 * is not read, and the connection is closed, whether or not these bytes were the last: how a peer's
 * bytes are cut changes no answer. */
static bool feed_content(tide_http1 *http1, tide_view content)
{
    tide_call_feed(http1->call, content);
    if (tide_call_wants_body(http1->call))
        return true;
    http1->is_kept_alive = false;
    http1->state = TIDE_HTTP1_RESPONSE;
    return false;
}

static size_t feed_length(tide_http1 *http1, tide_view bytes)
{
    const size_t part = bytes.len < http1->body_left ? bytes.len : (size_t)http1->body_left;
    http1->body_left -= part;
    if (feed_content(http1, tide_view_bytes(bytes.ptr, part)) && http1->body_left == 0)
        end_body(http1);
    return part;
}

static size_t feed_chunks(tide_http1 *http1, tide_view bytes)
{
    tide_view left = bytes;
    while (left.len > 0 && http1->state == TIDE_HTTP1_CHUNKED_BODY) {
        tide_view content;
        tide_chunk_next(&http1->chunks, &left, &content);
        if (content.len > 0 && !feed_content(http1, content))
            break;
        if (http1->chunks.state == TIDE_CHUNK_DONE) {
            end_body(http1);
        } else if (http1->chunks.state == TIDE_CHUNK_BAD) {
            tide_count(&http1->context->counters.refused_malformed, 1);
            tide_call_refuse(http1->call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0, "a malformed chunk");
            http1->is_kept_alive = false;
            http1->state = TIDE_HTTP1_RESPONSE;
        }
    }
    return bytes.len - left.len;
}

/* A call may also end while it waits for its body: cancelled, out of time. */
static void check_call(tide_http1 *http1)
{
    const bool is_body =
        http1->state == TIDE_HTTP1_LENGTH_BODY || http1->state == TIDE_HTTP1_CHUNKED_BODY;
    if (!is_body || tide_call_wants_body(http1->call))
        return;
    http1->is_kept_alive = false;
    http1->state = TIDE_HTTP1_RESPONSE;
}

size_t tide_http1_feed(tide_conn *conn, tide_view bytes, int64_t now_us)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    http1->now_us = now_us;
    check_call(http1);
    size_t taken = 0;
    bool is_moving = true;
    while (taken < bytes.len && is_moving) {
        const tide_view left = tide_view_bytes(bytes.ptr + taken, bytes.len - taken);
        size_t part = 0;
        switch (http1->state) {
        case TIDE_HTTP1_HEAD:
            part = feed_head(http1, left);
            break;
        case TIDE_HTTP1_LENGTH_BODY:
            part = feed_length(http1, left);
            break;
        case TIDE_HTTP1_CHUNKED_BODY:
            part = feed_chunks(http1, left);
            break;
        case TIDE_HTTP1_RESPONSE:
            break;
        case TIDE_HTTP1_CLOSE:
            part = left.len; /* thrown away */
            break;
        }
        taken += part;
        is_moving = part > 0;
    }
    return taken;
}

tide_conn *tide_http1_new(const tide_conn_setup *setup, int64_t now_us)
{
    tide_http1 *http1 = calloc(1, sizeof *http1);
    if (!http1)
        return NULL;
    http1->conn.class = &tide_http1_class;
    http1->context = setup->context;
    tide_server_context_hold(http1->context);
    http1->peer = strdup(setup->peer);
    http1->owner = setup->owner;
    http1->certificate = setup->certificate ? strdup(setup->certificate) : NULL;
    http1->wake = setup->wake;
    http1->wake_arg = setup->wake_arg;
    http1->now_us = http1->since_us = now_us;
    tide_buffer_init(&http1->head, (size_t)http1->context->limits.header_list_len);
    tide_buffer_init(&http1->out, OUT_MAX);
    if (!http1->peer || (setup->certificate && !http1->certificate)) {
        tide_http1_class.free(&http1->conn);
        return NULL;
    }
    return &http1->conn;
}
