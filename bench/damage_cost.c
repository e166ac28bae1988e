/* damage_cost.c - what it costs to know of damage: the tail mark of SQLite's commits, and the digests
 * of work values.
 *
 * The same program does the same work twice in each round: as it is, and without what is measured.
 * For that the linker puts the functions below in the place of those of the library (--wrap): the mark
 * moves once a second, as it did before it moved with every commit, and a digest is 0 without being
 * computed. Items have an input of 200 bytes and an output of 100. The stretches are cut into slices,
 * in which both have their turn, so that a disk that becomes slow slows both. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/view.h>
#include <tidemark/work.h>

#include "bench.h"
#include "store/identity_marker.h"
#include "support/postgres/pg_cluster.h"
#include "support/store_fixture.h"

enum { BATCH = 100, SLICES = 8, WRITERS = 16 };

/* ---- without ---- */

static atomic_bool has_no_digests;
static atomic_bool has_no_mark;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int64_t __real_tide_value_digest(const char *kind, tide_view name, tide_view value);
int64_t __wrap_tide_value_digest(const char *kind, tide_view name, tide_view value);
int64_t __wrap_tide_value_digest(const char *kind, tide_view name, tide_view value)
{
    return atomic_load_explicit(&has_no_digests, memory_order_relaxed)
               ? 0
               : __real_tide_value_digest(kind, name, value);
}

bool __real_tide_identity_marker_has_counter(tide_identity_marker *marker, const char *name);
bool __wrap_tide_identity_marker_has_counter(tide_identity_marker *marker, const char *name);
bool __wrap_tide_identity_marker_has_counter(tide_identity_marker *marker, const char *name)
{
    return atomic_load_explicit(&has_no_mark, memory_order_relaxed)
               ? true
               : __real_tide_identity_marker_has_counter(marker, name);
}

void __real_tide_identity_marker_raise_counter(tide_identity_marker *marker, const char *name,
                                               int64_t last);
void __wrap_tide_identity_marker_raise_counter(tide_identity_marker *marker, const char *name,
                                               int64_t last);
void __wrap_tide_identity_marker_raise_counter(tide_identity_marker *marker, const char *name,
                                               int64_t last)
{
    if (!atomic_load_explicit(&has_no_mark, memory_order_relaxed))
        __real_tide_identity_marker_raise_counter(marker, name, last);
}

void __real_tide_identity_marker_raise(tide_identity_marker *marker, int64_t mark, int64_t epoch);
void __wrap_tide_identity_marker_raise(tide_identity_marker *marker, int64_t mark, int64_t epoch);
void __wrap_tide_identity_marker_raise(tide_identity_marker *marker, int64_t mark, int64_t epoch)
{
    if (!atomic_load_explicit(&has_no_mark, memory_order_relaxed))
        __real_tide_identity_marker_raise(marker, mark, epoch);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- what is measured ---- */

typedef struct contest {
    tide_store *store;
    char task_id[TIDE_WORK_ID_MAX + 1];
    double added_s, claimed_s, finished_s; /* of this stretch */
    int64_t items;
} contest;

static char input[201];
static char output[101];

static void fill_json(char *text, size_t size)
{
    memset(text, 'x', size - 1);
    text[0] = '"';
    text[size - 2] = '"';
    text[size - 1] = '\0';
}

static double since_s(int64_t before_us)
{
    return (double)(bench_now_us() - before_us) / 1e6;
}

/* One life of `count` items: add, claim, finish, each timed by itself. */
static void live(contest *c, int count)
{
    tide_error err;
    tide_work_spec items[BATCH];
    tide_work_added added[BATCH];
    tide_work_result results[BATCH];
    tide_work_claims claims;
    static const char *const types[] = {"nothing"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "bench",
                                             .types = types, .type_count = 1, .limit = count};
    for (int i = 0; i < count; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = c->task_id,
                                    .work_type = types[0], .input = input, .max_retries = -1};
    int64_t before_us = bench_now_us();
    bench_must(tide_work_add(c->store, items, count, added, &err), &err, "adding");
    c->added_s += since_s(before_us);
    before_us = bench_now_us();
    bench_must(tide_work_claim(c->store, &request, &claims, &err), &err, "claiming");
    c->claimed_s += since_s(before_us);
    if (claims.count != count)
        bench_die("%d of %d items were claimed", claims.count, count);
    for (int i = 0; i < count; i++)
        results[i] =
            (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = claims.items[i].work_item_id,
                               .token = claims.items[i].lease_token, .output = output};
    before_us = bench_now_us();
    bench_must(tide_work_finish_many(c->store, results, count, &err), &err, "finishing");
    c->finished_s += since_s(before_us);
    tide_work_claims_done(&claims);
    c->items += count;
}

/* Items per second of each call. */
typedef struct figures {
    bench_series added, claimed, finished;
} figures;

static void live_for(contest *c, int count, double seconds)
{
    const int64_t until_us = bench_now_us() + (int64_t)(seconds * 1e6);
    while (bench_now_us() < until_us)
        live(c, count);
}

static void add_figures(figures *f, const contest *c)
{
    bench_add(&f->added, (double)c->items / c->added_s);
    bench_add(&f->claimed, (double)c->items / c->claimed_s);
    bench_add(&f->finished, (double)c->items / c->finished_s);
}

static void compare_work(const char *engine, tide_store *store, int count,
                         const bench_options *options)
{
    char title[128];
    tide_error err;
    figures with = {{.name = "add, with digests"},
                    {.name = "claim, with digests"},
                    {.name = "finish, with digests"}};
    figures without = {
        {.name = "add, without"}, {.name = "claim, without"}, {.name = "finish, without"}};
    contest c[2] = {{.store = store}, {.store = store}};
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
    bench_must(tide_task_create(store, &task, c[0].task_id, &err), &err, "a task");
    memcpy(c[1].task_id, c[0].task_id, sizeof c[1].task_id);
    live_for(&c[0], count, options->seconds / 2);
    for (int round = 0; round < options->rounds; round++) {
        for (int i = 0; i < 2; i++)
            c[i].added_s = c[i].claimed_s = c[i].finished_s = 0, c[i].items = 0;
        for (int slice = 0; slice < 2 * SLICES; slice++) {
            const int at = (slice + slice / 2) % 2; /* with, without, without, with */
            atomic_store(&has_no_digests, at == 1);
            live_for(&c[at], count, options->seconds / SLICES);
        }
        add_figures(&with, &c[0]);
        add_figures(&without, &c[1]);
    }
    atomic_store(&has_no_digests, false);
    (void)snprintf(title, sizeof title, "%s, calls of %d item%s", engine, count,
                   count > 1 ? "s" : "");
    bench_print_heading(title, "items/s");
    const bench_series *const pairs[][2] = {{&with.added, &without.added},
                                            {&with.claimed, &without.claimed},
                                            {&with.finished, &without.finished}};
    for (int i = 0; i < 3; i++) {
        bench_print_series(pairs[i][0]);
        bench_print_series(pairs[i][1]);
    }
    for (int i = 0; i < 3; i++)
        bench_print_ratio(pairs[i][0]->name, pairs[i][0], pairs[i][1], 0.95);
}

/* A commit that raises no counter: the mark is a row of its own. */
static void make_task(void *store, int thread, int64_t n)
{
    char id[TIDE_WORK_ID_MAX + 1];
    tide_error err;
    (void)thread;
    (void)n;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
    bench_must(tide_task_create(store, &task, id, &err), &err, "a task");
}

static void compare_commits(tide_store *store, const char *what, bench_step_fn *step, int threads,
                            const bench_options *options)
{
    char title[128];
    bench_series with = {.name = "commits, with the mark"};
    bench_series without = {.name = "commits, without"};
    for (int round = 0; round < options->rounds; round++) {
        double rates[2] = {0, 0};
        for (int slice = 0; slice < 2 * SLICES; slice++) {
            const int at = (slice + slice / 2) % 2;
            atomic_store(&has_no_mark, at == 1);
            rates[at] += bench_run(threads, options->seconds / SLICES, step, store);
        }
        bench_add(&with, rates[0] / SLICES);
        bench_add(&without, rates[1] / SLICES);
    }
    atomic_store(&has_no_mark, false);
    (void)snprintf(title, sizeof title, "SQLite, %s, %d thread%s", what, threads,
                   threads > 1 ? "s" : "");
    bench_print_heading(title, "rows/s");
    bench_print_series(&with);
    bench_print_series(&without);
    bench_print_ratio(with.name, &with, &without, 0.95);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1.5);
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    fill_json(input, sizeof input);
    fill_json(output, sizeof output);
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(url, sizeof url, "sqlite:%s/commits.db", dir.path);
    tide_store *store = bench_open_store(url, &dir);
    store_test_add_tables(store);
    compare_commits(store, "numbered rows", bench_write_numbered, 1, &options);
    compare_commits(store, "numbered rows", bench_write_numbered, WRITERS, &options);
    compare_commits(store, "tasks", make_task, 1, &options);
    compare_commits(store, "tasks", make_task, WRITERS, &options);
    compare_work("SQLite", store, 1, &options);
    compare_work("SQLite", store, BATCH, &options);
    tide_store_close(store);
    bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
    bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
    pg_cluster_url(&cluster, "bench", url);
    store = bench_open_store(url, &dir);
    compare_work("PostgreSQL", store, 1, &options);
    compare_work("PostgreSQL", store, BATCH, &options);
    tide_store_close(store);
    pg_cluster_stop(&cluster);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
