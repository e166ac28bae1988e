/* What nobody needs goes; what somebody may need stays. */
#include <string.h>

#include "world.h"

static const char schema[] = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";
static const char *const tables[] = {"t", NULL};
#define HOUR_US INT64_C(3600000000)
static const tide_collect_options all = {.safety = -1};

static int setup(void **state)
{
    static world w;
    world_init(&w, 3, 13, schema, tables, HOUR_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

static tide_collected collect(world *w, int node, const tide_collect_options *options)
{
    tide_collected collected;
    assert_ok_err(tide_node_collect(w->nodes[node].node, options, &collected, &w->err), &w->err);
    return collected;
}

static void write_some(world *w, int node, int first, int last)
{
    for (int i = first; i <= last; i++)
        world_run(w, node, "INSERT INTO t VALUES (%d, 'x')", i);
    world_fold(w, node);
}

/* GC safety of the replication document: nothing goes that a live peer has not, nor within retention. */
static void events_stay_until_they_are_old_and_everywhere(void **state)
{
    world *w = *state;
    write_some(w, 0, 1, 10);
    assert_int_equal(0, collect(w, 0, &all).events); /* young */
    (void)world_pull(w, 1, 0, 100);
    world_acknowledge(w, 100 * HOUR_US); /* node 2 has nothing */
    world_advance(w, 2 * HOUR_US);
    assert_int_equal(0, collect(w, 0, &all).events);
    (void)world_pull(w, 2, 1, 100);
    world_acknowledge(w, 100 * HOUR_US);
    static const tide_collect_options safe = {.safety = 4};
    assert_int_equal(6, collect(w, 0, &safe).events); /* the window stays */
    assert_int_equal(4, collect(w, 0, &all).events);
    assert_int_equal(10,
                     world_number(w, 0, "SELECT floor FROM tide_replica_origins WHERE floor > 0"));
}

/* A dead peer expires; who comes below the floor is told, never given less. */
static void a_dead_peer_expires_and_a_new_one_needs_a_snapshot(void **state)
{
    world *w = *state;
    static world_page page;
    tide_origin_mark found[WORLD_MARKS_MAX];
    write_some(w, 0, 1, 10);
    (void)world_pull(w, 1, 0, 100);
    world_acknowledge(w, HOUR_US);
    world_advance(w, HOUR_US * 3 / 2); /* leases and retention are over */
    assert_int_equal(10, collect(w, 0, &all).events);
    const int count = world_marks(w, 0, found);
    assert_int_equal(1, count);
    assert_int_equal(10, found[0].floor);
    assert_status(TIDE_E_NOT_FOUND, world_read(w, 0, &found[0], 0, 100, &page));
    assert_status(TIDE_E_NOT_FOUND, world_read(w, 0, &found[0], 9, 100, &page));
    assert_ok_err(world_read(w, 0, &found[0], 10, 100, &page), &w->err);
    assert_int_equal(0, page.count);
}

/* An event that comes again after it was collected is a duplicate by its position. */
static void what_was_collected_is_not_applied_again(void **state)
{
    world *w = *state;
    static world_page page;
    tide_origin_mark found[WORLD_MARKS_MAX];
    write_some(w, 0, 1, 1);
    assert_true(world_marks(w, 0, found) == 1);
    assert_ok_err(world_read(w, 0, &found[0], 0, 100, &page), &w->err); /* on its way for long */
    world_settle(w);
    world_run(w, 1, "DELETE FROM t WHERE id = 1");
    world_settle(w);
    world_advance(w, 2 * HOUR_US);
    world_acknowledge(w, HOUR_US);
    for (int i = 0; i < 3; i++) {
        const tide_collected collected = collect(w, i, &all);
        assert_int_equal(2, collected.events);
        assert_int_equal(1, collected.tombstones);
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM tide_replica_clocks"));
    }
    const tide_applied applied = world_apply(w, 2, &page);
    assert_int_equal(1, applied.known);
    assert_int_equal(0, applied.events);
    assert_int_equal(0, world_number(w, 2, "SELECT count(*) FROM t"));
    world_page_done(&page);
}

/* A tombstone stays while a peer may still hold an older write of its row. */
static void a_tombstone_outlives_what_it_has_to_meet(void **state)
{
    world *w = *state;
    write_some(w, 0, 1, 1);
    world_settle(w);
    world_run(w, 2, "UPDATE t SET a = 'from afar' WHERE id = 1"); /* not sent yet */
    world_fold(w, 2);
    world_advance(w, 1000000);
    world_run(w, 1, "DELETE FROM t WHERE id = 1");
    (void)world_pull(w, 0, 1, 100);
    (void)world_pull(w, 2, 1, 100);
    world_advance(w, 2 * HOUR_US);
    world_acknowledge(w, HOUR_US);
    assert_int_equal(0, collect(w, 0, &all).tombstones);
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM t"));
    assert_int_equal(1, world_number(w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
}

/* A node that nobody knew, with a clock that is behind: where the deletion is forgotten its row stands, so it is said again for those who remember. */
static void a_late_row_stands_everywhere_or_nowhere(void **state)
{
    world *w = *state;
    virtual_env_set_wall(&w->nodes[2].env,
                         w->nodes[2].env.env.wall_us(&w->nodes[2].env.env) - HOUR_US);
    world_run(w, 2, "INSERT INTO t VALUES (1, 'late'), (2, 'late too')");
    world_fold(w, 2);
    virtual_env_set_wall(&w->nodes[2].env,
                         w->nodes[2].env.env.wall_us(&w->nodes[2].env.env) + HOUR_US);
    write_some(w, 0, 1, 1);
    (void)world_pull(w, 1, 0, 100);
    world_run(w, 0, "DELETE FROM t WHERE id = 1");
    (void)world_pull(w, 1, 0, 100);
    world_advance(w, 2 * HOUR_US);
    assert_int_equal(1, collect(w, 0, &all).tombstones); /* node 1 keeps it */
    (void)world_pull(w, 2, 1, 100);
    world_settle(w);
    world_settle(w); /* what is said again is folded by the next look */
    world_assert_same(w, tables, false);
    assert_int_equal(2, world_number(w, 1, "SELECT count(*) FROM t"));
    /* A row of now is nobody's concern. */
    const int64_t events = world_number(w, 0, "SELECT count(*) FROM tide_replica_events");
    world_run(w, 1, "INSERT INTO t VALUES (3, 'new')");
    world_settle(w);
    assert_int_equal(events + 1, world_number(w, 0, "SELECT count(*) FROM tide_replica_events"));
}

/* What never came is not gone: a hole below what is here raises no floor. */
static void a_hole_raises_no_floor(void **state)
{
    world *w = *state;
    static world_page page;
    tide_origin_mark found[WORLD_MARKS_MAX];
    tide_applied applied;
    write_some(w, 0, 1, 3);
    assert_int_equal(1, world_marks(w, 0, found));
    assert_ok_err(world_read(w, 0, &found[0], 0, 100, &page), &w->err);
    assert_ok_err(tide_node_apply(w->nodes[1].node, &page.events[2], 1, &applied, &w->err),
                  &w->err);
    world_page_done(&page);
    world_advance(w, 2 * HOUR_US);
    assert_int_equal(0, collect(w, 1, &all).events);
    assert_int_equal(0, world_number(w, 1, "SELECT max(floor) FROM tide_replica_origins"));
}

/* Bounded batches: a long history goes in many turns. */
static void a_turn_is_bounded(void **state)
{
    world *w = *state;
    static const tide_collect_options few = {.safety = -1, .batch = 7};
    write_some(w, 0, 1, 20);
    world_advance(w, 2 * HOUR_US);
    int64_t events = 0;
    int turns = 0;
    for (bool more = true; more; turns++) {
        const tide_collected collected = collect(w, 0, &few);
        assert_true(collected.events <= 7);
        events += collected.events;
        more = collected.more;
    }
    assert_int_equal(20, events);
    assert_int_equal(3, turns);
}

/* An origin that was put back says how much of its own log it still has: the rest stays for it. */
static void events_stay_for_their_origin_that_was_put_back(void **state)
{
    world *w = *state;
    tide_origin_mark marks[WORLD_MARKS_MAX];
    tide_env *env = &w->nodes[1].env.env;
    write_some(w, 0, 1, 10);
    world_settle(w);
    world_acknowledge(w, 100 * HOUR_US);
    const tide_node_id id = tide_node_get_id(w->nodes[0].node);
    const int count = world_marks(w, 0, marks);
    for (int i = 0; i < count; i++)
        if (memcmp(&marks[i].origin, &id, sizeof id) == 0)
            marks[i].prefix = 4;
    assert_ok_err(tide_node_note_peer(w->nodes[1].node, &id, "peer",
                                      env->wall_us(env) + 100 * HOUR_US, marks, count, &w->err),
                  &w->err);
    world_advance(w, 2 * HOUR_US);
    assert_int_equal(4, collect(w, 1, &all).events);
    assert_int_equal(6, world_number(w, 1, "SELECT count(*) FROM tide_replica_events"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_stay_until_they_are_old_and_everywhere, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_dead_peer_expires_and_a_new_one_needs_a_snapshot, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_collected_is_not_applied_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tombstone_outlives_what_it_has_to_meet, setup, teardown),
        cmocka_unit_test_setup_teardown(a_late_row_stands_everywhere_or_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hole_raises_no_floor, setup, teardown),
        cmocka_unit_test_setup_teardown(a_turn_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(events_stay_for_their_origin_that_was_put_back, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
