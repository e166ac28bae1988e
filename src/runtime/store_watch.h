/* store_watch.h - a daemon's eye on its store: epoch changes and failures, logged and counted.
 *
 * An epoch change is a warning with both epochs; one that opening the store found has the new one. A failure of the store is a warning too, at most
 * one a second: the next line has how many were left out.
 *
 * Threads: any. The store calls until tide_store_watch_done. */
#ifndef TIDE_RUNTIME_STORE_WATCH_H
#define TIDE_RUNTIME_STORE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/store.h>

#include "base/log.h"
#include "runtime/metrics.h"

typedef struct tide_store_watch {
    tide_store *store; /* NULL: none */
    tide_log *log;
    tide_metrics *metrics;
    pthread_mutex_t lock;
    int64_t quiet_until_us;
    int64_t left_out;
    atomic_bool is_away; /* the last call found it so */
} tide_store_watch;

void tide_store_watch_init(tide_store_watch *watch, tide_store *store, tide_log *log,
                           tide_metrics *metrics);
void tide_store_watch_done(tide_store_watch *watch);

/* False: the last call failed because the store was away, full, damaged or another one. The daemon's own steps
 * call it, so it becomes true again without a caller. */
bool tide_store_watch_is_healthy(const tide_store_watch *watch);

#endif
