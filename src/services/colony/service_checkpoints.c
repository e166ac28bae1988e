/* service_checkpoints.c - positions: looking at them, and what an operator does to them; see service.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

enum { HOLES_MAX = 100, TRY_MAX = 20 };

/* ---- looking ---- */

static tide_status put_holes(tide_buffer *out, const tide_position *position, tide_error *err)
{
    size_t count = 0;
    const tide_interval *holes = tide_cursor_holes(&position->cursor, &count);
    for (size_t i = 0; i < count && i < HOLES_MAX; i++) {
        COLONY(Hole) hole = COLONY_INIT(HOLE);
        hole.first_seq_id = (uint64_t)holes[i].first;
        hole.last_seq_id = (uint64_t)holes[i].last;
        TIDE_TRY(tide_rpc_put_message(out, 8, &hole.base, err));
    }
    return TIDE_OK;
}

static tide_status put_position(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                                tide_error *err)
{
    tide_ledger ledger;
    COLONY(Ledger) sums = COLONY_INIT(LEDGER);
    COLONY(Checkpoint) row = COLONY_INIT(CHECKPOINT);
    tide_position_ledger(position, gaps, &ledger);
    tide_colony_ledger(&sums, &ledger);
    row.agent_id = tide_rpc_borrow(position->agent_id);
    row.data_type = tide_rpc_borrow(position->data_type);
    row.session_id = tide_rpc_borrow(position->session_id);
    row.epoch = (uint64_t)position->epoch;
    row.epoch_id = tide_rpc_borrow(position->epoch_id);
    row.last_seq_id = (uint64_t)position->last_seq;
    row.highest_seq_id = (uint64_t)tide_cursor_highest(&position->cursor);
    row.ledger = &sums;
    row.last_poll_time = position->last_poll_us;
    row.created_at = position->created_at_us;
    row.updated_at = position->updated_at_us;
    row.closed_at = position->closed_at_us;
    row.closed_reason = tide_rpc_borrow(position->closed_reason);
    row.expired = (uint64_t)position->expired;
    row.foreign = position->is_foreign;
    row.next_arrived = position->next_arrived_ms;
    row.head_arrived = position->head_arrived_ms;
    row.agent_now = position->agent_now_ms;
    row.retention_ms = position->retention_ms;
    row.version = (uint64_t)position->version;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, &row.base, err));
    TIDE_TRY(put_holes(&bytes, position, err));
    return tide_rpc_put_bytes(arg, 1, tide_buffer_view(&bytes), err);
}

tide_status tide_colony_list_checkpoints(tide_colony *colony, const ProtobufCMessage *request,
                                         tide_buffer *out, tide_error *err)
{
    const COLONY(ListCheckpointsRequest) *given = (const COLONY(ListCheckpointsRequest) *)request;
    tide_sink *sink = colony->sink;
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, given->data_type, err));
    return sink->ops->positions(sink, tide_rpc_text(given->agent_id),
                                tide_rpc_text(given->data_type), given->with_closed, put_position,
                                out, err);
}

/* ---- history ---- */

typedef struct histories {
    char data_type[TIDE_FEED_NAME_MAX + 1]; /* of the one under way */
    size_t count;
    int64_t times[TIDE_LAG_HISTORY_POINTS];
    uint64_t checkpoints[TIDE_LAG_HISTORY_POINTS];
    uint64_t heads[TIDE_LAG_HISTORY_POINTS];
    tide_buffer *out;
    tide_status status;
    tide_error *err;
} histories;

static void end_course(histories *c)
{
    COLONY(CheckpointCourse) history = COLONY_INIT(CHECKPOINT_COURSE);
    history.data_type = c->data_type;
    history.n_times = history.n_last_seq_id = history.n_head_seq_id = c->count;
    history.times = c->times;
    history.last_seq_id = c->checkpoints;
    history.head_seq_id = c->heads;
    if (c->count > 0 && c->status >= TIDE_OK)
        c->status = tide_rpc_put_message(c->out, 2, &history.base, c->err);
    c->count = 0;
}

static void add_point(void *arg, const char *data_type, int64_t wall_ms,
                      const tide_lag_point *point)
{
    histories *c = arg;
    /* One slot's stream has no more points than fit; a slot that is leaving may stand beside the one that follows it. */
    if (c->count == TIDE_LAG_HISTORY_POINTS || strcmp(c->data_type, data_type) != 0) {
        end_course(c);
        (void)snprintf(c->data_type, sizeof c->data_type, "%s", data_type);
    }
    c->times[c->count] = wall_ms;
    c->checkpoints[c->count] = (uint64_t)point->checkpoint;
    c->heads[c->count++] = (uint64_t)point->head;
}

tide_status tide_colony_checkpoint_history(tide_colony *colony, const ProtobufCMessage *request,
                                           tide_buffer *out, tide_error *err)
{
    const COLONY(CheckpointHistoryRequest) *given =
        (const COLONY(CheckpointHistoryRequest) *)request;
    if (!*given->agent_id)
        return tide_fail(err, TIDE_E_INVALID, "whose history? agent_id is missing");
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, given->data_type, err));
    COLONY(CheckpointHistoryResponse) head = COLONY_INIT(CHECKPOINT_HISTORY_RESPONSE);
    head.step_ms = TIDE_LAG_HISTORY_US / 1000;
    TIDE_TRY(tide_rpc_pack(out, &head.base, err));
    histories c = {.out = out, .err = err};
    if (colony->scheduler)
        tide_scheduler_lag_history(colony->scheduler, given->agent_id,
                                   tide_rpc_text(given->data_type), add_point, &c);
    end_course(&c);
    return c.status;
}

/* ---- changing ---- */

/* Forward, beyond what we have heard of: the agent may have more by now. Where it cannot be asked, what we know stands. */
static void hear_head(tide_colony *colony, tide_position *at)
{
    tide_error err = {0};
    const tide_ask ask = {.type = tide_colony_type_find(at->data_type),
                          .data_type = at->data_type,
                          .start_seq = at->last_seq,
                          .max_records = 1,
                          .session_id = at->session_id};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request = tide_buffer_of(64 << 10);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer answer = tide_buffer_of(TIDE_REPLY_BYTES_MAX);
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    if (!colony->links || tide_ask_encode(&request, &ask, &err) < TIDE_OK ||
        tide_agent_clients_call(colony->links, colony->sink->store, at->agent_id, ask.type->path,
                                tide_buffer_view(&request), &answer, &err) < TIDE_OK ||
        tide_reply_read(&reply, ask.type, tide_buffer_view(&answer), &err) < TIDE_OK)
        return;
    const bool is_ours = reply.has_state && reply.epoch == at->epoch &&
                         strcmp(reply.session_id, at->session_id) == 0;
    if (is_ours && reply.head_seq > at->head)
        at->head = reply.head_seq;
}

/* A poll that comes in between wins, and it is tried again. */
static tide_status move(tide_colony *colony, const char *agent_id, const char *data_type,
                        int64_t seq, tide_error *err)
{
    for (int i = 0;; i++) {
        TIDE_CLEANUP(tide_position_done) tide_position at = {.version = 0};
        TIDE_CLEANUP(tide_change_done) tide_change change = {.row_count = 0};
        TIDE_TRY(tide_sink_load(colony->sink, agent_id, data_type, &at, err));
        if (seq > at.head && *at.session_id)
            hear_head(colony, &at);
        tide_status status =
            tide_settle_move(&change, &at, seq, colony->env->wall_us(colony->env), err);
        if (status != TIDE_OK)
            return status;
        status = tide_sink_apply(colony->sink, &change, err);
        if (status != TIDE_E_CONFLICT || i == TRY_MAX)
            return status;
    }
}

tide_status tide_colony_move_checkpoint(tide_colony *colony, const ProtobufCMessage *request,
                                        tide_buffer *out, tide_error *err)
{
    const COLONY(MoveCheckpointRequest) *given = (const COLONY(MoveCheckpointRequest) *)request;
    int64_t seq = 0;
    TIDE_TRY(tide_colony_number(&seq, given->seq_id, "seq_id", err));
    if (!*given->agent_id || !*given->data_type)
        return tide_fail(err, TIDE_E_INVALID, "which checkpoint? name an agent and a data type");
    TIDE_TRY(tide_colony_check_names(colony, given->agent_id, given->data_type, err));
    TIDE_TRY(move(colony, given->agent_id, given->data_type, seq, err));
    if (colony->scheduler)
        tide_scheduler_touch(colony->scheduler, given->agent_id);
    return colony->sink->ops->positions(colony->sink, given->agent_id, given->data_type, false,
                                        put_position, out, err);
}

/* Positions are listed first and changed one after the other: each is a transaction of its own. */
typedef struct names {
    struct name {
        char agent_id[TIDE_AGENT_ID_MAX + 1];
        char data_type[TIDE_FEED_NAME_MAX + 1];
    } * list;
    size_t count;
} names;

static void names_done(names *n)
{
    free(n->list);
}

static tide_status keep_name(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                             tide_error *err)
{
    (void)gaps;
    names *n = arg;
    TIDE_TRY(tide_list_room(&n->list, (int64_t)n->count, sizeof *n->list, TIDE_LIST_MAX, err));
    struct name *to = &n->list[n->count++];
    (void)snprintf(to->agent_id, sizeof to->agent_id, "%s", position->agent_id);
    (void)snprintf(to->data_type, sizeof to->data_type, "%s", position->data_type);
    return TIDE_OK;
}

tide_status tide_colony_reset_checkpoints(tide_colony *colony, const ProtobufCMessage *request,
                                          tide_buffer *out, tide_error *err)
{
    const COLONY(ResetCheckpointsRequest) *given = (const COLONY(ResetCheckpointsRequest) *)request;
    const char *agent_id = tide_rpc_text(given->agent_id);
    const char *data_type = tide_rpc_text(given->data_type);
    if (!agent_id && !data_type && !given->all)
        return tide_fail(err, TIDE_E_INVALID,
                         "which checkpoints? name an agent or a data type, or say all");
    TIDE_CLEANUP(names_done) names n = {.count = 0};
    TIDE_TRY(tide_colony_check_names(colony, agent_id, data_type, err));
    TIDE_TRY(
        colony->sink->ops->positions(colony->sink, agent_id, data_type, false, keep_name, &n, err));
    if (n.count == 0 && !given->all)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no such checkpoint");
    TIDE_TRY(tide_colony_restore_rows(colony, agent_id, data_type, err));
    for (size_t i = 0; i < n.count; i++)
        TIDE_TRY(move(colony, n.list[i].agent_id, n.list[i].data_type, 0, err));
    if (colony->scheduler)
        tide_scheduler_touch(colony->scheduler, agent_id);
    return colony->sink->ops->positions(colony->sink, agent_id, data_type, false, put_position, out,
                                        err);
}
