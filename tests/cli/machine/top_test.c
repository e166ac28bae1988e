/* tidemark top: on a real terminal, which is as it was when it ends, however it ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/colony/colony_calls.h"
#include "cli/machine/terminal.h"

/* What the program writes when it gives the screen back. */
static const char BACK[] = "\033[?25h\033[?1049l";

/* One store for all cases: three agents, one of them ahead of the colony. */
static cli_fixture *shared;

static void add_work(const char *type)
{
    const cli_result added = cli_run(shared, "work", "add", "--task", "post", "--type", type, NULL);
    assert_int_equal(0, added.exit_code);
}

static int group_setup(void **state)
{
    *state = (void *)"sqlite";
    if (cli_setup(state) != 0)
        return -1;
    shared = *state;
    const running_agent *agent = start_agent(shared, "web-1");
    send_spans(agent, 3);
    poll_once(shared, agent, "web-1");
    kill_all(shared);
    cli_sql(shared, "store.db",
            "INSERT INTO colony_agents (agent_id, address, origin, added_at) VALUES "
            "('b-agent', '127.0.0.1:1', 'operator', '2026-01-01 00:00:00.000000'), "
            "('bad\x1b[31mname', '127.0.0.1:2', 'operator', '2026-01-01 00:00:00.000000');"
            "UPDATE polling_checkpoints SET head_seq_id = 10, version = version + 1 WHERE "
            "data_type = 'telemetry';");
    assert_int_equal(0,
                     cli_run(shared, "task", "create", "post", "--task", "post", NULL).exit_code);
    add_work("mail");
    return 0;
}

static int group_teardown(void **state)
{
    *state = shared;
    kill_all(shared);
    return cli_teardown(state);
}

static void start(terminal *screen, int rows, int columns)
{
    const char *const argv[] = {shared->program, "top", "--every", "1h", NULL};
    terminal_start(screen, shared, rows, columns, argv);
    terminal_wait_for(screen, "?: help");
}

static void one_frame_is_plain_text(void **state)
{
    (void)state;
    const cli_result once = cli_run(shared, "top", "--once", NULL);
    assert_int_equal(0, once.exit_code);
    assert_contains(once.out, "FLEET  3 agents, by name\n");
    assert_contains(once.out, "\nweb-1");
    assert_contains(once.out, "GAPS  0 open\n");
    assert_contains(once.out, "mail ");
    assert_contains(once.out, "STORE  ");
    assert_null(strchr(once.out, '\033')); /* nor of an agent's name */
    const cli_result piped = cli_run(shared, "top", NULL);
    assert_contains(piped.out, "FLEET  3 agents");
    const cli_result sorted = cli_run(shared, "top", "--once", "--sort", "behind", NULL);
    assert_contains(sorted.out, "by records behind\n");
    assert_true(strstr(sorted.out, "\nweb-1") < strstr(sorted.out, "\nb-agent"));
}

static void json_has_the_same(void **state)
{
    (void)state;
    const cli_result result = cli_run(shared, "top", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    const tide_json_node *fleet = tide_json_node_find(object, "fleet");
    assert_int_equal(3, tide_json_node_count(tide_json_node_find(fleet, "agents")));
    assert_int_equal(0, tide_json_node_count(tide_json_node_find(object, "gaps")));
    const tide_json_node *items = tide_json_node_find(tide_json_node_find(object, "work"), "items");
    assert_string_equal("mail", json_text(tide_json_node_at(items, 0), "work_type"));
    assert_true(json_number(tide_json_node_find(object, "store"), "bytes") > 0);
    tide_json_tree_free(object);
}

static void what_cannot_be_opened_is_told_without_a_screen(void **state)
{
    (void)state;
    const cli_result missing = cli_run(shared, "top", "--store", "missing.db", NULL);
    cli_assert_fails(&missing, TIDE_EXIT_NOT_FOUND);
    const cli_result every = cli_run(shared, "top", "--every", "2h", NULL);
    cli_assert_fails(&every, TIDE_EXIT_USAGE);
}

static void keys_sort_choose_and_end(void **state)
{
    (void)state;
    terminal screen;
    start(&screen, 24, 100);
    terminal_type(&screen, "s");
    terminal_wait_for(&screen, "by records behind");
    terminal_type(&screen, "S");
    terminal_wait_for(&screen, "by name");
    terminal_type(&screen, "R");
    terminal_wait_for(&screen, "by name, reversed");
    terminal_type(&screen, "?");
    terminal_wait_for(&screen, "any key: back");
    terminal_type(&screen, "x");
    terminal_wait_for(&screen, "?: help");
    terminal_type(&screen, "3");
    terminal_wait_for(&screen, "lost with a reason\033[0m\033[K\r\r\n\033[1mWORK"); /* alone */
    terminal_type(&screen, "\033");                                                 /* Esc */
    terminal_wait_for(&screen, "FLEET");
    terminal_type(&screen, "p");
    terminal_wait_for(&screen, "PAUSED");
    terminal_type(&screen, "q");
    assert_int_equal(0, terminal_end(&screen));
    terminal_wait_for(&screen, BACK);
    assert_true(terminal_is_restored(&screen));
    terminal_done(&screen);
}

/* A store that changes is seen when somebody wants to look. */
static void a_new_look_shows_what_is_new(void **state)
{
    (void)state;
    terminal screen;
    start(&screen, 24, 100);
    add_work("letters");
    terminal_type(&screen, "r");
    terminal_wait_for(&screen, "letters");
    terminal_type(&screen, "q");
    assert_int_equal(0, terminal_end(&screen));
    terminal_done(&screen);
}

static void another_size_is_drawn_anew(void **state)
{
    (void)state;
    terminal screen;
    start(&screen, 24, 100);
    terminal_resize(&screen, 12, 20);
    terminal_wait_for(&screen, "\033[12;1H");                  /* the foot is in the last row */
    terminal_wait_for(&screen, "?: help  q: end  s: \033[0m"); /* and cut */
    terminal_resize(&screen, 1, 1);                            /* nothing fits, nothing breaks */
    terminal_wait_for(&screen, "\033[1;1H");
    terminal_resize(&screen, 40, 120);
    terminal_wait_for(&screen, "\033[40;1H");
    terminal_type(&screen, "\033[B\033[6~\033[Fq");
    assert_int_equal(0, terminal_end(&screen));
    terminal_done(&screen);
}

/* The last figures stay, and the foot says why there are no newer ones. */
static void a_service_that_goes_away_is_told(void **state)
{
    (void)state;
    terminal screen;
    running_agent *colony = start_colony(shared, NULL);
    const char *const argv[] = {shared->program, "top",        "--every", "1h",
                                "--address",     colony->http, NULL};
    terminal_start(&screen, shared, 24, 100, argv);
    terminal_wait_for(&screen, "WORK  not served there"); /* a colony alone has no work items */
    terminal_wait_for(&screen, "?: help");
    kill_all(shared);
    terminal_type(&screen, "r");
    terminal_wait_for(&screen, "FAILED: http://");
    terminal_type(&screen, "2");
    terminal_wait_for(&screen, "GAPS");
    terminal_type(&screen, "rq"); /* also while a call is under way */
    assert_int_equal(0, terminal_end(&screen));
    terminal_done(&screen);
}

static void end_by(const char *keys, int signal, int want)
{
    terminal screen;
    start(&screen, 24, 80);
    assert_false(terminal_is_restored(&screen));
    if (keys)
        terminal_type(&screen, keys);
    else
        assert_int_equal(0, kill(screen.pid, signal));
    assert_int_equal(want, terminal_end(&screen));
    terminal_wait_for(&screen, BACK);
    assert_true(terminal_is_restored(&screen));
    terminal_done(&screen);
}

static void the_terminal_is_given_back_whatever_ends_it(void **state)
{
    (void)state;
    end_by("\x03", 0, TIDE_EXIT_INTERRUPTED); /* Ctrl-C */
    end_by(NULL, SIGTERM, -SIGTERM);
    end_by(NULL, SIGHUP, -SIGHUP);
    end_by(NULL, SIGSEGV, -SIGSEGV); /* a crash */
    end_by(NULL, SIGABRT, -SIGABRT);
}

/* In a shell, which alone can have jobs that stand still. */
static void a_program_that_stands_still_lends_the_terminal(void **state)
{
    (void)state;
    terminal screen;
    char line[PATH_MAX + 64];
    const char *const argv[] = {"bash", "--norc", "--noprofile", "-i", NULL};
    snprintf(line, sizeof line, "PS1='shell> '; %s top --every 1h\n", shared->program);
    terminal_start(&screen, shared, 24, 200, argv);
    terminal_type(&screen, line);
    terminal_wait_for(&screen, "?: help");
    terminal_type(&screen, "\x1a"); /* Ctrl-Z */
    terminal_wait_for(&screen, BACK);
    terminal_wait_for(&screen, "Stopped");
    terminal_type(&screen, "fg\n");
    terminal_wait_for(&screen, "\033[?1049h");
    terminal_wait_for(&screen, "FLEET");
    terminal_type(&screen, "q");
    terminal_wait_for(&screen, BACK);
    terminal_wait_for(&screen, "shell> ");
    terminal_type(&screen, "exit 7\n");
    assert_int_equal(7, terminal_end(&screen));
    terminal_done(&screen);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_frame_is_plain_text),
        cmocka_unit_test(json_has_the_same),
        cmocka_unit_test(what_cannot_be_opened_is_told_without_a_screen),
        cmocka_unit_test(keys_sort_choose_and_end),
        cmocka_unit_test(a_new_look_shows_what_is_new),
        cmocka_unit_test(another_size_is_drawn_anew),
        cmocka_unit_test(a_service_that_goes_away_is_told),
        cmocka_unit_test(the_terminal_is_given_back_whatever_ends_it),
        cmocka_unit_test(a_program_that_stands_still_lends_the_terminal),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
