#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/replica/world.h"

enum { STATEMENTS_MAX = 4 };

static int below(world_node *n, int limit)
{
    return (int)world_below(n->w, (uint64_t)limit);
}

static int run(world_node *n, const char *format, ...) TIDE_PRINTF(2, 3);
static int run(world_node *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    const int code = sqlite3_exec(n->writer, text, NULL, NULL, NULL);
    sqlite3_free(text);
    return code;
}

/* A text that is written once. */
static long long next_token(world_node *n)
{
    return (long long)++n->w->token;
}

static int write_people(world_node *n)
{
    const int id = 1 + below(n, 5);
    const int other = 1 + below(n, 5);
    const int name = below(n, 4);
    const long long t = next_token(n);
    switch (below(n, 9)) {
    case 0:
        return run(n,
                   "INSERT INTO people (id, name, city, age, extra) VALUES (%d, 'n%d', 'w%lld.', "
                   "%d, 'e%lld')",
                   id, name, t, below(n, 58), t);
    case 1:
        return run(n, "INSERT INTO people (id, name, city, age) VALUES (%d, 'n%d', 'w%lld.', %d)",
                   id, name, t, below(n, 58));
    case 2:
        return run(n, "UPDATE people SET city = 'w%lld.', age = %d WHERE id = %d", t, below(n, 58),
                   id);
    case 3:
        return run(n,
                   "REPLACE INTO people (id, name, city, age) VALUES (%d, 'n%d', 'w%lld.', 1), "
                   "(%d, NULL, 'w%lld.', 2)",
                   id, name, t, other, next_token(n));
    case 4:
        return run(n, "DELETE FROM people WHERE id = %d", id);
    case 5:
        return run(n, "UPDATE OR REPLACE people SET id = %d, name = 'n%d' WHERE id = %d", other,
                   name, id);
    case 6:
        return run(n,
                   "INSERT INTO people (id, name, city, age) VALUES (%d, 'n%d', 'w%lld.', 3) ON "
                   "CONFLICT (name) DO UPDATE SET city = excluded.city RETURNING id",
                   id, name, t);
    case 7:
        return run(n, "INSERT INTO people (id, name, city, age) VALUES (%d, 'n%d', 'w%lld.', %d)",
                   id, name, t, below(n, 58));
    default:
        return run(n, "UPDATE people SET extra = 'e%lld' WHERE id = %d", t, id);
    }
}

static int write_notes(world_node *n)
{
    const int k = 1 + below(n, 5);
    const int owner = 1 + below(n, 5);
    const long long t = next_token(n);
    switch (below(n, 5)) {
    case 0:
        return run(n, "INSERT OR IGNORE INTO notes (k, owner, body) VALUES ('k%d', %d, 'w%lld.')",
                   k, owner, t);
    case 1:
        return run(n, "UPDATE notes SET body = 'w%lld.' WHERE k = 'k%d'", t, k);
    case 2:
        return run(n, "UPDATE notes SET owner = %d WHERE k = 'k%d'", owner, k);
    case 3:
        return run(n, "DELETE FROM notes WHERE k = 'k%d'", k);
    default:
        return run(n,
                   "INSERT OR REPLACE INTO notes (k, owner, body) VALUES ('k%d', NULL, 'w%lld.')",
                   k, t);
    }
}

static int write_pairs(world_node *n)
{
    const int a = 1 + below(n, 3);
    const int b = below(n, 2);
    const int d = below(n, 5);
    const long long t = next_token(n);
    switch (below(n, 5)) {
    case 0:
    case 1:
        return run(n,
                   "INSERT INTO pairs (a, b, c, d) VALUES (%d, 'b%d', 'w%lld.', %d) ON CONFLICT "
                   "(a, b) DO UPDATE SET c = excluded.c",
                   a, b, t, d);
    case 2:
        return run(n, "UPDATE OR IGNORE pairs SET d = %d WHERE a = %d", d, a);
    case 3:
        return run(n, "DELETE FROM pairs WHERE a = %d", a);
    default:
        return run(n, "UPDATE OR REPLACE pairs SET d = %d, c = 'w%lld.' WHERE a = %d AND b = 'b%d'",
                   d, t, a, b);
    }
}

static int write_tree(world_node *n)
{
    const int id = 1 + below(n, 5);
    const int up = 1 + below(n, 5);
    const int label = below(n, 4);
    const long long t = next_token(n);
    switch (below(n, 5)) {
    case 0:
        return run(n, "INSERT INTO tree (id, up, label, x) VALUES (%d, %d, 'l%d', 'w%lld.')", id,
                   up, label, t);
    case 1:
        return run(n, "INSERT INTO tree (id, label, x) VALUES (%d, 'l%d', 'w%lld.')", id, label, t);
    case 2:
        return run(n, "UPDATE tree SET up = %d, x = 'w%lld.' WHERE id = %d", up, t, id);
    case 3:
        return run(n, "UPDATE tree SET extra = 'e%lld' WHERE id = %d", t, id);
    default:
        return run(n, "DELETE FROM tree WHERE id = %d", id);
    }
}

/* Values of every class; keys that are equal to SQLite and are different values. */
static int write_things(world_node *n)
{
    static const char *const keys[] = {
        "1", "1.0", "'a'", "x'61'", "'a b'", "9007199254740993", "-2.5e300", "x'00ff'"};
    static const char *const values[] = {
        "NULL",      "9223372036854775807",     "0.1",           "1e-310", "'\xc3\xa4'",
        "x'0001fe'", "CAST(x'610062' AS TEXT)", "zeroblob(300)", "''",     "-1"};
    const char *key = keys[below(n, 8)];
    const char *value = values[below(n, 10)];
    const long long t = next_token(n);
    switch (below(n, 5)) {
    case 0:
    case 1:
        return run(n, "INSERT INTO things (k, v, n, t) VALUES (%s, %s, %d / 7.0, 'w%lld.')", key,
                   value, 1 + below(n, 20), t);
    case 2:
        return run(n, "UPDATE things SET v = %s WHERE k = %s", value, key);
    case 3:
        return run(n, "UPDATE things SET n = n * 1.5, t = 'w%lld.' WHERE k >= %s", t, key);
    default:
        return run(n, "DELETE FROM things WHERE k = %s", key);
    }
}

static int write_tags(world_node *n)
{
    static const char *const names[] = {"red", "RED", "blue", "Blue"};
    const char *name = names[below(n, 4)];
    const long long t = next_token(n);
    switch (below(n, 4)) {
    case 0:
    case 1:
        return run(n,
                   "INSERT INTO tags (name, t) VALUES ('%s', 'w%lld.') ON CONFLICT (name) DO "
                   "UPDATE SET t = excluded.t",
                   name, t);
    case 2:
        return run(n, "REPLACE INTO tags (name, t) VALUES ('%s', 'w%lld.')", name, t);
    default:
        return run(n, "DELETE FROM tags WHERE name = '%s'", name);
    }
}

static int write_something(world_node *n)
{
    static int (*const writers[WORLD_TABLES])(world_node *) = {
        write_people, write_notes, write_pairs, write_tree, write_things, write_tags};
    int table = below(n, WORLD_TABLES);
    while (!n->w->has_table[table])
        table = (table + 1) % WORLD_TABLES;
    return writers[table](n);
}

/* One statement, or several that are one. A statement that is refused ends some transactions and not others, as programs do. */
static bool write_transaction(world_node *n)
{
    const int count = below(n, 3) > 0 ? 1 : 2 + below(n, STATEMENTS_MAX - 1);
    const bool is_strict = below(n, 2) == 0;
    bool is_refused = false;
    if (count > 1)
        is_refused = run(n, "BEGIN") != SQLITE_OK;
    for (int i = 0; i < count && !(is_refused && is_strict); i++)
        is_refused = write_something(n) != SQLITE_OK || is_refused;
    if (sqlite3_get_autocommit(n->writer))
        return !is_refused;
    if ((is_refused && is_strict) || run(n, "COMMIT") != SQLITE_OK) {
        (void)run(n, "ROLLBACK");
        return false;
    }
    return true;
}

static void note_outcome(world_node *n)
{
    shown after = {.count = 0};
    shown_take(&after, n->writer);
    model_commit(&n->w->model, n, &n->before, &after, n->before_seq,
                 look_number(n->writer, "SELECT max(seq) FROM tide_replica_seq", 0));
    shown_done(&after);
    n->w->has_orphans =
        n->w->has_orphans ||
        look_number(n->writer, "SELECT count(*) FROM pragma_foreign_key_check", 0) > 0;
}

void world_write(world_node *n)
{
    shown_take(&n->before, n->writer);
    n->before_seq = look_number(n->writer, "SELECT max(seq) FROM tide_replica_seq", 0);
    if (fault_vfs_is_cut(n->disk))
        return;
    const bool is_done = write_transaction(n);
    n->is_writing = fault_vfs_is_cut(n->disk);
    if (n->is_writing)
        return;
    n->w->tally.transactions += is_done;
    n->w->tally.refused += !is_done;
    note_outcome(n);
}

void world_write_settle(world_node *n)
{
    n->is_writing = false;
    note_outcome(n);
}
