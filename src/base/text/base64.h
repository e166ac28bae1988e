/* base64.h - bytes as text (RFC 4648).
 *
 * Encoding uses the standard alphabet. Decoding accepts both alphabets, with and without padding,
 * as gRPC's binary metadata and protobuf's JSON come in all of them, and nothing else: no spaces,
 * no line breaks, no bits beyond the last byte.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

#define TIDE_BASE64_LEN(bytes_len) (((bytes_len) + 2) / 3 * 4) /* of the text, with padding */

/* Append. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as before. */
TIDE_MUST_CHECK tide_status tide_base64_encode(tide_buffer *out, tide_view bytes, bool has_padding);

/* As above; TIDE_E_INVALID: not base64, out is as before. */
TIDE_MUST_CHECK tide_status tide_base64_decode(tide_buffer *out, tide_view text);

/* The same into memory of the caller: TIDE_BASE64_LEN bytes, of which the number that is used is
 * returned; text.len bytes, of which *len are used. False: not base64. No terminator is written. */
size_t tide_base64_encode_to(char *out, tide_view bytes, bool has_padding);
TIDE_MUST_CHECK bool tide_base64_decode_to(char *out, tide_view text, size_t *len);
