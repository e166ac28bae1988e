/* interleave.h - two or more transactions, stepped in an order that the test forces.
 *
 * Each actor is a function on a thread of its own. It calls interleave_step at the points where the
 * order matters and waits there until the test lets it go on. The test moves one actor at a time:
 *
 *     interleave_until(&x, A, 1);      A runs up to its step 1 and waits there
 *     interleave_blocked(&x, B);       B continues and is seen to wait for a lock that A holds
 *     interleave_finish(&x, A);        A runs to its end; B may now go on
 *     interleave_finish(&x, B);
 *
 * Nothing sleeps: being blocked is asked of the engine (PostgreSQL: a backend that waits for a
 * lock; SQLite: a store that has been given a closure and has not begun it), being at a step is a
 * condition variable. */
#pragma once

#include <pthread.h>

#include "support/store_fixture.h"

enum { INTERLEAVE_ACTORS = 8 };

typedef struct interleave interleave;
typedef void interleave_fn(interleave *x, int actor, void *arg);

typedef struct interleave_actor {
    interleave *owner;
    int index;
    interleave_fn *fn;
    void *arg;
    pthread_t thread;
    int at;      /* the step it waits at; 0: before its start */
    int allowed; /* it may pass steps below this one */
    bool is_started;
    bool is_finished;
} interleave_actor;

struct interleave {
    store_test *test;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    interleave_actor actors[INTERLEAVE_ACTORS];
    int count;
};

void interleave_init(interleave *x, store_test *test);
void interleave_done(interleave *x); /* lets all actors finish */

/* Add an actor; returns its index. It does not run yet. */
int interleave_add(interleave *x, interleave_fn *fn, void *arg);

/* Called by the actor, with rising numbers from 1: wait here until the test continues. A step that
 * was passed before (a closure that runs again) does not wait a second time. */
void interleave_step(interleave *x, int index, int step);

/* Called by the test. */
void interleave_until(interleave *x, int index, int step);
void interleave_finish(interleave *x, int index);
/* Let the actor go on to its end and return when it waits for a lock. Fails if it finishes
 * instead. */
void interleave_blocked(interleave *x, int index);
