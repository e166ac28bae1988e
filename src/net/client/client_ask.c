/* client_ask.c - calls that nobody waits for: see client.h. */
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "net/client/client_internal.h"

static void releasep(tide_client_stream **stream)
{
    if (*stream)
        tide_client_release(*stream);
}

tide_status tide_client_ask(tide_client_stream **out, tide_client *client,
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

static void tell(tide_client_stream *stream, tide_status status, const char *text)
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

/* It is over: nobody else changes it any more, and the caller may only cancel it. */
void tide_client_ask_end(tide_client_stream *stream)
{
    tide_client_reply *reply = &stream->reply;
    tide_client_message *message = stream->first;
    if (stream->status < TIDE_OK) {
        tell(stream, stream->status,
             stream->text[0] ? stream->text : tide_status_get(stream->status)->text);
    } else if (!message || message->next) {
        tell(stream, TIDE_E_DAMAGED,
             message ? "the server has answered with several messages"
                     : "the server has answered without a message");
    } else {
        const tide_buffer plain = reply->message;
        reply->message = message->bytes;
        message->bytes = plain; /* freed with the stream */
        tell(stream, TIDE_OK, "");
    }
}
