/* tidemark store, on every engine. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/uuid.h"
#include "cli/cli_run.h"

static void make_store(cli_fixture *t)
{
    const cli_result result = cli_run(t, "sequence", "next", "orders", "--count", "5", NULL);
    assert_int_equal(0, result.exit_code);
}

/* Run SQL on the case's store, as another program would. */
static void run_sql(const cli_fixture *t, const char *sql)
{
    if (!cli_is_postgres(t)) {
        cli_sql(t, "store.db", sql);
        return;
    }
    PGconn *connection = PQconnectdb(t->url);
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
}

static void assert_is_uuid(const char *text)
{
    tide_uuid uuid;
    assert_ok(tide_uuid_parse(&uuid, tide_view_of(text)));
}

/* The contract of --json, and every durability setting by name. */
static void info_names_engine_identity_schema_and_durability(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_result result = cli_run(t, "store", "info", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal(cli_is_postgres(t) ? "postgres" : "sqlite", json_text(object, "engine"));
    assert_true(strlen(json_text(object, "engine_version")) > 0);
    assert_true(strlen(json_text(object, "schema_version")) > 0);
    assert_is_uuid(json_text(object, "session_id"));
    assert_is_uuid(json_text(object, "epoch_id"));
    assert_int_equal(1, json_number(object, "epoch"));
    const tide_json_node *durability = tide_json_node_find(object, "durability");
    if (cli_is_postgres(t)) {
        assert_string_equal("on", json_text(durability, "fsync"));
        assert_string_equal("on", json_text(durability, "full_page_writes"));
    } else {
        assert_string_equal("wal", json_text(durability, "journal_mode"));
        assert_string_equal("full", json_text(durability, "synchronous"));
    }
    tide_json_tree_free(object);
}

static void the_same_facts_are_told_to_people(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    const cli_result result = cli_run(t, "store", "info", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "session_id ");
    assert_contains(result.out, "schema_version ");
    assert_contains(result.out, "\ndurability\n");
}

/* Whoever prints a URL may paste it into a ticket. */
static void a_password_in_the_url_is_not_printed(void **state)
{
    cli_fixture *t = *state;
    const cli_result result =
        cli_run(t, "store", "info", "--store", "postgres://ann:s3cret@127.0.0.1:1/none", NULL);
    cli_assert_fails(&result, TIDE_EXIT_UNAVAILABLE);
    assert_null(strstr(result.err, "s3cret"));
}

static void a_sound_store_passes_its_check(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_result result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("sound\n", result.out);
    result = cli_run(t, "store", "verify", "--json", NULL);
    assert_string_equal("{\"findings\":[],\"count\":0,\"status\":\"sound\",\"checked\":0,"
                        "\"unchecked\":0,\"damaged\":0}\n",
                        result.out);
    result = cli_run(t, "store", "check", NULL); /* as it was called before */
    assert_string_equal("sound\n", result.out);
}

/* Bytes written over in the middle of the file: exit code 8, and the findings by name. */
static void a_damaged_store_fails_its_check_with_8(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_sql(t, "store.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    size_t len = 0;
    char *bytes = cli_read_file(t, "store.db", &len);
    assert_true(len >= 4 * 16384);
    for (size_t page = 2; page < len / 16384; page++) /* the schema on page 1 stays readable */
        memset(bytes + page * 16384 + 8, 0xa5, 2000);
    cli_write_file(t, "store.db", bytes, len);
    free(bytes);
    cli_result result = cli_run(t, "store", "verify", "--json", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    tide_json_node *object = json_read(tide_view_of(result.out));
    assert_string_equal("damaged", json_text(object, "status"));
    assert_true(json_number(object, "count") > 0);
    assert_true(tide_json_node_count(tide_json_node_find(object, "findings")) > 0);
    tide_json_tree_free(object);
    result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    assert_true(strlen(result.out) > 0);
    assert_contains(result.err, "restore from a backup");
}

static void a_current_schema_needs_no_migration(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_result result = cli_run(t, "store", "migrate", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal(json_text(object, "from"), json_text(object, "to"));
    assert_true(json_is_false(tide_json_node_find(object, "migrated")));
    tide_json_tree_free(object);
}

/* There is nothing to migrate where nothing is, and nothing is made. */
static void migrating_nothing_ends_with_3(void **state)
{
    cli_fixture *t = *state;
    const cli_result result = cli_run(t, "store", "migrate", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    char *files = cli_list_files(t);
    assert_string_equal("", files);
    free(files);
}

/* A store made by a newer program is refused by every verb, and stays as it is. */
static void a_newer_schema_is_refused(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    run_sql(t, "INSERT INTO schema_version (version, number, name, checksum, applied_at) "
               "VALUES ('99.0', 999, 'from the future', 'x', '2099-01-01 00:00:00.000000')");
    cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_FAILED);
    assert_contains(result.err, "99.0");
    assert_contains(result.err, "newer tidemark");
    result = cli_run(t, "store", "migrate", NULL);
    cli_assert_fails(&result, TIDE_EXIT_FAILED);
    result = cli_run(t, "sequence", "show", "orders", NULL);
    cli_assert_fails(&result, TIDE_EXIT_FAILED);
    run_sql(t, "DELETE FROM schema_version WHERE number = 999");
    result = cli_run(t, "sequence", "show", "orders", NULL);
    assert_string_equal("5\n", result.out);
}

/* A copy has the numbers, the session, and an epoch of its own. */
static void a_backup_goes_on_in_a_new_epoch(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_result result = cli_run(t, "store", "backup", "copy.db", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal("copy.db", json_text(object, "path"));
    assert_true(json_number(object, "bytes") > 0);
    tide_json_tree_free(object);
    result = cli_run(t, "sequence", "next", "orders", "--store", "copy.db", NULL);
    assert_string_equal("6\n", result.out);
    result = cli_run(t, "store", "info", "--store", "copy.db", "--json", NULL);
    object = cli_json(&result);
    assert_int_equal(2, json_number(object, "epoch"));
    tide_json_tree_free(object);
    result = cli_run(t, "sequence", "show", "orders", NULL);
    assert_string_equal("5\n", result.out);
}

static void a_backup_never_overwrites(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_write_file(t, "copy.db", "precious", 8);
    cli_result result = cli_run(t, "store", "backup", "copy.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
    char *bytes = cli_read_file(t, "copy.db", NULL);
    assert_string_equal("precious", bytes);
    free(bytes);
    result = cli_run(t, "store", "backup", "nowhere/copy.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "store", "backup", "", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

static void postgres_is_backed_up_by_its_own_tools(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    const cli_result result = cli_run(t, "store", "backup", "copy.db", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    assert_contains(result.err, "pg_dump");
}

static void an_operator_can_begin_an_epoch_and_say_why(void **state)
{
    cli_fixture *t = *state;
    make_store(t);
    cli_result result = cli_run(t, "store", "new-epoch", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
    result = cli_run(t, "store", "new-epoch", "--why", "volume rolled back", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_int_equal(2, json_number(object, "epoch"));
    tide_json_tree_free(object);
    result = cli_run(t, "store", "epochs", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    object = json_read(tide_view_of(strchr(result.out, '\n') + 1));
    assert_int_equal(2, json_number(object, "epoch"));
    assert_string_equal("operator", json_text(object, "reason"));
    assert_string_equal("volume rolled back", json_text(object, "evidence"));
    tide_json_tree_free(object);
    result = cli_run(t, "store", "epochs", NULL);
    assert_contains(result.out, "volume rolled back");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_EVERY_ENGINE(info_names_engine_identity_schema_and_durability),
        CLI_TEST_EVERY_ENGINE(the_same_facts_are_told_to_people),
        CLI_TEST_SQLITE(a_password_in_the_url_is_not_printed),
        CLI_TEST_EVERY_ENGINE(a_sound_store_passes_its_check),
        CLI_TEST_SQLITE(a_damaged_store_fails_its_check_with_8),
        CLI_TEST_EVERY_ENGINE(a_current_schema_needs_no_migration),
        CLI_TEST_EVERY_ENGINE(migrating_nothing_ends_with_3),
        CLI_TEST_EVERY_ENGINE(a_newer_schema_is_refused),
        CLI_TEST_SQLITE(a_backup_goes_on_in_a_new_epoch),
        CLI_TEST_SQLITE(a_backup_never_overwrites),
        CLI_TEST(postgres_is_backed_up_by_its_own_tools, "postgres"),
        CLI_TEST_EVERY_ENGINE(an_operator_can_begin_an_epoch_and_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
