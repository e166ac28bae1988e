/* digest.h - names for bytes: what was seen, in what order, unchanged.
 *
 * Three strengths:
 *   CRC32C    (bytes/crc32c.h) 4 bytes; finds accidents in one block.
 *   XXH3-128  16 bytes; tells contents and histories apart at memory speed; no defence.
 *   SHA-256   32 bytes; holds against people: exports, snapshots, tokens.
 *
 * The chain: d(n) = XXH3-128(d(n-1), record n), d of nothing being 16 zero bytes. Two histories
 * with equal d(n) are equal up to n. The previous digest enters as its 16 canonical (big endian)
 * bytes, which is also how a tide_digest128 is held in memory, stored and sent.
 *
 * Threads: pure; a tide_sha256 belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/bytes/crc32c.h"

enum {
    TIDE_DIGEST128_LEN = 16,
    TIDE_DIGEST128_TEXT_SIZE = 33, /* hexadecimal, with the terminator */
    TIDE_SHA256_LEN = 32,
    TIDE_SHA256_TEXT_SIZE = 65,
};

typedef struct tide_digest128 {
    uint8_t bytes[TIDE_DIGEST128_LEN]; /* canonical, big endian */
} tide_digest128;

tide_digest128 tide_digest128_of(tide_view bytes);
/* Of the parts, one behind the other. */
tide_digest128 tide_digest128_of_parts(const tide_view *parts, size_t count);

/* The digest of a history that ends in record, given the digest of the history before it. */
tide_digest128 tide_digest_chain(tide_digest128 previous, tide_view record);

bool tide_digest128_equal(const tide_digest128 *a, const tide_digest128 *b);

/* SHA-256 in one call. TIDE_E_FAILED: OpenSSL refused (no memory, no provider). */
TIDE_MUST_CHECK tide_status tide_sha256_of(tide_view bytes, uint8_t out[TIDE_SHA256_LEN],
                                           tide_error *err);

/* SHA-256 of bytes that come in pieces: init, add any number of times, finish once, done always. */
typedef struct tide_sha256 {
    struct evp_md_ctx_st *context;
} tide_sha256;

TIDE_MUST_CHECK tide_status tide_sha256_init(tide_sha256 *sha, tide_error *err);
TIDE_MUST_CHECK tide_status tide_sha256_add(tide_sha256 *sha, tide_view bytes, tide_error *err);
TIDE_MUST_CHECK tide_status tide_sha256_finish(tide_sha256 *sha, uint8_t out[TIDE_SHA256_LEN],
                                               tide_error *err);
/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_sha256_done(tide_sha256 *sha);

/* Equal or not, in a time that depends on len alone: for tokens and anything a peer may guess
 * at. */
bool tide_digest_equal(const void *a, const void *b, size_t len);

/* Two lower-case digits per byte and a terminator: out holds 2 * len + 1. */
void tide_hex_encode(char *out, const void *bytes, size_t len);

/* Exactly len bytes from exactly 2 * len digits of either case. TIDE_E_INVALID: anything else; out
 * is then untouched up to the first bad digit and must not be used. */
TIDE_MUST_CHECK tide_status tide_hex_decode(void *out, size_t len, tide_view text);
