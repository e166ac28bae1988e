/* Mistakes that a caller in another language can make: each is answered with a status. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/store_fixture.h"

typedef struct nested {
    tide_store *store;
    tide_store *other;
    tide_status write;
    tide_status read;
    tide_error err;
} nested;

static tide_status put_one(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    return tide_query_run(query, NULL, err);
}

static tide_status count_all(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *count = arg;
    *count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_ALL, err));
    while (tide_query_step(query, err) == TIDE_OK)
        (*count)++;
    return TIDE_OK;
}

static int64_t rows_in(store_test *t)
{
    int64_t count = -1;
    assert_ok_err(tide_store_read(t->store, count_all, &count, &t->err), &t->err);
    return count;
}

static tide_status call_again(tide_tx *tx, void *arg, tide_error *err)
{
    nested *n = arg;
    n->write = tide_store_write(n->store, put_one, NULL, &n->err);
    n->read = tide_store_read(n->store, put_one, NULL, NULL);
    tide_store_close(n->store); /* does nothing here */
    return n->other == tide_tx_store(tx) ? TIDE_OK : put_one(tx, NULL, err);
}

static void a_nested_call_is_refused_and_its_closure_goes_on(void **state)
{
    store_test *t = *state;
    nested n = {.store = t->store};
    assert_ok_err(tide_store_write(t->store, call_again, &n, &t->err), &t->err);
    assert_int_equal(TIDE_E_INVALID, n.write);
    assert_int_equal(TIDE_E_INVALID, n.read);
    assert_non_null(strstr(n.err.text, "a closure called its own store"));
    assert_int_equal(1, rows_in(t));
}

static tide_status call_through_other(tide_tx *tx, void *arg, tide_error *err)
{
    const nested *n = arg;
    (void)tx;
    return tide_store_read(n->other, call_again, arg, err);
}

/* From a closure of a second store, called by a closure of the first. */
static void a_nested_call_through_another_store_is_refused(void **state)
{
    store_test *t = *state;
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    tide_store *store = store_test_open_with(t, options);
    nested n = {.store = store, .other = store_test_open_with(t, options)};
    assert_ok_err(tide_store_read(store, call_through_other, &n, &t->err), &t->err);
    assert_int_equal(TIDE_E_INVALID, n.write);
    assert_int_equal(TIDE_E_INVALID, n.read);
}

static tide_status put_and_return_any(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_TRY(put_one(tx, NULL, err));
    return (tide_status) * (int *)arg;
}

static void an_unknown_status_of_a_closure_is_an_error_and_nothing_is_stored(void **state)
{
    store_test *t = *state;
    int unknown[] = {-99, 2, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", unknown[i]);
        assert_status(TIDE_E_INVALID,
                      tide_store_write(t->store, put_and_return_any, &unknown[i], &t->err));
        assert_non_null(strstr(t->err.text, number));
    }
    assert_int_equal(0, rows_in(t));
}

static tide_status return_seven(void *arg, const tide_task *task, tide_error *err)
{
    (void)arg;
    (void)task;
    (void)err;
    return (tide_status)7;
}

static void an_unknown_status_of_a_row_function_is_an_error(void **state)
{
    store_test *t = *state;
    char id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "a"};
    assert_ok_err(tide_task_create(t->store, &task, id, &t->err), &t->err);
    assert_status(TIDE_E_INVALID, tide_task_list(t->store, NULL, 10, return_seven, NULL, &t->err));
    assert_non_null(strstr(t->err.text, "a callback returned 7"));
}

typedef enum mistake {
    UNKNOWN_PARAMETER,
    NO_NAME,
    BOUND_LATE,
    NO_ROW,
    NO_INTEGER,
    NO_TEXT,
    COLUMN_BEYOND,
    COLUMN_BEYOND_OF_ONE,
    DEFERRED_LATE,
    COUNTER_WITHOUT_KEY,
    COUNTERS_TWICE,
    MISTAKES,
} mistake;

static tide_status make_mistake(tide_tx *tx, void *arg, tide_error *err)
{
    const mistake which = *(mistake *)arg;
    TIDE_TRY(put_one(tx, NULL, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_ALL, err));
    if (which == UNKNOWN_PARAMETER)
        tide_query_bind_i64(query, "nonesuch", 1);
    if (which == NO_NAME)
        tide_query_bind_text(query, NULL, "x");
    if (which == NO_ROW)
        (void)tide_query_col_i64(query);
    if (which == COUNTER_WITHOUT_KEY)
        return tide_tx_declare_counter(tx, NULL, &query, NULL, err);
    if (which == COUNTERS_TWICE) {
        TIDE_TRY(tide_tx_take_counters(tx, err));
        return tide_tx_take_counters(tx, err);
    }
    TIDE_TRY(tide_query_step(query, err));
    if (which == BOUND_LATE)
        tide_query_bind_i64(query, "id", 1);
    if (which == NO_TEXT)
        (void)tide_query_col_text(query);
    if (which == COLUMN_BEYOND || which == COLUMN_BEYOND_OF_ONE) {
        TIDE_CLEANUP(tide_query_endp) tide_query *one = NULL;
        static const tide_sql number = {
            TIDE_SQL_INIT, .name = "a_number",
            .engine = {{.text = "SELECT 1"}, {.text = "SELECT 1::int8"}}};
        TIDE_TRY(tide_query_begin(&one, tx, &number, err));
        TIDE_TRY(which == COLUMN_BEYOND ? tide_query_step(one, err) : tide_query_one(one, err));
        if (tide_query_col_i64(one) != 1)
            return TIDE_E_FAILED;
        (void)tide_query_col_text(one);
        (void)tide_query_col_is_null(one);
    }
    if (which == NO_INTEGER) {
        TIDE_CLEANUP(tide_query_endp) tide_query *texts = NULL;
        static const tide_sql text = {
            TIDE_SQL_INIT, .name = "a_text",
            .engine = {{.text = "SELECT 'a'"}, {.text = "SELECT 'a'::text"}}};
        TIDE_TRY(tide_query_begin(&texts, tx, &text, err));
        TIDE_TRY(tide_query_step(texts, err));
        (void)tide_query_col_i64(texts);
    }
    return which == DEFERRED_LATE ? tide_query_defer(&query, err) : TIDE_OK;
}

static void a_mistake_with_a_statement_fails_its_transaction(void **state)
{
    store_test *t = *state;
    for (mistake m = 0; m < MISTAKES; m++) {
        const tide_status status = tide_store_write(t->store, make_mistake, &m, &t->err);
        if (status != TIDE_E_INVALID)
            fail_msg("mistake %d: %d", (int)m, (int)status);
        assert_true(strlen(t->err.text) > 0);
        assert_int_equal(0, rows_in(t));
    }
}

static tide_status run_foreign(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    return tide_query_begin(&query, tx, arg, err);
}

static void a_statement_without_text_or_with_too_many_parameters_is_refused(void **state)
{
    store_test *t = *state;
    tide_sql none = {TIDE_SQL_INIT, .name = "none"};
    tide_sql many = {TIDE_SQL_INIT, .name = "many"};
    for (int e = 0; e < TIDE_ENGINE_COUNT; e++)
        many.engine[e] = (tide_sql_text){.text = "SELECT 1", .param_count = 49};
    assert_status(TIDE_E_INVALID, tide_store_read(t->store, run_foreign, &none, &t->err));
    assert_status(TIDE_E_INVALID, tide_store_read(t->store, run_foreign, &many, &t->err));
    assert_non_null(strstr(t->err.text, "49"));
}

static tide_status step_foreign(tide_tx *tx, void *arg, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, arg, err));
    return tide_query_step(query, err);
}

static void a_text_that_is_not_one_statement_is_a_failure(void **state)
{
    store_test *t = *state;
    static const char *const texts[] = {"", "-- nothing", "SELECT 1; SELECT 2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tide_sql sql = {TIDE_SQL_INIT, .name = "not_one"};
        for (int e = 0; e < TIDE_ENGINE_COUNT; e++)
            sql.engine[e].text = texts[i];
        assert_true(tide_store_read(t->store, step_foreign, &sql, &t->err) < TIDE_OK);
        assert_true(strlen(t->err.text) > 0);
    }
    assert_int_equal(0, rows_in(t));
}

static tide_status notify_in_read(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tide_tx_notify(tx, "topic", err);
}

static void a_read_notifies_nothing(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_INVALID, tide_store_read(t->store, notify_in_read, NULL, &t->err));
}

static void option_values_are_checked(void **state)
{
    store_test *t = *state;
    tide_store *store = NULL;
    for (int i = 0; i < 6; i++) {
        tide_store_options options = store_test_options(t);
        tide_env env = *tide_env_system();
        if (i == 0)
            options.mode = (tide_store_mode)99;
        if (i == 1)
            options.pg_pooler = (tide_pg_pooler)-1;
        if (i == 2)
            options.wait_us = -1;
        if (i == 3)
            options.connection_max = INT_MAX;
        if (i >= 4)
            options.env = &env;
        if (i == 4)
            env.size = 0;
        if (i == 5)
            env.random = NULL;
        assert_status(TIDE_E_INVALID, tide_store_open(&store, t->url, &options, &t->err));
        assert_null(store);
    }
}

static void pointers_that_are_needed_are_not_null(void **state)
{
    store_test *t = *state;
    tide_work_claims claims;
    assert_status(TIDE_E_INVALID, tide_store_open(NULL, t->url, NULL, &t->err));
    assert_string_equal("tide_store_open: NULL, want out && url", t->err.text);
    assert_status(TIDE_E_INVALID, tide_store_write(NULL, put_one, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_store_write(t->store, NULL, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_store_read(t->store, NULL, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_sequence_next(t->store, "a", 1, NULL, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_work_claim(t->store, NULL, &claims, &t->err));
    assert_string_equal("tide_work_claim_request is NULL", t->err.text);
    tide_work_claims_done(&claims);
    assert_status(TIDE_E_INVALID, tide_task_list(t->store, NULL, 1, NULL, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_worker_open(NULL, t->store, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_feed_open(NULL, t->store, NULL, &t->err));
}

static void options_say_their_size(void **state)
{
    store_test *t = *state;
    tide_store *store = NULL;
    tide_store_options options = store_test_options(t);
    options.size = 0;
    assert_status(TIDE_E_INVALID, tide_store_open(&store, t->url, &options, &t->err));
    assert_non_null(strstr(t->err.text, "tide_store_options.size is 0"));
    options.size = sizeof options + 8;
    assert_status(TIDE_E_INVALID, tide_store_open(&store, t->url, &options, &t->err));
    assert_non_null(strstr(t->err.text, "tide_store_options"));
    assert_null(store);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_nested_call_is_refused_and_its_closure_goes_on),
        STORE_CASE(a_nested_call_through_another_store_is_refused),
        STORE_CASE(an_unknown_status_of_a_closure_is_an_error_and_nothing_is_stored),
        STORE_CASE(an_unknown_status_of_a_row_function_is_an_error),
        STORE_CASE(a_mistake_with_a_statement_fails_its_transaction),
        STORE_CASE(a_statement_without_text_or_with_too_many_parameters_is_refused),
        STORE_CASE(a_text_that_is_not_one_statement_is_a_failure),
        STORE_CASE(a_read_notifies_nothing),
        STORE_CASE(option_values_are_checked),
        STORE_CASE(pointers_that_are_needed_are_not_null),
        STORE_CASE(options_say_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
