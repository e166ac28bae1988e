/* model_lease.c - the rules of claims, and of everything that is done under a token. */
#include "sim/work/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/status.h>

#include "support/sim/sim.h"

/* ---- claim ---- */

/* May this claim take it, once its time has come? */
static bool is_wanted(const work_case *c, int item)
{
    const work_model *m = c->m;
    const work_plan_item *plan = &m->plan->items[item];
    return m->items[item].status == WORK_PENDING && work_count_waits(m, item) == 0 &&
           !m->is_paused[plan->type] && !m->is_cancelled[plan->task] &&
           (c->request->types == 0 || c->request->types & (INT64_C(1) << plan->type)) &&
           (c->request->task < 0 || c->request->task == plan->task);
}

static bool is_ready(const work_case *c, int item)
{
    return is_wanted(c, item) && c->m->items[item].run_after_us <= c->now->wall_us;
}

static bool comes_before(const work_row *a, const work_row *b)
{
    return a->claim_key != b->claim_key ? a->claim_key < b->claim_key : a->order < b->order;
}

/* The ready item that is next in line; -1: none. */
static int find_first(const work_case *c)
{
    int first = -1;
    for (int i = 0; i < WORK_ITEMS; i++)
        if (is_ready(c, i) && (first < 0 || comes_before(&c->m->items[i], &c->m->items[first])))
            first = i;
    return first;
}

static void take_lease(work_case *c, int item, const work_claim *claim)
{
    work_model *m = c->m;
    work_row *row = &m->items[item];
    const int64_t timeout_us = m->plan->items[item].timeout_us;
    int64_t lease_us = c->request->lease_us;
    if (timeout_us > 0 && timeout_us < lease_us)
        lease_us = timeout_us;
    row->status = WORK_IN_PROGRESS;
    row->token = work_next_token(m, row->token);
    work_sender_name(row->holder, c->request->sender);
    row->is_sql = false;
    row->is_rebooted = false;
    row->expires_us = c->lease_now_us + lease_us;
    row->deadline_us = timeout_us > 0 ? c->lease_now_us + timeout_us : 0;
    row->run_after_us = 0;
    row->attempts++;
    m->tally.claims++;
    work_expect_number(c, "the item", item, claim->item);
    work_expect_number(c, "the token", row->token, claim->token);
    work_expect_number(c, "the attempt", row->retries + 1, claim->attempt);
    work_expect_number(c, "the lease", lease_us, claim->lease_us);
    work_expect_number(c, "the lease's end", row->expires_us, claim->expires_us);
}

/* Who finds nothing sleeps until the next item is due, and not longer. */
static void check_next_due(work_case *c)
{
    for (int i = 0; i < WORK_ITEMS; i++) {
        const int64_t due_in_us = c->m->items[i].run_after_us - c->now->wall_us;
        if (is_wanted(c, i) && (c->answer->next_due_us < 0 || c->answer->next_due_us > due_in_us))
            work_complain(c->m, "claim: i%03d is due in %" PRId64 " us, not in %" PRId64, i,
                          due_in_us, c->answer->next_due_us);
    }
}

void work_judge_claim(work_case *c)
{
    const int64_t limit = c->request->limit;
    int64_t count = 0;
    for (int item = -1; count < limit && (item = find_first(c)) >= 0; count++)
        if (count < c->answer->count)
            take_lease(c, item, &c->answer->claims[count]);
        else
            break;
    const bool is_more = count < limit && find_first(c) >= 0;
    if (is_more)
        work_complain(c->m, "claim: got %" PRId64 " of %" PRId64 ", and i%03d is ready",
                      c->answer->count, limit, find_first(c));
    work_expect_number(c, "the count", count, c->answer->count);
    work_expect_status(c, count > 0 ? TIDE_OK : TIDE_NONE);
    if (count == 0)
        check_next_due(c);
}

/* ---- renew ---- */

static tide_status status_of_many(int64_t lost, int64_t count)
{
    if (lost == 0)
        return TIDE_OK;
    return lost == count ? TIDE_E_LEASE_LOST : TIDE_E_PARTIAL;
}

void work_judge_renew(work_case *c)
{
    const work_request *r = c->request;
    int64_t lost = 0;
    for (int i = 0; i < r->count; i++) {
        const bool is_held = work_is_held(c, &r->items[i]);
        work_row *row = &c->m->items[r->items[i].item];
        work_expect_number(c, "is_lost", !is_held, c->answer->is_lost[i]);
        lost += !is_held;
        if (!is_held)
            continue;
        row->expires_us = c->lease_now_us + r->lease_us;
        if (row->deadline_us > 0 && row->deadline_us < row->expires_us)
            row->expires_us = row->deadline_us;
    }
    work_expect_status(c, status_of_many(lost, r->count));
}

/* ---- checkpoint, progress ---- */

void work_judge_checkpoint(work_case *c)
{
    work_model *m = c->m;
    const work_request *r = c->request;
    if (!work_is_held(c, &r->items[0])) {
        work_expect_status(c, TIDE_E_LEASE_LOST);
        return;
    }
    work_expect_status(c, TIDE_OK);
    const int task = m->plan->items[r->items[0].item].task;
    const int64_t id = r->checkpoint;
    const bool is_known = id > 0 && m->known_global[id] > 0;
    work_expect_number(c, "is_existing", is_known, c->answer->is_checkpoint_existing);
    work_expect_number(c, "the number", is_known ? m->known_number[id] : m->number[task] + 1,
                       c->answer->sequence_number);
    work_expect_number(c, "the global number", is_known ? m->known_global[id] : m->global + 1,
                       c->answer->global_sequence);
    if (is_known)
        return;
    work_write_checkpoint(c, task);
    if (id > 0) {
        m->known_number[id] = c->answer->sequence_number;
        m->known_global[id] = c->answer->global_sequence;
    }
}

void work_judge_progress(work_case *c)
{
    const bool is_held = work_is_held(c, &c->request->items[0]);
    work_expect_status(c, is_held ? TIDE_OK : TIDE_E_LEASE_LOST);
}

/* ---- finish ---- */

static void add_follow_up(work_case *c, int64_t root)
{
    const int item = (int)(WORK_ROOTS + root);
    if (c->m->items[item].status == WORK_ABSENT && work_find_live_key(c->m, item) < 0)
        work_add_item(c, item, 0);
}

static void finish_item(work_case *c, const work_hold *hold)
{
    work_model *m = c->m;
    work_row *row = &m->items[hold->item];
    row->status = WORK_COMPLETED;
    work_output(row->output, hold->token);
    m->tally.finishes++;
    if (c->request->has_checkpoint) {
        const int task = m->plan->items[hold->item].task;
        work_expect_number(c, "the number", m->number[task] + 1, c->answer->sequence_number);
        work_expect_number(c, "the global number", m->global + 1, c->answer->global_sequence);
        work_write_checkpoint(c, task);
    }
    if (c->request->has_follow_up)
        add_follow_up(c, hold->item);
}

/* The same finish may be said again: by the same token, with the same output. */
static bool is_repeat(const work_case *c, const work_hold *hold)
{
    const work_row *row = &c->m->items[hold->item];
    char output[WORK_TEXT_SIZE];
    work_output(output, hold->token);
    return row->status == WORK_COMPLETED && row->token == hold->token &&
           strcmp(row->output, output) == 0;
}

void work_judge_finish(work_case *c)
{
    const work_request *r = c->request;
    int64_t lost = 0;
    for (int i = 0; i < r->count; i++) {
        bool is_lost = false;
        if (is_repeat(c, &r->items[i]))
            c->m->tally.repeats++;
        else if (work_is_held(c, &r->items[i]))
            finish_item(c, &r->items[i]);
        else
            is_lost = true;
        work_expect_number(c, "is_lost", is_lost, c->answer->is_lost[i]);
        lost += is_lost;
    }
    work_expect_status(c, status_of_many(lost, r->count));
}

/* ---- fail, release ---- */

static int64_t longest_backoff_us(int64_t retries)
{
    int64_t most_us = SIM_SECOND_US;
    for (int64_t i = 0; i < retries; i++)
        most_us *= 2;
    return most_us;
}

/* Said again, because the answer was lost: the same words are answered alike, and nothing happens. */
static bool is_failed_again(const work_row *row, const work_request *r)
{
    for (int i = 0; i < row->failed_count; i++)
        if (row->failed[i].token == r->items[0].token)
            return row->failed[i].is_final == (r->is_final != 0);
    return false;
}

static void note_failed(work_case *c, work_row *row)
{
    if (row->failed_count == WORK_FAILED_MAX) {
        work_complain(c->m, "fail: more attempts than there can be");
        return;
    }
    row->failed[row->failed_count].token = c->request->items[0].token;
    row->failed[row->failed_count++].is_final = c->request->is_final != 0;
}

void work_judge_fail(work_case *c)
{
    work_model *m = c->m;
    const work_request *r = c->request;
    const int64_t item = r->items[0].item;
    work_row *row = &m->items[item];
    if (!work_is_held(c, &r->items[0])) {
        const bool is_again = is_failed_again(row, r);
        m->tally.repeats += is_again;
        work_expect_status(c, is_again ? TIDE_OK : TIDE_E_LEASE_LOST);
        return;
    }
    work_expect_status(c, TIDE_OK);
    note_failed(c, row);
    const bool is_over = r->is_final || row->retries >= m->plan->items[item].max_retries;
    work_expect_number(c, "is_final", is_over, c->answer->is_final);
    row->failures++;
    if (is_over) {
        row->status = WORK_FAILED;
        row->kind = r->is_final         ? WORK_KIND_ERROR
                    : row->crashes >= 3 ? WORK_KIND_QUARANTINED
                                        : WORK_KIND_EXHAUSTED;
        return;
    }
    const int64_t wait_us = c->answer->retry_after_us;
    if (r->delay_us >= 0)
        work_expect_number(c, "the wait", r->delay_us, wait_us);
    else if (wait_us < SIM_SECOND_US / 2 || wait_us > longest_backoff_us(row->retries))
        work_complain(m, "fail: the wait is %" PRId64 " us, after %" PRId64 " retries", wait_us,
                      row->retries);
    row->status = WORK_PENDING;
    row->retries++;
    row->run_after_us = wait_us > 0 ? c->now->wall_us + wait_us : 0;
}

void work_judge_release(work_case *c)
{
    const work_request *r = c->request;
    if (!work_is_held(c, &r->items[0])) {
        work_expect_status(c, TIDE_E_LEASE_LOST);
        return;
    }
    work_expect_status(c, TIDE_OK);
    work_row *row = &c->m->items[r->items[0].item];
    row->status = WORK_PENDING;
    row->attempts--;
    row->run_after_us = r->delay_us > 0 ? c->now->wall_us + r->delay_us : 0;
}
