/* scheduler.h - many agents polled at the same time: the threads around pollers and recoveries (colony/poller.h, recover.h).
 *
 *     hub thread      moves the bytes of all questions and answers (net/client/client_hub.h)
 *     workers         settle answers, write to the sink, ask what is next, wake who is due; any worker serves any agent, one at a time each
 *     steps           which agents are ours (leases), gaps to recover, retention, ...: run by the daemon's ticker (runtime/ticker.h)
 *
 * An agent has a slot. A slot is idle until its time comes, ready while it waits for a worker, asking while its question is
 * out. Ready slots are served in the order of the seconds until their agent drops something unread; questions wait while
 * answers of budget_bytes are under way: those that have come, and those that are expected at any moment (TIDE_SCHEDULER_RESERVE_US). What has not
 * come by then counts when it comes. So one agent that answers slowly, with much, or never, costs its own slot and nobody
 * else's.
 *
 * Once (is_once): every agent is polled until it is caught up or has failed. Then the gaps that are
 * due, also those that this pass found, are requested once, and tide_scheduler_wait returns.
 *
 * Survives: nothing of its own. Threads: open, wait, stop, close from one thread; the others from any. */
#pragma once

#include "base/cleanup.h"
#include "base/log.h"
#include "colony/recover.h"
#include "remote/agent_clients.h"
#include "runtime/metrics.h"
#include "runtime/ticker.h"
#include "services/work/maintenance.h"

/* Steps of the component; besides them a colony needs the sweep of its store. */
extern const tide_step tide_step_agent_leases;
extern const tide_step tide_step_registry_watch;
extern const tide_step tide_step_gap_recovery;
extern const tide_step tide_step_colony_retention;
extern const tide_step tide_step_lag_history;
extern const tide_step tide_step_agent_status; /* daemon.c */
extern const tide_step tide_step_fleet_view;   /* fleet_view.c */
#define TIDE_COLONY_STEPS                                                                          \
    &tide_step_agent_leases, &tide_step_registry_watch, &tide_step_gap_recovery,                   \
        &tide_step_colony_retention, &tide_step_lag_history, &tide_step_agent_status,              \
        &tide_step_fleet_view
/* Of a ticker for is_once. */
extern const tide_step *const tide_scheduler_once_steps[];

enum {
    TIDE_SCHEDULER_WORKERS = 4,
    TIDE_COLONY_CRASH_LIMIT = 10,  /* of a gap's work item: a colony may be killed more than once */
    TIDE_SCHEDULER_RECOVERIES = 4, /* gaps that are worked on at a time */
};
#define TIDE_SCHEDULER_BUDGET (INT64_C(64) << 20) /* bytes of answers under way */
#define TIDE_SCHEDULER_RESERVE_US INT64_C(250000)
#define TIDE_SCHEDULER_LEASE_US INT64_C(15000000)
/* A watch waits so long at an agent: within twice this time a hung agent is noticed. A large fleet
 * has longer watches, so that all of them together end at most TIDE_SCHEDULER_WATCH_RATE times a
 * second. */
#define TIDE_SCHEDULER_WATCH_US INT64_C(4000000)
#define TIDE_SCHEDULER_WATCH_RATE 100
#define TIDE_SCHEDULER_GAP_KEEP_US                                                                 \
    INT64_C(2592000000000) /* 30 days: ended gaps are folded into the ledger */

/* Zero means the default everywhere. */
typedef struct tide_scheduler_options {
    tide_sink *sink;
    tide_env *env;
    tide_log *log;
    tide_metrics *metrics; /* NULL: nothing is counted */
    tide_ticker
        *ticker;   /* runs the steps; started after open, stopped before close, freed after it */
    bool is_swept; /* the store has a sweep step already */
    /* Written by slots; must outlive the scheduler. NULL: none. */
    struct tide_board *board;
    /* Told of what becomes of changes, and of leases that take long; the same. NULL: none. */
    struct tide_store_watch *store_watch;
    const char *colony_id;
    tide_scheduler_security security;
    int worker_count;
    int64_t budget_bytes;
    int64_t lease_us;
    int64_t grace_us;
    int64_t recover_us; /* between attempts */
    int attempt_max;
    bool is_once;
    const char *only_agent; /* once: this one alone; NULL: all */
} tide_scheduler_options;

typedef struct tide_scheduler tide_scheduler;

TIDE_MUST_CHECK tide_status tide_scheduler_open(tide_scheduler **out,
                                                const tide_scheduler_options *options,
                                                tide_error *err);

typedef struct tide_scheduler_result {
    int agents;
    int caught_up;
    int failed;                        /* could not be polled to the end */
    int elsewhere;                     /* held by another colony */
    char failure[TIDE_ERROR_TEXT_MAX]; /* of one of them, in words */
} tide_scheduler_result;

/* Not once: ask every agent of ours now, and wait until all are caught up with what they have, or have failed, or wait_us are over. Several may
 * wait at a time; from any thread. */
TIDE_MUST_CHECK tide_status tide_scheduler_poll(tide_scheduler *scheduler, int64_t wait_us,
                                                tide_scheduler_result *out, tide_error *err);

/* Once: wait until every agent is done and no gap is due, or the scheduler is stopped. */
void tide_scheduler_wait(tide_scheduler *scheduler, tide_scheduler_result *out);

/* Ask nobody any more; what is under way is broken off. From any thread. */
void tide_scheduler_stop(tide_scheduler *scheduler);

/* Gives the leases back. Takes NULL. */
void tide_scheduler_close(tide_scheduler *scheduler);
TIDE_CLEANUP_FN(tide_scheduler_closep, tide_scheduler, tide_scheduler_close)

/* Somebody changed the registry: look now. */
void tide_scheduler_check_registry(tide_scheduler *scheduler);

/* How the checkpoint and the head of an agent's streams have gone since this colony polls it: a look every TIDE_LAG_HISTORY_US, the last
 * TIDE_LAG_HISTORY_POINTS of them (15 minutes), of at most TIDE_LAG_HISTORIES_MAX streams (24 MiB); the slots' memory, gone with them. One call per
 * stream and look, the oldest first. data_type NULL: all. */
enum {
    TIDE_LAG_HISTORY_POINTS = 180,
    TIDE_LAG_HISTORY_US = 5000000,
    TIDE_LAG_HISTORIES_MAX = 8192,
};
typedef struct tide_lag_point {
    int64_t checkpoint;
    int64_t head; /* -1: it was not known */
} tide_lag_point;
typedef void tide_lag_history_fn(void *arg, const char *data_type, int64_t wall_ms,
                                 const tide_lag_point *point);
void tide_scheduler_lag_history(tide_scheduler *scheduler, const char *agent_id,
                                const char *data_type, tide_lag_history_fn *fn, void *arg);

/* Positions of an agent (NULL: of all) were changed by somebody else: read them again now. */
void tide_scheduler_touch(tide_scheduler *scheduler, const char *agent_id);

/* Gaps are to be looked at now, not only when their time comes. */
void tide_scheduler_recover(tide_scheduler *scheduler);
/* Rises whenever something was stored or an agent's state has turned. From any thread. */
uint64_t tide_scheduler_version(const tide_scheduler *scheduler);
/* What it speaks to agents by; borrowed. */
struct tide_agent_clients *tide_scheduler_clients(tide_scheduler *scheduler);
