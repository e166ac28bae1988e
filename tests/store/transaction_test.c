/* tide_store_write and tide_store_read: what a closure may rely on, on every engine. */
#include "support/store_fixture.h"

#include "base/cleanup.h"

typedef struct put_request {
    int64_t id;
    tide_status result;
} put_request;

static tide_status put_id(tide_tx *tx, int64_t id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", id);
    return tide_query_run(query, NULL, err);
}

static tide_status put_and_return(tide_tx *tx, void *arg, tide_error *err)
{
    const put_request *request = arg;
    TIDE_TRY(put_id(tx, request->id, err));
    return request->result < TIDE_OK ? tide_fail(err, request->result, "as asked")
                                     : request->result;
}

static tide_status count_ids(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *count = arg;
    *count = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_ALL, err));
    while (tide_query_step(query, err) == TIDE_OK)
        (*count)++;
    return TIDE_OK;
}

static int64_t ids_in(tide_store *store)
{
    int64_t count = 0;
    assert_ok(tide_store_read(store, count_ids, &count, NULL));
    return count;
}

static void a_closure_that_fails_changes_nothing(void **state)
{
    store_test *t = *state;
    put_request request = {.id = 1, .result = TIDE_E_MISMATCH};
    assert_status(TIDE_E_MISMATCH, tide_store_write(t->store, put_and_return, &request, &t->err));
    assert_string_equal("as asked", t->err.text);
    assert_int_equal(0, ids_in(t->store));
}

static void a_closure_may_find_nothing_and_still_commit(void **state)
{
    store_test *t = *state;
    put_request request = {.id = 1, .result = TIDE_NONE};
    assert_status(TIDE_NONE, tide_store_write(t->store, put_and_return, &request, &t->err));
    assert_int_equal(1, ids_in(t->store));
}

/* A failed statement dooms the transaction, whatever the closure says afterwards. */
static tide_status ignore_a_failure(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_TRY(put_id(tx, 1, err));
    assert_status(TIDE_E_EXISTS, put_id(tx, 1, err));
    tide_error later = {.status = TIDE_OK};
    assert_status(TIDE_E_EXISTS, put_id(tx, 2, &later));
    int64_t now_us = 0;
    assert_status(TIDE_E_EXISTS, tide_tx_now(tx, &now_us, &later));
    return TIDE_OK;
}

static void a_failed_statement_dooms_its_transaction(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_EXISTS, tide_store_write(t->store, ignore_a_failure, NULL, &t->err));
    assert_int_equal(0, ids_in(t->store));
    put_request request = {.id = 3};
    assert_ok(tide_store_write(t->store, put_and_return, &request, &t->err));
    assert_int_equal(1, ids_in(t->store));
}

static tide_status write_in_a_read(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return put_id(tx, 1, err);
}

static void a_read_transaction_cannot_write(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_DENIED, tide_store_read(t->store, write_in_a_read, NULL, &t->err));
    assert_int_equal(0, ids_in(t->store));
}

static tide_status put_orphan(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_CHILD_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    tide_query_bind_i64(query, "parent", 99);
    return tide_query_run(query, NULL, err);
}

/* A deferred foreign key is this closure's failure, not its whole group's. */
static void a_dangling_reference_fails_its_own_closure(void **state)
{
    store_test *t = *state;
    assert_status(TIDE_E_CONFLICT, tide_store_write(t->store, put_orphan, NULL, &t->err));
    put_request request = {.id = 1};
    assert_ok(tide_store_write(t->store, put_and_return, &request, &t->err));
}

static tide_status leave_queries_open(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    tide_query *walked = NULL;
    tide_query *begun = NULL;
    TIDE_TRY(put_id(tx, 1, err));
    TIDE_TRY(tide_query_begin(&walked, tx, TEST_SQL_TYPED_ALL, err));
    TIDE_TRY(tide_query_step(walked, err));
    return tide_query_begin(&begun, tx, TEST_SQL_TYPED_ALL, err);
}

static void queries_end_with_their_closure_at_the_latest(void **state)
{
    store_test *t = *state;
    assert_ok_err(tide_store_write(t->store, leave_queries_open, NULL, &t->err), &t->err);
    assert_int_equal(1, ids_in(t->store));
}

static tide_status look_at_the_clock(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *seen = arg;
    store_test *t = *(store_test **)(seen + 2);
    TIDE_TRY(tide_tx_now(tx, &seen[0], err));
    virtual_env_advance(&t->clock, SECOND_US);
    return tide_tx_now(tx, &seen[1], err);
}

static void a_transaction_has_one_time(void **state)
{
    store_test *t = *state;
    struct {
        int64_t seen[2];
        store_test *t;
    } request = {.t = t};
    assert_ok_err(tide_store_write(t->store, look_at_the_clock, &request, &t->err), &t->err);
    assert_true(request.seen[0] == request.seen[1]);
    assert_true(request.seen[0] >= VIRTUAL_ENV_WALL_US);
}

static tide_status work_too_long(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    if (tide_tx_is_write(tx))
        TIDE_TRY(put_id(tx, 1, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_COUNT_UP_TO, err));
    tide_query_bind_i64(query, "n", INT64_C(1000000000000));
    return tide_query_one(query, err);
}

/* A closure has a time budget. */
static void a_closure_that_works_too_long_is_stopped(void **state)
{
    store_test *t = *state;
    tide_store *store = store_test_open_with(t, (tide_store_options){TIDE_STORE_OPTIONS_INIT,
                                                                     .env = tide_env_system(),
                                                                     .closure_us = SECOND_US / 10});
    assert_status(TIDE_E_TIMEOUT, tide_store_write(store, work_too_long, NULL, &t->err));
    assert_status(TIDE_E_TIMEOUT, tide_store_read(store, work_too_long, NULL, &t->err));
    assert_int_equal(0, ids_in(t->store));
    put_request request = {.id = 1};
    assert_ok(tide_store_write(store, put_and_return, &request, &t->err));
}

static void as_is_opens_for_reading_only(void **state)
{
    store_test *t = *state;
    put_request request = {.id = 1};
    assert_ok(tide_store_write(t->store, put_and_return, &request, &t->err));
    tide_store_options options = store_test_options(t);
    options.mode = TIDE_STORE_AS_IS;
    tide_store *reader = store_test_open_with(t, options);
    assert_int_equal(1, ids_in(reader));
    request.id = 2;
    assert_status(TIDE_E_DENIED, tide_store_write(reader, put_and_return, &request, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_closure_that_fails_changes_nothing),
        STORE_CASE(a_closure_may_find_nothing_and_still_commit),
        STORE_CASE(a_failed_statement_dooms_its_transaction),
        STORE_CASE(a_read_transaction_cannot_write),
        STORE_CASE(a_dangling_reference_fails_its_own_closure),
        STORE_CASE(queries_end_with_their_closure_at_the_latest),
        STORE_CASE(a_transaction_has_one_time),
        STORE_CASE(a_closure_that_works_too_long_is_stopped),
        STORE_CASE(as_is_opens_for_reading_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
