/* repair_service.h - the methods by which nodes compare and repair rows (replica/repair.h): RangeDigests, ReadRows, MergeRows.
 *
 * Who may read may compare; taking over rows needs the role write. What comes from outside is checked: keys, clocks and values when they are decoded,
 * stamps when they are merged.
 *
 * Threads: as service.h. */
#ifndef TIDE_REPLICAD_REPAIR_SERVICE_H
#define TIDE_REPLICAD_REPAIR_SERVICE_H

#include "replica/repair.h"
#include "replicad/wire.h"

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

/* States as occurrences of a field, and back (into states that hold nothing yet). */
TIDE_MUST_CHECK tide_status tide_repair_put_states(tide_buffer *out, uint32_t field,
                                                   const tide_row_states *states, tide_error *err);
TIDE_MUST_CHECK tide_status tide_repair_read_states(tide_row_states *out,
                                                    const ProtobufCBinaryData *node,
                                                    REPLICA(RowState) * *rows, size_t count,
                                                    tide_error *err);

#endif
