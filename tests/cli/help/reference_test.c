/* docs/reference is what the program's tables say now. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli_run.h"

static void the_reference_is_what_the_tables_say(void **state)
{
    cli_fixture *t = *state;
    char script[PATH_MAX];
    snprintf(script, sizeof script, "%s/scripts/docs/make-reference",
             getenv("TIDEMARK_SOURCE_DIR"));
    const char *const argv[] = {"python3", script, "--check", t->program, NULL};
    const proc_options options = cli_options(t, argv);
    proc_result *result = &t->results[t->result_count++];
    assert_ok_err(proc_run(result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    if (result->exit_code != 0)
        fail_msg("%s", result->err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {CLI_TEST_SQLITE(the_reference_is_what_the_tables_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
