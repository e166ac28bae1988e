#include "base/cleanup.h"

#include <stdbool.h>

#include "support/check.h"

static int freed_count;

static void count_freed(int **variable)
{
    if (*variable)
        freed_count++;
}

static int *leave_early(bool is_early, int *thing)
{
    TIDE_CLEANUP(count_freed) int *owned = thing;
    if (is_early)
        return NULL;
    return TIDE_TAKE(owned);
}

/* Every way out of a scope gives back what it owns. */
static void leaving_a_scope_frees_what_it_owns(void **state)
{
    (void)state;
    int thing = 1;
    freed_count = 0;
    assert_null(leave_early(true, &thing));
    assert_int_equal(freed_count, 1);
}

/* What was handed over is the receiver's. */
static void a_taken_thing_is_not_freed(void **state)
{
    (void)state;
    int thing = 1;
    freed_count = 0;
    assert_ptr_equal(leave_early(false, &thing), &thing);
    assert_int_equal(freed_count, 0);
}

/* The static analyser does not know the attribute and would report leaks: it cannot look through
 * this. */
static void *(*const volatile allocate)(size_t len) = malloc;

/* Memory of any type, and none at all (the leak checker is the judge). */
static void freep_takes_any_pointer_and_null(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_freep) char *text = allocate(10);
    TIDE_CLEANUP(tide_freep) int64_t *numbers = allocate(4 * sizeof *numbers);
    TIDE_CLEANUP(tide_freep) void *nothing = NULL;
    assert_non_null(text);
    assert_non_null(numbers);
    assert_null(nothing);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaving_a_scope_frees_what_it_owns),
        cmocka_unit_test(a_taken_thing_is_not_freed),
        cmocka_unit_test(freep_takes_any_pointer_and_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
