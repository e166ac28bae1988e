/* The schema of tasks, work items, attempts and idempotency keys, met with plain SQL on both engines: the database itself
 * refuses what would break a promise (FAULTS A13), and fences claims that carry no token (A1, A2). */
#include "work/foreign/raw_sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct schema_case {
    store_test *t;
    raw_sql raw;
} schema_case;

/* A case on a store with the task "t", running; the raw connection ends with the case. */
static raw_sql *begin(schema_case *c, void **state)
{
    *c = (schema_case){.t = *state};
    raw_open(&c->raw, c->t);
    raw_ok(&c->raw, "INSERT INTO tasks (task_id, title, status) VALUES ('t', 'T', 'running')");
    return &c->raw;
}

static void end(schema_case *c)
{
    raw_close(&c->raw);
}

static void add_item(raw_sql *raw, const char *id)
{
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('%s', 't', 'job')",
           id);
}

static void claim_plainly(raw_sql *raw, const char *id, const char *holder)
{
    raw_ok(raw,
           "UPDATE work_items SET status = 'in_progress', lease_holder = '%s', lease_acquired_at = "
           "%s, "
           "lease_expires_at = %s, heartbeat_at = %s WHERE work_item_id = '%s'",
           holder, raw_time(raw, 0), raw_time(raw, 300), raw_time(raw, 0), id);
}

/* A claim as the library makes it: revision and token rise. */
static void claim_by_library(raw_sql *raw, const char *id, int seconds)
{
    raw_ok(raw,
           "UPDATE work_items SET status = 'in_progress', lease_holder = 'lib', lease_via = 'api', "
           "lease_acquired_at = %s, lease_expires_at = %s, heartbeat_at = %s, updated_at = %s, "
           "lease_token = lease_token + 1099511627777, revision = revision + 1 WHERE work_item_id "
           "= '%s'",
           raw_time(raw, 0), raw_time(raw, seconds), raw_time(raw, 0), raw_time(raw, 0), id);
}

static int64_t token_of(raw_sql *raw, const char *id)
{
    return raw_number(raw, "SELECT lease_token FROM work_items WHERE work_item_id = '%s'", id);
}

static const char *status_of(raw_sql *raw, const char *id)
{
    return raw_text(raw, "SELECT status FROM work_items WHERE work_item_id = '%s'", id);
}

/* ---- transitions ---- */

static const char *const statuses[] = {"pending", "in_progress", "completed", "failed", "expired"};
enum { STATUSES = 5 };

/* Rows: from; columns: to, in the order above. */
static const bool is_allowed[STATUSES][STATUSES] = {
    {true, true, false, true, false},   {true, true, true, true, true},
    {false, false, true, false, false}, {false, false, false, true, false},
    {true, false, false, true, true},
};

static void bring_to(raw_sql *raw, const char *id, const char *status)
{
    if (strcmp(status, "pending") == 0)
        return;
    claim_plainly(raw, id, "w");
    if (strcmp(status, "in_progress") != 0)
        raw_ok(raw, "UPDATE work_items SET status = '%s' WHERE work_item_id = '%s'", status, id);
}

/* FAULTS A13. The whole matrix, by plain SQL (revision stays) and as the library writes (revision rises). */
static void every_transition_is_allowed_or_refused_as_stated(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    for (int as_library = 0; as_library < 2; as_library++)
        for (int from = 0; from < STATUSES; from++)
            for (int to = 0; to < STATUSES; to++) {
                char id[32];
                (void)snprintf(id, sizeof id, "w-%d-%d-%d", as_library, from, to);
                add_item(raw, id);
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
                assert_int_equal(strcmp(status_of(raw, id), "in_progress") == 0,
                                 raw_number(raw,
                                            "SELECT count(*) FROM work_attempts "
                                            "WHERE work_item_id = '%s' AND ended_at IS NULL",
                                            id));
            }
    end(&c);
}

static void unknown_statuses_are_refused(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

/* "A terminal row refuses any change of status, output or lease columns", also by the library. */
static void an_item_that_ended_keeps_status_output_and_lease(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

static void tasks_do_not_go_back(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    raw_refuse(raw, "does not become pending", "UPDATE tasks SET status = 'pending'");
    raw_refuse(raw, "keeps its id", "UPDATE tasks SET task_id = 'u'");
    raw_ok(raw, "UPDATE tasks SET status = 'succeeded'");
    raw_refuse(raw, "has ended", "UPDATE tasks SET status = 'running'");
    raw_refuse(raw, "has ended", "UPDATE tasks SET status = 'failed'");
    raw_refuse(raw, "only rises", "UPDATE tasks SET revision = revision - 1");
    raw_ok(raw, "UPDATE tasks SET title = 'other'");
    end(&c);
}

/* ---- leases ---- */

/* FAULTS A1, A2: plain SQL carries no token, so its claims raise it. */
static void a_plain_claim_raises_the_token_and_opens_an_attempt(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

/* How each end of a plain lease is written down. */
static void a_plain_end_closes_the_attempt_with_its_outcome(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
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
        add_item(raw, id);
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
    end(&c);
}

/* The library says it by attempt_outcome; the trigger copies it. */
static void an_end_by_the_library_closes_the_attempt_as_told(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

/* DECISIONS 19: under a lease of the library plain SQL may neither end nor change it. */
static void a_lease_of_the_library_is_not_ended_by_plain_sql(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

static void a_lease_that_ran_out_may_be_ended_by_plain_sql(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

static void a_live_plain_lease_keeps_its_holder(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

/* A worker that lost its lease is told so by its heartbeat, also when it asks by id alone. */
static void a_heartbeat_without_a_lease_is_refused(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
    for (int round = 0; round < 2; round++) {
        raw_refuse(raw, "not in progress", "UPDATE work_items SET heartbeat_at = %s",
                   raw_time(raw, 0));
        raw_refuse(raw, "not in progress", "UPDATE work_items SET lease_expires_at = %s",
                   raw_time(raw, 9));
        raw_refuse(raw, "not in progress", "UPDATE work_items SET lease_holder = 'x'");
        if (round == 0)
            bring_to(raw, "w", "expired");
    }
    end(&c);
}

static void tokens_outlive_their_items(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    int64_t last = 0;
    for (int round = 0; round < 3; round++) {
        add_item(raw, "w");
        claim_plainly(raw, "w", "me");
        assert_true(token_of(raw, "w") > last);
        last = token_of(raw, "w");
        raw_ok(raw, round == 1 ? "DELETE FROM tasks" : "DELETE FROM work_items");
        if (round == 1)
            raw_ok(raw, "INSERT INTO tasks (task_id) VALUES ('t')");
    }
    add_item(raw, "w");
    assert_true(token_of(raw, "w") >= last); /* so that the library's next claim is above it */
    end(&c);
}

static void attempts_are_evidence(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
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
    end(&c);
}

static void an_item_made_in_progress_is_fenced_too(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, "INSERT INTO work_items (work_item_id, task_id, work_type, status, lease_holder) "
                "VALUES ('w', 't', 'job', 'in_progress', 'me')");
    assert_true(token_of(raw, "w") > INT64_C(1) << 40);
    assert_string_equal("sql|1", raw_text(raw, "SELECT lease_via, count(lease_expires_at) "
                                               "FROM work_items GROUP BY 1"));
    assert_string_equal("me|-", raw_text(raw, "SELECT worker, ended_at FROM work_attempts"));
    end(&c);
}

/* ---- what belongs together ---- */

static void parents_must_exist(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    raw_refuse(
        raw, "task",
        "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('w', 'none', 'job')");
    raw_refuse(raw, "no such task",
               "INSERT INTO idempotency_keys (idempotency_key, request_hash, task_id) "
               "VALUES ('k', 'h', 'none')");
    raw_refuse(raw, "no such work item",
               "INSERT INTO idempotency_keys (idempotency_key, request_hash, work_item_id) "
               "VALUES ('k', 'h', 'none')");
    raw_ok(raw, "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')");
    raw_refuse(raw, "no such task", "UPDATE idempotency_keys SET task_id = 'none'");
    raw_refuse(raw, "no such work item", "UPDATE idempotency_keys SET work_item_id = 'none'");
    end(&c);
}

static void a_task_goes_with_everything_that_is_its_own(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw, "INSERT INTO tasks (task_id) VALUES ('u')");
    add_item(raw, "w1");
    add_item(raw, "w2");
    claim_plainly(raw, "w1", "me");
    claim_by_library(raw, "w2", 300);
    raw_ok(raw,
           "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, "
           "snapshot_data) VALUES ('c1', 't', 'iteration_end', 1, '{}'), "
           "('c2', 'u', 'iteration_end', 1, '{}')");
    raw_ok(raw,
           "INSERT INTO idempotency_keys (idempotency_key, request_hash, task_id, work_item_id) "
           "VALUES ('k', 'h', 't', 'w1')");
    raw_ok(raw, "INSERT INTO tasks (task_id, forked_from, forked_at) VALUES ('f', 't', 1)");
    raw_refuse(raw, "delete the fork first", "DELETE FROM tasks WHERE task_id = 't'");
    raw_ok(raw, "DELETE FROM tasks WHERE task_id = 'f'");
    raw_ok(raw, "DELETE FROM tasks WHERE task_id = 't'");
    assert_string_equal("0|0|1|1", raw_text(raw, "SELECT (SELECT count(*) FROM work_items), "
                                                 "(SELECT count(*) FROM work_attempts), "
                                                 "(SELECT count(*) FROM checkpoints), "
                                                 "(SELECT count(*) FROM task_heads)"));
    assert_string_equal("-|-", raw_text(raw, "SELECT task_id, work_item_id FROM idempotency_keys"));
    raw_refuse(raw, "append-only",
               "DELETE FROM checkpoints"); /* the permit went with the cascade */
    end(&c);
}

/* "Deleting a work item leaves its checkpoints untouched." */
static void an_item_leaves_its_checkpoints(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
    raw_ok(raw, "INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, checkpoint_type, "
                "sequence_number, snapshot_data) VALUES ('c', 't', 'w', 'tool_executed', 1, '{}')");
    raw_ok(raw, "DELETE FROM work_items");
    assert_string_equal("w", raw_text(raw, "SELECT work_item_id FROM checkpoints"));
    end(&c);
}

static void a_cancelled_task_ends_its_items(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    static const char *const ids[] = {"w1", "w2", "w3", "w4"};
    for (size_t i = 0; i < 4; i++)
        add_item(raw, ids[i]);
    claim_plainly(raw, "w2", "me");
    claim_by_library(raw, "w3", 300);
    bring_to(raw, "w4", "completed");
    const int64_t token = token_of(raw, "w3");
    raw_ok(raw, "UPDATE tasks SET status = 'cancelled'");
    assert_string_equal(
        "w1|failed|cancelled w2|failed|cancelled w3|failed|cancelled w4|completed|-",
        raw_text(raw, "SELECT work_item_id, status, failure_kind FROM work_items "
                      "ORDER BY 1"));
    assert_true(token_of(raw, "w3") > token);
    assert_string_equal(
        "w2|cancelled w3|cancelled w4|completed",
        raw_text(raw, "SELECT work_item_id, outcome FROM work_attempts ORDER BY 1"));
    end(&c);
}

static void depend(raw_sql *raw, const char *waiting, const char *on)
{
    raw_ok(raw, "INSERT INTO work_dependencies (work_item_id, depends_on) VALUES ('%s', '%s')",
           waiting, on);
    raw_ok(raw,
           "UPDATE work_items SET waits_for = waits_for + 1, revision = revision + 1 "
           "WHERE work_item_id = '%s'",
           waiting);
    raw_ok(raw,
           "UPDATE work_items SET has_dependents = %s, revision = revision + 1 "
           "WHERE work_item_id = '%s'",
           raw->engine == TIDE_ENGINE_SQLITE ? "1" : "true", on);
}

/* FAULTS A5: nothing rests in a state that no one claims. */
static void nobody_waits_for_ever(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    static const char *const ids[] = {"w1", "w2", "w3", "w4", "w5", "w6"};
    for (size_t i = 0; i < 6; i++)
        add_item(raw, ids[i]);
    depend(raw, "w2", "w1");
    depend(raw, "w3", "w1");
    depend(raw, "w3", "w4");
    depend(raw, "w6", "w5");
    static const char waits[] =
        "SELECT work_item_id, waits_for FROM work_items WHERE waits_for > 0 ORDER BY 1";
    claim_plainly(raw, "w3", "early"); /* plain SQL honours status and priority only */
    bring_to(raw, "w1", "completed");
    assert_string_equal("w3|1 w6|1", raw_text(raw, waits));
    raw_ok(raw, "UPDATE work_items SET status = 'pending' WHERE work_item_id = 'w3'");
    claim_by_library(raw, "w4", 300);
    raw_ok(raw, "UPDATE work_items SET status = 'completed', attempt_outcome = 'completed', "
                "revision = revision + 1 WHERE work_item_id = 'w4'");
    assert_string_equal("w6|1", raw_text(raw, waits));
    raw_ok(raw, "DELETE FROM work_items WHERE work_item_id = 'w5'");
    assert_string_equal("failed|dependency|0",
                        raw_text(raw, "SELECT status, failure_kind, waits_for FROM work_items "
                                      "WHERE work_item_id = 'w6'"));
    raw_ok(raw, "DELETE FROM work_items WHERE work_item_id = 'w1'");
    assert_string_equal("pending", status_of(raw, "w2"));
    end(&c);
}

static void only_one_live_item_has_a_unique_key(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    static const char add[] =
        "INSERT INTO work_items (work_item_id, task_id, work_type, unique_key, "
        "status) VALUES ('%s', 't', 'job', 'k', '%s')";
    raw_ok(raw, add, "w1", "pending");
    raw_refuse(raw, "unique", add, "w2", "pending");
    raw_ok(raw, add, "w3", "failed");
    add_item(raw, "w4");
    raw_refuse(raw, "unique", "UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w4'");
    bring_to(raw, "w1", "completed");
    raw_ok(raw, "UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w4'");
    end(&c);
}

/* DECISIONS 21: ten minutes of age weigh as much as one step of priority. */
static void the_claim_key_weighs_priority_against_age(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    const char *zone = raw->engine == TIDE_ENGINE_SQLITE ? "" : "+00";
    raw_ok(raw,
           "INSERT INTO work_items (work_item_id, task_id, work_type, priority, created_at) VALUES "
           "('a', 't', 'job', 0, '2026-01-01 00:00:00%s'), "
           "('b', 't', 'job', 1, '2026-01-01 00:10:00%s'), "
           "('c', 't', 'job', -2, '2025-12-31 23:40:00.000001%s')",
           zone, zone, zone);
    assert_string_equal("a|1767225600000000 b|1767225600000000 c|1767225600000001",
                        raw_text(raw, "SELECT work_item_id, claim_key FROM work_items ORDER BY 1"));
    for (int as_library = 0; as_library < 2; as_library++) {
        raw_ok(raw,
               "UPDATE work_items SET priority = %d, revision = revision + %d WHERE work_item_id = "
               "'a'",
               2 + as_library, as_library);
        assert_int_equal(
            INT64_C(1767225600000000) - (2 + as_library) * INT64_C(600000000),
            raw_number(raw, "SELECT claim_key FROM work_items WHERE work_item_id = 'a'"));
    }
    end(&c);
}

static void updated_at_follows_every_plain_change(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "w");
    static const char *const tables[] = {"work_items", "tasks"};
    for (size_t i = 0; i < 2; i++) {
        raw_ok(raw, "UPDATE %s SET updated_at = '2020-01-01 00:00:00'", tables[i]);
        assert_int_equal(
            1, raw_number(raw, "SELECT count(*) FROM %s WHERE updated_at = '2020-01-01 00:00:00'",
                          tables[i]));
        raw_ok(raw, "UPDATE %s SET %s = 'x'", tables[i], i == 0 ? "error_message" : "title");
        assert_int_equal(
            1, raw_number(raw, "SELECT count(*) FROM %s WHERE updated_at > '2020-01-02 00:00:00'",
                          tables[i]));
    }
    end(&c);
}

/* ---- idempotency keys ---- */

static void a_plain_key_is_locked_and_can_be_answered(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    static const char add[] =
        "INSERT INTO idempotency_keys (idempotency_key, request_hash, expires_at) "
        "VALUES ('k', 'h', %s)";
    raw_ok(raw, add, raw_time(raw, 3600));
    raw_refuse(raw, raw->engine == TIDE_ENGINE_SQLITE ? "exists already" : "duplicate key", add,
               raw_time(raw, 3600));
    assert_string_equal("sql|1|1",
                        raw_text(raw, "SELECT lock_via, attempts, count(lock_expires_at) "
                                      "FROM idempotency_keys GROUP BY 1, 2"));
    const int64_t token = raw_number(raw, "SELECT lock_token FROM idempotency_keys");
    raw_refuse(raw, "keeps its name", "UPDATE idempotency_keys SET request_hash = 'other'");
    raw_refuse(raw, "tokens only rise", "UPDATE idempotency_keys SET lock_token = lock_token + 1");
    raw_ok(raw, "UPDATE idempotency_keys SET status = 'completed', response_data = '1'");
    raw_ok(raw, "UPDATE idempotency_keys SET expires_at = %s", raw_time(raw, -1));
    raw_ok(raw, add, raw_time(raw, 3600)); /* FAULTS A9: an expired one is born again */
    assert_true(raw_number(raw, "SELECT lock_token FROM idempotency_keys") > token);
    raw_ok(raw, "UPDATE idempotency_keys SET expires_at = %s", raw_time(raw, -1));
    raw_ok(raw, "DELETE FROM idempotency_keys WHERE expires_at < %s", raw_time(raw, 0));
    assert_int_equal(0, raw_number(raw, "SELECT count(*) FROM idempotency_keys"));
    end(&c);
}

/* FAULTS A9: never cleaned while its lease is live; DECISIONS 19. */
static void a_key_locked_through_the_library_is_left_alone(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    raw_ok(raw,
           "INSERT INTO idempotency_keys (idempotency_key, request_hash, lock_via, lock_token, "
           "lock_expires_at, revision, expires_at) VALUES ('k', 'h', 'api', 77, %s, 1, %s)",
           raw_time(raw, 60), raw_time(raw, -60));
    raw_refuse(raw, "locked through the library",
               "UPDATE idempotency_keys SET status = 'completed'");
    raw_refuse(raw, "locked through the library",
               "UPDATE idempotency_keys SET response_data = '1'");
    raw_refuse(raw, "locked through the library",
               "UPDATE idempotency_keys SET lock_expires_at = NULL");
    raw_refuse(raw, "tokens only rise", "UPDATE idempotency_keys SET lock_via = 'sql'");
    raw_refuse(raw, "tokens only rise",
               "UPDATE idempotency_keys SET lock_token = 76, revision = revision + 1");
    raw_ok(raw, "DELETE FROM idempotency_keys");
    assert_int_equal(1, raw_number(raw, "SELECT count(*) FROM idempotency_keys"));
    raw_ok(raw, "UPDATE idempotency_keys SET status = 'completed', response_data = '1', "
                "revision = revision + 1");
    raw_refuse(raw, "the answer is stored", "UPDATE idempotency_keys SET response_data = '2'");
    raw_refuse(raw, "the answer is stored", "UPDATE idempotency_keys SET status = 'failed'");
    raw_ok(raw, "DELETE FROM idempotency_keys");
    raw_ok(raw, "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')");
    assert_true(raw_number(raw, "SELECT lock_token FROM idempotency_keys") > 77);
    end(&c);
}

/* ---- a reboot ---- */

static tide_status ask_lease_clock(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_lease_now(tx, arg, err);
}

/* DECISIONS 18: a new boot id ends all leases: of work items and of keys, too. */
static void a_reboot_ends_the_leases_of_work_and_of_keys(void **state)
{
    schema_case c;
    raw_sql *raw = begin(&c, state);
    add_item(raw, "ours");
    add_item(raw, "plain");
    claim_plainly(raw, "plain", "me"); /* by the real clock, years after the virtual boot */
    static const char put[] =
        "UPDATE work_items SET status = 'in_progress', lease_via = 'api', lease_holder = 'lib', "
        "lease_token = lease_token + 1, lease_acquired_at = '2025-01-01 00:00:00', "
        "lease_expires_at = '2025-01-01 01:00:00', revision = revision + 1 "
        "WHERE work_item_id = 'ours'";
    raw_ok(raw, put);
    raw_ok(raw,
           "INSERT INTO idempotency_keys (idempotency_key, request_hash, lock_via, lock_token, "
           "lock_expires_at, revision) VALUES ('k', 'h', 'api', 77, '2025-01-01 01:00:00', 1)");
    int64_t now_us = 0;
    assert_ok_err(tide_write(c.t->store, ask_lease_clock, &now_us, &c.t->err), &c.t->err);
    static const char live[] =
        "SELECT lease_expires_at FROM work_items WHERE work_item_id = 'ours'";
    assert_string_equal("2025-01-01 01:00:00",
                        raw_text(raw, live)); /* the first use is no reboot */
    virtual_env_reboot(&c.t->clock);
    virtual_env_advance(&c.t->clock, SECOND_US);
    assert_ok_err(tide_write(c.t->store, ask_lease_clock, &now_us, &c.t->err), &c.t->err);
    assert_string_equal("2025-01-01 00:00:01.000000", raw_text(raw, live));
    assert_int_equal(1,
                     raw_number(raw, "SELECT count(*) FROM idempotency_keys WHERE lock_token > 77 "
                                     "AND lock_expires_at IS NULL"));
    assert_int_equal(1, raw_number(raw,
                                   "SELECT count(*) FROM work_items WHERE work_item_id = 'plain' "
                                   "AND lease_expires_at > %s",
                                   raw_time(raw, 200)));
    end(&c);
}

int main(void)
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
        STORE_CASE(parents_must_exist),
        STORE_CASE(a_task_goes_with_everything_that_is_its_own),
        STORE_CASE(an_item_leaves_its_checkpoints),
        STORE_CASE(a_cancelled_task_ends_its_items),
        STORE_CASE(nobody_waits_for_ever),
        STORE_CASE(only_one_live_item_has_a_unique_key),
        STORE_CASE(the_claim_key_weighs_priority_against_age),
        STORE_CASE(updated_at_follows_every_plain_change),
        STORE_CASE(a_plain_key_is_locked_and_can_be_answered),
        STORE_CASE(a_key_locked_through_the_library_is_left_alone),
        STORE_CASE_SQLITE(a_reboot_ends_the_leases_of_work_and_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
