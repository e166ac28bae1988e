#include "base/list.h"

#include <stdlib.h>

#include "support/check.h"

static void elements_stay_while_a_list_grows(void **state)
{
    (void)state;
    int64_t *list = NULL;
    tide_error err;
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(TIDE_OK, tide_list_room(&list, i, sizeof *list, 1000, &err));
        list[i] = i;
    }
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(i, list[i]);
    free(list);
}

static void a_list_at_its_maximum_is_refused_and_unchanged(void **state)
{
    (void)state;
    int *list = NULL;
    tide_error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(TIDE_OK, tide_list_room(&list, i, sizeof *list, 3, &err));
        list[i] = i;
    }
    const int *before = list;
    assert_int_equal(TIDE_E_LIMIT, tide_list_room(&list, 3, sizeof *list, 3, &err));
    assert_ptr_equal(before, list);
    assert_int_equal(2, list[2]);
    free(list);
}

static void an_emptied_list_is_filled_again(void **state)
{
    (void)state;
    int *list = NULL;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 100; i++) {
            assert_int_equal(TIDE_OK, tide_list_room(&list, i, sizeof *list, TIDE_LIST_MAX, NULL));
            list[i] = i;
        }
    free(list);
}

static void a_size_beyond_memory_is_no_memory(void **state)
{
    (void)state;
    char *list = NULL;
    assert_int_equal(TIDE_E_NOMEM, tide_list_resize(&list, SIZE_MAX, 2, NULL));
    assert_null(list);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay_while_a_list_grows),
        cmocka_unit_test(a_list_at_its_maximum_is_refused_and_unchanged),
        cmocka_unit_test(an_emptied_list_is_filled_again),
        cmocka_unit_test(a_size_beyond_memory_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
