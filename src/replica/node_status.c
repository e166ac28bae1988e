#include "replica/node_status.h"

#include <string.h>

#include "base/cleanup.h"
#include "tidemark_templates.h"

typedef struct list_call {
    tide_node *node;
    tide_waiting_fn *waiting;
    tide_divergence_fn *divergence;
    void *arg;
} list_call;

/* ---- numbers ---- */

typedef struct status_call {
    tide_node *node;
    tide_node_status *out;
} status_call;

static tide_status read_status(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const status_call *call = arg;
    tide_env *env = tide_foreign_env(tide_node_file(call->node));
    const tide_node_id own = tide_node_get_id(call->node);
    int64_t last = 0;
    *call->out = (tide_node_status){.floor = 0};
    TIDE_TRY(
        tide_foreign_number(&last, tx, TIDE_TEMPLATE_APPLY_HYBRID_GET->text, err, TIDE_NO_BIND));
    const int64_t ahead_us =
        tide_stamp_us(&(tide_stamp){.time = (uint64_t)last}) - env->wall_us(env);
    call->out->clock_ahead_us = last != 0 && ahead_us > 0 ? ahead_us : 0;
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_STATUS_NUMBERS->text, err,
                          tide_bind_blob("node", tide_view_bytes(own.bytes, TIDE_NODE_LEN)),
                          tide_bind_i64("epoch", tide_node_epoch(call->node)));
    call->out->floor = tide_foreign_col_i64(query);
    call->out->unsent = tide_foreign_col_i64(query);
    call->out->orphans = tide_foreign_col_i64(query);
    return TIDE_OK;
}

tide_status tide_node_get_status(tide_node *node, tide_node_status *out, tide_error *err)
{
    status_call call = {.node = node, .out = out};
    return tide_foreign_read(tide_node_file(node), read_status, &call, err);
}

/* ---- events that wait ---- */

static tide_status give_waiting(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const list_call *call = arg;
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_STATUS_WAITING->text, err,
                       tide_bind_i64("drift", TIDE_STAMP_DRIFT_US));
    TIDE_EACH(tide_foreign_step(query, err)) {
        tide_waiting waiting = {.events = 0};
        const tide_view origin = tide_foreign_col_bytes(query);
        if (origin.len == TIDE_NODE_LEN)
            memcpy(waiting.origin.bytes, origin.ptr, TIDE_NODE_LEN);
        waiting.reason = tide_foreign_col_bytes(query);
        waiting.events = tide_foreign_col_i64(query);
        waiting.until_us = tide_foreign_col_i64(query);
        TIDE_TRY(call->waiting(call->arg, &waiting, err));
    }
    return TIDE_OK;
}

tide_status tide_node_list_waiting(tide_node *node, tide_waiting_fn *fn, void *arg, tide_error *err)
{
    list_call call = {.node = node, .waiting = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), give_waiting, &call, err);
}

/* ---- tables that differ ---- */

typedef struct note_call {
    const char *peer;
    const char *tables;
} note_call;

static tide_status put_divergence(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const note_call *call = arg;
    return tide_foreign_exec(tx, TIDE_TEMPLATE_STATUS_DIVERGENCE_PUT->text, NULL, err,
                             tide_bind_text("peer", call->peer),
                             tide_bind_text("tables", call->tables));
}

static tide_status ignore(void *arg, tide_view peer, tide_view table, tide_error *err)
{
    (void)peer;
    (void)table;
    (void)err;
    *(bool *)arg = true;
    return TIDE_OK;
}

tide_status tide_node_note_divergence(tide_node *node, const char *peer, const char *tables,
                                      tide_error *err)
{
    note_call call = {.peer = peer, .tables = tables};
    bool is_any = strcmp(tables, "[]") != 0;
    if (!is_any) /* nothing to forget: no write */
        TIDE_TRY(tide_node_list_divergence(node, ignore, &is_any, err));
    return is_any ? tide_foreign_write(tide_node_file(node), put_divergence, &call, err) : TIDE_OK;
}

static tide_status give_divergence(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    const list_call *call = arg;
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_STATUS_DIVERGENCE->text, err, TIDE_NO_BIND);
    TIDE_EACH(tide_foreign_step(query, err)) {
        const tide_view peer = tide_foreign_col_bytes(query);
        const tide_view table = tide_foreign_col_bytes(query);
        TIDE_TRY(call->divergence(call->arg, peer, table, err));
    }
    return TIDE_OK;
}

tide_status tide_node_list_divergence(tide_node *node, tide_divergence_fn *fn, void *arg,
                                      tide_error *err)
{
    list_call call = {.node = node, .divergence = fn, .arg = arg};
    return tide_foreign_read(tide_node_file(node), give_divergence, &call, err);
}
