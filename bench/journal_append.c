/* journal_append.c - what numbers, checks and the hash chain cost: checkpoints beside plain rows of the same bytes.
 *
 * 16 writers append checkpoints with a state of 1 KiB, each durable before its writer goes on. Beside them 16 writers
 * insert plain rows of the same bytes through the same group commit: no numbers, no checks, no indexes but the key. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "bench.h"
#include "support/postgres/pg_cluster.h"
#include "support/store_fixture.h"

enum { WRITERS = 16, STATE_LEN = 1024, TASKS = 16 };

typedef struct contest {
    tide_store *store;
    char tasks[TASKS][TIDE_WORK_ID_MAX + 1];
    char state[STATE_LEN + 1];
    atomic_int_fast64_t id;
} contest;

static void append(void *context, int thread, int64_t n)
{
    (void)n;
    contest *c = context;
    tide_error err;
    tide_checkpoint_numbers numbers;
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT, .task_id = c->tasks[thread % TASKS], .type = "state_transition",
        .snapshot = tide_view_of(c->state)};
    bench_must(tide_journal_append(c->store, &checkpoint, &numbers, &err), &err, "appending");
}

typedef struct plain_row {
    const contest *c;
    int64_t id;
} plain_row;

static tide_status insert_plain(tide_tx *tx, void *arg, tide_error *err)
{
    const plain_row *row = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", row->id);
    tide_query_bind_text(query, "t", row->c->state);
    return tide_query_run(query, NULL, err);
}

static void insert(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    tide_error err;
    plain_row row = {.c = c, .id = atomic_fetch_add(&c->id, 1) + 1};
    bench_must(tide_store_write(c->store, insert_plain, &row, &err), &err, "inserting");
}

static void run_engine(const char *name, const char *url, const tempdir *dir,
                       const bench_options *options)
{
    tide_error err;
    contest c = {.store = bench_open_store(url, dir)};
    store_test_add_tables(c.store);
    (void)snprintf(c.state, sizeof c.state, "{\"text\":\"%0*d\"}", STATE_LEN - 11, 7);
    for (int i = 0; i < TASKS; i++) {
        const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "bench"};
        bench_must(tide_task_create(c.store, &task, c.tasks[i], &err), &err, "a task");
    }
    bench_series ours = {.name = "checkpoints"};
    bench_series plain = {.name = "plain rows of the same bytes, grouped alike"};
    for (int round = 0; round < options->rounds; round++) {
        bench_add(&ours, bench_run(WRITERS, options->seconds, append, &c));
        bench_add(&plain, bench_run(WRITERS, options->seconds, insert, &c));
    }
    char title[128];
    (void)snprintf(title, sizeof title, "%s: checkpoints of 1 KiB by 16 writers, each durable",
                   name);
    bench_print_heading(title, "rows/s");
    bench_print_series(&ours);
    bench_print_series(&plain);
    (void)printf("\n");
    const bool is_sqlite = strcmp(name, "SQLite") == 0;
    bench_print_ratio("checkpoints / plain rows", &ours, &plain, is_sqlite ? 0.4 : 0.5);
    tide_store_close(c.store);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    char url[PG_CLUSTER_URL_MAX];
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(url, sizeof url, "sqlite:%s/journal.db", dir.path);
    run_engine("SQLite", url, &dir, &options);
    bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
    bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
    pg_cluster_url(&cluster, "bench", url);
    run_engine("PostgreSQL", url, &dir, &options);
    pg_cluster_stop(&cluster);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
