/* step.c - steps of a task: a recorded result, or permission to run.
 *
 * A step is the idempotency key "step/<task>/<name>", which does not expire. The lock of the key does
 * not keep anybody out, because the lease of the task does: whoever presents its token takes the key
 * over, with a new step token, and the step token of an earlier begin is refused from then on. The
 * checkpoint has an id made of the key and the step token, so a repeated call finds its own. */
#include <tidemark/idempotency.h>
#include <tidemark/journal.h>
#include <tidemark/lease.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/json.h"
#include "base/text/json_canon.h"
#include "journal/check.h"
#include "journal/fence.h"
#include "store/statement.h"
#include "tidemark_sql.h"

typedef struct step_call {
    tide_task_step step;
    char key[TIDE_TASK_STEP_KEY_SIZE];
    tide_idempotency_state state;    /* begin */
    tide_view result;                /* complete: JSON */
    tide_checkpoint_new checkpoint;  /* complete */
    tide_checkpoint_numbers numbers; /* complete */
} step_call;

void tide_task_step_state_done(tide_task_step_state *state)
{
    if (!state)
        return;
    free(state->result);
    *state = (tide_task_step_state){.is_done = false};
}

static tide_status check_step(step_call *call, tide_error *err)
{
    const tide_task_step *step = &call->step;
    TIDE_TRY(tide_journal_check_name("task id", step->task_id, TIDE_JOURNAL_ID_MAX, err));
    TIDE_TRY(tide_journal_check_name("step name", step->name, TIDE_TASK_STEP_NAME_MAX, err));
    if (strchr(step->name, '/'))
        return tide_fail(err, TIDE_E_INVALID, "a step name has no '/'");
    if (step->token < 1)
        return tide_fail(err, TIDE_E_INVALID,
                         "token %" PRId64 ": a step needs the token of the task's lease",
                         step->token);
    (void)snprintf(call->key, sizeof call->key, "step/%s/%s", step->task_id, step->name);
    return TIDE_OK;
}

/* The lease is ours until this transaction ends. */
static tide_status hold_task(tide_tx *tx, const tide_task_step *step, tide_error *err)
{
    const tide_checkpoint_new fenced = {TIDE_CHECKPOINT_NEW_INIT, .task_id = step->task_id,
                                        .token = step->token};
    char name[TIDE_FENCE_NAME_SIZE];
    TIDE_TRY(tide_fence_check_task(tx, &fenced, err));
    tide_fence_name(name, step->task_id);
    return tide_lease_check(tx, name, step->token, err);
}

/* ---- begin ---- */

/* A key of a task that was deleted says nothing about a task that was made again under its id. */
static tide_status drop_orphan(tide_tx *tx, const char *key, tide_error *err)
{
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_STEP_UNLOCK_ORPHAN, NULL, err, tide_bind_text("key", key)));
    return tide_tx_exec(tx, TIDE_SQL_STEP_DELETE_ORPHAN, NULL, err, tide_bind_text("key", key));
}

static tide_status begin_step(tide_tx *tx, void *arg, tide_error *err)
{
    step_call *call = arg;
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT,
                                              .key = call->key,
                                              .request_hash = "step",
                                              .task_id = call->step.task_id,
                                              .expiry_us = TIDE_IDEMPOTENCY_EXPIRY_MAX_US,
                                              .policy = TIDE_IDEMPOTENCY_RERUN};
    TIDE_TRY(hold_task(tx, &call->step, err));
    TIDE_TRY(drop_orphan(tx, call->key, err));
    TIDE_TRY(tide_idempotency_begin_in(tx, &request, &call->state, err));
    if (call->state.outcome != TIDE_IDEMPOTENCY_IN_PROGRESS)
        return TIDE_OK;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_UNLOCK, NULL, err,
                          tide_bind_text("name", call->key)));
    return tide_idempotency_begin_in(tx, &request, &call->state, err);
}

static tide_status hand_over(step_call *call, tide_task_step_state *out, tide_error *err)
{
    tide_idempotency_state *state = &call->state;
    memcpy(out->key, call->key, sizeof out->key);
    if (state->outcome == TIDE_IDEMPOTENCY_MISMATCH)
        return tide_fail(err, TIDE_E_CONFLICT, "the idempotency key %s is used by something else",
                         call->key);
    out->is_done = state->outcome == TIDE_IDEMPOTENCY_REPLAY;
    out->step_token = state->token;
    out->result = TIDE_TAKE(state->response);
    out->result_len = state->response_len;
    return TIDE_OK;
}

tide_status tide_task_step_begin(tide_store *store, const tide_task_step *given,
                                 tide_task_step_state *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    step_call call = {.numbers = {.global_sequence = 0}};
    TIDE_TRY(TIDE_SIZED_COPY(&call.step, given, tide_task_step, err));
    tide_task_step_state_done(out);
    TIDE_TRY(check_step(&call, err));
    tide_status status = tide_store_write(store, begin_step, &call, err);
    if (status >= TIDE_OK)
        status = hand_over(&call, out, err);
    tide_idempotency_state_done(&call.state);
    return status;
}

/* ---- complete ---- */

static tide_status complete_step(tide_tx *tx, void *arg, tide_error *err)
{
    step_call *call = arg;
    TIDE_TRY(hold_task(tx, &call->step, err));
    TIDE_TRY(tide_idempotency_complete_in(tx, call->key, call->step.step_token, call->result, err));
    return tide_journal_append_in(tx, &call->checkpoint, 1, &call->numbers, err);
}

static void name_checkpoint(const step_call *call, char out[TIDE_JOURNAL_ID_MAX + 1])
{
    char text[TIDE_TASK_STEP_KEY_SIZE + 32];
    (void)snprintf(text, sizeof text, "%s %" PRId64, call->key, call->step.step_token);
    const tide_digest128 digest = tide_digest128_of(tide_view_of(text));
    int len = snprintf(out, TIDE_JOURNAL_ID_MAX + 1, "step-");
    for (int i = 0; i < TIDE_DIGEST128_LEN; i++)
        len += snprintf(out + len, 3, "%02x", digest.bytes[i]);
}

/* {"step":"NAME","key":"step/TASK/NAME","result":...} */
static tide_status write_snapshot(tide_buffer *out, const step_call *call, tide_error *err)
{
    tide_status status = tide_buffer_append_text(out, "{\"step\":");
    if (status >= TIDE_OK)
        status = tide_json_append_string(out, tide_view_of(call->step.name));
    if (status >= TIDE_OK)
        status = tide_buffer_append_text(out, ",\"key\":");
    if (status >= TIDE_OK)
        status = tide_json_append_string(out, tide_view_of(call->key));
    if (status >= TIDE_OK)
        status = tide_buffer_append_text(out, ",\"result\":");
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(out, call->result);
    if (status >= TIDE_OK)
        status = tide_buffer_append_byte(out, '}');
    return status < TIDE_OK ? tide_fail(err, status, "the result of a step has at most %d bytes",
                                        TIDE_JOURNAL_SNAPSHOT_MAX)
                            : TIDE_OK;
}

tide_status tide_task_step_complete(tide_store *store, const tide_task_step *given,
                                    tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    step_call call = {.numbers = {.global_sequence = 0}};
    char checkpoint_id[TIDE_JOURNAL_ID_MAX + 1];
    TIDE_TRY(TIDE_SIZED_COPY(&call.step, given, tide_task_step, err));
    TIDE_TRY(check_step(&call, err));
    call.result = call.step.result.ptr ? call.step.result : tide_view_of("null");
    if (tide_json_check(call.result, err) < TIDE_OK)
        return tide_fail_context(err, TIDE_E_INVALID, "the result of a step is not JSON");
    name_checkpoint(&call, checkpoint_id);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer snapshot = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_TRY(write_snapshot(&snapshot, &call, err));
    call.checkpoint = (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT,
                                            .checkpoint_id = checkpoint_id,
                                            .task_id = call.step.task_id,
                                            .type = "tool_executed",
                                            .snapshot = tide_buffer_view(&snapshot),
                                            .token = call.step.token};
    TIDE_TRY(tide_store_write_by_id(store, complete_step, &call, true, err));
    *out = call.numbers;
    return TIDE_OK;
}
