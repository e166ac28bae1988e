#include "remote/replica_repair.h"

#include <string.h>

#include "base/cleanup.h"
#include "remote/replica_messages.h"
#include "remote/replica_peer_internal.h"
#include "replica/peer.h"
#include "replica/self.h"
#include "services/api/rpc.h"

static ProtobufCBinaryData bytes_of(tide_view view)
{
    return (ProtobufCBinaryData){.len = view.len, .data = (uint8_t *)view.ptr};
}

static tide_status give_ranges(const REPLICA(RangeDigestsResponse) * answer, tide_range_fn *fn,
                               void *arg, tide_error *err)
{
    for (size_t i = 0; i < answer->n_ranges; i++) {
        const REPLICA(RangeDigest) *range = answer->ranges[i];
        tide_range_digest part = {
            .end = tide_view_bytes(range->end.len > 0 ? range->end.data : (uint8_t *)"",
                                   range->end.len)};
        if (range->digest.len != sizeof part.digest)
            return tide_fail(err, TIDE_E_DAMAGED, "a digest has %zu bytes", sizeof part.digest);
        memcpy(part.digest, range->digest.data, sizeof part.digest);
        TIDE_TRY(tide_wire_number(&part.rows, range->rows, err));
        TIDE_TRY(fn(arg, &part, err));
    }
    return TIDE_OK;
}

static tide_status remote_split(void *arg, const char *table, uint64_t schema,
                                const tide_range *range, int parts, tide_range_fn *fn, void *fn_arg,
                                tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(RangeDigestsRequest) request = REPLICA_INIT(RANGE_DIGESTS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.table = (char *)table;
    request.schema = schema;
    request.after = bytes_of(range->after);
    request.through = bytes_of(range->through);
    request.parts = (uint32_t)parts;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    TIDE_TRY(tide_remote_call(arg, "RangeDigests", &bytes,
                              &tidemark__replica__v1__range_digests_response__descriptor, &response,
                              err));
    return give_ranges((const REPLICA(RangeDigestsResponse) *)response, fn, fn_arg, err);
}

static tide_status remote_states(void *arg, const char *table, uint64_t schema,
                                 const tide_view *keys, int count, size_t max_bytes,
                                 tide_row_states *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(ReadRowsRequest) request = REPLICA_INIT(READ_ROWS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    (void)max_bytes; /* the server has its own bound, the same */
    request.table = (char *)table;
    request.schema = schema;
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_rpc_put_bytes(&bytes, 3, keys[i], err));
    TIDE_TRY(tide_remote_call(arg, "ReadRows", &bytes,
                              &tidemark__replica__v1__read_rows_response__descriptor, &response,
                              err));
    const REPLICA(ReadRowsResponse) *answer = (const REPLICA(ReadRowsResponse) *)response;
    return tide_repair_read_states(out, &answer->node, answer->rows, answer->n_rows, err);
}

static tide_status remote_merge(void *arg, const char *table, uint64_t schema,
                                const tide_row_states *theirs, tide_repaired *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    REPLICA(MergeRowsRequest) request = REPLICA_INIT(MERGE_ROWS_REQUEST);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    request.table = (char *)table;
    request.schema = schema;
    request.node = bytes_of(tide_view_bytes(theirs->node.bytes, TIDE_NODE_LEN));
    TIDE_TRY(tide_rpc_pack(&bytes, &request.base, err));
    TIDE_TRY(tide_repair_put_states(&bytes, 4, theirs, err));
    TIDE_TRY(tide_remote_call(arg, "MergeRows", &bytes,
                              &tidemark__replica__v1__merge_rows_response__descriptor, &response,
                              err));
    const REPLICA(MergeRowsResponse) *answer = (const REPLICA(MergeRowsResponse) *)response;
    *out = (tide_repaired){.rows = (int64_t)answer->rows,
                           .newer = (int64_t)answer->newer,
                           .chosen = (int64_t)answer->chosen,
                           .restored = (int64_t)answer->restored,
                           .captured = (int64_t)answer->captured,
                           .conflicts = (int64_t)answer->conflicts,
                           .refused = (int64_t)answer->refused};
    return TIDE_OK;
}

tide_repair_peer tide_repair_of_remote(tide_remote *remote)
{
    return (tide_repair_peer){.arg = remote,
                              .name = tide_remote_peer(remote)->name,
                              .split = remote_split,
                              .states = remote_states,
                              .merge = remote_merge};
}

/* ---- after a sync that found two histories ---- */

static tide_status repair_tables(tide_node *node, tide_remote *there,
                                 const tide_sync_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    tide_repair_peer peer = tide_repair_of_remote(there);
    const tide_repair_options how = {
        .is_repairing = true, .is_again = true, .arg = options->arg, .is_over = options->is_over};
    TIDE_TRY(tide_peer_tables(node, &ours, err));
    for (int i = 0; i < ours.table_count; i++) {
        tide_repair_result result;
        const tide_status status =
            tide_repair_table(node, &peer, ours.tables[i].name, &how, &result, err);
        if (status != TIDE_E_NOT_FOUND) /* it is not there */
            TIDE_TRY(status);
    }
    return TIDE_OK;
}

tide_status tide_remote_mend(tide_node *node, tide_remote *there, const tide_sync_options *options,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    const tide_peer here = tide_peer_of_node(node, "");
    const tide_peer *peer = tide_remote_peer(there);
    TIDE_TRY(repair_tables(node, there, options, err));
    TIDE_TRY(here.marks(here.arg, NULL, &ours, err));
    TIDE_TRY(peer->marks(peer->arg, &ours, &theirs, err));
    return tide_self_repaired(node, &theirs, err);
}
