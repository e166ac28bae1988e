#include "base/interface/sized.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

/* A struct of a caller, as an older and a newer release have it. */
typedef struct older {
    size_t size;
    int64_t limit;
    bool is_lost;
} older;

typedef struct sample {
    size_t size;
    int64_t limit;
    bool is_lost;
    const char *name;
} sample;

typedef struct newer {
    sample now;
    int64_t more;
} newer;

static void a_struct_of_this_release_is_copied(void **state)
{
    (void)state;
    const sample given = {.size = sizeof given, .limit = 7, .name = "a"};
    sample own;
    assert_ok(TIDE_SIZED_COPY(&own, &given, sample, NULL));
    assert_int_equal(7, own.limit);
    assert_string_equal("a", own.name);
    assert_int_equal(sizeof own, own.size);
}

static void members_that_an_older_caller_lacks_are_defaults(void **state)
{
    (void)state;
    const older given = {.size = sizeof given, .limit = 7};
    sample own = {.name = "left over"};
    assert_ok(TIDE_SIZED_COPY(&own, &given, sample, NULL));
    assert_int_equal(7, own.limit);
    assert_null(own.name);
    assert_int_equal(sizeof own, own.size);
}

static void a_size_that_was_not_set_is_refused_by_the_name_of_the_struct(void **state)
{
    (void)state;
    const sample given = {.limit = 7};
    sample own;
    tide_error err;
    assert_status(TIDE_E_INVALID, TIDE_SIZED_COPY(&own, &given, sample, &err));
    assert_string_equal("sample.size is 0; set it to sizeof(sample)", err.text);
}

static void a_newer_struct_is_refused_by_its_name(void **state)
{
    (void)state;
    const newer given = {.now = {.size = sizeof given}};
    sample own;
    tide_error err;
    assert_status(TIDE_E_INVALID, TIDE_SIZED_COPY(&own, &given, sample, &err));
    assert_non_null(strstr(err.text, "sample has 40 bytes, more than the 32 of this library"));
}

static void nothing_is_all_defaults_where_it_is_allowed(void **state)
{
    (void)state;
    sample own = {.limit = 7};
    tide_error err;
    assert_ok(TIDE_SIZED_COPY_OPTIONAL(&own, NULL, sample, NULL));
    assert_int_equal(0, own.limit);
    assert_int_equal(sizeof own, own.size);
    assert_status(TIDE_E_INVALID, TIDE_SIZED_COPY(&own, NULL, sample, &err));
    assert_string_equal("sample is NULL", err.text);
}

static void an_array_of_this_release_is_used_in_place(void **state)
{
    (void)state;
    const sample given[2] = {{.size = sizeof(sample)}, {.size = sizeof(sample)}};
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list;
    assert_ok(TIDE_SIZED_LIST(&list, given, 2, sample, NULL));
    assert_ptr_equal(given, list.items);
}

static void an_array_of_an_older_caller_is_read_and_written_by_its_own_size(void **state)
{
    (void)state;
    older given[3] = {{.size = sizeof(older), .limit = 1},
                      {.size = sizeof(older), .limit = 2},
                      {.size = sizeof(older), .limit = 3}};
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list;
    assert_ok(TIDE_SIZED_LIST(&list, given, 3, sample, NULL));
    sample *items = list.items;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(i + 1, items[i].limit);
        assert_null(items[i].name);
    }
    items[1].is_lost = true;
    items[2].name = "not the caller's";
    tide_sized_list_return(&list);
    assert_true(!given[0].is_lost && given[1].is_lost && !given[2].is_lost);
    assert_int_equal(sizeof(older), given[2].size);
}

static void an_array_with_elements_of_several_sizes_is_refused(void **state)
{
    (void)state;
    const sample given[2] = {{.size = sizeof(sample)}, {.limit = 1}};
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list;
    tide_error err;
    assert_status(TIDE_E_INVALID, TIDE_SIZED_LIST(&list, given, 2, sample, &err));
    assert_string_equal("sample.size is 32 in element 0 and 0 in 1", err.text);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_struct_of_this_release_is_copied),
        cmocka_unit_test(members_that_an_older_caller_lacks_are_defaults),
        cmocka_unit_test(a_size_that_was_not_set_is_refused_by_the_name_of_the_struct),
        cmocka_unit_test(a_newer_struct_is_refused_by_its_name),
        cmocka_unit_test(nothing_is_all_defaults_where_it_is_allowed),
        cmocka_unit_test(an_array_of_this_release_is_used_in_place),
        cmocka_unit_test(an_array_of_an_older_caller_is_read_and_written_by_its_own_size),
        cmocka_unit_test(an_array_with_elements_of_several_sizes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
