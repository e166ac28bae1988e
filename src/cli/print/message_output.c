#include "cli/print/message_output.h"

#include "base/cleanup.h"
#include "net/codec/json_proto.h"
#include "net/codec/protobuf_guard.h"

tide_status tide_cli_print_encoded(tide_cli_output *out,
                                   const ProtobufCMessageDescriptor *descriptor, tide_view bytes,
                                   tide_error *err)
{
    tide_buffer_clear(&out->line);
    TIDE_TRY(tide_proto_to_json(descriptor, bytes, &out->line, err));
    if (tide_buffer_append_byte(&out->line, '\n') < TIDE_OK)
        return tide_no_memory(err);
    (void)fwrite(out->line.ptr, 1, out->line.len, out->file); /* told by flush */
    return TIDE_OK;
}

tide_status tide_cli_message_json(tide_buffer *out, const ProtobufCMessage *message,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_protobuf_pack(&bytes, message, err));
    return tide_proto_to_json(message->descriptor, tide_buffer_view(&bytes), out, err);
}

tide_status tide_cli_print_message(tide_cli_output *out, const ProtobufCMessage *message,
                                   tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_protobuf_pack(&bytes, message, err));
    return tide_cli_print_encoded(out, message->descriptor, tide_buffer_view(&bytes), err);
}

tide_status tide_cli_print_found(tide_cli_output *out, const ProtobufCMessageDescriptor *descriptor,
                                 const tide_buffer *bytes, tide_status found, tide_error *err)
{
    if (found < TIDE_OK && found != TIDE_E_DAMAGED)
        return found;
    tide_error print_err = {.status = TIDE_OK};
    const tide_status printed =
        tide_cli_print_encoded(out, descriptor, tide_buffer_view(bytes), &print_err);
    return printed < TIDE_OK && found >= TIDE_OK ? tide_fail(err, printed, "%s", print_err.text)
                                                 : found;
}

tide_status tide_cli_print_method(tide_cli_output *out, tide_store *store, tide_rpc_fn *method,
                                  const ProtobufCMessage *request,
                                  const ProtobufCMessageDescriptor *response, tide_error *err)
{
    tide_rpc rpc = {.store = store};
    tide_buffer_init(&rpc.answer, TIDE_RPC_RESPONSE_MAX);
    tide_status status = method(&rpc, request, err);
    if (status >= TIDE_OK)
        status = tide_cli_print_encoded(out, response, tide_buffer_view(&rpc.answer), err);
    tide_buffer_done(&rpc.answer);
    return status;
}
