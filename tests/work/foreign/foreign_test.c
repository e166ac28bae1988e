/* Foreign clients in their own processes: Python's sqlite3, with whatever SQLite it brings, on a store that the program
 * made. Every statement of the recovery document runs and means what it says (meaning.py); what would break a promise is
 * refused (refusal.py, refusal_journal.py). */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/process/proc.h"

enum { TIMEOUT_MS = 120000 };

static void run_python(const char *script)
{
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    assert_non_null(source);
    tide_error err;
    char path[PATH_MAX];
    char program[PATH_MAX];
    char program_setting[PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/tests/work/foreign/%s", source, script);
    assert_ok_err(proc_find("tidemark", program, &err), &err);
    (void)snprintf(program_setting, sizeof program_setting, "TIDEMARK_BIN=%s", program);
    const char *const argv[] = {"python3", "-B", path, NULL};
    const char *const env[] = {program_setting, NULL};
    const proc_options options = {.argv = argv, .env = env};
    proc_result result;
    assert_ok_err(proc_run(&result, &options, TIMEOUT_MS, &err), &err);
    print_message("%s", result.out);
    if (result.exit_code != 0)
        fail_msg("%s: exit code %d: %s", script, result.exit_code, result.err);
    proc_result_done(&result);
}

static void every_statement_of_the_contract_means_what_it_says(void **state)
{
    (void)state;
    run_python("meaning.py");
}

static void work_keeps_its_promises_against_any_client(void **state)
{
    (void)state;
    run_python("refusal.py");
}

static void checkpoints_and_keys_keep_their_promises_against_any_client(void **state)
{
    (void)state;
    run_python("refusal_journal.py");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_of_the_contract_means_what_it_says),
        cmocka_unit_test(work_keeps_its_promises_against_any_client),
        cmocka_unit_test(checkpoints_and_keys_keep_their_promises_against_any_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
