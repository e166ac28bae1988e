/* replica_capture.c - what capture costs the application: writes to a tracked table beside the same writes to an untracked one.
 *
 * One connection, plain SQLite, WAL; a table with an INTEGER PRIMARY KEY, and one with a text for its key, whose rows have a rowid besides. Inserts of 1 and of 1,000 rows per transaction, and updates, with synchronous NORMAL and FULL. Folding what was
 * captured is the daemon's work, in another process: it is done between the stretches and timed by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "replica_load.h"

typedef struct side {
    sqlite3 *db;
    replica_load_writer insert;
    replica_load_writer update;
    tide_node *node; /* NULL: untracked */
    int64_t next;
    int64_t written;
    int64_t rows; /* per transaction */
    bool is_update;
} side;

#define NUMBERED                                                                                   \
    "CREATE TABLE items(id INTEGER PRIMARY KEY, title TEXT, body TEXT, n INTEGER, price REAL)"
#define NUMBERED_INSERT                                                                            \
    "INSERT INTO items VALUES(?1, 'title ' || ?1, 'a body of some words, and a number: ' || (?1 "  \
    "* "                                                                                           \
    "7919 % 100003), ?1, ?1 * 0.5)"
#define NUMBERED_UPDATE "UPDATE items SET n = n + 1, title = 'changed ' || ?1 WHERE id = ?1"

static void open_side(side *s, const tempdir *dir, const char *name, const char *synchronous,
                      bool is_numbered, bool is_tracked)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, name, path);
    s->db = replica_load_open(path, synchronous);
    if (is_numbered)
        replica_load_run(s->db, "DROP TABLE items; " NUMBERED);
    s->next = 0;
    if (is_tracked)
        s->node = replica_load_node(path, true);
    replica_load_writer_init(&s->insert, s->db,
                             is_numbered ? NUMBERED_INSERT : REPLICA_LOAD_INSERT);
    replica_load_writer_init(&s->update, s->db,
                             is_numbered ? NUMBERED_UPDATE : REPLICA_LOAD_UPDATE);
    replica_load_write(&s->insert, 0, 20000);
    s->next = 20000;
}

static void close_side(side *s)
{
    replica_load_writer_done(&s->insert);
    replica_load_writer_done(&s->update);
    (void)sqlite3_close(s->db);
    tide_node_close(s->node);
}

static void step(void *context, int thread, int64_t n)
{
    side *s = context;
    (void)thread;
    s->written += s->rows;
    if (s->is_update) {
        replica_load_write(&s->update, (n * s->rows * 7) % (20000 - s->rows), s->rows);
        return;
    }
    replica_load_write(&s->insert, s->next, s->rows);
    s->next += s->rows;
}

/* Rows per second of one stretch; and per second of processor time, which neighbours on the machine do not change. */
static void run_side(side *s, double seconds, bench_series *rate, bench_series *work)
{
    const int64_t before = s->written;
    const clock_t begin = clock();
    bench_add(rate, bench_run(1, seconds, step, s) * (double)s->rows);
    const double used = (double)(clock() - begin + 1) / CLOCKS_PER_SEC;
    bench_add(work, (double)(s->written - before) / used);
}

static void compare(side *tracked, side *plain, const char *key, const char *synchronous,
                    int64_t rows, bool is_update, const bench_options *options)
{
    bench_series ours = {.name = "tracked"};
    bench_series theirs = {.name = "untracked"};
    bench_series our_work = {.name = "tracked, per second of processor time"};
    bench_series their_work = {.name = "untracked, per second of processor time"};
    bench_series folds = {.name = "changes that are folded per second"};
    char title[128];
    tracked->rows = plain->rows = rows;
    tracked->is_update = plain->is_update = is_update;
    /* What is captured in a second by a thousand is folded in ten: half the time is enough for some twenty transactions. */
    const double seconds = rows > 1 ? options->seconds / 2 : options->seconds;
    for (int round = 0; round < options->rounds; round++) {
        run_side(plain, seconds, &theirs, &their_work);
        const int64_t before = replica_load_prefix(tracked->node);
        run_side(tracked, seconds, &ours, &our_work);
        const int64_t begin_us = bench_now_us();
        replica_load_fold(tracked->node);
        const int64_t folded = replica_load_prefix(tracked->node) - before;
        bench_add(&folds, (double)folded * 1e6 / (double)(bench_now_us() - begin_us + 1));
    }
    (void)snprintf(title, sizeof title, "%s: %s, %lld per transaction, synchronous = %s", key,
                   is_update ? "updates" : "inserts", (long long)rows, synchronous);
    bench_print_heading(title, "rows/s");
    bench_print_series(&ours);
    bench_print_series(&theirs);
    bench_print_series(&our_work);
    bench_print_series(&their_work);
    bench_print_series(&folds);
    (void)printf("\n");
    bench_print_ratio("tracked / untracked", &ours, &theirs, 0.4);
    bench_print_ratio("the same, by processor time", &our_work, &their_work, 0.4);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 0.3);
    static const char *const modes[] = {"NORMAL", "FULL"};
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)setenv("TIDEMARK_STATE_DIR", dir.path, 1);
    for (int run = 0; run < 4; run++) {
        const char *mode = modes[run % 2];
        const char *key = run < 2 ? "INTEGER PRIMARY KEY" : "TEXT PRIMARY KEY";
        char names[2][32];
        side tracked = {.db = NULL};
        side plain = {.db = NULL};
        (void)snprintf(names[0], sizeof names[0], "tracked%d.db", run);
        (void)snprintf(names[1], sizeof names[1], "plain%d.db", run);
        open_side(&tracked, &dir, names[0], mode, run < 2, true);
        open_side(&plain, &dir, names[1], mode, run < 2, false);
        for (int64_t rows = 1; rows <= 1000; rows *= 1000)
            for (int is_update = 0; is_update < 2; is_update++)
                compare(&tracked, &plain, key, mode, rows, is_update != 0, &options);
        close_side(&tracked);
        close_side(&plain);
    }
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
