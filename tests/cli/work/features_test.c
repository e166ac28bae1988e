/* What queue users reach for, by command and by service of a running daemon: limits, retry policies,
 * time zones and changes of schedules, changes by filter, steps, titles. What one wrote the other reads. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/work/work_calls.h"

#define WORK "tidemark.work.v1.WorkService/"
#define JOURNAL "tidemark.journal.v1.JournalService/"

static void serve_begin(cli_fixture *t, proc *server, const char **address)
{
    work_start(t, server, "exec $T serve --listen 127.0.0.1:0");
    const char *ready = work_read_line(t, server);
    assert_contains(ready, "listen=");
    *address = strstr(ready, "listen=") + strlen("listen=");
}

static void serve_end(cli_fixture *t, proc *server)
{
    assert_ok_err(proc_kill(server, SIGTERM, &t->err), &t->err);
    (void)work_finish(t, server, 0);
}

static const char *call(cli_fixture *t, const char *address, const char *method,
                        const char *request)
{
    return work_line(t, "curl -s -H 'content-type: application/json' -d '%s' http://%s/%s", request,
                     address, method);
}

static void limits(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    assert_string_equal("{}", call(t, address, WORK "SetLimit",
                                   "{\"work_type\":\"mail\",\"running\":2,\"running_per_key\":1}"));
    assert_contains(work_ok(t, "$T work limit mail"),
                    "mail: running at once: 2; per limit key: 1; in progress: 0");
    work_ok(t, "$T work limit mail --running 3 --per-key");
    assert_contains(work_ok(t, "$T work limit mail --running 1"),
                    "running at once: 1; per limit key: 3");
    assert_contains(call(t, address, WORK "GetLimit", "{\"work_type\":\"mail\"}"),
                    "\"running\":1,\"running_per_key\":3,\"in_progress\":0");
    const char *first = work_line(t, "$T work add --task t --type mail --limit-key ann");
    (void)call(t, address, WORK "AddItems",
               "{\"items\":[{\"task_id\":\"t\",\"work_type\":\"mail\",\"work_item_id\":\"second\","
               "\"limit_key\":\"bob\"}]}");
    assert_member(t, "second", "limit_key", "bob");
    const work_held held = work_claim(t, "--type mail");
    assert_string_equal(first, held.id);
    assert_int_equal(3, work_run(t, "$T work claim --worker w --type mail").exit_code);
    assert_contains(call(t, address, WORK "Claim", "{\"worker\":\"w\",\"work_types\":[\"mail\"]}"),
                    "\"items\":[],\"next_due_ms\":1000");
    assert_contains(work_ok(t, "$T work explain second"), "limited: 1 items of mail");
    assert_contains(call(t, address, WORK "Explain", "{\"work_item_id\":\"second\"}"),
                    "\"code\":\"limited\"");
    assert_contains(work_ok(t, "$T explain limited"), "tidemark work limit TYPE");
    /* A worker that waits at the daemon gets the slot when the command gives it back. */
    proc waiting = {0};
    work_start(t, &waiting,
               "exec curl -s -H 'content-type: application/json' -d "
               "'{\"worker\":\"w2\",\"work_types\":[\"mail\"],\"wait_ms\":30000}' http://%s/" WORK
               "Claim",
               address);
    work_ok(t, "$T work finish %s --token %lld", held.id, held.token);
    assert_contains(work_finish(t, &waiting, 0), "\"work_item_id\":\"second\"");
    work_ok(t, "$T work limit mail --reset --per-key");
    assert_contains(work_ok(t, "$T work limit mail"),
                    "running at once: 1; per limit key: no limit");
    assert_contains(work_ok(t, "$T work limit mail --reset"), "running at once: no limit");
    assert_contains(call(t, address, WORK "SetLimit", "{\"work_type\":\"mail\",\"running\":-1}"),
                    "INVALID");
    work_refuses(t, 2, "--running", "$T work limit mail --running 0");
    work_refuses(t, 2, "--per-key", "$T work limit mail --per-key");
    work_refuses(t, 2, "--reset", "$T work limit mail --reset --running 1");
    serve_end(t, &server);
}

static void retry_policies(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    assert_string_equal("{}", call(t, address, WORK "SetPolicy",
                                   "{\"work_type\":\"mail\",\"max_retries\":7,\"backoff_ms\":1000,"
                                   "\"backoff_max_ms\":60000,\"no_retry\":[\"timeout\"]}"));
    assert_contains(work_ok(t, "$T work policy mail"), "7 retries");
    work_ok(t, "$T work policy mail --retries 4 --no-retry error");
    const char *policy = call(t, address, WORK "GetPolicy", "{\"work_type\":\"mail\"}");
    assert_contains(policy, "\"max_retries\":4");
    assert_contains(policy, "\"no_retry\":[\"error\"]");
    (void)call(t, address, WORK "AddItems",
               "{\"items\":[{\"task_id\":\"t\",\"work_type\":\"mail\",\"work_item_id\":\"m\"}]}");
    assert_member(t, "m", "max_retries", "4");
    assert_contains(call(t, address, WORK "Explain", "{\"work_item_id\":\"m\"}"),
                    "\"code\":\"policy\"");
    assert_contains(
        call(t, address, WORK "SetPolicy", "{\"work_type\":\"mail\",\"no_retry\":[\"boredom\"]}"),
        "INVALID");
    serve_end(t, &server);
}

static void waits_and_runs_are_measured(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    work_ok(t, "for i in 1 2 3; do $T work add --task t --type mail --work-item m$i; done");
    const char *claimed =
        call(t, address, WORK "Claim", "{\"worker\":\"w\",\"work_types\":[\"mail\"],\"limit\":2}");
    const char *token = strstr(claimed, "\"lease_token\":") + strlen("\"lease_token\":");
    const char *request = work_text(t, "{\"lease\":{\"work_item_id\":\"m1\",\"lease_token\":%lld}}",
                                    strtoll(token, NULL, 10));
    (void)call(t, address, WORK "Finish", request);
    (void)call(t, address, WORK "Finish", request); /* the same end again is no second attempt */
    const char *metrics = work_ok(t, "curl -s http://%s/metrics", address);
    assert_contains(metrics, "tidemark_work_wait_seconds_count{work_type=\"mail\"} 2\n");
    assert_contains(metrics, "tidemark_work_run_seconds_count{work_type=\"mail\"} 1\n");
    assert_contains(metrics,
                    "tidemark_work_wait_seconds_bucket{work_type=\"mail\",le=\"3600.0\"} 2\n");
    serve_end(t, &server);
}

static void time_zones_and_changes_of_schedules(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    assert_contains(
        call(t, address, WORK "AddSchedule",
             "{\"name\":\"nightly\",\"task_id\":\"t\",\"work_type\":\"mail\",\"cron\":\"30 2 * * "
             "*\",\"time_zone\":\"Europe/Berlin\"}"),
        "\"next_run_at\"");
    assert_contains(work_ok(t, "$T schedule ls --json"), "\"time_zone\":\"Europe/Berlin\"");
    assert_contains(call(t, address, WORK "UpdateSchedule",
                         "{\"name\":\"nightly\",\"time_zone\":\"America/New_York\"}"),
                    "\"next_run_at\"");
    work_ok(t, "$T schedule update nightly --type other");
    const char *list = call(t, address, WORK "ListSchedules", "{}");
    assert_contains(list, "\"time_zone\":\"America/New_York\"");
    assert_contains(list, "\"work_type\":\"other\"");
    assert_contains(call(t, address, WORK "UpdateSchedule",
                         "{\"name\":\"nightly\",\"time_zone\":\"Atlantis/Capital\"}"),
                    "INVALID");
    assert_contains(
        call(t, address, WORK "UpdateSchedule", "{\"name\":\"none\",\"cron\":\"* * * * *\"}"),
        "NOT_FOUND");
    serve_end(t, &server);
}

static void changes_by_filter(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    work_ok(t, "for i in 1 2 3; do $T work add --task t --type mail --work-item m$i; done");
    work_ok(t, "$T work add --task t --type other --work-item o");
    assert_contains(call(t, address, WORK "Reprioritise",
                         "{\"work_type\":\"mail\",\"priority\":9,\"dry_run\":true}"),
                    "\"m2\"");
    assert_member(t, "m2", "priority", "0");
    (void)call(t, address, WORK "Reprioritise", "{\"work_type\":\"mail\",\"priority\":9}");
    assert_member(t, "m2", "priority", "9");
    assert_contains(
        call(t, address, WORK "CancelMany", "{\"work_type\":\"mail\",\"dry_run\":true}"), "\"m3\"");
    assert_member(t, "m3", "status", "pending");
    (void)call(t, address, WORK "CancelMany", "{\"work_type\":\"mail\"}");
    assert_member(t, "m3", "status", "failed");
    assert_member(t, "o", "status", "pending");
    assert_contains(
        call(t, address, WORK "RetryMany",
             "{\"work_type\":\"mail\",\"failure_kind\":\"cancelled\",\"dry_run\":true}"),
        "\"m1\"");
    assert_contains(call(t, address, WORK "RetryMany",
                         "{\"work_type\":\"mail\",\"failure_kind\":\"cancelled\"}"),
                    "\"retried_from\":\"m1\"");
    assert_string_equal("3", work_query(t, "SELECT count(*) FROM work_items WHERE retried_from IS "
                                           "NOT NULL AND status = 'pending'"));
    serve_end(t, &server);
}

static void steps(void **state)
{
    cli_fixture *t = *state;
    proc server = {0};
    const char *address = NULL;
    serve_begin(t, &server, &address);
    tide_json_node *resumed =
        work_object(t, "$T task resume t --holder h --lease 5m --json | head -1");
    const char *token = work_value(t, resumed, "lease_token");
    tide_json_tree_free(resumed);
    const char *begun =
        call(t, address, JOURNAL "BeginStep",
             work_text(t, "{\"task_id\":\"t\",\"name\":\"charge\",\"token\":%s}", token));
    assert_contains(begun, "\"is_done\":false");
    assert_contains(begun, "\"key\":\"step/t/charge\"");
    const char *step = strstr(begun, "\"step_token\":") + strlen("\"step_token\":");
    (void)call(t, address, JOURNAL "CompleteStep",
               work_text(t,
                         "{\"task_id\":\"t\",\"name\":\"charge\",\"token\":%s,"
                         "\"step_token\":%lld,\"result\":{\"id\":7}}",
                         token, strtoll(step, NULL, 10)));
    assert_contains(
        call(t, address, JOURNAL "BeginStep",
             work_text(t, "{\"task_id\":\"t\",\"name\":\"charge\",\"token\":%s}", token)),
        "\"is_done\":true,\"result\":{\"id\":7}");
    assert_contains(work_ok(t, "$T checkpoint ls --task t"), "tool_executed");
    assert_contains(call(t, address, JOURNAL "BeginStep",
                         "{\"task_id\":\"t\",\"name\":\"charge\",\"token\":1}"),
                    "LEASE_LOST");
    serve_end(t, &server);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(limits),
        WORK_EVERY_ENGINE(retry_policies),
        WORK_EVERY_ENGINE(waits_and_runs_are_measured),
        WORK_EVERY_ENGINE(time_zones_and_changes_of_schedules),
        WORK_EVERY_ENGINE(changes_by_filter),
        WORK_EVERY_ENGINE(steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
