/* client_transfer.c - libcurl's callbacks: bytes in and out of a transfer; see client_internal.h.
 * All run on the client's thread. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "net/client/client_internal.h"

void tide_client_message_free(tide_client_message *message)
{
    if (!message)
        return;
    tide_buffer_done(&message->bytes);
    free(message);
}

/* Our own failure: the transfer is broken off. */
static void fail(tide_client_stream *stream, tide_status status, const char *format, ...)
    TIDE_PRINTF(3, 4);

static void fail(tide_client_stream *stream, tide_status status, const char *format, ...)
{
    if (stream->failure < TIDE_OK)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(stream->failure_text, sizeof stream->failure_text, format, args);
    va_end(args);
    stream->failure = status;
}

/* ---- what we say ---- */

static size_t give_bytes(char *out, size_t size, size_t count, void *arg)
{
    tide_client_stream *stream = arg;
    TIDE_HOLD(&stream->lock);
    size_t len = stream->out.len - stream->out_at;
    if (len > size * count)
        len = size * count;
    if (len > 0)
        memcpy(out, stream->out.ptr + stream->out_at, len);
    stream->out_at += len;
    if (stream->out_at == stream->out.len) {
        tide_buffer_clear(&stream->out);
        stream->out_at = 0;
    }
    if (len == 0 && !stream->is_out_ended) {
        stream->is_out_paused = true;
        len = CURL_READFUNC_PAUSE;
    }
    pthread_cond_broadcast(&stream->changed);
    return len;
}

/* There is a connection, and the request goes out next. libcurl sends it again by itself when a
 * connection that was used before breaks without an answer; but the server may have done what it
 * was asked by then. */
/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type */
static int begin_request(void *arg, char *to, char *from, int to_port, int from_port)
{
    (void)to;
    (void)from;
    (void)to_port;
    tide_client_stream *stream = arg;
    tide_client_connect_made(stream);
    tide_client_connect_cork(stream, from_port);
    stream->request_count++;
    return stream->request_count == 1 || stream->is_idempotent ? CURL_PREREQFUNC_OK
                                                               : CURL_PREREQFUNC_ABORT;
}

/* What is there as a whole travels with the headers: a server that answers without reading it (no
 * such method, no such token) resets the stream, and libcurl 7.88 loses the answer when it is still
 * sending then. */
static void set_body(tide_client_stream *stream)
{
    CURL *easy = stream->easy;
    (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)stream->body_len);
    if (stream->body_len >= 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, tide_buffer_text(&stream->out));
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, stream);
}

/* ---- what comes back ---- */

static tide_client_message *new_message(const tide_client_stream *stream)
{
    tide_client_message *message = calloc(1, sizeof *message);
    if (message)
        tide_buffer_init(&message->bytes, stream->message_max);
    return message;
}

/* A compressed message replaces itself by what it unpacks to. */
static bool unpack(tide_client_stream *stream, tide_client_message *message)
{
    const char *encoding = tide_headers_text(&stream->reply.head, "grpc-encoding");
    tide_error err = {.status = TIDE_OK};
    tide_buffer packed = message->bytes;
    tide_buffer_init(&message->bytes, stream->message_max);
    const tide_status status = tide_inflate(&message->bytes, tide_buffer_view(&packed),
                                            encoding ? encoding : "identity", &err);
    tide_buffer_done(&packed);
    if (status < TIDE_OK)
        fail(stream, status == TIDE_E_INVALID ? TIDE_E_DAMAGED : status,
             "a message cannot be unpacked: %s", err.text);
    return status >= TIDE_OK;
}

static bool queue_message(tide_client_stream *stream)
{
    tide_client_message *message = stream->partial;
    stream->partial = NULL;
    stream->prefix_len = 0;
    if ((stream->prefix[0] & 1) != 0 && !unpack(stream, message)) {
        tide_client_message_free(message);
        return false;
    }
    stream->queued_len += message->bytes.len;
    *stream->last = message;
    stream->last = &message->next;
    pthread_cond_broadcast(&stream->changed);
    return true;
}

/* The five bytes before a message. */
static bool receive_prefix(tide_client_stream *stream, tide_view *bytes)
{
    while (stream->prefix_len < TIDE_GRPC_PREFIX_LEN && bytes->len > 0) {
        stream->prefix[stream->prefix_len++] = (uint8_t)*bytes->ptr++;
        bytes->len--;
    }
    if (stream->prefix_len < TIDE_GRPC_PREFIX_LEN)
        return true;
    bool is_compressed = false;
    tide_grpc_prefix_decode(stream->prefix, &is_compressed, &stream->message_len);
    if (stream->prefix[0] > 1) {
        fail(stream, TIDE_E_DAMAGED, "the answer is not gRPC: a message begins with 0x%02x",
             stream->prefix[0]);
        return false;
    }
    if (stream->message_len > stream->message_max) {
        fail(stream, TIDE_E_LIMIT, "a message of %u bytes, at most %zu are taken",
             stream->message_len, stream->message_max);
        return false;
    }
    stream->partial = new_message(stream);
    if (!stream->partial)
        fail(stream, TIDE_E_NOMEM, "%s", tide_status_get(TIDE_E_NOMEM)->text);
    return stream->partial;
}

/* Memory follows the bytes that really come, not the length that is announced. */
static bool receive_body(tide_client_stream *stream, tide_view *bytes)
{
    tide_buffer *message = &stream->partial->bytes;
    size_t len = stream->message_len - message->len;
    if (len > bytes->len)
        len = bytes->len;
    if (tide_buffer_append(message, bytes->ptr, len) < TIDE_OK) {
        fail(stream, TIDE_E_NOMEM, "%s", tide_status_get(TIDE_E_NOMEM)->text);
        return false;
    }
    if (stream->client->options.held) {
        (void)atomic_fetch_add(stream->client->options.held, (long long)len);
        stream->held_len += len;
    }
    bytes->ptr += len;
    bytes->len -= len;
    return message->len < stream->message_len || queue_message(stream);
}

static bool receive_frames(tide_client_stream *stream, tide_view bytes)
{
    while (bytes.len > 0) {
        if (!stream->partial && !receive_prefix(stream, &bytes))
            return false;
        if (stream->partial && !receive_body(stream, &bytes))
            return false;
    }
    return true;
}

/* The body of a post, or what a server sends that does not speak gRPC. */
static bool receive_plain(tide_client_stream *stream, tide_view bytes)
{
    tide_buffer *body = &stream->reply.message;
    const tide_status status = tide_buffer_append_view(body, bytes);
    if (status == TIDE_E_LIMIT && stream->is_grpc)
        return true; /* it is shown to people only */
    if (status < TIDE_OK)
        fail(stream, status, "the answer has more than %zu bytes", body->max);
    return status >= TIDE_OK;
}

static bool speaks_grpc(const tide_client_stream *stream)
{
    static const char type[] = "application/grpc";
    const char *given = tide_headers_text(&stream->reply.head, "content-type");
    return stream->is_grpc && given && strncmp(given, type, sizeof type - 1) == 0;
}

static size_t receive_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    tide_client_stream *stream = arg;
    const size_t len = size * count;
    size_t taken = len;
    TIDE_HOLD(&stream->lock);
    if (speaks_grpc(stream)) {
        if (!stream->on_over && stream->queued_len > stream->client->options.queue_len) {
            stream->is_in_paused = true;
            taken = CURL_WRITEFUNC_PAUSE;
        } else if (!receive_frames(stream, tide_view_bytes(bytes, len))) {
            taken = 0;
        }
    } else if (!receive_plain(stream, tide_view_bytes(bytes, len))) {
        taken = 0;
    }
    return taken;
}

static bool has_status(const tide_client_stream *stream)
{
    return tide_headers_find(&stream->reply.head, "grpc-status") ||
           tide_headers_find(&stream->reply.trailers, "grpc-status");
}

static size_t receive_line(char *bytes, size_t size, size_t count, void *arg)
{
    tide_client_stream *stream = arg;
    const size_t len = size * count;
    pthread_mutex_lock(&stream->lock);
    tide_client_response_line(stream, tide_view_bytes(bytes, len));
    const bool is_good = stream->failure >= TIDE_OK;
    /* The server has ended the call: nothing more is sent, or libcurl would wait for it. */
    const bool is_ended = stream->is_grpc && !stream->is_out_ended && has_status(stream);
    if (is_ended)
        stream->is_out_ended = true;
    pthread_mutex_unlock(&stream->lock);
    if (is_ended)
        tide_client_wake(stream);
    return is_good ? len : 0;
}

void tide_client_transfer_set(tide_client_stream *stream)
{
    CURL *easy = stream->easy;
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, stream);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, begin_request);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, stream);
    set_body(stream);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive_bytes);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, stream);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, receive_line);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, stream);
}
