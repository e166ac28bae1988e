/* tidemark token, on every engine: made, listed, revoked. */
#include <string.h>

#include "cli/cli_run.h"

static void a_token_is_printed_once_and_listed_without_it(void **state)
{
    cli_fixture *t = *state;
    const cli_result made = cli_run(t, "token", "create", "ingest", "--role", "write", NULL);
    assert_int_equal(0, made.exit_code);
    assert_int_equal(49, strlen(made.out)); /* with the line break */
    assert_int_equal(0, strncmp(made.out, "tide_", 5));
    const cli_result list = cli_run(t, "token", "ls", NULL);
    assert_int_equal(0, list.exit_code);
    assert_contains(list.out, "ingest");
    assert_contains(list.out, "write");
    assert_contains(list.out, "live");
    assert_null(strstr(list.out, "tide_"));
}

static void json_has_all_members(void **state)
{
    cli_fixture *t = *state;
    const cli_result made = cli_run(t, "token", "create", "a", "--expires", "30d", "--agent",
                                    "agent-1", "--json", NULL);
    tide_json_node *object = cli_json(&made);
    assert_string_equal("a", json_text(object, "name"));
    assert_string_equal("read", json_text(object, "role"));
    assert_string_equal("agent-1", json_text(object, "agent"));
    assert_int_equal(48, strlen(json_text(object, "token")));
    assert_int_equal(27, strlen(json_text(object, "expires_at")));
    assert_true(json_is_null(tide_json_node_find(object, "last_used_at")));
    tide_json_tree_free(object);
    const cli_result list = cli_run(t, "token", "ls", "--json", NULL);
    object = cli_json(&list);
    assert_null(tide_json_node_find(object, "token"));
    assert_string_equal("live", json_text(object, "state"));
    tide_json_tree_free(object);
}

static void a_revoked_token_is_gone_from_the_list(void **state)
{
    cli_fixture *t = *state;
    assert_int_equal(0, cli_run(t, "token", "create", "a", NULL).exit_code);
    cli_result result = cli_run(t, "token", "create", "a", NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
    result = cli_run(t, "token", "revoke", "a", "--json", NULL);
    assert_string_equal("{\"name\":\"a\",\"result\":\"revoked\"}\n", result.out);
    result = cli_run(t, "token", "revoke", "a", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "token", "ls", "--json", NULL);
    assert_string_equal("", result.out);
    result = cli_run(t, "token", "ls", "--all", NULL);
    assert_contains(result.out, "revoked");
    assert_int_equal(0, cli_run(t, "token", "create", "a", NULL).exit_code);
}

static void mistakes_change_nothing(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "token", "create", "two words", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "token", "create", "a", "--role", "owner", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "read|write|admin");
    result = cli_run(t, "token", "create", "a", "--expires", "0", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "token", "ls", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND); /* there is still no store */
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_EVERY_ENGINE(a_token_is_printed_once_and_listed_without_it),
        CLI_TEST_EVERY_ENGINE(json_has_all_members),
        CLI_TEST_EVERY_ENGINE(a_revoked_token_is_gone_from_the_list),
        CLI_TEST_EVERY_ENGINE(mistakes_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
