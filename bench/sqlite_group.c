/* sqlite_group.c - what sharing a commit is worth on SQLite.
 *
 * Every row is numbered and durable before its writer goes on. Contestants: tide_store_write with 1, 16
 * and 64 threads; SQLite alone with one commit per row, by one connection and by 16; SQLite alone
 * with 16 rows of one thread per commit, the most that sharing a commit by 16 could give if handing
 * rows over cost nothing; and write + fdatasync of bare bytes, the disk's own limit: the row alone,
 * and 16 rows at once, into a file that has its blocks already, as SQLite's log has.
 *
 * A disk that others use too is fast in one second and slow in the next: so a round is made of
 * several slices, in which every contestant has its turn. Each contestant keeps its file
 * throughout. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "raw_sqlite.h"
#include "support/store_fixture.h"
#include "sync_count.h"

enum {
    WRITERS = RAW_SQLITE_WRITERS,
    SLICES = 5,
    ROW_LEN = 64, /* about what one numbered row takes in the file */
    PLAIN_LEN = 4 << 20,
    BUSY_MS = 60000,
};

static const double seconds = 0.75; /* per contestant and round */

typedef enum kind {
    TIDE,
    RAW,
    DISK,
} kind;

typedef struct contestant {
    kind kind;
    int threads;
    int rows; /* per commit or sync */
    bench_series rate;
    bench_series rows_per_sync;
    /* Open. */
    tide_store *store;
    raw_sqlite *raw[WRITERS];
    int fd;
    off_t at;
    int64_t first_n; /* of this slice: names no row of an earlier one */
    double rate_sum; /* of this round's slices */
    double rows_sum;
    int64_t syncs_sum;
} contestant;

/* ---- one step ---- */

static void write_tide(void *context, int thread, int64_t n)
{
    const contestant *c = context;
    bench_write_numbered(c->store, thread, c->first_n + n);
}

/* The rows come from 16 writers, however many threads there are. */
static void write_raw(void *context, int thread, int64_t n)
{
    const contestant *c = context;
    const int writer = c->threads > 1 ? thread : (int)(n % WRITERS);
    if (!raw_sqlite_write(c->raw[thread], writer, c->first_n + n, c->rows))
        bench_die("database is locked");
}

static void write_disk(void *context, int thread, int64_t n)
{
    contestant *c = context;
    char bytes[ROW_LEN * WRITERS];
    const size_t len = (size_t)c->rows * ROW_LEN;
    (void)thread;
    memset(bytes, (int)(n & 0x7f), sizeof bytes);
    if (c->at + (off_t)len > PLAIN_LEN)
        c->at = 0;
    if (pwrite(c->fd, bytes, len, c->at) != (ssize_t)len || fdatasync(c->fd) != 0)
        bench_die("cannot write and sync a plain file");
    c->at += (off_t)len;
}

static bench_step_fn *const steps[] = {[TIDE] = write_tide, [RAW] = write_raw, [DISK] = write_disk};

/* ---- life of a contestant ---- */

static void open_disk(contestant *c, const char *path)
{
    c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char *blocks = calloc(1, PLAIN_LEN);
    if (c->fd < 0 || !blocks || pwrite(c->fd, blocks, PLAIN_LEN, 0) != PLAIN_LEN ||
        fsync(c->fd) != 0)
        bench_die("cannot prepare %s", path);
    free(blocks);
}

static void open_contestant(contestant *c, const tempdir *dir)
{
    char name[64];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(name, sizeof name, "%d-%d-%d.db", (int)c->kind, c->threads, c->rows);
    tempdir_join(dir, name, path);
    switch (c->kind) {
    case TIDE:
        c->store = bench_open_store(path, dir);
        store_test_add_tables(c->store);
        break;
    case RAW:
        for (int i = 0; i < c->threads; i++)
            c->raw[i] = raw_sqlite_open(path, BUSY_MS);
        break;
    case DISK:
        open_disk(c, path);
        break;
    }
}

static void close_contestant(contestant *c)
{
    tide_store_close(c->store);
    for (int i = 0; i < WRITERS; i++)
        raw_sqlite_close(c->raw[i]);
    if (c->kind == DISK)
        (void)close(c->fd);
}

static void run_slice(contestant *c, double length_s)
{
    c->first_n += INT64_C(1) << 32;
    const int64_t syncs = sync_count();
    const double rate = c->rows * bench_run(c->threads, length_s, steps[c->kind], c);
    c->syncs_sum += sync_count() - syncs;
    c->rate_sum += rate;
    c->rows_sum += rate * length_s;
}

static void end_round(contestant *c)
{
    bench_add(&c->rate, c->rate_sum / SLICES);
    bench_add(&c->rows_per_sync, c->rows_sum / (double)(c->syncs_sum ? c->syncs_sum : 1));
    c->rate_sum = 0;
    c->rows_sum = 0;
    c->syncs_sum = 0;
}

/* ---- the table ---- */

enum { TIDE_1, TIDE_16, TIDE_64, RAW_1, RAW_16, RAW_BULK, DISK_1, DISK_16, CONTESTANTS };

#define CONTESTANT(kind_, threads_, rows_, name_)                                                  \
    {                                                                                              \
        .kind = (kind_), .threads = (threads_), .rows = (rows_), .rate = {.name = (name_)},        \
        .rows_per_sync = {                                                                         \
            .name = (name_)                                                                        \
        }                                                                                          \
    }

static contestant all[CONTESTANTS] = {
    [TIDE_1] = CONTESTANT(TIDE, 1, 1, "tide_store_write, 1 thread"),
    [TIDE_16] = CONTESTANT(TIDE, 16, 1, "tide_store_write, 16 threads"),
    [TIDE_64] = CONTESTANT(TIDE, 64, 1, "tide_store_write, 64 threads"),
    [RAW_1] = CONTESTANT(RAW, 1, 1, "SQLite alone, a commit each, 1 connection"),
    [RAW_16] = CONTESTANT(RAW, WRITERS, 1, "SQLite alone, a commit each, 16 connections"),
    [RAW_BULK] = CONTESTANT(RAW, 1, WRITERS, "SQLite alone, 16 rows per commit, 1 connection"),
    [DISK_1] = CONTESTANT(DISK, 1, 1, "write + fdatasync, 1 row per sync"),
    [DISK_16] = CONTESTANT(DISK, 1, WRITERS, "write + fdatasync, 16 rows per sync"),
};

/* The better of two, round by round. */
static bench_series choose_better(const bench_series *a, const bench_series *b)
{
    bench_series better = {.name = "a commit each"};
    for (int i = 0; i < a->count; i++)
        bench_add(&better, a->values[i] > b->values[i] ? a->values[i] : b->values[i]);
    return better;
}

static void print_table(void)
{
    bench_print_heading("SQLite: numbered rows, each durable before its writer goes on", "rows/s");
    for (int i = 0; i < CONTESTANTS; i++)
        bench_print_series(&all[i].rate);
    bench_print_heading("Rows that shared a sync (checkpoints' syncs included)", "rows per sync");
    for (int i = 0; i < DISK_1; i++)
        bench_print_series(&all[i].rows_per_sync);

    (void)printf("\n");
    const bench_series *grouped = &all[TIDE_16].rate;
    const bench_series each = choose_better(&all[RAW_1].rate, &all[RAW_16].rate);
    bench_print_ratio("grouped, 16 threads / a commit each, the better of 1 and 16 connections",
                      grouped, &each, 10);
    bench_print_ratio("grouped, 16 threads / a commit each, 16 connections", grouped,
                      &all[RAW_16].rate, 0);
    bench_print_ratio("grouped, 16 threads / 16 rows per commit, nothing handed over", grouped,
                      &all[RAW_BULK].rate, 0);
    bench_print_ratio("grouped, 16 threads / write + fdatasync of 16 rows", grouped,
                      &all[DISK_16].rate, 0);
    bench_print_ratio("16 rows per commit, nothing handed over / a commit each",
                      &all[RAW_BULK].rate, &each, 0);
    bench_print_ratio("grouped, 64 threads / a commit each", &all[TIDE_64].rate, &each, 0);
    bench_print_ratio("grouped, 1 thread / a commit each", &all[TIDE_1].rate, &each, 0);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    for (int i = 0; i < CONTESTANTS; i++) {
        open_contestant(&all[i], &dir);
        run_slice(&all[i], options.seconds / SLICES); /* until files have their blocks */
        all[i].rate_sum = all[i].rows_sum = 0;
        all[i].syncs_sum = 0;
    }
    for (int round = 0; round < options.rounds; round++) {
        for (int slice = 0; slice < SLICES; slice++)
            for (int i = 0; i < CONTESTANTS; i++)
                run_slice(&all[(i * 3 + slice) % CONTESTANTS], options.seconds / SLICES);
        for (int i = 0; i < CONTESTANTS; i++)
            end_round(&all[i]);
    }
    for (int i = 0; i < CONTESTANTS; i++)
        close_contestant(&all[i]);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    print_table();
    return EXIT_SUCCESS;
}
