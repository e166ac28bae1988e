/* kill -9 in the middle of a write to the disk, at many places of what a node does in steps: an import of old events, columns that are followed, a batch that comes in
 * pages. Behind each kill the file is sound, nobody sees a part of anything, and doing it again completes it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replica/peer.h"
#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define SCHEMA "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)"
static const char *const tables[] = {"t", NULL};

/* ---- a process that dies at its n-th write ---- */

static int64_t writes_left;

static void maybe_die(int fd, const void *bytes, size_t len, off_t at)
{
    if (--writes_left > 0)
        return;
    (void)!pwrite(fd, bytes, len / 2, at); /* half of it is there */
    (void)raise(SIGKILL);
}

static ssize_t dying_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    maybe_die(fd, bytes, len, at);
    return pwrite(fd, bytes, len, at);
}

static void arm(int64_t writes)
{
    static const char *const calls[] = {"pwrite", "pwrite64"};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    writes_left = writes;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        (void)vfs->xSetSystemCall(vfs, calls[i], (sqlite3_syscall_ptr)dying_pwrite);
}

typedef tide_status step_fn(tide_node *node, const void *arg, tide_error *err);

/* Nobody has the file open while others fork. False: it was done before its last write. */
static bool run_killed(world *w, int index, int64_t writes, step_fn *fn, const void *arg)
{
    world_node *n = &w->nodes[index];
    tide_node_close(n->node);
    (void)sqlite3_close(n->writer);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tide_error err;
        tide_node *node = NULL;
        const tide_node_options options = {.env = &n->env.env};
        arm(writes);
        tide_status status = tide_node_open(&node, n->path, &options, &err);
        if (status >= TIDE_OK)
            status = fn(node, arg, &err);
        if (status < TIDE_OK)
            (void)fprintf(stderr, "%s\n", err.text);
        tide_node_close(node);
        _exit(status < TIDE_OK ? 1 : 0);
    }
    int how = 0;
    assert_int_equal(child, waitpid(child, &how, 0));
    assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
    assert_int_equal(SQLITE_OK, sqlite3_open(n->path, &n->writer));
    assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(n->writer, 10000));
    const tide_node_options options = {.env = &n->env.env};
    assert_ok_err(tide_node_open(&n->node, n->path, &options, &w->err), &w->err);
    assert_int_equal(
        1, world_number(w, index, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"));
    return WIFSIGNALED(how);
}

typedef void look_fn(world *w);

/* Again and again, a little later each time, until it is through. Returns how often it was killed. */
static int kill_until_done(world *w, int index, step_fn *fn, const void *arg, look_fn *look)
{
    int kills = 0;
    for (int64_t writes = 1; run_killed(w, index, writes, fn, arg); writes += 1 + writes / 4) {
        look(w);
        assert_true(++kills < 200);
    }
    look(w);
    return kills;
}

static int setup(void **state)
{
    static world w;
    world_init(&w, 2, 5, SCHEMA, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

/* ---- a batch in pages ---- */

enum { BATCH = 600, PAGE = 100 };

static tide_status take_batch(tide_node *node, const void *arg, tide_error *err)
{
    const world_page *pages = arg;
    for (int i = 0; i < BATCH / PAGE; i++) {
        tide_applied applied;
        TIDE_TRY(tide_node_apply(node, pages[i].events, pages[i].count, &applied, err));
    }
    return TIDE_OK;
}

static void see_all_or_nothing(world *w)
{
    const int64_t rows = world_number(w, 1, "SELECT count(*) FROM t");
    if (rows != 0 && rows != BATCH)
        fail_msg("%d rows of a batch of %d are seen", (int)rows, BATCH);
}

static void a_batch_is_whole_or_not_there_wherever_its_receiver_dies(void **state)
{
    world *w = *state;
    static world_page pages[BATCH / PAGE];
    world_run(w, 0,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO t SELECT i, 'a' || i, i FROM n",
              BATCH);
    world_fold(w, 0);
    const tide_origin_mark log = {.origin = tide_node_get_id(w->nodes[0].node), .epoch = 1};
    for (int i = 0; i < BATCH / PAGE; i++)
        assert_ok_err(world_read(w, 0, &log, (int64_t)i * PAGE, PAGE, &pages[i]), &w->err);
    assert_true(kill_until_done(w, 1, take_batch, pages, see_all_or_nothing) > 5);
    for (int i = 0; i < BATCH / PAGE; i++)
        world_page_done(&pages[i]);
    assert_int_equal(BATCH, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM tide_replica_spool"));
    assert_int_equal(BATCH, world_number(w, 1,
                                         "SELECT count(*) FROM tide_replica_events WHERE processed "
                                         "AND data IS NOT NULL"));
    world_settle(w);
    world_assert_same(w, tables, true);
}

/* ---- columns that are followed ---- */

static tide_status look_at_file(tide_node *node, const void *arg, tide_error *err)
{
    (void)arg;
    return tide_peer_look(node, NULL, err);
}

static void see_rows(world *w)
{
    assert_int_equal(300, world_number(w, 0, "SELECT count(*) FROM t WHERE a = 'a' || id"));
}

static void a_dropped_column_is_followed_wherever_the_look_dies(void **state)
{
    world *w = *state;
    world_run(w, 0,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
              "INSERT INTO t SELECT i, 'a' || i, i FROM n");
    world_settle(w);
    assert_ok_err(tide_node_unhook(w->nodes[0].node, &w->err), &w->err);
    world_run(w, 0, "ALTER TABLE t DROP COLUMN b");
    assert_true(kill_until_done(w, 0, look_at_file, NULL, see_rows) > 5);
    assert_int_equal(300, world_number(w, 0, "SELECT count(*) FROM tide_replica_events"));
    assert_int_equal(300, world_number(w, 0,
                                       "SELECT count(*) FROM tide_replica_clocks WHERE "
                                       "length(digest) = 12"));
    world_run(w, 0, "UPDATE t SET a = 'new' WHERE id = 7"); /* captured again, once */
    world_fold(w, 0);
    assert_int_equal(301, world_number(w, 0, "SELECT count(*) FROM tide_replica_events"));
    assert_ok_err(tide_node_unhook(w->nodes[1].node, &w->err), &w->err);
    world_run(w, 1, "ALTER TABLE t DROP COLUMN b");
    for (int i = 0; i < 2; i++)
        assert_ok_err(tide_peer_look(w->nodes[i].node, NULL, &w->err), &w->err);
    world_settle(w);
    world_assert_same(w, tables, true);
}

/* ---- an import ---- */

enum { OLD_EVENTS = 12000 };

static tide_status track_old(tide_node *node, const void *arg, tide_error *err)
{
    tide_tracked tracked;
    (void)arg;
    return tide_node_track(node, "old", WEEK_US, &tracked, err);
}

static void see_no_event_twice(world *w)
{
    assert_int_equal(0, world_number(w, 0,
                                     "SELECT count(*) FROM (SELECT 1 FROM tide_replica_events "
                                     "WHERE epoch = 0 GROUP BY id HAVING count(*) > 1)"));
}

static void an_import_takes_every_event_once_wherever_it_dies(void **state)
{
    world *w = *state;
    world_run(w, 0,
              "CREATE TABLE old(id TEXT PRIMARY KEY NOT NULL, v);"
              "CREATE TABLE old_Events(id TEXT PRIMARY KEY, table_name TEXT, operation_type TEXT, "
              "record_id TEXT, data TEXT, timestamp INTEGER, source_node_id TEXT, processed INT);"
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO old_Events SELECT printf('e%%05d', i), 'old', 'update', 'r', '{}', i / "
              "3, 'node', 1 FROM n",
              OLD_EVENTS);
    assert_true(kill_until_done(w, 0, track_old, NULL, see_no_event_twice) > 5);
    assert_int_equal(OLD_EVENTS, world_number(w, 0, "SELECT count(*) FROM old_Events"));
    assert_int_equal(1, world_number(w, 0,
                                     "SELECT group_concat(id) = (SELECT group_concat(id) FROM "
                                     "(SELECT id FROM old_Events_imported ORDER BY timestamp, id)) "
                                     "FROM (SELECT id FROM tide_replica_events WHERE epoch = 0 "
                                     "ORDER BY seq)"));
    assert_int_equal(0, world_number(w, 0,
                                     "SELECT count(*) FROM tide_replica_state WHERE key GLOB "
                                     "'seed/*' OR key GLOB 'import/*'"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_batch_is_whole_or_not_there_wherever_its_receiver_dies,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_dropped_column_is_followed_wherever_the_look_dies, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_import_takes_every_event_once_wherever_it_dies, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("crash, replica steps", tests, NULL, NULL);
}
