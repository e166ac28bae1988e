/* Choosing a file of a program, and cases of a file. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/process/proc.h"

enum { TIMEOUT_MS = 60000 };

/* This program again, with other arguments. */
static void run_program(proc_result *result, const char *first, const char *second,
                        const char *third, const char *fourth)
{
    char self[PATH_MAX];
    proc_self_path(self);
    const char *const argv[] = {self, first, second, third, fourth, NULL};
    tide_error err;
    assert_ok_err(proc_run(result, &(proc_options){.argv = argv}, TIMEOUT_MS, &err), &err);
}

static void without_a_file_all_are_listed(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_program(&result, NULL, NULL, NULL, NULL);
    assert_int_equal(2, result.exit_code);
    assert_contains(result.err, "support/program/test_file\n");
    assert_contains(result.err, "support/process/proc\n");
}

static void an_unknown_file_is_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_program(&result, "no_such", NULL, NULL, NULL);
    assert_int_equal(2, result.exit_code);
    assert_contains(result.err, "no test file \"no_such\"");
}

/* "ile" ends the name and is no part of its path. */
static void a_file_is_named_by_its_last_words(void **state)
{
    (void)state;
    assert_string_equal("support/program/test_file", test_file_name());
    TIDE_CLEANUP(proc_result_done) proc_result part = {0};
    run_program(&part, "ile", NULL, NULL, NULL);
    assert_int_equal(2, part.exit_code);
    TIDE_CLEANUP(proc_result_done) proc_result last = {0};
    run_program(&last, "test_file", "nothing_*", NULL, NULL);
    assert_int_equal(0, last.exit_code);
}

static void only_cases_that_match_run(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_program(&result, "test_file", "an_unknown_*", NULL, NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "Running 1 test");
    assert_contains(result.out, "an_unknown_file_is_refused");
}

static void arguments_behind_the_dashes_are_the_files_own(void **state)
{
    (void)state;
    assert_null(test_file_argument(0));
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_program(&result, "test_file", "--", "exit", "7");
    assert_int_equal(7, result.exit_code);
}

TEST_FILE()
{
    if (test_file_argument(1) != NULL && strcmp(test_file_argument(0), "exit") == 0)
        return (int)assert_number(test_file_argument(1));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_all_are_listed),
        cmocka_unit_test(an_unknown_file_is_refused),
        cmocka_unit_test(a_file_is_named_by_its_last_words),
        cmocka_unit_test(only_cases_that_match_run),
        cmocka_unit_test(arguments_behind_the_dashes_are_the_files_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
