/* Somebody's own SQL: reads what is there, within limits, and can do nothing else. */
#include "support/store_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/readonly_query.h"

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

static tide_status take_row(void *arg, const tide_sql_value *values, int count, tide_error *err)
{
    seen *s = arg;
    s->rows++;
    s->last[0] = '\0';
    for (int i = 0; i < count; i++) {
        char *at = s->last + strlen(s->last);
        const size_t left = sizeof s->last - strlen(s->last);
        const tide_sql_value *v = &values[i];
        if (v->kind == TIDE_SQL_VALUE_NULL)
            (void)snprintf(at, left, "null ");
        else if (v->kind == TIDE_SQL_VALUE_I64 || v->kind == TIDE_SQL_VALUE_BOOL)
            (void)snprintf(at, left, "%" PRId64 " ", v->i64);
        else if (v->kind == TIDE_SQL_VALUE_F64)
            (void)snprintf(at, left, "%g ", v->f64);
        else
            (void)snprintf(at, left, "%s:%.*s ", v->kind == TIDE_SQL_VALUE_BLOB ? "b" : "t",
                           (int)v->bytes.len, v->bytes.ptr);
    }
    return s->answer < TIDE_OK ? tide_fail(err, s->answer, "enough") : TIDE_OK;
}

static tide_status look(store_test *t, const char *sql, seen *s, int64_t row_max,
                        int64_t timeout_us)
{
    const tide_readonly_query asked = {.sql = sql,
                                       .row_max = row_max,
                                       .bytes_max = 1 << 20,
                                       .timeout_us = timeout_us,
                                       .columns = take_columns,
                                       .row = take_row,
                                       .arg = s};
    return tide_readonly_query_run(t->store, &asked, &t->err);
}

static tide_status put_typed(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TEST_SQL_TYPED_PUT, err));
    tide_query_bind_i64(query, "id", 1);
    tide_query_bind_i64(query, "i", 42);
    tide_query_bind_f64(query, "f", 0.5);
    tide_query_bind_text(query, "t", "words");
    tide_query_bind_blob(query, "b", tide_view_of("bytes"));
    tide_query_bind_time(query, "at", INT64_C(1735689600500000));
    return tide_query_run(query, NULL, err);
}

static tide_status make_sequence(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(tx, "CREATE SEQUENCE s; CREATE TABLE others (x int)", err);
}

static tide_status let_typed_be_read(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return tx->store->ops->script(tx, "GRANT SELECT ON typed TO tidemark_query", err);
}

/* The table typed is a test's, not the store's: on PostgreSQL its owner says that queries may read it. The first query has made the role. */
static void put_rows(store_test *t)
{
    seen s = {0};
    assert_ok_err(tide_store_write(t->store, put_typed, NULL, &t->err), &t->err);
    if (t->engine != TIDE_ENGINE_POSTGRES)
        return;
    assert_ok_err(look(t, "SELECT 1", &s, 1, SECOND_US), &t->err);
    assert_ok_err(tide_store_write(t->store, let_typed_be_read, NULL, &t->err), &t->err);
}

static void values_come_with_their_kinds(void **state)
{
    store_test *t = *state;
    seen s = {0};
    put_rows(t);
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
    put_rows(t);
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
        "EXPLAIN ANALYZE UPDATE typed SET i = 0", "DO $$ BEGIN DELETE FROM typed; END $$"};
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

/* ---- ways out ---- */

static void assert_refused(store_test *t, const char *const *statements)
{
    seen s = {0};
    for (; *statements; statements++) {
        const tide_status status = look(t, *statements, &s, 10, 5 * SECOND_US);
        if (status != TIDE_E_DENIED)
            fail_msg("%s: %s, and not denied: %s", *statements, tide_status_get(status)->name,
                     status < TIDE_OK ? t->err.text : s.last);
    }
    assert_int_equal(0, s.rows);
}

/* The store's user is a superuser here, so nothing but the look itself stands in the way: files and programs of the server, other rights, settings, locks,
 * messages, other sessions, numbers, statements inside of functions, and passwords. */
static void a_query_does_not_get_at_the_server(void **state)
{
    static const char *const ways[] = {
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_catalog.pg_read_binary_file('postgresql.conf')",
        "SELECT \"pg_read_file\"('/etc/passwd')",
        "SELECT * FROM pg_ls_dir('.')",
        "SELECT count(*) FROM pg_ls_logdir()",
        "SELECT (pg_stat_file('PG_VERSION')).size",
        "COPY (SELECT 1) TO PROGRAM 'touch /tmp/never'",
        "COPY typed TO STDOUT",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(1, '/tmp/never')",
        "SELECT lo_create(0)",
        "SELECT set_config('role', 'none', false)",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SELECT query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
        "SELECT set_config('role', 'none', true), query_to_xml('SELECT 1', true, true, '')",
        "SELECT table_to_xml('pg_authid', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT * FROM ts_stat('SELECT ''a''::tsvector')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_xact_lock(1)",
        "SELECT pg_notify('tidemark', 'work')",
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "SELECT pg_cancel_backend(1)",
        "SELECT pg_reload_conf()",
        "SELECT pg_switch_wal()",
        "SELECT pg_create_physical_replication_slot('never')",
        "SELECT pg_logical_emit_message(false, 'a', 'b')",
        "SELECT nextval('s')",
        "SELECT rolpassword FROM pg_authid",
        "SELECT passwd FROM pg_shadow",
        "SELECT * FROM pg_hba_file_rules",
        "SELECT * FROM pg_file_settings",
        "SELECT digest FROM access_tokens",
        "TABLE access_tokens",
        "WITH a AS (SELECT pg_read_file('/etc/passwd') AS x) SELECT x FROM a",
        "SELECT 1 WHERE EXISTS (SELECT pg_read_file('/etc/passwd'))",
        "SELECT 1 ORDER BY pg_read_file('/etc/passwd')",
        "VALUES (pg_read_file('/etc/passwd'))",
        "EXPLAIN ANALYZE SELECT pg_advisory_lock(1)",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT pg_advisory_lock(1)",
        "EXPLAIN (ANALYZE) (SELECT pg_advisory_lock(1))",
        "/* a */ EXPLAIN /* b */ ANALYZE /* c */ VALUES (pg_advisory_lock(1))",
        "EXPLAIN ANALYZE DELETE FROM typed",
        "SELECT * FROM typed FOR UPDATE",
        "SET ROLE NONE",
        "RESET ROLE",
        "LOCK TABLE typed",
        "CALL never()",
        NULL,
    };
    store_test *t = *state;
    seen s = {0};
    /* A sequence, so that its name can be resolved; made as an application would. */
    assert_ok_err(tide_store_write(t->store, make_sequence, NULL, &t->err), &t->err);
    assert_refused(t, ways);
    /* One statement, whatever it pretends to end. */
    assert_status(TIDE_E_INVALID, look(t, "SELECT 1; END; DROP TABLE typed", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELECT 1\n;END --", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELEC 1", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELECT $1", &s, 10, SECOND_US));
    assert_status(TIDE_E_INVALID, look(t, "SELECT 1 INTO never", &s, 10, SECOND_US));
}

/* Another application's table in the same database is not ours to show; what only computes or tells is. */
static void a_query_reads_our_tables_and_the_catalogue(void **state)
{
    store_test *t = *state;
    seen s = {0};
    assert_ok_err(tide_store_write(t->store, make_sequence, NULL, &t->err), &t->err);
    assert_status_err(TIDE_E_DENIED, look(t, "SELECT * FROM others", &s, 10, SECOND_US), &t->err);
    assert_contains(t->err.text, "others");
    const char *const fine[] = {
        "SELECT current_user, random() < 2, clock_timestamp() > now()",
        "SELECT count(*) FROM information_schema.tables",
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relname = 'typed'",
        "SELECT 1, 1, count(*) FROM sequences, LATERAL (SELECT 2) b -- the same name twice",
        "EXPLAIN SELECT * FROM sequences",
        "EXPLAIN (COSTS false) (SELECT * FROM sequences)",
        "SHOW server_version",
        "(VALUES (1), (2))",
        "TABLE sequences",
        "WITH RECURSIVE a (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM a WHERE i < 5) TABLE a",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FROM generate_series(1, 9) g (i)",
    };
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        assert_ok_err(look(t, fine[i], &s, 10, 5 * SECOND_US), &t->err);
    assert_ok_err(look(t, "SELECT current_user", &s, 10, SECOND_US), &t->err);
    assert_string_equal("t:tidemark_query ", s.last);
}

/* An ordinary user cannot create the role tidemark_query. */
static void without_the_role_a_query_reads_our_tables_alone(void **state)
{
    static const char *const ways[] = {
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_terminate_backend(pg_backend_pid())",
        "SELECT count(*) FROM access_tokens",
        "SELECT * FROM typed",
        NULL,
    };
    store_test *t = *state;
    seen s = {0};
    assert_refused(t, ways);
    assert_ok_err(look(t, "SELECT count(*) FROM sequences", &s, 10, SECOND_US), &t->err);
    assert_int_equal(1, s.rows);
}

/* What SQLite can do besides reading: other files, functions that load code, settings, and the tokens. */
static void a_query_does_not_leave_the_file(void **state)
{
    static const char *const ways[] = {
        "SELECT load_extension('/tmp/never.so')",
        "ATTACH '/tmp/never.db' AS never",
        "VACUUM INTO '/tmp/never.db'",
        "PRAGMA writable_schema = 1",
        "PRAGMA query_only = 0",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "SELECT digest FROM access_tokens",
        "SELECT count(*) FROM access_tokens",
        "WITH a AS (SELECT * FROM access_tokens) SELECT 1 FROM a",
        "EXPLAIN SELECT load_extension('/tmp/never.so')",
        NULL,
    };
    store_test *t = *state;
    seen s = {0};
    assert_refused(t, ways);
    const char *const gone[] = {"SELECT * FROM pragma_wal_checkpoint",
                                "SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/n', 1)",
                                "SELECT edit('x')", "SELECT fts3_tokenizer('simple')"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        assert_true(look(t, gone[i], &s, 10, SECOND_US) < TIDE_OK);
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
    const tide_readonly_query asked = {
        .sql = "WITH RECURSIVE up (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
               "FROM up WHERE i < 2000000000) SELECT max(i) FROM up",
        .row_max = 5,
        .bytes_max = 1000,
        .timeout_us = 20000,
        .columns = take_columns,
        .row = take_row,
        .arg = &s};
    assert_status(TIDE_E_TIMEOUT, tide_readonly_query_run(real, &asked, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SUPERUSER(values_come_with_their_kinds),
        STORE_CASE_SUPERUSER(nothing_can_be_changed),
        STORE_CASE(what_is_not_one_statement_is_refused),
        STORE_CASE_POSTGRES_SUPERUSER(a_query_does_not_get_at_the_server),
        STORE_CASE_POSTGRES_SUPERUSER(a_query_reads_our_tables_and_the_catalogue),
        STORE_CASE_POSTGRES(without_the_role_a_query_reads_our_tables_alone),
        STORE_CASE_SQLITE(a_query_does_not_leave_the_file),
        STORE_CASE(more_rows_bytes_or_time_than_allowed_end_it),
        STORE_CASE(a_long_query_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
