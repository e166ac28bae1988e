/* Files are on the disk before they are told of, and a disk that fails leaves nothing behind.
 *
 * Calls of ours to fsync, rename and mkdir are noted, and can be made to fail, each in its turn. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lake/data/data_fixture.h"

#include "colony/duckdb/duckdb_place.h"

enum { EVENTS_MAX = 256 };

static struct {
    bool is_on;
    int fail_at; /* the nth call; 0: none */
    int error;   /* 0: the process dies there */
    int count;
    char text[EVENTS_MAX][PATH_MAX];
} notes;

int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);

/* False: this one fails. */
static bool note(const char *what, const char *path)
{
    if (!notes.is_on)
        return true;
    assert_true(notes.count < EVENTS_MAX);
    (void)snprintf(notes.text[notes.count++], PATH_MAX, "%s %s", what, path);
    if (notes.count != notes.fail_at)
        return true;
    if (notes.error == 0)
        (void)kill(getpid(), SIGKILL);
    errno = notes.error;
    return false;
}

int __wrap_fsync(int fd)
{
    char link[64];
    char path[PATH_MAX] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    return note("sync", path) ? __real_fsync(fd) : -1;
}

int __wrap_rename(const char *from, const char *to)
{
    return note("rename", to) ? __real_rename(from, to) : -1;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return note("mkdir", path) ? __real_mkdir(path, mode) : -1;
}

static void begin_notes(int fail_at, int error)
{
    notes.is_on = true;
    notes.fail_at = fail_at;
    notes.error = error;
    notes.count = 0;
}

/* A whole path, or part of one. */
static int find_note(const char *what, const char *path)
{
    char want[PATH_MAX + 16];
    (void)snprintf(want, sizeof want, "%s %s", what, path);
    const bool is_whole = path[0] == '/';
    for (int i = 0; i < notes.count; i++) {
        const bool is_kind = strncmp(notes.text[i], what, strlen(what)) == 0;
        if (is_whole ? strcmp(notes.text[i], want) == 0 : is_kind && strstr(notes.text[i], path))
            return i;
    }
    return -1;
}

/* The file is synced, then named; the directory is synced after the last was named. */
static void check_order(data_test *t)
{
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "sync %s/main/t", t->data_dir);
    assert_string_equal(notes.text[notes.count - 1], dir);
    for (int i = 0; i < t->last.count; i++) {
        const int synced = find_note("sync", t->last.files[i].path);
        const int named = find_note("rename", t->last.files[i].path);
        assert_true(synced >= 0 && synced < named && named < notes.count - 1);
    }
}

static void files_are_synced_before_they_are_told(void **state)
{
    data_test *t = *state;
    data_reopen(t, 100000);
    data_table(t, "a BIGINT, b DOUBLE");
    const char *path =
        data_parquet(t, "x.parquet", "SELECT range AS a, random() AS b FROM range(300000)");
    begin_notes(0, 0);
    data_append(t, path);
    notes.is_on = false;
    assert_true(t->last.count > 1);
    check_order(t);
    /* Directories that were made are there after a crash. */
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s/main", t->data_dir);
    assert_true(find_note("mkdir", parent) >= 0);
    assert_true(find_note("sync", parent) > find_note("mkdir", parent));
    assert_true(find_note("sync", t->data_dir) > find_note("mkdir", parent));
    begin_notes(0, 0);
    assert_int_equal(data_delete(t, "a % 2 = 0"), 150000);
    notes.is_on = false;
    check_order(t);
}

/* Every call fails once: the words name it, and nothing is left. */
static void a_disk_that_fails_leaves_nothing(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b BIGINT");
    data_partition(t, "b", "identity");
    char path[PATH_MAX];
    (void)snprintf(
        path, sizeof path, "%s",
        data_parquet(t, "x.parquet", "SELECT range AS a, range % 3 AS b FROM range(30)"));
    int failures = 0;
    for (int n = 1;; n++) {
        begin_notes(n, ENOSPC);
        const tide_status status = data_try(t, path);
        notes.is_on = false;
        if (status == TIDE_OK)
            break;
        failures++;
        assert_int_equal(status, TIDE_E_FULL);
        assert_int_equal(data_count_files(t), 0);
        assert_int_equal(t->last.count, 0);
        data_reopen(t, 0); /* what another has made is synced by who comes next */
    }
    assert_true(failures >= 10); /* directories, three files, the directory */
    assert_int_equal(data_count_files(t), 3);
}

static void a_delete_that_fails_leaves_nothing(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n2\n3\n");
    data_append_rows(t, "a\n4\n5\n6\n");
    int failures = 0;
    for (int n = 1;; n++) {
        begin_notes(n, EIO);
        const tide_status status = data_try_delete(t, "a % 3 = 0");
        notes.is_on = false;
        if (status == TIDE_OK)
            break;
        failures++;
        assert_int_equal(status, TIDE_E_IO);
        assert_int_equal(data_count_files(t), 2);
    }
    assert_int_equal(failures, 6);
    assert_int_equal(data_count_files(t), 4);
    assert_answer(t, "SELECT sum(a) FROM t", "12\n");
}

/* ---- dying ---- */

static void open_in(data_test *t, const tempdir *dir)
{
    t->dir = *dir;
    tempdir_join(dir, "data", t->data_dir);
    tide_arena_init(&t->memory, 64 << 20);
    tide_buffer_init(&t->answer, 1 << 20);
    t->next_id = 1;
    t->row_max = 1000;
    t->timeout_us = 60000000;
    data_reopen(t, 0);
    data_table(t, "a BIGINT, b BIGINT");
    data_partition(t, "b", "identity");
}

/* Append until the nth call, and die there. True: it came through. */
static bool append_and_die(const tempdir *dir, int n)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static data_test t;
        open_in(&t, dir);
        begin_notes(n, 0);
        const tide_status status = data_try(&t, data_path(&t, "rows.csv"));
        _exit(status == TIDE_OK && t.last.count == 2 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    else
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

/* Of a table's directory: files with names, and what was being written. */
static int count_names(const char *data_dir, bool is_named)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    (void)snprintf(pattern, sizeof pattern, "%s/main/t/%s", data_dir,
                   is_named ? "*.parquet" : "*.new");
    (void)glob(pattern, GLOB_NOSORT, NULL, &found);
    const int count = (int)found.gl_pathc;
    globfree(&found);
    return count;
}

/* Who dies leaves files that nobody names, whole ones where they have their names, and is in nobody's way. */
static void a_process_that_dies_leaves_files_that_nobody_names(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    char data_dir[TEMPDIR_PATH_MAX];
    duckdb_place();
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "data", data_dir);
    assert_int_equal(mkdir(data_dir, 0777), 0);
    data_test t = {.dir = dir};
    (void)data_file(&t, "rows.csv", "a,b\n1,1\n2,2\n3,1\n");
    int deaths = 0;
    while (!append_and_die(&dir, deaths + 1))
        deaths++;
    assert_true(deaths >= 8);
    assert_true(count_names(data_dir, false) >= 4);
    const int named = count_names(data_dir, true);
    assert_true(named > 2);
    open_in(&t, &dir);
    assert_answer(&t, "SELECT count(*) FROM t", "0\n"); /* nothing was committed */
    char pattern[PATH_MAX];
    char text[PATH_MAX + 64];
    glob_t found = {0};
    (void)snprintf(pattern, sizeof pattern, "%s/main/t/*.parquet", data_dir);
    assert_int_equal(glob(pattern, GLOB_NOSORT, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        (void)snprintf(text, sizeof text, "main/t/%s", strrchr(found.gl_pathv[i], '/') + 1);
        t.files.all[t.files.count++] =
            (tide_lake_file_seen){.path = tide_lake_join(&t.memory, text, ""), .delete_path = ""};
    }
    globfree(&found);
    assert_true(strcmp(data_ask(&t, "SELECT count(*) > 2, min(a), max(a) FROM t"), "true|1|3\n") ==
                0);
    tide_lake_data_close(t.data);
    tide_arena_done(&t.memory);
    tide_buffer_done(&t.answer);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
}

static void a_directory_that_may_not_be_written_is_named(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    begin_notes(1, EACCES);
    assert_status(TIDE_E_DENIED, data_try(t, data_file(t, "x.csv", "a\n1\n")));
    notes.is_on = false;
    assert_contains(t->err.text, t->data_dir);
}

static void a_data_file_that_is_gone_is_named(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    tide_lake_written_discard(t->data, &t->table.table, &t->last);
    assert_status(TIDE_E_IO, data_try_ask(t, "FROM t"));
    assert_contains(t->err.text, t->files.all[0].path);
}

/* DuckDB looks at the first file to see what a table is, and at the others when it reads. */
static void a_later_file_that_is_gone_is_named(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    data_append_rows(t, "a\n2\n");
    tide_lake_written_discard(t->data, &t->table.table, &t->last);
    assert_status(TIDE_E_IO, data_try_ask(t, "FROM t"));
    assert_contains(t->err.text, t->files.all[1].path);
    assert_contains(t->err.text, "is not there");
    assert_status(TIDE_E_IO, data_try_delete(t, "a > 0"));
    assert_contains(t->err.text, t->files.all[1].path);
    assert_contains(t->err.text, "is not there");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        /* First: it forks, and DuckDB has threads. */
        cmocka_unit_test(a_process_that_dies_leaves_files_that_nobody_names),
        CASE(files_are_synced_before_they_are_told),
        CASE(a_disk_that_fails_leaves_nothing),
        CASE(a_delete_that_fails_leaves_nothing),
        CASE(a_directory_that_may_not_be_written_is_named),
        CASE(a_data_file_that_is_gone_is_named),
        CASE(a_later_file_that_is_gone_is_named),
    };
    return cmocka_run_group_tests_name("lake data disk", tests, NULL, NULL);
}
