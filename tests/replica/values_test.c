/* Every value that SQLite can hold arrives as it is: class and bits, by capture, by a scan, in keys, changed into each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
static const char *const tables[] = {"t", NULL};

static void bind(sqlite3_stmt *statement, int at, int which)
{
    static const char text[] = "a\0b";
    static const char bad[] = "\xff\xfe\xc0";
    switch (which) {
    case 0:
        (void)sqlite3_bind_double(statement, at, 0.0);
        break;
    case 1:
        (void)sqlite3_bind_double(statement, at, -0.0);
        break;
    case 2:
        (void)sqlite3_bind_int64(statement, at, 1);
        break;
    case 3:
        (void)sqlite3_bind_double(statement, at, 1.0);
        break;
    case 4:
        (void)sqlite3_bind_text(statement, at, "1", 1, SQLITE_STATIC);
        break;
    case 5:
        (void)sqlite3_bind_double(statement, at, NAN); /* SQLite makes it NULL */
        break;
    case 6:
        (void)sqlite3_bind_text(statement, at, text, 3, SQLITE_STATIC);
        break;
    case 7:
        (void)sqlite3_bind_blob(statement, at, text, 3, SQLITE_STATIC);
        break;
    case 8:
        (void)sqlite3_bind_text(statement, at, bad, 3, SQLITE_STATIC);
        break;
    case 9:
        (void)sqlite3_bind_int64(statement, at, (INT64_C(1) << 53) + 1);
        break;
    case 10:
        (void)sqlite3_bind_double(statement, at, 9007199254740992.0);
        break;
    case 11:
        (void)sqlite3_bind_int64(statement, at, INT64_MIN);
        break;
    case 12:
        (void)sqlite3_bind_double(statement, at, -9223372036854775808.0);
        break;
    case 13:
        (void)sqlite3_bind_double(statement, at, INFINITY);
        break;
    case 14:
        (void)sqlite3_bind_double(statement, at, 5e-324);
        break;
    case 15:
        (void)sqlite3_bind_text(statement, at, "", 0, SQLITE_STATIC);
        break;
    case 16:
        (void)sqlite3_bind_zeroblob(statement, at, 0);
        break;
    default:
        (void)sqlite3_bind_int64(statement, at, 0);
    }
}

enum { VALUES = 18 };

static void put(world *w, const char *sql, int id, int which)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(w->nodes[0].writer, sql, -1, &statement, NULL));
    (void)sqlite3_bind_int(statement, 1, id);
    bind(statement, 2, which);
    assert_int_equal(SQLITE_DONE, sqlite3_step(statement));
    (void)sqlite3_finalize(statement);
}

/* Classes and bits: a REAL by its eight bytes, which no conversion to text shows. */
static char *dump(world *w, int node)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_str *out = sqlite3_str_new(NULL);
    assert_int_equal(SQLITE_OK,
                     sqlite3_prepare_v2(w->nodes[node].writer, "SELECT * FROM t ORDER BY id", -1,
                                        &statement, NULL));
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const int class = sqlite3_column_type(statement, i);
            const double real = class == SQLITE_FLOAT ? sqlite3_column_double(statement, i) : 0;
            uint64_t bits = 0;
            memcpy(&bits, &real, sizeof bits);
            const unsigned char *bytes = sqlite3_column_blob(statement, i);
            sqlite3_str_appendf(out, "%d/%llx/", class, bits);
            for (int k = 0; class != SQLITE_FLOAT && k < sqlite3_column_bytes(statement, i); k++)
                sqlite3_str_appendf(out, "%02x", bytes[k]);
            sqlite3_str_appendall(out, i == 0 ? " " : "\n");
        }
    (void)sqlite3_finalize(statement);
    return sqlite3_str_finish(out);
}

static void assert_same(world *w, const char *what)
{
    world_settle(w);
    char *here = dump(w, 0);
    char *there = dump(w, 1);
    if (strcmp(here ? here : "", there ? there : "") != 0)
        fail_msg("%s\n%s\n%s", what, here, there);
    sqlite3_free(here);
    sqlite3_free(there);
}

static void values_arrive_bit_for_bit(void **state)
{
    (void)state;
    static const char *const types[] = {"", "BLOB", "INTEGER", "REAL", "TEXT", "NUMERIC", "ANY"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        world w;
        char schema[128];
        const bool is_any = strcmp(types[t], "ANY") == 0;
        (void)snprintf(schema, sizeof schema, "CREATE TABLE t(id INTEGER PRIMARY KEY, v %s)%s",
                       types[t], is_any ? " STRICT" : "");
        world_init(&w, 2, 31, schema, tables, WEEK_US);
        for (int i = 0; i < VALUES; i++)
            put(&w, "INSERT INTO t VALUES (?1, ?2)", i, i);
        assert_same(&w, "inserted");
        for (int from = 0; from < VALUES; from++)
            for (int to = 0; to < VALUES; to++)
                put(&w, "INSERT INTO t VALUES (?1, ?2)", 100 + from * VALUES + to, from);
        assert_same(&w, "each, for each");
        for (int from = 0; from < VALUES; from++)
            for (int to = 0; to < VALUES; to++)
                put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", 100 + from * VALUES + to, to);
        assert_same(&w, "changed into each other");
        world_done(&w);
    }
}

/* A zero changes its sign and back within one batch; one that stays is no write, and wins over nobody. */
static void signs_of_zeros_are_followed(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 32, "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)", tables, WEEK_US);
    put(&w, "INSERT INTO t VALUES (?1, ?2, 0)", 1, 0);
    put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", 1, 1);
    put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", 1, 0);
    assert_same(&w, "back and forth");
    put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", 1, 1);
    put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", 1, 0);
    assert_same(&w, "in another batch");
    world_run(&w, 1, "UPDATE t SET v = 'theirs'");
    world_advance(&w, 1000000);
    world_run(&w, 0, "UPDATE t SET w = 5"); /* later, of another column */
    world_settle(&w);
    assert_int_equal(1, world_number(&w, 0, "SELECT count(*) FROM t WHERE v = 'theirs' AND w = 5"));
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM t WHERE v = 'theirs' AND w = 5"));
    world_done(&w);
}

/* What no trigger saw is found with the same eyes. */
static void a_scan_sees_every_bit(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 33, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", tables, WEEK_US);
    for (int from = 0; from < VALUES; from++)
        for (int to = 0; to < VALUES; to++)
            put(&w, "INSERT INTO t VALUES (?1, ?2)", from * VALUES + to, from);
    assert_same(&w, "inserted");
    world_run(&w, 0, "DROP TRIGGER tide_capture_1_update");
    for (int from = 0; from < VALUES; from++)
        for (int to = 0; to < VALUES; to++)
            put(&w, "UPDATE t SET v = ?2 WHERE id = ?1", from * VALUES + to, to);
    tide_capture_found found;
    assert_ok_err(tide_node_check(w.nodes[0].node, &found, &w.err), &w.err);
    assert_same(&w, "changed unseen");
    world_done(&w);
}

static void keys_arrive_bit_for_bit(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 34, "CREATE TABLE t(id PRIMARY KEY NOT NULL, v)", tables, WEEK_US);
    for (int i = 0; i < VALUES; i++) {
        if (i == 1 || i == 3 || i == 5 || i == 12 || i == 17)
            continue; /* equal to another as a key, or NULL */
        sqlite3_stmt *statement = NULL;
        assert_int_equal(SQLITE_OK,
                         sqlite3_prepare_v2(w.nodes[0].writer, "INSERT INTO t VALUES (?2, ?1)", -1,
                                            &statement, NULL));
        (void)sqlite3_bind_int(statement, 1, i);
        bind(statement, 2, i);
        assert_int_equal(SQLITE_DONE, sqlite3_step(statement));
        (void)sqlite3_finalize(statement);
    }
    assert_same(&w, "inserted");
    world_run(&w, 0, "UPDATE t SET v = v + 1");
    assert_same(&w, "updated");
    world_run(&w, 0, "UPDATE t SET id = 1.0 WHERE id = 1 AND typeof(id) = 'integer'");
    assert_same(&w, "moved to what is equal");
    world_run(&w, 0, "DELETE FROM t");
    assert_same(&w, "deleted");
    assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM t"));
    world_done(&w);
}

/* A REPLACE removes a row whose key is equal to SQLite alone: by a collation, or 1 and 1.0. */
static void a_replaced_key_of_another_spelling_is_deleted(void **state)
{
    (void)state;
    static const char *const keys[][3] = {
        {"TEXT COLLATE NOCASE", "'RED'", "'red'"}, {"", "1", "1.0"}, {"BLOB", "2.0", "2"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int without = 0; without < 2; without++) {
            world w;
            char schema[128];
            (void)snprintf(schema, sizeof schema, "CREATE TABLE t(id %s NOT NULL PRIMARY KEY, v)%s",
                           keys[i][0], without ? " WITHOUT ROWID" : "");
            world_init(&w, 2, 35, schema, tables, WEEK_US);
            const char *a = keys[i][1];
            const char *b = keys[i][2];
            world_run(&w, 0, "INSERT INTO t VALUES (%s, 1)", a);
            assert_same(&w, "inserted");
            world_run(&w, 0, "REPLACE INTO t VALUES (%s, 2)", b);
            assert_same(&w, "replaced");
            world_run(&w, 0, "BEGIN; REPLACE INTO t VALUES (%s, 3); DELETE FROM t; COMMIT", a);
            assert_same(&w, "replaced and deleted");
            assert_int_equal(0, world_number(&w, 0, "SELECT count(*) FROM t"));
            world_run(&w, 0,
                      "INSERT INTO t VALUES (%s, 4); REPLACE INTO t VALUES (%s, 5);"
                      "REPLACE INTO t VALUES (%s, 6)",
                      a, b, a);
            assert_same(&w, "there and back");
            world_run(&w, 0,
                      "INSERT INTO t VALUES (7, 7); UPDATE OR REPLACE t SET id = %s WHERE v = 7",
                      b);
            assert_same(&w, "moved over it");
            assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM t"));
            assert_int_equal(
                0, world_number(&w, 0, "SELECT count(*) FROM tide_replica_clocks WHERE aside"));
            world_done(&w);
        }
}

/* Keys that SQLite takes for one, and that no trigger can tell apart, are one key: nothing is written past it. */
static void a_key_of_two_spellings_that_nobody_sees_is_one(void **state)
{
    (void)state;
    static const char *const keys[][3] = {
        {"", "0.0", "-0.0"},
        {"INT", "-9223372036854775808", "-9223372036854775808.0"},
        {"NUMERIC", "-9223372036854775808", "-9223372036854775808.0"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int without = 0; without < 2; without++) {
            world w;
            char schema[128];
            (void)snprintf(schema, sizeof schema, "CREATE TABLE t(id %s NOT NULL PRIMARY KEY, v)%s",
                           keys[i][0], without ? " WITHOUT ROWID" : "");
            world_init(&w, 2, 36, schema, tables, WEEK_US);
            world_run(&w, 0, "INSERT INTO t VALUES (%s, 1)", keys[i][1]);
            world_settle(&w);
            world_run(&w, 0, "INSERT OR REPLACE INTO t VALUES (%s, 5)", keys[i][2]);
            world_settle(&w);
            assert_int_equal(5, world_number(&w, 1, "SELECT v FROM t"));
            world_run(&w, 1, "UPDATE t SET v = 6");
            world_run(&w, 0, "UPDATE t SET id = %s", keys[i][1]);
            world_settle(&w);
            assert_int_equal(6, world_number(&w, 0, "SELECT v FROM t"));
            world_run(&w, 0, "UPDATE t SET id = %s; DELETE FROM t", keys[i][2]);
            world_settle(&w);
            assert_int_equal(0, world_number(&w, 1, "SELECT count(*) FROM t"));
            assert_int_equal(
                0, world_number(&w, 0, "SELECT count(*) FROM tide_replica_clocks WHERE aside"));
            world_done(&w);
        }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_bit_for_bit),
        cmocka_unit_test(signs_of_zeros_are_followed),
        cmocka_unit_test(a_scan_sees_every_bit),
        cmocka_unit_test(keys_arrive_bit_for_bit),
        cmocka_unit_test(a_replaced_key_of_another_spelling_is_deleted),
        cmocka_unit_test(a_key_of_two_spellings_that_nobody_sees_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
