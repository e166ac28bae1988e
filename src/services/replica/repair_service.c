#include "services/replica/repair_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "services/api/rpc.h"

static ProtobufCBinaryData bytes_of(tide_view view)
{
    return (ProtobufCBinaryData){.len = view.len, .data = (uint8_t *)view.ptr};
}

static tide_view view_of(ProtobufCBinaryData bytes)
{
    return tide_view_bytes(bytes.len > 0 ? (const void *)bytes.data : "", bytes.len);
}

static tide_status check_table(const char *table, tide_error *err)
{
    const size_t len = strlen(table);
    if (len == 0 || len > TIDE_EVENT_TABLE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a table's name has 1 to %d bytes",
                         TIDE_EVENT_TABLE_MAX);
    return TIDE_OK;
}

/* ---- ranges ---- */

static tide_status put_range(void *arg, const tide_range_digest *part, tide_error *err)
{
    REPLICA(RangeDigest) range = REPLICA_INIT(RANGE_DIGEST);
    range.end = bytes_of(part->end);
    range.rows = (uint64_t)part->rows;
    range.digest = bytes_of(tide_view_bytes(part->digest, sizeof part->digest));
    return tide_replica_put_message(arg, 1, &range.base, err);
}

tide_status tide_repair_serve_ranges(tide_node *node, const REPLICA(RangeDigestsRequest) * request,
                                     tide_buffer *out, tide_error *err)
{
    const tide_range range = {.after = view_of(request->after),
                              .through = view_of(request->through)};
    TIDE_TRY(check_table(request->table, err));
    if (request->parts > TIDE_RANGE_PARTS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "at most %d parts", TIDE_RANGE_PARTS_MAX);
    return tide_node_split(node, request->table, request->schema, &range,
                           request->parts > 0 ? (int)request->parts : TIDE_RANGE_PARTS, put_range,
                           out, err);
}

tide_status tide_repair_serve_rows(tide_node *node, const REPLICA(ReadRowsRequest) * request,
                                   tide_buffer *out, tide_error *err)
{
    TIDE_CLEANUP(tide_row_states_done) tide_row_states states;
    tide_row_states_init(&states);
    TIDE_TRY(check_table(request->table, err));
    if (request->n_keys < 1 || request->n_keys > TIDE_REPAIR_ROWS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu keys, want 1..%d", request->n_keys,
                         TIDE_REPAIR_ROWS_MAX);
    TIDE_CLEANUP(tide_freep) tide_view *keys = calloc(request->n_keys, sizeof *keys);
    if (!keys)
        return tide_no_memory(err);
    for (size_t i = 0; i < request->n_keys; i++)
        keys[i] = view_of(request->keys[i]);
    TIDE_TRY(tide_node_row_states(node, request->table, request->schema, keys, (int)request->n_keys,
                                  TIDE_REPAIR_BYTES, &states, err));
    REPLICA(ReadRowsResponse) answer = REPLICA_INIT(READ_ROWS_RESPONSE);
    answer.node = bytes_of(tide_view_bytes(states.node.bytes, TIDE_NODE_LEN));
    TIDE_TRY(tide_rpc_pack(out, &answer.base, err));
    return tide_repair_put_states(out, 2, &states, err);
}

tide_status tide_repair_serve_merge(tide_node *node, const REPLICA(MergeRowsRequest) * request,
                                    tide_buffer *out, tide_error *err)
{
    tide_repaired repaired = {.rows = 0};
    TIDE_CLEANUP(tide_row_states_done) tide_row_states states;
    tide_row_states_init(&states);
    TIDE_TRY(check_table(request->table, err));
    TIDE_TRY(tide_repair_read_states(&states, &request->node, request->rows, request->n_rows, err));
    TIDE_TRY(
        tide_node_merge_states(node, request->table, request->schema, &states, &repaired, err));
    REPLICA(MergeRowsResponse) answer = REPLICA_INIT(MERGE_ROWS_RESPONSE);
    answer.rows = (uint64_t)repaired.rows;
    answer.newer = (uint64_t)repaired.newer;
    answer.chosen = (uint64_t)repaired.chosen;
    answer.restored = (uint64_t)repaired.restored;
    answer.captured = (uint64_t)repaired.captured;
    answer.conflicts = (uint64_t)repaired.conflicts;
    answer.refused = (uint64_t)repaired.refused;
    return tide_rpc_pack(out, &answer.base, err);
}
