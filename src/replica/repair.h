/* repair.h - two nodes whose logs are equal show the same tables; where they do not, what differs is found and put right.
 *
 * That should never be needed. It is where a disk has altered a row, where somebody wrote with triggers off, where a file was mended by hand, where
 * an older version had a bug. Ranges of keys are compared (range.h), down to rows; then both nodes tell what they know of each of
 * these rows (its clock, its values), and each takes from the other:
 *
 *     the greater stamp        of a column, of a creation, of a deletion: exactly as the events would have been merged (merge.h)
 *     the same stamp           and different values: the one of the row that is as its node recorded it (tide_replica_clocks.digest); if both
 *                              are, or neither, the greater encoding. Both nodes choose alike. The other value goes to conflicts
 *     a row that is missing    although its clock says that it exists comes back, from the other's values
 *     a row without a clock    was written and not captured: it becomes an event of the node that has it, and travels by the next sync
 *     a row in the wrong place (aside here, in its table there) is placed anew by the rules of resolve.h
 *
 * Nothing that was acknowledged is lost: what is overwritten was known to the one that wrote over it, or is listed in conflicts.
 *
 * Writers may go on: differences that are only on their way are merged as a sync would have done it.
 *
 * Survives: a crash at any point; each batch of rows is one transaction of its node, and doing it again changes nothing.
 * Threads: as the node.
 * Limits: below. A peer that lies about its digests costs time; what it says of rows is checked as events are: no stamps from the future, none of this
 * node that it has not given. */
#pragma once

#include "base/arena.h"
#include "replica/range.h"

enum {
    TIDE_REPAIR_KEYS = 200,        /* rows of one turn */
    TIDE_REPAIR_BYTES = 16 << 20,  /* of one turn; one row may be larger */
    TIDE_REPAIR_DEPTH_MAX = 64,    /* of ranges inside ranges */
    TIDE_REPAIR_ROWS_MAX = 100000, /* keys in a message that is taken */
};

/* What a node knows of a row. Views belong to the tide_row_states. */
typedef struct tide_row_state {
    tide_view key;
    tide_view clock;  /* merge.h; empty: none */
    tide_view values; /* columns that are known: varint position, value.h, ... */
    bool stands;      /* in its table */
    bool is_altered;  /* it stands there with other values than were recorded */
    bool is_loose;    /* it stands there although its clock does not say so */
} tide_row_state;

typedef struct tide_row_states {
    tide_arena arena;
    tide_node_id node; /* whose they are */
    bool is_again; /* who takes them says what becomes of each row again, by an event (again.h) */
    tide_row_state *rows;
    int count;
    size_t bytes;
} tide_row_states;

void tide_row_states_init(tide_row_states *states);
void tide_row_states_done(tide_row_states *states); /* fits TIDE_CLEANUP */
/* A copy. TIDE_E_NOMEM, TIDE_E_LIMIT. */
TIDE_MUST_CHECK tide_status tide_row_states_add(tide_row_states *states,
                                                const tide_row_state *state, tide_error *err);

/* What was done at one node. */
typedef struct tide_repaired {
    int64_t rows;  /* that were written to the table, or taken out of it */
    int64_t newer; /* rows that took over greater stamps */
    int64_t
        chosen; /* columns with one stamp and two values: one was chosen, the other is in conflicts */
    int64_t restored;  /* rows that were missing */
    int64_t captured;  /* rows without a clock, which became events */
    int64_t conflicts; /* that were added */
    int64_t refused;   /* rows whose stamps cannot be (from the future, or ours and unknown) */
} tide_repaired;

/* ---- repair_row.c, repair_merge.c: one node ---- */

/* What is known of rows, after a fold: of as many of the keys, in order, as max_bytes allow; at least one. */
TIDE_MUST_CHECK tide_status tide_node_row_states(tide_node *node, const char *table,
                                                 uint64_t schema, const tide_view *keys, int count,
                                                 size_t max_bytes, tide_row_states *out,
                                                 tide_error *err);
/* Take over what another node knows. One transaction. */
TIDE_MUST_CHECK tide_status tide_node_merge_states(tide_node *node, const char *table,
                                                   uint64_t schema, const tide_row_states *theirs,
                                                   tide_repaired *out, tide_error *err);

/* ---- repair.c: two nodes ---- */

/* The other node: of this process (tide_repair_of_node), or behind a network (remote/replica_repair.h). */
typedef struct tide_repair_peer {
    void *arg;
    const char *name;
    tide_status (*split)(void *arg, const char *table, uint64_t schema, const tide_range *range,
                         int parts, tide_range_fn *fn, void *fn_arg, tide_error *err);
    tide_status (*states)(void *arg, const char *table, uint64_t schema, const tide_view *keys,
                          int count, size_t max_bytes, tide_row_states *out, tide_error *err);
    tide_status (*merge)(void *arg, const char *table, uint64_t schema,
                         const tide_row_states *theirs, tide_repaired *out, tide_error *err);
} tide_repair_peer;

tide_repair_peer tide_repair_of_node(tide_node *node, const char *name);

typedef struct tide_repair_options {
    bool is_repairing; /* otherwise it is only told what differs */
    bool
        is_again; /* what is repaired is told to all others by events of this node: their logs do not have it (self.h) */
    /* Told of each row that differs. NULL: nobody. */
    tide_status (*found)(void *arg, const char *table, tide_view key, tide_error *err);
    void *arg;
    bool (*is_over)(void *arg); /* asked between questions; NULL: never */
} tide_repair_options;

typedef struct tide_repair_result {
    int64_t rows_here;
    int64_t rows_there;
    int64_t questions; /* about ranges */
    int64_t ranges;    /* smallest ones that differ */
    int64_t differing; /* rows */
    tide_repaired here;
    tide_repaired there;
} tide_repair_result;

/* Compare a table, and repair what differs if that is asked for. Sync before (what is only on its way is no difference), and after, where rows were
 * captured. TIDE_E_NOT_FOUND, TIDE_E_CONFLICT: as range.h. TIDE_E_INTERRUPTED. *out tells what was done in any case. */
TIDE_MUST_CHECK tide_status tide_repair_table(tide_node *here, tide_repair_peer *there,
                                              const char *table, const tide_repair_options *options,
                                              tide_repair_result *out, tide_error *err);
