/* scheduler_internal.h - what the parts of the scheduler share: see scheduler.h.
 *
 *     scheduler.c          open, close, workers, who is due
 *     scheduler_maintenance.c  background steps: leases, the registry, recovery plans, retention, lag history
 *     scheduler_turn.c     one turn of one agent; one turn of one gap
 *     scheduler_poll.c     one pass that somebody waits for
 *     scheduler_metrics.c  what happened, as metrics and log lines
 *     job_heap.c        jobs in the order of their time or urgency
 *
 * A job is a slot (an agent) or a recovery (a gap). It is in exactly one place: in the heap of idle ones until its time comes,
 * in one of the two heaps of ready ones, or nowhere, while a worker has it or its question is out. The scheduler's lock guards places and
 * counts; what a job consists of belongs to whoever took it out. */
#pragma once

#include <stdatomic.h>

#include <pthread.h>

#include <tidemark/watch.h>

#include "remote/agent_clients.h"
#include "services/colony/job_heap.h"
#include "services/colony/scheduler.h"
#include "services/colony/status_board.h"

/* How a stream of an agent stood after the last turn. */
typedef struct tide_agent_slot_lag {
    tide_poller_lag lag; /* without its data_type */
    char data_type[TIDE_FEED_NAME_MAX + 1];
} tide_agent_slot_lag;

/* One stream's history: a ring by the number of the look. */
typedef struct tide_lag_history {
    char data_type[TIDE_FEED_NAME_MAX + 1];
    struct tide_lag_history *next;
    tide_lag_point points[TIDE_LAG_HISTORY_POINTS];
} tide_lag_history;

typedef struct tide_poll_job tide_poll_job;
struct tide_poll_job {
    tide_scheduler *scheduler;

    /* under the lock */
    tide_poll_job_heap *heap; /* NULL: in none */
    size_t heap_at;
    tide_poll_job *next; /* of all jobs */
    tide_poll_job **link;
    bool is_leaving;    /* not ours any more, or the scheduler stops */
    bool is_asking;     /* its question is out */
    bool is_watching;   /* ... and waits at the agent for news */
    bool is_reload_due; /* somebody else has changed its positions */
    tide_agent_slot_lag *lags;
    int lag_count;
    int64_t lags_us; /* when they were kept; monotonic */
    tide_lag_history *histories;
    int begun_count;      /* of lags: types whose counters are there */
    uint64_t poll_wanted; /* the last pass that somebody waits for */
    uint64_t poll_done;   /* ... and that this one is through with */
    bool has_poll_failed;
    char poll_failure[256];

    /* a slot */
    tide_board_agent *entry; /* NULL: there is no board, or no memory for it */
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char registered[TIDE_AGENT_ADDRESS_MAX + 1]; /* address */
    char address[TIDE_AGENT_ADDRESS_MAX + 1];    /* of the client */
    int64_t token;
    tide_poller *poller;               /* NULL: a recovery */
    int64_t noted_us;                  /* when the registry was told last; 0: never */
    bool was_bad;                      /* ... and what */
    uint64_t poll_taken;               /* the pass that it is at */
    char failure[TIDE_ERROR_TEXT_MAX]; /* the last one */

    /* a recovery */
    tide_recovery *recovery; /* NULL: one has yet to be claimed */

    /* the question that is out, and what came back */
    tide_client *client;
    tide_client_stream *stream;
    bool has_answer;
    tide_status status;
    tide_buffer answer;
    char text[TIDE_ERROR_TEXT_MAX];
    int64_t retry_after_us;
    int64_t budgeted;              /* bytes of the budget */
    int64_t reserved_until_us;     /* what is expected counts so long */
    tide_poll_job *next_reserved;  /* under the lock, as all of these */
    tide_poll_job **reserved_link; /* NULL: not in the list */
};

/* Agents of a fleet whose counters of gaps are shown before there is a gap. */
enum { TIDE_SCHEDULER_ZEROS_MAX = 1000 };

struct tide_scheduler {
    tide_scheduler_options options;
    tide_env *env;
    char colony_id[TIDE_COLONY_ID_MAX + 1];
    char reader[TIDE_FEED_READER_MAX + 1];
    tide_agent_clients *links;
    tide_poller_options poller_options;
    tide_recover_options recover_options;

    pthread_t *workers;
    int worker_count;
    tide_work_maintenance *sweeping; /* NULL: the daemon sweeps this store elsewhere */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ready; /* there may be something for a worker */
    pthread_cond_t news;  /* for those who wait for a pass or for the end */
    bool is_stopping;
    bool is_closing; /* workers end */
    bool has_held;   /* once: the leases were claimed once */
    /* Once: turns of the recovery step that were requested, and how many of them have run. */
    uint64_t plans_wanted;
    uint64_t plans_done;
    uint64_t poll_round; /* passes so far */
    tide_poll_job *jobs; /* all of them */
    int job_count;
    tide_poll_job_heap idle;      /* by the time at which they wake */
    tide_poll_job_heap answered;  /* ready: an answer has come; by urgency */
    tide_poll_job_heap questions; /* ready: to ask; by urgency */
    int recovery_count;
    int64_t history_round;   /* looks so far */
    int64_t history_wall_ms; /* of the last */
    int64_t budget_used;
    tide_poll_job *reserved; /* those whose answers are expected, in the order of their questions */
    tide_poll_job **reserved_end;
    tide_scheduler_result result;
    char (*done)[TIDE_AGENT_ID_MAX + 1]; /* once: agents that are through */
    int done_count;

    tide_holding holding;  /* of the leases step */
    int64_t held_until_us; /* the same; on our clock: from then on others may have what was ours */
    tide_watch *registry_watch;   /* of the registry step; NULL: once */
    int64_t registry_mark;        /* the same: what it has seen */
    atomic_int history_count;     /* streams whose history is kept */
    atomic_uint_fast64_t version; /* tide_scheduler_version */
};

/* scheduler.c: under the lock. For a worker, as soon as one is free. */
void tide_scheduler_ready(tide_poll_job *job);
/* Wait for its time; wake_us on the monotonic clock. */
void tide_scheduler_idle(tide_poll_job *job, int64_t wake_us);
/* It is not ours any more: whatever it waits for is over. */
void tide_scheduler_leave(tide_poll_job *job);

/* scheduler.c: under the lock. An answer of so many bytes is expected; it has come, with so many; it is done with. */
void tide_scheduler_reserve(tide_poll_job *job, int64_t bytes);
void tide_scheduler_receive(tide_poll_job *job, int64_t bytes);
void tide_scheduler_release(tide_poll_job *job);

/* scheduler.c: without the lock. */
TIDE_MUST_CHECK tide_poll_job *tide_poll_job_new(tide_scheduler *scheduler);
void tide_poll_job_free(tide_poll_job *job);
/* The job becomes the scheduler's, and is ready. TIDE_E_NOMEM: it stays the caller's. */
TIDE_MUST_CHECK tide_status tide_scheduler_add(tide_scheduler *scheduler, tide_poll_job *job);
int64_t tide_scheduler_now(const tide_scheduler *scheduler);

/* scheduler_turn.c: one turn, on a worker, without the lock. True: the job is over, and to be forgotten. */
TIDE_MUST_CHECK bool tide_poll_job_turn(tide_poll_job *job);
TIDE_MUST_CHECK tide_status tide_agent_slot_new(tide_scheduler *scheduler,
                                                const tide_held_agent *agent, tide_poll_job **out,
                                                tide_error *err);

/* scheduler_poll.c, in a turn: a pass begins, if one is wanted; and is this agent through with it? */
void tide_agent_slot_poll_begin(tide_poll_job *job);
void tide_agent_slot_poll_end(tide_poll_job *job);

/* scheduler_maintenance.c: bind the steps. */
TIDE_MUST_CHECK tide_status tide_scheduler_bind(tide_scheduler *scheduler, tide_error *err);

/* scheduler_metrics.c: the counters of an agent's type, from 0. */
void tide_scheduler_begin_metrics(tide_scheduler *scheduler, const char *agent_id,
                                  const char *data_type);
tide_poller_events tide_scheduler_events(tide_scheduler *scheduler);
/* The agent answered, and the poller has handled it. status: below TIDE_OK, and text is why it
 * failed. */
void tide_scheduler_note(tide_poll_job *job, tide_status status, const char *text);

/* Note how every stream stands now; lag_history.c. */
void tide_lag_history_sample(tide_scheduler *scheduler);
/* The job is going. */
void tide_lag_history_free(tide_poll_job *job);
