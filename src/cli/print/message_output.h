/* message_output.h - rows and responses of services as lines of --json.
 *
 * A verb that has a service's counterpart builds the same message and prints it by the writer that
 * the service uses (net/codec/json_proto.h), so both have the same members in the same form.
 *
 * Threads: one. */
#pragma once

#include "cli/print/output.h"
#include "services/api/rpc.h"

/* A message, appended as JSON. */
TIDE_MUST_CHECK tide_status tide_cli_message_json(tide_buffer *out, const ProtobufCMessage *message,
                                                  tide_error *err);
/* A message as one line. */
TIDE_MUST_CHECK tide_status tide_cli_print_message(tide_cli_output *out,
                                                   const ProtobufCMessage *message,
                                                   tide_error *err);
/* The same of an encoded message. */
TIDE_MUST_CHECK tide_status tide_cli_print_encoded(tide_cli_output *out,
                                                   const ProtobufCMessageDescriptor *descriptor,
                                                   tide_view bytes, tide_error *err);
/* The same of what a check has found: found is TIDE_OK or TIDE_E_DAMAGED (with *err), and is returned
 * behind the line; of another failure there is no line. */
TIDE_MUST_CHECK tide_status tide_cli_print_found(tide_cli_output *out,
                                                 const ProtobufCMessageDescriptor *descriptor,
                                                 const tide_buffer *bytes, tide_status found,
                                                 tide_error *err);
/* The response of a method, run on the store by this process, as one line. */
TIDE_MUST_CHECK tide_status tide_cli_print_method(tide_cli_output *out, tide_store *store,
                                                  tide_rpc_fn *method,
                                                  const ProtobufCMessage *request,
                                                  const ProtobufCMessageDescriptor *response,
                                                  tide_error *err);
