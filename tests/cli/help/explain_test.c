/* tidemark explain: whatever the program prints as a code or a reason is explained. */
#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_run.h"
#include "cli/help/codes.h"

static bool is_explained(const char *words)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    for (size_t i = 0; i < count; i++)
        if (tide_cli_code_is(&codes[i], words))
            return true;
    return false;
}

static char *read_source(const char *path)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/%s", getenv("TIDEMARK_SOURCE_DIR"), path);
    FILE *file = fopen(name, "r");
    if (!file)
        fail_msg("%s cannot be read", name);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Every first group of the pattern in a file is a code of the table; at least `least` of them. */
static void check_source(const char *path, const char *pattern, int least)
{
    regex_t compiled;
    regmatch_t found[2];
    int count = 0;
    assert_int_equal(0, regcomp(&compiled, pattern, REG_EXTENDED));
    char *text = read_source(path);
    for (const char *at = text; regexec(&compiled, at, 2, found, 0) == 0; at += found[1].rm_eo) {
        char word[128];
        snprintf(word, sizeof word, "%.*s", (int)(found[1].rm_eo - found[1].rm_so),
                 at + found[1].rm_so);
        if (!is_explained(word))
            fail_msg("'%s' of %s is not explained: add it to src/cli/help/code_table.h", word,
                     path);
        count++;
    }
    if (count < least)
        fail_msg("%s has %d places of %s, at least %d are expected", path, count, pattern, least);
    free(text);
    regfree(&compiled);
}

/* Where reasons are given in the sources, they are given as texts. */
static void every_reason_in_the_sources_is_explained(void **state)
{
    (void)state;
    static const char gap[] = "TIDE_GAP_[A-Z]+,[ \n]+\"([a-z ]+)\"";
    check_source("src/colony/settle_gap.c", gap, 4);
    check_source("src/colony/settle_page.c", gap, 1);
    check_source("src/colony/settle_operator.c", gap, 3);
    check_source("src/colony/settle_epoch.c", "tide_settling_close[^;]*\"([a-z ]+)\"", 2);
    check_source("src/colony/settle_gap.c", "reason = \"([a-z ]+)\"", 2);
    check_source("src/colony/settle_gap.c", "lose_whole\\(r, \"([a-z ]+)\"", 1);
    check_source("src/colony/poller_skip.c", "REASON\\[\\] = \"([a-z ]+)\"", 1);
    check_source("src/colony/reply.c", "out->reason = \"([A-Za-z ]+)\"", 2);
    check_source("src/colony/registry.c", "return \"([a-z]+)\";", 4);
    check_source("src/colony/sink_sql_gap.c", "\\[TIDE_GAP_[A-Z]+\\] = \"([a-z]+)\"", 5);
    check_source("src/store/identity.c", "reason = \"([a-z]+)\"", 1);
    check_source("src/store/identity.c", "add_epoch\\(tx, &identity, \"([a-z]+)\"", 1);
    check_source("src/work/explain.c", "say\\(e, \"([a-z_]+)\"", 8);
    check_source("src/core/idempotency_row.c", "\\[TIDE_IDEMPOTENCY_[A-Z_]+\\] = \"([A-Z_]+)\"", 5);
    check_source("src/runtime/listener.c", "\\{\"([a-z]+)\", tide_counted", 3);
    check_source("src/services/agent/otlp_service.c", "count_refused\\(e, \"([a-z]+)\"", 2);
}

/* Every word between quotes, from a text of the file to the next end. */
static void check_list(const char *path, const char *begin, const char *end_text, char quote,
                       int want)
{
    int count = 0;
    char *text = read_source(path);
    const char *at = strstr(text, begin);
    assert_non_null(at);
    const char *end = strstr(at, end_text);
    while ((at = strchr(at, quote)) != NULL && at < end) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at + 1, (char[]){quote, 0}), at + 1);
        at += strlen(word) + 2;
        if (*word && !is_explained(word))
            fail_msg("'%s' of %s is not explained: add it to src/cli/help/code_table.h", word,
                     path);
        count += *word != '\0';
    }
    assert_int_equal(want, count);
    free(text);
}

static void every_word_of_the_lists_in_the_sources_is_explained(void **state)
{
    (void)state;
    check_list("src/colony/poller.c", "*find_hold(", "\n}\n", '"', 4);
    check_list("src/replica/quarantine.c", "hold_names[] = {", "}", '"', 6);
    check_list("src/replica/list.c", "*reason_of(", "\n}\n", '"', 5);
    check_list("src/feed/loss.c", "REASONS[] = {", "}", '"', 4);
    check_list("sql/recovery_items_schema.sql", "failure_kind IN (", "))", '\'', 5);
    check_list("sql/recovery_items_schema.sql", "attempt_outcome IN (", "))", '\'', 7);
}

static void codes_are_found_by_any_of_their_names(void **state)
{
    cli_fixture *t = *state;
    const char *page = cli_run(t, "explain", "E_LIMIT", NULL).out;
    assert_contains(page, "limit exceeded");
    assert_contains(page, "exit code 1, gRPC 8, HTTP 413");
    assert_string_equal(page, cli_run(t, "explain", "TIDE_e_limit", NULL).out);
    assert_string_equal(page, cli_run(t, "explain", "limit", "exceeded", NULL).out);
    const char *code = cli_run(t, "explain", "7", NULL).out;
    assert_contains(code, "exit code 7");
    assert_contains(code, "E_OUTCOME_UNKNOWN, E_PARTIAL");
    assert_string_equal(code, cli_run(t, "explain", "exit", "7", NULL).out);
    assert_contains(cli_run(t, "explain", "session changed", NULL).out, "(gap reason)");
    const cli_result several = cli_run(t, "explain", "expired", NULL);
    assert_contains(several.out, "expired (hole)");
    assert_contains(several.out, "expired (attempt outcome)");
}

static void what_is_no_code_is_told_with_the_nearest(void **state)
{
    cli_fixture *t = *state;
    const cli_result near = cli_run(t, "explain", "E_LIMT", NULL);
    cli_assert_fails(&near, TIDE_EXIT_NOT_FOUND);
    assert_contains(near.err, "did you mean 'tidemark explain E_LIMIT'?");
    const cli_result far = cli_run(t, "explain", "zebra stripes", NULL);
    cli_assert_fails(&far, TIDE_EXIT_NOT_FOUND);
    assert_contains(far.err, "lists all of them");
}

static void the_list_has_everything(void **state)
{
    cli_fixture *t = *state;
    size_t count = 0;
    (void)tide_cli_codes(&count);
    const cli_result list = cli_run(t, "explain", "--json", NULL);
    size_t lines = 0;
    for (const char *at = list.out; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(count, lines);
    assert_contains(list.out, "\"kind\":\"hold\",\"code\":\"back-off\"");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_in_the_sources_is_explained),
        cmocka_unit_test(every_word_of_the_lists_in_the_sources_is_explained),
        CLI_TEST_SQLITE(codes_are_found_by_any_of_their_names),
        CLI_TEST_SQLITE(what_is_no_code_is_told_with_the_nearest),
        CLI_TEST_SQLITE(the_list_has_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
