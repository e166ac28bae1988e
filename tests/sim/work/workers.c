/* workers.c - workers: they stall, crash, come back, and try to finish what is no longer theirs. */
#include "sim/work/actors.h"

#include <string.h>

enum {
    LEASE_MIN_US = 5 * SIM_SECOND_US,
    LEASE_MAX_US = 30 * SIM_SECOND_US,
    THINK_MAX_US = 5 * SIM_SECOND_US,
    STALL_MAX_US = 90 * SIM_SECOND_US,
    CUT_MAX_US = 40 * SIM_SECOND_US,
    IDLE_MIN_US = 2 * SIM_SECOND_US,
    IDLE_MAX_US = 12 * SIM_SECOND_US,
    DELAY_MAX_US = 20 * SIM_SECOND_US,
};

static void forget_hold(work_worker *worker, int64_t item, int64_t token)
{
    for (int i = 0; i < worker->hold_count; i++)
        if (worker->holds[i].item == item && worker->holds[i].token == token) {
            worker->holds[i] = worker->holds[--worker->hold_count];
            return;
        }
}

/* ---- what to do next ---- */

static void plan_claim(work_worker *worker, work_request *r)
{
    work_world *w = worker->caller.w;
    r->verb = WORK_CLAIM;
    r->limit = work_draw(w, 1, WORK_HOLDS - worker->hold_count);
    r->lease_us = work_draw(w, LEASE_MIN_US, LEASE_MAX_US);
    r->task = -1;
    if (work_chance(w, 1, 3))
        r->types = work_draw(w, 1, (1 << WORK_TYPES) - 1);
    if (work_chance(w, 1, 6))
        r->task = work_draw(w, 0, WORK_TASKS - 1);
    if (work_is_calm(w)) {
        r->types = 0;
        r->task = -1;
    }
}

/* Does it believe to hold an item twice, by an old token and by a new one? */
static bool has_twins(const work_worker *worker)
{
    for (int i = 0; i < worker->hold_count; i++)
        for (int other = 0; other < i; other++)
            if (worker->holds[i].item == worker->holds[other].item)
                return true;
    return false;
}

static void plan_finish(work_worker *worker, work_request *r, int at)
{
    work_world *w = worker->caller.w;
    if (worker->hold_count > 1 && !has_twins(worker) && work_chance(w, 1, 3)) {
        r->verb = WORK_FINISH_MANY;
        r->count = worker->hold_count;
        memcpy(r->items, worker->holds, sizeof worker->holds[0] * (size_t)worker->hold_count);
        return;
    }
    const int64_t item = worker->holds[at].item;
    r->verb = WORK_FINISH;
    r->has_checkpoint = work_chance(w, 1, 2);
    r->has_follow_up = item < WORK_ROOTS && w->plan.items[item].has_follow_up;
}

static void plan_work(work_worker *worker, work_request *r)
{
    work_world *w = worker->caller.w;
    const int at = (int)work_draw(w, 0, worker->hold_count - 1);
    r->count = 1;
    r->items[0] = worker->holds[at];
    const int64_t dice = work_is_calm(w) ? 99 : work_draw(w, 0, 99);
    if (dice < 25) {
        r->verb = WORK_RENEW;
        r->count = worker->hold_count;
        memcpy(r->items, worker->holds, sizeof worker->holds[0] * (size_t)worker->hold_count);
        r->lease_us = work_draw(w, LEASE_MIN_US, LEASE_MAX_US);
    } else if (dice < 43) {
        r->verb = WORK_CHECKPOINT;
        if (work_chance(w, 1, 2) && w->checkpoint < WORK_CHECKPOINTS_MAX - 1)
            r->checkpoint = ++w->checkpoint;
    } else if (dice < 48) {
        r->verb = WORK_PROGRESS;
    } else if (dice < 60) {
        r->verb = WORK_FAIL;
        r->is_final = work_chance(w, 1, 6);
        r->delay_us =
            work_chance(w, 1, 2) ? -1 : work_draw(w, 0, 1) * work_draw(w, 0, DELAY_MAX_US);
    } else if (dice < 68) {
        r->verb = WORK_RELEASE;
        r->delay_us = work_chance(w, 1, 2) ? 0 : work_draw(w, 0, DELAY_MAX_US);
    } else {
        plan_finish(worker, r, at);
    }
}

static void lose_network(work_worker *worker)
{
    work_world *w = worker->caller.w;
    const int64_t until_us = sim_now_us(w->sim) + work_draw(w, 0, CUT_MAX_US);
    if (!work_chance(w, 1, 3))
        sim_cut(w->sim, w->machine.id, worker->caller.id, until_us); /* answers are lost */
    if (!work_chance(w, 1, 3))
        sim_cut(w->sim, worker->caller.id, w->machine.id, until_us);
}

static int64_t work(void *self, sim *world)
{
    work_worker *worker = self;
    work_caller *c = &worker->caller;
    work_world *w = c->w;
    int64_t wake_us = 0;
    if (work_caller_is_busy(c, &wake_us))
        return wake_us;
    if (!work_is_calm(w) && work_chance(w, 1, 30))
        lose_network(worker);
    if (!work_is_calm(w) && work_chance(w, 1, 12)) { /* between any two steps */
        c->think_until_us = sim_now_us(world) + work_draw(w, 0, STALL_MAX_US);
        sim_trace(world, "w%03d stalls", (int)c->sender);
        return c->think_until_us;
    }
    work_request r = {.task = -1};
    const bool is_full = worker->hold_count == WORK_HOLDS;
    if (worker->hold_count == 0 || (!is_full && work_chance(w, 1, 6)))
        plan_claim(worker, &r);
    else
        plan_work(worker, &r);
    return work_caller_ask(c, &r);
}

/* ---- what came of it ---- */

static void take_claims(work_worker *worker, const work_answer *a)
{
    for (int i = 0; i < a->count && worker->hold_count < WORK_HOLDS; i++)
        worker->holds[worker->hold_count++] =
            (work_hold){.item = a->claims[i].item, .token = a->claims[i].token};
    work_world *w = worker->caller.w;
    if (a->count == 0)
        worker->caller.think_until_us =
            sim_now_us(w->sim) + work_draw(w, IDLE_MIN_US, IDLE_MAX_US) * (work_is_calm(w) ? 5 : 1);
}

/* Who is told that the lease is lost does not always listen. */
static bool is_believing(const work_worker *worker)
{
    work_world *w = worker->caller.w;
    return work_is_calm(w) || !work_chance(w, 1, 4);
}

static void take_end(work_worker *worker, const work_request *asked, const work_answer *a)
{
    for (int i = 0; i < asked->count; i++) {
        const bool is_lost = asked->count > 1 ? a->is_lost[i] : a->status < TIDE_OK;
        if (!is_lost || is_believing(worker))
            forget_hold(worker, asked->items[i].item, asked->items[i].token);
    }
}

static void take_renewal(work_worker *worker, const work_request *asked, const work_answer *a)
{
    for (int i = 0; i < asked->count; i++)
        if (a->is_lost[i] && is_believing(worker))
            forget_hold(worker, asked->items[i].item, asked->items[i].token);
}

static void take_answer(void *self, sim *world, sim_id from, tide_view bytes)
{
    work_worker *worker = self;
    (void)world;
    (void)from;
    work_answer a;
    const int64_t think_us = work_draw(worker->caller.w, 0, THINK_MAX_US);
    if (!work_caller_take(&worker->caller, bytes, &a, think_us))
        return;
    const work_request *asked = &worker->caller.asked;
    if (asked->verb == WORK_CLAIM)
        take_claims(worker, &a);
    else if (asked->verb == WORK_RENEW)
        take_renewal(worker, asked, &a);
    else if (asked->verb == WORK_CHECKPOINT || asked->verb == WORK_PROGRESS) {
        if (a.status < TIDE_OK)
            take_end(worker, asked, &a);
    } else
        take_end(worker, asked, &a);
}

static void crash(void *self, sim *world, sim_crash how)
{
    work_worker *worker = self;
    (void)world;
    (void)how;
    worker->hold_count = 0;
    work_caller_crash(&worker->caller);
}

void work_worker_init(work_world *w, int index)
{
    work_worker *worker = &w->workers[index];
    worker->caller = (work_caller){.w = w, .sender = index % WORK_NAMES};
    worker->caller.number = INT64_C(1000000) * index; /* names are shared, numbers are not */
    worker->caller.id = sim_add(w->sim, &(sim_actor){.name = "worker",
                                                     .self = worker,
                                                     .step = work,
                                                     .receive = take_answer,
                                                     .crash = crash});
}
