/* tidemark sql: SQL over a store, with its streams as tables. */
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/sequence.h>

#include "cli/feed/feed_calls.h"

/* ---- what is printed ---- */

static void rows_are_a_table_for_people(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 2, "api");
    cli_result result =
        cli_run(t, "sql", "SELECT seq_id, body, NULL AS none FROM logs_local", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("seq_id  body   none\n"
                        "     1  api 1  -\n"
                        "     2  api 2  -\n",
                        result.out);
}

/* Numbers are numbers, BLOBs base64, NULL null; of equal names none is lost. */
static void json_has_the_types_of_the_columns(void **state)
{
    cli_fixture *t = *state;
    feed_put_opaque(t, "orders", "\0\xff", 2);
    cli_result result = cli_run(t, "sql",
                                "SELECT seq_id, data, attributes, 1.5 AS r, 'a\"b' AS t, NULL AS n,"
                                " 9223372036854775807 AS big, 2 AS n FROM orders_local",
                                "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("{\"seq_id\":1,\"data\":\"AP8=\",\"attributes\":\"{}\",\"r\":1.5,"
                        "\"t\":\"a\\\"b\",\"n\":null,\"big\":9223372036854775807,\"n_2\":2}\n",
                        result.out);
}

/* Rows hold what others sent: a spreadsheet must not compute it, a terminal must not obey it. */
static void csv_and_tables_disarm_what_others_wrote(void **state)
{
    cli_fixture *t = *state;
    static const char QUERY[] = "SELECT '=1+1' AS a, '-5' AS b, -5 AS c, char(27) || '[31m' AS d,"
                                " 'x' || char(8238) || 'y' || char(8297) AS e, '@z' AS \"=t\"";
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", QUERY, "--csv", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("a,b,c,d,e,'=t\n'=1+1,'-5,-5,?[31m,x?y?,'@z\n", result.out);
    result = cli_run(t, "sql", QUERY, NULL);
    assert_int_equal(0, result.exit_code);
    assert_null(strchr(result.out, 27));
    assert_null(strstr(result.out, "\xe2\x80\xae"));
    assert_null(strstr(result.out, "\xe2\x81\xa9"));
}

static void csv_quotes_what_needs_it(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql",
                                "SELECT 'a,b' AS \"x,y\", 'say \"hi\"' AS q, NULL AS n, '' AS e,"
                                " x'00ff' AS b, 'two' || char(10) || 'lines' AS l; SELECT 1 AS one",
                                "--csv", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("\"x,y\",q,n,e,b,l\n"
                        "\"a,b\",\"say \"\"hi\"\"\",,\"\",AP8=,\"two\nlines\"\n"
                        "\n"
                        "one\n1\n",
                        result.out);
    result = cli_run(t, "sql", "SELECT 1", "--csv", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

/* Tables of the store with more columns than fit beside each other. */
static void a_row_with_many_columns_is_printed_line_by_line(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result =
        cli_run(t, "sql",
                "SELECT 1 a,2 b,3 c,4 d,5 e,6 f,7 g,8 h,9 i,10 j,11 k,12 l,13 m,14 n,15 o,16 p,"
                " NULL long_name",
                NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "\np          16\nlong_name  -\n");
}

static void no_rows_are_an_answer(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", "SELECT * FROM otel_spans_local", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("", result.out);
}

static void a_limit_says_that_there_are_more(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    cli_result result =
        cli_run(t, "sql", "SELECT seq_id FROM logs_local", "--limit", "2", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("{\"seq_id\":1}\n{\"seq_id\":2}\n", result.out);
    assert_contains(result.err, "more than 2 rows");
    result = cli_run(t, "sql", "SELECT seq_id FROM logs_local", "--limit", "10", "--json", NULL);
    assert_string_equal("", result.err);
}

/* ---- where the SQL and its values come from ---- */

static void sql_comes_from_a_file_or_stdin(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_write_file(t, "q.sql", "SELECT 7 AS x; -- the end", 25);
    cli_result result = cli_run(t, "sql", "@q.sql", "--json", NULL);
    assert_string_equal("{\"x\":7}\n", result.out);

    const char *const argv[] = {t->program, "sql", "-", "--json", NULL};
    proc_options options = cli_options(t, argv);
    options.in = PROC_PIPE;
    options.out = PROC_PIPE;
    proc child;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    assert_int_equal(11, write(child.in_fd, "SELECT 8 x;", 11));
    close(child.in_fd);
    child.in_fd = -1;
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    char out[64] = "";
    assert_int_equal(8, read(child.out_fd, out, sizeof out - 1));
    assert_string_equal("{\"x\":8}\n", out);
    assert_int_equal(0, child.exit_code);
    proc_done(&child);
}

/* A number where it looks like one and would be written so again; else a text. */
static void parameters_are_bound_by_name(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 5, "api");
    cli_result result =
        cli_run(t, "sql",
                "SELECT :a a, typeof(:a) ta, typeof(@b) tb, typeof($c) tc, :d d, typeof(:d) td,"
                " typeof(:e) te, (SELECT body FROM logs_local WHERE seq_id = ?1) body",
                "--param", "a=5", "--param", "b=2.5", "--param", "c=007", "--param", "d='5'",
                "--param", "e=1e5", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("{\"a\":5,\"ta\":\"integer\",\"tb\":\"real\",\"tc\":\"text\",\"d\":\"5\","
                        "\"td\":\"text\",\"te\":\"text\",\"body\":\"api 5\"}\n",
                        result.out);
    result = cli_run(t, "sql", "SELECT ? AS x", "--param", "1=one", "--json", NULL);
    assert_string_equal("{\"x\":\"one\"}\n", result.out);
}

static void a_parameter_too_few_or_too_many_ends_with_2(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", "SELECT :x", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "--param x=VALUE");
    result = cli_run(t, "sql", "SELECT 1", "--param", "y=1", NULL);
    assert_int_equal(TIDE_EXIT_USAGE, result.exit_code);
    assert_contains(result.err, ":y");
    result = cli_run(t, "sql", "SELECT 1", "--param", "nothing", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

/* ---- reading changes nothing ---- */

static void what_would_change_something_is_refused(void **state)
{
    static const char *const changes[] = {
        "DELETE FROM sequences",
        "INSERT INTO sequences VALUES ('a', 1, 'b')",
        "UPDATE sequences SET last = 9",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "DROP TABLE sequences",
        "PRAGMA writable_schema = 1",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 5",
        "VACUUM",
        "ATTACH ':memory:' AS other",
        "COMMIT",
        "BEGIN",
        "SAVEPOINT s",
        "ANALYZE",
        "REINDEX",
        "SELECT nextval('orders')",
        "SELECT load_extension('x')",
    };
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        cli_result result = cli_run(t, "sql", changes[i], NULL);
        if (result.exit_code != TIDE_EXIT_DENIED && result.exit_code != TIDE_EXIT_USAGE)
            fail_msg("%s: exit code %d: %s", changes[i], result.exit_code, result.err);
        assert_string_equal("", result.out);
    }
    cli_result result = cli_run(t, "sql", "DELETE FROM sequences", NULL);
    assert_int_equal(TIDE_EXIT_DENIED, result.exit_code);
    assert_contains(result.err, "--write");
    result = cli_run(t, "sql", "SELECT count(*) AS n FROM sequences", "--json", NULL);
    assert_string_equal("{\"n\":1}\n", result.out);
}

static void what_only_tells_is_allowed(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", "PRAGMA table_info(otel_spans_local)", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "\"name\":\"seq_id\"");
    result = cli_run(t, "sql", "EXPLAIN QUERY PLAN SELECT * FROM logs_local", NULL);
    assert_int_equal(0, result.exit_code);
    result = cli_run(t, "sql", "PRAGMA integrity_check", NULL);
    assert_int_equal(0, result.exit_code);
    result = cli_run(t, "sql", "SELECT currval('seq_logs') AS c", "--json", NULL);
    assert_string_equal("{\"c\":1}\n", result.out);
}

/* ---- writing ---- */

static void writing_changes_rows_and_prints_how_many(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    cli_result result = cli_run(t, "sql",
                                "INSERT INTO db_metadata VALUES ('k', 'v'), ('l', 'w');"
                                "SELECT nextval('orders') AS n;"
                                "DELETE FROM db_metadata WHERE key = 'l' RETURNING value",
                                "--write", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("{\"changed\":2}\n{\"n\":2}\n{\"value\":\"w\"}\n", result.out);
    result =
        cli_run(t, "sql", "UPDATE db_metadata SET value = 'x' WHERE key = 'k'", "--write", NULL);
    assert_string_equal("1 row changed\n", result.out);
}

/* All statements are one transaction: the last one's failure takes the first one back, and nothing was printed. */
static void writing_happens_as_a_whole_or_not_at_all(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    cli_result result = cli_run(t, "sql",
                                "INSERT INTO db_metadata VALUES ('k', 'v');"
                                "SELECT nextval('orders');"
                                "UPDATE sequences SET last = 0 WHERE name = 'orders'",
                                "--write", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
    assert_contains(result.err, "never goes down");
    result = cli_run(t, "sql",
                     "SELECT count(*) AS n, currval('orders') AS c FROM db_metadata"
                     " WHERE key = 'k'",
                     "--json", NULL);
    assert_string_equal("{\"n\":0,\"c\":1}\n", result.out);
}

static void also_when_writing_the_schema_is_out_of_bounds(void **state)
{
    static const char *const changes[] = {
        "DROP TABLE sequences",
        "CREATE TABLE x (y)",
        "CREATE TRIGGER a DELETE ON sequences BEGIN SELECT 1; END",
        "DROP TRIGGER sequences_stay",
        "ALTER TABLE sequences ADD COLUMN x",
        "COMMIT",
        "ROLLBACK",
        "PRAGMA writable_schema = 1",
        "ATTACH 'other.db' AS other",
        "VACUUM",
        "DELETE FROM sqlite_schema",
        "CREATE VIRTUAL TABLE x USING tidemark_stream(logs)",
    };
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        cli_result result = cli_run(t, "sql", changes[i], "--write", NULL);
        if (result.exit_code != TIDE_EXIT_DENIED && result.exit_code != TIDE_EXIT_USAGE)
            fail_msg("%s: exit code %d: %s", changes[i], result.exit_code, result.err);
        assert_string_equal("", result.out);
    }
    cli_result result = cli_run(t, "sql",
                                "CREATE TEMP TABLE x AS SELECT seq_id FROM logs_local;"
                                "SELECT count(*) AS n FROM x",
                                "--write", "--csv", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("n\n1\n", result.out);
    result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(0, result.exit_code);
}

/* ---- how it fails ---- */

static void bad_sql_ends_with_2_and_shows_where(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", "SELECT 1 FORM logs_local", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "at: logs_local");
    result = cli_run(t, "sql", "SELECT * FROM no_such_table", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "sql", "  -- nothing", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "sql", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

static void a_store_that_is_not_there_ends_with_3_and_is_not_made(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "sql", "SELECT 1", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "sql", "SELECT 1", "--write", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

static void postgres_is_refused_in_words(void **state)
{
    cli_fixture *t = *state;
    cli_result result =
        cli_run(t, "sql", "SELECT 1", "--store", "postgres://nobody@127.0.0.1:1/x", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "SQLite");
}

/* Damaged bytes are reported, never served. */
static void a_damaged_batch_ends_with_8(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 3, "api");
    feed_put_logs(t, 3, "web");
    feed_damage(t, 4);
    cli_result result = cli_run(t, "sql", "SELECT body FROM logs_local", "--json", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    assert_contains(result.err, "4 to 6");
    result = cli_run(t, "sql", "SELECT count(body) AS n FROM logs_local WHERE skip_damaged = 1",
                     "--json", NULL);
    assert_string_equal("{\"n\":3}\n", result.out);
}

#define ENDLESS                                                                                    \
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

static void a_query_ends_at_its_time_out(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    cli_result result = cli_run(t, "sql", ENDLESS, "--timeout", "50ms", NULL);
    cli_assert_fails(&result, TIDE_EXIT_UNAVAILABLE);
    assert_contains(result.err, "--timeout");
}

/* Until somebody else holds the write lock: then it is inside of its transaction. */
static void wait_for_writer(const cli_fixture *t)
{
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(t->url, &db));
    while (sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) == SQLITE_OK)
        (void)sched_yield();
    assert_int_equal(SQLITE_BUSY, sqlite3_errcode(db));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

/* Ctrl-C: 130, and what was under way is not there. */
static void an_interrupted_write_leaves_nothing(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "api");
    static const char sql[] = "INSERT INTO db_metadata VALUES ('k', 'v'); " ENDLESS;
    const char *const argv[] = {t->program, "sql", sql, "--write", NULL};
    proc_options options = cli_options(t, argv);
    proc child;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    wait_for_writer(t);
    assert_ok_err(proc_kill(&child, SIGINT, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(TIDE_EXIT_INTERRUPTED, child.exit_code);
    proc_done(&child);
    cli_result result =
        cli_run(t, "sql", "SELECT count(*) AS n FROM db_metadata WHERE key = 'k'", "--json", NULL);
    assert_string_equal("{\"n\":0}\n", result.out);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(rows_are_a_table_for_people),
        CLI_TEST_SQLITE(json_has_the_types_of_the_columns),
        CLI_TEST_SQLITE(csv_quotes_what_needs_it),
        CLI_TEST_SQLITE(csv_and_tables_disarm_what_others_wrote),
        CLI_TEST_SQLITE(a_row_with_many_columns_is_printed_line_by_line),
        CLI_TEST_SQLITE(no_rows_are_an_answer),
        CLI_TEST_SQLITE(a_limit_says_that_there_are_more),
        CLI_TEST_SQLITE(sql_comes_from_a_file_or_stdin),
        CLI_TEST_SQLITE(parameters_are_bound_by_name),
        CLI_TEST_SQLITE(a_parameter_too_few_or_too_many_ends_with_2),
        CLI_TEST_SQLITE(what_would_change_something_is_refused),
        CLI_TEST_SQLITE(what_only_tells_is_allowed),
        CLI_TEST_SQLITE(writing_changes_rows_and_prints_how_many),
        CLI_TEST_SQLITE(writing_happens_as_a_whole_or_not_at_all),
        CLI_TEST_SQLITE(also_when_writing_the_schema_is_out_of_bounds),
        CLI_TEST_SQLITE(bad_sql_ends_with_2_and_shows_where),
        CLI_TEST_SQLITE(a_store_that_is_not_there_ends_with_3_and_is_not_made),
        CLI_TEST_SQLITE(postgres_is_refused_in_words),
        CLI_TEST_SQLITE(a_damaged_batch_ends_with_8),
        CLI_TEST_SQLITE(a_query_ends_at_its_time_out),
        CLI_TEST_SQLITE(an_interrupted_write_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
