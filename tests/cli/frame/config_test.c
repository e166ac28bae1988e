/* Settings from command line, environment and file: which one counts, and how a mistake is told. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/frame/options.h"
#include "support/check.h"
#include "support/tempdir.h"

enum { WORDS_MAX = 20 };

static const tide_cli_takes daemon_verb = {
    .takes = TIDE_CLI_LIST(CONFIG, TASK, COUNT, LEASE, FORCE, TAG, POLICY)};
static const tide_cli_takes plain_verb = {.takes = TIDE_CLI_LIST(TASK, COUNT, FORCE)};

typedef struct config_test {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_cli_args words;
    tide_error err;
} config_test;

static int setup(void **state)
{
    config_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "agent.conf", t->path);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    config_test *t = *state;
    static const char *const names[] = {"TIDEMARK_TASK", "TIDEMARK_COUNT", "TIDEMARK_FORCE",
                                        "TIDEMARK_TAG", "TIDEMARK_CONFIG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(0, unsetenv(names[i]));
    tide_cli_args_done(&t->words);
    (void)tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

static void write_config(const config_test *t, const char *text)
{
    FILE *out = fopen(t->path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(0, fclose(out));
}

/* Further words behind "--config PATH"; NULL at the end. */
static tide_status settle(config_test *t, const tide_cli_takes *takes, ...)
{
    static char program[] = "tidemark";
    static char option[] = "--config";
    char *argv[WORDS_MAX + 4] = {program};
    int argc = 1;
    va_list list;
    if (takes == &daemon_verb) {
        argv[argc++] = option;
        argv[argc++] = t->path;
    }
    va_start(list, takes);
    while ((argv[argc] = va_arg(list, char *)) != NULL)
        argc++;
    va_end(list);
    tide_cli_args_done(&t->words);
    TIDE_TRY(tide_cli_args_parse(&t->words, argc, argv, &t->err));
    return tide_cli_args_resolve(&t->words, takes, &t->err);
}

static void the_file_counts_before_the_default(void **state)
{
    config_test *t = *state;
    write_config(t, "# settings\ntask = from-file\nlease = 90s\nforce = true\npolicy = rerun\n");
    assert_ok_err(settle(t, &daemon_verb, NULL), &t->err);
    assert_string_equal("from-file", t->words.text[TIDE_CLI_TASK]);
    assert_int_equal(90000000, t->words.number[TIDE_CLI_LEASE]);
    assert_true(t->words.given[TIDE_CLI_FORCE]);
    assert_int_equal(1, t->words.number[TIDE_CLI_POLICY]);
    assert_int_equal(1, t->words.number[TIDE_CLI_COUNT]); /* the table's */
}

static void the_environment_counts_before_the_file(void **state)
{
    config_test *t = *state;
    write_config(t, "task = from-file\ncount = 5\nforce = true\ntag = a\ntag = b\n");
    assert_int_equal(0, setenv("TIDEMARK_TASK", "from-environment", 1));
    assert_int_equal(0, setenv("TIDEMARK_FORCE", "false", 1));
    assert_int_equal(0, setenv("TIDEMARK_TAG", "c", 1));
    assert_int_equal(0, setenv("TIDEMARK_COUNT", "", 1)); /* empty is not there */
    assert_ok_err(settle(t, &daemon_verb, NULL), &t->err);
    assert_string_equal("from-environment", t->words.text[TIDE_CLI_TASK]);
    assert_false(t->words.given[TIDE_CLI_FORCE]);
    assert_int_equal(5, t->words.number[TIDE_CLI_COUNT]);
    assert_int_equal(1, t->words.list[TIDE_CLI_TAG].count);
    assert_string_equal("c", t->words.list[TIDE_CLI_TAG].items[0]);
}

static void the_command_line_counts_before_all(void **state)
{
    config_test *t = *state;
    write_config(t, "task = from-file\nforce = false\ntag = a\ntag = b\n");
    assert_int_equal(0, setenv("TIDEMARK_TASK", "from-environment", 1));
    assert_int_equal(0, setenv("TIDEMARK_FORCE", "false", 1));
    assert_ok_err(settle(t, &daemon_verb, "--task", "from-words", "--force", "--tag", "x", NULL),
                  &t->err);
    assert_string_equal("from-words", t->words.text[TIDE_CLI_TASK]);
    assert_true(t->words.given[TIDE_CLI_FORCE]);
    assert_int_equal(1, t->words.list[TIDE_CLI_TAG].count);
    assert_string_equal("x", t->words.list[TIDE_CLI_TAG].items[0]);
}

static void what_collects_may_stand_in_several_lines(void **state)
{
    config_test *t = *state;
    write_config(t, "tag = a\ncount = 2\ntag = b\ntag = a\n");
    assert_ok_err(settle(t, &daemon_verb, NULL), &t->err);
    assert_int_equal(3, t->words.list[TIDE_CLI_TAG].count);
    assert_string_equal("b", t->words.list[TIDE_CLI_TAG].items[1]);
}

/* A verb without --config is not touched by TIDEMARK_COUNT. */
static void other_verbs_look_at_their_own_variables_only(void **state)
{
    config_test *t = *state;
    assert_int_equal(0, setenv("TIDEMARK_COUNT", "77", 1));
    assert_int_equal(0, setenv("TIDEMARK_FORCE", "true", 1));
    assert_ok_err(settle(t, &plain_verb, NULL), &t->err);
    assert_int_equal(1, t->words.number[TIDE_CLI_COUNT]);
    assert_false(t->words.given[TIDE_CLI_FORCE]);
}

static void the_file_may_be_named_by_the_environment(void **state)
{
    config_test *t = *state;
    static char program[] = "tidemark";
    char *argv[] = {program, NULL};
    write_config(t, "task = x\n");
    assert_int_equal(0, setenv("TIDEMARK_CONFIG", t->path, 1));
    assert_ok_err(tide_cli_args_parse(&t->words, 1, argv, &t->err), &t->err);
    assert_ok_err(tide_cli_args_resolve(&t->words, &daemon_verb, &t->err), &t->err);
    assert_string_equal("x", t->words.text[TIDE_CLI_TASK]);
}

static void mistakes_are_told_where_they_stand(void **state)
{
    config_test *t = *state;
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"task = a\ncuont = 3\n", "agent.conf:2: unknown option 'cuont'; count is meant?"},
        {"\nzebra = 3\n", "agent.conf:2: unknown option 'zebra'"},
        {"limit = 3\n", "agent.conf:1: limit means nothing here"},
        {"json = true\n", "agent.conf:1: json means nothing here"},
        {"config = other\n", "agent.conf:1: config means nothing here"},
        {"task = a\ntask = b\n", "agent.conf:2: task is set twice, first in line 1"},
        {"count = many\n", "agent.conf:1: count 'many' is not a whole number"},
        {"count = 0\n", "agent.conf:1: count 0 is out of range"},
        {"force = yes\n", "agent.conf:1: force 'yes' is neither true nor false"},
        {"policy = none\n", "agent.conf:1: policy 'none' is none of"},
        {"task\n", "agent.conf:1: want NAME = VALUE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_config(t, rows[i].text);
        assert_status_err(TIDE_E_INVALID, settle(t, &daemon_verb, NULL), &t->err);
        assert_contains(t->err.text, rows[i].words);
        assert_true(t->words.has_bad_value);
    }
    assert_int_equal(0, setenv("TIDEMARK_COUNT", "many", 1));
    write_config(t, "");
    assert_status(TIDE_E_INVALID, settle(t, &daemon_verb, NULL));
    assert_contains(t->err.text, "TIDEMARK_COUNT 'many'");
    assert_int_equal(0, remove(t->path));
    assert_status(TIDE_E_NOT_FOUND, settle(t, &daemon_verb, NULL));
}

/* TIDEMARK_OLDER_THAN is --older-than: the variable is made of the row's id, the file uses its name. */
static void the_id_of_every_option_is_its_name(void **state)
{
    (void)state;
    for (int id = 0; id < TIDE_CLI_OPTION_COUNT; id++) {
        char name[64];
        const char *variable = tide_cli_options[id].own_environment;
        assert_int_equal(0, strncmp(variable, "TIDEMARK_", 9));
        (void)snprintf(name, sizeof name, "%s", variable + 9);
        for (char *at = name; *at; at++)
            *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
        assert_string_equal(tide_cli_options[id].name, name);
    }
}

#define CONFIG_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CONFIG_CASE(the_file_counts_before_the_default),
        CONFIG_CASE(the_environment_counts_before_the_file),
        CONFIG_CASE(the_command_line_counts_before_all),
        CONFIG_CASE(what_collects_may_stand_in_several_lines),
        CONFIG_CASE(other_verbs_look_at_their_own_variables_only),
        CONFIG_CASE(the_file_may_be_named_by_the_environment),
        CONFIG_CASE(mistakes_are_told_where_they_stand),
        CONFIG_CASE(the_id_of_every_option_is_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
