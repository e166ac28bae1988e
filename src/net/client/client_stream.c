/* client_stream.c - what callers do with a transfer: begin, send, next, end; see client_parts.h. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "net/client/client_internal.h"

enum {
    GZIP_MIN_LEN = 1024,    /* shorter messages are not worth it */
    PACKED_SLACK = 1 << 16, /* what gzip may add to bytes that cannot be compressed, and prefixes */
    ERROR_BODY_MAX = 4096,  /* of an answer that is no gRPC */
    DETAILS_MAX = 16384,
};

/* ---- replies ---- */

void tide_client_reply_init(tide_client_reply *reply)
{
    *reply = (tide_client_reply){.retry_after_us = -1};
    tide_buffer_init(&reply->message, TIDE_CLIENT_MESSAGE_MAX);
    tide_buffer_init(&reply->details, DETAILS_MAX);
    tide_head_init(&reply->head, TIDE_CLIENT_HEAD_MAX);
    tide_head_init(&reply->trailers, TIDE_CLIENT_HEAD_MAX);
}

void tide_client_reply_done(tide_client_reply *reply)
{
    tide_buffer_done(&reply->message);
    tide_buffer_done(&reply->details);
    tide_head_done(&reply->head);
    tide_head_done(&reply->trailers);
}

/* ---- a transfer's life ---- */

static void free_stream(tide_client_stream *stream)
{
    curl_easy_cleanup(stream->easy);
    curl_slist_free_all(stream->fields);
    free(stream->url);
    tide_buffer_done(&stream->out);
    tide_client_message_free(stream->partial);
    while (stream->first) {
        tide_client_message *message = stream->first;
        stream->first = message->next;
        tide_client_message_free(message);
    }
    tide_client_reply_done(&stream->reply);
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void tide_client_release(tide_client_stream *stream)
{
    if (atomic_fetch_sub(&stream->refs, 1) == 1)
        free_stream(stream);
}

static void releasep(tide_client_stream **stream)
{
    if (*stream)
        tide_client_release(*stream);
}

void tide_client_finish(tide_client_stream *stream, CURLcode result)
{
    pthread_mutex_lock(&stream->lock);
    tide_client_answer_end(stream, result);
    stream->is_over = true;
    pthread_cond_broadcast(&stream->changed);
    const size_t held_len = stream->held_len;
    stream->held_len = 0;
    pthread_mutex_unlock(&stream->lock);
    if (held_len > 0)
        (void)atomic_fetch_sub(stream->client->options.held, (long long)held_len);
    if (stream->on_over)
        tide_client_finish_call(stream);
}

static tide_client_stream *new_stream(tide_client *client, bool is_grpc)
{
    tide_client_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->client = client;
    stream->is_grpc = is_grpc;
    atomic_init(&stream->refs, 1);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    tide_buffer_init(&stream->out,
                     client->options.message_max + client->options.queue_len + PACKED_SLACK);
    stream->last = &stream->first;
    stream->made_fd = -1;
    stream->corked_fd = -1;
    tide_client_reply_init(&stream->reply);
    tide_buffer_init(&stream->reply.message,
                     is_grpc ? (size_t)ERROR_BODY_MAX : client->options.message_max);
    return stream;
}

/* ---- what we say ---- */

static tide_status put_packed(tide_client_stream *stream, tide_view message, bool is_packed,
                              tide_error *err)
{
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    tide_grpc_prefix_encode(prefix, is_packed, (uint32_t)message.len);
    const size_t before_len = stream->out.len;
    tide_status status = TIDE_OK;
    if (stream->is_grpc)
        status = tide_buffer_append(&stream->out, prefix, sizeof prefix);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(&stream->out, message);
    if (status >= TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(&stream->out, before_len);
    return tide_fail(err, status, "no room for a message of %zu bytes", message.len);
}

static tide_status put_message(tide_client_stream *stream, tide_view message, tide_error *err)
{
    const tide_client_options *options = &stream->client->options;
    if (message.len > options->message_max)
        return tide_fail(err, TIDE_E_LIMIT, "a message of %zu bytes, at most %zu are sent",
                         message.len, options->message_max);
    if (!options->is_gzip || (stream->is_grpc && message.len < GZIP_MIN_LEN))
        return put_packed(stream, message, false, err);
    TIDE_CLEANUP(tide_buffer_done)
    tide_buffer packed = tide_buffer_of(options->message_max + PACKED_SLACK);
    TIDE_TRY(tide_gzip_append(&packed, message, 0, err));
    return put_packed(stream, tide_buffer_view(&packed), true, err);
}

tide_status tide_client_make(tide_client_stream **out, tide_client *client,
                             const tide_client_request *request, bool is_grpc, int64_t timeout_us,
                             tide_error *err)
{
    TIDE_CLEANUP(releasep) tide_client_stream *stream = new_stream(client, is_grpc);
    TIDE_NEED_MEMORY(stream, err);
    stream->is_idempotent = request->is_idempotent;
    stream->message_max = request->message_max ? request->message_max : client->options.message_max;
    stream->is_out_ended = !request->is_open;
    if (request->message.ptr || !request->is_open)
        TIDE_TRY(put_message(stream, request->message, err));
    stream->body_len = request->is_open ? -1 : (int64_t)stream->out.len;
    TIDE_TRY(tide_client_request_set(stream, request, timeout_us, err));
    *out = TIDE_TAKE(stream);
    return TIDE_OK;
}

tide_status tide_client_start(tide_client_stream **out, tide_client *client,
                              const tide_client_request *request, bool is_grpc, int64_t timeout_us,
                              tide_error *err)
{
    TIDE_TRY(tide_client_make(out, client, request, is_grpc, timeout_us, err));
    tide_client_wake(*out);
    return TIDE_OK;
}

tide_status tide_client_begin(tide_client_stream **out, tide_client *client,
                              const tide_client_request *request, tide_error *err)
{
    const int64_t timeout_us =
        request->timeout_us ? request->timeout_us : client->options.timeout_us;
    return tide_client_start(out, client, request, true, timeout_us, err);
}

static tide_status report_end(const tide_client_stream *stream, tide_error *err)
{
    if (stream->status >= TIDE_OK)
        return TIDE_NONE;
    const char *words = stream->text[0] ? stream->text : tide_status_get(stream->status)->text;
    return tide_fail(err, stream->status, "%s", words);
}

tide_status tide_client_send(tide_client_stream *stream, tide_view message, tide_error *err)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->is_over && !stream->is_cancelled &&
           stream->out.len - stream->out_at >= stream->client->options.queue_len)
        pthread_cond_wait(&stream->changed, &stream->lock);
    tide_status status = TIDE_OK;
    if (stream->is_over) {
        status = report_end(stream, err);
        if (status == TIDE_NONE)
            status = tide_fail(err, TIDE_E_INTERRUPTED, "the server has ended the call already");
    } else if (stream->is_out_ended) {
        status = tide_fail(err, TIDE_E_INTERRUPTED, "the server has ended the call already");
    } else {
        status = put_message(stream, message, err);
    }
    const bool was_paused = stream->is_out_paused;
    stream->is_out_paused = false;
    pthread_mutex_unlock(&stream->lock);
    if (was_paused)
        tide_client_wake(stream);
    return status;
}

void tide_client_send_end(tide_client_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_out_ended = true;
    stream->is_out_paused = false;
    pthread_mutex_unlock(&stream->lock);
    tide_client_wake(stream);
}

/* ---- what comes back ---- */

/* The first message; the sender goes on when half of what may wait has been taken. */
static bool pop_first(tide_client_stream *stream, tide_buffer *message)
{
    tide_client_message *taken = stream->first;
    stream->first = taken->next;
    if (!stream->first)
        stream->last = &stream->first;
    stream->queued_len -= taken->bytes.len;
    tide_buffer_done(message);
    *message = taken->bytes;
    free(taken);
    const bool goes_on =
        stream->is_in_paused && stream->queued_len <= stream->client->options.queue_len / 2;
    if (goes_on)
        stream->is_in_paused = false;
    return goes_on;
}

tide_status tide_client_next(tide_client_stream *stream, tide_buffer *message, tide_error *err)
{
    bool goes_on = false;
    tide_status status = TIDE_OK;
    pthread_mutex_lock(&stream->lock);
    while (!stream->first && !stream->is_over)
        pthread_cond_wait(&stream->changed, &stream->lock);
    /* What was given up is not read on. */
    const bool is_given_up = stream->is_over && stream->status == TIDE_E_INTERRUPTED;
    if (stream->first && !is_given_up)
        goes_on = pop_first(stream, message);
    else
        status = report_end(stream, err);
    pthread_mutex_unlock(&stream->lock);
    if (goes_on)
        tide_client_wake(stream);
    return status;
}

bool tide_client_is_ready(tide_client_stream *stream)
{
    TIDE_HOLD(&stream->lock);
    return stream->first || stream->is_over;
}

const tide_client_reply *tide_client_stream_reply(const tide_client_stream *stream)
{
    return &stream->reply;
}

void tide_client_cancel(tide_client_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->is_cancelled = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    tide_client_wake(stream);
}

void tide_client_end(tide_client_stream *stream)
{
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    const bool is_over = stream->is_over;
    pthread_mutex_unlock(&stream->lock);
    if (!is_over)
        tide_client_cancel(stream);
    tide_client_release(stream);
}
