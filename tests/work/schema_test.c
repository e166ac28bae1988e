/* The schema of tasks, work items, attempts and idempotency keys, met with plain SQL on both engines: the database itself
 * refuses what would break a promise, and fences claims that carry no token. */
#include "work/foreign/raw_work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/work.h>

/* ---- transitions ---- */

static const char *const statuses[] = {"pending", "in_progress", "completed", "failed", "expired"};
enum { STATUSES = 5 };

/* Rows: from; columns: to, in the order above. */
static const bool is_allowed[STATUSES][STATUSES] = {
    {true, true, false, true, false},   {true, true, true, true, true},
    {false, false, true, false, false}, {false, false, false, true, false},
    {true, false, false, true, true},
};

/* The whole matrix, by plain SQL (revision stays) and as the library writes (revision rises). */
static void every_transition_is_allowed_or_refused_as_stated(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    for (int as_library = 0; as_library < 2; as_library++)
        for (int from = 0; from < STATUSES; from++)
            for (int to = 0; to < STATUSES; to++) {
                char id[32];
                (void)snprintf(id, sizeof id, "w-%d-%d-%d", as_library, from, to);
                add_plainly(raw, id);
                bring_to(raw, id, statuses[from]);
                const bool is_done =
                    raw_try(raw,
                            "UPDATE work_items SET status = '%s', lease_acquired_at = %s, "
                            "revision = revision + %d WHERE work_item_id = '%s'",
                            statuses[to],
                            from == to || !is_allowed[from][to] || to != 1 ? "lease_acquired_at"
                                                                           : raw_time(raw, 0),
                            as_library, id);
                if (is_done != is_allowed[from][to])
                    fail_msg("%s to %s%s: %s", statuses[from], statuses[to],
                             as_library ? " by the library" : "",
                             is_done ? "accepted" : raw->error);
                assert_string_equal(is_done ? statuses[to] : statuses[from], status_of(raw, id));
                /* Exactly the items in progress have an open attempt. */
                if (as_library && raw->engine == TIDE_ENGINE_POSTGRES)
                    continue; /* the library's statements see to that */
                assert_int_equal(strcmp(status_of(raw, id), "in_progress") == 0,
                                 raw_number(raw,
                                            "SELECT count(*) FROM work_attempts "
                                            "WHERE work_item_id = '%s' AND ended_at IS NULL",
                                            id));
            }
    raw_work_end(&c);
}

static void unknown_statuses_are_refused(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    raw_ok(raw, "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')");
    static const char *const bad[] = {"done", "", "PENDING", "Completed "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        raw_refuse(raw, "status is", "UPDATE work_items SET status = '%s'", bad[i]);
        raw_refuse(raw, "status is",
                   "INSERT INTO work_items (work_item_id, task_id, work_type, status) "
                   "VALUES ('x', 't', 'job', '%s')",
                   bad[i]);
        raw_refuse(raw, "task status is", "UPDATE tasks SET status = '%s'", bad[i]);
        raw_refuse(raw, "task status is", "INSERT INTO tasks (task_id, status) VALUES ('x', '%s')",
                   bad[i]);
        raw_refuse(raw, "status is", "UPDATE idempotency_keys SET status = '%s'", bad[i]);
        raw_refuse(raw, "status is",
                   "INSERT INTO idempotency_keys (idempotency_key, request_hash, status) "
                   "VALUES ('x', 'h', '%s')",
                   bad[i]);
    }
    raw_work_end(&c);
}

/* "A terminal row refuses any change of status, output or lease columns", also by the library. */
static void an_item_that_ended_keeps_status_output_and_lease(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    bring_to(raw, "w", "completed");
    for (int as_library = 0; as_library < 2; as_library++) {
        char raise[32];
        (void)snprintf(raise, sizeof raise, "revision = revision + %d", as_library);
        raw_refuse(raw, "has ended", "UPDATE work_items SET output_data = '{}', %s", raise);
        raw_refuse(raw, "has ended", "UPDATE work_items SET lease_holder = 'x', %s", raise);
        raw_refuse(raw, "has ended", "UPDATE work_items SET lease_expires_at = %s, %s",
                   raw_time(raw, 9), raise);
        raw_refuse(raw, "has ended", "UPDATE work_items SET lease_acquired_at = NULL, %s", raise);
        raw_refuse(raw, "has ended", "UPDATE work_items SET heartbeat_at = NULL, %s", raise);
        const char *why = as_library ? "has ended" : ""; /* plain SQL may not do it anyway */
        raw_refuse(raw, why, "UPDATE work_items SET lease_token = lease_token + 1, %s", raise);
        raw_refuse(raw, why, "UPDATE work_items SET lease_via = 'api', %s", raise);
    }
    raw_ok(raw, "UPDATE work_items SET error_message = 'a note', priority = 3");
    raw_work_end(&c);
}

static void tasks_do_not_go_back(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    raw_refuse(raw, "does not become pending", "UPDATE tasks SET status = 'pending'");
    raw_refuse(raw, "keeps its id", "UPDATE tasks SET task_id = 'u'");
    raw_ok(raw, "UPDATE tasks SET status = 'succeeded'");
    raw_refuse(raw, "has ended", "UPDATE tasks SET status = 'running'");
    raw_refuse(raw, "has ended", "UPDATE tasks SET status = 'failed'");
    raw_refuse(raw, "only rises", "UPDATE tasks SET revision = revision - 1");
    raw_ok(raw, "UPDATE tasks SET title = 'other'");
    raw_work_end(&c);
}

/* ---- leases ---- */

/* Plain SQL carries no token, so its claims raise it. */
static void a_plain_claim_raises_the_token_and_opens_an_attempt(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    int64_t last = INT64_C(1) << 40;
    for (int attempt = 1; attempt <= 3; attempt++) {
        claim_plainly(raw, "w", "me");
        const int64_t token = token_of(raw, "w");
        assert_true(token > last);
        assert_string_equal("me|sql|-", raw_text(raw,
                                                 "SELECT worker, via, ended_at FROM work_attempts "
                                                 "WHERE lease_token = %" PRId64,
                                                 token));
        raw_ok(raw, "UPDATE work_items SET status = 'pending', retry_count = retry_count + 1");
        last = token_of(raw, "w");
        assert_true(last > token);
    }
    assert_string_equal(
        "1|expired 2|expired 3|expired",
        raw_text(raw, "SELECT attempt, outcome FROM work_attempts ORDER BY lease_token"));
    assert_string_equal("3|-|-", raw_text(raw, "SELECT crash_count, lease_holder, lease_via "
                                               "FROM work_items"));
    raw_work_end(&c);
}

/* How each end of a plain lease is written down. */
static void a_plain_end_closes_the_attempt_with_its_outcome(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const struct {
        const char *change, *outcome, *item;
    } ends[] = {
        {"status = 'completed', output_data = '1'", "completed|-", "completed|completed|-|0|0"},
        {"status = 'failed', error_message = 'e'", "failed|e", "failed|failed|error|1|0"},
        {"status = 'failed', retry_count = retry_count + 1, error_message = 'e'", "expired|e",
         "failed|expired|exhausted|0|1"},
        {"status = 'pending', retry_count = retry_count + 1, error_message = 'e'", "expired|e",
         "pending|expired|-|0|1"},
        {"status = 'pending'", "released|-", "pending|released|-|0|0"},
        {"status = 'expired'", "expired|-", "expired|expired|-|0|1"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "w%zu", i);
        add_plainly(raw, id);
        claim_plainly(raw, id, "me");
        raw_ok(raw, "UPDATE work_items SET %s WHERE work_item_id = '%s'", ends[i].change, id);
        assert_string_equal(ends[i].outcome,
                            raw_text(raw,
                                     "SELECT outcome, error_message FROM work_attempts "
                                     "WHERE work_item_id = '%s'",
                                     id));
        assert_string_equal(ends[i].item,
                            raw_text(raw,
                                     "SELECT status, attempt_outcome, failure_kind, failure_count, "
                                     "crash_count FROM work_items WHERE work_item_id = '%s'",
                                     id));
        assert_int_equal(strncmp(ends[i].item, "completed", 9) == 0 ||
                             strncmp(ends[i].item, "failed", 6) == 0,
                         raw_number(raw,
                                    "SELECT count(completed_at) FROM work_items "
                                    "WHERE work_item_id = '%s'",
                                    id));
    }
    raw_work_end(&c);
}

/* The library says it by attempt_outcome; the trigger copies it. */
static void an_end_by_the_library_closes_the_attempt_as_told(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    claim_by_library(raw, "w", 300);
    const int64_t token = token_of(raw, "w");
    assert_string_equal("1|lib|api|-",
                        raw_text(raw,
                                 "SELECT attempt, worker, via, outcome FROM work_attempts "
                                 "WHERE lease_token = %" PRId64,
                                 token));
    raw_ok(
        raw,
        "UPDATE work_items SET status = 'pending', attempt_outcome = 'timed_out', "
        "error_message = 'late', lease_holder = NULL, lease_expires_at = NULL, lease_via = NULL, "
        "lease_token = lease_token + 1, revision = revision + 1, updated_at = %s",
        raw_time(raw, 0));
    assert_string_equal("timed_out|late",
                        raw_text(raw, "SELECT outcome, error_message FROM work_attempts"));
    assert_string_equal("t",
                        raw_text(raw, "SELECT CASE WHEN ended_at IS NULL THEN 'f' ELSE 't' END "
                                      "FROM work_attempts"));
    raw_work_end(&c);
}

/* Under a lease of the library plain SQL may neither end nor change it. */
static void a_lease_of_the_library_is_not_ended_by_plain_sql(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    claim_by_library(raw, "w", 300);
    static const char *const bad[] = {
        "status = 'completed', output_data = '{}', lease_holder = NULL, lease_expires_at = NULL",
        "status = 'failed'",
        "status = 'pending'",
        "status = 'expired'",
        "lease_holder = 'thief'",
        "output_data = '{}'",
        "lease_acquired_at = NULL",
        "heartbeat_at = NULL",
        "lease_expires_at = NULL",
        "deadline_at = created_at",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        raw_refuse(raw, "held through the library", "UPDATE work_items SET %s", bad[i]);
    raw_refuse(raw, "tokens only rise", "UPDATE work_items SET lease_token = lease_token + 1");
    raw_refuse(raw, "tokens only rise", "UPDATE work_items SET lease_via = 'sql'");
    raw_refuse(raw, "tokens only rise",
               "UPDATE work_items SET lease_token = lease_token - 1, revision = revision + 1");
    raw_refuse(raw, "revision only rises", "UPDATE work_items SET revision = revision - 1");
    raw_ok(raw, "UPDATE work_items SET error_message = 'a note', max_retries = 9");
    assert_string_equal("in_progress", status_of(raw, "w"));
    raw_work_end(&c);
}

static void a_lease_that_ran_out_may_be_ended_by_plain_sql(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    claim_by_library(raw, "w", -1);
    const int64_t token = token_of(raw, "w");
    raw_refuse(raw, "held through the library", "UPDATE work_items SET status = 'completed'");
    raw_refuse(raw, "held through the library", "UPDATE work_items SET lease_holder = 'me'");
    raw_ok(
        raw,
        "UPDATE work_items SET status = 'pending', retry_count = retry_count + 1, "
        "lease_holder = NULL, lease_expires_at = NULL WHERE lease_expires_at < CURRENT_TIMESTAMP%s",
        raw->engine == TIDE_ENGINE_SQLITE ? " OR 1" : "");
    assert_true(token_of(raw, "w") > token);
    assert_string_equal("expired", raw_text(raw, "SELECT outcome FROM work_attempts"));
    raw_work_end(&c);
}

static void a_live_plain_lease_keeps_its_holder(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    claim_plainly(raw, "w", "a");
    const int64_t token = token_of(raw, "w");
    raw_refuse(raw, "another worker", "UPDATE work_items SET lease_holder = 'b'");
    raw_refuse(raw, "a lease has an end", "UPDATE work_items SET lease_expires_at = NULL");
    claim_plainly(raw, "w", "a"); /* the same again is a heartbeat */
    assert_true(token_of(raw, "w") == token);
    raw_ok(raw, "UPDATE work_items SET lease_expires_at = %s", raw_time(raw, -1));
    raw_refuse(raw, "another worker", "UPDATE work_items SET lease_holder = 'b'");
    /* A lease that ran out spends an attempt, counted or not. */
    raw_ok(raw, "UPDATE work_items SET status = 'pending'");
    claim_plainly(raw, "w", "b");
    assert_true(token_of(raw, "w") > token);
    assert_string_equal(
        "a|1|expired b|2|-",
        raw_text(raw, "SELECT worker, attempt, outcome FROM work_attempts ORDER BY lease_token"));
    raw_refuse(raw, "retry_count only rises", "UPDATE work_items SET retry_count = 0");
    raw_work_end(&c);
}

/* A worker that lost its lease is told so by its heartbeat, also when it asks by id alone. */
static void a_heartbeat_without_a_lease_is_refused(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    for (int round = 0; round < 2; round++) {
        raw_refuse(raw, "not in progress", "UPDATE work_items SET heartbeat_at = %s",
                   raw_time(raw, 0));
        raw_refuse(raw, "not in progress", "UPDATE work_items SET lease_expires_at = %s",
                   raw_time(raw, 9));
        raw_refuse(raw, "not in progress", "UPDATE work_items SET lease_holder = 'x'");
        if (round == 0)
            bring_to(raw, "w", "expired");
    }
    raw_work_end(&c);
}

static void tokens_outlive_their_items(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    int64_t last = 0;
    for (int round = 0; round < 3; round++) {
        add_plainly(raw, "w");
        claim_plainly(raw, "w", "me");
        assert_true(token_of(raw, "w") > last);
        last = token_of(raw, "w");
        raw_ok(raw, round == 1 ? "DELETE FROM tasks" : "DELETE FROM work_items");
        if (round == 1)
            raw_ok(raw, "INSERT INTO tasks (task_id) VALUES ('t')");
    }
    add_plainly(raw, "w");
    assert_true(token_of(raw, "w") >= last); /* so that the library's next claim is above it */
    raw_work_end(&c);
}

static void attempts_are_evidence(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    claim_plainly(raw, "w", "me");
    raw_refuse(raw, "live as long", "DELETE FROM work_attempts");
    raw_refuse(raw, "never changes", "UPDATE work_attempts SET worker = 'x'");
    for (int step = -1; step <= 1; step += 2)
        raw_refuse(
            raw, "newest token",
            "INSERT INTO work_attempts (work_item_id, lease_token, attempt, via, started_at) "
            "SELECT work_item_id, lease_token + %d, 9, 'sql', created_at FROM work_items",
            step);
    raw_ok(raw, "UPDATE work_items SET status = 'failed'");
    raw_refuse(raw, "never changes", "UPDATE work_attempts SET outcome = 'completed'");
    raw_ok(raw, "DELETE FROM work_items");
    assert_int_equal(0, raw_number(raw, "SELECT count(*) FROM work_attempts"));
    raw_work_end(&c);
}

static void an_item_made_in_progress_is_fenced_too(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    raw_ok(raw, "INSERT INTO work_items (work_item_id, task_id, work_type, status, lease_holder) "
                "VALUES ('w', 't', 'job', 'in_progress', 'me')");
    assert_true(token_of(raw, "w") > INT64_C(1) << 40);
    assert_string_equal("sql|1", raw_text(raw, "SELECT lease_via, count(lease_expires_at) "
                                               "FROM work_items GROUP BY 1"));
    assert_string_equal("me|-", raw_text(raw, "SELECT worker, ended_at FROM work_attempts"));
    raw_work_end(&c);
}

/* For plain SQL an expired key is born again; the library revives its own, by its own clocks, and is only told that the key
 * is there. */
static void an_expired_key_is_born_again_for_plain_sql_alone(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    raw_ok(raw,
           "INSERT INTO idempotency_keys (idempotency_key, request_hash, status, expires_at) "
           "VALUES ('k', 'old', 'completed', %s)",
           raw_time(raw, -60));
    assert_false(raw_try(raw,
                         "INSERT INTO idempotency_keys (idempotency_key, request_hash, revision) "
                         "VALUES ('k', 'new', 1)"));
    assert_int_equal(
        1, raw_number(raw, "SELECT count(*) FROM idempotency_keys WHERE request_hash = 'old'"));
    raw_ok(raw, "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'new')");
    assert_int_equal(
        1, raw_number(raw, "SELECT count(*) FROM idempotency_keys WHERE request_hash = 'new'"));
    raw_work_end(&c);
}

/* A gap that anybody may write would hide rows, or keep every later number from being given. */
static void gaps_are_recorded_only_where_numbers_were_given_and_rows_are_gone(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char add[] =
        "INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at) "
        "VALUES (%d, %d, 'removed', %s)";
    raw_ok(raw,
           "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
           "snapshot_data) VALUES ('c', 't', 'manual_checkpoint', 1, '{}')");
    raw_refuse(raw, "have no row", add, 1, 1, raw_time(raw, 0));
    raw_refuse(raw, "have no row", add, 2, 1000, raw_time(raw, 0));
    raw_ok(raw,
           "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
           "snapshot_data) VALUES ('d', 't', 'manual_checkpoint', 2, '{}')");
    raw_work_end(&c);
}

/* One odd row must not stop everybody who claims its type. */
static void plain_sql_gives_neither_token_nor_revision(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const bad[] = {"lease_token) VALUES ('x', 't', 'job', 4611686018427387904)",
                                      "revision) VALUES ('x', 't', 'job', 4611686018427387904)",
                                      "crash_count) VALUES ('x', 't', 'job', 9223372036854775807)",
                                      "timeout_us) VALUES ('x', 't', 'job', 9223372036854775807)"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(
            raw_try(raw, "INSERT INTO work_items (work_item_id, task_id, work_type, %s", bad[i]));
    assert_int_equal(0,
                     raw_number(raw, "SELECT count(*) FROM work_items WHERE work_item_id = 'x'"));
    raw_work_end(&c);
}

/* An attempt with a token that was never given would stand in the way of the claim that gets it. */
static void attempts_are_opened_by_claims_alone(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char add[] =
        "INSERT INTO work_attempts (work_item_id, lease_token, attempt, via, started_at) "
        "VALUES ('x', %s, 1, '%s', %s)";
    static const char *const tokens[] = {"1", "1099511627777", "9000000000000000"};
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('x', 't', 'job')");
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        assert_false(raw_try(raw, add, tokens[i], "api", raw_time(raw, 0)));
        assert_false(raw_try(raw, add, tokens[i], "sql", raw_time(raw, 0)));
    }
    raw_work_end(&c);
}

/* An event that nobody numbered would stand in the way of every later one. */
static void events_are_numbered_by_the_store(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const ids[] = {"1", "2", "9000000000000000"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        raw_refuse(raw, "numbered by the store",
                   "INSERT INTO journal_events (event_id, kind, head, first_global, last_global, "
                   "checkpoint_count, task_id, at) VALUES (%s, 'deleted', 1, 1, 1, 1, 't', %s)",
                   ids[i], raw_time(raw, 0));
    raw_work_end(&c);
}

/* Times of plain SQL may have fewer digits than ours: its schedules run, and a sweep comes to its end. */
static void schedules_of_plain_sql_run(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const times[][2] = {{"2000-01-01 00:00:00", "2000-01-01 00:00:00"},
                                           {"2000-01-01 00:00:00.5", "2000-01-01 00:00:00.5"},
                                           {"2090-01-01 00:00:00", "2090-01-01 00:00:00"}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        raw_ok(raw,
               "INSERT INTO work_schedules (name, task_id, work_type, every_us, next_run_at, "
               "created_at) VALUES ('s%d', 't', 'job', 3600000000, '%s', '%s')",
               (int)i, times[i][0], times[i][1]);
    tide_work_swept swept;
    assert_ok_err(tide_work_sweep(c.t->store, 0, 0, &swept, &c.t->err), &c.t->err);
    assert_int_equal(2, swept.scheduled);
    assert_false(swept.has_more && swept.scheduled == 0);
    assert_ok_err(tide_work_sweep(c.t->store, 0, 0, &swept, &c.t->err), &c.t->err);
    assert_int_equal(0, swept.scheduled);
    assert_false(swept.has_more);
    raw_work_end(&c);
}

/* What a schedule makes is an item: one that could not be made would stop every sweep. */
static void schedules_are_within_the_bounds_of_items(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const bad[][2] = {{"priority", "5000000"},
                                         {"max_retries", "-1"},
                                         {"timeout_us", "-1"},
                                         {"timeout_us", "4000000000000000"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(
            raw_try(raw,
                    "INSERT INTO work_schedules (name, task_id, work_type, every_us, "
                    "next_run_at, created_at, %s) VALUES ('s', 't', 'job', 3600000000, %s, %s, %s)",
                    bad[i][0], raw_time(raw, 0), raw_time(raw, 0), bad[i][1]));
    assert_int_equal(0, raw_number(raw, "SELECT count(*) FROM work_schedules"));
    raw_work_end(&c);
}

/* Who imitates the library (it writes revision 1) is held to the same bounds. */
static void bounds_hold_for_everybody(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const bad[] = {
        "priority) VALUES ('x', 't', 'job', 1, 0, 99999999999)",
        "max_retries) VALUES ('x', 't', 'job', 1, 0, -7)",
        "timeout_us) VALUES ('x', 't', 'job', 1, 0, -5)",
        "priority) VALUES ('', 't', 'job', 1, 0, 0)",
    };
    const bool is_sqlite = tide_store_engine(c.t->store) == TIDE_ENGINE_SQLITE;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!is_sqlite) /* there claim_key is computed: nobody can give it */
            assert_false(
                raw_try(raw,
                        "INSERT INTO work_items (work_item_id, task_id, work_type, revision, "
                        "claim_key, %s",
                        bad[i]));
    assert_int_equal(0, raw_number(raw, "SELECT count(*) FROM work_items"));
    add_plainly(raw, "y");
    if (!is_sqlite) {
        assert_false(raw_try(raw, "UPDATE work_items SET claim_key = NULL"));
        assert_false(raw_try(raw, "UPDATE work_items SET input_data = repeat('x', 17000000)"));
    }
    raw_work_end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(every_transition_is_allowed_or_refused_as_stated),
        STORE_CASE(unknown_statuses_are_refused),
        STORE_CASE(an_item_that_ended_keeps_status_output_and_lease),
        STORE_CASE(tasks_do_not_go_back),
        STORE_CASE(a_plain_claim_raises_the_token_and_opens_an_attempt),
        STORE_CASE(a_plain_end_closes_the_attempt_with_its_outcome),
        STORE_CASE(an_end_by_the_library_closes_the_attempt_as_told),
        STORE_CASE(a_lease_of_the_library_is_not_ended_by_plain_sql),
        STORE_CASE(a_lease_that_ran_out_may_be_ended_by_plain_sql),
        STORE_CASE(a_live_plain_lease_keeps_its_holder),
        STORE_CASE(a_heartbeat_without_a_lease_is_refused),
        STORE_CASE(tokens_outlive_their_items),
        STORE_CASE(attempts_are_evidence),
        STORE_CASE(an_item_made_in_progress_is_fenced_too),
        STORE_CASE(an_expired_key_is_born_again_for_plain_sql_alone),
        STORE_CASE(gaps_are_recorded_only_where_numbers_were_given_and_rows_are_gone),
        STORE_CASE(plain_sql_gives_neither_token_nor_revision),
        STORE_CASE(attempts_are_opened_by_claims_alone),
        STORE_CASE(events_are_numbered_by_the_store),
        STORE_CASE(schedules_of_plain_sql_run),
        STORE_CASE(schedules_are_within_the_bounds_of_items),
        STORE_CASE(bounds_hold_for_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
