/* A batch comes in several pages, with holes, twice, over others: nobody ever sees a part of it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/peer.h"
#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define SCHEMA "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)"
static const char *const tables[] = {"t", NULL};

static int setup(void **state)
{
    static world w;
    world_init(&w, 3, 21, SCHEMA, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

/* The log of node 0 as node `at` has it. */
static tide_origin_mark mark_at(world *w, int at)
{
    tide_origin_mark found[WORLD_MARKS_MAX];
    const tide_node_id id = tide_node_get_id(w->nodes[0].node);
    const int count = world_marks(w, at, found);
    for (int i = 0; i < count; i++)
        if (memcmp(&found[i].origin, &id, sizeof id) == 0)
            return found[i];
    return (tide_origin_mark){.origin = id, .epoch = 1};
}

static void write_batch(world *w, int from, int count)
{
    world_run(w, 0,
              "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) "
              "INSERT INTO t SELECT i, i FROM n",
              from, from + count);
    world_fold(w, 0);
}

/* One page from one node to another; false: there was none. */
static bool carry(world *w, int to, int from, int64_t after, int64_t rows)
{
    static world_page page;
    const tide_origin_mark mark = mark_at(w, from);
    assert_ok_err(world_read(w, from, &mark, after, rows, &page), &w->err);
    const bool is_any = page.count > 0;
    if (is_any)
        (void)world_apply(w, to, &page);
    world_page_done(&page);
    return is_any;
}

static int64_t rows_at(world *w, int node)
{
    return world_number(w, node, "SELECT count(*) FROM t");
}

static void a_batch_larger_than_a_page_appears_at_once(void **state)
{
    world *w = *state;
    write_batch(w, 1, 50);
    for (int64_t n = 0; n < 50; n = mark_at(w, 1).prefix) {
        assert_int_equal(0, rows_at(w, 1));
        assert_true(carry(w, 1, 0, n, 7));
        assert_true(mark_at(w, 1).prefix > n); /* what is here need not be sent again */
        assert_int_equal(mark_at(w, 1).prefix < 50,
                         world_number(w, 1, "SELECT count(*) FROM tide_replica_spool"));
    }
    assert_int_equal(50, rows_at(w, 1));
    assert_int_equal(
        0, world_number(w, 1, "SELECT count(*) FROM tide_replica_events WHERE NOT processed"));
}

/* The process dies between pages: what came is there, and the transfer goes on behind it. */
static void a_crash_between_pages_is_gone_on_from(void **state)
{
    world *w = *state;
    write_batch(w, 1, 30);
    assert_true(carry(w, 1, 0, 0, 10));
    world_reopen(w, 1);
    assert_int_equal(10, mark_at(w, 1).prefix);
    assert_int_equal(0, rows_at(w, 1));
    assert_true(carry(w, 1, 0, 10, 10));
    world_reopen(w, 1);
    assert_true(carry(w, 1, 0, 20, 10));
    assert_int_equal(30, rows_at(w, 1));
}

/* A node that has a part passes it on; the third keeps it as well, and gets the rest from somebody else. */
static void a_part_of_a_batch_is_relayed_and_waits_there_too(void **state)
{
    world *w = *state;
    write_batch(w, 1, 5);
    write_batch(w, 6, 20);
    assert_true(carry(w, 1, 0, 0, 10));
    assert_int_equal(5, rows_at(w, 1));
    assert_true(carry(w, 1, 0, 5, 10));
    assert_int_equal(15, mark_at(w, 1).prefix);
    assert_int_equal(5, rows_at(w, 1));
    while (carry(w, 2, 1, mark_at(w, 2).prefix, 4))
        continue;
    assert_int_equal(15, mark_at(w, 2).prefix);
    assert_int_equal(5, rows_at(w, 2));
    while (carry(w, 2, 0, mark_at(w, 2).prefix, 4))
        continue;
    assert_int_equal(25, rows_at(w, 2));
    while (carry(w, 1, 2, mark_at(w, 1).prefix, 4))
        continue;
    world_assert_same(w, tables, true);
}

static void a_sync_between_nodes_in_the_middle_of_a_batch_is_proven(void **state)
{
    world *w = *state;
    write_batch(w, 1, 30);
    assert_true(carry(w, 1, 0, 0, 10));
    tide_peer one = tide_peer_of_node(w->nodes[1].node, "one");
    tide_peer two = tide_peer_of_node(w->nodes[2].node, "two");
    tide_sync_result result;
    world_run(w, 1, "INSERT INTO t VALUES (1000, 0)");
    assert_ok_err(tide_sync(&one, &two, &(tide_sync_options){.page_rows = 3}, &result, &w->err),
                  &w->err);
    assert_int_equal(1, rows_at(w, 2)); /* the row of its own; of the batch nothing */
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(31, rows_at(w, 2));
}

/* What waits may be older than a deletion that it will meet: the tombstone stays for it. */
static void tombstones_stay_for_what_waits(void **state)
{
    world *w = *state;
    const tide_collect_options options = {.safety = -1};
    tide_collected collected;
    write_batch(w, 1, 20);
    assert_true(carry(w, 1, 0, 0, 10));
    world_advance(w, 1000000);
    world_run(w, 1, "INSERT INTO t VALUES (15, -1)"); /* a row that the batch will bring, too */
    world_run(w, 1, "DELETE FROM t WHERE id = 15");
    world_fold(w, 1);
    world_advance(w, 2 * WEEK_US);
    assert_ok_err(tide_node_collect(w->nodes[1].node, &options, &collected, &w->err), &w->err);
    assert_int_equal(0, collected.tombstones);
    assert_true(carry(w, 1, 0, 10, 100));
    assert_int_equal(19, rows_at(w, 1)); /* 15 was deleted later than the batch made it */
}

/* Transfers between accounts, in transactions of any size, carried event by event in any order: the sum is 0 whenever anybody looks. */
static void the_sum_is_right_at_every_moment(void **state)
{
    (void)state;
    enum { TRANSFERS = 12, ACCOUNTS = 6 };
    for (uint64_t seed = 1; seed <= 8; seed++) {
        world w;
        prng random;
        static world_page page;
        prng_init(&random, seed);
        world_init(&w, 2, seed, SCHEMA, tables, WEEK_US);
        for (int i = 0; i < TRANSFERS; i++) {
            world_run(&w, 0, "BEGIN");
            for (int k = (int)prng_below(&random, 4); k >= 0; k--) {
                const int amount = (int)prng_below(&random, 100);
                world_run(
                    &w, 0,
                    "INSERT INTO t VALUES (%d, %d) ON CONFLICT DO UPDATE SET v = v + excluded.v",
                    (int)prng_below(&random, ACCOUNTS), amount);
                world_run(
                    &w, 0,
                    "INSERT INTO t VALUES (%d, %d) ON CONFLICT DO UPDATE SET v = v + excluded.v",
                    (int)prng_below(&random, ACCOUNTS), -amount);
            }
            world_run(&w, 0, "COMMIT");
            if (prng_below(&random, 2) == 0)
                world_fold(&w, 0);
        }
        world_fold(&w, 0);
        const tide_origin_mark mark = mark_at(&w, 0);
        assert_ok_err(world_read(&w, 0, &mark, 0, 1000, &page), &w.err);
        for (int i = 0; i < page.count * 12; i++) {
            const int first = (int)prng_below(&random, (uint64_t)page.count);
            const int most = page.count - first < 3 ? page.count - first : 3;
            const int count = 1 + (int)prng_below(&random, (uint64_t)most);
            tide_applied applied;
            assert_ok_err(
                tide_node_apply(w.nodes[1].node, &page.events[first], count, &applied, &w.err),
                &w.err);
            if (world_number(&w, 1, "SELECT coalesce(sum(v), 0) FROM t") != 0)
                fail_msg("seed %d: a part of a transaction is seen", (int)seed);
        }
        world_page_done(&page);
        world_settle(&w);
        world_assert_same(&w, tables, true);
        assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM tide_replica_spool"));
        world_done(&w);
    }
}

/* Its table came later than it, and the rest of its batch may never come: it tells its data all the same. */
static void what_waits_tells_its_data_once_its_table_is_known(void **state)
{
    world *w = *state;
    tide_tracked tracked;
    for (int i = 0; i < 2; i++)
        world_run(w, i, "CREATE TABLE late(id INTEGER PRIMARY KEY, v)");
    assert_ok_err(tide_node_track(w->nodes[0].node, "late", WEEK_US, &tracked, &w->err), &w->err);
    world_run(w, 0, "INSERT INTO late VALUES(1, 'a'), (2, 'b')");
    world_fold(w, 0);
    assert_true(carry(w, 1, 0, 0, 1));
    assert_int_equal(
        1, world_number(w, 1, "SELECT count(*) FROM tide_replica_events WHERE data IS NULL"));
    assert_ok_err(tide_node_track(w->nodes[1].node, "late", WEEK_US, &tracked, &w->err), &w->err);
    world_fold(w, 1);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM tide_replica_spool"));
    assert_int_equal(1, world_number(w, 1,
                                     "SELECT count(*) FROM late_Events WHERE NOT processed AND "
                                     "data = '{\"id\":1,\"v\":\"a\"}'"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_batch_larger_than_a_page_appears_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_crash_between_pages_is_gone_on_from, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_a_batch_is_relayed_and_waits_there_too, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_sync_between_nodes_in_the_middle_of_a_batch_is_proven,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(tombstones_stay_for_what_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_tells_its_data_once_its_table_is_known, setup,
                                        teardown),
        cmocka_unit_test(the_sum_is_right_at_every_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
