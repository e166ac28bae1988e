/* inflate.h - compressed bodies of others, unpacked within limits; gzip for our answers.
 *
 *     tide_inflater *inflater = NULL;
 *     TIDE_TRY(tide_inflater_new(&inflater, TIDE_CODING_GZIP, NULL, err));
 *     while (bytes come)
 *         TIDE_TRY(tide_inflater_feed(inflater, bytes, &body, err));
 *     TIDE_TRY(tide_inflater_finish(inflater, err));
 *     tide_inflater_free(inflater);
 *
 * or, when all bytes are there, tide_inflate(&body, bytes, "gzip", err).
 *
 * Bytes go in as they arrive, and what they unpack to is appended to a buffer. A bomb is stopped
 * while it unpacks, with TIDE_E_LIMIT, as soon as
 *   - the output reaches the buffer's maximum or limits.output_len, or
 *   - the output is above limits.ratio_floor_len and more than limits.ratio times the input.
 * After a failure only tide_inflater_free may follow; what the buffer holds must not be used.
 *
 * gzip may consist of several members, zstd of several frames: they are one body. Zero bytes behind
 * the last member are ignored, anything else there is refused. zstd is the format of RFC 8878;
 * those before it are refused. "deflate" is a zlib stream, as RFC 9110 says, or a bare one, as some
 * clients have it; the first two bytes show which.
 *
 * Memory besides the output: about 44 KiB for gzip and deflate; for zstd the sender's window, which
 * is refused above 8 MiB (RFC 8878's advice), and 300 KiB.
 *
 * Threads: an unpacker belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/cleanup.h"

typedef enum tide_coding {
    TIDE_CODING_IDENTITY, /* passed through, with the limit of output_len */
    TIDE_CODING_GZIP,
    TIDE_CODING_DEFLATE,
    TIDE_CODING_ZSTD,
} tide_coding;

/* What to say in Accept-Encoding and grpc-accept-encoding. */
#define TIDE_CODING_ACCEPTED "identity,gzip,deflate,zstd"

enum {
    TIDE_INFLATE_OUTPUT_MAX = 64 << 20,
    /* gzip cannot reach it: honest repetition passes, zstd bombs end */
    TIDE_INFLATE_RATIO_MAX = 1100,
    TIDE_INFLATE_RATIO_FLOOR_LEN = 4 << 20,
};

/* 0 stands for the constant above. */
typedef struct tide_inflate_limits {
    size_t output_len;
    size_t ratio;
    size_t ratio_floor_len;
} tide_inflate_limits;

typedef struct tide_inflater tide_inflater;

/* By the name of a Content-Encoding or grpc-encoding, in any case, without spaces around it:
 * identity, gzip, x-gzip, deflate, zstd. TIDE_E_UNSUPPORTED: another one; the words list these. */
TIDE_MUST_CHECK tide_status tide_coding_find(tide_coding *out, tide_view name, tide_error *err);
const char *tide_coding_name(tide_coding coding);

/* limits NULL: all of the constants. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_inflater_new(tide_inflater **out, tide_coding coding,
                                              const tide_inflate_limits *limits, tide_error *err);
void tide_inflater_free(tide_inflater *inflater);
TIDE_CLEANUP_FN(tide_inflater_freep, tide_inflater, tide_inflater_free) /* fits TIDE_CLEANUP */

/* Unpack some more. TIDE_E_INVALID: not of this coding, or damaged. TIDE_E_LIMIT: a bomb, or just
 * too large. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_inflater_feed(tide_inflater *inflater, tide_view bytes,
                                               tide_buffer *out, tide_error *err);

/* There will be no more. TIDE_E_INVALID: the body is cut short. */
TIDE_MUST_CHECK tide_status tide_inflater_finish(tide_inflater *inflater, tide_error *err);

/* All at once: append what bytes unpack to, within out's maximum and the constants' ratio.
 * TIDE_E_UNSUPPORTED: an encoding that tide_coding_find does not know. Otherwise as above; on a
 * failure out is as before. */
TIDE_MUST_CHECK tide_status tide_inflate(tide_buffer *out, tide_view bytes, const char *encoding,
                                         tide_error *err);

/* Append bytes, compressed as one gzip member. level 1..9; 0: 1, the fast one. On a failure out is
 * as before: TIDE_E_LIMIT: it does not fit; TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_gzip_append(tide_buffer *out, tide_view bytes, int level,
                                             tide_error *err);
