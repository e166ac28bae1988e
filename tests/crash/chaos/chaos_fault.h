/* chaos_fault.h - what goes wrong, and when: drawn from a seed, one after the other, several at a time.
 *
 *     network    an agent or a colony is cut off: from everybody, from one, from the server, in one direction; connections are
 *                reset; packets are lost
 *     processes  SIGSTOP for longer or shorter than a lease, kill -9, kill -9 of the server with all its processes, SIGSTOP of them
 *     clocks     set an hour forward or back
 *     stores     an agent's store is copied; restored from the copy, seen (another file) or unseen (the same file, and all that
 *                is beside it); removed
 *
 * Each fault ends after a time that is drawn with it. Threads: one. */
#pragma once

#include <stdio.h>

#include "crash/chaos/chaos_sender.h"

enum { CHAOS_FAULTS = 24, CHAOS_FROZEN = 256 };

typedef enum chaos_fault_kind {
    CHAOS_NONE,
    CHAOS_NETWORK,
    CHAOS_FREEZE,
    CHAOS_KILL,
    CHAOS_CLOCK,
    CHAOS_SERVER_FREEZE,
    CHAOS_SERVER_KILL,
} chaos_fault_kind;

typedef struct chaos_fault {
    chaos_fault_kind kind;
    chaos_node *node;
    int rule;
    int64_t until_ms;
} chaos_fault;

typedef struct chaos_faults {
    chaos_fleet *fleet;
    chaos_sender *senders;
    prng chance;
    FILE *log; /* what was done, and when */
    int64_t began_ms;
    chaos_fault active[CHAOS_FAULTS];
    pid_t frozen[CHAOS_FROZEN]; /* the server's processes, its first one first */
    int frozen_count;
    int stores; /* done to stores so far */
    int copied; /* the agent whose store was copied last */
    int counts[CHAOS_SERVER_KILL + 1];
    uint64_t head; /* of the stream, in the copy */
} chaos_faults;

/* One more fault, if there is room for it. */
TIDE_MUST_CHECK tide_status chaos_fault_begin(chaos_faults *faults, tide_error *err);
/* The next of: copy a store, put it back, remove one, copy one, put it back unseen, remove one, ... */
TIDE_MUST_CHECK tide_status chaos_fault_store(chaos_faults *faults, tide_error *err);
/* End those whose time has come; now_ms INT64_MAX: all. */
TIDE_MUST_CHECK tide_status chaos_fault_end(chaos_faults *faults, int64_t now_ms, tide_error *err);
/* The server runs, if nothing else: it can be stopped. */
void chaos_fault_thaw(chaos_faults *faults);
