/* A schema of some size, of the kind that shops publish: eleven tables with foreign keys, a composite key, decimals, dates and NULLs, replicated three
 * ways through real processes while Python writes to every one of them; byte for byte the same in the end. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replica/replica_calls.h"
#include "support/prng.h"

static const char *const tables[] = {"Artist",   "Album",    "Genre",         "MediaType",
                                     "Track",    "Playlist", "PlaylistTrack", "Employee",
                                     "Customer", "Invoice",  "InvoiceLine",   NULL};
static const char *const files[] = {"a.db", "b.db", "c.db", NULL};
static char seed[24]; /* of the rows and of all writers */

static void make_store(cli_fixture *t, const char *db)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    free(replica_python(t, "replica_store.py",
                        (const char *const[]){path, "make", seed, "2", NULL}));
    for (int i = 0; tables[i]; i++)
        replica_ok(t, "track", db, tables[i]);
}

/* A writer that runs beside the syncs. */
static void start_writer(const cli_fixture *t, proc *child, const char *db, int shop,
                         const char *count)
{
    char path[TEMPDIR_PATH_MAX];
    char script[PATH_MAX];
    char number[16];
    tide_error err = {.status = TIDE_OK};
    cli_path(t, db, path);
    (void)snprintf(script, sizeof script, "%s/tests/cli/replica/replica_store.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    (void)snprintf(number, sizeof number, "%d", shop);
    const char *const argv[] = {
        "/usr/bin/python3", script, path, "write", seed, number, count, NULL};
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_start(child, &options, &err), &err);
}

static void end_writer(proc *child)
{
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(proc_wait(child, REPLICA_WAIT_MS, &err), &err);
    assert_int_equal(0, child->exit_code);
    proc_done(child);
}

/* One serves, two sync with it, all three are written to meanwhile. */
static void a_music_store_in_three_places_converges(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    make_store(t, "a.db");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    replica_ok(t, "sync", "c.db", address);
    replica_assert_identical(t, files);
    for (int round = 0; round < 2; round++) {
        proc writers[3];
        for (int i = 0; i < 3; i++)
            start_writer(t, &writers[i], files[i], 2 + 3 * round + i, "100");
        for (int i = 0; i < 3; i++) {
            replica_ok(t, "sync", "b.db", address);
            replica_ok(t, "sync", "c.db", address);
        }
        for (int i = 0; i < 3; i++)
            end_writer(&writers[i]);
    }
    replica_ok(t, "sync", "b.db", address);
    replica_ok(t, "sync", "c.db", address);
    replica_ok(t, "sync", "b.db", address);
    replica_assert_identical(t, files);
    replica_ok(t, "verify", "b.db", address);
    replica_assert_same_digest(t, "a.db", "c.db");
    replica_end(a, SIGTERM);
}

/* Daemons in a chain (a - b - c), which ship changes by themselves: what is written at either end reaches the other. */
static void daemons_in_a_chain_carry_a_music_store(void **state)
{
    cli_fixture *t = *state;
    char first[REPLICA_LINE_MAX];
    char second[REPLICA_LINE_MAX];
    char third[REPLICA_LINE_MAX];
    proc writers[2];
    make_store(t, "a.db");
    proc *a = replica_serve(t, "a.db", NULL, first);
    replica_ok(t, "sync", "b.db", first);
    proc *b = replica_serve(t, "b.db", first, second);
    replica_ok(t, "sync", "c.db", second);
    proc *c = replica_serve(t, "c.db", second, third);
    start_writer(t, &writers[0], "a.db", 11, "100");
    start_writer(t, &writers[1], "c.db", 12, "100");
    end_writer(&writers[0]);
    end_writer(&writers[1]);
    const int64_t until_ms = proc_now_ms() + REPLICA_WAIT_MS;
    while (replica_call(t, "verify", "a.db", third, NULL).exit_code != 0)
        assert_true(proc_now_ms() < until_ms && t->result_count < CLI_RESULTS_MAX - 8);
    replica_end(c, SIGTERM);
    replica_end(b, SIGTERM);
    replica_end(a, SIGTERM);
    replica_assert_identical(t, files);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(a_music_store_in_three_places_converges),
        REPLICA_CASE(daemons_in_a_chain_carry_a_music_store),
    };
    (void)snprintf(seed, sizeof seed, "%" PRIu64, prng_seed_from_env(4711));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
