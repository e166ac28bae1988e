#include "bench.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/history.h"
#include "support/store_fixture.h"

#include "base/cleanup.h"

/* ---- failing ---- */

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fflush(stdout);
    (void)vfprintf(stderr, format, args); /* NOLINT(clang-analyzer-valist.Uninitialized): it is */
    (void)fputc('\n', stderr);
    va_end(args);
    exit(EXIT_FAILURE);
}

void bench_must(tide_status status, const tide_error *err, const char *what)
{
    if (status < TIDE_OK)
        bench_die("%s: %s", what, err->text);
}

void *bench_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        bench_die("no memory for %zu bytes", size);
    return memory;
}

/* ---- options and figures ---- */

bench_options bench_read_options(int argc, char **argv, double seconds)
{
    bench_options options = {.seconds = seconds, .rounds = BENCH_ROUNDS};
    const char *wish = getenv("TIDEMARK_BENCH_SECONDS");
    if (wish && *wish) {
        char *end = NULL;
        options.seconds = strtod(wish, &end);
        if (*end || !(options.seconds > 0 && options.seconds <= 3600))
            bench_die("TIDEMARK_BENCH_SECONDS=%s: want seconds per stretch, more than 0", wish);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") != 0)
            bench_die("usage: %s [--quick]", argv[0]);
        options.seconds = seconds / 10;
    }
    return options;
}

void bench_add(bench_series *series, double value)
{
    if (series->count == BENCH_ROUNDS)
        bench_die("%s: more than %d rounds", series->name, BENCH_ROUNDS);
    series->values[series->count++] = value;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static bench_series sort_series(const bench_series *series)
{
    bench_series sorted = *series;
    qsort(sorted.values, (size_t)sorted.count, sizeof sorted.values[0], compare_doubles);
    return sorted;
}

double bench_median(const bench_series *series)
{
    if (series->count == 0)
        return 0;
    const bench_series sorted = sort_series(series);
    const int middle = sorted.count / 2;
    return sorted.count % 2 ? sorted.values[middle]
                            : (sorted.values[middle - 1] + sorted.values[middle]) / 2;
}

double bench_lowest(const bench_series *series)
{
    return series->count ? sort_series(series).values[0] : 0;
}

double bench_highest(const bench_series *series)
{
    return series->count ? sort_series(series).values[series->count - 1] : 0;
}

void bench_print_heading(const char *title, const char *unit)
{
    (void)printf("\n%s\n  %-58s %10s %10s %10s\n", title, unit, "median", "lowest", "highest");
}

static int choose_decimals(double value)
{
    return value < 10 ? 2 : value < 100 ? 1 : 0;
}

void bench_print_series(const bench_series *series)
{
    const int decimals = choose_decimals(bench_lowest(series));
    (void)printf("  %-58s %10.*f %10.*f %10.*f\n", series->name, decimals, bench_median(series),
                 decimals, bench_lowest(series), decimals, bench_highest(series));
}

void bench_print_ratio(const char *name, const bench_series *ours, const bench_series *theirs,
                       double expected)
{
    bench_series ratios = {.name = name};
    for (int i = 0; i < ours->count && i < theirs->count; i++)
        if (theirs->values[i] > 0)
            bench_add(&ratios, ours->values[i] / theirs->values[i]);
    const double median = bench_median(&ratios);
    (void)printf("ratio %s: %.2f (%.2f..%.2f)", name, median, bench_lowest(&ratios),
                 bench_highest(&ratios));
    if (expected > 0)
        (void)printf(" (expected >= %.3g): %s", expected, median >= expected ? "met" : "not met");
    (void)printf("\n");
}

/* ---- threads ---- */

int64_t bench_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

typedef struct stretch {
    bench_step_fn *step;
    void *context;
    pthread_barrier_t start;
    atomic_bool is_over;
} stretch;

typedef struct runner {
    stretch *stretch;
    int thread;
    _Atomic int64_t finished;
    pthread_t id;
} runner;

static void *run_steps(void *arg)
{
    runner *self = arg;
    stretch *run = self->stretch;
    (void)pthread_barrier_wait(&run->start);
    for (int64_t n = 1; !atomic_load_explicit(&run->is_over, memory_order_relaxed); n++) {
        run->step(run->context, self->thread, n);
        atomic_store_explicit(&self->finished, n, memory_order_relaxed);
    }
    return NULL;
}

double bench_run(int threads, double seconds, bench_step_fn *step, void *context)
{
    static runner runners[BENCH_THREADS_MAX];
    if (threads < 1 || threads > BENCH_THREADS_MAX)
        bench_die("%d threads, want 1 to %d", threads, BENCH_THREADS_MAX);
    stretch run = {.step = step, .context = context};
    (void)pthread_barrier_init(&run.start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        runners[i].stretch = &run;
        runners[i].thread = i;
        atomic_store(&runners[i].finished, 0);
        if (pthread_create(&runners[i].id, NULL, run_steps, &runners[i]) != 0)
            bench_die("cannot start thread %d", i + 1);
    }
    (void)pthread_barrier_wait(&run.start);
    const int64_t started_us = bench_now_us();
    const struct timespec length = {.tv_sec = (time_t)seconds,
                                    .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&length, NULL);
    const int64_t took_us = bench_now_us() - started_us;
    int64_t steps = 0;
    for (int i = 0; i < threads; i++)
        steps += atomic_load(&runners[i].finished);
    atomic_store(&run.is_over, true);
    for (int i = 0; i < threads; i++)
        (void)pthread_join(runners[i].id, NULL);
    (void)pthread_barrier_destroy(&run.start);
    return (double)steps * 1e6 / (double)took_us;
}

/* ---- latencies ---- */

void bench_latencies_add(bench_latencies *latencies, int64_t us)
{
    if (latencies->count == latencies->size) {
        const int size = latencies->size ? latencies->size * 2 : 1024;
        int64_t *larger = realloc(latencies->us, (size_t)size * sizeof *larger);
        if (!larger)
            bench_die("no memory for %d latencies", size);
        latencies->us = larger;
        latencies->size = size;
    }
    latencies->us[latencies->count++] = us;
}

static int compare_us(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int64_t bench_latencies_at(bench_latencies *latencies, double share)
{
    if (latencies->count == 0)
        return 0;
    qsort(latencies->us, (size_t)latencies->count, sizeof latencies->us[0], compare_us);
    int index = (int)(share * latencies->count);
    if (index >= latencies->count)
        index = latencies->count - 1;
    return latencies->us[index];
}

void bench_latencies_done(bench_latencies *latencies)
{
    free(latencies->us);
    *latencies = (bench_latencies){0};
}

/* ---- Tidemark as a contestant ---- */

tide_store *bench_open_store(const char *url, const tempdir *dir)
{
    tide_error err;
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = dir->path};
    bench_must(tide_store_open(&store, url, &options, &err), &err, url);
    return store;
}

static tide_status append_row(tide_tx *tx, void *arg, tide_error *err)
{
    numbered_row *row = arg;
    TIDE_TRY(tide_sequence_declare(tx, "appended", 1, &row->range, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_APPENDED_ADD, err));
    tide_query_bind_text(query, "sequence", "appended");
    tide_query_bind_text(query, "writer", row->writer);
    tide_query_bind_i64(query, "n", row->n);
    tide_query_bind_i64(query, "back", 0);
    return tide_query_defer(&query, err);
}

static void write_take(tide_store *store, const numbered_row *row, int64_t begin_ns)
{
    tide_identity identity;
    history_line line;
    char value[64];
    tide_store_identity(store, &identity);
    (void)snprintf(value, sizeof value, "%s %lld", row->writer, (long long)row->n);
    history_begin_at(&line, row->writer, "take", begin_ns);
    history_text(&line, "sequence", "appended");
    history_text(&line, "session", identity.session_id);
    history_number(&line, "epoch", identity.epoch);
    history_text(&line, "value", value);
    history_number(&line, "number", row->range.first);
    history_end(&line, bench_history(), HISTORY_OK);
}

void bench_write_numbered(void *store, int thread, int64_t n)
{
    char writer[32];
    (void)snprintf(writer, sizeof writer, "writer-%02d", thread);
    numbered_row row = {.writer = writer, .n = n};
    tide_error err;
    const int64_t begin_ns = history_now_ns();
    bench_must(tide_store_write(store, append_row, &row, &err), &err, "tide_store_write");
    if (bench_history() > 0)
        write_take(store, &row, begin_ns);
}

/* ---- histories ---- */

static pthread_once_t history_once = PTHREAD_ONCE_INIT;
static int history_fd;

static void open_history(void)
{
    const char *path = getenv("TIDEMARK_BENCH_HISTORY");
    if (path && *path)
        history_fd = history_open(path);
}

int bench_history(void)
{
    (void)pthread_once(&history_once, open_history);
    return history_fd;
}

void bench_judge(const char *checker)
{
    char verdict[HISTORY_VERDICT_MAX];
    tide_error err;
    if (bench_history() == 0)
        return;
    const char *const paths[] = {getenv("TIDEMARK_BENCH_HISTORY"), NULL};
    bench_must(history_judge(checker, paths, verdict, &err), &err, "the history");
    (void)fprintf(stderr, "%s: %s\n", checker, verdict);
}
