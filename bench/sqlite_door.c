/* sqlite_door.c - how long do other processes wait for a busy writer of the same SQLite file?
 *
 * One process writes as fast as it can; another makes single durable writes, with a short pause
 * after each, and notes how long each took. With the door both are Tidemark stores, the busy one
 * with 16 threads. Without it both are SQLite alone with a busy timeout, and the busy one commits
 * groups of 16 rows, which is what a busy store does, less the door. A store with nobody beside it
 * shows what a write costs anyway.
 *
 * The program starts itself again for each of these processes:
 *
 *     busy KIND PATH DIR             prints "ready", writes until its stdin ends, prints rows/s
 *     probe KIND PATH DIR SECONDS    prints writes, given up, p50, p99, max in microseconds */
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "raw_sqlite.h"
#include "support/process/proc.h"
#include "support/store_fixture.h"

enum {
    THREADS = 16,
    PAUSE_US = 2000,      /* of the probe, so that it is not a second busy writer */
    BUSY_MS = 60000,      /* of the busy process */
    PROBE_BUSY_MS = 2000, /* of the probe, which then gives up: "database is locked" */
    DEADLINE_MS = 120000,
};

static const double seconds = 2.5;

/* ---- the processes ---- */

/* One connection of either kind. */
typedef struct writer {
    tide_store *store;
    raw_sqlite *raw;
    atomic_bool is_over;
} writer;

static void open_writer(writer *w, const char *kind, const char *path, const char *dir_path,
                        int busy_ms)
{
    tempdir dir;
    (void)snprintf(dir.path, sizeof dir.path, "%s", dir_path);
    *w = (writer){0};
    if (strcmp(kind, "door") == 0)
        w->store = bench_open_store(path, &dir);
    else
        w->raw = raw_sqlite_open(path, busy_ms);
}

static void close_writer(writer *w)
{
    tide_store_close(w->store);
    raw_sqlite_close(w->raw);
}

static void *wait_for_end(void *arg)
{
    writer *w = arg;
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    atomic_store(&w->is_over, true);
    return NULL;
}

typedef struct busy_thread {
    writer *writer;
    int index;
    int64_t rows;
    pthread_t id;
} busy_thread;

static void *write_busily(void *arg)
{
    busy_thread *self = arg;
    writer *w = self->writer;
    while (!atomic_load_explicit(&w->is_over, memory_order_relaxed)) {
        if (w->store) {
            bench_write_numbered(w->store, self->index, ++self->rows);
        } else {
            if (!raw_sqlite_write(w->raw, 0, self->rows + 1, THREADS))
                bench_die("the busy process found the database locked");
            self->rows += THREADS;
        }
    }
    return NULL;
}

static int run_busy(writer *w)
{
    const int threads = w->store ? THREADS : 1;
    busy_thread busy[THREADS];
    pthread_t end;
    (void)printf("ready\n");
    (void)fflush(stdout);
    const int64_t started_us = bench_now_us();
    if (pthread_create(&end, NULL, wait_for_end, w) != 0)
        bench_die("cannot start a thread");
    for (int i = 0; i < threads; i++) {
        busy[i] = (busy_thread){.writer = w, .index = i};
        if (pthread_create(&busy[i].id, NULL, write_busily, &busy[i]) != 0)
            bench_die("cannot start a thread");
    }
    int64_t rows = 0;
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(busy[i].id, NULL);
        rows += busy[i].rows;
    }
    (void)pthread_join(end, NULL);
    (void)printf("%.0f\n", (double)rows * 1e6 / (double)(bench_now_us() - started_us));
    return EXIT_SUCCESS;
}

static int run_probe(writer *w, double length_s)
{
    bench_latencies latencies = {0};
    int given_up = 0;
    const int64_t until_us = bench_now_us() + (int64_t)(length_s * 1e6);
    const struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
    for (int64_t n = 1; bench_now_us() < until_us; n++) {
        const int64_t started_us = bench_now_us();
        if (w->store)
            bench_write_numbered(w->store, BENCH_THREADS_MAX, n);
        else if (!raw_sqlite_write(w->raw, 0, -n, 1))
            given_up++;
        bench_latencies_add(&latencies, bench_now_us() - started_us);
        (void)nanosleep(&pause, NULL);
    }
    (void)printf("%d %d %lld %lld %lld\n", latencies.count, given_up,
                 (long long)bench_latencies_at(&latencies, 0.5),
                 (long long)bench_latencies_at(&latencies, 0.99),
                 (long long)bench_latencies_at(&latencies, 1));
    bench_latencies_done(&latencies);
    return EXIT_SUCCESS;
}

static int run_child(int argc, char **argv)
{
    writer w;
    const bool is_busy = strcmp(argv[1], "busy") == 0;
    open_writer(&w, argv[2], argv[3], argv[4], is_busy ? BUSY_MS : PROBE_BUSY_MS);
    const int code = is_busy ? run_busy(&w) : run_probe(&w, argc > 5 ? strtod(argv[5], NULL) : 1);
    close_writer(&w);
    return code;
}

/* ---- the referee ---- */

typedef struct contestant {
    const char *kind; /* door, raw */
    bool has_busy;
    bench_series p50;
    bench_series p99;
    bench_series max;
    bench_series busy_rate;
    int64_t writes;
    int64_t given_up;
} contestant;

static void read_line(int fd, char *out, size_t size)
{
    size_t len = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (len + 1 < size) {
        if (poll(&ready, 1, DEADLINE_MS) != 1 || read(fd, out + len, 1) != 1)
            bench_die("a child process said nothing");
        if (out[len] == '\n')
            break;
        len++;
    }
    out[len] = '\0';
}

static void start_child(proc *child, const char *role, const char *kind, const char *path,
                        const char *dir, double length_s)
{
    char self[PATH_MAX];
    char length[32];
    proc_self_path(self);
    (void)snprintf(length, sizeof length, "%f", length_s);
    const char *const argv[] = {self, role, kind, path, dir, length, NULL};
    const proc_options options = {.argv = argv, .in = PROC_PIPE, .out = PROC_PIPE};
    tide_error err;
    bench_must(proc_start(child, &options, &err), &err, self);
}

static void end_child(proc *child)
{
    tide_error err;
    bench_must(proc_wait(child, DEADLINE_MS, &err), &err, "a child process");
    if (child->exit_code != EXIT_SUCCESS)
        bench_die("a child process failed");
    proc_done(child);
}

static void make_file(const contestant *c, const char *path, const tempdir *dir)
{
    if (strcmp(c->kind, "door") != 0) {
        raw_sqlite_close(raw_sqlite_open(path, BUSY_MS));
        return;
    }
    tide_store *store = bench_open_store(path, dir);
    store_test_add_tables(store);
    tide_store_close(store);
}

/* The next of the numbers that a probe printed. */
static long long read_number(char **at)
{
    char *end = NULL;
    const long long number = strtoll(*at, &end, 10);
    if (end == *at)
        bench_die("a probe said: %s", *at);
    *at = end;
    return number;
}

static void run_probe_beside(contestant *c, const char *path, const tempdir *dir, double length_s)
{
    proc probe;
    start_child(&probe, "probe", c->kind, path, dir->path, length_s);
    char line[128];
    read_line(probe.out_fd, line, sizeof line);
    char *at = line;
    const long long writes = read_number(&at);
    const long long given_up = read_number(&at);
    const long long p50 = read_number(&at);
    const long long p99 = read_number(&at);
    const long long max = read_number(&at);
    end_child(&probe);
    c->writes += writes;
    c->given_up += given_up;
    bench_add(&c->p50, (double)p50 / 1000);
    bench_add(&c->p99, (double)p99 / 1000);
    bench_add(&c->max, (double)max / 1000);
}

static void measure(contestant *c, const tempdir *dir, double length_s)
{
    char name[64];
    char path[TEMPDIR_PATH_MAX];
    char line[128];
    (void)snprintf(name, sizeof name, "%s-%d-%d.db", c->kind, c->has_busy, c->p50.count);
    tempdir_join(dir, name, path);
    make_file(c, path, dir);
    if (!c->has_busy) {
        run_probe_beside(c, path, dir, length_s);
        return;
    }
    proc busy;
    start_child(&busy, "busy", c->kind, path, dir->path, 0);
    read_line(busy.out_fd, line, sizeof line);
    run_probe_beside(c, path, dir, length_s);
    (void)close(busy.in_fd);
    busy.in_fd = -1;
    read_line(busy.out_fd, line, sizeof line);
    bench_add(&c->busy_rate, strtod(line, NULL));
    end_child(&busy);
}

static void print_contestant(const char *title, const contestant *c)
{
    char heading[160];
    (void)snprintf(heading, sizeof heading, "%s (%lld writes, %lld given up)", title,
                   (long long)c->writes, (long long)c->given_up);
    bench_print_heading(heading, "milliseconds per write");
    bench_print_series(&c->p50);
    bench_print_series(&c->p99);
    bench_print_series(&c->max);
    if (c->has_busy)
        bench_print_series(&c->busy_rate);
}

#define CONTESTANT(kind_, has_busy_)                                                               \
    {                                                                                              \
        .kind = (kind_), .has_busy = (has_busy_), .p50 = {.name = "p50"}, .p99 = {.name = "p99"},  \
        .max = {.name = "max"}, .busy_rate = {                                                     \
            .name = "the busy process meanwhile, rows/s"                                           \
        }                                                                                          \
    }

int main(int argc, char **argv)
{
    if (argc > 4)
        return run_child(argc, argv);
    const bench_options options = bench_read_options(argc, argv, seconds);
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    contestant alone = CONTESTANT("door", false);
    contestant door = CONTESTANT("door", true);
    contestant none = CONTESTANT("raw", true);
    for (int round = 0; round < options.rounds; round++) {
        measure(&door, &dir, options.seconds);
        measure(&none, &dir, options.seconds);
        measure(&alone, &dir, options.seconds / 4);
    }
    TIDE_IGNORE(tempdir_remove(&dir, &err));

    (void)printf("\nSingle durable writes of one process beside another on the same SQLite file\n");
    print_contestant("a store, nobody beside it", &alone);
    print_contestant("a store beside a busy store: with the door", &door);
    print_contestant("SQLite alone beside busy SQLite: without the door", &none);
    (void)printf("\n");
    bench_print_ratio("p50 without the door / with it", &none.p50, &door.p50, 0);
    bench_print_ratio("p99 without the door / with it", &none.p99, &door.p99, 0);
    bench_print_ratio("max without the door / with it", &none.max, &door.max, 0);
    bench_print_ratio("p50 beside a busy store / alone", &door.p50, &alone.p50, 0);
    return EXIT_SUCCESS;
}
