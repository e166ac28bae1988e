/* Real files as peers of each other: what they tell and take, and what they do not take from anybody. */
#include "replica/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/repair.h"
#include "replica/self.h"
#include "replica/world.h"
#include "support/process/proc.h"

#define SCHEMA "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER)"

static tide_sync_result sync_nodes(world *w, int here, int there)
{
    tide_peer a = tide_peer_of_node(w->nodes[here].node, "here");
    tide_peer b = tide_peer_of_node(w->nodes[there].node, "there");
    const tide_sync_options options = {.page_rows = 7};
    tide_sync_result result;
    assert_ok_err(tide_sync(&a, &b, &options, &result, &w->err), &w->err);
    assert_true(result.is_proven);
    return result;
}

static void assert_equal_rows(world *w, int a, int b)
{
    TIDE_CLEANUP(tide_freep) char *x = world_dump(w, a, "SELECT * FROM todos ORDER BY id");
    TIDE_CLEANUP(tide_freep) char *y = world_dump(w, b, "SELECT * FROM todos ORDER BY id");
    assert_string_equal(x, y);
}

/* Over a node in the middle everything reaches everybody, and a sync that finds nothing new moves nothing. */
static void changes_travel_through_a_third_node(void **state)
{
    (void)state;
    world w;
    world_init(&w, 3, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
    for (int i = 0; i < 30; i++)
        world_run(&w, i % 3, "INSERT INTO todos VALUES('%d', 'row %d', %d)", i, i, i);
    (void)sync_nodes(&w, 0, 1);
    (void)sync_nodes(&w, 1, 2);
    (void)sync_nodes(&w, 0, 1);
    assert_equal_rows(&w, 0, 1);
    assert_equal_rows(&w, 1, 2);
    assert_int_equal(30, world_number(&w, 0, "SELECT count(*) FROM todos"));
    const tide_sync_result quiet = sync_nodes(&w, 2, 0);
    assert_int_equal(0, quiet.pulled.events + quiet.pushed.events);
    /* The others' marks are kept as their acknowledgements. */
    assert_int_equal(2, world_number(&w, 0, "SELECT count(*) FROM tide_replica_peers"));
    world_done(&w);
}

/* ---- a node that is put back with everything beside it ---- */

static void shell(world *w, const char *command)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    const proc_options options = {.argv = argv, .directory = w->dir.path};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &options, 10000, &w->err), &w->err);
    assert_int_equal(0, result.exit_code);
    proc_result_done(&result);
}

static void run_closed(world *w, const char *commands)
{
    char command[4 * TEMPDIR_PATH_MAX];
    tide_node_close(w->nodes[0].node);
    w->nodes[0].node = NULL;
    (void)sqlite3_close(w->nodes[0].writer);
    w->nodes[0].writer = NULL;
    (void)snprintf(command, sizeof command, "f=%s; %s", w->nodes[0].path, commands);
    shell(w, command);
    assert_int_equal(SQLITE_OK, sqlite3_open(w->nodes[0].path, &w->nodes[0].writer));
    world_reopen(w, 0);
}

static void repair(world *w, int by, int with)
{
    tide_repair_peer there = tide_repair_of_node(w->nodes[with].node, "there");
    const tide_repair_options options = {.is_repairing = true, .is_again = true};
    tide_repair_result result;
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.origin_count = 0};
    const tide_peer peer = tide_peer_of_node(w->nodes[with].node, "there");
    assert_ok_err(tide_repair_table(w->nodes[by].node, &there, "todos", &options, &result, &w->err),
                  &w->err);
    assert_ok_err(peer.marks(peer.arg, NULL, &theirs, &w->err), &w->err);
    assert_ok_err(tide_self_repaired(w->nodes[by].node, &theirs, &w->err), &w->err);
}

/* Neither the file nor its identity marker can tell; the peer's marks do. Numbers that were given twice are noticed, too. */
static void a_node_that_is_put_back_with_its_twin_is_told_by_its_peers(void **state)
{
    (void)state;
    for (int extra = 0; extra < 6; extra++) {
        world w;
        world_init(&w, 2, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
        world_run(&w, 0, "INSERT INTO todos VALUES('0', 'row', 0)");
        const bool is_asked = extra % 2 == 1; /* the peer comes to the node */
        (void)sync_nodes(&w, is_asked, !is_asked);
        run_closed(&w, "cp $f old.db; cp -r state old");
        world_run(&w, 0, "INSERT INTO todos VALUES('1', 'row', 1)");
        world_run(&w, 0, "INSERT INTO todos VALUES('2', 'row', 2)");
        (void)sync_nodes(&w, is_asked, !is_asked);
        run_closed(&w, "cat old.db > $f; rm -rf state $f-wal $f-shm; cp -r old state");
        assert_int_equal(1, tide_node_epoch(w.nodes[0].node));
        world_advance(&w, 1000000);
        for (int i = 0; i < extra; i++)
            world_run(&w, 0, "INSERT INTO todos VALUES('n%d', 'new', %d)", i, i);
        for (int again = 0; again < 2; again++) { /* it is due until it is done */
            const tide_sync_result result = sync_nodes(&w, is_asked, !is_asked);
            assert_int_equal(2, tide_node_epoch(w.nodes[0].node));
            assert_int_equal(extra > 0, result.differs);
        }
        if (extra > 0)
            repair(&w, is_asked, !is_asked);
        assert_false(sync_nodes(&w, is_asked, !is_asked).differs);
        assert_equal_rows(&w, 0, 1);
        assert_int_equal(3 + extra, world_number(&w, 0, "SELECT count(*) FROM todos"));
        assert_int_equal(2, tide_node_epoch(w.nodes[0].node));
        world_done(&w);
    }
}

static void put_back(world *w)
{
    run_closed(w, "cat old.db > $f; rm -rf state $f-wal $f-shm; cp -r old state");
    world_advance(w, 1000000);
}

/* As daemons do it. */
static void sync_and_mend(world *w, int here, int there)
{
    if (sync_nodes(w, here, there).differs) {
        repair(w, here, there);
        (void)sync_nodes(w, here, there);
    }
}

/* Node 1 has the numbers of before, nodes 0 and 2 those that were given again: nobody asks for what it takes for known. Whoever meets first, all get both. */
static void numbers_that_were_given_twice_reach_third_nodes(void **state)
{
    static const int meetings[3][4][2] = {{{1, 2}, {0, 2}, {0, 1}, {1, 2}},
                                          {{0, 1}, {2, 0}, {1, 2}, {0, 1}},
                                          {{2, 1}, {2, 0}, {1, 0}, {2, 0}}};
    (void)state;
    for (int order = 0; order < 3; order++) {
        world w;
        world_init(&w, 3, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
        world_run(&w, 0, "INSERT INTO todos VALUES('0', 'row', 0), ('gone', 'row', 0)");
        (void)sync_nodes(&w, 0, 1);
        (void)sync_nodes(&w, 0, 2);
        run_closed(&w, "cp $f old.db; cp -r state old");
        world_run(&w, 0, "INSERT INTO todos VALUES('before', 'row', 1)");
        world_run(&w, 0, "DELETE FROM todos WHERE id = 'gone'");
        (void)sync_nodes(&w, 0, 1);
        put_back(&w);
        for (int i = 0; i < 3; i++)
            world_run(&w, 0, "INSERT INTO todos VALUES('after%d', 'row', 2)", i);
        (void)sync_nodes(&w, 0, 2);
        for (int i = 0; i < 4; i++)
            sync_and_mend(&w, meetings[order][i][0], meetings[order][i][1]);
        assert_equal_rows(&w, 0, 1);
        assert_equal_rows(&w, 1, 2);
        assert_int_equal(5, world_number(&w, 2, "SELECT count(*) FROM todos"));
        assert_int_equal(0, world_number(&w, 2, "SELECT count(*) FROM todos WHERE id = 'gone'"));
        world_done(&w);
    }
}

/* The peer has collected what it could compare with: what was not acknowledged before goes out in the new epoch. */
static void what_nobody_can_compare_is_said_again(void **state)
{
    (void)state;
    world w;
    tide_collected collected;
    tide_sync_result result;
    world_init(&w, 2, 1, SCHEMA, (const char *const[]){"todos", NULL}, 1000);
    world_run(&w, 0, "INSERT INTO todos VALUES('0', 'row', 0)");
    (void)sync_nodes(&w, 0, 1);
    run_closed(&w, "cp $f old.db; cp -r state old");
    for (int i = 0; i < 9; i++)
        world_run(&w, 0, "INSERT INTO todos VALUES('before%d', 'row', 1)", i);
    (void)sync_nodes(&w, 0, 1);
    world_advance(&w, 1000000);
    assert_ok_err(tide_node_collect(w.nodes[1].node, &(tide_collect_options){.safety = -1},
                                    &collected, &w.err),
                  &w.err);
    assert_int_equal(10, collected.events);
    put_back(&w);
    world_run(&w, 0, "INSERT INTO todos VALUES('after', 'row', 2)");
    world_run(&w, 0, "UPDATE todos SET title = 'changed' WHERE id = '0'");
    tide_peer a = tide_peer_of_node(w.nodes[0].node, "here");
    tide_peer b = tide_peer_of_node(w.nodes[1].node, "there");
    assert_status_err(
        TIDE_E_NOT_FOUND, /* of a snapshot; what is new here goes there all the same */
        tide_sync(&a, &b, &(tide_sync_options){.page_rows = 7}, &result, &w.err), &w.err);
    assert_int_equal(2, tide_node_epoch(w.nodes[0].node));
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM todos WHERE id = 'after'"));
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM todos WHERE title = 'changed'"));
    world_done(&w);
}

/* SQLite gives triggers of a parent OLD as its child's column would have it: '01' and '1' are 1. */
static void a_text_key_that_a_child_bends_is_deleted_everywhere(void **state)
{
    (void)state;
    static const char *const types[] = {"TEXT", ""};
    for (int i = 0; i < 2; i++) {
        world w;
        char schema[256];
        (void)snprintf(schema, sizeof schema,
                       "CREATE TABLE todos(id %s PRIMARY KEY NOT NULL, title TEXT, n INTEGER); "
                       "CREATE TABLE parts(id INTEGER PRIMARY KEY, "
                       "todo NUMERIC UNIQUE REFERENCES todos(id))",
                       types[i]);
        world_init(&w, 2, 1, schema, (const char *const[]){"todos", "parts", NULL}, 0);
        world_run(&w, 0, "PRAGMA foreign_keys = ON");
        world_run(&w, 0,
                  "INSERT INTO todos VALUES('1', 'a', 1), ('01', 'b', 2), ('2', 'c', 3), "
                  "('02', 'd', 4), ('1e1', 'e', 5), ('x', 'f', 6)");
        (void)sync_nodes(&w, 1, 0);
        world_run(&w, 0, "DELETE FROM todos WHERE id IN ('01', '1e1', '2', '02')");
        world_run(&w, 0, "UPDATE todos SET id = '3' WHERE id = '1'");
        (void)sync_nodes(&w, 1, 0);
        (void)sync_nodes(&w, 1, 0); /* a scan had to find some of them */
        assert_equal_rows(&w, 0, 1);
        assert_int_equal(2, world_number(&w, 1, "SELECT count(*) FROM todos"));
        world_done(&w);
    }
}

/* The transaction that begins an epoch fails at its very end: the node is still in the old one, and the next sync begins the new one. */
static void an_epoch_that_is_not_committed_has_not_begun(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
    world_run(&w, 0, "INSERT INTO todos VALUES('0', 'row', 0)");
    (void)sync_nodes(&w, 0, 1);
    run_closed(&w, "cp $f old.db; cp -r state old");
    world_run(&w, 0, "INSERT INTO todos VALUES('1', 'row', 1)");
    (void)sync_nodes(&w, 0, 1);
    run_closed(&w, "cat old.db > $f; rm -rf state $f-wal $f-shm; cp -r old state");
    world_fold(&w, 0);
    tide_peer a = tide_peer_of_node(w.nodes[0].node, "here");
    tide_peer b = tide_peer_of_node(w.nodes[1].node, "there");
    const tide_sync_options options = {.page_rows = 7};
    tide_sync_result result;
    tide_status status = TIDE_E_FAILED;
    for (int64_t room = 0; status < TIDE_OK; room++) { /* each write fails in turn */
        assert_true(room < 100);
        const int64_t mark =
            world_number(&w, 0, "SELECT value FROM tide_metadata WHERE key = 'mark'");
        world_run(&w, 0,
                  "CREATE UNIQUE INDEX full ON tide_metadata (CASE WHEN key = 'mark' AND "
                  "CAST(value AS INTEGER) > %lld THEN 'node_id' ELSE key END)",
                  (long long)mark + room);
        status = tide_sync(&a, &b, &options, &result, &w.err);
        world_run(&w, 0, "DROP INDEX full");
        assert_int_equal(
            world_number(&w, 0, "SELECT value FROM tide_metadata WHERE key = 'replica_epoch'"),
            tide_node_epoch(w.nodes[0].node));
    }
    assert_int_equal(2, tide_node_epoch(w.nodes[0].node));
    assert_equal_rows(&w, 0, 1);
    world_done(&w);
}

/* Marks are no proof where they come from a stranger. */
static void a_strangers_marks_begin_no_epoch(void **state)
{
    (void)state;
    world w;
    world_init(&w, 1, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
    world_run(&w, 0, "INSERT INTO todos VALUES('0', 'row', 0)");
    const tide_peer peer = tide_peer_of_node(w.nodes[0].node, "here");
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks theirs = {.node = {.bytes = {1}}};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks ours = {.origin_count = 0};
    const tide_origin_mark mark = {.origin = tide_node_get_id(w.nodes[0].node),
                                   .epoch = 1,
                                   .prefix = 99,
                                   .highest = 99,
                                   .stamp = 5,
                                   .differs = true};
    assert_ok_err(tide_peer_marks_add(&theirs, &mark, &w.err), &w.err);
    assert_ok_err(peer.marks(peer.arg, &theirs, &ours, &w.err), &w.err);
    assert_int_equal(1, tide_node_epoch(w.nodes[0].node));
    world_done(&w);
}

static tide_status create(world *w, const char *name, const char *sql, const char *second)
{
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    assert_ok(tide_peer_marks_add_table(&marks, name, 1, 0,
                                        (const char *const[]){sql, second, NULL}, NULL));
    return tide_peer_create(w->nodes[0].node, &marks.tables[0], &w->err);
}

/* Statements of a hostile peer: refused, and nothing has changed. */
static void tables_of_hostile_peers_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"x", "DROP TABLE todos", NULL},
        {"x", "CREATE TABLE x(id INTEGER PRIMARY KEY); DROP TABLE todos", NULL},
        {"x", "CREATE TABLE x(id INTEGER PRIMARY KEY) /* ; */ ; DELETE FROM todos", NULL},
        {"x", "CREATE TABLE y(id INTEGER PRIMARY KEY)", NULL},
        {"x", "CREATE TABLE x AS SELECT * FROM todos", NULL},
        {"x", "CREATE TRIGGER x AFTER INSERT ON todos BEGIN DELETE FROM todos; END", NULL},
        {"x", "CREATE VIEW x AS SELECT 1", NULL},
        {"x", "CREATE TABLE x(id INTEGER PRIMARY KEY)", "CREATE INDEX stolen ON todos(title)"},
        {"x", "CREATE TABLE x(id INTEGER PRIMARY KEY)", "DROP TABLE todos"},
        {"x", "CREATE TABLE x(id INTEGER PRIMARY KEY)", NULL}, /* another digest than it says */
        {"x", "ATTACH '/etc/passwd' AS p", NULL},
        {"x", "not SQL at all", NULL},
        {"x\"; DROP TABLE todos; --", "CREATE TABLE x(id INTEGER PRIMARY KEY)", NULL},
        {"tide_replica_x", "CREATE TABLE tide_replica_x(id INTEGER PRIMARY KEY)", NULL},
        {"sqlite_x", "CREATE TABLE sqlite_x(id INTEGER PRIMARY KEY)", NULL},
    };
    world w;
    world_init(&w, 1, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
    world_run(&w, 0, "INSERT INTO todos VALUES('1', 'one', 1)");
    const int64_t before = world_number(&w, 0, "SELECT count(*) FROM sqlite_schema");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status_err(TIDE_E_INVALID, create(&w, bad[i][0], bad[i][1], bad[i][2]), &w.err);
    assert_int_equal(before, world_number(&w, 0, "SELECT count(*) FROM sqlite_schema"));
    assert_int_equal(1, world_number(&w, 0, "SELECT count(*) FROM todos"));
    /* One that stands is left alone, whatever the peer says of it. */
    assert_status(TIDE_NONE,
                  create(&w, "todos", "CREATE TABLE todos(id INTEGER PRIMARY KEY)", NULL));
    world_done(&w);
}

/* A forged page is refused as a whole, and the log stays as it was. */
static void forged_pages_are_refused(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 1, SCHEMA, (const char *const[]){"todos", NULL}, 0);
    world_run(&w, 0, "INSERT INTO todos VALUES('1', 'one', 1)");
    tide_peer from = tide_peer_of_node(w.nodes[0].node, "from");
    tide_peer to = tide_peer_of_node(w.nodes[1].node, "to");
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    TIDE_CLEANUP(tide_peer_page_done) tide_peer_page page;
    tide_applied applied = {.events = 0};
    tide_peer_page_init(&page);
    assert_ok_err(from.marks(from.arg, NULL, &marks, &w.err), &w.err);
    assert_int_equal(1, marks.origin_count);
    assert_ok_err(from.read(from.arg, &marks.origins[0].origin, marks.origins[0].epoch, 0, 10,
                            1 << 20, &page, &w.err),
                  &w.err);
    assert_int_equal(1, page.count);
    for (size_t i = 0; i < page.bytes.len; i++) {
        page.bytes.ptr[i] = (char)(page.bytes.ptr[i] ^ 0x20);
        assert_true(to.push(to.arg, &marks.origins[0], &page, &applied, &w.err) < TIDE_OK);
        page.bytes.ptr[i] = (char)(page.bytes.ptr[i] ^ 0x20);
    }
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM todos"));
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM tide_replica_events"));
    assert_ok_err(to.push(to.arg, &marks.origins[0], &page, &applied, &w.err), &w.err);
    assert_int_equal(1, applied.events);
    world_done(&w);
}

/* A peer's table is there and tracked, or not there: a crash in between leaves nothing that would stay untracked for ever. */
static void a_peers_table_is_created_and_tracked_at_once(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 1, SCHEMA, (const char *const[]){NULL}, 0);
    tide_tracked tracked;
    assert_ok_err(tide_node_track(w.nodes[0].node, "todos", 0, &tracked, &w.err), &w.err);
    world_run(&w, 0, "INSERT INTO todos VALUES('1', 'one', 1)");
    world_run(&w, 1,
              "DROP TABLE todos; CREATE VIEW todos_Events AS SELECT 1"); /* tracking will fail */
    assert_ok_err(tide_node_establish(w.nodes[1].node, &w.err), &w.err);
    tide_peer a = tide_peer_of_node(w.nodes[0].node, "here");
    tide_peer b = tide_peer_of_node(w.nodes[1].node, "there");
    tide_sync_result result;
    assert_status_err(TIDE_E_CONFLICT,
                      tide_sync(&b, &a, &(tide_sync_options){.page_rows = 7}, &result, &w.err),
                      &w.err);
    assert_int_equal(
        0, world_number(&w, 1, "SELECT count(*) FROM sqlite_schema WHERE name = 'todos'"));
    world_run(&w, 1, "DROP VIEW todos_Events");
    (void)sync_nodes(&w, 1, 0);
    assert_equal_rows(&w, 0, 1);
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM todos"));
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_travel_through_a_third_node),
        cmocka_unit_test(a_node_that_is_put_back_with_its_twin_is_told_by_its_peers),
        cmocka_unit_test(numbers_that_were_given_twice_reach_third_nodes),
        cmocka_unit_test(what_nobody_can_compare_is_said_again),
        cmocka_unit_test(a_text_key_that_a_child_bends_is_deleted_everywhere),
        cmocka_unit_test(an_epoch_that_is_not_committed_has_not_begun),
        cmocka_unit_test(a_strangers_marks_begin_no_epoch),
        cmocka_unit_test(tables_of_hostile_peers_are_refused),
        cmocka_unit_test(forged_pages_are_refused),
        cmocka_unit_test(a_peers_table_is_created_and_tracked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
