/* Snapshots: one cut of rows, tombstones, conflicts and marks; with the tail they are the whole history. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replica/peer.h"
#include "replica/snapshot/snapshots.h"

/* Both ways between two nodes, as far as floors allow. */
static void exchange(snapshots *t, int a, int b)
{
    while (world_pull(&t->w, a, b, 50) || world_pull(&t->w, b, a, 50)) {
    }
}

/* Some write that any program could make. */
static void write_anything(snapshots *t, int node, prng *chance)
{
    const int k = (int)prng_below(chance, 12);
    const int v = (int)prng_below(chance, 1000);
    switch (prng_below(chance, 14)) {
    case 0:
        world_run(&t->w, node, "INSERT OR REPLACE INTO todos VALUES('t%d', 'title %d', %d, %d.5)",
                  k, v, v, v);
        break;
    case 1:
        world_run(&t->w, node, "UPDATE todos SET title = 'w%d' WHERE id = 't%d'", v, k);
        break;
    case 2:
        world_run(&t->w, node, "UPDATE todos SET n = %d, note = x'00ff%02x' WHERE id = 't%d'", v,
                  v % 256, k);
        break;
    case 3:
        world_run(&t->w, node, "DELETE FROM todos WHERE id = 't%d'", k);
        break;
    case 4:
        world_run(&t->w, node, "INSERT OR REPLACE INTO pairs VALUES(%d, 'b%d', %d)", k % 4, k, v);
        break;
    case 5:
        world_run(&t->w, node, "UPDATE OR REPLACE pairs SET b = 'c%d' WHERE a = %d AND b = 'b%d'",
                  v % 5, k % 4, k);
        break;
    case 6:
        world_run(&t->w, node, "DELETE FROM pairs WHERE a = %d", k % 4);
        break;
    case 7:
        world_run(&t->w, node, "INSERT OR REPLACE INTO files VALUES(x'%02x', zeroblob(%d), %d.25)",
                  k, v, v);
        break;
    case 8:
        world_run(&t->w, node, "DELETE FROM files WHERE id = x'%02x'", k);
        break;
    case 9:
        (void)world_try(&t->w, node, "INSERT OR IGNORE INTO folks VALUES('f%d', 'name %d')", k,
                        v % 6);
        break;
    case 10:
        (void)world_try(&t->w, node, "UPDATE OR IGNORE folks SET name = 'name %d' WHERE id = 'f%d'",
                        v % 6, k);
        break;
    case 11:
        world_run(&t->w, node, "DELETE FROM folks WHERE id = 'f%d'", k);
        break;
    case 12:
        world_run(&t->w, node,
                  "INSERT OR REPLACE INTO kids SELECT %d, id, %d FROM folks WHERE id = 'f%d'", k, v,
                  v % 12);
        break;
    default:
        world_run(&t->w, node, "UPDATE kids SET x = %d WHERE id = %d", v, k);
    }
}

static void write_some(snapshots *t, int node, prng *chance, int count)
{
    for (int i = 0; i < count; i++) {
        write_anything(t, node, chance);
        if (prng_below(chance, 4) == 0)
            world_advance(&t->w, (int64_t)prng_below(chance, 3000));
    }
}

/* ---- the whole history ---- */

/* The replication document's own test. */
static void snapshot_bootstrap_applying_snapshot_and_post_cut_events_yields_identical_state(
    void **state)
{
    (void)state;
    uint64_t count = 4;
    const uint64_t first = prng_first_of(&count, 0);
    for (uint64_t seed = first; seed < first + count; seed++) {
        snapshots t;
        prng chance;
        prng_print_seed(seed);
        prng_init(&chance, seed);
        snapshots_begin(&t, 3, seed);
        t.w.count = 2; /* the third knows nothing yet */
        for (int round = 0; round < 4; round++) {
            write_some(&t, 0, &chance, 15);
            write_some(&t, 1, &chance, 15);
            if (round % 2 == 0)
                world_settle(&t.w);
        }
        exchange(&t, 0, 1);
        snapshots_make(&t, 0);
        write_some(&t, 0, &chance, 10);
        write_some(&t, 1, &chance, 10);
        exchange(&t, 0, 1);
        t.w.count = 3;
        const tide_snapshot_restored restored = snapshots_restore(&t, 2);
        assert_true(restored.is_bulk);
        assert_true(restored.rows > 0);
        assert_true(world_pull(&t.w, 2, 0, 50));
        world_assert_same(&t.w, snapshots_tables, true);
        (void)world_pull(&t.w, 2, 1, 50);
        write_some(&t, 2, &chance, 10); /* it is a node like any other */
        exchange(&t, 0, 2);
        exchange(&t, 1, 2);
        world_assert_same(&t.w, snapshots_tables, true);
        world_done(&t.w);
    }
}

/* States merge to what the events would have given, whatever a node had before. */
static void a_restore_into_a_node_with_its_own_data_equals_applying_all_events(void **state)
{
    (void)state;
    uint64_t count = 15;
    const uint64_t first = prng_first_of(&count, 99);
    for (uint64_t seed = first; seed < first + count; seed++) {
        snapshots t;
        prng chance;
        prng_print_seed(seed);
        prng_init(&chance, seed);
        snapshots_begin(&t, 4, seed);
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 4; i++)
                write_some(&t, i, &chance, 8);
            const int from = (int)prng_below(&chance, 4);
            const int to = (int)prng_below(&chance, 4);
            if (from != to)
                (void)world_pull(&t.w, to, from, 10);
        }
        exchange(&t, 0, 1);
        snapshots_make(&t, 0);
        write_some(&t, 3, &chance, 5); /* not shipped to anybody */
        const tide_snapshot_restored restored = snapshots_restore(&t, 3);
        assert_false(restored.is_bulk);
        assert_int_equal(0, snapshots_restore(&t, 3).changed); /* again: nothing */
        (void)unlink(t.path);
        snapshots_make(&t, 3); /* refused where a row does not fit its prints */
        world_settle(&t.w);
        world_assert_same(&t.w, snapshots_tables, true);
        world_done(&t.w);
    }
}

/* ---- one cut ---- */

typedef struct writer {
    int number;
    char path[TEMPDIR_PATH_MAX];
    atomic_bool is_over;
    atomic_int budget; /* transactions that it may make */
    atomic_int written;
} writer;

/* A program that knows nothing of us: every transaction writes one row to each of two tables. */
static void *write_pairs_of_rows(void *arg)
{
    writer *one = arg;
    enum { ROWS = 500 };
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(one->path, &db));
    (void)sqlite3_busy_timeout(db, 60000);
    for (int i = 0; !atomic_load(&one->is_over); i++) {
        char *sql = sqlite3_mprintf(
            "BEGIN IMMEDIATE; INSERT OR REPLACE INTO todos VALUES('w%d-%d', 'x', %d, NULL);"
            "INSERT OR REPLACE INTO files VALUES(CAST('w%d-%d' AS BLOB), zeroblob(%d), 0);"
            "UPDATE todos SET n = n + 1 WHERE id = 'w%d-%d'; COMMIT",
            one->number, i % ROWS, i, one->number, i % ROWS, i % 100, one->number, i / 2 % ROWS);
        assert_int_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
        sqlite3_free(sql);
        atomic_fetch_add(&one->written, 1);
        while (atomic_load(&one->written) >= atomic_load(&one->budget) &&
               !atomic_load(&one->is_over))
            (void)sched_yield();
    }
    (void)sqlite3_close(db);
    return NULL;
}

static int64_t cut_of_own_log(snapshots *t, int node)
{
    tide_snapshot_info info = {.bytes = 0};
    const tide_node_id id = tide_node_get_id(t->w.nodes[node].node);
    assert_ok_err(tide_snapshot_check(t->path, NULL, &info, &t->w.err), &t->w.err);
    const tide_origin_mark *mark = tide_peer_marks_find(&info.cut, &id, 1);
    assert_non_null(mark);
    const int64_t cut = mark->prefix;
    tide_snapshot_info_done(&info);
    return cut;
}

/* By events alone, batch by batch, exactly up to a number. */
static void pull_through(snapshots *t, int to, int from, int64_t cut)
{
    static world_page page;
    tide_origin_mark mark = {.origin = tide_node_get_id(t->w.nodes[from].node), .epoch = 1};
    int64_t after = 0;
    while (after < cut) {
        assert_ok_err(world_read(&t->w, from, &mark, after, 1, &page), &t->w.err);
        assert_true(page.count > 0);
        (void)world_apply(&t->w, to, &page);
        after = page.through;
        world_page_done(&page);
    }
    assert_int_equal(cut, after);
}

static void start_writing(snapshots *t, writer writers[2], pthread_t threads[2])
{
    for (int i = 0; i < 2; i++) {
        writers[i].number = i;
        memcpy(writers[i].path, t->w.nodes[0].path, sizeof writers[i].path);
        assert_int_equal(0, pthread_create(&threads[i], NULL, write_pairs_of_rows, &writers[i]));
    }
}

/* Let them write so many transactions; some are there when it returns, the others come while we go on. */
static void let_write(writer writers[2], int more)
{
    const int before[] = {atomic_load(&writers[0].written), atomic_load(&writers[1].written)};
    for (int i = 0; i < 2; i++)
        atomic_store(&writers[i].budget, before[i] + more);
    for (int i = 0; i < 2; i++)
        while (atomic_load(&writers[i].written) < before[i] + 3)
            (void)sched_yield();
}

static void a_snapshot_while_writes_go_on_is_exactly_the_rows_at_its_marks(void **state)
{
    (void)state;
    enum { SNAPSHOTS = 5 };
    snapshots t;
    pthread_t threads[2];
    writer writers[2] = {{.number = 0}};
    snapshots_begin(&t, 3, 20);
    snapshots_use_real_time(&t);
    start_writing(&t, writers, threads);
    for (int i = 0; i < SNAPSHOTS; i++) {
        let_write(writers, 80);
        (void)unlink(t.path);
        snapshots_make(&t, 0);
    }
    let_write(writers, 5);
    for (int i = 0; i < 2; i++) {
        atomic_store(&writers[i].is_over, true);
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_true(snapshots_restore(&t, 1).is_bulk);
    const int64_t rows = world_number(&t.w, 1, "SELECT count(*) FROM todos");
    assert_true(rows > 10);
    assert_int_equal(rows, world_number(&t.w, 1, "SELECT count(*) FROM files"));
    world_fold(&t.w, 0);
    const int64_t cut = cut_of_own_log(&t, 0);
    const tide_node_id origin = tide_node_get_id(t.w.nodes[0].node);
    assert_int_equal(cut, world_prefix(&t.w, 1, &origin, 1));
    pull_through(&t, 2, 0, cut);
    char *by_snapshot = world_dump(&t.w, 1, "SELECT * FROM todos ORDER BY id");
    char *by_events = world_dump(&t.w, 2, "SELECT * FROM todos ORDER BY id");
    assert_string_equal(by_events, by_snapshot);
    sqlite3_free(by_snapshot);
    sqlite3_free(by_events);
    world_settle(&t.w);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* ---- below the floor ---- */

static void collect_all(snapshots *t, int node)
{
    tide_collected done = {.more = true};
    const tide_collect_options options = {.safety = -1};
    while (done.more)
        assert_ok_err(tide_node_collect(t->w.nodes[node].node, &options, &done, &t->w.err),
                      &t->w.err);
}

typedef struct bringing {
    snapshots *t;
    int to;
    int calls;
} bringing;

static tide_status bring(void *arg, tide_error *err)
{
    bringing *b = arg;
    tide_snapshot_restored out;
    b->calls++;
    return tide_snapshot_restore(b->t->w.nodes[b->to].node, b->t->path, NULL, &out, err);
}

/* Node 1 leaves; 0 goes on, deletes, collects; 1 has written, too. */
static void part_ways(snapshots *t)
{
    snapshots_begin(t, 2, 8);
    for (int i = 0; i < 40; i++)
        world_run(&t->w, 0, "INSERT INTO todos VALUES('t%d', 'old', %d, NULL)", i, i);
    world_run(&t->w, 0,
              "INSERT INTO folks VALUES('f1', 'Ada'); INSERT INTO kids VALUES(1, 'f1', 1)");
    world_settle(&t->w);
    world_run(&t->w, 1, "INSERT INTO todos VALUES('own', 'not shipped', 1, NULL)");
    world_run(&t->w, 1, "UPDATE todos SET title = 'changed at 1' WHERE id = 't7'");
    world_run(&t->w, 1, "UPDATE todos SET n = 99 WHERE id = 't3'");
    world_fold(&t->w, 1);
    world_advance(&t->w, 1000000);
    world_run(&t->w, 0, "DELETE FROM todos WHERE id IN ('t1', 't2', 't3')");
    world_run(&t->w, 0, "UPDATE todos SET n = n + 1000 WHERE id = 't7'");
    world_fold(&t->w, 0);
    world_advance(&t->w, 9 * DAY_US);
    collect_all(t, 0);
    assert_int_equal(
        0,
        world_number(&t->w, 0, "SELECT count(*) FROM tide_replica_clocks WHERE gone IS NOT NULL"));
    world_run(&t->w, 0, "INSERT INTO todos VALUES('tail', 'after the floor', 1, NULL)");
}

static void below_the_floor_a_snapshot_is_required_and_with_it_own_events_survive(void **state)
{
    (void)state;
    snapshots t;
    part_ways(&t);
    tide_peer here = tide_peer_of_node(t.w.nodes[1].node, "here");
    tide_peer there = tide_peer_of_node(t.w.nodes[0].node, "there");
    tide_sync_result result;
    tide_sync_options options = {.is_pull_only = true};
    assert_int_equal(TIDE_E_NOT_FOUND, tide_sync(&here, &there, &options, &result, &t.w.err));
    assert_non_null(strstr(t.w.err.text, "snapshot is required"));
    snapshots_make(&t, 0);
    bringing b = {.t = &t, .to = 1};
    options = (tide_sync_options){.bootstrap = bring, .arg = &b};
    assert_ok_err(tide_sync(&here, &there, &options, &result, &t.w.err), &t.w.err);
    assert_true(result.is_proven && result.has_bootstrapped);
    assert_int_equal(1, b.calls);
    /* What only 1 had written is everywhere; what 0 had deleted long ago does not come back. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(1, world_number(&t.w, i, "SELECT count(*) FROM todos WHERE id = 'own'"));
        assert_int_equal(1, world_number(&t.w, i, "SELECT count(*) FROM todos WHERE id = 'tail'"));
        assert_int_equal(
            0, world_number(&t.w, i, "SELECT count(*) FROM todos WHERE id IN ('t1', 't2', 't3')"));
        assert_int_equal(
            1,
            world_number(&t.w, i,
                         "SELECT count(*) FROM todos WHERE title = 'changed at 1' AND n = 1007"));
    }
    world_assert_same(&t.w, snapshots_tables, true);
    /* The write that the delete did not know is listed on both. */
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    world_done(&t.w);
}

static void events_that_wait_in_quarantine_travel_with_a_snapshot(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 3, 9);
    tide_tracked tracked;
    for (int i = 0; i < 3; i += 2) /* not at 1, which makes the snapshot */
        world_run(&t.w, i, "CREATE TABLE late(id INTEGER PRIMARY KEY, v TEXT)");
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "late", DAY_US, &tracked, &t.w.err), &t.w.err);
    world_run(&t.w, 0,
              "INSERT INTO late VALUES(1, 'waits'); INSERT INTO todos VALUES('a', 'b', 1, 2)");
    (void)world_pull(&t.w, 1, 0, 50);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM tide_replica_quarantine"));
    snapshots_make(&t, 1);
    const tide_snapshot_restored restored = snapshots_restore(&t, 2);
    assert_int_equal(1, restored.events);
    assert_int_equal(1, world_number(&t.w, 2, "SELECT count(*) FROM tide_replica_quarantine"));
    world_advance(&t.w, 9 * DAY_US);
    collect_all(&t, 2); /* below its floor, and not lost */
    assert_ok_err(tide_node_track(t.w.nodes[2].node, "late", DAY_US, &tracked, &t.w.err), &t.w.err);
    world_fold(&t.w, 2);
    assert_int_equal(1, world_number(&t.w, 2, "SELECT count(*) FROM late WHERE v = 'waits'"));
    assert_int_equal(0, world_number(&t.w, 2, "SELECT count(*) FROM tide_replica_quarantine"));
    world_done(&t.w);
}

/* ---- the list ---- */

typedef struct seen {
    int count;
    char last[TIDE_UUID_TEXT_SIZE];
} seen;

static tide_status see(void *arg, const tide_snapshot_info *info, tide_error *err)
{
    seen *s = arg;
    (void)err;
    s->count++;
    assert_true(info->is_verified);
    memcpy(s->last, info->id, sizeof s->last);
    return TIDE_OK;
}

/* The next event of a node's own log, alone, whatever batch it belongs to. */
static void carry_one(snapshots *t, int to, int from)
{
    world_page page;
    tide_origin_mark marks[WORLD_MARKS_MAX];
    world_fold(&t->w, from);
    const int count = world_marks(&t->w, from, marks);
    const tide_node_id id = tide_node_get_id(t->w.nodes[from].node);
    for (int i = 0; i < count; i++) {
        if (memcmp(&marks[i].origin, &id, sizeof id) != 0)
            continue;
        const int64_t after = world_prefix(&t->w, to, &id, marks[i].epoch);
        assert_ok_err(world_read(&t->w, from, &marks[i], after < 0 ? 0 : after, 1, &page),
                      &t->w.err);
        assert_int_equal(1, page.count);
        (void)world_apply(&t->w, to, &page);
        world_page_done(&page);
    }
    assert_int_equal(1, world_number(&t->w, to, "SELECT count(*) FROM tide_replica_spool"));
}

/* A batch whose rest is missing has replaced nothing: what it knew is no reason to leave a lost write out of the list. */
static void what_waits_for_its_rest_knows_nothing_yet(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 4, 1);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('t1', 'a', 1, 1.5)");
    world_settle(&t.w);
    world_advance(&t.w, 1000);
    world_run(&t.w, 1, "UPDATE todos SET title = 'seen' WHERE id = 't1'");
    exchange(&t, 0, 1);
    exchange(&t, 1, 2);
    world_advance(&t.w, 1000);
    world_run(&t.w, 0,
              "BEGIN; UPDATE todos SET title = 'waits' WHERE id = 't1';"
              "INSERT INTO todos VALUES('t2', 'b', 2, 2.5); COMMIT");
    carry_one(&t, 2, 0);
    world_advance(&t.w, 1000);
    world_run(&t.w, 3, "UPDATE todos SET title = 'other' WHERE id = 't1'");
    exchange(&t, 1, 3);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM tide_replica_conflicts"));
    snapshots_make(&t, 1);
    (void)snapshots_restore(&t, 2);
    assert_int_equal(1, world_number(&t.w, 2, "SELECT count(*) FROM tide_replica_conflicts"));
    world_settle(&t.w); /* its rest comes after all: it was known */
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* An event that came before its table was known, and that the snapshot's rows have, tells its data like any other. */
static void an_event_that_a_snapshot_overtakes_tells_its_data(void **state)
{
    (void)state;
    snapshots t;
    tide_tracked tracked;
    snapshots_begin(&t, 2, 1);
    world_run(&t.w, 0, "CREATE TABLE fresh(id INTEGER PRIMARY KEY, v)");
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "fresh", DAY_US, &tracked, &t.w.err),
                  &t.w.err);
    world_run(&t.w, 0, "INSERT INTO fresh VALUES(1, 'a'), (2, 'b')");
    carry_one(&t, 1, 0);
    assert_int_equal(1, world_number(&t.w, 1,
                                     "SELECT count(*) FROM tide_replica_events "
                                     "WHERE data IS NULL"));
    snapshots_make(&t, 0);
    (void)snapshots_restore(&t, 1);
    assert_int_equal(2, world_number(&t.w, 1, "SELECT count(*) FROM fresh"));
    assert_int_equal(0, world_number(&t.w, 1,
                                     "SELECT count(*) FROM tide_replica_events "
                                     "WHERE data IS NULL OR NOT processed"));
    world_done(&t.w);
}

static void the_newest_two_are_kept_and_those_below_the_floor_are_not_offered(void **state)
{
    (void)state;
    snapshots t;
    char dir[TEMPDIR_PATH_MAX];
    bool is_needed = true;
    snapshots_begin(&t, 1, 33);
    tide_node *node = t.w.nodes[0].node;
    tempdir_join(&t.w.dir, "kept", dir);
    assert_ok_err(tide_snapshot_is_needed(node, &is_needed, &t.w.err), &t.w.err);
    assert_false(is_needed);
    for (int i = 0; i < 4; i++) {
        tide_snapshot_info info = {.bytes = 0};
        world_run(&t.w, 0, "INSERT INTO todos VALUES('t%d', 'x', 1, NULL)", i);
        world_advance(&t.w, 1000000);
        assert_ok_err(tide_snapshot_make_in(node, dir, NULL, &info, &t.w.err), &t.w.err);
        assert_ok_err(tide_snapshot_keep(node, dir, 2, &t.w.err), &t.w.err);
        tide_snapshot_info_done(&info);
    }
    seen s = {.count = 0};
    assert_ok_err(tide_snapshot_list(node, see, &s, &t.w.err), &t.w.err);
    assert_int_equal(2, s.count);
    assert_int_equal(2, snapshots_count_files(dir));
    tide_snapshot_info newest = {.bytes = 0};
    assert_int_equal(TIDE_OK, tide_snapshot_newest(node, &newest, &t.w.err));
    assert_string_equal(s.last, newest.id);
    tide_snapshot_info_done(&newest);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('beyond', 'x', 1, NULL)");
    world_fold(&t.w, 0);
    world_advance(&t.w, 9 * DAY_US);
    collect_all(&t, 0);
    assert_ok_err(tide_snapshot_is_needed(node, &is_needed, &t.w.err), &t.w.err);
    assert_true(is_needed);
    assert_int_equal(TIDE_NONE, tide_snapshot_newest(node, &newest, &t.w.err));
    assert_ok_err(tide_snapshot_make_in(node, dir, NULL, &newest, &t.w.err), &t.w.err);
    tide_snapshot_info_done(&newest);
    assert_int_equal(TIDE_OK, tide_snapshot_newest(node, &newest, &t.w.err));
    tide_snapshot_info_done(&newest);
    world_done(&t.w);
}

/* Keys that are equal and not the same bits: 0.0 and -0.0, -2^63 as INTEGER and as REAL. */
static void keys_of_two_forms_are_in_a_snapshot(void **state)
{
    (void)state;
    snapshots t;
    tide_tracked tracked;
    snapshots_begin(&t, 1, 8);
    world_run(&t.w, 0, "CREATE TABLE forms (k BLOB NOT NULL PRIMARY KEY, v)");
    world_run(&t.w, 0, "CREATE TABLE lows (k INT NOT NULL PRIMARY KEY, v)");
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "forms", DAY_US, &tracked, &t.w.err),
                  &t.w.err);
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "lows", DAY_US, &tracked, &t.w.err), &t.w.err);
    world_run(&t.w, 0, "INSERT INTO forms VALUES (-0.0, 1)");
    world_run(&t.w, 0, "INSERT INTO lows VALUES (-9.223372036854775808e18, 1)");
    snapshots_make(&t, 0);
    world_done(&t.w);
}

/* The maker's rows were created without a column that is here: they have its default, as they would by their events. */
static void a_column_that_the_maker_does_not_have_gets_its_default(void **state)
{
    (void)state;
    snapshots t;
    tide_capture_found found;
    snapshots_begin(&t, 3, 9);
    world_run(&t.w, 0, "INSERT INTO todos VALUES ('a', 'first', 1, NULL)");
    world_settle(&t.w);
    for (int i = 1; i < 3; i++) {
        world_run(&t.w, i, "ALTER TABLE todos ADD COLUMN extra TEXT NOT NULL DEFAULT 'none'");
        assert_ok_err(tide_peer_look(t.w.nodes[i].node, &found, &t.w.err), &t.w.err);
    }
    world_run(&t.w, 1, "UPDATE todos SET extra = 'mine'");
    world_fold(&t.w, 1);
    (void)world_pull(&t.w, 2, 1, 100);
    world_advance(&t.w, 1000000);
    world_run(&t.w, 0, "REPLACE INTO todos VALUES ('a', 'second', 2, NULL)");
    world_run(&t.w, 0, "INSERT INTO todos VALUES ('b', 'third', 3, NULL)");
    snapshots_make(&t, 0);
    (void)snapshots_restore(&t, 1);
    (void)world_pull(&t.w, 2, 0, 100);
    assert_int_equal(2, world_number(&t.w, 1, "SELECT count(*) FROM todos WHERE extra = 'none'"));
    world_run(&t.w, 0, "ALTER TABLE todos ADD COLUMN extra TEXT NOT NULL DEFAULT 'none'");
    assert_ok_err(tide_peer_look(t.w.nodes[0].node, &found, &t.w.err), &t.w.err);
    world_settle(&t.w);
    world_assert_same(&t.w, snapshots_tables, true);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM tide_replica_conflicts"));
    assert_int_equal(0, unlink(t.path));
    snapshots_make(&t, 1); /* rows are as they were recorded */
    world_done(&t.w);
}

/* A row that was deleted before a column was added comes back with its default, and is recorded so: a snapshot can be made. */
static void a_row_that_comes_back_has_the_default_of_a_new_column(void **state)
{
    (void)state;
    snapshots t;
    tide_capture_found found;
    snapshots_begin(&t, 2, 10);
    world_run(&t.w, 0, "INSERT INTO todos VALUES ('a', 'first', 1, NULL)");
    world_settle(&t.w);
    world_run(&t.w, 0, "DELETE FROM todos");
    world_fold(&t.w, 0);
    world_run(&t.w, 0, "ALTER TABLE todos ADD COLUMN extra TEXT NOT NULL DEFAULT 'none'");
    assert_ok_err(tide_peer_look(t.w.nodes[0].node, &found, &t.w.err), &t.w.err);
    world_advance(&t.w, 1000000);
    world_run(&t.w, 1, "UPDATE todos SET title = 'second'");
    world_fold(&t.w, 1);
    assert_true(world_pull(&t.w, 0, 1, 100));
    assert_int_equal(1, world_number(&t.w, 0,
                                     "SELECT count(*) FROM todos WHERE title = 'second' AND "
                                     "extra = 'none'"));
    snapshots_make(&t, 0);
    world_done(&t.w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_two_forms_are_in_a_snapshot),
        cmocka_unit_test(a_column_that_the_maker_does_not_have_gets_its_default),
        cmocka_unit_test(a_row_that_comes_back_has_the_default_of_a_new_column),
        cmocka_unit_test(
            snapshot_bootstrap_applying_snapshot_and_post_cut_events_yields_identical_state),
        cmocka_unit_test(a_restore_into_a_node_with_its_own_data_equals_applying_all_events),
        cmocka_unit_test(a_snapshot_while_writes_go_on_is_exactly_the_rows_at_its_marks),
        cmocka_unit_test(below_the_floor_a_snapshot_is_required_and_with_it_own_events_survive),
        cmocka_unit_test(events_that_wait_in_quarantine_travel_with_a_snapshot),
        cmocka_unit_test(what_waits_for_its_rest_knows_nothing_yet),
        cmocka_unit_test(an_event_that_a_snapshot_overtakes_tells_its_data),
        cmocka_unit_test(the_newest_two_are_kept_and_those_below_the_floor_are_not_offered),
    };
    return cmocka_run_group_tests_name("replica snapshots", tests, NULL, NULL);
}
