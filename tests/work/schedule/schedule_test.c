/* Schedules: one item per time, whoever sweeps; missed times are made up by one. */
#include "work/work_fixture.h"

#include "base/text/timefmt.h"
#include "work/foreign/raw_sql.h"

#include <stdio.h>
#include <string.h>

static const tide_schedule_new hourly = {TIDE_SCHEDULE_NEW_INIT, .name = "hourly",
                                         .task_id = "t",         .work_type = "job",
                                         .cron = "0 * * * *",    .max_retries = -1};
static const tide_schedule_new often = {
    TIDE_SCHEDULE_NEW_INIT,     .name = "often",      .task_id = "t", .work_type = "job",
    .every_us = 10 * SECOND_US, .input = "{\"n\":1}", .priority = 2,  .max_retries = 5,
    .timeout_us = MINUTE_US};

static int64_t add_schedule(store_test *t, const tide_schedule_new *schedule)
{
    int64_t next_us = 0;
    assert_ok_err(tide_schedule_add(t->store, schedule, &next_us, &t->err), &t->err);
    return next_us - VIRTUAL_ENV_WALL_US;
}

static tide_status copy_schedule(void *arg, const tide_schedule *schedule, tide_error *err)
{
    (void)err;
    tide_schedule *out = arg;
    const bool is_paused = schedule->is_paused;
    *out = *schedule;
    out->is_paused = is_paused;
    return TIDE_OK;
}

static tide_status count_one(void *arg, const tide_schedule *schedule, tide_error *err)
{
    (void)schedule;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

/* The numbers of the only schedule; texts are gone by now. */
static tide_schedule only(store_test *t)
{
    tide_schedule s = {.every_us = -1};
    assert_ok_err(tide_schedule_list(t->store, copy_schedule, &s, &t->err), &t->err);
    return s;
}

static void an_interval_makes_an_item_each_time(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    assert_true(add_schedule(t, &often) == 10 * SECOND_US);
    assert_int_equal(0, sweep(t).scheduled);
    for (int i = 1; i <= 3; i++) {
        virtual_env_advance(&t->clock, 10 * SECOND_US);
        assert_int_equal(1, sweep(t).scheduled);
        assert_int_equal(0, sweep(t).scheduled);
        const held h = claim(t, "w");
        assert_string_equal("{\"n\":1}", h.input);
        const item_copy c = look(t, h.id);
        assert_string_equal("often", c.schedule);
        assert_int_equal(5, c.max_retries);
        assert_int_equal(2, c.priority);
        assert_true(c.timeout_us == MINUTE_US);
        assert_int_equal(i, only(t).run_count);
    }
}

static void cron_times_are_utc(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    assert_true(add_schedule(t, &hourly) == 3600 * SECOND_US);
    virtual_env_advance(&t->clock, 3600 * SECOND_US - 1);
    assert_int_equal(0, sweep(t).scheduled);
    virtual_env_advance(&t->clock, 1);
    assert_int_equal(1, sweep(t).scheduled);
    assert_true(only(t).next_run_at_us == VIRTUAL_ENV_WALL_US + 7200 * SECOND_US);
    assert_true(only(t).last_run_at_us == VIRTUAL_ENV_WALL_US + 3600 * SECOND_US);
}

/* Nobody swept for a day: one item, and the next time lies ahead. */
static void missed_times_are_made_up_by_one_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    (void)add_schedule(t, &hourly);
    virtual_env_advance(&t->clock, 24 * 3600 * SECOND_US + 600 * SECOND_US);
    assert_int_equal(1, sweep(t).scheduled);
    assert_int_equal(0, sweep(t).scheduled);
    assert_true(only(t).next_run_at_us == VIRTUAL_ENV_WALL_US + 25 * 3600 * SECOND_US);
    assert_ok(tide_schedule_remove(t->store, "hourly", &t->err));
    (void)add_schedule(t, &often);
    virtual_env_advance(&t->clock, 95 * SECOND_US);
    assert_int_equal(1, sweep(t).scheduled);
    const int64_t base_us = VIRTUAL_ENV_WALL_US + 24 * 3600 * SECOND_US + 600 * SECOND_US;
    assert_true(only(t).next_run_at_us == base_us + 100 * SECOND_US);
}

static void a_paused_schedule_makes_nothing_and_makes_up_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    (void)add_schedule(t, &often);
    assert_ok_err(tide_schedule_pause(t->store, "often", true, &t->err), &t->err);
    assert_true(only(t).is_paused);
    virtual_env_advance(&t->clock, 35 * SECOND_US);
    assert_int_equal(0, sweep(t).scheduled);
    assert_ok(tide_schedule_pause(t->store, "often", false, &t->err));
    assert_int_equal(0, sweep(t).scheduled);
    virtual_env_advance(&t->clock, 5 * SECOND_US);
    assert_int_equal(1, sweep(t).scheduled);
    assert_status(TIDE_E_NOT_FOUND, tide_schedule_pause(t->store, "none", true, &t->err));
}

static void schedules_of_an_ended_task_rest(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    (void)add_schedule(t, &often);
    tide_schedule_new other = often;
    other.name = "other";
    other.task_id = "u";
    (void)add_schedule(t, &other);
    assert_ok(tide_task_cancel(t->store, "t", &t->err));
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_int_equal(1, sweep(t).scheduled);
    tide_schedule_new late = often;
    late.name = "late";
    assert_status(TIDE_E_CONFLICT, tide_schedule_add(t->store, &late, NULL, &t->err));
}

static void the_same_schedule_given_again_is_fine(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const int64_t next_us = add_schedule(t, &often);
    virtual_env_advance(&t->clock, SECOND_US);
    assert_true(add_schedule(t, &often) == next_us);
    tide_schedule_new other = often;
    other.every_us = 20 * SECOND_US;
    assert_status(TIDE_E_EXISTS, tide_schedule_add(t->store, &other, NULL, &t->err));
    assert_ok(tide_schedule_remove(t->store, "often", &t->err));
    assert_status(TIDE_E_NOT_FOUND, tide_schedule_remove(t->store, "often", &t->err));
    assert_ok(tide_schedule_add(t->store, &other, NULL, &t->err));
}

static void many_schedules_are_listed_and_run(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    char names[120][16];
    for (int i = 0; i < 120; i++) {
        (void)snprintf(names[i], sizeof names[i], "s%03d", i);
        tide_schedule_new s = often;
        s.name = names[i];
        (void)add_schedule(t, &s);
    }
    int count = 0;
    assert_ok(tide_schedule_list(t->store, count_one, &count, &t->err));
    assert_int_equal(120, count);
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_int_equal(120, sweep(t).scheduled);
}

static void bad_schedules_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_schedule_new bad[] = {hourly, hourly, hourly, hourly, often, often, often, hourly, often};
    bad[0].cron = "61 * * * *";
    bad[1].every_us = SECOND_US;
    bad[2].cron = NULL;
    bad[3].cron = "0 0 30 2 *";
    bad[4].every_us = -1;
    bad[5].input = "nope";
    bad[6].name = "";
    bad[7].work_type = "";
    bad[8].timeout_us = 5;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status_err(TIDE_E_INVALID, tide_schedule_add(t->store, &bad[i], NULL, &t->err),
                          &t->err);
    tide_schedule_new lost = often;
    lost.task_id = "missing";
    assert_status(TIDE_E_NOT_FOUND, tide_schedule_add(t->store, &lost, NULL, &t->err));
    int count = 0;
    assert_ok(tide_schedule_list(t->store, count_one, &count, &t->err));
    assert_int_equal(0, count);
}

/* A schedule that ran while the clock was a month ahead comes with its period again once the clock is right. */
static void a_schedule_does_not_outlast_a_clock_that_was_ahead(void **state)
{
    store_test *t = *state;
    const tide_schedule_new *const both[] = {&hourly, &often};
    for (int i = 0; i < 2; i++) {
        make_task(t, i ? "u" : "t");
        tide_schedule_new wanted = *both[i];
        wanted.task_id = i ? "u" : "t";
        (void)add_schedule(t, &wanted);
        virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 30 * 86400 * SECOND_US);
        assert_int_equal(1, sweep(t).scheduled);
        virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US);
        assert_int_equal(0, sweep(t).scheduled);
        assert_int_equal(0, sweep(t).scheduled);
        const int64_t period_us = i ? 10 * SECOND_US : 3600 * SECOND_US;
        assert_true(only(t).next_run_at_us == VIRTUAL_ENV_WALL_US + period_us);
        assert_int_equal(1, only(t).run_count);
        virtual_env_advance(&t->clock, period_us);
        assert_int_equal(1, sweep(t).scheduled);
        virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US);
        assert_ok(tide_schedule_remove(t->store, both[i]->name, &t->err));
    }
}

/* ---- time zones ---- */

static void set_time(store_test *t, const char *utc)
{
    int64_t us = 0;
    assert_ok(tide_time_parse(&us, tide_view_of(utc)));
    virtual_env_set_wall(&t->clock, us);
}

static void assert_next(store_test *t, const char *utc)
{
    char text[TIDE_TIME_TEXT_SIZE];
    assert_ok(tide_time_format(only(t).next_run_at_us, text));
    assert_memory_equal(utc, text, strlen(utc));
}

static void add_local(store_test *t, const char *cron)
{
    const tide_schedule_new local = {
        TIDE_SCHEDULE_NEW_INIT,      .name = "local", .task_id = "t",
        .work_type = "job",          .cron = cron,    .max_retries = -1,
        .time_zone = "Europe/Berlin"};
    make_task(t, "t");
    (void)add_schedule(t, &local);
}

/* 02:30 does not exist on 29 March: it runs at 03:00 local, which is 01:00 UTC, and once. */
static void a_time_that_clocks_skip_runs_once_when_they_are_set_ahead(void **state)
{
    store_test *t = *state;
    set_time(t, "2027-03-27 12:00:00");
    add_local(t, "30 2 * * *");
    assert_next(t, "2027-03-28 01:00:00");
    set_time(t, "2027-03-28 01:00:01");
    assert_int_equal(1, sweep(t).scheduled);
    assert_next(t, "2027-03-29 00:30:00");
    assert_int_equal(0, sweep(t).scheduled);
}

/* 02:30 comes at 00:30 and at 01:30 UTC on 31 October. */
static void a_time_that_comes_twice_runs_once(void **state)
{
    store_test *t = *state;
    set_time(t, "2027-10-30 12:00:00");
    add_local(t, "30 2 * * *");
    assert_next(t, "2027-10-31 00:30:00");
    set_time(t, "2027-10-31 00:30:01");
    assert_int_equal(1, sweep(t).scheduled);
    assert_next(t, "2027-11-01 01:30:00");
    set_time(t, "2027-10-31 01:30:01");
    assert_int_equal(0, sweep(t).scheduled);
}

static void a_zone_that_is_not_known_is_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_schedule_new s = hourly;
    s.time_zone = "Europe/Atlantis";
    assert_status(TIDE_E_INVALID, tide_schedule_add(t->store, &s, NULL, &t->err));
    assert_non_null(strstr(t->err.text, "Europe/Atlantis"));
    s = often;
    s.time_zone = "Europe/Berlin";
    assert_status(TIDE_E_INVALID, tide_schedule_add(t->store, &s, NULL, &t->err));
}

/* Another machine may know the zone: the schedule stays due, others run, and the sweep says so. */
static void a_schedule_in_a_zone_that_is_unknown_here_is_reported(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    (void)add_schedule(t, &hourly);
    (void)add_schedule(t, &often);
    raw_sql raw;
    raw_open(&raw, t);
    raw_ok(&raw, "UPDATE work_schedules SET time_zone = 'Europe/Atlantis' "
                 "WHERE name = 'hourly'");
    raw_close(&raw);
    virtual_env_advance(&t->clock, 3600 * SECOND_US);
    const tide_work_swept swept = sweep(t);
    assert_int_equal(1, swept.scheduled);
    assert_int_equal(1, swept.skipped);
    assert_string_equal("hourly", swept.skipped_name);
}

static void an_update_changes_what_is_given(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    (void)add_schedule(t, &often);
    int64_t next_us = 0;
    const tide_schedule_change priority = {TIDE_SCHEDULE_CHANGE_INIT, .name = "often",
                                           .has_priority = true, .priority = 9};
    assert_ok_err(tide_schedule_update(t->store, &priority, &next_us, &t->err), &t->err);
    assert_true(next_us == VIRTUAL_ENV_WALL_US + 10 * SECOND_US);
    assert_int_equal(9, only(t).priority);
    assert_int_equal(5, only(t).max_retries);
    assert_true(only(t).every_us == 10 * SECOND_US);
    const tide_schedule_change rule = {TIDE_SCHEDULE_CHANGE_INIT, .name = "often",
                                       .cron = "0 * * * *", .time_zone = "Asia/Kolkata"};
    assert_ok_err(tide_schedule_update(t->store, &rule, &next_us, &t->err), &t->err);
    assert_int_equal(0, only(t).every_us);
    assert_int_equal(30 * MINUTE_US, next_us % (60 * MINUTE_US));
    const tide_schedule_change back = {TIDE_SCHEDULE_CHANGE_INIT, .name = "often",
                                       .every_us = MINUTE_US};
    assert_ok_err(tide_schedule_update(t->store, &back, &next_us, &t->err), &t->err);
    assert_true(next_us == VIRTUAL_ENV_WALL_US + MINUTE_US);
    const tide_schedule_change none = {TIDE_SCHEDULE_CHANGE_INIT, .name = "x"};
    assert_status(TIDE_E_NOT_FOUND, tide_schedule_update(t->store, &none, NULL, &t->err));
    const tide_schedule_change bad = {TIDE_SCHEDULE_CHANGE_INIT, .name = "often",
                                      .cron = "nonsense"};
    assert_status(TIDE_E_INVALID, tide_schedule_update(t->store, &bad, NULL, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(an_interval_makes_an_item_each_time),
        STORE_CASE(cron_times_are_utc),
        STORE_CASE(missed_times_are_made_up_by_one_item),
        STORE_CASE(a_paused_schedule_makes_nothing_and_makes_up_nothing),
        STORE_CASE(schedules_of_an_ended_task_rest),
        STORE_CASE(the_same_schedule_given_again_is_fine),
        STORE_CASE(many_schedules_are_listed_and_run),
        STORE_CASE(bad_schedules_are_refused),
        STORE_CASE(a_schedule_does_not_outlast_a_clock_that_was_ahead),
        STORE_CASE(a_time_that_clocks_skip_runs_once_when_they_are_set_ahead),
        STORE_CASE(a_time_that_comes_twice_runs_once),
        STORE_CASE(a_zone_that_is_not_known_is_refused),
        STORE_CASE(a_schedule_in_a_zone_that_is_unknown_here_is_reported),
        STORE_CASE(an_update_changes_what_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
