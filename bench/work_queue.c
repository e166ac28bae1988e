/* work_queue.c - claimed and finished items per second of 16 workers, on SQLite and PostgreSQL, synced.
 *
 * Items do nothing. A worker finishes what it holds and claims as much again in one commit (tide_work_next): one item at a
 * time, or batches of a hundred. Every answer is on disk before the worker goes on. Items are added before the clock starts.
 *
 * It is one contestant of scripts/bench/bench-work, beside the queues of other people, which gives it the PostgreSQL server
 * all of them share (TIDEMARK_BENCH_PG), the time (TIDEMARK_BENCH_SECONDS) and the number of workers
 * (TIDEMARK_BENCH_WORKERS). Run alone it starts a server of its own. Prints one line of JSON per mode. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <tidemark/work.h>

#include "bench.h"
#include "support/history.h"
#include "support/postgres/pg_cluster.h"

enum { BATCH = 100, ADD = 1000 };

typedef struct contest {
    tide_store *store;
    char task_id[TIDE_WORK_ID_MAX + 1];
    int batch;
    int64_t counts[BENCH_THREADS_MAX];
    tide_work_claims held[BENCH_THREADS_MAX];
} contest;

static void add_items(contest *c, int64_t count)
{
    static tide_work_spec items[ADD];
    static tide_work_added added[ADD];
    tide_error err;
    for (int i = 0; i < ADD; i++)
        items[i] =
            (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = c->task_id, .work_type = "nothing",
                             .input = "{\"n\":1}", .max_retries = -1};
    for (int64_t done = 0; done < count; done += ADD)
        bench_must(tide_work_add(c->store, items, ADD, added, &err), &err, "adding items");
}

/* A call of several items is one of each. */
static void write_calls(const char *worker, const char *operation, int64_t begin_ns,
                        const tide_work_result *items, int count)
{
    const int64_t end_ns = history_now_ns();
    for (int i = 0; bench_history() > 0 && i < count; i++) {
        history_line line;
        history_begin_at(&line, worker, operation, begin_ns);
        history_text(&line, "item", items[i].work_item_id);
        history_number(&line, "token", items[i].token);
        history_end_at(&line, bench_history(), HISTORY_OK, end_ns);
    }
}

static int list_results(tide_work_result *out, const tide_work_claims *held)
{
    for (int i = 0; i < held->count; i++)
        out[i] =
            (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = held->items[i].work_item_id,
                               .token = held->items[i].lease_token, .output = "{\"ok\":true}"};
    return held->count;
}

static void finish_and_claim(void *context, int thread, int64_t n)
{
    (void)n;
    contest *c = context;
    tide_error err;
    char worker[32];
    (void)snprintf(worker, sizeof worker, "worker-%02d", thread);
    static const char *const types[] = {"nothing"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = worker,
                                             .types = types, .type_count = 1, .limit = c->batch};
    tide_work_claims *held = &c->held[thread];
    tide_work_claims next = {.count = 0};
    tide_work_result results[BATCH];
    const int finished = list_results(results, held);
    const int64_t begin_ns = history_now_ns();
    const tide_status status = tide_work_next(c->store, results, finished, &request, &next, &err);
    bench_must(status, &err, "finishing and claiming");
    if (status == TIDE_NONE)
        bench_die("the items ran out: add more");
    write_calls(worker, "finish", begin_ns, results, finished);
    c->counts[thread] += finished;
    tide_work_claims_done(held);
    *held = next;
    write_calls(worker, "claim", begin_ns, results, list_results(results, held));
}

static double measure(contest *c, int workers, double seconds)
{
    memset(c->counts, 0, sizeof c->counts);
    const int64_t before_us = bench_now_us();
    (void)bench_run(workers, seconds, finish_and_claim, c);
    const double took_s = (double)(bench_now_us() - before_us) / 1e6;
    for (int i = 0; i < workers; i++) /* the last ones stay claimed */
        tide_work_claims_done(&c->held[i]);
    int64_t total = 0;
    for (int i = 0; i < workers; i++)
        total += c->counts[i];
    return (double)total / took_s;
}

static void run_engine(const char *name, const char *url, const tempdir *dir, int workers,
                       double seconds)
{
    tide_error err;
    contest c = {.store = bench_open_store(url, dir)};
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
    bench_must(tide_task_create(c.store, &task, c.task_id, &err), &err, "a task");
    static const int batches[] = {1, BATCH};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        c.batch = batches[i];
        /* More than the fastest run so far could take, so that nobody finds the queue empty. */
        add_items(&c, (int64_t)((c.batch == 1 ? 25000 : 90000) * seconds) + 20000);
        const double rate = measure(&c, workers, seconds);
        (void)printf(
            "{\"peer\":\"tidemark, %s\",\"mode\":\"%s\",\"jobs_per_s\":%.0f,\"version\":\"\"}\n",
            name, c.batch == 1 ? "single" : "batch", rate);
        (void)fflush(stdout);
    }
    tide_store_close(c.store);
}

/* A database of our own on a server that others use too. */
static void make_database(const char *server_url, char url[PG_CLUSTER_URL_MAX], const char *verb)
{
    PGconn *connection = PQconnectdb(server_url);
    char statement[128];
    (void)snprintf(statement, sizeof statement, "%s DATABASE tidemark_work_%ld%s", verb,
                   (long)getpid(), strcmp(verb, "DROP") == 0 ? " WITH (FORCE)" : "");
    PGresult *result = PQexec(connection, statement);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_die("%s: %s", statement, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    const char *query = strchr(server_url, '?');
    const char *end = query ? query : server_url + strlen(server_url);
    const char *slash = end;
    while (slash > server_url && *slash != '/')
        slash--;
    (void)snprintf(url, PG_CLUSTER_URL_MAX, "%.*s/tidemark_work_%ld%s", (int)(slash - server_url),
                   server_url, (long)getpid(), query ? query : "");
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 3);
    const char *workers_text = getenv("TIDEMARK_BENCH_WORKERS");
    const int workers = workers_text ? (int)strtol(workers_text, NULL, 10) : 16;
    if (workers < 1 || workers > BENCH_THREADS_MAX)
        bench_die("1 to %d workers", BENCH_THREADS_MAX);
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(url, sizeof url, "sqlite:%s/work.db", dir.path);
    run_engine("SQLite", url, &dir, workers, options.seconds);
    const char *shared = getenv("TIDEMARK_BENCH_PG");
    if (shared) {
        make_database(shared, url, "CREATE");
        run_engine("PostgreSQL", url, &dir, workers, options.seconds);
        make_database(shared, url, "DROP");
    } else {
        bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
        bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
        pg_cluster_url(&cluster, "bench", url);
        run_engine("PostgreSQL", url, &dir, workers, options.seconds);
        pg_cluster_stop(&cluster);
    }
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    bench_judge("leases.py");
    return EXIT_SUCCESS;
}
