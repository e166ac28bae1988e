/* Rows from files: CSV, JSON, Parquet, standard input; and what is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lake/data/data_fixture.h"

static void rows_of_a_csv_file_are_written_by_column_name(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR, c DOUBLE");
    data_append(t, data_file(t, "x.csv", "B,a\nyes,1\n\"a \"\"quoted\"\", text\",2\n,3\n"));
    assert_int_equal(t->last.count, 1);
    assert_int_equal(t->last.rows, 3);
    assert_answer(t, "SELECT * FROM lake.main.t ORDER BY a",
                  "1|yes|NULL\n2|a \"quoted\", text|NULL\n3|NULL|NULL\n");
}

static void lines_may_end_in_carriage_return_and_values_may_be_apart_by_tabs(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR");
    data_append(t, data_file(t, "x.csv", "a,b\r\n1,one\r\n2,two\r\n"));
    data_append(t, data_file(t, "x.tsv", "a\tb\n3\tth,ree\n"));
    assert_answer(t, "FROM lake.main.t ORDER BY a", "1|one\n2|two\n3|th,ree\n");
}

static void json_lines_and_arrays_are_read(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR, c DECIMAL(20,2), d JSON, e TIMESTAMP");
    data_append(t, data_file(t, "x.jsonl",
                             "{\"a\":1,\"b\":\"x\",\"c\":\"123456789012345678.25\"}\n"
                             "{\"a\":2,\"d\":{\"k\":[1]},\"e\":\"2024-02-29 10:00:00\"}\n"));
    data_append(t, data_file(t, "x.json", "[{\"a\":3,\"b\":null}]"));
    assert_answer(t, "FROM lake.main.t ORDER BY a",
                  "1|x|123456789012345678.25|NULL|NULL\n"
                  "2|NULL|NULL|{\"k\":[1]}|2024-02-29 10:00:00.000000\n"
                  "3|NULL|NULL|NULL|NULL\n");
}

static void a_name_that_appears_late_in_json_is_refused_too(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    tide_buffer text;
    tide_buffer_init(&text, 4 << 20);
    for (int i = 0; i < 40000; i++)
        assert_ok(tide_buffer_printf(&text, "{\"a\":%d}\n", i));
    assert_ok(tide_buffer_append_text(&text, "{\"a\":1,\"late\":2}\n"));
    assert_status(TIDE_E_INVALID, data_try(t, data_file(t, "x.jsonl", tide_buffer_text(&text))));
    tide_buffer_done(&text);
    assert_contains(t->err.text, "'late'");
    assert_int_equal(data_count_files(t), 0);
}

static void parquet_is_read_and_cast(void **state)
{
    data_test *t = *state;
    data_table(t, "a SMALLINT, b VARCHAR");
    data_append(t, data_parquet(t, "x.parquet", "SELECT 7::BIGINT AS a, 1.5::DOUBLE AS b"));
    assert_answer(t, "FROM lake.main.t", "7|1.5\n");
}

static void packed_files_are_read(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    const char *path = data_path(t, "x.csv.gz");
    tide_buffer text;
    tide_buffer_init(&text, 1 << 16);
    assert_ok(tide_buffer_printf(&text, "COPY (SELECT 42 AS a) TO '%s' (HEADER)", path));
    tide_duck_query *query = NULL;
    assert_ok_err(
        tide_duck_query_begin_made(&query, t->data->duck, "gz", tide_buffer_text(&text), &t->err),
        &t->err);
    assert_ok_err(tide_duck_query_run(query, NULL, &t->err), &t->err);
    tide_duck_query_end(query);
    tide_buffer_done(&text);
    data_append(t, data_path(t, "x.csv.gz"));
    assert_answer(t, "FROM lake.main.t", "42\n");
}

static void append_from_input(data_test *t, const char *path)
{
    const int saved = dup(STDIN_FILENO);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && saved >= 0);
    assert_true(dup2(fd, STDIN_FILENO) >= 0);
    const tide_status status = data_try(t, "-");
    assert_true(dup2(saved, STDIN_FILENO) >= 0);
    (void)close(fd);
    (void)close(saved);
    assert_ok_err(status, &t->err);
}

static void standard_input_says_itself_what_it_is(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    append_from_input(t, data_file(t, "1", "a\n1\n2\n"));
    assert_int_equal(t->last.rows, 2);
    append_from_input(t, data_file(t, "2", " {\"a\":1}\n"));
    assert_int_equal(t->last.rows, 1);
    append_from_input(t, data_parquet(t, "3", "SELECT range AS a FROM range(5)"));
    assert_int_equal(t->last.rows, 5);
    assert_int_equal(data_count_files(t), 3); /* what was spooled is gone */
}

static void defaults_fill_columns_that_a_source_lacks(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR NOT NULL DEFAULT 'it''s', c INTEGER DEFAULT 5, "
                  "d VARCHAR DEFAULT '', e VARCHAR");
    data_append_rows(t, "a\n1\n");
    data_add_column(t, "f", "VARCHAR", "");
    data_add_column(t, "g", "VARCHAR", "NULL");
    assert_answer(t, "SELECT a, b, c, d = '', e IS NULL, f = '', g IS NULL FROM lake.main.t",
                  "1|it's|5|true|true|true|true\n");
}

static void an_empty_source_writes_no_file(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append(t, data_file(t, "x.csv", "a\n"));
    assert_int_equal(t->last.count, 0);
    data_append(t, data_file(t, "x.jsonl", ""));
    assert_int_equal(t->last.count, 0);
    assert_int_equal(data_count_files(t), 0);
}

static void large_sources_become_several_files(void **state)
{
    data_test *t = *state;
    data_reopen(t, 200000);
    data_table(t, "a BIGINT, b DOUBLE");
    data_append(
        t, data_parquet(t, "x.parquet", "SELECT range AS a, random() AS b FROM range(400000)"));
    assert_true(t->last.count > 1);
    assert_int_equal(t->last.rows, 400000);
    assert_answer(t, "SELECT count(*), sum(a) FROM lake.main.t", "400000|79999800000\n");
}

/* ---- refusals ---- */

static void refused(data_test *t, tide_status status, const char *path, const char *words)
{
    assert_status_err(status, data_try(t, path), &t->err);
    assert_contains(t->err.text, words);
    assert_int_equal(t->last.count, 0);
    assert_int_equal(data_count_files(t), 0);
}

static void files_that_cannot_be_are_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    refused(t, TIDE_E_NOT_FOUND, data_path(t, "nothing.csv"), "nothing.csv");
    refused(t, TIDE_E_NOT_FOUND, "https://example.com/x.parquet", "example.com");
    refused(t, TIDE_E_INVALID, t->data_dir, "directory");
    refused(t, TIDE_E_INVALID, data_file(t, "x.bin", "a\n1\n"), "x.bin");
    refused(t, TIDE_E_INVALID, data_file(t, "x.parquet", "a\n1\n"), "x.parquet");
    refused(t, TIDE_E_INVALID, data_file(t, "x.parquet", ""), "empty");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", ""), "empty");
    refused(t, TIDE_E_INVALID, data_file(t, "x.json", "{\"a\":"), "x.json");
    refused(t, TIDE_E_INVALID, data_file(t, "x.json", "[1,2]"), "x.json");
}

static void a_cut_off_parquet_file_is_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    const char *path = data_parquet(t, "x.parquet", "SELECT range AS a FROM range(100000)");
    struct stat there;
    assert_int_equal(stat(path, &there), 0);
    assert_int_equal(truncate(path, there.st_size / 2), 0);
    refused(t, TIDE_E_INVALID, path, "x.parquet");
}

static void columns_that_do_not_fit_are_named(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR NOT NULL");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b,zz\n1,x,2\n"), "'zz'");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a\n1\n"), "column b");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,A,b\n1,2,x\n"), "x.csv");
}

static void values_that_cannot_be_cast_name_row_and_column(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b DATE");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b\n1,2024-01-01\n2,2024-02-30\n"),
            "row 2, column b: '2024-02-30' is not a DATE");
    refused(t, TIDE_E_INVALID, data_file(t, "x.jsonl", "{\"a\":1}\n{\"a\":2}\n{\"a\":\"x\"}\n"),
            "row 3, column a: 'x' is not a BIGINT");
    data_table(t, "a TINYINT");
    refused(t, TIDE_E_INVALID,
            data_parquet(t, "x.parquet", "SELECT range * 50 AS a FROM range(10)"),
            "row 4, column a: '150' is not a TINYINT");
}

static void whole_numbers_are_not_rounded(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b TINYINT");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b\n1,2\n3,1.5\n"),
            "row 2, column b: '1.5' is not a TINYINT");
    refused(t, TIDE_E_INVALID, data_file(t, "x.json", "{\"a\":1.5}\n"),
            "row 1, column a: '1.5' is not a BIGINT");
    data_append(t, data_file(t, "x.csv", "a,b\n1.0,1e1\n-9223372036854775808,-2\n"));
    data_append(t, data_file(t, "x.json", "{\"a\":9007199254740993}\n{\"a\":2.0}\n"));
    assert_answer(t, "SELECT a, b FROM lake.main.t ORDER BY a",
                  "-9223372036854775808|-2\n1|10\n2|NULL\n9007199254740993|NULL\n");
}

static void nothing_is_null_and_an_empty_text_stays_one(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR");
    data_append(t, data_file(t, "x.csv", "a,b\n1,\n2,\"\"\n,\"NULL\"\n"));
    assert_answer(t, "SELECT a, b IS NULL, b = '' FROM lake.main.t ORDER BY a NULLS LAST",
                  "1|true|NULL\n2|false|true\nNULL|false|false\n");
    tide_lake_written_discard(t->data, &t->table.table, &t->last);
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b\n\"\",x\n"),
            "row 1, column a: '' is not a BIGINT");
}

/* A named pipe, a shell's <(...): what can be read once only. */
static void a_pipe_is_read_as_a_file_is(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a\n1\n2\n", 6), 6);
    assert_int_equal(close(ends[1]), 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    data_append(t, path);
    (void)close(ends[0]);
    assert_int_equal(t->last.rows, 2);
    assert_int_equal(data_count_files(t), 1); /* what was spooled is gone */
}

static void a_row_with_too_few_or_too_many_values_is_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b BIGINT");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b\n1,2\n3\n"), "Line: 3");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b\n1,2\n3,4,5\n"), "Line: 3");
}

static void nulls_where_none_may_be_are_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR NOT NULL, c INTERVAL NOT NULL");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b,c\n1,x,1 day\n2,,1 day\n"),
            "row 2: column b may not be NULL");
    refused(t, TIDE_E_INVALID, data_file(t, "x.csv", "a,b,c\n1,x,1 day\n2,y,\n"),
            "row 2: column c may not be NULL");
}

static void integers_that_parquet_would_round_are_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a DECIMAL(38,0)");
    (void)snprintf(t->columns[0].type, sizeof t->columns[0].type, "int128");
    refused(t, TIDE_E_UNSUPPORTED, data_file(t, "x.csv", "a\n1\n"), "DECIMAL(38,0)");
}

static void files_are_taken_back_when_a_commit_is_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    assert_int_equal(data_count_files(t), 1);
    tide_lake_written_discard(t->data, &t->table.table, &t->last);
    assert_int_equal(data_count_files(t), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(rows_of_a_csv_file_are_written_by_column_name),
        CASE(lines_may_end_in_carriage_return_and_values_may_be_apart_by_tabs),
        CASE(json_lines_and_arrays_are_read),
        CASE(a_name_that_appears_late_in_json_is_refused_too),
        CASE(parquet_is_read_and_cast),
        CASE(packed_files_are_read),
        CASE(standard_input_says_itself_what_it_is),
        CASE(defaults_fill_columns_that_a_source_lacks),
        CASE(an_empty_source_writes_no_file),
        CASE(large_sources_become_several_files),
        CASE(files_that_cannot_be_are_refused),
        CASE(a_cut_off_parquet_file_is_refused),
        CASE(columns_that_do_not_fit_are_named),
        CASE(values_that_cannot_be_cast_name_row_and_column),
        CASE(a_row_with_too_few_or_too_many_values_is_refused),
        CASE(whole_numbers_are_not_rounded),
        CASE(nothing_is_null_and_an_empty_text_stays_one),
        CASE(a_pipe_is_read_as_a_file_is),
        CASE(nulls_where_none_may_be_are_refused),
        CASE(integers_that_parquet_would_round_are_refused),
        CASE(files_are_taken_back_when_a_commit_is_refused),
    };
    return cmocka_run_group_tests_name("lake data source", tests, NULL, NULL);
}
