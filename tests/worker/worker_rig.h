/* worker_rig.h - a real worker on a real clock, whose function does as the case says, step by step.
 *
 *     rig *r = *state;                 RIG_CASE(f) lists a case for every engine
 *     rig_add(r, "a");
 *     rig_start(r);
 *     rig_wait(r, "started", 1);       at least that many; a generous deadline, nobody sleeps
 *     rig_let(r);                      the functions go on
 *     rig_join(r);
 *
 * The function notes that it has started, waits at a gate, and returns what the case wants. Unless it is deaf it leaves the
 * gate when it must stop. Everything that happens is counted under a name: started, ended, told (the stop callback), and the
 * worker's events (claimed, finished, failed, released, lost, swept, trouble).
 *
 * The worker has a store of its own; the case looks through another one: another process, as far as the store can tell.
 *
 * Threads: the case's; the functions run on the worker's. */
#pragma once

#include <pthread.h>

#include <tidemark/worker.h>

#include "support/store_fixture.h"

enum { RIG_NAMES = 11, RIG_DEADLINE_MS = 30000, RIG_LOG_SIZE = 4096 };

typedef struct rig rig;
struct rig {
    store_test *t;
    tide_store *mine;  /* the case's */
    tide_store *store; /* the worker's */
    tide_worker_options options;
    tide_worker *worker;
    pthread_t thread;
    bool is_running;
    int run_count;
    rig *second;
    tide_status ended_with;
    tide_error err;

    /* What the function does behind the gate; NULL: it returns `result`. */
    tide_status (*act)(rig *r, tide_job *job, tide_error *err);
    tide_status result;
    bool is_deaf;

    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool is_open;
    int counts[RIG_NAMES];
    char log[RIG_LOG_SIZE];    /* "claimed a, finished a, ..." */
    int64_t started_us;        /* boot clock, of the last one */
    int64_t stop_seen_us;      /* when the function saw that it must stop */
    int64_t lease_left_us;     /* then */
    int64_t first_expires_us;  /* of the last one claimed */
    tide_job_stop stop_reason; /* then */
};

/* A task "t" is there. Options can be changed until the start: one thread, no sweeps, a lease of an hour, hardly any
 * polling. A worker that still runs at the end is stopped. */
int rig_setup_sqlite(void **state);
int rig_setup_postgres(void **state);
int rig_teardown(void **state);

#define RIG_CASE(f)                                                                                \
    {#f " [sqlite]", f, rig_setup_sqlite, rig_teardown, NULL},                                     \
    {                                                                                              \
#f " [postgres]", f, rig_setup_postgres, rig_teardown, NULL                                \
    }

/* A second worker like the first, not started; it goes with the first one. */
rig *rig_second(rig *r);

void rig_add(rig *r, const char *id);
void rig_add_new(rig *r, tide_work_spec item);

void rig_start(rig *r);
/* The worker ends by itself, or was stopped; it ended with TIDE_OK. */
void rig_join(rig *r);

/* Wait until something has happened at least count times; fails the case when it does not. */
void rig_wait(rig *r, const char *name, int count);
int rig_count(rig *r, const char *name);
/* Count something of the case's own: from a function. */
void rig_note(rig *r, const char *name);

/* Open the gate, for all that wait and will. */
void rig_let(rig *r);

int64_t rig_now_us(void);

typedef struct rig_item {
    char status[16], error[256], kind[16], outcome[16], output[256];
    int64_t retry_count, failure_count, crash_count, expires_us, token, run_after_us;
} rig_item;
rig_item rig_look(rig *r, const char *id);
/* Wait until it is in this status. */
void rig_wait_status(rig *r, const char *id, const char *status);

/* Somebody else's transaction that holds the item and hangs, until told to end: whoever wants to write it waits. */
typedef struct rig_hang {
    rig *r;
    char id[TIDE_WORK_ID_MAX + 1];
    int64_t token;
    tide_store *store;
    pthread_t thread;
    bool has_begun;
    bool may_end;
} rig_hang;
void rig_hang_begin(rig_hang *hang, rig *r, const char *id, int64_t token);
void rig_hang_end(rig_hang *hang);
