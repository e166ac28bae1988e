/* Schemas change, on one node first and on the others later: nothing is lost on the way, and all are the same at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/peer.h"
#include "replica/world.h"
#include "support/sim/seeds.h"

#define WEEK_US INT64_C(604800000000)
#define SCHEMA "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c)"
static const char *const tables[] = {"t", NULL};

static void sync_nodes(world *w, int here, int there)
{
    tide_peer a = tide_peer_of_node(w->nodes[here].node, "here");
    tide_peer b = tide_peer_of_node(w->nodes[there].node, "there");
    const tide_sync_options options = {.page_rows = 7};
    tide_sync_result result;
    world_advance(w, 1000000);
    assert_ok_err(tide_sync(&a, &b, &options, &result, &w->err), &w->err);
}

static void sync_all(world *w)
{
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < w->count; i++)
            for (int k = 0; k < i; k++)
                sync_nodes(w, i, k);
}

static tide_capture_found look(world *w, int node)
{
    tide_capture_found found;
    assert_ok_err(tide_peer_look(w->nodes[node].node, &found, &w->err), &w->err);
    return found;
}

/* SQLite drops no column that a trigger names: what `replica migrate` does. */
static void unhook(world *w, int node)
{
    static const char *const hooks[] = {"insert", "delete",        "update",
                                        "move",   "before_insert", "before_update"};
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        world_run(w, node, "DROP TRIGGER IF EXISTS tide_capture_1_%s", hooks[i]);
}

static void assert_rows(world *w, int node, const char *query, const char *expected)
{
    char *found = world_dump(w, node, query);
    assert_string_equal(found, expected);
    sqlite3_free(found);
}

static int setup(void **state)
{
    static world w;
    world_init(&w, 3, 5, SCHEMA, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

/* Clocks go by position: those behind the dropped column move up, and concurrent writes still meet their own columns. */
static void a_dropped_column_moves_no_clock(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'a', 'b', 'c'), (2, 'a', 'b', 'c')");
    sync_all(w);
    world_run(w, 0, "UPDATE t SET c = 'c0' WHERE id = 1");
    world_run(w, 1, "UPDATE t SET b = 'b1' WHERE id = 1");
    sync_all(w);
    for (int i = 0; i < w->count; i++) {
        unhook(w, i);
        world_run(w, i, "ALTER TABLE t DROP COLUMN a");
        world_run(w, i, "INSERT INTO t VALUES (%d, %d, 'unhooked')", 10 + i, i);
        const tide_capture_found found = look(w, i);
        assert_contains(found.report, "lost its column a");
        assert_int_equal(1, found.rescanned); /* the row, and nothing else */
    }
    /* Older than what the other has, but of another column: both stay. */
    world_run(w, 2, "UPDATE t SET b = 'b2' WHERE id = 1");
    world_run(w, 0, "UPDATE t SET c = 'c3' WHERE id = 1");
    sync_all(w);
    world_assert_same(w, tables, true);
    assert_rows(w, 1, "SELECT * FROM t WHERE id < 3 ORDER BY id", "1:1|3:b2|3:c3|\n1:2|3:b|3:c|\n");
    assert_int_equal(5, world_number(w, 0, "SELECT count(*) FROM t"));
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM tide_replica_quarantine"));
}

/* One has dropped a column, the other writes it still. */
static void a_column_is_dropped_here_first_and_there_later(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1)");
    sync_all(w);
    unhook(w, 0);
    world_run(w, 0, "ALTER TABLE t DROP COLUMN b");
    world_run(w, 1, "INSERT INTO t VALUES (2, 2, 2, 2)");
    world_run(w, 1, "UPDATE t SET b = 9, c = 9 WHERE id = 1");
    sync_all(w);
    assert_rows(w, 0, "SELECT * FROM t ORDER BY id", "1:1|1:1|1:9|\n1:2|1:2|1:2|\n");
    world_run(w, 0, "UPDATE t SET a = 5 WHERE id = 2");
    world_run(w, 0, "INSERT INTO t VALUES (3, 3, 3)");
    sync_all(w);
    assert_rows(w, 1, "SELECT * FROM t ORDER BY id",
                "1:1|1:1|1:9|1:9|\n1:2|1:5|1:2|1:2|\n1:3|1:3|5:|1:3|\n");
    for (int i = 1; i < w->count; i++) {
        unhook(w, i);
        world_run(w, i, "ALTER TABLE t DROP COLUMN b");
    }
    sync_all(w);
    world_assert_same(w, tables, true);
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM tide_replica_quarantine"));
}

/* Events of a column that is not here wait, visibly, and come when it does. */
static void an_added_column_reaches_those_who_add_it_later(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2)");
    sync_all(w);
    world_run(w, 0, "ALTER TABLE t ADD COLUMN d TEXT DEFAULT 'none'");
    world_run(w, 0, "UPDATE t SET d = 'early' WHERE id = 1");
    world_run(w, 1, "INSERT INTO t VALUES (3, 3, 3, 3)");
    sync_all(w);
    world_run(w, 0, "INSERT INTO t VALUES (4, 4, 4, 4, 'new')");
    world_run(w, 2, "UPDATE t SET a = 'two' WHERE id = 2");
    sync_all(w);
    assert_true(world_number(w, 1, "SELECT count(*) FROM tide_replica_quarantine") > 0);
    assert_rows(w, 0, "SELECT id, d FROM t ORDER BY id",
                "1:1|3:early|\n1:2|3:none|\n1:3|3:none|\n1:4|3:new|\n");
    world_run(w, 1, "ALTER TABLE t ADD COLUMN d TEXT DEFAULT 'none'");
    world_run(w, 2, "ALTER TABLE t ADD COLUMN d TEXT DEFAULT 'none'");
    sync_all(w);
    world_assert_same(w, tables, true);
    for (int i = 0; i < w->count; i++)
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM tide_replica_quarantine"));
}

static void a_renamed_column_keeps_its_clock_and_its_events(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2)");
    sync_all(w);
    world_run(w, 0, "ALTER TABLE t RENAME COLUMN b TO bee");
    world_run(w, 0, "UPDATE t SET bee = 'new' WHERE id = 1"); /* nobody has looked yet */
    world_run(w, 1, "UPDATE t SET b = 'old name' WHERE id = 2");
    sync_all(w);
    assert_rows(w, 0, "SELECT bee FROM t ORDER BY id", "3:new|\n3:old name|\n");
    world_run(w, 1, "ALTER TABLE t RENAME COLUMN b TO bee");
    world_run(w, 2, "ALTER TABLE t RENAME COLUMN b TO bee");
    sync_all(w);
    world_assert_same(w, tables, true);
    for (int i = 0; i < w->count; i++)
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM tide_replica_quarantine"));
}

static void a_renamed_table_keeps_its_events(void **state)
{
    world *w = *state;
    static const char *const renamed[] = {"things", NULL};
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1)");
    sync_all(w);
    world_run(w, 0, "ALTER TABLE t RENAME TO things");
    world_run(w, 0, "INSERT INTO things VALUES (2, 2, 2, 2)");
    world_fold(w, 0); /* before anybody has looked */
    world_run(w, 1, "INSERT INTO t VALUES (3, 3, 3, 3)");
    sync_nodes(w, 0, 1);
    assert_int_equal(3, world_number(w, 0, "SELECT count(*) FROM things"));
    assert_int_equal(3, world_number(w, 1, "SELECT count(*) FROM t")); /* not renamed yet */
    world_run(w, 1, "ALTER TABLE t RENAME TO things");
    world_run(w, 2, "ALTER TABLE t RENAME TO things");
    sync_all(w);
    sync_all(w);
    world_assert_same(w, renamed, true);
    assert_int_equal(3, world_number(w, 2, "SELECT count(*) FROM things"));
    for (int i = 0; i < w->count; i++)
        assert_int_equal(0, world_number(w, i, "SELECT count(*) FROM tide_replica_quarantine"));
}

/* Copy, drop, rename, as object-relational mappers do: another order, one column less, one more, one changed value. */
static void a_rebuild_makes_events_of_the_difference_alone(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)");
    sync_all(w);
    world_run(w, 1, "UPDATE t SET c = 'theirs' WHERE id = 2");
    world_run(w, 0,
              "CREATE TABLE fresh(c, id INTEGER PRIMARY KEY, d DEFAULT 7, a);"
              "INSERT INTO fresh (id, a, c) SELECT id, a, c FROM t;"
              "DROP TABLE t; ALTER TABLE fresh RENAME TO t;"
              "UPDATE t SET a = 'mine' WHERE id = 2; UPDATE t SET d = 8 WHERE id = 3;");
    const tide_capture_found found = look(w, 0);
    assert_int_equal(2, found.rescanned);
    assert_int_equal(1, found.lost_tables);
    sync_all(w);
    /* The other's column was not touched by the rebuild: what it wrote stands. */
    assert_rows(w, 0, "SELECT id, a, c, d FROM t ORDER BY id",
                "1:1|1:1|1:1|1:7|\n1:2|3:mine|3:theirs|1:7|\n1:3|1:3|1:3|1:8|\n");
    for (int i = 1; i < w->count; i++)
        world_run(w, i,
                  "CREATE TABLE fresh(c, id INTEGER PRIMARY KEY, d DEFAULT 7, a);"
                  "INSERT INTO fresh (id, a, c) SELECT id, a, c FROM t;"
                  "DROP TABLE t; ALTER TABLE fresh RENAME TO t;");
    sync_all(w);
    world_assert_same(w, tables, true);
    assert_int_equal(0, world_number(w, 2, "SELECT count(*) FROM tide_replica_quarantine"));
}

/* A node that comes later gets events of all schemas that the table has had. */
static void a_new_node_understands_events_of_every_age(void **state)
{
    (void)state;
    world w;
    world_init(&w, 1, 5, SCHEMA, tables, WEEK_US);
    world_run(&w, 0, "INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2)");
    (void)look(&w, 0);
    world_run(&w, 0, "ALTER TABLE t RENAME COLUMN a TO alpha");
    world_run(&w, 0, "UPDATE t SET alpha = 'x' WHERE id = 1");
    (void)look(&w, 0);
    unhook(&w, 0);
    world_run(&w, 0,
              "ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN e NOT NULL DEFAULT 'e'");
    (void)look(&w, 0);
    world_run(&w, 0, "INSERT INTO t VALUES (3, 3, 3, 3); UPDATE t SET c = 'y' WHERE id = 2");
    (void)look(&w, 0);
    world_run(&w, 0, "ALTER TABLE t RENAME TO u");
    world_run(&w, 0, "INSERT INTO u VALUES (4, 4, 4, 4)");
    world other;
    char *expected = world_dump(&w, 0, "SELECT * FROM u ORDER BY id");
    world_init(&other, 1, 6, "CREATE TABLE unrelated(x)", (const char *const[]){NULL}, WEEK_US);
    assert_ok_err(tide_node_establish(other.nodes[0].node, &other.err), &other.err);
    tide_peer a = tide_peer_of_node(w.nodes[0].node, "here");
    tide_peer b = tide_peer_of_node(other.nodes[0].node, "there");
    tide_sync_result result;
    assert_ok_err(tide_sync(&b, &a, &(tide_sync_options){.page_rows = 2}, &result, &w.err), &w.err);
    char *found = world_dump(&other, 0, "SELECT * FROM u ORDER BY id");
    assert_string_equal(expected, found);
    assert_int_equal(0, world_number(&other, 0, "SELECT count(*) FROM tide_replica_quarantine"));
    sqlite3_free(expected);
    sqlite3_free(found);
    world_done(&other);
    world_done(&w);
}

/* A column that was dropped and comes again is another one: what old events say of the first does not come back. */
static void a_column_that_comes_again_is_another(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 'first')");
    for (int i = 0; i < 2; i++) {
        (void)look(w, i);
        unhook(w, i);
        world_run(w, i, "ALTER TABLE t DROP COLUMN c");
        (void)look(w, i);
        world_run(w, i, "ALTER TABLE t ADD COLUMN c DEFAULT 'second'");
        (void)look(w, i);
    }
    sync_all(w); /* the third has never changed anything */
    world_assert_same(w, tables, true);
    assert_rows(w, 2, "SELECT c FROM t", "3:second|\n");
}

/* Any trigger that is missing or reads otherwise may have let something pass. */
static void each_single_trigger_is_missed(void **state)
{
    (void)state;
    static const char *const hooks[] = {"insert", "delete",        "update",
                                        "move",   "before_insert", "before_update"};
    world w;
    world_init(&w, 2, 7, "CREATE TABLE t(id INTEGER PRIMARY KEY, a, u UNIQUE)", tables, WEEK_US);
    for (int i = 0; i < 6; i++) {
        world_run(&w, 0,
                  "INSERT INTO t VALUES (%d, 'a', 'u%d'), (%d, 'a', 'v%d'), (%d, 'a', 'w%d')",
                  3 * i, i, 3 * i + 1, i, 3 * i + 2, i);
        sync_all(&w);
        world_run(&w, 0, "DROP TRIGGER tide_capture_1_%s", hooks[i]);
        if (i % 2 == 1) /* by hand */
            world_run(
                &w, 0,
                "CREATE TRIGGER tide_capture_1_%s AFTER INSERT ON t WHEN 0 BEGIN SELECT 1; END",
                hooks[i]);
        world_run(&w, 0,
                  "INSERT INTO t VALUES (%d, 'new', 'x%d');"
                  "UPDATE t SET a = 'changed' WHERE id = %d; DELETE FROM t WHERE id = %d;"
                  "UPDATE t SET id = %d WHERE id = %d;"
                  "INSERT OR REPLACE INTO t VALUES (%d, 'replaced', 'x%d')",
                  100 + i, i, 3 * i, 3 * i + 1, 200 + i, 3 * i + 2, 300 + i, i);
        sync_all(&w);
        world_assert_same(&w, tables, false);
        assert_int_equal(6, world_number(&w, 0,
                                         "SELECT count(*) FROM sqlite_schema WHERE type = "
                                         "'trigger'"));
        assert_int_equal(0, look(&w, 0).lost_tables);
    }
    world_done(&w);
}

/* The numbers of what was captured are taken: peers get them, whatever becomes of the table. */
static void a_table_that_is_dropped_holds_up_nobody(void **state)
{
    (void)state;
    world w;
    world_init(&w, 2, 8, SCHEMA "; CREATE TABLE other(id INTEGER PRIMARY KEY, v)",
               (const char *const[]){"t", "other", NULL}, WEEK_US);
    world_run(&w, 0, "INSERT INTO t VALUES (1, 1, 1, 1)");
    sync_nodes(&w, 0, 1);
    world_run(&w, 0, "INSERT INTO t VALUES (2, 2, 2, 2); UPDATE t SET a = 'last' WHERE id = 1");
    world_run(&w, 0, "DROP TABLE t; INSERT INTO other VALUES (1, 1)");
    sync_nodes(&w, 0, 1);
    assert_int_equal(1, world_number(&w, 1, "SELECT count(*) FROM other"));
    assert_rows(&w, 1, "SELECT id, a FROM t ORDER BY id", "1:1|3:last|\n1:2|1:2|\n");
    /* With another key: its rows are others from then on. */
    world_run(&w, 0,
              "UPDATE other SET v = 2; CREATE TABLE fresh(id TEXT, v);"
              "INSERT INTO fresh SELECT * FROM other; DROP TABLE other;"
              "ALTER TABLE fresh RENAME TO other");
    assert_contains(look(&w, 0).report, "no usable key");
    sync_nodes(&w, 0, 1);
    assert_int_equal(2, world_number(&w, 1, "SELECT v FROM other"));
    world_done(&w);
}

/* Changed while nobody captured, and again before anybody looked: columns are folded under the names that they have. */
static void what_was_captured_before_a_column_went_is_not_lost(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)");
    sync_all(w);
    world_run(w, 0,
              "UPDATE t SET c = 'captured' WHERE id = 1; UPDATE t SET a = 'gone' WHERE id = 2");
    world_run(w, 0, "DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (4, 4, 4, 4)");
    unhook(w, 0);
    world_run(w, 0, "ALTER TABLE t DROP COLUMN a");
    sync_nodes(w, 0, 1);
    assert_rows(w, 1, "SELECT id, b, c FROM t ORDER BY id",
                "1:1|1:1|3:captured|\n1:2|1:2|1:2|\n1:4|1:4|1:4|\n");
    for (int i = 1; i < w->count; i++) {
        unhook(w, i);
        world_run(w, i, "ALTER TABLE t DROP COLUMN a");
    }
    sync_all(w);
    world_assert_same(w, tables, true);
}

/* A row that went while nobody looked comes back by a concurrent write as it was, not empty. */
static void a_row_that_a_scan_found_gone_comes_back_whole(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'a', 'b', 'c')");
    sync_all(w);
    world_run(w, 1, "UPDATE t SET b = 'b1'");
    sync_all(w);
    unhook(w, 0);
    world_run(w, 0, "DELETE FROM t");
    assert_int_equal(1, look(w, 0).rescanned);
    world_advance(w, 1000000);
    world_run(w, 2, "UPDATE t SET c = 'later'");
    sync_all(w);
    world_assert_same(w, tables, false);
    assert_rows(w, 0, "SELECT * FROM t", "1:1|3:a|3:b1|3:later|\n");
}

/* ---- any order of migrations, writes and syncs ---- */

enum { STEPS = 6, COLUMNS = 8, SEEDS = 30, SEEDS_SOAK = 1000 };

/* A way that a schema can go: every node goes it, each in its own time. */
typedef struct way {
    char sql[STEPS][512];
    bool is_unhooked[STEPS];
    char columns[STEPS + 1][COLUMNS][16]; /* before each step, and at the end; "": none */
} way;

static int count_columns(char columns[COLUMNS][16])
{
    int count = 0;
    while (count < COLUMNS && columns[count][0])
        count++;
    return count;
}

/* Copy, drop, rename, with the columns in the opposite order; each keeps the default that it was added with (its third letter and on). */
static void plan_rebuild(char out[512], char columns[COLUMNS][16], int count)
{
    char list[128] = "";
    char definitions[256] = "";
    for (int i = count - 1; i >= 0; i--) {
        const size_t list_len = strlen(list);
        const size_t len = strlen(definitions);
        (void)snprintf(list + list_len, sizeof list - list_len, ", %s", columns[i]);
        (void)snprintf(definitions + len, sizeof definitions - len, ", %s%s%s", columns[i],
                       columns[i][0] == 'n' ? " DEFAULT " : "",
                       columns[i][0] == 'n' ? strchr(columns[i], '_') + 1 : "");
    }
    (void)snprintf(
        out, 512,
        "CREATE TABLE fresh(id INTEGER PRIMARY KEY%s); INSERT INTO fresh SELECT id%s FROM "
        "t; DROP TABLE t; ALTER TABLE fresh RENAME TO t",
        definitions, list);
}

static void plan_add(char out[512], char columns[COLUMNS][16], int fresh, int step)
{
    char name[16];
    (void)snprintf(name, sizeof name, "n%d_%d", fresh, step);
    (void)snprintf(out, 512, "ALTER TABLE t ADD COLUMN %s DEFAULT %d", name, step);
    memcpy(columns[count_columns(columns)], name, sizeof name);
}

/* Columns are added, and nothing else happens. */
static void plan_adds(way *out, prng *random)
{
    (void)random;
    *out = (way){.columns = {{"a", "b", "c"}}};
    for (int i = 0; i < STEPS; i++) {
        memcpy(out->columns[i + 1], out->columns[i], sizeof out->columns[i]);
        if (count_columns(out->columns[i + 1]) < COLUMNS)
            plan_add(out->sql[i], out->columns[i + 1], i, i);
    }
}

static void plan(way *out, prng *random)
{
    *out = (way){.columns = {{"a", "b", "c"}}};
    int fresh = 0;
    for (int i = 0; i < STEPS; i++) {
        char(*columns)[16] = out->columns[i + 1];
        memcpy(columns, out->columns[i], sizeof out->columns[i]);
        const int count = count_columns(columns);
        const int at = (int)prng_below(random, (uint64_t)count);
        const uint64_t kind = prng_below(random, 4);
        const char *fallback = strchr(columns[at], '_');
        char name[16];
        if (kind == 0 && count < COLUMNS) {
            plan_add(out->sql[i], columns, fresh++, i);
        } else if (kind == 1) {
            (void)snprintf(name, sizeof name, "%s%d%s", fallback ? "n" : "r", fresh++,
                           fallback ? fallback : "");
            (void)snprintf(out->sql[i], 512, "ALTER TABLE t RENAME COLUMN %s TO %s", columns[at],
                           name);
            memcpy(columns[at], name, sizeof name);
        } else if (kind == 2 && count > 2) {
            (void)snprintf(out->sql[i], 512, "ALTER TABLE t DROP COLUMN %s", columns[at]);
            out->is_unhooked[i] = true;
            memmove(columns[at], columns[at + 1], (size_t)(COLUMNS - at - 1) * sizeof *columns);
            memset(columns[COLUMNS - 1], 0, sizeof *columns);
        } else {
            plan_rebuild(out->sql[i], columns, count);
        }
    }
}

static void migrate_node(world *w, const way *of, int node, int step)
{
    if (!of->is_unhooked[step]) {
        world_run(w, node, "%s", of->sql[step]);
        return;
    }
    (void)look(w, node); /* as `replica migrate` does, before and after */
    unhook(w, node);
    world_run(w, node, "%s", of->sql[step]);
    (void)look(w, node);
}

static void write_node(world *w, way *of, prng *random, int node, int step)
{
    char(*columns)[16] = of->columns[step];
    const char *column = columns[prng_below(random, (uint64_t)count_columns(columns))];
    const int id = 1 + (int)prng_below(random, 6);
    const int value = (int)prng_below(random, 1000);
    const uint64_t kind = prng_below(random, 6);
    if (kind == 0)
        world_run(w, node, "DELETE FROM t WHERE id = %d", id);
    else if (kind == 1)
        world_run(w, node, "REPLACE INTO t (id, %s) VALUES (%d, %d)", column, id, value);
    else
        world_run(w, node,
                  "INSERT INTO t (id, %s) VALUES (%d, %d) ON CONFLICT (id) DO UPDATE SET %s = %d",
                  column, id, value, column, value);
}

static void migrate_once(uint64_t seed, void (*make_plan)(way *out, prng *random),
                         bool with_conflicts)
{
    world w;
    way of;
    prng random;
    int steps[3] = {0};
    prng_init(&random, seed);
    make_plan(&of, &random);
    prng_print_seed(seed);
    world_init(&w, 3, seed, SCHEMA, tables, WEEK_US);
    for (int i = 0; i < 60; i++) {
        const int node = (int)prng_below(&random, 3);
        const uint64_t what = prng_below(&random, 10);
        world_advance(&w, 1000);
        if (what == 0 && steps[node] < STEPS) {
            migrate_node(&w, &of, node, steps[node]);
            steps[node]++;
        } else if (what < 4) {
            sync_nodes(&w, node, (node + 1) % 3);
        } else {
            write_node(&w, &of, &random, node, steps[node]);
        }
    }
    for (int node = 0; node < 3; node++)
        for (; steps[node] < STEPS; steps[node]++) {
            migrate_node(&w, &of, node, steps[node]);
            if (prng_below(&random, 2) == 0)
                (void)look(&w, node);
        }
    sync_all(&w);
    sync_all(&w);
    world_assert_same(&w, tables, with_conflicts);
    for (int node = 0; node < 3; node++)
        assert_int_equal(0, world_number(&w, node, "SELECT count(*) FROM tide_replica_quarantine"));
    world_done(&w);
}

static void migrate_in_any_order(void (*make_plan)(way *out, prng *random), bool with_conflicts)
{
    uint64_t seed = 0;
    if (prng_repeated_seed(&seed)) {
        migrate_once(seed, make_plan, with_conflicts);
        return;
    }
    seeds known;
    seeds_read(&known, "tests/replica/schema_seeds.txt");
    for (size_t i = 0; i < known.count; i++) {
        const seeds_line *line = &known.lines[i];
        if (line->is_red)
            assert_true(seeds_judge_red(line, seeds_fail_again(line->seed)));
        else
            migrate_once(line->seed, make_plan, with_conflicts);
    }
    for (seed = known.first; seed < known.first + (is_soak() ? SEEDS_SOAK : SEEDS); seed++)
        migrate_once(seed, make_plan, with_conflicts);
}

static void any_order_of_migrations_converges(void **state)
{
    (void)state;
    migrate_in_any_order(plan, false);
}

/* A default that a row has in a column which its writer did not know is no write: nobody lists it. */
static void where_columns_are_added_all_list_the_same_conflicts(void **state)
{
    (void)state;
    migrate_in_any_order(plan_adds, true);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dropped_column_moves_no_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(a_column_is_dropped_here_first_and_there_later, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_added_column_reaches_those_who_add_it_later, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_renamed_column_keeps_its_clock_and_its_events, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_renamed_table_keeps_its_events, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rebuild_makes_events_of_the_difference_alone, setup,
                                        teardown),
        cmocka_unit_test(a_new_node_understands_events_of_every_age),
        cmocka_unit_test_setup_teardown(a_column_that_comes_again_is_another, setup, teardown),
        cmocka_unit_test(each_single_trigger_is_missed),
        cmocka_unit_test(a_table_that_is_dropped_holds_up_nobody),
        cmocka_unit_test_setup_teardown(what_was_captured_before_a_column_went_is_not_lost, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_row_that_a_scan_found_gone_comes_back_whole, setup,
                                        teardown),
        cmocka_unit_test(any_order_of_migrations_converges),
        cmocka_unit_test(where_columns_are_added_all_list_the_same_conflicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
