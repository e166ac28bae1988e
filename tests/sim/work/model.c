#include "sim/work/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/status.h>

void work_model_init(work_model *m, const work_plan *plan, tide_engine engine, int64_t floor,
                     int64_t plain_floor)
{
    memset(m, 0, sizeof *m);
    m->plan = plan;
    m->engine = engine;
    m->floor = floor;
    m->plain_floor = plain_floor;
}

void work_model_reboot(work_model *m)
{
    m->tally.reboots++;
    for (int i = 0; i < WORK_ITEMS && m->engine == TIDE_ENGINE_SQLITE; i++)
        if (m->items[i].status == WORK_IN_PROGRESS && !m->items[i].is_sql)
            m->items[i].is_rebooted = true;
}

void work_complain(work_model *m, const char *format, ...)
{
    if (m->why[0])
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
}

const char *work_status_name(work_status status)
{
    static const char *const names[] = {"absent",    "pending", "in_progress",
                                        "completed", "failed",  "expired"};
    return names[status];
}

/* ---- shared ---- */

bool work_is_live(work_status status)
{
    return status == WORK_PENDING || status == WORK_IN_PROGRESS || status == WORK_EXPIRED;
}

bool work_is_over(const work_case *c, const work_row *row)
{
    return row->is_rebooted || row->expires_us <= c->lease_now_us;
}

bool work_is_held(const work_case *c, const work_hold *hold)
{
    const work_row *row = &c->m->items[hold->item];
    const bool is_held =
        row->status == WORK_IN_PROGRESS && row->token == hold->token && !work_is_over(c, row);
    if (!is_held) {
        work_tally *t = &c->m->tally;
        t->refused++;
        t->refused_stale += row->status == WORK_IN_PROGRESS && row->token != hold->token;
        t->refused_late += row->status == WORK_IN_PROGRESS && row->token == hold->token;
    }
    return is_held;
}

int work_count_waits(const work_model *m, int item)
{
    const work_plan_item *plan = &m->plan->items[item];
    int count = 0;
    for (int i = 0; i < plan->depends_count; i++)
        count += m->items[plan->depends_on[i]].status != WORK_COMPLETED;
    return count;
}

int64_t work_next_token(const work_model *m, int64_t token)
{
    return token + 1 > m->floor ? token + 1 : m->floor;
}

int64_t work_next_plain_token(const work_model *m, int64_t token)
{
    return token + 1 > m->plain_floor ? token + 1 : m->plain_floor;
}

void work_expect_status(work_case *c, tide_status expected)
{
    if (c->answer->status != (int64_t)expected)
        work_complain(
            c->m, "%s %" PRId64 "/%" PRId64 " answered %s, want %s",
            work_verb_name(c->request->verb), c->request->items[0].item, c->request->items[0].token,
            tide_status_get((tide_status)c->answer->status)->name, tide_status_get(expected)->name);
}

void work_expect_number(work_case *c, const char *what, int64_t expected, int64_t actual)
{
    if (expected != actual)
        work_complain(c->m, "%s: %s is %" PRId64 ", want %" PRId64,
                      work_verb_name(c->request->verb), what, actual, expected);
}

void work_write_checkpoint(work_case *c, int task)
{
    c->boundaries[task]++;
    c->boundary_count++;
}

void work_output(char out[WORK_TEXT_SIZE], int64_t token)
{
    (void)snprintf(out, WORK_TEXT_SIZE, "{\"by\":%" PRId64 "}", token);
}

/* ---- what holds for any row ---- */

static bool is_allowed(work_status from, work_status to)
{
    switch (from) {
    case WORK_ABSENT:
        return to == WORK_PENDING;
    case WORK_PENDING:
        return to == WORK_IN_PROGRESS || to == WORK_FAILED;
    case WORK_IN_PROGRESS:
        return to == WORK_COMPLETED || to == WORK_FAILED || to == WORK_EXPIRED ||
               to == WORK_PENDING;
    case WORK_EXPIRED:
        return to == WORK_PENDING || to == WORK_FAILED;
    case WORK_COMPLETED:
    case WORK_FAILED:
        return false;
    }
    return false;
}

static void check_row(work_case *c, int item, const work_row *before)
{
    work_model *m = c->m;
    const work_row *row = &c->seen->rows[item];
    const work_plan_item *plan = &m->plan->items[item];
    if (row->status != before->status && !is_allowed(before->status, row->status))
        work_complain(m, "i%03d goes from %s to %s", item, work_status_name(before->status),
                      work_status_name(row->status));
    if (row->token < before->token)
        work_complain(m, "i%03d: its token falls from %" PRId64 " to %" PRId64, item, before->token,
                      row->token);
    if (row->attempts > 1 + plan->max_retries)
        work_complain(m, "i%03d: attempt %" PRId64 " of at most 1 + %" PRId64, item, row->attempts,
                      plan->max_retries);
    if (row->open_attempts != (row->status == WORK_IN_PROGRESS))
        work_complain(m, "i%03d is %s and has %" PRId64 " open attempts", item,
                      work_status_name(row->status), row->open_attempts);
    if (row->status == WORK_IN_PROGRESS && !row->is_sql)
        for (int i = 0; i < plan->depends_count; i++)
            if (c->seen->rows[plan->depends_on[i]].status != WORK_COMPLETED)
                work_complain(m, "i%03d runs before i%03d, which it depends on", item,
                              plan->depends_on[i]);
    for (int other = 0; plan->key && work_is_live(row->status) && other < item; other++)
        if (m->plan->items[other].key == plan->key && m->plan->items[other].type == plan->type &&
            work_is_live(c->seen->rows[other].status))
            work_complain(m, "i%03d and i%03d live under one unique key", other, item);
}

/* ---- the model against the rows ---- */

static void compare_number(work_case *c, int item, const char *what, int64_t expected,
                           int64_t actual)
{
    if (expected != actual)
        work_complain(c->m, "after %s: %s of i%03d is %" PRId64 ", want %" PRId64,
                      work_verb_name(c->request->verb), what, item, actual, expected);
}

static void compare_text(work_case *c, int item, const char *what, const char *expected,
                         const char *actual)
{
    if (strcmp(expected, actual) != 0)
        work_complain(c->m, "after %s: %s of i%03d is '%s', want '%s'",
                      work_verb_name(c->request->verb), what, item, actual, expected);
}

/* Whoever claims or sweeps lets delayed items run whose time has come. */
static void take_promotion(const work_case *c, work_row *row, const work_row *seen)
{
    const bool may_promote = c->request->verb == WORK_CLAIM || c->request->verb == WORK_SWEEP;
    if (may_promote && row->status == WORK_PENDING && row->run_after_us > 0 &&
        row->run_after_us <= c->now->wall_us && seen->run_after_us == 0)
        row->run_after_us = 0;
}

static void compare_lease(work_case *c, int item, work_row *row, const work_row *seen)
{
    const bool is_renewed = strcmp(c->m->boot_id, c->seen->boot_id) != 0;
    if (row->is_rebooted || (row->is_sql && is_renewed))
        row->expires_us = seen->expires_us; /* a new boot may have ended it */
    compare_text(c, item, "the holder", row->holder, seen->holder);
    compare_number(c, item, "lease_via", row->is_sql, seen->is_sql);
    compare_number(c, item, "the lease's end", row->expires_us, seen->expires_us);
    compare_number(c, item, "the deadline", row->deadline_us, seen->deadline_us);
}

static void compare_item(work_case *c, int item)
{
    work_row *row = &c->m->items[item];
    const work_row *seen = &c->seen->rows[item];
    if (row->status != seen->status)
        work_complain(c->m, "after %s: i%03d is %s, want %s", work_verb_name(c->request->verb),
                      item, work_status_name(seen->status), work_status_name(row->status));
    if (row->status == WORK_ABSENT)
        return;
    take_promotion(c, row, seen);
    compare_number(c, item, "the token", row->token, seen->token);
    compare_number(c, item, "retry_count", row->retries, seen->retries);
    compare_number(c, item, "failure_count", row->failures, seen->failures);
    compare_number(c, item, "crash_count", row->crashes, seen->crashes);
    compare_number(c, item, "claim_key", row->claim_key, seen->claim_key);
    compare_number(c, item, "the number of attempts", row->attempts, seen->attempts);
    if (row->status == WORK_PENDING) {
        compare_number(c, item, "run_after", row->run_after_us, seen->run_after_us);
        compare_number(c, item, "waits_for", work_count_waits(c->m, item), seen->waits_for);
    }
    if (row->status == WORK_IN_PROGRESS)
        compare_lease(c, item, row, seen);
    if (row->status == WORK_COMPLETED)
        compare_text(c, item, "the output", row->output, seen->output);
    if (row->status == WORK_FAILED)
        compare_number(c, item, "failure_kind", (int64_t)row->kind, (int64_t)seen->kind);
}

/* ---- checkpoints ---- */

static void check_checkpoints(work_case *c)
{
    work_model *m = c->m;
    int64_t written[WORK_TASKS] = {0};
    for (int i = 0; i < c->seen->checkpoint_count; i++) {
        const work_checkpoint_row *row = &c->seen->checkpoints[i];
        if (row->global != ++m->global)
            work_complain(m, "checkpoint %" PRId64 " comes where %" PRId64 " is due", row->global,
                          m->global);
        if (row->number != ++m->number[row->task])
            work_complain(m, "number %" PRId64 " of t%03d comes where %" PRId64 " is due",
                          row->number, row->task, m->number[row->task]);
        written[row->task]++;
        m->tally.checkpoints++;
    }
    for (int task = 0; task < WORK_TASKS; task++)
        if (written[task] != c->boundaries[task])
            work_complain(m, "%s wrote %" PRId64 " checkpoints of t%03d, want %" PRId64,
                          work_verb_name(c->request->verb), written[task], task,
                          c->boundaries[task]);
}

/* ---- the judgement ---- */

/* Setting the wall clock moves no lease: the anchor changes with the boot only. */
static void read_lease_clock(work_case *c)
{
    work_model *m = c->m;
    if (m->engine == TIDE_ENGINE_POSTGRES) {
        c->lease_now_us = c->now->wall_us;
        return;
    }
    if (m->boot_id[0] && strcmp(m->boot_id, c->seen->boot_id) == 0 &&
        m->offset_us != c->seen->offset_us)
        work_complain(m, "the lease clock was moved by %" PRId64 " us",
                      c->seen->offset_us - m->offset_us);
    const bool is_noticed = strcmp(c->seen->boot_id, c->now->boot_id) == 0;
    c->lease_now_us = is_noticed ? c->now->boot_us + c->seen->offset_us : INT64_MAX;
    /* Of plain SQL's leases those from before the boot end with its notice; which are, the wall clock tells. */
    for (int i = 0; i < WORK_ITEMS && strcmp(m->boot_id, c->seen->boot_id) != 0; i++)
        if (m->items[i].is_sql && c->seen->rows[i].token != m->items[i].token)
            m->items[i].is_rebooted = true;
}

static void judge_verb(work_case *c)
{
    static void (*const judges[WORK_VERBS])(work_case *) = {
        [WORK_ADD] = work_judge_add,
        [WORK_CLAIM] = work_judge_claim,
        [WORK_RENEW] = work_judge_renew,
        [WORK_CHECKPOINT] = work_judge_checkpoint,
        [WORK_PROGRESS] = work_judge_progress,
        [WORK_FINISH] = work_judge_finish,
        [WORK_FINISH_MANY] = work_judge_finish,
        [WORK_FAIL] = work_judge_fail,
        [WORK_RELEASE] = work_judge_release,
        [WORK_CANCEL] = work_judge_cancel,
        [WORK_CANCEL_TASK] = work_judge_cancel_task,
        [WORK_SWEEP] = work_judge_sweep,
    };
    const work_verb verb = (work_verb)c->request->verb;
    if (judges[verb])
        judges[verb](c);
    else if (verb >= WORK_SQL_CLAIM)
        work_judge_sql(c);
    else
        work_expect_status(c, TIDE_OK);
    if (verb == WORK_PAUSE || verb == WORK_RESUME)
        c->m->is_paused[c->request->types] = verb == WORK_PAUSE;
}

bool work_model_judge(work_model *m, const work_request *request, const work_answer *answer,
                      const work_now *now, const work_snapshot *seen)
{
    work_case c = {.m = m, .request = request, .answer = answer, .now = now, .seen = seen};
    work_row before[WORK_ITEMS];
    memcpy(before, m->items, sizeof before);
    m->tally.requests++;
    read_lease_clock(&c);
    judge_verb(&c);
    for (int i = 0; i < WORK_ITEMS; i++) {
        compare_item(&c, i);
        check_row(&c, i, &before[i]);
    }
    check_checkpoints(&c);
    if (seen->strays > 0)
        work_complain(m, "%d items that nobody added", seen->strays);
    (void)snprintf(m->boot_id, sizeof m->boot_id, "%s", seen->boot_id);
    m->offset_us = seen->offset_us;
    return m->why[0] == '\0';
}

bool work_model_is_done(const work_model *m, int *item)
{
    for (int i = 0; i < WORK_ITEMS; i++)
        if (work_is_live(m->items[i].status)) {
            *item = i;
            return false;
        }
    return true;
}
