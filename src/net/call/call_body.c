/* call_body.c - the body of a request: gathered, taken apart into messages, unpacked, and handed to
 * the method. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/call/call_core.h"
#include "net/codec/json_proto.h"

enum { SLICE_LEN = 4096 }; /* compressed bytes that are unpacked at a time */

static bool has_ended(tide_call *call)
{
    tide_call_lock(call);
    const bool is_ended = call->is_ended;
    tide_call_unlock(call);
    return is_ended;
}

bool tide_call_wants_body(const tide_call *call)
{
    return !call->is_input_over && !has_ended((tide_call *)call);
}

/* Why bytes were not taken. needed_len: what the request holds at one time to be read, as far as
 * known. */
static void refuse_bytes(tide_call *call, tide_status status, size_t needed_len)
{
    tide_net_counters *counters = &call->context->counters;
    if (status == TIDE_E_LIMIT) {
        tide_count(&counters->refused_message_len, 1);
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 413, 0,
                         "a message above the limit of %lld bytes (message_len)",
                         (long long)call->context->limits.message_len);
    } else if (!tide_budget_could_hold(&call->quota->requests, needed_len)) {
        /* Waiting does not help. */
        tide_count(&counters->refused_message_len, 1);
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 413, 0,
                         "unpacking this request takes %zu bytes, more than one caller may hold "
                         "(peer_budget_len, %lld); send it in parts",
                         needed_len, (long long)call->context->limits.peer_budget_len);
    } else {
        tide_count(&counters->refused_budget, 1);
        tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 503, 1,
                         "too many bytes of requests are held now, try again");
    }
    tide_charged_buffer_done(&call->body);
}

/* Unpack slice by slice, and charge for what has grown after each: a bomb is stopped by the limit,
 * or by what the budget has left, at most one slice's output later. */
static tide_status unpack_into(tide_charged_buffer *plain, tide_view packed, tide_coding coding,
                               size_t limit, tide_error *err)
{
    TIDE_CLEANUP(tide_inflater_freep) tide_inflater *inflater = NULL;
    const tide_inflate_limits limits = {.output_len = limit};
    TIDE_TRY(tide_inflater_new(&inflater, coding, &limits, err));
    for (size_t at = 0; at < packed.len; at += SLICE_LEN) {
        const size_t len = packed.len - at < SLICE_LEN ? packed.len - at : SLICE_LEN;
        TIDE_TRY(tide_inflater_feed(inflater, tide_view_bytes(packed.ptr + at, len), &plain->bytes,
                                    err));
        TIDE_TRY(tide_charged_buffer_charge(plain));
    }
    return tide_inflater_finish(inflater, err);
}

static tide_status unpack_held(tide_call *call, tide_charged_buffer *held, tide_coding coding,
                               size_t *needed_len, tide_error *err)
{
    const size_t limit = (size_t)call->context->limits.message_len;
    TIDE_CLEANUP(tide_charged_buffer_done) tide_charged_buffer plain;
    tide_charged_buffer_init(&plain, &call->quota->requests, limit);
    const tide_status status =
        unpack_into(&plain, tide_buffer_view(&held->bytes), coding, limit, err);
    *needed_len = held->charged + plain.bytes.capacity;
    TIDE_TRY(status);
    const tide_charged_buffer packed = *held;
    *held = plain;
    plain = packed;
    return TIDE_OK;
}

static tide_status translate_held(tide_call *call, tide_charged_buffer *held, size_t *needed_len,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done)
    tide_buffer bytes = tide_buffer_of((size_t)call->context->limits.message_len);
    TIDE_TRY(tide_json_to_proto(call->entry->method->request, tide_buffer_view(&held->bytes),
                                &bytes, err));
    *needed_len = held->charged + bytes.capacity;
    return tide_charged_buffer_adopt(held, &bytes);
}

/* The message as the method wants it. false: the call has ended with the reason. */
static bool prepare_message(tide_call *call, tide_charged_buffer *held, tide_coding coding)
{
    tide_error err = {0};
    tide_status status = TIDE_OK;
    size_t needed_len = 0;
    if (coding != TIDE_CODING_IDENTITY)
        status = unpack_held(call, held, coding, &needed_len, &err);
    if (status == TIDE_OK && call->form == TIDE_FORM_JSON)
        status = translate_held(call, held, &needed_len, &err);
    if (status == TIDE_OK)
        return true;
    if (status == TIDE_E_LIMIT || status == TIDE_E_BUSY)
        refuse_bytes(call, status, needed_len);
    else
        tide_call_refuse_status(call, status, &err);
    return false;
}

static tide_view view_held(const tide_charged_buffer *held)
{
    return tide_view_bytes(held->bytes.ptr ? held->bytes.ptr : "", held->bytes.len);
}

void tide_call_run(tide_call *call)
{
    const tide_route_entry *entry = call->entry;
    tide_call_fn *run = entry->method ? entry->method->run : entry->route->run;
    if (has_ended(call)) {
        tide_charged_buffer_done(&call->body);
        return;
    }
    if (tide_call_streams_in(call)) {
        run(call, tide_view_bytes(NULL, 0), entry->arg);
        return;
    }
    /* The body changes hands: the loop is done with it, and cancellation leaves it to us. */
    tide_charged_buffer message = call->body;
    tide_charged_buffer_init(&call->body, &call->quota->requests, 0);
    const tide_coding coding =
        call->form == TIDE_FORM_GRPC && !call->is_packed ? TIDE_CODING_IDENTITY : call->coding;
    const bool is_empty_raw = call->form == TIDE_FORM_RAW && message.bytes.len == 0;
    if (prepare_message(call, &message, is_empty_raw ? TIDE_CODING_IDENTITY : coding)) {
        call->current = &message;
        call->is_current_packed = coding != TIDE_CODING_IDENTITY;
        run(call, view_held(&message), entry->arg);
        call->current = NULL;
    }
    tide_server_context_note_freed(call->context, message.charged);
    tide_charged_buffer_done(&message);
}

void tide_call_dispatch(tide_call *call)
{
    const tide_route_entry *entry = call->entry;
    const bool is_blocking = entry->method ? entry->method->is_blocking : entry->route->is_blocking;
    tide_server_context *context = call->context;
    if (!is_blocking || !context->run_blocking) {
        tide_call_run(call);
        return;
    }
    tide_call_hold(call);
    if (context->run_blocking(context->run_blocking_arg, call))
        return;
    tide_call_release(call);
    tide_count(&context->counters.refused_workers, 1);
    tide_call_refuse(call, TIDE_GRPC_RESOURCE_EXHAUSTED, 503, 1, "too many calls, try again");
}

/* A message of a client stream is complete. */
static void push_message(tide_call *call)
{
    tide_charged_buffer message = call->body;
    tide_charged_buffer_init(&call->body, &call->quota->requests, 0);
    tide_inbound *inbound = NULL;
    if (prepare_message(call, &message, call->is_packed ? call->coding : TIDE_CODING_IDENTITY))
        inbound = calloc(1, sizeof *inbound);
    if (!inbound) {
        tide_charged_buffer_done(&message);
        if (!has_ended(call))
            tide_call_refuse_status(call, TIDE_E_NOMEM, NULL);
        return;
    }
    inbound->held = message;
    inbound->is_packed = call->is_packed;
    tide_call_lock(call);
    const bool is_ended = call->is_ended;
    if (!is_ended) {
        *call->inbox_tail = inbound;
        call->inbox_tail = &inbound->next;
        call->inbox_len += message.bytes.len + sizeof *inbound;
    }
    tide_call_unlock(call);
    if (is_ended) {
        tide_charged_buffer_done(&inbound->held);
        free(inbound);
    }
}

/* The five bytes in front of a message are complete. */
static void begin_message(tide_call *call)
{
    uint32_t len;
    tide_grpc_prefix_decode(call->prefix, &call->is_packed, &len);
    if (call->prefix[0] > 1 || (call->is_packed && call->coding == TIDE_CODING_IDENTITY)) {
        tide_call_refuse(call, TIDE_GRPC_INTERNAL, 400, 0, "a compressed message without a coding");
        return;
    }
    if ((int64_t)len > call->context->limits.message_len) {
        refuse_bytes(call, TIDE_E_LIMIT, 0);
        return;
    }
    if (call->messages > 0 && !tide_call_streams_in(call)) {
        tide_call_refuse(call, TIDE_GRPC_INVALID_ARGUMENT, 400, 0,
                         "more than one message for a call that takes one");
        return;
    }
    call->message_len = len;
    call->is_reading = true;
    tide_charged_buffer_done(&call->body);
    tide_charged_buffer_init(&call->body, &call->quota->requests, len);
}

static void end_message(tide_call *call)
{
    call->is_reading = false;
    call->prefix_len = 0;
    if (call->messages < 2)
        call->messages++;
    if (tide_call_streams_in(call))
        push_message(call);
}

static void feed_frames(tide_call *call, tide_view bytes)
{
    while (tide_call_wants_body(call)) {
        if (!call->is_reading && bytes.len > 0) {
            const size_t want = TIDE_GRPC_PREFIX_LEN - call->prefix_len;
            const size_t part = bytes.len < want ? bytes.len : want;
            memcpy(call->prefix + call->prefix_len, bytes.ptr, part);
            call->prefix_len += part;
            bytes = tide_view_bytes(bytes.ptr + part, bytes.len - part);
            if (call->prefix_len == TIDE_GRPC_PREFIX_LEN)
                begin_message(call);
        }
        if (!call->is_reading)
            return;
        const size_t want = call->message_len - call->body.bytes.len;
        const size_t part = bytes.len < want ? bytes.len : want;
        if (part > 0) {
            const tide_status status =
                tide_charged_buffer_append(&call->body, tide_view_bytes(bytes.ptr, part));
            if (status != TIDE_OK) {
                refuse_bytes(call, status, call->body.charged);
                return;
            }
            bytes = tide_view_bytes(bytes.ptr + part, bytes.len - part);
        }
        if (part < want)
            return;
        end_message(call);
    }
}

void tide_call_drop_body(tide_call *call)
{
    if (!call->is_input_over)
        tide_charged_buffer_done(&call->body);
}

void tide_call_feed(tide_call *call, tide_view bytes)
{
    if (!tide_call_wants_body(call))
        return;
    if (call->form == TIDE_FORM_GRPC) {
        feed_frames(call, bytes);
        return;
    }
    const tide_status status = tide_charged_buffer_append(&call->body, bytes);
    if (status != TIDE_OK)
        refuse_bytes(call, status, call->body.charged);
}

void tide_call_feed_end(tide_call *call)
{
    if (!tide_call_wants_body(call))
        return;
    call->is_input_over = true;
    call->body_until_us = INT64_MAX;
    if (call->form == TIDE_FORM_GRPC && (call->is_reading || call->prefix_len > 0)) {
        tide_call_refuse(call, TIDE_GRPC_INTERNAL, 400, 0, "the stream ends inside a message");
        return;
    }
    if (tide_call_streams_in(call)) {
        tide_call_lock(call);
        call->is_half_closed = true;
        tide_call_unlock(call);
        return;
    }
    if (call->form == TIDE_FORM_GRPC && call->messages == 0) {
        tide_call_refuse(call, TIDE_GRPC_INTERNAL, 400, 0, "no message");
        return;
    }
    tide_call_dispatch(call);
}

bool tide_call_is_congested(tide_call *call)
{
    tide_call_lock(call);
    const bool is_congested =
        call->inbox && call->inbox_len >= (size_t)call->context->limits.queue_len / 4;
    tide_call_unlock(call);
    return is_congested;
}

/* Hand the oldest message, or the end, to the receiver. false: there is nothing, or no receiver
 * now. */
static bool deliver_next(tide_call *call)
{
    tide_call_lock(call);
    tide_call_fn *receive = call->receive;
    void *arg = call->receive_arg;
    const bool is_open =
        receive && !call->is_ended && !call->is_end_told && !tide_call_is_held_back(call);
    tide_inbound *inbound = is_open ? call->inbox : NULL;
    const bool is_last = is_open && !inbound && call->is_half_closed;
    if (inbound) {
        call->inbox = inbound->next;
        if (!call->inbox)
            call->inbox_tail = &call->inbox;
        call->inbox_len -= inbound->held.bytes.len + sizeof *inbound;
    }
    if (is_last)
        call->is_end_told = true;
    tide_call_unlock(call);

    if (inbound) {
        call->current = &inbound->held;
        call->is_current_packed = inbound->is_packed;
        receive(call, view_held(&inbound->held), arg);
        call->current = NULL;
        tide_charged_buffer_done(&inbound->held);
        free(inbound);
    } else if (is_last) {
        receive(call, tide_view_bytes(NULL, 0), arg);
    }
    return inbound || is_last;
}

static void notify_drained(tide_call *call)
{
    tide_call_lock(call);
    tide_call_event_fn *fn = NULL;
    void *arg = call->on_drain_arg;
    if (!call->is_ended && call->queue_len <= (size_t)call->context->limits.queue_len / 2 &&
        !tide_call_is_held_back(call)) {
        fn = call->on_drain;
        call->on_drain = NULL;
    }
    tide_call_unlock(call);
    if (fn)
        fn(call, arg);
}

int64_t tide_call_step(tide_call *call, int64_t now_us)
{
    tide_call_hold(call);
    while (deliver_next(call)) {
    }
    notify_drained(call);
    if (has_ended(call)) {
        tide_call_drop_body(call);
        tide_call_release(call);
        return INT64_MAX;
    }
    if (now_us >= call->deadline_us)
        tide_call_cancel(call, TIDE_GRPC_DEADLINE_EXCEEDED, 504, "the deadline has passed");
    if (!call->is_input_over && now_us >= call->body_until_us) {
        tide_count(&call->context->counters.timeouts_body, 1);
        tide_call_refuse(call, TIDE_GRPC_DEADLINE_EXCEEDED, 408, 0,
                         "the body did not come in time");
    }
    const int64_t next_us =
        call->deadline_us < call->body_until_us ? call->deadline_us : call->body_until_us;
    tide_call_release(call);
    return next_us;
}
