/* tidemark task, on every engine; and resuming a task under its lease. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/work/work_calls.h"

/* Scripts rely on it: one member, the id. */
static void create_prints_the_id_and_nothing_else(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object = work_object(t, "$T task create 'nightly import' --json");
    assert_int_equal(1, tide_json_node_count(object));
    const char *id = work_value(t, object, "task_id");
    tide_json_tree_free(object);
    assert_int_equal(36, strlen(id));
    object = work_object(t, "$T task show %s --json", id);
    assert_string_equal("nightly import", json_text(object, "title"));
    assert_string_equal("pending", json_text(object, "status"));
    assert_true(json_is_null(tide_json_node_find(object, "completed_at")));
    tide_json_tree_free(object);
    assert_string_equal("mine\n",
                        work_ok(t, "$T task create x --task mine --metadata '{\"a\": 1}'"));
    object = work_object(t, "$T task show mine --json");
    assert_string_equal("{\"a\":1}", work_value(t, object, "metadata"));
    tide_json_tree_free(object);
}

static void ls_lists_the_newest_first_and_by_status(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T task create second --task u");
    work_ok(t, "$T task cancel u");
    tide_json_node *list = work_objects(t, "$T task ls --json");
    assert_int_equal(2, tide_json_node_count(list));
    assert_string_equal("u", json_text(tide_json_node_at(list, 0), "task_id"));
    assert_string_equal("cancelled", json_text(tide_json_node_at(list, 0), "status"));
    tide_json_tree_free(list);
    list = work_objects(t, "$T task ls --status pending --json");
    assert_int_equal(1, tide_json_node_count(list));
    assert_string_equal("t", json_text(tide_json_node_at(list, 0), "task_id"));
    tide_json_tree_free(list);
    assert_contains(work_ok(t, "$T task ls"), "STATUS");
    assert_string_equal("", work_ok(t, "$T task ls --status failed --json"));
}

/* Its items go with it: pending ones end, held ones are fenced off. */
static void cancel_ends_the_items_and_fences_their_holders(void **state)
{
    cli_fixture *t = *state;
    const char *pending = work_add(t, "--type b");
    work_add(t, "--type a");
    const work_held held = work_claim(t, "--type a");
    assert_string_equal("{\"task_id\":\"t\",\"result\":\"cancelled\"}\n",
                        work_ok(t, "$T task cancel t --json"));
    assert_member(t, pending, "failure_kind", "cancelled");
    assert_member(t, held.id, "status", "failed");
    work_refuses(t, 4, "", "$T work finish %s --token %lld", held.id, held.token);
    work_ok(t, "$T task cancel t"); /* again: fine */
    work_refuses(t, 4, "", "$T task finish t");
    work_refuses(t, 4, "ended", "$T work add --task t --type a");
}

static void finish_is_refused_while_items_are_unfinished(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type a");
    work_refuses(t, 4, "", "$T task finish t");
    work_refuses(t, 2, "succeeded or failed", "$T task finish t --status cancelled");
    assert_string_equal("t succeeded\n", work_ok(t, "$T task finish t --cancel-rest"));
    tide_json_node *object = work_object(t, "$T task show t --json");
    assert_string_equal("succeeded", json_text(object, "status"));
    assert_string_equal(
        "{\"completed\":0,\"expired\":0,\"failed\":1,\"in_progress\":0,\"pending\":0}",
        work_value(t, object, "items"));
    tide_json_tree_free(object);
    work_refuses(t, 4, "", "$T task cancel t");
}

static void delete_removes_everything_of_it(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type a");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T checkpoint add --task t --data '{}'");
    work_refuses(t, 4, "", "$T task delete t");
    work_ok(t, "$T task delete t --force");
    work_refuses(t, 3, "'t'", "$T task show t");
    work_refuses(t, 3, "", "$T work show %s", held.id);
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM checkpoints"));
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM work_attempts"));
    work_ok(t, "$T checkpoint verify"); /* its numbers are known to be gone */
}

/* Everything needed to go on, in one answer: what is unfinished, how far it came, what need not be done again. */
static void resume_hands_over_what_is_needed(void **state)
{
    cli_fixture *t = *state;
    const char *pending = work_add(t, "--type later --input '{\"n\":1}'");
    work_add(t, "--type done");
    const work_held done = work_claim(t, "--type done");
    work_ok(t, "$T work finish %s --token %lld --output '{\"ok\":true}'", done.id, done.token);
    work_ok(t, "$T checkpoint add --task t --type tool_executed --data '{\"old\":true}'");
    work_ok(t, "$T checkpoint add --task t --type iteration_end --data '{\"iteration\":3}'");
    work_ok(t, "$T checkpoint add --task t --type tool_executed --data '{\"tool\":\"grep\"}'");
    work_ok(t, "$T checkpoint add --task t --type llm_response --data '{\"text\":\"yes\"}'");
    work_add(t, "--type run --work-item r");
    work_ok(t, "$T work run --type run --until-empty -- echo '[1]'");
    tide_json_node *object = work_object(t, "$T task resume t --holder me --lease 5m --json");
    const tide_json_node *items = tide_json_node_find(object, "items");
    assert_int_equal(1, tide_json_node_count(items));
    assert_string_equal(pending, json_text(tide_json_node_at(items, 0), "work_item_id"));
    assert_string_equal(
        "{\"iteration\":3}",
        work_value(t, tide_json_node_find(object, "iteration_end"), "snapshot_data"));
    assert_int_equal(4, json_number(object, "next_iteration"));
    const tide_json_node *later = tide_json_node_find(object, "checkpoints");
    assert_int_equal(3, tide_json_node_count(later)); /* the two, and that of the run */
    assert_string_equal("{\"tool\":\"grep\"}",
                        work_value(t, tide_json_node_at(later, 0), "snapshot_data"));
    assert_string_equal("llm_response", json_text(tide_json_node_at(later, 1), "checkpoint_type"));
    const tide_json_node *responses = tide_json_node_find(object, "responses");
    assert_int_equal(1, tide_json_node_count(responses));
    assert_string_equal("work-r", json_text(tide_json_node_at(responses, 0), "key"));
    assert_string_equal("[1]", work_value(t, tide_json_node_at(responses, 0), "response"));
    assert_string_equal("me", json_text(object, "holder"));
    assert_true(json_number(object, "lease_token") > 0);
    tide_json_tree_free(object);
}

static void resume_of_a_new_task_begins_with_iteration_1(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object = work_object(t, "$T task resume t --json");
    assert_int_equal(1, json_number(object, "next_iteration"));
    assert_true(json_is_null(tide_json_node_find(object, "iteration_end")));
    assert_string_equal("[]", work_value(t, object, "items"));
    assert_string_equal("[]", work_value(t, object, "checkpoints"));
    assert_string_equal("[]", work_value(t, object, "responses"));
    tide_json_tree_free(object);
}

/* A resumer that stalled must not decide where the next one starts. */
static void the_lease_of_a_task_fences_its_checkpoints(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T checkpoint add --task t --data 1");
    tide_json_node *object = work_object(t, "$T task resume t --holder me --lease 5m --json");
    const long long token = json_number(object, "lease_token");
    tide_json_tree_free(object);
    work_refuses(t, 4, "held by me", "$T checkpoint add --task t --data 2");
    work_refuses(t, 4, "does not hold", "$T checkpoint add --task t --data 2 --token %lld",
                 token + 1);
    work_ok(t, "$T checkpoint add --task t --data 2 --token %lld", token);
    work_refuses(t, 2, "--force", "$T task release t");
    assert_string_equal("t released\n", work_ok(t, "$T task release t --force"));
    work_refuses(t, 4, "does not hold", "$T checkpoint add --task t --data 3 --token %lld", token);
    work_ok(t, "$T checkpoint add --task t --data 3");
    work_refuses(t, 3, "nobody", "$T task release nobody --force");
    work_add(t, "--type x --work-item i");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T task resume t --holder me");
    work_refuses(t, 4, "held by me", "$T checkpoint add --task t --data 4 --work-item i");
    work_ok(t, "$T checkpoint add --task t --data 4 --work-item i --item-token %lld", held.token);
    work_refuses(t, 2, "work item", "$T checkpoint add --task t --data 4 --item-token 1");
}

static void steps_run_once_and_answer_ever_after(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object = work_object(t, "$T task resume t --holder me --json");
    const long long token = json_number(object, "lease_token");
    tide_json_tree_free(object);
    object = work_object(t, "$T task begin-step t charge --token %lld --json", token);
    assert_string_equal("false", work_value(t, object, "is_done"));
    assert_string_equal("step/t/charge", json_text(object, "key"));
    const long long step = json_number(object, "step_token");
    tide_json_tree_free(object);
    work_refuses(t, 4, "does not hold", "$T task begin-step t charge --token %lld", token + 1);
    work_refuses(t, 4, "", "$T task complete-step t charge --token %lld --step-token %lld --data 1",
                 token, step + 1);
    work_ok(t, "$T task complete-step t charge --token %lld --step-token %lld --data '{\"a\":1}'",
            token, step);
    object = work_object(t, "$T task begin-step t charge --token %lld --json", token);
    assert_string_equal("true", work_value(t, object, "is_done"));
    assert_string_equal("{\"a\":1}", work_value(t, object, "result"));
    tide_json_tree_free(object);
    assert_string_equal("done: {\"a\":1}\n",
                        work_ok(t, "$T task begin-step t charge --token %lld", token));
    assert_string_equal("tool_executed", work_query(t, "SELECT checkpoint_type FROM checkpoints"));
}

/* One resumer at a time; the lease can be kept and given back, by its token only. */
static void a_second_resumer_is_refused_while_the_lease_lasts(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object = work_object(t, "$T task resume t --holder me --json");
    const long long token = json_number(object, "lease_token");
    tide_json_tree_free(object);
    work_refuses(t, 4, "me", "$T task resume t --holder you --json");
    work_refuses(t, 4, "", "$T task renew t --token %lld", token + 1);
    work_ok(t, "$T task renew t --token %lld --lease 10m", token);
    work_refuses(t, 4, "", "$T task release t --token %lld", token + 1);
    assert_string_equal("t released\n", work_ok(t, "$T task release t --token %lld", token));
    object = work_object(t, "$T task resume t --holder you --json");
    assert_true(json_number(object, "lease_token") > token);
    tide_json_tree_free(object);
    work_refuses(t, 4, "", "$T task renew t --token %lld", token);
}

static void unknown_and_doubled_ids_are_refused(void **state)
{
    cli_fixture *t = *state;
    work_refuses(t, 4, "", "$T task create again --task t");
    work_refuses(t, 3, "nobody", "$T task show nobody --json");
    work_refuses(t, 3, "nobody", "$T task cancel nobody");
    work_refuses(t, 3, "nobody", "$T task finish nobody");
    work_refuses(t, 3, "nobody", "$T task delete nobody");
    work_refuses(t, 3, "nobody", "$T task resume nobody --json");
    work_refuses(t, 4, "nobody", "$T task renew nobody --token 1");
}

static void bad_words_are_refused_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    work_refuses(t, 2, "JSON", "$T task create x --metadata '{\"a\":'");
    work_refuses(t, 2, "", "$T task create \"$(printf 'a\\377b')\"");
    work_refuses(t, 2, "", "$T task create x --task \"$(printf 'a\\377b')\"");
    work_refuses(t, 2, "", "$T task create x --task ''");
    work_refuses(t, 2, "128", "$T task create x --task \"$(printf '%%0129d' 0)\"");
    work_refuses(t, 2, "", "$T task create x --metadata \"$(printf '\"\\377\"')\"");
    work_refuses(t, 2, "",
                 "head -c 1100000 /dev/zero | tr '\\0' 1 > big; $T task create x --metadata @big");
    work_refuses(t, 2, "", "$T task renew t --token 0");
    work_refuses(t, 2, "", "$T task renew t --token -1");
    work_refuses(t, 2, "--token", "$T task renew t");
    work_refuses(t, 2, "", "$T task resume t --lease 0s");
    work_refuses(t, 2, "", "$T task ls --limit -1");
    work_refuses(t, 2, "", "$T task create");
}

enum { LARGE = 1201, LARGE_STEP = 500 };

/* With one of them in progress. */
static work_held fill_task(cli_fixture *t)
{
    work_ok(t, "seq %d | sed 's/.*/{\"type\":\"a\",\"work_item_id\":\"&\"}/' > batch", LARGE);
    work_ok(t, "$T work add --task t --batch batch > added");
    return work_claim(t, "--type a");
}

/* Other writers pass between the transactions. Each of them has a time of its own. */
static void assert_steps(cli_fixture *t)
{
    const char *most = work_query(
        t, "SELECT max(n) FROM (SELECT count(*) AS n FROM work_items GROUP BY completed_at) s");
    if (assert_number(most) > LARGE_STEP)
        fail_msg("one transaction ended %s items", most);
}

static void a_large_task_is_cancelled_in_steps(void **state)
{
    cli_fixture *t = *state;
    const work_held held = fill_task(t);
    work_ok(t, "$T task cancel t");
    assert_string_equal("failed|cancelled|1201",
                        work_query(t, "SELECT status, failure_kind, count(*) FROM work_items "
                                      "GROUP BY status, failure_kind"));
    assert_steps(t);
    work_refuses(t, 4, "", "$T work finish %s --token %lld", held.id, held.token);
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM task_endings"));
}

static void a_large_task_is_finished_in_steps(void **state)
{
    cli_fixture *t = *state;
    fill_task(t);
    work_refuses(t, 4, "1201 unfinished", "$T task finish t");
    work_ok(t, "$T task finish t --cancel-rest");
    assert_string_equal("failed|1201",
                        work_query(t, "SELECT status, count(*) FROM work_items GROUP BY status"));
    assert_steps(t);
    assert_string_equal("succeeded", work_query(t, "SELECT status FROM tasks"));
}

static void a_large_task_is_deleted(void **state)
{
    cli_fixture *t = *state;
    fill_task(t);
    work_refuses(t, 4, "in progress", "$T task delete t");
    work_ok(t, "$T task delete t --force");
    assert_string_equal("0|0|0|0|0",
                        work_query(t, "SELECT (SELECT count(*) FROM work_items), (SELECT count(*) "
                                      "FROM work_attempts), (SELECT count(*) FROM tasks), (SELECT "
                                      "count(*) FROM task_heads), (SELECT count(*) FROM "
                                      "task_endings)"));
}

/* What is left when the process dies behind its first transaction. */
static void begin_ending(cli_fixture *t, const char *action)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO task_endings (task_id, action, message, begun_at) VALUES "
             "('t', '%s', 'The task was cancelled', '2026-01-01 00:00:00')",
             action);
    work_sql(t, sql);
    work_sql(t, "UPDATE tasks SET status = 'cancelled' WHERE task_id = 't'");
}

static void a_sweep_continues_the_end_of_a_task(void **state)
{
    cli_fixture *t = *state;
    fill_task(t);
    begin_ending(t, "end");
    assert_int_equal(3, work_run(t, "$T work claim --type a --worker w").exit_code);
    assert_contains(work_ok(t, "$T work sweep"), "1201 ended with their task");
    assert_string_equal("failed|1201",
                        work_query(t, "SELECT status, count(*) FROM work_items GROUP BY status"));
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM task_endings"));
    assert_contains(work_ok(t, "$T work sweep"), " 0 ended with their task");
}

static void cancelling_again_continues_the_end_of_a_task(void **state)
{
    cli_fixture *t = *state;
    fill_task(t);
    begin_ending(t, "end");
    work_ok(t, "$T task cancel t");
    assert_string_equal("failed|1201",
                        work_query(t, "SELECT status, count(*) FROM work_items GROUP BY status"));
}

static void a_sweep_continues_the_delete_of_a_task(void **state)
{
    cli_fixture *t = *state;
    fill_task(t);
    begin_ending(t, "delete");
    work_ok(t, "$T work sweep");
    assert_string_equal("0|0",
                        work_query(t, "SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM "
                                      "work_items)"));
}

/* Killed at any time: all of it or nothing is ended, at the latest by the next sweep. */
static void a_killed_cancel_leaves_no_half_ended_task(void **state)
{
    cli_fixture *t = *state;
    proc child;
    fill_task(t);
    work_start(t, &child, "exec $T task cancel t");
    while (strcmp(work_query(t, "SELECT status FROM tasks"), "cancelled") != 0)
        usleep(1000);
    TIDE_IGNORE(proc_kill(&child, SIGKILL, &t->err));
    assert_ok_err(proc_wait(&child, 60000, &t->err), &t->err);
    proc_done(&child);
    work_ok(t, "$T work sweep");
    assert_string_equal("failed|1201",
                        work_query(t, "SELECT status, count(*) FROM work_items GROUP BY status"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(create_prints_the_id_and_nothing_else),
        WORK_EVERY_ENGINE(ls_lists_the_newest_first_and_by_status),
        WORK_EVERY_ENGINE(cancel_ends_the_items_and_fences_their_holders),
        WORK_EVERY_ENGINE(finish_is_refused_while_items_are_unfinished),
        WORK_EVERY_ENGINE(delete_removes_everything_of_it),
        WORK_EVERY_ENGINE(a_large_task_is_cancelled_in_steps),
        WORK_EVERY_ENGINE(a_large_task_is_finished_in_steps),
        WORK_EVERY_ENGINE(a_large_task_is_deleted),
        WORK_EVERY_ENGINE(a_sweep_continues_the_end_of_a_task),
        WORK_EVERY_ENGINE(cancelling_again_continues_the_end_of_a_task),
        WORK_EVERY_ENGINE(a_sweep_continues_the_delete_of_a_task),
        WORK_EVERY_ENGINE(a_killed_cancel_leaves_no_half_ended_task),
        WORK_EVERY_ENGINE(resume_hands_over_what_is_needed),
        WORK_EVERY_ENGINE(resume_of_a_new_task_begins_with_iteration_1),
        WORK_EVERY_ENGINE(a_second_resumer_is_refused_while_the_lease_lasts),
        WORK_EVERY_ENGINE(the_lease_of_a_task_fences_its_checkpoints),
        WORK_EVERY_ENGINE(steps_run_once_and_answer_ever_after),
        WORK_EVERY_ENGINE(unknown_and_doubled_ids_are_refused),
        WORK_TEST_SQLITE(bad_words_are_refused_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
