/* Deadlines of tests wait for a share of the machine, not for its clock on the wall. */
#include "support/clock/fair_clock.h"

#include <unistd.h>

#include "support/check.h"

static void a_machine_with_free_cores_gives_whole_time(void **state)
{
    (void)state;
    assert_int_equal(1000, fair_share("0.10 0.20 0.30 1/300 4711\n", 2));
    assert_int_equal(1000, fair_share("2.00 0.20 0.30 2/300 4711\n", 2));
}

static void time_is_shared_among_the_runnable(void **state)
{
    (void)state;
    assert_in_range(fair_share("0.10 0.20 0.30 20/300 4711\n", 2), 100, 101);
    assert_in_range(fair_share("0.10 0.20 0.30 4/300 4711\n", 2), 500, 501);
}

/* A sample of now may fall on a quiet moment of a busy minute. */
static void the_last_minute_counts_as_well(void **state)
{
    (void)state;
    assert_in_range(fair_share("20.00 9.00 3.00 1/300 4711\n", 2), 100, 101);
}

static void what_cannot_be_read_is_whole_time(void **state)
{
    (void)state;
    assert_int_equal(1000, fair_share("", 2));
    assert_int_equal(1000, fair_share("something else\n", 2));
}

static void it_never_runs_back_nor_ahead_of_the_wall(void **state)
{
    (void)state;
    int64_t last_ms = fair_clock_ms();
    const int64_t fair_ms = last_ms;
    const int64_t wall_ms = wall_clock_ms();
    for (int i = 0; i < 50; i++) {
        (void)usleep(1000);
        const int64_t now_ms = fair_clock_ms();
        assert_true(now_ms >= last_ms);
        last_ms = now_ms;
    }
    assert_true(last_ms > fair_ms);
    assert_true(last_ms - fair_ms <= wall_clock_ms() - wall_ms + 2);
}

static void a_wait_ends_by_its_event_or_its_deadline(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(0, pipe(fds));
    assert_false(fair_wait_fd(fds[0], fair_clock_ms() + 20));
    assert_int_equal(1, write(fds[1], "x", 1));
    assert_true(fair_wait_fd(fds[0], fair_clock_ms()));
    (void)close(fds[0]);
    (void)close(fds[1]);

    sem_t posted;
    assert_int_equal(0, sem_init(&posted, 0, 0));
    assert_false(fair_wait_sem(&posted, fair_clock_ms() + 20));
    assert_int_equal(0, sem_post(&posted));
    assert_true(fair_wait_sem(&posted, fair_clock_ms()));
    (void)sem_destroy(&posted);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_with_free_cores_gives_whole_time),
        cmocka_unit_test(time_is_shared_among_the_runnable),
        cmocka_unit_test(the_last_minute_counts_as_well),
        cmocka_unit_test(what_cannot_be_read_is_whole_time),
        cmocka_unit_test(it_never_runs_back_nor_ahead_of_the_wall),
        cmocka_unit_test(a_wait_ends_by_its_event_or_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
