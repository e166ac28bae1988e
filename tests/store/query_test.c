/* Binds, columns, rows: the same on every engine. */
#include "support/store_fixture.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/statement.h"

typedef struct typed_row {
    int64_t id;
    int64_t i;
    double f;
    tide_view t;
    tide_view b;
    int64_t at_us;
    bool is_null;
} typed_row;

static tide_status put_typed(tide_tx *tx, void *arg, tide_error *err)
{
    const typed_row *row = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", row->id);
    if (!row->is_null) {
        tide_query_bind_i64(query, "i", row->i);
        tide_query_bind_f64(query, "f", row->f);
        tide_query_bind_text_view(query, "t", row->t);
        tide_query_bind_blob(query, "b", row->b);
        tide_query_bind_time(query, "at", row->at_us);
    }
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    assert_int_equal(1, changed);
    return TIDE_OK;
}

static tide_status expect_typed(tide_tx *tx, void *arg, tide_error *err)
{
    const typed_row *row = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_GET, err));
    tide_query_bind_i64(query, "id", row->id);
    assert_ok(tide_query_one(query, err));
    for (int column = 0; column < 5; column++)
        if (column == 0)
            assert_int_equal(row->is_null, tide_query_col_is_null(query));
    assert_true(row->i == tide_query_col_i64(query));
    assert_true(row->f == tide_query_col_f64(query));
    const tide_view text = tide_query_col_text(query);
    assert_true(tide_view_equal(row->t, text));
    const tide_view blob = tide_query_col_blob(query);
    assert_true(tide_view_equal(row->b, blob));
    if (!row->is_null)
        assert_true(row->at_us == tide_query_col_time(query));
    assert_status(TIDE_NONE, tide_query_step(query, err));
    return TIDE_OK;
}

static void every_type_comes_back_as_it_went_in(void **state)
{
    store_test *t = *state;
    const typed_row rows[] = {
        {.id = 1,
         .i = INT64_MAX,
         .f = 0.1,
         .t = tide_view_of("h\xc3\xa9llo"),
         .b = tide_view_bytes("\0\xff\0", 3),
         .at_us = INT64_C(1700000000123456)},
        {.id = 2,
         .i = INT64_MIN,
         .f = -1e308,
         .t = tide_view_of(""),
         .b = tide_view_bytes("", 0),
         .at_us = INT64_C(-62135596800000000)},
        {.id = 3,
         .i = 0,
         .f = 5e-324,
         .t = tide_view_of("'; DROP TABLE typed; --"),
         .b = tide_view_of("x"),
         .at_us = INT64_C(253402300799999999)},
        {.id = 4, .is_null = true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_ok_err(tide_store_write(t->store, put_typed, (void *)&rows[i], &t->err), &t->err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_ok_err(tide_store_read(t->store, expect_typed, (void *)&rows[i], &t->err), &t->err);
}

static tide_status use_single_calls(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *now_us = arg;
    int64_t changed = 0;
    TIDE_TRY(tide_tx_now(tx, now_us, err));
    TIDE_TRY(tide_tx_exec(tx, TEST_SQL_TYPED_PUT, &changed, err, tide_bind_i64("id", 5),
                          tide_bind_i64("i", -7), tide_bind_f64("f", 0.5),
                          tide_bind_text("t", NULL), tide_bind_blob("b", tide_view_of("bytes")),
                          tide_bind_now_plus("at", -1)));
    assert_int_equal(1, changed);
    TIDE_TRY(tide_tx_defer(tx, TEST_SQL_TYPED_PUT, err, tide_bind_i64("id", 6),
                           TIDE_BIND_IF(*now_us == 0, tide_bind_i64("i", 1)),
                           tide_bind_view("t", tide_view_of("later"))));
    int64_t number = 1;
    TIDE_TRY(tide_tx_number(&number, tx, TEST_SQL_TYPED_GET, err, tide_bind_i64("id", 6)));
    assert_int_equal(0, number); /* it runs at the end */
    return TIDE_OK;
}

static tide_status see_single_calls(tide_tx *tx, void *arg, tide_error *err)
{
    const int64_t *now_us = arg;
    int64_t sum = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    assert_ok(tide_tx_one(&query, tx, TEST_SQL_TYPED_GET, err, tide_bind_i64("id", 5)));
    assert_int_equal(-7, tide_query_col_i64(query));
    assert_true(tide_query_col_f64(query) == 0.5);
    assert_true(tide_query_col_is_null(query));
    (void)tide_query_col_text(query);
    const tide_view bytes = tide_query_col_blob(query);
    assert_true(tide_view_equal(bytes, tide_view_of("bytes")));
    assert_true(tide_query_col_time(query) == *now_us - 1);
    TIDE_QUERY(all, tx, TEST_SQL_TYPED_ALL, err, TIDE_NO_BIND);
    TIDE_EACH(tide_query_step(all, err))
        sum += tide_query_col_i64(all);
    assert_int_equal(5 + 6, sum);
    return TIDE_OK;
}

static void one_call_begins_binds_and_runs(void **state)
{
    store_test *t = *state;
    int64_t now_us = 0;
    int64_t number = 0;
    int64_t changed = 0;
    assert_ok_err(tide_store_write(t->store, use_single_calls, &now_us, &t->err), &t->err);
    assert_ok_err(tide_store_read(t->store, see_single_calls, &now_us, &t->err), &t->err);
    assert_ok_err(tide_store_exec(t->store, TEST_SQL_TYPED_PUT, &changed, &t->err,
                                  tide_bind_i64("id", 8), tide_bind_i64("i", 80)),
                  &t->err);
    assert_int_equal(1, changed);
    assert_ok_err(
        tide_store_number(&number, t->store, TEST_SQL_TYPED_GET, &t->err, tide_bind_i64("id", 8)),
        &t->err);
    assert_int_equal(80, number);
}

static tide_status put_three(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    for (int64_t id = 1; id <= 3; id++) {
        tide_query_bind_i64(query, "id", id);
        tide_query_bind_text(query, "t", id == 2 ? NULL : "text");
        TIDE_TRY(tide_query_run(query, NULL, err));
        tide_query_reset(query);
    }
    return TIDE_OK;
}

/* One statement, walked twice at the same time, with another use of it in between. */
static tide_status walk_nested(tide_tx *tx, void *arg, tide_error *err)
{
    int *pairs = arg;
    *pairs = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *outer = NULL;
    TIDE_TRY(tide_query_begin(&outer, tx, TEST_SQL_TYPED_ALL, err));
    while (tide_query_step(outer, err) == TIDE_OK) {
        const int64_t left = tide_query_col_i64(outer);
        TIDE_CLEANUP(tide_query_endp) tide_query *inner = NULL;
        TIDE_TRY(tide_query_begin(&inner, tx, TEST_SQL_TYPED_ALL, err));
        while (tide_query_step(inner, err) == TIDE_OK)
            *pairs += left >= tide_query_col_i64(inner);
    }
    return TIDE_OK;
}

static void one_statement_can_be_walked_inside_itself(void **state)
{
    store_test *t = *state;
    int pairs = 0;
    assert_ok_err(tide_store_write(t->store, put_three, NULL, &t->err), &t->err);
    assert_ok_err(tide_store_read(t->store, walk_nested, &pairs, &t->err), &t->err);
    assert_int_equal(6, pairs);
}

static tide_status touch_from(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *counts = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_TOUCH, err));
    for (int i = 0; i < 2; i++) {
        tide_query_bind_i64(query, "id", i == 0 ? 2 : 99);
        tide_query_bind_i64(query, "i", 7);
        TIDE_TRY(tide_query_run(query, &counts[i], err));
        tide_query_reset(query);
    }
    return TIDE_OK;
}

/* Fencing rests on it: zero rows changed is seen. */
static void changed_rows_are_counted(void **state)
{
    store_test *t = *state;
    int64_t counts[2] = {-1, -1};
    assert_ok(tide_store_write(t->store, put_three, NULL, &t->err));
    assert_ok(tide_store_write(t->store, touch_from, counts, &t->err));
    assert_int_equal(2, counts[0]);
    assert_int_equal(0, counts[1]);
}

static tide_status find_missing(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_GET, err));
    tide_query_bind_i64(query, "id", 12345);
    return tide_query_one(query, err);
}

static void nothing_found_is_none_and_not_a_failure(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_NONE, tide_store_read(t->store, find_missing, NULL, &t->err));
    assert_status(TIDE_NONE, tide_store_write(t->store, find_missing, NULL, &t->err));
}

static tide_status find_several(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_ALL, err));
    return tide_query_one(query, err);
}

/* Tables are others' to double: a dump that is restored twice doubles rows without a key. */
static void several_rows_where_there_is_one_are_damage(void **state)
{
    store_test *t = *state;
    assert_ok(tide_store_write(t->store, put_three, NULL, &t->err));
    assert_status(TIDE_E_DAMAGED, tide_store_read(t->store, find_several, NULL, &t->err));
    assert_contains(t->err.text, "typed_all");
    assert_status(TIDE_E_DAMAGED, tide_store_write(t->store, find_several, NULL, &t->err));
}

static tide_status bind_too_much(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    static char large[TIDE_TX_BYTES_MAX / 2 + 1];
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    tide_query_bind_blob(query, "b", tide_view_bytes(large, sizeof large));
    tide_query_bind_text_view(query, "t", tide_view_bytes(large, sizeof large));
    return tide_query_run(query, NULL, err);
}

static void more_bytes_than_the_budget_are_refused(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_LIMIT, tide_store_write(t->store, bind_too_much, NULL, &t->err));
    assert_status(TIDE_NONE, tide_store_read(t->store, find_missing, NULL, &t->err));
}

static tide_status defer_too_much(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    static char large[TIDE_TX_BYTES_MAX / 2 + 1];
    for (int64_t id = 1; id <= 2; id++) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
        tide_query_bind_i64(query, "id", id);
        tide_query_bind_blob(query, "b", tide_view_bytes(large, sizeof large));
        TIDE_TRY(tide_query_defer(&query, err));
    }
    return TIDE_OK;
}

/* A closure has a byte budget, not each of its statements. */
static void deferred_statements_share_the_budget(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_LIMIT, tide_store_write(t->store, defer_too_much, NULL, &t->err));
    assert_status(TIDE_NONE, tide_store_read(t->store, find_missing, NULL, &t->err));
}

typedef struct told {
    int count;
    int64_t value;
} told;

static void note_row(tide_query *query, void *arg)
{
    told *t = arg;
    t->count++;
    t->value = tide_query_col_i64(query);
}

/* Puts a row (when there is a value) and asks for it, both behind the closure. */
static tide_status defer_put_and_get(tide_tx *tx, void *arg, tide_error *err)
{
    told *t = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *put = NULL;
    TIDE_CLEANUP(tide_query_endp) tide_query *get = NULL;
    t->count = 0;
    if (t->value != 0) {
        TIDE_TRY(tide_query_begin(&put, tx, TEST_SQL_TYPED_PUT, err));
        tide_query_bind_i64(put, "id", 7);
        tide_query_bind_i64(put, "i", t->value);
        TIDE_TRY(tide_query_defer(&put, err));
    }
    TIDE_TRY(tide_query_begin(&get, tx, TEST_SQL_TYPED_GET, err));
    tide_query_bind_i64(get, "id", 7);
    return tide_query_defer_rows(&get, note_row, t, err);
}

/* A closure of one statement needs no answer before its commit, and still learns what it did. */
static void rows_of_a_deferred_statement_are_given(void **state)
{
    store_test *t = *state;
    told nothing = {.count = -1};
    assert_ok(tide_store_write(t->store, defer_put_and_get, &nothing, &t->err));
    assert_int_equal(0, nothing.count);
    told one = {.value = 42};
    assert_ok(tide_store_write(t->store, defer_put_and_get, &one, &t->err));
    assert_int_equal(1, one.count);
    assert_int_equal(42, one.value);
}

static tide_status defer_get(tide_tx *tx, void *arg, tide_error *err)
{
    told *t = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *get = NULL;
    t->count = 0;
    TIDE_TRY(tide_query_begin(&get, tx, TEST_SQL_TYPED_GET, err));
    tide_query_bind_i64(get, "id", 7);
    return tide_query_defer_rows(&get, note_row, t, err);
}

/* So a question of one statement takes one round trip. */
static void a_read_may_defer_too(void **state)
{
    store_test *t = *state;
    told found = {.count = -1};
    assert_ok(tide_store_read(t->store, defer_get, &found, &t->err));
    assert_int_equal(0, found.count);
    told one = {.value = 42};
    assert_ok(tide_store_write(t->store, defer_put_and_get, &one, &t->err));
    assert_ok(tide_store_read(t->store, defer_get, &found, &t->err));
    assert_int_equal(1, found.count);
    assert_int_equal(42, found.value);
    found = (told){.count = -1};
    assert_ok(tide_store_read_local(t->store, defer_get, &found, &t->err));
    assert_int_equal(1, found.count);
}

static tide_status put_bad_time(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    tide_query_bind_time(query, "at", INT64_MAX);
    return tide_query_run(query, NULL, err);
}

static void a_time_beyond_the_calendar_is_refused(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, put_bad_time, NULL, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(every_type_comes_back_as_it_went_in),
        STORE_CASE(one_call_begins_binds_and_runs),
        STORE_CASE(one_statement_can_be_walked_inside_itself),
        STORE_CASE(changed_rows_are_counted),
        STORE_CASE(nothing_found_is_none_and_not_a_failure),
        STORE_CASE(several_rows_where_there_is_one_are_damage),
        STORE_CASE(more_bytes_than_the_budget_are_refused),
        STORE_CASE(deferred_statements_share_the_budget),
        STORE_CASE(rows_of_a_deferred_statement_are_given),
        STORE_CASE(a_read_may_defer_too),
        STORE_CASE(a_time_beyond_the_calendar_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
