/* http1.c - HTTP/1.1 for calls: heads, bodies, time. */
#include "net/http/http1.h"

#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum { OUT_MAX = 256 * 1024, TARGET_MAX = 8192 };

/* A head while http-parser reads it. */
typedef struct parse {
    tide_head head;
    tide_buffer target;
    tide_view name;
    tide_view value;
    bool has_value;
    tide_status status;
    bool is_complete;
} parse;

static int add_pending(parse *p)
{
    if (!p->has_value)
        return 0;
    p->has_value = false;
    while (p->value.len > 0 &&
           (p->value.ptr[p->value.len - 1] == ' ' || p->value.ptr[p->value.len - 1] == '\t'))
        p->value.len--;
    const tide_status status = tide_head_add(&p->head, p->name, p->value);
    p->name = p->value = tide_view_bytes(NULL, 0);
    if (status != TIDE_OK && p->status == TIDE_OK)
        p->status = status;
    return status == TIDE_E_NOMEM;
}

/* The whole head lies in one piece of memory: parts of a name or value follow each other. */
static void extend(tide_view *view, const char *at, size_t len)
{
    if (view->ptr)
        view->len = (size_t)(at + len - view->ptr);
    else
        *view = tide_view_bytes(at, len);
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    parse *p = parser->data;
    return tide_buffer_append(&p->target, at, len) != TIDE_OK;
}

static int on_field(http_parser *parser, const char *at, size_t len)
{
    parse *p = parser->data;
    const int failed = add_pending(p);
    extend(&p->name, at, len);
    return failed;
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
    parse *p = parser->data;
    p->has_value = true;
    extend(&p->value, at, len);
    return 0;
}

static int on_complete(http_parser *parser)
{
    parse *p = parser->data;
    p->is_complete = true;
    return add_pending(p);
}

static const http_parser_settings SETTINGS = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_complete,
};

/* "http://host/path" is as good as "/path". */
static void make_origin_form(tide_buffer *target)
{
    struct http_parser_url url;
    http_parser_url_init(&url);
    if (target->ptr[0] == '/' || http_parser_parse_url(target->ptr, target->len, 0, &url) != 0 ||
        !(url.field_set & (1U << UF_PATH)))
        return;
    const size_t at = url.field_data[UF_PATH].off;
    memmove(target->ptr, target->ptr + at, target->len - at + 1);
    target->len -= at;
}

/* What must not be answered at all by a call. NULL: fine. */
static const char *check_framing(const http_parser *parser, const tide_head *head)
{
    const char *coding = tide_head_text(head, "transfer-encoding");
    if (tide_head_count(head, "content-length") > 1)
        return "more than one Content-Length";
    if (coding && tide_head_find(head, "content-length"))
        return "both Content-Length and Transfer-Encoding";
    if (coding &&
        (tide_head_count(head, "transfer-encoding") > 1 || strcasecmp(coding, "chunked") != 0))
        return "a Transfer-Encoding other than chunked";
    if (coding && parser->http_minor == 0)
        return "Transfer-Encoding in HTTP/1.0";
    const size_t hosts = tide_head_count(head, "host");
    if (hosts > 1 || (hosts == 0 && parser->http_minor == 1))
        return "not exactly one Host";
    return NULL;
}

static bool wants_continue(tide_http1 *http1, bool *is_refused)
{
    const char *expected = tide_head_text(&http1->call->request, "expect");
    *is_refused = false;
    if (!expected || http1->is_http10)
        return false;
    *is_refused = strcasecmp(expected, "100-continue") != 0;
    return !*is_refused;
}

/* The call is open: what follows its head? */
static void begin_body(tide_http1 *http1, const http_parser *parser)
{
    tide_call *call = http1->call;
    const bool is_chunked = tide_head_find(&call->request, "transfer-encoding") != NULL;
    const bool has_length = tide_head_find(&call->request, "content-length") != NULL;
    http1->body_left = has_length ? parser->content_length : 0;
    if (!is_chunked && http1->body_left == 0) {
        http1->state = TIDE_HTTP1_ANSWER;
        tide_call_feed_end(call);
        return;
    }
    bool is_refused;
    const bool is_asked = wants_continue(http1, &is_refused);
    if (is_refused)
        tide_call_refuse(call, TIDE_GRPC_FAILED_PRECONDITION, 417, 0,
                         "only 100-continue can be expected");
    if (!tide_call_wants_body(call)) {
        http1->is_kept_alive = false; /* the body will not be read */
        http1->state = TIDE_HTTP1_ANSWER;
        return;
    }
    if (is_asked)
        tide_http1_continue(http1);
    tide_chunk_init(&http1->chunks);
    http1->state = is_chunked ? TIDE_HTTP1_CHUNKED_BODY : TIDE_HTTP1_LENGTH_BODY;
}

static void open_call(tide_http1 *http1, const http_parser *parser, parse *p)
{
    const tide_call_origin origin = {
        .method = http_method_str((enum http_method)parser->method),
        .target = p->target.ptr,
        .peer = http1->peer,
        .certificate = http1->certificate,
        .is_head_too_large = p->status == TIDE_E_LIMIT,
        .head = &p->head,
        .wake = http1->wake,
        .wake_arg = http1->wake_arg,
    };
    http1->is_http10 = parser->http_minor == 0;
    http1->is_kept_alive = http_should_keep_alive(parser) && !http1->is_draining;
    http1->call = tide_call_open(http1->site, &origin);
    if (http1->call)
        begin_body(http1, parser);
    else
        tide_http1_refuse(http1, 503, "no memory");
}

static void parse_done(parse *p)
{
    tide_head_done(&p->head);
    tide_buffer_done(&p->target);
}

static void read_head(tide_http1 *http1)
{
    const tide_view bytes = tide_buffer_view(&http1->head);
    const char *wrong = tide_http1_check_head(bytes);
    if (wrong) {
        tide_http1_refuse(http1, 400, wrong);
        return;
    }
    TIDE_CLEANUP(parse_done) parse p = {0};
    tide_head_init(&p.head, (size_t)http1->site->limits.header_list_len);
    tide_buffer_init(&p.target, TARGET_MAX);
    http_parser parser;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &p;
    (void)http_parser_execute(&parser, &SETTINGS, bytes.ptr, bytes.len);
    const enum http_errno failed = HTTP_PARSER_ERRNO(&parser);
    if (p.target.len + 1 > TARGET_MAX || (failed == HPE_CB_url)) {
        tide_http1_refuse(http1, 414, "the target is too long");
        return;
    }
    if (failed != HPE_OK || !p.is_complete || p.target.len == 0) {
        tide_http1_refuse(http1, 400, http_errno_description(failed));
        return;
    }
    wrong = check_framing(&parser, &p.head);
    if (wrong) {
        tide_http1_refuse(http1, 400, wrong);
        return;
    }
    make_origin_form(&p.target);
    open_call(http1, &parser, &p);
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
        tide_http1_refuse(http1, 503, "no memory");
        return bytes.len;
    }
    /* An empty line ends the head also where its CR is missing: the guard then refuses it. */
    const char *end = memmem(head->ptr + from, head->len - from, "\n\r\n", 3);
    size_t end_len = 3;
    const char *bare = memmem(head->ptr + from, head->len - from, "\n\n", 2);
    if (bare && (!end || bare < end)) {
        end = bare;
        end_len = 2;
    }
    if (!end) {
        if (head->len == head->max) {
            tide_count(&http1->site->counters.refused_headers, 1);
            tide_http1_refuse(http1, 431, "the header fields are too long");
        }
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
    http1->state = TIDE_HTTP1_ANSWER;
    tide_call_feed_end(http1->call);
}

static size_t feed_length(tide_http1 *http1, tide_view bytes)
{
    const size_t part = bytes.len < http1->body_left ? bytes.len : (size_t)http1->body_left;
    tide_call_feed(http1->call, tide_view_bytes(bytes.ptr, part));
    http1->body_left -= part;
    if (http1->body_left == 0)
        end_body(http1);
    return part;
}

static size_t feed_chunks(tide_http1 *http1, tide_view bytes)
{
    tide_view left = bytes;
    while (left.len > 0) {
        tide_view data;
        tide_chunk_next(&http1->chunks, &left, &data);
        if (data.len > 0)
            tide_call_feed(http1->call, data);
        if (http1->chunks.state == TIDE_CHUNK_DONE) {
            end_body(http1);
            break;
        }
        if (http1->chunks.state == TIDE_CHUNK_BAD) {
            tide_count(&http1->site->counters.refused_malformed, 1);
            tide_call_refuse(http1->call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0, "a malformed chunk");
            break;
        }
    }
    return bytes.len - left.len;
}

size_t tide_http1_feed(tide_conn *conn, tide_view bytes, int64_t now_us)
{
    tide_http1 *http1 = (tide_http1 *)conn;
    http1->now_us = now_us;
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
        case TIDE_HTTP1_ANSWER:
            break;
        case TIDE_HTTP1_CLOSE:
            part = left.len; /* nobody listens */
            break;
        }
        /* A call that ended before its body did is answered at once; the rest is not for the next request. */
        if ((http1->state == TIDE_HTTP1_LENGTH_BODY || http1->state == TIDE_HTTP1_CHUNKED_BODY) &&
            !tide_call_wants_body(http1->call)) {
            http1->is_kept_alive = false;
            http1->state = TIDE_HTTP1_ANSWER;
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
    http1->site = setup->site;
    tide_site_hold(http1->site);
    http1->peer = strdup(setup->peer);
    http1->certificate = setup->certificate ? strdup(setup->certificate) : NULL;
    http1->wake = setup->wake;
    http1->wake_arg = setup->wake_arg;
    http1->now_us = http1->since_us = now_us;
    tide_buffer_init(&http1->head, (size_t)http1->site->limits.header_list_len);
    tide_buffer_init(&http1->out, OUT_MAX);
    if (!http1->peer || (setup->certificate && !http1->certificate)) {
        tide_http1_class.free(&http1->conn);
        return NULL;
    }
    return &http1->conn;
}
