/* lake_deleter - a process that deletes rows from a catalog, to be killed while its delete is rebased.
 *
 *     lake-deleter URL STATE_DIR CONDITION KEY GO
 *
 * Evaluates the condition on work.main.t, prints "found", waits until a file GO exists, and commits under the
 * request key. By then others have committed, so the condition is evaluated again on what is new. Prints "done".
 * Exit code 0: done. 1: refused, words on stderr. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lake/work.h"

enum { LIFE_MAX_S = 600, WAIT_US = 500 };

static tide_status open_data(void *arg, tide_lake_data **out, tide_error *err)
{
    const tide_lake_data_options options = {.threads = 1};
    return tide_lake_data_open(out, tide_lake_data_dir(arg), &options, err);
}

static void say(const char *word)
{
    if (write(STDOUT_FILENO, word, strlen(word)) < 0)
        _exit(1);
}

static tide_status delete_rows(tide_lake *lake, char **argv, tide_error *err)
{
    const tide_lake_delete request = {.schema = "main", .table = "t", .condition = argv[3]};
    tide_lake_work work = {.lake = lake,
                           .open_data = open_data,
                           .arg = lake,
                           .holder = "lake-deleter",
                           .commit = {.request_key = argv[4]}};
    TIDE_TRY(tide_lake_work_begin(&work, "work", err));
    if (!work.is_answered) {
        TIDE_TRY(tide_lake_work_delete(&work, &request, err));
        say("found\n");
        while (access(argv[5], F_OK) != 0)
            (void)usleep(WAIT_US);
        TIDE_TRY(tide_lake_work_commit(&work, err));
    }
    tide_lake_work_done(&work);
    say("done\n");
    return TIDE_OK;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fprintf(stderr, "usage: lake-deleter URL STATE_DIR CONDITION KEY GO\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(LIFE_MAX_S); /* an orphan ends, too */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = argv[2]};
    tide_error err;
    tide_store *store = NULL;
    tide_lake *lake = NULL;
    if (tide_store_open(&store, argv[1], &options, &err) == TIDE_OK &&
        tide_lake_open(&lake, store, &err) == TIDE_OK && delete_rows(lake, argv, &err) == TIDE_OK)
        return 0;
    (void)fprintf(stderr, "lake-deleter: %s: %s\n", tide_status_get(err.status)->name, err.text);
    return 1;
}
