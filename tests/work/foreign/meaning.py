"""Every statement of the recovery document runs unchanged from a foreign client, and means what it says."""

import json
import sqlite3
import sys

import client as harness
import statements as contract
from client import case

FLOOR = 1 << 40  # tokens of epoch 1 begin above it


@case()
def the_schema_lists_its_version(client):
    assert client.value(contract.VERSION) == "0.30.0"


@case()
def the_indexes_and_triggers_exist_by_name(client):
    have = {name for (name,) in client.run("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")}
    want = {
        "idx_work_items_task", "idx_work_items_status_priority", "idx_work_items_lease_expiry",
        "idx_work_items_lease_holder", "idx_checkpoints_task_sequence", "idx_checkpoints_work_item",
        "idx_checkpoints_type", "idx_checkpoints_created_at", "idx_idempotency_keys_task",
        "idx_idempotency_keys_work_item", "idx_idempotency_keys_expires_at", "idx_idempotency_keys_status",
        "update_work_items_timestamp", "check_work_items_status", "check_checkpoints_type",
        "check_idempotency_keys_status",
    }
    assert want <= have, want - have


@case()
def the_columns_have_their_defaults(client):
    client.run(contract.TASK)
    client.run("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('w', 'task-01KG4XYZ', 't')")
    status, priority, retries, limit, created, updated, output = client.item(
        "status, priority, retry_count, max_retries, created_at, updated_at, output_data", "w")
    assert (status, priority, retries, limit, output) == ("pending", 0, 0, 3, None)
    assert len(created) == 19 and created == updated
    names = [row[1] for row in client.run("PRAGMA table_info(work_items)")]
    assert names[:18] == [
        "work_item_id", "task_id", "work_type", "status", "priority", "lease_holder", "lease_acquired_at",
        "lease_expires_at", "heartbeat_at", "retry_count", "max_retries", "input_data", "output_data",
        "error_message", "created_at", "started_at", "completed_at", "updated_at"]


def begin(client):
    client.run(contract.TASK)
    client.run(contract.WORK_CREATE)


@case()
def a_claim_takes_the_item_and_is_fenced(client):
    begin(client)
    rows = client.run(contract.WORK_CLAIM)
    assert rows == [("work-01KG4ABC", '{"tool": "bash", "command": "ls -la", "args": []}')]
    status, holder, token, via, started = client.item("status, lease_holder, lease_token, lease_via, started_at")
    assert (status, holder, via) == ("in_progress", "worker-abc-123", "sql")
    assert token > FLOOR and started
    assert client.run("SELECT lease_token, attempt, worker, via, ended_at FROM work_attempts") == [
        (token, 1, "worker-abc-123", "sql", None)]
    assert client.run(contract.WORK_CLAIM) == []  # nothing left


@case()
def claims_go_by_priority_and_then_by_age(client):
    client.run(contract.TASK)
    for name, priority, created in (("old", 0, "2026-01-01 00:00:00"), ("new", 0, "2026-01-02 00:00:00.5"),
                                    ("high", 5, "2026-01-03 00:00:00"), ("low", -5, "2025-01-01 00:00:00")):
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type, priority, created_at) "
                   "VALUES (?, 'task-01KG4XYZ', 't', ?, ?)", name, priority, created)
    assert [client.run(contract.WORK_CLAIM)[0][0] for _ in range(4)] == ["high", "old", "new", "low"]


@case()
def a_heartbeat_prolongs_the_lease_and_nothing_else(client):
    begin(client)
    client.run(contract.WORK_CLAIM)
    client.run("UPDATE work_items SET heartbeat_at = datetime('now', '-4 minutes'), "
               "lease_expires_at = datetime('now', '+1 minutes') WHERE work_item_id = 'work-01KG4ABC'")
    token = client.item("lease_token")
    client.run(contract.WORK_HEARTBEAT)
    assert client.changed == 1
    assert client.item("lease_token") == token
    left, beat = client.one("SELECT (julianday(lease_expires_at) - julianday('now')) * 86400, "
                            "(julianday('now') - julianday(heartbeat_at)) * 86400 FROM work_items")
    assert 290 < left <= 301 and beat < 10
    assert client.value("SELECT count(*) FROM work_attempts") == 1


@case()
def a_completion_ends_item_and_attempt(client):
    begin(client)
    client.run(contract.WORK_CLAIM)
    client.run(contract.WORK_COMPLETE)
    assert client.changed == 1
    status, output, holder, expires, done, outcome = client.item(
        "status, output_data, lease_holder, lease_expires_at, completed_at, attempt_outcome")
    assert (status, holder, expires, outcome) == ("completed", None, None, "completed")
    assert json.loads(output) == {"result": "success", "files_found": 42} and done
    assert client.one("SELECT outcome, error_message, ended_at IS NOT NULL FROM work_attempts") == ("completed", None, 1)
    client.refuse(contract.WORK_FAIL, why="has ended")


@case()
def a_failure_ends_item_and_attempt(client):
    begin(client)
    client.run(contract.WORK_CLAIM)
    client.run(contract.WORK_FAIL)
    assert client.item("status, error_message, failure_kind, failure_count, crash_count") == (
        "failed", "Command execution timeout", "error", 1, 0)
    assert client.one("SELECT outcome, error_message FROM work_attempts") == ("failed", "Command execution timeout")
    client.refuse(contract.WORK_COMPLETE, why="has ended")
    client.run(contract.WORK_HEARTBEAT)
    assert client.changed == 0


def run_lease_out(client, work_item_id="work-01KG4ABC"):
    client.run("UPDATE work_items SET lease_expires_at = datetime('now', '-1 seconds') WHERE work_item_id = ?",
               work_item_id)


@case()
def the_watchdog_takes_leases_that_ran_out_until_retries_are_used_up(client):
    begin(client)
    tokens = []
    for attempt in range(1, 5):  # the first run and three retries
        assert len(client.run(contract.WORK_CLAIM)) == 1
        tokens.append(client.item("lease_token")[0])
        client.run(contract.WORK_WATCHDOG)
        assert client.changed == 0  # a live lease is left alone
        run_lease_out(client)
        client.run(contract.WORK_WATCHDOG)
        assert client.changed == 1
        want = "pending" if attempt < 4 else "failed"
        status, retries, holder, expires, message, crashes = client.item(
            "status, retry_count, lease_holder, lease_expires_at, error_message, crash_count")
        assert (status, retries, holder, expires) == (want, attempt, None, None), (attempt, status, retries)
        assert message == "Lease expired - no heartbeat received" and crashes == attempt
    assert client.run(contract.WORK_CLAIM) == []
    assert client.item("failure_kind") == ("exhausted",)
    assert tokens == sorted(set(tokens))
    assert client.run("SELECT attempt, outcome FROM work_attempts ORDER BY lease_token") == [
        (n, "expired") for n in range(1, 5)]


@case()
def the_watchdog_fences_who_stalled(client):
    begin(client)
    client.run(contract.WORK_CLAIM)
    stalled = client.item("lease_token")[0]
    run_lease_out(client)
    client.run(contract.WORK_WATCHDOG)
    assert client.item("lease_token")[0] > stalled
    client.refuse(contract.WORK_COMPLETE, why="pending work item becomes")


@case()
def checkpoints_are_numbered_globally_and_read_in_order(client):
    begin(client)
    client.run(contract.CHECKPOINT_START)
    client.run(contract.CHECKPOINT_TOOL)
    assert client.run("SELECT global_sequence, sequence_number, trigger_kind FROM checkpoints ORDER BY 1") == [
        (1, 1, "manual"), (2, 2, "manual")]
    latest = client.one(contract.CHECKPOINT_LATEST)
    assert latest[:2] == ("ckpt-01KG4DEF", "tool_executed")
    assert json.loads(latest[2])["result"]["exit_code"] == 0
    assert json.loads(client.value(contract.CHECKPOINT_LAST_START))["iteration"] == 1
    assert [row[:2] for row in client.run(contract.CHECKPOINT_ALL)] == [("iteration_start", 1), ("tool_executed", 2)]
    assert sorted(client.run(contract.CHECKPOINT_COUNT)) == [("iteration_start", 1), ("tool_executed", 1)]
    assert client.value("SELECT last FROM journal_head") == 2
    assert client.value("SELECT last_sequence FROM task_heads WHERE task_id = 'task-01KG4XYZ'") == 2


@case()
def several_checkpoints_in_one_statement_are_numbered_too(client):
    begin(client)
    client.run("INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
               "VALUES ('a', 'task-01KG4XYZ', 'iteration_start', 1, '{}'), "
               "('b', 'task-01KG4XYZ', 'iteration_end', 3, '{}'), ('c', 'task-01KG4XYZ', 'iteration_end', 4, '{}')")
    assert client.run("SELECT global_sequence FROM checkpoints ORDER BY 1") == [(1,), (2,), (3,)]


@case()
def a_key_is_made_once_answered_and_looked_up(client):
    client.run(contract.TASK)
    assert client.run(contract.KEY_LOOK) == []
    client.run(contract.KEY_CREATE)
    client.refuse(contract.KEY_CREATE, why="exists already")
    assert client.run(contract.KEY_LOOK) == []  # pending is no answer
    assert client.one("SELECT status, lock_via, attempts FROM idempotency_keys") == ("pending", "sql", 1)
    client.run(contract.KEY_COMPLETE)
    assert client.changed == 1
    key, status, answer, completed = client.one(contract.KEY_LOOK)
    assert (key, status) == ("idem-01KG4ABC", "completed") and answer.startswith('{"result"') and completed
    assert client.value(contract.KEY_VERIFY) == "MATCH"
    client.run(contract.KEY_FAIL)
    assert client.changed == 1
    assert client.run(contract.KEY_LOOK) == []
    client.run(contract.KEY_CLEAN)
    assert client.changed == 0  # it lives for a day


@case()
def another_request_under_the_key_is_told_apart(client):
    client.run(contract.TASK)
    client.run(contract.KEY_CREATE.replace("a1b2c3d4", "ffff"))
    assert client.value(contract.KEY_VERIFY) == "CONFLICT"


@case()
def expired_keys_are_cleaned_and_born_again(client):
    client.run(contract.TASK)
    client.run(contract.KEY_CREATE.replace("+24 hours", "-1 hours"))
    token = client.value("SELECT lock_token FROM idempotency_keys")
    client.run(contract.KEY_CREATE)  # an expired one is no obstacle
    assert client.changed == 1
    assert client.value("SELECT lock_token FROM idempotency_keys") > token  # and its token is not given out again
    client.run("UPDATE idempotency_keys SET expires_at = datetime('now', '-1 seconds')")
    client.run(contract.KEY_CLEAN)
    assert client.changed == 1


@case()
def the_clean_ups_take_what_is_old_and_nothing_else(client):
    client.run(contract.TASK)
    for name, status, days in (("old", "completed", 31), ("older", "failed", 40), ("young", "completed", 29),
                               ("live", "pending", 99)):
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type, status, updated_at) "
                   "VALUES (?, 'task-01KG4XYZ', 't', ?, datetime('now', ?))", name, status, "-%d days" % days)
    client.run("INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, checkpoint_type, sequence_number, "
               "snapshot_data) VALUES ('c', 'task-01KG4XYZ', 'old', 'tool_executed', 1, '{}')")
    client.run(contract.WORK_CLEAN)
    assert client.changed == 2
    assert client.run("SELECT work_item_id FROM work_items ORDER BY 1") == [("live",), ("young",)]
    assert client.value("SELECT work_item_id FROM checkpoints") == "old"  # evidence stays
    for key, status, expires, completed in (("a", "pending", "-1 minutes", None), ("b", "completed", None, "-8 days"),
                                            ("c", "completed", None, "-6 days"), ("d", "pending", "+1 days", None)):
        client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash, status, expires_at, completed_at) "
                   "VALUES (?, 'h', ?, datetime('now', ?), datetime('now', ?))", key, status, expires, completed)
    client.script(contract.KEYS_CLEAN)
    assert client.run("SELECT idempotency_key FROM idempotency_keys ORDER BY 1") == [("c",), ("d",)]


@case()
def the_clean_up_of_checkpoints_is_not_valid_sql(client):
    client.run(contract.TASK)
    try:
        client.run(contract.CHECKPOINT_CLEAN_INVALID, "task-01KG4XYZ")
    except sqlite3.OperationalError as error:
        assert "syntax error" in str(error), error
    else:
        raise AssertionError("accepted")
    # Valid SQL of the same meaning is refused: only the program removes checkpoints.
    client.run(contract.CHECKPOINT_START)
    client.refuse("DELETE FROM checkpoints WHERE checkpoint_id IN (SELECT checkpoint_id FROM checkpoints "
                  "ORDER BY sequence_number DESC LIMIT -1 OFFSET 0)", why="append-only")


@case()
def the_monitoring_queries_count_rightly(client):
    client.run(contract.TASK)
    for name, hours in (("a", 1), ("b", 3)):
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type, created_at) "
                   "VALUES (?, 'task-01KG4XYZ', 't', datetime('now', ?))", name, "-%d hours" % hours)
    work_type, status, count, age = client.one(contract.MONITOR_WORK)
    assert (work_type, status, count) == ("t", "pending", 2) and abs(age - 2) < 0.01
    client.run(contract.WORK_CLAIM)
    client.run(contract.WORK_CLAIM)
    client.run("UPDATE work_items SET heartbeat_at = datetime('now', '-4 minutes') WHERE work_item_id = 'a'")
    active, stale, minutes = client.one(contract.MONITOR_LEASES)
    assert (active, stale) == (2, 1) and abs(minutes - 2) < 0.1
    client.run(contract.CHECKPOINT_START)
    task, count, highest, first, last = client.one(contract.MONITOR_CHECKPOINTS)
    assert (task, count, highest) == ("task-01KG4XYZ", 1, 1) and first == last


@case(*harness.EVERY_SETTING)
def the_whole_workflow_runs_as_written(client):
    for statement in contract.split(contract.WORKFLOW):
        client.run(statement)
    assert client.run("SELECT status FROM tasks") == [("succeeded",)]
    assert client.item("status, attempt_outcome", "work-001") == ("completed", "completed")
    assert client.run(contract.RECOVER_ITEMS) == []
    assert client.one(contract.RECOVER_CHECKPOINT)[1] == "ckpt-002"
    assert json.loads(client.value(contract.RECOVER_ANSWER))["pages"] == 42


@case()
def the_recovery_finds_what_is_incomplete(client):
    for number, statement in enumerate(contract.split(contract.WORKFLOW), 1):
        if number == 9:
            break  # the worker dies
        client.run(statement)
    assert client.run(contract.RECOVER_ITEMS) == []
    run_lease_out(client, "work-001")
    client.run("UPDATE work_items SET status = 'expired', lease_holder = NULL, lease_expires_at = NULL "
               "WHERE work_item_id = 'work-001'")
    assert [row[0] for row in client.run(contract.RECOVER_ITEMS)] == ["work-001"]
    assert client.run(contract.RECOVER_ANSWER) == []
    assert client.one("SELECT outcome FROM work_attempts") == ("expired",)


@case()
def updated_at_follows_every_change(client):
    begin(client)
    client.run("UPDATE work_items SET updated_at = '2020-01-01 00:00:00'")
    assert client.item("updated_at") == ("2020-01-01 00:00:00",)
    client.run("UPDATE work_items SET error_message = 'x'")
    assert client.item("updated_at")[0] > "2020-01-02"


if __name__ == "__main__":
    sys.exit(harness.run(sys.argv[1:]))
