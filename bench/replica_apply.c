/* replica_apply.c - applying changes: events beside the session extension's changesets of the same changes.
 *
 * 20,000 rows are inserted and 20,000 updated, 1,000 per transaction. A session records them at one database, capture at another. Then both are applied to
 * fresh databases with the same settings, 5,000 changes per transaction: as pages of events (decoded, checked, merged by stamps, clocks and log written), and
 * by sqlite3changeset_apply, which writes the rows and nothing else. */
#define SQLITE_ENABLE_SESSION 1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replica_load.h"

enum { ROWS = 20000, BATCH = 1000, PAGE = 5000 };

/* ---- the session extension ---- */

typedef struct changesets {
    void *bytes[2 * ROWS / PAGE];
    int len[2 * ROWS / PAGE];
    int count;
    int64_t total;
} changesets;

static sqlite3_session *begin_session(sqlite3 *db)
{
    sqlite3_session *session = NULL;
    if (sqlite3session_create(db, "main", &session) != SQLITE_OK ||
        sqlite3session_attach(session, "items") != SQLITE_OK)
        bench_die("no session: %s", sqlite3_errmsg(db));
    return session;
}

static void record(changesets *out, const tempdir *dir)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "recorded.db", path);
    sqlite3 *db = replica_load_open(path, "OFF");
    replica_load_writer writers[2];
    replica_load_writer_init(&writers[0], db, REPLICA_LOAD_INSERT);
    replica_load_writer_init(&writers[1], db, REPLICA_LOAD_UPDATE);
    for (int kind = 0; kind < 2; kind++)
        for (int first = 0; first < ROWS; first += PAGE) {
            sqlite3_session *session = begin_session(db);
            for (int i = 0; i < PAGE; i += BATCH)
                replica_load_write(&writers[kind], first + i, BATCH);
            if (sqlite3session_changeset(session, &out->len[out->count], &out->bytes[out->count]) !=
                SQLITE_OK)
                bench_die("no changeset");
            out->total += out->len[out->count++];
            sqlite3session_delete(session);
        }
    replica_load_writer_done(&writers[0]);
    replica_load_writer_done(&writers[1]);
    (void)sqlite3_close(db);
}

static int on_conflict(void *context, int kind, sqlite3_changeset_iter *at)
{
    (void)context;
    (void)kind;
    (void)at;
    return SQLITE_CHANGESET_ABORT;
}

static double apply_changesets(const changesets *sets, const tempdir *dir, int round,
                               bench_series *work)
{
    char name[64];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(name, sizeof name, "changeset%d.db", round);
    tempdir_join(dir, name, path);
    sqlite3 *db = replica_load_open(path, "FULL");
    const clock_t begin = clock();
    const int64_t begin_us = bench_now_us();
    for (int i = 0; i < sets->count; i++)
        if (sqlite3changeset_apply(db, sets->len[i], sets->bytes[i], NULL, on_conflict, NULL) !=
            SQLITE_OK)
            bench_die("a changeset: %s", sqlite3_errmsg(db));
    const int64_t took_us = bench_now_us() - begin_us;
    bench_add(work, 2.0 * ROWS * CLOCKS_PER_SEC / (double)(clock() - begin + 1));
    (void)sqlite3_close(db);
    return 2.0 * ROWS * 1e6 / (double)took_us;
}

/* ---- events ---- */

static void capture(replica_load_log *out, const tempdir *dir)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "captured.db", path);
    sqlite3 *db = replica_load_open(path, "OFF");
    tide_node *node = replica_load_node(path, true);
    replica_load_writer writers[2];
    replica_load_writer_init(&writers[0], db, REPLICA_LOAD_INSERT);
    replica_load_writer_init(&writers[1], db, REPLICA_LOAD_UPDATE);
    for (int kind = 0; kind < 2; kind++)
        for (int first = 0; first < ROWS; first += PAGE) {
            for (int i = 0; i < PAGE; i += BATCH)
                replica_load_write(&writers[kind], first + i, BATCH);
            replica_load_fold(node);
        }
    replica_load_read(out, node, 0);
    replica_load_writer_done(&writers[0]);
    replica_load_writer_done(&writers[1]);
    (void)sqlite3_close(db);
    tide_node_close(node);
}

static double apply_events(const replica_load_log *log, const tempdir *dir, int round,
                           bench_series *work)
{
    char name[64];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(name, sizeof name, "events%d.db", round);
    tempdir_join(dir, name, path);
    sqlite3 *db = replica_load_open(path, "FULL");
    tide_node *node = replica_load_node(path, true);
    const clock_t begin = clock();
    const int64_t begin_us = bench_now_us();
    const int64_t events = replica_load_apply(node, log);
    const int64_t took_us = bench_now_us() - begin_us;
    bench_add(work, 2.0 * ROWS * CLOCKS_PER_SEC / (double)(clock() - begin + 1));
    if (events != 2 * ROWS)
        bench_die("%lld events of %d were applied", (long long)events, 2 * ROWS);
    tide_node_close(node);
    (void)sqlite3_close(db);
    return 2.0 * ROWS * 1e6 / (double)took_us;
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    changesets sets = {.count = 0};
    replica_load_log log;
    bench_series ours = {.name = "events: log, clocks, merge and rows"};
    bench_series theirs = {.name = "sqlite3changeset_apply: rows"};
    bench_series our_work = {.name = "events, per second of processor time"};
    bench_series their_work = {.name = "changesets, per second of processor time"};
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)setenv("TIDEMARK_STATE_DIR", dir.path, 1);
    record(&sets, &dir);
    capture(&log, &dir);
    for (int round = 0; round < options.rounds; round++) {
        bench_add(&theirs, apply_changesets(&sets, &dir, round, &their_work));
        bench_add(&ours, apply_events(&log, &dir, round, &our_work));
    }
    bench_print_heading("applying 20,000 inserts and 20,000 updates, 5,000 per transaction",
                        "changes/s");
    bench_print_series(&ours);
    bench_print_series(&theirs);
    bench_print_series(&our_work);
    bench_print_series(&their_work);
    (void)printf("\nbytes per change: events %.0f, changesets %.0f\n",
                 (double)log.bytes / (double)log.events, (double)sets.total / (2.0 * ROWS));
    bench_print_ratio("events / changesets", &ours, &theirs, 0.5);
    bench_print_ratio("the same, by processor time", &our_work, &their_work, 0.5);
    for (int i = 0; i < sets.count; i++)
        sqlite3_free(sets.bytes[i]);
    replica_load_log_done(&log);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
