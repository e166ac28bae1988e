/* http1_chunks.h - decoder of chunked bodies.
 *
 * Sizes have at most 8 hexadecimal digits, every line end is CR LF, a trailer line has a name and a
 * colon. Extensions and trailers are bounded and ignored. Anything else is refused: a proxy might
 * read it differently.
 *
 * Threads: a decoder belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

enum { TIDE_CHUNK_EXTRA_MAX = 8192 }; /* bytes of all extensions and trailers of a body */

typedef enum tide_chunk_state {
    TIDE_CHUNK_SIZE,
    TIDE_CHUNK_EXTENSION,
    TIDE_CHUNK_SIZE_LF,
    TIDE_CHUNK_DATA,
    TIDE_CHUNK_DATA_CR,
    TIDE_CHUNK_DATA_LF,
    TIDE_CHUNK_TRAILER_START,
    TIDE_CHUNK_TRAILER_NAME,
    TIDE_CHUNK_TRAILER,
    TIDE_CHUNK_TRAILER_LF,
    TIDE_CHUNK_LAST_LF,
    TIDE_CHUNK_DONE,
    TIDE_CHUNK_BAD,
} tide_chunk_state;

typedef struct tide_chunk_decoder {
    tide_chunk_state state;
    uint64_t left; /* of the chunk */
    int digits;
    int extra_len;
} tide_chunk_decoder;

void tide_chunk_init(tide_chunk_decoder *decoder);

/* Take bytes from the front of *in, up to the end of the body or of a run of its content, which
 * *data is then (borrowed from in; len 0: none). To be called until in is empty or the state is
 * DONE or BAD. */
void tide_chunk_next(tide_chunk_decoder *decoder, tide_view *in, tide_view *data);
