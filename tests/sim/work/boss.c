/* boss.c - the boss, who wants things done, and the stranger, who works by plain SQL. */
#include "sim/work/actors.h"

#include <string.h>

enum {
    ADD_MAX_US = 3 * SIM_SECOND_US,
    STRANGER_MAX_US = 12 * SIM_SECOND_US,
    STRANGER_LEASE_US = 20 * SIM_SECOND_US,
    ADD_BATCH = 3,
};

/* ---- the boss ---- */

static bool plan_add(work_boss *boss, work_request *r)
{
    work_world *w = boss->caller.w;
    int at = 0;
    while (at < WORK_ROOTS && boss->is_settled[at])
        at++;
    if (at == WORK_ROOTS)
        return false;
    r->verb = WORK_ADD;
    const int64_t wanted = work_draw(w, 1, ADD_BATCH);
    for (; r->count < wanted && at < WORK_ROOTS; at++)
        r->items[r->count++].item = at;
    return true;
}

static bool plan_trouble(work_boss *boss, work_request *r)
{
    work_world *w = boss->caller.w;
    if (work_is_calm(w) || !work_chance(w, 1, 3))
        return false;
    const int64_t dice = work_draw(w, 0, 9);
    r->types = work_draw(w, 0, WORK_TYPES - 1);
    r->task = work_draw(w, 0, WORK_TASKS - 1);
    if (dice < 3) {
        r->verb = WORK_CANCEL;
        r->count = 1;
        r->items[0].item = work_draw(w, 0, WORK_ITEMS - 1);
    } else if (dice == 3 && boss->may_cancel_task) {
        r->verb = WORK_CANCEL_TASK;
        boss->may_cancel_task = false;
    } else {
        r->verb = dice < 6 ? WORK_PAUSE : WORK_RESUME;
    }
    return true;
}

static bool plan_calm(const work_boss *boss, work_request *r)
{
    for (int i = 0; work_is_calm(boss->caller.w) && i < WORK_TYPES; i++)
        if (!boss->is_resumed[i]) {
            r->verb = WORK_RESUME;
            r->types = i;
            return true;
        }
    return false;
}

static int64_t rule(void *self, sim *world)
{
    work_boss *boss = self;
    int64_t wake_us = 0;
    if (work_caller_is_busy(&boss->caller, &wake_us))
        return wake_us;
    work_request r = {.task = -1};
    if (plan_calm(boss, &r) || plan_trouble(boss, &r) || plan_add(boss, &r))
        return work_caller_ask(&boss->caller, &r);
    return work_is_calm(boss->caller.w) ? SIM_IDLE : sim_now_us(world) + ADD_MAX_US;
}

static void take_ruling(void *self, sim *world, sim_id from, tide_view bytes)
{
    work_boss *boss = self;
    (void)world;
    (void)from;
    work_answer a;
    const int64_t think_us = work_draw(boss->caller.w, 0, ADD_MAX_US);
    if (!work_caller_take(&boss->caller, bytes, &a, think_us))
        return;
    const work_request *asked = &boss->caller.asked;
    if (asked->verb == WORK_RESUME && work_is_calm(boss->caller.w))
        boss->is_resumed[asked->types] = true;
    if (asked->verb != WORK_ADD)
        return;
    /* A batch that was refused is tried again one by one; one alone that was refused is given up. */
    if (a.status == TIDE_OK || asked->count == 1)
        for (int i = 0; i < asked->count; i++)
            boss->is_settled[asked->items[i].item] = true;
}

static void crash_boss(void *self, sim *world, sim_crash how)
{
    work_boss *boss = self;
    (void)world;
    (void)how;
    memset(boss->is_settled, 0, sizeof boss->is_settled);
    memset(boss->is_resumed, 0, sizeof boss->is_resumed);
    work_caller_crash(&boss->caller);
}

void work_boss_init(work_world *w)
{
    work_boss *boss = &w->boss;
    boss->caller = (work_caller){.w = w, .sender = WORK_SENDER_BOSS};
    boss->may_cancel_task = work_chance(w, 1, 3);
    boss->caller.id = sim_add(w->sim, &(sim_actor){.name = "boss",
                                                   .self = boss,
                                                   .step = rule,
                                                   .receive = take_ruling,
                                                   .crash = crash_boss});
}

/* ---- the stranger ---- */

/* Follow-ups, which depend on nothing; those with a unique key are the interesting ones. */
static int64_t draw_addition(work_world *w)
{
    int64_t item = 0;
    for (int tries = 0; tries < 3; tries++) {
        item = work_draw(w, WORK_ROOTS, WORK_ITEMS - 1);
        if (w->plan.items[item].key)
            break;
    }
    return item;
}

static void plan_stranger(const work_stranger *stranger, work_request *r)
{
    work_world *w = stranger->caller.w;
    const int64_t dice = work_draw(w, 0, 99);
    const bool has_item = stranger->item >= 0;
    r->count = 1;
    r->items[0].item = has_item && dice < 80 ? stranger->item : work_draw(w, 0, WORK_ITEMS - 1);
    r->lease_us = STRANGER_LEASE_US;
    if (!has_item && dice < 40) {
        r->verb = WORK_SQL_CLAIM;
        r->count = 0;
    } else if (!has_item && dice < 55) {
        r->verb = WORK_SQL_ADD;
        r->items[0].item = draw_addition(w);
    } else if (dice < 65) {
        r->verb = WORK_SQL_HEARTBEAT;
    } else if (dice < 85) {
        r->verb = WORK_SQL_COMPLETE; /* its own, or anybody's */
    } else if (dice < 88) {
        r->verb = WORK_SQL_FAIL;
    } else if (dice < 94) {
        r->verb = WORK_SQL_CHECKPOINT;
        r->count = 0;
        r->task = work_draw(w, 0, WORK_TASKS - 1);
        r->checkpoint = ++w->checkpoint;
    } else {
        /* Its guards go by the server's clock on PostgreSQL, which is not the simulator's. */
        const bool is_sqlite = w->machine.engine == TIDE_ENGINE_SQLITE;
        r->verb = !is_sqlite ? WORK_SQL_HEARTBEAT : dice < 97 ? WORK_SQL_SWEEP : WORK_SQL_EXPIRE;
        r->count = is_sqlite ? 0 : 1;
    }
}

static int64_t meddle(void *self, sim *world)
{
    work_stranger *stranger = self;
    (void)world;
    int64_t wake_us = 0;
    if (work_caller_is_busy(&stranger->caller, &wake_us))
        return wake_us;
    if (work_is_calm(stranger->caller.w))
        return SIM_IDLE; /* what it held runs out */
    work_request r = {.task = 0};
    plan_stranger(stranger, &r);
    return work_caller_ask(&stranger->caller, &r);
}

static void take_result(void *self, sim *world, sim_id from, tide_view bytes)
{
    work_stranger *stranger = self;
    (void)world;
    (void)from;
    work_answer a;
    const int64_t think_us = work_draw(stranger->caller.w, 0, STRANGER_MAX_US);
    if (!work_caller_take(&stranger->caller, bytes, &a, think_us))
        return;
    const work_request *asked = &stranger->caller.asked;
    if (asked->verb == WORK_SQL_CLAIM && a.count == 1)
        stranger->item = a.claims[0].item;
    else if ((asked->verb == WORK_SQL_COMPLETE || asked->verb == WORK_SQL_FAIL) &&
             asked->items[0].item == stranger->item)
        stranger->item = -1;
}

static void crash_stranger(void *self, sim *world, sim_crash how)
{
    work_stranger *stranger = self;
    (void)world;
    (void)how;
    stranger->item = -1;
    work_caller_crash(&stranger->caller);
}

void work_stranger_init(work_world *w)
{
    work_stranger *stranger = &w->stranger;
    stranger->caller = (work_caller){.w = w, .sender = WORK_SENDER_STRANGER};
    stranger->item = -1;
    stranger->caller.id = sim_add(w->sim, &(sim_actor){.name = "stranger",
                                                       .self = stranger,
                                                       .step = meddle,
                                                       .receive = take_result,
                                                       .crash = crash_stranger});
}
