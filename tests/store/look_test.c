/* Somebody's own SQL: reads what is there, within limits, and can do nothing else. */
#include "support/store_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/look.h"

typedef struct seen {
    int width;
    char names[256];
    int rows;
    char last[512]; /* the last row, kinds and values */
    tide_status answer;
} seen;

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)err;
    seen *s = arg;
    s->width = count;
    s->names[0] = '\0';
    for (int i = 0; i < count; i++)
        (void)snprintf(s->names + strlen(s->names), sizeof s->names - strlen(s->names), "%s ",
                       names[i]);
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_value *values, int count, tide_error *err)
{
    seen *s = arg;
    s->rows++;
    s->last[0] = '\0';
    for (int i = 0; i < count; i++) {
        char *at = s->last + strlen(s->last);
        const size_t left = sizeof s->last - strlen(s->last);
        const tide_value *v = &values[i];
        if (v->kind == TIDE_VALUE_NULL)
            (void)snprintf(at, left, "null ");
        else if (v->kind == TIDE_VALUE_I64 || v->kind == TIDE_VALUE_BOOL)
            (void)snprintf(at, left, "%" PRId64 " ", v->as.i64);
        else if (v->kind == TIDE_VALUE_F64)
            (void)snprintf(at, left, "%g ", v->as.f64);
        else
            (void)snprintf(at, left, "%s:%.*s ", v->kind == TIDE_VALUE_BLOB ? "b" : "t",
                           (int)v->as.bytes.len, v->as.bytes.ptr);
    }
    return s->answer < TIDE_OK ? tide_fail(err, s->answer, "enough") : TIDE_OK;
}

static tide_status look(store_test *t, const char *sql, seen *s, int64_t row_max,
                        int64_t timeout_us)
{
    const tide_look asked = {.sql = sql,
                             .row_max = row_max,
                             .bytes_max = 1 << 20,
                             .timeout_us = timeout_us,
                             .columns = take_columns,
                             .row = take_row,
                             .arg = s};
    return tide_store_look(t->store, &asked, &t->err);
}

static tide_status put_typed(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_bind_i64(query, "id", 1);
    tide_bind_i64(query, "i", 42);
    tide_bind_f64(query, "f", 0.5);
    tide_bind_text(query, "t", "words");
    tide_bind_blob(query, "b", tide_view_of("bytes"));
    tide_bind_time(query, "at", INT64_C(1735689600500000));
    return tide_query_run(query, NULL, err);
}

static void values_come_with_their_kinds(void **state)
{
    store_test *t = *state;
    seen s = {0};
    assert_ok_err(tide_write(t->store, put_typed, NULL, &t->err), &t->err);
    assert_ok_err(
        look(t, "SELECT i, f, t, b, at, NULL AS none FROM typed; -- all of it", &s, 10, SECOND_US),
        &t->err);
    assert_string_equal("i f t b at none ", s.names);
    assert_string_equal("42 0.5 t:words b:bytes t:2025-01-01 00:00:00.500000 null ", s.last);
    assert_ok_err(look(t, "SELECT i FROM typed WHERE i = 0", &s, 10, SECOND_US), &t->err);
    assert_string_equal("i ", s.names);
    assert_int_equal(1, s.rows);
}

static void nothing_can_be_changed(void **state)
{
    store_test *t = *state;
    seen s = {0};
    assert_ok_err(tide_write(t->store, put_typed, NULL, &t->err), &t->err);
    const char *const refused[] = {
        "DELETE FROM typed",
        "INSERT INTO typed (id) VALUES (2)",
        "UPDATE typed SET i = 0",
        "CREATE TABLE mine (x)",
        "DROP TABLE typed",
        "BEGIN",
        "COMMIT",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_status_err(TIDE_E_DENIED, look(t, refused[i], &s, 10, SECOND_US), &t->err);
    const char *const sqlite_only[] = {"PRAGMA journal_mode = DELETE", "ATTACH 'x.db' AS x",
                                       "VACUUM"};
    const char *const postgres_only[] = {
        "SET statement_timeout = 0", "LISTEN tidemark",
        "WITH d AS (DELETE FROM typed RETURNING 1) SELECT * FROM d",
        "SELECT * INTO mine FROM typed", "DO $$ BEGIN DELETE FROM typed; END $$"};
    for (size_t i = 0; t->engine == TIDE_ENGINE_SQLITE && i < 3; i++)
        assert_status_err(TIDE_E_DENIED, look(t, sqlite_only[i], &s, 10, SECOND_US), &t->err);
    for (size_t i = 0; t->engine == TIDE_ENGINE_POSTGRES && i < 5; i++)
        assert_status_err(TIDE_E_DENIED, look(t, postgres_only[i], &s, 10, SECOND_US), &t->err);
    assert_ok_err(look(t, "SELECT count(*) FROM typed WHERE i = 42", &s, 10, SECOND_US), &t->err);
    assert_string_equal("1 ", s.last);
}

static void what_is_not_one_statement_is_refused(void **state)
{
    store_test *t = *state;
    seen s = {0};
    assert_status(TIDE_E_INVALID, look(t, "SELECT 1; SELECT 2", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, " -- nothing", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELECT FROM WHERE", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELECT * FROM nowhere", &s, 10, SECOND_US));
    assert_int_equal(0, s.rows);
}

static const char COUNT[] = "WITH RECURSIVE up (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM up "
                            "WHERE i < 100000000) SELECT i FROM up";

static void more_rows_bytes_or_time_than_allowed_end_it(void **state)
{
    store_test *t = *state;
    seen s = {0};
    assert_status(TIDE_E_LIMIT,
                  look(t,
                       t->engine == TIDE_ENGINE_SQLITE ? COUNT : "SELECT generate_series(1, 100)",
                       &s, 5, 60 * SECOND_US));
    assert_int_equal(5, s.rows);
    assert_status(TIDE_E_LIMIT,
                  look(t,
                       t->engine == TIDE_ENGINE_SQLITE ? "SELECT zeroblob(2000000)"
                                                       : "SELECT repeat('x', 2000000)",
                       &s, 5, SECOND_US));
    assert_int_equal(5, s.rows);
    s.answer = TIDE_E_TIMEOUT;
    assert_status(TIDE_E_TIMEOUT, look(t, "SELECT 1", &s, 5, SECOND_US));
    assert_contains(t->err.text, "enough");
    if (t->engine == TIDE_ENGINE_POSTGRES)
        assert_status(TIDE_E_TIMEOUT, look(t, "SELECT pg_sleep(60)", &s, 5, 10000));
}

/* On the real clock: a query that would run for minutes is stopped. */
static void a_long_query_is_stopped(void **state)
{
    store_test *t = *state;
    seen s = {0};
    tide_store *real = store_test_open_real(t);
    const tide_look asked = {.sql = "WITH RECURSIVE up (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                                    "FROM up WHERE i < 2000000000) SELECT max(i) FROM up",
                             .row_max = 5,
                             .bytes_max = 1000,
                             .timeout_us = 20000,
                             .columns = take_columns,
                             .row = take_row,
                             .arg = &s};
    assert_status(TIDE_E_TIMEOUT, tide_store_look(real, &asked, &t->err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(values_come_with_their_kinds),
        STORE_CASE(nothing_can_be_changed),
        STORE_CASE(what_is_not_one_statement_is_refused),
        STORE_CASE(more_rows_bytes_or_time_than_allowed_end_it),
        STORE_CASE(a_long_query_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
