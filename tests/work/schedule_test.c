/* Schedules: one item per time, whoever sweeps; missed times are made up by one. */
#include "work/work_fixture.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
