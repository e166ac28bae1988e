/* Many rows of one statement: every kind of value, all or nothing, on every engine. */
#include "support/store_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/timefmt.h"
#include "store/bulk.h"

enum { WIDTH = 7, MANY = 100000 };

static tide_sql_value number(int64_t i64)
{
    return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = i64};
}

static tide_sql_value text(const char *words)
{
    return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(words)};
}

typedef struct load {
    int64_t first;
    int64_t count;
    int64_t bad_at; /* the row that repeats the first one's key; 0: none */
    bool is_dropped;
    bool is_query_inside; /* a query before and one behind the rows */
    int64_t rows;
} load;

static tide_status count_rows(tide_tx *tx, int64_t *count, int64_t *sum, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_BULKY_COUNT, err));
    TIDE_TRY(tide_query_one(query, err));
    *count = tide_query_col_i64(query);
    *sum = tide_query_col_i64(query);
    return TIDE_OK;
}

static tide_status put_rows(tide_tx *tx, void *arg, tide_error *err)
{
    load *l = arg;
    int64_t before = 0;
    int64_t behind = 0;
    int64_t sum = 0;
    l->rows = -1;
    if (l->is_query_inside)
        TIDE_TRY(count_rows(tx, &before, &sum, err));
    TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
    TIDE_TRY(tide_bulk_begin(&bulk, tx, TEST_SQL_BULKY_PUT, err));
    for (int64_t i = 0; i < l->count; i++) {
        const int64_t id = i + 1 == l->bad_at ? l->first : l->first + i;
        const tide_sql_value row[WIDTH] = {number(id),
                                           number(id),
                                           {.kind = TIDE_SQL_VALUE_F64, .f64 = 0.5},
                                           {.kind = TIDE_SQL_VALUE_BOOL, .i64 = 1},
                                           text("words"),
                                           {.kind = TIDE_SQL_VALUE_NULL},
                                           {.kind = TIDE_SQL_VALUE_TIME, .i64 = id * 1000}};
        TIDE_TRY(tide_bulk_row(bulk, row, WIDTH, err));
    }
    if (l->is_dropped)
        return TIDE_OK; /* and yet nothing of it may stay */
    TIDE_TRY(tide_bulk_end(&bulk, &l->rows, err));
    if (l->is_query_inside) {
        TIDE_TRY(count_rows(tx, &behind, &sum, err));
        if (behind - before != l->count)
            return tide_fail(err, TIDE_E_FAILED, "%d rows behind %d", (int)behind, (int)before);
    }
    return TIDE_OK;
}

static tide_status read_count(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t sum = 0;
    return count_rows(tx, arg, &sum, err);
}

static int64_t count_of(store_test *t)
{
    int64_t count = -1;
    assert_ok_err(tide_store_read(t->store, read_count, &count, &t->err), &t->err);
    return count;
}

static void a_hundred_thousand_rows_are_stored_between_other_statements(void **state)
{
    store_test *t = *state;
    load l = {.first = 1, .count = MANY, .is_query_inside = true};
    assert_ok_err(tide_store_write(t->store, put_rows, &l, &t->err), &t->err);
    assert_int_equal(MANY, l.rows);
    assert_int_equal(MANY, count_of(t));
    load more = {.first = MANY + 1, .count = 1};
    assert_ok_err(tide_store_write(t->store, put_rows, &more, &t->err), &t->err);
    assert_int_equal(MANY + 1, count_of(t));
}

/* A row that is refused, wherever it stands, leaves nothing behind, and the store goes on. */
static void a_failure_in_the_middle_keeps_nothing(void **state)
{
    store_test *t = *state;
    const int64_t places[] = {2, 500, 20000, 29999, 30000};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        load l = {.first = 1, .count = 30000, .bad_at = places[i]};
        assert_status(TIDE_E_EXISTS, tide_store_write(t->store, put_rows, &l, &t->err));
        assert_contains(t->err.text, "bulky_put");
        assert_int_equal(0, count_of(t));
    }
    load sound = {.first = 1, .count = 10};
    assert_ok_err(tide_store_write(t->store, put_rows, &sound, &t->err), &t->err);
    assert_int_equal(10, count_of(t));
}

static void rows_that_are_not_ended_are_given_up(void **state)
{
    store_test *t = *state;
    load l = {.first = 1, .count = 20000, .is_dropped = true};
    assert_status(TIDE_E_FAILED, tide_store_write(t->store, put_rows, &l, &t->err));
    assert_contains(t->err.text, "given up");
    assert_int_equal(0, count_of(t));
}

static void no_rows_are_fine(void **state)
{
    store_test *t = *state;
    load l = {.first = 1, .count = 0, .is_query_inside = true};
    assert_ok_err(tide_store_write(t->store, put_rows, &l, &t->err), &t->err);
    assert_int_equal(0, l.rows);
}

/* ---- values ---- */

typedef struct one_row {
    tide_sql_value values[WIDTH];
} one_row;

static tide_status put_one(tide_tx *tx, void *arg, tide_error *err)
{
    one_row *one = arg;
    TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
    TIDE_TRY(tide_bulk_begin(&bulk, tx, TEST_SQL_BULKY_PUT, err));
    TIDE_TRY(tide_bulk_row(bulk, one->values, WIDTH, err));
    return tide_bulk_end(&bulk, NULL, err);
}

static tide_status check_kinds(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_BULKY_GET, err));
    tide_query_bind_i64(query, "id", 1);
    TIDE_TRY(tide_query_one(query, err));
    assert_true(tide_query_col_i64(query) == INT64_MIN);
    assert_true(tide_query_col_f64(query) == -1.25e-300);
    assert_true(tide_query_col_bool(query));
    const tide_view words = tide_query_col_text(query);
    assert_true(tide_view_equal(words, tide_view_of("")));
    const tide_view bytes = tide_query_col_blob(query);
    assert_true(tide_view_equal(bytes, tide_view_bytes("\0\377\1", 3)));
    assert_true(tide_query_col_time(query) == TIDE_TIME_MIN_US);
    tide_query_reset(query);
    tide_query_bind_i64(query, "id", 2);
    TIDE_TRY(tide_query_one(query, err));
    for (int i = 0; i < WIDTH - 2; i++) {
        assert_true(tide_query_col_is_null(query));
        (void)tide_query_col_i64(query);
    }
    assert_true(tide_query_col_is_null(query));
    tide_query_reset(query);
    tide_query_bind_i64(query, "id", 3);
    TIDE_TRY(tide_query_one(query, err));
    assert_true(tide_query_col_i64(query) == INT64_MAX);
    assert_false(tide_query_col_is_null(query));
    return TIDE_OK;
}

static void every_kind_of_value_comes_back(void **state)
{
    store_test *t = *state;
    one_row full = {{number(1),
                     number(INT64_MIN),
                     {.kind = TIDE_SQL_VALUE_F64, .f64 = -1.25e-300},
                     {.kind = TIDE_SQL_VALUE_BOOL, .i64 = 1},
                     {.kind = TIDE_SQL_VALUE_TEXT, .bytes = {0}},
                     {.kind = TIDE_SQL_VALUE_BLOB, .bytes = {.ptr = "\0\377\1", .len = 3}},
                     {.kind = TIDE_SQL_VALUE_TIME, .i64 = TIDE_TIME_MIN_US}}};
    one_row empty = {{number(2)}};
    one_row high = {{number(3),
                     number(INT64_MAX),
                     {.kind = TIDE_SQL_VALUE_F64, .f64 = INFINITY},
                     {.kind = TIDE_SQL_VALUE_BOOL, .i64 = 0},
                     text("\xf0\x9f\x8c\x8a"),
                     {.kind = TIDE_SQL_VALUE_BLOB, .bytes = {0}},
                     {.kind = TIDE_SQL_VALUE_TIME, .i64 = TIDE_TIME_MAX_US}}};
    assert_ok_err(tide_store_write(t->store, put_one, &full, &t->err), &t->err);
    assert_ok_err(tide_store_write(t->store, put_one, &empty, &t->err), &t->err);
    assert_ok_err(tide_store_write(t->store, put_one, &high, &t->err), &t->err);
    assert_ok_err(tide_store_read(t->store, check_kinds, NULL, &t->err), &t->err);
}

static void a_time_beyond_the_calendar_is_refused(void **state)
{
    store_test *t = *state;
    one_row late = {{number(1),
                     number(1),
                     {.kind = TIDE_SQL_VALUE_NULL},
                     {.kind = TIDE_SQL_VALUE_NULL},
                     text("x"),
                     {.kind = TIDE_SQL_VALUE_NULL},
                     {.kind = TIDE_SQL_VALUE_TIME, .i64 = TIDE_TIME_MAX_US + 1}}};
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, put_one, &late, &t->err));
    assert_int_equal(0, count_of(t));
}

/* A value longer than the buffer goes in one piece. */
static void a_row_may_be_longer_than_the_buffer(void **state)
{
    store_test *t = *state;
    enum { LONG = 3 * TIDE_BULK_BUFFER_LEN };
    TIDE_CLEANUP(tide_freep) char *bytes = malloc(LONG);
    assert_non_null(bytes);
    memset(bytes, 'x', LONG);
    one_row wide = {{number(1),
                     number(1),
                     {.kind = TIDE_SQL_VALUE_NULL},
                     {.kind = TIDE_SQL_VALUE_NULL},
                     text("x"),
                     {.kind = TIDE_SQL_VALUE_BLOB, .bytes = {.ptr = bytes, .len = LONG}},
                     {.kind = TIDE_SQL_VALUE_NULL}}};
    assert_ok_err(tide_store_write(t->store, put_one, &wide, &t->err), &t->err);
    assert_int_equal(1, count_of(t));
}

/* The server goes away while rows are on their way: the closure is run again, and the rows are there once. */
typedef struct broken_load {
    store_test *t;
    tide_store *killer;
    int runs;
} broken_load;

static tide_status kill_others(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_KILL_BACKEND, err));
    return tide_query_run(query, NULL, err);
}

static tide_status put_and_lose(tide_tx *tx, void *arg, tide_error *err)
{
    broken_load *b = arg;
    TIDE_CLEANUP(tide_bulk_dropp) tide_bulk *bulk = NULL;
    TIDE_TRY(tide_bulk_begin(&bulk, tx, TEST_SQL_BULKY_PUT, err));
    for (int64_t i = 1; i <= 20000; i++) {
        if (i == 10000 && b->runs++ == 0) {
            tide_error ignored;
            TIDE_IGNORE(tide_store_write(b->killer, kill_others, NULL, &ignored));
        }
        const tide_sql_value row[WIDTH] = {number(i), number(1), {0}, {0}, text("words"), {0}, {0}};
        TIDE_TRY(tide_bulk_row(bulk, row, WIDTH, err));
    }
    return tide_bulk_end(&bulk, NULL, err);
}

static void a_connection_lost_while_copying_is_no_loss_and_no_repetition(void **state)
{
    store_test *t = *state;
    broken_load b = {.t = t, .killer = store_test_open(t)};
    const tide_status status = tide_store_write(t->store, put_and_lose, &b, &t->err);
    assert_ok_err(status, &t->err);
    assert_int_equal(2, b.runs);
    assert_int_equal(20000, count_of(t));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_hundred_thousand_rows_are_stored_between_other_statements),
        STORE_CASE(a_failure_in_the_middle_keeps_nothing),
        STORE_CASE(rows_that_are_not_ended_are_given_up),
        STORE_CASE(no_rows_are_fine),
        STORE_CASE(every_kind_of_value_comes_back),
        STORE_CASE(a_time_beyond_the_calendar_is_refused),
        STORE_CASE(a_row_may_be_longer_than_the_buffer),
        STORE_CASE_POSTGRES(a_connection_lost_while_copying_is_no_loss_and_no_repetition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
