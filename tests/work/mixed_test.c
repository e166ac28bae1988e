/* Both combining queues under one store while connections break at random messages.
 *
 * Closures that take numbers share transactions of the store (pg_group.c), claims and finishes share turns
 * (tide_store_combine). Numbers stay unique and without gaps, and what was acknowledged exists. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/work.h>

#include "support/clock/fair_clock.h"
#include "support/postgres/pg_proxy.h"
#include "support/prng.h"

enum {
    WRITERS = 4,
    WORKERS = 4,
    ITEMS = 3000,
    CUTS = 40,
    MESSAGES_MAX = 600, /* between two cuts */
    WRITES_MAX = 100000,
};

static struct {
    pg_cluster cluster;
    pg_proxy *proxy;
    tide_store *store;
    atomic_bool is_over;
    atomic_int finished[ITEMS]; /* how often its finish was acknowledged */
    tide_error err;
} p;

typedef struct writer {
    char name[8];
    int64_t *numbers; /* by n; 0: not acknowledged */
    int64_t count;    /* of n that were tried */
    int64_t acknowledged;
    pthread_t thread;
} writer;

/* ---- the load ---- */

static bool is_open_outcome(tide_status status)
{
    return status == TIDE_E_OUTCOME_UNKNOWN || status == TIDE_E_UNAVAILABLE;
}

static void *write_rows(void *arg)
{
    writer *self = arg;
    while (!atomic_load(&p.is_over) && self->count + 1 < WRITES_MAX) {
        tide_error err;
        numbered_row row = {.writer = self->name, .n = ++self->count};
        const tide_status status = tide_store_write(p.store, add_numbered, &row, &err);
        if (status >= TIDE_OK) {
            self->numbers[row.n] = row.range.first;
            self->acknowledged++;
        } else if (!is_open_outcome(status)) {
            print_error("write: %s\n", err.text);
            abort();
        }
    }
    return NULL;
}

/* A finish of unknown outcome is repeated: with the same token it succeeds once. */
static tide_status finish(const char *id, int64_t token)
{
    tide_error err;
    tide_status status = TIDE_E_OUTCOME_UNKNOWN;
    for (int i = 0; i < 100 && is_open_outcome(status); i++) {
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = id, .token = token,
                                   .output = "{}"};
        status = tide_work_finish(p.store, &result, &err);
    }
    return status;
}

static void *work(void *arg)
{
    (void)arg;
    static const char *const types[] = {"job"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "worker",
                                             .types = types, .type_count = 1,
                                             .lease_us = 600 * SECOND_US};
    while (!atomic_load(&p.is_over)) {
        tide_error err;
        tide_work_claims claims;
        const tide_status status = tide_work_claim(p.store, &request, &claims, &err);
        if (status == TIDE_OK &&
            finish(claims.items[0].work_item_id, claims.items[0].lease_token) == TIDE_OK)
            (void)atomic_fetch_add(&p.finished[strtol(claims.items[0].work_item_id, NULL, 10)], 1);
        if (status < TIDE_OK && !is_open_outcome(status)) {
            print_error("claim: %s\n", err.text);
            abort();
        }
        tide_work_claims_done(&claims);
    }
    return NULL;
}

/* Each cut is seen before the next is armed. */
static void cut_often(prng *random)
{
    tide_env *env = tide_env_system();
    for (int i = 0; i < CUTS; i++) {
        const int64_t at = 1 + (int64_t)prng_below(random, MESSAGES_MAX);
        pg_proxy_arm(p.proxy, at, prng_below(random, 4) == 0);
        for (const int64_t until_ms = fair_clock_ms() + 60000; pg_proxy_messages(p.proxy) < at;) {
            if (fair_clock_ms() > until_ms)
                fail_msg("cut %d: no messages", i);
            env->sleep_us(env, 1000);
        }
        assert_true(pg_proxy_disarm(p.proxy));
    }
}

/* ---- what is left ---- */

static PGresult *query(const char *sql)
{
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&p.cluster, "postgres", url);
    PGconn *connection = PQconnectdb(url);
    PGresult *result = PQexec(connection, sql);
    assert_int_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    PQfinish(connection);
    return result;
}

static void check_rows(const writer writers[WRITERS])
{
    PGresult *result = query("SELECT writer, n, seq_id FROM numbered ORDER BY seq_id");
    int64_t found = 0;
    int64_t acknowledged = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        const writer *of = &writers[PQgetvalue(result, i, 0)[1] - '0'];
        const int64_t n = strtoll(PQgetvalue(result, i, 1), NULL, 10);
        const int64_t number = strtoll(PQgetvalue(result, i, 2), NULL, 10);
        assert_int_equal(i + 1, number); /* unique, and without gaps */
        if (of->numbers[n] != 0) {
            assert_int_equal(of->numbers[n], number);
            found++;
        }
    }
    for (int i = 0; i < WRITERS; i++)
        acknowledged += writers[i].acknowledged;
    assert_int_equal(acknowledged, found);
    print_message("%d rows, %lld acknowledged\n", PQntuples(result), (long long)acknowledged);
    PQclear(result);
}

/* A finish is repeated until its outcome is known: what is completed was acknowledged, once, and what was
 * acknowledged is completed. */
static void check_items(void)
{
    int64_t acknowledged = 0;
    PGresult *result = query("SELECT work_item_id FROM work_items WHERE status = 'completed'");
    for (int i = 0; i < PQntuples(result); i++)
        assert_int_equal(1, atomic_load(&p.finished[strtol(PQgetvalue(result, i, 0), NULL, 10)]));
    for (int i = 0; i < ITEMS; i++)
        acknowledged += atomic_load(&p.finished[i]);
    assert_int_equal(PQntuples(result), acknowledged);
    print_message("%lld items finished\n", (long long)acknowledged);
    PQclear(result);
}

/* ---- the case ---- */

static tide_store *open_by_port(int port)
{
    char url[128];
    tide_store *store = NULL;
    (void)snprintf(url, sizeof url,
                   "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&gssencmode=disable",
                   port);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = ""};
    assert_ok_err(tide_store_open(&store, url, &options, &p.err), &p.err);
    return store;
}

static void add_items(void)
{
    static char ids[500][16];
    static tide_work_spec items[500];
    static tide_work_added added[500];
    char made[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    assert_ok_err(tide_task_create(p.store, &task, made, &p.err), &p.err);
    for (int from = 0; from < ITEMS; from += 500) {
        for (int i = 0; i < 500; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%d", from + i);
            items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = ids[i], .task_id = "t",
                                        .work_type = "job", .max_retries = -1};
        }
        assert_ok_err(tide_work_add(p.store, items, 500, added, &p.err), &p.err);
    }
}

static void cut_connections_lose_and_double_nothing(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(1));
    writer writers[WRITERS] = {0};
    pthread_t workers[WORKERS];
    add_items();
    for (int i = 0; i < WRITERS; i++) {
        (void)snprintf(writers[i].name, sizeof writers[i].name, "w%d", i);
        writers[i].numbers = calloc(WRITES_MAX, sizeof *writers[i].numbers);
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]));
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(0, pthread_create(&workers[i], NULL, work, NULL));
    cut_often(&random);
    atomic_store(&p.is_over, true);
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i], NULL);
    check_rows(writers);
    check_items();
    for (int i = 0; i < WRITERS; i++)
        free(writers[i].numbers);
}

static int set_up(void **state)
{
    (void)state;
    const pg_cluster_options options = {.has_tcp = true, .is_copy = true};
    assert_ok_err(pg_cluster_start(&p.cluster, &options, &p.err), &p.err);
    p.proxy = pg_proxy_open(p.cluster.port);
    p.store = open_by_port(pg_proxy_port(p.proxy));
    store_test_add_tables(p.store);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_store_close(p.store);
    pg_proxy_close(p.proxy);
    pg_cluster_stop(&p.cluster);
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cut_connections_lose_and_double_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
