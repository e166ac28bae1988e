/* Names stand for one table on all nodes; tables of one name that are not alike are told apart, or at least told. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/peer.h"
#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define HOUR_US INT64_C(3600000000)
#define SCHEMA "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
static const char *const tables[] = {"t", NULL};

static tide_sync_result sync_nodes(world *w, int here, int there)
{
    tide_peer a = tide_peer_of_node(w->nodes[here].node, "here");
    tide_peer b = tide_peer_of_node(w->nodes[there].node, "there");
    const tide_sync_options options = {.page_rows = 7};
    tide_sync_result result;
    world_advance(w, 1000000);
    assert_ok_err(tide_sync(&a, &b, &options, &result, &w->err), &w->err);
    return result;
}

static tide_capture_found look(world *w, int node)
{
    tide_capture_found found;
    assert_ok_err(tide_peer_look(w->nodes[node].node, &found, &w->err), &w->err);
    return found;
}

static tide_status track(world *w, int node, const char *table)
{
    tide_tracked tracked;
    return tide_node_track(w->nodes[node].node, table, WEEK_US, &tracked, &w->err);
}

static void assert_rows(world *w, int node, const char *query, const char *expected)
{
    char *found = world_dump(w, node, query);
    assert_string_equal(found, expected);
    sqlite3_free(found);
}

static int setup(void **state)
{
    static world w;
    world_init(&w, 2, 5, SCHEMA, tables, WEEK_US);
    world_run(&w, 0, "INSERT INTO t VALUES (1, 'a'), (2, 'b')");
    (void)sync_nodes(&w, 1, 0);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

/* Archived under another name, and a new one made: events under the old name are the archive's, everywhere. */
static void a_name_that_a_tracked_table_had_is_not_given_to_another(void **state)
{
    world *w = *state;
    world_run(w, 0, "ALTER TABLE t RENAME TO t_old");
    (void)sync_nodes(w, 1, 0);
    world_run(w, 0, "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'new')");
    assert_status_err(TIDE_E_CONFLICT, track(w, 0, "t"), &w->err);
    assert_contains(w->err.text, "t_old");
    (void)sync_nodes(w, 1, 0);
    assert_rows(w, 1, "SELECT * FROM t ORDER BY id", "1:1|3:a|\n1:2|3:b|\n");
    /* Not tracked any more, it hands its history over. */
    assert_ok_err(tide_node_untrack(w->nodes[0].node, "t_old", &w->err), &w->err);
    assert_ok_err(track(w, 0, "t"), &w->err);
    world_run(w, 1, "INSERT INTO t VALUES (5, 'five')");
    (void)sync_nodes(w, 1, 0);
    world_assert_same(w, tables, true);
    assert_rows(w, 1, "SELECT * FROM t ORDER BY id", "1:1|3:new|\n1:5|3:five|\n");
}

/* The other node does the same later, in one go. */
static void a_rename_to_the_name_that_others_use_is_no_rebuild(void **state)
{
    static const char *const renamed[] = {"t_old", NULL};
    world *w = *state;
    world_run(w, 0, "ALTER TABLE t RENAME TO t_old");
    (void)sync_nodes(w, 1, 0);
    world_run(w, 1, "ALTER TABLE t RENAME TO t_old; CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
    assert_contains(look(w, 1).report, "table t is called t_old now");
    assert_status_err(TIDE_E_CONFLICT, track(w, 1, "t"), &w->err);
    (void)sync_nodes(w, 1, 0);
    world_assert_same(w, renamed, true);
    assert_int_equal(2, world_number(w, 0, "SELECT count(*) FROM t_old"));
}

/* Nobody has seen the name in between: as a rebuild does it, but the first is kept. */
static void a_table_that_was_left_behind_by_a_rebuild_is_told(void **state)
{
    world *w = *state;
    world_run(w, 0, "ALTER TABLE t RENAME TO t_old");
    world_run(w, 0, "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'new')");
    assert_contains(look(w, 0).report, "t_old is captured no more");
    (void)sync_nodes(w, 1, 0);
    world_assert_same(w, tables, true);
    assert_ok_err(track(w, 0, "t_old"), &w->err);
}

static void keep_report(void *arg, const char *text)
{
    (void)snprintf(arg, 256, "%s", text);
}

/* Whichever call looks at the file, whoever runs it hears of it, once. */
static void what_a_look_finds_is_told_to_whoever_runs_the_node(void **state)
{
    world *w = *state;
    char heard[256] = "";
    tide_node_on_report(w->nodes[0].node, keep_report, heard);
    world_run(w, 0, "ALTER TABLE t ADD COLUMN b");
    (void)sync_nodes(w, 1, 0);
    assert_contains(heard, "another schema");
    heard[0] = '\0';
    (void)sync_nodes(w, 1, 0);
    assert_string_equal(heard, "");
}

/* A peer may say what tables were called; not of tables that are here. */
static void a_peer_cannot_make_a_table_that_is_here_a_name_of_another(void **state)
{
    world *w = *state;
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks told = {.origin_count = 0};
    tide_peer peer = tide_peer_of_node(w->nodes[1].node, "there");
    int created = 0;
    world_run(w, 1, "CREATE TABLE secret(id INTEGER PRIMARY KEY, a)");
    assert_ok_err(tide_peer_tables(w->nodes[0].node, &told, &w->err), &w->err);
    assert_ok_err(tide_peer_table_add_former(&told.tables[0], tide_view_of("secret"), &w->err),
                  &w->err);
    assert_ok_err(tide_peer_table_add_former(&told.tables[0], tide_view_of("before"), &w->err),
                  &w->err);
    assert_ok_err(peer.offer(peer.arg, told.tables, 1, &created, &w->err), &w->err);
    assert_rows(w, 1, "SELECT name FROM tide_replica_names", "3:before|\n");
    assert_ok_err(track(w, 1, "secret"), &w->err);
}

static tide_status keep_unlike(void *arg, const tide_peer_seen *peer, tide_error *err)
{
    (void)err;
    (void)snprintf(arg, TIDE_SYNC_UNLIKE_MAX, "%s", peer->unlike);
    return TIDE_OK;
}

static tide_status skip_mark(void *arg, const tide_node_id *peer, const tide_node_id *origin,
                             int64_t epoch, int64_t mark, tide_error *err)
{
    (void)arg, (void)peer, (void)origin, (void)epoch, (void)mark, (void)err;
    return TIDE_OK;
}

static void rebuild(world *w, int node, const char *columns)
{
    world_run(w, node,
              "CREATE TABLE n(%s); INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n "
              "RENAME TO t",
              columns);
}

static void tables_of_other_types_are_told_until_they_are_alike(void **state)
{
    world *w = *state;
    char kept[TIDE_SYNC_UNLIKE_MAX] = "";
    assert_string_equal(sync_nodes(w, 1, 0).unlike, "");
    rebuild(w, 1, "id INTEGER PRIMARY KEY, a TEXT DEFAULT 'x'");
    assert_string_equal(sync_nodes(w, 1, 0).unlike, "t.a is TEXT DEFAULT 'x' here, no type there");
    assert_ok_err(tide_peer_list(w->nodes[1].node, keep_unlike, skip_mark, kept, &w->err), &w->err);
    assert_contains(kept, "t.a is TEXT");
    rebuild(w, 0, "id INTEGER PRIMARY KEY, a TEXT DEFAULT 'x'");
    assert_string_equal(sync_nodes(w, 1, 0).unlike, "");
    assert_ok_err(tide_peer_list(w->nodes[1].node, keep_unlike, skip_mark, kept, &w->err), &w->err);
    assert_string_equal(kept, "");
}

/* Equal logs, and yet not equal tables. */
static void events_that_wait_for_their_time_are_told_by_every_sync(void **state)
{
    world *w = *state;
    virtual_env_advance(&w->nodes[1].env, HOUR_US);
    world_run(w, 1, "UPDATE t SET a = 'early'");
    for (int i = 0; i < 2; i++) {
        const tide_sync_result result = sync_nodes(w, 1, 0);
        assert_true(result.is_proven);
        assert_int_equal(2, result.peer_waiting);
        assert_int_equal(2, result.peer_quarantined);
        assert_int_equal(0, result.waiting);
    }
    virtual_env_advance(&w->nodes[0].env, HOUR_US);
    assert_int_equal(0, sync_nodes(w, 1, 0).peer_waiting);
    world_assert_same(w, tables, true);
}

/* sqlite3_blob_write fires no trigger. */
static void what_was_written_past_the_triggers_is_found_by_a_rescan(void **state)
{
    world *w = *state;
    int64_t found = 0;
    sqlite3_blob *blob = NULL;
    world_run(w, 0, "UPDATE t SET a = zeroblob(3) WHERE id = 1");
    (void)sync_nodes(w, 1, 0);
    assert_int_equal(SQLITE_OK,
                     sqlite3_blob_open(w->nodes[0].writer, "main", "t", "a", 1, 1, &blob));
    assert_int_equal(SQLITE_OK, sqlite3_blob_write(blob, "new", 3, 0));
    assert_int_equal(SQLITE_OK, sqlite3_blob_close(blob));
    world_run(w, 0, "UPDATE t SET a = 'seen' WHERE id = 2");
    assert_ok_err(tide_node_rescan(w->nodes[0].node, "t", &found, &w->err), &w->err);
    assert_int_equal(1, found);
    (void)sync_nodes(w, 1, 0);
    world_assert_same(w, tables, true);
    assert_rows(w, 1, "SELECT CAST(a AS TEXT) FROM t ORDER BY id", "3:new|\n3:seen|\n");
    assert_ok_err(tide_node_rescan(w->nodes[0].node, "t", &found, &w->err), &w->err);
    assert_int_equal(0, found);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        CASE(a_name_that_a_tracked_table_had_is_not_given_to_another),
        CASE(a_rename_to_the_name_that_others_use_is_no_rebuild),
        CASE(a_table_that_was_left_behind_by_a_rebuild_is_told),
        CASE(what_a_look_finds_is_told_to_whoever_runs_the_node),
        CASE(a_peer_cannot_make_a_table_that_is_here_a_name_of_another),
        CASE(tables_of_other_types_are_told_until_they_are_alike),
        CASE(events_that_wait_for_their_time_are_told_by_every_sync),
        CASE(what_was_written_past_the_triggers_is_found_by_a_rescan),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
