/* sim_queue.h - what is still to happen in a simulated world, in order of time.
 *
 * A binary heap. Events of the same time happen in the order in which they were put, so that a
 * run depends on nothing but its seed. Only the files of sim use it.
 *
 * Limits: SIM_EVENTS_MAX events. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/sim/sim.h"

typedef enum sim_event_kind {
    SIM_EVENT_WAKE,
    SIM_EVENT_DELIVER,
    SIM_EVENT_CRASH_SOMEBODY,
    SIM_EVENT_RESTART,
    SIM_EVENT_CUT_SOMEBODY,
    SIM_EVENT_CALM,
} sim_event_kind;

typedef struct sim_event {
    int64_t at_us;
    uint64_t order; /* of putting: decides between events of the same time */
    sim_event_kind kind;
    sim_id to;
    sim_id from;
    uint64_t generation; /* of the wake or the life it belongs to; older ones are stale */
    char *bytes;         /* of a message; the event's own */
    size_t len;
} sim_event;

typedef struct sim_queue { /* all zero is an empty one */
    sim_event *heap;       /* the next event at 0 */
    size_t len;
    size_t capacity;
    uint64_t order;
} sim_queue;

/* False: SIM_EVENTS_MAX are waiting; the event stays the caller's. */
bool sim_queue_put(sim_queue *q, sim_event e);

/* Borrowed until the next change; NULL: none is waiting. */
const sim_event *sim_queue_peek(const sim_queue *q);

/* One must be waiting. Its bytes are the caller's. */
sim_event sim_queue_take(sim_queue *q);
void sim_queue_done(sim_queue *q);
