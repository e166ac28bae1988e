/* The connection breaks at any message: a number that is handed out was issued, and to nobody else. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

#include "support/postgres/pg_proxy.h"

enum { CUTS_MAX = 200 };

static struct {
    pg_cluster cluster;
    tide_error err;
} p;

static tide_store *open_by_port(int port)
{
    char url[128];
    tide_store *store = NULL;
    (void)snprintf(url, sizeof url,
                   "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&gssencmode=disable",
                   port);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .timeout_us = 20 * SECOND_US,
                                        .state_dir = ""};
    assert_ok_err(tide_store_open(&store, url, &options, &p.err), &p.err);
    return store;
}

typedef tide_status take_fn(tide_store *store, tide_sequence_range *range);

/* One round trip; the transaction has no id that a witness could be asked for. */
static tide_status take_at_once(tide_store *store, tide_sequence_range *range)
{
    return tide_sequence_next(store, "orders", 1, range, NULL, &p.err);
}

static tide_status ask_and_declare(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_sequence_declare(tx, "orders", 1, arg, err);
}

/* The first response brings the transaction's id, by which the witness knows that it committed. */
static tide_status take_behind_a_response(tide_store *store, tide_sequence_range *range)
{
    return tide_store_write(store, ask_and_declare, range, &p.err);
}

/* The witness knows that a commit took place, and not which numbers it took. */
static void cut_at_each_message(take_fn *take)
{
    pg_proxy *proxy = pg_proxy_open(p.cluster.port);
    tide_store *store = open_by_port(pg_proxy_port(proxy));
    int64_t last = 0;
    int cuts = 0;
    for (int is_all = 0; is_all < 2; is_all++) {
        bool has_cut = true;
        for (int at = 1; at < CUTS_MAX && has_cut; at++) {
            tide_sequence_range range = {.first = 0};
            pg_proxy_arm(proxy, at, is_all != 0);
            const tide_status status = take(store, &range);
            has_cut = pg_proxy_disarm(proxy);
            cuts += has_cut;
            if (status < TIDE_OK) {
                assert_status(TIDE_E_OUTCOME_UNKNOWN, status);
                continue;
            }
            if (range.first <= last)
                fail_msg("cut at %d: %lld was handed out after %lld", at, (long long)range.first,
                         (long long)last);
            last = range.first;
        }
    }
    print_message("%d cuts\n", cuts);
    assert_true(cuts > 10);
    tide_sequence shown;
    assert_ok_err(tide_sequence_show(store, "orders", &shown, &p.err), &p.err);
    assert_true(shown.last >= last);
    tide_store_close(store);
    pg_proxy_close(proxy);
}

static void a_number_that_was_not_read_is_not_handed_out(void **state)
{
    (void)state;
    cut_at_each_message(take_at_once);
}

static void a_commit_that_a_witness_knows_hands_out_no_number_that_was_not_read(void **state)
{
    (void)state;
    cut_at_each_message(take_behind_a_response);
}

static int set_up(void **state)
{
    (void)state;
    const pg_cluster_options options = {.has_tcp = true, .is_copy = true};
    assert_ok_err(pg_cluster_start(&p.cluster, &options, &p.err), &p.err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_cluster_stop(&p.cluster);
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_that_was_not_read_is_not_handed_out),
        cmocka_unit_test(a_commit_that_a_witness_knows_hands_out_no_number_that_was_not_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
