/* recover.h - gaps are asked for again, through work items.
 *
 * tide_recover_plan turns open gaps into work items of type gap_recovery (unique key: the gap's id), at most
 * per_agent_max of one agent at a time and in order of the types' priority: 100 gaps of a removed agent never keep
 * others waiting. An item is one attempt: when it has ended and its gap is still open, the gap is due again interval_us
 * later and gets another item. So whoever waits for its next attempt takes up no place.
 *
 * Wide gaps are worked on in pieces: an item's answer settles what it brought, and the rest is a new gap, due at once.
 *
 * tide_recover_begin takes a claimed item and gives the question; tide_recover_take settles the answer, applies it and finishes the
 * item. An agent that cannot be reached counts as an attempt; what attempt_max of them lead to is said in settle.h. A gap that is void
 * by presumption (foreign agents) is asked for on, while the agent may still have its numbers.
 *
 * Recovery asks without a reader's name and applies without the agent's lease: any colony may do it, and the position's
 * version decides between it and the poller.
 *
 * Survives: a crash between applying and finishing: the item comes again, finds its gap ended, and is finished. A crash before
 * applying: the item comes again and asks again.
 * Threads: as the sink; an item belongs to one thread at a time. */
#pragma once

#include <tidemark/work.h>

#include "colony/poller.h"

#define TIDE_RECOVER_WORK_TYPE "gap_recovery"
#define TIDE_RECOVER_INTERVAL_US INT64_C(300000000)

enum { TIDE_RECOVER_ATTEMPT_MAX = 3, TIDE_RECOVER_PER_AGENT_MAX = 4 };

typedef struct tide_recover_options {
    tide_sink *sink;
    tide_env *env;
    tide_reporter reporter;
    int64_t interval_us; /* 0: TIDE_RECOVER_INTERVAL_US */
    int attempt_max;     /* 0: TIDE_RECOVER_ATTEMPT_MAX */
    int per_agent_max;   /* 0: TIDE_RECOVER_PER_AGENT_MAX */
    int64_t give_up_us;  /* an agent that is away so long: permanent; 0: 24 h */
    tide_poller_events events;
} tide_recover_options;

/* One turn: *added items. *next_us: when to come again; sooner when something was detected (tide_change.detected), and after a
 * tide_recover_take, which makes room for another gap of its agent. */
TIDE_MUST_CHECK tide_status tide_recover_plan(const tide_recover_options *options, int64_t *added,
                                              int64_t *next_us, tide_error *err);

typedef struct tide_recovery tide_recovery;

/* Claim one due item. TIDE_NONE: there is none. *out: its gap, and what to ask of which agent. An item whose gap has ended, or whose
 * agent is gone, is finished here, and the next one is tried. */
TIDE_MUST_CHECK tide_status tide_recover_begin(tide_recovery **out,
                                               const tide_recover_options *options,
                                               const char *worker, tide_error *err);
const char *tide_recovery_agent(const tide_recovery *recovery);   /* agent_id */
const char *tide_recovery_address(const tide_recovery *recovery); /* as registered */
const tide_question *tide_recovery_question(const tide_recovery *recovery);
/* As tide_poller_take; ends the item and frees the recovery. */
TIDE_MUST_CHECK tide_status tide_recover_take(tide_recovery *recovery, tide_status status,
                                              tide_view answer, const char *text, tide_error *err);
/* Given up by us (a stop): the item is released. */
void tide_recovery_free(tide_recovery *recovery);
/* The same without a word to the store, as if the process had died: its lease runs out. */
void tide_recovery_abandon(tide_recovery *recovery);
