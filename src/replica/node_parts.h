/* node_parts.h - a node, as the files of node.h see it. */
#pragma once

#include <stdatomic.h>

#include "replica/node.h"

struct tide_node {
    tide_foreign_db *file;
    tide_env *env;
    tide_node_id id;        /* zeros: the file does not take part yet; once made it stays */
    _Atomic int64_t epoch;  /* 0: the same. A file that is put back begins one at any time */
    tide_report_fn *report; /* NULL: nobody listens */
    void *report_arg;
    _Atomic uint64_t reported; /* digest of what was said last */
    _Atomic uint64_t looked;   /* what the last look found in order (check.c); 0: nothing yet */
};

/* Inside a write transaction; tide_node_become tells the node. */
TIDE_MUST_CHECK tide_status tide_node_begin_epoch_in(tide_foreign_tx *tx, const tide_node_id *id,
                                                     int64_t epoch, const char *reason,
                                                     const char *evidence, tide_error *err);
void tide_node_become(tide_node *node, const tide_node_id *id, int64_t epoch);

/* Make our tables and the node's id, where there are none; inside a write transaction. */
TIDE_MUST_CHECK tide_status tide_node_establish_in(tide_foreign_tx *tx, tide_node_id *id,
                                                   int64_t *epoch, tide_error *err);
