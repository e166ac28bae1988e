/* tidemark sequence, on every engine. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/sequence.h>

#include "cli/cli_run.h"

/* Numbers start at 1 and go on where the last process stopped. */
static void numbers_go_on_from_process_to_process(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("1\n", result.out);
    result = cli_run(t, "sequence", "next", "orders", "--count", "10", NULL);
    assert_string_equal("2..11\n", result.out);
    result = cli_run(t, "sequence", "next", "other", NULL);
    assert_string_equal("1\n", result.out);
    assert_string_equal("", result.err);
}

/* Scripts rely on these members and no others: name, first, last and the position's epoch. */
static void next_prints_name_first_and_last(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "next", "orders", "--count", "3", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_int_equal(6, tide_json_node_count(object));
    assert_string_equal("orders", json_text(object, "name"));
    assert_int_equal(1, json_number(object, "first"));
    assert_int_equal(3, json_number(object, "last"));
    assert_int_equal(1, json_number(object, "epoch"));
    assert_int_equal(36, strlen(json_text(object, "epoch_id")));
    assert_int_equal(36, strlen(json_text(object, "session_id")));
    tide_json_tree_free(object);
}

static void show_prints_the_last_number_and_changes_nothing(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", "--count", "7", NULL);
    for (int i = 0; i < 2; i++) {
        cli_result result = cli_run(t, "sequence", "show", "orders", "--json", NULL);
        tide_json_node *object = cli_json(&result);
        assert_int_equal(6, tide_json_node_count(object));
        assert_string_equal("orders", json_text(object, "name"));
        assert_int_equal(7, json_number(object, "last"));
        const char *at = json_text(object, "last_at");
        assert_int_equal(strlen("2024-02-29T12:30:00.123456Z"), strlen(at));
        assert_int_equal('T', at[10]);
        tide_json_tree_free(object);
    }
    cli_result result = cli_run(t, "sequence", "show", "orders", NULL);
    assert_string_equal("7\n", result.out);
}

static void show_of_a_sequence_never_used_ends_with_3(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    cli_result result = cli_run(t, "sequence", "show", "order", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    assert_contains(result.err, "'order'");
}

/* Looking must not create what it looks for. */
static void reading_where_there_is_no_store_ends_with_3_and_makes_none(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "show", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "sequence", "ls", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
    result = cli_run(t, "store", "info", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
}

static void raise_goes_up_and_never_down(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "raise", "orders", "100", NULL);
    assert_string_equal("100\n", result.out);
    result = cli_run(t, "sequence", "raise", "orders", "7", "--json", NULL);
    assert_string_equal("{\"name\":\"orders\",\"last\":100}\n", result.out);
    result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_string_equal("101\n", result.out);
}

/* The last number there is; the next one must be refused, not wrapped around. */
static void numbers_end_at_2_to_the_63(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "raise", "orders", "9223372036854775806", NULL);
    assert_int_equal(0, result.exit_code);
    result = cli_run(t, "sequence", "next", "orders", "--count", "2", NULL);
    cli_assert_fails(&result, TIDE_EXIT_FAILED);
    result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_string_equal("9223372036854775807\n", result.out);
    result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_FAILED);
    assert_contains(result.err, "start a new sequence");
    result = cli_run(t, "sequence", "show", "orders", NULL);
    assert_string_equal("9223372036854775807\n", result.out);
}

static void ls_lists_by_name_one_object_per_line(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "pears", NULL);
    cli_run(t, "sequence", "next", "apples", "-n5", NULL);
    cli_result result = cli_run(t, "sequence", "ls", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    char *second = strchr(result.out, '\n');
    assert_non_null(second);
    *second++ = '\0';
    tide_json_node *apples = json_read(tide_view_bytes(result.out, strcspn(result.out, "\n")));
    tide_json_node *pears = json_read(tide_view_of(second));
    assert_string_equal("apples", json_text(apples, "name"));
    assert_int_equal(5, json_number(apples, "last"));
    assert_string_equal("pears", json_text(pears, "name"));
    assert_int_equal(1, json_number(pears, "last"));
    tide_json_tree_free(apples);
    tide_json_tree_free(pears);
    result = cli_run(t, "sequence", "ls", NULL);
    assert_contains(result.out, "NAME    LAST  LAST TAKEN\napples     5  2");
    assert_null(strchr(result.out, '\033'));
}

/* Any text is a name: quotes, other scripts, what looks like an option. */
static void names_of_all_kinds_come_back_as_they_were(void **state)
{
    cli_fixture *t = *state;
    static const char *const names[] = {"it's \"quoted\" \\", "zähler/日本", "--count", "-1",
                                        "a;b%s"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cli_result result = cli_run(t, "sequence", "next", "--json", "--", names[i], NULL);
        tide_json_node *object = cli_json(&result);
        assert_string_equal(names[i], json_text(object, "name"));
        assert_int_equal(1, json_number(object, "last"));
        tide_json_tree_free(object);
    }
    char longest[TIDE_SEQUENCE_NAME_MAX + 1] = "";
    memset(longest, 'n', sizeof longest - 1);
    cli_result result = cli_run(t, "sequence", "next", longest, NULL);
    assert_string_equal("1\n", result.out);
}

/* Processes that ask at once get different numbers, and none is left out. */
static void processes_at_once_share_the_numbers_without_gaps(void **state)
{
    enum { PROCESSES = 12 };
    cli_fixture *t = *state;
    proc children[PROCESSES];
    const char *argv[] = {t->program, "sequence", "next", "orders", NULL};
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    for (int i = 0; i < PROCESSES; i++)
        assert_ok_err(proc_start(&children[i], &options, &t->err), &t->err);
    int seen[PROCESSES + 1] = {0};
    for (int i = 0; i < PROCESSES; i++) {
        char text[32] = "";
        assert_ok_err(proc_wait(&children[i], CLI_TIMEOUT_MS, &t->err), &t->err);
        assert_int_equal(0, children[i].exit_code);
        assert_true(read(children[i].out_fd, text, sizeof text - 1) > 0);
        const long number = strtol(text, NULL, 10);
        assert_in_range(number, 1, PROCESSES);
        seen[number]++;
        proc_done(&children[i]);
    }
    for (int i = 1; i <= PROCESSES; i++)
        assert_int_equal(1, seen[i]);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_EVERY_ENGINE(numbers_go_on_from_process_to_process),
        CLI_TEST_EVERY_ENGINE(next_prints_name_first_and_last),
        CLI_TEST_EVERY_ENGINE(show_prints_the_last_number_and_changes_nothing),
        CLI_TEST_EVERY_ENGINE(show_of_a_sequence_never_used_ends_with_3),
        CLI_TEST_EVERY_ENGINE(reading_where_there_is_no_store_ends_with_3_and_makes_none),
        CLI_TEST_EVERY_ENGINE(raise_goes_up_and_never_down),
        CLI_TEST_EVERY_ENGINE(numbers_end_at_2_to_the_63),
        CLI_TEST_EVERY_ENGINE(ls_lists_by_name_one_object_per_line),
        CLI_TEST_EVERY_ENGINE(names_of_all_kinds_come_back_as_they_were),
        CLI_TEST_EVERY_ENGINE(processes_at_once_share_the_numbers_without_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
