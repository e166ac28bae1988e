/* refusal_log.h - warnings and a counter of calls whose fencing token no longer holds.
 *
 * A worker, resumer or caller of a key that stalled past its lease is refused. Its own log has the
 * answer, if it still has one; the operator of the store finds it here: each refusal is counted by
 * method, and logged with the text that names the object, at most TIDE_REFUSAL_LINES a second. What
 * is left out is the `omitted` of the next line.
 *
 * Threads: any. */
#pragma once

#include <pthread.h>

#include "base/log.h"
#include "runtime/metrics.h"

enum { TIDE_REFUSAL_LINES = 10 }; /* a second */

typedef struct tide_refusal_log {
    tide_log *log; /* NULL: none */
    tide_metrics *metrics;
    tide_env *env;
    pthread_mutex_t lock; /* of what follows */
    int64_t begun_us;     /* of the second that is counted; monotonic */
    int64_t lines;
    int64_t omitted;
} tide_refusal_log;

void tide_refusal_log_init(tide_refusal_log *refusals, tide_log *log, tide_metrics *metrics,
                           tide_env *env);
void tide_refusal_log_done(tide_refusal_log *refusals);

/* One refused token. text names the object. Takes NULL. */
void tide_refusal_log_write(tide_refusal_log *refusals, const char *method, const char *text);
