/* The virtual machine: its clocks move by hand, its randomness comes from the seed. */
#include "support/clock/virtual_env.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

/* Each clock moves by what happens to the machine, as in the table of virtual_env.h. */
static void a_virtual_machine_moves_only_by_hand(void **state)
{
    (void)state;
    TIDE_CLEANUP(virtual_env_done) virtual_env v;
    virtual_env_init(&v, 1);
    tide_env *env = &v.env;
    char first[TIDE_BOOT_ID_SIZE];
    char second[TIDE_BOOT_ID_SIZE];
    env->boot_id(env, first);
    const int64_t wall = env->wall_us(env);
    const int64_t mono = env->mono_us(env);
    const int64_t boot = env->boot_us(env);

    virtual_env_advance(&v, 10);
    env->sleep_us(env, 5);
    virtual_env_suspend(&v, 100);
    assert_int_equal(wall + 115, env->wall_us(env));
    assert_int_equal(mono + 15, env->mono_us(env));
    assert_int_equal(boot + 115, env->boot_us(env));

    virtual_env_set_wall(&v, 42);
    virtual_env_reboot(&v);
    env->boot_id(env, second);
    assert_int_equal(42, env->wall_us(env));
    assert_int_equal(0, env->mono_us(env));
    assert_int_equal(0, env->boot_us(env));
    assert_string_not_equal(first, second);
    assert_int_equal(TIDE_BOOT_ID_SIZE - 1, strlen(second));
}

/* Random bytes depend on the seed alone. */
static void virtual_randomness_repeats(void **state)
{
    (void)state;
    const uint64_t seeds[] = {1, 1, 2};
    unsigned char bytes[3][13];
    for (int i = 0; i < 3; i++) {
        TIDE_CLEANUP(virtual_env_done) virtual_env v;
        virtual_env_init(&v, seeds[i]);
        v.env.random(&v.env, bytes[i], sizeof(bytes[i]));
    }
    assert_memory_equal(bytes[0], bytes[1], sizeof(bytes[0]));
    assert_memory_not_equal(bytes[0], bytes[2], sizeof(bytes[0]));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_virtual_machine_moves_only_by_hand),
        cmocka_unit_test(virtual_randomness_repeats),
    };
    return cmocka_run_group_tests_name("virtual_env", tests, NULL, NULL);
}
