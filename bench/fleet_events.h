/* fleet_events.h - what is going to happen in a simulated fleet (fleet_shard.h), the earliest first; of equal times, who came first. */
#pragma once

#include <stdint.h>

typedef enum fleet_event_kind {
    FLEET_ARRIVED, /* a record at an agent */
    FLEET_STORED,  /* a page */
    FLEET_TURN,    /* of a colony's leases */
    FLEET_KILL,    /* a colony */
    FLEET_REVIVE,
    FLEET_AWAY, /* the database */
    FLEET_CUT,  /* an agent's network */
} fleet_event_kind;

typedef struct fleet_event {
    int64_t at_us;
    uint64_t order; /* given by push */
    int32_t who;
    uint32_t turn; /* of the agent: what is of an earlier one counts no more */
    fleet_event_kind kind;
} fleet_event;

/* A heap; begins as {0}. */
typedef struct fleet_events {
    fleet_event *heap;
    int64_t len, max;
    uint64_t order;
} fleet_events;

void fleet_events_push(fleet_events *events, fleet_event event);
/* There has to be one. */
fleet_event fleet_events_pop(fleet_events *events);
void fleet_events_done(fleet_events *events);
