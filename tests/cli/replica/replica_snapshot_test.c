/* Snapshots as scripts see them: made while others write, restored, fetched by a peer that is below the floor. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/replica/replica_calls.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER DEFAULT 0);"           \
    "CREATE TABLE files(id INTEGER PRIMARY KEY, body BLOB);"

/* Numbers 1 to `rows`. */
#define NUMBERS(rows)                                                                              \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " rows ") "

static cli_result snapshot(cli_fixture *t, const char *verb, const char *first, const char *second)
{
    char a[TEMPDIR_PATH_MAX];
    char b[TEMPDIR_PATH_MAX];
    cli_path(t, first, a);
    if (!second)
        return cli_run(t, "replica", "snapshot", verb, a, "--json", NULL);
    cli_path(t, second, b);
    return cli_run(t, "replica", "snapshot", verb, a, b, "--json", NULL);
}

static tide_json_node *snapshot_ok(cli_fixture *t, const char *verb, const char *first,
                                   const char *second)
{
    const cli_result result = snapshot(t, verb, first, second);
    if (result.exit_code != 0)
        print_error("snapshot %s: %s\n", verb, result.err);
    return cli_json(&result);
}

static void track(cli_fixture *t, const char *db, const char *option)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    const cli_result result = cli_run(t, "replica", "track", path, "todos", "files", option, NULL);
    assert_int_equal(0, result.exit_code);
}

/* A node whose first events are collected. */
static void make_collected(cli_fixture *t, const char *db, const char *more)
{
    cli_sql(t, db, SCHEMA "INSERT INTO todos " NUMBERS("1500") "SELECT 'k' || i, 'row', i FROM n");
    cli_sql(t, db, more);
    track(t, db, "--retain=0s");
    replica_ok(t, "gc", db, NULL);
}

/* ---- files ---- */

static void a_snapshot_is_made_listed_verified_and_restored(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db",
            SCHEMA "INSERT INTO todos VALUES('a','one',1),('b','two',2);"
                   "INSERT INTO files VALUES(1, x'00ff')");
    track(t, "a.db", NULL);
    tide_json_node *made = snapshot_ok(t, "create", "a.db", "one.snap");
    tide_json_node *listed = snapshot_ok(t, "ls", "a.db", NULL);
    assert_true(tide_json_node_equal(made, listed));
    assert_int_equal(36, strlen(json_text(listed, "snapshot_id")));
    assert_int_equal(64, strlen(json_text(listed, "digest")));
    assert_non_null(json_text(listed, "created_at"));
    assert_true(json_is_true(tide_json_node_find(listed, "verified")));
    assert_int_equal(2, tide_json_node_count(tide_json_node_find(listed, "tables")));
    const tide_json_node *cut =
        tide_json_node_at(tide_json_node_find(listed, "per_origin_seq_cut"), 0);
    assert_int_equal(3, json_number(cut, "origin_seq"));
    tide_json_node *verified = snapshot_ok(t, "verify", "one.snap", NULL);
    assert_string_equal(json_text(made, "digest"), json_text(verified, "digest"));
    tide_json_node *restored = snapshot_ok(t, "restore", "one.snap", "b.db");
    assert_int_equal(3, json_number(restored, "rows"));
    replica_assert_same_digest(t, "a.db", "b.db");
    cli_sql(t, "b.db", "UPDATE todos SET title = 'changed at b' WHERE id = 'a'");
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('c','tail',3)");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    replica_end(a, SIGTERM);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_assert_identical(t, (const char *const[]){"a.db", "b.db", NULL});
    char *files = cli_list_files(t);
    assert_null(strstr(files, ".making"));
    assert_null(strstr(files, ".restoring"));
    free(files);
    tide_json_tree_free(made);
    tide_json_tree_free(listed);
    tide_json_tree_free(verified);
    tide_json_tree_free(restored);
}

static void bad_files_are_refused_with_words_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    size_t len = 0;
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('a','one',1)");
    track(t, "a.db", NULL);
    tide_json_tree_free(snapshot_ok(t, "create", "a.db", "one.snap"));
    char *bytes = cli_read_file(t, "one.snap", &len);
    bytes[len / 2] ^= 1;
    cli_write_file(t, "bad.snap", bytes, len);
    cli_write_file(t, "short.snap", bytes, 30);
    cli_write_file(t, "text.snap", "no snapshot at all", 18);
    free(bytes);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"bad.snap", "short.snap", "text.snap", "absent.snap"};
        cli_result result = snapshot(t, "restore", names[i], "b.db");
        assert_int_not_equal(0, result.exit_code);
        assert_true(strlen(result.err) > 10);
        result = snapshot(t, "restore", names[i], "a.db");
        assert_int_not_equal(0, result.exit_code);
        result = snapshot(t, "verify", names[i], NULL);
        assert_int_not_equal(0, result.exit_code);
    }
    cli_result result = snapshot(t, "create", "a.db", "one.snap"); /* is there already */
    assert_int_not_equal(0, result.exit_code);
    result = snapshot(t, "create", "absent.db", "two.snap");
    assert_int_not_equal(0, result.exit_code);
    char *files = cli_list_files(t);
    assert_null(strstr(files, "b.db"));
    assert_null(strstr(files, "two.snap"));
    free(files);
}

static bool has_file(const cli_fixture *t, const char *part)
{
    char *files = cli_list_files(t);
    const bool has = strstr(files, part);
    free(files);
    return has;
}

static void ctrl_c_leaves_nothing_behind(void **state)
{
    cli_fixture *t = *state;
    char db[TEMPDIR_PATH_MAX];
    char file[TEMPDIR_PATH_MAX];
    proc maker;
    cli_sql(t, "a.db",
            SCHEMA "INSERT INTO files " NUMBERS("300") "SELECT i, randomblob(100000) FROM n");
    track(t, "a.db", NULL);
    cli_path(t, "a.db", db);
    cli_path(t, "one.snap", file);
    const char *argv[] = {t->program, "replica", "snapshot", "create", db, file, NULL};
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_start(&maker, &options, &t->err), &t->err);
    while (!has_file(t, "one.snap.making"))
        assert_false(proc_poll(&maker));
    assert_ok_err(proc_kill(&maker, SIGINT, &t->err), &t->err);
    assert_ok_err(proc_wait(&maker, REPLICA_WAIT_MS, &t->err), &t->err);
    assert_int_equal(130, maker.exit_code);
    proc_done(&maker);
    assert_false(has_file(t, "one.snap"));
}

/* ---- peers ---- */

/* The id of the one snapshot in a directory. */
static void find_snapshot(const cli_fixture *t, const char *name, char id[37])
{
    char path[TEMPDIR_PATH_MAX];
    int count = 0;
    cli_path(t, name, path);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (strstr(entry->d_name, ".tidesnap") && ++count == 1)
            (void)snprintf(id, 37, "%.36s", entry->d_name);
    (void)closedir(dir);
    assert_int_equal(1, count);
}

static void a_part_that_is_there_is_gone_on_with_as_far_as_it_is_sound(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char id[37];
    char name[128];
    size_t len = 0;
    make_collected(t, "a.db",
                   "INSERT INTO files " NUMBERS("8") "SELECT i, randomblob(900000) FROM n");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address); /* it makes one on demand */
    find_snapshot(t, "a.db-snapshots", id);
    (void)snprintf(name, sizeof name, "a.db-snapshots/%s.tidesnap", id);
    char *bytes = cli_read_file(t, name, &len);
    memset(bytes + len / 2, 'x', 1000); /* what came last was never written out */
    (void)snprintf(name, sizeof name, "c.db-bootstrap-%s.part", id);
    cli_write_file(t, name, bytes, len / 2 + 1000);
    cli_write_file(t, "c.db-bootstrap-of-another.part", bytes, 1000);
    free(bytes);
    const cli_result result = replica_call(t, "sync", "c.db", address, NULL);
    tide_json_node *line = cli_json(&result);
    assert_true(json_number(line, "snapshot_resumed_at") > (int64_t)len / 4);
    assert_true(json_number(line, "snapshot_resumed_at") <= (int64_t)len / 2);
    assert_int_equal(len, json_number(line, "snapshot_bytes"));
    tide_json_tree_free(line);
    replica_end(a, SIGTERM);
    replica_assert_same_digest(t, "a.db", "c.db");
    assert_false(has_file(t, ".part"));
}

static int64_t part_size(const cli_fixture *t)
{
    int64_t size = -1;
    DIR *dir = opendir(t->dir.path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct stat info;
        char path[TEMPDIR_PATH_MAX + 256];
        (void)snprintf(path, sizeof path, "%s/%s", t->dir.path, entry->d_name);
        if (strstr(entry->d_name, ".part") && stat(path, &info) == 0)
            size = info.st_size;
    }
    (void)closedir(dir);
    return size;
}

static void a_transfer_goes_on_after_its_server_was_killed(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char db[TEMPDIR_PATH_MAX];
    proc fetcher;
    make_collected(t, "a.db",
                   "INSERT INTO files " NUMBERS("30") "SELECT i, randomblob(900000) FROM n");
    cli_sql(t, "b.db", SCHEMA "INSERT INTO todos VALUES('own', 'not shipped', 1)");
    track(t, "b.db", NULL);
    proc *a = replica_serve(t, "a.db", NULL, address);
    cli_path(t, "b.db", db);
    const char *argv[] = {t->program, "replica", "sync", db, address, NULL};
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_start(&fetcher, &options, &t->err), &t->err);
    while (part_size(t) < 3 << 20)
        assert_false(proc_poll(&fetcher));
    replica_end(a, SIGKILL);
    assert_ok_err(proc_wait(&fetcher, REPLICA_WAIT_MS, &t->err), &t->err);
    assert_int_not_equal(0, fetcher.exit_code);
    proc_done(&fetcher);
    const int64_t kept = part_size(t);
    assert_true(kept >= 3 << 20);
    a = replica_serve(t, "a.db", NULL, address);
    const cli_result result = replica_call(t, "sync", "b.db", address, NULL);
    tide_json_node *line = cli_json(&result);
    assert_true(json_number(line, "snapshot_resumed_at") > 1 << 20);
    assert_true(json_is_true(tide_json_node_find(line, "proven")));
    tide_json_tree_free(line);
    replica_end(a, SIGTERM);
    replica_assert_same_digest(t, "a.db", "b.db"); /* and what b had not shipped is at a */
    assert_int_equal(-1, part_size(t));
}

static void run_makes_snapshots_in_time_and_keeps_the_newest_two(void **state)
{
    cli_fixture *t = *state;
    char line[REPLICA_LINE_MAX];
    char db[TEMPDIR_PATH_MAX];
    char dir[TEMPDIR_PATH_MAX];
    char first[64] = "";
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('a','one',1)");
    track(t, "a.db", NULL);
    cli_path(t, "a.db", db);
    cli_path(t, "kept", dir);
    const char *argv[] = {t->program, "replica",        "run",
                          db,         "--listen",       "127.0.0.1:0",
                          "--every",  "100ms",          "--snapshot-every",
                          "1s",       "--snapshot-dir", dir,
                          NULL};
    proc *daemon = replica_start(t, argv, line);
    const int64_t until_ms = proc_now_ms() + REPLICA_WAIT_MS;
    while (proc_now_ms() < until_ms) {
        const cli_result listed = snapshot(t, "ls", "a.db", NULL);
        assert_int_equal(0, listed.exit_code);
        const char *id = strstr(listed.out, "\"snapshot_id\":\"");
        if (id && !first[0])
            (void)snprintf(first, sizeof first, "%.50s", id);
        if (first[0] && !strstr(listed.out, first))
            break; /* the first is gone: two newer ones are there */
        proc_result_done(&t->results[--t->result_count]);
        struct timespec pause = {.tv_nsec = 200000000};
        (void)nanosleep(&pause, NULL);
    }
    const cli_result listed = snapshot(t, "ls", "a.db", NULL);
    assert_true(first[0] && !strstr(listed.out, first));
    replica_end(daemon, SIGTERM);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(a_snapshot_is_made_listed_verified_and_restored),
        REPLICA_CASE(bad_files_are_refused_with_words_and_change_nothing),
        REPLICA_CASE(ctrl_c_leaves_nothing_behind),
        REPLICA_CASE(a_part_that_is_there_is_gone_on_with_as_far_as_it_is_sound),
        REPLICA_CASE(a_transfer_goes_on_after_its_server_was_killed),
        REPLICA_CASE(run_makes_snapshots_in_time_and_keeps_the_newest_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
