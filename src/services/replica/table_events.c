#include "services/replica/table_events.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "replica/log.h"
#include "replica/peer.h"
#include "services/api/rpc.h"
#include "tidemark_templates.h"

enum { TOKEN_LEN = TIDE_NODE_LEN + 16, CHECKPOINTS_MAX = 10000 };

typedef struct paging {
    const REPLICA(TableEventsRequest) * request;
    tide_peer_marks marks;
    tide_buffer *out;
    int64_t skip; /* events, of who counts pages */
    int64_t left;
    size_t begin_len;
    bool has_more;
    tide_node_id at; /* the last event that was given */
    int64_t at_epoch;
    int64_t at_seq;
} paging;

static tide_status add_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    return tide_peer_marks_add(arg, mark, err);
}

static void put_number(uint8_t *to, int64_t number)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)((uint64_t)number >> (56 - 8 * i));
}

static int64_t get_number(const uint8_t *from)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | from[i];
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

/* The number that the request states for a log; -1: none. */
static int64_t stated(const REPLICA(TableEventsRequest) * request, const tide_origin_mark *mark)
{
    int64_t found = -1;
    for (size_t i = 0; i < request->n_from_by_origin; i++) {
        const REPLICA(OriginCheckpoint) *from = request->from_by_origin[i];
        tide_uuid id;
        if (tide_uuid_parse(&id, tide_view_of(from->origin_node_id)) < TIDE_OK ||
            memcmp(id.bytes, mark->origin.bytes, TIDE_NODE_LEN) != 0 ||
            (from->epoch != 0 && from->epoch != mark->epoch))
            continue;
        found = from->origin_seq > found ? from->origin_seq : found;
    }
    return found;
}

/* Of the requester's own events nothing is left out but what it states: it may have lost them. */
static bool is_requester(const REPLICA(TableEventsRequest) * request, const tide_origin_mark *mark)
{
    tide_uuid id;
    return tide_uuid_parse(&id, tide_view_of(request->requester_id)) >= TIDE_OK &&
           memcmp(id.bytes, mark->origin.bytes, TIDE_NODE_LEN) == 0;
}

static tide_status check_request(const REPLICA(TableEventsRequest) * request, tide_error *err)
{
    tide_uuid id;
    if (request->page < 0 || request->page_size < 0)
        return tide_fail(err, TIDE_E_INVALID, "page and page_size are not negative");
    if (request->page_token.len != 0 && request->page_token.len != TOKEN_LEN)
        return tide_fail(err, TIDE_E_INVALID, "page_token is not one of ours");
    if (request->n_from_by_origin > CHECKPOINTS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d origins", CHECKPOINTS_MAX);
    for (size_t i = 0; i < request->n_from_by_origin; i++)
        if (tide_uuid_parse(&id, tide_view_of(request->from_by_origin[i]->origin_node_id)) <
            TIDE_OK)
            return tide_fail(err, TIDE_E_INVALID, "origin_node_id is not a UUID");
    return TIDE_OK;
}

/* What the row tells, borrowed from it, held against its digest and its body. */
static tide_status read_told(tide_told *out, tide_view *body, bool *is_processed,
                             const tide_origin_mark *mark, tide_foreign_query *query,
                             tide_error *err)
{
    *out = (tide_told){.epoch = mark->epoch, .seq = tide_foreign_col_i64(query)};
    out->id = tide_foreign_col_bytes(query);
    out->operation = tide_foreign_col_bytes(query);
    out->record = tide_foreign_col_bytes(query);
    out->data = tide_foreign_col_bytes(query);
    out->timestamp_ms = tide_foreign_col_i64(query);
    *is_processed = tide_foreign_col_i64(query) != 0;
    *body = tide_foreign_col_bytes(query);
    TIDE_TRY(tide_log_check_told(out, query, err));
    return tide_event_check(*body, &mark->origin, mark->epoch, out->seq, 0, err);
}

static tide_status put_event(paging *p, const tide_origin_mark *mark, tide_foreign_query *query,
                             tide_error *err)
{
    char origin[TIDE_UUID_TEXT_SIZE];
    tide_uuid id;
    REPLICA(TableEvent) rest = REPLICA_INIT(TABLE_EVENT);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer event = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    memcpy(id.bytes, mark->origin.bytes, TIDE_NODE_LEN);
    tide_uuid_format(&id, origin);
    tide_told told;
    tide_view body;
    bool is_processed = false;
    TIDE_TRY(read_told(&told, &body, &is_processed, mark, query, err));
    TIDE_TRY(tide_rpc_put_bytes(&event, 1, told.id, err));
    TIDE_TRY(tide_rpc_put_bytes(&event, 3, told.operation, err));
    TIDE_TRY(tide_rpc_put_bytes(&event, 4, told.record, err));
    TIDE_TRY(tide_rpc_put_bytes(&event, 5, told.data, err));
    rest.origin_seq = told.seq;
    rest.timestamp = told.timestamp_ms;
    rest.processed = is_processed;
    TIDE_TRY(tide_rpc_put_bytes(&event, 11, body, err));
    rest.table_name = p->request->table;
    rest.origin_node_id = origin;
    rest.epoch = mark->epoch;
    TIDE_TRY(tide_rpc_pack(&event, &rest.base, err));
    p->at = mark->origin;
    p->at_epoch = mark->epoch;
    p->at_seq = rest.origin_seq;
    p->left--;
    return tide_rpc_put_bytes(p->out, 1, tide_buffer_view(&event), err);
}

static tide_status put_log(paging *p, tide_foreign_tx *tx, const tide_origin_mark *mark,
                           int64_t after, int64_t since, tide_error *err)
{
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_PEER_TABLE_EVENTS->text, err,
                       tide_bind_text("table", p->request->table),
                       tide_bind_blob("origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN)),
                       tide_bind_i64("epoch", mark->epoch), tide_bind_i64("after", after),
                       tide_bind_i64("since", since),
                       tide_bind_i64("limit", p->skip + p->left + 1));
    TIDE_EACH(tide_foreign_step(query, err)) {
        if (p->skip > 0) {
            p->skip--;
            continue;
        }
        /* Who counts pages gets them whole: a shorter one would shift those behind it. */
        if (p->left == 0 || (p->request->page_token.len > 0 &&
                             p->out->len - p->begin_len > TIDE_TABLE_EVENTS_BYTES)) {
            p->has_more = true;
            return TIDE_OK;
        }
        TIDE_TRY(put_event(p, mark, query, err));
    }
    return TIDE_OK;
}

/* A name that no tracked table has or had is not an empty table. */
static tide_status check_table(tide_foreign_tx *tx, const char *table, tide_error *err)
{
    int64_t id = 0;
    const tide_status found = tide_foreign_number(&id, tx, TIDE_TEMPLATE_CHANGES_TABLE->text, err,
                                                  tide_bind_text("table", table));
    return found == TIDE_NONE
               ? tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' was never tracked", table)
               : found;
}

/* Where a log no longer has its events from the first one on. */
static tide_status put_floors(const paging *p, tide_error *err)
{
    for (int i = 0; i < p->marks.origin_count; i++) {
        const tide_origin_mark *mark = &p->marks.origins[i];
        char origin[TIDE_UUID_TEXT_SIZE];
        tide_uuid id;
        REPLICA(OriginCheckpoint) floor = REPLICA_INIT(ORIGIN_CHECKPOINT);
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
        if (mark->floor <= mark->start)
            continue;
        memcpy(id.bytes, mark->origin.bytes, TIDE_NODE_LEN);
        tide_uuid_format(&id, origin);
        floor.origin_node_id = origin;
        floor.origin_seq = mark->floor;
        floor.epoch = mark->epoch;
        TIDE_TRY(tide_rpc_pack(&bytes, &floor.base, err));
        TIDE_TRY(tide_rpc_put_bytes(p->out, 4, tide_buffer_view(&bytes), err));
    }
    return TIDE_OK;
}

static tide_status put_logs(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    paging *p = arg;
    const REPLICA(TableEventsRequest) *request = p->request;
    const uint8_t *token = request->page_token.len > 0 ? request->page_token.data : NULL;
    const int64_t size = request->page_size > 0 ? request->page_size : TIDE_TABLE_EVENTS_USUAL;
    tide_buffer_truncate(p->out, p->begin_len); /* a closure may run again */
    p->left = size < TIDE_TABLE_EVENTS_MAX ? size : TIDE_TABLE_EVENTS_MAX;
    p->skip = token ? 0 : request->page * p->left;
    p->has_more = false;
    p->at_seq = 0;
    TIDE_TRY(check_table(tx, request->table, err));
    for (int i = 0; i < p->marks.origin_count && !p->has_more; i++) {
        const tide_origin_mark *mark = &p->marks.origins[i];
        const int64_t number = stated(request, mark);
        int64_t after = number > 0 ? number : 0;
        if (token) {
            int order = memcmp(mark->origin.bytes, token, TIDE_NODE_LEN);
            const int64_t epoch = get_number(token + TIDE_NODE_LEN);
            if (order == 0)
                order = (mark->epoch > epoch) - (mark->epoch < epoch);
            if (order < 0)
                continue;
            const int64_t seq = order == 0 ? get_number(token + TIDE_NODE_LEN + 8) : 0;
            after = seq > after ? seq : after;
        }
        const bool is_by_time =
            number < 0 && request->from_timestamp > 0 && !is_requester(request, mark);
        const int64_t since = is_by_time ? request->from_timestamp : INT64_MIN;
        TIDE_TRY(put_log(p, tx, mark, after, since, err));
    }
    return TIDE_OK;
}

static void paging_done(paging *p)
{
    tide_peer_marks_done(&p->marks);
}

tide_status tide_table_events(tide_node *node, const REPLICA(TableEventsRequest) * request,
                              tide_buffer *out, tide_error *err)
{
    uint8_t token[TOKEN_LEN];
    TIDE_CLEANUP(paging_done)
    paging p = {.request = request, .out = out, .begin_len = out->len};
    TIDE_TRY(check_request(request, err));
    if (request->page == 0 &&
        request->page_token.len == 0) /* later: what comes would shift pages */
        TIDE_TRY(tide_peer_look(node, NULL, err));
    TIDE_TRY(tide_node_marks(node, add_mark, &p.marks, err));
    TIDE_TRY(tide_peer_marks_sort(&p.marks, err));
    TIDE_TRY(tide_foreign_read(tide_node_file(node), put_logs, &p, err));
    TIDE_TRY(put_floors(&p, err));
    REPLICA(TableEventsResponse) rest = REPLICA_INIT(TABLE_EVENTS_RESPONSE);
    rest.has_more = p.has_more;
    if (p.at_seq > 0) {
        memcpy(token, p.at.bytes, TIDE_NODE_LEN);
        put_number(token + TIDE_NODE_LEN, p.at_epoch);
        put_number(token + TIDE_NODE_LEN + 8, p.at_seq);
        rest.next_page_token.data = token;
        rest.next_page_token.len = TOKEN_LEN;
    }
    return tide_rpc_pack(out, &rest.base, err);
}
