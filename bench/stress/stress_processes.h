/* stress_processes.h - the processes of a stress run: this program again, once per writer.
 *
 * A writer that is killed is started again with the next turn, and takes up what its predecessor was about to do. All end by themselves at the end of the run's time;
 * one that ends early with a failure ends the run with it.
 *
 * Threads: one. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <tidemark/error.h>

enum { TIDE_CROWD_MAX = 256 };

typedef struct tide_crowd {
    const char *store;
    const char *prefix;
    const char *dir; /* of logs */
    int catalogs;
    int writers;
    int64_t ends_at_us;         /* monotonic */
    pid_t pids[TIDE_CROWD_MAX]; /* 0: has ended */
    int turns[TIDE_CROWD_MAX];
    int64_t kills;
} tide_crowd;

TIDE_MUST_CHECK tide_status tide_crowd_start(tide_crowd *crowd, int64_t now_us, tide_error *err);
/* kill -9 of one, and another in its place. */
TIDE_MUST_CHECK tide_status tide_crowd_kill(tide_crowd *crowd, int which, int64_t now_us,
                                            tide_error *err);
/* Who has ended? *left: how many run. A failure of one is this one's. */
TIDE_MUST_CHECK tide_status tide_crowd_poll(tide_crowd *crowd, int *left, tide_error *err);
/* Whoever still runs is killed. Fits TIDE_CLEANUP. */
void tide_crowd_done(tide_crowd *crowd);
