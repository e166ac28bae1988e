/* Files and directories that may not be read or written. The program runs as nobody when the test is root, whom
 * permissions do not bind. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli_run.h"

static void set_mode(const cli_fixture *t, const char *name, mode_t mode)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, name, path);
    assert_int_equal(0, chmod(path, mode));
}

/* A store made by the test, then looked at by somebody else. */
static void make_store(cli_fixture *t)
{
    const cli_result result = cli_run(t, "sequence", "next", "orders", "--count", "5", NULL);
    assert_int_equal(0, result.exit_code);
    cli_sql(t, "store.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_int_equal(0, chmod(t->dir.path, 0755));
    if (geteuid() == 0)
        t->user = "nobody";
}

static void a_file_that_may_not_be_read_ends_with_5(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    set_mode(t, "store.db", 0);
    cli_result result = cli_run(t, "sequence", "show", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
    assert_contains(result.err, "store.db");
    result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
}

static void a_file_that_may_only_be_read_gives_no_numbers(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    set_mode(t, "store.db", 0444);
    const cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
    t->user = NULL;
    set_mode(t, "store.db", 0644);
    const cli_result after = cli_run(t, "sequence", "show", "orders", NULL);
    assert_string_equal("5\n", after.out);
}

static void no_store_is_made_in_a_directory_that_may_not_be_written(void **state)
{
    cli_fixture *t = *state;
    assert_int_equal(0, chmod(t->dir.path, 0555));
    if (geteuid() == 0)
        t->user = "nobody";
    const cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
    assert_int_equal(0, chmod(t->dir.path, 0755));
}

static void a_backup_needs_a_directory_that_may_be_written(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    assert_int_equal(0, chmod(t->dir.path, 0555));
    const cli_result result = cli_run(t, "store", "backup", "copy.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
    assert_int_equal(0, chmod(t->dir.path, 0755));
}

static void doctor_names_the_file_that_may_not_be_written(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    set_mode(t, "store.db", 0444);
    assert_int_equal(0, chmod(t->dir.path, 0555));
    const cli_result result = cli_run(t, "doctor", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_contains(result.out, "bad   file");
    assert_contains(result.out, "bad   directory");
    assert_contains(result.out, "Permission denied");
    assert_int_equal(0, chmod(t->dir.path, 0755));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(a_file_that_may_not_be_read_ends_with_5),
        CLI_TEST_SQLITE(a_file_that_may_only_be_read_gives_no_numbers),
        CLI_TEST_SQLITE(no_store_is_made_in_a_directory_that_may_not_be_written),
        CLI_TEST_SQLITE(a_backup_needs_a_directory_that_may_be_written),
        CLI_TEST_SQLITE(doctor_names_the_file_that_may_not_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
