/* The table is the truth. Whatever programs do to a file of one node, with and without our triggers,
 * the tables hold exactly what they wrote, and a fresh peer shows the same. Every statement also
 * runs on a plain database that knows nothing of replication; the two are compared after each step
 * of ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replica/peer.h"
#include "replica/world.h"
#include "support/sim/seeds.h"

#define WEEK_US INT64_C(604800000000)

enum { TABLES = 3, COLUMNS_MAX = 8, STEPS = 40, SEEDS = 30, SEEDS_SOAK = 2000, QUERY_MAX = 2048 };

static const char *const names[] = {"p", "c", "q", NULL};

/* A table as programs have migrated it so far. */
typedef struct layout {
    const char *name;
    const char *key;                /* behind ORDER BY */
    const char *fixed[COLUMNS_MAX]; /* definitions of the columns that stay */
    const char *constraint;         /* behind the columns */
    const char *options;            /* behind the parenthesis */
    char columns[COLUMNS_MAX][16];  /* in the order of the table; "": none */
    int count;
} layout;

typedef struct truth {
    world w;
    sqlite3 *plain;
    layout tables[TABLES];
    prng random;
    int token;
    bool is_rescan_due; /* rows were written past the triggers */
    bool has_orphans;   /* at some commit: foreign keys were off */
} truth;

static int below(truth *t, int limit)
{
    return (int)prng_below(&t->random, (uint64_t)limit);
}

/* ---- both databases ---- */

static int run_on(sqlite3 *db, const char *text)
{
    const int code = sqlite3_exec(db, text, NULL, NULL, NULL);
    if (code != SQLITE_OK && !sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

/* Both accept a statement, or both refuse it. */
static void run(truth *t, const char *format, ...) TIDE_PRINTF(2, 3);
static void run(truth *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    assert_non_null(text);
    if (getenv("TIDEMARK_TRUTH_PRINT"))
        (void)fprintf(stderr, "%s;\n", text);
    const int expected = run_on(t->plain, text);
    const int found = run_on(t->w.nodes[0].writer, text);
    if (found != expected)
        fail_msg("%s: plain %d, tracked %d (%s)", text, expected, found,
                 sqlite3_errmsg(t->w.nodes[0].writer));
    sqlite3_free(text);
}

static char *dump(sqlite3 *db, const char *query)
{
    world w = {.count = 1};
    w.nodes[0].writer = db;
    return world_dump(&w, 0, query);
}

static void assert_same(truth *t, sqlite3 *db, const char *who, const layout *of)
{
    char query[QUERY_MAX];
    (void)snprintf(query, sizeof query, "SELECT * FROM %s ORDER BY %s", of->name, of->key);
    char *expected = dump(t->plain, query);
    char *found = dump(db, query);
    if (strcmp(expected, found) != 0)
        fail_msg("%s: table %s has\n%swhere the application wrote\n%s", who, of->name, found,
                 expected);
    sqlite3_free(expected);
    sqlite3_free(found);
}

static void assert_untouched(truth *t, const char *who)
{
    for (int i = 0; i < TABLES; i++)
        assert_same(t, t->w.nodes[0].writer, who, &t->tables[i]);
}

/* ---- what we do ---- */

static void look(truth *t)
{
    tide_capture_found found;
    assert_ok_err(tide_peer_look(t->w.nodes[0].node, &found, &t->w.err), &t->w.err);
    assert_untouched(t, "status");
}

static void rescan(truth *t)
{
    int64_t found = 0;
    for (int i = 0; i < TABLES; i++)
        assert_ok_err(tide_node_rescan(t->w.nodes[0].node, names[i], &found, &t->w.err), &t->w.err);
    t->is_rescan_due = false;
    world_fold(&t->w, 0);
    assert_untouched(t, "rescan");
}

/* An empty file syncs with the node, and shows what the application wrote. */
static void sync_fresh_peer(truth *t)
{
    char path[TEMPDIR_PATH_MAX];
    tide_node *node = NULL;
    const tide_node_options options = {.env = &t->w.nodes[0].env.env, .is_new = true};
    const tide_sync_options sync_options = {.page_rows = 7};
    tide_sync_result result;
    if (t->is_rescan_due)
        rescan(t);
    tempdir_join(&t->w.dir, "fresh.db", path);
    assert_ok_err(tide_node_open(&node, path, &options, &t->w.err), &t->w.err);
    assert_ok_err(tide_node_establish(node, &t->w.err), &t->w.err);
    tide_peer here = tide_peer_of_node(node, "fresh");
    tide_peer there = tide_peer_of_node(t->w.nodes[0].node, "node");
    world_advance(&t->w, 1000000);
    assert_ok_err(tide_sync(&here, &there, &sync_options, &result, &t->w.err), &t->w.err);
    assert_true(result.is_proven);
    tide_node_close(node);
    assert_untouched(t, "sync");
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    for (int i = 0; i < TABLES; i++)
        assert_same(t, db, "fresh peer", &t->tables[i]);
    (void)sqlite3_close(db);
    assert_int_equal(0, unlink(path));
}

/* ---- what programs write ---- */

static const char *some_column(truth *t, const layout *of)
{
    return of->columns[below(t, of->count)];
}

static void write_p(truth *t)
{
    const layout *of = &t->tables[0];
    const int id = 1 + below(t, 6);
    const int other = 1 + below(t, 6);
    const int name = below(t, 4);
    const int v = ++t->token;
    switch (below(t, 8)) {
    case 0:
    case 1:
        run(t, "INSERT INTO p (id, name, v) VALUES (%d, 'n%d', %d)", id, name, v);
        return;
    case 2:
        run(t, "REPLACE INTO p (id, name, v) VALUES (%d, 'n%d', %d)", id, name, v);
        return;
    case 3:
        run(t, "UPDATE p SET v = %d WHERE id = %d", v, id);
        return;
    case 4:
        run(t, "UPDATE OR REPLACE p SET id = %d, name = 'n%d' WHERE id = %d", other, name, id);
        return;
    case 5:
        run(t, "DELETE FROM p WHERE id = %d", id);
        return;
    case 6:
        run(t, "UPDATE p SET name = NULL WHERE id = %d", id);
        return;
    default:
        run(t, "UPDATE OR IGNORE p SET %s = %d WHERE id >= %d", some_column(t, of), v, id);
    }
}

static void write_c(truth *t)
{
    const layout *of = &t->tables[1];
    const int k = below(t, 6);
    const int p = 1 + below(t, 6);
    const int w = ++t->token;
    switch (below(t, 7)) {
    case 0:
    case 1:
        run(t, "INSERT INTO c (k, p) VALUES ('k%d', %d)", k, p);
        return;
    case 2:
        run(t, "INSERT OR REPLACE INTO c (k, p, w) VALUES ('k%d', NULL, 'w%d')", k, w);
        return;
    case 3:
        run(t, "UPDATE c SET p = %d WHERE k = 'k%d'", p, k);
        return;
    case 4:
        run(t, "UPDATE c SET k = 'k%d' WHERE k = 'k%d'", below(t, 6), k);
        return;
    case 5:
        run(t, "DELETE FROM c WHERE k = 'k%d'", k);
        return;
    default:
        run(t, "UPDATE OR IGNORE c SET %s = 'w%d' WHERE k >= 'k%d'", some_column(t, of), w, k);
    }
}

static void write_q(truth *t)
{
    const layout *of = &t->tables[2];
    const int a = below(t, 3);
    const int b = below(t, 3);
    const int v = ++t->token;
    switch (below(t, 5)) {
    case 0:
        run(t,
            "INSERT INTO q (a, b, x) VALUES (%d, 'b%d', %d) ON CONFLICT (a, b) DO UPDATE SET x "
            "= excluded.x",
            a, b, v);
        return;
    case 1:
        run(t, "REPLACE INTO q (a, b, y) VALUES (%d, 'b%d', %d.5)", a, b, v);
        return;
    case 2:
        run(t, "UPDATE OR REPLACE q SET a = %d WHERE a = %d", below(t, 3), a);
        return;
    case 3:
        run(t, "DELETE FROM q WHERE b = 'b%d'", b);
        return;
    default:
        run(t, "UPDATE OR IGNORE q SET %s = %d WHERE a = %d", some_column(t, of), v, a);
    }
}

static void note_orphans(truth *t)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(
        SQLITE_OK, sqlite3_prepare_v2(t->plain, "PRAGMA foreign_key_check", -1, &statement, NULL));
    t->has_orphans = sqlite3_step(statement) == SQLITE_ROW || t->has_orphans;
    (void)sqlite3_finalize(statement);
}

static void write_rows(truth *t)
{
    static void (*const writers[TABLES])(truth *) = {write_p, write_c, write_q};
    const int count = below(t, 3) > 0 ? 1 : 2 + below(t, 3);
    if (count > 1)
        run(t, "BEGIN");
    for (int i = 0; i < count; i++)
        writers[below(t, TABLES)](t);
    if (!sqlite3_get_autocommit(t->plain))
        run(t, "COMMIT");
    note_orphans(t);
}

/* A program that fires no triggers: only --rescan finds what it wrote. */
static void write_past_triggers(truth *t)
{
    sqlite3 *db = t->w.nodes[0].writer;
    assert_int_equal(SQLITE_OK, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL));
    write_rows(t);
    assert_int_equal(SQLITE_OK, sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL));
    t->is_rescan_due = true;
}

static void drop_trigger(truth *t, int table)
{
    static const char *const kinds[] = {"insert", "delete", "update", "move"};
    assert_int_equal(SQLITE_OK, world_try(&t->w, 0, "DROP TRIGGER IF EXISTS tide_capture_%d_%s",
                                          table + 1, kinds[below(t, 4)]));
}

/* ---- how programs migrate ---- */

/* Definition of a column: a fixed one of the table, or an added one, "x3", which has a default. */
static void put_column(char *out, size_t size, const layout *of, const char *name)
{
    for (int i = 0; i < COLUMNS_MAX && of->fixed[i]; i++)
        if (strncmp(of->fixed[i], name, strlen(name)) == 0 && of->fixed[i][strlen(name)] == ' ') {
            (void)snprintf(out, size, "%s", of->fixed[i]);
            return;
        }
    (void)snprintf(out, size, "%s %s DEFAULT '%s'", name, name[0] == 'n' ? "NOT NULL" : "", name);
}

static void put_table(char out[QUERY_MAX], const layout *of, const char *name)
{
    size_t len = (size_t)snprintf(out, QUERY_MAX, "CREATE TABLE %s (", name);
    for (int i = 0; i < of->count; i++) {
        char column[128];
        put_column(column, sizeof column, of, of->columns[i]);
        len += (size_t)snprintf(out + len, QUERY_MAX - len, "%s%s", i > 0 ? ", " : "", column);
    }
    (void)snprintf(out + len, QUERY_MAX - len, "%s)%s", of->constraint, of->options);
}

static void list_columns(char out[QUERY_MAX], const layout *of)
{
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < of->count; i++)
        len +=
            (size_t)snprintf(out + len, QUERY_MAX - len, "%s%s", i > 0 ? ", " : "", of->columns[i]);
}

static bool is_added(const char *column)
{
    return (column[0] == 'n' || column[0] == 'x') && column[1] >= '0' && column[1] <= '9';
}

/* Copy, drop, rename, with columns in another order, one fewer or one more. */
static void rebuild(truth *t, layout *of)
{
    char create[QUERY_MAX];
    char columns[QUERY_MAX];
    char added[16] = "";
    if (below(t, 2) == 0)
        for (int i = of->count - 1; i > 0; i--) {
            const int k = below(t, i + 1);
            char kept[16];
            memcpy(kept, of->columns[i], sizeof kept);
            memcpy(of->columns[i], of->columns[k], sizeof kept);
            memcpy(of->columns[k], kept, sizeof kept);
        }
    const int gone = below(t, of->count);
    if (is_added(of->columns[gone]) && below(t, 2) == 0)
        memcpy(of->columns[gone], of->columns[--of->count], sizeof of->columns[gone]);
    list_columns(columns, of);
    if (of->count < COLUMNS_MAX && below(t, 3) == 0) {
        (void)snprintf(added, sizeof added, "%c%d", below(t, 2) == 0 ? 'n' : 'x', ++t->token);
        memcpy(of->columns[of->count++], added, sizeof added);
    }
    put_table(create, of, "rebuilt");
    run(t,
        "PRAGMA foreign_keys = OFF; BEGIN; %s; INSERT INTO rebuilt (%s) SELECT %s FROM %s; DROP "
        "TABLE %s; ALTER TABLE rebuilt RENAME TO %s; COMMIT",
        create, columns, columns, of->name, of->name, of->name);
}

static void add_column(truth *t, layout *of)
{
    char added[16];
    char column[128];
    if (of->count == COLUMNS_MAX)
        return;
    (void)snprintf(added, sizeof added, "%c%d", below(t, 2) == 0 ? 'n' : 'x', ++t->token);
    put_column(column, sizeof column, of, added);
    memcpy(of->columns[of->count++], added, sizeof added);
    run(t, "ALTER TABLE %s ADD COLUMN %s", of->name, column);
}

static void rename_column(truth *t, layout *of)
{
    char renamed[16];
    const int at = below(t, of->count);
    if (!is_added(of->columns[at]))
        return;
    (void)snprintf(renamed, sizeof renamed, "%c%d", of->columns[at][0], ++t->token);
    run(t, "ALTER TABLE %s RENAME COLUMN %s TO %s", of->name, of->columns[at], renamed);
    memcpy(of->columns[at], renamed, sizeof renamed);
}

static void migrate(truth *t)
{
    layout *of = &t->tables[below(t, TABLES)];
    switch (below(t, 5)) {
    case 0:
        add_column(t, of);
        return;
    case 1:
        rename_column(t, of);
        return;
    default:
        rebuild(t, of);
    }
}

static void step(truth *t)
{
    world_advance(&t->w, 1000);
    switch (below(t, 20)) {
    case 0:
    case 1:
        look(t);
        return;
    case 2:
        sync_fresh_peer(t);
        return;
    case 3:
        rescan(t);
        return;
    case 4:
    case 5:
        migrate(t);
        return;
    case 6:
        drop_trigger(t, below(t, TABLES));
        return;
    case 7:
        write_past_triggers(t);
        return;
    case 8:
        run(t, "PRAGMA foreign_keys = %d", below(t, 2));
        return;
    default:
        write_rows(t);
    }
}

/* ---- a seed ---- */

static const layout start[TABLES] = {
    {.name = "p",
     .key = "id",
     .fixed = {"id INTEGER PRIMARY KEY", "name TEXT UNIQUE", "v NOT NULL DEFAULT 7"},
     .constraint = "",
     .options = "",
     .columns = {"id", "name", "v"},
     .count = 3},
    {.name = "c",
     .key = "k",
     .fixed = {"k TEXT NOT NULL PRIMARY KEY", "p INTEGER REFERENCES p(id) ON DELETE CASCADE",
               "w DEFAULT 'd'"},
     .constraint = "",
     .options = "",
     .columns = {"k", "p", "w"},
     .count = 3},
    {.name = "q",
     .key = "a, b",
     .fixed = {"a INTEGER", "b TEXT", "x DEFAULT 5", "y"},
     .constraint = ", PRIMARY KEY (a, b)",
     .options = " WITHOUT ROWID",
     .columns = {"a", "b", "x", "y"},
     .count = 4}};

static void run_seed(uint64_t seed)
{
    static truth t;
    char schema[3 * QUERY_MAX] = "";
    t = (truth){.token = 0};
    prng_init(&t.random, seed);
    prng_print_seed(seed);
    memcpy(t.tables, start, sizeof start);
    assert_int_equal(SQLITE_OK, sqlite3_open(":memory:", &t.plain));
    for (int i = 0; i < TABLES; i++) {
        char create[QUERY_MAX];
        const size_t len = strlen(schema);
        put_table(create, &t.tables[i], t.tables[i].name);
        (void)snprintf(schema + len, sizeof schema - len, "%s;", create);
    }
    assert_int_equal(SQLITE_OK, run_on(t.plain, schema));
    world_init(&t.w, 1, seed, schema, names, WEEK_US);
    for (int i = 0; i < STEPS; i++)
        step(&t);
    look(&t);
    sync_fresh_peer(&t);
    (void)sqlite3_close(t.plain);
    world_done(&t.w);
}

static void the_tables_hold_what_applications_wrote(void **state)
{
    (void)state;
    uint64_t seed = 0;
    if (prng_repeated_seed(&seed)) {
        run_seed(seed);
        return;
    }
    seeds known;
    seeds_read(&known, "tests/replica/truth_seeds.txt");
    for (size_t i = 0; i < known.count; i++) {
        const seeds_line *line = &known.lines[i];
        if (line->is_red)
            assert_true(seeds_judge_red(line, seeds_fail_again(line->seed)));
        else
            run_seed(line->seed);
    }
    for (seed = known.first; seed < known.first + (is_soak() ? SEEDS_SOAK : SEEDS); seed++)
        run_seed(seed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_hold_what_applications_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
