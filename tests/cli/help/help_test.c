/* What the program says about itself, and to whoever mistyped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_run.h"

/* Asked for, help is a result; unasked, it is a message. */
static void help_is_a_result_only_when_asked_for(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, NULL);
    assert_int_equal(TIDE_EXIT_USAGE, result.exit_code);
    assert_string_equal("", result.out);
    assert_contains(result.err, "Usage: tidemark");
    result = cli_run(t, "help", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("", result.err);
    const cli_result option = cli_run(t, "--help", NULL);
    assert_string_equal(result.out, option.out);
    result = cli_run(t, "store", NULL);
    assert_int_equal(TIDE_EXIT_USAGE, result.exit_code);
    assert_contains(result.err, "backup FILE");
}

/* Run, look at it, and make room for the next: there are more pages than results that are kept. */
static void check_page(cli_fixture *t, const char *noun, const char *verb)
{
    const int kept = t->result_count;
    const cli_result page = cli_run(t, "help", noun, verb, NULL);
    assert_int_equal(0, page.exit_code);
    assert_string_equal("", page.err);
    assert_contains(page.out, verb ? verb : noun);
    assert_contains(page.out, "--store URL");
    assert_contains(page.out, "$TIDEMARK_STORE, else ./tidemark.db");
    const cli_result option =
        verb ? cli_run(t, noun, verb, "--help", NULL) : cli_run(t, noun, "--help", NULL);
    assert_string_equal(page.out, option.out);
    while (t->result_count > kept)
        proc_result_done(&t->results[--t->result_count]);
}

/* Whatever the overview lists: "  sequence next    ...", "  doctor    ...". */
static void every_verb_has_a_page_of_its_own(void **state)
{
    cli_fixture *t = *state;
    char line[256];
    char noun[sizeof line] = "";
    int count = 0;
    const char *at = strstr(cli_run(t, "help", NULL).out, "Commands:\n");
    assert_non_null(at);
    for (at = strchr(at, '\n') + 1; *at == ' '; at += strcspn(at, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (line[2] == ' ')
            continue;                        /* the text of the line before goes on */
        char *text = strstr(line + 2, "  "); /* behind the names */
        assert_non_null(text);
        *text = '\0';
        char *verb = strchr(line + 2, ' ');
        if (verb)
            *verb++ = '\0';
        check_page(t, line + 2, verb);
        if (verb && strcmp(noun, line + 2) != 0)
            check_page(t, line + 2, NULL);
        snprintf(noun, sizeof noun, "%s", line + 2);
        count++;
    }
    assert_true(count >= 13);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

static void a_mistyped_name_is_answered_with_the_nearest(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequnce", "next", "a", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "did you mean 'tidemark sequence'?");
    result = cli_run(t, "sequence", "nxet", "a", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "did you mean 'tidemark sequence next'?");
    result = cli_run(t, "sequence", "next", "a", "--cuont", "5", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "did you mean --count?");
    result = cli_run(t, "sequence", "show", "a", "--cuont", "5", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "'tidemark help sequence show' lists the options");
    result = cli_run(t, "zebra", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_null(strstr(result.err, "did you mean"));
    result = cli_run(t, "help", "zebra", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

static void a_verb_takes_its_own_words_and_options_only(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sequence", "next", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "usage: tidemark sequence next NAME");
    result = cli_run(t, "sequence", "next", "a", "b", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "store", "info", "--count", "3", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "--count");
    result = cli_run(t, "sequence", "next", "a", "--version", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

static void version_names_the_libraries(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "version", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_int_equal(3, tide_json_node_count(object));
    assert_true(strlen(json_text(object, "version")) > 0);
    assert_true(strlen(json_text(object, "sqlite")) > 0);
    assert_true(strlen(json_text(object, "libpq")) > 0);
    tide_json_tree_free(object);
    result = cli_run(t, "--version", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "tidemark ");
}

/* Without --store and TIDEMARK_STORE the store is ./tidemark.db. */
static void the_store_stands_in_the_working_directory_by_default(void **state)
{
    cli_fixture *t = *state;
    t->env[1] = "TIDEMARK_STORE=";
    const cli_result result = cli_run(t, "sequence", "next", "a", NULL);
    assert_string_equal("1\n", result.out);
    char *files = cli_list_files(t);
    assert_contains(files, "tidemark.db ");
    free(files);
    const cli_result named = cli_run(t, "--store=tidemark.db", "sequence", "show", "a", NULL);
    assert_string_equal("1\n", named.out);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(help_is_a_result_only_when_asked_for),
        CLI_TEST_SQLITE(every_verb_has_a_page_of_its_own),
        CLI_TEST_SQLITE(a_mistyped_name_is_answered_with_the_nearest),
        CLI_TEST_SQLITE(a_verb_takes_its_own_words_and_options_only),
        CLI_TEST_SQLITE(version_names_the_libraries),
        CLI_TEST_SQLITE(the_store_stands_in_the_working_directory_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
