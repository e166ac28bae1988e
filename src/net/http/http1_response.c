/* http1_response.c - HTTP/1.1 for calls: answers, and the end of a connection. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "net/codec/status_details.h"
#include "net/http/http1.h"

enum {
    PIECE_LEN = 64 * 1024,
    CHUNK_SIZE_LEN = 8, /* six digits, CR, LF */
    CHUNK_FRAME_LEN = 16,
};

/* The codes that calls end with; the reason of others means nothing to a client. */
static const char *reason_of(int code)
{
    static const struct {
        int code;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Payload Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Entity"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "Status";
}

static void append_date(tide_http1 *http1, tide_buffer *out)
{
    tide_env *env = http1->context->env;
    const time_t now_s = (time_t)(env->wall_us(env) / 1000000);
    struct tm utc;
    char text[64];
    if (gmtime_r(&now_s, &utc) &&
        strftime(text, sizeof text, "date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc) > 0)
        TIDE_IGNORE(tide_buffer_append_text(out, text));
}

/* Status line and fields, without the empty line. */
static tide_status append_head(tide_http1 *http1, int code, const tide_headers *head)
{
    tide_buffer *out = &http1->out;
    TIDE_TRY(tide_buffer_printf(out, "HTTP/1.1 %d %s\r\n", code, reason_of(code)));
    append_date(http1, out);
    for (size_t i = 0; head && i < head->count; i++)
        TIDE_TRY(
            tide_buffer_printf(out, "%s: %s\r\n", head->fields[i].name, head->fields[i].value));
    if (!http1->is_kept_alive)
        return tide_buffer_append_text(out, "connection: close\r\n");
    return http1->is_http10 ? tide_buffer_append_text(out, "connection: keep-alive\r\n") : TIDE_OK;
}

static void take_back(tide_http1 *http1)
{
    if (http1->is_pulled)
        tide_buffer_clear(&http1->out);
    http1->is_pulled = false;
}

void tide_http1_refuse(tide_http1 *http1, int http_code, const char *message)
{
    if (http_code == 400)
        tide_count(&http1->context->counters.refused_malformed, 1);
    else if (http_code == 431)
        tide_count(&http1->context->counters.refused_headers, 1);
    take_back(http1);
    http1->is_kept_alive = false;
    http1->state = TIDE_HTTP1_CLOSE;
    const tide_status_details details = {
        .grpc_code = http_code >= 500 ? TIDE_GRPC_UNAVAILABLE : TIDE_GRPC_INVALID_ARGUMENT,
        .message = message,
    };
    TIDE_CLEANUP(tide_buffer_done) tide_buffer body = tide_buffer_of(PIECE_LEN);
    if (tide_status_details_json(&body, &details) != TIDE_OK ||
        append_head(http1, http_code, NULL) != TIDE_OK)
        return;
    TIDE_IGNORE(tide_buffer_printf(
        &http1->out, "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s\n",
        body.len + 1, tide_buffer_text(&body)));
}

void tide_http1_drop(tide_http1 *http1)
{
    tide_count(&http1->context->counters.refused_malformed, 1);
    http1->is_kept_alive = false;
    http1->state = TIDE_HTTP1_CLOSE;
}

void tide_http1_continue(tide_http1 *http1)
{
    take_back(http1);
    TIDE_IGNORE(tide_buffer_append_text(&http1->out, "HTTP/1.1 100 Continue\r\n\r\n"));
}

static void end_call(tide_http1 *http1)
{
    tide_call_leave(http1->call);
    http1->call = NULL;
    http1->is_answering = false;
    http1->has_served = true;
    http1->since_us = http1->now_us;
    http1->state = http1->is_kept_alive && !http1->is_draining ? TIDE_HTTP1_HEAD : TIDE_HTTP1_CLOSE;
}

static bool has_no_body(const tide_http1 *http1, int code)
{
    return http1->call->is_head || code == 204 || code == 304;
}

/* The head of the answer, and how its body will be marked off. */
static void begin_response(tide_http1 *http1, const tide_response *answer)
{
    tide_buffer *out = &http1->out;
    http1->is_answering = true;
    const bool is_bodiless = has_no_body(http1, answer->http_code);
    http1->is_chunked = !answer->is_whole && !http1->is_http10;
    if (!answer->is_whole && http1->is_http10)
        http1->is_kept_alive = false; /* the end of the connection is the end of the body */
    tide_status status = append_head(http1, answer->http_code, answer->head);
    if (status == TIDE_OK && http1->is_chunked)
        status = tide_buffer_append_text(out, "transfer-encoding: chunked\r\n");
    else if (status == TIDE_OK && answer->is_whole && answer->http_code != 204)
        status = tide_buffer_printf(out, "content-length: %zu\r\n", answer->body_len);
    if (status == TIDE_OK)
        status = tide_buffer_append_text(out, "\r\n");
    if (status != TIDE_OK) {
        tide_buffer_clear(out);
        http1->is_kept_alive = false;
        end_call(http1);
    } else if (is_bodiless) {
        end_call(http1);
    }
}

/* Some more of the body, in a chunk or plain. */
static void continue_response(tide_http1 *http1)
{
    tide_buffer *out = &http1->out;
    const size_t start = out->len;
    if (tide_buffer_reserve(out, PIECE_LEN + CHUNK_FRAME_LEN) != TIDE_OK)
        return;
    const size_t gap = http1->is_chunked ? CHUNK_SIZE_LEN : 0;
    bool is_end;
    const size_t len = tide_call_read(http1->call, out->ptr + start + gap, PIECE_LEN, &is_end);
    if (http1->is_chunked && len > 0) {
        char size[32];
        (void)snprintf(size, sizeof size, "%06zx\r\n", len);
        memcpy(out->ptr + start, size, gap);
        out->len = start + gap + len;
        out->ptr[out->len] = '\0';
        TIDE_IGNORE(tide_buffer_append_text(out, "\r\n"));
    } else {
        out->len = start + len;
        out->ptr[out->len] = '\0';
    }
    if (!is_end)
        return;
    if (tide_call_is_torn(http1->call))
        http1->is_kept_alive = false;
    else if (http1->is_chunked)
        TIDE_IGNORE(tide_buffer_append_text(out, "0\r\n\r\n"));
    end_call(http1);
}

static tide_view pull_http1(tide_conn *conn)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    take_back(http1);
    tide_response answer;
    if (http1->call && http1->out.len == 0) {
        if (!http1->is_answering && tide_call_response(http1->call, &answer)) {
            if (http1->state != TIDE_HTTP1_RESPONSE)
                http1->is_kept_alive = false; /* answered before the body was in */
            http1->state = TIDE_HTTP1_RESPONSE;
            begin_response(http1, &answer);
        }
        if (http1->call && http1->is_answering)
            continue_response(http1);
    }
    http1->is_pulled = true;
    const tide_view bytes = tide_buffer_view(&http1->out);
    if (bytes.len == 0 && !http1->call)
        tide_buffer_done(&http1->out); /* an idle connection costs little */
    return bytes;
}

/* Heads that do not come, connections that say nothing. */
static int64_t step_patience(tide_http1 *http1)
{
    tide_net_counters *counters = &http1->context->counters;
    const tide_net_limits *limits = &http1->context->limits;
    const bool is_idle = http1->has_served && http1->head.len == 0;
    const int64_t until_us = http1->since_us + (is_idle ? limits->idle_us : limits->header_us);
    if (http1->now_us < until_us)
        return until_us;
    tide_count(is_idle ? &counters->timeouts_idle : &counters->timeouts_header, 1);
    if (http1->head.len > 0)
        tide_http1_refuse(http1, 408, "the headers did not come in time");
    http1->state = TIDE_HTTP1_CLOSE;
    return INT64_MAX;
}

static int64_t step_http1(tide_conn *conn, int64_t now_us)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    http1->now_us = now_us;
    if (http1->call)
        return tide_call_step(http1->call, now_us);
    if (http1->state == TIDE_HTTP1_HEAD && http1->is_draining && http1->head.len == 0)
        http1->state = TIDE_HTTP1_CLOSE;
    return http1->state == TIDE_HTTP1_HEAD ? step_patience(http1) : INT64_MAX;
}

static void drain_http1(tide_conn *conn)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    http1->is_draining = true;
    if (!http1->is_answering)
        http1->is_kept_alive = false;
}

static bool is_http1_over(const tide_conn *conn)
{
    const tide_http1 *http1 = (const tide_http1 *)conn;
    return http1->state == TIDE_HTTP1_CLOSE && (http1->out.len == 0 || http1->is_pulled);
}

static void free_http1(tide_conn *conn)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    if (http1->call)
        tide_call_leave(http1->call);
    tide_buffer_done(&http1->head);
    tide_buffer_done(&http1->out);
    free(http1->peer);
    free(http1->certificate);
    tide_server_context_release(http1->context);
    free(http1);
}

static int64_t get_http1_idle_since(const tide_conn *conn)
{
    const tide_http1 *http1 = (const tide_http1 *)conn;
    const bool is_idle = http1->has_served && !http1->call && http1->head.len == 0;
    return is_idle ? http1->since_us : INT64_MAX;
}

const tide_conn_class tide_http1_class = {
    .free = free_http1,
    .feed = tide_http1_feed,
    .pull = pull_http1,
    .step = step_http1,
    .drain = drain_http1,
    .is_over = is_http1_over,
    .idle_since_us = get_http1_idle_since,
};
