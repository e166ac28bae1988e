/* work.h - tasks, and work items that survive their workers.
 *
 *               claim (token rises)                 finish (token)
 *    pending ----------------------> in_progress -------------------> completed
 *      ^  ^                           |   |   |        fail, final
 *      |  |  fail, retries left       |   |   +---------------------> failed
 *      |  +---------------------------+   |        retries used up, cancelled
 *      |     release                      | the lease runs out, the sweep notices (token rises)
 *      +----------------------------------+--------------------------> failed, retries used up
 *
 * An item is claimed under a lease (holder, token, expires). Every later call presents the token
 * and is refused with TIDE_E_LEASE_LOST once the lease has run out or another claim has happened,
 * also under the same worker name: a stalled worker can do no harm. tide_work_check puts the same
 * question inside the caller's own transaction.
 *
 * One first run and at most max_retries more, on every path. Crashes (the lease ran out) and
 * failures (the worker said so) are counted apart. An item that used up its retries ends failed;
 * one that kept killing its workers ends as failure_kind 'quarantined'. Ended items never change;
 * retry makes a new one.
 *
 * Order: by priority, then age; ten minutes of age weigh as much as one step of priority, so
 * nothing starves.
 *
 * Nothing here waits, sleeps or reads a clock: times are the store's. worker.h drives it.
 *
 * Survives: a crash at any point. What was answered is on disk; a call whose outcome is unknown may
 * be repeated: finishing again with the same token and output is fine. Threads: any. */
#ifndef TIDEMARK_WORK_H
#define TIDEMARK_WORK_H

#include <tidemark/idempotency.h>
#include <tidemark/journal.h>
#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_WORK_ID_MAX = 128,
    TIDE_WORK_TYPE_MAX = 128,
    TIDE_WORK_WORKER_MAX = 256,
    TIDE_WORK_DATA_MAX = 16 << 20, /* bytes of input or output */
    TIDE_WORK_ERROR_MAX = 65536,   /* longer error texts are cut */
    TIDE_WORK_BATCH_MAX = 1000,    /* items per call of add, claim, renew, finish */
    TIDE_WORK_TYPES_MAX = 64,      /* types per claim */
    TIDE_WORK_SWEEP_MAX = 500,     /* items per sweep */
    TIDE_WORK_RETRIES_DEFAULT = 3,
    TIDE_WORK_CRASH_LIMIT = 3,
};

#define TIDE_WORK_LEASE_US INT64_C(300000000)        /* 5 min */
#define TIDE_WORK_RENEW_MAX_US INT64_C(60000000)     /* renewals are at most this far apart */
#define TIDE_WORK_SWEEP_US INT64_C(60000000)         /* between sweeps */
#define TIDE_WORK_KEEP_US INT64_C(2592000000000)     /* ended items: 30 d */
#define TIDE_WORK_BACKOFF_US INT64_C(1000000)        /* first delay; doubles */
#define TIDE_WORK_BACKOFF_MAX_US INT64_C(3600000000) /* 1 h */

/* Topics (watch.h): TIDE_WORK_TOPIC is notified when something became claimable that has no single
 * type (a type was resumed); tide_work_topic gives that of one type, or (NULL) the one that tells
 * of every type. */
#define TIDE_WORK_TOPIC "work"
/* Notified when a lease, a delayed item or a schedule was written that ends or is due within
 * TIDE_WORK_SWEEP_US: for those who sleep until tide_work_next_sweep, at most so long. */
#define TIDE_WORK_DUE_TOPIC "work-due"
TIDE_API void tide_work_topic(char out[64], const char *work_type);

/* ---- tasks ---- */

typedef struct tide_task_new {
    size_t size;         /* TIDE_TASK_NEW_INIT */
    const char *task_id; /* NULL: a new UUID */
    const char *title;
    const char *metadata; /* JSON; NULL: none */
} tide_task_new;
#define TIDE_TASK_NEW_INIT .size = sizeof(tide_task_new)

typedef struct tide_task {
    const char *task_id;
    const char *title;
    const char *status; /* pending, running, succeeded, failed, cancelled */
    const char *metadata;
    const char *forked_from; /* NULL: no fork */
    int64_t forked_at;
    int64_t last_sequence; /* of its checkpoints */
    int64_t created_at_us;
    int64_t updated_at_us;
    int64_t completed_at_us; /* 0: not ended */
    /* items by status; only from tide_task_find */
    int64_t pending, in_progress, completed, failed, expired;
} tide_task;

typedef tide_status tide_task_fn(void *arg, const tide_task *task, tide_error *err);

/* TIDE_E_EXISTS: the id is taken. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_create(tide_store *store, const tide_task_new *task,
                                                      char out_task_id[TIDE_WORK_ID_MAX + 1],
                                                      tide_error *err);
/* With the numbers of its items. TIDE_NONE: no such task. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_find(tide_store *store, const char *task_id,
                                                    tide_task_fn *fn, void *arg, tide_error *err);
/* Newest first; status NULL: any. TIDE_E_INVALID: a status that does not exist. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_list(tide_store *store, const char *status,
                                                    int64_t limit, tide_task_fn *fn, void *arg,
                                                    tide_error *err);
/* Ends its unfinished items as cancelled, too. Cancelled already: fine. TIDE_E_CONFLICT: it ended
 * otherwise.
 *
 * Cancel, finish and delete of a task of any size run in transactions of some hundred items, and
 * other writers pass between them. The first one ends the task: from then on no item of it is
 * claimed or added. A call that is interrupted is continued by the next sweep of any process, or by
 * calling again. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_cancel(tide_store *store, const char *task_id,
                                                      tide_error *err);
/* is_failed false: succeeded. TIDE_E_CONFLICT: items are unfinished, unless cancel_rest. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_finish(tide_store *store, const char *task_id,
                                                      bool is_failed, bool cancel_rest,
                                                      tide_error *err);
/* Everything of it. TIDE_E_CONFLICT: items are in progress, unless is_forced; it has forks
 * (always). */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_delete(tide_store *store, const char *task_id,
                                                      bool is_forced, tide_error *err);

/* ---- items ---- */

typedef struct tide_work_spec {
    size_t size; /* TIDE_WORK_SPEC_INIT */
    /* NULL: a new UUID. Given again with the same task, type and input: is_existing */
    const char *work_item_id;
    const char *task_id;
    const char *work_type;
    const char *input; /* JSON; NULL: none */
    int64_t priority;
    int64_t max_retries;  /* < 0: the default */
    int64_t run_after_us; /* absolute; 0: at once */
    int64_t delay_us;     /* from the store's now; 0: none */
    int64_t timeout_us;   /* of one attempt; 0: none */
    /* NULL: none. A live item of the same type and key: is_existing, its id */
    const char *unique_key;
    /* item ids of the same task, earlier ones of this batch included */
    const char *const *depends_on;
    int depends_on_count;
    const char *title; /* for people, up to TIDE_WORK_TITLE_MAX bytes; NULL: none */
    /* What a limit per key counts (tide_work_limit), up to TIDE_WORK_LIMIT_KEY_MAX bytes. NULL: no
     * limit per key counts it. */
    const char *limit_key;
} tide_work_spec;
#define TIDE_WORK_SPEC_INIT .size = sizeof(tide_work_spec)

typedef struct tide_work_added {
    char work_item_id[TIDE_WORK_ID_MAX + 1];
    bool is_existing;
} tide_work_added;

/* All or none. TIDE_E_NOT_FOUND: a task or dependency. TIDE_E_CONFLICT: the task has ended, a
 * dependency failed, or dependencies in a circle. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_add(tide_store *store, const tide_work_spec *items,
                                                   int count, tide_work_added *out,
                                                   tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_work_add_in(tide_tx *tx, const tide_work_spec *items,
                                                      int count, tide_work_added *out,
                                                      tide_error *err);

typedef struct tide_work_claim_request {
    size_t size;        /* TIDE_WORK_CLAIM_REQUEST_INIT */
    const char *worker; /* for people; the token is what counts */
    const char *const *types;
    int type_count;      /* 0: any type */
    const char *task_id; /* NULL: any task */
    int limit;           /* 0: 1 */
    int64_t lease_us;    /* 0: TIDE_WORK_LEASE_US */
} tide_work_claim_request;
#define TIDE_WORK_CLAIM_REQUEST_INIT .size = sizeof(tide_work_claim_request)

typedef struct tide_work_claimed {
    const char *work_item_id;
    const char *task_id;
    const char *work_type;
    const char *input; /* NULL: none */
    const char *worker;
    int64_t lease_token;
    int64_t attempt; /* 1 for the first */
    int64_t max_retries;
    int64_t priority;
    int64_t lease_expires_at_us;
    /* how long from the claim: at most what was asked, less when the timeout is near */
    int64_t lease_us;
    int64_t deadline_at_us; /* 0: none */
    int64_t waited_us;      /* from when it was added to this claim */
} tide_work_claimed;

typedef struct tide_work_claims {
    tide_work_claimed *items; /* in claim order */
    int count;
    /* when nothing was found: how long until a delayed item is due; -1: none waits */
    int64_t next_due_us;
    tide_identity identity; /* the epoch that the tokens belong to */
    void *memory;
} tide_work_claims;

/* TIDE_OK: at least one. TIDE_NONE: nothing to do. Free with tide_work_claims_done in any case. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_claim(tide_store *store,
                                                     const tide_work_claim_request *request,
                                                     tide_work_claims *out, tide_error *err);
TIDE_API void tide_work_claims_done(tide_work_claims *claims);

typedef struct tide_work_ref {
    size_t size; /* TIDE_WORK_REF_INIT */
    const char *work_item_id;
    int64_t token;
    bool is_lost; /* out */
} tide_work_ref;
#define TIDE_WORK_REF_INIT .size = sizeof(tide_work_ref)

/* All leases of a worker in one statement. TIDE_OK: all; TIDE_E_PARTIAL: some lost (marked);
 * TIDE_E_LEASE_LOST: all lost. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_renew(tide_store *store, tide_work_ref *items,
                                                     int count, int64_t lease_us, tide_error *err);

/* Is this token the effective holder until this transaction commits? For the caller's own
 * writes. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_check(tide_tx *tx, const char *work_item_id,
                                                     int64_t token, tide_error *err);

/* Under the lease: a checkpoint of the item's task. checkpoint->task_id and work_item_id are filled
 * in here. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_checkpoint(tide_store *store,
                                                          const char *work_item_id, int64_t token,
                                                          const tide_checkpoint_new *checkpoint,
                                                          tide_checkpoint_numbers *out,
                                                          tide_error *err);
/* progress: JSON. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_progress(tide_store *store, const char *work_item_id,
                                                        int64_t token, const char *progress,
                                                        tide_error *err);

typedef struct tide_work_result {
    size_t size; /* TIDE_WORK_RESULT_INIT */
    const char *work_item_id;
    int64_t token;
    const char *output;                    /* JSON; NULL: none */
    const tide_checkpoint_new *checkpoint; /* NULL: none; task and item are filled in */
    /* NULL: none; completed with `response` under idempotency_token */
    const char *idempotency_name;
    int64_t idempotency_token;
    tide_view response;
    const tide_work_spec *follow_ups; /* task_id NULL: the same task */
    int follow_up_count;
    tide_checkpoint_numbers numbers; /* out, of the checkpoint */
    bool is_lost;                    /* out */
} tide_work_result;
#define TIDE_WORK_RESULT_INIT .size = sizeof(tide_work_result)

/* One commit: token, output, last checkpoint, idempotent response, follow-up items. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_finish(tide_store *store, tide_work_result *result,
                                                      tide_error *err);
/* Many plain results (output only) in one commit: as tide_work_renew answers; the lost ones change
 * nothing. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_finish_many(tide_store *store,
                                                           tide_work_result *results, int count,
                                                           tide_error *err);

/* Finish plain results (output only) and claim the next items, in one commit; count 0: only claim.
 * A refused finish is marked (is_lost) and refuses nothing else. TIDE_OK: all were finished, at
 * least one was claimed. TIDE_NONE: all were finished, there is nothing to claim.
 * TIDE_E_LEASE_LOST: a finish was refused; the others are finished, and *out has what was claimed.
 * Otherwise nothing was done, or (TIDE_E_OUTCOME_UNKNOWN) it may be repeated: what was claimed then
 * is a lease that runs out. Where items that are due have to be promoted first, the claim is a
 * commit of its own. Free with tide_work_claims_done in any case. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_next(tide_store *store, tide_work_result *results,
                                                    int count,
                                                    const tide_work_claim_request *request,
                                                    tide_work_claims *out, tide_error *err);

typedef struct tide_work_failed {
    bool is_final;          /* out: the item has ended */
    int64_t retry_after_us; /* out: how long until it may run again */
} tide_work_failed;

typedef struct tide_work_failure {
    size_t size; /* TIDE_WORK_FAILURE_INIT */
    const char *work_item_id;
    int64_t token;
    const char *error;
    bool is_final;          /* do not retry */
    int64_t retry_after_us; /* < 0: back-off decides */
    bool is_timeout;        /* it took longer than its timeout: for the policy of its type */
} tide_work_failure;
#define TIDE_WORK_FAILURE_INIT .size = sizeof(tide_work_failure)

/* The same call again (token, error, is_final), after an answer that was lost, is answered with
 * success and what is left of the wait. *out may be NULL. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_fail(tide_store *store,
                                                    const tide_work_failure *failure,
                                                    tide_work_failed *out, tide_error *err);
/* Back to pending without spending an attempt. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_release(tide_store *store, const char *work_item_id,
                                                       int64_t token, int64_t delay_us,
                                                       tide_error *err);

/* A new item like an ended one, linked by retried_from, with the same dependencies. The last
 * checkpoint of an item that failed is handed over: the new item has it, too. TIDE_E_CONFLICT: it
 * has not ended, or depends on one that failed. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_retry(tide_store *store, const char *work_item_id,
                                                     tide_work_added *out, tide_error *err);
typedef struct tide_work_filter tide_work_filter;
typedef struct tide_work_retry_request {
    size_t size;              /* TIDE_WORK_RETRY_REQUEST_INIT */
    const char *work_item_id; /* NULL: by filter */
    /* Failed items that were not retried yet, at most TIDE_WORK_BATCH_MAX; status is ignored. */
    const tide_work_filter *filter;
    bool from_scratch;    /* no checkpoint is handed over */
    bool with_dependents; /* also what failed because it depends on these */
    bool is_dry_run;      /* only report which */
} tide_work_retry_request;
#define TIDE_WORK_RETRY_REQUEST_INIT .size = sizeof(tide_work_retry_request)

typedef struct tide_work_retried {
    const char *work_item_id; /* the ended item */
    const char *new_id;       /* NULL in a dry run */
    bool is_existing;         /* a live item of the same unique key: no new one was made */
} tide_work_retried;
typedef tide_status tide_work_retried_fn(void *arg, const tide_work_retried *retried,
                                         tide_error *err);

/* Dependencies among the retried items lead to the new ones. In steps of 50 items, each one commit,
 * after which fn (may be NULL) is called for its items; a failure leaves the steps before it. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_retry_many(tide_store *store,
                                                          const tide_work_retry_request *request,
                                                          tide_work_retried_fn *fn, void *arg,
                                                          tide_error *err);
/* Whoever holds it is fenced off. Ended already as cancelled: fine; otherwise: TIDE_E_CONFLICT. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_cancel(tide_store *store, const char *work_item_id,
                                                      const char *reason, tide_error *err);
/* A change of one item or of many. */
typedef struct tide_work_change {
    size_t size;              /* TIDE_WORK_CHANGE_INIT */
    const char *work_item_id; /* NULL: by filter */
    /* Unfinished items; it names a task, a type, a status or a worker. limit 0: all. */
    const tide_work_filter *filter;
    const char *reason; /* of a cancel; NULL: none */
    int64_t priority;   /* of tide_work_reprioritise */
    bool is_dry_run;    /* only report which */
} tide_work_change;
#define TIDE_WORK_CHANGE_INIT .size = sizeof(tide_work_change)
typedef tide_status tide_work_changed_fn(void *arg, const char *work_item_id, tide_error *err);

/* In steps of 500 items, each one commit, after which fn (may be NULL) is called for those that
 * were changed; a failure leaves the steps before it. Items that end meanwhile are left out. One
 * item by its id: TIDE_E_NOT_FOUND: it does not exist; TIDE_E_CONFLICT: it has ended, other than by
 * a cancel. TIDE_E_INVALID: a filter that names nothing, or a status of items that have ended. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_cancel_many(tide_store *store,
                                                           const tide_work_change *change,
                                                           tide_work_changed_fn *fn, void *arg,
                                                           tide_error *err);
/* As if the item had been added with this priority. One in progress has it when it is claimed
 * again. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_reprioritise(tide_store *store,
                                                            const tide_work_change *change,
                                                            tide_work_changed_fn *fn, void *arg,
                                                            tide_error *err);
/* TIDE_E_CONFLICT: in progress, unless is_forced; or live items depend on it (always). */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_delete(tide_store *store, const char *work_item_id,
                                                      bool is_forced, tide_error *err);

/* A paused type is not claimed. Known or not. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_pause(tide_store *store, const char *work_type,
                                                     const char *reason, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_work_resume(tide_store *store, const char *work_type,
                                                      tide_error *err);
typedef struct tide_work_type {
    const char *work_type;
    bool is_paused;
    const char *pause_reason;
    int64_t paused_at_us;
} tide_work_type;
typedef tide_status tide_work_type_fn(void *arg, const tide_work_type *type, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_work_types(tide_store *store, tide_work_type_fn *fn,
                                                     void *arg, tide_error *err);

/* ---- looking ---- */

/* Every column. NULL and 0: none. */
typedef struct tide_work_item {
    const char *work_item_id, *task_id, *work_type, *status;
    int64_t priority;
    const char *lease_holder;
    int64_t lease_acquired_at_us, lease_expires_at_us, heartbeat_at_us;
    int64_t retry_count, max_retries;
    const char *input, *output, *error_message;
    int64_t created_at_us, started_at_us, completed_at_us, updated_at_us;
    int64_t lease_token;
    const char *lease_via;
    int64_t revision, run_after_us;
    const char *unique_key;
    int64_t timeout_us, deadline_at_us, failure_count, crash_count;
    const char *failure_kind, *attempt_outcome, *progress, *retried_from, *schedule_name;
    int64_t waits_for;
    bool has_dependents;
    int64_t claim_key;
    const char *title; /* NULL: none */
    const char *limit_key;
} tide_work_item;

typedef tide_status tide_work_item_fn(void *arg, const tide_work_item *item, tide_error *err);
/* TIDE_NONE: no such item. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_find(tide_store *store, const char *work_item_id,
                                                    tide_work_item_fn *fn, void *arg,
                                                    tide_error *err);

struct tide_work_filter {
    size_t size;         /* TIDE_WORK_FILTER_INIT */
    const char *task_id; /* NULL: any */
    const char *work_type;
    const char *status;
    const char *failure_kind;
    const char *worker;     /* who holds it */
    int64_t limit;          /* 0: 100 */
    const char *before_id;  /* only what was added before this one; TIDE_E_NOT_FOUND: it is gone */
    int64_t ended_since_us; /* only what ended at this time or later; 0: any */
};
#define TIDE_WORK_FILTER_INIT .size = sizeof(tide_work_filter)
/* Newest first, in steps that each see one durable snapshot. TIDE_E_INVALID: a status or failure
 * kind that does not exist. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_list(tide_store *store,
                                                    const tide_work_filter *filter,
                                                    tide_work_item_fn *fn, void *arg,
                                                    tide_error *err);

typedef tide_status tide_work_dependency_fn(void *arg, const char *work_item_id, tide_error *err);
/* The items that this one depends on, by id, as far as they still exist. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_dependencies(tide_store *store,
                                                            const char *work_item_id,
                                                            tide_work_dependency_fn *fn, void *arg,
                                                            tide_error *err);

typedef struct tide_work_attempt {
    int64_t attempt, lease_token;
    const char *worker, *via, *outcome, *error_message;
    int64_t started_at_us, ended_at_us; /* 0: running */
} tide_work_attempt;
typedef tide_status tide_work_attempt_fn(void *arg, const tide_work_attempt *attempt,
                                         tide_error *err);
/* Oldest first. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_attempts(tide_store *store, const char *work_item_id,
                                                        tide_work_attempt_fn *fn, void *arg,
                                                        tide_error *err);

/* Why is it not running? fn gets each reason: a short stable code (ready, running, paused, delayed,
 * waiting, limited, task_ended, ended, lease_over, behind, policy) and words that say what to do.
 * TIDE_NONE: no such item. */
typedef void tide_work_reason_fn(void *arg, const char *code, const char *words);
TIDE_API TIDE_MUST_CHECK tide_status tide_work_explain(tide_store *store, const char *work_item_id,
                                                       tide_work_reason_fn *fn, void *arg,
                                                       tide_error *err);

typedef struct tide_work_stat {
    const char *work_type, *status;
    int64_t count;
    double mean_age_s;
} tide_work_stat;
typedef struct tide_work_lease_stat {
    int64_t active, stale; /* stale: no heartbeat for two minutes */
    double mean_heartbeat_age_s;
} tide_work_lease_stat;
typedef struct tide_work_task_stat {
    const char *task_id;
    int64_t checkpoint_count, max_sequence, first_at_us, last_at_us;
} tide_work_task_stat;

typedef struct tide_work_stats_fns {
    size_t size; /* TIDE_WORK_STATS_FNS_INIT */
    tide_status (*item)(void *arg, const tide_work_stat *stat, tide_error *err);
    tide_status (*lease)(void *arg, const tide_work_lease_stat *stat, tide_error *err); /* once */
    tide_status (*task)(void *arg, const tide_work_task_stat *stat,
                        tide_error *err); /* the top ten */
} tide_work_stats_fns;
#define TIDE_WORK_STATS_FNS_INIT .size = sizeof(tide_work_stats_fns)
TIDE_API TIDE_MUST_CHECK tide_status tide_work_stats(tide_store *store,
                                                     const tide_work_stats_fns *fns, void *arg,
                                                     tide_error *err);

/* ---- looking after ---- */

typedef struct tide_work_swept {
    int64_t requeued;    /* leases that ran out: back to pending */
    int64_t failed;      /* of those: retries used up */
    int64_t quarantined; /* of the failed: poison */
    int64_t promoted;    /* delayed items now due */
    int64_t blocked;     /* failed, because what they depend on failed */
    int64_t scheduled;   /* items made by schedules */
    int64_t ended; /* with their task: a cancel, finish or delete of it that was interrupted */
    bool has_more; /* call again at once */
    /* Due schedules that this machine cannot run, since it does not know their time zone; and the
     * name of one. Another process may. */
    int64_t skipped;
    char skipped_name[TIDE_WORK_ID_MAX + 1];
} tide_work_swept;

/* The watchdog: one bounded turn. Many may run. limit 0: TIDE_WORK_SWEEP_MAX; crash_limit 0: the
 * default. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_sweep(tide_store *store, int64_t limit,
                                                     int64_t crash_limit, tide_work_swept *out,
                                                     tide_error *err);

/* When a sweep will have something to do: *wait_us is the time until the earliest lease end, due
 * item or schedule; 0: there is something now; INT64_MAX: nothing is planned. A read, cheap enough
 * to ask every second. What is written later may be due earlier: ask again from time to time. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_next_sweep(tide_store *store, int64_t *wait_us,
                                                          tide_error *err);

/* Remove ended items older than keep_us (0: the default) in bounded steps. Their checkpoints
 * stay. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_clean(tide_store *store, int64_t keep_us,
                                                     int64_t *removed, tide_error *err);

/* ---- retry policies ---- */

enum {
    TIDE_WORK_TITLE_MAX = 512, /* bytes of an item's title */
    TIDE_WORK_NO_RETRY_SIZE = 32,
    TIDE_WORK_NO_RETRY_ERROR = 1,   /* the worker reported a failure */
    TIDE_WORK_NO_RETRY_CRASH = 2,   /* the lease ended without a word */
    TIDE_WORK_NO_RETRY_TIMEOUT = 4, /* the attempt took longer than its timeout */
};

typedef struct tide_work_policy {
    size_t size; /* TIDE_WORK_POLICY_INIT */
    const char *work_type;
    int64_t max_retries; /* of items that are added without one; < 0: TIDE_WORK_RETRIES_DEFAULT */
    int64_t backoff_us;  /* the first wait, which doubles; 0: TIDE_WORK_BACKOFF_US */
    int64_t backoff_max_us; /* the longest; 0: TIDE_WORK_BACKOFF_MAX_US */
    unsigned no_retry;      /* TIDE_WORK_NO_RETRY_* */
} tide_work_policy;
#define TIDE_WORK_POLICY_INIT .size = sizeof(tide_work_policy)

/* Replaces the policy of the type; one that is all defaults removes it. Waits and exceptions count
 * from the next attempt that ends. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_policy_set(tide_store *store,
                                                          const tide_work_policy *policy,
                                                          tide_error *err);
/* TIDE_NONE: it has none, and *out (which begins with its size) the defaults. out->work_type is the
 * caller's. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_policy_get(tide_store *store, const char *work_type,
                                                          tide_work_policy *out, tide_error *err);
/* "error", "crash" and "timeout"; a list of them, with commas. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_no_retry_parse(unsigned *flag, const char *word,
                                                              tide_error *err);
TIDE_API void tide_work_no_retry_text(char out[TIDE_WORK_NO_RETRY_SIZE], unsigned flags);

/* ---- limits ---- */

enum {
    TIDE_WORK_LIMIT_MAX = 1000000,
    TIDE_WORK_LIMIT_KEY_MAX = 512, /* bytes of a limit key */
};

/* How many items of a type are in progress at once, whoever claims them through the library, the
 * command line or the services, in any process. A worker that crashed has its slot until its lease
 * ends. Claims by plain SQL take slots and are not refused. */
typedef struct tide_work_limit {
    size_t size; /* TIDE_WORK_LIMIT_INIT */
    const char *work_type;
    int64_t running;         /* of the type; 0: no limit; set: < 0: as it is */
    int64_t running_per_key; /* of each limit_key of the type; 0: no limit; set: < 0: as it is */
    int64_t in_progress;     /* out: items of the type that are in progress; 0 without a limit */
} tide_work_limit;
#define TIDE_WORK_LIMIT_INIT .size = sizeof(tide_work_limit)

/* Set, change or remove the limits of a type, also while its items run: those run on, and nothing
 * more is claimed until there are fewer than the limit. TIDE_E_BUSY (PostgreSQL, a first limit): a
 * transaction that adds or claims items has been open for a second; try again. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_limit_set(tide_store *store,
                                                         const tide_work_limit *limit,
                                                         tide_error *err);
/* TIDE_NONE: it has none, and *out has zeroes. out->work_type is the caller's. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_limit_get(tide_store *store, const char *work_type,
                                                         tide_work_limit *out, tide_error *err);

/* ---- schedules ---- */

typedef struct tide_schedule_new {
    size_t size; /* TIDE_SCHEDULE_NEW_INIT */
    const char *name;
    const char *task_id;
    const char *work_type;
    const char *cron;  /* five fields; NULL: every_us */
    int64_t every_us;  /* 0: cron */
    const char *input; /* JSON; NULL: none */
    int64_t priority;
    int64_t max_retries; /* < 0: the default */
    int64_t timeout_us;
    /* Of cron, by its name in the machine's tzdata ("Europe/Berlin"). NULL: UTC. A local time that
     * clocks skip runs once, when they are set ahead; one that comes twice runs the first time. */
    const char *time_zone;
} tide_schedule_new;
#define TIDE_SCHEDULE_NEW_INIT .size = sizeof(tide_schedule_new)
typedef struct tide_schedule {
    const char *name, *task_id, *work_type, *cron;
    int64_t every_us;
    const char *input;
    int64_t priority, max_retries, timeout_us;
    bool is_paused;
    int64_t next_run_at_us, last_run_at_us, run_count;
    const char *time_zone; /* NULL: UTC */
} tide_schedule;

/* What of a schedule changes; NULL, 0 and false: as it was. */
typedef struct tide_schedule_change {
    size_t size; /* TIDE_SCHEDULE_CHANGE_INIT */
    const char *name;
    const char *work_type;
    const char *cron; /* instead of an interval */
    int64_t every_us; /* instead of a cron expression */
    const char *time_zone;
    const char *input;
    bool has_priority, has_max_retries, has_timeout;
    int64_t priority;
    int64_t max_retries; /* < 0: the default */
    int64_t timeout_us;  /* 0: none */
} tide_schedule_change;
#define TIDE_SCHEDULE_CHANGE_INIT .size = sizeof(tide_schedule_change)
typedef tide_status tide_schedule_fn(void *arg, const tide_schedule *schedule, tide_error *err);
/* Missed times are made up by one item, not by many; the item of a time is made once, whoever
 * sweeps. */
TIDE_API TIDE_MUST_CHECK tide_status tide_schedule_add(tide_store *store,
                                                       const tide_schedule_new *schedule,
                                                       int64_t *next_run_at_us, tide_error *err);
/* The next time is computed anew where its rule changes: after now, or an interval from now. A
 * paused schedule stays paused. TIDE_E_NOT_FOUND. */
TIDE_API TIDE_MUST_CHECK tide_status tide_schedule_update(tide_store *store,
                                                          const tide_schedule_change *change,
                                                          int64_t *next_run_at_us, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_schedule_list(tide_store *store, tide_schedule_fn *fn,
                                                        void *arg, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_schedule_pause(tide_store *store, const char *name,
                                                         bool is_paused, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_schedule_remove(tide_store *store, const char *name,
                                                          tide_error *err);

/* ---- damage ---- */

/* An input or output that is not what was written is not served: reads fail with TIDE_E_DAMAGED,
 * and a claim ends the item as failed and takes the next one. Compare those of all items with their
 * digests; fn is called per finding, *out is added to. TIDE_E_DAMAGED: there were findings. */
TIDE_API TIDE_MUST_CHECK tide_status tide_work_verify(tide_store *store, tide_store_finding_fn *fn,
                                                      void *arg, tide_values_checked *out,
                                                      tide_error *err);

/* ---- resuming a task ---- */

/* What a resumer needs, read in one snapshot, under a lease on the task ("task/<id>", lease.h) that
 * refuses a second resumer (TIDE_E_CONFLICT: who and how long). While it is held, checkpoints of
 * the task need its token (tide_checkpoint_new.token), or are written under the token of one of its
 * items. */
typedef struct tide_task_resume_fns {
    size_t size; /* TIDE_TASK_RESUME_FNS_INIT */
    tide_status (*item)(void *arg, const tide_work_item *item,
                        tide_error *err); /* unfinished and claimable again */
    tide_status (*iteration)(void *arg, const tide_checkpoint *newest_end, int64_t next_iteration,
                             tide_error *err); /* once; newest_end NULL: none, next 1. Next is
                                                * 0, unknown, when the state has no whole number
                                                * "iteration" and checkpoints of the task, or of
                                                * what it shares, were removed: the ends cannot be
                                                * counted any more. */
    tide_status (*later)(void *arg, const tide_checkpoint *checkpoint,
                         tide_error *err); /* tool_executed, llm_response after it */
    tide_status (*response)(void *arg, const tide_idempotency_key *key,
                            tide_error *err); /* completed */
} tide_task_resume_fns;
#define TIDE_TASK_RESUME_FNS_INIT .size = sizeof(tide_task_resume_fns)
typedef struct tide_task_resume_request {
    size_t size; /* TIDE_TASK_RESUME_REQUEST_INIT */
    const char *task_id;
    const char *holder;
    int64_t lease_us; /* 0: TIDE_WORK_LEASE_US */
} tide_task_resume_request;
#define TIDE_TASK_RESUME_REQUEST_INIT .size = sizeof(tide_task_resume_request)

typedef struct tide_task_lease {
    int64_t token;
    int64_t expires_at_us;
} tide_task_lease;

TIDE_API TIDE_MUST_CHECK tide_status tide_task_resume(tide_store *store,
                                                      const tide_task_resume_request *request,
                                                      const tide_task_resume_fns *fns, void *arg,
                                                      tide_task_lease *out, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_task_renew(tide_store *store, const char *task_id,
                                                     int64_t lease_token, int64_t lease_us,
                                                     tide_error *err);
/* is_forced: end the lease whatever its token, so that its holder is refused from now on; fine if
 * it is not held. TIDE_E_NOT_FOUND: there is no such task. */
TIDE_API TIDE_MUST_CHECK tide_status tide_task_release(tide_store *store, const char *task_id,
                                                       int64_t lease_token, bool is_forced,
                                                       tide_error *err);

TIDE_END_DECLS

#endif
