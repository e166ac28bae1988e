/* tidemark feed: streams listed, shown, followed, checked, exported, rescued. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/feed/feed_calls.h"

/* The object with this value under a key, among the lines of an output. The caller gives it back. */
static tide_json_node *find_line(const char *out, const char *key, const char *value)
{
    for (const char *line = out; *line;) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        tide_json_node *object = json_read(tide_view_bytes(line, (size_t)(end - line)));
        assert_non_null(object);
        const char *found = tide_json_node_text(tide_json_node_find(object, key));
        if (found && strcmp(found, value) == 0)
            return object;
        tide_json_tree_free(object);
        line = end + 1;
    }
    fail_msg("no line has %s = %s: %s", key, value, out);
    return NULL;
}

static int count_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* ---- ls ---- */

static void ls_tells_what_is_there_and_who_lags(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    feed_put_logs(t, 5, "web");
    feed_put_opaque(t, "orders", "x", 1);
    feed_settle(t, "logs", "colony-1", 4);
    cli_result result = cli_run(t, "feed", "ls", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(11, count_lines(result.out));
    tide_json_node *logs = find_line(result.out, "stream", "logs");
    assert_string_equal("seq_logs", json_text(logs, "sequence"));
    assert_int_equal(1, json_number(logs, "oldest_seq_id"));
    assert_int_equal(15, json_number(logs, "head_seq_id"));
    assert_int_equal(15, json_number(logs, "records"));
    assert_int_equal(2, json_number(logs, "batches"));
    assert_true(json_number(logs, "bytes") > 0);
    assert_int_equal(1, json_number(logs, "readers"));
    assert_int_equal(11, json_number(logs, "lag"));
    /* Unread records are given up after a day. */
    const double left = tide_json_node_real(tide_json_node_find(logs, "seconds_until_loss"));
    assert_true(left > 80000 && left <= 86400);
    tide_json_tree_free(logs);
    tide_json_node *orders = find_line(result.out, "stream", "orders");
    assert_true(json_is_null(tide_json_node_find(orders, "lag")));
    assert_true(json_is_null(tide_json_node_find(orders, "seconds_until_loss")));
    assert_true(json_is_false(tide_json_node_find(orders, "built_in")));
    tide_json_tree_free(orders);
    result = cli_run(t, "feed", "ls", NULL);
    assert_contains(result.out, "UNTIL LOSS");
    assert_contains(result.out, "23h 59m");
}

/* What everybody has read cannot be lost. */
static void nothing_unread_is_never_lost(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    feed_settle(t, "logs", "colony-1", 10);
    cli_result result = cli_run(t, "feed", "ls", "--json", NULL);
    tide_json_node *logs = find_line(result.out, "stream", "logs");
    assert_int_equal(0, json_number(logs, "lag"));
    assert_true(json_is_null(tide_json_node_find(logs, "seconds_until_loss")));
    tide_json_tree_free(logs);
}

/* ---- show ---- */

static void show_tells_readers_holes_and_batches(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    feed_put_logs(t, 5, "web");
    feed_put_logs(t, 5, "db");
    feed_damage(t, 11);
    feed_settle(t, "logs", "colony-1", 4); /* reading finds the damage */
    cli_result result = cli_run(t, "feed", "show", "logs", "--json", "--limit", "2", NULL);
    tide_json_node *shown = cli_json(&result);
    const tide_json_node *reader = tide_json_node_at(tide_json_node_find(shown, "readers"), 0);
    assert_string_equal("colony-1", json_text(reader, "reader"));
    assert_int_equal(4, json_number(reader, "position"));
    assert_int_equal(16, json_number(reader, "lag"));
    const tide_json_node *hole = tide_json_node_at(tide_json_node_find(shown, "holes"), 0);
    assert_int_equal(11, json_number(hole, "first_seq_id"));
    assert_int_equal(15, json_number(hole, "last_seq_id"));
    assert_string_equal("damaged", json_text(hole, "reason"));
    assert_true(tide_json_node_count(tide_json_node_find(shown, "newest_batches")) <= 2);
    const tide_json_node *batch =
        tide_json_node_at(tide_json_node_find(shown, "newest_batches"), 0);
    assert_int_equal(16, json_number(batch, "first_seq_id"));
    assert_int_equal(20, json_number(batch, "last_seq_id"));
    tide_json_tree_free(shown);
    result = cli_run(t, "feed", "show", "logs", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "colony-1");
    assert_contains(result.out, "damaged");
    result = cli_run(t, "feed", "show", "nothing", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
}

/* ---- tail ---- */

static void tail_prints_the_newest_or_those_from_a_number_on(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 30, "api");
    cli_result result = cli_run(t, "feed", "tail", "logs", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(10, count_lines(result.out));
    assert_true(strncmp(result.out, "{\"seq_id\":21,", 13) == 0);
    result = cli_run(t, "feed", "tail", "logs", "--json", "--limit", "100", NULL);
    assert_int_equal(30, count_lines(result.out));
    assert_string_equal("", result.err);
    result = cli_run(t, "feed", "tail", "logs", "--from", "29", NULL);
    assert_int_equal(2, count_lines(result.out));
    assert_contains(result.out, "        29  2023-11-14T22:13:20.028000Z  {\"seq_id\":29,");
    result = cli_run(t, "feed", "tail", "nothing", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
}

/* Numbers that are gone are told, so that nobody takes a hole for silence. */
static void tail_tells_what_is_gone(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 3, "api");
    feed_put_logs(t, 3, "web");
    feed_damage(t, 1);
    cli_result result = cli_run(t, "feed", "tail", "logs", "--from", "1", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(3, count_lines(result.out));
    assert_contains(result.err, "1 to 3 are gone: damaged");
}

static void read_line(proc *child, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && read(child->out_fd, out + len, 1) == 1 && out[len] != '\n')
        len++;
    out[len] = '\0';
}

/* What another process commits comes, in order; Ctrl-C ends it with 130. */
static void follow_prints_what_comes(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 1, "first");
    const char *const argv[] = {t->program, "feed", "tail", "logs", "--follow", "--json", NULL};
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    proc child;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    char line[1024];
    read_line(&child, line, sizeof line);
    assert_contains(line, "\"body\":\"first 1\"");
    feed_put_logs(t, 2, "second");
    read_line(&child, line, sizeof line);
    assert_contains(line, "\"body\":\"second 1\"");
    read_line(&child, line, sizeof line);
    assert_contains(line, "{\"seq_id\":3,");
    assert_ok_err(proc_kill(&child, SIGINT, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(TIDE_EXIT_INTERRUPTED, child.exit_code);
    proc_done(&child);
}

/* ---- verify: the contract ---- */

static void verify_of_sound_streams_ends_with_0(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    cli_result result = cli_run(t, "feed", "verify", NULL);
    assert_int_equal(0, result.exit_code);
    assert_string_equal("sound: 10 streams\n", result.out);
    result = cli_run(t, "feed", "verify", "logs", "--json", NULL);
    tide_json_node *verdict = cli_json(&result);
    assert_true(json_is_true(tide_json_node_find(verdict, "sound")));
    assert_int_equal(1, json_number(verdict, "streams"));
    tide_json_tree_free(verdict);
    result = cli_run(t, "feed", "verify", "nothing", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
}

static void verify_ends_with_8_when_damage_is_found(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    feed_put_logs(t, 10, "web");
    feed_damage(t, 11);
    cli_result result = cli_run(t, "feed", "verify", "--json", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    tide_json_node *finding = find_line(result.out, "stream", "logs");
    assert_contains(json_text(finding, "finding"), "11 to 20");
    tide_json_tree_free(finding);
    assert_contains(result.out, "\"sound\":false}");
    result = cli_run(t, "feed", "verify", "telemetry", NULL);
    assert_int_equal(0, result.exit_code);
    result = cli_run(t, "feed", "verify", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    assert_contains(result.err, "salvage");
    /* What is said at the end is of all streams, not of the last one. */
    feed_put_opaque(t, "orders", "x", 1);
    feed_damage(t, 1); /* of both streams */
    result = cli_run(t, "feed", "verify", NULL);
    assert_contains(result.out, "3 findings");
    assert_contains(result.err, "3 findings");
}

/* Looking changes nothing: no receipt, no file beside the store. */
static void verify_and_tail_write_nothing(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 10, "api");
    feed_damage(t, 1);
    size_t before_len = 0;
    char *before = cli_read_file(t, "store.db", &before_len);
    cli_run(t, "feed", "verify", NULL);
    cli_run(t, "feed", "tail", "logs", NULL);
    cli_run(t, "feed", "ls", NULL);
    size_t len = 0;
    char *after = cli_read_file(t, "store.db", &len);
    assert_int_equal(before_len, len);
    assert_memory_equal(before, after, len);
    free(before);
    free(after);
}

/* ---- dump ---- */

static void dump_writes_lines_of_json(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 20, "api");
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "logs.jsonl", path);
    cli_result result =
        cli_run(t, "feed", "dump", "logs", path, "--from", "5", "--to", "7", "--json", NULL);
    tide_json_node *done = cli_json(&result);
    assert_int_equal(3, json_number(done, "records"));
    tide_json_tree_free(done);
    char *lines = cli_read_file(t, "logs.jsonl", NULL);
    assert_int_equal(3, count_lines(lines));
    assert_true(strncmp(lines, "{\"seq_id\":5,\"timestamp\":1700000000004,", 38) == 0);
    free(lines);
    result = cli_run(t, "feed", "dump", "logs", path, NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
    result = cli_run(t, "feed", "dump", "logs", "-", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(20, count_lines(result.out));
    result = cli_run(t, "feed", "dump", "logs", "-", "--from", "7", "--to", "5", NULL);
    cli_assert_fails(&result, TIDE_EXIT_USAGE);
}

/* The rest is saved, and it is told that it is not all. */
static void dump_of_a_damaged_stream_ends_with_8(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 5, "api");
    feed_put_logs(t, 5, "web");
    feed_damage(t, 1);
    cli_result result = cli_run(t, "feed", "dump", "logs", "-", NULL);
    assert_int_equal(TIDE_EXIT_DAMAGED, result.exit_code);
    assert_int_equal(5, count_lines(result.out));
    assert_contains(result.err, "1 to 5 are gone: damaged");
}

/* ---- salvage ---- */

static void salvage_copies_what_is_readable(void **state)
{
    cli_fixture *t = *state;
    feed_put_logs(t, 5, "api");
    feed_put_logs(t, 5, "web");
    char sound[TEMPDIR_PATH_MAX];
    char rescued[TEMPDIR_PATH_MAX];
    cli_path(t, "sound.db", sound);
    cli_path(t, "rescued.db", rescued);
    cli_result result = cli_run(t, "feed", "salvage", sound, "--json", NULL);
    tide_json_node *saved = cli_json(&result);
    assert_int_equal(10, json_number(saved, "records"));
    assert_int_equal(0, json_number(saved, "lost_records"));
    tide_json_tree_free(saved);
    feed_damage(t, 1);
    result = cli_run(t, "feed", "salvage", rescued, NULL);
    assert_int_equal(TIDE_EXIT_PARTIAL, result.exit_code);
    result = cli_run(t, "feed", "verify", "--store", rescued, NULL);
    assert_int_equal(0, result.exit_code);
    result =
        cli_run(t, "sql", "SELECT seq_id, body FROM logs_local", "--store", rescued, "--csv", NULL);
    assert_string_equal("seq_id,body\n6,web 1\n7,web 2\n8,web 3\n9,web 4\n10,web 5\n", result.out);
    result = cli_run(t, "feed", "salvage", rescued, NULL);
    cli_assert_fails(&result, TIDE_EXIT_CONFLICT);
}

/* ---- other stores ---- */

static void streams_are_for_sqlite(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    cli_result result = cli_run(t, "feed", "ls", NULL);
    assert_int_equal(cli_is_postgres(t) ? TIDE_EXIT_USAGE : 0, result.exit_code);
    if (cli_is_postgres(t))
        assert_contains(result.err, "SQLite");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(ls_tells_what_is_there_and_who_lags),
        CLI_TEST_SQLITE(nothing_unread_is_never_lost),
        CLI_TEST_SQLITE(show_tells_readers_holes_and_batches),
        CLI_TEST_SQLITE(tail_prints_the_newest_or_those_from_a_number_on),
        CLI_TEST_SQLITE(tail_tells_what_is_gone),
        CLI_TEST_SQLITE(follow_prints_what_comes),
        CLI_TEST_SQLITE(verify_of_sound_streams_ends_with_0),
        CLI_TEST_SQLITE(verify_ends_with_8_when_damage_is_found),
        CLI_TEST_SQLITE(verify_and_tail_write_nothing),
        CLI_TEST_SQLITE(dump_writes_lines_of_json),
        CLI_TEST_SQLITE(dump_of_a_damaged_stream_ends_with_8),
        CLI_TEST_SQLITE(salvage_copies_what_is_readable),
        CLI_TEST_EVERY_ENGINE(streams_are_for_sqlite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
