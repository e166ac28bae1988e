#include "net/call/fake_call.h"

#include <string.h>

#include "support/check.h"

void fake_call_run(tide_call *call, const tide_method *methods, const char *path, tide_view message,
                   void *arg)
{
    for (const tide_method *method = methods; method->path; method++) {
        if (strcmp(method->path, path) == 0) {
            method->run(call, message, arg);
            return;
        }
    }
    fail_msg("no method %s", path);
}

void fake_call_cancel(tide_call *call)
{
    call->is_cancelled = true;
    if (!call->is_ended && call->on_cancel)
        call->on_cancel(call, call->on_cancel_arg);
}

void fake_call_done(tide_call *call)
{
    for (size_t i = 0; i < call->sent_count; i++)
        tide_buffer_done(&call->sent[i]);
}

void tide_call_hold(tide_call *call)
{
    (void)__atomic_add_fetch(&call->holds, 1, __ATOMIC_SEQ_CST);
}

void tide_call_release(tide_call *call)
{
    assert_true(__atomic_sub_fetch(&call->holds, 1, __ATOMIC_SEQ_CST) >= 0);
}

bool tide_call_is_cancelled(const tide_call *call)
{
    return call->is_cancelled;
}

bool tide_call_send(tide_call *call, tide_view message)
{
    if (call->is_ended || call->is_cancelled)
        return false;
    assert_true(call->sent_count < FAKE_CALL_SENT_MAX);
    tide_buffer *copy = &call->sent[call->sent_count++];
    tide_buffer_init(copy, 1 << 20);
    assert_ok(tide_buffer_append_view(copy, message));
    return true;
}

bool tide_call_send_message(tide_call *call, const ProtobufCMessage *message)
{
    uint8_t bytes[256];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof bytes);
    return tide_call_send(call, tide_view_bytes(bytes, protobuf_c_message_pack(message, bytes)));
}

void tide_call_respond_message(tide_call *call, const ProtobufCMessage *message)
{
    assert_false(call->is_ended);
    call->is_replied = tide_call_send_message(call, message);
    call->is_ended = true;
}

void tide_call_end(tide_call *call, tide_status status, const tide_error *err)
{
    assert_false(call->is_ended);
    call->is_ended = true;
    call->status = status;
    if (err)
        call->err = *err;
}

void tide_call_receive(tide_call *call, tide_call_fn *fn, void *arg)
{
    call->receive = fn;
    call->receive_arg = arg;
}

void tide_call_on_cancel(tide_call *call, void (*fn)(tide_call *call, void *arg), void *arg)
{
    call->on_cancel = fn;
    call->on_cancel_arg = arg;
}
