/* tidemark checkpoint, on every engine: numbers, ranges, files, forks, damage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/work/work_calls.h"

/* ---- add, range, head ---- */

static void add_prints_id_and_both_numbers(void **state)
{
    cli_fixture *t = *state;
    assert_string_equal("0\n", work_ok(t, "$T checkpoint head"));
    tide_json_node *object =
        work_object(t, "$T checkpoint add --task t --type iteration_end --data '{\"i\": 3}' "
                       "--message 'so far' --tag good --tag old --json");
    assert_int_equal(7, tide_json_node_count(object));
    assert_int_equal(36, strlen(json_text(object, "checkpoint_id")));
    assert_int_equal(1, json_number(object, "sequence_number"));
    assert_int_equal(1, json_number(object, "global_sequence"));
    tide_json_tree_free(object);
    work_ok(t, "$T task create other --task u");
    object = work_object(
        t, "echo '[1]' | $T checkpoint add --task u --type manual_checkpoint --data - --json");
    assert_int_equal(1, json_number(object, "sequence_number"));
    assert_int_equal(2, json_number(object, "global_sequence"));
    tide_json_tree_free(object);
    assert_string_equal("2\n", work_ok(t, "$T checkpoint head"));
    object = work_object(t, "$T checkpoint show 1 --json");
    assert_string_equal("iteration_end", json_text(object, "checkpoint_type"));
    assert_string_equal("so far", json_text(object, "message"));
    assert_string_equal("[\"good\",\"old\"]", work_value(t, object, "tags"));
    assert_string_equal("{\"i\":3}", work_value(t, object, "snapshot_data"));
    assert_string_equal("manual", json_text(object, "trigger"));
    tide_json_tree_free(object);
}

static void add_three(cli_fixture *t)
{
    work_ok(t, "$T task create other --task u && $T checkpoint add --task t --data 1 --key a && "
               "$T checkpoint add --task u --data 2 --key b && $T checkpoint add --task t --data 3 "
               "--key c --tag x");
}

/* The ids that a command prints, in order. */
static const char *ids_of(cli_fixture *t, const char *words)
{
    return work_ok(t,
                   "$T checkpoint %s --json | sed 's/.*\"checkpoint_id\":\"\\([^\"]*\\)\".*/\\1/' "
                   "| tr '\\n' ' '",
                   words);
}

static void ranges_include_both_ends_across_tasks_in_order(void **state)
{
    cli_fixture *t = *state;
    add_three(t);
    assert_string_equal("a b c ", ids_of(t, "range 1 3"));
    assert_string_equal("b c ", ids_of(t, "range 2 99"));
    assert_string_equal("b ", ids_of(t, "range 2 2"));
    assert_string_equal("a c ", ids_of(t, "range 1 3 --task t"));
    assert_string_equal("", ids_of(t, "range 0 0"));
    assert_string_equal("", ids_of(t, "range 4 9223372036854775807"));
    assert_string_equal("c b a ", ids_of(t, "ls"));
    assert_string_equal("c ", ids_of(t, "ls --tag x"));
    assert_string_equal("c ", ids_of(t, "ls --limit 1"));
    assert_string_equal("a ", ids_of(t, "ls --to 1"));
    assert_string_equal("", ids_of(t, "ls --type llm_response"));
    assert_string_equal("", ids_of(t, "ls --until 1h"));
    assert_string_equal("c b a ", ids_of(t, "ls --since 1h"));
    assert_string_equal("b c ", ids_of(t, "tail --from 2"));
    work_refuses(t, 2, "ends before", "$T checkpoint range 3 1");
    work_refuses(t, 2, "", "$T checkpoint range -1 3");
    work_refuses(t, 2, "", "$T checkpoint range 1 x");
    work_refuses(t, 2, "", "$T checkpoint range 1");
}

/* With an expected number: written if it is the next, else conflict. */
static void an_expected_number_is_taken_or_refused(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data 1 --expect 1");
    work_refuses(t, 4, "", "$T checkpoint add --task t --data 1 --expect 1");
    work_refuses(t, 4, "", "$T checkpoint add --task t --data 1 --expect 9");
    assert_string_equal("2\n", work_ok(t, "$T checkpoint add --task t --data 1 --expect 2"));
    /* An id given again with the same content changes nothing. */
    assert_string_equal("3\n", work_ok(t, "$T checkpoint add --task t --data 1 --key k"));
    assert_string_equal("3\n", work_ok(t, "$T checkpoint add --task t --data 1 --key k"));
    assert_non_null(strstr(work_ok(t, "$T checkpoint add --task t --data 1 --key k --json"),
                           "\"is_existing\":true"));
    work_refuses(t, 4, "", "$T checkpoint add --task t --data 2 --key k");
    work_refuses(t, 2, "", "$T checkpoint add --task t --data 1 --expect 0");
}

/* A position of another epoch: what is common is named once, and the tail continues behind it. */
static void a_tail_reports_that_history_was_cut(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data 1 && $T checkpoint add --task t --data 2");
    tide_json_node *object = work_object(t, "$T checkpoint head --json");
    const char *epoch_id = work_value(t, object, "epoch_id");
    assert_int_equal(2, json_number(object, "global_sequence"));
    tide_json_tree_free(object);
    assert_string_equal("", work_ok(t, "$T checkpoint tail --from 3 --epoch-id %s", epoch_id));
    work_ok(t, "$T store new-epoch --why test");
    work_ok(t, "$T checkpoint add --task t --data 3");
    object =
        work_object(t, "$T checkpoint tail --from 9 --epoch-id %s --json | head -n 1", epoch_id);
    assert_string_equal("epoch_changed", json_text(object, "event"));
    assert_int_equal(2, json_number(object, "epoch"));
    assert_int_equal(2, json_number(object, "last_common"));
    assert_string_not_equal(epoch_id, json_text(object, "epoch_id"));
    tide_json_tree_free(object);
    object =
        work_object(t, "$T checkpoint tail --from 9 --epoch-id %s --json | tail -n 1", epoch_id);
    assert_int_equal(3, json_number(tide_json_node_find(object, "checkpoint"), "global_sequence"));
    assert_int_equal(2, json_number(object, "epoch"));
    assert_string_equal(json_text(tide_json_node_find(object, "checkpoint"), "session_id"),
                        json_text(object, "session_id"));
    assert_string_equal(json_text(tide_json_node_find(object, "checkpoint"), "epoch_id"),
                        json_text(object, "epoch_id"));
    tide_json_tree_free(object);
    work_ok(t, "$T checkpoint delete 1");
    object = work_object(t, "$T checkpoint tail --json | tail -n 1");
    assert_string_equal("deleted", json_text(object, "event"));
    assert_int_equal(2, json_number(object, "epoch"));
    tide_json_tree_free(object);
    work_refuses(t, 4, "",
                 "$T checkpoint tail --epoch-id 00000000-0000-4000-8000-000000000000 --json");
    work_refuses(t, 2, "", "$T checkpoint tail --epoch-id x");
}

static void a_tail_follows_what_comes(void **state)
{
    cli_fixture *t = *state;
    proc child;
    work_ok(t, "$T checkpoint add --task t --data 1 --key a");
    work_start(t, &child, "exec $T checkpoint tail --follow --json");
    assert_contains(work_read_line(t, &child), "\"checkpoint_id\":\"a\"");
    work_ok(t, "$T checkpoint add --task t --data 2 --key b");
    assert_contains(work_read_line(t, &child), "\"checkpoint_id\":\"b\"");
    proc_done(&child);
}

static void large_states_come_back_whole(void **state)
{
    cli_fixture *t = *state;
    work_ok(
        t,
        "head -c 200000 /dev/urandom | base64 -w0 | sed 's/.*/{\"s\":\"&\"}/' > state.json; "
        "$T checkpoint add --task t --data @state.json && $T checkpoint restore 1 --out back.json");
    work_ok(t, "printf '%%s' \"$(cat state.json)\" | cmp - back.json");
    work_ok(t, "$T checkpoint restore 1 | head -c -1 | cmp - state.json");
    work_refuses(t, 4, "exists", "$T checkpoint restore 1 --out back.json");
    work_refuses(t, 3, "",
                 "$T checkpoint restore 2 --out new.json; r=$?; test ! -e new.json && exit $r");
}

/* ---- export, import ---- */

static void make_history(cli_fixture *t)
{
    add_three(t);
    work_ok(t,
            "$T checkpoint add --task t --type iteration_end --data '{\"iteration\":1}' --key d && "
            "$T checkpoint add-type mine --message 'of my own' && $T checkpoint add --task u "
            "--type mine --data '\"x\"' --key e && "
            "$T checkpoint annotate d --note 'look here' --severity warning");
}

/* Out of one store and into an empty one: the same rows under the same numbers. Again: nothing changes. */
static void an_export_is_imported_once_and_keeps_its_numbers(void **state)
{
    cli_fixture *t = *state;
    make_history(t);
    tide_json_node *object = work_object(t, "$T checkpoint export out.jsonl --json");
    assert_int_equal(2, json_number(object, "tasks"));
    assert_int_equal(5, json_number(object, "checkpoints"));
    assert_int_equal(5, json_number(object, "global_sequence"));
    tide_json_tree_free(object);
    work_refuses(t, 4, "exists", "$T checkpoint export out.jsonl");
    work_ok(t, "$T checkpoint export - 2>words | cmp - out.jsonl || test -s words");
    object = work_object(t, "TIDEMARK_STORE=other.db $T checkpoint import out.jsonl --json");
    assert_int_equal(5, json_number(object, "checkpoints"));
    assert_int_equal(0, json_number(object, "renumbered"));
    tide_json_tree_free(object);
    assert_string_equal(
        work_ok(t, "$T checkpoint range 1 9 --json | sed "
                   "'s/,\"created_at.*snapshot_len/ /; s/,\"origin_.*/}/; s/,\"session_id.*/}/'"),
        work_ok(t, "TIDEMARK_STORE=other.db $T checkpoint range 1 9 --json | sed "
                   "'s/,\"created_at.*snapshot_len/ /; s/,\"origin_.*/}/; s/,\"session_id.*/}/'"));
    work_ok(t, "TIDEMARK_STORE=other.db $T checkpoint verify");
    assert_string_equal(
        "6\n",
        work_ok(t, "TIDEMARK_STORE=other.db $T checkpoint add --task u --type mine --data 1"));
    /* ... and back into where it came from. */
    const char *before = work_query(t, "SELECT count(*), max(global_sequence) FROM checkpoints");
    object = work_object(t, "$T checkpoint import - --json < out.jsonl");
    assert_int_equal(0, json_number(object, "checkpoints"));
    assert_int_equal(5, json_number(object, "skipped"));
    tide_json_tree_free(object);
    assert_string_equal(before,
                        work_query(t, "SELECT count(*), max(global_sequence) FROM checkpoints"));
}

/* Into a store that has numbers of its own: new ones, in the same order, and the old ones are kept. */
static void an_import_into_a_used_store_gets_new_numbers(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "export TIDEMARK_STORE=other.db; $T task create o --task o && $T checkpoint add "
               "--task o --data 7 && "
               "$T checkpoint add --task o --data 8 && $T checkpoint export out.jsonl");
    work_ok(t, "$T checkpoint add --task t --data 1");
    tide_json_node *object = work_object(t, "$T checkpoint import out.jsonl --json");
    assert_int_equal(2, json_number(object, "renumbered"));
    tide_json_tree_free(object);
    object = work_object(t, "$T checkpoint show 2 --json");
    assert_string_equal("7", work_value(t, object, "snapshot_data"));
    assert_int_equal(1, json_number(object, "origin_global"));
    tide_json_tree_free(object);
    assert_string_equal("3\n", work_ok(t, "$T checkpoint head"));
    work_ok(t, "$T checkpoint verify");
}

/* All or nothing: cut anywhere, or with one byte changed. */
static void a_damaged_file_is_refused_and_changes_nothing(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "export TIDEMARK_STORE=other.db; $T task create o --task o && $T checkpoint add "
               "--task o --data '{\"page\":7}' && "
               "$T checkpoint add --task o --data 8 && $T checkpoint export out.jsonl");
    work_refuses(t, 8, "", "sed '$d' out.jsonl > cut; $T checkpoint import cut");
    work_refuses(t, 8, "", "head -c -20 out.jsonl > cut; $T checkpoint import cut");
    work_refuses(t, 8, "", "head -n 1 out.jsonl > cut; $T checkpoint import cut");
    work_refuses(t, 8, "",
                 "sed 's/\"page/\"pagf/; s/page\\\\\"/pagf\\\\\"/' out.jsonl > bad; ! cmp -s bad "
                 "out.jsonl && $T checkpoint import bad");
    work_refuses(t, 8, "", "cat out.jsonl out.jsonl > twice; $T checkpoint import twice");
    work_refuses(t, 8, "",
                 "{ head -n 2 out.jsonl; printf '\\377\\n'; tail -n +3 out.jsonl; } > bad; $T "
                 "checkpoint import bad");
    work_refuses(t, 3, "nofile", "$T checkpoint import nofile");
    work_refuses(t, 1, "", "$T checkpoint import .");
    const cli_result empty = work_run(t, "$T checkpoint import - < /dev/null");
    assert_in_range(empty.exit_code, 2, 8);
    const cli_result foreign = work_run(t, "echo '{\"hello\":1}' | $T checkpoint import -");
    assert_in_range(foreign.exit_code, 2, 8);
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM checkpoints"));
}

/* ---- compact, archive, delete ---- */

static void compaction_keeps_what_was_asked_and_what_resuming_needs(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "for i in 1 2 3 4 5 6; do $T checkpoint add --task t --type state_transition --data "
               "$i --key c$i || exit; done;"
               "$T checkpoint add --task t --data 7 --tag keep --key c7");
    tide_json_node *object = work_object(t, "$T checkpoint compact --keep 2 --dry-run --json");
    const long long would = json_number(object, "removed");
    assert_true(would > 0);
    tide_json_tree_free(object);
    assert_string_equal("7", work_query(t, "SELECT count(*) FROM checkpoints"));
    object = work_object(t, "$T checkpoint compact --keep 2 --json");
    assert_int_equal(would, json_number(object, "removed"));
    assert_int_equal(7, would + json_number(object, "kept"));
    tide_json_tree_free(object);
    assert_contains(work_ok(t, "$T checkpoint verify"), "0 missing");
    assert_string_equal("8\n",
                        work_ok(t, "$T checkpoint add --task t --data 8")); /* numbers stay spent */
}

static void archive_exports_first_and_then_removes(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "for i in 1 2 3 4; do $T checkpoint add --task t --type state_transition --data $i "
               "|| exit; done");
    work_refuses(t, 2, "file", "$T checkpoint archive -");
    tide_json_node *object = work_object(t, "$T checkpoint archive old.jsonl --keep 1 --json");
    assert_int_equal(4, json_number(object, "checkpoints"));
    const long long removed = json_number(object, "removed");
    assert_true(removed > 0);
    tide_json_tree_free(object);
    assert_string_equal(work_text(t, "%lld", 4 - removed),
                        work_query(t, "SELECT count(*) FROM checkpoints"));
    work_refuses(t, 4, "exists", "$T checkpoint archive old.jsonl --keep 1");
    object = work_object(t, "TIDEMARK_STORE=other.db $T checkpoint import old.jsonl --json");
    assert_int_equal(4, json_number(object, "checkpoints"));
    tide_json_tree_free(object);
}

static void delete_removes_one_unless_it_is_needed(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --type state_transition --data 1 && $T checkpoint add "
               "--task t --type iteration_end --data 2");
    work_refuses(t, 4, "", "$T checkpoint delete 2");
    work_ok(t, "$T checkpoint delete 2 --force");
    work_refuses(t, 3, "", "$T checkpoint delete 2");
    work_ok(t, "$T checkpoint verify");
    assert_contains(work_ok(t, "$T checkpoint tail --json"), "\"event\":\"deleted\"");
}

/* ---- fork, diff, verify ---- */

static void a_fork_shares_the_history_up_to_its_point(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data '{\"n\":1}' --key a && $T checkpoint add --task "
               "t --data '{\"n\":2}' --key b");
    tide_json_node *object = work_object(t, "$T checkpoint fork a --title branch --json");
    const char *fork = work_value(t, object, "task_id");
    tide_json_tree_free(object);
    assert_string_equal("2\n", work_ok(t, "$T checkpoint head")); /* nothing is copied */
    object = work_object(t, "$T checkpoint add --task %s --data '{\"n\":3}' --key c --json", fork);
    assert_int_equal(2, json_number(object, "sequence_number"));
    tide_json_tree_free(object);
    assert_string_equal("a c ", ids_of(t, work_text(t, "range 1 9 --task %s", fork)));
    object = work_object(t, "$T task show %s --json", fork);
    assert_string_equal("t", json_text(object, "forked_from"));
    tide_json_tree_free(object);
    work_refuses(t, 4, "", "$T task delete t");
    work_refuses(t, 4, "", "$T checkpoint delete a --force");
    work_refuses(t, 4, "", "$T checkpoint fork a --task t");
    work_ok(t, "$T checkpoint verify");
}

static void diff_tells_what_differs_by_path(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data '{\"a\":1,\"b\":[1,2],\"c\":null}' && "
               "$T checkpoint add --task t --data '{\"a\":1.0,\"b\":[1,3],\"d/e\":true}'");
    tide_json_node *list = work_objects(t, "$T checkpoint diff 1 2 --json");
    char *seen = strdup("");
    for (size_t i = 0; i < tide_json_node_count(list); i++) {
        const tide_json_node *one = tide_json_node_at(list, i);
        char *more = NULL;
        assert_true(
            asprintf(&more, "%s%s %s; ", seen, json_text(one, "kind"), json_text(one, "path")) > 0);
        free(seen);
        seen = more;
    }
    tide_json_tree_free(list);
    assert_contains(seen, "changed /b/1; ");
    assert_contains(seen, "removed /c; ");
    assert_contains(seen, "added /d~1e; ");
    assert_null(strstr(seen, "/a"));
    free(seen);
    assert_contains(work_ok(t, "$T checkpoint diff 1 2"), "- /b/1 2\n+ /b/1 3\n");
    assert_string_equal("", work_ok(t, "$T checkpoint diff 1 1 --json"));
    work_refuses(t, 3, "", "$T checkpoint diff 1 9");
}

/* Somebody with other means than ours has changed what is stored. */
static void change_behind_the_guards(cli_fixture *t, const char *sql)
{
    if (cli_is_postgres(t)) {
        work_sql(t, work_text(t, "SET session_replication_role = replica; %s", sql));
        return;
    }
    const char *drop = work_rows(
        t, "SELECT 'DROP TRIGGER ' || name || ';' FROM sqlite_master WHERE type = 'trigger'");
    const char *make = work_rows(t, "SELECT sql || ';' FROM sqlite_master WHERE type = 'trigger'");
    cli_sql(t, "store.db", work_text(t, "BEGIN; %s %s; %s COMMIT", drop, sql, make));
}

static void expect_damage(cli_fixture *t, const char *part)
{
    const cli_result result = work_run(t, "$T checkpoint verify --json");
    if (result.exit_code != 8 || !strstr(result.out, part))
        fail_msg("want 8 and '%s', got %d: %s%s", part, result.exit_code, result.out, result.err);
}

static void verify_ends_with_8_when_something_is_damaged(void **state)
{
    cli_fixture *t = *state;
    add_three(t);
    assert_string_equal("{\"valid\":3,\"invalid\":0,\"skipped\":0,\"missing\":0,\"is_sound\":true,"
                        "\"findings\":[]}\n",
                        work_ok(t, "$T checkpoint verify --json"));
    change_behind_the_guards(
        t, "UPDATE checkpoints SET snapshot_data = '4' WHERE checkpoint_id = 'c'");
    expect_damage(t, "\"invalid\":1");
    cli_result result = work_run(t, "$T checkpoint restore c");
    cli_assert_fails(&result, 8);
    assert_contains(work_ok(t, "$T checkpoint verify --task u"), "1 valid, 0 invalid");
    change_behind_the_guards(
        t, "UPDATE checkpoints SET snapshot_data = '3' WHERE checkpoint_id = 'c'");
    work_ok(t, "$T checkpoint verify");
    change_behind_the_guards(t, "DELETE FROM checkpoints WHERE checkpoint_id = 'b'");
    expect_damage(t, "\"missing\":1");
}

/* ---- more about a checkpoint ---- */

static void annotations_and_types_of_ones_own(void **state)
{
    cli_fixture *t = *state;
    work_refuses(t, 2, "", "$T checkpoint add --task t --type mine --data 1");
    work_ok(t,
            "$T checkpoint add-type mine --resumable && $T checkpoint add-type mine --resumable");
    work_ok(t, "$T checkpoint add --task t --type mine --data 1");
    assert_contains(work_ok(t, "$T checkpoint annotate 1 --note 'look' --severity critical --json"),
                    "annotation_id");
    work_refuses(t, 2, "", "$T checkpoint annotate 1 --note x --severity loud");
    work_refuses(t, 3, "", "$T checkpoint annotate 2 --note x");
    tide_json_node *object = work_object(t, "$T checkpoint show 1 --json");
    assert_string_equal(
        "look",
        json_text(tide_json_node_at(tide_json_node_find(object, "annotations"), 0), "note"));
    tide_json_tree_free(object);
}

/* Only values of harmless names are kept. */
static void the_environment_is_captured_without_secrets(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "SECRET_TOKEN=hush LANG=C $T checkpoint add --task t --data 1 --env SECRET_TOKEN "
               "--env LANG --env NOT_SET --metadata '{\"a\":1}'");
    tide_json_node *object = work_object(t, "$T checkpoint show 1 --json");
    const tide_json_node *metadata = tide_json_node_find(object, "metadata");
    assert_string_equal("{\"LANG\":\"C\",\"NOT_SET\":null,\"SECRET_TOKEN\":\"[redacted]\"}",
                        work_value(t, metadata, "env"));
    assert_int_equal(1, json_number(metadata, "a"));
    assert_string_equal(t->dir.path, json_text(metadata, "working_dir"));
    tide_json_tree_free(object);
    work_ok(t, "SECRET_TOKEN=hush $T checkpoint add --task t --data 1 --env '*'");
    assert_null(strstr(work_ok(t, "$T checkpoint ls --json"), "hush"));
    work_refuses(t, 2, "", "$T checkpoint add --task t --data 1 --env A=B");
}

static void bad_ids_are_refused_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data 1");
    work_refuses(t, 3, "nobody", "$T checkpoint add --task nobody --data 1");
    work_refuses(t, 3, "nobody", "$T checkpoint show nobody");
    work_refuses(t, 3, "nobody", "$T checkpoint show nobody --json");
    work_refuses(t, 3, "nobody", "$T checkpoint fork nobody");
    work_refuses(t, 3, "nobody",
                 "$T checkpoint export --task nobody x.jsonl; r=$?; test ! -e x.jsonl && exit $r");
    work_refuses(t, 3, "nobody", "$T checkpoint compact --task nobody");
    work_refuses(t, 3, "nobody", "$T checkpoint verify --task nobody");
    work_refuses(t, 3, "nobody", "$T checkpoint add --task t --data 1 --work-item nobody");
}

static void bad_words_are_refused_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "head -c 51000000 /dev/zero | tr '\\0' 1 > big");
    static const struct {
        const char *part, *words;
    } bad[] = {
        {"JSON", "checkpoint add --task t --data '{\"a\"'"},
        {"JSON", "checkpoint add --task t --data ''"},
        {"UTF-8", "checkpoint add --task t --data \"$(printf '\"\\377\"')\""},
        {"", "checkpoint add --task t --data 1 --message \"$(printf '\\377')\""},
        {"", "checkpoint add --task t --data 1 --tag ''"},
        {"", "checkpoint add --task t --data 1 --tag \"$(printf '%0200d' 0)\""},
        {"", "checkpoint add --task t --data 1 --trigger nonsense"},
        {"", "checkpoint add --task t --data 1 --type nonsense"},
        {"", "checkpoint add --task t --data 1 --metadata '['"},
        {"", "checkpoint add --task t --data 1 --key ''"},
        {"longer", "checkpoint add --task t --data @big"},
        {"--data", "checkpoint add --task t"},
        {"--task", "checkpoint add --data 1"},
        {"", "checkpoint compact --keep -1"},
        {"", "checkpoint ls --limit 0"},
        {"", "checkpoint ls --since tomorrowish"},
        {"", "checkpoint tail --from -1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        work_refuses(t, 2, bad[i].part, "$T %s", bad[i].words);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(add_prints_id_and_both_numbers),
        WORK_EVERY_ENGINE(ranges_include_both_ends_across_tasks_in_order),
        WORK_EVERY_ENGINE(an_expected_number_is_taken_or_refused),
        WORK_EVERY_ENGINE(a_tail_reports_that_history_was_cut),
        WORK_EVERY_ENGINE(a_tail_follows_what_comes),
        WORK_EVERY_ENGINE(large_states_come_back_whole),
        WORK_EVERY_ENGINE(an_export_is_imported_once_and_keeps_its_numbers),
        WORK_EVERY_ENGINE(an_import_into_a_used_store_gets_new_numbers),
        WORK_EVERY_ENGINE(a_damaged_file_is_refused_and_changes_nothing),
        WORK_EVERY_ENGINE(compaction_keeps_what_was_asked_and_what_resuming_needs),
        WORK_EVERY_ENGINE(archive_exports_first_and_then_removes),
        WORK_EVERY_ENGINE(delete_removes_one_unless_it_is_needed),
        WORK_EVERY_ENGINE(a_fork_shares_the_history_up_to_its_point),
        WORK_EVERY_ENGINE(diff_tells_what_differs_by_path),
        WORK_EVERY_ENGINE(verify_ends_with_8_when_something_is_damaged),
        WORK_EVERY_ENGINE(annotations_and_types_of_ones_own),
        WORK_EVERY_ENGINE(the_environment_is_captured_without_secrets),
        WORK_EVERY_ENGINE(bad_ids_are_refused_and_change_nothing),
        WORK_TEST_SQLITE(bad_words_are_refused_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
