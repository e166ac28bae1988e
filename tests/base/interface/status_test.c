#include <tidemark/status.h>

#include <limits.h>
#include <string.h>

#include "support/check.h"

static const tide_status ALL[] = {
#define NAME(name, value, retryable, grpc, http, exit_code, text, next) TIDE_##name,
    TIDE_STATUS_TABLE(NAME)
#undef NAME
};

enum { ALL_COUNT = sizeof ALL / sizeof ALL[0] };

/* Everything said about a status comes from its own row. */
static void every_status_has_its_own_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        const tide_status_row *row = tide_status_get(ALL[i]);
        assert_int_equal(row->status, ALL[i]);
        assert_true(strlen(row->name) > 0);
        assert_true(strlen(row->text) > 0);
        assert_non_null(row->next);
        assert_in_range(row->grpc_code, 0, 16);
        assert_in_range(row->http_code, 200, 599);
    }
}

/* A number or a name that stood for two statuses would be told wrong. */
static void no_two_statuses_share_a_number_or_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        for (size_t j = i + 1; j < ALL_COUNT; j++) {
            assert_int_not_equal(ALL[i], ALL[j]);
            assert_string_not_equal(tide_status_get(ALL[i])->text, tide_status_get(ALL[j])->text);
        }
    }
}

/* A script must be able to tell failure from success by the exit code. */
static void only_ok_exits_with_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_COUNT; i++)
        assert_int_equal(tide_status_get(ALL[i])->exit_code == TIDE_EXIT_OK, ALL[i] == TIDE_OK);
}

/* The row's columns are not mixed up. */
static void a_row_reads_as_the_table_says(void **state)
{
    (void)state;
    const tide_status_row *row = tide_status_get(TIDE_E_BUSY);
    assert_string_equal(row->name, "E_BUSY");
    assert_string_equal(row->text, "busy");
    assert_string_equal(row->next, "try again in a moment");
    assert_true(row->is_retryable);
    assert_int_equal(row->grpc_code, 14);
    assert_int_equal(row->http_code, 503);
    assert_int_equal(row->exit_code, TIDE_EXIT_UNAVAILABLE);
}

/* A status from a newer peer or a bug must not crash whoever reports it. */
static void a_number_outside_the_table_counts_as_failed(void **state)
{
    (void)state;
    assert_int_equal(tide_status_get((tide_status)-9999)->status, TIDE_E_FAILED);
    assert_int_equal(tide_status_get((tide_status)INT_MAX)->status, TIDE_E_FAILED);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_row),
        cmocka_unit_test(no_two_statuses_share_a_number_or_a_text),
        cmocka_unit_test(only_ok_exits_with_zero),
        cmocka_unit_test(a_row_reads_as_the_table_says),
        cmocka_unit_test(a_number_outside_the_table_counts_as_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
