/* bench.h - contestants side by side: rounds, threads, medians, ratios with their spread.
 *
 * A benchmark runs every contestant for a short stretch, one after the other, and does that for
 * five rounds. A ratio is taken inside each round, between stretches that lie seconds apart; what
 * is printed is the median of the rounds' ratios and the lowest and highest beside it. A machine
 * that is busy with other things slows neighbours alike: ratios survive it, absolute figures do
 * not.
 *
 *     bench_series ours = {.name = "grouped"};
 *     for (int round = 0; round < options.rounds; round++)
 *         bench_add(&ours, bench_run(16, options.seconds, write_one, &contestant));
 *     bench_print_series(&ours);
 *
 * Times are shown, never asserted. What fails (a statement, a connection) ends the program with
 * exit code 1.
 *
 * Threads: bench_run starts and joins its own; everything else belongs to the main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/store.h>

#include "support/tempdir.h"

enum {
    BENCH_ROUNDS = 5,
    BENCH_THREADS_MAX = 64,
};

typedef struct bench_options {
    double seconds; /* of one stretch */
    int rounds;
} bench_options;

/* seconds unless `--quick` (a tenth) or TIDEMARK_BENCH_SECONDS say otherwise. */
bench_options bench_read_options(int argc, char **argv, double seconds);

/* One figure per round. */
typedef struct bench_series {
    const char *name;
    double values[BENCH_ROUNDS];
    int count;
} bench_series;

void bench_add(bench_series *series, double value);
double bench_median(const bench_series *series);
double bench_lowest(const bench_series *series);
double bench_highest(const bench_series *series);

/* A heading, then one line per series: name, median, lowest, highest. */
void bench_print_heading(const char *title, const char *unit);
void bench_print_series(const bench_series *series);

/* `ratio NAME: median (lowest..highest) (expected >= N): met`; expected 0: nothing is expected. */
void bench_print_ratio(const char *name, const bench_series *ours, const bench_series *theirs,
                       double expected);

/* Let every thread call step until the time is up; returns steps per second, of those finished by
 * then. Context is what the caller prepared for all threads; n counts the calls of one thread from
 * 1. */
typedef void bench_step_fn(void *context, int thread, int64_t n);
double bench_run(int threads, double seconds, bench_step_fn *step, void *context);

int64_t bench_now_us(void);

/* Latencies, collected and then asked for. */
typedef struct bench_latencies {
    int64_t *us;
    int count;
    int size;
} bench_latencies;

void bench_latencies_add(bench_latencies *latencies, int64_t us);
/* The latency that share (0..1) of all stay at or below; 1 is the highest. Sorts. */
int64_t bench_latencies_at(bench_latencies *latencies, double share);
void bench_latencies_done(bench_latencies *latencies);

/* ---- Tidemark as a contestant ---- */

/* Open a store with the tables of tests/support/test.sql; its identity marker lives in dir. */
tide_store *bench_open_store(const char *url, const tempdir *dir);

/* One durable row of `appended`, numbered by the sequence of that name; context is the store. */
void bench_write_numbered(void *store, int thread, int64_t n);

/* ---- histories ---- */

/* TIDEMARK_BENCH_HISTORY names a file: calls of our contestant are appended to it as a history
 * (tests/check), which costs a few microseconds each. Returns its descriptor, or 0: none is wanted. */
int bench_history(void);
/* Judge the history by a checker of tests/check and print its verdict; a violation ends the program.
 * Does nothing without a history. */
void bench_judge(const char *checker);

/* ---- failing ---- */

TIDE_PRINTF(1, 2) _Noreturn void bench_die(const char *format, ...);
void bench_must(tide_status status, const tide_error *err, const char *what);

/* Zeroed, and never NULL. */
void *bench_alloc(size_t size);
