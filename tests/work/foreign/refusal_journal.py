"""Checkpoints, their numbers and idempotency keys against any client: what would break a promise is refused by the
database itself, with any settings and any conflict clause. A refusal changes nothing."""

import sqlite3
import sys

import client as harness
from client import ADD_CHECKPOINT as ADD
from client import EVERY_SETTING, add_items, case

# ---- replacing ----


@case(*EVERY_SETTING)
def replacing_removes_nothing(client):
    add_items(client, 2)
    client.run("INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
               "VALUES ('c1', 'task-1', 'iteration_end', 1, '{}'), ('c2', 'task-1', 'iteration_end', 2, '{}')")
    client.run("UPDATE work_items SET unique_key = 'only' WHERE work_item_id = 'w1'")
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')")
    rowid = client.value("SELECT rowid FROM work_items WHERE work_item_id = 'w1'")
    conflicts = ("OR REPLACE INTO %s", "INTO %s", "OR IGNORE INTO %s", "OR FAIL INTO %s", "OR ROLLBACK INTO %s")
    values = {
        "tasks": "(task_id, title) VALUES ('task-1', 'other')",
        "work_items": "(work_item_id, task_id, work_type) VALUES ('w1', 'task-1', 'tool')",
        "work_items ": "(work_item_id, task_id, work_type, unique_key) VALUES ('w9', 'task-1', 'tool', 'only')",
        "work_items  ": "(rowid, work_item_id, task_id, work_type) VALUES (%d, 'w9', 'task-1', 'tool')" % rowid,
        "checkpoints": "(checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
                       "VALUES ('c1', 'task-1', 'iteration_end', 3, 'other')",
        "checkpoints ": "(checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
                        "VALUES ('c9', 'task-1', 'iteration_end', 2, 'other')",
        "checkpoints  ": "(global_sequence, checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
                         "VALUES (2, 'c9', 'task-1', 'iteration_end', 3, 'other')",
        "idempotency_keys": "(idempotency_key, request_hash) VALUES ('k', 'other')",
        "journal_head": "(id, last, last_at) VALUES (1, 0, '2026-01-01 00:00:00')",
        "task_heads": "(task_id, last_sequence) VALUES ('task-1', 0)",
        "checkpoint_gaps": None,
    }
    for table, rest in values.items():
        for conflict in conflicts if rest else ():
            client.refuse("INSERT " + conflict % table + rest)
    upserts = (
        "INSERT INTO tasks (task_id) VALUES ('task-1') ON CONFLICT (task_id) DO UPDATE SET task_id = 'other'",
        "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
        "VALUES ('c1', 'task-1', 'iteration_end', 9, '') ON CONFLICT (checkpoint_id) DO UPDATE SET snapshot_data = 'x'",
        "INSERT INTO journal_head (id, last, last_at) VALUES (1, 0, '') ON CONFLICT (id) DO UPDATE SET last = 0",
        "INSERT INTO task_heads (task_id) VALUES ('task-1') ON CONFLICT (task_id) DO UPDATE SET last_sequence = 0",
    )
    for statement in upserts:
        client.refuse(statement)


@case(*EVERY_SETTING)
def updating_with_replacement_removes_nothing(client):
    add_items(client, 2)
    client.run("INSERT INTO tasks (task_id) VALUES ('task-2')")
    client.run("UPDATE work_items SET unique_key = 'one' WHERE work_item_id = 'w1'")
    client.run("UPDATE work_items SET unique_key = 'two' WHERE work_item_id = 'w2'")
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k1', 'h'), ('k2', 'h')")
    rowids = [row[0] for row in client.run("SELECT rowid FROM work_items ORDER BY work_item_id")]
    for statement in (
            "UPDATE OR REPLACE work_items SET unique_key = 'one'",
            "UPDATE OR REPLACE work_items SET unique_key = 'one' WHERE work_item_id = 'w2'",
            "UPDATE OR REPLACE work_items SET work_item_id = 'w1' WHERE work_item_id = 'w2'",
            "UPDATE OR REPLACE work_items SET rowid = %d WHERE rowid = %d" % tuple(rowids),
            "UPDATE OR REPLACE work_items SET task_id = 'task-2'",
            "UPDATE OR REPLACE tasks SET task_id = 'task-1' WHERE task_id = 'task-2'",
            "UPDATE OR REPLACE idempotency_keys SET idempotency_key = 'k1' WHERE idempotency_key = 'k2'",
            "UPDATE OR REPLACE task_heads SET task_id = 'task-1' WHERE task_id = 'task-2'",
            "UPDATE OR REPLACE journal_head SET id = 2",
            "UPDATE OR REPLACE checkpoint_types SET checkpoint_type = 'iteration_end'",
            "UPDATE OR REPLACE work_items SET unique_key = 'one', revision = revision + 1 WHERE work_item_id = 'w2'"):
        client.refuse(statement)


# ---- checkpoints ----


@case(*EVERY_SETTING)
def checkpoints_are_append_only(client):
    add_items(client, 1)
    client.run(ADD, "c1", "iteration_end", 1)
    client.run(ADD, "c2", "iteration_end", 5)
    for column in ("snapshot_data", "checkpoint_id", "task_id", "sequence_number", "global_sequence", "metadata"):
        for verb in ("UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE"):
            client.refuse("%s checkpoints SET %s = %s" % (verb, column, column), why="append-only")
    client.refuse("DELETE FROM checkpoints", why="append-only")
    client.refuse("DELETE FROM checkpoints WHERE sequence_number = 1", why="append-only")
    for number in (1, 5, 3, 0, -1, 2):
        client.refuse(ADD, "c3", "iteration_end", number)
    for number in ("six", 6.5, None):
        client.refuse(ADD, "c3", "iteration_end", number)
    client.refuse(ADD, "c3", "no_such_type", 6, why="unknown checkpoint_type")
    client.refuse(ADD, "", "iteration_end", 6)
    client.refuse(ADD, b"blob", "iteration_end", 6)
    client.refuse(ADD.replace("task-1", "nowhere"), "c3", "iteration_end", 6)
    client.refuse(ADD.replace("checkpoint_id,", "checkpoint_id, work_item_id,").replace("(?, ", "(?, 'none', "), "c3",
                  "iteration_end", 6, why="no such work item")
    client.run(ADD, "c3", "iteration_end", 6)
    assert client.run("SELECT global_sequence FROM checkpoints ORDER BY 1") == [(1,), (2,), (3,)]


@case(*EVERY_SETTING)
def explicit_global_numbers_are_refused(client):
    add_items(client, 1)
    client.run(ADD, "c1", "iteration_end", 1)
    explicit = ("INSERT OR %s INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, sequence_number, "
                "snapshot_data) VALUES (?, 'c9', 'task-1', 'iteration_end', 2, '{}')")
    for number in (1, 2, 0, -1, -5, 1000, 9223372036854775807, "x", 1.5):
        for conflict in ("ABORT", "REPLACE", "FAIL"):
            try:
                client.refuse(explicit % conflict, number)
            except sqlite3.OperationalError as error:
                raise AssertionError("%r: %s" % (number, error))
    client.run("INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, sequence_number, "
               "snapshot_data) VALUES (NULL, 'c2', 'task-1', 'iteration_end', 2, '{}')")
    assert client.value("SELECT max(global_sequence) FROM checkpoints") == 2


@case()
def a_number_that_sqlite_jumps_over_is_recorded(client):
    add_items(client, 1)
    client.run(ADD, "c1", "iteration_end", 1)
    client.run("INSERT OR IGNORE INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data, "
               "trigger_kind) VALUES ('c2', 'task-1', 'iteration_end', 2, '{}', 'no such kind')")
    assert client.changed == 0
    client.run(ADD, "c3", "iteration_end", 2)
    numbers = [row[0] for row in client.run("SELECT global_sequence FROM checkpoints ORDER BY 1")]
    gaps = client.run("SELECT first_global, last_global, reason FROM checkpoint_gaps")
    missing = [(n, n, "skipped") for n in range(1, numbers[-1]) if n not in numbers]
    assert gaps == missing, (numbers, gaps)
    assert client.value("SELECT last FROM journal_head") == numbers[-1]


@case()
def the_counters_of_checkpoints_never_go_down(client):
    add_items(client, 1)
    client.run(ADD, "c1", "iteration_end", 1)
    client.run(ADD, "c2", "iteration_end", 2)
    for statement in ("UPDATE journal_head SET last = 1", "DELETE FROM journal_head", "UPDATE journal_head SET last = 'x'",
                      "UPDATE task_heads SET last_sequence = 1", "DELETE FROM task_heads",
                      "UPDATE task_heads SET last_sequence = 'x'", "UPDATE journal_head SET last = 2.5"):
        client.refuse(statement)


@case()
def sqlites_own_counter_set_back_is_noticed(client):
    for tampering in ("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'checkpoints'",
                      "UPDATE sqlite_sequence SET seq = 'x' WHERE name = 'checkpoints'",
                      "DELETE FROM sqlite_sequence WHERE name = 'checkpoints'"):
        client.run("INSERT INTO tasks (task_id) VALUES ('task-1'), ('task-9')")
        client.run(ADD, "kept", "iteration_end", 1)
        client.run(ADD.replace("task-1", "task-9"), "gone", "iteration_end", 1)
        client.run("DELETE FROM tasks WHERE task_id = 'task-9'")  # takes the newest checkpoint along
        last = client.value("SELECT last FROM journal_head")
        client.run(tampering)
        client.refuse(ADD, "next", "iteration_end", 2, why="numbering of checkpoints was altered")
        client.run("DELETE FROM sqlite_sequence WHERE name = 'checkpoints'")
        client.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('checkpoints', ?)", last)
        client.run(ADD, "next", "iteration_end", 2)
        assert client.value("SELECT max(global_sequence) FROM checkpoints") == last + 1
        client.run("DELETE FROM tasks")


@case(*EVERY_SETTING)
def what_was_removed_stays_removed(client):
    add_items(client, 1)
    client.run("INSERT INTO tasks (task_id) VALUES ('task-2')")
    client.run(ADD, "c1", "iteration_end", 1)
    client.run(ADD.replace("task-1", "task-2"), "d1", "iteration_end", 1)
    client.run("DELETE FROM tasks WHERE task_id = 'task-1'")
    assert client.run("SELECT first_global, last_global, reason FROM checkpoint_gaps") == [(1, 1, "removed")]
    for statement in ("DELETE FROM checkpoint_gaps", "UPDATE checkpoint_gaps SET last_global = 0",
                      "UPDATE checkpoint_gaps SET first_global = 9, last_global = 9",
                      "INSERT OR REPLACE INTO checkpoint_gaps VALUES (1, 1, 'skipped', '2026-01-01 00:00:00')"):
        client.refuse(statement)
    client.refuse("INSERT INTO checkpoints (global_sequence, checkpoint_id, task_id, checkpoint_type, sequence_number, "
                  "snapshot_data) VALUES (1, 'c1', 'task-2', 'iteration_end', 1, '{}')")
    client.run(ADD.replace("task-1", "task-2"), "d2", "iteration_end", 2)
    assert client.value("SELECT global_sequence FROM checkpoints WHERE checkpoint_id = 'd2'") == 3


@case(*EVERY_SETTING)
def recorded_cuts_stay(client):
    add_items(client, 1)
    client.run("INSERT INTO checkpoint_cuts (task_id, first_number, last_number, reason, cut_at) "
               "VALUES ('task-1', 1, 5, 'compacted', CURRENT_TIMESTAMP)")
    for statement in ("DELETE FROM checkpoint_cuts", "UPDATE checkpoint_cuts SET last_number = 9",
                      "INSERT OR REPLACE INTO checkpoint_cuts VALUES ('task-1', 1, 1, NULL, '', CURRENT_TIMESTAMP)"):
        client.refuse(statement, why="a recorded cut stays")
    client.run("DELETE FROM tasks")
    assert client.value("SELECT count(*) FROM checkpoint_cuts") == 0


@case()
def checkpoint_types_can_be_added_and_used_ones_stay(client):
    add_items(client, 1)
    client.run("INSERT INTO checkpoint_types (checkpoint_type) VALUES ('mine'), ('spare')")
    client.run(ADD, "c1", "mine", 1)
    client.refuse("DELETE FROM checkpoint_types WHERE checkpoint_type = 'mine'", why="in use")
    client.refuse("DELETE FROM checkpoint_types WHERE checkpoint_type = 'iteration_end'", why="built in")
    client.run("DELETE FROM checkpoint_types WHERE checkpoint_type = 'spare'")


# ---- idempotency keys ----


@case(*EVERY_SETTING)
def a_key_locked_through_the_library_is_not_answered_by_plain_sql(client):
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash, lock_via, lock_token, lock_expires_at, revision, "
               "expires_at) VALUES ('k', 'h', 'api', 77, datetime('now', '+1 minutes'), 1, datetime('now', '-1 hours'))")
    for change in ("status = 'completed'", "status = 'failed'", "response_data = '{}'", "lock_token = 78", "lock_token = 1",
                   "lock_via = 'sql'", "lock_expires_at = NULL", "request_hash = 'other'", "idempotency_key = 'l'"):
        client.refuse("UPDATE idempotency_keys SET " + change)
    client.run("DELETE FROM idempotency_keys WHERE expires_at < CURRENT_TIMESTAMP")
    assert client.changed == 0 and client.value("SELECT count(*) FROM idempotency_keys") == 1  # in use: never cleaned
    client.refuse("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')", why="exists already")
    client.run("UPDATE idempotency_keys SET status = 'completed', response_data = '1', revision = revision + 1")
    for change in ("status = 'failed'", "response_data = '2'", "response_data = NULL", "status = 'pending'"):
        client.refuse("UPDATE idempotency_keys SET " + change, why="the answer is stored")
    client.run("DELETE FROM idempotency_keys WHERE expires_at < CURRENT_TIMESTAMP")
    assert client.changed == 1
    client.run("INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('k', 'h')")
    assert client.value("SELECT lock_token FROM idempotency_keys") > 77


if __name__ == "__main__":
    sys.exit(harness.run(sys.argv[1:]))
