/* Any writes by any program on any node, exchanged in any order: one state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { SEEDS = 150, SEEDS_SOAK = 3000, STEPS = 60, FLYING_MAX = 12, TOKENS_MAX = 400 };

static const char schema[] =
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT UNIQUE, city TEXT, age INTEGER CHECK "
    "(age + id < 60));"
    "CREATE TABLE notes (k TEXT NOT NULL PRIMARY KEY, owner INTEGER REFERENCES people (id) ON "
    "DELETE CASCADE, body);"
    "CREATE TABLE pairs (a INTEGER, b TEXT, c, d UNIQUE, PRIMARY KEY (a, b)) WITHOUT ROWID;"
    "CREATE TABLE tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree (id), label TEXT "
    "UNIQUE, x TEXT);"
    "CREATE INDEX notes_owner ON notes (owner); CREATE INDEX tree_up ON tree (up);";
static const char *const tables[] = {"people", "notes", "pairs", "tree", NULL};

/* ---- what was written: every write carries a text of its own ---- */

typedef struct token {
    bool is_written;
    bool is_replaced; /* by a write that saw it */
} token;

typedef struct run {
    world w;
    prng random;
    token tokens[TOKENS_MAX];
    int token_count;
    bool has_collected;
    bool has_orphans; /* an application has committed some: foreign keys were off */
} run;

/* References that hold no rows back. */
#define LOOSE                                                                                      \
    "SELECT t.name, l.columns FROM tide_replica_loose l JOIN tide_replica_tables t ON t.id = "     \
    "l.table_id ORDER BY 1, 2"

static const char all_texts[] = "SELECT city FROM people WHERE city LIKE 'w%' UNION ALL SELECT "
                                "body FROM notes WHERE body LIKE 'w%' "
                                "UNION ALL SELECT c FROM pairs WHERE c LIKE 'w%' UNION ALL SELECT "
                                "x FROM tree WHERE x LIKE 'w%'";

static void look(run *r, int node, bool there[TOKENS_MAX])
{
    char *text = world_dump(&r->w, node, all_texts);
    memset(there, 0, TOKENS_MAX * sizeof *there);
    for (const char *at = strstr(text, "3:w"); at; at = strstr(at + 1, "3:w"))
        there[strtol(at + 3, NULL, 10)] = true;
    sqlite3_free(text);
}

static int below(run *r, int n)
{
    return (int)prng_below(&r->random, (uint64_t)n);
}

static int try_write(run *r, int node, int t)
{
    world *w = &r->w;
    const int id = 1 + below(r, 5);
    const int other = 1 + below(r, 5);
    const int name = below(r, 4);
    switch (below(r, 16)) {
    case 0:
    case 1:
        return world_try(w, node, "INSERT INTO people VALUES (%d, 'n%d', 'w%d.', %d)", id, name, t,
                         below(r, 58));
    case 2:
        return world_try(w, node, "UPDATE people SET city = 'w%d.', age = %d WHERE id = %d", t,
                         below(r, 58), id);
    case 3:
        return world_try(w, node, "REPLACE INTO people VALUES (%d, 'n%d', 'w%d.', 1)", id, name, t);
    case 4:
        return world_try(w, node, "DELETE FROM people WHERE id = %d", id);
    case 5:
        return world_try(w, node,
                         "UPDATE OR REPLACE people SET id = %d, name = 'n%d' WHERE id = %d", other,
                         name, id);
    case 6:
        return world_try(w, node, "INSERT OR IGNORE INTO notes VALUES ('k%d', %d, 'w%d.')", id,
                         other, t);
    case 7:
        return world_try(w, node, "UPDATE notes SET body = 'w%d.' WHERE k = 'k%d'", t, id);
    case 8:
        return world_try(w, node, "UPDATE notes SET owner = %d WHERE k = 'k%d'", other, id);
    case 9:
        return world_try(w, node,
                         "INSERT INTO pairs VALUES (%d, 'b%d', 'w%d.', %d) ON CONFLICT (a, b) "
                         "DO UPDATE SET c = excluded.c",
                         id, name, t, other);
    case 10:
        return world_try(w, node, "UPDATE pairs SET d = %d WHERE a = %d", other, id);
    case 11:
        return world_try(w, node,
                         "DELETE FROM pairs WHERE a = %d; DELETE FROM notes WHERE k = 'k%d'", id,
                         other);
    case 12:
        return world_try(w, node, "INSERT INTO tree VALUES (%d, %d, 'l%d', 'w%d.')", id, other,
                         name, t);
    case 13:
        return world_try(w, node, "INSERT INTO tree VALUES (%d, NULL, 'l%d', 'w%d.')", id, name, t);
    case 14:
        return world_try(w, node, "UPDATE tree SET up = %d, x = 'w%d.' WHERE id = %d", other, t,
                         id);
    default:
        return world_try(w, node, "DELETE FROM tree WHERE id = %d", id);
    }
}

/* What a statement made disappear was seen by its program, whose state is this node's. */
static void write_something(run *r, int node)
{
    bool before[TOKENS_MAX];
    bool after[TOKENS_MAX];
    const int t = r->token_count;
    if (t == TOKENS_MAX)
        return;
    look(r, node, before);
    (void)try_write(r, node, t);
    look(r, node, after);
    for (int i = 0; i < t; i++)
        if (before[i] && !after[i])
            r->tokens[i].is_replaced = true;
    r->tokens[t] = (token){.is_written = after[t]};
    r->token_count += after[t];
}

/* ---- pages on their way ---- */

typedef struct flying {
    world_page page;
    int to;
} flying;

static void send(run *r, flying *f, int *count)
{
    tide_origin_mark theirs[WORLD_MARKS_MAX];
    if (*count == FLYING_MAX)
        return;
    const int from = below(r, r->w.count);
    const int to = below(r, r->w.count);
    world_fold(&r->w, from);
    const int marks = world_marks(&r->w, from, theirs);
    if (from == to || marks == 0)
        return;
    const tide_origin_mark *of = &theirs[below(r, marks)];
    int64_t after = world_prefix(&r->w, to, &of->origin, of->epoch);
    if (after < of->floor)
        after = of->floor;
    if (of->prefix > after && prng_chance(&r->random, 1, 3)) /* a hole */
        after += below(r, (int)(of->prefix - after));
    flying *out = &f[*count];
    out->to = to;
    assert_ok_err(world_read(&r->w, from, of, after, 1 + below(r, 6), &out->page), &r->w.err);
    if (out->page.count > 0)
        ++*count;
}

static void receive(run *r, flying *f, int *count)
{
    if (*count == 0)
        return;
    const int which = below(r, *count);
    (void)world_apply(&r->w, f[which].to, &f[which].page);
    if (prng_chance(&r->random, 1, 4))
        return; /* it will come again */
    world_page_done(&f[which].page);
    --*count;
    if (which < *count)
        f[which] = f[*count];
}

/* ---- ends ---- */

static void collect(run *r)
{
    static const tide_collect_options all = {.safety = -1};
    world_advance(&r->w, INT64_C(2000000));
    world_acknowledge(&r->w, INT64_C(3600000000));
    const int node = below(r, r->w.count);
    tide_collected collected;
    assert_ok_err(tide_node_collect(r->w.nodes[node].node, &all, &collected, &r->w.err), &r->w.err);
    r->has_collected = true;
}

/* Every write is shown, was replaced by somebody who saw it, or is listed; on every node. */
static void assert_nothing_lost(run *r)
{
    for (int node = 0; node < r->w.count; node++) {
        bool there[TOKENS_MAX];
        look(r, node, there);
        for (int t = 0; t < r->token_count; t++) {
            if (there[t] || r->tokens[t].is_replaced)
                continue;
            const int64_t listed =
                world_number(&r->w, node,
                             "SELECT (SELECT count(*) FROM tide_replica_conflicts WHERE "
                             "instr(value, CAST('w%d.' AS BLOB))) "
                             "+ (SELECT count(*) FROM tide_replica_clocks WHERE aside > 0 AND "
                             "instr(image, CAST('w%d.' AS BLOB)))",
                             t, t);
            if (listed == 0)
                fail_msg("node %d has lost write %d", node, t);
        }
    }
}

static int64_t count_orphans(run *r, int node)
{
    return world_number(&r->w, node, "SELECT count(*) FROM pragma_foreign_key_check");
}

/* References hold, but for those of which an application has committed orphans itself. */
static void assert_references(run *r, int node)
{
    char *first = world_dump(&r->w, 0, LOOSE);
    char *found = world_dump(&r->w, node, LOOSE);
    assert_string_equal(first, found);
    assert_true(r->has_orphans || !first[0]);
    assert_int_equal(0,
                     world_number(&r->w, node,
                                  "SELECT count(*) FROM pragma_foreign_key_check WHERE \"table\" "
                                  "NOT IN (SELECT name FROM (" LOOSE "))"));
    sqlite3_free(first);
    sqlite3_free(found);
}

static void assert_sound(run *r)
{
    world_assert_same(&r->w, tables, true);
    for (int i = 0; i < r->w.count; i++) {
        assert_references(r, i);
        assert_int_equal(0, world_number(&r->w, i, "SELECT count(*) FROM tide_replica_quarantine"));
        assert_int_equal(
            1, world_number(&r->w, i, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"));
    }
    assert_nothing_lost(r);
}

static void run_seed(uint64_t seed)
{
    static flying in_flight[FLYING_MAX];
    static run r;
    int flying_count = 0;
    r = (run){.token_count = 0};
    prng_init(&r.random, seed);
    const bool with_gc = prng_chance(&r.random, 1, 3);
    world_init(&r.w, 2 + below(&r, 3), seed, schema, tables, 1000000);
    for (int i = 0; i < r.w.count; i++)
        world_run(&r.w, i, "PRAGMA foreign_keys = %d", prng_chance(&r.random, 3, 4));
    for (int step = 0; step < STEPS; step++) {
        const int what = below(&r, 20);
        const int node = below(&r, r.w.count);
        virtual_env_advance(&r.w.nodes[node].env, 1 + below(&r, 3000));
        if (what < 9) {
            write_something(&r, node);
            r.has_orphans = r.has_orphans || count_orphans(&r, node) > 0;
        } else if (what < 13)
            send(&r, in_flight, &flying_count);
        else if (what < 17)
            receive(&r, in_flight, &flying_count);
        else if (what == 17)
            (void)world_pull(&r.w, node, (node + 1) % r.w.count, 1 + below(&r, 9));
        else if (what == 18)
            world_reopen(&r.w, node); /* nothing was folded before */
        else if (with_gc)
            collect(&r);
    }
    for (int i = 0; i < flying_count; i++)
        world_page_done(&in_flight[i].page);
    world_settle(&r.w);
    assert_sound(&r);
    world_done(&r.w);
}

/* After any run all nodes show the same rows, byte for byte, and nothing is lost. */
static void any_run_converges(void **state)
{
    (void)state;
    uint64_t count = is_soak() ? SEEDS_SOAK : SEEDS;
    const uint64_t first = prng_first_of(&count, 0);
    for (uint64_t i = 0; i < count; i++) {
        prng_print_seed(first + i);
        run_seed(first + i);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_run_converges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
