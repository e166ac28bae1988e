/* Every form of write that SQLite knows, made by programs that know nothing of us, stands in the log as row images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/capture/app_fixture.h"
#include "support/check.h"

/* Both real programs: what the case writes is given to each, on a table of its own. */
static void run_both(app_fixture *t, const char *table, const char *sql, const char *expected)
{
    char copy[8192];
    for (int program = APP_SHELL; program <= APP_PYTHON; program++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%d", table, program);
        size_t len = 0;
        for (const char *at = sql; *at; at++) { /* @ is the table */
            if (*at == '@')
                len += (size_t)snprintf(copy + len, sizeof copy - len, "%s", name);
            else
                copy[len++] = *at;
        }
        copy[len] = '\0';
        app_write_sql(t, (app_program)program, copy);
        assert_log(t, name, expected);
    }
}

static void make_both(app_fixture *t, const char *table, const char *columns)
{
    for (int program = APP_SHELL; program <= APP_PYTHON; program++) {
        char sql[4096];
        char name[64];
        (void)snprintf(name, sizeof name, "%s%d", table, program);
        (void)snprintf(sql, sizeof sql, "CREATE TABLE %s %s", name, columns);
        app_write_sql(t, APP_SHELL, sql);
        app_track(t, name);
    }
}

/* Inserts of several rows, with RETURNING, with values that only the program's SQLite computes. */
static void inserts_are_logged_as_rows(void **state)
{
    app_fixture *t = *state;
    make_both(t, "a", "(id INTEGER PRIMARY KEY, name TEXT, n)");
    run_both(t, "a", "INSERT INTO @ (name, n) VALUES ('x', 1.0), ('y', x'00ff'), (NULL, NULL);",
             "create (1) name='x' n=1r\ncreate (2) name='y' n=x'00ff'\ncreate (3) name=NULL "
             "n=NULL\n");
    run_both(t, "a", "INSERT INTO @ (id, name) VALUES (9, 'z') RETURNING id;",
             "create (9) name='z' n=NULL\n");
    run_both(t, "a", "INSERT INTO @ (id, n) SELECT id + 100, n FROM @ WHERE id < 3;",
             "create (101) name=NULL n=1r\ncreate (102) name=NULL n=x'00ff'\n");
}

/* An update logs the columns that changed, bit for bit, and nothing where nothing changed. */
static void updates_log_the_columns_that_changed(void **state)
{
    app_fixture *t = *state;
    make_both(t, "u",
              "(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b, c REAL, d BLOB, e NUMERIC)");
    run_both(t, "u", "INSERT INTO @ VALUES (1, 'x', 1, 1, 'blob', '5');",
             "create (1) a='x' b=1 c=1r d='blob' e=5\n");
    run_both(t, "u", "UPDATE @ SET a = 'x', b = 1, c = 1.0;", "");
    run_both(t, "u", "UPDATE @ SET a = 'X';", "update (1) a='X'\n");
    run_both(t, "u", "UPDATE @ SET b = 1.0;", "update (1) b=1r\n");
    run_both(t, "u", "UPDATE @ SET b = '1';", "update (1) b='1'\n");
    run_both(t, "u", "UPDATE @ SET d = x'626c6f62';", "update (1) d=x'626c6f62'\n");
    run_both(t, "u", "UPDATE @ SET b = NULL, c = 2, e = 'text';",
             "update (1) b=NULL c=2r e='text'\n");
    run_both(t, "u", "UPDATE @ SET b = 9007199254740993 RETURNING b;",
             "update (1) b=9007199254740993\n");
}

static void deletes_and_key_changes(void **state)
{
    app_fixture *t = *state;
    make_both(t, "k", "(a TEXT NOT NULL COLLATE NOCASE, b INT NOT NULL, v, PRIMARY KEY (b, a))");
    run_both(t, "k", "INSERT INTO @ VALUES ('x', 1, 'v');", "create (1,'x') v='v'\n");
    run_both(t, "k", "UPDATE @ SET a = 'X';", "delete (1,'x')\ncreate (1,'X') v='v'\n");
    run_both(t, "k", "UPDATE @ SET b = b + 1, v = 2;", "delete (1,'X')\ncreate (2,'X') v=2\n");
    run_both(t, "k", "DELETE FROM @;", "delete (2,'X')\n");
    make_both(t, "w", "(k PRIMARY KEY, v) WITHOUT ROWID");
    run_both(t, "w", "INSERT INTO @ VALUES (1, 1), ('1', 2), (x'31', 3);",
             "create (1) v=1\ncreate ('1') v=2\ncreate (x'31') v=3\n");
    run_both(t, "w", "UPDATE @ SET k = 1.0 WHERE k = 1;", "delete (1)\ncreate (1r) v=1\n");
    run_both(t, "w", "DELETE FROM @ WHERE typeof(k) = 'text';", "delete ('1')\n");
    make_both(t, "r", "(id INTEGER PRIMARY KEY, v)");
    run_both(t, "r", "INSERT INTO @ VALUES (1, 1);\nUPDATE @ SET rowid = 7;",
             "create (1) v=1\ndelete (1)\ncreate (7) v=1\n");
}

/* An upsert is what it becomes: an insert, an update, or nothing. */
static void upserts(void **state)
{
    app_fixture *t = *state;
    make_both(t, "p", "(id INTEGER PRIMARY KEY, mail TEXT UNIQUE, n INT)");
    run_both(t, "p", "INSERT INTO @ VALUES (1, 'a', 1) ON CONFLICT (mail) DO UPDATE SET n = n + 1;",
             "create (1) mail='a' n=1\n");
    run_both(t, "p", "INSERT INTO @ VALUES (2, 'a', 1) ON CONFLICT (mail) DO UPDATE SET n = n + 1;",
             "update (1) n=2\n");
    run_both(t, "p", "INSERT INTO @ VALUES (3, 'a', 1) ON CONFLICT DO NOTHING;", "");
    run_both(t, "p", "INSERT OR IGNORE INTO @ (mail) VALUES ('a'), ('b');",
             "create (2) mail='b' n=NULL\n");
    run_both(t, "p", "DELETE FROM @ WHERE mail = 'a';", "delete (1)\n");
}

/* A REPLACE removes rows unseen, by its key or by any other unique key. */
static void replace_by_every_unique_key(void **state)
{
    app_fixture *t = *state;
    make_both(
        t, "q",
        "(id INTEGER PRIMARY KEY, mail TEXT UNIQUE COLLATE NOCASE, a INT, b INT, UNIQUE (a, b))");
    run_both(
        t, "q", "INSERT INTO @ VALUES (1, 'x', 1, 1), (2, 'y', 2, 2), (3, 'z', 3, 3);",
        "create (1) mail='x' a=1 b=1\ncreate (2) mail='y' a=2 b=2\ncreate (3) mail='z' a=3 b=3\n");
    run_both(t, "q", "REPLACE INTO @ VALUES (1, 'x', 1, 9);", "create (1) mail='x' a=1 b=9\n");
    run_both(t, "q", "INSERT OR REPLACE INTO @ VALUES (4, 'X', 4, 4);",
             "create (4) mail='X' a=4 b=4\ndelete (1)\n");
    run_both(t, "q", "INSERT OR REPLACE INTO @ VALUES (5, 'Y', 3, 3);",
             "create (5) mail='Y' a=3 b=3\ndelete (2)\ndelete (3)\n");
    run_both(t, "q", "UPDATE OR REPLACE @ SET mail = 'y' WHERE id = 4;",
             "update (4) mail='y'\ndelete (5)\n");
    run_both(t, "q",
             "INSERT INTO @ VALUES (6, 'f', 6, 6);\nUPDATE OR REPLACE @ SET id = 4 WHERE id = 6;",
             "create (6) mail='f' a=6 b=6\ndelete (6)\ncreate (4) mail='f' a=6 b=6\n");
}

/* REPLACE puts a default in the place of a NULL that is not allowed, after BEFORE triggers have seen the NULL. */
static void replace_by_a_default(void **state)
{
    app_fixture *t = *state;
    make_both(t, "d", "(id INTEGER PRIMARY KEY, u TEXT NOT NULL DEFAULT 'x' UNIQUE, v)");
    run_both(t, "d", "INSERT INTO @ VALUES (1, 'x', 1), (3, 'y', 3);",
             "create (1) u='x' v=1\ncreate (3) u='y' v=3\n");
    run_both(t, "d", "INSERT OR REPLACE INTO @ VALUES (2, NULL, 9);",
             "create (2) u='x' v=9\ndelete (1)\n");
    run_both(t, "d", "UPDATE OR REPLACE @ SET u = NULL WHERE id = 3;",
             "update (3) u='x'\ndelete (2)\n");
}

/* A unique index has a collation of its own. */
static void replace_by_another_collation(void **state)
{
    app_fixture *t = *state;
    make_both(t, "c", "(id INTEGER PRIMARY KEY, e TEXT COLLATE NOCASE, UNIQUE (e COLLATE BINARY))");
    run_both(t, "c", "INSERT INTO @ VALUES (1, 'a'), (2, 'A');",
             "create (1) e='a'\ncreate (2) e='A'\n");
    run_both(t, "c", "UPDATE OR REPLACE @ SET e = 'A' WHERE id = 1;",
             "update (1) e='A'\ndelete (2)\n");
}

/* The rowid has other names where a column has its name. */
static void replace_by_a_rowid_of_another_name(void **state)
{
    app_fixture *t = *state;
    make_both(t, "r", "(k TEXT PRIMARY KEY NOT NULL, rowid, v)");
    run_both(t, "r", "INSERT INTO @ (oid, k, v) VALUES (1, 'a', 1), (2, 'b', 2);",
             "create ('a') rowid=NULL v=1\ncreate ('b') rowid=NULL v=2\n");
    run_both(t, "r", "INSERT OR REPLACE INTO @ (_rowid_, k, v) VALUES (2, 'c', 3);",
             "create ('c') rowid=NULL v=3\ndelete ('b')\n");
    run_both(t, "r", "UPDATE OR REPLACE @ SET _rowid_ = 2 WHERE k = 'a';", "delete ('c')\n");
}

/* The same for keys that SQLite only tells as text: expressions, partial indexes, generated columns, constraints that replace by themselves. */
static void replace_by_unusual_unique_keys(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE e (id TEXT NOT NULL PRIMARY KEY, mail TEXT, \"is,gone\" INT DEFAULT 0,"
        " up TEXT GENERATED ALWAYS AS (upper(mail)) VIRTUAL, n INT UNIQUE ON CONFLICT REPLACE);\n"
        "CREATE UNIQUE INDEX \"e (x)\" ON e (lower(mail) DESC, /* , */ substr(mail, 1, 2)) "
        "WHERE \"is,gone\" = 0 -- only those\n;\n"
        "CREATE UNIQUE INDEX e2 ON e (up);\n");
    app_track(t, "e");
    app_write_sql(t, APP_SHELL,
                  "INSERT INTO e (id, mail, n) VALUES ('a', 'one', 1), ('b', 'two', 2);");
    app_forget(t, "e");
    app_write_sql(t, APP_PYTHON, "INSERT OR REPLACE INTO e (id, mail) VALUES ('c', 'ONE');");
    assert_log(t, "e", "create ('c') mail='ONE' is,gone=0 n=NULL\ndelete ('a')\n");
    app_write_sql(t, APP_SHELL, "INSERT INTO e (id, mail, n) VALUES ('d', 'four', 2);");
    assert_log(t, "e", "create ('d') mail='four' is,gone=0 n=2\ndelete ('b')\n");
    app_write_sql(t, APP_SHELL, "UPDATE OR REPLACE e SET mail = 'Four' WHERE id = 'c';");
    assert_log(t, "e", "update ('c') mail='Four'\ndelete ('d')\n");
    /* A rowid that is no column can be written too. */
    app_write_sql(t, APP_SHELL, "INSERT INTO e (rowid, id) VALUES (77, 'r');");
    app_forget(t, "e");
    app_write_sql(t, APP_SHELL, "REPLACE INTO e (rowid, id) VALUES (77, 's');");
    assert_log(t, "e", "create ('s') mail=NULL is,gone=0 n=NULL\ndelete ('r')\n");
}

/* With recursive triggers on, DELETE triggers fire for replaced rows as well: nothing is wrong twice. */
static void recursive_triggers_change_nothing(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE g (id INTEGER PRIMARY KEY, mail TEXT UNIQUE);");
    app_track(t, "g");
    app_write_sql(t, APP_SHELL,
                  "PRAGMA recursive_triggers = ON; INSERT INTO g VALUES (1, 'a');"
                  "REPLACE INTO g VALUES (2, 'a'); REPLACE INTO g VALUES (2, 'b');");
    char *log = app_log(t, "g");
    assert_contains(
        log,
        "create (1) mail='a'\ndelete (1)\ncreate (2) mail='a'\ndelete (2)\ncreate (2) mail='b'\n");
    free(log);
}

/* Cascades fire triggers, triggers of the application write too, and one transaction is all or nothing. */
static void cascades_and_triggers_of_the_application(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);"
        "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent ON DELETE CASCADE "
        "ON UPDATE CASCADE);"
        "CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT UNIQUE);"
        "CREATE TRIGGER app_audit AFTER DELETE ON child BEGIN "
        "INSERT OR REPLACE INTO audit (what) VALUES ('child ' || OLD.p); END;");
    app_track(t, "parent");
    app_track(t, "child");
    app_track(t, "audit");
    for (int program = APP_SHELL; program <= APP_PYTHON; program++) {
        app_write_sql(t, (app_program)program,
                      "PRAGMA foreign_keys = ON;\nINSERT INTO parent VALUES (1);\n"
                      "INSERT INTO child VALUES (10, 1), (11, 1);\n");
        app_forget(t, "child");
        app_write_sql(t, (app_program)program,
                      "PRAGMA foreign_keys = ON;\nUPDATE parent SET id = 2;\n");
        assert_log(t, "child", "update (10) p=2\nupdate (11) p=2\n");
        app_write_sql(t, (app_program)program, "PRAGMA foreign_keys = ON;\nDELETE FROM parent;\n");
        assert_log(t, "child", "delete (10)\ndelete (11)\n");
        char *log = app_log(t, "audit");
        assert_contains(log, "what='child 2'");
        free(log);
        app_forget(t, "audit");
        app_forget(t, "parent");
    }
    app_write_sql(t, APP_SHELL, "BEGIN; INSERT INTO parent VALUES (5); ROLLBACK;");
    app_write_sql(
        t, APP_SHELL,
        "BEGIN; INSERT INTO parent VALUES (6); SAVEPOINT s; INSERT INTO parent VALUES (7); "
        "ROLLBACK TO s; COMMIT;");
    assert_log(t, "parent", "create (6)\n");
}

/* last_insert_rowid() and changes() of the application are its own. */
/* Foreign keys act before AFTER triggers: what comes under a new key is the row as it stands, also where a key may be NULL. */
static void a_row_that_refers_to_itself_takes_its_new_key_along(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE tree (id TEXT PRIMARY KEY, up REFERENCES tree ON UPDATE CASCADE)");
    app_track(t, "tree");
    app_write_sql(t, APP_SHELL, "INSERT INTO tree VALUES ('a', 'a')");
    assert_log(t, "tree", "create ('a') up='a'\n");
    app_write_sql(t, APP_SHELL, "PRAGMA foreign_keys = ON; UPDATE tree SET id = 'b';");
    assert_log(t, "tree", "update ('b') up='b'\ndelete ('a')\ncreate ('b') up='b'\n");
    app_write_sql(t, APP_SHELL, "UPDATE tree SET up = NULL; UPDATE tree SET id = NULL;");
    assert_log(t, "tree", "update ('b') up=NULL\ndelete ('b')\ncreate (NULL) up=NULL\n");
}

/* The row that REPLACE removes takes others along (ON DELETE CASCADE), at last the one that was to get its key: nothing stands under that key then. */
static void a_replaced_row_that_takes_its_successor_along_is_gone(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE tree (id INTEGER PRIMARY KEY, up REFERENCES tree ON DELETE CASCADE)");
    app_track(t, "tree");
    app_write_sql(t, APP_SHELL, "INSERT INTO tree VALUES (2, NULL), (4, 2), (6, 4), (7, NULL)");
    assert_log(t, "tree",
               "create (2) up=NULL\ncreate (4) up=2\ncreate (6) up=4\ncreate (7) up=NULL\n");
    app_write_sql(t, APP_SHELL,
                  "PRAGMA foreign_keys = ON; UPDATE OR REPLACE tree SET id = 2 WHERE id = 6;");
    assert_app(t, "SELECT group_concat(id) FROM tree", "7");
    assert_log(t, "tree", "delete (6)\ndelete (4)\ndelete (2)\n");
    app_write_sql(
        t, APP_SHELL,
        "INSERT INTO tree VALUES (1, NULL); UPDATE OR REPLACE tree SET id = 7 WHERE id = 1;");
    assert_log(t, "tree", "create (1) up=NULL\ndelete (1)\ncreate (7) up=NULL\n");
}

/* A row that refers to itself, in a table with more columns than the rows of all others have room for. */
static void a_broad_row_that_refers_to_itself_takes_its_new_key_along(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE broad (id INTEGER PRIMARY KEY, c1, c2, c3, c4, c5, c6, c7, c8, c9, "
                  "c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23, "
                  "up REFERENCES broad ON UPDATE CASCADE)");
    app_track(t, "broad");
    app_write_sql(t, APP_SHELL,
                  "INSERT INTO broad (id, up) VALUES (1, 1); PRAGMA foreign_keys = ON; UPDATE "
                  "broad SET id = 2;");
    assert_app(t, "SELECT group_concat(op || ' ' || c1 || ' ' || c25) FROM tide_wide_1",
               "1 1 1,2 2 2,3 1 1,1 2 2");
}

static void the_application_sees_its_own_numbers(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE n (id INTEGER PRIMARY KEY, v);");
    app_track(t, "n");
    assert_app(t, "INSERT INTO n VALUES (41, 1); SELECT last_insert_rowid() || ' ' || changes();",
               "41 1");
    assert_app(t, "PRAGMA trusted_schema = OFF; UPDATE n SET v = 2; SELECT changes();", "1");
}

/* Names that need quotes, keywords, and none of SQLite's: nothing of a name leaves its quotes. */
static void names_of_every_kind(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE \"a \"\"b\"\"; DROP TABLE x;--\" (\"select\" INTEGER PRIMARY KEY, "
                  "\"x\"\"y\" TEXT, \"ключ 🔑\" TEXT, [from ] INT, `{{n}}` UNIQUE);"
                  "CREATE TABLE x (id INTEGER PRIMARY KEY);");
    app_track(t, "A \"B\"; drop table X;--");
    app_write_sql(t, APP_PYTHON,
                  "INSERT INTO \"a \"\"b\"\"; DROP TABLE x;--\" VALUES (1, 'q''', 'u', 2, 3);\n");
    app_write_sql(t, APP_PYTHON, "UPDATE \"a \"\"b\"\"; DROP TABLE x;--\" SET \"ключ 🔑\" = 'v';");
    assert_log(t, "a \"b\"; DROP TABLE x;--",
               "create (1) x\"y='q'' ключ 🔑='u' from =2 {{n}}=3\nupdate (1) ключ 🔑='v'\n");
    assert_app(t, "SELECT count(*) FROM x", "0");
    assert_app(t, "SELECT count(*) FROM \"a \"\"b\"\"; DROP TABLE x;--_Events\"", "0");
}

/* Rows that were there become creates, also in a table of several steps; tracking again finds nothing new. */
static void rows_that_were_there_become_creates(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE o (id TEXT PRIMARY KEY NOT NULL, v);"
                  "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 9001) "
                  "INSERT INTO o SELECT 'k' || i, i FROM c;");
    app_open(t);
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t->node, "o", 1, &tracked, &t->err), &t->err);
    assert_int_equal(tracked.rows, 9001);
    assert_false(tracked.was_tracked);
    assert_app(t, "SELECT count(DISTINCT c1) || ' ' || count(*) FROM tide_log_1 WHERE op = 1",
               "9001 9001");
    assert_ok_err(tide_node_track(t->node, "O", 1, &tracked, &t->err), &t->err);
    assert_true(tracked.was_tracked);
    assert_int_equal(tracked.rows, 0);
    assert_app(t, "SELECT count(*) FROM tide_log_1", "9001");
}

/* What makes conflicts or orphans later is said when a table is tracked. */
static void track_warns_of_numbers_and_of_parents_that_are_not_tracked(void **state)
{
    app_fixture *t = *state;
    tide_tracked tracked;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE p(k TEXT NOT NULL PRIMARY KEY);"
                  "CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(k))");
    app_open(t);
    assert_ok_err(tide_node_track(t->node, "c", 1, &tracked, &t->err), &t->err);
    assert_contains(tracked.advice, "Ranges of numbers per node do not help");
    assert_contains(tracked.advice, "c refers to table p, which is not tracked");
    assert_ok_err(tide_node_track(t->node, "p", 1, &tracked, &t->err), &t->err);
    assert_string_equal("", tracked.advice);
    assert_ok_err(tide_node_track(t->node, "c", 1, &tracked, &t->err), &t->err);
    assert_null(strstr(tracked.advice, "not tracked"));
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(inserts_are_logged_as_rows, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(updates_log_the_columns_that_changed, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(deletes_and_key_changes, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(upserts, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(replace_by_every_unique_key, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(replace_by_a_default, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(replace_by_another_collation, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(replace_by_a_rowid_of_another_name, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(replace_by_unusual_unique_keys, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(recursive_triggers_change_nothing, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(cascades_and_triggers_of_the_application, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_replaced_row_that_takes_its_successor_along_is_gone,
                                        app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_row_that_refers_to_itself_takes_its_new_key_along,
                                        app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_broad_row_that_refers_to_itself_takes_its_new_key_along,
                                        app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(the_application_sees_its_own_numbers, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(names_of_every_kind, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(rows_that_were_there_become_creates, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(track_warns_of_numbers_and_of_parents_that_are_not_tracked,
                                        app_setup, app_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
