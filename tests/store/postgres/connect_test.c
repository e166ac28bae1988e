/* Servers and poolers that accept connections and answer nothing; a pooler that was denied. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/engine.h"
#include "support/clock/fair_clock.h"
#include "support/postgres/pg_bouncer.h"

static struct {
    pg_cluster primary;
    pg_cluster standby;
    tide_error err;
} p;

static int start_one(void **state)
{
    (void)state;
    p.standby = (pg_cluster){.port = 0};
    assert_ok_err(pg_cluster_start(&p.primary, &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    return 0;
}

static int stop_one(void **state)
{
    (void)state;
    pg_cluster_stop(&p.primary);
    return 0;
}

static int start_pair(void **state)
{
    start_one(state);
    assert_ok_err(pg_cluster_start_standby(&p.standby, &p.primary,
                                           &(pg_cluster_options){.is_copy = true}, &p.err),
                  &p.err);
    return 0;
}

static int stop_pair(void **state)
{
    pg_cluster_stop(&p.standby);
    return stop_one(state);
}

static tide_status open_url(tide_store **out, const char *url, int64_t timeout_us,
                            tide_pg_pooler pooler)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .timeout_us = timeout_us,
                                        .state_dir = "", .pg_pooler = pooler};
    return tide_store_open(out, url, &options, &p.err);
}

static tide_status take(tide_store *store, int64_t *number)
{
    tide_sequence_range range = {.first = 0};
    const tide_status status = tide_sequence_next(store, "orders", 1, &range, NULL, &p.err);
    *number = range.first;
    return status;
}

/* ---- silence ---- */

static void freeze(const pg_cluster *cluster, bool is_frozen)
{
    char command[128];
    (void)snprintf(command, sizeof command, "kill -%s %d $(pgrep -P %d)",
                   is_frozen ? "STOP" : "CONT", (int)cluster->server.pid, (int)cluster->server.pid);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, PG_CLUSTER_DEADLINE_MS, &p.err),
                  &p.err);
    proc_result_done(&result);
}

/* This test is about deadlines, so it looks at a clock. The margin is for a busy machine. */
enum { TIMEOUT_MS = 1000, MARGIN_MS = 1000 };

static void assert_in_time(int64_t began_ms)
{
    const int64_t took_ms = fair_clock_ms() - began_ms;
    if (took_ms > TIMEOUT_MS + MARGIN_MS)
        fail_msg("a call of %d ms took %lld ms", TIMEOUT_MS, (long long)took_ms);
}

static void a_server_that_is_silent_ends_calls_at_their_deadline(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store = NULL;
    tide_store *other = NULL;
    int64_t number = 0;
    pg_cluster_url(&p.primary, "postgres", url);
    assert_ok_err(open_url(&store, url, 0, TIDE_PG_POOLER_AUTO), &p.err);
    assert_ok_err(take(store, &number), &p.err);
    store->options.timeout_us = TIMEOUT_MS * INT64_C(1000);

    freeze(&p.primary, true);
    int64_t began_ms = fair_clock_ms();
    const tide_status taken = take(store, &number);
    assert_in_time(began_ms);
    assert_true(taken == TIDE_E_TIMEOUT || taken == TIDE_E_OUTCOME_UNKNOWN);
    began_ms = fair_clock_ms();
    tide_sequence shown;
    assert_true(tide_sequence_show(store, "orders", &shown, &p.err) < TIDE_OK);
    assert_in_time(began_ms);
    began_ms = fair_clock_ms();
    assert_status(TIDE_E_UNAVAILABLE,
                  open_url(&other, url, TIMEOUT_MS * INT64_C(1000), TIDE_PG_POOLER_AUTO));
    assert_in_time(began_ms);
    assert_contains(p.err.text, "no response");

    freeze(&p.primary, false);
    store->options.timeout_us = 60 * SECOND_US;
    assert_ok_err(take(store, &number), &p.err);
    tide_store_close(store);
}

/* More than the socket's buffer holds, in the first message of a transaction. */
static void a_server_that_reads_nothing_does_not_hold_up_a_call(void **state)
{
    (void)state;
    enum { LEN = 8 << 20 };
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store = NULL;
    char *text = malloc(LEN);
    assert_non_null(text);
    memset(text, 'x', LEN);
    text[LEN - 1] = '\0';
    numbered_row row = {.writer = "small", .n = 1};
    pg_cluster_url(&p.primary, "postgres", url);
    assert_ok_err(open_url(&store, url, 0, TIDE_PG_POOLER_AUTO), &p.err);
    store_test_add_tables(store);
    assert_ok_err(tide_store_write(store, add_numbered, &row, &p.err), &p.err);
    store->options.timeout_us = SECOND_US;
    row.writer = text;
    freeze(&p.primary, true);
    const tide_status status = tide_store_write(store, add_numbered, &row, &p.err);
    freeze(&p.primary, false);
    assert_true(status == TIDE_E_TIMEOUT || status == TIDE_E_OUTCOME_UNKNOWN);
    store->options.timeout_us = 60 * SECOND_US;
    row = (numbered_row){.writer = "small", .n = 2};
    assert_ok_err(tide_store_write(store, add_numbered, &row, &p.err), &p.err);
    free(text);
    tide_store_close(store);
}

/* ---- a pooler whose server is gone ---- */

static void wait_replayed(void)
{
    char sql[128];
    char position[32];
    char found[8] = "";
    assert_ok(pg_cluster_query(&p.primary, "SELECT pg_current_wal_insert_lsn()", position,
                               sizeof position, &p.err));
    (void)snprintf(sql, sizeof sql, "SELECT pg_last_wal_replay_lsn() >= '%s'", position);
    while (strcmp(found, "t") != 0)
        assert_ok(pg_cluster_query(&p.standby, sql, found, sizeof found, &p.err));
}

enum { EARLY_FAILURES = 8 };

typedef struct failing_take {
    tide_sequence_range range;
    int failures; /* of runs before the server is gone */
} failing_take;

/* Its transaction begins with the number. */
static tide_status take_behind_failures(tide_tx *tx, void *arg, tide_error *err)
{
    failing_take *take = arg;
    if (take->failures++ < EARLY_FAILURES)
        return tide_fail(err, TIDE_E_SERIALIZATION, "run again");
    if (take->failures == EARLY_FAILURES + 1) {
        assert_ok_err(pg_cluster_crash(&p.primary, &p.err), &p.err);
        assert_ok_err(pg_cluster_promote(&p.standby, &p.err), &p.err);
    }
    return tide_sequence_declare(tx, "orders", 1, &take->range, err);
}

static void write_past_a_pooler(const char *more)
{
    /* Clients wait in its queue for longer than any call. */
    static const char queue[] = "query_wait_timeout = 600\nserver_login_retry = 600\n"
                                "server_connect_timeout = 600";
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer old = {0};
    pg_bouncer new = {0};
    tide_store *store = NULL;
    tide_store *fresh = NULL;
    int64_t number = 0;
    assert_ok_err(pg_bouncer_start(&old, &p.primary, queue, &p.err), &p.err);
    assert_ok_err(pg_bouncer_start(&new, &p.standby, queue, &p.err), &p.err);
    (void)snprintf(url, sizeof url, "postgres://postgres@/postgres?host=%s,%s&port=%d,%d%s",
                   old.dir.path, new.dir.path, old.port, new.port, more);
    assert_ok_err(open_url(&store, url, 600 * SECOND_US, TIDE_PG_POOLER_AUTO), &p.err);
    assert_ok_err(take(store, &number), &p.err);
    wait_replayed();
    /* Neither call has a deadline that the program under test would live to see. What failed fast
     * before does not make a call patient. */
    failing_take second = {0};
    const int64_t began_ms = fair_clock_ms();
    assert_ok_err(tide_store_write(store, take_behind_failures, &second, &p.err), &p.err);
    assert_int_equal(2, second.range.first);
    assert_true(fair_clock_ms() - began_ms < 120000);
    assert_ok_err(open_url(&fresh, url, 600 * SECOND_US, TIDE_PG_POOLER_AUTO), &p.err);
    tide_sequence shown;
    assert_ok_err(tide_sequence_show(fresh, "orders", &shown, &p.err), &p.err);
    assert_int_equal(2, shown.last);
    tide_store_close(fresh);
    tide_store_close(store);
    pg_bouncer_stop(&new);
    pg_bouncer_stop(&old);
}

static void a_call_leaves_a_pooler_whose_server_is_gone(void **state)
{
    (void)state;
    write_past_a_pooler("");
}

static void a_call_leaves_a_pooler_whose_server_is_gone_for_the_primary(void **state)
{
    (void)state;
    write_past_a_pooler("&target_session_attrs=read-write");
}

/* ---- a pooler that was denied ---- */

static void a_pooler_that_the_options_deny_is_refused(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer pooler = {0};
    tide_store *store = NULL;
    int64_t number = 0;
    assert_ok_err(pg_bouncer_start(&pooler, &p.primary, "", &p.err), &p.err);
    pg_bouncer_url(&pooler, "postgres", url);
    /* Nothing was prepared by another process yet: two connections are answered by one session. */
    assert_status(TIDE_E_INVALID, open_url(&store, url, 0, TIDE_PG_POOLER_NONE));
    assert_contains(p.err.text, "--pg-pooler");
    char tables[8];
    assert_ok(pg_cluster_query(&p.primary,
                               "SELECT count(*) FROM pg_tables WHERE tablename = 'tasks'", tables,
                               sizeof tables, &p.err));
    assert_string_equal("0", tables);
    assert_ok_err(open_url(&store, url, 0, TIDE_PG_POOLER_AUTO), &p.err);
    assert_ok_err(take(store, &number), &p.err);
    tide_store_close(store);
    pg_bouncer_stop(&pooler);
}

/* There each client has its session. */
static void a_pooler_in_session_mode_may_be_used_as_a_direct_connection(void **state)
{
    (void)state;
    char url[PG_CLUSTER_URL_MAX];
    pg_bouncer pooler = {0};
    tide_store *store = NULL;
    int64_t number = 0;
    assert_ok_err(pg_bouncer_start(&pooler, &p.primary,
                                   "pool_mode = session\ndefault_pool_size = 20", &p.err),
                  &p.err);
    pg_bouncer_url(&pooler, "postgres", url);
    for (int i = 1; i <= 3; i++) {
        assert_ok_err(open_url(&store, url, 0, TIDE_PG_POOLER_NONE), &p.err);
        assert_ok_err(take(store, &number), &p.err);
        assert_int_equal(i, number);
        tide_store_close(store);
    }
    pg_bouncer_stop(&pooler);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_that_is_silent_ends_calls_at_their_deadline,
                                        start_one, stop_one),
        cmocka_unit_test_setup_teardown(a_server_that_reads_nothing_does_not_hold_up_a_call,
                                        start_one, stop_one),
        cmocka_unit_test_setup_teardown(a_call_leaves_a_pooler_whose_server_is_gone, start_pair,
                                        stop_pair),
        cmocka_unit_test_setup_teardown(a_call_leaves_a_pooler_whose_server_is_gone_for_the_primary,
                                        start_pair, stop_pair),
        cmocka_unit_test_setup_teardown(a_pooler_that_the_options_deny_is_refused, start_one,
                                        stop_one),
        cmocka_unit_test_setup_teardown(a_pooler_in_session_mode_may_be_used_as_a_direct_connection,
                                        start_one, stop_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
