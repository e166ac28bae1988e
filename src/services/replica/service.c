#include "services/replica/service.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "remote/replica_messages.h"
#include "replica/repair.h"
#include "services/api/rpc.h"
#include "services/replica/status_service.h"
#include "services/replica/table_events.h"

/* ---- repair ---- */

/* The methods by which nodes compare and repair rows (replica/repair.h): RangeDigests, ReadRows, MergeRows.
 *
 * Who may read may compare; taking over rows needs the role write. What comes from outside is checked: keys, clocks and values when they are decoded,
 * stamps when they are merged.
 *
 * Threads: as service.h. */

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

static tide_status repair_serve_ranges(tide_node *node,
                                       const REPLICA(RangeDigestsRequest) * request,
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

static tide_status repair_serve_rows(tide_node *node, const REPLICA(ReadRowsRequest) * request,
                                     tide_buffer *out, tide_error *err)
{
    TIDE_CLEANUP(tide_row_states_done) tide_row_states states;
    tide_row_states_init(&states);
    TIDE_TRY(check_table(request->table, err));
    if (request->n_keys < 1 || request->n_keys > TIDE_REPAIR_ROWS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu keys, want 1..%d", request->n_keys,
                         TIDE_REPAIR_ROWS_MAX);
    TIDE_CLEANUP(tide_freep) tide_view *keys = calloc(request->n_keys, sizeof *keys);
    TIDE_NEED_MEMORY(keys, err);
    for (size_t i = 0; i < request->n_keys; i++)
        keys[i] = view_of(request->keys[i]);
    TIDE_TRY(tide_node_row_states(node, request->table, request->schema, keys, (int)request->n_keys,
                                  TIDE_REPAIR_BYTES, &states, err));
    REPLICA(ReadRowsResponse) answer = REPLICA_INIT(READ_ROWS_RESPONSE);
    answer.node = bytes_of(tide_view_bytes(states.node.bytes, TIDE_NODE_LEN));
    TIDE_TRY(tide_rpc_pack(out, &answer.base, err));
    return tide_repair_put_states(out, 2, &states, err);
}

/* Each appends its answer's fields to out. */
static tide_status repair_serve_merge(tide_node *node, const REPLICA(MergeRowsRequest) * request,
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

#define SERVICE "/tidemark.replica.v1.ReplicaService"

typedef tide_status replica_fn(tide_replica_service *service, tide_call *call,
                               const ProtobufCMessage *request, tide_buffer *out, tide_error *err);

/* ---- marks ---- */

static tide_status get_marks(tide_replica_service *service, tide_call *call,
                             const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    const REPLICA(GetMarksRequest) *given = (const REPLICA(GetMarksRequest) *)request;
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    const bool is_peer =
        given->node.len > 0 && tide_role_includes(tide_call_role_of(call), TIDE_ROLE_WRITE);
    if (given->node.len > 0) {
        TIDE_TRY(tide_wire_node(&theirs.node, &given->node, err));
        TIDE_TRY(tide_wire_read_marks(&theirs, given->origins, given->n_origins, NULL, 0, err));
    }
    TIDE_TRY(service->peer.marks(service->peer.arg, is_peer ? &theirs : NULL, &ours, err));
    REPLICA(GetMarksResponse) answer = REPLICA_INIT(GET_MARKS_RESPONSE);
    tide_env *env = tide_foreign_env(tide_node_file(service->node));
    answer.node.data = ours.node.bytes;
    answer.node.len = TIDE_NODE_LEN;
    answer.epoch = (uint64_t)ours.epoch;
    answer.now = (uint64_t)env->wall_us(env);
    answer.quarantined = (uint64_t)ours.quarantined;
    answer.waiting = (uint64_t)ours.waiting;
    TIDE_TRY(tide_rpc_pack(out, &answer.base, err));
    TIDE_TRY(tide_wire_put_marks(out, 3, &ours, err));
    if (!given->with_tables)
        return TIDE_OK;
    return tide_wire_put_tables(out, 4, ours.tables, ours.table_count, err);
}

/* ---- events ---- */

static int64_t bound(uint32_t wanted, int64_t most)
{
    return wanted > 0 && wanted < most ? wanted : most;
}

static tide_status read_events(tide_replica_service *service, tide_call *call,
                               const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    const REPLICA(ReadEventsRequest) *given = (const REPLICA(ReadEventsRequest) *)request;
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_node_id origin;
    int64_t epoch = 0;
    int64_t after = 0;
    tide_peer_page_init(&page);
    TIDE_TRY(tide_wire_node(&origin, &given->origin, err));
    TIDE_TRY(tide_wire_number(&epoch, given->epoch, err));
    TIDE_TRY(tide_wire_number(&after, given->after, err));
    TIDE_TRY(service->peer.read(service->peer.arg, &origin, epoch, after,
                                bound(given->max_rows, TIDE_SYNC_PAGE_ROWS),
                                bound(given->max_bytes, TIDE_SYNC_PAGE_BYTES), &page, err));
    for (int i = 0; i < page.count; i++)
        TIDE_TRY(tide_rpc_put_bytes(out, 1, tide_peer_page_event(&page, i), err));
    REPLICA(ReadEventsResponse) rest = REPLICA_INIT(READ_EVENTS_RESPONSE);
    rest.through = (uint64_t)page.through;
    rest.more = page.has_more;
    rest.snapshot_required = page.needs_snapshot;
    rest.floor = (uint64_t)page.floor;
    return tide_rpc_pack(out, &rest.base, err);
}

static tide_status push_events(tide_replica_service *service, tide_call *call,
                               const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    const REPLICA(PushEventsRequest) *given = (const REPLICA(PushEventsRequest) *)request;
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_origin_mark mark;
    tide_applied applied = {.events = 0};
    tide_peer_page_init(&page);
    if (!given->mark)
        return tide_fail(err, TIDE_E_INVALID, "a push names the log that it is of");
    TIDE_TRY(tide_wire_read_mark(&mark, given->mark, err));
    for (size_t i = 0; i < given->n_events; i++)
        TIDE_TRY(tide_peer_page_add(
            &page, tide_view_bytes(given->events[i].data, given->events[i].len), err));
    if (page.count > 0)
        TIDE_TRY(service->peer.push(service->peer.arg, &mark, &page, &applied, err));
    REPLICA(PushEventsResponse) answer = REPLICA_INIT(PUSH_EVENTS_RESPONSE);
    answer.events = (uint64_t)applied.events;
    answer.known = (uint64_t)applied.known;
    answer.rows = (uint64_t)applied.rows;
    answer.conflicts = (uint64_t)applied.conflicts;
    answer.quarantined = (uint64_t)applied.quarantined;
    answer.waiting = (uint64_t)applied.waiting;
    return tide_rpc_pack(out, &answer.base, err);
}

static tide_status offer_tables(tide_replica_service *service, tide_call *call,
                                const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    const REPLICA(OfferTablesRequest) *given = (const REPLICA(OfferTablesRequest) *)request;
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    int created = 0;
    TIDE_TRY(tide_wire_read_marks(&theirs, NULL, 0, given->tables, given->n_tables, err));
    TIDE_TRY(
        service->peer.offer(service->peer.arg, theirs.tables, theirs.table_count, &created, err));
    REPLICA(OfferTablesResponse) answer = REPLICA_INIT(OFFER_TABLES_RESPONSE);
    answer.created = (uint32_t)created;
    return tide_rpc_pack(out, &answer.base, err);
}

static tide_status table_events(tide_replica_service *service, tide_call *call,
                                const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    return tide_table_events(service->node, (const REPLICA(TableEventsRequest) *)request, out, err);
}

/* ---- digests ---- */

static tide_status put_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    REPLICA(TableDigest) table = REPLICA_INIT(TABLE_DIGEST);
    table.table = (char *)digest->table;
    table.rows = (uint64_t)digest->rows;
    table.digest.data = (uint8_t *)digest->digest;
    table.digest.len = sizeof digest->digest;
    TIDE_TRY(tide_rpc_pack(&bytes, &table.base, err));
    return tide_rpc_put_bytes(arg, 1, tide_buffer_view(&bytes), err);
}

static tide_status digests(tide_replica_service *service, tide_call *call,
                           const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    (void)request;
    TIDE_TRY(tide_peer_look(service->node, NULL, err));
    return tide_node_digests(service->node, put_digest, out, err);
}

/* ---- repair ---- */

static tide_status range_digests(tide_replica_service *service, tide_call *call,
                                 const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    return repair_serve_ranges(service->node, (const REPLICA(RangeDigestsRequest) *)request, out,
                               err);
}

static tide_status read_rows(tide_replica_service *service, tide_call *call,
                             const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    return repair_serve_rows(service->node, (const REPLICA(ReadRowsRequest) *)request, out, err);
}

static tide_status merge_rows(tide_replica_service *service, tide_call *call,
                              const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    return repair_serve_merge(service->node, (const REPLICA(MergeRowsRequest) *)request, out, err);
}

/* ---- snapshots ---- */

static tide_status check_offered(const tide_replica_service *service, tide_error *err)
{
    return service->snapshots
               ? TIDE_OK
               : tide_fail(err, TIDE_E_UNSUPPORTED, "this node does not offer snapshots");
}

static tide_status list_snapshots(tide_replica_service *service, tide_call *call,
                                  const ProtobufCMessage *request, tide_buffer *out,
                                  tide_error *err)
{
    (void)call;
    TIDE_TRY(check_offered(service, err));
    return tide_snapshot_serve_list(service->snapshots,
                                    (const REPLICA(ListSnapshotsRequest) *)request, out, err);
}

static tide_status read_snapshot(tide_replica_service *service, tide_call *call,
                                 const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    TIDE_TRY(check_offered(service, err));
    return tide_snapshot_serve_read(service->snapshots,
                                    (const REPLICA(ReadSnapshotRequest) *)request, out, err);
}

/* ---- for people ---- */

static tide_status get_status(tide_replica_service *service, tide_call *call,
                              const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    (void)call;
    (void)request;
    return tide_look_status(service->node, out, err);
}

static tide_status list_conflicts(tide_replica_service *service, tide_call *call,
                                  const ProtobufCMessage *request, tide_buffer *out,
                                  tide_error *err)
{
    (void)call;
    return tide_look_conflicts(service->node, (const REPLICA(ListConflictsRequest) *)request, out,
                               err);
}

static tide_status list_quarantined(tide_replica_service *service, tide_call *call,
                                    const ProtobufCMessage *request, tide_buffer *out,
                                    tide_error *err)
{
    (void)call;
    return tide_look_quarantined(service->node, (const REPLICA(ListQuarantinedRequest) *)request,
                                 out, err);
}

/* ---- the table ---- */

static void run(tide_call *call, tide_view message, void *arg, replica_fn *fn)
{
    tide_error err = {.status = TIDE_OK};
    ProtobufCMessage *request = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = fn(arg, call, request, &out, &err);
    if (status >= TIDE_OK)
        tide_call_respond(call, tide_buffer_view(&out));
    else
        tide_call_end(call, status, &err);
}

/* X(method, role, request, response, function) */
#define METHODS(X)                                                                                 \
    X("GetMarks", READ, get_marks_request, get_marks_response, get_marks)                          \
    X("ReadEvents", READ, read_events_request, read_events_response, read_events)                  \
    X("PushEvents", WRITE, push_events_request, push_events_response, push_events)                 \
    X("OfferTables", WRITE, offer_tables_request, offer_tables_response, offer_tables)             \
    X("TableEvents", READ, table_events_request, table_events_response, table_events)              \
    X("Digests", READ, digests_request, digests_response, digests)                                 \
    X("RangeDigests", READ, range_digests_request, range_digests_response, range_digests)          \
    X("ReadRows", READ, read_rows_request, read_rows_response, read_rows)                          \
    X("MergeRows", WRITE, merge_rows_request, merge_rows_response, merge_rows)                     \
    X("ListSnapshots", READ, list_snapshots_request, list_snapshots_response, list_snapshots)      \
    X("ReadSnapshot", READ, read_snapshot_request, read_snapshot_response, read_snapshot)          \
    X("GetStatus", READ, get_status_request, get_status_response, get_status)                      \
    X("ListConflicts", READ, list_conflicts_request, list_conflicts_response, list_conflicts)      \
    X("ListQuarantined", READ, list_quarantined_request, list_quarantined_response,                \
      list_quarantined)

#define RUN(method_, role_, request_, response_, fn_)                                              \
    static void run_##fn_(tide_call *call, tide_view message, void *arg)                           \
    {                                                                                              \
        run(call, message, arg, fn_);                                                              \
    }
METHODS(RUN)

#define ROW(method_, role_, request_, response_, fn_)                                              \
    {.path = SERVICE "/" method_,                                                                  \
     .kind = TIDE_CALL_UNARY,                                                                      \
     .role = TIDE_ROLE_##role_,                                                                    \
     .is_blocking = true,                                                                          \
     .request = &tidemark__replica__v1__##request_##__descriptor,                                  \
     .response = &tidemark__replica__v1__##response_##__descriptor,                                \
     .run = run_##fn_},
const tide_method tide_replica_methods[] = {METHODS(ROW){.path = NULL}};
