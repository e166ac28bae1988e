/* work_child.h - one work item, done by a command: `tidemark work run`.
 *
 *     key work-<id> ---> iteration_start ---> command ---> finish: output, tool_executed, key's answer, in one commit
 *                                               |    \---> fail: error_boundary, the key is given back
 *                                               |----> given back (exit 75, stopping)
 *
 * While the command runs a *messenger* thread answers its messages and keeps the key's lock; the runner's own thread only
 * watches the command, so that a store that hangs cannot keep it alive beyond the lease.
 *
 * What happens if we die: before the command starts nothing was done but an iteration_start; while it runs the kernel kills it with
 * us, and lease and lock run out; after it ended and before the finish committed it runs again, from its last checkpoint.
 *
 * Threads: tide_work_child_run on a runner's thread, tide_work_child_stop on any. */
#pragma once

#include <pthread.h>

#include <tidemark/worker.h>

enum {
    TIDE_WORK_CHILD_RUNNING_MAX = TIDE_WORKER_THREADS_MAX,
    TIDE_WORK_CHILD_LATER = 75, /* exit status: not now (EX_TEMPFAIL) */
    TIDE_WORK_CHILD_NEVER = 65, /* exit status: failed for good (EX_DATAERR) */
};

/* What runs, so that stopping finds it. */
typedef struct tide_work_child_slot {
    const tide_job *job; /* NULL: free */
    int stop_fd;
} tide_work_child_slot;

typedef struct tide_work_children {
    char *const *argv;
    const char *store_url;
    const char *const *env; /* NAME=VALUE from --env */
    int env_count;
    int64_t lease_us;
    pthread_mutex_t lock;
    tide_work_child_slot slots[TIDE_WORK_CHILD_RUNNING_MAX];
} tide_work_children;

void tide_work_children_init(tide_work_children *children);
void tide_work_children_done(tide_work_children *children);

/* tide_job_fn and the stop callback of worker.h; arg is the tide_work_children. */
tide_status tide_work_child_run(void *arg, tide_job *job, tide_error *err);
void tide_work_child_stop(void *arg, tide_job *job);
