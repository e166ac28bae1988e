/* sqlgen: what it makes of statements, and what it refuses to build. */
#include <stdio.h>
#include <string.h>

#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

typedef struct sqlgen_test {
    tempdir dir;
    char program[PATH_MAX];
    char input[TEMPDIR_PATH_MAX];
    char header[TEMPDIR_PATH_MAX];
    char source[TEMPDIR_PATH_MAX];
    proc_result result;
    char text[8192]; /* the generated source */
} sqlgen_test;

static void set_up(sqlgen_test *t)
{
    tide_error err;
    memset(t, 0, sizeof *t);
    assert_ok_err(tempdir_make(&t->dir, &err), &err);
    assert_ok_err(proc_find("sqlgen", t->program, &err), &err);
    tempdir_join(&t->dir, "in.sql", t->input);
    tempdir_join(&t->dir, "out.h", t->header);
    tempdir_join(&t->dir, "out.c", t->source);
}

static int run(sqlgen_test *t, const char *sql)
{
    tide_error err;
    FILE *file = fopen(t->input, "w");
    assert_non_null(file);
    assert_true(fputs(sql, file) >= 0);
    assert_int_equal(0, fclose(file));
    proc_result_done(&t->result);
    const char *const argv[] = {t->program, "my_sql", t->header, t->source, t->input, NULL};
    const proc_options options = {.argv = argv};
    assert_ok_err(proc_run(&t->result, &options, 10000, &err), &err);
    t->text[0] = '\0';
    file = fopen(t->source, "r");
    if (t->result.exit_code == 0 && file)
        t->text[fread(t->text, 1, sizeof t->text - 1, file)] = '\0';
    if (file)
        (void)fclose(file);
    return t->result.exit_code;
}

static void done(sqlgen_test *t)
{
    proc_result_done(&t->result);
    TIDE_IGNORE(tempdir_remove(&t->dir, NULL));
}

static void parameters_are_numbered_for_each_engine(void **state)
{
    (void)state;
    sqlgen_test t;
    set_up(&t);
    assert_int_equal(
        0, run(&t, "-- statement: pick\n-- why\nSELECT :b, :a, :b, ':c', \"x:y\", a::text -- :d\n"
                   "FROM t WHERE s = 'it''s :e';\n"));
    assert_contains(t.text,
                    "SELECT ?1, ?2, ?1, ':c', \\\"x:y\\\", a::text FROM t WHERE s = 'it''s :e'");
    assert_contains(t.text, "SELECT $1, $2, $1, ':c'");
    assert_contains(t.text, "{\"b\", \"a\", 0}, .param_count = 2");
    done(&t);
}

/* Missing, double, unknown or empty: the build stops and names the place. */
static void a_catalogue_with_holes_does_not_build(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *complaint;
    } cases[] = {
        {"-- statement: a  engine: sqlite\nSELECT 1;\n", "in.sql:1: 'a' has no block for postgres"},
        {"-- statement: a\nSELECT 1;\n-- statement: a\nSELECT 2;\n",
         "in.sql:3: 'a' is given twice"},
        {"-- statement: a  engine: sqlite\nSELECT 1;\n-- statement: a\nSELECT 2;\n",
         "given twice for sqlite"},
        {"-- statement: a  engine: oracle\nSELECT 1;\n", "unknown engine 'oracle'"},
        {"-- statement: a\n-- only words\n", "'a' has no text"},
        {"SELECT 1;\n", "no blocks"},
        {"-- migration: 1  version: 1  name: x  engine: sqlite\nSELECT 1;\n",
         "no block for postgres"},
        {"-- migration: 2  version: 1  name: x  engine: sqlite\nSELECT 1;\n"
         "-- migration: 2  version: 1  name: x  engine: postgres\nSELECT 1;\n",
         "migration 2 out of order, want 1"},
        {"-- migration: 1  name: x  engine: sqlite\nSELECT 1;\n", "version"},
        {"-- migration: 1  version: 1  name: x  engine: sqlite  part: 2\nSELECT 1;\n",
         "part 1 of 'x' is missing"},
        {"-- migration: 1  version: 1  name: x  engine: sqlite  part: 1\nSELECT 1;\n"
         "-- migration: 1  version: 1  name: x  engine: sqlite  part: 1\nSELECT 2;\n",
         "given twice"},
        {"-- migration: 1  version: 1  name: x  engine: sqlite  part: 0\nSELECT 1;\n", "part 0"},
    };
    sqlgen_test t;
    set_up(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(1, run(&t, cases[i].sql));
        assert_contains(t.result.err, cases[i].complaint);
    }
    done(&t);
}

/* The order of the numbers counts, not that of the text. */
static void parts_of_a_migration_are_joined(void **state)
{
    (void)state;
    sqlgen_test t;
    set_up(&t);
    assert_int_equal(0, run(&t, "-- migration: 1  version: 1  name: x  engine: sqlite  part: 2\n"
                                "SELECT 'second';\n"
                                "-- migration: 1  version: 1  name: x  engine: postgres\n"
                                "SELECT 'whole';\n"
                                "-- migration: 1  version: 1  name: x  engine: sqlite  part: 1\n"
                                "SELECT 'first';\n"));
    assert_contains(t.text, "\"SELECT 'first';\\n\"\n    \"SELECT 'second';\\n\"");
    assert_contains(t.text, "SELECT 'whole';");
    done(&t);
}

static void a_statement_may_exist_for_one_engine_only(void **state)
{
    (void)state;
    sqlgen_test t;
    set_up(&t);
    assert_int_equal(0, run(&t, "-- statement: a  only: postgres\nSELECT now();\n"));
    assert_contains(t.text, "{.text = 0}");
    done(&t);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_numbered_for_each_engine),
        cmocka_unit_test(a_catalogue_with_holes_does_not_build),
        cmocka_unit_test(parts_of_a_migration_are_joined),
        cmocka_unit_test(a_statement_may_exist_for_one_engine_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
