#include "journal/snapshot/chunk.h"

#include <assert.h>
#include <inttypes.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/cleanup.h"

/* All of these belong to the storage format. */
enum {
    WINDOW_LEN = 64,  /* bytes that a hash knows */
    STRICT_BITS = 14, /* up to the average length */
    LOOSE_BITS = 10,  /* from then on */
};
static const uint64_t GEAR_SEED = UINT64_C(0x7469646D61726B31); /* "tidmark1" */

enum { ZSTD_LEVEL = 3 };

/* --- cutting --- */

static uint64_t splitmix64(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

void tide_chunker_init(tide_chunker *chunker, tide_view state)
{
    chunker->state = state;
    chunker->at = 0;
    uint64_t seed = GEAR_SEED;
    for (size_t i = 0; i < sizeof chunker->gear / sizeof chunker->gear[0]; i++)
        chunker->gear[i] = splitmix64(&seed);
}

/* Where the first chunk of these bytes ends. */
static size_t find_end(const uint64_t gear[256], const uint8_t *bytes, size_t len)
{
    if (len <= TIDE_CHUNK_LEN_MIN)
        return len;
    const size_t longest = len < TIDE_CHUNK_LEN_MAX ? len : TIDE_CHUNK_LEN_MAX;
    uint64_t hash = 0;
    size_t at = TIDE_CHUNK_LEN_MIN - WINDOW_LEN;
    for (; at < TIDE_CHUNK_LEN_MIN - 1; at++) /* a full window before the first decision */
        hash = (hash << 1) + gear[bytes[at]];
    for (; at < longest; at++) {
        hash = (hash << 1) + gear[bytes[at]];
        const int bits = at < TIDE_CHUNK_LEN_AVERAGE ? STRICT_BITS : LOOSE_BITS;
        if (hash >> (64 - bits) == 0)
            return at + 1;
    }
    return longest;
}

bool tide_chunker_next(tide_chunker *chunker, tide_chunk_span *span)
{
    const size_t left = chunker->state.len - chunker->at;
    if (left == 0)
        return false;
    const uint8_t *bytes = (const uint8_t *)chunker->state.ptr + chunker->at;
    *span = (tide_chunk_span){
        .offset = chunker->at,
        .len = find_end(chunker->gear, bytes, left),
    };
    chunker->at += span->len;
    return true;
}

/* --- storing --- */

void tide_chunk_coder_done(tide_chunk_coder *coder)
{
    ZSTD_freeCCtx(coder->encoder);
    ZSTD_freeDCtx(coder->decoder);
    *coder = (tide_chunk_coder){0};
}

tide_status tide_chunk_digest(tide_view chunk, uint8_t out[TIDE_CHUNK_DIGEST_LEN], tide_error *err)
{
    return tide_sha256_of(chunk, out, err);
}

static tide_status append_bytes(tide_buffer *out, const void *bytes, size_t len, tide_error *err)
{
    const tide_status status = tide_buffer_append(out, bytes, len);
    if (status == TIDE_E_LIMIT)
        return tide_fail(err, status, "chunk: no room for %zu bytes", len);
    if (status != TIDE_OK)
        return tide_buffer_check(status, err);
    return TIDE_OK;
}

static bool is_out_of_memory(size_t result)
{
    return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation;
}

tide_status tide_chunk_encode(tide_chunk_coder *coder, tide_view chunk, tide_buffer *out,
                              tide_chunk_codec *codec, tide_error *err)
{
    assert(chunk.len <= TIDE_CHUNK_LEN_MAX);
    if (!coder->encoder)
        coder->encoder = ZSTD_createCCtx();
    TIDE_NEED_MEMORY(coder->encoder, err);

    char packed[TIDE_CHUNK_LEN_MAX];
    const size_t room = chunk.len > 0 ? chunk.len - 1 : 0; /* smaller, or not at all */
    const size_t packed_len =
        ZSTD_compressCCtx(coder->encoder, packed, room, chunk.ptr, chunk.len, ZSTD_LEVEL);
    if (!ZSTD_isError(packed_len)) {
        TIDE_TRY(append_bytes(out, packed, packed_len, err));
        *codec = TIDE_CHUNK_ZSTD;
        return TIDE_OK;
    }
    if (is_out_of_memory(packed_len))
        return tide_no_memory(err);
    TIDE_TRY(append_bytes(out, chunk.ptr, chunk.len, err));
    *codec = TIDE_CHUNK_RAW;
    return TIDE_OK;
}

/* Into raw, which has room for stored->raw_len, exactly that much. */
static tide_status unpack(tide_chunk_coder *coder, const tide_chunk_stored *stored, char *raw,
                          tide_error *err)
{
    if (!coder->decoder)
        coder->decoder = ZSTD_createDCtx();
    TIDE_NEED_MEMORY(coder->decoder, err);
    const size_t len = ZSTD_decompressDCtx(coder->decoder, raw, (size_t)stored->raw_len,
                                           stored->bytes.ptr, stored->bytes.len);
    if (is_out_of_memory(len))
        return tide_no_memory(err);
    if (ZSTD_isError(len))
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: %s", ZSTD_getErrorName(len));
    if (len != (size_t)stored->raw_len)
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: %zu bytes, %" PRId64 " were stored", len,
                         stored->raw_len);
    return TIDE_OK;
}

static tide_status check_digest(tide_view raw, tide_view want, tide_error *err)
{
    uint8_t digest[TIDE_CHUNK_DIGEST_LEN];
    TIDE_TRY(tide_chunk_digest(raw, digest, err));
    if (!tide_view_equal(tide_view_bytes(digest, sizeof digest), want))
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: its bytes do not have its digest");
    return TIDE_OK;
}

tide_status tide_chunk_decode(tide_chunk_coder *coder, const tide_chunk_stored *stored,
                              tide_buffer *out, tide_error *err)
{
    if (stored->raw_len < 0 || stored->raw_len > TIDE_CHUNK_LEN_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: a length of %" PRId64 ", want 0..%d",
                         stored->raw_len, TIDE_CHUNK_LEN_MAX);
    char unpacked[TIDE_CHUNK_LEN_MAX];
    tide_view raw = stored->bytes;
    if (stored->codec == TIDE_CHUNK_ZSTD) {
        TIDE_TRY(unpack(coder, stored, unpacked, err));
        raw = tide_view_bytes(unpacked, (size_t)stored->raw_len);
    } else if (stored->codec != TIDE_CHUNK_RAW) {
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: unknown codec %" PRId64, stored->codec);
    } else if (raw.len != (size_t)stored->raw_len) {
        return tide_fail(err, TIDE_E_DAMAGED, "chunk: %zu bytes, %" PRId64 " were stored", raw.len,
                         stored->raw_len);
    }
    TIDE_TRY(check_digest(raw, stored->digest, err));
    return append_bytes(out, raw.ptr, raw.len, err);
}
