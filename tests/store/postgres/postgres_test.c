/* What only PostgreSQL can do to us: lost connections, a server that is away, serialization failures. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/cleanup.h"
#include "store/engine.h"

static tide_status kill_others(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_KILL_BACKEND, err));
    return tide_query_run(query, NULL, err);
}

static void a_pool_whose_connections_were_all_cut_recovers(void **state)
{
    store_test *t = *state;
    tide_store *other = store_test_open_real(t);
    numbered_row row = {.writer = "a"};
    for (row.n = 1; row.n <= 5; row.n++) {
        assert_ok_err(tide_store_write(t->store, add_numbered, &row, &t->err), &t->err);
        assert_ok(tide_store_read_local(other, kill_others, NULL, &t->err));
    }
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    assert_int_equal(5, count);
    assert_int_equal(5, highest);
}

typedef struct cut {
    tide_store *killer;
    int runs;
    numbered_row row;
} cut;

/* The connection is lost in the middle of the closure, before anything was committed. */
static tide_status lose_the_connection_once(tide_tx *tx, void *arg, tide_error *err)
{
    cut *c = arg;
    int64_t now_us = 0;
    c->runs++;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    TIDE_TRY(tide_query_run(query, NULL, err));
    if (c->runs == 1)
        assert_ok(tide_store_read_local(c->killer, kill_others, NULL, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return add_numbered(tx, &c->row, err);
}

static void a_connection_lost_before_the_commit_runs_the_closure_again(void **state)
{
    store_test *t = *state;
    cut c = {.killer = store_test_open_real(t), .row = {.writer = "a", .n = 1}};
    tide_store *store = store_test_open_real(t);
    assert_ok_err(tide_store_write(store, lose_the_connection_once, &c, &t->err), &t->err);
    assert_int_equal(2, c.runs);
    assert_int_equal(1, c.row.range.first);
}

static void a_server_that_is_away_is_reported_in_words(void **state)
{
    store_test *t = *state;
    (void)snprintf(t->url, sizeof t->url,
                   "postgres://tide:secret@127.0.0.1:1/db?connect_timeout=2");
    tide_store *store = NULL;
    assert_status(TIDE_E_UNAVAILABLE, tide_store_open(&store, t->url, NULL, &t->err));
    assert_contains(t->err.text, "127.0.0.1");
    assert_null(strstr(t->err.text, "secret"));
}

static void a_database_that_does_not_exist_is_not_found(void **state)
{
    store_test *t = *state;
    pg_cluster_url(pg_cluster_for_test(), "no_such_database", t->url);
    tide_store *store = NULL;
    assert_status(TIDE_E_NOT_FOUND, tide_store_open(&store, t->url, NULL, &t->err));
    assert_status(TIDE_E_INVALID,
                  tide_store_open(&store, "postgres://localhost/db?nonsense=1", NULL, &t->err));
}

/* libpq quotes what it complains about. */
static void a_malformed_url_does_not_show_its_password(void **state)
{
    store_test *t = *state;
    static const char *const bad[] = {"postgres://u:secret@[::1/db", "postgres://u:s%zzecret@h/db",
                                      "postgres://u:secret@h:port/db"};
    tide_store *store = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(TIDE_E_INVALID, tide_store_open(&store, bad[i], NULL, &t->err));
        assert_null(strstr(t->err.text, "ecret"));
        assert_status(TIDE_E_INVALID, tide_store_open(&store, bad[i], NULL, NULL));
    }
}

static tide_status run_script(tide_tx *tx, void *arg, tide_error *err)
{
    return tx->store->ops->script(tx, arg, err);
}

/* A refusal is not a server that is away: no waiting, no "try again". */
static void a_login_that_is_refused_is_not_tried_again(void **state)
{
    store_test *t = *state;
    tide_store *store = NULL;
    assert_ok_err(tide_store_write(t->store, run_script, "CREATE ROLE no_entry NOLOGIN", &t->err),
                  &t->err);
    char url[PG_CLUSTER_URL_MAX];
    const char *at = strchr(t->url, '@');
    assert_non_null(at);
    (void)snprintf(url, sizeof url, "postgres://no_entry%s", at);
    assert_status(TIDE_E_UNAUTHENTICATED, tide_store_open(&store, url, NULL, &t->err));
    assert_ok(tide_store_write(t->store, run_script, "DROP ROLE no_entry", &t->err));
}

static void a_schema_version_of_another_program_is_foreign(void **state)
{
    store_test *t = *state;
    char name[PG_CLUSTER_NAME_MAX];
    pg_cluster *cluster = pg_cluster_for_test();
    assert_ok(pg_cluster_fresh_database(cluster, NULL, name, &t->err));
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(cluster, name, url);
    PGconn *pg = PQconnectdb(url);
    PQclear(PQexec(pg, "CREATE TABLE schema_version (version text, applied timestamptz)"));
    PQfinish(pg);
    tide_store *store = NULL;
    assert_status(TIDE_E_FOREIGN, tide_store_open(&store, url, NULL, &t->err));
}

/* Nothing is acknowledged while a synchronous standby is away, and nobody waits for ever. */
static void a_missing_standby_leaves_the_outcome_unknown(void **state)
{
    (void)state;
    static pg_cluster own;
    static const char *const settings[] = {"synchronous_standby_names=away", NULL};
    const pg_cluster_options cluster_options = {.settings = settings};
    tide_error err;
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&own, &cluster_options, &err), &err);
    pg_cluster_url(&own, "postgres", url);
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = "",
                                        .timeout_us = 8 * SECOND_US};
    assert_status(TIDE_E_OUTCOME_UNKNOWN, tide_store_open(&store, url, &options, &err));
    pg_cluster_stop(&own);
}

static void a_crashed_server_is_waited_for_and_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    static pg_cluster own;
    tide_error err;
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&own, NULL, &err), &err);
    pg_cluster_url(&own, "postgres", url);
    tide_store *store = NULL;
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = ""};
    assert_ok_err(tide_store_open(&store, url, &options, &err), &err);
    store_test_add_tables(store);
    numbered_row row = {.writer = "a"};
    for (row.n = 1; row.n <= 20; row.n++) {
        assert_ok_err(tide_store_write(store, add_numbered, &row, &err), &err);
        assert_int_equal(row.n, row.range.first);
        if (row.n % 7 == 0) {
            assert_ok_err(pg_cluster_crash(&own, &err), &err);
            assert_ok_err(pg_cluster_restart(&own, &err), &err);
        }
    }
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(store, &count, &highest);
    assert_int_equal(20, count);
    tide_identity identity;
    tide_store_identity(store, &identity);
    assert_int_equal(1, identity.epoch); /* crash recovery is not a failover */
    tide_store_close(store);
    pg_cluster_stop(&own);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_pool_whose_connections_were_all_cut_recovers),
        STORE_CASE_POSTGRES(a_connection_lost_before_the_commit_runs_the_closure_again),
        STORE_CASE_POSTGRES(a_server_that_is_away_is_reported_in_words),
        STORE_CASE_POSTGRES(a_database_that_does_not_exist_is_not_found),
        STORE_CASE_POSTGRES(a_malformed_url_does_not_show_its_password),
        STORE_CASE_POSTGRES_SUPERUSER(a_login_that_is_refused_is_not_tried_again),
        STORE_CASE_POSTGRES(a_schema_version_of_another_program_is_foreign),
        cmocka_unit_test(a_missing_standby_leaves_the_outcome_unknown),
        cmocka_unit_test(a_crashed_server_is_waited_for_and_keeps_what_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
