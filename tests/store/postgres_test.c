/* What only PostgreSQL can do to us: lost connections, a server that is away, serialization failures. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

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
        assert_ok_err(tide_write(t->store, add_numbered, &row, &t->err), &t->err);
        assert_ok(tide_read_local(other, kill_others, NULL, &t->err));
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
    tide_bind_i64(query, "id", 1);
    TIDE_TRY(tide_query_run(query, NULL, err));
    if (c->runs == 1)
        assert_ok(tide_read_local(c->killer, kill_others, NULL, err));
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return add_numbered(tx, &c->row, err);
}

static void a_connection_lost_before_the_commit_runs_the_closure_again(void **state)
{
    store_test *t = *state;
    cut c = {.killer = store_test_open_real(t), .row = {.writer = "a", .n = 1}};
    tide_store *store = store_test_open_real(t);
    assert_ok_err(tide_write(store, lose_the_connection_once, &c, &t->err), &t->err);
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

static void a_crashed_server_is_waited_for_and_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    static pg_cluster own;
    tide_error err;
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&own, NULL, &err), &err);
    pg_cluster_url(&own, "postgres", url);
    tide_store *store = NULL;
    tide_store_options options = {.state_dir = ""};
    assert_ok_err(tide_store_open(&store, url, &options, &err), &err);
    store_test_add_tables(store);
    numbered_row row = {.writer = "a"};
    for (row.n = 1; row.n <= 20; row.n++) {
        assert_ok_err(tide_write(store, add_numbered, &row, &err), &err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_pool_whose_connections_were_all_cut_recovers),
        STORE_CASE_POSTGRES(a_connection_lost_before_the_commit_runs_the_closure_again),
        STORE_CASE_POSTGRES(a_server_that_is_away_is_reported_in_words),
        STORE_CASE_POSTGRES(a_database_that_does_not_exist_is_not_found),
        cmocka_unit_test(a_crashed_server_is_waited_for_and_keeps_what_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
