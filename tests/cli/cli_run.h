/* cli_run.h - the real program, run in a directory of its own on a store of its own.
 *
 *     cli_result result = cli_run(t, "sequence", "next", "orders", "--json", NULL);
 *     assert_int_equal(0, result.exit_code);
 *
 * A case that holds on every engine is listed with CLI_TEST_EVERY_ENGINE; t->url is then an empty store's URL, and
 * the program finds it in TIDEMARK_STORE. The state directory is inside the case's directory.
 *
 * Results live until the fixture is torn down. Threads: one. */
#pragma once

#include "support/check.h"
#include "support/json.h"
#include "support/postgres/pg_cluster.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum { CLI_RESULTS_MAX = 64, CLI_ARGS_MAX = 24, CLI_TIMEOUT_MS = 60000 };

typedef struct cli_result {
    int exit_code;
    const char *out;
    const char *err;
} cli_result;

typedef struct cli_fixture {
    tempdir dir;
    char program[PATH_MAX];
    char url[PG_CLUSTER_URL_MAX];
    const char *user; /* run as; NULL: as the test */
    proc_result results[CLI_RESULTS_MAX];
    int result_count;
    char state_env[TEMPDIR_PATH_MAX + 32];
    char store_env[PG_CLUSTER_URL_MAX + 32];
    const char *env[6];
    tide_error err;
} cli_fixture;

/* cmocka setup and teardown; the prestate names the engine. */
int cli_setup(void **state);
int cli_teardown(void **state);

#define CLI_TEST(function, engine)                                                                 \
    {                                                                                              \
#function " (" engine ")", function, cli_setup, cli_teardown, (void *)(engine)             \
    }
#define CLI_TEST_SQLITE(function) CLI_TEST(function, "sqlite")
#define CLI_TEST_DUCKDB(function) CLI_TEST(function, "duckdb") /* stores of colonies */
#define CLI_TEST_EVERY_ENGINE(function) CLI_TEST(function, "sqlite"), CLI_TEST(function, "postgres")

bool cli_is_postgres(const cli_fixture *t);

/* Run with these words, NULL at the end. */
cli_result cli_run(cli_fixture *t, ...) __attribute__((sentinel));

/* The options for a run that the case starts itself; argv is borrowed. */
proc_options cli_options(const cli_fixture *t, const char *const *argv);

/* The run ended with 0 and printed exactly one JSON object; the caller gives it back (tide_json_tree_free). */
tide_json_node *cli_json(const cli_result *result);
/* The run failed with this code, said something on stderr, and nothing on stdout. */
void cli_assert_fails(const cli_result *result, int exit_code);

/* Paths and files in the case's directory. */
void cli_path(const cli_fixture *t, const char *name, char out[TEMPDIR_PATH_MAX]);
void cli_write_file(const cli_fixture *t, const char *name, const void *bytes, size_t len);
/* The file's bytes, for free; *len (may be NULL) is how many. */
char *cli_read_file(const cli_fixture *t, const char *name, size_t *len);
/* Names in the directory, sorted, each followed by a space; for free. */
char *cli_list_files(const cli_fixture *t);

/* Run SQL on a SQLite file in the directory, as another program would. */
void cli_sql(const cli_fixture *t, const char *name, const char *sql);
