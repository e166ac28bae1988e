/* service_watch.c - snapshots of a catalog, those that are there and those that come: ListSnapshots, which may wait, and Watch. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "net/codec/protobuf_wire.h"
#include "services/api/messages.h"
#include "services/lake/service.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { SNAPSHOTS_FIELD = 1, WATCH_PAGE = 200 };

/* ---- a page ---- */

typedef struct page_look {
    const char *catalog;
    int64_t after;
    int64_t before; /* of the newest; 0: no bound */
    int64_t limit;
    tide_lake_page *page;
} page_look;

static tide_status put_snapshot(void *arg, const tide_lake_snapshot *snapshot, tide_error *err)
{
    tide_lake_page *page = arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_lake_encode_snapshot(&bytes, snapshot, err));
    page->count++;
    page->last = snapshot->snapshot_id;
    return tide_rpc_put_bytes(page->out, SNAPSHOTS_FIELD, tide_buffer_view(&bytes), err);
}

static tide_status look_for_page(tide_tx *tx, void *arg, tide_error *err)
{
    const page_look *look = arg;
    tide_lake_page *page = look->page;
    tide_lake_catalog catalog;
    tide_buffer_clear(page->out); /* it may run again */
    page->count = 0;
    page->last = look->after;
    TIDE_TRY(tide_lake_find_catalog(tx, look->catalog, &catalog, err));
    page->head = catalog.head;
    page->catalog_id = catalog.catalog_id;
    return look->limit > 0 ? tide_lake_each_snapshot(tx, catalog.catalog_id, look->after,
                                                     look->limit, put_snapshot, page, err)
                           : TIDE_OK;
}

static tide_status laked_read_page(tide_store *store, const char *catalog, int64_t after,
                                   int64_t limit, tide_lake_page *page, tide_error *err)
{
    page_look look = {.catalog = catalog, .after = after, .limit = limit, .page = page};
    return tide_store_read(store, look_for_page, &look, err);
}

/* ---- the newest ---- */

static tide_status look_for_newest(tide_tx *tx, void *arg, tide_error *err)
{
    const page_look *look = arg;
    tide_lake_catalog catalog;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_buffer_clear(look->page->out); /* it may run again */
    TIDE_TRY(tide_lake_find_catalog(tx, look->catalog, &catalog, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_SNAPSHOT_NEWEST, err,
                              tide_bind_i64("catalog_id", catalog.catalog_id),
                              tide_bind_i64("before", look->before > 0 ? look->before : INT64_MAX),
                              tide_bind_i64("limit", look->limit)));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_lake_snapshot row = {.snapshot_id = tide_query_col_i64(query)};
        row.catalog_id = tide_query_col_i64(query);
        row.time_us = tide_query_col_time(query);
        row.schema_version = tide_query_col_i64(query);
        row.changes_made = tide_query_col_text(query);
        row.author = tide_query_col_text(query);
        row.message = tide_query_col_text(query);
        TIDE_TRY(put_snapshot(look->page, &row, err));
    }
    return TIDE_OK;
}

/* ---- a list, which may wait for its first ---- */

typedef struct waiting {
    char catalog[TIDE_LAKE_NAME_MAX + 1];
    int64_t after;
    int64_t limit;
} waiting;

static int64_t step_list(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    const waiting *w = arg;
    tide_error err = {0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    tide_lake_page page = {.out = &out};
    const tide_status status = laked_read_page(store, w->catalog, w->after, w->limit, &page, &err);
    if (status >= TIDE_OK && page.count == 0 && !is_over)
        return INT64_MAX;
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    else
        tide_call_respond(call, tide_buffer_view(&out));
    return -1;
}

static tide_status park(tide_lake_turn *turn, const LAKE(ListSnapshotsRequest) * given,
                        int64_t limit, tide_error *err)
{
    TIDE_NEW(waiting, w, err);
    (void)snprintf(w->catalog, sizeof w->catalog, "%s", given->catalog);
    w->after = given->after;
    w->limit = limit;
    TIDE_TRY(tide_long_poll_park(turn->laked->waiter, turn->call, step_list, w,
                                 given->wait_ms * 1000, err));
    turn->is_parked = true;
    return TIDE_OK;
}

tide_status tide_laked_list_snapshots(tide_lake_turn *turn, const ProtobufCMessage *request,
                                      tide_error *err)
{
    const LAKE(ListSnapshotsRequest) *given = (const LAKE(ListSnapshotsRequest) *)request;
    int64_t limit = 0;
    int64_t wait_ms = 0;
    tide_lake_page page = {.out = &turn->out};
    TIDE_TRY(tide_laked_bound(&limit, given->limit, TIDE_RPC_LIST_DEFAULT, TIDE_LAKED_SNAPSHOTS_MAX,
                              "limit", err));
    if (given->newest_first) {
        page_look look = {
            .catalog = given->catalog, .before = given->before, .limit = limit, .page = &page};
        return tide_store_read(turn->laked->store, look_for_newest, &look, err);
    }
    TIDE_TRY(tide_laked_bound(&wait_ms, given->wait_ms, 0, TIDE_LAKED_WAIT_MAX_MS, "wait_ms", err));
    TIDE_TRY(laked_read_page(turn->laked->store, given->catalog, given->after, limit, &page, err));
    return page.count == 0 && wait_ms > 0 ? park(turn, given, limit, err) : TIDE_OK;
}

/* ---- watch ---- */

typedef struct follower {
    char catalog[TIDE_LAKE_NAME_MAX + 1];
    int64_t catalog_id;
    int64_t after;
} follower;

/* Each snapshot of the page as a message of the stream. false: the caller has left. */
static bool send_page(tide_call *call, tide_view page)
{
    tide_reader reader = tide_reader_of(page);
    tide_wire_field field;
    while (tide_wire_next(&reader, &field, NULL) == TIDE_OK)
        if (!tide_call_send(call, field.bytes))
            return false;
    return true;
}

static int64_t end_watch(tide_call *call, tide_status status, const tide_error *err)
{
    tide_call_end(call, status, err);
    return -1;
}

static int64_t step_watch(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    follower *f = arg;
    tide_error err = {0};
    if (is_over) /* the service ends, or the caller has left */
        return end_watch(call, TIDE_E_UNAVAILABLE, NULL);
    if (tide_call_is_full(call))
        return 10000; /* the client reads: soon again */
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    tide_lake_page page = {.out = &out};
    const tide_status status =
        laked_read_page(store, f->catalog, f->after, WATCH_PAGE, &page, &err);
    if (status < TIDE_OK)
        return end_watch(call, status, &err);
    if (page.catalog_id != f->catalog_id) {
        TIDE_IGNORE(tide_fail(&err, TIDE_E_NOT_FOUND,
                              "catalog '%s' was dropped; there is another one of its name",
                              f->catalog));
        return end_watch(call, TIDE_E_NOT_FOUND, &err);
    }
    if (!send_page(call, tide_buffer_view(&out)))
        return end_watch(call, TIDE_E_INTERRUPTED, NULL);
    f->after = page.last;
    return page.count == WATCH_PAGE ? 0 : INT64_MAX;
}

static tide_status begin_watch(tide_laked *laked, tide_call *call, const LAKE(WatchRequest) * given,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer nothing = tide_buffer_of(0);
    tide_lake_page page = {.out = &nothing};
    TIDE_TRY(laked_read_page(laked->store, given->catalog, 0, 0, &page, err));
    TIDE_NEW(follower, f, err);
    (void)snprintf(f->catalog, sizeof f->catalog, "%s", given->catalog);
    f->catalog_id = page.catalog_id;
    f->after = given->_after_case == TIDEMARK__LAKE__V1__WATCH_REQUEST___AFTER_AFTER ? given->after
                                                                                     : page.head;
    return tide_long_poll_park(laked->waiter, call, step_watch, f, INT64_MAX, err);
}

void tide_laked_watch(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    ProtobufCMessage *decoded = NULL;
    tide_status status = tide_call_decode(call, message, &decoded, &err);
    if (status >= TIDE_OK)
        status = begin_watch(arg, call, (const LAKE(WatchRequest) *)decoded, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}
