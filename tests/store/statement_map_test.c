#include "store/statement_map.h"

#include "support/check.h"

enum { KEYS = 1000 };

static int ended;

static void count_end(void *value)
{
    assert_non_null(value);
    ended++;
}

static void every_key_finds_its_own_value_while_the_map_grows(void **state)
{
    (void)state;
    static int keys[KEYS];
    static int values[KEYS];
    tide_statement_map map = {0};
    assert_null(tide_statement_map_find(&map, &keys[0]));
    for (int i = 0; i < KEYS; i++) {
        assert_true(tide_statement_map_put(&map, &keys[i], &values[i]));
        for (int j = 0; j <= i; j += 97)
            assert_ptr_equal(&values[j], tide_statement_map_find(&map, &keys[j]));
        if (i + 1 < KEYS)
            assert_null(tide_statement_map_find(&map, &keys[i + 1]));
    }
    ended = 0;
    tide_statement_map_done(&map, count_end);
    assert_int_equal(KEYS, ended);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_finds_its_own_value_while_the_map_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
