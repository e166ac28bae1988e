/* status_service.h - what people want to see of a node: GetStatus, ListConflicts, ListQuarantined of tidemark.replica.v1.
 *
 * They only look: nothing is folded or acknowledged, so a page that asks every second does not disturb the node. What was captured and not folded yet is
 * not in the numbers.
 *
 * Texts of the application (values, keys, names) may be anything: broken characters are replaced. Texts about quarantined events are cut at
 * TIDE_LOOK_VALUE_MAX bytes; a list of conflicts ends where its response is full.
 *
 * Threads: any. */
#pragma once

#include "remote/replica_messages.h"
#include "replica/node.h"

enum {
    TIDE_LOOK_LIST_DEFAULT = 100,
    TIDE_LOOK_LIST_MAX = 10000,
    TIDE_LOOK_VALUE_MAX = 1024,
};

TIDE_MUST_CHECK tide_status tide_look_status(tide_node *node, tide_buffer *out, tide_error *err);
/* One entry as ListConflicts has it, and `replica conflicts --json` prints it. */
TIDE_MUST_CHECK tide_status tide_look_conflict(const tide_conflict *conflict, tide_buffer *out,
                                               tide_error *err);
TIDE_MUST_CHECK tide_status tide_look_conflicts(tide_node *node,
                                                const REPLICA(ListConflictsRequest) * request,
                                                tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_look_quarantined(tide_node *node,
                                                  const REPLICA(ListQuarantinedRequest) * request,
                                                  tide_buffer *out, tide_error *err);
