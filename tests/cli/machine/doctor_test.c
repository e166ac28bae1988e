/* tidemark doctor: one line per check, exit code 1 when something is bad. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_run.h"

/* The level of a check in the JSON lines, copied to level; false: it was not made. */
static bool find_check(const char *lines, const char *check, char level[8])
{
    bool is_found = false;
    for (const char *at = lines; *at && !is_found; at = strchr(at, '\n') + 1) {
        tide_json_node *object = json_read(tide_view_bytes(at, strcspn(at, "\n")));
        assert_int_equal(4, tide_json_node_count(object));
        assert_true(json_is_string(tide_json_node_find(object, "found")));
        assert_true(json_is_string(tide_json_node_find(object, "advice")));
        is_found = strcmp(json_text(object, "check"), check) == 0;
        snprintf(level, 8, "%s", json_text(object, "level"));
        assert_true(strcmp(level, "ok") == 0 || strcmp(level, "warn") == 0 ||
                    strcmp(level, "bad") == 0);
        tide_json_tree_free(object);
    }
    return is_found;
}

static void assert_level(const cli_result *result, const char *check, const char *expected)
{
    char level[8];
    if (!find_check(result->out, check, level))
        fail_msg("no check '%s' in %s", check, result->out);
    assert_string_equal(expected, level);
}

static void every_check_of_a_file_is_one_line(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    const cli_result result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    static const char *const sure[] = {"sqlite",         "libpq",     "clock",
                                       "boot clock",     "file",      "store",
                                       "other programs", "directory", "state directory"};
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++)
        assert_level(&result, sure[i], "ok");
    /* What these find depends on the machine. */
    static const char *const made[] = {"clock sync", "file system", "free space", "sync"};
    char level[8];
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        assert_true(find_check(result.out, made[i], level));
}

static void looking_around_changes_nothing(void **state)
{
    cli_fixture *t = *state;
    const cli_result result = cli_run(t, "doctor", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "made on first use");
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

static void a_missing_directory_is_bad(void **state)
{
    cli_fixture *t = *state;
    const cli_result result = cli_run(t, "doctor", "--json", "--store", "no/such/store.db", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_level(&result, "directory", "bad");
    assert_string_equal("", result.err);
}

static void a_store_that_cannot_be_opened_is_bad(void **state)
{
    cli_fixture *t = *state;
    cli_write_file(t, "store.db", "hello", 5);
    const cli_result result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_level(&result, "store", "bad");
}

/* Without it a restored file is noticed only by what is inside: worth a warning, no more. */
static void having_no_state_directory_is_a_warning(void **state)
{
    cli_fixture *t = *state;
    t->env[0] = "TIDEMARK_STATE_DIR=";
    const cli_result result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_level(&result, "state directory", "warn");
}

/* A file needs no PostgreSQL client: a missing library is a warning, and the store works. */
static void a_missing_libpq_is_bad_only_for_a_server(void **state)
{
    cli_fixture *t = *state;
    t->env[3] = "TIDEMARK_LIBPQ=/nowhere/libpq.so.5";
    cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_string_equal("1\n", result.out);
    result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_level(&result, "libpq", "warn");
    assert_contains(result.out, "/nowhere/libpq.so.5");
    result = cli_run(t, "doctor", "--json", "--store", "postgres://127.0.0.1:1/db", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_level(&result, "server", "bad");
    result = cli_run(t, "store", "info", "--store", "postgres://127.0.0.1:1/db", NULL);
    assert_contains(result.err, "install libpq");
    result = cli_run(t, "version", "--json", NULL);
    assert_contains(result.out, "\"libpq\":null");
}

static void a_missing_duckdb_is_a_warning_that_names_the_command_which_downloads_it(void **state)
{
    cli_fixture *t = *state;
    t->env[3] = "TIDEMARK_DUCKDB=/nowhere/libduckdb.so";
    cli_result result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_level(&result, "duckdb", "warn");
    assert_contains(result.out, "make duckdb");
}

static void a_server_is_asked_for_its_durability(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    static const char *const sure[] = {"server", "fsync", "full_page_writes",
                                       "synchronous_standby_names", "store"};
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++)
        assert_level(&result, sure[i], "ok");
    cli_run(t, "sequence", "next", "orders", NULL);
    result = cli_run(t, "doctor", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_level(&result, "server clock", "ok");
}

static void a_server_that_does_not_sync_is_bad(void **state)
{
    cli_fixture *t = *state;
    pg_cluster cluster;
    static const char *const settings[] = {"fsync=off", "full_page_writes=off", NULL};
    const pg_cluster_options options = {.settings = settings};
    assert_ok_err(pg_cluster_start(&cluster, &options, &t->err), &t->err);
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(&cluster, "postgres", url);
    const cli_result result = cli_run(t, "doctor", "--json", "--store", url, NULL);
    pg_cluster_stop(&cluster);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_level(&result, "fsync", "bad");
    assert_level(&result, "full_page_writes", "bad");
}

static void assert_doctor(cli_fixture *t, const char *url, const char *check, const char *expected)
{
    const cli_result result = cli_run(t, "doctor", "--json", "--store", url, NULL);
    assert_level(&result, check, expected);
}

/* Each recommendation of docs/high-availability.md has a line. */
static void standbys_and_the_hosts_of_the_url_are_checked(void **state)
{
    cli_fixture *t = *state;
    pg_cluster primary;
    pg_cluster standby;
    char url[PG_CLUSTER_URL_MAX];
    char pair[PG_CLUSTER_URL_MAX];
    char one[PG_CLUSTER_URL_MAX + 40];
    assert_ok_err(pg_cluster_start(&primary, NULL, &t->err), &t->err);
    pg_cluster_url(&primary, "postgres", url);
    assert_doctor(t, url, "standbys", "ok");
    assert_doctor(t, url, "hosts", "ok");
    assert_ok_err(pg_cluster_start_standby(&standby, &primary, NULL, &t->err), &t->err);
    assert_doctor(t, url, "standbys", "warn"); /* a failover can lose commits */
    assert_doctor(t, url, "rewind", "warn");
    assert_doctor(t, url, "hosts", "warn"); /* and is not followed */
    pg_cluster_url(&standby, "postgres", pair);
    assert_doctor(t, pair, "role", "warn"); /* writes are refused */
    assert_doctor(t, pair, "hosts", "ok");

    (void)snprintf(pair, sizeof pair, "postgres://postgres@/postgres?host=%s,%s&port=%d,%d",
                   standby.dir.path, primary.dir.path, standby.port, primary.port);
    assert_doctor(t, pair, "host", "ok");
    assert_doctor(t, pair, "hosts", "warn"); /* reads go to any of them */
    (void)snprintf(one, sizeof one, "%s&target_session_attrs=read-write", pair);
    assert_doctor(t, one, "hosts", "ok");
    assert_ok_err(pg_cluster_require_standby(&primary, "standby", &t->err), &t->err);
    assert_doctor(t, url, "standbys", "ok");

    pg_cluster_stop(&standby);
    char gone[8] = "";
    while (strcmp(gone, "0") != 0)
        assert_ok(pg_cluster_query(&primary, "SELECT count(*) FROM pg_stat_replication", gone,
                                   sizeof gone, &t->err));
    assert_doctor(t, url, "standbys", "warn"); /* writes wait for it */
    assert_doctor(t, one, "host", "warn");
    pg_cluster_stop(&primary);
}

/* A primary that returned beside the new one. */
static void two_primaries_in_one_url_are_bad(void **state)
{
    cli_fixture *t = *state;
    pg_cluster one;
    pg_cluster other;
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&one, &(pg_cluster_options){.is_copy = true}, &t->err), &t->err);
    assert_ok_err(pg_cluster_start(&other, &(pg_cluster_options){.is_copy = true}, &t->err),
                  &t->err);
    (void)snprintf(url, sizeof url, "postgres://postgres@/postgres?host=%s,%s&port=%d,%d",
                   one.dir.path, other.dir.path, one.port, other.port);
    assert_doctor(t, url, "hosts", "bad");
    pg_cluster_stop(&other);
    pg_cluster_stop(&one);
}

static void a_server_that_is_away_is_bad(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "doctor", "--json", "--store", "postgres://ann:s3cret@127.0.0.1:1/none", NULL);
    assert_int_equal(TIDE_EXIT_FAILED, result.exit_code);
    assert_level(&result, "server", "bad");
    assert_null(strstr(result.out, "s3cret"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(every_check_of_a_file_is_one_line),
        CLI_TEST_SQLITE(looking_around_changes_nothing),
        CLI_TEST_SQLITE(a_missing_directory_is_bad),
        CLI_TEST_SQLITE(a_store_that_cannot_be_opened_is_bad),
        CLI_TEST_SQLITE(having_no_state_directory_is_a_warning),
        CLI_TEST_SQLITE(a_missing_libpq_is_bad_only_for_a_server),
        CLI_TEST_SQLITE(a_missing_duckdb_is_a_warning_that_names_the_command_which_downloads_it),
        CLI_TEST(a_server_is_asked_for_its_durability, "postgres"),
        CLI_TEST(a_server_that_does_not_sync_is_bad, "postgres"),
        CLI_TEST_SQLITE(standbys_and_the_hosts_of_the_url_are_checked),
        CLI_TEST_SQLITE(two_primaries_in_one_url_are_bad),
        CLI_TEST_SQLITE(a_server_that_is_away_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
