/* Schemas of every kind are read as SQLite has them; what cannot be replicated is refused with advice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/capture/app_fixture.h"
#include "support/check.h"

typedef struct reading {
    const char *name;
    tide_table table;
} reading;

static tide_status read_table(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    reading *r = arg;
    return tide_table_read(&r->table, tx, r->name, err);
}

static tide_status try_read(app_fixture *t, reading *r, const char *name)
{
    if (!t->node)
        app_open(t);
    *r = (reading){.name = name};
    return tide_foreign_read(tide_node_file(t->node), read_table, r, &t->err);
}

/* Key columns by name, with commas. */
static void assert_key(app_fixture *t, const char *name, const char *expected)
{
    reading r;
    char found[256] = "";
    assert_ok_err(try_read(t, &r, name), &t->err);
    for (int i = 0; i < r.table.key_count; i++) {
        const size_t len = strlen(found);
        (void)snprintf(found + len, sizeof found - len, "%s%s", i > 0 ? "," : "",
                       r.table.columns[r.table.key[i]].name);
    }
    assert_string_equal(found, expected);
    tide_table_done(&r.table);
}

static void assert_refused(app_fixture *t, const char *name, tide_status status, const char *advice)
{
    reading r;
    assert_status_err(status, try_read(t, &r, name), &t->err);
    assert_contains(t->err.text, advice);
}

static void keys_of_every_kind(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v);"
        "CREATE TABLE b (x TEXT NOT NULL, y INT NOT NULL, z, PRIMARY KEY (y, x));"
        "CREATE TABLE c (x TEXT, y BLOB, PRIMARY KEY (y, x)) WITHOUT ROWID;"
        "CREATE TABLE d (x TEXT PRIMARY KEY, y INT NOT NULL UNIQUE);"
        "CREATE TABLE e (x INT NOT NULL, y INT NOT NULL); CREATE UNIQUE INDEX e1 ON e (y, x);"
        "CREATE TABLE f (g INT AS (id * 2) STORED, id INTEGER PRIMARY KEY, h INT AS (id + 1), v "
        "ANY) STRICT;"
        "CREATE TABLE \"Odd \"\"one\"\"\" (\"PRIMARY\" INTEGER PRIMARY KEY AUTOINCREMENT);"
        "CREATE TABLE g (id TEXT PRIMARY KEY, v); CREATE TABLE h (x, y TEXT, PRIMARY KEY (y, x));"
        "CREATE TABLE i (id INTEGER PRIMARY KEY DESC);");
    assert_key(t, "a", "id");
    assert_key(t, "B", "y,x");
    assert_key(t, "c", "y,x");
    assert_key(t, "d", "y");
    assert_key(t, "e", "y,x");
    assert_key(t, "f", "id");
    assert_key(t, "odd \"ONE\"", "PRIMARY");
    assert_key(t, "g", "id"); /* SQLite allows NULL in these: such rows stay where they are */
    assert_key(t, "h", "y,x");
    assert_key(t, "i", "id");
    reading r;
    assert_ok_err(try_read(t, &r, "f"), &t->err);
    assert_int_equal(r.table.column_count, 2); /* generated columns are nobody's news */
    assert_true(r.table.columns[1].affinity == TIDE_AFFINITY_NONE);
    assert_true(r.table.is_strict && r.table.is_rowid_key);
    tide_table_done(&r.table);
}

static void what_cannot_be_replicated_is_refused_with_advice(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE nokey (a, b);"
        "CREATE TABLE partial (a INT NOT NULL); CREATE UNIQUE INDEX p ON partial (a) WHERE a > 0;"
        "CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE ft USING fts5(x);");
    assert_refused(t, "nokey", TIDE_E_UNSUPPORTED, "PRIMARY KEY");
    assert_refused(t, "partial", TIDE_E_UNSUPPORTED, "PRIMARY KEY");
    assert_refused(t, "v", TIDE_E_UNSUPPORTED, "view");
    assert_refused(t, "sqlite_master", TIDE_E_UNSUPPORTED, "SQLite");
    assert_refused(t, "tide_metadata", TIDE_E_UNSUPPORTED, "own");
    assert_refused(t, "absent", TIDE_E_NOT_FOUND, "absent");
    app_write_sql(t, APP_SHELL, "CREATE TABLE \"\" (id INTEGER PRIMARY KEY);");
    assert_refused(t, "", TIDE_E_UNSUPPORTED, "without a name");
}

/* The digest names what travels: names, order, key. */
static void the_digest_covers_names_order_and_key(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE a (id INT NOT NULL PRIMARY KEY, v TEXT);"
                  "CREATE TABLE b (id TEXT NOT NULL PRIMARY KEY, v INT DEFAULT 7, g AS (v));"
                  "CREATE TABLE c (v TEXT, id INT NOT NULL PRIMARY KEY);"
                  "CREATE TABLE d (id INT NOT NULL, v TEXT NOT NULL PRIMARY KEY);");
    uint64_t digests[4];
    for (int i = 0; i < 4; i++) {
        reading r;
        const char name[] = {(char)('a' + i), '\0'};
        assert_ok_err(try_read(t, &r, name), &t->err);
        digests[i] = r.table.schema;
        tide_table_done(&r.table);
    }
    assert_true(digests[0] == digests[1]);
    assert_true(digests[0] != digests[2] && digests[0] != digests[3]);
}

/* As many columns as a log can carry are captured, more are refused. */
static void very_wide_tables(void **state)
{
    app_fixture *t = *state;
    static char sql[200000];
    for (int wide = 0; wide < 2; wide++) {
        const int count = wide ? TIDE_TABLE_COLUMNS_MAX + 1 : TIDE_TABLE_COLUMNS_MAX;
        int len = snprintf(sql, sizeof sql, "CREATE TABLE w%d (id INTEGER PRIMARY KEY", wide);
        for (int i = 1; i < count; i++)
            len += snprintf(sql + len, sizeof sql - (size_t)len, ", c%d", i);
        (void)snprintf(sql + len, sizeof sql - (size_t)len, ")");
        app_write_sql(t, APP_SHELL, sql);
    }
    app_track(t, "w0");
    app_write_sql(t, APP_SHELL, "INSERT INTO w0 (id, c1899) VALUES (1, 'x');");
    app_forget(t, "w0");
    app_write_sql(t, APP_SHELL, "UPDATE w0 SET c1 = 1, c60 = 2, c61 = 3, c1899 = 4;");
    assert_log(t, "w0", "update (1) c1=1 c60=2 c61=3 c1899=4\n");
    assert_refused(t, "w1", TIDE_E_UNSUPPORTED, "1900");
}

static void look(app_fixture *t)
{
    tide_capture_found found;
    int64_t events = 0;
    assert_ok_err(tide_node_check(t->node, &found, &t->err), &t->err);
    for (bool more = true; more;)
        assert_ok_err(tide_node_fold(t->node, &events, &more, &t->err), &t->err);
}

/* Changes of narrow tables are logged beside their numbers, those of wide ones apart: nothing is lost where a table becomes the one or the other. An update
 * that changes nothing is none; a key that is the rowid changes by any of its names. */
static void a_table_becomes_wide_and_narrow_again(void **state)
{
    app_fixture *t = *state;
    char sql[1024];
    int len = snprintf(sql, sizeof sql, "CREATE TABLE g (id INTEGER PRIMARY KEY");
    for (int i = 1; i < TIDE_TABLE_NARROW_MAX; i++)
        len += snprintf(sql + len, sizeof sql - (size_t)len, ", c%d INTEGER", i);
    (void)snprintf(sql + len, sizeof sql - (size_t)len,
                   "); CREATE TABLE other (id INTEGER PRIMARY KEY, v); "
                   "INSERT INTO g (id) VALUES (1);");
    app_write_sql(t, APP_SHELL, sql);
    app_track(t, "g");
    app_track(t, "other");
    app_write_sql(t, APP_SHELL,
                  "UPDATE g SET c1 = 5; UPDATE g SET c1 = 5, c2 = c2; "
                  "INSERT INTO other VALUES (1, 2); ALTER TABLE g ADD COLUMN more TEXT;");
    look(t);
    app_write_sql(t, APP_SHELL, "UPDATE g SET more = 'w'; UPDATE g SET rowid = 2;");
    assert_app(t, "SELECT count(*) FROM sqlite_master WHERE name = 'tide_wide_1'", "1");
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE n (id INTEGER PRIMARY KEY, c1 INTEGER, c2 INTEGER, more TEXT); "
                  "INSERT INTO n SELECT id, c1, c2, more FROM g; DROP TABLE g; "
                  "ALTER TABLE n RENAME TO g;");
    look(t);
    app_write_sql(t, APP_SHELL, "UPDATE g SET oid = 3, c2 = 7;");
    look(t);
    assert_app(t, "SELECT count(*) FROM sqlite_master WHERE name = 'tide_wide_1'", "0");
    assert_app(t,
               "SELECT group_concat(operation_type || record_id, ' ') FROM "
               "(SELECT * FROM g_Events ORDER BY origin_seq)",
               "create1 update1 update1 delete1 create2 delete2 create3");
    assert_app(t, "SELECT group_concat(operation_type || record_id) FROM other_Events", "create1");
}

/* Files of before the first release are left alone. */
static void a_format_before_the_first_release_is_refused(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE g (id INTEGER PRIMARY KEY);");
    app_track(t, "g");
    tide_node_close(t->node);
    t->node = NULL;
    app_write_sql(t, APP_SHELL,
                  "UPDATE tide_metadata SET value = '2' WHERE key = 'replica_version';");
    assert_status_err(TIDE_E_UNSUPPORTED, tide_node_open(&t->node, t->path, NULL, &t->err),
                      &t->err);
    assert_contains(t->err.text, "track them there");
}

static tide_status use_rows(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    int64_t *found = arg;
    TIDE_CLEANUP(tide_table_done) tide_table table = {0};
    TIDE_TRY(tide_table_find(&table, tx, "s", err));
    const tide_sql_value key = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("A")};
    const tide_sql_value mail = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("X@y")};
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *get = NULL;
    TIDE_TRY(tide_table_query(&get, tx, &table, TIDE_TABLE_ROW_GET, err));
    tide_table_bind(get, 'k', 0, &key);
    found[0] = tide_foreign_step(get, err); /* the row is 'a': no collation finds it */
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *rivals = NULL;
    TIDE_TRY(tide_table_query(&rivals, tx, &table, TIDE_TABLE_ROW_RIVALS, err));
    tide_table_bind(rivals, 'k', 0, &key);
    const tide_sql_value yes = {.kind = TIDE_SQL_VALUE_I64, .i64 = 1};
    const tide_sql_value made = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("x@y")};
    tide_table_bind(rivals, 'c', 0, &yes); /* it is in the key's own index */
    tide_table_bind(rivals, 'c', 1, &key);
    tide_table_bind(rivals, 'c', 2, &yes); /* and in the partial one */
    tide_table_bind(rivals, 'c', 3, &made);
    for (found[1] = 0; tide_foreign_step(rivals, err) == TIDE_OK;)
        found[1]++;
    const int column = 1;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *set = NULL;
    TIDE_TRY(tide_table_query_some(&set, tx, &table, TIDE_TABLE_ROW_SET, &column, 1, err));
    const tide_sql_value lower = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of("a")};
    tide_table_bind(set, 'k', 0, &lower);
    tide_table_bind(set, 'c', 1, &mail);
    return tide_foreign_run(set, &found[2], err);
}

/* A row is found by its exact key; rivals by the collation of their index, and by the key's own. */
static void statements_of_a_table(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE s (k TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, mail TEXT);"
                  "CREATE UNIQUE INDEX s1 ON s (lower(mail)) WHERE mail <> '';"
                  "INSERT INTO s VALUES ('a', 'm'), ('b', 'x@Y'), ('c', 'other');");
    app_track(t, "s");
    int64_t found[3] = {0};
    assert_status_err(TIDE_E_EXISTS,
                      tide_foreign_write(tide_node_file(t->node), use_rows, found, &t->err),
                      &t->err);
    assert_int_equal(found[0], TIDE_NONE);
    assert_int_equal(found[1], 2);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(keys_of_every_kind, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_replicated_is_refused_with_advice, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(the_digest_covers_names_order_and_key, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(very_wide_tables, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_table_becomes_wide_and_narrow_again, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_format_before_the_first_release_is_refused, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(statements_of_a_table, app_setup, app_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
