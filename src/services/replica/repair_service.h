/* repair_service.h - the methods by which nodes compare and repair rows (replica/repair.h): RangeDigests, ReadRows, MergeRows.
 *
 * Who may read may compare; taking over rows needs the role write. What comes from outside is checked: keys, clocks and values when they are decoded,
 * stamps when they are merged.
 *
 * Threads: as service.h. */
#pragma once

#include "remote/replica_messages.h"
#include "replica/repair.h"

/* Each appends its answer's fields to out. */
TIDE_MUST_CHECK tide_status tide_repair_serve_ranges(tide_node *node,
                                                     const REPLICA(RangeDigestsRequest) * request,
                                                     tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_repair_serve_rows(tide_node *node,
                                                   const REPLICA(ReadRowsRequest) * request,
                                                   tide_buffer *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_repair_serve_merge(tide_node *node,
                                                    const REPLICA(MergeRowsRequest) * request,
                                                    tide_buffer *out, tide_error *err);
