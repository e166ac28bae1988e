/* mark_map.h - which commit left a mark last: marks by their digest, 32 bytes each, whatever their length.
 *
 * Threads: one at a time. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/digest.h"

typedef struct tide_mark_slot {
    tide_digest128 mark;
    int64_t snapshot_id; /* 0: free */
} tide_mark_slot;

typedef struct tide_mark_map {
    tide_mark_slot *slots;
    size_t capacity; /* a power of two; at most half of it is used */
    size_t count;
} tide_mark_map;

void tide_mark_map_done(tide_mark_map *map); /* fits TIDE_CLEANUP on {0} */

/* The last snapshot that left it; 0: none. */
int64_t tide_mark_map_get(const tide_mark_map *map, const tide_digest128 *mark);

/* snapshot_id: above 0. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_mark_map_put(tide_mark_map *map, const tide_digest128 *mark,
                                              int64_t snapshot_id, tide_error *err);
