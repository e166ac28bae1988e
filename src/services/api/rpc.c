#include "services/api/rpc.h"

#include <inttypes.h>

#define DURATION_MAX_MS (INT64_C(86400000) * 36500) /* a hundred years */

const char *tide_rpc_text(const char *text)
{
    return text && *text ? text : NULL;
}

tide_status tide_rpc_duration(int64_t *us, int64_t ms, const char *what, tide_error *err)
{
    if (ms < 0 || ms > DURATION_MAX_MS)
        return tide_fail(err, TIDE_E_INVALID, "%s is %" PRId64 " ms, want 0 to a hundred years",
                         what, ms);
    *us = ms * 1000;
    return TIDE_OK;
}

static tide_status too_long(tide_status status, tide_error *err)
{
    if (status >= TIDE_OK)
        return status;
    return tide_fail(err, status,
                     "the response has more than %d MiB, or does not fit into memory: ask for less "
                     "(a limit, a narrower range, no snapshots)",
                     TIDE_RPC_RESPONSE_MAX >> 20);
}

static tide_status append_packed(tide_buffer *out, const ProtobufCMessage *message, size_t len)
{
    TIDE_TRY(tide_buffer_reserve(out, len));
    out->len += protobuf_c_message_pack(message, (uint8_t *)out->ptr + out->len);
    out->ptr[out->len] = '\0';
    return TIDE_OK;
}

tide_status tide_rpc_pack(tide_buffer *out, const ProtobufCMessage *message, tide_error *err)
{
    const size_t len = protobuf_c_message_get_packed_size(message);
    return len == 0 ? TIDE_OK : too_long(append_packed(out, message, len), err);
}

static tide_status append_prefix(tide_buffer *out, uint32_t field, size_t len)
{
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)field << 3 | 2));
    return tide_buffer_append_varint(out, len);
}

tide_status tide_rpc_put_bytes(tide_buffer *out, uint32_t field, tide_view bytes, tide_error *err)
{
    TIDE_TRY(too_long(append_prefix(out, field, bytes.len), err));
    return too_long(tide_buffer_append_view(out, bytes), err);
}

tide_status tide_rpc_put_message(tide_buffer *out, uint32_t field, const ProtobufCMessage *message,
                                 tide_error *err)
{
    const size_t len = protobuf_c_message_get_packed_size(message);
    TIDE_TRY(too_long(append_prefix(out, field, len), err));
    return tide_rpc_pack(out, message, err);
}

tide_status tide_rpc_respond(tide_rpc *rpc, const ProtobufCMessage *part, tide_error *err)
{
    return tide_rpc_pack(&rpc->answer, part, err);
}

tide_status tide_rpc_put(tide_rpc *rpc, uint32_t field, const ProtobufCMessage *message,
                         tide_error *err)
{
    return tide_rpc_put_message(&rpc->answer, field, message, err);
}

void tide_rpc_run(tide_call *call, tide_view message, const tide_rpc_context *context,
                  tide_rpc_fn *fn)
{
    tide_error err = {0};
    tide_rpc rpc = {.call = call, .store = context->store, .context = context};
    tide_buffer_init(&rpc.answer, TIDE_RPC_RESPONSE_MAX);
    ProtobufCMessage *request = NULL;
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = fn(&rpc, request, &err);
    if (status == TIDE_NONE)
        status = tide_fail(&err, TIDE_E_NOT_FOUND, "there is no such thing");
    if (status == TIDE_E_LEASE_LOST)
        tide_refusal_log_write(context->refusals, tide_call_path(call), err.text);
    if (status >= TIDE_OK && !rpc.is_parked)
        tide_call_respond(call, tide_buffer_view(&rpc.answer));
    else if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    tide_buffer_done(&rpc.answer);
}
