/* The wrapper around DuckDB: opening, statements, appending, limits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/duckdb/duckdb.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

#include "colony/duckdb/duckdb_place.h"

typedef struct duck_test {
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    tide_duckdb *db;
    tide_duck *duck;
    tide_error err;
} duck_test;

static const tide_duckdb_options small = {.threads = 1, .memory_max = INT64_C(256) << 20};

static void reopen(duck_test *t)
{
    tide_duck_close(t->duck);
    t->duck = NULL;
    tide_duckdb_close(t->db);
    t->db = NULL;
    assert_ok_err(tide_duckdb_open(&t->db, t->path, &small, &t->err), &t->err);
    assert_ok_err(tide_duck_connect(&t->duck, t->db, &t->err), &t->err);
}

static int setup(void **state)
{
    duck_test *t = calloc(1, sizeof *t);
    duckdb_place();
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "test.duckdb", t->path);
    reopen(t);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    duck_test *t = *state;
    tide_duck_close(t->duck);
    tide_duckdb_close(t->db);
    tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

static void make_schema(duck_test *t)
{
    assert_ok_err(tide_duck_run(t->duck, TIDE_DUCKDB_SQL_COLONY_SCHEMA, &t->err), &t->err);
}

/* ---- asking ---- */

typedef struct answer {
    char columns[256];
    char rows[4096];
    int count;
} answer;

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    answer *a = arg;
    (void)err;
    for (int i = 0; i < count; i++) {
        strncat(a->columns, names[i], sizeof a->columns - strlen(a->columns) - 1);
        strncat(a->columns, "|", sizeof a->columns - strlen(a->columns) - 1);
    }
    return TIDE_OK;
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    answer *a = arg;
    (void)err;
    a->count++;
    for (int i = 0; i < count; i++) {
        char text[256];
        const tide_sql_value *cell = &cells[i];
        if (cell->kind == TIDE_SQL_VALUE_NULL)
            (void)snprintf(text, sizeof text, "null|");
        else if (cell->kind == TIDE_SQL_VALUE_BOOL)
            (void)snprintf(text, sizeof text, "%s|", cell->i64 ? "yes" : "no");
        else if (cell->kind == TIDE_SQL_VALUE_I64)
            (void)snprintf(text, sizeof text, "%" PRId64 "|", cell->i64);
        else if (cell->kind == TIDE_SQL_VALUE_F64)
            (void)snprintf(text, sizeof text, "%g|", cell->f64);
        else
            (void)snprintf(text, sizeof text, "%.*s|", (int)cell->bytes.len, cell->bytes.ptr);
        strncat(a->rows, text, sizeof a->rows - strlen(a->rows) - 1);
    }
    return TIDE_OK;
}

static tide_status ask(duck_test *t, const char *text, answer *a)
{
    *a = (answer){0};
    const tide_duck_ask question = {.text = text,
                                    .row_max = 1000,
                                    .bytes_max = 1 << 20,
                                    .timeout_us = 20000000,
                                    .columns = take_columns,
                                    .row = take_row,
                                    .arg = a};
    return tide_duckdb_ask(t->db, &question, &t->err);
}

/* Every type has a value or a text. */
static void values_of_every_type_can_be_read(void **state)
{
    duck_test *t = *state;
    answer a;
    const struct {
        const char *sql;
        const char *want;
    } cases[] = {
        {"SELECT true, 1::TINYINT, -2::SMALLINT, 3, 4::BIGINT, 5::UTINYINT, 6::UINTEGER",
         "yes|1|-2|3|4|5|6|"},
        {"SELECT 18446744073709551615::UBIGINT, 9::UBIGINT, 1.5::FLOAT, 0.1::DOUBLE, NULL",
         "18446744073709551615|9|1.5|0.1|null|"},
        {"SELECT (-170141183460469231731687303715884105728)::HUGEINT, "
         "340282366920938463463374607431768211455::UHUGEINT",
         "-170141183460469231731687303715884105728|340282366920938463463374607431768211455|"},
        {"SELECT 12.34::DECIMAL(6,2), -0.05::DECIMAL(18,3), 7::DECIMAL(38,10)",
         "12.34|-0.050|7.0000000000|"},
        {"SELECT TIMESTAMP '2025-01-02 03:04:05.678', DATE '2025-01-02', TIME '03:04:05', "
         "TIMESTAMP_S '2025-01-02 03:04:05'",
         "2025-01-02 03:04:05.678000|2025-01-02|03:04:05.000000|2025-01-02 03:04:05.000000|"},
        {"SELECT 'a much longer text than twelve bytes', 'short', 'xy'::BLOB",
         "a much longer text than twelve bytes|short|xy|"},
        {"SELECT uuid '0123abcd-0000-4000-8000-00000000000f', 'b'::ENUM('a', 'b')",
         "0123abcd-0000-4000-8000-00000000000f|b|"},
        {"SELECT [1, NULL, 3], {'a': 1, 'b': ['x']}, MAP {'k': 2}, [1.5, 2]::DOUBLE[2]",
         "[1,NULL,3]|{'a': 1, 'b': [x]}|[{'key': k, 'value': 2}]|[1.5,2]|"},
        {"SELECT TIMESTAMP_NS '2025-01-02 03:04:05.678901234', TIMESTAMP_NS '1969-12-31 "
         "23:59:59.999999999', TIMETZ '03:04:05+02', TIMETZ '03:04:05-05:30'",
         "2025-01-02 03:04:05.678901234|1969-12-31 23:59:59.999999999|03:04:05.000000+02|"
         "03:04:05.000000-05:30|"},
        {"SELECT INTERVAL '1 month 2 days 3 seconds', 'infinity'::TIMESTAMP",
         "1 months 2 days 00:00:03.000000|infinity|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok_err(ask(t, cases[i].sql, &a), &t->err);
        assert_string_equal(cases[i].want, a.rows);
    }
    assert_ok_err(ask(t, "SELECT 1 AS one, 'x' AS two WHERE false", &a), &t->err);
    assert_string_equal("one|two|", a.columns);
    assert_int_equal(0, a.count);
}

/* A user's statement cannot change anything, nor touch a file. */
static void questions_only_read(void **state)
{
    duck_test *t = *state;
    answer a;
    make_schema(t);
    const char *const refused[] = {
        "INSERT INTO colony_counters VALUES ('x', 1)",
        "DELETE FROM colony_counters",
        "DROP TABLE spans",
        "CREATE TABLE x (a INTEGER)",
        "ATTACH '/tmp/other.duckdb'",
        "COPY spans TO '/tmp/x.csv'",
        "SET threads = 4",
        "PRAGMA threads = 4",
        "CHECKPOINT",
        "INSTALL httpfs",
        "LOAD httpfs",
        "EXPORT DATABASE '/tmp/never'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/never.csv'",
        "EXPLAIN ANALYZE DELETE FROM colony_counters",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM parquet_scan('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('HOME')",
        "CREATE SECRET s (TYPE s3)",
        "PREPARE a AS DELETE FROM colony_counters",
        "CALL pragma_version()",
        "PRAGMA enable_profiling",
        "USE memory",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SELECT * FROM no_such_table",
        "SELEC 1",
        "",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const tide_status status = ask(t, refused[i], &a);
        if (status != TIDE_E_INVALID && status != TIDE_E_DENIED)
            fail_msg("%s: status %d (%s)", refused[i], status, t->err.text);
    }
    assert_status_err(TIDE_E_DENIED, ask(t, "SELECT * FROM read_text('/etc/hostname')", &a),
                      &t->err);
    assert_status_err(TIDE_E_DENIED, ask(t, "SELECT * FROM glob('/etc/*')", &a), &t->err);
    assert_ok_err(ask(t, "SELECT count(*) FROM colony_counters", &a), &t->err);
    assert_string_equal("0|", a.rows);
    assert_ok_err(ask(t, "EXPLAIN SELECT 1", &a), &t->err);
    assert_ok_err(ask(t, "DESCRIBE spans", &a), &t->err);
}

/* Rows, bytes and time have an end. */
static void questions_have_limits(void **state)
{
    duck_test *t = *state;
    answer a;
    assert_status_err(TIDE_E_LIMIT, ask(t, "SELECT i FROM range(100000000000) r(i)", &a), &t->err);
    assert_int_equal(1000, a.count);
    assert_status_err(TIDE_E_LIMIT, ask(t, "SELECT repeat('x', 10000) FROM range(900)", &a),
                      &t->err);
    a = (answer){0};
    const tide_duck_ask endless = {
        .text = "SELECT count(*) FROM range(100000000000) a(i) WHERE hash(i) % 7 = 8",
        .row_max = 10,
        .bytes_max = 1000,
        .timeout_us = 100000,
        .columns = take_columns,
        .row = take_row,
        .arg = &a};
    const int64_t before = proc_now_ms();
    assert_status_err(TIDE_E_TIMEOUT, tide_duckdb_ask(t->db, &endless, &t->err), &t->err);
    assert_true(proc_now_ms() - before < 10000);
    assert_ok_err(ask(t, "SELECT 1", &a), &t->err);
}

/* Every statement of the catalogue can be prepared on the schema. */
static void every_statement_prepares(void **state)
{
    duck_test *t = *state;
    make_schema(t);
    for (const tide_sql *sql = tide_duckdb_sql_catalogue; sql->name; sql++) {
        if (sql == TIDE_DUCKDB_SQL_COLONY_SCHEMA)
            continue; /* many statements; run above */
        TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
        assert_ok_err(tide_duck_query_begin(&query, t->duck, sql, &t->err), &t->err);
    }
}

static void append_counters(duck_test *t, int64_t first, int count)
{
    tide_duck_appender *appender = NULL;
    assert_ok_err(tide_duck_append_begin(&appender, t->duck, "colony_counters", &t->err), &t->err);
    for (int i = 0; i < count; i++) {
        tide_duck_put_text(appender, tide_view_of("a name that is not inlined"));
        tide_duck_put_i64(appender, first + i);
        tide_duck_end_row(appender);
    }
    assert_ok_err(tide_duck_append_end(&appender, &t->err), &t->err);
}

/* A transaction's rows are all there after it was committed, also in the next process, and none if it was not. */
static void transactions_are_whole(void **state)
{
    duck_test *t = *state;
    answer a;
    make_schema(t);
    assert_ok_err(tide_duck_begin(t->duck, &t->err), &t->err);
    append_counters(t, 1, 5000);
    assert_ok_err(ask(t, "SELECT count(*) FROM colony_counters", &a), &t->err);
    assert_string_equal("0|", a.rows);
    assert_ok_err(tide_duck_commit(t->duck, &t->err), &t->err);
    assert_ok_err(tide_duck_begin(t->duck, &t->err), &t->err);
    append_counters(t, 6000, 10);
    tide_duck_rollback(t->duck);
    assert_ok_err(tide_duck_begin(t->duck, &t->err), &t->err);
    append_counters(t, 7000, 10);
    reopen(t); /* closes with a transaction open */
    assert_ok_err(
        ask(t, "SELECT count(*), min(value), max(value), min(name) FROM colony_counters", &a),
        &t->err);
    assert_string_equal("5000|1|5000|a name that is not inlined|", a.rows);
}

/* DuckDB admits one process; the second one is told who has it. */
static void a_second_process_is_refused_with_words(void **state)
{
    duck_test *t = *state;
    char self[PATH_MAX];
    proc_self_path(self);
    const char *const argv[] = {self, test_file_name(), "--", t->path, NULL};
    const proc_options options = {.argv = argv};
    proc_result result;
    assert_ok_err(proc_run(&result, &options, 20000, &t->err), &t->err);
    assert_int_equal(-TIDE_E_BUSY, result.exit_code);
    assert_contains(result.out, "another process");
    proc_result_done(&result);
}

/* Nor does a second handle in the same process: DuckDB itself would let both write over each other. */
static void a_second_handle_is_refused(void **state)
{
    duck_test *t = *state;
    tide_duckdb *second = NULL;
    assert_status_err(TIDE_E_BUSY, tide_duckdb_open(&second, t->path, &small, &t->err), &t->err);
    char link[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "other.name", link);
    assert_int_equal(0, symlink(t->path, link));
    assert_status_err(TIDE_E_BUSY, tide_duckdb_open(&second, link, &small, &t->err), &t->err);
    reopen(t);
}

static int open_only(const char *path)
{
    duckdb_place();
    tide_duckdb *db = NULL;
    tide_error err = {0};
    const tide_status status = tide_duckdb_open(&db, path, &small, &err);
    (void)printf("%s\n", err.text);
    tide_duckdb_close(db);
    return -status;
}

/* A file of another kind is refused and left alone. */
static void a_foreign_file_is_refused(void **state)
{
    duck_test *t = *state;
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "letter.txt", path);
    FILE *out = fopen(path, "w");
    for (int i = 0; i < 2000; i++)
        (void)fprintf(out, "dear reader %d\n", i);
    (void)fclose(out);
    tide_duckdb *db = NULL;
    assert_status_err(TIDE_E_FOREIGN, tide_duckdb_open(&db, path, &small, &t->err), &t->err);
}

/* Where there is no library, the words say what to do. */
static void a_missing_library_is_told(void **state)
{
    duck_test *t = *state;
    char self[PATH_MAX];
    proc_self_path(self);
    const char *const argv[] = {self, test_file_name(), "--", t->path, NULL};
    const char *const env[] = {"TIDEMARK_DUCKDB=/nowhere/libduckdb.so", NULL};
    const proc_options options = {.argv = argv, .env = env};
    proc_result result;
    assert_ok_err(proc_run(&result, &options, 20000, &t->err), &t->err);
    assert_int_equal(-TIDE_E_UNAVAILABLE, result.exit_code);
    assert_contains(result.out, "/nowhere/libduckdb.so");
    proc_result_done(&result);
}

TEST_FILE()
{
    if (test_file_argument(0) != NULL)
        return open_only(test_file_argument(0));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_of_every_type_can_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_only_read, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_have_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(every_statement_prepares, setup, teardown),
        cmocka_unit_test_setup_teardown(transactions_are_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_process_is_refused_with_words, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_handle_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_file_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_library_is_told, setup, teardown),
    };
    return cmocka_run_group_tests_name("duckdb-library", tests, NULL, NULL);
}
