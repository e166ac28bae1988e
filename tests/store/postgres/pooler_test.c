/* PgBouncer in transaction mode: no session state is left behind, and no promise is weaker. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store/engine.h"
#include "support/postgres/pg_bouncer.h"

typedef struct pooled {
    pg_cluster cluster;
    pg_bouncer bouncer;
    char url[PG_CLUSTER_URL_MAX];
    tide_error err;
} pooled;

static pooled p;

static int start_pooled(void **state)
{
    (void)state;
    assert_ok_err(pg_cluster_start(&p.cluster, &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    assert_ok_err(pg_bouncer_start(&p.bouncer, &p.cluster, "", &p.err), &p.err);
    pg_bouncer_url(&p.bouncer, "postgres", p.url);
    return 0;
}

static int stop_pooled(void **state)
{
    (void)state;
    pg_bouncer_stop(&p.bouncer);
    pg_cluster_stop(&p.cluster);
    return 0;
}

static tide_store *open_pooled(tide_pg_pooler pooler)
{
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .pg_pooler = pooler};
    assert_ok_err(tide_store_open(&store, p.url, &options, &p.err), &p.err);
    return store;
}

/* Several connections of another client, so that every server connection of the pool is seen. */
static void assert_settings_are_the_servers(void)
{
    static const char *const settings[][2] = {{"synchronous_commit", "on"},
                                              {"statement_timeout", "0"},
                                              {"lock_timeout", "0"},
                                              {"idle_in_transaction_session_timeout", "0"},
                                              {"jit", "on"}};
    PGconn *clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = PQconnectdb(p.url);
        PQclear(PQexec(clients[i], "BEGIN"));
    }
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
            char sql[64];
            (void)snprintf(sql, sizeof sql, "SHOW %s", settings[k][0]);
            PGresult *result = PQexec(clients[i], sql);
            assert_int_equal(PGRES_TUPLES_OK, PQresultStatus(result));
            assert_string_equal(settings[k][1], PQgetvalue(result, 0, 0));
            PQclear(result);
        }
    }
    for (int i = 0; i < 2; i++) {
        PQclear(PQexec(clients[i], "COMMIT"));
        PQfinish(clients[i]);
    }
}

static void nothing_is_left_in_the_sessions_of_a_pool(void **state)
{
    (void)state;
    tide_store *store = open_pooled(TIDE_PG_POOLER_AUTO);
    store_test_add_tables(store);
    numbered_row row = {.writer = "a"};
    for (row.n = 1; row.n <= 10; row.n++)
        assert_ok_err(tide_store_write(store, add_numbered, &row, &p.err), &p.err);
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(store, &count, &highest);
    assert_int_equal(10, count);
    assert_settings_are_the_servers();
    tide_store_close(store);
    assert_settings_are_the_servers();
}

typedef struct writer {
    tide_store *store;
    char name[8];
    tide_status status;
    tide_error err;
    pthread_t thread;
} writer;

static void *write_rows(void *arg)
{
    writer *self = arg;
    numbered_row row = {.writer = self->name};
    for (row.n = 1; row.n <= 20 && self->status >= TIDE_OK; row.n++)
        self->status = tide_store_write(self->store, add_numbered, &row, &self->err);
    return NULL;
}

/* More clients than server connections, through two stores. */
static void many_clients_share_two_server_connections(void **state)
{
    (void)state;
    tide_store *stores[2] = {open_pooled(TIDE_PG_POOLER_AUTO),
                             open_pooled(TIDE_PG_POOLER_TRANSACTION)};
    store_test_add_tables(stores[0]);
    writer writers[8] = {0};
    for (int i = 0; i < 8; i++) {
        writers[i].store = stores[i % 2];
        (void)snprintf(writers[i].name, sizeof writers[i].name, "w%d", i);
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, write_rows, &writers[i]));
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(0, pthread_join(writers[i].thread, NULL));
        assert_ok_err(writers[i].status, &writers[i].err);
    }
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(stores[0], &count, &highest);
    assert_int_equal(160, count);
    assert_int_equal(160, highest);
    tide_store_close(stores[0]);
    tide_store_close(stores[1]);
}

enum { MODE_SIZE = 128 };

static void find_mode(void *arg, const char *name, const char *value)
{
    char *found = arg;
    const size_t len = strlen(found);
    if (strcmp(name, "pooler") == 0 || strcmp(name, "commit_mode") == 0)
        (void)snprintf(found + len, MODE_SIZE - len, "%s ", value);
}

static void a_pooler_is_recognised_and_reported(void **state)
{
    (void)state;
    char found[MODE_SIZE] = "";
    tide_store *store = open_pooled(TIDE_PG_POOLER_AUTO);
    assert_ok_err(tide_store_describe(store, find_mode, found, &p.err), &p.err);
    assert_string_equal("synchronous transaction ", found);
    tide_store_close(store);
}

/* Each commit is synchronous: while the only standby is away nothing is acknowledged. */
static void a_missing_standby_is_noticed_through_a_pooler(void **state)
{
    (void)state;
    tide_store *store = open_pooled(TIDE_PG_POOLER_AUTO);
    tide_sequence_range range;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &p.err), &p.err);
    assert_ok_err(pg_cluster_require_standby(&p.cluster, "away", &p.err), &p.err);
    store->options.timeout_us = 3 * SECOND_US;
    for (int i = 0; i < 3; i++) {
        assert_status(TIDE_E_OUTCOME_UNKNOWN,
                      tide_sequence_next(store, "orders", 1, &range, NULL, &p.err));
        assert_contains(p.err.text, "waiting for synchronous standby");
    }
    /* What was given up is visible, but not durable: a read does not hand it out. */
    tide_sequence shown;
    assert_status(TIDE_E_TIMEOUT, tide_sequence_show(store, "orders", &shown, &p.err));
    assert_ok_err(pg_cluster_require_standby(&p.cluster, "", &p.err), &p.err);
    store->options.timeout_us = 60 * SECOND_US;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &p.err), &p.err);
    tide_store_close(store);
}

/* The pool is pointed to another server between two transactions. */
static void an_epoch_that_changes_behind_the_pooler_is_noticed(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store = open_pooled(TIDE_PG_POOLER_AUTO);
    tide_store *direct = NULL;
    tide_sequence_range range;
    tide_identity identity;
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &p.err), &p.err);
    pg_cluster_url(&p.cluster, "postgres", url);
    assert_ok_err(tide_store_open(&direct, url,
                                  &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .state_dir = ""},
                                  &p.err),
                  &p.err);
    assert_ok_err(tide_identity_raise(direct, "operator", "a test", NULL, &p.err), &p.err);
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &p.err), &p.err);
    tide_store_identity(store, &identity);
    assert_int_equal(2, identity.epoch);
    tide_store_close(direct);
    tide_store_close(store);
}

/* LISTEN is of no use there: watches poll. */
static void a_watch_behind_a_pooler_is_woken(void **state)
{
    (void)state;
    tide_store *store = open_pooled(TIDE_PG_POOLER_AUTO);
    tide_watch *watch = NULL;
    assert_ok_err(tide_watch_open(&watch, store, "news", &p.err), &p.err);
    assert_ok_err(tide_watch_wait(watch, 10 * SECOND_US, &p.err), &p.err);
    tide_watch_close(watch);
    tide_store_close(store);
}

#define POOLED_CASE(f) cmocka_unit_test_setup_teardown(f, start_pooled, stop_pooled)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        POOLED_CASE(nothing_is_left_in_the_sessions_of_a_pool),
        POOLED_CASE(many_clients_share_two_server_connections),
        POOLED_CASE(a_pooler_is_recognised_and_reported),
        POOLED_CASE(a_missing_standby_is_noticed_through_a_pooler),
        POOLED_CASE(an_epoch_that_changes_behind_the_pooler_is_noticed),
        POOLED_CASE(a_watch_behind_a_pooler_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
