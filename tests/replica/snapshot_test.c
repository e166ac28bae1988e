/* Snapshots: one cut of rows, tombstones, conflicts and marks (R20); with the tail they are the whole history (R8). */
#include "replica/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/peer.h"
#include "replica/snapshot_record.h"
#include "world.h"

#define DAY_US INT64_C(86400000000)

static const char schema[] =
    "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER, note);"
    "CREATE INDEX todos_by_n ON todos(n);"
    "CREATE TABLE pairs(a INTEGER NOT NULL, b TEXT NOT NULL, v, PRIMARY KEY(a, b)) WITHOUT ROWID;"
    "CREATE TABLE files(id BLOB PRIMARY KEY NOT NULL, body BLOB, r REAL);"
    "CREATE TABLE kids(id INTEGER PRIMARY KEY, parent TEXT REFERENCES folks(id), x CHECK (x < "
    "1000));"
    "CREATE TABLE folks(id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE);";
static const char *const tables[] = {"todos", "pairs", "files", "kids", "folks", NULL};

typedef struct fixture {
    world w;
    char path[TEMPDIR_PATH_MAX]; /* of a snapshot */
} fixture;

static void begin(fixture *t, int nodes, uint64_t seed)
{
    world_init(&t->w, nodes, seed, schema, tables, DAY_US);
    tempdir_join(&t->w.dir, "one.tidesnap", t->path);
}

static void make(fixture *t, int node)
{
    tide_snapshot_info info = {.bytes = 0};
    assert_ok_err(tide_snapshot_create(t->w.nodes[node].node, t->path, NULL, &info, &t->w.err),
                  &t->w.err);
    assert_true(info.is_verified);
    tide_snapshot_info_done(&info);
}

static tide_snapshot_restored restore(fixture *t, int node)
{
    tide_snapshot_restored out;
    assert_ok_err(tide_snapshot_restore(t->w.nodes[node].node, t->path, NULL, &out, &t->w.err),
                  &t->w.err);
    return out;
}

/* Both ways between two nodes, as far as floors allow. */
static void exchange(fixture *t, int a, int b)
{
    while (world_pull(&t->w, a, b, 50) || world_pull(&t->w, b, a, 50)) {
    }
}

/* Some write that any program could make. */
static void write_anything(fixture *t, int node, prng *chance)
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

static void write_some(fixture *t, int node, prng *chance, int count)
{
    for (int i = 0; i < count; i++) {
        write_anything(t, node, chance);
        if (prng_below(chance, 4) == 0)
            world_advance(&t->w, (int64_t)prng_below(chance, 3000));
    }
}

/* ---- the whole history ---- */

/* The document's own test. */
static void snapshot_bootstrap_applying_snapshot_and_post_cut_events_yields_identical_state(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        fixture t;
        prng chance;
        prng_init(&chance, seed);
        begin(&t, 3, seed);
        t.w.count = 2; /* the third knows nothing yet */
        for (int round = 0; round < 4; round++) {
            write_some(&t, 0, &chance, 15);
            write_some(&t, 1, &chance, 15);
            if (round % 2 == 0)
                world_settle(&t.w);
        }
        exchange(&t, 0, 1);
        make(&t, 0);
        write_some(&t, 0, &chance, 10);
        write_some(&t, 1, &chance, 10);
        exchange(&t, 0, 1);
        t.w.count = 3;
        const tide_snapshot_restored restored = restore(&t, 2);
        assert_true(restored.is_bulk);
        assert_true(restored.rows > 0);
        assert_true(world_pull(&t.w, 2, 0, 50));
        world_assert_same(&t.w, tables, true);
        (void)world_pull(&t.w, 2, 1, 50);
        write_some(&t, 2, &chance, 10); /* it is a node like any other */
        exchange(&t, 0, 2);
        exchange(&t, 1, 2);
        world_assert_same(&t.w, tables, true);
        world_done(&t.w);
    }
}

/* States merge to what the events would have given, whatever a node had before. */
static void a_restore_into_a_node_with_its_own_data_equals_applying_all_events(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 115; seed++) {
        fixture t;
        prng chance;
        prng_init(&chance, seed);
        begin(&t, 4, seed);
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 4; i++)
                write_some(&t, i, &chance, 8);
            const int from = (int)prng_below(&chance, 4);
            const int to = (int)prng_below(&chance, 4);
            if (from != to)
                (void)world_pull(&t.w, to, from, 10);
        }
        exchange(&t, 0, 1);
        make(&t, 0);
        write_some(&t, 3, &chance, 5); /* not shipped to anybody */
        const tide_snapshot_restored restored = restore(&t, 3);
        assert_false(restored.is_bulk);
        assert_int_equal(0, restore(&t, 3).changed); /* again: nothing */
        world_settle(&t.w);
        world_assert_same(&t.w, tables, true);
        world_done(&t.w);
    }
}

/* ---- one cut (R20) ---- */

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

static int64_t cut_of_own_log(fixture *t, int node)
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
static void pull_through(fixture *t, int to, int from, int64_t cut)
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

/* Who waits for others' locks needs a clock that goes. */
static void use_real_time(fixture *t)
{
    for (int i = 0; i < t->w.count; i++) {
        const tide_node_options options = {.env = NULL};
        tide_node_close(t->w.nodes[i].node);
        assert_ok_err(tide_node_open(&t->w.nodes[i].node, t->w.nodes[i].path, &options, &t->w.err),
                      &t->w.err);
    }
}

static void start_writing(fixture *t, writer writers[2], pthread_t threads[2])
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

static void r20_a_snapshot_while_writes_go_on_is_exactly_the_rows_at_its_marks(void **state)
{
    (void)state;
    enum { SNAPSHOTS = 5 };
    fixture t;
    pthread_t threads[2];
    writer writers[2] = {{.number = 0}};
    begin(&t, 3, 20);
    use_real_time(&t);
    start_writing(&t, writers, threads);
    for (int i = 0; i < SNAPSHOTS; i++) {
        let_write(writers, 80);
        (void)unlink(t.path);
        make(&t, 0);
    }
    let_write(writers, 5);
    for (int i = 0; i < 2; i++) {
        atomic_store(&writers[i].is_over, true);
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_true(restore(&t, 1).is_bulk);
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
    world_assert_same(&t.w, tables, true);
    world_done(&t.w);
}

/* ---- below the floor (R8) ---- */

static void collect_all(fixture *t, int node)
{
    tide_collected done = {.more = true};
    const tide_collect_options options = {.safety = -1};
    while (done.more)
        assert_ok_err(tide_node_collect(t->w.nodes[node].node, &options, &done, &t->w.err),
                      &t->w.err);
}

typedef struct bringing {
    fixture *t;
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
static void part_ways(fixture *t)
{
    begin(t, 2, 8);
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

static void r8_below_the_floor_a_snapshot_is_required_and_with_it_own_events_survive(void **state)
{
    (void)state;
    fixture t;
    part_ways(&t);
    tide_peer here = tide_peer_of_node(t.w.nodes[1].node, "here");
    tide_peer there = tide_peer_of_node(t.w.nodes[0].node, "there");
    tide_sync_result result;
    tide_sync_options options = {.is_pull_only = true};
    assert_int_equal(TIDE_E_NOT_FOUND, tide_sync(&here, &there, &options, &result, &t.w.err));
    assert_non_null(strstr(t.w.err.text, "snapshot is required"));
    make(&t, 0);
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
    world_assert_same(&t.w, tables, true);
    /* The write that the delete did not know is listed on both. */
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    world_done(&t.w);
}

static void events_that_wait_in_quarantine_travel_with_a_snapshot(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 3, 9);
    tide_tracked tracked;
    for (int i = 0; i < 3; i += 2) /* not at 1, which makes the snapshot */
        world_run(&t.w, i, "CREATE TABLE late(id INTEGER PRIMARY KEY, v TEXT)");
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "late", DAY_US, &tracked, &t.w.err), &t.w.err);
    world_run(&t.w, 0,
              "INSERT INTO late VALUES(1, 'waits'); INSERT INTO todos VALUES('a', 'b', 1, 2)");
    (void)world_pull(&t.w, 1, 0, 50);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM tide_replica_quarantine"));
    make(&t, 1);
    const tide_snapshot_restored restored = restore(&t, 2);
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

/* ---- damage ---- */

typedef struct bytes {
    unsigned char *ptr;
    size_t len;
} bytes;

static bytes read_all(const char *path)
{
    struct stat info;
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    bytes all = {.ptr = malloc((size_t)info.st_size + 1), .len = (size_t)info.st_size};
    assert_non_null(all.ptr);
    assert_int_equal(info.st_size, read(fd, all.ptr, all.len));
    (void)close(fd);
    return all;
}

static void write_all(const char *path, const unsigned char *ptr, size_t len)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal((ssize_t)len, write(fd, ptr, len));
    (void)close(fd);
}

static void assert_refused(fixture *t, const char *what, size_t at)
{
    tide_snapshot_info info = {.bytes = 0};
    tide_snapshot_restored out;
    const tide_status status = tide_snapshot_check(t->path, NULL, &info, &t->w.err);
    if (status >= TIDE_OK)
        fail_msg("%s at %zu was accepted", what, at);
    assert_true(status == TIDE_E_DAMAGED || status == TIDE_E_FOREIGN || status == TIDE_E_NEWER);
    assert_true(strlen(t->w.err.text) > 10);
    assert_int_equal(status,
                     tide_snapshot_restore(t->w.nodes[1].node, t->path, NULL, &out, &t->w.err));
}

static void a_damaged_or_truncated_file_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    fixture t;
    prng chance;
    begin(&t, 2, 31);
    prng_init(&chance, 31);
    for (int i = 0; i < 6; i++) /* random bytes do not shrink: several chunks */
        world_run(&t.w, 0, "INSERT INTO files VALUES(x'%02x', randomblob(700000), 1.5)", i);
    make(&t, 0);
    world_run(&t.w, 1, "INSERT INTO todos VALUES('mine', 'stays', 1, NULL)");
    world_fold(&t.w, 1);
    char *before = world_dump(&t.w, 1, "SELECT * FROM todos");
    const bytes whole = read_all(t.path);
    const size_t trailer = whole.len - TIDE_SNAPSHOT_TRAILER;
    for (size_t at = TIDE_SNAPSHOT_HEAD; at < trailer;) { /* every chunk */
        uint32_t len = 0;
        memcpy(&len, whole.ptr + at + 4, sizeof len);
        for (int i = 0; i < 3; i++) { /* in its head, at its first and a random byte */
            const size_t flip = i == 0   ? at + prng_below(&chance, TIDE_SNAPSHOT_CHUNK_HEAD)
                                : i == 1 ? at + TIDE_SNAPSHOT_CHUNK_HEAD
                                         : at + TIDE_SNAPSHOT_CHUNK_HEAD + prng_below(&chance, len);
            whole.ptr[flip] ^= 0x20;
            write_all(t.path, whole.ptr, whole.len);
            assert_refused(&t, "a flipped byte of a chunk", flip);
            whole.ptr[flip] ^= 0x20;
        }
        for (int i = -1; i <= 1; i++) {
            write_all(t.path, whole.ptr, at + (size_t)(i + 1));
            assert_refused(&t, "a file cut at a chunk", at);
        }
        at += TIDE_SNAPSHOT_CHUNK_HEAD + len;
    }
    for (size_t at = 0; at < TIDE_SNAPSHOT_HEAD; at += 5) {
        whole.ptr[at] ^= 1;
        write_all(t.path, whole.ptr, whole.len);
        assert_refused(&t, "a flipped byte of the head", at);
        whole.ptr[at] ^= 1;
    }
    for (size_t at = trailer; at < whole.len; at += 3) {
        whole.ptr[at] ^= 0x80;
        write_all(t.path, whole.ptr, whole.len);
        assert_refused(&t, "a flipped byte of the trailer", at);
        whole.ptr[at] ^= 0x80;
        write_all(t.path, whole.ptr, at);
        assert_refused(&t, "a file cut in the trailer", at);
    }
    whole.ptr[whole.len] = 'x';
    write_all(t.path, whole.ptr, whole.len + 1);
    assert_refused(&t, "a byte behind the trailer", whole.len);
    char *after = world_dump(&t.w, 1, "SELECT * FROM todos");
    assert_string_equal(before, after);
    assert_int_equal(0, world_number(&t.w, 1, "SELECT count(*) FROM files"));
    write_all(t.path, whole.ptr, whole.len);
    assert_int_equal(6, restore(&t, 1).changed);
    sqlite3_free(before);
    sqlite3_free(after);
    free(whole.ptr);
    world_done(&t.w);
}

/* How much of a transfer that broke off can be kept. */
static void of_a_part_exactly_the_whole_chunks_are_sound(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 1, 32);
    for (int i = 0; i < 4; i++)
        world_run(&t.w, 0, "INSERT INTO files VALUES(x'%02x', randomblob(700000), 1.5)", i);
    make(&t, 0);
    const bytes whole = read_all(t.path);
    size_t sound = 0;
    for (size_t end = TIDE_SNAPSHOT_HEAD; end <= whole.len;) {
        sound = end;
        for (size_t more = 0; more < 2; more++) {
            int64_t found = 0;
            write_all(t.path, whole.ptr, end + more > whole.len ? whole.len : end + more);
            const int fd = open(t.path, O_RDONLY);
            assert_ok_err(tide_snapshot_sound_bytes(&found, fd, &t.w.err), &t.w.err);
            (void)close(fd);
            assert_int_equal(sound, found);
        }
        uint32_t len = 0;
        if (end == whole.len)
            break;
        memcpy(&len, whole.ptr + end + 4, sizeof len);
        end += end + TIDE_SNAPSHOT_TRAILER == whole.len ? TIDE_SNAPSHOT_TRAILER
                                                        : TIDE_SNAPSHOT_CHUNK_HEAD + len;
    }
    assert_int_equal(whole.len, sound);
    free(whole.ptr);
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

static int count_files(const char *dir)
{
    int count = 0;
    DIR *open_dir = opendir(dir);
    assert_non_null(open_dir);
    for (const struct dirent *entry = readdir(open_dir); entry; entry = readdir(open_dir))
        count += entry->d_name[0] != '.';
    (void)closedir(open_dir);
    return count;
}

static void the_newest_two_are_kept_and_those_below_the_floor_are_not_offered(void **state)
{
    (void)state;
    fixture t;
    char dir[TEMPDIR_PATH_MAX];
    bool is_needed = true;
    begin(&t, 1, 33);
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
    assert_int_equal(2, count_files(dir));
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

/* ---- ending it ---- */

typedef struct stopper {
    int left;
} stopper;

static bool stop_after(void *arg)
{
    stopper *s = arg;
    return s->left-- <= 0;
}

static void interrupted_at_any_point_a_maker_leaves_nothing_behind(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 1, 34);
    for (int i = 0; i < 3000; i++)
        world_run(&t.w, 0, "INSERT INTO pairs VALUES(%d, 'b', 1)", i);
    const int files = count_files(t.w.dir.path);
    tide_status status = TIDE_E_INTERRUPTED;
    int stops = 0;
    for (; status == TIDE_E_INTERRUPTED; stops++) {
        tide_snapshot_info info = {.bytes = 0};
        stopper s = {.left = stops};
        const tide_snapshot_watch watch = {.arg = &s, .is_over = stop_after};
        status = tide_snapshot_create(t.w.nodes[0].node, t.path, &watch, &info, &t.w.err);
        if (status == TIDE_E_INTERRUPTED)
            assert_int_equal(files, count_files(t.w.dir.path));
        tide_snapshot_info_done(&info);
    }
    assert_ok_err(status, &t.w.err);
    assert_true(stops > 4);
    assert_int_equal(files + 1, count_files(t.w.dir.path));
    tide_snapshot_info info = {.bytes = 0};
    assert_int_equal(TIDE_E_EXISTS,
                     tide_snapshot_create(t.w.nodes[0].node, t.path, NULL, &info, &t.w.err));
    world_done(&t.w);
}

/* ---- what others may try ---- */

typedef struct forged {
    uint64_t clock;
    tide_node_id origin;
    const char *table;
    const char *sql;
} forged;

static void add_record(tide_snapshot_writer *file, tide_buffer *record, tide_status put)
{
    assert_int_equal(TIDE_OK, put);
    assert_int_equal(TIDE_OK, tide_snapshot_writer_add(file, tide_buffer_view(record), NULL));
    tide_buffer_clear(record);
}

/* A sound file of one log and one empty table, with whatever it says. */
static void forge(fixture *t, const forged *f)
{
    static const uint8_t id[TIDE_SNAPSHOT_ID_LEN] = {7};
    char name[] = "id";
    char *sql[] = {(char *)(uintptr_t)f->sql, NULL};
    tide_table_column column = {.name = name, .is_key = true};
    tide_table table = {.columns = &column, .column_count = 1, .key_count = 1, .schema = 1};
    const tide_peer_table made = {.sql = sql};
    const tide_snapshot_begin first = {.epoch = 1, .clock = f->clock, .origins = 1, .tables = 1};
    const tide_origin_mark mark = {.origin = f->origin, .epoch = 1, .prefix = 99, .highest = 99};
    const tide_snapshot_sum sum = {.table = 0};
    const tide_snapshot_end last = {.rows = 0};
    tide_snapshot_writer file;
    tide_buffer record;
    const int fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    (void)snprintf(table.name, sizeof table.name, "%s", f->table);
    tide_buffer_init(&record, 1 << 20);
    assert_int_equal(TIDE_OK, tide_snapshot_writer_init(&file, fd, id, 1, NULL));
    add_record(&file, &record, tide_snapshot_put_begin(&record, &first));
    add_record(&file, &record, tide_snapshot_put_origin(&record, &mark));
    add_record(&file, &record, tide_snapshot_put_table(&record, &table, &made));
    add_record(&file, &record, tide_snapshot_put_sum(&record, &sum));
    add_record(&file, &record, tide_snapshot_put_end(&record, &last));
    assert_int_equal(TIDE_OK, tide_snapshot_writer_finish(&file, NULL));
    tide_snapshot_writer_done(&file);
    tide_buffer_done(&record);
    (void)close(fd);
}

static void assert_restore_fails(fixture *t, int node, tide_status status, const char *words)
{
    tide_snapshot_restored out;
    assert_int_equal(status,
                     tide_snapshot_restore(t->w.nodes[node].node, t->path, NULL, &out, &t->w.err));
    if (!strstr(t->w.err.text, words))
        fail_msg("'%s' does not say '%s'", t->w.err.text, words);
}

static void sound_files_with_bad_intentions_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const evil[] = {
        "CREATE TABLE evil(id); DROP TABLE todos",
        "DROP TABLE todos",
        "CREATE TABLE other(id)",
        "CREATE TRIGGER evil AFTER INSERT ON todos BEGIN SELECT 1; END",
        "CREATE TABLE evil(id TEXT PRIMARY KEY NOT NULL, more)",
        "ATTACH 'x' AS evil"};
    fixture t;
    begin(&t, 1, 37);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'b', 1, 2)");
    world_fold(&t.w, 0);
    char *before = world_dump(&t.w, 0, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2");
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        forge(&t, &(forged){.table = "evil", .sql = evil[i]});
        assert_restore_fails(&t, 0, TIDE_E_INVALID, "evil");
    }
    forge(&t,
          &(forged){.table = "tide_replica_state", .sql = "CREATE TABLE tide_replica_state(id)"});
    assert_restore_fails(&t, 0, TIDE_E_INVALID, "tide_replica_state");
    char *after = world_dump(&t.w, 0, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2");
    assert_string_equal(before, after);
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM todos"));
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_origins"));
    sqlite3_free(before);
    sqlite3_free(after);
    world_done(&t.w);
}

static void stamps_from_the_future_and_numbers_that_this_node_never_gave_are_refused(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 2, 38);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'b', 1, 2)");
    make(&t, 0);
    virtual_env_advance(&t.w.nodes[0].env, DAY_US); /* its clock is wrong */
    world_run(&t.w, 0, "INSERT INTO todos VALUES('c', 'd', 1, 2)");
    (void)unlink(t.path);
    make(&t, 0);
    assert_restore_fails(&t, 1, TIDE_E_INVALID, "clock");
    assert_int_equal(0, world_number(&t.w, 1, "SELECT count(*) FROM todos"));
    virtual_env_advance(&t.w.nodes[1].env, DAY_US);
    assert_int_equal(2, restore(&t, 1).changed);
    world_run(&t.w, 0, "CREATE TABLE evil(id TEXT PRIMARY KEY NOT NULL)");
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "evil", DAY_US, &tracked, &t.w.err), &t.w.err);
    forge(&t, &(forged){.table = "evil",
                        .sql = "CREATE TABLE evil(id TEXT PRIMARY KEY NOT NULL)",
                        .origin = tide_node_get_id(t.w.nodes[0].node)});
    assert_restore_fails(&t, 0, TIDE_E_INVALID, "which has not made it");
    world_done(&t.w);
}

static void tables_that_do_not_fit_are_told_with_what_to_do(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 2, 39);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'b', 1, 2)");
    make(&t, 0);
    assert_int_equal(TIDE_OK, tide_node_untrack(t.w.nodes[1].node, "todos", &t.w.err));
    assert_restore_fails(&t, 1, TIDE_E_CONFLICT, "'tidemark replica track' it");
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t.w.nodes[1].node, "todos", DAY_US, &tracked, &t.w.err),
                  &t.w.err);
    assert_int_equal(1, restore(&t, 1).changed);
    world_run(&t.w, 0, "ALTER TABLE todos ADD COLUMN more; UPDATE todos SET more = 1");
    (void)unlink(t.path);
    make(&t, 0);
    assert_restore_fails(&t, 1, TIDE_E_CONFLICT, "no column more");
    world_run(&t.w, 1, "ALTER TABLE todos ADD COLUMN more");
    tide_capture_found found;
    assert_ok_err(tide_node_check(t.w.nodes[1].node, &found, &t.w.err), &t.w.err);
    assert_int_equal(1, restore(&t, 1).changed);
    world_assert_same(&t.w, tables, true);
    world_done(&t.w);
}

/* ---- kill -9 ---- */

typedef struct killer {
    int left;
} killer;

static void kill_after(void *arg, const char *what, int64_t done, int64_t total)
{
    killer *k = arg;
    (void)what;
    (void)done;
    (void)total;
    if (k->left-- <= 0)
        (void)raise(SIGKILL);
}

/* In a process of its own: killed when it has told of its progress so often. False: it was done before. */
static bool run_killed(fixture *t, const char *db, int after, bool is_making)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tide_node *node = NULL;
        tide_error err;
        tide_snapshot_restored out;
        tide_snapshot_info info = {.bytes = 0};
        killer k = {.left = after};
        const tide_snapshot_watch watch = {.arg = &k, .progress = kill_after};
        const tide_node_options options = {.is_new = true};
        tide_status status = TIDE_E_FAILED;
        if (!is_making && access(db, F_OK) != 0)
            status = tide_snapshot_restore_new(db, t->path, NULL, &watch, &out, &err);
        else if (tide_node_open(&node, db, &options, &err) == TIDE_OK)
            status = is_making ? tide_snapshot_create(node, t->path, &watch, &info, &err)
                               : tide_snapshot_restore(node, t->path, &watch, &out, &err);
        tide_node_close(node);
        _exit(status == TIDE_OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(child, waitpid(child, &how, 0));
    assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

static int64_t count_rows(const char *db)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t rows = -1;
    assert_int_equal(SQLITE_OK, sqlite3_open(db, &handle));
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1, &statement, NULL));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    assert_string_equal("ok", sqlite3_column_text(statement, 0));
    (void)sqlite3_finalize(statement);
    if (sqlite3_prepare_v2(handle, "SELECT count(*) FROM pairs", -1, &statement, NULL) ==
        SQLITE_OK) {
        assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
        rows = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(handle);
    return rows;
}

static void fill_pairs(fixture *t, int rows)
{
    world_run(&t->w, 0,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO pairs SELECT i, 'b', i FROM n",
              rows);
}

static void killed_anywhere_a_restore_is_not_begun_or_whole_and_can_be_done_again(void **state)
{
    (void)state;
    fixture t;
    char fresh[TEMPDIR_PATH_MAX];
    char own[TEMPDIR_PATH_MAX];
    enum { ROWS = 5000 };
    begin(&t, 2, 35);
    use_real_time(&t);
    fill_pairs(&t, ROWS);
    make(&t, 0);
    tempdir_join(&t.w.dir, "fresh.db", fresh);
    memcpy(own, t.w.nodes[1].path, sizeof own);
    world_run(&t.w, 1, "INSERT INTO pairs VALUES(1000000, 'own', 1)");
    tide_node_close(t.w.nodes[1].node);
    t.w.nodes[1].node = NULL;
    bool was_killed = true;
    for (int after = 0; was_killed; after++) {
        assert_true(after < 100);
        was_killed = run_killed(&t, fresh, after, false);
        assert_true(access(fresh, F_OK) != 0 || (count_rows(fresh) == ROWS && !was_killed));
    }
    was_killed = true;
    for (int after = 0; was_killed; after++) {
        was_killed = run_killed(&t, own, after, false);
        const int64_t rows = count_rows(own);
        assert_true(rows == 1 || rows == ROWS + 1);
        assert_true(was_killed || rows == ROWS + 1);
    }
    use_real_time(&t);
    world_settle(&t.w);
    world_assert_same(&t.w, tables, true);
    world_done(&t.w);
}

static void killed_anywhere_a_maker_leaves_no_file_of_that_name_and_the_next_clears_up(void **state)
{
    (void)state;
    fixture t;
    begin(&t, 1, 36);
    use_real_time(&t);
    fill_pairs(&t, 3000);
    const int files = count_files(t.w.dir.path);
    bool was_killed = true;
    for (int after = 0; was_killed; after++) {
        assert_true(after < 100);
        was_killed = run_killed(&t, t.w.nodes[0].path, after, true);
        assert_true(was_killed == (access(t.path, F_OK) != 0));
    }
    assert_int_equal(files + 1, count_files(t.w.dir.path));
    world_done(&t.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            snapshot_bootstrap_applying_snapshot_and_post_cut_events_yields_identical_state),
        cmocka_unit_test(a_restore_into_a_node_with_its_own_data_equals_applying_all_events),
        cmocka_unit_test(r20_a_snapshot_while_writes_go_on_is_exactly_the_rows_at_its_marks),
        cmocka_unit_test(r8_below_the_floor_a_snapshot_is_required_and_with_it_own_events_survive),
        cmocka_unit_test(events_that_wait_in_quarantine_travel_with_a_snapshot),
        cmocka_unit_test(a_damaged_or_truncated_file_is_refused_and_changes_nothing),
        cmocka_unit_test(of_a_part_exactly_the_whole_chunks_are_sound),
        cmocka_unit_test(the_newest_two_are_kept_and_those_below_the_floor_are_not_offered),
        cmocka_unit_test(sound_files_with_bad_intentions_are_refused_and_change_nothing),
        cmocka_unit_test(stamps_from_the_future_and_numbers_that_this_node_never_gave_are_refused),
        cmocka_unit_test(tables_that_do_not_fit_are_told_with_what_to_do),
        cmocka_unit_test(killed_anywhere_a_restore_is_not_begun_or_whole_and_can_be_done_again),
        cmocka_unit_test(
            killed_anywhere_a_maker_leaves_no_file_of_that_name_and_the_next_clears_up),
        cmocka_unit_test(interrupted_at_any_point_a_maker_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("replica snapshots", tests, NULL, NULL);
}
