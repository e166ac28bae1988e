/* call_response.c - a call's answer as the transport reads it: its end, its head, its bytes, its
 * trailers. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/base64.h"
#include "net/call/call_core.h"
#include "net/codec/status_details.h"

enum {
    MESSAGE_MAX = 4096, /* bytes of grpc-message, encoded */
    DETAILS_MAX = 8192, /* bytes of google.rpc.Status; larger ones are left out */
    NUMBER_TEXT_MAX = 32,
};

void tide_call_wake(tide_call *call)
{
    if (call->wake)
        call->wake(call->wake_arg);
}

void tide_call_drop_queue(tide_call *call)
{
    while (call->queue) {
        tide_piece *piece = call->queue;
        call->queue = piece->next;
        tide_call_free_piece(call, piece);
    }
    call->queue_tail = &call->queue;
    call->queue_len = 0;
}

void tide_call_drop_inbox(tide_call *call)
{
    while (call->inbox) {
        tide_inbound *inbound = call->inbox;
        call->inbox = inbound->next;
        tide_charged_buffer_done(&inbound->held);
        free(inbound);
    }
    call->inbox_tail = &call->inbox;
    call->inbox_len = 0;
}

static void count_end(tide_call *call)
{
    tide_server_context *context = call->context;
    tide_count(&context->counters.calls_running, -1);
    if (!call->entry)
        return;
    const int code = call->grpc_code >= 0 && call->grpc_code < TIDE_GRPC_CODES ? call->grpc_code
                                                                               : TIDE_GRPC_UNKNOWN;
    tide_count(&call->entry->ended[code], 1);
    const int64_t took_us = context->env->mono_us(context->env) - call->opened_us;
    tide_count(&call->entry->busy_us, took_us);
    if (context->on_ended)
        context->on_ended(context->on_ended_arg, call->entry, code, took_us);
}

static void add_text(tide_headers *head, const char *name, const char *value)
{
    TIDE_IGNORE(tide_headers_add(head, tide_view_of(name), tide_view_of(value)));
}

static tide_status_details details_of(const tide_ending *ending)
{
    return (tide_status_details){
        .grpc_code = ending->grpc_code,
        .message = ending->message,
        .retry_after_s = ending->retry_after_s,
        .reason = ending->reason,
        .metadata = ending->metadata,
        .metadata_count = ending->metadata_count,
    };
}

/* The body of an HTTP answer that is a failure: google.rpc.Status, as protobuf to those who speak
 * it. */
static void queue_failure(tide_call *call, const tide_ending *ending)
{
    const tide_status_details details = details_of(ending);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer body = tide_buffer_of(2 * MESSAGE_MAX + DETAILS_MAX);
    const bool is_protobuf = call->form == TIDE_FORM_PROTOBUF ||
                             strcmp(call->content_type, "application/x-protobuf") == 0;
    tide_status status = is_protobuf ? tide_status_details_encode(&body, &details)
                                     : tide_status_details_json(&body, &details);
    if (status == TIDE_OK && !is_protobuf)
        status = tide_buffer_append_byte(&body, '\n');
    if (status != TIDE_OK || !body.ptr)
        return;
    tide_call_drop_queue(call);
    tide_headers_drop(&call->answer, "content-type");
    add_text(&call->answer, "content-type",
             is_protobuf ? "application/x-protobuf" : "application/json");
    const size_t len = body.len;
    char *bytes = TIDE_TAKE(body.ptr);
    tide_buffer_init(&body, 0);
    tide_call_queue(call, bytes, len);
}

/* What goes into grpc-status-details-bin: what the method gave, or what the rest says beyond code
 * and message. */
static void copy_details(tide_call *call, const tide_ending *ending)
{
    if (ending->details.len > 0 && ending->details.len <= DETAILS_MAX) {
        TIDE_IGNORE(tide_buffer_append_view(&call->details, ending->details));
        return;
    }
    const tide_status_details details = details_of(ending);
    if (ending->retry_after_s > 0 || ending->reason)
        TIDE_IGNORE(tide_status_details_encode(&call->details, &details));
}

void tide_call_finish(tide_call *call, const tide_ending *ending)
{
    if (call->is_ended)
        return;
    const bool has_failed = ending->grpc_code != TIDE_GRPC_OK;
    call->grpc_code = ending->grpc_code;
    if (!call->is_started)
        call->http_code =
            ending->http_code ? ending->http_code : tide_grpc_http_code(ending->grpc_code);
    if (has_failed) {
        call->message = strdup(ending->message ? ending->message : "");
        copy_details(call, ending);
        if (ending->retry_after_s > 0 && !call->is_started) {
            char seconds[NUMBER_TEXT_MAX];
            (void)snprintf(seconds, sizeof seconds, "%.0f",
                           ceil(fmin(ending->retry_after_s, 86400)));
            add_text(&call->answer, "retry-after", seconds);
        }
        if (call->form != TIDE_FORM_GRPC && call->is_started)
            call->is_torn = true;
        else if (call->form != TIDE_FORM_GRPC)
            queue_failure(call, ending);
    }
    call->is_ended = true;
    tide_call_give_reserved(call);
    call->on_drain = NULL;
    call->on_cancel = NULL;
    tide_call_drop_inbox(call);
    count_end(call);
    tide_call_wake(call);
}

static void format_text(char out[TIDE_ERROR_TEXT_MAX], const char *format, va_list args)
    TIDE_PRINTF(2, 0);

static void format_text(char out[TIDE_ERROR_TEXT_MAX], const char *format, va_list args)
{
    (void)vsnprintf(out, TIDE_ERROR_TEXT_MAX, format, args);
}

void tide_call_refuse(tide_call *call, int grpc_code, int http_code, double retry_after_s,
                      const char *format, ...)
{
    char text[TIDE_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);
    const tide_ending ending = {
        .grpc_code = grpc_code,
        .http_code = http_code,
        .message = text,
        .retry_after_s = retry_after_s,
    };
    tide_call_lock(call);
    tide_call_finish(call, &ending);
    tide_call_unlock(call);
}

void tide_call_cancel(tide_call *call, int grpc_code, int http_code, const char *message)
{
    tide_call_lock(call);
    if (call->is_ended) {
        tide_call_unlock(call);
        return;
    }
    tide_call_event_fn *told = call->on_cancel;
    void *arg = call->on_cancel_arg;
    call->is_cancelled = true;
    tide_call_drop_queue(call);
    tide_count(&call->context->counters.calls_cancelled, 1);
    const tide_ending ending = {.grpc_code = grpc_code, .http_code = http_code, .message = message};
    tide_call_finish(call, &ending);
    tide_call_unlock(call);
    if (told)
        told(call, arg);
}

void tide_call_leave(tide_call *call)
{
    tide_call_cancel(call, TIDE_GRPC_CANCELLED, 499, "the client is gone");
    tide_call_lock(call);
    call->wake = NULL;
    tide_call_drop_queue(call); /* a response that the peer will not read */
    tide_call_unlock(call);
    tide_call_drop_body(call);
    tide_call_release(call);
}

/* Fields that belong to the form of the answer. */
static void complete_head(tide_call *call)
{
    if (call->form != TIDE_FORM_GRPC)
        return;
    add_text(&call->answer, "content-type", "application/grpc");
    if (call->has_sent && call->accepts_gzip)
        add_text(&call->answer, "grpc-encoding", "gzip"); /* each message says whether it is */
    add_text(&call->answer, "grpc-accept-encoding", TIDE_CODING_ACCEPTED);
}

bool tide_call_response(tide_call *call, tide_response *out)
{
    tide_call_lock(call);
    const bool is_known = call->is_ended || call->has_sent;
    if (is_known) {
        if (!call->is_started)
            complete_head(call);
        call->is_started = true;
        *out = (tide_response){
            .http_code = call->form == TIDE_FORM_GRPC ? 200 : call->http_code,
            .head = &call->answer,
            .is_whole = call->is_ended,
            .body_len = call->queue_len,
            .is_trailers_only = call->form == TIDE_FORM_GRPC && call->is_ended && !call->queue,
        };
    }
    tide_call_unlock(call);
    return is_known;
}

/* What is left of a piece, prefix first. */
static size_t read_piece(tide_piece *piece, char *out, size_t size)
{
    size_t done = 0;
    if (piece->offset < piece->prefix_len) {
        const size_t left = piece->prefix_len - piece->offset;
        done = left < size ? left : size;
        memcpy(out, piece->prefix + piece->offset, done);
    }
    if (done < size && piece->offset + done >= piece->prefix_len) {
        const size_t at = piece->offset + done - piece->prefix_len;
        const size_t left = piece->len - at;
        const size_t part = left < size - done ? left : size - done;
        if (part > 0)
            memcpy(out + done, piece->bytes + at, part);
        done += part;
    }
    piece->offset += done;
    return done;
}

static size_t read_queue(tide_call *call, char *out, size_t size)
{
    size_t done = 0;
    while (call->queue && (done < size || call->queue->len + call->queue->prefix_len == 0)) {
        tide_piece *piece = call->queue;
        const size_t part = read_piece(piece, out + done, size - done);
        done += part;
        call->queue_len -= part;
        if (piece->offset < piece->prefix_len + piece->len)
            break;
        call->queue = piece->next;
        if (!call->queue)
            call->queue_tail = &call->queue;
        tide_call_free_piece(call, piece);
    }
    return done;
}

size_t tide_call_read(tide_call *call, void *out, size_t size, bool *is_end)
{
    tide_call_lock(call);
    const size_t done = read_queue(call, out, size);
    *is_end = call->is_ended && !call->queue;
    tide_call_unlock(call);
    return done;
}

bool tide_call_is_torn(tide_call *call)
{
    tide_call_lock(call);
    const bool is_torn = call->is_torn;
    tide_call_unlock(call);
    return is_torn;
}

tide_status tide_call_trailers(tide_call *call, tide_headers *out)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(2 * DETAILS_MAX);
    char code[NUMBER_TEXT_MAX];
    tide_call_lock(call);
    assert(call->is_ended);
    (void)snprintf(code, sizeof code, "%d", call->grpc_code);
    tide_status status = tide_headers_add(out, tide_view_of("grpc-status"), tide_view_of(code));
    if (call->message && call->message[0] != '\0') {
        text.max = MESSAGE_MAX;
        tide_grpc_message_encode(&text, call->message);
        add_text(out, "grpc-message", tide_buffer_text(&text));
        text.max = 2 * DETAILS_MAX;
        tide_buffer_clear(&text);
    }
    if (call->details.len > 0 &&
        tide_base64_encode(&text, tide_buffer_view(&call->details), false) == TIDE_OK)
        add_text(out, "grpc-status-details-bin", tide_buffer_text(&text));
    for (size_t i = 0; i < call->trailers.count; i++)
        add_text(out, call->trailers.fields[i].name, call->trailers.fields[i].value);
    tide_call_unlock(call);
    return status;
}
