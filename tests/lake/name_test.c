/* Names, types, columns as people write them; values in the order of their types. */
#include "support/check.h"

#include <string.h>

#include "base/cleanup.h"
#include "lake/lake_parts.h"
#include "lake/type_order.h"
#include "lake/types.h"

static tide_error err;

static void names_have_parts_and_quotes(void **state)
{
    (void)state;
    tide_lake_name name;
    assert_ok_err(tide_lake_name_parse(&name, "a.b.c", 3, &err), &err);
    assert_string_equal(name.catalog, "a");
    assert_string_equal(name.object, "c");
    assert_ok_err(tide_lake_name_parse(&name, "\"a.b\".\"say \"\"hi\"\"\"", 2, &err), &err);
    assert_string_equal(name.catalog, "a.b");
    assert_string_equal(name.schema, "say \"hi\"");
    assert_string_equal(name.object, "");
    assert_ok_err(tide_lake_name_parse(&name, "größe; drop table x", 1, &err), &err);
}

static void malformed_names_are_refused_with_the_form(void **state)
{
    (void)state;
    tide_lake_name name;
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    static const char *const bad[] = {"a",        "a.b",    "a.b.c.d",    "a..c",
                                      ".b.c",     "a.b.",   "a.\"b.c",    "",
                                      "a.\"\".c", "a.b.\n", "a.b.\"c\"d", "\xff.b.c"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_lake_name_parse(&name, bad[i], 3, &err));
    assert_status(TIDE_E_INVALID, tide_lake_name_parse(&name, longer, 1, &err));
    assert_status(TIDE_E_INVALID, tide_lake_name_parse(&name, "a.b", 3, &err));
    assert_contains(err.text, "CATALOG.SCHEMA.TABLE");
}

static void names_are_folded_as_duckdb_folds_them(void **state)
{
    (void)state;
    assert_true(tide_lake_same_name("Orders", "oRDERS"));
    assert_false(tide_lake_same_name("Orders", "Order"));
    assert_false(tide_lake_same_name("É", "é"));
}

static void directories_keep_what_is_plain_of_a_name(void **state)
{
    (void)state;
    char out[96];
    tide_lake_directory(out, "my table/../x", "1234");
    assert_string_equal(out, "mytablex-1234/");
    tide_lake_directory(out, "../..", "1234");
    assert_string_equal(out, "1234/");
}

static void types_are_read_as_sql_writes_them(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"BIGINT", "int64"},
                                           {"int8", "int64"},
                                           {"long", "int64"},
                                           {"Integer", "int32"},
                                           {"TINYINT", "int8"},
                                           {"text", "varchar"},
                                           {"VARCHAR(20)", "varchar"},
                                           {"double  precision", "float64"},
                                           {"REAL", "float32"},
                                           {"DECIMAL", "decimal(18,3)"},
                                           {"numeric( 10 , 2 )", "decimal(10,2)"},
                                           {"DEC(5)", "decimal(5,0)"},
                                           {"TIMESTAMP WITH TIME ZONE", "timestamptz"},
                                           {"timestamptz", "timestamptz"},
                                           {"UUID", "uuid"},
                                           {"bytea", "blob"},
                                           {"ubigint", "uint64"},
                                           {"json", "json"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char out[256];
        char back[256];
        assert_ok_err(tide_lake_type_parse(out, pairs[i][0], &err), &err);
        assert_string_equal(out, pairs[i][1]);
        assert_ok_err(tide_lake_type_duckdb(back, out, &err), &err);
        assert_ok_err(tide_lake_type_parse(out, back, &err), &err); /* what DuckDB calls it */
        assert_string_equal(out, pairs[i][1]);
    }
}

static void what_is_no_plain_type_is_refused_with_words(void **state)
{
    (void)state;
    char out[256];
    static const char *const bad[] = {"BIGGINT", "DECIMAL(39,2)", "DECIMAL(5,6)", "DECIMAL(x)", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_lake_type_parse(out, bad[i], &err));
    assert_contains(err.text, "BIGINT");
    assert_status(TIDE_E_INVALID, tide_lake_type_parse(out, "STRUCT(a INT)", &err));
    assert_contains(err.text, "nested");
    assert_status(TIDE_E_INVALID, tide_lake_type_parse(out, "INTEGER[]", &err));
    assert_status(TIDE_E_INVALID, tide_lake_type_parse(out, "uhugeint", &err));
    assert_contains(err.text, "DECIMAL(38,0)");
    assert_status(TIDE_E_UNSUPPORTED, tide_lake_type_duckdb(out, "struct", &err));
}

static void types_widen_and_never_narrow(void **state)
{
    (void)state;
    assert_true(tide_lake_type_widens("int32", "int64"));
    assert_true(tide_lake_type_widens("float32", "float64"));
    assert_true(tide_lake_type_widens("decimal(10,2)", "decimal(12,2)"));
    assert_false(tide_lake_type_widens("int64", "int32"));
    assert_false(tide_lake_type_widens("decimal(10,2)", "decimal(12,3)"));
    assert_false(tide_lake_type_widens("varchar", "int64"));
}

static void columns_are_parsed(void **state)
{
    (void)state;
    tide_lake_column_def *columns = NULL;
    int count = 0;
    assert_ok_err(
        tide_lake_columns_parse(" a BIGINT, \"b, c\" VARCHAR NOT NULL DEFAULT 'it''s, x',"
                                "d decimal(10,2) default -1.50 NULL,\nt TIMESTAMP WITH TIME "
                                "ZONE not null, ok bool DEFAULT TRUE, n int DEFAULT NULL",
                                &columns, &count, &err),
        &err);
    assert_int_equal(count, 6);
    assert_string_equal(columns[1].name, "b, c");
    assert_string_equal(columns[1].default_value, "it's, x");
    assert_true(columns[1].is_not_null);
    assert_string_equal(columns[2].type, "decimal(10,2)");
    assert_string_equal(columns[2].default_value, "-1.50");
    assert_string_equal(columns[3].type, "timestamptz");
    assert_true(columns[3].is_not_null);
    assert_string_equal(columns[4].default_value, "true");
    assert_null(columns[5].default_value);
    tide_lake_column_defs_free(columns, count);
}

static void malformed_columns_say_where(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "a",
                                      "a BIGINT,",
                                      "a BIGINT b VARCHAR",
                                      "1a BIGINT",
                                      "a BIGINT NOT",
                                      "a BIGINT DEFAULT",
                                      "a BIGINT DEFAULT now()",
                                      "a BIGINT DEFAULT 'x'",
                                      "a VARCHAR DEFAULT 'x",
                                      "\"a BIGINT",
                                      "a BIGINT PRIMARY KEY",
                                      "a VARCHAR DEFAULT 'NULL'",
                                      "a BOOLEAN DEFAULT 3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_lake_column_def *columns = NULL;
        int count = 0;
        if (tide_lake_columns_parse(bad[i], &columns, &count, &err) != TIDE_E_INVALID)
            fail_msg("accepted: %s", bad[i]);
    }
}

static void values_compare_as_their_types_do(void **state)
{
    (void)state;
    static const struct {
        tide_lake_order order;
        const char *a;
        const char *b;
        int sign; /* 2: not known */
    } pairs[] = {
        {TIDE_LAKE_ORDER_DECIMAL, "9", "10", -1},
        {TIDE_LAKE_ORDER_DECIMAL, "-9", "-10", 1},
        {TIDE_LAKE_ORDER_DECIMAL, "-0", "0", 0},
        {TIDE_LAKE_ORDER_DECIMAL, "1.50", "1.5", 0},
        {TIDE_LAKE_ORDER_DECIMAL, "1.05", "1.5", -1},
        {TIDE_LAKE_ORDER_DECIMAL, "170141183460469231731687303715884105727",
         "170141183460469231731687303715884105726", 1},
        {TIDE_LAKE_ORDER_DECIMAL, "1e3", "2", 2},
        {TIDE_LAKE_ORDER_DOUBLE, "1e3", "999.5", 1},
        {TIDE_LAKE_ORDER_DOUBLE, "-inf", "0", -1},
        {TIDE_LAKE_ORDER_DOUBLE, "nan", "0", 2},
        {TIDE_LAKE_ORDER_TEXT, "a", "ab", -1},
        {TIDE_LAKE_ORDER_TIME, "2024-01-31", "2024-02-01", -1},
        {TIDE_LAKE_ORDER_TIME, "2024-01-31 10:00:00", "2024-01-31 10:00:00.5", -1},
        {TIDE_LAKE_ORDER_TIME, "2024-01-31 10:00:00+00", "2024-01-31 10:00:00.5+00", -1},
        {TIDE_LAKE_ORDER_TIME, "2024-01-31 10:00:00+00", "2024-01-31 10:00:00+02", 2},
        {TIDE_LAKE_ORDER_TIME, "10:00:00", "2024-01-31", 2},
        {TIDE_LAKE_ORDER_TIME, "10000-01-01", "2024-01-31", 2},
        {TIDE_LAKE_ORDER_TIME, "infinity", "2024-01-31", 2},
        {TIDE_LAKE_ORDER_NONE, "a", "b", 2},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        int sign = 0;
        const bool is_known = tide_lake_compare(pairs[i].order, tide_view_of(pairs[i].a),
                                                tide_view_of(pairs[i].b), &sign);
        if ((is_known ? sign : 2) != pairs[i].sign)
            fail_msg("%s against %s", pairs[i].a, pairs[i].b);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_parts_and_quotes),
        cmocka_unit_test(malformed_names_are_refused_with_the_form),
        cmocka_unit_test(names_are_folded_as_duckdb_folds_them),
        cmocka_unit_test(directories_keep_what_is_plain_of_a_name),
        cmocka_unit_test(types_are_read_as_sql_writes_them),
        cmocka_unit_test(what_is_no_plain_type_is_refused_with_words),
        cmocka_unit_test(types_widen_and_never_narrow),
        cmocka_unit_test(columns_are_parsed),
        cmocka_unit_test(malformed_columns_say_where),
        cmocka_unit_test(values_compare_as_their_types_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
