/* Triggers of the application beside rows of peers: search indexes, counters and audit tables that
 * are not tracked follow them, and nothing that a trigger did at the origin is done twice. */
#include <stdio.h>
#include <string.h>

#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define SCHEMA                                                                                     \
    "CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT, list TEXT);"                            \
    "CREATE TABLE totals(list TEXT NOT NULL PRIMARY KEY, n INT);"                                  \
    "CREATE TABLE counts(list TEXT PRIMARY KEY, n INT);"                                           \
    "CREATE TABLE audit(id INTEGER PRIMARY KEY, what TEXT);"                                       \
    "CREATE TABLE audited(n INT); INSERT INTO audited VALUES(0);"
#define SEARCH                                                                                     \
    "CREATE VIRTUAL TABLE found USING fts5(body, content='notes', content_rowid='id');"            \
    "CREATE TRIGGER found_ai AFTER INSERT ON notes BEGIN"                                          \
    "  INSERT INTO found(rowid, body) VALUES (new.id, new.body); END;"                             \
    "CREATE TRIGGER found_ad AFTER DELETE ON notes BEGIN"                                          \
    "  INSERT INTO found(found, rowid, body) VALUES('delete', old.id, old.body); END;"             \
    "CREATE TRIGGER found_au AFTER UPDATE OF body ON notes BEGIN"                                  \
    "  INSERT INTO found(found, rowid, body) VALUES('delete', old.id, old.body);"                  \
    "  INSERT INTO found(rowid, body) VALUES (new.id, new.body); END;"

static const char *const tables[] = {"notes", "totals", NULL};

/* Two nodes whose application has this besides, from before it was tracked. */
static void begin(world *w, const char *schema)
{
    char text[8192];
    (void)snprintf(text, sizeof text, "%s%s", SCHEMA, schema);
    world_init(w, 2, 31, text, tables, WEEK_US);
}

static void assert_count(world *w, int node, int64_t expected, const char *query)
{
    const int64_t found = world_number(w, node, "%s", query);
    if (found != expected)
        fail_msg("node %d: %s is %lld, want %lld", node, query, (long long)found,
                 (long long)expected);
}

static void assert_numbers(world *w, int64_t expected, const char *query)
{
    for (int i = 0; i < w->count; i++)
        assert_count(w, i, expected, query);
}

static tide_status track(world *w, const char *table)
{
    tide_tracked out;
    return tide_node_track(w->nodes[0].node, table, WEEK_US, &out, &w->err);
}

static void a_search_index_follows_rows_of_peers(void **state)
{
    (void)state;
    world w;
    begin(&w, SEARCH);
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'red apple', 'a'), (2, 'green pear', 'a')");
    world_settle(&w);
    assert_numbers(&w, 1, "SELECT count(*) FROM found WHERE found MATCH 'apple'");
    world_advance(&w, 1000000);
    world_run(&w, 1, "UPDATE notes SET body = 'blue plum' WHERE id = 1");
    world_run(&w, 1, "DELETE FROM notes WHERE id = 2");
    world_settle(&w);
    assert_numbers(&w, 0, "SELECT count(*) FROM found WHERE found MATCH 'apple OR pear'");
    assert_numbers(&w, 1, "SELECT count(*) FROM found WHERE found MATCH 'plum'");
    for (int i = 0; i < w.count; i++)
        world_run(&w, i, "INSERT INTO found(found, rank) VALUES('integrity-check', 1)");
    world_assert_same(&w, tables, true);
    world_done(&w);
}

static void counters_follow_rows_that_come_and_go(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TRIGGER up AFTER INSERT ON notes BEGIN INSERT INTO counts VALUES(NEW.list, 1)"
              " ON CONFLICT(list) DO UPDATE SET n = n + 1; END;"
              "CREATE TRIGGER down AFTER DELETE ON notes WHEN OLD.list IS NOT NULL BEGIN"
              " UPDATE counts SET n = n - 1 WHERE list = OLD.list; END;");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a'), (2, 'y', 'a'), (3, 'z', 'b')");
    world_run(&w, 1, "INSERT INTO notes VALUES(4, 'x', 'a')");
    world_settle(&w);
    assert_numbers(&w, 3, "SELECT n FROM counts WHERE list = 'a'");
    world_advance(&w, 1000000);
    world_run(&w, 1, "DELETE FROM notes WHERE id < 3");
    world_settle(&w);
    assert_numbers(&w, 1, "SELECT n FROM counts WHERE list = 'a'");
    assert_numbers(&w, 1, "SELECT n FROM counts WHERE list = 'b'");
    world_done(&w);
}

static void what_a_trigger_wrote_to_a_tracked_table_is_written_once(void **state)
{
    (void)state;
    world w;
    begin(&w,
          "CREATE TRIGGER sum AFTER INSERT ON notes BEGIN INSERT INTO totals VALUES(NEW.list, 1)"
          " ON CONFLICT(list) DO UPDATE SET n = n + 1; END;");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a'), (2, 'y', 'a')");
    world_settle(&w);
    assert_numbers(&w, 2, "SELECT n FROM totals WHERE list = 'a'");
    world_done(&w);
}

static void triggers_of_tables_that_triggers_write_run_as_well(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TRIGGER log AFTER INSERT ON notes BEGIN"
              " INSERT INTO audit(what) VALUES(NEW.body); END;"
              "CREATE TRIGGER log_count AFTER INSERT ON audit BEGIN"
              " UPDATE audited SET n = n + 1; END;");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a'), (2, 'y', 'a')");
    world_settle(&w);
    assert_numbers(&w, 2, "SELECT count(*) FROM audit");
    assert_numbers(&w, 2, "SELECT n FROM audited");
    world_done(&w);
}

static void a_trigger_writes_through_a_view(void **state)
{
    (void)state;
    world w;
    begin(&w,
          "CREATE VIEW log AS SELECT what FROM audit;"
          "CREATE TRIGGER log_in INSTEAD OF INSERT ON log BEGIN"
          " INSERT INTO audit(what) VALUES(NEW.what); END;"
          "CREATE TRIGGER log AFTER INSERT ON notes BEGIN INSERT INTO log VALUES(NEW.body); END;"
          "CREATE VIEW sums AS SELECT list FROM totals;"
          "CREATE TRIGGER sums_in INSTEAD OF INSERT ON sums BEGIN"
          " INSERT INTO totals VALUES(NEW.list, 7); END;"
          "CREATE TRIGGER sum AFTER DELETE ON notes BEGIN INSERT INTO sums VALUES('gone'); END;");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a')");
    world_settle(&w);
    world_advance(&w, 1000000);
    world_run(&w, 0, "DELETE FROM notes");
    world_settle(&w);
    assert_numbers(&w, 1, "SELECT count(*) FROM audit");
    assert_numbers(&w, 7, "SELECT n FROM totals WHERE list = 'gone'");
    world_done(&w);
}

static void a_trigger_that_refuses_rows_refuses_none_of_a_peer(void **state)
{
    (void)state;
    world w;
    begin(&w, "");
    world_run(&w, 1,
              "CREATE TRIGGER strict BEFORE INSERT ON notes WHEN NEW.body IS NULL BEGIN"
              " SELECT RAISE(ABORT, 'no body'); END");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, NULL, 'a')");
    world_settle(&w);
    assert_numbers(&w, 1, "SELECT count(*) FROM notes");
    world_done(&w);
}

/* The trigger finds its own table full: the row is a peer's all the same. */
static void a_trigger_that_fails_keeps_no_row_out(void **state)
{
    (void)state;
    world w;
    tide_capture_found found;
    begin(&w, "CREATE TRIGGER log AFTER INSERT ON notes BEGIN"
              " INSERT INTO audit(id, what) VALUES(NEW.id, NEW.body); END;");
    world_run(&w, 1, "INSERT INTO audit VALUES(1, 'mine')");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a'), (2, 'y', 'a')");
    world_settle(&w);
    assert_numbers(&w, 2, "SELECT count(*) FROM notes");
    assert_count(&w, 1, 2, "SELECT count(*) FROM audit");
    assert_count(&w, 1, 0, "SELECT count(*) FROM tide_replica_clocks WHERE aside <> 0");
    assert_ok_err(tide_node_check(w.nodes[1].node, &found, &w.err), &w.err);
    assert_contains(found.report, "audit.id");
    world_done(&w);
}

/* ---- refused ---- */

static void assert_refused(const char *schema, const char *why)
{
    world w;
    char text[4096];
    static const char *const none[] = {NULL};
    (void)snprintf(text, sizeof text, "%s%s", SCHEMA, schema);
    world_init(&w, 1, 31, text, none, WEEK_US);
    assert_ok_err(track(&w, "totals"), &w.err);
    assert_status(TIDE_E_UNSUPPORTED, track(&w, "notes"));
    assert_contains(w.err.text, why);
    assert_int_equal(0,
                     world_number(&w, 0,
                                  "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND "
                                  "tbl_name = 'notes' AND name LIKE 'tide%%'"));
    world_done(&w);
}

static void a_trigger_that_writes_tracked_and_other_tables_is_refused(void **state)
{
    (void)state;
    assert_refused("CREATE TRIGGER both AFTER INSERT ON notes BEGIN"
                   " INSERT OR REPLACE INTO totals VALUES(NEW.list, 1);"
                   " INSERT INTO audit(what) VALUES('x'); END;",
                   "trigger both of table notes writes table totals, which is tracked, and table "
                   "audit, which is not");
}

static void a_trigger_that_refuses_and_writes_is_refused(void **state)
{
    (void)state;
    assert_refused("CREATE TRIGGER strict AFTER INSERT ON notes BEGIN"
                   " SELECT RAISE(ABORT, 'x') WHERE NEW.body IS NULL;"
                   " INSERT INTO audit(what) VALUES('raise(1)'); END;",
                   "trigger strict of table notes may refuse rows (RAISE) and writes table audit");
}

static void a_trigger_that_needs_a_function_of_the_application_is_refused(void **state)
{
    (void)state;
    assert_refused("CREATE TRIGGER odd AFTER INSERT ON notes BEGIN"
                   " INSERT INTO audit(what) VALUES(embed(NEW.body)); END;",
                   "no such function: embed");
}

static void a_trigger_behind_a_trigger_is_refused(void **state)
{
    (void)state;
    assert_refused("CREATE TRIGGER log AFTER INSERT ON notes BEGIN"
                   " INSERT INTO audit(what) VALUES(NEW.body); END;"
                   "CREATE TRIGGER odd AFTER INSERT ON audit BEGIN"
                   " UPDATE audited SET n = embed(NEW.what); END;",
                   "trigger odd of table audit");
}

/* No write of a tracked table fires it. */
static void a_trigger_of_another_table_is_not_in_the_way(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TRIGGER odd AFTER INSERT ON audit BEGIN"
              " UPDATE audited SET n = embed(NEW.what); END;");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a')");
    world_settle(&w);
    assert_numbers(&w, 1, "SELECT count(*) FROM notes");
    world_done(&w);
}

/* ---- schemas change ---- */

static void a_trigger_that_comes_later_runs_from_then_on(void **state)
{
    (void)state;
    world w;
    tide_capture_found found;
    begin(&w, "");
    world_run(&w, 0, "INSERT INTO notes VALUES(1, 'x', 'a')");
    world_settle(&w);
    world_run(&w, 1,
              "CREATE TRIGGER \"log of \"\"notes\" /* x */ AFTER UPDATE OF body ON \"notes\""
              " FOR EACH ROW WHEN NEW.body <> 'begin' -- ;\n BEGIN"
              " INSERT INTO audit(what) VALUES(OLD.body || NEW.body); END");
    world_advance(&w, 1000000);
    world_run(&w, 0, "UPDATE notes SET body = 'y'");
    world_settle(&w);
    assert_count(&w, 1, 1, "SELECT count(*) FROM audit WHERE what = 'xy'");
    world_run(&w, 1, "DROP TRIGGER \"log of \"\"notes\"");
    world_run(&w, 1,
              "CREATE TRIGGER odd AFTER UPDATE ON notes BEGIN"
              " UPDATE audited SET n = embed(NEW.body); END");
    world_advance(&w, 1000000);
    world_run(&w, 0, "UPDATE notes SET body = 'z'");
    (void)world_pull(&w, 1, 0, 50);
    assert_count(&w, 1, 1, "SELECT count(*) FROM notes WHERE body = 'z'");
    assert_count(&w, 1, 1, "SELECT count(*) FROM audit");
    assert_ok_err(tide_node_check(w.nodes[1].node, &found, &w.err), &w.err);
    assert_contains(found.report, "no such function: embed");
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_index_follows_rows_of_peers),
        cmocka_unit_test(counters_follow_rows_that_come_and_go),
        cmocka_unit_test(what_a_trigger_wrote_to_a_tracked_table_is_written_once),
        cmocka_unit_test(triggers_of_tables_that_triggers_write_run_as_well),
        cmocka_unit_test(a_trigger_writes_through_a_view),
        cmocka_unit_test(a_trigger_that_refuses_rows_refuses_none_of_a_peer),
        cmocka_unit_test(a_trigger_that_fails_keeps_no_row_out),
        cmocka_unit_test(a_trigger_that_writes_tracked_and_other_tables_is_refused),
        cmocka_unit_test(a_trigger_that_refuses_and_writes_is_refused),
        cmocka_unit_test(a_trigger_that_needs_a_function_of_the_application_is_refused),
        cmocka_unit_test(a_trigger_behind_a_trigger_is_refused),
        cmocka_unit_test(a_trigger_of_another_table_is_not_in_the_way),
        cmocka_unit_test(a_trigger_that_comes_later_runs_from_then_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
