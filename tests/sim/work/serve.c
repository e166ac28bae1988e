/* serve.c - one request, one call of the library or one statement of plain SQL. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/work/machine.h"

/* ---- items to add ---- */

typedef struct new_item {
    char id[WORK_NAME_SIZE];
    char task[WORK_NAME_SIZE];
    char type[WORK_NAME_SIZE];
    char key[WORK_NAME_SIZE];
    char on[WORK_DEPENDS_MAX][WORK_NAME_SIZE];
    const char *depends_on[WORK_DEPENDS_MAX];
} new_item;

static tide_work_spec describe(new_item *text, const work_plan *plan, int64_t item)
{
    const work_plan_item *p = &plan->items[item];
    work_item_name(text->id, item);
    work_task_name(text->task, p->task);
    work_type_name(text->type, p->type);
    work_key_name(text->key, p->key);
    for (int i = 0; i < p->depends_count; i++) {
        work_item_name(text->on[i], p->depends_on[i]);
        text->depends_on[i] = text->on[i];
    }
    return (tide_work_spec){TIDE_WORK_SPEC_INIT,
                            .work_item_id = text->id,
                            .task_id = text->task,
                            .work_type = text->type,
                            .input = "{\"n\":1}",
                            .priority = p->priority,
                            .max_retries = p->max_retries,
                            .delay_us = p->delay_us,
                            .timeout_us = p->timeout_us,
                            .unique_key = p->key ? text->key : NULL,
                            .depends_on = text->depends_on,
                            .depends_on_count = p->depends_count};
}

static tide_status serve_add(work_machine *m, const work_request *r, work_answer *a,
                             tide_error *err)
{
    new_item texts[WORK_BATCH];
    tide_work_spec items[WORK_BATCH];
    tide_work_added added[WORK_BATCH];
    for (int i = 0; i < r->count; i++)
        items[i] = describe(&texts[i], m->model.plan, r->items[i].item);
    TIDE_TRY(tide_work_add(m->store, items, (int)r->count, added, err));
    for (int i = 0; i < r->count; i++)
        a->is_existing[i] = added[i].is_existing;
    return TIDE_OK;
}

/* ---- claims and leases ---- */

static tide_status serve_claim(work_machine *m, const work_request *r, work_answer *a,
                               tide_error *err)
{
    char worker[WORK_NAME_SIZE];
    char task[WORK_NAME_SIZE];
    char names[WORK_TYPES][WORK_NAME_SIZE];
    const char *types[WORK_TYPES];
    tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker,
                                       .types = types, .limit = (int)r->limit,
                                       .lease_us = r->lease_us};
    work_sender_name(worker, r->sender);
    for (int i = 0; i < WORK_TYPES; i++) {
        if (!(r->types & (INT64_C(1) << i)))
            continue;
        work_type_name(names[i], i);
        types[request.type_count++] = names[i];
    }
    if (r->task >= 0) {
        work_task_name(task, r->task);
        request.task_id = task;
    }
    tide_work_claims claims;
    const tide_status status = tide_work_claim(m->store, &request, &claims, err);
    a->count = claims.count;
    a->next_due_us = claims.next_due_us;
    for (int i = 0; i < claims.count && i < WORK_BATCH; i++)
        a->claims[i] = (work_claim){.item = work_item_index(claims.items[i].work_item_id),
                                    .token = claims.items[i].lease_token,
                                    .attempt = claims.items[i].attempt,
                                    .lease_us = claims.items[i].lease_us,
                                    .expires_us = claims.items[i].lease_expires_at_us};
    tide_work_claims_done(&claims);
    return status;
}

static tide_status serve_renew(work_machine *m, const work_request *r, work_answer *a,
                               tide_error *err)
{
    char names[WORK_BATCH][WORK_NAME_SIZE];
    tide_work_ref refs[WORK_BATCH];
    for (int i = 0; i < r->count; i++) {
        work_item_name(names[i], r->items[i].item);
        refs[i] = (tide_work_ref){TIDE_WORK_REF_INIT, .work_item_id = names[i],
                                  .token = r->items[i].token};
    }
    const tide_status status = tide_work_renew(m->store, refs, (int)r->count, r->lease_us, err);
    for (int i = 0; i < r->count; i++)
        a->is_lost[i] = refs[i].is_lost;
    return status;
}

static tide_checkpoint_new make_checkpoint(char id[32], int64_t number)
{
    (void)snprintf(id, 32, "c%" PRId64, number);
    return (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .checkpoint_id = number > 0 ? id : NULL,
                                 .type = "tool_executed",
                                 .snapshot = tide_view_of("{\"state\":[1,2,3]}")};
}

static void tell_numbers(work_answer *a, const tide_checkpoint_numbers *numbers)
{
    a->sequence_number = numbers->sequence_number;
    a->global_sequence = numbers->global_sequence;
    a->is_checkpoint_existing = numbers->is_existing;
}

static tide_status serve_checkpoint(work_machine *m, const work_request *r, work_answer *a,
                                    tide_error *err)
{
    char name[WORK_NAME_SIZE];
    char id[32];
    tide_checkpoint_numbers numbers = {.sequence_number = 0};
    work_item_name(name, r->items[0].item);
    const tide_checkpoint_new checkpoint = make_checkpoint(id, r->checkpoint);
    TIDE_TRY(tide_work_checkpoint(m->store, name, r->items[0].token, &checkpoint, &numbers, err));
    tell_numbers(a, &numbers);
    return TIDE_OK;
}

/* ---- ends ---- */

static tide_status serve_finish(work_machine *m, const work_request *r, work_answer *a,
                                tide_error *err)
{
    char names[WORK_BATCH][WORK_NAME_SIZE];
    char outputs[WORK_BATCH][WORK_TEXT_SIZE];
    tide_work_result results[WORK_BATCH];
    for (int i = 0; i < r->count; i++) {
        work_item_name(names[i], r->items[i].item);
        work_output(outputs[i], r->items[i].token);
        results[i] = (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = names[i],
                                        .token = r->items[i].token, .output = outputs[i]};
    }
    tide_status status = TIDE_OK;
    if (r->verb == WORK_FINISH_MANY) {
        status = tide_work_finish_many(m->store, results, (int)r->count, err);
    } else {
        char id[32];
        new_item text;
        const tide_checkpoint_new checkpoint = make_checkpoint(id, 0);
        tide_work_spec follow_up = {TIDE_WORK_SPEC_INIT, .task_id = NULL};
        if (r->has_checkpoint)
            results[0].checkpoint = &checkpoint;
        if (r->has_follow_up) {
            follow_up = describe(&text, m->model.plan, WORK_ROOTS + r->items[0].item);
            follow_up.task_id = NULL;
            results[0].follow_ups = &follow_up;
            results[0].follow_up_count = 1;
        }
        status = tide_work_finish(m->store, &results[0], err);
        tell_numbers(a, &results[0].numbers);
    }
    for (int i = 0; i < r->count; i++)
        a->is_lost[i] = results[i].is_lost;
    return status;
}

static tide_status serve_fail(work_machine *m, const work_request *r, work_answer *a,
                              tide_error *err)
{
    char name[WORK_NAME_SIZE];
    tide_work_failed failed = {.is_final = false};
    work_item_name(name, r->items[0].item);
    TIDE_TRY(tide_work_fail(
        m->store,
        &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = name,
                             .token = r->items[0].token, .error = "it went wrong",
                             .is_final = r->is_final != 0, .retry_after_us = r->delay_us},
        &failed, err));
    a->is_final = failed.is_final;
    a->retry_after_us = failed.retry_after_us;
    return TIDE_OK;
}

static tide_status serve_sweep(work_machine *m, const work_request *r, work_answer *a,
                               tide_error *err)
{
    tide_work_swept swept;
    TIDE_TRY(tide_work_sweep(m->store, r->limit, 0, &swept, err));
    a->requeued = swept.requeued;
    a->failed = swept.failed;
    a->quarantined = swept.quarantined;
    a->blocked = swept.blocked;
    a->has_more = swept.has_more;
    return TIDE_OK;
}

/* ---- plain SQL ---- */

static void note_item(void *arg, const char *const *columns, int count)
{
    work_answer *a = arg;
    (void)count;
    if (a->count < WORK_BATCH)
        a->claims[a->count].item = work_item_index(columns[0]);
    a->count++;
}

static tide_status run_sql(work_machine *m, work_sql sql, const char *const *params, int count,
                           work_answer *a, tide_error *err)
{
    char words[WORK_CLIENT_WORDS];
    const bool is_done = work_client_run(m->client, sql, params, count, note_item, a, words);
    return is_done ? TIDE_OK : tide_fail(err, TIDE_E_CONFLICT, "%s", words);
}

static tide_status serve_sql_add(work_machine *m, const work_request *r, work_answer *a,
                                 tide_error *err)
{
    new_item text;
    char now[32];
    char priority[24];
    char retries[24];
    char timeout[24];
    const tide_work_spec item = describe(&text, m->model.plan, r->items[0].item);
    work_client_seconds(now, m->env.wall_us(&m->env));
    (void)snprintf(priority, sizeof priority, "%" PRId64, item.priority);
    (void)snprintf(retries, sizeof retries, "%" PRId64, item.max_retries);
    (void)snprintf(timeout, sizeof timeout, "%" PRId64, item.timeout_us);
    const char *const params[] = {item.work_item_id, item.task_id,
                                  item.work_type,    priority,
                                  retries,           item.timeout_us > 0 ? timeout : NULL,
                                  item.unique_key,   now};
    return run_sql(m, WORK_SQL_DO_ADD, params, 8, a, err);
}

/* TIDE_E_CONFLICT: the database refused. */
static tide_status serve_sql(work_machine *m, const work_request *r, work_answer *a,
                             tide_error *err)
{
    char item[WORK_NAME_SIZE];
    char worker[WORK_NAME_SIZE];
    char task[WORK_NAME_SIZE];
    char id[32];
    char now[32];
    char expires[32];
    const int64_t now_us = m->env.wall_us(&m->env);
    work_item_name(item, r->items[0].item);
    work_sender_name(worker, r->sender);
    work_task_name(task, r->task);
    (void)snprintf(id, sizeof id, "s%" PRId64, r->checkpoint);
    work_client_seconds(now, now_us);
    work_client_seconds(expires, now_us + r->lease_us);
    const struct {
        work_sql sql;
        int count;
        const char *params[4];
    } statements[WORK_VERBS] = {
        [WORK_SQL_CLAIM] = {WORK_SQL_DO_CLAIM, 3, {worker, now, expires}},
        [WORK_SQL_HEARTBEAT] = {WORK_SQL_DO_HEARTBEAT, 4, {item, worker, now, expires}},
        [WORK_SQL_COMPLETE] = {WORK_SQL_DO_COMPLETE, 3, {item, WORK_SQL_OUTPUT, now}},
        [WORK_SQL_FAIL] = {WORK_SQL_DO_FAIL, 2, {item, now}},
        [WORK_SQL_SWEEP] = {WORK_SQL_DO_SWEEP, 1, {now}},
        [WORK_SQL_EXPIRE] = {WORK_SQL_DO_EXPIRE, 1, {now}},
        [WORK_SQL_CHECKPOINT] = {WORK_SQL_DO_CHECKPOINT, 2, {id, task}},
    };
    return run_sql(m, statements[r->verb].sql, statements[r->verb].params,
                   statements[r->verb].count, a, err);
}

/* ---- all of them ---- */

static tide_status serve_one(work_machine *m, const work_request *r, tide_error *err)
{
    char item[WORK_NAME_SIZE];
    char type[WORK_NAME_SIZE];
    char task[WORK_NAME_SIZE];
    work_item_name(item, r->items[0].item);
    work_type_name(type, r->types);
    work_task_name(task, r->task);
    switch (r->verb) {
    case WORK_PROGRESS:
        return tide_work_progress(m->store, item, r->items[0].token, "{\"done\":0.5}", err);
    case WORK_RELEASE:
        return tide_work_release(m->store, item, r->items[0].token, r->delay_us, err);
    case WORK_CANCEL:
        return tide_work_cancel(m->store, item, "not wanted any more", err);
    case WORK_CANCEL_TASK:
        return tide_task_cancel(m->store, task, err);
    case WORK_PAUSE:
        return tide_work_pause(m->store, type, "for a while", err);
    case WORK_RESUME:
        return tide_work_resume(m->store, type, err);
    default:
        return tide_fail(err, TIDE_E_INVALID, "there is no verb %" PRId64, r->verb);
    }
}

void work_serve_call(work_machine *m, const work_request *r, work_answer *a)
{
    tide_error err = {.status = TIDE_OK};
    tide_status status = TIDE_OK;
    if (r->verb == WORK_SQL_ADD)
        status = serve_sql_add(m, r, a, &err);
    else if (r->verb >= WORK_SQL_CLAIM)
        status = serve_sql(m, r, a, &err);
    else if (r->verb == WORK_ADD)
        status = serve_add(m, r, a, &err);
    else if (r->verb == WORK_CLAIM)
        status = serve_claim(m, r, a, &err);
    else if (r->verb == WORK_RENEW)
        status = serve_renew(m, r, a, &err);
    else if (r->verb == WORK_CHECKPOINT)
        status = serve_checkpoint(m, r, a, &err);
    else if (r->verb == WORK_FINISH || r->verb == WORK_FINISH_MANY)
        status = serve_finish(m, r, a, &err);
    else if (r->verb == WORK_FAIL)
        status = serve_fail(m, r, a, &err);
    else if (r->verb == WORK_SWEEP)
        status = serve_sweep(m, r, a, &err);
    else
        status = serve_one(m, r, &err);
    a->status = status;
    if (status < TIDE_OK)
        sim_trace(m->world, "  %s", err.text);
}
