/* range.h - digests of a table by ranges of its keys: where do two nodes differ?
 *
 * Keys are ordered as SQLite orders them (value by value, by the columns' collations), which is the same wherever the schema is. A range is (after,
 * through]; an empty key stands for the beginning or the end of the table. The digest of a range is the sum of its rows' digests: key and values,
 * independent of order, equal where the rows are.
 *
 *     node A                         node B
 *     split the table in 64   ---->  digests of the same 64 ranges         those that differ are split again,
 *     split one of them in 64 ---->  ...                                   down to ranges of one row
 *
 * So a table of n rows with d differing ones costs one walk over the table and d * log64(n) small questions.
 *
 * Threads: as the node. Each call is one read of the file as it is then. */
#pragma once

#include "replica/node.h"

enum {
    TIDE_RANGE_PARTS = 64, /* that a range is usually split into */
    TIDE_RANGE_PARTS_MAX = 1024,
};

typedef struct tide_range {
    tide_view after;   /* encoded key (value.h); empty: the beginning */
    tide_view through; /* empty: the end */
} tide_range;

typedef struct tide_range_digest {
    tide_view end; /* key of its last row; empty: there is none. Until fn returns */
    int64_t rows;
    uint8_t digest[16];
} tide_range_digest;
typedef tide_status tide_range_fn(void *arg, const tide_range_digest *part, tide_error *err);

/* Split a range into at most `parts` ranges of about as many rows each, in order: each goes to its end, the last one to where the range goes. A range
 * without rows is one part.
 * TIDE_E_NOT_FOUND: no such table is tracked. TIDE_E_CONFLICT: its schema has another digest (0: any will do). TIDE_E_INVALID: a key. */
TIDE_MUST_CHECK tide_status tide_node_split(tide_node *node, const char *table, uint64_t schema,
                                            const tide_range *range, int parts, tide_range_fn *fn,
                                            void *arg, tide_error *err);

/* The digest of one range; out->end is empty. */
TIDE_MUST_CHECK tide_status tide_node_range(tide_node *node, const char *table, uint64_t schema,
                                            const tide_range *range, tide_range_digest *out,
                                            tide_error *err);

/* The first max rows of a range, one by one: parts of one row. */
TIDE_MUST_CHECK tide_status tide_node_range_rows(tide_node *node, const char *table,
                                                 uint64_t schema, const tide_range *range, int max,
                                                 tide_range_fn *fn, void *arg, tide_error *err);

/* ---- shared with digest.c ---- */

/* 128-bit sums: the order of rows does not matter, and a row can be taken out again. */
void tide_range_add(uint8_t sum[16], const uint8_t row[16]);
/* The next row of a walk over all stored columns: its digest. bytes: scratch; where key is not NULL, it gets the encoded key. TIDE_NONE: the end. */
TIDE_MUST_CHECK tide_status tide_range_next(uint8_t digest[16], tide_buffer *key,
                                            tide_buffer *bytes, tide_foreign_query *query,
                                            const tide_table *table, tide_error *err);
