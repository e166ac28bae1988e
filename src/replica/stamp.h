/* stamp.h - when a column was written: a hybrid logical clock and the node that wrote.
 *
 *     48 bits  milliseconds since 1970          the greatest seen of the node's wall clock and every stamp it has met
 *     16 bits  counter                          within that millisecond
 *     node     16 bytes                         breaks ties; stamps of one node never tie
 *
 * Stamps are totally ordered, and a node's own always rise, also when its clock goes back: the last writer wins the same way everywhere. They
 * decide nothing else; progress is by numbers. A stamp further ahead of the local clock than TIDE_STAMP_DRIFT_US is not applied
 * yet but waits, visibly: one node with a wrong clock cannot win for years.
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/error.h>

#define TIDE_STAMP_DRIFT_US INT64_C(300000000) /* 5 min */

enum { TIDE_NODE_LEN = 16 };

typedef struct tide_node_id {
    uint8_t bytes[TIDE_NODE_LEN];
} tide_node_id;

typedef struct tide_stamp {
    uint64_t time; /* milliseconds << 16 | counter; 0: never */
    tide_node_id node;
} tide_stamp;

int tide_stamp_compare(const tide_stamp *a, const tide_stamp *b);
int64_t tide_stamp_us(const tide_stamp *stamp);

/* The node's clock: the greatest time given or met so far. */
typedef struct tide_hybrid {
    uint64_t last;
    tide_node_id node;
} tide_hybrid;

/* A stamp above everything given and met. TIDE_E_EXHAUSTED: the years are used up. */
TIDE_MUST_CHECK tide_status tide_hybrid_next(tide_hybrid *clock, int64_t wall_us, tide_stamp *out,
                                             tide_error *err);
/* A stamp of another node was taken over. TIDE_NONE: it lies beyond the drift bound, and nothing has changed: it has to wait. */
TIDE_MUST_CHECK tide_status tide_hybrid_meet(tide_hybrid *clock, int64_t wall_us,
                                             const tide_stamp *met);
