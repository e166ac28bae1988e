/* Files of snapshots: damaged, cut off, forged, and those whose makers and readers die. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replica/peer.h"
#include "replica/snapshot/snapshots.h"
#include "replica/snapshot_record.h"

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

static void assert_refused(snapshots *t, const char *what, size_t at)
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
    snapshots t;
    prng chance;
    snapshots_begin(&t, 2, 31);
    prng_init(&chance, prng_seed_from_env(31));
    for (int i = 0; i < 6; i++) /* random bytes do not shrink: several chunks */
        world_run(&t.w, 0, "INSERT INTO files VALUES(x'%02x', randomblob(700000), 1.5)", i);
    snapshots_make(&t, 0);
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
    assert_int_equal(6, snapshots_restore(&t, 1).changed);
    sqlite3_free(before);
    sqlite3_free(after);
    free(whole.ptr);
    world_done(&t.w);
}

/* How much of a transfer that broke off can be kept. */
static void of_a_part_exactly_the_whole_chunks_are_sound(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 1, 32);
    for (int i = 0; i < 4; i++)
        world_run(&t.w, 0, "INSERT INTO files VALUES(x'%02x', randomblob(700000), 1.5)", i);
    snapshots_make(&t, 0);
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
    snapshots t;
    snapshots_begin(&t, 1, 34);
    for (int i = 0; i < 3000; i++)
        world_run(&t.w, 0, "INSERT INTO pairs VALUES(%d, 'b', 1)", i);
    const int files = snapshots_count_files(t.w.dir.path);
    tide_status status = TIDE_E_INTERRUPTED;
    int stops = 0;
    for (; status == TIDE_E_INTERRUPTED; stops++) {
        tide_snapshot_info info = {.bytes = 0};
        stopper s = {.left = stops};
        const tide_snapshot_watch watch = {.arg = &s, .is_over = stop_after};
        status = tide_snapshot_create(t.w.nodes[0].node, t.path, &watch, &info, &t.w.err);
        if (status == TIDE_E_INTERRUPTED)
            assert_int_equal(files, snapshots_count_files(t.w.dir.path));
        tide_snapshot_info_done(&info);
    }
    assert_ok_err(status, &t.w.err);
    assert_true(stops > 4);
    assert_int_equal(files + 1, snapshots_count_files(t.w.dir.path));
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
    uint64_t schema;
    uint8_t digest; /* the first byte of the table's */
} forged;

static void add_record(tide_snapshot_writer *file, tide_buffer *record, tide_status put)
{
    assert_int_equal(TIDE_OK, put);
    assert_int_equal(TIDE_OK, tide_snapshot_writer_add(file, tide_buffer_view(record), NULL));
    tide_buffer_clear(record);
}

/* A sound file of one log and one empty table, with whatever it says. */
static void forge(snapshots *t, const forged *f)
{
    static const uint8_t id[TIDE_SNAPSHOT_ID_LEN] = {7};
    char name[] = "id";
    char *sql[] = {(char *)f->sql, NULL};
    tide_table_column column = {.name = name, .is_key = true};
    tide_table table = {.columns = &column, .column_count = 1, .key_count = 1, .schema = f->schema};
    const tide_peer_table made = {.sql = sql};
    const tide_snapshot_begin first = {.epoch = 1, .clock = f->clock, .origins = 1, .tables = 1};
    const tide_origin_mark mark = {.origin = f->origin, .epoch = 1, .prefix = 99, .highest = 99};
    const tide_snapshot_sum sum = {.table = 0, .digest = {f->digest}};
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

static void assert_restore_fails(snapshots *t, int node, tide_status status, const char *words)
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
    snapshots t;
    snapshots_begin(&t, 1, 37);
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

/* The digest is checked before the load commits. */
static void rows_that_do_not_have_the_digest_of_the_cut_are_not_committed(void **state)
{
    (void)state;
    static const char sql[] = "CREATE TABLE evil(id TEXT PRIMARY KEY NOT NULL)";
    snapshots t;
    tide_tracked tracked;
    tide_peer_marks marks = {.origin_count = 0};
    snapshots_begin(&t, 1, 40);
    tide_node *node = t.w.nodes[0].node;
    world_run(&t.w, 0, "%s", sql);
    assert_ok_err(tide_node_track(node, "evil", DAY_US, &tracked, &t.w.err), &t.w.err);
    assert_ok_err(tide_peer_tables(node, &marks, &t.w.err), &t.w.err);
    assert_ok_err(tide_peer_marks_sort(&marks, &t.w.err), &t.w.err);
    forged f = {.table = "evil",
                .sql = sql,
                .schema = tide_peer_marks_table(&marks, "evil")->schema,
                .digest = 1};
    tide_peer_marks_done(&marks);
    forge(&t, &f);
    assert_restore_fails(&t, 0, TIDE_E_MISMATCH, "another digest");
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_origins"));
    f.digest = 0;
    forge(&t, &f);
    assert_true(snapshots_restore(&t, 0).is_bulk);
    assert_int_equal(2, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_origins"));
    world_done(&t.w);
}

static void stamps_from_the_future_and_numbers_that_this_node_never_gave_are_refused(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 2, 38);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'b', 1, 2)");
    snapshots_make(&t, 0);
    virtual_env_advance(&t.w.nodes[0].env, DAY_US); /* its clock is wrong */
    world_run(&t.w, 0, "INSERT INTO todos VALUES('c', 'd', 1, 2)");
    (void)unlink(t.path);
    snapshots_make(&t, 0);
    assert_restore_fails(&t, 1, TIDE_E_INVALID, "clock");
    assert_int_equal(0, world_number(&t.w, 1, "SELECT count(*) FROM todos"));
    virtual_env_advance(&t.w.nodes[1].env, DAY_US);
    assert_int_equal(2, snapshots_restore(&t, 1).changed);
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
    snapshots t;
    snapshots_begin(&t, 2, 39);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'b', 1, 2)");
    snapshots_make(&t, 0);
    assert_int_equal(TIDE_OK, tide_node_untrack(t.w.nodes[1].node, "todos", &t.w.err));
    assert_restore_fails(&t, 1, TIDE_E_CONFLICT, "'tidemark replica track' it");
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t.w.nodes[1].node, "todos", DAY_US, &tracked, &t.w.err),
                  &t.w.err);
    assert_int_equal(1, snapshots_restore(&t, 1).changed);
    world_run(&t.w, 0, "ALTER TABLE todos ADD COLUMN more; UPDATE todos SET more = 1");
    (void)unlink(t.path);
    snapshots_make(&t, 0);
    assert_restore_fails(&t, 1, TIDE_E_CONFLICT, "no column more");
    world_run(&t.w, 1, "ALTER TABLE todos ADD COLUMN more");
    tide_capture_found found;
    assert_ok_err(tide_node_check(t.w.nodes[1].node, &found, &t.w.err), &t.w.err);
    assert_int_equal(1, snapshots_restore(&t, 1).changed);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* Only what a maker has marked as its own is cleared up. */
static void a_directory_of_others_where_a_maker_would_work_is_left_alone(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 1, 40);
    char dir[TEMPDIR_PATH_MAX + 16];
    char file[TEMPDIR_PATH_MAX + 32];
    (void)snprintf(dir, sizeof dir, "%s.making", t.path);
    (void)snprintf(file, sizeof file, "%s/mine", dir);
    assert_int_equal(0, mkdir(dir, 0700));
    write_all(file, (const unsigned char *)"x", 1);
    tide_snapshot_info info = {.bytes = 0};
    assert_int_equal(TIDE_E_EXISTS,
                     tide_snapshot_create(t.w.nodes[0].node, t.path, NULL, &info, &t.w.err));
    assert_non_null(strstr(t.w.err.text, "files of others"));
    assert_int_equal(0, access(file, F_OK));
    assert_int_equal(0, unlink(file));
    snapshots_make(&t, 0); /* an empty one harms nobody */
    assert_int_not_equal(0, access(dir, F_OK));
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
static bool run_killed(snapshots *t, const char *db, int after, bool is_making)
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

static void fill_pairs(snapshots *t, int rows)
{
    world_run(&t->w, 0,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO pairs SELECT i, 'b', i FROM n",
              rows);
}

static void killed_anywhere_a_restore_is_not_begun_or_whole_and_can_be_done_again(void **state)
{
    (void)state;
    snapshots t;
    char fresh[TEMPDIR_PATH_MAX];
    char own[TEMPDIR_PATH_MAX];
    enum { ROWS = 5000 };
    snapshots_begin(&t, 2, 35);
    snapshots_use_real_time(&t);
    fill_pairs(&t, ROWS);
    snapshots_make(&t, 0);
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
    snapshots_use_real_time(&t);
    world_settle(&t.w);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

static void killed_anywhere_a_maker_leaves_no_file_of_that_name_and_the_next_clears_up(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 1, 36);
    snapshots_use_real_time(&t);
    fill_pairs(&t, 3000);
    const int files = snapshots_count_files(t.w.dir.path);
    bool was_killed = true;
    for (int after = 0; was_killed; after++) {
        assert_true(after < 100);
        was_killed = run_killed(&t, t.w.nodes[0].path, after, true);
        assert_true(was_killed == (access(t.path, F_OK) != 0));
    }
    assert_int_equal(files + 1, snapshots_count_files(t.w.dir.path));
    world_done(&t.w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_or_truncated_file_is_refused_and_changes_nothing),
        cmocka_unit_test(of_a_part_exactly_the_whole_chunks_are_sound),
        cmocka_unit_test(sound_files_with_bad_intentions_are_refused_and_change_nothing),
        cmocka_unit_test(rows_that_do_not_have_the_digest_of_the_cut_are_not_committed),
        cmocka_unit_test(stamps_from_the_future_and_numbers_that_this_node_never_gave_are_refused),
        cmocka_unit_test(tables_that_do_not_fit_are_told_with_what_to_do),
        cmocka_unit_test(a_directory_of_others_where_a_maker_would_work_is_left_alone),
        cmocka_unit_test(killed_anywhere_a_restore_is_not_begun_or_whole_and_can_be_done_again),
        cmocka_unit_test(
            killed_anywhere_a_maker_leaves_no_file_of_that_name_and_the_next_clears_up),
        cmocka_unit_test(interrupted_at_any_point_a_maker_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("replica snapshot files", tests, NULL, NULL);
}
