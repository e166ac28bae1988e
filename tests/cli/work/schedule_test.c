/* tidemark schedule, on every engine: work that comes again. */
#include <string.h>

#include "cli/work/work_calls.h"

static void a_schedule_makes_items_when_it_is_due(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object =
        work_object(t, "$T schedule add s --task t --type tick --every 1ms --input '{\"n\": 1}' "
                       "--priority 3 --max-retries 2 --attempt-timeout 1m --json");
    assert_string_equal("s", json_text(object, "name"));
    assert_int_equal(27, strlen(json_text(object, "next_run_at")));
    tide_json_tree_free(object);
    /* However many times were missed, one item makes up for them. */
    object = work_object(t, "$T work sweep --json");
    assert_int_equal(1, json_number(object, "scheduled"));
    tide_json_tree_free(object);
    tide_json_node *list = work_objects(t, "$T work ls --json");
    assert_int_equal(1, tide_json_node_count(list));
    const tide_json_node *item = tide_json_node_at(list, 0);
    assert_string_equal("s", json_text(item, "schedule_name"));
    assert_string_equal("{\"n\":1}", work_value(t, item, "input_data"));
    assert_int_equal(3, json_number(item, "priority"));
    assert_int_equal(2, json_number(item, "max_retries"));
    assert_int_equal(60000, json_number(item, "timeout_ms"));
    tide_json_tree_free(list);
    object = work_object(t, "$T schedule ls --json");
    assert_int_equal(1, json_number(object, "run_count"));
    assert_string_equal("tick", json_text(object, "work_type"));
    assert_true(json_is_null(tide_json_node_find(object, "cron")));
    tide_json_tree_free(object);
}

static void a_cron_expression_says_when(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object =
        work_object(t, "$T schedule add nightly --task t --type x --cron '30 2 * * 1-5' --json");
    assert_string_equal("T02:30:00.000000Z", json_text(object, "next_run_at") + 10);
    tide_json_tree_free(object);
    object = work_object(t, "$T schedule ls --json");
    assert_string_equal("30 2 * * 1-5", json_text(object, "cron"));
    assert_true(json_is_null(tide_json_node_find(object, "every_ms")));
    assert_string_equal("false", work_value(t, object, "is_paused"));
    tide_json_tree_free(object);
    assert_contains(work_ok(t, "$T schedule ls"), "30 2 * * 1-5");
}

static void a_paused_schedule_makes_nothing_and_a_deleted_one_is_gone(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T schedule add s --task t --type x --every 1ms");
    assert_string_equal("{\"name\":\"s\",\"result\":\"paused\"}\n",
                        work_ok(t, "$T schedule pause s --json"));
    work_ok(t, "$T work sweep");
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM work_items"));
    work_ok(t, "$T schedule resume s && sleep 0.01 && $T work sweep");
    assert_string_equal("1", work_query(t, "SELECT count(*) FROM work_items"));
    work_ok(t, "$T schedule delete s");
    assert_string_equal("", work_ok(t, "$T schedule ls --json"));
    work_refuses(t, 3, "no schedule s", "$T schedule delete s");
    work_refuses(t, 3, "no schedule s", "$T schedule pause s");
}

static void a_schedule_has_a_time_zone_and_can_be_updated(void **state)
{
    cli_fixture *t = *state;
    tide_json_node *object =
        work_object(t, "$T schedule add s --task t --type x --cron '30 2 1 1 *' "
                       "--time-zone Asia/Kolkata --json");
    assert_string_equal("T21:00:00.000000Z", json_text(object, "next_run_at") + 10);
    tide_json_tree_free(object);
    object = work_object(t, "$T schedule update s --time-zone UTC --priority 3 --json");
    assert_string_equal("T02:30:00.000000Z", json_text(object, "next_run_at") + 10);
    tide_json_tree_free(object);
    object = work_object(t, "$T schedule ls --json");
    assert_string_equal("UTC", json_text(object, "time_zone"));
    assert_string_equal("30 2 1 1 *", json_text(object, "cron"));
    assert_int_equal(3, json_number(object, "priority"));
    tide_json_tree_free(object);
    assert_contains(work_ok(t, "$T schedule update s --every 1h"), "next item at");
    work_refuses(t, 3, "no schedule nobody", "$T schedule update nobody --every 1h");
    work_refuses(t, 2, "Atlantis", "$T schedule update s --cron '0 0 * * *' --time-zone Atlantis");
    work_refuses(t, 2, "--cron", "$T schedule update s --every 1h --cron '0 0 * * *'");
}

static void bad_schedules_are_refused(void **state)
{
    cli_fixture *t = *state;
    work_ok(t, "$T schedule add s --task t --type x --every 1h");
    static const struct {
        int code;
        const char *part, *words;
    } bad[] = {
        {2, "--cron", "schedule add n --task t --type x"},
        {2, "--cron", "schedule add n --task t --type x --every 1h --cron '* * * * *'"},
        {2, "", "schedule add n --task t --type x --cron '* * * *'"},
        {2, "", "schedule add n --task t --type x --cron '61 * * * *'"},
        {2, "", "schedule add n --task t --type x --cron '0 0 30 2 *'"},
        {2, "", "schedule add n --task t --type x --every -5s"},
        {2, "JSON", "schedule add n --task t --type x --every 1h --input '{'"},
        {2, "", "schedule add '' --task t --type x --every 1h"},
        {2, "", "schedule add n --task t --type '' --every 1h"},
        {3, "nobody", "schedule add n --task nobody --type x --every 1h"},
        {4, "another one", "schedule add s --task t --type x --every 2h"},
        {3, "nobody", "schedule resume nobody"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        work_refuses(t, bad[i].code, bad[i].part, "$T %s", bad[i].words);
    work_ok(t, "$T schedule add s --task t --type x --every 1h"); /* the same again: fine */
    assert_string_equal("1", work_query(t, "SELECT count(*) FROM work_schedules"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(a_schedule_makes_items_when_it_is_due),
        WORK_EVERY_ENGINE(a_cron_expression_says_when),
        WORK_EVERY_ENGINE(a_paused_schedule_makes_nothing_and_a_deleted_one_is_gone),
        WORK_EVERY_ENGINE(a_schedule_has_a_time_zone_and_can_be_updated),
        WORK_EVERY_ENGINE(bad_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
