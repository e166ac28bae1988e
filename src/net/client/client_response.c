/* client_response.c - what an answer means: its header lines, its end; see client_internal.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "base/text/json_tree.h"
#include "base/text/utf8.h"
#include "net/client/client_internal.h"
#include "net/codec/protobuf_wire.h"

enum { TEXT_MAX = 300, DETAILS_MAX = 16384 };

tide_status tide_client_status_of(int grpc_code)
{
    static const tide_status statuses[TIDE_GRPC_CODES] = {
        [TIDE_GRPC_OK] = TIDE_OK,
        [TIDE_GRPC_CANCELLED] = TIDE_E_INTERRUPTED,
        [TIDE_GRPC_UNKNOWN] = TIDE_E_FAILED,
        [TIDE_GRPC_INVALID_ARGUMENT] = TIDE_E_INVALID,
        [TIDE_GRPC_DEADLINE_EXCEEDED] = TIDE_E_TIMEOUT,
        [TIDE_GRPC_NOT_FOUND] = TIDE_E_NOT_FOUND,
        [TIDE_GRPC_ALREADY_EXISTS] = TIDE_E_EXISTS,
        [TIDE_GRPC_PERMISSION_DENIED] = TIDE_E_DENIED,
        [TIDE_GRPC_RESOURCE_EXHAUSTED] = TIDE_E_LIMIT,
        [TIDE_GRPC_FAILED_PRECONDITION] = TIDE_E_MISMATCH,
        [TIDE_GRPC_ABORTED] = TIDE_E_CONFLICT,
        [TIDE_GRPC_OUT_OF_RANGE] = TIDE_E_EXHAUSTED,
        [TIDE_GRPC_UNIMPLEMENTED] = TIDE_E_UNSUPPORTED,
        [TIDE_GRPC_INTERNAL] = TIDE_E_FAILED,
        [TIDE_GRPC_UNAVAILABLE] = TIDE_E_UNAVAILABLE,
        [TIDE_GRPC_DATA_LOSS] = TIDE_E_DAMAGED,
        [TIDE_GRPC_UNAUTHENTICATED] = TIDE_E_UNAUTHENTICATED,
    };
    return grpc_code >= 0 && grpc_code < TIDE_GRPC_CODES ? statuses[grpc_code] : TIDE_E_FAILED;
}

/* ---- header lines ---- */

/* Binary fields are decoded; what is no base64 is left out. */
static tide_status add_field(tide_headers *head, tide_view name, tide_view value)
{
    if (!tide_headers_is_binary(name))
        return tide_headers_add(head, name, value);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLIENT_HEAD_MAX);
    const tide_status status = tide_base64_decode(&bytes, value);
    if (status == TIDE_E_INVALID)
        return TIDE_OK;
    TIDE_TRY(status);
    return tide_headers_add(head, name, tide_buffer_view(&bytes));
}

static tide_view trim(tide_view text)
{
    while (text.len > 0 && isspace((unsigned char)text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && isspace((unsigned char)text.ptr[text.len - 1]))
        text.len--;
    return text;
}

void tide_client_response_line(tide_client_stream *stream, tide_view line)
{
    tide_client_response *reply = &stream->reply;
    line = trim(line);
    if (line.len >= 5 && memcmp(line.ptr, "HTTP/", 5) == 0) {
        /* An answer begins; one before it (1xx) does not count. */
        tide_headers_done(&reply->head);
        tide_headers_init(&reply->head, TIDE_CLIENT_HEAD_MAX);
        stream->has_head = false;
        return;
    }
    if (line.len == 0) {
        stream->has_head = true;
        return;
    }
    const char *colon = memchr(line.ptr, ':', line.len);
    if (!colon)
        return;
    const tide_view name = trim(tide_view_bytes(line.ptr, (size_t)(colon - line.ptr)));
    const tide_view value =
        trim(tide_view_bytes(colon + 1, line.len - (size_t)(colon - line.ptr) - 1));
    tide_headers *head = stream->has_head ? &reply->trailers : &reply->head;
    const tide_status status = add_field(head, name, value);
    if (status >= TIDE_OK)
        return;
    stream->failure = status;
    (void)snprintf(stream->failure_text, sizeof stream->failure_text,
                   "the header fields of the answer have more than %d bytes", TIDE_CLIENT_HEAD_MAX);
}

/* ---- advice about another try ---- */

static tide_view find_bytes(tide_view message, uint32_t number, int at)
{
    tide_reader reader = tide_reader_of(message);
    tide_wire_field field = {.number = 0};
    while (tide_wire_next(&reader, &field, NULL) == TIDE_OK)
        if (field.number == number && field.type == TIDE_WIRE_BYTES && at-- == 0)
            return field.bytes;
    return (tide_view){NULL, 0};
}

static int64_t find_number(tide_view message, uint32_t number)
{
    tide_reader reader = tide_reader_of(message);
    tide_wire_field field = {.number = 0};
    while (tide_wire_next(&reader, &field, NULL) == TIDE_OK)
        if (field.number == number && field.type == TIDE_WIRE_VARINT)
            return (int64_t)field.value;
    return 0;
}

int64_t tide_client_retry_delay(tide_view details)
{
    static const char type[] = "type.googleapis.com/google.rpc.RetryInfo";
    for (int i = 0; i < 32; i++) {
        const tide_view any = find_bytes(details, 3, i);
        if (!any.ptr)
            break;
        if (!tide_view_equal(find_bytes(any, 1, 0), tide_view_of(type)))
            continue;
        const tide_view delay = find_bytes(find_bytes(any, 2, 0), 1, 0);
        const int64_t seconds = find_number(delay, 1);
        const int64_t nanos = find_number(delay, 2);
        if (seconds < 0 || nanos < 0 || nanos > 999999999)
            return -1;
        return seconds > INT64_MAX / 1000000 - 1 ? INT64_MAX : seconds * 1000000 + nanos / 1000;
    }
    return -1;
}

/* A whole number of units, as microseconds; < 0: it is none. */
static int64_t read_wait(const char *text, int64_t unit_us)
{
    char *end = NULL;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || number < 0)
        return -1;
    return number > INT64_MAX / unit_us ? INT64_MAX : number * unit_us;
}

static const char *find_text(const tide_client_response *reply, const char *name)
{
    const char *text = tide_headers_text(&reply->trailers, name);
    return text ? text : tide_headers_text(&reply->head, name);
}

static void read_advice(tide_client_stream *stream)
{
    tide_client_response *reply = &stream->reply;
    const char *pushback = find_text(reply, "grpc-retry-pushback-ms");
    const char *after = tide_headers_text(&reply->head, "retry-after");
    reply->retry_after_us = -1;
    if (reply->details.len > 0)
        reply->retry_after_us = tide_client_retry_delay(tide_buffer_view(&reply->details));
    if (pushback) {
        reply->retry_after_us = read_wait(pushback, 1000);
        stream->is_retry_refused = reply->retry_after_us < 0;
    } else if (after && reply->retry_after_us < 0) {
        reply->retry_after_us = read_wait(after, 1000000); /* a date is no advice here */
    }
}

/* ---- how it ended ---- */

static void set_end(tide_client_stream *stream, tide_status status, int grpc_code, const char *text)
{
    stream->status = status;
    stream->reply.grpc_code = grpc_code;
    (void)snprintf(stream->text, sizeof stream->text, "%s", text);
}

static void decode_percent(char *out, size_t size, const char *text)
{
    size_t len = 0;
    for (; *text && len + 1 < size; text++) {
        unsigned int byte = (unsigned char)*text;
        if (*text == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2])) {
            const char digits[] = {text[1], text[2], '\0'};
            byte = (unsigned int)strtoul(digits, NULL, 16);
            text += 2;
        }
        out[len++] = byte >= ' ' ? (char)byte : ' ';
    }
    out[tide_utf8_cut(tide_view_bytes(out, len), len).len] = '\0';
}

/* The server has said how it ended. */
static void end_by_status(tide_client_stream *stream, const char *code_text)
{
    tide_client_response *reply = &stream->reply;
    const char *message = find_text(reply, "grpc-message");
    const tide_header_field *details =
        tide_headers_find(&reply->trailers, "grpc-status-details-bin");
    char words[TIDE_ERROR_TEXT_MAX] = "";
    char *end = NULL;
    const long number = strtol(code_text, &end, 10);
    const bool is_code = *code_text && *end == '\0' && number >= 0 && number < TIDE_GRPC_CODES;
    const int code = is_code ? (int)number : TIDE_GRPC_UNKNOWN;
    if (!details)
        details = tide_headers_find(&reply->head, "grpc-status-details-bin");
    if (details && details->value_len <= DETAILS_MAX)
        TIDE_IGNORE(tide_buffer_append(&reply->details, details->value, details->value_len));
    if (message)
        decode_percent(words, sizeof words, message);
    set_end(stream, tide_client_status_of(code), code, words);
    if (code == TIDE_GRPC_OK && stream->prefix_len > 0)
        set_end(stream, TIDE_E_DAMAGED, TIDE_GRPC_INTERNAL, "the answer ends inside a message");
    read_advice(stream);
}

/* gRPC's own table of what an answer without a status means. */
static int get_code_of_http(int http_code)
{
    switch (http_code) {
    case 400:
        return TIDE_GRPC_INTERNAL;
    case 401:
        return TIDE_GRPC_UNAUTHENTICATED;
    case 403:
        return TIDE_GRPC_PERMISSION_DENIED;
    case 404:
        return TIDE_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return TIDE_GRPC_UNAVAILABLE;
    default:
        return TIDE_GRPC_UNKNOWN;
    }
}

static tide_status get_status_of_http(int http_code)
{
    static const struct {
        int http_code;
        tide_status status;
    } rows[] = {{400, TIDE_E_INVALID},     {401, TIDE_E_UNAUTHENTICATED}, {403, TIDE_E_DENIED},
                {404, TIDE_E_NOT_FOUND},   {408, TIDE_E_TIMEOUT},         {409, TIDE_E_CONFLICT},
                {412, TIDE_E_MISMATCH},    {413, TIDE_E_LIMIT},           {415, TIDE_E_UNSUPPORTED},
                {429, TIDE_E_BUSY},        {499, TIDE_E_INTERRUPTED},     {501, TIDE_E_UNSUPPORTED},
                {502, TIDE_E_UNAVAILABLE}, {503, TIDE_E_UNAVAILABLE},     {504, TIDE_E_TIMEOUT},
                {507, TIDE_E_FULL}};
    if (http_code >= 200 && http_code < 300)
        return TIDE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].http_code == http_code)
            return rows[i].status;
    return TIDE_E_FAILED;
}

/* "message" of a JSON error, or the body's beginning. */
static void fill_failure_text(char out[TIDE_ERROR_TEXT_MAX], const tide_client_response *reply)
{
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *root = NULL;
    TIDE_IGNORE(tide_json_tree_read(&root, tide_buffer_view(&reply->message), NULL));
    const char *message = tide_json_node_text(tide_json_node_find(root, "message"));
    const tide_view body = tide_utf8_cut(
        message ? tide_view_of(message) : tide_buffer_view(&reply->message), TEXT_MAX);
    char words[TEXT_MAX + 1];
    memcpy(words, body.len ? body.ptr : "", body.len);
    words[body.len] = '\0';
    for (char *at = words; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    (void)snprintf(out, TIDE_ERROR_TEXT_MAX, "HTTP %d%s%s", reply->http_code, *words ? ": " : "",
                   words);
}

static void end_by_http(tide_client_stream *stream)
{
    tide_client_response *reply = &stream->reply;
    char words[TIDE_ERROR_TEXT_MAX];
    fill_failure_text(words, reply);
    read_advice(stream);
    if (!stream->is_grpc) {
        const tide_status status = get_status_of_http(reply->http_code);
        set_end(stream, status,
                status == TIDE_OK ? TIDE_GRPC_OK : tide_status_get(status)->grpc_code,
                status == TIDE_OK ? "" : words);
    } else if (reply->http_code == 200) {
        set_end(stream, TIDE_E_DAMAGED, TIDE_GRPC_UNKNOWN, "the answer has no gRPC status");
    } else {
        const int code = get_code_of_http(reply->http_code);
        set_end(stream, tide_client_status_of(code), code, words);
    }
}

static bool is_certificate_trouble(CURLcode result)
{
    return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CERTPROBLEM ||
           result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_ISSUER_ERROR ||
           result == CURLE_SSL_INVALIDCERTSTATUS || result == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

/* No answer, or half of one. */
static void end_by_failure(tide_client_stream *stream, CURLcode result)
{
    char words[TIDE_ERROR_TEXT_MAX];
    (void)snprintf(words, sizeof words, "%s: %s", stream->client->options.target,
                   result == CURLE_ABORTED_BY_CALLBACK ? "the connection broke under way"
                                                       : curl_easy_strerror(result));
    stream->was_unsent = stream->request_count == 0;
    if (result == CURLE_OUT_OF_MEMORY)
        set_end(stream, TIDE_E_NOMEM, TIDE_GRPC_RESOURCE_EXHAUSTED, words);
    else if (is_certificate_trouble(result))
        set_end(stream, TIDE_E_DENIED, TIDE_GRPC_UNAVAILABLE, words);
    else if (result == CURLE_OPERATION_TIMEDOUT && !stream->was_unsent)
        set_end(stream, TIDE_E_TIMEOUT, TIDE_GRPC_DEADLINE_EXCEEDED,
                "the deadline has passed without an answer");
    else if (stream->was_unsent || stream->is_idempotent)
        set_end(stream, TIDE_E_UNAVAILABLE, TIDE_GRPC_UNAVAILABLE, words);
    else
        set_end(stream, TIDE_E_OUTCOME_UNKNOWN, TIDE_GRPC_UNKNOWN, words);
}

void tide_client_response_end(tide_client_stream *stream, CURLcode result)
{
    long http_code = 0;
    const char *code = find_text(&stream->reply, "grpc-status");
    (void)curl_easy_getinfo(stream->easy, CURLINFO_RESPONSE_CODE, &http_code);
    stream->reply.http_code = (int)http_code;
    stream->reply.is_too_large = stream->failure == TIDE_E_LIMIT;
    if (stream->failure < TIDE_OK)
        set_end(stream, stream->failure, tide_status_get(stream->failure)->grpc_code,
                stream->failure_text);
    else if (stream->is_cancelled)
        set_end(stream, TIDE_E_INTERRUPTED, TIDE_GRPC_CANCELLED, "the call was given up");
    else if (stream->is_grpc && code)
        end_by_status(stream, code);
    else if (result != CURLE_OK)
        end_by_failure(stream, result);
    else
        end_by_http(stream);
}
