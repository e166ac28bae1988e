/* long_poll.h - calls that wait for news of a store, without a thread each.
 *
 * One thread watches a topic. A call that found nothing is parked with a step function; the thread
 * calls the step when something may have changed, when the step wanted to be called, and when its
 * time is over. A step does one bounded look at the store, sends what it found, and says when it
 * wants to look again; a hint may get lost, so each is called at least once a second as well.
 *
 *     parked ---- step ----> again in so many us
 *                    |-----> done: the waiter forgets it, the step has ended the call
 *
 * Threads: any may park; steps run on the waiter's thread, one after the other.
 * Limits: TIDE_LONG_POLL_MAX calls; more are refused with TIDE_E_BUSY. */
#pragma once

#include <tidemark/store.h>

#include "net/call/call.h"

enum { TIDE_LONG_POLL_MAX = 4096 };

typedef struct tide_long_poll tide_long_poll;

/* is_over: the deadline has passed, or the waiter is closed: end the call now. Returns in how many
 * microseconds to look again; below 0: done. */
typedef int64_t tide_long_poll_step(tide_call *call, tide_store *store, void *arg, bool is_over);

TIDE_MUST_CHECK tide_status tide_long_poll_open(tide_long_poll **out, tide_store *store,
                                                const char *topic, tide_error *err);

/* End all waits: the steps of all waiters are called once more, with is_over; new ones are refused.
 * Does not wait itself. */
void tide_long_poll_end(tide_long_poll *waiter);

/* Ends it, if that has not happened, and waits for that. Takes NULL. */
void tide_long_poll_close(tide_long_poll *waiter);

/* Inside a step: which round of looks this is. What was found out in a round counts for all its
 * steps: what changes meanwhile begins the next one. */
uint64_t tide_long_poll_round(const tide_long_poll *waiter);

/* Park a call until wait_us have passed (INT64_MAX: until it is cancelled). arg is freed with
 * free() when it is done. */
TIDE_MUST_CHECK tide_status tide_long_poll_park(tide_long_poll *waiter, tide_call *call,
                                                tide_long_poll_step *step, void *arg,
                                                int64_t wait_us, tide_error *err);
