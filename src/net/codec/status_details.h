/* status_details.h - a failure told so that a program can act on it: google.rpc.Status.
 *
 * One struct, two forms: protobuf (grpc-status-details-bin, and the body of an OTLP/HTTP error with
 * Content-Type application/x-protobuf) and JSON (the body with application/json):
 *
 *     Status {code = 1, message = 2, details = 3: Any {type_url = 1, value = 2} ...}
 *       RetryInfo  {retry_delay = 1: Duration {seconds = 1, nanos = 2}}
 *       ErrorInfo  {reason = 1, domain = 2, metadata = 3: map}
 *       BadRequest {field_violations = 1: {field = 1, description = 2} ...}
 *
 *     {"code":14,"message":"busy","details":[
 *       {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.500s"}]}
 *
 * Details that are not given are left out. All texts are borrowed and made valid UTF-8 on the way
 * out.
 *
 * Threads: pure. Limits: the buffer's. */
#pragma once

#include <stddef.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "base/buffer.h"

typedef struct tide_field_violation {
    const char *field; /* "position.max_bytes" */
    const char *description;
} tide_field_violation;

typedef struct tide_error_metadata {
    const char *key;
    const char *value;
} tide_error_metadata;

typedef struct tide_status_details {
    int grpc_code;
    const char *message;  /* NULL: "" */
    double retry_after_s; /* <= 0: no RetryInfo; otherwise told in whole milliseconds */
    const char *reason;   /* NULL: no ErrorInfo; UPPER_SNAKE_CASE */
    const char *domain;   /* NULL: "tidemark" */
    const tide_error_metadata *metadata;
    size_t metadata_count;
    const tide_field_violation *violations;
    size_t violation_count; /* 0: no BadRequest */
} tide_status_details;

/* What a status is called in errors: TIDE_E_INVALID is "INVALID". */
const char *tide_status_reason(tide_status status);

/* What a status says without further ado: its gRPC code, err's text (NULL: the table's), its name
 * as the reason. */
tide_status_details tide_status_details_of(tide_status status, const tide_error *err);

/* Append the message. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as before. */
TIDE_MUST_CHECK tide_status tide_status_details_encode(tide_buffer *out,
                                                       const tide_status_details *details);
TIDE_MUST_CHECK tide_status tide_status_details_json(tide_buffer *out,
                                                     const tide_status_details *details);
