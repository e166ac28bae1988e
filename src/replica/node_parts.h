/* node_parts.h - a node, as the files of node.h see it. */
#ifndef TIDE_REPLICA_NODE_PARTS_H
#define TIDE_REPLICA_NODE_PARTS_H

#include "replica/node.h"

struct tide_node {
    tide_app *file;
    tide_env *env;
    tide_node_id id; /* zeros: the file does not take part yet */
    int64_t epoch;   /* 0: the same */
};

/* Make our tables and the node's id, where there are none; inside a write transaction. */
TIDE_MUST_CHECK tide_status tide_node_establish_in(tide_app_tx *tx, tide_node_id *id,
                                                   int64_t *epoch, tide_error *err);

#endif
