/* refresh.h - figures of a store for /metrics that do not make a scrape wait for the store.
 *
 *     scrape    tide_refresh_request: wakes the step and waits for it, at most
 *               TIDE_REFRESH_WAIT_US; then it writes the figures that there are
 *     step      tide_refresh_begin, reads the store, exchanges the figures, tide_refresh_end
 *
 * While the store answers, a scrape has figures of this moment. While it is away or hangs, a scrape
 * has the last ones that were read: no series vanishes, and tidemark_store_up says how fresh they
 * can be.
 *
 * Threads: ask from any thread; begin and end from the step's. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "runtime/ticker.h"

#define TIDE_REFRESH_WAIT_US INT64_C(1000000)

typedef struct tide_refresh {
    tide_ticker *ticker;
    const char *step; /* the name by which it is woken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t asked;
    uint64_t done;
} tide_refresh;

/* The ticker must outlive it. */
void tide_refresh_init(tide_refresh *refresh, tide_ticker *ticker, const char *step);
void tide_refresh_done(tide_refresh *refresh);

void tide_refresh_request(tide_refresh *refresh);

/* What end is given: who asked until now is answered by this turn. */
TIDE_MUST_CHECK uint64_t tide_refresh_begin(tide_refresh *refresh);
void tide_refresh_end(tide_refresh *refresh, uint64_t turn);
