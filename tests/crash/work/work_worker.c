/* work_worker - a process that adds work or does it, to be killed.
 *
 *     work-worker URL STATE_DIR HISTORY CYCLE CHILD SEED add|runtime|plain [hasty|split]
 *
 * Runs one load (work_load.h), appends its calls to the file HISTORY and prints a line for each word, in one
 * write(2), so that a kill leaves whole lines only. Ends when somebody kills it, when nobody reads its lines any more, or with exit code 1 and words on stderr
 * when the store said something that it should not say. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "crash/work/work_load.h"
#include "support/history.h"

enum { LIFE_MAX_S = 3600 };

static atomic_bool never = false;

static void print_line(const load *from, const char *word, const char *id, int64_t token)
{
    (void)from;
    char line[LOAD_LINE_MAX];
    const size_t len = load_format(line, word, id, token);
    if (write(STDOUT_FILENO, line, len) != (ssize_t)len)
        _exit(errno == EPIPE ? 0 : 1);
}

static load_role role_of(const char *text)
{
    if (strcmp(text, "add") == 0)
        return LOAD_ADD;
    return strcmp(text, "runtime") == 0 ? LOAD_RUNTIME : LOAD_PLAIN;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        (void)fprintf(stderr, "usage: work-worker URL STATE_DIR HISTORY CYCLE CHILD SEED "
                              "add|runtime|plain [hasty|split]\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(LIFE_MAX_S); /* an orphan ends, too */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = argv[2]};
    tide_error err;
    tide_store *store = NULL;
    tide_status status = tide_store_open(&store, argv[1], &options, &err);
    if (status >= TIDE_OK) {
        load l = {
            .role = role_of(argv[7]),
            .store = store,
            .cycle = strtoll(argv[4], NULL, 10),
            .child = strtoll(argv[5], NULL, 10),
            .seed = strtoull(argv[6], NULL, 10),
            .is_hasty = argc > 8 && strcmp(argv[8], "hasty") == 0,
            .is_split = argc > 8 && strcmp(argv[8], "split") == 0,
            .history = history_open(argv[3]),
            .stop = &never,
            .say = print_line,
        };
        status = load_run(&l, &err);
    }
    if (status < TIDE_OK)
        (void)fprintf(stderr, "work-worker: %s: %s\n", tide_status_get(status)->name, err.text);
    tide_store_close(store);
    return status < TIDE_OK ? 1 : 0;
}
