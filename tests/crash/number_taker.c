/* number_taker - a process of takers, to be killed.
 *
 *     number-taker URL STATE_DIR HISTORY CYCLE CHILD THREADS SEED [hasty]
 *
 * Runs THREADS takers (taking.h) on one store, appends their calls to the file HISTORY and prints a line for
 * each row, in one write(2), so that a kill leaves whole lines only. Ends when somebody kills it, when nobody reads its lines any more, or with exit
 * code 1 and words on stderr when the store said something that it should not say. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "crash/taking.h"
#include "support/history.h"

enum { THREADS_MAX = 64, LIFE_MAX_S = 3600 };

static atomic_bool never = false;

static void print_line(const taker *from, const taken *row)
{
    (void)from;
    char line[TAKEN_LINE_MAX];
    const size_t len = taken_format(line, row);
    if (write(STDOUT_FILENO, line, len) != (ssize_t)len)
        _exit(errno == EPIPE ? 0 : 1);
}

static void *run_taker(void *arg)
{
    tide_error err;
    if (taker_run(arg, &err) < TIDE_OK) {
        (void)fprintf(stderr, "number-taker: %s: %s\n", tide_status_get(err.status)->name,
                      err.text);
        _exit(1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        (void)fprintf(stderr, "usage: number-taker URL STATE_DIR HISTORY CYCLE CHILD THREADS SEED "
                              "[hasty]\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(LIFE_MAX_S); /* an orphan ends, too */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = argv[2]};
    tide_error err;
    tide_store *store = NULL;
    if (tide_store_open(&store, argv[1], &options, &err) < TIDE_OK) {
        (void)fprintf(stderr, "number-taker: %s\n", err.text);
        return 1;
    }
    const int history = history_open(argv[3]);
    taker takers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    const long wanted = strtol(argv[6], NULL, 10);
    const int count = wanted < THREADS_MAX ? (int)wanted : THREADS_MAX;
    for (int i = 0; i < count; i++) {
        takers[i] = (taker){
            .store = store,
            .cycle = strtoll(argv[4], NULL, 10),
            .child = strtoll(argv[5], NULL, 10),
            .thread = i,
            .seed = strtoull(argv[7], NULL, 10),
            .is_hasty = argc > 8 && strcmp(argv[8], "hasty") == 0,
            .history = history,
            .stop = &never,
            .report = print_line,
        };
        if (pthread_create(&threads[i], NULL, run_taker, &takers[i]) != 0)
            return 1;
    }
    for (int i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    tide_store_close(store);
    return 0;
}
