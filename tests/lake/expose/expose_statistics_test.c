/* Statistics of columns beside a stock client: bounds that hold, and none where they are not known. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/expose/expose_case.h"

/* ---- statistics ---- */

/* What a client reads of the bounds of a table, by column: "name|contains_null|contains_nan|min|max". */
static char *bounds_of(expose_case *c, int64_t id)
{
    return stock_rows(&c->s,
                      "SELECT DISTINCT k.column_name, s.contains_null, s.contains_nan, "
                      "s.min_value, s.max_value FROM M.ducklake_table_column_stats s JOIN "
                      "M.ducklake_column k USING (table_id, column_id) WHERE s.table_id = %" PRId64
                      " ORDER BY 1",
                      id);
}

static void assert_bounds(expose_case *c, int64_t id, const char *want)
{
    TIDE_CLEANUP(tide_freep) char *found = bounds_of(c, id);
    assert_non_null(found);
    assert_string_equal(found, want);
}

typedef struct column_values {
    const char *type;
    const char *least;
    const char *most;
    int64_t nulls;
    bool has_nan_known;
    bool contains_nan;
} column_values;

/* A file of four rows of a table with one column. */
static void add_values(lake_case *l, const char *catalog, const char *table,
                       const column_values *values)
{
    static int number;
    char path[32];
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    tide_lake_change *change = lake_begin(l, catalog);
    assert_ok_err(tide_lake_change_table(change, "main", table, &seen, &l->err), &l->err);
    const tide_lake_column_stats stats = {.column_id = seen.columns[seen.column_count - 1].id,
                                          .value_count = 4,
                                          .null_count = values->nulls,
                                          .min_value = values->least,
                                          .max_value = values->most,
                                          .has_nan_known = values->has_nan_known,
                                          .contains_nan = values->contains_nan};
    (void)snprintf(path, sizeof path, "values-%d.parquet", ++number);
    const tide_lake_new_file file = {
        .path = path, .record_count = 4, .stats = &stats, .stat_count = 1};
    assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l->err), &l->err);
    lake_commit(l, change);
}

/* NULL bounds in a row mean "no values" to DuckDB 1.5: where anything is not known there is no row. */
static void a_column_has_bounds_only_while_all_its_files_have(void **state)
{
    expose_case c = begin(state);
    static const struct {
        column_values values[3];
        const char *want;
    } cases[] = {
        {{{"int32", "300", "300", 0, false, false}, {"int32", "9", "1000", 0, false, false}},
         "v|f|-|9|1000\n"},
        {{{"int32", NULL, NULL, 4, false, false}, {"int32", "5", "5", 0, false, false}},
         "v|t|-|5|5\n"},
        {{{"int32", NULL, NULL, 4, false, false}}, "v|t|-|-|-\n"},
        {{{"json", "1", "2", 0, false, false}}, ""},
        {{{"blob", "00", "ff", 0, false, false}}, ""},
        {{{"interval", NULL, NULL, 0, false, false}}, ""},
        {{{"timetz", "10:00:00+00", "11:00:00+00", 0, false, false}}, ""},
        {{{"date", "2020-01-01", "2021-01-01", 0, false, false},
          {"date", "0999-12-31", "2020-01-01", 0, false, false}},
         "v|f|-|0999-12-31|2021-01-01\n"},
        {{{"date", "2020-01-01", "10000-01-01", 0, false, false}}, ""},
        {{{"float64", "1", "2", 0, true, false}, {"float64", "-1e-05", "10", 0, true, false}},
         "v|f|f|-1e-05|10\n"},
        {{{"float64", "1", "2", 0, true, false}, {"float64", "-inf", "1", 0, true, false}}, ""},
        {{{"float64", "1", "2", 0, true, true}, {"float64", "1", "2", 0, true, false}}, ""},
        {{{"float64", "1", "2", 0, false, false}}, ""},
        {{{"boolean", "0", "0", 0, false, false}, {"boolean", "false", "true", 0, false, false}},
         "v|f|-|false|true\n"},
        {{{"varchar", "b", "c+00", 0, false, false}, {"varchar", "B", "c", 0, false, false}},
         "v|f|-|B|c+00\n"},
        {{{"varchar", "b", "c", 0, false, false},
          {"varchar", NULL, "d", 0, false, false},
          {"varchar", "a", "z", 0, false, false}},
         ""},
        {{{"timestamptz", "2020-01-01 00:00:00.5+00", "2020-01-01 00:00:01+00", 0, false, false},
          {"timestamptz", "2020-01-01 00:00:00+00", "2020-01-01 00:00:00.5+00", 0, false, false}},
         "v|f|-|2020-01-01 00:00:00+00|2020-01-01 00:00:01+00\n"},
        {{{"decimal(10,2)", "-1.50", "9.00", 0, false, false},
          {"decimal(10,2)", "-1.45", "10.00", 0, false, false}},
         "v|f|-|-1.50|10.00\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "v%zu", i);
        const tide_lake_column_def column = {.name = "v", .type = cases[i].values[0].type};
        tide_lake_change *change = lake_begin(&c.l, "books");
        assert_ok_err(tide_lake_create_table(change, "main", name, &column, 1, &c.l.err), &c.l.err);
        lake_commit(&c.l, change);
        for (int k = 0; k < 3 && cases[i].values[k].type; k++)
            add_values(&c.l, "books", name, &cases[i].values[k]);
        assert_bounds(&c, table_id(&c, name), cases[i].want);
    }
    end(&c);
}

/* Seen: a column is added, 300, 400 and 500 are inserted, and a client finds no 300. */
static void a_column_that_came_later_has_no_bounds(void **state)
{
    expose_case c = begin(state);
    static const tide_lake_column_def later = {.name = "j", .type = "int32"};
    static const column_values values[] = {{"int32", "300", "300", 0, false, false},
                                           {"int32", "400", "500", 0, false, false}};
    tide_lake_change *change = lake_begin(&c.l, "books");
    assert_ok_err(tide_lake_add_column(change, "main", "t", &later, &c.l.err), &c.l.err);
    lake_commit(&c.l, change);
    for (int i = 0; i < 2; i++) {
        add_values(&c.l, "books", "t", &values[i]);
        assert_bounds(&c, table_id(&c, "t"), "");
    }
    end(&c);
}

static void what_a_client_says_about_statistics_is_ignored(void **state)
{
    expose_case c = begin(state);
    const int64_t id = table_id(&c, "t");
    assert_bounds(&c, id, "id|f|-|1|9\n");
    assert_done(&c.s, stock_begin(&c.s) && stock_next(&c.s, 0, 0, 2));
    const int64_t file = c.s.head.next_file;
    for (int i = 0; i < 2; i++)
        assert_done(&c.s,
                    stock_runf(&c.s,
                               "INSERT INTO M.ducklake_data_file VALUES (%" PRId64 ", %" PRId64
                               ", %" PRId64 ", NULL, NULL, 'wrong-%d.parquet', true, 'parquet', "
                               "10, 100, 10, 0, NULL, NULL, NULL, NULL);"
                               "INSERT INTO M.ducklake_file_column_stats SELECT %" PRId64
                               ", %" PRId64 ", min(column_id), 8, 10, 0, '-5', '50', NULL, NULL "
                               "FROM M.ducklake_column WHERE table_id = %" PRId64,
                               file + i, id, c.s.head.snapshot + 1, i, file + i, id, id));
    assert_done(&c.s, stock_runf(&c.s,
                                 "UPDATE M.ducklake_table_stats SET record_count = 1, next_row_id "
                                 "= 1, file_size_bytes = 1 WHERE table_id = %" PRId64
                                 ";UPDATE M.ducklake_table_column_stats SET min_value = NULL, "
                                 "max_value = NULL WHERE table_id = %" PRId64,
                                 id, id));
    char changes[64];
    (void)snprintf(changes, sizeof changes, "inserted_into_table:%" PRId64, id);
    assert_done(&c.s, stock_end(&c.s, changes));
    assert_bounds(&c, id, "id|f|-|-5|50\n");
    TIDE_CLEANUP(tide_freep)
    char *counts = stock_rows(&c.s,
                              "SELECT record_count, next_row_id, file_size_bytes FROM "
                              "M.ducklake_table_stats WHERE table_id = %" PRId64,
                              id);
    assert_string_equal(counts, "27|27|900\n");
    TIDE_CLEANUP(tide_freep)
    char *ranges = stock_rows(&c.s,
                              "SELECT row_id_start, record_count FROM M.ducklake_data_file WHERE "
                              "table_id = %" PRId64 " ORDER BY row_id_start",
                              id);
    assert_string_equal(ranges, "0|3\n3|4\n7|10\n17|10\n");
    end(&c);
}

static void bounds_of_a_fork_are_not_those_of_its_parent_once_they_are_not_known(void **state)
{
    expose_case c = begin(state);
    static const column_values known = {"int32", "1", "2", 0, false, false};
    static const column_values wider = {"int32", "0", "7", 0, false, false};
    static const column_values unknown = {"int32", NULL, NULL, 0, false, false};
    static const tide_lake_column_def column = {.name = "v", .type = "int32"};
    tide_lake_change *change = lake_begin(&c.l, "books");
    assert_ok_err(tide_lake_create_table(change, "main", "v", &column, 1, &c.l.err), &c.l.err);
    lake_commit(&c.l, change);
    const int64_t id = table_id(&c, "v");
    add_values(&c.l, "books", "v", &known);
    lake_fork_of(&c.l, "books", "draft", "");
    expose(&c.l, "draft");
    stock_close(&c.s);
    attach(&c, "lake_draft");
    assert_bounds(&c, id, "v|f|-|1|2\n");
    add_values(&c.l, "draft", "v", &wider);
    assert_bounds(&c, id, "v|f|-|0|7\n");
    add_values(&c.l, "draft", "v", &unknown);
    assert_bounds(&c, id, "");
    stock_close(&c.s);
    attach(&c, "lake_books");
    assert_bounds(&c, id, "v|f|-|1|2\n");
    end(&c);
}

static void bounds_do_not_outlive_a_wider_float(void **state)
{
    expose_case c = begin(state);
    static const tide_lake_column_def column = {.name = "v", .type = "float32"};
    static const column_values values = {"float32", "0.1", "0.2", 0, true, false};
    tide_lake_change *change = lake_begin(&c.l, "books");
    assert_ok_err(tide_lake_create_table(change, "main", "v", &column, 1, &c.l.err), &c.l.err);
    lake_commit(&c.l, change);
    const int64_t id = table_id(&c, "v");
    add_values(&c.l, "books", "v", &values);
    assert_bounds(&c, id, "v|f|f|0.1|0.2\n");
    change = lake_begin(&c.l, "books");
    assert_ok_err(tide_lake_widen_column(change, "main", "v", "v", "float64", &c.l.err), &c.l.err);
    lake_commit(&c.l, change);
    assert_bounds(&c, id, "");
    add_values(&c.l, "books", "v", &values);
    assert_bounds(&c, id, "");
    TIDE_CLEANUP(tide_freep)
    char *files = stock_rows(&c.s,
                             "SELECT min_value FROM M.ducklake_file_column_stats WHERE table_id = "
                             "%" PRId64 " ORDER BY data_file_id",
                             id);
    assert_string_equal(files, "-\n0.1\n");
    end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_column_has_bounds_only_while_all_its_files_have),
        STORE_CASE_POSTGRES(a_column_that_came_later_has_no_bounds),
        STORE_CASE_POSTGRES(what_a_client_says_about_statistics_is_ignored),
        STORE_CASE_POSTGRES(bounds_of_a_fork_are_not_those_of_its_parent_once_they_are_not_known),
        STORE_CASE_POSTGRES(bounds_do_not_outlive_a_wider_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
