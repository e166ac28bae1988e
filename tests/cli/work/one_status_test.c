/* One check, one status: the same bad input by C function, by service and by command. */
#include <signal.h>
#include <string.h>

#include <tidemark/work.h>

#include "cli/work/work_calls.h"

static tide_status nothing_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)arg;
    (void)item;
    (void)err;
    return TIDE_OK;
}

static tide_status nothing_task(void *arg, const tide_task *task, tide_error *err)
{
    (void)arg;
    (void)task;
    (void)err;
    return TIDE_OK;
}

static tide_status append(tide_store *store, tide_checkpoint_new checkpoint, tide_error *err)
{
    tide_checkpoint_numbers numbers;
    checkpoint.type = checkpoint.type ? checkpoint.type : "manual_checkpoint";
    checkpoint.snapshot = tide_view_of("{}");
    return tide_journal_append(store, &checkpoint, &numbers, err);
}

static tide_status item_of_another_task(tide_store *store, tide_error *err)
{
    return append(
        store, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "u", .work_item_id = "i"},
        err);
}

static tide_status item_that_is_missing(tide_store *store, tide_error *err)
{
    return append(
        store,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "t", .work_item_id = "none"},
        err);
}

static tide_status task_that_is_missing(tide_store *store, tide_error *err)
{
    return append(store, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "none"}, err);
}

static tide_status unknown_checkpoint_type(tide_store *store, tide_error *err)
{
    return append(
        store, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "t", .type = "odd"}, err);
}

static tide_status stale_token(tide_store *store, tide_error *err)
{
    return append(store,
                  (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "t", .token = 7}, err);
}

static tide_status id_of_digits(tide_store *store, tide_error *err)
{
    return append(
        store,
        (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "t", .checkpoint_id = "12"},
        err);
}

static tide_status unknown_item_status(tide_store *store, tide_error *err)
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .status = "done"};
    return tide_work_list(store, &filter, nothing_item, NULL, err);
}

static tide_status unknown_failure_kind(tide_store *store, tide_error *err)
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .failure_kind = "bad"};
    return tide_work_list(store, &filter, nothing_item, NULL, err);
}

static tide_status unknown_task_status(tide_store *store, tide_error *err)
{
    return tide_task_list(store, "done", 0, nothing_task, NULL, err);
}

static tide_status retry_of_a_live_item(tide_store *store, tide_error *err)
{
    tide_work_added added;
    return tide_work_retry(store, "i", &added, err);
}

static tide_status step_under_a_stale_token(tide_store *store, tide_error *err)
{
    const tide_task_step step = {TIDE_TASK_STEP_INIT, .task_id = "t", .name = "s", .token = 7};
    tide_task_step_state state = {.is_done = false};
    return tide_task_step_begin(store, &step, &state, err);
}

static tide_status release_of_a_missing_task(tide_store *store, tide_error *err)
{
    return tide_task_release(store, "none", 0, true, err);
}

static tide_status cancel_of_everything(tide_store *store, tide_error *err)
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT};
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .filter = &filter};
    return tide_work_cancel_many(store, &change, NULL, NULL, err);
}

static tide_status cancel_of_ended_items(tide_store *store, tide_error *err)
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .status = "completed"};
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .filter = &filter};
    return tide_work_cancel_many(store, &change, NULL, NULL, err);
}

static tide_status priority_of_a_missing_item(tide_store *store, tide_error *err)
{
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .work_item_id = "none", .priority = 1};
    return tide_work_reprioritise(store, &change, NULL, NULL, err);
}

static tide_status priority_out_of_range(tide_store *store, tide_error *err)
{
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .work_item_id = "i",
                                     .priority = 1000001};
    return tide_work_reprioritise(store, &change, NULL, NULL, err);
}

#define JOURNAL_METHOD "tidemark.journal.v1.JournalService/"
#define WORK_METHOD "tidemark.work.v1.WorkService/"
#define APPEND(members)                                                                            \
    "{\"checkpoints\":[{\"type\":\"manual_checkpoint\",\"snapshot\":{}," members "}]}"

static const struct {
    const char *name;
    tide_status (*call)(tide_store *store, tide_error *err);
    tide_status want;
    const char *method, *request, *command;
} rows[] = {
    {"item of another task", item_of_another_task, TIDE_E_INVALID, JOURNAL_METHOD "Append",
     APPEND("\"task_id\":\"u\",\"work_item_id\":\"i\""),
     "checkpoint add --task u --work-item i --data {}"},
    {"missing item", item_that_is_missing, TIDE_E_NOT_FOUND, JOURNAL_METHOD "Append",
     APPEND("\"task_id\":\"t\",\"work_item_id\":\"none\""),
     "checkpoint add --task t --work-item none --data {}"},
    {"missing task", task_that_is_missing, TIDE_E_NOT_FOUND, JOURNAL_METHOD "Append",
     APPEND("\"task_id\":\"none\""), "checkpoint add --task none --data {}"},
    {"unknown checkpoint type", unknown_checkpoint_type, TIDE_E_INVALID, JOURNAL_METHOD "Append",
     "{\"checkpoints\":[{\"type\":\"odd\",\"snapshot\":{},\"task_id\":\"t\"}]}",
     "checkpoint add --task t --type odd --data {}"},
    {"stale token", stale_token, TIDE_E_LEASE_LOST, JOURNAL_METHOD "Append",
     APPEND("\"task_id\":\"t\",\"token\":7"), "checkpoint add --task t --token 7 --data {}"},
    {"id of digits", id_of_digits, TIDE_E_INVALID, JOURNAL_METHOD "Append",
     APPEND("\"task_id\":\"t\",\"checkpoint_id\":\"12\""),
     "checkpoint add --task t --key 12 --data {}"},
    {"unknown item status", unknown_item_status, TIDE_E_INVALID, WORK_METHOD "ListItems",
     "{\"status\":\"done\"}", "work ls --status done"},
    {"unknown failure kind", unknown_failure_kind, TIDE_E_INVALID, WORK_METHOD "ListItems",
     "{\"failure_kind\":\"bad\"}", "work ls --failure-kind bad"},
    {"unknown task status", unknown_task_status, TIDE_E_INVALID, WORK_METHOD "ListTasks",
     "{\"status\":\"done\"}", "task ls --status done"},
    {"retry of a live item", retry_of_a_live_item, TIDE_E_CONFLICT, WORK_METHOD "Retry",
     "{\"work_item_id\":\"i\"}", "work retry i"},
    {"step under a stale token", step_under_a_stale_token, TIDE_E_LEASE_LOST,
     JOURNAL_METHOD "BeginStep", "{\"task_id\":\"t\",\"name\":\"s\",\"token\":7}",
     "task begin-step t s --token 7"},
    {"release of a missing task", release_of_a_missing_task, TIDE_E_NOT_FOUND,
     WORK_METHOD "ReleaseTask", "{\"task_id\":\"none\",\"force\":true}",
     "task release none --force"},
    {"cancel of everything", cancel_of_everything, TIDE_E_INVALID, WORK_METHOD "CancelMany", "{}",
     "work cancel"},
    {"cancel of ended items", cancel_of_ended_items, TIDE_E_INVALID, WORK_METHOD "CancelMany",
     "{\"status\":\"completed\"}", "work cancel --status completed"},
    {"priority of a missing item", priority_of_a_missing_item, TIDE_E_NOT_FOUND,
     WORK_METHOD "Reprioritise", "{\"work_item_id\":\"none\",\"priority\":1}",
     "work reprioritise none --priority 1"},
    {"priority out of range", priority_out_of_range, TIDE_E_INVALID, WORK_METHOD "Reprioritise",
     "{\"work_item_id\":\"i\",\"priority\":1000001}", "work reprioritise i --priority 1000001"},
};

static void the_same_bad_input_has_one_status(void **state)
{
    cli_fixture *t = *state;
    proc server;
    work_ok(t, "$T task create other --task u");
    work_add(t, "--type x --work-item i");
    work_start(t, &server, "exec $T serve --listen 127.0.0.1:0");
    const char *ready = work_read_line(t, &server);
    assert_contains(ready, "listen=");
    const char *address = strstr(ready, "listen=") + strlen("listen=");
    tide_store *store = NULL;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_EXISTING};
    assert_ok_err(tide_store_open(&store, t->url, &options, &t->err), &t->err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tide_status status = rows[i].call(store, &t->err);
        const tide_status_row *row = tide_status_get(rows[i].want);
        if (status != rows[i].want)
            fail_msg("%s: %s by function, want %s", rows[i].name, tide_status_get(status)->name,
                     row->name);
        const char *answer =
            work_ok(t, "curl -s -H 'content-type: application/json' -d '%s' http://%s/%s",
                    rows[i].request, address, rows[i].method);
        if (!strstr(answer, work_text(t, "\"reason\":\"%s\"", row->name + strlen("E_"))))
            fail_msg("%s: %s by service, want %s", rows[i].name, answer, row->name);
        const int code = work_run(t, "$T %s", rows[i].command).exit_code;
        if (code != (int)row->exit_code)
            fail_msg("%s: exit code %d, want %d", rows[i].name, code, (int)row->exit_code);
    }
    tide_store_close(store);
    assert_string_equal("0", work_query(t, "SELECT count(*) FROM checkpoints"));
    assert_ok_err(proc_kill(&server, SIGTERM, &t->err), &t->err);
    (void)work_finish(t, &server, 0);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(the_same_bad_input_has_one_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
