/* grpc.h - the small encodings of gRPC over HTTP/2: time-outs, status, messages in frames.
 *
 *     frame    1 byte: is compressed | 4 bytes: length, big endian | message
 *     timeout  1..8 digits and a unit: H M S m u n
 *     message  percent-encoded: bytes outside space..~ and '%' itself as %XX
 *     details  google.rpc.Status (status_details.h) in base64
 *
 * Threads: pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

#include "base/buffer.h"

enum { TIDE_GRPC_PREFIX_LEN = 5, TIDE_GRPC_CODES = 17 };

typedef enum tide_grpc_code {
    TIDE_GRPC_OK = 0,
    TIDE_GRPC_CANCELLED = 1,
    TIDE_GRPC_UNKNOWN = 2,
    TIDE_GRPC_INVALID_ARGUMENT = 3,
    TIDE_GRPC_DEADLINE_EXCEEDED = 4,
    TIDE_GRPC_NOT_FOUND = 5,
    TIDE_GRPC_ALREADY_EXISTS = 6,
    TIDE_GRPC_PERMISSION_DENIED = 7,
    TIDE_GRPC_RESOURCE_EXHAUSTED = 8,
    TIDE_GRPC_FAILED_PRECONDITION = 9,
    TIDE_GRPC_ABORTED = 10,
    TIDE_GRPC_OUT_OF_RANGE = 11,
    TIDE_GRPC_UNIMPLEMENTED = 12,
    TIDE_GRPC_INTERNAL = 13,
    TIDE_GRPC_UNAVAILABLE = 14,
    TIDE_GRPC_DATA_LOSS = 15,
    TIDE_GRPC_UNAUTHENTICATED = 16,
} tide_grpc_code;

/* The code as HTTP says it; a number that is no code is said like UNKNOWN. */
int tide_grpc_http_code(int grpc_code);

/* false: not a time-out. Anything longer than 100 years is INT64_MAX. */
bool tide_grpc_timeout_parse(tide_view text, int64_t *timeout_us);

void tide_grpc_prefix_encode(uint8_t out[TIDE_GRPC_PREFIX_LEN], bool is_compressed, uint32_t len);
void tide_grpc_prefix_decode(const uint8_t in[TIDE_GRPC_PREFIX_LEN], bool *is_compressed,
                             uint32_t *len);

/* Percent-encode. A text that is too long for out is cut between characters. */
void tide_grpc_message_encode(tide_buffer *out, const char *text);
