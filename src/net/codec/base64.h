/* base64.h - bytes as text (RFC 4648).
 *
 * Encoding uses the standard alphabet. Decoding accepts both alphabets, with and without padding, as gRPC's binary
 * metadata and protobuf's JSON come in all of them, and nothing else: no spaces, no line breaks, no bits beyond the
 * last byte.
 *
 * Threads: pure. */
#ifndef TIDE_NET_CODEC_BASE64_H
#define TIDE_NET_CODEC_BASE64_H

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

#include "base/buffer.h"

/* Append. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as before. */
TIDE_MUST_CHECK tide_status tide_base64_encode(tide_buffer *out, tide_view bytes, bool has_padding);

/* As above; TIDE_E_INVALID: not base64, out is as before. */
TIDE_MUST_CHECK tide_status tide_base64_decode(tide_buffer *out, tide_view text);

#endif
