/* client_call.c - whole calls, tried again where that is safe: see client.h. */

#include "base/cleanup.h"

#include <string.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "net/client/client_internal.h"

/* How one try ended. */
typedef struct outcome {
    tide_status status;
    bool was_unsent;
    bool is_retry_refused;
} outcome;

/* ---- one try ---- */

/* What the stream has learnt becomes the caller's. */
static void move_response(tide_client_response *reply, tide_client_stream *stream, bool has_body)
{
    tide_client_response *from = &stream->reply;
    const tide_headers head = reply->head;
    const tide_headers trailers = reply->trailers;
    const tide_buffer details = reply->details;
    reply->head = from->head;
    reply->trailers = from->trailers;
    reply->details = from->details;
    reply->http_code = from->http_code;
    reply->grpc_code = from->grpc_code;
    reply->is_too_large = from->is_too_large;
    reply->retry_after_us = from->retry_after_us;
    from->head = head; /* freed with the stream */
    from->trailers = trailers;
    from->details = details;
    if (has_body) {
        const tide_buffer message = reply->message;
        reply->message = from->message;
        from->message = message;
    }
}

/* Exactly one message, then the end. */
static tide_status receive_one(tide_client_stream *stream, tide_buffer *message, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer extra = tide_buffer_of(0);
    tide_status status = tide_client_next(stream, message, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_DAMAGED, "the server has answered without a message");
    TIDE_TRY(status);
    status = tide_client_next(stream, &extra, err);
    if (status == TIDE_OK) {
        tide_client_cancel(stream);
        return tide_fail(err, TIDE_E_DAMAGED, "the server has answered with several messages");
    }
    return status == TIDE_NONE ? TIDE_OK : status;
}

static outcome try_once(tide_client *client, const tide_client_request *request, bool is_grpc,
                        int64_t timeout_us, tide_client_response *reply, tide_error *err)
{
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *stream = NULL;
    outcome ended = {.is_retry_refused = true};
    ended.status = tide_client_start(&stream, client, request, is_grpc, timeout_us, err);
    if (ended.status < TIDE_OK)
        return ended;
    tide_buffer_clear(&reply->message);
    if (is_grpc)
        ended.status = receive_one(stream, &reply->message, err);
    else
        ended.status = tide_client_next(stream, &reply->message, err);
    if (ended.status == TIDE_NONE)
        ended.status = TIDE_OK;
    TIDE_HOLD(&stream->lock);
    if (stream->is_over) {
        ended.was_unsent = stream->was_unsent;
        ended.is_retry_refused = stream->is_retry_refused;
        move_response(reply, stream, !is_grpc);
    }
    return ended;
}

/* ---- again? ---- */

static bool is_retry_code(const tide_client_response *reply, bool is_grpc)
{
    if (!is_grpc)
        return reply->http_code == 429 || reply->http_code == 503;
    return reply->grpc_code == TIDE_GRPC_UNAVAILABLE ||
           reply->grpc_code == TIDE_GRPC_RESOURCE_EXHAUSTED ||
           reply->grpc_code == TIDE_GRPC_ABORTED;
}

static bool is_unavailable(const tide_client_response *reply, tide_status status, bool is_grpc)
{
    if (!is_grpc && reply->http_code != 0)
        return reply->http_code >= 502 && reply->http_code <= 504;
    return status == TIDE_E_UNAVAILABLE;
}

static bool may_try_again(const outcome *ended, const tide_client_request *request,
                          const tide_client_response *reply, bool is_grpc)
{
    if (ended->status >= TIDE_OK || ended->is_retry_refused)
        return false;
    if (ended->was_unsent)
        return ended->status == TIDE_E_UNAVAILABLE;
    if (reply->retry_after_us >= 0 && is_retry_code(reply, is_grpc))
        return true;
    return request->is_idempotent && is_unavailable(reply, ended->status, is_grpc);
}

/* False: the client was stopped. */
static bool wait_for(tide_client *client, int64_t wait_us)
{
    const int64_t until_us = tide_cond_until(wait_us);
    TIDE_HOLD(&client->lock);
    bool is_waiting = true;
    while (is_waiting && !client->is_stopping)
        is_waiting = tide_cond_wait(&client->stopped, &client->lock, until_us);
    const bool is_stopping = client->is_stopping;
    return !is_stopping;
}

static int64_t get_left_us(int64_t until_us)
{
    return until_us == INT64_MAX ? INT64_MAX : until_us - tide_cond_until(0);
}

static int64_t get_wait_us(tide_client *client, const tide_client_response *reply, int attempt)
{
    const int64_t own_us = tide_backoff_next(&client->options.backoff, attempt, client->env);
    const int64_t advised_us = reply->retry_after_us;
    /* All clients get the same advice: what varies comes on top. */
    if (advised_us <= 0)
        return own_us;
    return advised_us > INT64_MAX - own_us ? INT64_MAX : advised_us + own_us / 4;
}

static tide_status run(tide_client *client, const tide_client_request *request, bool is_grpc,
                       tide_client_response *reply, tide_error *err)
{
    const int64_t timeout_us =
        request->timeout_us ? request->timeout_us : client->options.timeout_us;
    const int64_t until_us = timeout_us == INT64_MAX ? INT64_MAX : tide_cond_until(timeout_us);
    for (int attempt = 0;; attempt++) {
        const int64_t left_us = get_left_us(until_us);
        if (left_us <= 0)
            return tide_fail(err, TIDE_E_TIMEOUT, "the deadline has passed");
        reply->try_count = attempt + 1;
        reply->retry_after_us = -1;
        reply->http_code = 0;
        const outcome ended = try_once(client, request, is_grpc, left_us, reply, err);
        if (attempt + 1 >= client->options.try_max ||
            !may_try_again(&ended, request, reply, is_grpc))
            return ended.status;
        const int64_t wait_us = get_wait_us(client, reply, attempt);
        if (get_left_us(until_us) <= 0)
            return tide_fail(err, TIDE_E_TIMEOUT, "the deadline has passed");
        if (wait_us >= get_left_us(until_us))
            return ended.status;
        if (!wait_for(client, wait_us))
            return tide_fail(err, TIDE_E_INTERRUPTED, "the call was given up");
    }
}

/* What the caller gets is what is counted, once per call, however often it was tried. */
static tide_status run_counted(tide_client *client, const tide_client_request *request,
                               bool is_grpc, tide_client_response *reply, tide_error *err)
{
    const int64_t begun_us = tide_cond_until(0);
    reply->try_count = 0;
    const tide_status status = run(client, request, is_grpc, reply, err);
    if (client->options.count)
        client->options.count(
            client->options.count_arg,
            &(tide_client_counted){.path = request->path,
                                   .grpc_code = tide_status_get(status)->grpc_code,
                                   .try_count = reply->try_count,
                                   .took_us = tide_cond_until(0) - begun_us});
    return status;
}

tide_status tide_client_call(tide_client *client, const tide_client_request *request,
                             tide_client_response *reply, tide_error *err)
{
    tide_client_request whole = *request;
    if (!whole.message.ptr)
        whole.message = tide_view_of(""); /* a call has a message, if only an empty one */
    return run_counted(client, &whole, true, reply, err);
}

tide_status tide_client_post(tide_client *client, const tide_client_request *request,
                             tide_client_response *reply, tide_error *err)
{
    return run_counted(client, request, false, reply, err);
}

/* ---- calls with a callback ---- */

static void releasep(tide_client_stream **stream)
{
    if (*stream)
        tide_client_release(*stream);
}

tide_status tide_client_start_call(tide_client_stream **out, tide_client *client,
                                   const tide_client_request *request, tide_client_done_fn *done,
                                   void *arg, tide_error *err)
{
    const int64_t timeout_us =
        request->timeout_us ? request->timeout_us : client->options.timeout_us;
    tide_client_request whole = *request;
    if (!whole.message.ptr)
        whole.message = tide_view_of(""); /* a call has a message, if only an empty one */
    TIDE_CLEANUP(releasep) tide_client_stream *stream = NULL;
    TIDE_TRY(tide_client_make(&stream, client, &whole, true, timeout_us, err));
    stream->on_over = done;
    stream->on_over_arg = arg;
    stream->begun_us = tide_cond_until(0);
    tide_client_wake(stream); /* takes a reference of its own */
    if (out)
        *out = TIDE_TAKE(stream);
    return TIDE_OK;
}

static void notify(tide_client_stream *stream, tide_status status, const char *text)
{
    const tide_client *client = stream->client;
    if (client->options.count)
        client->options.count(
            client->options.count_arg,
            &(tide_client_counted){.path = stream->url + strlen(client->base_url),
                                   .grpc_code = (int)tide_status_get(status)->grpc_code,
                                   .try_count = 1,
                                   .took_us = tide_cond_until(0) - stream->begun_us});
    stream->on_over(stream->on_over_arg, status, &stream->reply, text);
}

/* It is over: nothing changes it any more, and the caller may only cancel it. */
void tide_client_finish_call(tide_client_stream *stream)
{
    tide_client_response *reply = &stream->reply;
    tide_client_message *message = stream->first;
    if (stream->status < TIDE_OK) {
        notify(stream, stream->status,
               stream->text[0] ? stream->text : tide_status_get(stream->status)->text);
    } else if (!message || message->next) {
        notify(stream, TIDE_E_DAMAGED,
               message ? "the server has answered with several messages"
                       : "the server has answered without a message");
    } else {
        const tide_buffer plain = reply->message;
        reply->message = message->bytes;
        message->bytes = plain; /* freed with the stream */
        notify(stream, TIDE_OK, "");
    }
}
