/* stress_processes.c - see stress_processes.h. */
#include "bench/stress/stress_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBERS = 4, NUMBER_SIZE = 24 };

static tide_status start_one(tide_crowd *crowd, int which, int64_t now_us, tide_error *err)
{
    const int64_t left_us = crowd->ends_at_us - now_us;
    char numbers[NUMBERS][NUMBER_SIZE];
    (void)snprintf(numbers[0], NUMBER_SIZE, "%d", crowd->catalogs);
    (void)snprintf(numbers[1], NUMBER_SIZE, "%d", which);
    (void)snprintf(numbers[2], NUMBER_SIZE, "%d", crowd->turns[which]++);
    (void)snprintf(numbers[3], NUMBER_SIZE, "%" PRId64, left_us > 0 ? left_us / 1000000 : 0);
    char *argv[] = {"tidemark",           "lake",
                    "stress-writer",      "--store",
                    (char *)crowd->store, (char *)crowd->prefix,
                    numbers[0],           numbers[1],
                    numbers[2],           numbers[3],
                    (char *)crowd->dir,   NULL};
    const int failed =
        posix_spawn(&crowd->pids[which], "/proc/self/exe", NULL, NULL, argv, environ);
    if (failed == 0)
        return TIDE_OK;
    crowd->pids[which] = 0;
    return tide_fail(err, TIDE_E_IO, "cannot start a writer: %s", strerror(failed));
}

tide_status tide_crowd_start(tide_crowd *crowd, int64_t now_us, tide_error *err)
{
    for (int i = 0; i < crowd->writers; i++)
        TIDE_TRY(start_one(crowd, i, now_us, err));
    return TIDE_OK;
}

static void reap(tide_crowd *crowd, int which)
{
    (void)kill(crowd->pids[which], SIGKILL);
    while (waitpid(crowd->pids[which], NULL, 0) < 0 && errno == EINTR) {
        /* again */
    }
    crowd->pids[which] = 0;
}

tide_status tide_crowd_kill(tide_crowd *crowd, int which, int64_t now_us, tide_error *err)
{
    if (crowd->pids[which] == 0)
        return TIDE_OK;
    reap(crowd, which);
    crowd->kills++;
    return start_one(crowd, which, now_us, err);
}

tide_status tide_crowd_poll(tide_crowd *crowd, int *left, tide_error *err)
{
    *left = 0;
    for (int i = 0; i < crowd->writers; i++) {
        if (crowd->pids[i] == 0)
            continue;
        int state = 0;
        const pid_t ended = waitpid(crowd->pids[i], &state, WNOHANG);
        if (ended != crowd->pids[i]) {
            (*left)++;
            continue;
        }
        crowd->pids[i] = 0;
        if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
            return tide_fail(err, TIDE_E_FAILED, "writer %d ended with %s %d", i,
                             WIFEXITED(state) ? "code" : "signal",
                             WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    }
    return TIDE_OK;
}

void tide_crowd_done(tide_crowd *crowd)
{
    for (int i = 0; i < crowd->writers; i++)
        if (crowd->pids[i] != 0)
            reap(crowd, i);
}
