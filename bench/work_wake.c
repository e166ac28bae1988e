/* work_wake.c - how long an idle worker sleeps on after an item was added.
 *
 * A worker waits in one store handle, another handle adds one item after the other: to the store they are two
 * processes. Measured from before the add is called until the worker's function starts: the add's own commit, the
 * wake-up and the claim's commit are in it. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/worker.h>

#include "bench.h"
#include "support/postgres/pg_cluster.h"

enum { ITEMS = 300 };

typedef struct bell {
    sem_t is_done;
    int64_t started_us;
} bell;

static tide_status start(void *arg, tide_job *job, tide_error *err)
{
    bell *b = arg;
    b->started_us = bench_now_us();
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = NULL};
    const tide_status status = tide_job_finish(job, &result, err);
    (void)sem_post(&b->is_done);
    return status;
}

static void *work(void *worker)
{
    tide_error err;
    bench_must(tide_worker_run(worker, &err), &err, "working");
    return NULL;
}

static void run_engine(const char *name, const char *url, const tempdir *dir)
{
    tide_error err;
    tide_store *adding = bench_open_store(url, dir);
    tide_store *working = bench_open_store(url, dir);
    char task_id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
    bench_must(tide_task_create(adding, &task, task_id, &err), &err, "a task");
    bell b = {.started_us = 0};
    (void)sem_init(&b.is_done, 0, 0);
    static const char *const types[] = {"wake"};
    const tide_worker_options options = {
        TIDE_WORKER_OPTIONS_INIT, .worker = "w", .types = types, .type_count = 1,
        .poll_us = 5000000,       .run = start,  .run_arg = &b};
    tide_worker *worker = NULL;
    bench_must(tide_worker_open(&worker, working, &options, &err), &err, "a worker");
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, worker) != 0)
        bench_die("cannot start a thread");
    bench_latencies latencies = {.count = 0};
    for (int i = 0; i < ITEMS; i++) {
        const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .task_id = task_id, .work_type = "wake",
                                     .max_retries = -1};
        tide_work_added added;
        tide_env *env = tide_env_system();
        env->sleep_us(env, 2000 + (i * 7919) % 9000); /* the worker is asleep again */
        const int64_t before_us = bench_now_us();
        bench_must(tide_work_add(adding, &item, 1, &added, &err), &err, "adding");
        (void)sem_wait(&b.is_done);
        bench_latencies_add(&latencies, b.started_us - before_us);
    }
    (void)printf("  %-12s p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, highest %.2f ms (expected p50 < 5 "
                 "ms): %s\n",
                 name, (double)bench_latencies_at(&latencies, 0.5) / 1e3,
                 (double)bench_latencies_at(&latencies, 0.9) / 1e3,
                 (double)bench_latencies_at(&latencies, 0.99) / 1e3,
                 (double)bench_latencies_at(&latencies, 1) / 1e3,
                 bench_latencies_at(&latencies, 0.5) < 5000 ? "met" : "not met");
    bench_latencies_done(&latencies);
    tide_worker_stop(worker);
    (void)pthread_join(thread, NULL);
    tide_worker_close(worker);
    tide_store_close(working);
    tide_store_close(adding);
}

int main(void)
{
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    (void)printf("\nFrom adding an item to its start in a sleeping worker, %d items\n", ITEMS);
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(url, sizeof url, "sqlite:%s/wake.db", dir.path);
    run_engine("SQLite", url, &dir);
    bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
    bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
    pg_cluster_url(&cluster, "bench", url);
    run_engine("PostgreSQL", url, &dir);
    pg_cluster_stop(&cluster);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
