/* model_boss.c - the rules of adding, cancelling and sweeping. */
#include "sim/work/model.h"

#include <inttypes.h>

#include <tidemark/status.h>
#include <tidemark/work.h>

#include "support/sim/sim.h"

#define STEP_US INT64_C(600000000) /* one step of priority weighs ten minutes */

/* ---- add ---- */

/* A live item of the same type and key; -1: none. */
int work_find_live_key(const work_model *m, int item)
{
    const work_plan_item *plan = &m->plan->items[item];
    for (int i = 0; plan->key && i < WORK_ITEMS; i++)
        if (i != item && work_is_live(m->items[i].status) && m->plan->items[i].key == plan->key &&
            m->plan->items[i].type == plan->type)
            return i;
    return -1;
}

void work_add_item(work_case *c, int item, int64_t position)
{
    work_model *m = c->m;
    const work_plan_item *plan = &m->plan->items[item];
    m->items[item] = (work_row){
        .status = WORK_PENDING,
        .run_after_us = plan->delay_us > 0 ? c->now->wall_us + plan->delay_us : 0,
        .claim_key = c->now->wall_us + position - plan->priority * STEP_US,
        .order = ++m->next_order,
    };
}

typedef struct batch {
    bool is_new[WORK_BATCH];
    bool is_conflict; /* its task has ended, or what it depends on has failed */
    bool is_missing;  /* what it depends on is not there */
} batch;

static bool is_earlier_and_new(const work_case *c, const batch *b, int at, int item)
{
    for (int i = 0; i < at; i++)
        if (b->is_new[i] && c->request->items[i].item == item)
            return true;
    return false;
}

static bool has_earlier_key(const work_case *c, const batch *b, int at)
{
    const work_plan_item *plan = &c->m->plan->items[c->request->items[at].item];
    for (int i = 0; plan->key && i < at; i++) {
        const work_plan_item *other = &c->m->plan->items[c->request->items[i].item];
        if (b->is_new[i] && other->key == plan->key && other->type == plan->type)
            return true;
    }
    return false;
}

static void look_at(work_case *c, batch *b, int at)
{
    const work_model *m = c->m;
    const int item = (int)c->request->items[at].item;
    const work_plan_item *plan = &m->plan->items[item];
    if (m->items[item].status != WORK_ABSENT)
        return;
    if (work_find_live_key(m, item) >= 0 || has_earlier_key(c, b, at)) {
        c->m->tally.unique_hits++;
        return;
    }
    b->is_new[at] = true;
    b->is_conflict = b->is_conflict || m->is_cancelled[plan->task];
    for (int i = 0; i < plan->depends_count; i++) {
        const int on = plan->depends_on[i];
        b->is_conflict = b->is_conflict || m->items[on].status == WORK_FAILED;
        b->is_missing = b->is_missing ||
                        (m->items[on].status == WORK_ABSENT && !is_earlier_and_new(c, b, at, on));
    }
}

void work_judge_add(work_case *c)
{
    const work_request *r = c->request;
    batch b = {.is_conflict = false};
    for (int i = 0; i < r->count; i++)
        look_at(c, &b, i);
    if (b.is_conflict || b.is_missing) { /* all or none */
        const bool is_conflict = c->answer->status == TIDE_E_CONFLICT && b.is_conflict;
        const bool is_missing = c->answer->status == TIDE_E_NOT_FOUND && b.is_missing;
        if (!is_conflict && !is_missing)
            work_expect_status(c, b.is_conflict ? TIDE_E_CONFLICT : TIDE_E_NOT_FOUND);
        return;
    }
    work_expect_status(c, TIDE_OK);
    for (int i = 0; i < r->count; i++) {
        work_expect_number(c, "is_existing", !b.is_new[i], c->answer->is_existing[i]);
        if (b.is_new[i])
            work_add_item(c, (int)r->items[i].item, i);
    }
}

/* ---- cancel ---- */

static void cancel_item(work_model *m, int64_t item)
{
    work_row *row = &m->items[item];
    row->status = WORK_FAILED;
    row->kind = WORK_KIND_CANCELLED;
    row->token = work_next_token(m, row->token);
}

void work_judge_cancel(work_case *c)
{
    const int64_t item = c->request->items[0].item;
    const work_row *row = &c->m->items[item];
    if (row->status == WORK_ABSENT) {
        work_expect_status(c, TIDE_E_NOT_FOUND);
    } else if (work_is_live(row->status)) {
        work_expect_status(c, TIDE_OK);
        cancel_item(c->m, item);
    } else {
        const bool is_fine = row->status == WORK_FAILED && row->kind == WORK_KIND_CANCELLED;
        work_expect_status(c, is_fine ? TIDE_OK : TIDE_E_CONFLICT);
    }
}

void work_judge_cancel_task(work_case *c)
{
    work_model *m = c->m;
    work_expect_status(c, TIDE_OK);
    m->is_cancelled[c->request->task] = true;
    for (int i = 0; i < WORK_ITEMS; i++)
        if (m->plan->items[i].task == c->request->task && work_is_live(m->items[i].status))
            cancel_item(m, i);
}

/* ---- sweep ---- */

static bool is_overdue(const work_case *c, int item)
{
    const work_row *row = &c->m->items[item];
    return row->status == WORK_EXPIRED || (row->status == WORK_IN_PROGRESS && work_is_over(c, row));
}

static bool is_taken(const work_case *c, int item)
{
    return c->seen->rows[item].token != c->m->items[item].token;
}

/* After a reboot nobody can tell whether the deadline came first. */
static bool is_timed_out(const work_case *c, int item)
{
    const work_row *row = &c->m->items[item];
    if (row->status == WORK_EXPIRED || row->deadline_us == 0)
        return false;
    return row->is_rebooted ? c->seen->rows[item].failures > row->failures
                            : row->deadline_us <= c->lease_now_us;
}

static void wait_before_retry(work_case *c, int item, bool is_at_once)
{
    work_row *row = &c->m->items[item];
    const int64_t until_us = c->seen->rows[item].run_after_us;
    const int64_t wait_us = until_us - c->now->wall_us;
    row->run_after_us = 0;
    if (is_at_once || c->seen->rows[item].status == WORK_FAILED) /* blocked in the same turn */
        return;
    if (wait_us < SIM_SECOND_US / 2 || wait_us > (SIM_SECOND_US << row->retries))
        work_complain(c->m,
                      "sweep: i%03d waits %" PRId64 " us, after %" PRId64 " retries, %" PRId64
                      " crashes, %" PRId64 " failures",
                      item, wait_us, row->retries, row->crashes, row->failures);
    row->run_after_us = until_us;
}

/* One first run and at most max_retries more. The first crash is followed by a retry at once. */
static void expire_item(work_case *c, int item)
{
    work_model *m = c->m;
    work_row *row = &m->items[item];
    const bool is_timeout = is_timed_out(c, item);
    const bool is_left = row->status == WORK_EXPIRED; /* counted already */
    const bool is_over = row->retries >= m->plan->items[item].max_retries;
    row->failures += is_timeout;
    row->crashes += !is_timeout && !is_left;
    row->token = work_next_token(m, row->token);
    row->is_rebooted = false;
    m->tally.swept++;
    work_write_checkpoint(c, m->plan->items[item].task);
    if (is_over) {
        row->status = WORK_FAILED;
        row->kind =
            row->crashes >= TIDE_WORK_CRASH_LIMIT ? WORK_KIND_QUARANTINED : WORK_KIND_EXHAUSTED;
        m->tally.exhausted += row->kind == WORK_KIND_EXHAUSTED;
        m->tally.quarantined += row->kind == WORK_KIND_QUARANTINED;
        return;
    }
    wait_before_retry(c, item, row->crashes <= 1 && !is_timeout);
    row->status = WORK_PENDING;
    row->retries++;
}

static int64_t sweep_overdue(work_case *c, int64_t limit, bool *has_more)
{
    int64_t total = 0;
    int64_t taken = 0;
    int64_t failed = 0;
    for (int i = 0; i < WORK_ITEMS; i++) {
        if (!is_overdue(c, i))
            continue;
        total++;
        if (!is_taken(c, i))
            continue;
        taken++;
        expire_item(c, i);
        failed += c->m->items[i].status == WORK_FAILED;
    }
    work_expect_number(c, "leases taken up", total < limit ? total : limit, taken);
    work_expect_number(c, "requeued", taken - failed, c->answer->requeued);
    work_expect_number(c, "failed", failed, c->answer->failed);
    *has_more = *has_more || taken < total;
    return failed;
}

static bool is_hopeless(const work_model *m, int item)
{
    const work_plan_item *plan = &m->plan->items[item];
    for (int i = 0; m->items[item].status == WORK_PENDING && i < plan->depends_count; i++)
        if (m->items[plan->depends_on[i]].status == WORK_FAILED)
            return true;
    return false;
}

/* What depends on a failed item fails, and what depends on that. */
static void block_dependents(work_case *c, int64_t limit, bool *has_more)
{
    int64_t blocked = 0;
    int64_t left = 0;
    for (int i = 0; i < WORK_ITEMS; i++) { /* dependencies have lower numbers */
        if (!is_hopeless(c->m, i))
            continue;
        if (c->seen->rows[i].status != WORK_FAILED) {
            left++;
            continue;
        }
        blocked++;
        c->m->items[i].status = WORK_FAILED;
        c->m->items[i].kind = WORK_KIND_DEPENDENCY;
    }
    c->m->tally.blocked += blocked;
    work_expect_number(c, "blocked", blocked, c->answer->blocked);
    if (left > 0 && blocked < limit)
        work_complain(c->m, "sweep: %" PRId64 " blocked of up to %" PRId64 ", %" PRId64 " left",
                      blocked, limit, left);
    *has_more = *has_more || left > 0;
}

void work_judge_sweep(work_case *c)
{
    const int64_t limit = c->request->limit > 0 ? c->request->limit : TIDE_WORK_SWEEP_MAX;
    bool has_more = false;
    work_expect_status(c, TIDE_OK);
    (void)sweep_overdue(c, limit, &has_more);
    block_dependents(c, limit, &has_more);
    if (has_more && !c->answer->has_more)
        work_complain(c->m, "sweep: there is more to do, and it does not say so");
}
