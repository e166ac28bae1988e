/* What peers send becomes rows: once, in any order, or says why not. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/event.h"
#include "world.h"

static const char schema[] =
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER CHECK (b < 100), u TEXT UNIQUE);"
    "CREATE TABLE child (id INTEGER PRIMARY KEY, t_id INTEGER REFERENCES t (id), x TEXT);";
static const char *const tables[] = {"t", "child", NULL};
#define WEEK_US INT64_C(604800000000)

static int setup(void **state)
{
    static world w;
    world_init(&w, 2, 11, schema, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

static tide_origin_mark mark_of(world *w, int node, int origin)
{
    tide_origin_mark found[WORLD_MARKS_MAX];
    const tide_node_id id = tide_node_get_id(w->nodes[origin].node);
    const int count = world_marks(w, node, found);
    for (int i = 0; i < count; i++)
        if (memcmp(&found[i].origin, &id, sizeof id) == 0)
            return found[i];
    return (tide_origin_mark){.origin = id, .epoch = 1};
}

/* Everything that node 0 wrote, one event per batch. */
static void read_all(world *w, world_page *page)
{
    world_fold(w, 0);
    const tide_origin_mark mark = mark_of(w, 0, 0);
    assert_ok_err(world_read(w, 0, &mark, 0, 1000, page), &w->err);
}

static tide_applied apply_one(world *w, const world_page *page, int index)
{
    tide_applied applied;
    assert_ok_err(tide_node_apply(w->nodes[1].node, &page->events[index], 1, &applied, &w->err),
                  &w->err);
    return applied;
}

/* First test of the replication document: duplicate CREATE, UPDATE, DELETE events do not change tables again. */
static void events_that_come_again_change_nothing(void **state)
{
    world *w = *state;
    static world_page page;
    static const char *const writes[] = {"INSERT INTO t VALUES (1, 'x', 1, 'u')",
                                         "UPDATE t SET a = 'y' WHERE id = 1",
                                         "DELETE FROM t WHERE id = 1"};
    for (int i = 0; i < 3; i++) {
        world_run(w, 0, "%s", writes[i]);
        read_all(w, &page);
        assert_int_equal(1, world_apply(w, 1, &page).events);
        char *before = world_dump(w, 1, "SELECT * FROM t");
        const tide_applied again = world_apply(w, 1, &page);
        char *after = world_dump(w, 1, "SELECT * FROM t");
        assert_int_equal(0, again.events);
        assert_int_equal(i + 1, again.known);
        assert_int_equal(0, again.rows);
        assert_string_equal(before, after);
        sqlite3_free(before);
        sqlite3_free(after);
        world_page_done(&page);
    }
}

/* A later event comes first: it is kept, the prefix waits, and the end is as if in order. */
static void a_hole_is_remembered_and_filled(void **state)
{
    world *w = *state;
    static world_page page;
    for (int i = 1; i <= 5; i++) {
        world_run(w, 0, "INSERT INTO t VALUES (%d, 'x', %d, 'u%d')", i, i, i);
        world_fold(w, 0);
    }
    read_all(w, &page);
    assert_int_equal(5, page.count);
    for (int i = 0; i < 3; i++)
        (void)apply_one(w, &page, i);
    (void)apply_one(w, &page, 4);
    assert_int_equal(3, mark_of(w, 1, 0).prefix);
    assert_int_equal(5, mark_of(w, 1, 0).highest);
    assert_int_equal(
        3, world_number(w, 1,
                        "SELECT origin_seq FROM replication_checkpoints WHERE table_name = 't'"));
    (void)apply_one(w, &page, 3);
    assert_int_equal(5, mark_of(w, 1, 0).prefix);
    world_page_done(&page);
    world_assert_same(w, tables, true);
}

/* Identity stays the same on every node. */
static void events_keep_their_identity(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u')");
    world_settle(w);
    char *here = world_dump(w, 0, "SELECT * FROM t_Events");
    char *there = world_dump(w, 1, "SELECT * FROM t_Events");
    assert_true(strlen(here) > 0);
    assert_string_equal(here, there);
    sqlite3_free(here);
    sqlite3_free(there);
}

static void write_on_both(world *w, const char *first, const char *second)
{
    world_run(w, 0, "%s", first);
    world_fold(w, 0);
    world_advance(w, 1000000);
    world_run(w, 1, "%s", second);
    world_fold(w, 1);
    world_settle(w);
    world_assert_same(w, tables, true);
}

/* Two nodes create one key: one is shown, the other is listed, on both. */
static void two_creates_of_one_key_are_told(void **state)
{
    world *w = *state;
    write_on_both(w, "INSERT INTO t VALUES (1, 'mine', 1, 'u1')",
                  "INSERT INTO t VALUES (1, 'yours', 2, 'u2')");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, world_number(w, i, "SELECT a = 'yours' FROM t WHERE id = 1"));
        assert_int_equal(3, world_number(w, i, "SELECT count(*) FROM tide_replica_conflicts"));
    }
}

/* Columns merge; a delete and a concurrent later write: the row comes back whole. */
static void a_later_write_brings_a_deleted_row_back_whole(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u1')");
    world_settle(w);
    write_on_both(w, "DELETE FROM t WHERE id = 1", "UPDATE t SET b = 7 WHERE id = 1");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            1, world_number(w, i, "SELECT a = 'x' AND b = 7 AND u = 'u1' FROM t WHERE id = 1"));
        assert_int_equal(
            1, world_number(w, i, "SELECT count(*) FROM tide_replica_conflicts WHERE col = -1"));
    }
}

/* UNIQUE: the lower stamp goes aside on every node, and comes back when the other is gone. */
static void of_two_rows_with_one_unique_value_the_later_stands(void **state)
{
    world *w = *state;
    write_on_both(w, "INSERT INTO t VALUES (1, 'low', 1, 'same')",
                  "INSERT INTO t VALUES (2, 'high', 2, 'same')");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(2, world_number(w, i, "SELECT sum(id) FROM t"));
        assert_int_equal(
            1, world_number(w, i, "SELECT count(*) FROM tide_replica_clocks WHERE aside = 2"));
    }
    world_run(w, 0, "DELETE FROM t WHERE id = 2");
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(1, world_number(w, 1, "SELECT a = 'low' FROM t WHERE id = 1"));
    assert_int_equal(1, world_number(w, 0, "SELECT a = 'low' FROM t WHERE id = 1"));
}

/* A child whose parent was deleted elsewhere goes aside; foreign keys hold on every node. */
static void a_child_without_its_parent_goes_aside(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u1')");
    world_settle(w);
    write_on_both(w, "DELETE FROM t WHERE id = 1", "INSERT INTO child VALUES (1, 1, 'c')");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM child"));
        assert_int_equal(
            1, world_number(w, i, "SELECT count(*) FROM tide_replica_clocks WHERE aside = 3"));
    }
    world_run(w, 1, "INSERT INTO t VALUES (1, 'again', 1, 'u1')");
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(1, world_number(w, 0, "SELECT count(*) FROM child"));
}

/* Foreign keys are off in SQLite unless a program asks for them. An application that commits a row
 * without its parent means it: the row stays in its table, and arrives everywhere. */
static void an_orphan_that_an_application_commits_stays(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO child VALUES (1, 99, 'c')");
    world_settle(w);
    world_assert_same(w, tables, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, world_number(w, i, "SELECT count(*) FROM child"));
        assert_int_equal(1, world_number(w, i, "SELECT count(*) FROM tide_replica_loose"));
    }
    /* From then on the reference holds nothing back, whoever writes. */
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u1')");
    world_settle(w);
    write_on_both(w, "DELETE FROM t WHERE id = 1", "INSERT INTO child VALUES (2, 1, 'c')");
    world_assert_same(w, tables, true);
    assert_int_equal(2, world_number(w, 0, "SELECT count(*) FROM child"));
}

/* What was held back before an application broke the reference comes in when it does. */
static void rows_that_a_reference_held_back_come_in_when_it_is_loose(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u1')");
    world_settle(w);
    write_on_both(w, "DELETE FROM t WHERE id = 1", "INSERT INTO child VALUES (1, 1, 'c')");
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM child"));
    world_run(w, 1, "INSERT INTO child VALUES (2, 99, 'c')");
    world_settle(w);
    world_assert_same(w, tables, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(2, world_number(w, i, "SELECT count(*) FROM child"));
}

/* While the parent's table is not tracked nobody looks at it. What its children are when it is
 * tracked again was written by applications, and stays. */
static void children_are_looked_at_when_their_parents_are_tracked_again(void **state)
{
    world *w = *state;
    tide_tracked tracked;
    assert_ok_err(tide_node_untrack(w->nodes[1].node, "t", &w->err), &w->err);
    world_run(w, 1, "INSERT INTO child VALUES (1, 99, 'c')");
    world_settle(w);
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM child"));
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM child"));
    assert_ok_err(tide_node_track(w->nodes[1].node, "t", WEEK_US, &tracked, &w->err), &w->err);
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(1, world_number(w, 0, "SELECT count(*) FROM child"));
}

/* An event of a table that is not here waits, visibly; others go on; it is merged when the table is tracked. */
static void events_of_unknown_tables_wait(void **state)
{
    world *w = *state;
    tide_tracked tracked;
    world_run(w, 0, "CREATE TABLE fresh (id INTEGER PRIMARY KEY, v)");
    assert_ok_err(tide_node_track(w->nodes[0].node, "fresh", WEEK_US, &tracked, &w->err), &w->err);
    world_run(w, 0, "INSERT INTO fresh VALUES (1, 'v'); INSERT INTO t VALUES (1, 'x', 1, 'u')");
    world_settle(w);
    tide_node_counts counts;
    assert_ok_err(tide_node_count(w->nodes[1].node, &counts, &w->err), &w->err);
    assert_int_equal(1, counts.quarantined);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM t"));
    world_run(w, 1, "CREATE TABLE fresh (id INTEGER PRIMARY KEY, v)");
    assert_ok_err(tide_node_track(w->nodes[1].node, "fresh", WEEK_US, &tracked, &w->err), &w->err);
    world_fold(w, 1);
    assert_ok_err(tide_node_count(w->nodes[1].node, &counts, &w->err), &w->err);
    assert_int_equal(0, counts.quarantined);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM fresh"));
}

/* A node whose clock is a year ahead does not win for a year: its events wait until their time comes. */
static void events_from_the_future_wait(void **state)
{
    world *w = *state;
    virtual_env_advance(&w->nodes[0].env, 60 * INT64_C(60000000));
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u')");
    world_settle(w);
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(
        1,
        world_number(w, 1, "SELECT count(*) FROM tide_replica_quarantine WHERE reason = 'drift'"));
    virtual_env_advance(&w->nodes[1].env, 56 * INT64_C(60000000));
    world_fold(w, 1);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM tide_replica_quarantine"));
}

/* A value that a STRICT table refuses puts its row aside; others go on. */
static void rows_that_a_strict_table_refuses_are_aside(void **state)
{
    world *w = *state;
    tide_tracked tracked;
    world_run(w, 0, "CREATE TABLE firm (id INTEGER PRIMARY KEY, v TEXT)");
    world_run(w, 1, "CREATE TABLE firm (id INTEGER PRIMARY KEY, v TEXT) STRICT");
    for (int i = 0; i < 2; i++)
        assert_ok_err(tide_node_track(w->nodes[i].node, "firm", WEEK_US, &tracked, &w->err),
                      &w->err);
    world_run(w, 0, "INSERT INTO firm VALUES (1, x'00'), (2, 'text')");
    world_settle(w);
    tide_node_counts counts;
    assert_ok_err(tide_node_count(w->nodes[1].node, &counts, &w->err), &w->err);
    assert_int_equal(1, counts.aside);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM firm"));
    world_run(w, 0, "UPDATE firm SET v = 'fits' WHERE id = 1");
    world_settle(w);
    assert_ok_err(tide_node_count(w->nodes[1].node, &counts, &w->err), &w->err);
    assert_int_equal(0, counts.aside);
    assert_int_equal(2, world_number(w, 1, "SELECT count(*) FROM firm"));
}

/* Forged and broken pages are refused, and nothing has changed. */
static void forged_pages_are_refused(void **state)
{
    world *w = *state;
    static world_page page;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u'), (2, 'y', 1, 'v')");
    read_all(w, &page);
    for (int what = 0; what < 6; what++) {
        tide_event event = {.columns = NULL};
        tide_applied applied;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, 1 << 20);
        assert_ok_err(tide_event_decode(&event, page.events[1], &w->err), &w->err);
        if (what == 0) { /* in our name, with a number that we never gave */
            event.origin = tide_node_get_id(w->nodes[1].node);
            event.stamp.node = event.origin;
        } else if (what == 1) { /* a stamp in another's name */
            event.stamp.node.bytes[0] ^= 1;
        } else if (what == 2) { /* from the future */
            event.seq = INT64_MAX - 1;
            event.cut_seq = INT64_MAX - 1;
        } else if (what == 3) {
            event.epoch = TIDE_EPOCH_MAX + INT64_C(1);
        } else if (what == 4) { /* an earlier number behind a later one */
            event.seq = 1;
            event.cut_seq = 2;
            event.prev_seq = 0;
        }
        assert_ok_err(tide_event_encode(&bytes, &event, &w->err), &w->err);
        if (what == 5)
            bytes.ptr[bytes.len / 2] ^= 1;
        const tide_view pair[] = {page.events[0], tide_buffer_view(&bytes)};
        const bool alone = what != 4;
        assert_status(what == 5 ? TIDE_E_DAMAGED : TIDE_E_INVALID,
                      tide_node_apply(w->nodes[1].node, alone ? &pair[1] : pair, alone ? 1 : 2,
                                      &applied, &w->err));
        tide_event_done(&event);
        assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM t"));
        assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM tide_replica_events"));
    }
    world_page_done(&page);
}

/* Orphans that are there when their table is tracked stay; track reports them. */
static void orphans_are_told_when_their_table_is_tracked(void **state)
{
    (void)state;
    world w;
    tide_tracked tracked;
    world_init(&w, 1, 12,
               "CREATE TABLE p (id TEXT PRIMARY KEY NOT NULL);"
               "CREATE TABLE c (id TEXT PRIMARY KEY NOT NULL, p TEXT REFERENCES p (id));"
               "CREATE TABLE odd (id TEXT PRIMARY KEY NOT NULL, p TEXT REFERENCES p (missing));",
               (const char *const[]){"c", NULL}, WEEK_US);
    world_run(&w, 0, "INSERT INTO c VALUES ('1', 'a'), ('2', 'b'), ('3', NULL)");
    world_run(&w, 0, "INSERT INTO p VALUES ('b')");
    assert_ok_err(tide_node_track(w.nodes[0].node, "p", WEEK_US, &tracked, &w.err), &w.err);
    assert_contains(tracked.advice, "1 rows of c refer to rows of p that are not there");
    world_fold(&w, 0);
    assert_int_equal(3, world_number(&w, 0, "SELECT count(*) FROM c"));
    assert_int_equal(1, world_number(&w, 0, "SELECT count(*) FROM tide_replica_loose"));
    assert_ok_err(tide_node_track(w.nodes[0].node, "odd", WEEK_US, &tracked, &w.err), &w.err);
    assert_string_equal("", tracked.advice);
    world_done(&w);
}

/* No row has NULL for a key; SQLite would make up a rowid for it, another one on each node. */
static void a_key_of_null_is_quarantined(void **state)
{
    world *w = *state;
    static world_page page;
    tide_applied applied;
    tide_event event = {.columns = NULL};
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u')");
    read_all(w, &page);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1 << 20);
    assert_ok_err(tide_event_decode(&event, page.events[0], &w->err), &w->err);
    event.key[0] = (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    for (int i = 0; i < event.column_count; i++)
        if (event.columns[i].column == 0)
            event.columns[i].value = event.key[0];
    assert_ok_err(tide_event_encode(&bytes, &event, &w->err), &w->err);
    const tide_view only = tide_buffer_view(&bytes);
    assert_ok_err(tide_node_apply(w->nodes[1].node, &only, 1, &applied, &w->err), &w->err);
    assert_int_equal(1, applied.quarantined);
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM t"));
    tide_event_done(&event);
    world_page_done(&page);
}

/* Foreign keys may refer to any unique columns, and an application that does not enforce them may
 * change those in place: the reference is found broken, and all rows stay everywhere. */
static void orphans_of_changed_unique_columns_are_found_and_stay(void **state)
{
    (void)state;
    world w;
    static const char *const both[] = {"p", "c", NULL};
    world_init(&w, 2, 12,
               "CREATE TABLE p (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER);"
               "CREATE TABLE c (id INTEGER PRIMARY KEY, code TEXT REFERENCES p (code));",
               both, WEEK_US);
    world_run(&w, 0, "INSERT INTO p VALUES (1, 'x', 0), (2, 'y', 0)");
    world_run(&w, 0, "INSERT INTO c VALUES (1, 'x'), (2, 'y'), (3, NULL)");
    world_run(&w, 0, "UPDATE p SET n = 1"); /* changes nothing of it */
    world_settle(&w);
    assert_int_equal(0, world_number(&w, 0, "SELECT count(*) FROM tide_replica_loose"));
    world_run(&w, 0, "UPDATE p SET code = 'z' WHERE id = 1");
    world_settle(&w);
    world_assert_same(&w, both, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(3, world_number(&w, i, "SELECT count(*) FROM c"));
        assert_int_equal(1, world_number(&w, i, "SELECT count(*) FROM tide_replica_loose"));
    }
    world_done(&w);
}

/* A concurrent change of the referred value is no orphan of an application: its children wait, and
 * come back everywhere. */
static void children_of_changed_unique_columns_come_back(void **state)
{
    (void)state;
    world w;
    static const char *const both[] = {"p", "c", NULL};
    world_init(&w, 2, 12,
               "CREATE TABLE p (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER);"
               "CREATE TABLE c (id INTEGER PRIMARY KEY, code TEXT REFERENCES p (code));",
               both, WEEK_US);
    world_run(&w, 0, "INSERT INTO p VALUES (1, 'x', 0), (2, 'y', 0)");
    world_settle(&w);
    world_run(&w, 0, "UPDATE p SET code = 'z' WHERE id = 1");
    world_run(&w, 1, "INSERT INTO c VALUES (1, 'x'), (2, 'y')");
    world_settle(&w);
    world_assert_same(&w, both, true);
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM c WHERE code = 'x'"));
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM tide_replica_loose"));
    world_run(&w, 1, "INSERT OR REPLACE INTO p VALUES (1, 'x', 0)");
    world_settle(&w);
    world_assert_same(&w, both, true);
    assert_int_equal(1, world_number(&w, 0, "SELECT count(*) FROM c WHERE code = 'x'"));
    world_done(&w);
}

/* '3.0' of a text refers to 3: found when 3 goes, whoever deleted it and whichever came first. */
static void children_that_write_their_parents_key_otherwise_are_found(void **state)
{
    (void)state;
    world w;
    static const char *const both[] = {"p", "c", NULL};
    world_init(&w, 3, 13,
               "CREATE TABLE p (id INTEGER PRIMARY KEY, v);"
               "CREATE TABLE c (id TEXT PRIMARY KEY NOT NULL, p TEXT REFERENCES p (id));",
               both, WEEK_US);
    world_run(&w, 0, "INSERT INTO p VALUES (3, 0)");
    world_settle(&w);
    world_run(&w, 1, "DELETE FROM p");
    world_run(&w, 0, "INSERT INTO c VALUES ('a', '3.0'), ('b', '3')");
    (void)world_pull(&w, 2, 0, 50); /* children, then the delete; the others the other way round */
    world_settle(&w);
    world_assert_same(&w, both, true);
    assert_int_equal(0, world_number(&w, 2, "SELECT count(*) FROM c"));
    world_run(&w, 2, "INSERT INTO p VALUES (3, 0)");
    world_settle(&w);
    world_assert_same(&w, both, true);
    assert_int_equal(2, world_number(&w, 0, "SELECT count(*) FROM c"));
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_that_write_their_parents_key_otherwise_are_found),
        cmocka_unit_test_setup_teardown(events_that_come_again_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hole_is_remembered_and_filled, setup, teardown),
        cmocka_unit_test_setup_teardown(events_keep_their_identity, setup, teardown),
        cmocka_unit_test_setup_teardown(two_creates_of_one_key_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_later_write_brings_a_deleted_row_back_whole, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(of_two_rows_with_one_unique_value_the_later_stands, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_child_without_its_parent_goes_aside, setup, teardown),
        cmocka_unit_test_setup_teardown(children_are_looked_at_when_their_parents_are_tracked_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(events_of_unknown_tables_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(events_from_the_future_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_that_a_strict_table_refuses_are_aside, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(forged_pages_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_of_null_is_quarantined, setup, teardown),
        cmocka_unit_test(orphans_of_changed_unique_columns_are_found_and_stay),
        cmocka_unit_test(children_of_changed_unique_columns_come_back),
        cmocka_unit_test_setup_teardown(an_orphan_that_an_application_commits_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rows_that_a_reference_held_back_come_in_when_it_is_loose,
                                        setup, teardown),
        cmocka_unit_test(orphans_are_told_when_their_table_is_tracked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
