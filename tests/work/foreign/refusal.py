"""What would break a promise is refused by the database itself, whatever the client's settings are: foreign keys on or
off, recursive triggers on or off, any conflict clause. A refusal changes nothing."""

import sys

import client as harness
from client import ADD_CHECKPOINT as ADD
from client import EVERY_SETTING, add_items, case, claim_by_library

STATUSES = ("pending", "in_progress", "completed", "failed", "expired")
ALLOWED = {
    "pending": {"in_progress", "failed"},
    "in_progress": {"completed", "failed", "expired", "pending"},
    "expired": {"pending", "failed"},
    "completed": set(),
    "failed": set(),
}


def bring_to(client, work_item_id, status):
    """An item in this status, by plain SQL."""
    if status != "pending":
        client.run("UPDATE work_items SET status = 'in_progress', lease_holder = 'w' WHERE work_item_id = ?", work_item_id)
    if status not in ("pending", "in_progress"):
        client.run("UPDATE work_items SET status = ? WHERE work_item_id = ?", status, work_item_id)


@case(*EVERY_SETTING)
def every_transition_is_allowed_or_refused_as_stated(client):
    add_items(client, len(STATUSES) ** 2)
    number = 0
    for old in STATUSES:
        for new in STATUSES:
            number += 1
            name = "w%d" % number
            bring_to(client, name, old)
            statement = "UPDATE work_items SET status = '%s' WHERE work_item_id = '%s'" % (new, name)
            if new == old or new in ALLOWED[old]:
                client.run(statement)
                assert client.item("status", name) == (new,), (old, new)
                open_attempts = client.value("SELECT count(*) FROM work_attempts WHERE work_item_id = ? "
                                             "AND ended_at IS NULL", name)
                assert open_attempts == (new == "in_progress"), (old, new)
            else:
                client.refuse(statement)


@case(*EVERY_SETTING)
def unknown_statuses_are_refused(client):
    add_items(client, 1)
    for status in ("done", "", "PENDING", "cancelled", "Completed "):
        client.refuse("UPDATE work_items SET status = ?", status)
        client.refuse("INSERT INTO work_items (work_item_id, task_id, work_type, status) VALUES ('x', 'task-1', 't', ?)",
                      status, why="status is")
        if status != "cancelled":
            client.refuse("UPDATE tasks SET status = ?", status)
            client.refuse("INSERT INTO tasks (task_id, status) VALUES ('x', ?)", status, why="task status is")
        client.refuse("INSERT INTO idempotency_keys (idempotency_key, request_hash, status) VALUES ('x', 'h', ?)", status,
                      why="status is")
    client.refuse("UPDATE work_items SET status = x'70656e64696e67'")
    client.refuse("UPDATE work_items SET status = NULL")
    client.refuse("UPDATE work_items SET status = 5")


@case()
def ended_items_keep_status_output_and_lease(client):
    add_items(client, 2)
    bring_to(client, "w1", "completed")
    bring_to(client, "w2", "failed")
    for change in ("output_data = '{}'", "lease_holder = 'x'", "lease_expires_at = '2030-01-01 00:00:00'",
                   "lease_acquired_at = NULL", "heartbeat_at = '2030-01-01 00:00:00'", "lease_token = lease_token + 1",
                   "lease_via = 'api'", "status = 'pending', revision = revision + 1",
                   "lease_token = lease_token + 1, revision = revision + 1", "revision = revision - 1"):
        client.refuse("UPDATE work_items SET " + change)
    client.run("UPDATE work_items SET error_message = 'a note'")


@case()
def task_statuses_do_not_go_back(client):
    client.run("INSERT INTO tasks (task_id) VALUES ('t')")
    client.run("UPDATE tasks SET status = 'running'")
    client.refuse("UPDATE tasks SET status = 'pending'", why="does not become pending")
    client.run("UPDATE tasks SET status = 'succeeded'")
    for status in ("pending", "running", "failed", "cancelled"):
        client.refuse("UPDATE tasks SET status = ?", status, why="has ended")
    client.refuse("UPDATE tasks SET task_id = 'u'", why="keeps its id")
    client.refuse("UPDATE tasks SET revision = revision - 1", why="only rises")


# ---- leases ----


@case(*EVERY_SETTING)
def a_lease_of_the_library_is_not_ended_by_plain_sql(client):
    add_items(client, 1)
    claim_by_library(client, "w1")
    token = client.item("lease_token", "w1")
    for change in ("status = 'completed', output_data = '{}', lease_holder = NULL, lease_expires_at = NULL",
                   "status = 'failed'", "status = 'pending'", "status = 'expired'", "lease_holder = 'thief'",
                   "lease_expires_at = '2030-01-01 00:00:00'", "heartbeat_at = datetime('now', '+1 seconds')",
                   "output_data = '{}'", "lease_via = 'sql'", "lease_via = NULL", "lease_token = lease_token + 1",
                   "lease_token = 1", "lease_acquired_at = NULL", "deadline_at = '2030-01-01 00:00:00'"):
        for verb in ("UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"):
            client.refuse("%s work_items SET %s WHERE work_item_id = 'w1'" % (verb, change))
    assert client.item("lease_token", "w1") == token
    client.run("UPDATE work_items SET error_message = 'a note', priority = 3")  # what is not the lease's


@case()
def a_lease_of_the_library_that_ran_out_may_be_taken_up(client):
    for status, outcome in (("pending", "expired"), ("failed", "failed"), ("expired", "expired")):
        name = "task-" + status
        client.run("INSERT INTO tasks (task_id, status) VALUES (?, 'running')", name)
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES (?, ?, 't')", status, name)
        claim_by_library(client, status, minutes=-1)
        token = client.item("lease_token", status)[0]
        client.refuse("UPDATE work_items SET status = 'completed' WHERE work_item_id = ?", status)
        client.refuse("UPDATE work_items SET lease_holder = 'me' WHERE work_item_id = ?", status)
        client.run("UPDATE work_items SET status = ? WHERE work_item_id = ?", status, status)
        assert client.one("SELECT outcome FROM work_attempts WHERE work_item_id = ?", status) == (outcome,)
        assert client.item("lease_token", status)[0] > token or status == "failed"


@case()
def a_live_plain_lease_keeps_its_holder(client):
    add_items(client, 1)
    take = ("UPDATE work_items SET status = 'in_progress', lease_holder = ?, lease_expires_at = datetime('now', ?) "
            "WHERE work_item_id = 'w1'")
    client.run(take, "a", "+5 minutes")
    first = client.item("lease_token", "w1")[0]
    client.refuse(take, "b", "+5 minutes", why="another worker")
    client.run(take, "a", "+5 minutes")  # the same again is a heartbeat
    assert client.item("lease_token", "w1")[0] == first
    client.refuse("UPDATE work_items SET lease_expires_at = NULL", why="a lease has an end")
    client.run("UPDATE work_items SET lease_expires_at = datetime('now', '-1 seconds')")
    client.refuse(take, "b", "+5 minutes", why="set the item back to pending first")
    client.run("UPDATE work_items SET status = 'pending'")
    client.run(take, "b", "+5 minutes")
    assert client.item("lease_token", "w1")[0] > first
    assert client.run("SELECT worker, attempt, outcome FROM work_attempts ORDER BY lease_token") == [
        ("a", 1, "expired"), ("b", 2, None)]


@case(*EVERY_SETTING)
def a_lease_that_ran_out_spends_an_attempt_whoever_counts(client):
    add_items(client, 1)
    client.run("UPDATE work_items SET max_retries = 1")
    for attempt, end in ((1, "pending"), (2, "failed")):
        client.run("UPDATE work_items SET status = 'in_progress', lease_holder = 'w', "
                   "lease_expires_at = datetime('now', '-1 seconds')")
        client.run("UPDATE work_items SET status = 'pending'")  # without counting
        assert client.item("status, retry_count, crash_count", "w1") == (end, 1, attempt)
    assert client.item("failure_kind", "w1") == ("exhausted",)
    client.refuse("UPDATE work_items SET retry_count = 0", why="only rises")


@case()
def a_pending_item_can_be_given_up(client):
    add_items(client, 2)
    bring_to(client, "w2", "expired")
    client.run("UPDATE work_items SET status = 'failed'")
    assert client.run("SELECT failure_kind, completed_at IS NOT NULL FROM work_items ORDER BY work_item_id") == [
        ("error", 1), ("exhausted", 1)]


@case(*EVERY_SETTING)
def types_of_live_items_stay_known(client):
    add_items(client, 2)
    assert client.run("SELECT work_type FROM work_types") == [("tool",)]
    client.refuse("DELETE FROM work_types", why="live work items")
    client.run("UPDATE work_items SET work_type = 'other' WHERE work_item_id = 'w1'")
    assert client.run("SELECT work_type FROM work_types ORDER BY 1") == [("other",), ("tool",)]
    bring_to(client, "w2", "completed")
    client.run("DELETE FROM work_types WHERE work_type = 'tool'")


@case()
def items_made_by_plain_sql_are_looked_at(client):
    add_items(client, 0)
    add = "INSERT OR REPLACE INTO work_items (work_item_id, task_id, work_type, %s) VALUES ('x', 'task-1', 't', ?)"
    for column in ("status", "lease_token", "revision", "failure_count", "crash_count", "waits_for", "has_dependents"):
        client.refuse(add % column, None)
    for column, value in (("waits_for", 1), ("has_dependents", 1), ("retry_count", 1 << 62), ("lease_token", (1 << 63) - 1),
                          ("revision", (1 << 63) - 1), ("max_retries", -1), ("priority", 10 ** 7)):
        client.refuse(add % column, value)
    for column in ("created_at", "updated_at", "completed_at", "run_after", "lease_expires_at", "deadline_at"):
        for time in BAD_TIMES:
            client.refuse(add % column, time, why="like 2026-01-31 23:59:59.123456")
    client.run("UPDATE tasks SET status = 'succeeded'")
    client.refuse(add % "priority", 1, why="takes no more work items")


@case()
def a_heartbeat_without_a_lease_is_refused(client):
    add_items(client, 2)
    bring_to(client, "w2", "expired")
    for column in ("heartbeat_at", "lease_expires_at", "lease_acquired_at"):
        client.refuse("UPDATE work_items SET %s = CURRENT_TIMESTAMP" % column, why="not in progress")
    client.refuse("UPDATE work_items SET lease_holder = 'x'", why="not in progress")


@case(*EVERY_SETTING)
def tokens_rise_with_every_claim_and_outlive_their_items(client):
    add_items(client, 1)
    tokens = []
    for _ in range(3):
        bring_to(client, "w1", "in_progress")
        tokens.append(client.item("lease_token", "w1")[0])
        client.run("UPDATE work_items SET status = 'pending'")
        tokens.append(client.item("lease_token", "w1")[0])
    assert tokens == sorted(set(tokens)), tokens
    client.run("DELETE FROM work_items")
    assert client.value("SELECT count(*) FROM work_attempts") == 0
    client.run("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('w1', 'task-1', 't')")
    claim_by_library(client, "w1")
    assert client.item("lease_token", "w1")[0] > tokens[-1]
    client.run("DELETE FROM tasks")
    add_items(client, 1)
    bring_to(client, "w1", "in_progress")
    assert client.item("lease_token", "w1")[0] > tokens[-1] + 1


@case()
def an_item_inserted_in_progress_is_fenced_too(client):
    add_items(client, 0)
    client.run("INSERT INTO work_items (work_item_id, task_id, work_type, status, lease_holder) "
               "VALUES ('w', 'task-1', 't', 'in_progress', 'me')")
    token, via, expires = client.item("lease_token, lease_via, lease_expires_at", "w")
    assert token > 1 << 40 and via == "sql" and expires
    assert client.one("SELECT lease_token, worker FROM work_attempts") == (token, "me")


@case(*EVERY_SETTING)
def attempts_are_evidence(client):
    add_items(client, 2)
    bring_to(client, "w1", "completed")
    bring_to(client, "w2", "in_progress")
    token = client.item("lease_token", "w2")[0]
    client.refuse("DELETE FROM work_attempts", why="live as long")
    client.refuse("UPDATE work_attempts SET outcome = 'failed' WHERE work_item_id = 'w1'", why="never changes")
    client.refuse("UPDATE work_attempts SET worker = 'x'")
    client.refuse("UPDATE OR REPLACE work_attempts SET lease_token = 1")
    for verb in ("INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"):
        for bad in (token, token - 1, token + 1000):
            client.refuse(verb + " INTO work_attempts (work_item_id, lease_token, attempt, via, started_at) "
                          "VALUES ('w2', ?, 9, 'sql', '2026-01-01 00:00:00')", bad)


# ---- parents and the cascade ----


@case(*EVERY_SETTING)
def a_null_does_not_become_the_default(client):
    """OR REPLACE puts the default in the place of a NULL, after the triggers have looked."""
    add_items(client, 2)
    bring_to(client, "w1", "completed")
    claim_by_library(client, "w2")
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')")
    client.run("UPDATE tasks SET status = 'succeeded'")
    for table in ("tasks", "work_items", "idempotency_keys", "task_heads"):
        for _, column, _, is_strict, default, _ in client.run("PRAGMA table_info(%s)" % table):
            if is_strict and default is not None:
                client.refuse("UPDATE OR REPLACE %s SET %s = NULL" % (table, column))


@case(*EVERY_SETTING)
def parents_must_exist(client):
    add_items(client, 1)
    for statement in (
            "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('x', 'nowhere', 't')",
            "INSERT INTO idempotency_keys (idempotency_key, request_hash, task_id) VALUES ('k', 'h', 'nowhere')",
            "INSERT INTO idempotency_keys (idempotency_key, request_hash, work_item_id) VALUES ('k', 'h', 'nowhere')",
            "UPDATE work_items SET task_id = 'nowhere'"):
        client.refuse(statement)
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')")
    client.refuse("UPDATE idempotency_keys SET task_id = 'nowhere'", why="no such task")
    client.refuse("UPDATE idempotency_keys SET work_item_id = 'nowhere'", why="no such work item")


@case(*EVERY_SETTING)
def a_task_goes_with_everything_that_is_its_own(client):
    add_items(client, 3)
    client.run("INSERT INTO tasks (task_id) VALUES ('other')")
    client.run(ADD, "c1", "iteration_end", 1)
    client.run(ADD.replace("task-1", "other"), "o1", "iteration_end", 1)
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash, task_id, work_item_id) "
               "VALUES ('k', 'h', 'task-1', 'w1')")
    bring_to(client, "w2", "in_progress")
    claim_by_library(client, "w3")
    client.run("DELETE FROM tasks WHERE task_id = 'task-1'")
    for table, want in (("work_items", 0), ("work_attempts", 0), ("checkpoints", 1), ("task_heads", 1), ("tasks", 1),
                        ("journal_permits", 0), ("work_dependencies", 0)):
        assert client.value("SELECT count(*) FROM " + table) == want, table
    assert client.one("SELECT task_id, work_item_id FROM idempotency_keys") == (None, None)
    client.refuse("DELETE FROM checkpoints", why="append-only")  # the permit is gone with the cascade
    client.run("INSERT INTO tasks (task_id, forked_from) VALUES ('fork', 'other')")
    client.refuse("DELETE FROM tasks WHERE task_id = 'other'", why="delete the fork first")
    client.run("DELETE FROM tasks WHERE task_id = 'fork'")
    client.run("DELETE FROM tasks")


@case(*EVERY_SETTING)
def a_deleted_item_leaves_its_checkpoints(client):
    add_items(client, 1)
    client.run(ADD.replace("checkpoint_id,", "checkpoint_id, work_item_id,").replace("(?, ", "(?, 'w1', "), "c1",
               "tool_executed", 1)
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash, work_item_id) VALUES ('k', 'h', 'w1')")
    client.run("DELETE FROM work_items")
    assert client.one("SELECT work_item_id FROM checkpoints") == ("w1",)
    assert client.one("SELECT work_item_id FROM idempotency_keys") == (None,)


@case(*EVERY_SETTING)
def a_cancelled_task_ends_its_items(client):
    add_items(client, 4)
    bring_to(client, "w2", "in_progress")
    claim_by_library(client, "w3")
    bring_to(client, "w4", "completed")
    tokens = dict(client.run("SELECT work_item_id, lease_token FROM work_items"))
    client.run("UPDATE tasks SET status = 'cancelled'")
    rows = client.run("SELECT work_item_id, status, failure_kind, lease_token FROM work_items ORDER BY 1")
    assert [row[1:3] for row in rows] == [("failed", "cancelled")] * 3 + [("completed", None)]
    assert all(row[3] > tokens[row[0]] for row in rows[:3])
    assert client.run("SELECT work_item_id, outcome FROM work_attempts ORDER BY 1") == [
        ("w2", "cancelled"), ("w3", "cancelled"), ("w4", "completed")]


@case(*EVERY_SETTING)
def nothing_rests_in_a_task_that_ended(client):
    add_items(client, 3)
    bring_to(client, "w2", "in_progress")
    bring_to(client, "w3", "expired")
    client.run("UPDATE tasks SET status = 'succeeded'")
    statuses = "SELECT status, failure_kind FROM work_items ORDER BY work_item_id"
    assert client.run(statuses) == [("failed", "cancelled"), ("in_progress", None), ("failed", "cancelled")]
    client.run("UPDATE work_items SET status = 'pending' WHERE work_item_id = 'w2'")
    assert client.run(statuses) == [("failed", "cancelled")] * 3


@case()
def the_key_of_an_item_goes_with_it(client):
    add_items(client, 2)
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash, work_item_id) "
               "VALUES ('work-w1', 'h', 'w1'), ('work-w2', 'h', 'w2')")
    client.run("DELETE FROM work_items WHERE work_item_id = 'w1'")
    assert client.run("SELECT idempotency_key FROM idempotency_keys") == [("work-w2",)]


@case()
def updated_at_of_a_task_follows_every_change(client):
    add_items(client, 0)
    client.run("UPDATE tasks SET updated_at = '2020-01-01 00:00:00'")
    client.run("UPDATE tasks SET title = 'other'")
    assert client.value("SELECT updated_at FROM tasks") > "2020-01-02"


def depend(client, waiting, on):
    """As the library does."""
    client.run("INSERT INTO work_dependencies (work_item_id, depends_on) VALUES (?, ?)", waiting, on)
    client.run("UPDATE work_items SET waits_for = waits_for + 1, revision = revision + 1 WHERE work_item_id = ?", waiting)
    client.run("UPDATE work_items SET has_dependents = 1, revision = revision + 1 WHERE work_item_id = ?", on)


@case(*EVERY_SETTING)
def nobody_waits_for_ever(client):
    add_items(client, 6)
    for waiting, on in (("w2", "w1"), ("w3", "w1"), ("w3", "w4"), ("w6", "w5")):
        depend(client, waiting, on)
    bring_to(client, "w3", "in_progress")  # plain SQL honours status and priority only
    bring_to(client, "w1", "completed")
    client.refuse("DELETE FROM work_dependencies", why="waits for this dependency")
    client.refuse("UPDATE work_items SET waits_for = 0", why="kept by the library")
    waits = "SELECT work_item_id, waits_for FROM work_items WHERE waits_for > 0 ORDER BY 1"
    assert client.run(waits) == [("w3", 1), ("w6", 1)]
    client.run("UPDATE work_items SET status = 'pending' WHERE work_item_id = 'w3'")
    bring_to(client, "w4", "completed")
    assert client.run(waits) == [("w6", 1)]
    client.run("DELETE FROM work_items WHERE work_item_id = 'w5'")
    assert client.item("status, failure_kind, waits_for", "w6") == ("failed", "dependency", 0)
    client.run("DELETE FROM work_items WHERE work_item_id = 'w1'")  # completed before: nobody minds
    assert client.item("status", "w2") == ("pending",)


# ---- times and types ----

BAD_TIMES = ("2026-01-31T23:59:59", "2026-01-31T23:59:59+00:00", "2026-01-31 23:59:59+00:00", "2026-01-31 23:59:59Z",
             "2026-01-31", "2026-02-30 00:00:00", "2026-13-01 00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:00:60",
             "", "2026-01-31 23:59:59.", "2026-01-31 23:59:59.1234567", 1769903999, 1769903999.5,
             b"2026-01-31 23:59:59", "2026-1-1 00:00:00", "31.01.2026 23:59:59")


@case()
def times_that_do_not_compare_are_refused(client):
    add_items(client, 1)
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')")
    columns = {
        "work_items": ("created_at", "updated_at", "completed_at", "started_at", "run_after", "deadline_at"),
        "tasks": ("created_at", "updated_at", "completed_at"),
        "idempotency_keys": ("created_at", "completed_at", "expires_at", "lock_expires_at"),
    }
    for table, names in columns.items():
        for name in names:
            for time in BAD_TIMES:
                client.refuse("UPDATE %s SET %s = ?" % (table, name), time, why="like 2026-01-31 23:59:59.123456")
            for time in ("2026-01-31 23:59:59", "2026-01-31 23:59:59.5", "2024-02-29 00:00:00.123456"):
                client.run("UPDATE %s SET %s = ?" % (table, name), time)
    bring_to(client, "w1", "in_progress")
    for name in ("lease_acquired_at", "lease_expires_at", "heartbeat_at"):
        for time in BAD_TIMES:
            client.refuse("UPDATE work_items SET %s = ?" % name, time, why="like 2026-01-31 23:59:59.123456")


@case()
def a_missing_time_of_creation_is_filled_in(client):
    add_items(client, 0)
    client.run("INSERT INTO work_items (work_item_id, task_id, work_type, created_at) VALUES ('w', 'task-1', 't', NULL)")
    created, key = client.item("created_at, claim_key", "w")
    assert created and key > 0


@case()
def the_claim_key_weighs_priority_against_age(client):
    add_items(client, 0)
    for name, priority, created in (("a", 0, "2026-01-01 00:00:00"), ("b", 1, "2026-01-01 00:10:00"),
                                    ("c", -2, "2025-12-31 23:40:00.000001")):
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type, priority, created_at) "
                   "VALUES (?, 'task-1', 't', ?, ?)", name, priority, created)
    keys = dict(client.run("SELECT work_item_id, claim_key FROM work_items"))
    assert keys["a"] == 1767225600000000 and keys["b"] == keys["a"] and keys["c"] == keys["a"] + 1


@case()
def values_of_another_type_are_refused(client):
    add_items(client, 1)
    for column in ("priority", "retry_count", "max_retries", "lease_token", "revision", "timeout_us", "failure_count",
                   "crash_count", "waits_for", "has_dependents"):
        for value in ("text", b"blob", 1.5):
            client.refuse("UPDATE work_items SET %s = ?" % column, value)
    for column in ("priority", "max_retries"):
        for value in (None, -1000001):
            client.refuse("UPDATE work_items SET %s = ?" % column, value)
    for value in ("", b"blob", "x" * 129, None):
        client.refuse("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES (?, 'task-1', 't')", value)
        client.refuse("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('x', 'task-1', ?)", value)
        client.refuse("INSERT INTO tasks (task_id) VALUES (?)", value)


@case()
def only_one_live_item_has_a_unique_key(client):
    add_items(client, 2)
    client.run("UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w1'")
    client.refuse("UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w2'", why="unique key")
    client.refuse("INSERT INTO work_items (work_item_id, task_id, work_type, unique_key) VALUES ('x', 'task-1', 'tool', 'k')",
                  why="unique key")
    bring_to(client, "w1", "completed")
    client.run("UPDATE work_items SET unique_key = 'k' WHERE work_item_id = 'w2'")
    client.run("INSERT INTO work_items (work_item_id, task_id, work_type, unique_key, status) "
               "VALUES ('y', 'task-1', 'tool', 'k', 'failed')")


if __name__ == "__main__":
    sys.exit(harness.run(sys.argv[1:]))
