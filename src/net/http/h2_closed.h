/* h2_closed.h - what the ids of an HTTP/2 connection say about streams that do not exist any more.
 *
 * Ids of a peer rise. So an id that is not open and not above the highest seen belongs to a stream
 * that is over, and knowing that needs no memory. A frame on it is an error of the peer, with two
 * exceptions that do need some:
 *
 * - Ids that were skipped were never a stream. A request there is a new id that does not rise. The
 *   newest TIDE_H2_GAPS gaps are known; clients leave none.
 * - A stream that we reset ourselves may still have frames on their way. The newest TIDE_H2_RESETS
 *   of them are known, and of each as many bytes are tolerated as the peer had window for.
 *
 * Threads: belongs to a connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_H2_GAPS = 8,
    TIDE_H2_RESETS = 1024,   /* as many as reset_burst lets happen at once */
    TIDE_H2_FRAME_COST = 64, /* bytes that the shortest frame counts for */
};

typedef struct tide_h2_gap {
    int32_t first;
    int32_t last;
} tide_h2_gap;

typedef struct tide_h2_reset {
    int32_t id;
    int32_t left; /* bytes that may still come */
} tide_h2_reset;

typedef struct tide_h2_closed {
    int32_t highest; /* of the peer's ids */
    tide_h2_gap gaps[TIDE_H2_GAPS];
    size_t gap_count; /* ever; the newest are kept */
    tide_h2_reset *resets;
    size_t reset_count; /* ever; the newest are kept */
} tide_h2_closed;

void tide_h2_closed_done(tide_h2_closed *closed);

/* A request begins with this id. true: it rises. */
bool tide_h2_closed_open(tide_h2_closed *closed, int32_t id);

/* Was this id, which is not above the highest, skipped? */
bool tide_h2_closed_is_gap(const tide_h2_closed *closed, int32_t id);

/* We reset this stream; window bytes may be on their way. Without memory it is not tolerated. */
void tide_h2_closed_reset(tide_h2_closed *closed, int32_t id, int32_t window);

/* May a frame of this length come for a stream that is over? */
bool tide_h2_closed_tolerates(tide_h2_closed *closed, int32_t id, size_t frame_len);
