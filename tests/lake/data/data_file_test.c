/* Files of a table over time: columns that came, went and changed; rows that were deleted; compaction; partitions. */
#include <stdio.h>
#include <string.h>

#include "lake/data/data_fixture.h"

/* ---- columns by field id ---- */

static void a_file_that_is_older_than_a_column_gives_its_initial_default(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_append_rows(t, "a\n1\n");
    data_add_column(t, "b", "VARCHAR", "it's new");
    data_add_column(t, "c", "INTEGER", "NULL");
    data_append_rows(t, "a,b,c\n2,x,3\n");
    assert_answer(t, "FROM t ORDER BY a", "1|it's new|NULL\n2|x|3\n");
}

static void a_column_that_was_dropped_and_made_again_is_another(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR");
    data_append_rows(t, "a,b\n1,old\n");
    data_drop_column(t, "b");
    assert_answer(t, "FROM t", "1\n");
    data_add_column(t, "b", "VARCHAR", "NULL");
    assert_answer(t, "FROM t", "1|NULL\n");
}

static void columns_that_change_names_keep_their_values(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b BIGINT");
    data_append_rows(t, "a,b\n1,2\n");
    (void)snprintf(t->columns[0].name, sizeof t->columns[0].name, "b");
    (void)snprintf(t->columns[1].name, sizeof t->columns[1].name, "a");
    data_append_rows(t, "a,b\n4,3\n");
    assert_answer(t, "SELECT b, a FROM t ORDER BY b", "1|2\n3|4\n");
}

static void a_column_that_was_widened_reads_older_files(void **state)
{
    data_test *t = *state;
    data_table(t, "a INTEGER, b FLOAT, c DECIMAL(4,1)");
    data_append_rows(t, "a,b,c\n2147483647,0.5,1.5\n");
    (void)snprintf(t->columns[0].type, sizeof t->columns[0].type, "int64");
    (void)snprintf(t->columns[1].type, sizeof t->columns[1].type, "float64");
    (void)snprintf(t->columns[2].type, sizeof t->columns[2].type, "decimal(18,2)");
    data_append_rows(t, "a,b,c\n9223372036854775807,1e300,1.25\n");
    assert_answer(t, "SELECT a, b, c FROM t ORDER BY a",
                  "2147483647|0.5|1.50\n9223372036854775807|1.0000000000000001e+300|1.25\n");
    assert_answer(t, "SELECT count(*) FROM t WHERE a > 2147483646 AND c < 2", "2\n");
}

static void a_table_without_files_is_empty(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b DECIMAL(10,2)");
    assert_answer(t, "SELECT count(*), sum(b) FROM t", "0|NULL\n");
    assert_int_equal(data_delete(t, "a = 1"), 0);
}

/* ---- deletes ---- */

static void put_hundreds(data_test *t)
{
    data_table(t, "a BIGINT, b VARCHAR");
    data_append(t, data_parquet(t, "x.parquet", "SELECT range AS a, 'x' AS b FROM range(100)"));
    data_append(t,
                data_parquet(t, "y.parquet", "SELECT range + 100 AS a, 'y' AS b FROM range(100)"));
}

static void rows_that_meet_a_condition_go(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    assert_int_equal(data_delete(t, "a BETWEEN 90 AND 109 -- both files"), 20);
    assert_int_equal(t->last.count, 2);
    assert_int_equal(t->last.files[0].record_count, 10);
    assert_answer(t, "SELECT count(*), sum(a) FROM t", "180|17910\n");
    assert_answer(t, "SELECT count(*) FROM t WHERE a BETWEEN 85 AND 114", "10\n");
}

static void deletes_of_one_file_add_up(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    assert_int_equal(data_delete(t, "t.a < 10"), 10);
    assert_int_equal(data_delete(t, "a < 20 OR a = 150"), 11);
    assert_int_equal(t->files.all[0].delete_count, 20);
    assert_int_equal(t->files.all[1].delete_count, 1);
    assert_int_equal(data_delete(t, "a < 20"), 0);
    assert_int_equal(t->last.count, 0);
    assert_answer(t, "SELECT count(*), min(a) FROM t", "179|20\n");
}

static void a_file_without_rows_ends(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    assert_int_equal(data_delete(t, "a = 5"), 1);
    assert_int_equal(data_delete(t, "b = 'x'"), 99);
    assert_int_equal(t->last.count, 1);
    assert_string_equal(t->last.files[0].path, "");
    assert_int_equal(t->files.count, 1);
    assert_answer(t, "SELECT count(*), min(b) FROM t", "100|y\n");
    assert_int_equal(data_delete(t, "true"), 100);
    assert_int_equal(t->files.count, 0);
}

static void a_condition_that_is_null_deletes_nothing(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    assert_int_equal(data_delete(t, "NULL"), 0);
    assert_int_equal(data_delete(t, "a = NULL"), 0);
    assert_int_equal(data_count_files(t), 2);
}

/* Files that a filter leaves out do not move the others' deletes. */
static void deletes_stay_with_their_files(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    for (int i = 0; i < 8; i++) {
        char select[64];
        (void)snprintf(select, sizeof select, "SELECT range + %d AS a FROM range(100)", i * 100);
        data_append(t, data_parquet(t, "x.parquet", select));
    }
    assert_int_equal(data_delete(t, "(a // 100) <> 3 AND a % 100 < (a // 100) * 10 + 5"),
                     7 * 5 + 250);
    assert_answer(t, "SELECT count(*) FROM t WHERE a >= 600", "60\n");
    assert_answer(t, "SELECT min(a), count(*) FROM t WHERE a BETWEEN 500 AND 599", "555|45\n");
    assert_answer(t,
                  "SELECT string_agg(n, ',' ORDER BY f) FROM (SELECT a // 100 AS f, count(*) AS n "
                  "FROM t GROUP BY 1)",
                  "95,85,75,100,55,45,35,25\n");
}

/* As a stock client writes and reads them. */
static void delete_files_have_ducklakes_form(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    data_append(t, data_parquet(t, "z.parquet", "SELECT 500 - range AS a, 'z' AS b FROM range(3)"));
    assert_int_equal(data_delete(t, "a IN (498, 500, 7)"), 3);
    char path[PATH_MAX];
    char text[3 * PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", t->data_dir, t->files.all[2].delete_path);
    (void)snprintf(text, sizeof text,
                   "SELECT string_agg(name || ' ' || field_id || ' ' || duckdb_type, ', ') FROM "
                   "parquet_schema('%s') WHERE field_id IS NOT NULL",
                   path);
    assert_answer(t, text, "file_path 2147483546 VARCHAR, pos 2147483545 BIGINT\n");
    (void)snprintf(text, sizeof text,
                   "SELECT list(pos), min(file_path) = '%s/%s' FROM read_parquet('%s')",
                   t->data_dir, t->files.all[2].path, path);
    assert_answer(t, text, "[0,2]|true\n");
}

/* ---- conditions that are none ---- */

static void texts_that_leave_their_brackets_are_no_conditions(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    static const char *const texts[] = {
        "",
        "a =",
        "a = 1; DROP TABLE t",
        "a = 1) OR (true",
        "true) UNION ALL SELECT (0, 0, 0",
        "true) UNION ALL SELECT 0, 0, 5 --",
        "a = 1 /*",
        "1] = [1",
        "a, b",
        "'x",
        "x for x in [true]",
        "nothing_like_it = 1",
        "sum(a) > 1",
        "b > 5::INTEGER",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        print_message("%s\n", texts[i]);
        assert_status_err(TIDE_E_INVALID, data_try_delete(t, texts[i]), &t->err);
    }
    assert_int_equal(data_count_files(t), 2);
}

static void a_condition_reads_no_other_files(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    assert_status_err(
        TIDE_E_DENIED,
        data_try_delete(t, "EXISTS (SELECT * FROM read_csv('/etc/passwd', header = false))"),
        &t->err);
    assert_status_err(TIDE_E_DENIED,
                      data_try_delete(t, "(SELECT content FROM read_text('/etc/hostname')) > ''"),
                      &t->err);
    assert_int_equal(data_count_files(t), 2);
}

/* ---- compaction ---- */

static void compaction_keeps_rows_exactly(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR, c DOUBLE");
    for (int i = 0; i < 20; i++) {
        char select[256];
        (void)snprintf(
            select, sizeof select,
            "SELECT range + %d AS a, CASE WHEN range %% 3 = 0 THEN NULL ELSE 'r' || range END "
            "AS b, CASE WHEN range = 1 THEN 'nan'::DOUBLE ELSE range / 3 END AS c FROM range(10)",
            i * 10);
        data_append(t, data_parquet(t, "x.parquet", select));
    }
    assert_int_equal(data_delete(t, "a % 7 = 0"), 29);
    data_add_column(t, "d", "INTEGER", "9");
    const char *sums =
        "SELECT count(*), sum(a), count(b), sum(hash(a, b, c, d)::HUGEINT)::VARCHAR FROM t";
    char before[128];
    (void)snprintf(before, sizeof before, "%s", data_ask(t, sums));
    data_compact(t);
    assert_int_equal(t->files.count, 1);
    assert_int_equal(t->last.rows, 171);
    assert_answer(t, sums, before);
    assert_int_equal(data_delete(t, "d = 9 AND a < 100"), 85);
}

static void compaction_of_nothing_writes_nothing(void **state)
{
    data_test *t = *state;
    put_hundreds(t);
    t->files.count = 0;
    data_compact(t);
    assert_int_equal(t->last.count, 0);
}

/* ---- partitions ---- */

static const char *value_of(const data_test *t, int file, int key)
{
    const char *value = t->last.files[file].partition_values[key];
    return value ? value : "NULL";
}

static bool has_partition(const data_test *t, const char *first, const char *second, int64_t rows)
{
    for (int i = 0; i < t->last.count; i++)
        if (strcmp(value_of(t, i, 0), first) == 0 &&
            (!second || strcmp(value_of(t, i, 1), second) == 0) &&
            t->last.files[i].record_count == rows && t->last.files[i].partition_id == 3)
            return true;
    return false;
}

static void partitions_by_value_hold_one_value_each(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b VARCHAR");
    data_partition(t, "b", "identity");
    data_append(t,
                data_parquet(t, "x.parquet",
                             "SELECT range AS a, CASE range % 6 WHEN 0 THEN NULL WHEN 1 THEN '' "
                             "WHEN 2 THEN 'NULL' WHEN 3 THEN '../x/''y=\"' WHEN 4 THEN "
                             "repeat('long', 1000) ELSE '__HIVE_DEFAULT_PARTITION__' END AS b FROM "
                             "range(60)"));
    assert_int_equal(t->last.count, 6);
    assert_true(has_partition(t, "../x/'y=\"", NULL, 10));
    assert_true(has_partition(t, "", NULL, 10));
    int nulls = 0;
    for (int i = 0; i < t->last.count; i++)
        nulls += t->last.files[i].partition_values[0] == NULL;
    assert_int_equal(nulls, 1);
    assert_int_equal(data_count_files(t), 6);
    assert_answer(t, "SELECT count(*), count(b), sum(a), count(DISTINCT b) FROM t",
                  "60|50|1770|5\n");
}

static void an_empty_source_makes_no_partition(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    data_partition(t, "a", "identity");
    data_append_rows(t, "a\n");
    assert_int_equal(t->last.count, 0);
    assert_int_equal(data_count_files(t), 0);
}

static void partitions_by_time_are_those_of_utc(void **state)
{
    data_test *t = *state;
    data_table(t, "a TIMESTAMPTZ, b TIMESTAMP");
    data_partition(t, "a", "year");
    data_partition(t, "b", "hour");
    data_append_rows(t, "a,b\n2024-01-01 00:30:00+02,2024-05-05 10:00:00\n"
                        "2023-06-01 00:00:00+00,2024-05-06 10:59:59\n"
                        "2024-01-01 00:00:00+00,2024-05-06 10:59:59\n");
    assert_int_equal(t->last.count, 2);
    assert_true(has_partition(t, "2023", "10", 2));
    assert_true(has_partition(t, "2024", "10", 1));
    data_table(t, "a DATE");
    data_partition(t, "a", "month");
    data_partition(t, "a", "day");
    data_append_rows(t, "a\n2024-12-31\n2023-12-31\n");
    assert_true(has_partition(t, "12", "31", 2));
}

static void a_partition_that_cannot_be_done_right_is_refused(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT");
    static const char *const wrong[] = {"truncate(3)", "bucket",     "bucket(0)", "bucket(-1)",
                                        "bucket(x)",   "bucket(3)x", "year(a);--"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        t->table.partition.count = 0;
        data_partition(t, "a", wrong[i]);
        assert_status(TIDE_E_UNSUPPORTED, data_try(t, data_file(t, "x.csv", "a\n1\n")));
        assert_contains(t->err.text, wrong[i]);
        assert_int_equal(data_count_files(t), 0);
    }
}

/* The hashes that Iceberg's specification gives (appendix B). */
static void buckets_are_icebergs(void **state)
{
    data_test *t = *state;
    static const struct {
        const char *type;
        const char *value;
        int64_t hash;
    } cases[] = {
        {"INTEGER", "34", 2017239379},
        {"BIGINT", "34", 2017239379},
        {"DECIMAL(9,2)", "0.34", 2017239379},
        {"DATE", "2017-11-16", -653330422},
        {"TIME", "22:31:08", -662762989},
        {"TIMESTAMP", "2017-11-16 22:31:08", -2047944441},
        {"TIMESTAMPTZ", "2017-11-16 14:31:08-08", -2047944441},
        {"VARCHAR", "iceberg", 1210000089},
        {"BLOB", "\\x00\\x01\\x02\\x03", -188683207},
        {"DOUBLE", "1.0", -142385009},
        {"FLOAT", "1.0", -142385009},
        {"DOUBLE", "-0.0", 1669671676},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char columns[64];
        char rows[64];
        char want[16];
        (void)snprintf(columns, sizeof columns, "a %s", cases[i].type);
        (void)snprintf(rows, sizeof rows, "a\n%s\n", cases[i].value);
        (void)snprintf(want, sizeof want, "%lld",
                       (long long)((cases[i].hash & INT32_MAX) % 100000));
        data_table(t, columns);
        data_partition(t, "a", "bucket(100000)");
        data_append_rows(t, rows);
        print_message("%s\n", cases[i].type);
        assert_string_equal(value_of(t, 0, 0), want);
    }
}

static void every_row_has_a_bucket(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, u UUID, d DECIMAL(38,2), n UBIGINT");
    data_partition(t, "u", "bucket(4)");
    data_append(
        t, data_parquet(t, "x.parquet",
                        "SELECT range AS a, CASE WHEN range > 0 THEN uuid() END AS u, range AS d, "
                        "range AS n FROM range(1000)"));
    assert_int_equal(t->last.count, 5); /* NULL has none */
    assert_true(has_partition(t, "NULL", NULL, 1));
    t->table.partition.count = 0;
    data_partition(t, "d", "bucket(2)");
    data_partition(t, "n", "bucket(2)");
    data_compact(t);
    assert_int_equal(t->last.count, 4);
    assert_answer(t, "SELECT count(*), sum(a) FROM t", "1000|499500\n");
}

static void compaction_keeps_partitions_apart(void **state)
{
    data_test *t = *state;
    data_table(t, "a BIGINT, b BIGINT");
    data_partition(t, "b", "identity");
    for (int i = 0; i < 3; i++)
        data_append(
            t, data_parquet(t, "x.parquet", "SELECT range AS a, range % 4 AS b FROM range(40)"));
    assert_int_equal(t->files.count, 12);
    data_compact(t);
    assert_int_equal(t->files.count, 4);
    assert_true(has_partition(t, "3", NULL, 30));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, data_setup, data_teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_that_is_older_than_a_column_gives_its_initial_default),
        CASE(a_column_that_was_dropped_and_made_again_is_another),
        CASE(columns_that_change_names_keep_their_values),
        CASE(a_column_that_was_widened_reads_older_files),
        CASE(a_table_without_files_is_empty),
        CASE(rows_that_meet_a_condition_go),
        CASE(deletes_of_one_file_add_up),
        CASE(a_file_without_rows_ends),
        CASE(a_condition_that_is_null_deletes_nothing),
        CASE(deletes_stay_with_their_files),
        CASE(delete_files_have_ducklakes_form),
        CASE(texts_that_leave_their_brackets_are_no_conditions),
        CASE(a_condition_reads_no_other_files),
        CASE(compaction_keeps_rows_exactly),
        CASE(compaction_of_nothing_writes_nothing),
        CASE(partitions_by_value_hold_one_value_each),
        CASE(an_empty_source_makes_no_partition),
        CASE(partitions_by_time_are_those_of_utc),
        CASE(a_partition_that_cannot_be_done_right_is_refused),
        CASE(buckets_are_icebergs),
        CASE(every_row_has_a_bucket),
        CASE(compaction_keeps_partitions_apart),
    };
    return cmocka_run_group_tests_name("lake data files", tests, NULL, NULL);
}
