/* Tables that differ although their logs are equal: what differs is found by ranges, down to rows, and put right without losing anything. */
#include "replica/repair.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/merge.h"
#include "replica/peer.h"
#include "replica/world.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id INTEGER PRIMARY KEY, title TEXT, n INTEGER);"                           \
    "CREATE TABLE parts(a TEXT NOT NULL COLLATE NOCASE, b INTEGER NOT NULL, body BLOB, PRIMARY "   \
    "KEY(a, b)) WITHOUT ROWID;"                                                                    \
    "CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT UNIQUE)"

static const char *const tables[] = {"todos", "parts", "names", NULL};

static void sync_nodes(world *w, int here, int there)
{
    tide_peer a = tide_peer_of_node(w->nodes[here].node, "here");
    tide_peer b = tide_peer_of_node(w->nodes[there].node, "there");
    const tide_sync_options options = {.page_rows = 0};
    tide_sync_result result;
    assert_ok_err(tide_sync(&a, &b, &options, &result, &w->err), &w->err);
    assert_true(result.is_proven);
}

/* Two nodes with the same rows: so many in each table. */
static void begin(world *w, int nodes, int rows)
{
    world_init(w, nodes, 1, SCHEMA, tables, 0);
    world_run(w, 0,
              "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < %d) INSERT "
              "INTO todos SELECT x, 'title ' || x, x %% 7 FROM i",
              rows);
    world_run(w, 0,
              "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < %d) INSERT "
              "INTO parts SELECT 'Part' || (x / 10), x, zeroblob(x %% 20) FROM i",
              rows);
    world_run(w, 0, "INSERT INTO names VALUES(1, 'one'), (2, 'two'), (3, NULL)");
    for (int i = 1; i < nodes; i++)
        sync_nodes(w, 0, i);
}

/* A write that no trigger sees, nor anybody else: bit rot, a tool, a bug. */
static void write_unseen(world *w, int node, const char *sql)
{
    sqlite3 *db = w->nodes[node].writer;
    assert_int_equal(SQLITE_OK, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL));
    world_run(w, node, "%s", sql);
    assert_int_equal(SQLITE_OK, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL));
}

static tide_repair_result heal(world *w, int here, int there, const char *table, bool is_repairing)
{
    tide_repair_peer peer = tide_repair_of_node(w->nodes[there].node, "there");
    const tide_repair_options options = {.is_repairing = is_repairing};
    tide_repair_result result;
    assert_ok_err(tide_repair_table(w->nodes[here].node, &peer, table, &options, &result, &w->err),
                  &w->err);
    return result;
}

static int64_t count_conflicts(world *w, int node)
{
    return world_number(w, node, "SELECT count(*) FROM tide_replica_conflicts");
}

/* One row of many: found with a handful of questions, whichever side asks. */
static void one_row_of_many_is_found(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 5000);
    assert_int_equal(0, heal(&w, 0, 1, "todos", false).differing);
    write_unseen(&w, 1, "UPDATE todos SET n = 1000 WHERE id = 3333");
    for (int here = 0; here < 2; here++) {
        const tide_repair_result found = heal(&w, here, 1 - here, "todos", false);
        assert_int_equal(1, found.differing);
        assert_int_equal(1, found.ranges);
        assert_int_equal(5000, found.rows_here);
        assert_int_equal(5000, found.rows_there);
        assert_true(found.questions <= 3);
    }
    assert_int_equal(1000, world_number(&w, 1, "SELECT n FROM todos WHERE id = 3333"));
    world_done(&w);
}

/* The value that was recorded wins over the one that was altered; the altered one is in conflicts of both. */
static void an_altered_value_is_put_back_and_kept_in_conflicts(void **state)
{
    (void)state;
    for (int altered = 0; altered < 2; altered++) {
        world w;
        begin(&w, 2, 100);
        write_unseen(&w, altered, "UPDATE todos SET title = 'zzz rot' WHERE id = 50");
        const tide_repair_result done = heal(&w, 0, 1, "todos", true);
        assert_int_equal(1, done.differing);
        assert_int_equal(1, done.here.chosen);
        assert_int_equal(1, done.there.chosen);
        world_assert_same(&w, tables, false);
        assert_int_equal(1,
                         world_number(&w, 0, "SELECT title = 'title 50' FROM todos WHERE id=50"));
        for (int node = 0; node < 2; node++)
            assert_int_equal(
                1, world_number(&w, node,
                                "SELECT count(*) FROM tide_replica_conflicts WHERE col = 1 AND "
                                "instr(value, CAST('zzz rot' AS BLOB)) > 0"));
        assert_int_equal(0, heal(&w, 1, 0, "todos", true).differing);
        world_done(&w);
    }
}

/* Altered on both sides: one value is chosen, the same by both, the other kept; a third node follows. */
static void values_altered_on_both_sides_converge(void **state)
{
    (void)state;
    world w;
    begin(&w, 3, 20);
    write_unseen(&w, 0, "UPDATE todos SET n = 500 WHERE id = 7");
    write_unseen(&w, 1, "UPDATE todos SET n = 900 WHERE id = 7");
    (void)heal(&w, 0, 1, "todos", true);
    assert_int_equal(world_number(&w, 0, "SELECT n FROM todos WHERE id = 7"),
                     world_number(&w, 1, "SELECT n FROM todos WHERE id = 7"));
    (void)heal(&w, 2, 1, "todos", true);
    (void)heal(&w, 0, 2, "todos", true);
    (void)heal(&w, 1, 0, "todos", true);
    world_assert_same(&w, tables, false);
    /* All three values are somewhere at each pair that met: shown, or in conflicts. */
    assert_true(count_conflicts(&w, 0) >= 1 && count_conflicts(&w, 1) >= 2);
    /* And it goes on as before: an ordinary write wins everywhere. */
    world_run(&w, 2, "UPDATE todos SET n = 1 WHERE id = 7");
    sync_nodes(&w, 2, 0);
    sync_nodes(&w, 0, 1);
    world_assert_same(&w, tables, false);
    assert_int_equal(1, world_number(&w, 0, "SELECT n FROM todos WHERE id = 7"));
    assert_true(count_conflicts(&w, 0) >= 1);
    world_done(&w);
}

/* Rows that vanished come back, with composite keys and without rowids too; many of them, so that turns are several. */
static void rows_that_vanished_come_back(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 3000);
    write_unseen(&w, 0, "DELETE FROM parts WHERE b % 3 = 0");
    write_unseen(&w, 1, "DELETE FROM parts WHERE b BETWEEN 100 AND 1400 AND b % 3 = 1");
    const tide_repair_result done = heal(&w, 0, 1, "parts", true);
    assert_int_equal(1000, done.here.restored);
    assert_int_equal(434, done.there.restored);
    assert_int_equal(3000, world_number(&w, 0, "SELECT count(*) FROM parts"));
    world_assert_same(&w, tables, false);
    assert_int_equal(0, count_conflicts(&w, 0));
    world_done(&w);
}

/* A whole table is gone on one side. */
static void an_emptied_table_is_filled_again(void **state)
{
    (void)state;
    for (int emptied = 0; emptied < 2; emptied++) {
        world w;
        begin(&w, 2, 1500);
        write_unseen(&w, emptied, "DELETE FROM todos");
        assert_int_equal(1500, heal(&w, 0, 1, "todos", true).differing);
        world_assert_same(&w, tables, false);
        assert_int_equal(1500, world_number(&w, emptied, "SELECT count(*) FROM todos"));
        world_done(&w);
    }
}

/* A row that nobody captured becomes an event of its node, and travels like any other. */
static void a_row_without_a_clock_becomes_an_event(void **state)
{
    (void)state;
    world w;
    begin(&w, 3, 10);
    write_unseen(&w, 0, "INSERT INTO todos VALUES(1001, 'unseen here', 1)");
    write_unseen(&w, 1, "INSERT INTO todos VALUES(1002, 'unseen there', 2)");
    const tide_repair_result done = heal(&w, 0, 1, "todos", true);
    assert_int_equal(1, done.here.captured);
    assert_int_equal(1, done.there.captured);
    sync_nodes(&w, 0, 1);
    sync_nodes(&w, 1, 2);
    sync_nodes(&w, 0, 2);
    world_assert_same(&w, tables, false);
    assert_int_equal(12, world_number(&w, 2, "SELECT count(*) FROM todos"));
    world_done(&w);
}

/* An earlier bug: the event is in the log, but its row and clock have not seen it. The greater stamp is taken over, also that of a deletion. */
static void what_was_never_merged_is_taken_over_by_stamp(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 10);
    char *old = sqlite3_mprintf("%s/old.db", w.dir.path);
    world_run(&w, 1,
              "ATTACH '%s' AS old; CREATE TABLE old.clocks AS SELECT * FROM "
              "tide_replica_clocks; CREATE TABLE old.todos AS SELECT * FROM todos; DETACH old",
              old);
    world_run(&w, 0,
              "UPDATE todos SET title = 'new' WHERE id = 4; DELETE FROM todos WHERE id = 5;"
              "INSERT INTO todos VALUES(77, 'born', 7)");
    sync_nodes(&w, 0, 1);
    /* Node 1 forgets what it merged, and keeps the log. */
    char *forget = sqlite3_mprintf(
        "ATTACH '%q' AS old; DELETE FROM todos; INSERT INTO todos SELECT * FROM old.todos;"
        "DELETE FROM tide_replica_clocks; INSERT INTO tide_replica_clocks SELECT * FROM "
        "old.clocks; DETACH old",
        old);
    write_unseen(&w, 1, forget);
    sqlite3_free(forget);
    sqlite3_free(old);
    const tide_repair_result done = heal(&w, 0, 1, "todos", true);
    assert_int_equal(3, done.differing);
    assert_int_equal(3, done.there.newer);
    assert_int_equal(0, done.here.rows);
    world_assert_same(&w, tables, false);
    assert_int_equal(1, world_number(&w, 1, "SELECT title = 'new' FROM todos WHERE id = 4"));
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM todos WHERE id = 5"));
    assert_int_equal(0, heal(&w, 1, 0, "todos", true).differing);
    world_done(&w);
}

/* What is restored obeys the constraints of the table: what stands in its way was altered, and gives way. */
static void repairs_obey_unique_keys(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 10);
    write_unseen(&w, 1,
                 "UPDATE names SET name = 'away' WHERE id = 1;"
                 "UPDATE names SET name = 'one' WHERE id = 2;"
                 "DELETE FROM names WHERE id = 3");
    (void)heal(&w, 0, 1, "names", true);
    for (int i = 0; i < 3 && heal(&w, 0, 1, "names", false).differing > 0; i++)
        (void)heal(&w, 0, 1, "names", true);
    world_assert_same(&w, tables, false);
    assert_int_equal(3, world_number(&w, 1, "SELECT count(*) FROM names"));
    assert_int_equal(1, world_number(&w, 1, "SELECT name = 'one' FROM names WHERE id = 1"));
    world_done(&w);
}

/* A repair that was done changes nothing when it is done again, and nothing where nothing differs: not even a clock. */
static void repairing_again_changes_nothing(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 50);
    write_unseen(&w, 0, "UPDATE parts SET body = x'00ff' WHERE b = 13");
    (void)heal(&w, 0, 1, "parts", true);
    TIDE_CLEANUP(tide_freep)
    char *before = world_dump(
        &w, 0, "SELECT table_id, key, clock, image, aside FROM tide_replica_clocks ORDER BY 1, 2");
    assert_int_equal(0, heal(&w, 0, 1, "parts", true).differing);
    assert_int_equal(0, heal(&w, 1, 0, "todos", true).differing);
    TIDE_CLEANUP(tide_freep)
    char *after = world_dump(
        &w, 0, "SELECT table_id, key, clock, image, aside FROM tide_replica_clocks ORDER BY 1, 2");
    assert_string_equal(before, after);
    assert_int_equal(1, count_conflicts(&w, 0));
    world_done(&w);
}

/* Stamps from the future, and such of ours that we never gave, are not taken. */
static void forged_rows_are_refused(void **state)
{
    (void)state;
    world w;
    begin(&w, 2, 5);
    const tide_sql_value key = {.kind = TIDE_SQL_VALUE_I64, .i64 = 3};
    for (int kind = 0; kind < 2; kind++) {
        tide_repaired repaired;
        TIDE_CLEANUP(tide_row_states_done) tide_row_states states;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer encoded;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_row_states_init(&states);
        tide_buffer_init(&encoded, 100);
        tide_buffer_init(&bytes, 1000);
        tide_env *env = &w.nodes[0].env.env;
        const uint64_t now = (uint64_t)(env->wall_us(env) / 1000) << 16;
        const uint64_t day = UINT64_C(86400000) << 16;
        tide_row_clock clock = {
            .deleted.stamp = {.time = kind == 0 ? now + day : now + (UINT64_C(60000) << 16),
                              .node = tide_node_get_id(w.nodes[kind == 0 ? 1 : 0].node)}};
        assert_ok(tide_sql_value_encode(&encoded, &key));
        assert_ok(tide_row_clock_encode(&bytes, &clock));
        const tide_row_state forged = {.key = tide_buffer_view(&encoded),
                                       .clock = tide_buffer_view(&bytes)};
        assert_ok_err(tide_row_states_add(&states, &forged, &w.err), &w.err);
        assert_ok_err(
            tide_node_merge_states(w.nodes[0].node, "todos", 0, &states, &repaired, &w.err),
            &w.err);
        assert_int_equal(1, repaired.refused);
    }
    world_assert_same(&w, tables, true);
    world_done(&w);
}

/* Keys, clocks, values, tables and schemas that cannot be: refused with words. */
static void bad_questions_are_refused(void **state)
{
    (void)state;
    world w;
    begin(&w, 1, 5);
    tide_node *node = w.nodes[0].node;
    tide_range_digest digest;
    tide_repaired repaired;
    const tide_range all = {.after = {.len = 0}};
    const tide_range odd = {.after = tide_view_of("\x03"
                                                  "abc")};
    assert_status(TIDE_E_NOT_FOUND, tide_node_range(node, "nothing", 0, &all, &digest, &w.err));
    assert_status(TIDE_E_CONFLICT, tide_node_range(node, "todos", 12345, &all, &digest, &w.err));
    assert_status(TIDE_E_INVALID, tide_node_range(node, "todos", 0, &odd, &digest, &w.err));
    const tide_row_state bad[] = {
        {.key = tide_view_of("\x03"
                             "abc")},
        {.key = tide_view_bytes("\x01\x02", 2), .clock = tide_view_of("\x09")},
        {.key = tide_view_bytes("\x01\x02", 2), .values = tide_view_bytes("\x70\x01\x02", 3)},
        {.key = tide_view_bytes("\x01\x02\x01\x02", 4)},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        TIDE_CLEANUP(tide_row_states_done) tide_row_states states;
        tide_row_states_init(&states);
        assert_ok_err(tide_row_states_add(&states, &bad[i], &w.err), &w.err);
        assert_status(TIDE_E_INVALID,
                      tide_node_merge_states(node, "todos", 0, &states, &repaired, &w.err));
    }
    world_done(&w);
}

/* One of the ways in which a row can go wrong. Rows vanish at one node only: what is nowhere cannot come back. */
static void damage(world *w, prng *random, int i)
{
    char *sql = NULL;
    const int node = (int)prng_below(random, 2);
    const int id = 1 + (int)prng_below(random, 300);
    switch (prng_below(random, 4)) {
    case 0:
        sql = sqlite3_mprintf("UPDATE todos SET title = 'rot %d.' WHERE id = %d", i, id);
        break;
    case 1:
        sql = sqlite3_mprintf("DELETE FROM todos WHERE id = %d AND id %% 2 = %d", id, node);
        break;
    case 2:
        sql = sqlite3_mprintf("INSERT OR IGNORE INTO todos VALUES(%d, 'rot %d.', 1)", id + 1000, i);
        break;
    default:
        sql = sqlite3_mprintf("UPDATE todos SET n = %d WHERE id = %d", i + 1000, id);
    }
    write_unseen(w, node, sql);
    sqlite3_free(sql);
}

/* Random damage at two nodes: afterwards they are the same, all rows are there, and every value that was shown is shown or in conflicts. */
static void random_damage_is_healed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world w;
        prng random;
        bool was_shown[40];
        prng_init(&random, seed);
        begin(&w, 2, 300);
        for (int i = 0; i < 40; i++)
            damage(&w, &random, i);
        for (int i = 0; i < 40; i++)
            was_shown[i] =
                world_number(&w, 0, "SELECT count(*) FROM todos WHERE title='rot %d.'", i) +
                    world_number(&w, 1, "SELECT count(*) FROM todos WHERE title='rot %d.'", i) >
                0;
        (void)heal(&w, 0, 1, "todos", true);
        sync_nodes(&w, 0, 1);
        (void)heal(&w, 1, 0, "todos", true);
        sync_nodes(&w, 0, 1);
        world_assert_same(&w, tables, false);
        assert_int_equal(300, world_number(&w, 0, "SELECT count(*) FROM todos WHERE id <= 300"));
        for (int i = 0; i < 40; i++)
            if (was_shown[i])
                assert_true(
                    world_number(&w, 0,
                                 "SELECT (SELECT count(*) FROM todos WHERE title = 'rot %d.') "
                                 "+ (SELECT count(*) FROM tide_replica_conflicts WHERE "
                                 "instr(value, CAST('rot %d.' AS BLOB)))",
                                 i, i) > 0);
        world_done(&w);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row_of_many_is_found),
        cmocka_unit_test(an_altered_value_is_put_back_and_kept_in_conflicts),
        cmocka_unit_test(values_altered_on_both_sides_converge),
        cmocka_unit_test(rows_that_vanished_come_back),
        cmocka_unit_test(an_emptied_table_is_filled_again),
        cmocka_unit_test(a_row_without_a_clock_becomes_an_event),
        cmocka_unit_test(what_was_never_merged_is_taken_over_by_stamp),
        cmocka_unit_test(repairs_obey_unique_keys),
        cmocka_unit_test(repairing_again_changes_nothing),
        cmocka_unit_test(forged_rows_are_refused),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(random_damage_is_healed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
