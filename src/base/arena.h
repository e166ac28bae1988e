/* arena.h - memory for things that live and die together.
 *
 * Rows of one query, fields of one message: each is allocated by moving a mark, none is freed
 * alone. The arena takes chunks from malloc (4 KiB first, doubling to 64 KiB, larger only for one
 * larger request) and gives all back at once.
 *
 * The maximum, stated at birth, bounds the sum of what was handed out since the last reset, each
 * request rounded up to the alignment of max_align_t. The memory behind it is at most twice that
 * and one chunk.
 *
 * Under AddressSanitizer the unused part of every chunk is poisoned: running over the end of an
 * allocation by more than the rounding is reported, and so is a use after the reset.
 *
 * Threads: an arena belongs to one thread at a time. */
#pragma once

#include <stddef.h>

#include <tidemark/export.h>
#include <tidemark/view.h>

struct tide_arena_chunk;

typedef struct tide_arena {
    struct tide_arena_chunk *chunks; /* the newest first */
    size_t used_len;                 /* handed out since the last reset, rounded */
    size_t max;
} tide_arena;

/* Allocates nothing yet. */
tide_arena tide_arena_of(size_t max);
void tide_arena_init(tide_arena *arena, size_t max);

/* Free everything; the arena is then empty and usable again. Fits TIDE_CLEANUP. */
void tide_arena_done(tide_arena *arena);

/* Forget every allocation and keep one chunk, so that a loop over messages does not return to
 * malloc. */
void tide_arena_reset(tide_arena *arena);

/* len bytes, uninitialised, aligned for any type. NULL: over the maximum, or no memory. A length of
 * 0 gives a pointer of its own. */
TIDE_MUST_CHECK void *tide_arena_alloc(tide_arena *arena, size_t len);

/* A copy of len bytes. NULL as above. */
TIDE_MUST_CHECK void *tide_arena_copy(tide_arena *arena, const void *ptr, size_t len);

/* A copy with a NUL behind it. NULL as above. */
TIDE_MUST_CHECK char *tide_arena_text(tide_arena *arena, tide_view text);
