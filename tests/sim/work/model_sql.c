/* model_sql.c - what plain SQL may do, without a token. */
#include "sim/work/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/status.h>

#include "support/sim/sim.h"

/* Its times are whole seconds of the wall clock. */
static int64_t cut_to_seconds(int64_t us)
{
    return us - us % SIM_SECOND_US;
}

/* How plain SQL's ends are counted is the triggers' own affair; tokens, retries and attempts are not. */
static void take_counts(work_case *c, int64_t item)
{
    work_row *row = &c->m->items[item];
    row->crashes = c->seen->rows[item].crashes;
    row->failures = c->seen->rows[item].failures;
    if (row->status == WORK_FAILED)
        row->kind = c->seen->rows[item].kind;
}

static void refuse(work_case *c)
{
    c->m->tally.sql_refused++;
    work_expect_status(c, TIDE_E_CONFLICT);
}

/* ---- add ---- */

/* By plain SQL an item waits for nothing: neither for a time nor for another. */
static void judge_add(work_case *c)
{
    work_model *m = c->m;
    const int item = (int)c->request->items[0].item;
    if (m->items[item].status != WORK_ABSENT || work_find_live_key(m, item) >= 0 ||
        m->is_cancelled[m->plan->items[item].task]) {
        refuse(c);
        return;
    }
    work_expect_status(c, TIDE_OK);
    work_add_item(c, item, -(c->now->wall_us % SIM_SECOND_US));
    m->items[item].run_after_us = 0;
}

/* ---- claim, heartbeat ---- */

/* Status and priority are all it looks at. */
static int find_first(const work_model *m)
{
    int first = -1;
    for (int i = 0; i < WORK_ITEMS; i++) {
        if (m->items[i].status != WORK_PENDING)
            continue;
        const int64_t priority = m->plan->items[i].priority;
        const int64_t best = first < 0 ? 0 : m->plan->items[first].priority;
        const int64_t step = INT64_C(600000000);
        const int64_t made = m->items[i].claim_key + priority * step;
        const int64_t made_first = first < 0 ? 0 : m->items[first].claim_key + best * step;
        if (first < 0 || priority > best || (priority == best && made < made_first))
            first = i;
    }
    return first;
}

static void judge_claim(work_case *c)
{
    work_model *m = c->m;
    const int item = find_first(m);
    work_expect_status(c, TIDE_OK);
    work_expect_number(c, "the count", item >= 0, c->answer->count);
    if (item < 0 || c->answer->count != 1)
        return;
    work_row *row = &m->items[item];
    work_expect_number(c, "the item", item, c->answer->claims[0].item);
    row->status = WORK_IN_PROGRESS;
    row->token = work_next_plain_token(m, row->token); /* fenced too */
    work_sender_name(row->holder, c->request->sender);
    row->is_sql = true;
    row->is_rebooted = false;
    row->expires_us = cut_to_seconds(c->now->wall_us) + c->request->lease_us;
    row->deadline_us = 0;
    row->run_after_us = 0;
    row->attempts++;
    m->tally.sql_claims++;
}

static bool is_own(const work_case *c, const work_row *row)
{
    char name[WORK_NAME_SIZE];
    work_sender_name(name, c->request->sender);
    return strcmp(name, row->holder) == 0;
}

static void judge_heartbeat(work_case *c)
{
    work_row *row = &c->m->items[c->request->items[0].item];
    const bool is_found = row->status == WORK_IN_PROGRESS && is_own(c, row);
    work_expect_status(c, TIDE_OK);
    work_expect_number(c, "the count", is_found, c->answer->count);
    if (is_found)
        row->expires_us = cut_to_seconds(c->now->wall_us) + c->request->lease_us;
}

/* ---- complete, fail ---- */

static void judge_complete(work_case *c)
{
    const int64_t item = c->request->items[0].item;
    work_row *row = &c->m->items[item];
    const bool is_again =
        row->status == WORK_COMPLETED && strcmp(row->output, WORK_SQL_OUTPUT) == 0;
    if (row->status == WORK_ABSENT || is_again) {
        work_expect_status(c, TIDE_OK);
        return;
    }
    if (row->status != WORK_IN_PROGRESS || !row->is_sql) {
        refuse(c);
        return;
    }
    work_expect_status(c, TIDE_OK);
    row->status = WORK_COMPLETED;
    (void)snprintf(row->output, sizeof row->output, "%s", WORK_SQL_OUTPUT);
    take_counts(c, item);
}

/* Has the lease run out by the wall clock, to the millisecond? Only then may plain SQL end what the library holds. On
 * PostgreSQL the wall clock is the server's own, long before any time of the simulation. */
static bool is_over_by_wall(const work_case *c, const work_row *row)
{
    return c->m->engine == TIDE_ENGINE_SQLITE &&
           row->expires_us < c->now->wall_us - c->now->wall_us % 1000;
}

static void judge_fail(work_case *c)
{
    const int64_t item = c->request->items[0].item;
    work_row *row = &c->m->items[item];
    if (row->status == WORK_ABSENT || row->status == WORK_FAILED) {
        work_expect_status(c, TIDE_OK);
        return;
    }
    const bool is_held =
        row->status == WORK_IN_PROGRESS && !row->is_sql && !is_over_by_wall(c, row);
    if (row->status == WORK_COMPLETED || is_held) {
        refuse(c);
        return;
    }
    work_expect_status(c, TIDE_OK);
    row->status = WORK_FAILED;
    row->is_rebooted = false;
    take_counts(c, item);
}

/* ---- sweep, expire ---- */

static void judge_sweep(work_case *c)
{
    work_model *m = c->m;
    int64_t count = 0;
    work_expect_status(c, TIDE_OK);
    for (int i = 0; i < WORK_ITEMS; i++) {
        work_row *row = &m->items[i];
        if (row->status != WORK_IN_PROGRESS || row->expires_us >= cut_to_seconds(c->now->wall_us))
            continue;
        count++;
        row->is_rebooted = false;
        if (c->request->verb == WORK_SQL_EXPIRE) {
            row->status = WORK_EXPIRED;
        } else {
            const bool is_left = row->retries < m->plan->items[i].max_retries;
            row->status = is_left ? WORK_PENDING : WORK_FAILED;
            row->retries++;
        }
        if (row->status != WORK_FAILED)
            row->token = work_next_plain_token(m, row->token);
        take_counts(c, i);
    }
    work_expect_number(c, "the count", count, c->answer->count);
}

/* ---- checkpoint ---- */

static void judge_checkpoint(work_case *c)
{
    int64_t *known = &c->m->known_global[c->request->checkpoint];
    if (*known > 0) { /* append-only: the same id again is refused */
        refuse(c);
        return;
    }
    work_expect_status(c, TIDE_OK);
    *known = c->m->global + 1;
    work_write_checkpoint(c, (int)c->request->task);
}

void work_judge_sql(work_case *c)
{
    const work_verb verb = (work_verb)c->request->verb;
    if (verb == WORK_SQL_CLAIM)
        judge_claim(c);
    else if (verb == WORK_SQL_ADD)
        judge_add(c);
    else if (verb == WORK_SQL_HEARTBEAT)
        judge_heartbeat(c);
    else if (verb == WORK_SQL_COMPLETE)
        judge_complete(c);
    else if (verb == WORK_SQL_FAIL)
        judge_fail(c);
    else if (verb == WORK_SQL_SWEEP || verb == WORK_SQL_EXPIRE)
        judge_sweep(c);
    else
        judge_checkpoint(c);
}
