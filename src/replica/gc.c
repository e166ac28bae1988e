#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "replica/log.h"
#include "replica/node.h"
#include "tidemark_templates.h"

enum { SAFETY_USUAL = 1000, BATCH_USUAL = 10000 };

/* ---- peers ---- */

typedef struct peer_call {
    const tide_node_id *peer;
    const char *name;
    int64_t now_us;
    int64_t expires_us;
    const tide_origin_mark *marks;
    int count;
} peer_call;

static tide_status put_mark(const peer_call *call, tide_foreign_tx *tx,
                            const tide_origin_mark *mark, tide_error *err)
{
    return tide_foreign_exec(
        tx, TIDE_TEMPLATE_APPLY_PEER_MARK_PUT->text, NULL, err,
        tide_bind_blob("peer", tide_view_bytes(call->peer->bytes, TIDE_NODE_LEN)),
        tide_bind_blob("origin", tide_view_bytes(mark->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", mark->epoch), tide_bind_i64("mark", mark->prefix));
}

static tide_status put_peer(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const peer_call *call = arg;
    const tide_view peer = tide_view_bytes(call->peer->bytes, TIDE_NODE_LEN);
    TIDE_TRY(tide_foreign_exec(
        tx, TIDE_TEMPLATE_APPLY_PEER_PUT->text, NULL, err, tide_bind_blob("peer", peer),
        tide_bind_text("name", call->name ? call->name : ""), tide_bind_i64("now", call->now_us),
        tide_bind_i64("expires", call->expires_us)));
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_PEER_MARKS_CUT->text, NULL, err,
                               tide_bind_blob("peer", peer)));
    for (int i = 0; i < call->count; i++)
        TIDE_TRY(put_mark(call, tx, &call->marks[i], err));
    return TIDE_OK;
}

tide_status tide_node_note_peer(tide_node *node, const tide_node_id *peer, const char *name,
                                int64_t expires_us, const tide_origin_mark *marks, int count,
                                tide_error *err)
{
    tide_env *env = tide_foreign_env(tide_node_file(node));
    const tide_node_id self = tide_node_get_id(node);
    if (memcmp(&self, peer, sizeof self) == 0)
        return tide_fail(err, TIDE_E_INVALID, "a peer with this node's own id");
    peer_call call = {.peer = peer,
                      .name = name,
                      .now_us = env->wall_us(env),
                      .expires_us = expires_us,
                      .marks = marks,
                      .count = count};
    return tide_foreign_write(tide_node_file(node), put_peer, &call, err);
}

/* ---- one turn ---- */

typedef struct collect_call {
    tide_node *node;
    int64_t now_us;
    int64_t safety;
    int64_t batch;
    tide_collected out;
    uint64_t horizon;  /* every peer has what was stamped before it */
    bool is_uncertain; /* something older may still come: deleted rows are not forgotten */
} collect_call;

/* TIDE_NONE: NULL. */
static tide_status ask_number(int64_t *out, tide_foreign_query *query, tide_error *err)
{
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE || tide_foreign_col_is_null(query))
        return TIDE_NONE;
    *out = tide_foreign_col_i64(query);
    return TIDE_OK;
}

static tide_status begin_for(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                             const tide_log_origin *origin, tide_error *err)
{
    return tide_foreign_start(
        out, tx, text, err,
        tide_bind_blob("origin", tide_view_bytes(origin->origin.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("epoch", origin->epoch));
}

/* What every live peer has, and we. Without peers: what we have. */
static tide_status find_mark(int64_t *out, collect_call *call, tide_foreign_tx *tx,
                             const tide_log_origin *origin, tide_error *err)
{
    int64_t least = 0;
    int64_t greatest = 0;
    const int64_t own = tide_cursor_contiguous(&origin->cursor);
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *low = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *high = NULL;
    TIDE_TRY(begin_for(&low, tx, TIDE_TEMPLATE_APPLY_LEAST_MARK->text, origin, err));
    const tide_status status = ask_number(&least, low, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK && least < own ? least : own;
    TIDE_TRY(begin_for(&high, tx, TIDE_TEMPLATE_APPLY_GREATEST_MARK->text, origin, err));
    TIDE_TRY(ask_number(&greatest, high, err));
    if (greatest > own || tide_cursor_highest(&origin->cursor) > own)
        call->is_uncertain = true;
    *out -= call->safety;
    return TIDE_OK;
}

static tide_status lower_horizon(collect_call *call, tide_foreign_tx *tx,
                                 const tide_log_origin *origin, int64_t mark, tide_error *err)
{
    int64_t stamp = 0;
    TIDE_FOREIGN_QUERY_BY(query, begin_for, tx, TIDE_TEMPLATE_APPLY_GC_FIRST_STAMP->text, origin,
                          err);
    tide_foreign_bind_i64(query, "mark", mark);
    const tide_status status = ask_number(&stamp, query, err);
    TIDE_TRY(status);
    if (status == TIDE_OK && (uint64_t)stamp < call->horizon)
        call->horizon = (uint64_t)stamp;
    return TIDE_OK;
}

/* The last event that may go: from the oldest on, none is left out. */
static tide_status find_end(int64_t *out, const collect_call *call, tide_foreign_tx *tx,
                            const tide_log_origin *origin, int64_t mark, tide_error *err)
{
    int64_t keep = 0;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *last = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *bound = NULL;
    *out = origin->floor;
    TIDE_TRY(begin_for(&last, tx, TIDE_TEMPLATE_APPLY_GC_LAST->text, origin, err));
    tide_foreign_bind_i64(last, "floor", origin->floor);
    tide_foreign_bind_i64(last, "limit", call->batch);
    TIDE_TRY(ask_number(out, last, err));
    TIDE_TRY(begin_for(&bound, tx, TIDE_TEMPLATE_APPLY_GC_BOUND->text, origin, err));
    tide_foreign_bind_i64(bound, "floor", origin->floor);
    tide_foreign_bind_i64(bound, "limit", call->batch);
    tide_foreign_bind_i64(bound, "mark", mark);
    tide_foreign_bind_i64(bound, "now", call->now_us);
    tide_foreign_bind_i64(bound, "retain", TIDE_NODE_RETAIN_US);
    const tide_status status = ask_number(&keep, bound, err);
    TIDE_TRY(status);
    if (status == TIDE_OK && keep <= *out)
        *out = keep - 1;
    if (*out > mark) /* a hole below what is here is no reason to call it gone */
        *out = mark;
    return TIDE_OK;
}

static tide_status collect_origin(collect_call *call, tide_foreign_tx *tx,
                                  const tide_origin_mark *of, tide_error *err)
{
    int64_t mark = 0;
    int64_t end = 0;
    int64_t gone = 0;
    TIDE_CLEANUP(tide_log_origin_done) tide_log_origin origin = {.tables = NULL};
    TIDE_TRY(tide_log_origin_load(&origin, tx, &of->origin, of->epoch, err));
    TIDE_TRY(find_mark(&mark, call, tx, &origin, err));
    TIDE_TRY(lower_horizon(call, tx, &origin, mark, err));
    TIDE_TRY(find_end(&end, call, tx, &origin, mark, err));
    if (end <= origin.floor)
        return TIDE_OK;
    TIDE_FOREIGN_QUERY_BY(query, begin_for, tx, TIDE_TEMPLATE_APPLY_GC_EVENTS->text, &origin, err);
    tide_foreign_bind_i64(query, "through", end);
    TIDE_TRY(tide_foreign_run(query, &gone, err));
    call->out.events += gone;
    call->out.more = call->out.more || gone >= call->batch;
    origin.floor = end;
    return tide_log_origin_store(&origin, tx, err);
}

/* What is here but not merged yet may be older than a deletion that it will meet. */
static tide_status spare_waiting(collect_call *call, tide_foreign_tx *tx, tide_error *err)
{
    int64_t stamp = 0;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_SPOOL_WAITING_STAMP->text,
                          err);
    const tide_status status = ask_number(&stamp, query, err);
    TIDE_TRY(status);
    if (status == TIDE_OK && (uint64_t)stamp < call->horizon)
        call->horizon = (uint64_t)stamp;
    return TIDE_OK;
}

static int64_t get_horizon(const collect_call *call)
{
    return call->horizon > INT64_MAX ? INT64_MAX : (int64_t)call->horizon;
}

/* Deletions that may be forgotten. */
static tide_status begin_clocks(tide_foreign_query **out, const collect_call *call,
                                tide_foreign_tx *tx, const char *text, tide_error *err)
{
    return tide_foreign_start(out, tx, text, err, tide_bind_i64("horizon", get_horizon(call)),
                              tide_bind_i64("now", call->now_us),
                              tide_bind_i64("retain", TIDE_NODE_RETAIN_US),
                              tide_bind_i64("limit", call->batch));
}

static tide_status collect_rows(collect_call *call, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *unknown = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *newest = NULL;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *clocks = NULL;
    TIDE_TRY(spare_waiting(call, tx, err));
    const int64_t horizon = get_horizon(call);
    const tide_status status = tide_foreign_first(
        &unknown, tx, TIDE_TEMPLATE_APPLY_UNKNOWN_MARKS->text, err, TIDE_NO_BIND);
    TIDE_TRY(status);
    if (call->is_uncertain || status == TIDE_OK)
        return TIDE_OK;
    TIDE_TRY(begin_clocks(&newest, call, tx, TIDE_TEMPLATE_APPLY_GC_NEWEST->text, err));
    TIDE_TRY(tide_foreign_run(newest, NULL, err));
    TIDE_TRY(begin_clocks(&clocks, call, tx, TIDE_TEMPLATE_APPLY_GC_CLOCKS->text, err));
    TIDE_TRY(tide_foreign_run(clocks, &call->out.tombstones, err));
    const int64_t old = ((call->now_us - TIDE_NODE_RETAIN_US) / 1000) << 16;
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_GC_KNOWN->text, &call->out.knowledge, err,
                               tide_bind_i64("horizon", horizon < old ? horizon : old),
                               tide_bind_i64("limit", call->batch)));
    call->out.more =
        call->out.more || call->out.tombstones >= call->batch || call->out.knowledge >= call->batch;
    return TIDE_OK;
}

static tide_status expire_peers(const collect_call *call, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_TRY(tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_PEER_EXPIRE->text, NULL, err,
                               tide_bind_i64("now", call->now_us)));
    return tide_foreign_exec(tx, TIDE_TEMPLATE_APPLY_PEER_MARKS_EXPIRE->text, NULL, err,
                             TIDE_NO_BIND);
}

typedef struct origin_list {
    tide_origin_mark *of;
    int count;
} origin_list;

static void origin_list_done(origin_list *list)
{
    free(list->of);
}

static tide_status list_origins(origin_list *out, tide_foreign_tx *tx, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, tx, TIDE_TEMPLATE_APPLY_ORIGIN_LIST->text,
                          err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(tide_list_room(&out->of, out->count, sizeof *out->of, TIDE_LIST_MAX, err));
        const tide_view origin = tide_foreign_col_bytes(query);
        if (origin.len != TIDE_NODE_LEN)
            return tide_fail(err, TIDE_E_DAMAGED, "an origin's id of %zu bytes", origin.len);
        tide_origin_mark *mark = &out->of[out->count++];
        *mark = (tide_origin_mark){.epoch = 0};
        memcpy(mark->origin.bytes, origin.ptr, TIDE_NODE_LEN);
        mark->epoch = tide_foreign_col_i64(query);
    }
    return TIDE_OK;
}

static tide_status collect_once(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    collect_call *call = arg;
    TIDE_CLEANUP(origin_list_done) origin_list list = {.of = NULL};
    call->out = (tide_collected){.events = 0};
    call->horizon = UINT64_MAX;
    call->is_uncertain = false;
    TIDE_TRY(expire_peers(call, tx, err));
    TIDE_TRY(list_origins(&list, tx, err));
    for (int i = 0; i < list.count; i++)
        TIDE_TRY(collect_origin(call, tx, &list.of[i], err));
    return collect_rows(call, tx, err);
}

tide_status tide_node_collect(tide_node *node, const tide_collect_options *options,
                              tide_collected *out, tide_error *err)
{
    static const tide_collect_options usual = {.safety = 0};
    tide_env *env = tide_foreign_env(tide_node_file(node));
    int64_t events = 0;
    bool more = true;
    if (!options)
        options = &usual;
    while (more) /* clocks have to be ahead of what is thrown away */
        TIDE_TRY(tide_node_fold(node, &events, &more, err));
    const int64_t safety = options->safety == 0 ? SAFETY_USUAL : options->safety;
    collect_call call = {.node = node,
                         .now_us = env->wall_us(env),
                         .safety = safety < 0 ? 0 : safety,
                         .batch = options->batch > 0 ? options->batch : BATCH_USUAL};
    TIDE_TRY(tide_foreign_write(tide_node_file(node), collect_once, &call, err));
    *out = call.out;
    return TIDE_OK;
}
