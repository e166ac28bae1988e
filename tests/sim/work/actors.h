/* actors.h - who lives in the simulated world of work.
 *
 *     workers     claim, renew, checkpoint, finish, fail, release; stall for longer than their lease, crash and
 *                 come back under the same name, are cut off, do not always believe that they lost a lease
 *     watchdogs   sweep
 *     the boss    adds the plan's items until each is acknowledged or refused, cancels, pauses and resumes types
 *     a stranger  works by plain SQL
 *     the weather sets the machine's wall clock, cuts its power
 *
 * They speak to the store by messages that are lost, doubled, delayed and overtaken: so a call may fail before it
 * was done, its answer may be lost after it was, and an old call may arrive long after its sender has died.
 *
 * From calm_from_us on everybody behaves, and everything must come to an end.
 *
 * Threads: none. */
#pragma once

#include "sim/work/machine.h"

enum {
    WORK_WORKERS = 20,
    WORK_NAMES = 15, /* some share one */
    WORK_WATCHDOGS = 3,
    WORK_HOLDS = 3, /* items that a worker believes to hold */
    WORK_SENDER_DOG = 100,
    WORK_SENDER_BOSS = 200,
    WORK_SENDER_STRANGER = 300,
};

typedef struct work_world work_world;

/* Somebody who asks and waits for the answer. */
typedef struct work_caller {
    work_world *w;
    sim_id id;
    int64_t sender;
    work_request asked;
    bool is_waiting;
    int64_t give_up_us;
    int tries;
    int64_t think_until_us;
    int64_t number; /* of its last request */
} work_caller;

typedef struct work_worker {
    work_caller caller;
    work_hold holds[WORK_HOLDS];
    int hold_count;
} work_worker;

typedef struct work_watchdog {
    work_caller caller;
} work_watchdog;

typedef struct work_boss {
    work_caller caller;
    bool is_settled[WORK_ROOTS]; /* acknowledged or refused, as far as it remembers */
    bool is_resumed[WORK_TYPES]; /* in the calm */
    bool may_cancel_task;
} work_boss;

typedef struct work_stranger {
    work_caller caller;
    int64_t item; /* what it has claimed; -1: nothing */
} work_stranger;

struct work_world {
    sim *sim;
    int64_t calm_from_us;
    work_plan plan;
    work_machine machine;
    work_worker workers[WORK_WORKERS];
    work_watchdog dogs[WORK_WATCHDOGS];
    work_boss boss;
    work_stranger stranger;
    sim_id weather;
    int64_t checkpoint; /* ids given so far */
};

/* Adds everybody but the machine. */
void work_actors_init(work_world *w);

/* ---- for the files that make it up ---- */

bool work_is_calm(const work_world *w);
int64_t work_draw(work_world *w, int64_t from_us, int64_t to_us);
bool work_chance(work_world *w, uint64_t num, uint64_t den);

/* True: the answer is still awaited, or it is time to think; *wake_us says until when. An answer that does not come is
 * asked for again or given up. */
bool work_caller_is_busy(work_caller *c, int64_t *wake_us);
int64_t work_caller_ask(work_caller *c, work_request *request); /* when to wake up */
/* Is this the answer that is waited for? Then it is not any more, and thinking begins. */
bool work_caller_take(work_caller *c, tide_view bytes, work_answer *out, int64_t think_us);
void work_caller_crash(work_caller *c);

void work_worker_init(work_world *w, int index);
void work_boss_init(work_world *w);
void work_stranger_init(work_world *w);
