/* tidemark context: places by name, which of them counts, and whom a file is believed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli_run.h"

/* No store in the environment, contexts in the case's directory. */
static int setup(void **state)
{
    if (cli_setup(state) != 0)
        return -1;
    cli_fixture *t = *state;
    static char config[TEMPDIR_PATH_MAX + 32];
    snprintf(config, sizeof config, "XDG_CONFIG_HOME=%s/config", t->dir.path);
    t->env[1] = "TIDEMARK_STORE";
    t->env[3] = config;
    return 0;
}

#define CONTEXT_TEST(function)                                                                     \
    {                                                                                              \
#function, function, setup, cli_teardown, (void *)"sqlite"                                 \
    }

static void add(cli_fixture *t, const char *name, const char *option, const char *value)
{
    assert_int_equal(0, cli_run(t, "context", "add", name, option, value, NULL).exit_code);
}

static void a_context_in_use_is_where_commands_go(void **state)
{
    cli_fixture *t = *state;
    add(t, "here", "--store", "a.db");
    assert_int_equal(0, cli_run(t, "context", "use", "here", NULL).exit_code);
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "x", NULL).out);
    assert_string_equal("2\n", cli_run(t, "--store", "a.db", "sequence", "next", "x", NULL).out);
    assert_string_equal("here: left\n", cli_run(t, "context", "leave", NULL).out);
    const cli_result gone = cli_run(t, "sequence", "show", "x", NULL);
    cli_assert_fails(&gone, TIDE_EXIT_NOT_FOUND);
}

/* --context, else a store that is named, else $TIDEMARK_CONTEXT, else the one in use. */
static void the_nearest_word_counts(void **state)
{
    cli_fixture *t = *state;
    add(t, "a", "--store", "a.db");
    add(t, "b", "--store", "b.db");
    assert_int_equal(0, cli_run(t, "context", "use", "a", NULL).exit_code);
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "x", NULL).out);
    t->env[4] = "TIDEMARK_CONTEXT=b";
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "x", NULL).out);
    t->env[1] = "TIDEMARK_STORE=c.db";
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "x", NULL).out);
    assert_string_equal("2\n", cli_run(t, "sequence", "next", "x", "--context", "a", NULL).out);
    const cli_result two =
        cli_run(t, "sequence", "next", "x", "--context", "a", "--store", "b.db", NULL);
    cli_assert_fails(&two, TIDE_EXIT_USAGE);
    assert_contains(two.err, "--context and --store name two places");
}

static void a_service_is_no_store(void **state)
{
    cli_fixture *t = *state;
    add(t, "far", "--address", "127.0.0.1:1");
    const cli_result opened = cli_run(t, "sequence", "next", "x", "--context", "far", NULL);
    cli_assert_fails(&opened, TIDE_EXIT_USAGE);
    assert_contains(opened.err, "names a service");
    const cli_result asked = cli_run(t, "status", "--context", "far", NULL);
    cli_assert_fails(&asked, TIDE_EXIT_UNAVAILABLE);
    assert_contains(asked.err, "127.0.0.1:1");
    const cli_result both =
        cli_run(t, "status", "--store", "a.db", "--address", "127.0.0.1:1", NULL);
    cli_assert_fails(&both, TIDE_EXIT_USAGE);
    char *files = cli_list_files(t);
    assert_string_equal("config ", files);
    free(files);
}

/* What a context shows to its service is not shown elsewhere. */
static void a_token_goes_to_its_own_place_only(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "context", "add", "far", "--address", "127.0.0.1:1",
                                "--token-file", "no-such-file", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    cli_write_file(t, "token", "secret\n", 7);
    result = cli_run(t, "context", "add", "far", "--address", "10.1.2.3:1", "--token-file", "token",
                     NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE); /* without TLS, to another machine */
    result = cli_run(t, "context", "add", "far", "--address", "127.0.0.1:1", "--token-file",
                     "token", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(0, cli_run(t, "context", "use", "far", NULL).exit_code);
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "token", path);
    assert_int_equal(0, unlink(path)); /* whoever wants to show it fails */
    result = cli_run(t, "check", "lag", NULL);
    assert_contains(result.out, path);
    result = cli_run(t, "check", "lag", "--address", "[::1]:1", NULL);
    assert_null(strstr(result.out, path));
    assert_contains(result.out, "connect");
}

/* A store in the environment is looked at, though the context in use has an address. */
static void a_store_that_is_named_counts_before_the_address_in_use(void **state)
{
    cli_fixture *t = *state;
    add(t, "far", "--address", "127.0.0.1:1");
    assert_int_equal(0, cli_run(t, "context", "use", "far", NULL).exit_code);
    assert_int_equal(TIDE_EXIT_UNAVAILABLE, cli_run(t, "status", NULL).exit_code);
    assert_int_equal(TIDE_EXIT_NOT_FOUND, cli_run(t, "status", "-s", "a.db", NULL).exit_code);
    t->env[1] = "TIDEMARK_STORE=a.db";
    assert_int_equal(TIDE_EXIT_NOT_FOUND, cli_run(t, "status", NULL).exit_code);
}

static void what_is_kept_is_private_and_shown_without_passwords(void **state)
{
    cli_fixture *t = *state;
    char path[TEMPDIR_PATH_MAX];
    struct stat found;
    add(t, "pg", "--store", "postgres://me:secret@db/x");
    cli_path(t, "config/tidemark/contexts/pg", path);
    assert_int_equal(0, stat(path, &found));
    assert_int_equal(0600, found.st_mode & 0777);
    cli_result result = cli_run(t, "context", "ls", NULL);
    assert_null(strstr(result.out, "secret"));
    result = cli_run(t, "context", "show", "pg", "--json", NULL);
    assert_null(strstr(result.out, "secret"));
    tide_json_node *object = cli_json(&result);
    assert_string_equal("pg", json_text(object, "name"));
    assert_string_equal("postgres://me:*@db/x", json_text(object, "store"));
    tide_json_tree_free(object);
    assert_int_equal(0, chmod(path, 0666));
    result = cli_run(t, "sequence", "next", "x", "--context", "pg", NULL);
    cli_assert_fails(&result, TIDE_EXIT_DENIED);
    assert_contains(result.err, "chmod 600");
}

static void names_are_checked_and_kept_once(void **state)
{
    cli_fixture *t = *state;
    add(t, "a", "--store", "a.db");
    cli_result result = cli_run(t, "context", "add", "a", "--store", "b.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
    result = cli_run(t, "context", "add", "a", "--store", "b.db", "--force", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(cli_run(t, "context", "ls", NULL).out, "/b.db");
    result = cli_run(t, "context", "add", "../a", "--store", "b.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "context", "add", "b", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "context", "add", "b", "--store", "with\"quote.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "context", "use", "nobody", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "sequence", "next", "x", "--context", "nobody", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "context ls");
}

/* Also the one in use: commands then stand where they stood before. */
static void a_removed_context_is_in_use_no_longer(void **state)
{
    cli_fixture *t = *state;
    add(t, "a", "--store", "a.db");
    assert_int_equal(0, cli_run(t, "context", "use", "a", NULL).exit_code);
    assert_contains(cli_run(t, "context", "show", NULL).out, "(in use)");
    assert_string_equal("a: removed\n", cli_run(t, "context", "remove", "a", NULL).out);
    assert_int_equal(TIDE_EXIT_NOT_FOUND, cli_run(t, "context", "show", NULL).exit_code);
    assert_int_equal(TIDE_EXIT_NOT_FOUND, cli_run(t, "context", "ls", NULL).exit_code);
    assert_string_equal("1\n", cli_run(t, "sequence", "next", "x", NULL).out);
}

/* A file that somebody has spoilt stops commands, with its line; help and the way out still work. */
static void a_damaged_context_is_told_by_its_line(void **state)
{
    cli_fixture *t = *state;
    add(t, "a", "--store", "a.db");
    assert_int_equal(0, cli_run(t, "context", "use", "a", NULL).exit_code);
    cli_write_file(t, "config/tidemark/contexts/a", "store = x.db\nkeep-for = 1h\n", 27);
    cli_result result = cli_run(t, "sequence", "next", "x", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "contexts/a:2: keep-for");
    assert_int_equal(0, cli_run(t, "help", NULL).exit_code);
    assert_int_equal(0, cli_run(t, "context", "remove", "a", NULL).exit_code);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(a_context_in_use_is_where_commands_go),
        CONTEXT_TEST(the_nearest_word_counts),
        CONTEXT_TEST(a_service_is_no_store),
        CONTEXT_TEST(a_token_goes_to_its_own_place_only),
        CONTEXT_TEST(a_store_that_is_named_counts_before_the_address_in_use),
        CONTEXT_TEST(what_is_kept_is_private_and_shown_without_passwords),
        CONTEXT_TEST(names_are_checked_and_kept_once),
        CONTEXT_TEST(a_removed_context_is_in_use_no_longer),
        CONTEXT_TEST(a_damaged_context_is_told_by_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
