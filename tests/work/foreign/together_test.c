/* What belongs together in the schema of work: tasks and their items, items that wait for each other, keys, times, a reboot.
 * Met with plain SQL on both engines. */
#include "work/foreign/raw_work.h"

#include <stdio.h>
#include <string.h>

/* ---- what belongs together ---- */

static void parents_must_exist(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
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
    raw_work_end(&c);
}

static void a_task_goes_with_everything_that_is_its_own(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    raw_ok(raw, "INSERT INTO tasks (task_id) VALUES ('u')");
    add_plainly(raw, "w1");
    add_plainly(raw, "w2");
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
    raw_work_end(&c);
}

/* "Deleting a work item leaves its checkpoints untouched." */
static void an_item_leaves_its_checkpoints(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
    raw_ok(raw, "INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, checkpoint_type, "
                "sequence_number, snapshot_data) VALUES ('c', 't', 'w', 'tool_executed', 1, '{}')");
    raw_ok(raw, "DELETE FROM work_items");
    assert_string_equal("w", raw_text(raw, "SELECT work_item_id FROM checkpoints"));
    raw_work_end(&c);
}

static void a_cancelled_task_ends_its_items(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const ids[] = {"w1", "w2", "w3", "w4"};
    for (size_t i = 0; i < 4; i++)
        add_plainly(raw, ids[i]);
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
    raw_work_end(&c);
}

/* A task that plain SQL ended: what waits ends with it, what runs may go on, and what comes back ends then. */
static void nothing_rests_in_a_task_that_ended(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const ids[] = {"w1", "w2", "w3", "w4"};
    for (size_t i = 0; i < 4; i++)
        add_plainly(raw, ids[i]);
    claim_plainly(raw, "w2", "me");
    claim_plainly(raw, "w3", "me");
    claim_by_library(raw, "w4", 300);
    raw_ok(raw, "UPDATE tasks SET status = 'succeeded'");
    static const char all[] =
        "SELECT work_item_id, status, failure_kind FROM work_items ORDER BY 1";
    assert_string_equal("w1|failed|cancelled w2|in_progress|- w3|in_progress|- w4|in_progress|-",
                        raw_text(raw, all));
    raw_ok(raw, "UPDATE work_items SET status = 'completed' WHERE work_item_id = 'w2'");
    raw_ok(raw, "UPDATE work_items SET status = 'pending' WHERE work_item_id = 'w3'");
    raw_ok(raw, "UPDATE work_items SET status = 'pending', attempt_outcome = 'released', "
                "lease_holder = NULL, lease_expires_at = NULL, lease_token = lease_token + 1, "
                "revision = revision + 1 WHERE work_item_id = 'w4'");
    assert_string_equal(
        "w1|failed|cancelled w2|completed|- w3|failed|cancelled w4|failed|cancelled",
        raw_text(raw, all));
    assert_string_equal(
        "w2|completed w3|released w4|released",
        raw_text(raw, "SELECT work_item_id, outcome FROM work_attempts ORDER BY 1"));
    raw_work_end(&c);
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

/* Nothing rests in a state that no one claims. */
static void nobody_waits_for_ever(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char *const ids[] = {"w1", "w2", "w3", "w4", "w5", "w6"};
    for (size_t i = 0; i < 6; i++)
        add_plainly(raw, ids[i]);
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
    raw_work_end(&c);
}

static void only_one_live_item_has_a_unique_key(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    static const char add[] =
        "INSERT INTO work_items (work_item_id, task_id, work_type, unique_key, "
        "status) VALUES ('%s', 't', 'job', 'k', '%s')";
    raw_ok(raw, add, "w1", "pending");
    raw_refuse(raw, "unique", add, "w2", "pending");
    raw_ok(raw, add, "w3", "failed");
    add_plainly(raw, "w4");
    raw_refuse(raw, "unique", "UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w4'");
    bring_to(raw, "w1", "completed");
    raw_ok(raw, "UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w4'");
    raw_work_end(&c);
}

/* Ten minutes of age weigh as much as one step of priority. */
static void the_claim_key_weighs_priority_against_age(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
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
    raw_work_end(&c);
}

static void updated_at_follows_every_plain_change(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "w");
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
    raw_work_end(&c);
}

/* ---- idempotency keys ---- */

static void a_plain_key_is_locked_and_can_be_answered(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
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
    raw_ok(raw, add, raw_time(raw, 3600)); /* An expired one is born again */
    assert_true(raw_number(raw, "SELECT lock_token FROM idempotency_keys") > token);
    raw_ok(raw, "UPDATE idempotency_keys SET expires_at = %s", raw_time(raw, -1));
    raw_ok(raw, "DELETE FROM idempotency_keys WHERE expires_at < %s", raw_time(raw, 0));
    assert_int_equal(0, raw_number(raw, "SELECT count(*) FROM idempotency_keys"));
    raw_work_end(&c);
}

/* Never cleaned while its lease is live. */
static void a_key_locked_through_the_library_is_left_alone(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
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
    raw_work_end(&c);
}

/* ---- a reboot ---- */

static tide_status ask_lease_clock(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_lease_now(tx, arg, err);
}

/* A new boot id ends all leases: of work items and of keys, too. */
static void a_reboot_ends_the_leases_of_work_and_of_keys(void **state)
{
    schema_case c;
    raw_sql *raw = raw_work_begin(&c, state);
    add_plainly(raw, "ours");
    add_plainly(raw, "plain");
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
    assert_ok_err(tide_store_write(c.t->store, ask_lease_clock, &now_us, &c.t->err), &c.t->err);
    static const char live[] =
        "SELECT lease_expires_at FROM work_items WHERE work_item_id = 'ours'";
    assert_string_equal("2025-01-01 01:00:00",
                        raw_text(raw, live)); /* the first use is no reboot */
    virtual_env_reboot(&c.t->clock);
    virtual_env_advance(&c.t->clock, SECOND_US);
    assert_ok_err(tide_store_write(c.t->store, ask_lease_clock, &now_us, &c.t->err), &c.t->err);
    assert_string_equal("2025-01-01 00:00:01.000000", raw_text(raw, live));
    assert_int_equal(1,
                     raw_number(raw, "SELECT count(*) FROM idempotency_keys WHERE lock_token > 77 "
                                     "AND lock_expires_at IS NULL"));
    assert_int_equal(1, raw_number(raw,
                                   "SELECT count(*) FROM work_items WHERE work_item_id = 'plain' "
                                   "AND lease_expires_at > %s",
                                   raw_time(raw, 200)));
    raw_work_end(&c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(parents_must_exist),
        STORE_CASE(a_task_goes_with_everything_that_is_its_own),
        STORE_CASE(an_item_leaves_its_checkpoints),
        STORE_CASE(a_cancelled_task_ends_its_items),
        STORE_CASE(nothing_rests_in_a_task_that_ended),
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
