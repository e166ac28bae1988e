/* lake_writer - a process that commits to a catalog, to be killed.
 *
 *     lake-writer URL STATE_DIR HISTORY CYCLE CHILD
 *
 * Appends files to work.main.t, each commit under a key of its own, writes them to the file HISTORY (tests/check/catalog.py), and prints "ack SNAPSHOT FILE" for each, in one write(2). Now and then it creates and
 * drops a table. Ends when somebody kills it, when nobody reads its lines any more, or with exit code 1 and words on stderr when a commit fails. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/change.h"
#include "support/history.h"

enum { LIFE_MAX_S = 3600 };

static int history; /* descriptor */

static tide_status append(tide_lake *lake, const char *name, int64_t *snapshot, tide_error *err)
{
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    char path[80];
    (void)snprintf(path, sizeof path, "%s.parquet", name);
    const tide_lake_new_file file = {.path = path, .record_count = 1, .file_size_bytes = 1};
    const tide_lake_commit_options options = {.request_key = name};
    tide_lake_committed done;
    history_line line;
    history_begin(&line, name, "commit");
    history_text(&line, "catalog", "work");
    history_text(&line, "key", name);
    history_announce(&line, history);
    TIDE_TRY(tide_lake_begin(&change, lake, "work", 0, err));
    TIDE_TRY(tide_lake_change_table(change, "main", "t", &seen, err));
    TIDE_TRY(tide_lake_add_file(change, seen.table.id, &file, err));
    TIDE_TRY(tide_lake_commit(change, &options, &done, err));
    history_number(&line, "snapshot", done.snapshot_id);
    history_end(&line, history, HISTORY_OK);
    *snapshot = done.snapshot_id;
    return TIDE_OK;
}

static tide_status come_and_go(tide_lake *lake, const char *name, tide_error *err)
{
    static const tide_lake_column_def column = {.name = "a", .type = "int64"};
    tide_lake_committed done;
    for (int i = 0; i < 2; i++) {
        TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
        TIDE_TRY(tide_lake_begin(&change, lake, "work", 0, err));
        TIDE_TRY(i == 0 ? tide_lake_create_table(change, "main", name, &column, 1, err)
                        : tide_lake_drop_table(change, "main", name, err));
        TIDE_TRY(tide_lake_commit(change, NULL, &done, err));
    }
    return TIDE_OK;
}

static tide_status work(tide_lake *lake, const char *cycle, const char *child, tide_error *err)
{
    for (int i = 0;; i++) {
        char name[64];
        char line[128];
        int64_t snapshot = 0;
        (void)snprintf(name, sizeof name, "%s-%s-%d", cycle, child, i);
        TIDE_TRY(append(lake, name, &snapshot, err));
        const int len = snprintf(line, sizeof line, "ack %" PRId64 " %s\n", snapshot, name);
        if (write(STDOUT_FILENO, line, (size_t)len) != len)
            _exit(errno == EPIPE ? 0 : 1);
        if (i % 8 == 7)
            TIDE_TRY(come_and_go(lake, name, err));
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fprintf(stderr, "usage: lake-writer URL STATE_DIR HISTORY CYCLE CHILD\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(LIFE_MAX_S); /* an orphan ends, too */
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = argv[2]};
    tide_error err;
    tide_store *store = NULL;
    tide_lake *lake = NULL;
    history = history_open(argv[3]);
    if (tide_store_open(&store, argv[1], &options, &err) < TIDE_OK ||
        tide_lake_open(&lake, store, &err) < TIDE_OK ||
        work(lake, argv[4], argv[5], &err) < TIDE_OK)
        (void)fprintf(stderr, "lake-writer: %s: %s\n", tide_status_get(err.status)->name, err.text);
    return 1;
}
