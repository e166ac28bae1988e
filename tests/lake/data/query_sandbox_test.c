/* Questions: what they can reach, how much they may take, and names that try to be more than names. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lake/data/data_fixture.h"

static void put_rows(data_test *t)
{
    data_table(t, "a BIGINT, b VARCHAR");
    data_append(
        t, data_parquet(t, "x.parquet", "SELECT range AS a, 'x' || range AS b FROM range(1000)"));
}

/* ---- reach ---- */

static void a_question_reads_only_the_tables_files(void **state)
{
    data_test *t = *state;
    put_rows(t);
    static const char *const texts[] = {
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_csv_auto('/etc/passwd', header = false)",
        "SELECT content FROM read_text('/etc/passwd')",
        "SELECT content FROM read_blob('/proc/self/environ')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM '/etc/passwd.csv'",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM parquet_schema('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_csv('https://example.com/x.csv')",
        "SELECT getenv('HOME')",
        "SELECT * FROM t WHERE a IN (SELECT length(content) FROM read_text('/etc/passwd'))",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "SELECT * FROM query_table('/etc/passwd')",
        "SELECT * FROM duckdb_secrets()",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        print_message("%s\n", texts[i]);
        const tide_status status = data_try_ask(t, texts[i]);
        assert_true(status == TIDE_E_DENIED || status == TIDE_E_INVALID);
        assert_int_equal(t->answer.len, 0);
    }
}

static void a_question_changes_nothing(void **state)
{
    data_test *t = *state;
    put_rows(t);
    char text[2 * PATH_MAX];
    static const char *const texts[] = {
        "ATTACH '/tmp/x.db'",
        "COPY (SELECT 1) TO '/tmp/tidemark-never.csv'",
        "COPY t TO '/tmp/tidemark-never.csv'",
        "EXPORT DATABASE '/tmp/tidemark-never'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '100GB'",
        "RESET lock_configuration",
        "CREATE TABLE q (a INT)",
        "DROP VIEW lake.main.t",
        "INSERT INTO t VALUES (1, 'x')",
        "DELETE FROM t",
        "CALL pragma_version()",
        "BEGIN",
        "CHECKPOINT",
        "VACUUM",
        "USE lake",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/tidemark-never.csv'",
        "EXPLAIN ANALYZE CREATE TABLE q (a INT)",
        "/* x */ EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/tidemark-never.csv'",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        print_message("%s\n", texts[i]);
        assert_status_err(TIDE_E_DENIED, data_try_ask(t, texts[i]), &t->err);
    }
    assert_status(TIDE_E_DENIED, data_try_ask(t, "SELECT 1; DROP VIEW t"));
    assert_status(TIDE_E_INVALID, data_try_ask(t, "SELECT 1; SELECT 2"));
    assert_status(TIDE_E_INVALID, data_try_ask(t, ""));
    assert_status(TIDE_E_INVALID, data_try_ask(t, "SELEC 1"));
    /* The table's own files may be read, and not be written either. */
    (void)snprintf(
        text, sizeof text,
        "EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '%s/%s' (FORMAT parquet, USE_TMP_FILE false)",
        t->data_dir, t->files.all[0].path);
    assert_status_err(TIDE_E_DENIED, data_try_ask(t, text), &t->err);
    assert_int_equal(access("/tmp/tidemark-never.csv", F_OK), -1);
    assert_answer(t, "SELECT count(*) FROM t", "1000\n");
}

static void what_reads_is_allowed(void **state)
{
    data_test *t = *state;
    put_rows(t);
    assert_answer(t, "WITH w AS (SELECT a FROM lake.main.t WHERE a < 3) SELECT sum(a) FROM w",
                  "3\n");
    assert_answer(t, "SELECT count(*) FROM main.t x JOIN t y USING (a)", "1000\n");
    assert_answer(t, "SELECT column_name FROM (DESCRIBE t)", "a\nb\n");
    assert_contains(data_ask(t, "EXPLAIN SELECT * FROM t WHERE a > 5"), "READ_PARQUET");
    assert_contains(data_ask(t, "explain analyze SELECT * FROM t WHERE a > 5"), "READ_PARQUET");
    assert_contains(data_ask(t, "SUMMARIZE t"), "BIGINT");
    assert_answer(t, "SELECT current_setting('TimeZone')", "UTC\n");
}

/* ---- limits ---- */

static void an_answer_has_limits(void **state)
{
    data_test *t = *state;
    put_rows(t);
    t->row_max = 10;
    assert_status(TIDE_E_LIMIT, data_try_ask(t, "SELECT a FROM t"));
    t->row_max = 100000;
    assert_status(TIDE_E_LIMIT, data_try_ask(t, "SELECT repeat('x', 100000) FROM t"));
}

static void a_question_that_takes_too_long_is_stopped(void **state)
{
    data_test *t = *state;
    put_rows(t);
    t->timeout_us = 200000;
    assert_status(
        TIDE_E_TIMEOUT,
        data_try_ask(t, "SELECT count(*) FROM range(1000000000) x, t WHERE hash(x.range, a) = 7"));
}

static void memory_has_a_limit(void **state)
{
    data_test *t = *state;
    put_rows(t);
    const tide_status status =
        data_try_ask(t, "SELECT list(repeat(b, 100000) || x.range) FROM t, range(1000) x");
    assert_true(status == TIDE_E_NOMEM || status == TIDE_E_TIMEOUT);
    assert_answer(t, "SELECT count(*) FROM t", "1000\n");
}

/* ---- names ---- */

static const char *const names[] = {
    "a\"b",
    "it's",
    "x;DROP TABLE t",
    "line\nline",
    "c1",
    "c2",
    "filename",
    "file_row_number",
    "file_index",
    "tide_row",
    "tide_row_1",
    "tide_file",
    "tide_group",
    "tide_key_0",
    "{{name}}",
    "{{end}}",
    "%s%n",
    "$1",
    ":text",
    "?",
    "back\\slash",
    "--",
    "/*",
    " ",
    "select",
    "rowid",
    "日本 🦆",
    "\"\"",
    "a.b",
    "pos",
};
enum { NAMES = sizeof names / sizeof names[0] };

static void fill_names(data_test *t)
{
    data_table(t, "id BIGINT");
    for (int i = 0; i < NAMES; i++)
        data_add_column(t, names[i], "VARCHAR", "NULL");
}

/* A Parquet file with all of them, every value its column's place. */
static const char *names_file(data_test *t)
{
    tide_buffer select;
    tide_buffer_init(&select, 1 << 20);
    assert_ok(tide_buffer_append_text(&select, "SELECT 5 AS id"));
    for (int i = 0; i < NAMES; i++) {
        assert_ok(tide_buffer_printf(&select, ", 'v%d' AS ", i));
        assert_ok(tide_template_quote(&select, names[i]));
    }
    const char *path = data_parquet(t, "names.parquet", tide_buffer_text(&select));
    tide_buffer_done(&select);
    return path;
}

static void columns_have_any_name(void **state)
{
    data_test *t = *state;
    fill_names(t);
    data_append(t, names_file(t));
    tide_buffer text;
    tide_buffer_init(&text, 1 << 20);
    for (int i = 0; i < NAMES; i++) {
        assert_string_equal(t->last.files[0].stats[i + 1].min_value + 1,
                            t->last.files[0].stats[i + 1].max_value + 1);
        assert_int_equal(assert_number(t->last.files[0].stats[i + 1].min_value + 1), i);
        tide_buffer_clear(&text);
        assert_ok(tide_buffer_append_text(&text, "SELECT "));
        assert_ok(tide_template_quote(&text, names[i]));
        assert_ok(tide_buffer_append_text(&text, " FROM lake.main.t"));
        if (i % 8 == 0) /* each question costs an instance */
            assert_int_equal(assert_number(data_ask(t, tide_buffer_text(&text)) + 1), i);
    }
    tide_buffer_done(&text);
    assert_int_equal(
        data_delete(t,
                    "\"tide_row\" = 'v9' AND \"file_row_number\" = 'v7' AND \"line\nline\" = 'v3'"),
        1);
}

static void partitions_and_deletes_work_among_such_names(void **state)
{
    data_test *t = *state;
    fill_names(t);
    data_partition(t, "a\"b", "identity");
    data_partition(t, "{{name}}", "identity");
    data_append(t, names_file(t));
    data_append(t, names_file(t));
    assert_string_equal(t->last.files[0].partition_values[0], "v0");
    assert_string_equal(t->last.files[0].partition_values[1], "v14");
    data_compact(t);
    assert_int_equal(t->files.count, 1);
    assert_int_equal(t->last.rows, 2);
}

static void rows_of_text_have_any_name(void **state)
{
    data_test *t = *state;
    data_table(t, "id BIGINT");
    data_add_column(t, "x\"y';--", "VARCHAR", "NULL");
    data_append(t, data_file(t, "x.csv", "id,\"x\"\"y';--\"\n1,one\n"));
    data_append(t, data_file(t, "x.jsonl", "{\"id\":2,\"x\\\"y';--\":\"two\"}\n"));
    assert_answer(t, "FROM t ORDER BY id", "1|one\n2|two\n");
}

static void sources_have_any_name(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    static const char *const files[] = {
        "it's.csv", "a\"b.csv", "a;b.csv",  "star*.csv", "what?.csv", "[x].csv",
        "[!a].csv", "a\nb.csv", "~.csv",    "{a,b}.csv", "%s.csv",    "back\\slash.csv",
        "-x.csv",   " .csv",    "日本.csv", "b=7.csv",
    };
    assert_int_equal(mkdir(data_path(t, "a=99"), 0777), 0);
    data_append(t, data_file(t, "a=99/x.csv", "a\n1\n"));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        print_message("%s\n", files[i]);
        data_append(t, data_file(t, files[i], "a\n1\n"));
    }
    assert_int_equal(chdir(t->dir.path), 0);
    data_append(t, "~.csv");
    assert_int_equal(chdir("/"), 0);
    assert_answer(t, "SELECT count(*), min(a), max(a) FROM t", "18|1|1\n");
}

/* A pattern that means others must not take their rows. */
static void a_name_with_a_star_is_one_file(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    (void)data_file(t, "xyz.csv", "a\n1\n");
    assert_status(TIDE_E_NOT_FOUND, data_try(t, data_path(t, "x*.csv")));
    data_append(t, data_file(t, "x*.csv", "a\n2\n"));
    assert_answer(t, "FROM t", "2\n");
}

static void catalogs_schemas_and_tables_have_any_name(void **state)
{
    data_test *t = *state;
    put_rows(t);
    static const char *const odd[] = {"x\".\"y", "it's; DROP", "memory", "Main", "a.b.c"};
    tide_buffer text;
    tide_buffer_init(&text, 1 << 16);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        (void)snprintf(t->table.table.name, sizeof t->table.table.name, "%s", odd[i]);
        tide_buffer_clear(&text);
        assert_ok(tide_buffer_append_text(&text, "SELECT count(*) FROM lake.main."));
        assert_ok(tide_template_quote(&text, odd[i]));
        assert_answer(t, tide_buffer_text(&text), "1000\n");
        assert_int_equal(data_delete(t, "a = -1"), 0);
    }
    tide_buffer_done(&text);
}

static void the_data_directory_has_any_name_but_a_patterns(void **state)
{
    data_test *t = *state;
    tempdir_join(&t->dir, "da'ta \";$(x)", t->data_dir);
    assert_int_equal(mkdir(t->data_dir, 0777), 0);
    data_reopen(t, 0);
    put_rows(t);
    assert_int_equal(data_delete(t, "a < 10"), 10);
    assert_answer(t, "SELECT count(*) FROM t", "990\n");
    tempdir_join(&t->dir, "da*ta", t->data_dir);
    assert_int_equal(mkdir(t->data_dir, 0777), 0);
    tide_lake_data *data = NULL;
    assert_status(TIDE_E_INVALID, tide_lake_data_open(&data, t->data_dir, NULL, &t->err));
    assert_contains(t->err.text, "pattern");
}

/* ---- the kept instance ---- */

static void an_instance_serves_queries_of_the_same_files(void **state)
{
    data_test *t = *state;
    put_rows(t);
    assert_answer(t, "SELECT count(*) FROM t", "1000\n");
    const struct tide_lake_box *first = t->data->box;
    assert_non_null(first);
    assert_answer(t, "SELECT max(a) FROM t", "999\n");
    assert_ptr_equal(t->data->box, first);
    data_append(t, data_parquet(t, "y.parquet", "SELECT 5000 AS a, 'y' AS b"));
    assert_answer(t, "SELECT max(a) FROM t", "5000\n");
    assert_int_equal(data_delete(t, "a = 5000"), 1);
    assert_answer(t, "SELECT max(a) FROM t", "999\n");
}

/* What a text could have left in the instance, or seen of others there, goes with it. */
static void an_instance_ends_with_a_failure_and_with_functions_that_show_it(void **state)
{
    data_test *t = *state;
    put_rows(t);
    static const char *const texts[] = {
        "SELECT 1 FROM duckdb_settings() LIMIT 1",
        "SELECT 1 FROM (SELECT * FROM duckdb_logs()) RIGHT JOIN (SELECT 1) ON true",
        "SELECT 1 FROM t WHERE a IN (SELECT count(*) FROM duckdb_memory()) OR a = 1 LIMIT 1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_answer(t, "SELECT count(*) FROM t", "1000\n");
        assert_non_null(t->data->box);
        assert_answer(t, texts[i], "1\n");
        assert_null(t->data->box);
    }
    assert_answer(t, "SELECT count(*) FROM t", "1000\n");
    assert_status(TIDE_E_INVALID, data_try_ask(t, "SELECT 'x'::INT FROM t"));
    assert_null(t->data->box);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_question_reads_only_the_tables_files),
        CASE(a_question_changes_nothing),
        CASE(what_reads_is_allowed),
        CASE(an_answer_has_limits),
        CASE(a_question_that_takes_too_long_is_stopped),
        CASE(memory_has_a_limit),
        CASE(columns_have_any_name),
        CASE(partitions_and_deletes_work_among_such_names),
        CASE(rows_of_text_have_any_name),
        CASE(sources_have_any_name),
        CASE(a_name_with_a_star_is_one_file),
        CASE(catalogs_schemas_and_tables_have_any_name),
        CASE(the_data_directory_has_any_name_but_a_patterns),
        CASE(an_instance_serves_queries_of_the_same_files),
        CASE(an_instance_ends_with_a_failure_and_with_functions_that_show_it),
    };
    return cmocka_run_group_tests_name("lake data box", tests, NULL, NULL);
}
