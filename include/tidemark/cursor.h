/* cursor.h - how far a reader has come: a settled prefix, and the holes beyond it.
 *
 * A number is settled when its fate is known and recorded: stored, set aside, void or lost. Numbers
 * may settle in any order and more than once. The cursor keeps
 *
 *     settled    ################....####..########
 *     number     1              ^    ^  ^         ^
 *                       contiguous  holes         highest
 *
 *   contiguous  everything up to it is settled; the only position to be reported as "read so far"
 *   highest     the greatest settled number
 *   holes       the unsettled intervals between them, ascending, settled numbers between them
 *
 * It moves only over a contiguous settled prefix: what arrives beyond a hole is remembered, the
 * hole stays, and a late arrival fills it. Nothing is ever skipped; who wants to give a hole up
 * declares its numbers lost or void elsewhere and then settles them here (tide_cursor_add) or
 * raises the prefix over them (tide_cursor_raise).
 *
 * The same set of settled numbers is the same cursor, whatever the order they came in, and has the
 * same bytes.
 *
 * Survives: nothing by itself. tide_cursor_encode gives bytes to be stored in the transaction that
 * stores the rows; tide_cursor_decode reads them back and trusts none of them.
 * Threads: a cursor belongs to one thread at a time.
 * Limits: numbers are 1 .. 2^63-1. Memory is 16 bytes per hole, however wide; the number of holes
 * has a maximum given at birth, and what would need more is refused, with nothing changed: a reader
 * that scatters must stop and fill its holes, it cannot forget them. Settling costs a binary search
 * plus the holes that move. */
#ifndef TIDEMARK_CURSOR_H
#define TIDEMARK_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

TIDE_BEGIN_DECLS

enum { TIDE_CURSOR_HOLES_USUAL = 65536 }; /* a sensible hole_max: 1 MiB */

struct tide_buffer;

/* Both ends belong to it. */
typedef struct tide_interval {
    int64_t first;
    int64_t last;
} tide_interval;

/* Read it through the functions below. */
typedef struct tide_cursor {
    int64_t contiguous;
    int64_t highest;
    tide_interval *holes;
    size_t hole_count;
    size_t hole_capacity;
    size_t hole_max;
} tide_cursor;

/* A cursor that has settled 1 .. settled_through (0 or more; 0: nothing). Allocates nothing yet. */
TIDE_API void tide_cursor_init(tide_cursor *cursor, int64_t settled_through, size_t hole_max);

/* Give the memory back. Fits TIDE_CLEANUP on a cursor that was initialised, or began as {0}. */
TIDE_API void tide_cursor_done(tide_cursor *cursor);

/* Settle first .. last. *added (may be NULL) is how many of them were not settled before.
 * TIDE_E_INVALID: not 1 <= first <= last. TIDE_E_LIMIT: it would need more than hole_max holes.
 * TIDE_E_NOMEM. On failure nothing has changed and *added is untouched. */
TIDE_API TIDE_MUST_CHECK tide_status tide_cursor_add(tide_cursor *cursor, int64_t first,
                                                     int64_t last, int64_t *added, tide_error *err);

/* Settle everything up to through, holes included. Never lowers anything; cannot fail.
 * Returns how many numbers were not settled before. */
TIDE_API int64_t tide_cursor_raise(tide_cursor *cursor, int64_t through);

TIDE_API int64_t tide_cursor_contiguous(const tide_cursor *cursor);
TIDE_API int64_t tide_cursor_highest(const tide_cursor *cursor);

/* Is this number settled? What is no number (0 and below) is not. */
TIDE_API bool tide_cursor_has(const tide_cursor *cursor, int64_t number);

/* The holes, ascending; borrowed until the cursor changes. NULL possible when *count is 0. */
TIDE_API const tide_interval *tide_cursor_holes(const tide_cursor *cursor, size_t *count);

/* How many numbers lie in the holes. */
TIDE_API int64_t tide_cursor_pending(const tide_cursor *cursor);

/* The first unsettled interval above `after`, without what lies at or below it. TIDE_NONE: there is
 * no hole up there. Walking: start with after = 0, go on with after = hole->last. */
TIDE_API tide_status tide_cursor_next_hole(const tide_cursor *cursor, int64_t after,
                                           tide_interval *hole);

/* The stored form, appended to a buffer (base/buffer.h):
 *
 *     byte     version, 1
 *     varint   contiguous
 *     varint   number of holes
 *     varint   width of the hole        \ once per hole; the first hole begins at contiguous + 1,
 *     varint   width of what is settled  / the last settled run ends at highest
 *     4 bytes  CRC32C of everything before, little endian
 *
 * Widths are 1 or more and varints are of the shortest form, so a cursor has exactly one encoding.
 * TIDE_E_LIMIT, TIDE_E_NOMEM of the buffer, which is then as before. */
TIDE_API TIDE_MUST_CHECK tide_status tide_cursor_encode(const tide_cursor *cursor,
                                                        struct tide_buffer *out, tide_error *err);

/* Make a cursor from its stored form, like tide_cursor_init: *cursor must not hold memory yet.
 * TIDE_E_DAMAGED: these are not the bytes of a cursor. TIDE_E_NEWER: sound, but of a later version.
 * TIDE_E_LIMIT: more than hole_max holes. TIDE_E_NOMEM. On failure *cursor is untouched. */
TIDE_API TIDE_MUST_CHECK tide_status tide_cursor_decode(tide_cursor *cursor, tide_view bytes,
                                                        size_t hole_max, tide_error *err);

TIDE_END_DECLS

#endif
