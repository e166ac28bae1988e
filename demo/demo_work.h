/* demo_work.h - work of the demonstration: a task every few seconds, and worker processes.
 *
 * The workers are `tidemark work run` with `tidemark demo-report` (demo_report.h), which
 * checkpoints after each step, continues from the last checkpoint after a crash, and fails one time
 * in eight. A worker that was killed is started again after a while. Tasks that have ended are
 * deleted after TIDE_DEMO_TASK_US, with their items and checkpoints.
 *
 * Threads: one of its own. */
#pragma once

#include <tidemark/store.h>

#include "base/log.h"

#define TIDE_DEMO_TASK_US INT64_C(1800000000)

typedef struct tide_demo_work tide_demo_work;

typedef struct tide_demo_work_options {
    const char *program;
    const char *data_dir;
    tide_store *store; /* of tasks: DIR/colony.db */
    tide_env *env;
    tide_log *log;
} tide_demo_work_options;

TIDE_MUST_CHECK tide_status tide_demo_work_open(tide_demo_work **out,
                                                const tide_demo_work_options *options,
                                                tide_error *err);
/* Let the workers begin to end, and do not wait for them. Takes NULL. */
void tide_demo_work_stop(tide_demo_work *work);
void tide_demo_work_close(tide_demo_work *work); /* takes NULL; the workers end */

/* kill -9 to one of them and to what it runs; *number: which, from 1 on. TIDE_E_UNAVAILABLE: none
 * runs just now. */
TIDE_MUST_CHECK tide_status tide_demo_work_kill(tide_demo_work *work, int *number, tide_error *err);

/* The process of each; 0: it is down. */
enum { TIDE_DEMO_WORKERS = 2 };
void tide_demo_work_show(tide_demo_work *work, int64_t pids[TIDE_DEMO_WORKERS]);
