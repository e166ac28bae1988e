/* demo_work.h - work of the demonstration: a task every few seconds, and worker processes that do its items.
 *
 * The workers are `tidemark work run` with a small shell script: it checkpoints after each step, goes on from the last checkpoint after a crash, and
 * fails one time in eight. A worker that was killed is started again after a while.
 *
 * Threads: one of its own. */
#ifndef TIDE_UP_DEMO_WORK_H
#define TIDE_UP_DEMO_WORK_H

#include <tidemark/store.h>

#include "base/log.h"

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
void tide_demo_work_close(tide_demo_work *work); /* takes NULL; the workers end */

/* kill -9 to one of them and to what it runs. TIDE_E_UNAVAILABLE: none runs just now. */
TIDE_MUST_CHECK tide_status tide_demo_work_kill(tide_demo_work *work, tide_error *err);

#endif
