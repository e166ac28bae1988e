/* sqlite_group.c - what sharing a commit is worth on SQLite.
 *
 * Every row is numbered and durable before its writer goes on. Contestants: tide_write with 1, 16 and 64
 * threads; SQLite alone with one commit per row, by one connection and by 16; and write + fdatasync of bare
 * bytes, the disk's own limit: the row alone, and 16 rows at once, into a file that has its blocks already, as
 * SQLite's log has. Each stretch begins with an empty file. */
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
    THREADS = 16,
    ROW_LEN = 64, /* about what one numbered row takes in the file */
    PLAIN_LEN = 4 << 20,
};

static const double seconds = 0.8;

typedef struct figures {
    bench_series rate;
    bench_series rows_per_sync;
} figures;

/* ---- Tidemark ---- */

static void run_tide(figures *out, const tempdir *dir, int threads, double length_s)
{
    char path[TEMPDIR_PATH_MAX];
    char name[64];
    (void)snprintf(name, sizeof name, "tide-%d-%d.db", threads, out->rate.count);
    tempdir_join(dir, name, path);
    tide_store *store = bench_open_store(path, dir);
    store_test_add_tables(store);
    const int64_t syncs_before = sync_count();
    const double rate = bench_run(threads, length_s, bench_write_numbered, store);
    const int64_t syncs = sync_count() - syncs_before;
    int64_t rows = 0;
    int64_t highest = 0;
    count_numbered(store, &rows, &highest);
    tide_store_close(store);
    bench_add(&out->rate, rate);
    bench_add(&out->rows_per_sync, (double)rows / (double)(syncs ? syncs : 1));
}

/* ---- SQLite alone ---- */

typedef struct raw_writers {
    raw_sqlite *connections[THREADS];
} raw_writers;

static void write_raw(void *context, int thread, int64_t n)
{
    raw_writers *writers = context;
    char writer[32];
    (void)snprintf(writer, sizeof writer, "writer-%02d", thread);
    raw_sqlite_write(writers->connections[thread], writer, n, 1);
}

static void run_raw(bench_series *out, const tempdir *dir, int threads, double length_s)
{
    char path[TEMPDIR_PATH_MAX];
    char name[64];
    (void)snprintf(name, sizeof name, "raw-%d-%d.db", threads, out->count);
    tempdir_join(dir, name, path);
    raw_writers writers = {0};
    for (int i = 0; i < threads; i++)
        writers.connections[i] = raw_sqlite_open(path);
    bench_add(out, bench_run(threads, length_s, write_raw, &writers));
    for (int i = 0; i < threads; i++)
        raw_sqlite_close(writers.connections[i]);
}

/* ---- the disk ---- */

typedef struct plain_file {
    int fd;
    size_t len; /* bytes per sync */
    off_t at;
} plain_file;

static void write_plain(void *context, int thread, int64_t n)
{
    plain_file *file = context;
    char bytes[ROW_LEN * THREADS];
    (void)thread;
    memset(bytes, (int)(n & 0x7f), sizeof bytes);
    if (file->at + (off_t)file->len > PLAIN_LEN)
        file->at = 0;
    if (pwrite(file->fd, bytes, file->len, file->at) != (ssize_t)file->len ||
        fdatasync(file->fd) != 0)
        bench_die("cannot write and sync a plain file");
    file->at += (off_t)file->len;
}

static void run_plain(bench_series *out, const tempdir *dir, int rows, double length_s)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "plain", path);
    plain_file file = {.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
                       .len = (size_t)rows * ROW_LEN};
    char *blocks = calloc(1, PLAIN_LEN);
    if (file.fd < 0 || !blocks || pwrite(file.fd, blocks, PLAIN_LEN, 0) != PLAIN_LEN ||
        fsync(file.fd) != 0)
        bench_die("cannot prepare %s", path);
    free(blocks);
    bench_add(out, rows * bench_run(1, length_s, write_plain, &file));
    (void)close(file.fd);
}

/* ---- the table ---- */

/* The better of two, round by round. */
static bench_series choose_better(const bench_series *a, const bench_series *b, const char *name)
{
    bench_series better = {.name = name};
    for (int i = 0; i < a->count; i++)
        bench_add(&better, a->values[i] > b->values[i] ? a->values[i] : b->values[i]);
    return better;
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");

    figures tide_1 = {{.name = "tide_write, 1 thread"}, {.name = "tide_write, 1 thread"}};
    figures tide_16 = {{.name = "tide_write, 16 threads"}, {.name = "tide_write, 16 threads"}};
    figures tide_64 = {{.name = "tide_write, 64 threads"}, {.name = "tide_write, 64 threads"}};
    bench_series raw_1 = {.name = "SQLite alone, a commit each, 1 connection"};
    bench_series raw_16 = {.name = "SQLite alone, a commit each, 16 connections"};
    bench_series disk_1 = {.name = "write + fdatasync, 1 row per sync"};
    bench_series disk_16 = {.name = "write + fdatasync, 16 rows per sync"};
    for (int round = 0; round < options.rounds; round++) {
        run_plain(&disk_1, &dir, 1, options.seconds / 2);
        run_raw(&raw_1, &dir, 1, options.seconds);
        run_tide(&tide_16, &dir, THREADS, options.seconds);
        run_raw(&raw_16, &dir, THREADS, options.seconds);
        run_plain(&disk_16, &dir, THREADS, options.seconds / 2);
        run_tide(&tide_1, &dir, 1, options.seconds);
        run_tide(&tide_64, &dir, 64, options.seconds);
    }
    TIDE_IGNORE(tempdir_remove(&dir, &err));

    bench_print_heading("SQLite: numbered rows, each durable before its writer goes on", "rows/s");
    bench_print_series(&tide_1.rate);
    bench_print_series(&tide_16.rate);
    bench_print_series(&tide_64.rate);
    bench_print_series(&raw_1);
    bench_print_series(&raw_16);
    bench_print_series(&disk_1);
    bench_print_series(&disk_16);
    bench_print_heading("Rows that shared a sync (checkpoints' syncs included)", "rows per sync");
    bench_print_series(&tide_1.rows_per_sync);
    bench_print_series(&tide_16.rows_per_sync);
    bench_print_series(&tide_64.rows_per_sync);

    (void)printf("\n");
    const bench_series raw = choose_better(&raw_1, &raw_16, "a commit each");
    bench_print_ratio("grouped, 16 threads / a commit each", &tide_16.rate, &raw, 10);
    bench_print_ratio("grouped, 64 threads / a commit each", &tide_64.rate, &raw, 0);
    bench_print_ratio("grouped, 1 thread / a commit each", &tide_1.rate, &raw, 0);
    bench_print_ratio("grouped, 16 threads / write + fdatasync of 16 rows", &tide_16.rate, &disk_16,
                      0);
    return EXIT_SUCCESS;
}
