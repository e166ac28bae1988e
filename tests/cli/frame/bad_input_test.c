/* Bad input: a clear error, the exit code of the table, and nothing changed. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/sequence.h>

#include "cli/cli_run.h"

static void assert_directory_is_empty(const cli_fixture *t)
{
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

static void a_bad_count_is_refused_before_a_store_is_made(void **state)
{
    cli_fixture *t = *state;
    static const char *const counts[] = {"0",
                                         "-1",
                                         "1000001",
                                         "99999999999999999999",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "",
                                         "x",
                                         "1.5",
                                         " 1",
                                         "+1",
                                         "1e3",
                                         "0x10",
                                         "1 ",
                                         "--json"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const cli_result result =
            cli_run(t, "sequence", "next", "orders", "--count", counts[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
        assert_contains(result.err, "--count");
    }
    const cli_result result = cli_run(t, "sequence", "next", "orders", "--count", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_directory_is_empty(t);
}

static void a_bad_name_is_refused_before_a_store_is_made(void **state)
{
    cli_fixture *t = *state;
    char too_long[TIDE_SEQUENCE_NAME_MAX + 2] = "";
    memset(too_long, 'n', sizeof too_long - 1);
    const char *const names[] = {"",      too_long, "a\nb",         "a\tb", "\x7f",
                                 "a\xff", "\xc3",   "\xed\xa0\x80", " a",   "a "};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cli_result result = cli_run(t, "sequence", "next", names[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
        result = cli_run(t, "sequence", "show", names[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
        result = cli_run(t, "sequence", "raise", names[i], "5", NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
    }
    assert_directory_is_empty(t);
}

static void a_bad_number_to_raise_to_is_refused(void **state)
{
    cli_fixture *t = *state;
    static const char *const numbers[] = {"0", "-5", "9223372036854775808", "ten", ""};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const cli_result result = cli_run(t, "sequence", "raise", "orders", numbers[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
    }
    assert_directory_is_empty(t);
}

/* Hundreds of words reach the verb, which says which one is too many. */
static void many_words_are_taken_and_then_counted(void **state)
{
    cli_fixture *t = *state;
    enum { COUNT = 300 };
    const char *argv[COUNT + 4] = {t->program, "sequence", "next"};
    for (int i = 0; i < COUNT; i++)
        argv[3 + i] = "name";
    proc_result result;
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_run(&result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(TIDE_EXIT_USAGE, result.exit_code);
    assert_contains(result.err, "one word too many: 'name'");
    proc_result_done(&result);
    assert_directory_is_empty(t);
}

/* A name may look like an option, or be two dashes. */
static void words_behind_two_dashes_are_names(void **state)
{
    cli_fixture *t = *state;
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "--", "--count", NULL).out);
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "--", "--", NULL).out);
    assert_string_equal("2\n", cli_run(t, "sequence", "next", "--", "--count", NULL).out);
    const cli_result result = cli_run(t, "sequence", "next", "a", "--", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

static void a_bad_store_url_is_a_usage_error(void **state)
{
    cli_fixture *t = *state;
    static const char *const urls[] = {"mysql://localhost/db",
                                       "postgres:db",
                                       "postgres://%zz/db",
                                       "postgres://h:port/db",
                                       "sqlite:",
                                       "",
                                       "sqlite://host/path",
                                       "postgres://h/?nonsense=1"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        cli_result result = cli_run(t, "sequence", "next", "orders", "--store", urls[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
        result = cli_run(t, "store", "info", "--store", urls[i], NULL);
        cli_assert_fails(&result, TIDE_EXIT_USAGE);
    }
    const cli_result result = cli_run(t, "sequence", "next", "a", "--store", "mysql://h/d", NULL);
    assert_contains(result.err, "'mysql'");
    assert_directory_is_empty(t);
}

/* A server that is away is worth another try: 6, not 1. */
static void a_server_that_is_away_ends_with_6(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "sequence", "next", "orders", "--store", "postgres://127.0.0.1:1/none", NULL);
    cli_assert_fails(&result, TIDE_EXIT_UNAVAILABLE);
    assert_contains(result.err, "127.0.0.1");
}

static void a_directory_is_not_a_store(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "sequence", "next", "orders", "--store", t->dir.path, NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "directory");
    assert_directory_is_empty(t);
}

static void a_store_is_not_made_in_a_directory_that_is_missing(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "sequence", "next", "orders", "--store", "no/such/s.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    assert_directory_is_empty(t);
}

/* Every verb leaves a file that is not ours as it was, without side files. */
static void assert_untouched(cli_fixture *t, int exit_code)
{
    size_t before_len = 0;
    size_t after_len = 0;
    char *before = cli_read_file(t, "store.db", &before_len);
    cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "sequence", "show", "orders", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "sequence", "ls", "--json", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "store", "info", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "store", "migrate", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "store", "backup", "copy.db", NULL);
    cli_assert_fails(&result, exit_code);
    result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(exit_code, result.exit_code);
    result = cli_run(t, "doctor", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    char *after = cli_read_file(t, "store.db", &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
    char *files = cli_list_files(t);
    assert_string_equal("store.db ", files);
    free(files);
}

static void a_text_file_is_left_alone(void **state)
{
    cli_fixture *t = *state;
    static const char text[] = "These are my notes, and not a database of any kind.\n";
    cli_write_file(t, "store.db", text, sizeof text - 1);
    assert_untouched(t, TIDE_EXIT_FAILED);
}

static void another_programs_database_is_left_alone(void **state)
{
    cli_fixture *t = *state;
    cli_sql(t, "store.db", "CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')");
    assert_untouched(t, TIDE_EXIT_FAILED);
}

static void another_programs_wal_database_is_left_alone(void **state)
{
    cli_fixture *t = *state;
    cli_sql(t, "store.db", "PRAGMA journal_mode=WAL; CREATE TABLE sequences (name, last)");
    assert_untouched(t, TIDE_EXIT_FAILED);
}

static void a_file_cut_off_in_its_header_is_damaged(void **state)
{
    cli_fixture *t = *state;
    cli_write_file(t, "store.db", "SQLite format 3", 16);
    assert_untouched(t, TIDE_EXIT_DAMAGED);
}

/* A store that was sound once, cut in half: damage is said, and no number is given. */
static void a_store_cut_in_half_is_damaged(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_int_equal(0, result.exit_code);
    cli_sql(t, "store.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "store.db", path);
    struct stat info;
    assert_int_equal(0, stat(path, &info));
    assert_int_equal(0, truncate(path, info.st_size / 2));
    result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DAMAGED);
    result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    assert_int_equal(0, stat(path, &info));
}

/* Nobody can use a name to write to the terminal of whoever reads the message. */
static void messages_carry_no_control_characters(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "sequence", "show", "a", "--store", "\033[31mx\xff.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    assert_null(strchr(result.err, '\033'));
    assert_null(strchr(result.err, '\xff'));
}

/* A result that could not be written is a failure, though the number is taken. */
static void a_full_output_is_reported(void **state)
{
    cli_fixture *t = *state;
    const char *argv[] = {t->program, "sequence", "next", "orders", NULL};
    proc child;
    proc_options options = cli_options(t, argv);
    options.out = PROC_FILE;
    options.out_path = "/dev/full";
    options.err = PROC_NULL;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(TIDE_EXIT_PARTIAL, child.exit_code);
    proc_done(&child);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(a_bad_count_is_refused_before_a_store_is_made),
        CLI_TEST_SQLITE(a_bad_name_is_refused_before_a_store_is_made),
        CLI_TEST_SQLITE(a_bad_number_to_raise_to_is_refused),
        CLI_TEST_SQLITE(many_words_are_taken_and_then_counted),
        CLI_TEST_SQLITE(words_behind_two_dashes_are_names),
        CLI_TEST_SQLITE(a_bad_store_url_is_a_usage_error),
        CLI_TEST_SQLITE(a_server_that_is_away_ends_with_6),
        CLI_TEST_SQLITE(a_directory_is_not_a_store),
        CLI_TEST_SQLITE(a_store_is_not_made_in_a_directory_that_is_missing),
        CLI_TEST_SQLITE(a_text_file_is_left_alone),
        CLI_TEST_SQLITE(another_programs_database_is_left_alone),
        CLI_TEST_SQLITE(another_programs_wal_database_is_left_alone),
        CLI_TEST_SQLITE(a_file_cut_off_in_its_header_is_damaged),
        CLI_TEST_SQLITE(a_store_cut_in_half_is_damaged),
        CLI_TEST_SQLITE(messages_carry_no_control_characters),
        CLI_TEST_SQLITE(a_full_output_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
