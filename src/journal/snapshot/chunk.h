/* chunk.h - large states as pieces that are stored once.
 *
 * The states of a task resemble each other: a history grows, a few counters change. So a state is
 * cut into chunks whose ends depend on the bytes around them and on nothing else: where two states
 * have the same bytes they have, after at most one chunk, the same chunks again, also when
 * something was inserted in front. A chunk is known by the SHA-256 of its bytes and stored once,
 * compressed.
 *
 * Where to cut (FastCDC with normalised chunking): a rolling hash runs over the bytes,
 *
 *     hash = (hash << 1) + GEAR[byte]
 *
 * in which a byte's part has left after 64 further bytes. A chunk ends behind the first byte whose
 * hash has the topmost bits all 0: 14 bits before the average length is reached, 10 bits from then
 * on, which makes short and long chunks rare. No chunk is shorter than 1 KiB (but the last of a
 * state) or longer than 16 KiB. GEAR is the first 256 numbers of splitmix64 from a fixed seed.
 *
 *     THIS IS A STORAGE FORMAT. Other cuts would still be read, but would share nothing with what
 *     is stored: the seed, the lengths and the bits never change. The test pins them.
 *
 * A stored chunk is (digest, codec, raw length, bytes). The codec is zstd (level 3, one frame,
 * which the zstd program reads too), or raw where that is not smaller. The compressed bytes may
 * differ between versions of zstd: nothing but reading depends on them. Reading checks everything,
 * the digest included: what is damaged is TIDE_E_DAMAGED and never handed out.
 *
 * Threads: an iterator or a coder belongs to one thread at a time. Limits: a decoded chunk never
 * takes more than TIDE_CHUNK_LEN_MAX, whatever the stored bytes say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/digest.h"

enum {
    TIDE_CHUNK_LEN_MIN = 1024,
    TIDE_CHUNK_LEN_AVERAGE = 4096,
    TIDE_CHUNK_LEN_MAX = 16384,
    TIDE_CHUNK_DIGEST_LEN = TIDE_SHA256_LEN,
};

/* Stored: the numbers stay. */
typedef enum tide_chunk_codec {
    TIDE_CHUNK_RAW = 0,
    TIDE_CHUNK_ZSTD = 1,
} tide_chunk_codec;

/* --- cutting --- */

typedef struct tide_chunk_span {
    size_t offset;
    size_t len; /* 1 .. TIDE_CHUNK_LEN_MAX */
} tide_chunk_span;

/* An iterator over the chunks of a state, 2 KiB, on the caller's stack. */
typedef struct tide_chunker {
    tide_view state;
    size_t at;
    uint64_t gear[256];
} tide_chunker;

/* The state must outlive the iterator. */
void tide_chunker_init(tide_chunker *chunker, tide_view state);

/* The next chunk: without gaps, in order. False: there is none (an empty state has none at all). */
TIDE_MUST_CHECK bool tide_chunker_next(tide_chunker *chunker, tide_chunk_span *span);

/* --- storing --- */

/* Keeps zstd's working memory from chunk to chunk. Begin it as {0}; done always. */
typedef struct tide_chunk_coder {
    struct ZSTD_CCtx_s *encoder; /* made when first needed */
    struct ZSTD_DCtx_s *decoder;
} tide_chunk_coder;

/* Fits TIDE_CLEANUP. */
void tide_chunk_coder_done(tide_chunk_coder *coder);

/* The name of a chunk. TIDE_E_FAILED: no SHA-256. */
TIDE_MUST_CHECK tide_status tide_chunk_digest(tide_view chunk, uint8_t out[TIDE_CHUNK_DIGEST_LEN],
                                              tide_error *err);

/* Append what is to be stored to out, never more than the chunk itself, and say in *codec what it
 * is. The chunk is at most TIDE_CHUNK_LEN_MAX long. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as
 * before. */
TIDE_MUST_CHECK tide_status tide_chunk_encode(tide_chunk_coder *coder, tide_view chunk,
                                              tide_buffer *out, tide_chunk_codec *codec,
                                              tide_error *err);

/* As it was read back; all of it is input. */
typedef struct tide_chunk_stored {
    int64_t codec;
    int64_t raw_len;
    tide_view bytes;
    tide_view digest;
} tide_chunk_stored;

/* Append the chunk to out. TIDE_E_DAMAGED: an unknown codec, another length than stated, no zstd
 * frame, or bytes that do not have the digest. TIDE_E_LIMIT, TIDE_E_NOMEM. On failure out is as
 * before. */
TIDE_MUST_CHECK tide_status tide_chunk_decode(tide_chunk_coder *coder,
                                              const tide_chunk_stored *stored, tide_buffer *out,
                                              tide_error *err);
