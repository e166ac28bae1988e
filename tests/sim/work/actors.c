#include "sim/work/actors.h"

#include <assert.h>
#include <string.h>

enum {
    ANSWER_MIN_US = 500000, /* patience */
    ANSWER_MAX_US = 4 * SIM_SECOND_US,
    TRIES_MAX = 4,
    DOG_MIN_US = 3 * SIM_SECOND_US,
    DOG_MAX_US = 20 * SIM_SECOND_US,
    WEATHER_MIN_US = 4 * SIM_SECOND_US,
    WEATHER_MAX_US = 30 * SIM_SECOND_US,
    DOWN_MAX_US = 10 * SIM_SECOND_US,
};

bool work_is_calm(const work_world *w)
{
    return sim_now_us(w->sim) >= w->calm_from_us;
}

int64_t work_draw(work_world *w, int64_t from_us, int64_t to_us)
{
    return from_us + (int64_t)prng_below(sim_chance(w->sim), (uint64_t)(to_us - from_us) + 1);
}

bool work_chance(work_world *w, uint64_t num, uint64_t den)
{
    return prng_chance(sim_chance(w->sim), num, den);
}

/* ---- asking ---- */

static void send_again(work_caller *c)
{
    c->give_up_us = sim_now_us(c->w->sim) + work_draw(c->w, ANSWER_MIN_US, ANSWER_MAX_US);
    sim_send(c->w->sim, c->id, c->w->machine.id, tide_view_bytes(&c->asked, sizeof c->asked));
}

int64_t work_caller_ask(work_caller *c, work_request *request)
{
    request->number = ++c->number;
    request->sender = c->sender;
    c->asked = *request;
    c->is_waiting = true;
    c->tries = 1;
    send_again(c);
    return c->give_up_us;
}

bool work_caller_is_busy(work_caller *c, int64_t *wake_us)
{
    const int64_t now_us = sim_now_us(c->w->sim);
    if (c->is_waiting && now_us >= c->give_up_us) {
        c->is_waiting = c->tries < TRIES_MAX && (work_is_calm(c->w) || work_chance(c->w, 2, 3));
        c->tries++;
        if (c->is_waiting)
            send_again(c);
    }
    if (c->is_waiting || now_us < c->think_until_us) {
        *wake_us = c->is_waiting ? c->give_up_us : c->think_until_us;
        return true;
    }
    return false;
}

bool work_caller_take(work_caller *c, tide_view bytes, work_answer *out, int64_t think_us)
{
    assert(bytes.len == sizeof *out);
    memcpy(out, bytes.ptr, sizeof *out);
    if (!c->is_waiting || out->number != c->asked.number)
        return false; /* late, or of an earlier life */
    c->is_waiting = false;
    c->think_until_us = sim_now_us(c->w->sim) + think_us;
    return true;
}

void work_caller_crash(work_caller *c)
{
    c->is_waiting = false;
    c->think_until_us = 0;
}

/* ---- watchdogs ---- */

static int64_t sweep(void *self, sim *world)
{
    work_watchdog *dog = self;
    (void)world;
    work_world *w = dog->caller.w;
    int64_t wake_us = 0;
    if (work_caller_is_busy(&dog->caller, &wake_us))
        return wake_us;
    work_request r = {.verb = WORK_SWEEP};
    if (!work_is_calm(w) && work_chance(w, 1, 3))
        r.limit = work_draw(w, 1, 3);
    return work_caller_ask(&dog->caller, &r);
}

static void take_swept(void *self, sim *world, sim_id from, tide_view bytes)
{
    work_watchdog *dog = self;
    (void)world;
    (void)from;
    work_answer a;
    const int64_t pause_us =
        work_draw(dog->caller.w, DOG_MIN_US, DOG_MAX_US) * (work_is_calm(dog->caller.w) ? 3 : 1);
    if (work_caller_take(&dog->caller, bytes, &a, pause_us) && a.has_more)
        dog->caller.think_until_us = 0;
}

static void crash_dog(void *self, sim *world, sim_crash how)
{
    (void)world;
    (void)how;
    work_caller_crash(&((work_watchdog *)self)->caller);
}

/* ---- the weather ---- */

static void cut_power(work_world *w)
{
    sim_trace(w->sim, "the machine is rebooted");
    work_machine_reboot(&w->machine);
    for (int i = 0; i < WORK_WORKERS; i++)
        sim_crash_now(w->sim, w->workers[i].caller.id, SIM_CRASH_PROCESS,
                      work_draw(w, 0, DOWN_MAX_US));
    for (int i = 0; i < WORK_WATCHDOGS; i++)
        sim_crash_now(w->sim, w->dogs[i].caller.id, SIM_CRASH_PROCESS,
                      work_draw(w, 0, DOWN_MAX_US));
    sim_crash_now(w->sim, w->stranger.caller.id, SIM_CRASH_PROCESS, work_draw(w, 0, DOWN_MAX_US));
}

static int64_t blow(void *self, sim *world)
{
    work_world *w = self;
    if (work_is_calm(w)) {
        sim_trace(world, "the wall clock is right again");
        work_machine_set_wall(&w->machine, 0);
        return SIM_IDLE;
    }
    if (work_chance(w, 1, 8)) {
        cut_power(w);
    } else if (work_chance(w, 1, 2)) {
        const int64_t ahead_us = work_draw(w, -WORK_JUMP_MAX_US, WORK_JUMP_MAX_US);
        sim_trace(world, "the wall clock is set to %+lld s", (long long)ahead_us / SIM_SECOND_US);
        work_machine_set_wall(&w->machine, ahead_us);
    }
    const int64_t next_us = sim_now_us(world) + work_draw(w, WEATHER_MIN_US, WEATHER_MAX_US);
    return next_us < w->calm_from_us ? next_us : w->calm_from_us;
}

/* ---- everybody ---- */

void work_actors_init(work_world *w)
{
    for (int i = 0; i < WORK_WORKERS; i++)
        work_worker_init(w, i);
    for (int i = 0; i < WORK_WATCHDOGS; i++) {
        work_watchdog *dog = &w->dogs[i];
        dog->caller = (work_caller){.w = w, .sender = WORK_SENDER_DOG + i};
        dog->caller.id = sim_add(w->sim, &(sim_actor){.name = "watchdog",
                                                      .self = dog,
                                                      .step = sweep,
                                                      .receive = take_swept,
                                                      .crash = crash_dog});
    }
    work_boss_init(w);
    work_stranger_init(w);
    w->weather = sim_add(w->sim, &(sim_actor){.name = "weather", .self = w, .step = blow});
}
