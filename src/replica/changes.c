#include "replica/changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/log.h"
#include "tidemark_templates.h"

enum {
    ROUND = 1000,           /* events that one read looks through */
    WAITING_MAX = 64 << 20, /* bytes of positions that wait */
    LOGS_MAX = 1 << 20,
};

struct tide_watch_log {
    tide_node_id origin;
    int64_t epoch;
    int64_t last_seq;
};

static tide_status give(tide_foreign_query *query, tide_change_fn *fn, void *arg,
                        tide_change *change, tide_error *err)
{
    *change = (tide_change){.position = tide_foreign_col_i64(query)};
    change->id = tide_foreign_col_bytes(query);
    change->table_name = tide_foreign_col_bytes(query);
    change->operation_type = tide_foreign_col_bytes(query);
    change->record_id = tide_foreign_col_bytes(query);
    change->data = tide_foreign_col_bytes(query);
    change->timestamp_ms = tide_foreign_col_i64(query);
    const tide_view origin = tide_foreign_col_bytes(query);
    if (origin.len == TIDE_NODE_LEN)
        memcpy(change->origin.bytes, origin.ptr, TIDE_NODE_LEN);
    change->epoch = tide_foreign_col_i64(query);
    change->seq = tide_foreign_col_i64(query);
    change->is_processed = tide_foreign_col_i64(query) != 0;
    const tide_told told = {.id = change->id,
                            .operation = change->operation_type,
                            .record = change->record_id,
                            .data = change->data,
                            .timestamp_ms = change->timestamp_ms,
                            .epoch = change->epoch,
                            .seq = change->seq};
    TIDE_TRY(tide_log_check_told(&told, query, err));
    return fn(arg, change, err);
}

/* ---- the history of a table ---- */

typedef struct history {
    const char *table;
    int64_t after;
    int64_t limit;
    tide_change_fn *fn;
    void *arg;
} history;

static tide_status give_history(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const history *h = arg;
    int64_t table_id = 0;
    const tide_status found = tide_foreign_number(&table_id, tx, TIDE_TEMPLATE_CHANGES_TABLE->text,
                                                  err, tide_bind_text("table", h->table));
    if (found == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' was never tracked", h->table);
    TIDE_TRY(found);
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_CHANGES_OF_TABLE->text, err,
                       tide_bind_i64("after", h->after), tide_bind_i64("table_id", table_id),
                       tide_bind_i64("limit", h->limit));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_change change;
        TIDE_OK_IF_NONE(give(query, h->fn, h->arg, &change, err));
    }
    return TIDE_OK;
}

tide_status tide_node_events(tide_node *node, const char *table, int64_t after, int64_t limit,
                             tide_change_fn *fn, void *arg, tide_error *err)
{
    history h = {.table = table, .after = after, .limit = limit, .fn = fn, .arg = arg};
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "table '%s' was never tracked", table);
    return tide_foreign_read(tide_node_file(node), give_history, &h, err);
}

static tide_status read_last(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    return tide_foreign_number((int64_t *)arg, tx, TIDE_TEMPLATE_CHANGES_LAST->text, err,
                               TIDE_NO_BIND);
}

tide_status tide_node_last_position(tide_node *node, int64_t *out, tide_error *err)
{
    *out = 0;
    return tide_node_epoch(node) == 0
               ? TIDE_OK
               : tide_foreign_read(tide_node_file(node), read_last, out, err);
}

/* ---- a watch ---- */

void tide_node_watch_init(tide_node_watch *watch, int64_t after)
{
    *watch = (tide_node_watch){.through = after, .begin = after};
    tide_buffer_init(&watch->waiting, WAITING_MAX);
}

void tide_node_watch_done(tide_node_watch *watch)
{
    tide_buffer_done(&watch->waiting);
    free(watch->logs);
    watch->logs = NULL;
    watch->log_count = 0;
}

typedef struct round_of {
    tide_node *node;
    tide_node_watch *watch;
    tide_change_fn *fn;
    tide_change_gap_fn *gap_fn;
    void *arg;
    int64_t through; /* of this round */
    int64_t resume;
    int64_t given;
    tide_buffer waiting; /* behind this round */
} round_of;

static tide_watch_log *find_log(const tide_node_watch *watch, const tide_node_id *origin,
                                int64_t epoch)
{
    for (int i = 0; i < watch->log_count; i++)
        if (watch->logs[i].epoch == epoch &&
            memcmp(&watch->logs[i].origin, origin, sizeof *origin) == 0)
            return &watch->logs[i];
    return NULL;
}

/* How far a log had been given when this watch began. */
static tide_status begin_log(const round_of *r, tide_foreign_tx *tx, const tide_origin_mark *mark,
                             tide_watch_log **out, tide_error *err)
{
    tide_node_watch *watch = r->watch;
    int64_t last = mark->start;
    TIDE_TRY(tide_list_room(&watch->logs, watch->log_count, sizeof *watch->logs, LOGS_MAX, err));
    if (watch->begin > 0)
        TIDE_TRY(tide_foreign_number(
            &last, tx, TIDE_TEMPLATE_CHANGES_SEQ_AT->text, err,
            tide_bind_blob("origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN)),
            tide_bind_i64("epoch", mark->epoch), tide_bind_i64("through", watch->begin)));
    *out = &watch->logs[watch->log_count++];
    **out = (tide_watch_log){.origin = mark->origin,
                             .epoch = mark->epoch,
                             .last_seq = last > mark->start ? last : mark->start};
    return TIDE_OK;
}

typedef struct mark_call {
    round_of *round;
    tide_foreign_tx *tx;
} mark_call;

/* A floor above what was given: nothing tells any more what is below it. */
static tide_status check_floor(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    const mark_call *call = arg;
    round_of *r = call->round;
    const tide_node_id own = tide_node_get_id(r->node);
    if (memcmp(&mark->origin, &own, sizeof own) == 0)
        return TIDE_OK;
    tide_watch_log *log = find_log(r->watch, &mark->origin, mark->epoch);
    if (!log)
        TIDE_TRY(begin_log(r, call->tx, mark, &log, err));
    if (mark->floor <= log->last_seq)
        return TIDE_OK;
    log->last_seq = mark->floor;
    r->given++;
    return r->gap_fn(
        r->arg,
        &(tide_change_gap){.origin = mark->origin, .epoch = mark->epoch, .last_seq = mark->floor},
        err);
}

static tide_status give_changes(round_of *r, tide_foreign_tx *tx, tide_error *err)
{
    const tide_node_watch *watch = r->watch;
    const tide_node_id own = tide_node_get_id(r->node);
    const tide_view node = tide_view_bytes(own.bytes, TIDE_NODE_LEN);
    const char *waiting = watch->waiting.len > 0 ? tide_buffer_text(&watch->waiting) : "[]";
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_CHANGES_OF_PEERS->text, err,
                       tide_bind_i64("after", watch->through), tide_bind_i64("through", r->through),
                       tide_bind_text("waiting", waiting), tide_bind_blob("node", node));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_change change;
        TIDE_TRY(give(query, r->fn, r->arg, &change, err));
        tide_watch_log *log = find_log(watch, &change.origin, change.epoch);
        if (log && change.seq > log->last_seq)
            log->last_seq = change.seq;
        r->given++;
    }
    TIDE_FOREIGN_QUERY_BY(left, tide_foreign_first, tx, TIDE_TEMPLATE_CHANGES_WAITING->text, err,
                          tide_bind_i64("after", watch->through),
                          tide_bind_i64("through", r->through), tide_bind_text("waiting", waiting),
                          tide_bind_blob("node", node));
    const tide_view list = tide_foreign_col_bytes(left);
    const int64_t count = tide_foreign_col_i64(left);
    r->resume = count > 0 ? tide_foreign_col_i64(left) - 1 : r->through;
    if (count > 0 && tide_buffer_append(&r->waiting, list.ptr, list.len) < TIDE_OK)
        return tide_fail(err, TIDE_E_LIMIT,
                         "%lld events of peers wait to be merged: more than a watch can remember; "
                         "see 'tidemark replica status'",
                         (long long)count);
    return TIDE_OK;
}

static tide_status read_round(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    round_of *r = arg;
    mark_call call = {.round = r, .tx = tx};
    int64_t last = 0;
    TIDE_TRY(read_last(tx, &last, err));
    r->through = r->watch->through + ROUND < last ? r->watch->through + ROUND : last;
    TIDE_TRY(tide_log_marks(tx, check_floor, &call, err));
    return give_changes(r, tx, err);
}

tide_status tide_node_changes(tide_node *node, tide_node_watch *watch, int64_t *resume,
                              tide_change_fn *fn, tide_change_gap_fn *gap_fn, void *arg,
                              tide_error *err)
{
    round_of r = {.node = node, .watch = watch, .fn = fn, .gap_fn = gap_fn, .arg = arg};
    const int64_t before = watch->through;
    *resume = before;
    if (tide_node_epoch(node) == 0)
        return TIDE_NONE;
    tide_buffer_init(&r.waiting, WAITING_MAX);
    const tide_status status = tide_foreign_read(tide_node_file(node), read_round, &r, err);
    if (status >= TIDE_OK) {
        watch->through = r.through;
        tide_buffer_done(&watch->waiting);
        watch->waiting = r.waiting;
        *resume = r.resume;
        return r.given > 0 || r.through > before ? TIDE_OK : TIDE_NONE;
    }
    tide_buffer_done(&r.waiting);
    return status;
}
