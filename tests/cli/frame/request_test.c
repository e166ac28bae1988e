/* Which verb the words ask for, with nouns made for it: arguments, commands behind --, help pages. */
#include "cli/frame/request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help/help.h"
#include "support/check.h"

static tide_status run_nothing(tide_cli *cli, tide_error *err)
{
    (void)cli;
    (void)err;
    return TIDE_OK;
}

static const tide_cli_verb job_verbs[] = {
    {.name = "claim",
     .takes = TIDE_CLI_LIST(TYPE, LIMIT, LEASE),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT, .fallback = "1", .max = 1000},
                                     {.id = TIDE_CLI_TYPE, .help = "only of this type"}),
     .summary = "take some",
     .run = run_nothing},
    {.name = "list",
     .arguments = "[TASK]",
     .takes = TIDE_CLI_LIST(TYPE, LIMIT, SINCE, RUN_AFTER),
     .summary = "list them",
     .run = run_nothing},
    {.name = "renew", .arguments = "ID=TOKEN...", .summary = "hold on", .run = run_nothing},
    {.name = "drop", .arguments = "TASK [ID...]", .summary = "let go", .run = run_nothing},
    {.name = "run",
     .arguments = "-- CMD...",
     .takes = TIDE_CLI_LIST(TYPE),
     .needs = TIDE_CLI_LIST(TYPE),
     .summary = "run a command for each",
     .run = run_nothing},
    {.name = "wrap", .arguments = "NAME [-- CMD...]", .summary = "wrap it", .run = run_nothing},
    {.name = NULL},
};

static const tide_cli_command job = {.name = "job", .summary = "Jobs.", .verbs = job_verbs};

const tide_cli_command *const tide_cli_commands[] = {&job, NULL};

static const tide_cli_verb inner_verbs[] = {
    {.name = "", .summary = "for ourselves", .run = run_nothing},
    {.name = NULL},
};
static const tide_cli_command inner = {
    .name = "inner", .summary = "For ourselves.", .verbs = inner_verbs};

const tide_cli_command *const tide_cli_hidden_commands[] = {&inner, NULL};

/* What main does with a command line, up to the verb. */
static tide_status ask(tide_cli *cli, tide_error *err, int argc, char *const *argv)
{
    tide_cli_request asked = {.command = NULL};
    memset(cli, 0, sizeof *cli);
    const tide_status status = tide_cli_args_parse(&cli->words, argc, argv, err);
    if (status < TIDE_OK) {
        tide_cli_request_suggest(cli, &asked);
        return status;
    }
    TIDE_TRY(tide_cli_request_find(cli, &asked, err));
    return asked.verb ? tide_cli_request_check(cli, &asked, err) : TIDE_NONE;
}

enum { WORDS_MAX = 20 };

#define ask_words(cli, err, ...)                                                                   \
    ask_these(cli, err, (const char *const[]){"tidemark", __VA_ARGS__, NULL})

static tide_status ask_these(tide_cli *cli, tide_error *err, const char *const *words)
{
    static char copies[WORDS_MAX][64]; /* argv is writable */
    static char *argv[WORDS_MAX + 1];
    int argc = 0;
    for (; words[argc]; argc++) {
        assert_true(argc < WORDS_MAX);
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    return ask(cli, err, argc, argv);
}

/* It can be started by its name; an error in the name does not lead to it. */
static void a_hidden_command_is_found_and_not_suggested(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    assert_ok_err(ask_words(&cli, &err, "inner"), &err);
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "inne"));
    assert_null(strstr(cli.hint, "inner"));
    tide_cli_args_done(&cli.words);
}

static void a_command_behind_two_dashes_is_handed_over_untouched(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    assert_ok_err(
        ask_words(&cli, &err, "job", "run", "--type", "t", "--", "ls", "--json", "--", "-n", "x"),
        &err);
    static const char *const want[] = {"ls", "--json", "--", "-n", "x"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(want[i], cli.command[i]);
    assert_null(cli.command[5]);
    assert_int_equal(0, cli.arg_count);
    assert_false(tide_cli_is_given(&cli, TIDE_CLI_JSON));
    tide_cli_args_done(&cli.words);
    assert_ok_err(ask_words(&cli, &err, "job", "wrap", "n", "--", "--help"), &err);
    assert_string_equal("--help", cli.command[0]);
    assert_int_equal(1, cli.arg_count);
    tide_cli_args_done(&cli.words);
}

static void a_command_may_have_thousands_of_words(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static char words[][8] = {"tidemark", "job", "wrap", "n", "--", "-word"};
    static char *argv[COUNT + 6];
    for (int i = 0; i < COUNT + 5; i++)
        argv[i] = words[i < 5 ? i : 5];
    tide_cli cli;
    tide_error err;
    assert_ok_err(ask(&cli, &err, COUNT + 5, argv), &err);
    int count = 0;
    while (cli.command[count])
        count++;
    assert_int_equal(COUNT, count);
    tide_cli_args_done(&cli.words);
}

static void a_command_that_is_missing_is_asked_for(void **state)
{
    (void)state;
    static const char *const lines[][7] = {{"tidemark", "job", "run", "-t", "t", NULL},
                                           {"tidemark", "job", "run", "-t", "t", "--", NULL},
                                           {"tidemark", "job", "wrap", "n", "--", NULL}};
    tide_cli cli;
    tide_error err;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_status(TIDE_E_INVALID, ask_these(&cli, &err, lines[i]));
        assert_contains(err.text, "behind --");
        assert_contains(cli.hint, "-- CMD...");
        tide_cli_args_done(&cli.words);
    }
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "--", "wrap", "ls"));
    assert_contains(err.text, "-- belongs in front of the command");
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "run", "-t", "t", "ls"));
    assert_string_equal("usage: tidemark job run --type TYPE -- CMD...", cli.hint);
    tide_cli_args_done(&cli.words);
    assert_ok_err(ask_words(&cli, &err, "job", "wrap", "n"), &err);
    assert_null(cli.command);
    tide_cli_args_done(&cli.words);
}

/* Where no command is wanted, words behind -- are arguments that look like options. */
static void elsewhere_two_dashes_only_end_the_options(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    assert_ok_err(ask_words(&cli, &err, "job", "list", "--", "--limit"), &err);
    assert_int_equal(1, cli.arg_count);
    assert_string_equal("--limit", cli.args[0]);
    assert_null(cli.command);
    tide_cli_args_done(&cli.words);
    assert_ok_err(ask_words(&cli, &err, "--", "job", "drop", "a", "-b"), &err);
    assert_int_equal(2, cli.arg_count);
    tide_cli_args_done(&cli.words);
}

static void arguments_are_counted_from_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        tide_cli_arguments want;
    } rows[] = {
        {"", {0, 0, false, false}},
        {"NAME LAST", {2, 2, false, false}},
        {"[COMMAND] [VERB]", {0, 2, false, false}},
        {"ID=TOKEN...", {1, INT_MAX, false, false}},
        {"[ID...]", {0, INT_MAX, false, false}},
        {"ID... FILE", {2, INT_MAX, false, false}},
        {"-- CMD...", {0, 0, true, true}},
        {"NAME -- CMD...", {1, 1, true, true}},
        {"[NAME] [-- CMD...]", {0, 1, true, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tide_cli_verb verb = {.name = "v", .arguments = rows[i].arguments};
        const tide_cli_arguments found = tide_cli_arguments_of(&verb);
        assert_int_equal(rows[i].want.least, found.least);
        assert_int_equal(rows[i].want.most, found.most);
        assert_int_equal(rows[i].want.takes_command, found.takes_command);
        assert_int_equal(rows[i].want.needs_command, found.needs_command);
    }
}

static void many_arguments_are_one_or_more(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    static char words[][10] = {"tidemark", "job", "renew", "id=17"};
    static char *argv[COUNT + 4];
    for (int i = 0; i < COUNT + 3; i++)
        argv[i] = words[i < 3 ? i : 3];
    tide_cli cli;
    tide_error err;
    assert_ok_err(ask(&cli, &err, COUNT + 3, argv), &err);
    assert_int_equal(COUNT, cli.arg_count);
    assert_string_equal("id=17", cli.args[COUNT - 1]);
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "renew"));
    assert_contains(err.text, "wants ID=TOKEN...");
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "list", "a", "b"));
    assert_contains(err.text, "one word too many: 'b'");
    tide_cli_args_done(&cli.words);
}

static void a_mistyped_option_is_looked_for_in_its_verb(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "claim", "--leas", "5m"));
    assert_string_equal("did you mean --lease?", cli.hint);
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "renew", "--leas", "5m"));
    assert_string_equal("'tidemark help job renew' lists the options", cli.hint);
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "--leas", "5m"));
    assert_string_equal("did you mean --lease?", cli.hint);
    tide_cli_args_done(&cli.words);
    /* Most likely it belongs to the command. */
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "run", "ls", "--colour"));
    assert_contains(cli.hint, "stand behind --");
    tide_cli_args_done(&cli.words);
    /* What is missing is no option that there is not. */
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "claim", "--lease"));
    assert_contains(err.text, "--lease needs a value: --lease DURATION");
    assert_string_equal("", cli.hint);
    tide_cli_args_done(&cli.words);
}

/* Who wrote a bad value knows the usage; who wrote an option too many does not. */
static void the_hint_fits_the_mistake(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "claim", "--lease", "soon"));
    assert_string_equal("", cli.hint);
    tide_cli_args_done(&cli.words);
    assert_status(TIDE_E_INVALID, ask_words(&cli, &err, "job", "claim", "--tag", "a"));
    assert_string_equal("usage: tidemark job claim", cli.hint);
    tide_cli_args_done(&cli.words);
}

static void a_time_option_is_resolved_by_the_clock_that_counts(void **state)
{
    (void)state;
    tide_cli cli;
    tide_error err;
    int64_t us = -1;
    assert_ok_err(ask_words(&cli, &err, "job", "list", "--since", "10s", "--run-after", "10s"),
                  &err);
    assert_ok_err(tide_cli_time(&cli, TIDE_CLI_SINCE, 60000000, &us, &err), &err);
    assert_int_equal(50000000, us);
    assert_ok_err(tide_cli_time(&cli, TIDE_CLI_RUN_AFTER, 60000000, &us, &err), &err);
    assert_int_equal(70000000, us);
    assert_status(TIDE_NONE, tide_cli_time(&cli, TIDE_CLI_UNTIL, 60000000, &us, &err));
    tide_cli_args_done(&cli.words);
}

/* ---- help ---- */

static char *print_page(const tide_cli_verb *verb)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    if (verb)
        tide_cli_help_verb(file, &job, verb);
    else
        tide_cli_help_command(file, &job);
    assert_int_equal(0, fclose(file));
    return text;
}

static const char *find_line(const char *page, const char *option)
{
    static char line[256];
    const char *at = strstr(page, option);
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static void a_page_shows_what_differs_for_its_verb(void **state)
{
    (void)state;
    char *page = print_page(tide_cli_find_verb(&job, "claim"));
    assert_contains(find_line(page, "--limit"), "1 to 1000 (1)");
    assert_contains(find_line(page, "--type"), "only of this type; may be given several times");
    assert_contains(find_line(page, "--lease"), "(5m)");
    free(page);
    page = print_page(tide_cli_find_verb(&job, "list"));
    assert_contains(find_line(page, "--limit"), "(100)");
    assert_null(strstr(page, "--lease"));
    free(page);
    /* Where verbs differ, the noun's page claims nothing. */
    page = print_page(NULL);
    assert_null(strchr(find_line(page, "--limit"), '('));
    assert_contains(find_line(page, "--lease"), "(5m)");
    assert_contains(page, "renew ID=TOKEN...");
    free(page);
}

static void options_stand_before_the_command_in_the_usage(void **state)
{
    (void)state;
    char *page = print_page(tide_cli_find_verb(&job, "run"));
    assert_contains(page, "Usage: tidemark job run --type TYPE [options] -- CMD...\n");
    free(page);
    page = print_page(tide_cli_find_verb(&job, "wrap"));
    assert_contains(page, "Usage: tidemark job wrap NAME [options] [-- CMD...]\n");
    free(page);
}

static void no_line_of_any_option_is_wider_than_a_page(void **state)
{
    (void)state;
    static tide_cli_option_id all[TIDE_CLI_OPTION_COUNT + 1];
    for (int id = 0; id <= TIDE_CLI_OPTION_COUNT; id++)
        all[id] = (tide_cli_option_id)id;
    const tide_cli_verb verb = {.name = "all", .takes = all, .summary = "takes everything"};
    char *page = print_page(&verb);
    for (const char *line = page; *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > 100)
            fail_msg("wider than 100: %.*s", (int)strcspn(line, "\n"), line);
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++)
        assert_contains(page, tide_cli_options[id].name);
    free(page);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hidden_command_is_found_and_not_suggested),
        cmocka_unit_test(a_command_behind_two_dashes_is_handed_over_untouched),
        cmocka_unit_test(a_command_may_have_thousands_of_words),
        cmocka_unit_test(a_command_that_is_missing_is_asked_for),
        cmocka_unit_test(elsewhere_two_dashes_only_end_the_options),
        cmocka_unit_test(arguments_are_counted_from_their_names),
        cmocka_unit_test(many_arguments_are_one_or_more),
        cmocka_unit_test(a_mistyped_option_is_looked_for_in_its_verb),
        cmocka_unit_test(the_hint_fits_the_mistake),
        cmocka_unit_test(a_time_option_is_resolved_by_the_clock_that_counts),
        cmocka_unit_test(a_page_shows_what_differs_for_its_verb),
        cmocka_unit_test(options_stand_before_the_command_in_the_usage),
        cmocka_unit_test(no_line_of_any_option_is_wider_than_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
