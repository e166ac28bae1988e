/* The status board of a colony: who fails, who is silent, whose series stay, what is logged. */
#include "services/colony/status_board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/clock/virtual_env.h"

#define SECOND_US INT64_C(1000000)

typedef struct fixture {
    virtual_env clock;
    tide_board *board;
    tide_log log;
    FILE *file;
    char *lines;
    size_t lines_len;
    tide_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    virtual_env_init(&f->clock, 1);
    f->file = open_memstream(&f->lines, &f->lines_len);
    assert_non_null(f->file);
    tide_log_init(&f->log, f->file, &f->clock.env, TIDE_LOG_LOGFMT, TIDE_LOG_INFO);
    assert_ok_err(tide_board_new(&f->board, &f->clock.env, &f->log, &f->err), &f->err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tide_board_free(f->board);
    (void)fclose(f->file);
    free(f->lines);
    virtual_env_done(&f->clock);
    free(f);
    return 0;
}

static int count_lines(fixture *f, const char *text)
{
    int count = 0;
    (void)fflush(f->file);
    for (const char *at = f->lines; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

static tide_board_state look(fixture *f, const char *agent_id)
{
    tide_board_state state;
    assert_true(tide_board_find(f->board, agent_id, &state));
    return state;
}

static tide_agent_row judge(fixture *f, const char *agent_id, tide_agent_health health)
{
    tide_agent_row row = {.health = health};
    (void)snprintf(row.agent_id, sizeof row.agent_id, "%s", agent_id);
    tide_board_judge(f->board, &row);
    return row;
}

/* ---- lag ---- */

typedef struct lag_of {
    const char *agent_id;
    int64_t lag_us;
    int count;
} lag_of;

static void keep_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    lag_of *l = arg;
    if (strcmp(agent_id, l->agent_id) != 0)
        return;
    l->lag_us = lag->lag_us;
    l->count++;
}

static lag_of get_lag(fixture *f, const char *agent_id)
{
    lag_of l = {.agent_id = agent_id};
    tide_board_lags(f->board, keep_lag, &l);
    return l;
}

/* An agent that died shows no unread record, and its lag grows all the same. */
static void lag_grows_while_nothing_is_proven(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_put_stream(f->board, "web-1", "telemetry", 7, 7, 0);
    virtual_env_advance(&f->clock, 60 * SECOND_US);
    assert_int_equal(60 * SECOND_US, get_lag(f, "web-1").lag_us);
    tide_board_end(f->board, agent);
}

/* The lease is gone with the store; the series stay until the store names another holder. */
static void series_stay_without_a_slot_and_go_with_another_holder(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_put_stream(f->board, "web-1", "telemetry", 7, 7, 0);
    tide_board_end(f->board, agent);
    virtual_env_advance(&f->clock, 600 * SECOND_US);
    assert_int_equal(1, get_lag(f, "web-1").count);
    assert_int_equal(600 * SECOND_US, get_lag(f, "web-1").lag_us);
    tide_board_drop(f->board, "web-1");
    assert_int_equal(0, get_lag(f, "web-1").count);
    tide_board_state none;
    assert_false(tide_board_find(f->board, "web-1", &none));
}

/* The slot is told to leave a moment later. */
static void an_agent_that_is_dropped_with_a_slot_goes_with_it(void **state)
{
    fixture *f = *state;
    tide_board_state none;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_drop(f->board, "web-1");
    assert_true(tide_board_find(f->board, "web-1", &none));
    tide_board_end(f->board, agent);
    assert_false(tide_board_find(f->board, "web-1", &none));
    agent = tide_board_begin(f->board, "web-1");
    tide_board_drop(f->board, "web-1");
    assert_ptr_equal(agent, tide_board_begin(f->board, "web-1")); /* it is ours again */
    tide_board_end(f->board, agent);
    tide_board_end(f->board, agent);
    assert_true(tide_board_find(f->board, "web-1", &none));
}

/* A stream that only the store knows belongs to an agent of ours, or to none here. */
static void streams_of_agents_that_are_polled_elsewhere_are_not_shown(void **state)
{
    fixture *f = *state;
    tide_board_put_stream(f->board, "web-9", "telemetry", 7, 7, 0);
    assert_int_equal(0, get_lag(f, "web-9").count);
}

/* ---- health ---- */

static void an_agent_that_fails_is_not_healthy_until_it_succeeds(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_succeeded(f->board, agent);
    assert_int_equal(TIDE_AGENT_HEALTHY, judge(f, "web-1", TIDE_AGENT_HEALTHY).health);
    tide_board_failed(f->board, agent, "came with token 3 after 4");
    const tide_agent_row row = judge(f, "web-1", TIDE_AGENT_HEALTHY);
    assert_int_equal(TIDE_AGENT_DEGRADED, row.health);
    assert_string_equal("came with token 3 after 4", row.error);
    assert_true(tide_board_is_failing(f->board, agent));
    virtual_env_advance(&f->clock, TIDE_AGENT_DEGRADED_US);
    assert_int_equal(TIDE_AGENT_AWAY, judge(f, "web-1", TIDE_AGENT_HEALTHY).health);
    tide_board_succeeded(f->board, agent);
    assert_int_equal(TIDE_AGENT_HEALTHY, judge(f, "web-1", TIDE_AGENT_AWAY).health);
    tide_board_end(f->board, agent);
}

static void an_agent_that_does_not_answer_for_two_periods_is_silent(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_succeeded(f->board, agent);
    tide_board_asked(f->board, agent, 4 * SECOND_US);
    virtual_env_advance(&f->clock, 8 * SECOND_US);
    assert_false(look(f, "web-1").is_bad);
    virtual_env_advance(&f->clock, SECOND_US);
    assert_true(look(f, "web-1").is_bad);
    const tide_agent_row row = judge(f, "web-1", TIDE_AGENT_HEALTHY);
    assert_int_equal(TIDE_AGENT_DEGRADED, row.health);
    assert_string_equal("silent for 9 s", row.error);
    tide_board_answered(f->board, agent);
    assert_false(look(f, "web-1").is_bad);
    tide_board_end(f->board, agent);
}

/* What the colony itself does with an answer, however long, is no silence of the agent. */
static void an_agent_is_not_silent_while_its_answer_is_stored(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    tide_board_asked(f->board, agent, 4 * SECOND_US);
    tide_board_answered(f->board, agent);
    virtual_env_advance(&f->clock, 3600 * SECOND_US);
    assert_int_equal(0, look(f, "web-1").silent_us);
    tide_board_end(f->board, agent);
}

/* ---- the log ---- */

static void failure_and_recovery_are_logged_once_each(void **state)
{
    fixture *f = *state;
    tide_board_agent *agent = tide_board_begin(f->board, "web-1");
    for (int i = 0; i < 10; i++) {
        tide_board_failed(f->board, agent, "connection refused");
        tide_board_log(f->board);
        virtual_env_advance(&f->clock, SECOND_US);
    }
    assert_int_equal(1, count_lines(f, "agent failed"));
    assert_int_equal(1, count_lines(f, "connection refused"));
    tide_board_succeeded(f->board, agent);
    tide_board_log(f->board);
    tide_board_log(f->board);
    assert_int_equal(1, count_lines(f, "agent recovered"));
    assert_int_equal(1, count_lines(f, "after_seconds=10"));
    tide_board_end(f->board, agent);
}

/* A switch fails, and two thousand agents with it. */
static void many_at_once_are_one_line_a_minute(void **state)
{
    enum { AGENTS = 2000 };
    fixture *f = *state;
    static tide_board_agent *agents[AGENTS];
    for (int i = 0; i < AGENTS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "web-%d", i);
        agents[i] = tide_board_begin(f->board, name);
        tide_board_failed(f->board, agents[i], "no route to host");
    }
    for (int second = 0; second < 61; second++) {
        tide_board_log(f->board);
        virtual_env_advance(&f->clock, SECOND_US);
    }
    assert_int_equal(TIDE_BOARD_LINES, count_lines(f, "\"agent failed\""));
    assert_int_equal(1, count_lines(f, "further agents"));
    assert_int_equal(1, count_lines(f, "failed=1995"));
    for (int i = 0; i < AGENTS; i++)
        tide_board_succeeded(f->board, agents[i]);
    for (int second = 0; second < 61; second++) {
        tide_board_log(f->board);
        virtual_env_advance(&f->clock, SECOND_US);
    }
    assert_int_equal(0, count_lines(f, "\"agent recovered\""));
    assert_int_equal(1, count_lines(f, "recovered=2000"));
    for (int i = 0; i < AGENTS; i++)
        tide_board_end(f->board, agents[i]);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(lag_grows_while_nothing_is_proven),
        CASE(series_stay_without_a_slot_and_go_with_another_holder),
        CASE(an_agent_that_is_dropped_with_a_slot_goes_with_it),
        CASE(streams_of_agents_that_are_polled_elsewhere_are_not_shown),
        CASE(an_agent_that_fails_is_not_healthy_until_it_succeeds),
        CASE(an_agent_that_does_not_answer_for_two_periods_is_silent),
        CASE(an_agent_is_not_silent_while_its_answer_is_stored),
        CASE(failure_and_recovery_are_logged_once_each),
        CASE(many_at_once_are_one_line_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
