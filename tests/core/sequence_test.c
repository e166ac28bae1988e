/* Sequences: numbers that mean what they say, on every engine. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static int64_t next(store_test *t, const char *name, int64_t count)
{
    tide_sequence_range range = {0};
    assert_ok_err(tide_sequence_next(t->store, name, count, &range, NULL, &t->err), &t->err);
    assert_true(tide_sequence_range_last(&range) == range.first + (count - 1));
    return range.first;
}

static int64_t last_of(store_test *t, const char *name)
{
    tide_sequence found = {.last = -1};
    assert_ok_err(tide_sequence_show(t->store, name, &found, &t->err), &t->err);
    return found.last;
}

static void numbers_start_at_one_and_follow_each_other(void **state)
{
    store_test *t = *state;
    assert_int_equal(1, next(t, "orders", 1));
    assert_int_equal(2, next(t, "orders", 10));
    assert_int_equal(12, next(t, "orders", 1));
    assert_int_equal(1, next(t, "invoices", 1));
    assert_int_equal(12, last_of(t, "orders"));
}

static void a_sequence_nobody_has_used_is_none(void **state)
{
    store_test *t = *state;
    tide_sequence found;
    assert_status(TIDE_NONE, tide_sequence_show(t->store, "orders", &found, &t->err));
}

static void numbers_go_on_after_the_store_was_closed(void **state)
{
    store_test *t = *state;
    assert_int_equal(1, next(t, "orders", 5));
    tide_store *again = store_test_open(t);
    tide_sequence_range range;
    assert_ok(tide_sequence_next(again, "orders", 1, &range, NULL, &t->err));
    assert_int_equal(6, range.first);
}

static tide_status take_and_fail(tide_tx *tx, void *arg, tide_error *err)
{
    tide_sequence_range *range = arg;
    TIDE_TRY(tide_sequence_declare(tx, "orders", 3, range, err));
    TIDE_TRY(tide_tx_take_counters(tx, err));
    return tide_fail(err, TIDE_E_MISMATCH, "changed my mind");
}

static void a_rolled_back_number_is_given_again(void **state)
{
    store_test *t = *state;
    tide_sequence_range range = {0};
    assert_int_equal(1, next(t, "orders", 1));
    assert_status(TIDE_E_MISMATCH, tide_store_write(t->store, take_and_fail, &range, &t->err));
    assert_int_equal(2, range.first);
    assert_int_equal(2, next(t, "orders", 1));
}

typedef struct pair {
    tide_sequence_range a;
    tide_sequence_range b;
    bool is_settled;
} pair;

static tide_status take_two(tide_tx *tx, void *arg, tide_error *err)
{
    pair *p = arg;
    TIDE_TRY(tide_sequence_declare(tx, "zebra", 2, &p->a, err));
    TIDE_TRY(tide_sequence_declare(tx, "aardvark", 3, &p->b, err));
    if (!p->is_settled)
        return TIDE_OK;
    TIDE_TRY(tide_tx_take_counters(tx, err));
    assert_int_equal(3, p->a.first);
    assert_int_equal(4, p->b.first);
    return TIDE_OK;
}

static void one_transaction_takes_from_several_sequences(void **state)
{
    store_test *t = *state;
    pair p = {.is_settled = false};
    assert_ok_err(tide_store_write(t->store, take_two, &p, &t->err), &t->err);
    assert_int_equal(1, p.a.first);
    assert_int_equal(1, p.b.first);
    p.is_settled = true;
    assert_ok_err(tide_store_write(t->store, take_two, &p, &t->err), &t->err);
}

static tide_status take_twice(tide_tx *tx, void *arg, tide_error *err)
{
    pair *p = arg;
    TIDE_TRY(tide_sequence_declare(tx, "orders", 1, &p->a, err));
    return tide_sequence_declare(tx, "orders", 1, &p->b, err);
}

static void declaring_a_sequence_twice_is_refused(void **state)
{
    store_test *t = *state;
    pair p;
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, take_twice, &p, &t->err));
    assert_int_equal(1, next(t, "orders", 1));
}

/* Counters only rise. */
static void raising_goes_only_up(void **state)
{
    store_test *t = *state;
    int64_t stands = 0;
    assert_ok_err(tide_sequence_raise(t->store, "orders", 100, &stands, &t->err), &t->err);
    assert_int_equal(100, stands);
    assert_ok(tide_sequence_raise(t->store, "orders", 50, &stands, &t->err));
    assert_int_equal(100, stands);
    assert_int_equal(101, next(t, "orders", 1));
    assert_ok(tide_sequence_raise(t->store, "orders", 0, &stands, &t->err));
    assert_int_equal(101, stands);
}

static void numbers_end_at_two_to_the_63_minus_one(void **state)
{
    store_test *t = *state;
    assert_ok(tide_sequence_raise(t->store, "orders", INT64_MAX - 5, NULL, &t->err));
    tide_sequence_range range;
    assert_status_err(TIDE_E_EXHAUSTED,
                      tide_sequence_next(t->store, "orders", 6, &range, NULL, &t->err), &t->err);
    assert_true(last_of(t, "orders") == INT64_MAX - 5);
    assert_true(next(t, "orders", 5) == INT64_MAX - 4);
    assert_true(last_of(t, "orders") == INT64_MAX);
    assert_status(TIDE_E_EXHAUSTED,
                  tide_sequence_next(t->store, "orders", 1, &range, NULL, &t->err));
}

static void bad_names_and_counts_change_nothing(void **state)
{
    store_test *t = *state;
    char long_name[TIDE_SEQUENCE_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const names[] = {"", NULL, long_name, "a\nb", "\xff", " a", "a "};
    tide_sequence_range range;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_status(TIDE_E_INVALID,
                      tide_sequence_next(t->store, names[i], 1, &range, NULL, &t->err));
    const int64_t counts[] = {0, -1, TIDE_SEQUENCE_BATCH_MAX + 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        assert_status(TIDE_E_INVALID,
                      tide_sequence_next(t->store, "orders", counts[i], &range, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_sequence_raise(t->store, "orders", -1, NULL, &t->err));
    tide_sequence found;
    assert_status(TIDE_NONE, tide_sequence_show(t->store, "orders", &found, &t->err));
    long_name[TIDE_SEQUENCE_NAME_MAX] = '\0';
    assert_int_equal(1, next(t, long_name, TIDE_SEQUENCE_BATCH_MAX));
}

typedef struct listing {
    int count;
    char last_name[TIDE_SEQUENCE_NAME_MAX + 1];
} listing;

static tide_status note_sequence(void *arg, const tide_sequence *sequence, tide_error *err)
{
    (void)err;
    listing *l = arg;
    assert_true(strcmp(l->last_name, sequence->name) < 0);
    assert_int_equal(1, sequence->last);
    memcpy(l->last_name, sequence->name, sizeof l->last_name);
    l->count++;
    return TIDE_OK;
}

static tide_status take_many(tide_tx *tx, void *arg, tide_error *err)
{
    static tide_sequence_range ranges[50];
    const int *round = arg;
    for (int i = 0; i < 50; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "s%03d", (*round * 50 + i) * 7 % 1000);
        TIDE_TRY(tide_sequence_declare(tx, name, 1, &ranges[i], err));
    }
    return TIDE_OK;
}

static void listing_pages_through_all_in_name_order(void **state)
{
    store_test *t = *state;
    for (int round = 0; round < 20; round++)
        assert_ok_err(tide_store_write(t->store, take_many, &round, &t->err), &t->err);
    listing l = {0};
    assert_ok(tide_sequence_list(t->store, note_sequence, &l, &t->err));
    assert_int_equal(1000, l.count);
}

/* The row carries its number and a time that never goes back, also when the clock is set back. */
static void rows_carry_number_and_rising_time(void **state)
{
    store_test *t = *state;
    numbered_row row = {.writer = "a"};
    for (row.n = 1; row.n <= 3; row.n++) {
        assert_ok_err(tide_store_write(t->store, add_numbered, &row, &t->err), &t->err);
        assert_int_equal(row.n, row.range.first);
        virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US - row.n * 3600 * SECOND_US);
    }
    tide_sequence found;
    assert_ok(tide_sequence_show(t->store, "numbered", &found, &t->err));
    assert_true(found.last_at_us >= VIRTUAL_ENV_WALL_US);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(numbers_start_at_one_and_follow_each_other),
        STORE_CASE(a_sequence_nobody_has_used_is_none),
        STORE_CASE(numbers_go_on_after_the_store_was_closed),
        STORE_CASE(a_rolled_back_number_is_given_again),
        STORE_CASE(one_transaction_takes_from_several_sequences),
        STORE_CASE(declaring_a_sequence_twice_is_refused),
        STORE_CASE(raising_goes_only_up),
        STORE_CASE(numbers_end_at_two_to_the_63_minus_one),
        STORE_CASE(bad_names_and_counts_change_nothing),
        STORE_CASE(listing_pages_through_all_in_name_order),
        STORE_CASE(rows_carry_number_and_rising_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
