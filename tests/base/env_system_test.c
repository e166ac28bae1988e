#include <tidemark/env.h>

#include <string.h>

#include "base/text/uuid.h"
#include "support/check.h"

/* The clocks run forward; the one that counts sleep is never behind the one that does not. */
static void the_clocks_never_go_back(void **state)
{
    (void)state;
    tide_env *env = tide_env_system();
    const int64_t mono_us = env->mono_us(env);
    const int64_t boot_us = env->boot_us(env);
    assert_true(boot_us >= mono_us);
    assert_true(env->mono_us(env) >= mono_us);
    assert_true(env->boot_us(env) >= boot_us);
    assert_true(env->wall_us(env) > INT64_C(1600000000000000)); /* in microseconds, after 2020 */
}

/* Leases are tied to a boot: the id must be there, well formed, and the same each time. */
static void the_boot_id_is_a_uuid_and_stays(void **state)
{
    (void)state;
    tide_env *env = tide_env_system();
    char first[TIDE_BOOT_ID_SIZE];
    char second[TIDE_BOOT_ID_SIZE];
    env->boot_id(env, first);
    env->boot_id(env, second);
    tide_uuid id;
    assert_ok(tide_uuid_parse(&id, tide_view_of(first)));
    assert_string_equal(first, second);
}

/* Every byte of a long request is filled, and none beyond it. */
static void random_bytes_fill_what_was_asked_for(void **state)
{
    (void)state;
    tide_env *env = tide_env_system();
    uint8_t seen[600] = {0};
    for (int round = 0; round < 16; round++) {
        uint8_t bytes[601] = {0};
        env->random(env, bytes, 600);
        for (size_t i = 0; i < 600; i++)
            seen[i] |= bytes[i];
        assert_int_equal(bytes[600], 0);
    }
    for (size_t i = 0; i < sizeof seen; i++)
        assert_int_not_equal(seen[i], 0);
    env->random(env, NULL, 0);
}

/* A wait is never shorter than asked for; no wait for nothing. */
static void sleeping_takes_at_least_as_long_as_asked(void **state)
{
    (void)state;
    tide_env *env = tide_env_system();
    const int64_t start_us = env->mono_us(env);
    env->sleep_us(env, 1500);
    assert_true(env->mono_us(env) - start_us >= 1500);
    env->sleep_us(env, 0);
    env->sleep_us(env, INT64_MIN);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clocks_never_go_back),
        cmocka_unit_test(the_boot_id_is_a_uuid_and_stays),
        cmocka_unit_test(random_bytes_fill_what_was_asked_for),
        cmocka_unit_test(sleeping_takes_at_least_as_long_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
