#include "services/replica/status_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "base/text/uuid.h"
#include "replica/node_status.h"
#include "replica/peer.h"
#include "replica/snapshot.h"
#include "replica/value.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"

typedef char id_text[TIDE_UUID_TEXT_SIZE];

static void name_node(id_text out, const tide_node_id *node)
{
    tide_uuid id;
    memcpy(id.bytes, node->bytes, sizeof id.bytes);
    tide_uuid_format(&id, out);
}

static tide_status put(tide_buffer *out, uint32_t field, const ProtobufCMessage *message,
                       tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, message, err));
    return tide_rpc_put_bytes(out, field, tide_buffer_view(&bytes), err);
}

/* ---- peers, and who holds floors down ---- */

/* The least mark of a live peer, for one log of ours. */
typedef struct pin {
    int64_t least;
    tide_node_id whose;
    int64_t told; /* by the peer whose turn it is; -1: nothing */
} pin;

typedef struct looking {
    tide_node *node;
    int64_t now_us;
    tide_peer_marks ours;
    pin *pins; /* one for each of ours.origins */
    tide_buffer *out;
    tide_peer_seen peer; /* whose turn it is */
    tide_buffer peer_bytes;
    bool is_in_peer;
} looking;

static void looking_done(looking *l)
{
    tide_peer_marks_done(&l->ours);
    tide_buffer_done(&l->peer_bytes);
    free(l->pins);
}

static tide_status keep_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    return tide_peer_marks_add(&((looking *)arg)->ours, mark, err);
}

/* Of a log that a peer has not told of it has nothing, unless it is the log's origin (as gc.c). */
static void pin_logs(looking *l)
{
    for (int i = 0; i < l->ours.origin_count; i++) {
        pin *p = &l->pins[i];
        const bool is_origin =
            memcmp(&l->ours.origins[i].origin, &l->peer.node, sizeof l->peer.node) == 0;
        const int64_t mark = p->told >= 0 ? p->told : is_origin ? INT64_MAX : 0;
        if (l->peer.expires_at_us > l->now_us && mark < p->least) {
            p->least = mark;
            p->whose = l->peer.node;
        }
        p->told = -1;
    }
}

static tide_status end_peer(looking *l, tide_error *err)
{
    if (!l->is_in_peer)
        return TIDE_OK;
    l->is_in_peer = false;
    pin_logs(l);
    return tide_rpc_put_bytes(l->out, 10, tide_buffer_view(&l->peer_bytes), err);
}

static tide_status meet_peer(void *arg, const tide_peer_seen *peer, tide_error *err)
{
    looking *l = arg;
    id_text node;
    REPLICA(PeerStatus) message = REPLICA_INIT(PEER_STATUS);
    TIDE_TRY(end_peer(l, err));
    l->peer = *peer;
    l->is_in_peer = true;
    tide_buffer_clear(&l->peer_bytes);
    name_node(node, &peer->node);
    message.node = node;
    message.name = tide_rpc_borrow(peer->name);
    message.seen_at = (uint64_t)peer->seen_at_us;
    message.expires_at = (uint64_t)peer->expires_at_us;
    message.unlike = tide_rpc_borrow(peer->unlike);
    return tide_rpc_pack(&l->peer_bytes, &message.base, err);
}

static tide_status put_mark(tide_buffer *out, uint32_t field, const tide_node_id *origin,
                            int64_t epoch, int64_t mark, tide_error *err)
{
    id_text text;
    REPLICA(PeerMark) message = REPLICA_INIT(PEER_MARK);
    name_node(text, origin);
    message.origin = text;
    message.epoch = (uint64_t)epoch;
    message.mark = (uint64_t)mark;
    return put(out, field, &message.base, err);
}

static tide_status meet_mark(void *arg, const tide_node_id *peer, const tide_node_id *origin,
                             int64_t epoch, int64_t mark, tide_error *err)
{
    looking *l = arg;
    (void)peer;
    const tide_origin_mark *own = tide_peer_marks_find(&l->ours, origin, epoch);
    if (own)
        l->pins[own - l->ours.origins].told = mark;
    return put_mark(&l->peer_bytes, 6, origin, epoch, mark, err);
}

static tide_status put_logs(const looking *l, tide_error *err)
{
    for (int i = 0; i < l->ours.origin_count; i++) {
        const tide_origin_mark *mark = &l->ours.origins[i];
        const pin *p = &l->pins[i];
        id_text origin;
        id_text whose;
        REPLICA(LogStatus) message = REPLICA_INIT(LOG_STATUS);
        name_node(origin, &mark->origin);
        name_node(whose, &p->whose);
        message.origin = origin;
        message.epoch = (uint64_t)mark->epoch;
        message.start = (uint64_t)mark->start;
        message.floor = (uint64_t)mark->floor;
        message.prefix = (uint64_t)mark->prefix;
        message.highest = (uint64_t)mark->highest;
        message.pin = (uint64_t)(p->least < mark->prefix ? p->least : mark->prefix);
        if (p->least < mark->prefix)
            message.pinned_by = whose;
        TIDE_TRY(put(l->out, 9, &message.base, err));
    }
    return TIDE_OK;
}

static tide_status put_peers_and_logs(looking *l, tide_error *err)
{
    TIDE_TRY(tide_node_marks(l->node, keep_mark, l, err));
    TIDE_TRY(tide_peer_marks_sort(&l->ours, err));
    TIDE_ALLOC(l->pins, (size_t)l->ours.origin_count + 1, err);
    for (int i = 0; i < l->ours.origin_count; i++)
        l->pins[i] = (pin){.least = INT64_MAX, .told = -1};
    TIDE_TRY(tide_peer_list(l->node, meet_peer, meet_mark, l, err));
    TIDE_TRY(end_peer(l, err));
    return put_logs(l, err);
}

/* ---- snapshots ---- */

/* Could a peer at nothing begin with it, and go on by events? */
static bool is_serving(const looking *l, const tide_snapshot_info *info)
{
    for (int i = 0; i < l->ours.origin_count; i++) {
        const tide_origin_mark *mark = &l->ours.origins[i];
        if (mark->floor <= mark->start)
            continue;
        const tide_origin_mark *cut = tide_peer_marks_find(&info->cut, &mark->origin, mark->epoch);
        if (!cut || cut->prefix < mark->floor)
            return false;
    }
    return info->is_verified;
}

static tide_status put_snapshot(void *arg, const tide_snapshot_info *info, tide_error *err)
{
    const looking *l = arg;
    REPLICA(SnapshotStatus) message = REPLICA_INIT(SNAPSHOT_STATUS);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    message.snapshot_id = tide_rpc_borrow(info->id);
    message.created_at = (uint64_t)info->created_us;
    message.bytes = (uint64_t)info->bytes;
    message.digest.data = (uint8_t *)info->digest;
    message.digest.len = sizeof info->digest;
    message.verified = info->is_verified;
    message.serves = is_serving(l, info);
    TIDE_TRY(tide_rpc_pack(&bytes, &message.base, err));
    for (int i = 0; i < info->cut.origin_count; i++) {
        const tide_origin_mark *mark = &info->cut.origins[i];
        TIDE_TRY(put_mark(&bytes, 7, &mark->origin, mark->epoch, mark->prefix, err));
    }
    for (int i = 0; i < info->cut.table_count; i++)
        TIDE_TRY(tide_rpc_put_bytes(&bytes, 8, tide_view_of(info->cut.tables[i].name), err));
    return tide_rpc_put_bytes(l->out, 11, tide_buffer_view(&bytes), err);
}

/* ---- cursors ---- */

static tide_status put_cursor(void *arg, const char *table, const tide_node_id *origin,
                              int64_t epoch, const tide_cursor *cursor, tide_error *err)
{
    const looking *l = arg;
    size_t count = 0;
    const tide_interval *holes = tide_cursor_holes(cursor, &count);
    id_text node;
    REPLICA(CursorStatus) message = REPLICA_INIT(CURSOR_STATUS);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    name_node(node, origin);
    message.table = tide_rpc_borrow(table);
    message.origin = node;
    message.epoch = (uint64_t)epoch;
    message.prefix = (uint64_t)tide_cursor_contiguous(cursor);
    TIDE_TRY(tide_rpc_pack(&bytes, &message.base, err));
    for (size_t i = 0; i < count; i++) {
        REPLICA(CursorHole) hole = REPLICA_INIT(CURSOR_HOLE);
        hole.first = (uint64_t)holes[i].first;
        hole.last = (uint64_t)holes[i].last;
        TIDE_TRY(put(&bytes, 5, &hole.base, err));
    }
    return tide_rpc_put_bytes(l->out, 12, tide_buffer_view(&bytes), err);
}

/* ---- what waits, what differs ---- */

static tide_status put_waiting(void *arg, const tide_waiting *waiting, tide_error *err)
{
    const looking *l = arg;
    id_text origin;
    char reason[32];
    REPLICA(WaitingStatus) message = REPLICA_INIT(WAITING_STATUS);
    name_node(origin, &waiting->origin);
    (void)snprintf(reason, sizeof reason, "%.*s", (int)waiting->reason.len, waiting->reason.ptr);
    message.origin = origin;
    message.events = (uint64_t)waiting->events;
    message.reason = reason;
    message.until = (uint64_t)waiting->until_us;
    return put(l->out, 13, &message.base, err);
}

static tide_status put_divergence(void *arg, tide_view peer, tide_view table, tide_error *err)
{
    const looking *l = arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_put_bytes(&bytes, 1, peer, err));
    TIDE_TRY(tide_rpc_put_bytes(&bytes, 2, table, err));
    return tide_rpc_put_bytes(l->out, 17, tide_buffer_view(&bytes), err);
}

/* ---- the whole ---- */

static tide_status put_rest(looking *l, tide_error *err)
{
    tide_node_counts counts = {.conflicts = 0};
    tide_node_status status = {.floor = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks tables = {.origin_count = 0};
    REPLICA(GetStatusResponse) answer = REPLICA_INIT(GET_STATUS_RESPONSE);
    const tide_node_id id = tide_node_get_id(l->node);
    id_text node;
    TIDE_TRY(tide_node_count(l->node, &counts, err));
    TIDE_TRY(tide_node_get_status(l->node, &status, err));
    TIDE_TRY(tide_peer_tables(l->node, &tables, err));
    name_node(node, &id);
    answer.node = node;
    answer.epoch = (uint64_t)tide_node_epoch(l->node);
    answer.now = (uint64_t)l->now_us;
    answer.conflicts = (uint64_t)counts.conflicts;
    answer.aside = (uint64_t)counts.aside;
    answer.quarantined = (uint64_t)counts.quarantined;
    answer.clock_ahead_us = (uint64_t)status.clock_ahead_us;
    answer.unsent = (uint64_t)status.unsent;
    answer.floor = (uint64_t)status.floor;
    answer.orphans = (uint64_t)status.orphans;
    TIDE_TRY(tide_rpc_pack(l->out, &answer.base, err));
    for (int i = 0; i < tables.table_count; i++)
        TIDE_TRY(tide_rpc_put_bytes(l->out, 8, tide_view_of(tables.tables[i].name), err));
    return TIDE_OK;
}

tide_status tide_look_status(tide_node *node, tide_buffer *out, tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_node_file(node));
    TIDE_CLEANUP(looking_done) looking l = {.node = node, .out = out};
    l.now_us = env->wall_us(env);
    tide_buffer_init(&l.peer_bytes, TIDE_RPC_RESPONSE_MAX);
    if (tide_node_epoch(node) == 0) /* no table is tracked: there is nothing to tell */
        return TIDE_OK;
    TIDE_TRY(put_peers_and_logs(&l, err));
    TIDE_TRY(tide_snapshot_list(node, put_snapshot, &l, err));
    TIDE_TRY(tide_peer_cursors(node, put_cursor, &l, err));
    TIDE_TRY(tide_node_list_waiting(node, put_waiting, &l, err));
    TIDE_TRY(tide_node_list_divergence(node, put_divergence, &l, err));
    return put_rest(&l, err);
}

/* ---- conflicts ---- */

enum { RESPONSE_SPARE = 65536 };

typedef struct listing {
    tide_buffer *out;
    const char *table; /* "": all */
    int64_t left;
    bool has_more;
} listing;

static int64_t bound(uint32_t wanted)
{
    if (wanted == 0)
        return TIDE_LOOK_LIST_DEFAULT;
    return wanted < TIDE_LOOK_LIST_MAX ? wanted : TIDE_LOOK_LIST_MAX;
}

/* Texts of the application are valid in JSON; a key may be anything. */
static tide_status put_view(tide_buffer *out, uint32_t field, tide_view text, tide_error *err)
{
    size_t replaced = 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer clean = tide_buffer_of(out->max);
    if (text.len == 0)
        return TIDE_OK;
    if (tide_utf8_clean(&clean, text, &replaced) < TIDE_OK)
        return tide_no_memory(err);
    return tide_rpc_put_bytes(out, field, tide_buffer_view(&clean), err);
}

static const char *class_name(tide_sql_value_kind class)
{
    static const char *const names[] = {"null", "integer", "real", "text", "blob"};
    return names[class];
}

tide_status tide_look_conflict(const tide_conflict *conflict, tide_buffer *out, tide_error *err)
{
    id_text node;
    tide_json json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer value = tide_buffer_of(out->max);
    REPLICA(Conflict) message = REPLICA_INIT(CONFLICT);
    const bool is_write = conflict->column[0] != '\0';
    if (is_write) {
        tide_json_init(&json, &value);
        tide_value_json(&json, &conflict->value);
        if (tide_json_finish(&json) < TIDE_OK)
            return tide_no_memory(err);
        message.value_type = tide_rpc_borrow(class_name(conflict->value.kind));
        message.column = tide_rpc_borrow(conflict->column);
    }
    name_node(node, &conflict->stamp.node);
    message.id = tide_rpc_borrow(conflict->id);
    message.kind = tide_rpc_borrow(conflict->reason);
    message.table = tide_rpc_borrow(conflict->table);
    message.reason = tide_rpc_borrow(conflict->reason);
    message.found_at = (uint64_t)conflict->found_at_us;
    if (conflict->stamp.time) {
        message.node = node;
        message.written_at = (uint64_t)tide_stamp_us(&conflict->stamp);
    }
    const tide_view lost = is_write ? tide_buffer_view(&value) : conflict->data;
    TIDE_TRY(tide_rpc_pack(out, &message.base, err));
    TIDE_TRY(put_view(out, 4, conflict->record_id, err));
    TIDE_TRY(put_view(out, 9, tide_buffer_view(&value), err));
    TIDE_TRY(put_view(out, 11, conflict->data, err));
    TIDE_TRY(put_view(out, 12, conflict->ours, err));
    return put_view(out, 13, lost, err);
}

static tide_status put_conflict(void *arg, const tide_conflict *conflict, tide_error *err)
{
    listing *l = arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    if (l->table[0] && strcmp(l->table, conflict->table) != 0)
        return TIDE_OK;
    l->has_more = l->left == 0;
    if (l->left-- == 0)
        return TIDE_NONE;
    TIDE_TRY(tide_look_conflict(conflict, &message, err));
    /* Values may be large: what does not fit is only said to be there. */
    l->has_more = l->out->len + message.len > TIDE_RPC_RESPONSE_MAX - RESPONSE_SPARE;
    if (l->has_more)
        return TIDE_NONE;
    return tide_rpc_put_bytes(l->out, 1, tide_buffer_view(&message), err);
}

tide_status tide_look_conflicts(tide_node *node, const REPLICA(ListConflictsRequest) * request,
                                tide_buffer *out, tide_error *err)
{
    listing l = {.out = out, .table = request->table, .left = bound(request->limit)};
    REPLICA(ListConflictsResponse) answer = REPLICA_INIT(LIST_CONFLICTS_RESPONSE);
    if (tide_node_epoch(node) == 0)
        return TIDE_OK;
    TIDE_TRY(tide_node_conflicts(node, put_conflict, &l, err));
    answer.more = l.has_more;
    return tide_rpc_pack(out, &answer.base, err);
}

/* ---- quarantine ---- */

/* Texts of an event are anything: broken ones are mended, long ones cut. */
static tide_status mend(tide_buffer *out, tide_view text, tide_error *err)
{
    size_t replaced = 0;
    tide_buffer_init(out, TIDE_RPC_RESPONSE_MAX);
    if (tide_utf8_clean(out, tide_utf8_cut(text, TIDE_LOOK_VALUE_MAX), &replaced) < TIDE_OK)
        return tide_no_memory(err);
    return TIDE_OK;
}

static tide_status put_quarantined(void *arg, const tide_quarantined *held, tide_error *err)
{
    listing *l = arg;
    id_text origin;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer table = {.len = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer record = {.len = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer reason = {.len = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer detail = {.len = 0};
    REPLICA(Quarantined) message = REPLICA_INIT(QUARANTINED);
    l->has_more = l->left == 0;
    if (l->left-- == 0)
        return TIDE_OK;
    TIDE_TRY(mend(&table, held->table, err));
    TIDE_TRY(mend(&record, held->record_id, err));
    TIDE_TRY(mend(&reason, held->reason, err));
    TIDE_TRY(mend(&detail, held->detail, err));
    name_node(origin, &held->origin);
    message.origin = origin;
    message.epoch = (uint64_t)held->epoch;
    message.seq = (uint64_t)held->seq;
    message.table = tide_rpc_borrow(tide_buffer_text(&table));
    message.record_id = tide_rpc_borrow(tide_buffer_text(&record));
    message.reason = tide_rpc_borrow(tide_buffer_text(&reason));
    message.detail = tide_rpc_borrow(tide_buffer_text(&detail));
    message.found_at = (uint64_t)held->found_at_us;
    return put(l->out, 1, &message.base, err);
}

tide_status tide_look_quarantined(tide_node *node, const REPLICA(ListQuarantinedRequest) * request,
                                  tide_buffer *out, tide_error *err)
{
    listing l = {.out = out, .left = bound(request->limit)};
    REPLICA(ListQuarantinedResponse) answer = REPLICA_INIT(LIST_QUARANTINED_RESPONSE);
    if (tide_node_epoch(node) == 0)
        return TIDE_OK;
    /* One more than is given tells whether there are more. */
    TIDE_TRY(tide_node_quarantined(node, l.left + 1, put_quarantined, &l, err));
    answer.more = l.has_more;
    return tide_rpc_pack(out, &answer.base, err);
}
