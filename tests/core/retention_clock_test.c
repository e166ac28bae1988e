/* retention_clock_test.c - a watermark that a wrong clock cannot carry away. */
#include "core/retention_clock.h"

#include "support/store_fixture.h"

#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)
#define DAY_US (24 * HOUR_US)

typedef struct look {
    int64_t wall_us;
    tide_retention_clock clock;
} look;

static tide_status read_clock(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    return tide_retention_clock_read(tx, "test", l->wall_us, &l->clock, err);
}

static int64_t note(store_test *t, int64_t wall_us)
{
    look l = {.wall_us = wall_us};
    assert_ok_err(tide_store_write(t->store, read_clock, &l, &t->err), &t->err);
    assert_false(l.clock.is_note_due);
    return l.clock.now_us;
}

static tide_retention_clock peek(store_test *t, int64_t wall_us)
{
    look l = {.wall_us = wall_us};
    assert_ok_err(tide_store_read(t->store, read_clock, &l, &t->err), &t->err);
    return l.clock;
}

static void it_follows_a_clock_that_is_right(void **state)
{
    store_test *t = *state;
    int64_t wall_us = VIRTUAL_ENV_WALL_US;
    assert_int_equal(wall_us, note(t, wall_us));
    for (int i = 0; i < 20; i++) {
        virtual_env_advance(&t->clock, HOUR_US);
        wall_us += HOUR_US;
        assert_int_equal(wall_us, note(t, wall_us));
    }
}

static void a_jump_ahead_is_followed_ten_times_as_fast_as_time_passes(void **state)
{
    store_test *t = *state;
    const int64_t start_us = VIRTUAL_ENV_WALL_US;
    const int64_t wall_us = start_us + 3 * DAY_US;
    assert_int_equal(start_us, note(t, start_us));
    assert_int_equal(start_us, note(t, wall_us));
    virtual_env_advance(&t->clock, MINUTE_US);
    assert_int_equal(start_us + 10 * MINUTE_US, note(t, wall_us));
    /* However often it is asked. */
    for (int i = 0; i < 10; i++) {
        virtual_env_advance(&t->clock, MINUTE_US / 10);
        assert_true(note(t, wall_us) <= start_us + 10 * MINUTE_US + (i + 1) * MINUTE_US);
    }
    assert_int_equal(start_us + 20 * MINUTE_US, peek(t, wall_us).now_us);
    virtual_env_advance(&t->clock, DAY_US);
    assert_int_equal(wall_us, note(t, wall_us));
}

static void a_boot_begins_where_the_last_one_ended(void **state)
{
    store_test *t = *state;
    const int64_t start_us = VIRTUAL_ENV_WALL_US;
    assert_int_equal(start_us, note(t, start_us));
    for (int i = 0; i < 5; i++) {
        virtual_env_advance(&t->clock, 30 * DAY_US); /* up for long */
        virtual_env_reboot(&t->clock);
        assert_true(peek(t, start_us + 9 * DAY_US).is_note_due);
        assert_int_equal(start_us, note(t, start_us + 9 * DAY_US));
        assert_false(peek(t, start_us + 9 * DAY_US).is_note_due);
    }
    virtual_env_advance(&t->clock, HOUR_US);
    assert_true(peek(t, start_us).is_note_due);
    assert_int_equal(start_us + 10 * HOUR_US, note(t, start_us + 9 * DAY_US));
}

static void a_clock_that_is_set_back_lowers_nothing(void **state)
{
    store_test *t = *state;
    const int64_t start_us = VIRTUAL_ENV_WALL_US;
    assert_int_equal(start_us, note(t, start_us));
    virtual_env_advance(&t->clock, HOUR_US);
    assert_int_equal(start_us, note(t, start_us - 9 * DAY_US));
    assert_int_equal(INT64_MAX, note(t, INT64_MAX));
    assert_int_equal(start_us, note(t, start_us));
}

/* Two machines, each with a monotonic clock of its own, are no faster than one. */
static void machines_that_share_a_store_add_nothing_up(void **state)
{
    store_test *t = *state;
    const int64_t start_us = VIRTUAL_ENV_WALL_US;
    const int64_t wall_us = start_us + 30 * DAY_US;
    char boots[2][TIDE_BOOT_ID_SIZE];
    memcpy(boots[0], t->clock.boot_id, sizeof boots[0]);
    memcpy(boots[1], t->clock.boot_id, sizeof boots[1]);
    boots[1][0] = boots[1][0] == 'a' ? 'b' : 'a';
    assert_int_equal(start_us, note(t, start_us));
    for (int i = 0; i < 60; i++) {
        virtual_env_advance(&t->clock, MINUTE_US / 2);
        memcpy(t->clock.boot_id, boots[i % 2], sizeof boots[0]);
        assert_true(note(t, wall_us) <= start_us + 10 * (i + 1) * (MINUTE_US / 2));
    }
    assert_true(peek(t, wall_us).now_us >= start_us + 250 * MINUTE_US);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(it_follows_a_clock_that_is_right),
        STORE_CASE(a_jump_ahead_is_followed_ten_times_as_fast_as_time_passes),
        STORE_CASE(a_boot_begins_where_the_last_one_ended),
        STORE_CASE(a_clock_that_is_set_back_lowers_nothing),
        STORE_CASE(machines_that_share_a_store_add_nothing_up),
    };
    return cmocka_run_group_tests_name("core-retention-clock", tests, NULL, NULL);
}
