/* work_scale.c - what a claim costs when the queue is long, and when dead rows lie in its way.
 *
 * Growth: one worker claims and finishes single items while 1 k, 10 k, ... 5 M wait. Dead rows (PostgreSQL): an open
 * snapshot keeps vacuum from removing anything while 100 k items are worked off; then claims again. Medians over 300
 * claims; what counts is how they grow, against a durable write of the same store at the same moment: filling it leaves
 * the disk busy. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/sequence.h>
#include <tidemark/work.h>

#include "bench.h"
#include "raw_pg.h"
#include "support/postgres/pg_cluster.h"

enum { SAMPLES = 300, BATCH = 500, DEAD = 100000 };

typedef struct field {
    tide_store *store;
    char path[TEMPDIR_PATH_MAX]; /* SQLite */
    char url[PG_CLUSTER_URL_MAX];
    char task_id[TIDE_WORK_ID_MAX + 1];
    int64_t waiting;
} field;

static const char *const types[] = {"scale"};

/* Millions of rows are made by the database itself; its triggers treat them like any others. */
static void fill(field *f, int64_t count)
{
    char statement[1024];
    const long long more = (long long)(count - f->waiting);
    if (f->path[0]) {
        sqlite3 *db = NULL;
        (void)snprintf(
            statement, sizeof statement,
            "WITH RECURSIVE up (i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM up WHERE i < %lld) "
            "INSERT INTO work_items (work_item_id, task_id, work_type, input_data) "
            "SELECT printf('item-%%012d', i), '%s', 'scale', '{}' FROM up",
            (long long)f->waiting + 1, (long long)count, f->task_id);
        if (sqlite3_open(f->path, &db) != SQLITE_OK ||
            sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL) != SQLITE_OK ||
            sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
            sqlite3_exec(db, statement, NULL, NULL, NULL) != SQLITE_OK)
            bench_die("filling: %s", sqlite3_errmsg(db));
        (void)sqlite3_close(db);
    } else {
        PGconn *connection = raw_pg_connect(f->url);
        (void)snprintf(statement, sizeof statement,
                       "INSERT INTO work_items (work_item_id, task_id, work_type, input_data) "
                       "SELECT 'item-' || lpad(i::text, 12, '0'), '%s', 'scale', '{}' "
                       "FROM generate_series(%lld, %lld) AS i",
                       f->task_id, (long long)f->waiting + 1, (long long)count);
        PGresult *result = PQexec(connection, statement);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            bench_die("filling: %s", PQerrorMessage(connection));
        PQclear(result);
        PQclear(PQexec(connection, "VACUUM (ANALYZE) work_items, work_ready"));
        PQclear(PQexec(connection, "CHECKPOINT")); /* or its writes stand between us and the disk */
        PQfinish(connection);
    }
    f->waiting += more;
}

static void work_off(field *f, int limit)
{
    tide_error err;
    tide_work_claims claims = {.count = 0};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = types, .type_count = 1, .limit = limit};
    const tide_status status = tide_work_claim(f->store, &request, &claims, &err);
    bench_must(status, &err, "claiming");
    if (status == TIDE_NONE)
        bench_die("nothing to claim");
    static tide_work_result results[BATCH];
    for (int i = 0; i < claims.count; i++)
        results[i] =
            (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = claims.items[i].work_item_id,
                               .token = claims.items[i].lease_token};
    bench_must(tide_work_finish_many(f->store, results, claims.count, &err), &err, "finishing");
    tide_work_claims_done(&claims);
}

/* The claim alone, in microseconds. */
static double median_claim(field *f)
{
    tide_error err;
    bench_latencies latencies = {.count = 0};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = types, .type_count = 1, .limit = 1};
    for (int i = 0; i < SAMPLES; i++) {
        tide_work_claims claims = {.count = 0};
        const int64_t before_us = bench_now_us();
        bench_must(tide_work_claim(f->store, &request, &claims, &err), &err, "claiming");
        bench_latencies_add(&latencies, bench_now_us() - before_us);
        if (claims.count != 1)
            bench_die("nothing to claim");
        tide_work_result result = {TIDE_WORK_RESULT_INIT,
                                   .work_item_id = claims.items[0].work_item_id,
                                   .token = claims.items[0].lease_token};
        bench_must(tide_work_finish(f->store, &result, &err), &err, "finishing");
        tide_work_claims_done(&claims);
    }
    const double us = (double)bench_latencies_at(&latencies, 0.5);
    bench_latencies_done(&latencies);
    return us;
}

/* The claim of the recovery document in plain SQL, taken back: milliseconds, the best of three. */
static double time_plain_claim(const field *f)
{
    static const char statement[] =
        "UPDATE work_items SET status = 'in_progress', lease_holder = 'plain', lease_acquired_at = "
        "now(), "
        "lease_expires_at = now() + interval '5 minutes', heartbeat_at = now() "
        "WHERE work_item_id = (SELECT work_item_id FROM work_items WHERE status = 'pending' "
        "ORDER BY priority DESC, created_at ASC LIMIT 1) RETURNING work_item_id";
    PGconn *connection = raw_pg_connect(f->url);
    double best_ms = 0;
    for (int i = 0; i < 3; i++) {
        PQclear(PQexec(connection, "BEGIN"));
        const int64_t before_us = bench_now_us();
        PGresult *result = PQexec(connection, statement);
        const double ms = (double)(bench_now_us() - before_us) / 1e3;
        if (PQntuples(result) != 1)
            bench_die("a plain claim: %s", PQerrorMessage(connection));
        PQclear(result);
        PQclear(PQexec(connection, "ROLLBACK"));
        best_ms = i == 0 || ms < best_ms ? ms : best_ms;
    }
    PQfinish(connection);
    return best_ms;
}

/* What a durable write costs at this moment, whatever the queue: a number of a sequence. */
static double median_write(field *f)
{
    tide_error err;
    bench_latencies latencies = {.count = 0};
    for (int i = 0; i < SAMPLES; i++) {
        tide_sequence_range range;
        const int64_t before_us = bench_now_us();
        bench_must(tide_sequence_next(f->store, "scale", 1, &range, NULL, &err), &err, "a number");
        bench_latencies_add(&latencies, bench_now_us() - before_us);
    }
    const double us = (double)bench_latencies_at(&latencies, 0.5);
    bench_latencies_done(&latencies);
    return us;
}

static void measure_growth(field *f, const char *name, int64_t most)
{
    double first_us = 0;
    double last_us = 0;
    (void)printf("\n%s: one claim beside so many waiting items\n", name);
    for (int64_t count = 1000; count <= most; count = count == 1000000 ? 5000000 : count * 10) {
        fill(f, count);
        const double write_us = median_write(f);
        const double claim_us = median_claim(f);
        last_us = claim_us / write_us;
        first_us = first_us > 0 ? first_us : last_us;
        (void)printf("  %10lld items  %8.0f us; a durable write %8.0f us; ratio %.2f\n",
                     (long long)count, claim_us, write_us, last_us);
        if (f->url[0] && (count == 1000 || count == 1000000))
            (void)printf("  %10lld items  %8.1f ms: the recovery document's claim, plain SQL\n",
                         (long long)count, time_plain_claim(f));
        (void)fflush(stdout);
    }
    const double growth = last_us / first_us;
    (void)printf("  growth of the ratio from 1 k: %.2f (at most 1.4, goal 1.2): %s\n", growth,
                 growth <= 1.2   ? "goal met"
                 : growth <= 1.4 ? "floor met"
                                 : "floor not met");
}

static void measure_dead(field *f)
{
    PGconn *pin = raw_pg_connect(f->url);
    PQclear(PQexec(pin, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(pin, "SELECT count(*) FROM tasks"));
    const double before_us = median_claim(f);
    for (int i = 0; i < DEAD / BATCH; i++)
        work_off(f, BATCH);
    const double after_us = median_claim(f);
    const double growth = after_us / before_us;
    (void)printf("\nPostgreSQL: one claim before and behind %d dead rows under a pinned snapshot\n"
                 "  %8.0f us, %8.0f us, growth %.2f (at most 2, goal 1.5): %s\n",
                 DEAD, before_us, after_us, growth,
                 growth <= 1.5 ? "goal met"
                 : growth <= 2 ? "floor met"
                               : "floor not met");
    PQfinish(pin);
}

static void open_field(field *f, const char *url, const tempdir *dir)
{
    tide_error err;
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "scale", .title = "scale"};
    f->store = bench_open_store(url, dir);
    bench_must(tide_task_create(f->store, &task, f->task_id, &err), &err, "a task");
}

int main(int argc, char **argv)
{
    const int64_t most = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 100000 : 5000000;
    tide_error err;
    tempdir dir;
    pg_cluster cluster;
    static field sqlite;
    static field postgres;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    (void)snprintf(sqlite.path, sizeof sqlite.path, "%.200s/scale.db", dir.path);
    open_field(&sqlite, sqlite.path, &dir);
    measure_growth(&sqlite, "SQLite", most);
    tide_store_close(sqlite.store);
    bench_must(pg_cluster_start(&cluster, NULL, &err), &err, "a PostgreSQL cluster");
    bench_must(pg_cluster_create_database(&cluster, "bench", NULL, &err), &err, "a database");
    pg_cluster_url(&cluster, "bench", postgres.url);
    open_field(&postgres, postgres.url, &dir);
    measure_growth(&postgres, "PostgreSQL", most);
    if (most < 1000000)
        fill(&postgres, 2 * DEAD);
    measure_dead(&postgres);
    tide_store_close(postgres.store);
    pg_cluster_stop(&cluster);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
