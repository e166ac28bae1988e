/* Completions in the shells themselves, and manual pages before those who read them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_run.h"

/* The script of a shell, as a file in the case's directory. */
static void make_script(cli_fixture *t, const char *shell)
{
    const cli_result script = cli_run(t, "completion", shell, NULL);
    assert_int_equal(0, script.exit_code);
    assert_string_equal("", script.err);
    cli_write_file(t, shell, script.out, strlen(script.out));
}

/* Our program is called tidemark there. */
static const char *run_shell(cli_fixture *t, const char *shell, const char *option,
                             const char *words)
{
    char path[PATH_MAX + 64];
    char *slash = strrchr(t->program, '/');
    snprintf(path, sizeof path, "PATH=%.*s:/usr/bin:/bin", (int)(slash - t->program), t->program);
    t->env[3] = path;
    const char *const argv[] = {shell, option, "-c", words, NULL};
    const proc_options options = cli_options(t, argv);
    proc_result *result = &t->results[t->result_count++];
    assert_ok_err(proc_run(result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    t->env[3] = NULL;
    if (result->exit_code != 0 || *result->err)
        fail_msg("%s ended with %d: %s", shell, result->exit_code, result->err);
    return result->out;
}

static void bash_completes_commands_verbs_options_and_values(void **state)
{
    cli_fixture *t = *state;
    make_script(t, "bash");
    const char *out = run_shell(
        t, "bash", "--norc",
        ". ./bash; t() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _tidemark; "
        "echo \"$2 $3 $4: ${COMPREPLY[*]}\"; };"
        "t tidemark sequ; t tidemark colony agent ''; t tidemark token create x --ro;"
        "t tidemark token create x --role ''; t tidemark token create x --role = w;"
        "t tidemark -s a.db gaps re; t tidemark explain E_LEASE; t tidemark help colony che;"
        "t tidemark store backup b; t tidemark sequence next sh; complete -p tidemark");
    assert_contains(out, "sequ  : sequence\n");
    assert_contains(out, "colony agent : add ls remove\n");
    assert_contains(out, "token create x: --role\n");
    assert_contains(out, "token create x: ingest read write admin\n");
    assert_contains(out, "token create x: write\n");
    assert_contains(out, "-s a.db gaps: retry\n");
    assert_contains(out, "explain E_LEASE : E_LEASE_LOST\n");
    assert_contains(out, "help colony che: checkpoint\n");
    assert_contains(out, "store backup b: bash\n");
    assert_contains(out, "sequence next sh: \n"); /* a sequence's name is not a verb */
    assert_contains(out, "complete -F _tidemark tidemark\n");
}

static void bash_knows_the_contexts(void **state)
{
    cli_fixture *t = *state;
    char config[TEMPDIR_PATH_MAX + 32];
    snprintf(config, sizeof config, "XDG_CONFIG_HOME=%s/config", t->dir.path);
    make_script(t, "bash");
    t->env[2] = config;
    assert_int_equal(0, cli_run(t, "context", "add", "prod", "--store", "p.db", NULL).exit_code);
    const char *out = run_shell(t, "bash", "--norc",
                                ". ./bash; COMP_WORDS=(tidemark status --context ''); COMP_CWORD=3;"
                                "_tidemark; echo \"${COMPREPLY[*]}\"");
    assert_string_equal("prod\n", out);
}

static void fish_completes_the_same(void **state)
{
    cli_fixture *t = *state;
    char home[TEMPDIR_PATH_MAX + 32];
    snprintf(home, sizeof home, "HOME=%s", t->dir.path);
    t->env[2] = home;
    make_script(t, "fish");
    const char *out = run_shell(
        t, "fish", "--no-config",
        "source fish; for line in sequ 'colony agent ' 'token create x --ro' "
        "'token create x --role ' 'token create x --role=w' 'explain E_LEASE' 'help colony che';"
        "echo \"= $line\"; complete -C \"tidemark $line\"; end");
    assert_contains(out, "= sequ\nsequence\tDurable numbers");
    assert_contains(out, "= colony agent \nadd\tpoll this agent");
    assert_contains(out, "= token create x --ro\n--role\trole of the token\n");
    assert_contains(out, "= token create x --role \nadmin\ningest\nread\nwrite\n");
    assert_contains(out, "= token create x --role=w\n--role=write\n");
    assert_contains(out, "E_LEASE_LOST\tlease lost\n");
    assert_contains(out, "= help colony che\ncheckpoint\n");
}

/* The completion system's own functions say what they were given. */
static void zsh_completes_the_same(void **state)
{
    cli_fixture *t = *state;
    make_script(t, "zsh");
    const char *out = run_shell(
        t, "zsh", "-f",
        "compdef() { : }; _files() { print \"files $*\" }; _message() { : }; _default() { : };"
        "compset() { : };"
        "_describe() { [[ $1 != -o ]] || shift; print -r -- \"$1 ${(P)2}\" };"
        "source ./zsh; t() { words=(\"$@\"); CURRENT=$#; print -rn -- \"$*: \"; _tidemark; };"
        "t tidemark ''; t tidemark colony agent ''; t tidemark token create x --ro;"
        "t tidemark token create x --role ''; t tidemark token create x --role=w;"
        "t tidemark store backup ''");
    assert_contains(out, "sequence:Durable numbers");
    assert_contains(out, "tidemark colony agent : command add:poll this agent");
    assert_contains(out, "--role:role of the token");
    assert_contains(out, "tidemark token create x --role : value ingest: read: write: admin:");
    assert_contains(out, "tidemark token create x --role=w: value ingest: read: write: admin:");
    assert_contains(out, "tidemark store backup : files");
}

/* A word that a person typed, completed by the Tab key. */
static void zsh_takes_the_script_as_a_completion_function(void **state)
{
    cli_fixture *t = *state;
    make_script(t, "zsh");
    const char *out =
        run_shell(t, "zsh", "-f",
                  "mkdir f; cp zsh f/_tidemark; fpath=($PWD/f $fpath); autoload -Uz compinit;"
                  "compinit -u -d $PWD/dump; print -r -- $_comps[tidemark]");
    assert_string_equal("_tidemark\n", out);
}

static void check_man(cli_fixture *t, const char *command)
{
    const int kept = t->result_count;
    const cli_result page = cli_run(t, "help", "--man", command, NULL);
    assert_int_equal(0, page.exit_code);
    assert_contains(page.out, ".SH NAME\n");
    assert_contains(page.out, "\\fB\\-\\-context\\fR");
    cli_write_file(t, "page.1", page.out, strlen(page.out));
    const char *const argv[] = {"sh", "-c",
                                "mandoc -Tlint -W warning page.1 && LC_ALL=C.UTF-8 man --warnings "
                                "-l page.1 2>&1 >page.txt && cat page.txt >&2",
                                NULL};
    const proc_options options = cli_options(t, argv);
    proc_result *result = &t->results[t->result_count++];
    assert_ok_err(proc_run(result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    if (result->exit_code != 0 || *result->out)
        fail_msg("tidemark-%s.1: %s", command ? command : "", result->out);
    assert_contains(result->err, "tidemark");
    while (t->result_count > kept)
        proc_result_done(&t->results[--t->result_count]);
}

/* One page each of the shortest, the longest, one without verbs, and the overview: the same code writes all of them. */
static void manual_pages_are_without_a_warning(void **state)
{
    cli_fixture *t = *state;
    static const char *const commands[] = {NULL, "lake", "work", "store", "sql", "check", "top"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        check_man(t, commands[i]);
    const cli_result unknown = cli_run(t, "help", "--man", "zebra", NULL);
    cli_assert_fails(&unknown, TIDE_EXIT_USAGE);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(bash_completes_commands_verbs_options_and_values),
        CLI_TEST_SQLITE(bash_knows_the_contexts),
        CLI_TEST_SQLITE(fish_completes_the_same),
        CLI_TEST_SQLITE(zsh_completes_the_same),
        CLI_TEST_SQLITE(zsh_takes_the_script_as_a_completion_function),
        CLI_TEST_SQLITE(manual_pages_are_without_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
