#include "base/backoff.h"

#include <limits.h>
#include <stdint.h>

#include "support/check.h"
#include "support/clock/virtual_env.h"

static virtual_env env;

static int set_up(void **state)
{
    (void)state;
    virtual_env_init(&env, 11);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    virtual_env_done(&env);
    return 0;
}

/* The range of each try, and both of its ends nearly reached. */
static void waits_lie_between_half_the_base_and_the_ceiling(void **state)
{
    (void)state;
    const tide_backoff policy = {.base_us = 1000, .cap_us = 50000};
    static const int64_t ceilings_us[] = {1000, 2000, 4000, 8000, 16000, 32000, 50000, 50000};
    for (int attempt = 0; attempt < 8; attempt++) {
        int64_t least_us = INT64_MAX;
        int64_t most_us = 0;
        for (int i = 0; i < 2000; i++) {
            const int64_t us = tide_backoff_next(&policy, attempt, &env.env);
            least_us = us < least_us ? us : least_us;
            most_us = us > most_us ? us : most_us;
        }
        const int64_t ceiling_us = ceilings_us[attempt];
        assert_in_range(least_us, 500, 500 + ceiling_us / 50);
        assert_in_range(most_us, ceiling_us - ceiling_us / 50, ceiling_us);
    }
}

/* A loop that retries for years, and one that counts wrongly, get a wait and no overflow. */
static void no_attempt_overflows(void **state)
{
    (void)state;
    static const int attempts[] = {INT_MIN, -1, 0, 1, 61, 62, 63, 64, 1000, INT_MAX};
    static const tide_backoff policies[] = {
        {1, 1}, {1, INT64_MAX}, {3, 1000000}, {INT64_MAX, INT64_MAX}, {INT64_MAX / 2, INT64_MAX}};
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
        for (size_t a = 0; a < sizeof attempts / sizeof attempts[0]; a++) {
            const int64_t us = tide_backoff_next(&policies[p], attempts[a], &env.env);
            assert_true(us >= policies[p].base_us / 2 && us <= policies[p].cap_us);
        }
    }
}

/* Those who failed together must not come back together. */
static void waits_of_one_attempt_differ(void **state)
{
    (void)state;
    const tide_backoff policy = {.base_us = 1000, .cap_us = 1000000};
    int same = 0;
    for (int i = 0; i < 100; i++) {
        const int64_t one_us = tide_backoff_next(&policy, 5, &env.env);
        const int64_t other_us = tide_backoff_next(&policy, 5, &env.env);
        same += one_us == other_us;
    }
    assert_true(same < 5);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_lie_between_half_the_base_and_the_ceiling),
        cmocka_unit_test(no_attempt_overflows),
        cmocka_unit_test(waits_of_one_attempt_differ),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
