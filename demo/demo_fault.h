/* demo_fault.h - faults of agents and workers of the demonstration. */
#pragma once

#include <stdint.h>

/* X(id, name, seconds that it lasts, is it an agent's, in words: %s is the agent) */
#define TIDE_DEMO_FAULTS(X)                                                                        \
    X(PAUSE, "pause", 45, 1,                                                                       \
      "%s does not answer for 45 s: a simulated one still reports how much it has, and its lag "   \
      "grows; a process reports nothing, and is degraded after 30 s. Then it catches up, and "     \
      "nothing is lost")                                                                           \
    X(RESUME, "resume", 0, 1, "%s answers again: what it stored meanwhile is read now")            \
    X(DROP, "drop", 10, 1,                                                                         \
      "connections to %s break off for 10 s: pages are asked for again, nothing is stored twice")  \
    X(LATE, "late", 6, 1,                                                                          \
      "%s cannot read some of its spans for 6 s: a gap is detected, asked for again, and "         \
      "recovered")                                                                                 \
    X(WIPE, "wipe", 2, 1,                                                                          \
      "%s loses its store while it writes: a new session begins, and what was numbered and never " \
      "read is a permanent gap, with its reason")                                                  \
    X(KILL, "kill", 6, 0,                                                                          \
      "a worker was killed with kill -9: its lease runs out, and another goes on from its "        \
      "checkpoint")

typedef enum tide_demo_fault {
#define TIDE_DEMO_FAULT_ENUM(id, name, seconds, is_agents, words) TIDE_DEMO_##id,
    TIDE_DEMO_FAULTS(TIDE_DEMO_FAULT_ENUM)
#undef TIDE_DEMO_FAULT_ENUM
        TIDE_DEMO_FAULT_COUNT,
} tide_demo_fault;

/* How an agent stands. */
typedef struct tide_demo_standing {
    const char *state; /* well, paused, dropped, late, wiping, down */
    int64_t for_us;    /* until it ends; 0: it has ended, or that is unknown */
} tide_demo_standing;
