#include "remote/legacy_pull.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "remote/replica_peer_internal.h"
#include "remote/replica_repair.h"
#include "replica/peer.h"
#include "services/api/rpc.h"
#include "tidemark_templates.h"

enum {
    PAGE_SIZE = 2000,
    PAGES_MAX = 1000000,
    CHECKPOINTS_MAX = 10000,
    GROUP_EVENTS = 5000,
    GROUP_BYTES = 4 << 20,
};

/* ---- one table: its pages, one after the other ---- */

typedef struct item {
    tide_view body; /* in bytes */
    tide_node_id origin;
    int64_t epoch;
    int64_t seq;
} item;

typedef struct stream {
    const char *table;
    tide_arena arena; /* of the page */
    item *items;
    size_t count;
    size_t at;
    uint8_t token[256]; /* of the next page */
    size_t token_len;
    int32_t page;
    int32_t page_size;
    bool has_more;
    int64_t from_ms; /* 0: from the beginning */
    int64_t latest_ms;
} stream;

typedef struct pulling {
    tide_node *node;
    const tide_table_events_source *source;
    tide_table_events_pulled *result;
    tide_peer_marks tables;
    stream *streams;
    int count;
    char requester[TIDE_UUID_TEXT_SIZE];
    /* what every request states: one number per origin and epoch, per table */
    REPLICA(OriginCheckpoint) * stated;
    char (*origins)[TIDE_UUID_TEXT_SIZE];
    const char **of_table; /* borrowed from tables */
    size_t stated_count;
    bool has_holes;
    /* events of one log, in order */
    tide_view *group;
    int group_count;
    size_t group_bytes;
    tide_arena group_arena;
    item last;
} pulling;

static void streams_done(pulling *p)
{
    for (int i = 0; i < p->count; i++) {
        tide_arena_done(&p->streams[i].arena);
        free(p->streams[i].items);
    }
    free(p->streams);
    p->streams = NULL;
    p->count = 0;
}

static void pulling_done(pulling *p)
{
    streams_done(p);
    tide_peer_marks_done(&p->tables);
    tide_arena_done(&p->group_arena);
    free(p->stated);
    free(p->origins);
    free((void *)p->of_table);
    free(p->group);
}

/* ---- what is here already ---- */

static const char *find_table(const pulling *p, const char *name)
{
    for (int i = 0; i < p->tables.table_count; i++)
        if (strcmp(p->tables.tables[i].name, name) == 0)
            return p->tables.tables[i].name;
    return NULL;
}

static tide_status add_cursor(void *arg, const char *table, const tide_node_id *origin,
                              int64_t epoch, const tide_cursor *cursor, tide_error *err)
{
    pulling *p = arg;
    size_t holes = 0;
    const char *name = find_table(p, table);
    if (!name)
        return TIDE_OK;
    (void)tide_cursor_holes(cursor, &holes);
    p->has_holes = p->has_holes || holes > 0;
    if (p->stated_count == CHECKPOINTS_MAX || tide_cursor_contiguous(cursor) == 0)
        return TIDE_OK; /* more is read than needed */
    if (!p->stated) {
        p->stated = calloc(CHECKPOINTS_MAX, sizeof *p->stated);
        p->origins = calloc(CHECKPOINTS_MAX, sizeof *p->origins);
        p->of_table = calloc(CHECKPOINTS_MAX, sizeof *p->of_table);
    }
    TIDE_NEED_MEMORY(p->stated && p->origins && p->of_table, err);
    tide_uuid id;
    memcpy(id.bytes, origin->bytes, sizeof id.bytes);
    tide_uuid_format(&id, p->origins[p->stated_count]);
    REPLICA(OriginCheckpoint) *to = &p->stated[p->stated_count];
    *to = (REPLICA(OriginCheckpoint))REPLICA_INIT(ORIGIN_CHECKPOINT);
    to->origin_node_id = p->origins[p->stated_count];
    to->origin_seq = tide_cursor_contiguous(cursor);
    to->epoch = epoch;
    p->of_table[p->stated_count++] = name;
    return TIDE_OK;
}

static tide_status load_cursors(pulling *p, tide_error *err)
{
    p->stated_count = 0;
    p->has_holes = false;
    return tide_peer_cursors(p->node, add_cursor, p, err);
}

typedef struct time_call {
    const pulling *p;
    const stream *of;
    int64_t ms;
} time_call;

static tide_status begin_time(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                              const time_call *call, tide_error *err)
{
    return tide_foreign_start(out, tx, text, err, tide_bind_text("peer", call->p->source->name),
                              tide_bind_text("table", call->of->table));
}

static tide_status get_time(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    time_call *call = arg;
    TIDE_FOREIGN_QUERY_BY(query, begin_time, tx, TIDE_TEMPLATE_BY_TIME_GET->text, call, err);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    call->ms = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

static tide_status count_held(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    const tide_status status =
        tide_foreign_first(&query, tx, TIDE_TEMPLATE_BY_TIME_WAITING->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    *(int64_t *)arg = status == TIDE_OK ? tide_foreign_col_i64(query) : 0;
    return TIDE_OK;
}

/* All tables were read to their end: the latest event of any of them counts for all. */
static tide_status put_times(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const pulling *p = arg;
    int64_t latest_ms = 0;
    for (int i = 0; i < p->count; i++)
        if (p->streams[i].latest_ms > latest_ms)
            latest_ms = p->streams[i].latest_ms;
    for (int i = 0; i < p->count; i++) {
        const time_call call = {.p = p, .of = &p->streams[i]};
        TIDE_FOREIGN_QUERY_BY(query, begin_time, tx, TIDE_TEMPLATE_BY_TIME_PUT->text, &call, err);
        tide_foreign_bind_i64(query, "timestamp", latest_ms);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    return TIDE_OK;
}

/* ---- pages ---- */

static tide_status receive_page(pulling *p, stream *s, const REPLICA(TableEventsResponse) * page,
                                tide_error *err)
{
    tide_arena_reset(&s->arena);
    free(s->items);
    s->items = calloc(page->n_events + 1, sizeof *s->items);
    s->count = 0;
    s->at = 0;
    TIDE_NEED_MEMORY(s->items, err);
    for (size_t i = 0; i < page->n_events; i++) {
        const REPLICA(TableEvent) *from = page->events[i];
        TIDE_CLEANUP(tide_event_done) tide_event event = {.seq = 0};
        p->result->read++;
        if (from->timestamp > s->latest_ms)
            s->latest_ms = from->timestamp;
        if (from->body.len == 0) {
            p->result->bodyless++;
            continue;
        }
        item *to = &s->items[s->count];
        const char *body = tide_arena_copy(&s->arena, from->body.data, from->body.len);
        TIDE_NEED_MEMORY(body, err);
        to->body = tide_view_bytes(body, from->body.len);
        TIDE_TRY(tide_event_decode(&event, to->body, err));
        to->origin = event.origin;
        to->epoch = event.epoch;
        to->seq = event.seq;
        s->count++;
    }
    return TIDE_OK;
}

/* Which page comes next: by token where the peer gives one, else by number. */
static tide_status move_on(const pulling *p, stream *s, const REPLICA(TableEventsResponse) * page,
                           tide_error *err)
{
    s->has_more = page->has_more && page->n_events > 0;
    s->token_len = 0;
    if (page->next_page_token.len > sizeof s->token)
        return tide_fail(err, TIDE_E_INVALID, "%s gives tokens of %zu bytes", p->source->name,
                         page->next_page_token.len);
    if (page->next_page_token.len > 0) {
        memcpy(s->token, page->next_page_token.data, page->next_page_token.len);
        s->token_len = page->next_page_token.len;
    }
    if (++s->page >= PAGES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%s gives more than %d pages", p->source->name,
                         PAGES_MAX);
    return TIDE_OK;
}

static tide_status read_page(pulling *p, stream *s, tide_error *err)
{
    const REPLICA(TableEventsResponse) *page = NULL;
    REPLICA(TableEventsRequest) request = REPLICA_INIT(TABLE_EVENTS_REQUEST);
    TIDE_CLEANUP(tide_freep)
    REPLICA(OriginCheckpoint) **from = calloc(p->stated_count + 1, sizeof(void *));
    TIDE_NEED_MEMORY(from, err);
    for (size_t i = 0; i < p->stated_count; i++)
        if (p->of_table[i] == s->table)
            from[request.n_from_by_origin++] = &p->stated[i];
    request.table = (char *)s->table;
    request.from_by_origin = from;
    request.requester_id = p->requester;
    request.from_timestamp = s->from_ms;
    request.page = s->page;
    request.page_token.data = s->token;
    request.page_token.len = s->token_len;
    tide_status status = TIDE_E_LIMIT;
    while (status == TIDE_E_LIMIT) { /* large rows: smaller pages, as long as that shifts none */
        request.page_size = s->page_size;
        status = p->source->ask(p->source->arg, &request, &page, err);
        if (s->page_size == 1 || (s->page > 0 && s->token_len == 0))
            break;
        if (status == TIDE_E_LIMIT)
            s->page_size = s->page_size > 8 ? s->page_size / 8 : 1;
    }
    TIDE_TRY(status);
    TIDE_TRY(receive_page(p, s, page, err));
    return move_on(p, s, page, err);
}

/* ---- groups: events of one log, applied together ---- */

static tide_status flush(pulling *p, tide_error *err)
{
    tide_applied applied = {.events = 0};
    tide_applied *sum = &p->result->applied;
    if (p->group_count == 0)
        return TIDE_OK;
    const tide_status status = tide_node_apply(p->node, p->group, p->group_count, &applied, err);
    p->group_count = 0;
    p->group_bytes = 0;
    tide_arena_reset(&p->group_arena);
    TIDE_TRY(status);
    sum->events += applied.events;
    sum->known += applied.known;
    sum->rows += applied.rows;
    sum->conflicts += applied.conflicts;
    sum->quarantined += applied.quarantined;
    sum->waiting += applied.waiting;
    return TIDE_OK;
}

static int compare(const item *a, const item *b)
{
    const int order = memcmp(a->origin.bytes, b->origin.bytes, TIDE_NODE_LEN);
    if (order != 0)
        return order;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

static tide_status add_event(pulling *p, const item *event, tide_error *err)
{
    const bool is_same_log = p->group_count > 0 &&
                             memcmp(&p->last.origin, &event->origin, sizeof event->origin) == 0 &&
                             p->last.epoch == event->epoch;
    if (is_same_log && event->seq == p->last.seq)
        return TIDE_OK; /* twice */
    if (!is_same_log || event->seq < p->last.seq || p->group_count == GROUP_EVENTS ||
        p->group_bytes >= GROUP_BYTES)
        TIDE_TRY(flush(p, err));
    const char *body = tide_arena_copy(&p->group_arena, event->body.ptr, event->body.len);
    TIDE_NEED_MEMORY(body, err);
    p->group[p->group_count++] = tide_view_bytes(body, event->body.len);
    p->group_bytes += event->body.len;
    p->last = *event;
    return TIDE_OK;
}

/* ---- all tables, side by side ---- */

/* The stream whose next event is the lowest; NULL: all are through. */
static tide_status find_lowest(pulling *p, stream **out, tide_error *err)
{
    *out = NULL;
    for (int i = 0; i < p->count; i++) {
        stream *s = &p->streams[i];
        while (s->at == s->count && s->has_more)
            TIDE_TRY(read_page(p, s, err));
        if (s->at < s->count &&
            (!*out || compare(&s->items[s->at], &(*out)->items[(*out)->at]) < 0))
            *out = s;
    }
    return TIDE_OK;
}

static tide_status open_streams(pulling *p, bool is_full, tide_error *err)
{
    streams_done(p);
    TIDE_ALLOC(p->streams, (size_t)p->tables.table_count + 1, err);
    for (int i = 0; i < p->tables.table_count; i++) {
        stream *s = &p->streams[p->count++];
        *s = (stream){.table = p->tables.tables[i].name, .page_size = PAGE_SIZE, .has_more = true};
        tide_arena_init(&s->arena, TIDE_SYNC_PAGE_BYTES_MAX);
        time_call call = {.p = p, .of = s};
        TIDE_TRY(tide_foreign_read(tide_node_file(p->node), get_time, &call, err));
        s->latest_ms = call.ms;
        if (!is_full && call.ms > TIDE_TABLE_EVENTS_OVERLAP_MS)
            s->from_ms = call.ms - TIDE_TABLE_EVENTS_OVERLAP_MS;
    }
    return TIDE_OK;
}

static tide_status pull_all(pulling *p, bool is_full, tide_error *err)
{
    stream *next = NULL;
    p->result->is_full = is_full;
    TIDE_TRY(load_cursors(p, err));
    if (is_full)
        p->stated_count = 0;
    TIDE_TRY(open_streams(p, is_full, err));
    for (;;) {
        TIDE_TRY(find_lowest(p, &next, err));
        if (!next)
            break;
        TIDE_TRY(add_event(p, &next->items[next->at], err));
        next->at++;
    }
    TIDE_TRY(flush(p, err));
    TIDE_TRY(load_cursors(p, err));
    p->result->has_missing = p->has_holes;
    return TIDE_OK;
}

tide_status tide_table_events_pull(tide_node *node, const tide_table_events_source *source,
                                   tide_table_events_pulled *out, tide_error *err)
{
    tide_uuid id;
    const tide_node_id own = tide_node_get_id(node);
    *out = (tide_table_events_pulled){.read = 0};
    TIDE_CLEANUP(pulling_done) pulling p = {.node = node, .source = source, .result = out};
    tide_arena_init(&p.group_arena, TIDE_SYNC_PAGE_BYTES_MAX * (size_t)2);
    memcpy(id.bytes, own.bytes, sizeof id.bytes);
    tide_uuid_format(&id, p.requester);
    TIDE_ALLOC(p.group, GROUP_EVENTS, err);
    TIDE_TRY(tide_peer_look(node, NULL, err));
    TIDE_TRY(tide_peer_tables(node, &p.tables, err));
    TIDE_TRY(pull_all(&p, false, err));
    if (p.has_holes)
        TIDE_TRY(pull_all(&p, true, err));
    TIDE_TRY(tide_foreign_read(tide_node_file(node), count_held, &out->held, err));
    if (out->bodyless > 0) /* the next pull requests and reports them again */
        return TIDE_OK;
    return tide_foreign_write(tide_node_file(node), put_times, &p, err);
}

/* ---- a node behind a network ---- */

static tide_status request_remote(void *arg, const REPLICA(TableEventsRequest) * request,
                                  const REPLICA(TableEventsResponse) * *out, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, &request->base, err));
    TIDE_TRY(tide_remote_call(arg, "TableEvents", &bytes,
                              &tidemark__replica__v1__table_events_response__descriptor, &response,
                              err));
    *out = (const REPLICA(TableEventsResponse) *)response;
    return TIDE_OK;
}

static tide_status fail_pulled(const char *name, const tide_table_events_pulled *pulled,
                               tide_error *err)
{
    if (pulled->bodyless > 0)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "%s cannot tell how far it is, and %lld of its events have no body that "
                         "could be applied: let it run a version that serves GetMarks",
                         name, (long long)pulled->bodyless);
    if (pulled->held > 0)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "%s cannot tell how far it is: %lld events were taken by time, and %lld "
                         "batches wait for others that did not come: track all tables that it has",
                         name, (long long)pulled->read, (long long)pulled->held);
    return tide_fail(err, TIDE_E_UNSUPPORTED,
                     "%s cannot tell how far it is: %lld events were taken by time, %lld of them "
                     "new%s; nothing is proven, and nothing was pushed",
                     name, (long long)pulled->read, (long long)pulled->applied.events,
                     pulled->has_missing ? ", others are missing there" : "");
}

tide_status tide_remote_sync(tide_node *node, tide_peer *here, tide_remote *there,
                             const tide_sync_options *options, tide_sync_result *out,
                             tide_error *err)
{
    tide_table_events_pulled pulled;
    const tide_table_events_source source = {
        .arg = there, .name = tide_remote_peer(there)->name, .ask = request_remote};
    tide_status status = tide_sync(here, tide_remote_peer(there), options, out, err);
    if (status >= TIDE_OK && out->differs && !options->is_push_only && !options->is_pull_only) {
        TIDE_TRY(tide_remote_mend(node, there, options, err));
        status = tide_sync(here, tide_remote_peer(there), options, out, err);
    }
    if (status != TIDE_E_UNSUPPORTED || options->is_push_only)
        return status;
    TIDE_TRY(tide_table_events_pull(node, &source, &pulled, err));
    out->pulled = pulled.applied;
    return fail_pulled(source.name, &pulled, err);
}
