/* tidemark work, on every engine: what scripts rely on, word for word; bad input; a store with work in it is sound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/work/work_calls.h"

/* ---- add ---- */

static void add_prints_the_id_and_nothing_else(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object =
        work_object(t, "$T work add --task t --type import --input '{\"day\": 1.50}' "
                       "--priority -5 --max-retries 0 --json");
    assert_int_equal(2, tide_json_node_count(object));
    const char *id = work_value(t, object, "work_item_id");
    tide_json_tree_free(object);
    assert_member(t, id, "status", "pending");
    assert_member(t, id, "priority", "-5");
    assert_member(t, id, "max_retries", "0");
    /* What was given is kept as it was written. */
    assert_contains(work_ok(t, "$T work show %s --json", id), "\"input_data\":{\"day\": 1.50}");
    assert_string_equal("mine\n", work_ok(t, "$T work add --task t --type x --work-item mine"));
}

/* Given again with the same content it is the same item; a live item of the same key stands for the new one. */
static void add_of_what_is_there_says_so(void **state)
{
    cli_fixture *t = *state;
    const char *again = "{\"work_item_id\":\"a\",\"is_existing\":true}\n";
    work_ok(t, "$T work add --task t --type x --work-item a --input 1 --unique-key k");
    assert_string_equal(again, work_ok(t, "$T work add --task t --type x --work-item a --input 1 "
                                          "--unique-key k --json"));
    assert_string_equal(again, work_ok(t, "$T work add --task t --type x --unique-key k --json"));
    work_refuses(t, 4, "", "$T work add --task t --type x --work-item a --input 2");
    assert_string_equal("1", work_query(t, "SELECT count(*) FROM work_items"));
}

static void a_batch_is_read_from_stdin(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T task create other --task u");
    tide_json_node *list =
        work_objects(t, "printf '%%s\\n' '{\"type\":\"x\",\"input\":[1, "
                        "2],\"priority\":7,\"work_item_id\":\"a\"}' ''"
                        " '{\"work_type\":\"y\",\"task\":\"u\",\"max_retries\":0,"
                        "\"timeout\":\"5m\",\"work_item_id\":\"b\"}'"
                        " '{\"type\":\"x\",\"depends_on\":[\"a\"],\"delay\":\"1h\","
                        "\"unique_key\":\"k\",\"work_item_id\":\"c\"}'"
                        " | $T work add --task t --batch - --json");
    assert_int_equal(3, tide_json_node_count(list));
    assert_string_equal("b", json_text(tide_json_node_at(list, 1), "work_item_id"));
    tide_json_tree_free(list);
    assert_member(t, "a", "priority", "7");
    assert_member(t, "b", "task_id", "u");
    assert_member(t, "b", "timeout_ms", "300000");
    assert_member(t, "c", "waits_for", "1");
    assert_member(t, "a", "has_dependents", "true");
    assert_string_equal("", work_ok(t, "$T work add --task t --batch - --json"));
}

/* All or nothing, and the line is named. */
static void a_bad_line_refuses_the_whole_batch(void **state)
{
    cli_fixture *t = *state;
    static const struct {
        const char *line, *part;
    } bad[] = {
        {"{\"type\":\"x\"", "line 2"},
        {"[1]", "line 2"},
        {"{\"type\":\"x\",\"priority\":\"high\"}", "priority"},
        {"{\"type\":\"x\",\"prioritty\":1}", "prioritty"},
        {"{\"type\":\"x\",\"max_retries\":-1}", "max_retries"},
        {"{\"priority\":1}", "type"},
        {"{\"type\":\"x\",\"delay\":\"soon\"}", "delay"},
        {"{\"type\":\"x\",\"depends_on\":\"a\"}", "depends_on"},
        {"{\"type\":\"x\",\"input\":1}\\377", "line 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        work_refuses(
            t, 2, bad[i].part,
            "{ echo '{\"type\":\"x\"}'; printf '%s\\n'; } | $T work add --task t --batch -",
            bad[i].line);
    work_refuses(t, 3, "nobody",
                 "{ echo '{\"type\":\"x\"}'; echo '{\"type\":\"x\",\"task\":\"nobody\"}'; } "
                 "| $T work add --task t --batch -");
    work_refuses(t, 2, "task", "echo '{\"type\":\"x\"}' | $T work add --batch -");
}

/* Dependencies in a circle would wait for ever. */
static void cyclic_dependencies_are_refused(void **state)
{
    cli_fixture *t = *state;
    work_refuses(t, 4, "",
                 "printf '%%s\\n' '{\"type\":\"x\",\"work_item_id\":\"a\",\"depends_on\":[\"b\"]}' "
                 "'{\"type\":\"x\",\"work_item_id\":\"b\",\"depends_on\":[\"a\"]}' "
                 "| $T work add --task t --batch -");
    work_refuses(t, 4, "", "$T work add --task t --type x --work-item a --depends-on a");
    work_refuses(t, 3, "nobody", "$T work add --task t --type x --depends-on nobody");
}

/* ---- claim ---- */

static void claim_prints_what_scripts_rely_on(void **state)
{
    cli_fixture *t = *state;
    const char *low = work_add(t, "--type x --input '{\"n\":1}'");
    const char *high = work_add(t, "--type x --priority 9");
    tide_json_node *list =
        work_objects(t, "$T work claim --worker me --type x --limit 5 --lease 30s --json");
    assert_int_equal(2, tide_json_node_count(list));
    const tide_json_node *first = tide_json_node_at(list, 0);
    const tide_json_node *second = tide_json_node_at(list, 1);
    assert_string_equal(high, json_text(first, "work_item_id"));
    assert_true(json_is_null(tide_json_node_find(first, "input_data")));
    assert_string_equal(low, json_text(second, "work_item_id"));
    assert_string_equal("{\"n\":1}", work_value(t, second, "input_data"));
    assert_int_equal(1, json_number(second, "attempt"));
    assert_true(json_number(second, "lease_token") > 0);
    assert_string_equal("t", json_text(second, "task_id"));
    assert_string_equal("x", json_text(second, "work_type"));
    assert_int_equal(27, strlen(json_text(second, "lease_expires_at")));
    tide_json_tree_free(list);
    assert_member(t, low, "lease_holder", "me");
    assert_member(t, low, "status", "in_progress");
    tide_json_node *task = work_object(t, "$T task show t --json");
    assert_string_equal("running", json_text(task, "status"));
    tide_json_tree_free(task);
}

static void claim_ends_with_3_when_there_is_nothing(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --run-after 1h");
    work_add(t, "--type paused");
    work_ok(t, "$T work pause paused --reason 'being mended'");
    static const char *const wants[] = {"", "--type nothing", "--type paused", "--task t --type x"};
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        const cli_result result = work_run(t, "$T work claim --worker w %s --json", wants[i]);
        assert_int_equal(3, result.exit_code);
        assert_string_equal("", result.out);
        assert_string_equal("", result.err);
    }
    work_ok(t, "$T work resume paused");
    work_claim(t, "--type paused");
}

/* The token, not the name, says who holds it. The attempt counts from 1, and a failure spends one. */
static void attempts_count_from_1_and_tokens_rise(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --max-retries 1");
    const work_held first = work_claim(t, "");
    assert_int_equal(1, first.attempt);
    tide_json_node *failed =
        work_object(t, "$T work fail %s --token %lld --error 'no network' --retry-after 0s --json",
                    first.id, first.token);
    assert_false(json_is_true(tide_json_node_find(failed, "is_final")));
    tide_json_tree_free(failed);
    const work_held second = work_claim(t, "");
    assert_string_equal(first.id, second.id);
    assert_int_equal(2, second.attempt);
    assert_true(second.token > first.token);
    work_refuses(t, 4, "", "$T work finish %s --token %lld", first.id, first.token);
    work_ok(t, "$T work release %s --token %lld", second.id, second.token);
    const work_held third = work_claim(t, "");
    assert_int_equal(2, third.attempt); /* a release spends none */
    failed = work_object(t, "$T work fail %s --token %lld --error 'again' --json", third.id,
                         third.token);
    assert_true(json_is_true(tide_json_node_find(failed, "is_final")));
    tide_json_tree_free(failed);
    assert_member(t, third.id, "failure_kind", "exhausted");
    assert_member(t, third.id, "error_message", "again");
}

/* ---- finish, fail ---- */

/* One commit: the output, a last checkpoint, what follows. Again with the same token and output is an answer, not a loss. */
static void finish_stores_output_checkpoint_and_what_follows(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x");
    const work_held held = work_claim(t, "");
    const char *again = work_text(
        t, "$T work finish %s --token %lld --output '{\"rows\": 42}' --json", held.id, held.token);
    work_ok(t,
            "echo '{\"type\":\"next\",\"work_item_id\":\"n\"}' > follow; %s --data '{\"page\":9}' "
            "--batch follow",
            again);
    assert_string_equal(
        work_text(t, "{\"work_item_id\":\"%s\",\"result\":\"completed\"}\n", held.id),
        work_ok(t, "%s", again));
    assert_member(t, held.id, "status", "completed");
    assert_member(t, held.id, "output_data", "{\"rows\":42}");
    assert_member(t, "n", "task_id", "t");
    assert_string_equal("1|tool_executed",
                        work_query(t, "SELECT count(*), min(checkpoint_type) FROM checkpoints"));
    work_refuses(t, 4, "", "$T work finish %s --token %lld --output 43", held.id, held.token);
    work_refuses(t, 4, "", "$T work fail %s --token %lld --error x", held.id, held.token);
    work_refuses(t, 4, "", "$T work release %s --token %lld", held.id, held.token);
    work_refuses(t, 4, "", "$T work cancel %s", held.id);
}

static void a_final_failure_ends_the_item(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --max-retries 9");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T work fail %s --token %lld --error 'bad input' --final", held.id, held.token);
    assert_member(t, held.id, "status", "failed");
    assert_member(t, held.id, "failure_kind", "error");
    /* A new item like it, linked to it. */
    tide_json_node *object = work_object(t, "$T work retry %s --json", held.id);
    assert_member(t, json_text(object, "work_item_id"), "retried_from", held.id);
    tide_json_tree_free(object);
    work_refuses(t, 4, "", "$T work retry %s", work_claim(t, "").id);
}

/* The lease ran out: nobody may go on under its token, and the sweep says what it did. */
static void a_lease_that_ran_out_is_lost(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x");
    const work_held held = work_claim(t, "--lease 1ms");
    work_refuses(t, 4, "", "$T work finish %s --token %lld", held.id, held.token);
    work_refuses(t, 4, "", "$T work fail %s --token %lld --error x", held.id, held.token);
    work_refuses(t, 4, "", "$T work release %s --token %lld", held.id, held.token);
    work_refuses(t, 4, "", "$T work checkpoint %s --token %lld --data '{}'", held.id, held.token);
    work_refuses(t, 4, "", "$T work progress %s --token %lld --progress 5", held.id, held.token);
    tide_json_node *swept = work_object(t, "$T work sweep --json");
    assert_int_equal(1, json_number(swept, "requeued"));
    assert_int_equal(0, json_number(swept, "failed"));
    static const char *const counts[] = {"quarantined", "promoted", "blocked", "scheduled"};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        assert_int_equal(0, json_number(swept, counts[i]));
    tide_json_tree_free(swept);
    assert_contains(work_ok(t, "$T work sweep"), "0 requeued");
    assert_member(t, held.id, "crash_count", "1");
    assert_string_equal("error_boundary", work_query(t, "SELECT checkpoint_type FROM checkpoints"));
    assert_true(work_claim(t, "").token > held.token);
}

/* ---- renew ---- */

static void renew_tells_which_leases_are_lost(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x");
    work_add(t, "--type x");
    const work_held a = work_claim(t, "--lease 30s");
    const work_held b = work_claim(t, "--lease 30s");
    assert_string_equal(
        work_text(t, "%s renewed\n%s renewed\n", a.id, b.id),
        work_ok(t, "$T work renew %s=%lld %s=%lld --lease 1h", a.id, a.token, b.id, b.token));
    work_ok(t, "$T work cancel %s", b.id);
    cli_result result =
        work_run(t, "$T work renew %s=%lld %s=%lld --json", a.id, a.token, b.id, b.token);
    assert_int_equal(7, result.exit_code);
    assert_string_equal(
        work_text(t,
                  "{\"work_item_id\":\"%s\",\"lease_token\":%lld,\"result\":\"renewed\"}\n"
                  "{\"work_item_id\":\"%s\",\"lease_token\":%lld,\"result\":\"lost\"}\n",
                  a.id, a.token, b.id, b.token),
        result.out);
    assert_contains(result.err, "tidemark: work renew: ");
    result =
        work_run(t, "$T work renew %s=%lld nobody=1 %s=%lld", b.id, b.token, a.id, a.token + 1);
    assert_int_equal(4, result.exit_code);
    assert_string_equal(work_text(t, "%s lost\nnobody lost\n%s lost\n", b.id, a.id), result.out);
    work_refuses(t, 2, "ID=TOKEN", "$T work renew %s", a.id);
    work_refuses(t, 2, "", "$T work renew %s=-1", a.id);
    work_refuses(t, 2, "", "$T work renew %s=", a.id);
    work_refuses(t, 2, "", "$T work renew %s=99999999999999999999", a.id);
    work_refuses(t, 2, "", "$T work renew");
}

/* ---- next ---- */

static void next_prints_what_it_finished_and_what_it_claimed(void **state)
{
    cli_fixture *t = *state;
    const char *ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = work_add(t, "--type x");
    const work_held a = work_claim(t, "--type x");
    tide_json_node *list = work_objects(
        t, "$T work next --worker me --type x --finish '%s=%lld={\"a\":\"b=1\"}' --json", a.id,
        a.token);
    assert_int_equal(2, tide_json_node_count(list));
    const tide_json_node *finished = tide_json_node_at(list, 0);
    const tide_json_node *claimed = tide_json_node_at(list, 1);
    assert_string_equal(a.id, json_text(finished, "work_item_id"));
    assert_int_equal(a.token, json_number(finished, "lease_token"));
    assert_string_equal("completed", json_text(finished, "result"));
    assert_string_equal(ids[1], json_text(claimed, "work_item_id"));
    assert_string_equal("me", json_text(claimed, "worker"));
    assert_int_equal(1, json_number(claimed, "attempt"));
    const long long token = json_number(claimed, "lease_token");
    tide_json_tree_free(list);
    assert_string_equal(
        "{\"a\":\"b=1\"}",
        work_query(t, "SELECT output_data FROM work_items WHERE work_item_id = '%s'", a.id));
    /* A refused finish: the other one and the claim are committed. */
    const cli_result lost = work_run(t, "$T work next --worker me --finish %s=1 --finish %s=%lld",
                                     ids[0], ids[1], token);
    assert_int_equal(4, lost.exit_code);
    assert_contains(lost.out, work_text(t, "%s lost\n%s completed\n", ids[0], ids[1]));
    assert_contains(lost.out, ids[2]);
    assert_contains(lost.err, "tidemark: work next: 1 of 2 items were not finished");
    assert_member(t, ids[1], "status", "completed");
    assert_member(t, ids[2], "status", "in_progress");
    /* Nothing to claim. */
    const char *last =
        work_query(t, "SELECT lease_token FROM work_items WHERE work_item_id = '%s'", ids[2]);
    const cli_result none = work_run(t, "$T work next --finish %s=%s --json", ids[2], last);
    assert_int_equal(3, none.exit_code);
    assert_string_equal(
        work_text(t, "{\"work_item_id\":\"%s\",\"lease_token\":%s,\"result\":\"completed\"}\n",
                  ids[2], last),
        none.out);
    work_refuses(t, 2, "ID=TOKEN", "$T work next --finish %s", ids[2]);
    work_refuses(t, 2, "ID=TOKEN", "$T work next --finish =5");
    work_refuses(t, 2, "", "$T work next --finish %s=%s=nothing", ids[2], last);
    work_refuses(t, 2, "", "$T work next --finish a=1 --finish a=1");
}

/* --timeout is the store's, as everywhere, and says so where it once limited the attempt. */
static void add_has_a_limit_for_the_store_and_one_for_the_attempt(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x --timeout 20s --attempt-timeout 1h");
    tide_json_node *object = work_object(t, "$T work show %s --json", id);
    assert_int_equal(3600000, json_number(object, "timeout_ms"));
    tide_json_tree_free(object);
    assert_contains(work_line(t, "$T work add --task t --type x --timeout 20s 2>&1 >/dev/null"),
                    "--attempt-timeout limits the attempts");
}

/* ---- looking ---- */

/* Every column of the table, whatever columns there are, but the digest of the values. (On PostgreSQL also but the key of entries, and
 * the worker of the last attempt, which the list of attempts has.) */
static void show_prints_all_columns(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --attempt-timeout 1h --unique-key k");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T work progress %s --token %lld --progress 40", held.id, held.token);
    tide_json_node *object = work_object(t, "$T work show %s --json", held.id);
    const char *names =
        cli_is_postgres(t)
            ? work_query(t, "SELECT string_agg(column_name, ' ') FROM information_schema.columns "
                            "WHERE table_name = 'work_items' AND table_schema = current_schema() "
                            "AND column_name NOT IN ('item_no', 'completed_by', "
                            "'value_digest')")
            : work_query(t, "SELECT group_concat(name, ' ') FROM pragma_table_info('work_items') "
                            "WHERE name <> 'value_digest'");
    char *left = strdup(names);
    int count = 0;
    for (char *at = left, *name; (name = strsep(&at, " "));) {
        const char *member = strcmp(name, "timeout_us") == 0 ? "timeout_ms" : name;
        if (!tide_json_node_find(object, member))
            fail_msg("show leaves out %s", name);
        count++;
    }
    free(left);
    assert_true(count >= 18);
    assert_string_equal("{\"percent\":40}", work_value(t, object, "progress"));
    const tide_json_node *attempt = tide_json_node_at(tide_json_node_find(object, "attempts"), 0);
    assert_int_equal(held.token, json_number(attempt, "lease_token"));
    assert_true(json_is_null(tide_json_node_find(attempt, "outcome")));
    tide_json_tree_free(object);
    assert_contains(work_ok(t, "$T work show %s", held.id), "held by      w\n");
}

/* What depends on an item that failed is retried with it, in their order. */
static void retry_by_filter_keeps_dependencies(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type extract --work-item e --max-retries 0");
    work_add(t, "--type load --work-item l --depends-on e");
    work_ok(t, "$T work run --type extract --until-empty -- false || [ $? = 7 ]; $T work sweep");
    assert_member(t, "l", "failure_kind", "dependency");
    assert_string_equal(
        "e\nl\n", work_ok(t, "$T work retry --type extract --failure-kind exhausted --since 1h "
                             "--with-dependents --dry-run"));
    tide_json_node *made = work_objects(t, "$T work retry --type extract --with-dependents --json");
    assert_int_equal(2, tide_json_node_count(made));
    const tide_json_node *load = tide_json_node_at(made, 1);
    assert_string_equal("l", json_text(load, "retried_from"));
    assert_string_equal(
        work_text(t, "[\"%s\"]", json_text(tide_json_node_at(made, 0), "work_item_id")),
        work_member(t, json_text(load, "work_item_id"), "depends_on"));
    tide_json_tree_free(made);
    assert_string_equal("", work_ok(t, "$T work retry --type extract"));
    work_refuses(t, 2, "--failure-kind", "$T work retry");
    work_refuses(t, 2, "ID", "$T work retry e --type extract");
    work_refuses(t, 2, "exhausted", "$T work retry --failure-kind bad");
}

static void ls_lists_the_newest_first_and_filters(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    work_add(t, "--type x --work-item b");
    work_add(t, "--type y --work-item c");
    work_ok(t, "$T work cancel b");
    work_claim(t, "--type y");
    static const struct {
        const char *options, *ids;
    } lists[] = {{"", "c b a "},
                 {"--limit 2", "c b "},
                 {"--type x", "b a "},
                 {"--status pending", "a "},
                 {"--failure-kind cancelled", "b "},
                 {"--reason cancelled", "b "}, /* its old name */
                 {"--since 1h", "b "},
                 {"--holder w", "c "},
                 {"--task nobody", ""}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_string_equal(lists[i].ids,
                            work_ok(t,
                                    "$T work ls %s --json | sed "
                                    "'s/{\"work_item_id\":\"\\([a-z]*\\)\".*/\\1/' | tr '\\n' ' '",
                                    lists[i].options));
    assert_contains(work_ok(t, "$T work ls"), "HELD BY");
}

static void explain_tells_why_it_is_not_running(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    work_add(t, "--type y --work-item b --depends-on a --run-after 1h");
    work_ok(t, "$T work pause y");
    tide_json_node *object = work_object(t, "$T work explain b --json");
    const char *reasons = work_value(t, object, "reasons");
    tide_json_tree_free(object);
    assert_contains(reasons, "\"code\":\"paused\"");
    assert_contains(reasons, "\"code\":\"delayed\"");
    assert_contains(reasons, "\"code\":\"waiting\"");
    assert_contains(work_ok(t, "$T work explain a"), "ready: ");
    tide_json_node *types = work_objects(t, "$T work types --json");
    assert_int_equal(2, tide_json_node_count(types));
    tide_json_tree_free(types);
    work_refuses(t, 3, "nobody", "$T work explain nobody");
}

/* The three questions of whoever watches the queue. */
static void stats_count_items_leases_and_checkpoints(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x");
    work_add(t, "--type x");
    work_add(t, "--type y");
    work_claim(t, "--type y");
    work_ok(t, "$T checkpoint add --task t --data '{}'; $T checkpoint add --task t --data '{}'");
    tide_json_node *object = work_object(t, "$T work stats --json");
    const tide_json_node *items = tide_json_node_find(object, "items");
    assert_int_equal(2, tide_json_node_count(items));
    assert_string_equal("x", json_text(tide_json_node_at(items, 0), "work_type"));
    assert_string_equal("pending", json_text(tide_json_node_at(items, 0), "status"));
    assert_int_equal(2, json_number(tide_json_node_at(items, 0), "count"));
    assert_true(json_is_number(tide_json_node_find(tide_json_node_at(items, 0), "mean_age_s")));
    const tide_json_node *leases = tide_json_node_find(object, "leases");
    assert_int_equal(1, json_number(leases, "active"));
    assert_int_equal(0, json_number(leases, "stale"));
    const tide_json_node *top = tide_json_node_at(tide_json_node_find(object, "tasks"), 0);
    assert_int_equal(2, json_number(top, "checkpoint_count"));
    assert_int_equal(2, json_number(top, "max_sequence"));
    tide_json_tree_free(object);
    assert_contains(work_ok(t, "$T work stats"), "1 active");
}

/* ---- delete, clean ---- */

/* The checkpoints of an item that is gone stay, with its id as evidence. */
static void delete_and_clean_leave_checkpoints_untouched(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T work checkpoint a --token %lld --data '{\"p\":1}' --tag good", held.token);
    work_refuses(t, 4, "", "$T work delete a");
    work_ok(t, "$T work finish a --token %lld", held.token);
    assert_string_equal("{\"removed\":0}\n", work_ok(t, "$T work clean --json"));
    assert_string_equal("{\"removed\":1}\n", work_ok(t, "$T work clean --older-than 0s --json"));
    work_refuses(t, 3, "", "$T work show a");
    assert_string_equal("a", work_query(t, "SELECT work_item_id FROM checkpoints"));
    work_add(t, "--type x --work-item b");
    work_ok(t, "$T work delete b --json");
    work_refuses(t, 3, "", "$T work delete b");
}

/* ---- bad input ---- */

typedef struct refusal {
    int code;
    const char *part, *words;
} refusal;

/* What cannot be right whatever the store holds. */
static void bad_words_are_refused_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    static const refusal bad[] = {
        {2, "--type", "work add --task t"},
        {2, "--task", "work add --type x"},
        {2, "JSON", "work add --task t --type x --input '{\"a\":}'"},
        {2, "JSON", "work add --task t --type x --input ''"},
        {2, "UTF-8", "work add --task t --type x --input \"$(printf '\"\\377\"')\""},
        {2, "", "work add --task t --type \"$(printf 'x\\377')\""},
        {2, "", "work add --task t --type ''"},
        {2, "", "work add --task t --type x --work-item ''"},
        {2, "", "work add --task t --type x --max-retries -1"},
        {2, "", "work add --task t --type x --max-retries many"},
        {2, "", "work add --task t --type x --priority 99999999999"},
        {2, "", "work add --task t --type x --run-after yesterday"},
        {2, "", "work add --task t --type x --attempt-timeout -1s"},
        {2, "longer", "work add --task t --type x --input @big"},
        {2, "missing.json", "work add --task t --type x --input @missing.json"},
        {2, "", "work claim --worker w --limit 0"},
        {2, "", "work claim --worker w --limit -3"},
        {2, "", "work claim --worker w --limit 1001"},
        {2, "", "work claim --worker w --lease 0s"},
        {2, "", "work claim --worker w --lease forever"},
        {2, "", "work claim --worker \"$(printf '%0300d' 0)\""},
        {2, "", "work claim --worker \"$(printf 'w\\377')\""},
        {2, "--token", "work finish a"},
        {2, "", "work finish a --token 0"},
        {2, "", "work finish a --token 1.5"},
        {2, "--error", "work fail a --token 1"},
        {2, "", "work pause ''"},
        {2, "", "work clean --older-than -1d"},
        {2, "", "work sweep --crash-limit 0"},
        {2, "", "work run --type x"},
        {2, "there is no program", "work run --type x -- ./no-such-program"},
        {2, "", "work run --type x --parallel 0 -- true"},
        {2, "NAME=VALUE", "work run --type x --env novalue -- true"},
    };
    work_add(t, "--type x --work-item a");
    work_ok(t, "head -c 17000000 /dev/zero | tr '\\0' 1 > big");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        work_refuses(t, bad[i].code, bad[i].part, "$T %s", bad[i].words);
}

/* Unknown ids, wrong tokens, and what only the holder is refused. */
static void bad_ids_and_tokens_are_refused_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    static const refusal bad[] = {
        {3, "nobody", "work add --task nobody --type x"},
        {4, "", "work finish a --token 1"},
        {4, "", "work fail a --token 9223372036854775807 --error x"},
        {3, "nobody", "work finish nobody --token 1"},
        {3, "nobody", "work fail nobody --token 1 --error x"},
        {3, "nobody", "work release nobody --token 1"},
        {3, "nobody", "work checkpoint nobody --token 1 --data 1"},
        {3, "nobody", "work show nobody --json"},
        {3, "nobody", "work cancel nobody"},
        {3, "nobody", "work retry nobody"},
        {3, "nobody", "work delete nobody"},
    };
    work_add(t, "--type x --work-item a");
    const work_held held = work_claim(t, "");
    work_ok(t, "head -c 17000000 /dev/zero | tr '\\0' 1 > big");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        work_refuses(t, bad[i].code, bad[i].part, "$T %s", bad[i].words);
    work_refuses(t, 2, "JSON", "$T work finish a --token %lld --output '[1,'", held.token);
    work_refuses(t, 2, "longer", "$T work finish a --token %lld --output @big", held.token);
    work_refuses(t, 2, "", "$T work checkpoint a --token %lld --type nonsense --data 1",
                 held.token);
    work_refuses(t, 2, "", "$T work progress a --token %lld --progress 101", held.token);
    work_refuses(t, 2, "", "$T work finish a --token %lld --output - --data - < /dev/null",
                 held.token);
    work_refuses(t, 2, "", "echo '{\"type\":\"\"}' | $T work finish a --token %lld --batch -",
                 held.token);
    work_ok(t, "$T work finish a --token %lld", held.token);
}

/* ---- the store ---- */

/* Work of every kind in it: the store is sound, the doctor has nothing to say, and so it is elsewhere. */
static void a_store_with_work_in_it_is_sound(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    work_add(t, "--type x --work-item b");
    work_add(t, "--type x --work-item c --depends-on b");
    work_claim(t, "--lease 1ms");
    work_ok(t, "$T work sweep");
    work_ok(t, "$T work run --type x --limit 1 -- echo '{\"n\":1}'");
    work_ok(t, "$T schedule add s --task t --type x --every 1h");
    work_ok(t, "head -c 300000 /dev/urandom | base64 -w0 | sed 's/.*/\"&\"/' | $T checkpoint add "
               "--task t --data -");
    work_ok(t, "$T checkpoint fork 1 --task f");
    tide_json_node *report = work_object(t, "$T store verify --json");
    assert_string_equal("[]", work_value(t, report, "findings"));
    tide_json_tree_free(report);
    const cli_result doctor = work_run(t, "$T doctor");
    assert_null(strstr(doctor.out, "bad"));
    assert_string_equal("0 invalid",
                        strstr(work_ok(t, "$T checkpoint verify"), "0 invalid") ? "0 invalid" : "");
    if (cli_is_postgres(t))
        return;
    work_ok(t, "$T store backup copy.db");
    assert_contains(work_ok(t, "TIDEMARK_STORE=copy.db $T work ls"), "completed");
}

/* Many programs call it list. */
static void list_is_another_name_of_ls(void **state)
{
    cli_fixture *t = *state;
    (void)work_add(t, "--type job");
    static const char *const nouns[] = {"task",     "work",     "checkpoint", "idempotency",
                                        "schedule", "sequence", "store"};
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++) {
        const cli_result ls = work_run(t, "$T %s ls --json", nouns[i]);
        const cli_result list = work_run(t, "$T %s list --json", nouns[i]);
        assert_int_equal(ls.exit_code, list.exit_code);
        assert_string_equal(ls.out, list.out);
    }
    assert_contains(work_ok(t, "$T help work list"), "tidemark work ls");
    work_refuses(t, 2, "ends before it begins", "$T checkpoint ls --from 5 --to 2");
}

static void items_are_cancelled_by_filter(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type a --work-item a1");
    const work_held held = work_claim(t, "--type a");
    work_add(t, "--type a --work-item a2");
    work_add(t, "--type b --work-item b1");
    const char *matching = "{\"work_item_id\":\"a1\",\"result\":\"matches\"}\n"
                           "{\"work_item_id\":\"a2\",\"result\":\"matches\"}\n";
    assert_string_equal(matching, work_ok(t, "$T work cancel --type a --dry-run --json"));
    assert_member(t, "a2", "status", "pending");
    assert_string_equal("a2\n", work_ok(t, "$T work cancel --type a --status pending --dry-run"));
    assert_string_equal("a1\na2\n", work_ok(t, "$T work cancel --type a --reason 'not wanted'"));
    assert_member(t, "a1", "failure_kind", "cancelled");
    assert_member(t, "a2", "error_message", "not wanted");
    assert_member(t, "b1", "status", "pending");
    work_refuses(t, 4, "", "$T work finish a1 --token %lld", held.token);
    assert_string_equal("", work_ok(t, "$T work cancel --type a"));
}

static void as_many_items_are_cancelled_as_the_limit_allows(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "seq 1100 | sed 's/.*/{\"type\":\"a\"}/' > batch");
    work_ok(t, "$T work add --task t --batch batch > added");
    assert_string_equal("1001\n", work_ok(t, "$T work cancel --task t --limit 1001 | wc -l"));
    assert_string_equal("99",
                        work_query(t, "SELECT count(*) FROM work_items WHERE status = 'pending'"));
    assert_string_equal("99\n", work_ok(t, "$T work cancel --task t | wc -l"));
}

static void a_new_priority_decides_what_is_claimed_next(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type a --work-item first");
    work_add(t, "--type a --work-item second");
    work_add(t, "--type b --work-item other");
    work_ok(t, "$T work reprioritise second --priority 5");
    assert_member(t, "second", "priority", "5");
    assert_string_equal("second", work_claim(t, "--type a").id);
    assert_string_equal("first\n",
                        work_ok(t, "$T work reprioritise --type a --status pending --priority -3"));
    assert_member(t, "first", "priority", "-3");
    assert_member(t, "other", "priority", "0");
    work_refuses(t, 2, "--priority", "$T work reprioritise first");
    work_ok(t, "$T work cancel first");
    work_refuses(t, 4, "ended", "$T work reprioritise first --priority 1");
}

static void a_retry_policy_is_set_shown_and_reset(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *policy = work_object(t, "$T work policy mail --retries 7 --backoff 1s..1h "
                                            "--no-retry timeout --no-retry crash --json");
    assert_int_equal(7, json_number(policy, "max_retries"));
    assert_int_equal(1000, json_number(policy, "backoff_ms"));
    assert_int_equal(3600000, json_number(policy, "backoff_max_ms"));
    tide_json_tree_free(policy);
    assert_contains(work_ok(t, "$T work policy mail"),
                    "7 retries, after 1.000s to 1h 0m; none after: crash,timeout");
    const char *id = work_line(t, "$T work add --task t --type mail --title 'Bill 17'");
    tide_json_node *item = work_object(t, "$T work show %s --json", id);
    assert_int_equal(7, json_number(item, "max_retries"));
    assert_string_equal("Bill 17", json_text(item, "title"));
    tide_json_tree_free(item);
    assert_contains(work_ok(t, "$T work explain %s", id), "policy: The retry policy of mail");
    work_ok(t, "$T work policy mail --reset");
    assert_contains(work_ok(t, "$T work policy mail"), "3 retries (default)");
    work_refuses(t, 2, "boredom", "$T work policy mail --no-retry boredom");
    work_refuses(t, 2, "--backoff", "$T work policy mail --backoff 1h..1s");
    work_refuses(t, 2, "--reset", "$T work policy mail --reset --retries 1");
}

static void a_title_comes_before_the_id(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_line(t, "$T work add --task t --type mail --title 'Bill 17'");
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "Bill 17  %s", id);
    assert_contains(work_ok(t, "$T work ls"), wanted);
    assert_contains(work_ok(t, "$T work show %s", id), wanted);
    assert_contains(work_ok(t, "$T work explain %s", id), wanted);
    tide_json_node *why = work_object(t, "$T work explain %s --json", id);
    assert_string_equal("Bill 17", json_text(why, "title"));
    tide_json_tree_free(why);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(items_are_cancelled_by_filter),
        WORK_EVERY_ENGINE(as_many_items_are_cancelled_as_the_limit_allows),
        WORK_EVERY_ENGINE(a_new_priority_decides_what_is_claimed_next),
        WORK_EVERY_ENGINE(add_prints_the_id_and_nothing_else),
        WORK_EVERY_ENGINE(add_of_what_is_there_says_so),
        WORK_EVERY_ENGINE(a_batch_is_read_from_stdin),
        WORK_EVERY_ENGINE(a_bad_line_refuses_the_whole_batch),
        WORK_EVERY_ENGINE(cyclic_dependencies_are_refused),
        WORK_EVERY_ENGINE(claim_prints_what_scripts_rely_on),
        WORK_EVERY_ENGINE(claim_ends_with_3_when_there_is_nothing),
        WORK_EVERY_ENGINE(next_prints_what_it_finished_and_what_it_claimed),
        WORK_EVERY_ENGINE(attempts_count_from_1_and_tokens_rise),
        WORK_EVERY_ENGINE(finish_stores_output_checkpoint_and_what_follows),
        WORK_EVERY_ENGINE(a_final_failure_ends_the_item),
        WORK_EVERY_ENGINE(a_lease_that_ran_out_is_lost),
        WORK_EVERY_ENGINE(renew_tells_which_leases_are_lost),
        WORK_EVERY_ENGINE(add_has_a_limit_for_the_store_and_one_for_the_attempt),
        WORK_EVERY_ENGINE(show_prints_all_columns),
        WORK_EVERY_ENGINE(retry_by_filter_keeps_dependencies),
        WORK_EVERY_ENGINE(ls_lists_the_newest_first_and_filters),
        WORK_EVERY_ENGINE(explain_tells_why_it_is_not_running),
        WORK_EVERY_ENGINE(stats_count_items_leases_and_checkpoints),
        WORK_EVERY_ENGINE(delete_and_clean_leave_checkpoints_untouched),
        WORK_TEST_SQLITE(bad_words_are_refused_and_change_nothing),
        WORK_EVERY_ENGINE(bad_ids_and_tokens_are_refused_and_change_nothing),
        WORK_EVERY_ENGINE(a_store_with_work_in_it_is_sound),
        WORK_EVERY_ENGINE(list_is_another_name_of_ls),
        WORK_EVERY_ENGINE(a_retry_policy_is_set_shown_and_reset),
        WORK_EVERY_ENGINE(a_title_comes_before_the_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
