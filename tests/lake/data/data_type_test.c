/* Every type of lake/types.h keeps its values in Parquet, and statistics say what is there. */
#include <stdio.h>
#include <string.h>

#include "lake/data/data_fixture.h"

/* Values as DuckDB prints them after a round trip, one per line; the first is the least, the last the greatest. */
typedef struct kind {
    const char *type;
    const char *values; /* SQL, in order */
    const char *min;    /* NULL: not kept */
    const char *max;
} kind;

static const kind kinds[] = {
    {"BOOLEAN", "(false), (true)", "0", "1"},
    {"TINYINT", "(-128), (0), (127)", "-128", "127"},
    {"SMALLINT", "(-32768), (32767)", "-32768", "32767"},
    {"INTEGER", "(-2147483648), (2147483647)", "-2147483648", "2147483647"},
    {"BIGINT", "(-9223372036854775808), (0), (9223372036854775807)", "-9223372036854775808",
     "9223372036854775807"},
    {"UTINYINT", "(0), (255)", "0", "255"},
    {"USMALLINT", "(0), (65535)", "0", "65535"},
    {"UINTEGER", "(0), (4294967295)", "0", "4294967295"},
    {"UBIGINT", "(0), (18446744073709551615)", "0", "18446744073709551615"},
    {"FLOAT", "('-inf'), ('-3.4028235e38'), ('-0.5'), ('1.1754944e-38'), ('inf')", "-inf", "inf"},
    {"DOUBLE", "(-1.7976931348623157e308), (0), (5e-324), (1.7976931348623157e308)",
     "-1.7976931348623157e+308", "1.7976931348623157e+308"},
    {"DECIMAL(4,1)", "(-999.9), (999.9)", "-999.9", "999.9"},
    {"DECIMAL(18,2)", "(-9999999999999999.99), (0.01), (9999999999999999.99)",
     "-9999999999999999.99", "9999999999999999.99"},
    {"DECIMAL(38,0)",
     "(-99999999999999999999999999999999999999), (99999999999999999999999999999999999999)",
     "-99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
    {"VARCHAR", "(''), ('a'), ('zürich'), ('日本'), ('🦆')", "", "🦆"},
    {"BLOB", "(''::BLOB), ('\\x00'::BLOB), ('\\xFF\\x00\\xFE'::BLOB)", "", "FF00FE"},
    {"DATE", "('0001-01-01'), ('1970-01-01'), ('9999-12-31')", "0001-01-01", "9999-12-31"},
    {"TIME", "('00:00:00'), ('23:59:59.999999')", "00:00:00", "23:59:59.999999"},
    {"TIMETZ", "('00:00:00+00'), ('23:59:59.999999+00')", NULL, NULL},
    {"TIMESTAMP", "('0001-01-01 00:00:00'), ('2024-02-29 23:59:59.999999')", "0001-01-01 00:00:00",
     "2024-02-29 23:59:59.999999"},
    {"TIMESTAMPTZ", "('1969-12-31 23:59:59.5+00'), ('2024-06-01 12:00:00+02')",
     "1969-12-31 23:59:59.5+00", "2024-06-01 10:00:00+00"},
    {"TIMESTAMP_S", "('1970-01-01 00:00:01'), ('2024-01-01 00:00:00')", "1970-01-01 00:00:01",
     "2024-01-01 00:00:00"},
    {"TIMESTAMP_MS", "('1970-01-01 00:00:01.001'), ('2024-01-01 00:00:00.999')",
     "1970-01-01 00:00:01.001", "2024-01-01 00:00:00.999"},
    {"TIMESTAMP_NS", "('1970-01-01 00:00:01.000000001'), ('2024-01-01 00:00:00.999999999')",
     "1970-01-01 00:00:01.000000001", "2024-01-01 00:00:00.999999999"},
    {"INTERVAL", "('1 day'), ('1 year 2 months 3 days 04:05:06')", NULL, NULL},
    {"UUID", "('00000000-0000-0000-0000-000000000000'), ('ffffffff-ffff-ffff-ffff-ffffffffffff')",
     "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
    {"JSON", "('[1]'), ('{\"a\":1}')", "[1]", "{\"a\":1}"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A SELECT with a number, every type's values and NULLs behind them. */
static void put_select(tide_buffer *out, const kind *k)
{
    assert_ok(
        tide_buffer_printf(out,
                           "SELECT row_number() OVER () AS n, CAST(v AS %s) AS v FROM (VALUES "
                           "%s, (NULL)) AS x(v)",
                           k->type, k->values));
}

static void check_bounds(data_test *t, const kind *k)
{
    const tide_lake_column_stats *stats = &t->last.files[0].stats[1];
    assert_int_equal(stats->column_id, t->columns[1].id);
    assert_int_equal(stats->null_count, 1);
    assert_int_equal(stats->value_count, t->last.rows);
    assert_true((stats->min_value != NULL) == (k->min != NULL));
    if (!k->min)
        return;
    assert_string_equal(stats->min_value, k->min);
    assert_string_equal(stats->max_value, k->max);
}

static void round_trip(data_test *t, const kind *k)
{
    char columns[128];
    tide_buffer select;
    tide_buffer_init(&select, 1 << 16);
    put_select(&select, k);
    (void)snprintf(columns, sizeof columns, "n BIGINT, v %s", k->type);
    data_table(t, columns);
    data_append(t, data_parquet(t, "x.parquet", tide_buffer_text(&select)));
    check_bounds(t, k);
    tide_buffer both;
    tide_buffer_init(&both, 1 << 16);
    assert_ok(
        tide_buffer_printf(&both,
                           "WITH w AS (%s), g AS (SELECT n, v FROM lake.main.t) SELECT count(*), "
                           "count(*) FILTER (w.v IS NOT DISTINCT FROM g.v AND "
                           "CAST(w.v AS VARCHAR) IS NOT DISTINCT FROM CAST(g.v AS VARCHAR) AND "
                           "typeof(w.v) = typeof(g.v)) FROM w JOIN g USING (n)",
                           tide_buffer_text(&select)));
    char want[64];
    (void)snprintf(want, sizeof want, "%d|%d\n", (int)t->last.rows, (int)t->last.rows);
    print_message("%s\n", k->type);
    assert_answer(t, tide_buffer_text(&both), want);
    tide_buffer_done(&both);
    tide_buffer_done(&select);
}

static void every_type_keeps_its_values_and_bounds(void **state)
{
    data_test *t = *state;
    for (int i = 0; i < KINDS; i++)
        round_trip(t, &kinds[i]);
}

static void every_type_is_read_from_text(void **state)
{
    data_test *t = *state;
    data_table(t,
               "a BOOLEAN, b UBIGINT, c DOUBLE, d DECIMAL(38,5), e BLOB, f DATE, g TIME, "
               "h TIMESTAMP, i TIMESTAMPTZ, j TIMESTAMP_NS, k INTERVAL, l UUID, m JSON, n TIMETZ");
    data_append(t,
                data_file(t, "x.csv",
                          "a,b,c,d,e,f,g,h,i,j,k,l,m,n\n"
                          "true,18446744073709551615,1e300,123456789012345678901234567890.12345,"
                          "\\x00\\xFF,2024-02-29,12:34:56.789,2024-02-29 12:34:56.789,"
                          "2024-02-29 12:00:00+02,2024-01-01 00:00:00.123456789,2 days,"
                          "00000000-0000-0000-0000-00000000000a,\"{\"\"a\"\": 1}\",10:00:00+00\n"));
    data_append(
        t,
        data_file(t, "x.jsonl",
                  "{\"a\":true,\"b\":18446744073709551615,\"c\":1e300,"
                  "\"d\":\"123456789012345678901234567890.12345\",\"e\":\"\\\\x00\\\\xFF\","
                  "\"f\":\"2024-02-29\",\"g\":\"12:34:56.789\",\"h\":\"2024-02-29 12:34:56.789\","
                  "\"i\":\"2024-02-29 12:00:00+02\",\"j\":\"2024-01-01 00:00:00.123456789\","
                  "\"k\":\"2 days\",\"l\":\"00000000-0000-0000-0000-00000000000a\","
                  "\"m\":{\"a\": 1},\"n\":\"10:00:00+00\"}\n"));
    assert_answer(
        t, "SELECT count(*), count(DISTINCT (a,b,c,d,e,f,g,h,i,j,k,l,m::JSON->>'a',n)) FROM t",
        "2|1\n");
    assert_answer(t, "SELECT i, e, j::VARCHAR FROM t LIMIT 1",
                  "2024-02-29 10:00:00.000000+00|00ff|2024-01-01 00:00:00.123456789\n");
}

static void numbers_that_are_none_are_told_apart(void **state)
{
    data_test *t = *state;
    data_table(t, "f FLOAT, d DOUBLE");
    data_append(t, data_parquet(t, "x.parquet",
                                "SELECT 'nan'::FLOAT AS f, range::DOUBLE AS d FROM range(3)"));
    const tide_lake_column_stats *stats = t->last.files[0].stats;
    assert_true(stats[0].has_nan_known && stats[0].contains_nan);
    assert_true(stats[1].has_nan_known && !stats[1].contains_nan);
    assert_string_equal(stats[1].max_value, "2.0");
    assert_answer(t, "SELECT count(*) FROM t WHERE isnan(f)", "3\n");
}

/* A bound that a text column cannot hold whole would be a wrong one. */
static void bounds_that_are_no_text_are_not_told(void **state)
{
    data_test *t = *state;
    data_table(t, "a VARCHAR");
    data_append(t, data_parquet(t, "x.parquet", "SELECT 'b' || chr(0) || 'c' AS a"));
    assert_null(t->last.files[0].stats[0].min_value);
    assert_null(t->last.files[0].stats[0].max_value);
    assert_answer(t, "SELECT length(a) FROM t", "3\n");
}

static void bounds_of_long_texts_hold(void **state)
{
    data_test *t = *state;
    data_table(t, "a VARCHAR");
    data_append(
        t, data_parquet(t, "x.parquet", "SELECT repeat('é', 5000) || range AS a FROM range(3)"));
    const tide_lake_column_stats *stats = t->last.files[0].stats;
    tide_buffer text;
    tide_buffer_init(&text, 1 << 16);
    assert_ok(tide_buffer_printf(&text, "SELECT count(*) FROM t WHERE a >= '%s' AND a <= '%s'",
                                 stats->min_value ? stats->min_value : "",
                                 stats->max_value ? stats->max_value : "\xf4\x8f\xbf\xbf"));
    assert_answer(t, tide_buffer_text(&text), "3\n");
    tide_buffer_done(&text);
}

static void a_file_tells_its_size_and_its_foot(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n2\n");
    const tide_lake_new_file *file = &t->last.files[0];
    assert_int_equal(file->record_count, 2);
    assert_true(file->footer_size > 0 && file->footer_size < file->file_size_bytes);
    assert_int_equal(t->last.bytes, file->file_size_bytes);
    assert_null(strchr(file->path, '/'));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(every_type_keeps_its_values_and_bounds),
        CASE(every_type_is_read_from_text),
        CASE(numbers_that_are_none_are_told_apart),
        CASE(bounds_that_are_no_text_are_not_told),
        CASE(bounds_of_long_texts_hold),
        CASE(a_file_tells_its_size_and_its_foot),
    };
    return cmocka_run_group_tests_name("lake data types", tests, NULL, NULL);
}
