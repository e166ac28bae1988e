/* Programs of others write, in every form that SQLite knows, with their own SQLite: the sqlite3 shell and Python, as Debian has them. After a sync the
 * other side is the same byte for byte, by a checker that knows nothing of us. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/replica/replica_calls.h"
#include "support/prng.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE plain(id INTEGER PRIMARY KEY, a TEXT, b REAL, c BLOB, u TEXT UNIQUE, v "         \
    "INTEGER);"                                                                                    \
    "CREATE UNIQUE INDEX plain_v ON plain(v) WHERE v > 0;"                                         \
    "CREATE INDEX plain_a ON plain(a);"                                                            \
    "CREATE TABLE uniq(id TEXT PRIMARY KEY NOT NULL, email TEXT UNIQUE COLLATE NOCASE, tag TEXT, " \
    "n INT, big INT);"                                                                             \
    "CREATE UNIQUE INDEX uniq_tag ON uniq(lower(tag), n);"                                         \
    "CREATE UNIQUE INDEX uniq_big ON uniq(big) WHERE big > 100;"                                   \
    "CREATE TABLE pair(a TEXT, b INTEGER, note, PRIMARY KEY(a, b)) WITHOUT ROWID;"                 \
    "CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT);"                                      \
    "CREATE TABLE child(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent(id) ON DELETE "   \
    "CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED,"                                     \
    " other INTEGER REFERENCES parent(id) ON DELETE SET NULL ON UPDATE CASCADE, d TEXT DEFAULT "   \
    "'x');"                                                                                        \
    "CREATE TABLE gen(id INTEGER PRIMARY KEY, w INTEGER, h INTEGER, area INTEGER GENERATED "       \
    "ALWAYS AS (w * h) STORED UNIQUE);"                                                            \
    "CREATE TABLE strict_t(id INTEGER PRIMARY KEY, x ANY) STRICT;"                                 \
    "CREATE TABLE \"we\"\"ird\"(\"select\" TEXT PRIMARY KEY NOT NULL, \"a \"\"b\", \"ö\");"       \
    "CREATE TABLE noisy(id INTEGER PRIMARY KEY, what TEXT);"

/* Triggers of the application, which write to the same and to other tables. */
#define TRIGGERS                                                                                   \
    "CREATE TRIGGER noisy_in AFTER INSERT ON noisy BEGIN"                                          \
    " INSERT OR REPLACE INTO plain(id, a, u) VALUES(900 + NEW.id, NEW.what, 'noisy');"             \
    " UPDATE noisy SET what = NEW.what || '!' WHERE id = NEW.id; END;"                             \
    "CREATE TRIGGER noisy_out BEFORE DELETE ON noisy BEGIN"                                        \
    " INSERT OR IGNORE INTO pair VALUES('gone', OLD.id, OLD.what); END;"

static const char *const tables[] = {"plain", "uniq",     "pair",    "parent", "child",
                                     "gen",   "strict_t", "we\"ird", "noisy",  NULL};
static const char *const both[] = {"a.db", "b.db", NULL};
static uint64_t first_seed;

/* Two nodes with the same tables; a serves. */
static proc *begin(cli_fixture *t, char address[REPLICA_LINE_MAX])
{
    cli_sql(t, "a.db", SCHEMA TRIGGERS);
    for (int i = 0; tables[i]; i++)
        replica_ok(t, "track", "a.db", tables[i]);
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "b.db", TRIGGERS);
    return a;
}

static void write_by_python(cli_fixture *t, const char *db, const char *what, const char *recursive,
                            const char *seed)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    const char *const arguments[] = {path, what, recursive, seed, seed ? "120" : NULL, NULL};
    free(replica_python(t, "replica_writes.py", arguments));
}

static void write_by_shell(cli_fixture *t, const char *db, const char *recursive)
{
    char path[TEMPDIR_PATH_MAX];
    char pragma[64];
    char read[PATH_MAX];
    cli_path(t, db, path);
    (void)snprintf(pragma, sizeof pragma, "PRAGMA recursive_triggers = %s", recursive);
    (void)snprintf(read, sizeof read, ".read %s/tests/cli/replica/replica_writes.sql",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *const argv[] = {"/usr/bin/sqlite3",
                                "-batch",
                                "-bail",
                                "-cmd",
                                ".timeout 60000",
                                "-cmd",
                                pragma,
                                path,
                                read,
                                NULL};
    free(replica_run_other(t, argv));
}

static void check(cli_fixture *t, const char *address)
{
    replica_ok(t, "sync", "b.db", address);
    replica_assert_identical(t, both);
    replica_assert_same_digest(t, "a.db", "b.db");
}

/* The same statements from both programs, at either node, with recursive triggers off and on. */
static void every_form_of_write_is_captured(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    static const char *const modes[] = {"OFF", "ON"};
    proc *a = begin(t, address);
    for (int i = 0; i < 2; i++) {
        write_by_shell(t, "a.db", modes[i]);
        check(t, address);
        write_by_python(t, "b.db", "file", modes[i], NULL);
        check(t, address);
    }
    write_by_shell(t, "b.db", "OFF");
    check(t, address);
    write_by_python(t, "a.db", "file", "ON", NULL);
    check(t, address);
    replica_end(a, SIGTERM);
}

/* Random writes of all forms at both nodes at once: equal after a sync, whatever collided. */
static void random_writes_at_both_nodes_converge(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    proc *a = begin(t, address);
    for (uint64_t round = 0; round < 4; round++) {
        char seed[2][24];
        (void)snprintf(seed[0], sizeof seed[0], "%" PRIu64, first_seed + 100 + round);
        (void)snprintf(seed[1], sizeof seed[1], "%" PRIu64, first_seed + 200 + round);
        write_by_python(t, "a.db", "random", "OFF", seed[0]);
        write_by_python(t, "b.db", "random", "ON", seed[1]);
        check(t, address);
    }
    replica_end(a, SIGTERM);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(every_form_of_write_is_captured),
        REPLICA_CASE(random_writes_at_both_nodes_converge),
    };
    first_seed = prng_seed_from_env(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
