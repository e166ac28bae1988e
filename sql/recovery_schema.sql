-- Tasks, work items, attempts, checkpoints, idempotency keys: the recovery system.
--
-- The database itself keeps the promises, whoever writes: statuses and transitions, append-only checkpoints, numbers
-- that only rise, tokens that only rise, attempts opened and closed. So plain SQL from any client (Python's sqlite3, psql) is
-- safe beside the library, and its claims are fenced too.
--
-- How a trigger tells plain SQL from the library: every change made by the library raises `revision`. A statement that
-- leaves it as it was is plain SQL. It carries no token, so it may end a lease only if that lease was itself taken
-- by plain SQL (lease_via = 'sql'), or if the lease has run out.
--
-- Numbers: journal_head counts checkpoints globally, task_heads per task. The library takes its numbers there first and
-- inserts rows that carry them; a row inserted without a global number is numbered here. A number that was not issued,
-- is taken, or belonged to a removed row is refused.
--
-- Tokens of removed rows are remembered in `leases`, under names nobody claims: an id or a key that comes again gives out
-- higher ones.
--
-- SQLite: triggers before INSERT stand beside those before UPDATE and DELETE, because INSERT OR REPLACE and UPDATE OR REPLACE
-- delete without firing them; so a second INSERT of the same id is refused by them, also with OR IGNORE. Foreign keys may
-- be off in a client, so parents are checked by triggers as well. A statement inside a trigger inherits the
-- conflict clause of the client's statement; RAISE does not.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite
CREATE TABLE tasks (
    task_id       TEXT NOT NULL PRIMARY KEY CHECK (typeof(task_id) = 'text' AND length(CAST(task_id AS BLOB)) BETWEEN 1 AND 128),
    title         TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL DEFAULT 'pending',
    metadata      TEXT,
    created_at    TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at    TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    completed_at  TIMESTAMP,
    forked_from   TEXT,     -- the task whose history this one shares ...
    forked_at     INTEGER CHECK (typeof(forked_at) IN ('integer', 'null')),  -- ... up to this sequence_number of it
    revision      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(revision) = 'integer' AND revision BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT "created_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (created_at IS NULL OR (
        datetime(substr(created_at, 1, 19), '+0 seconds') IS substr(created_at, 1, 19)
        AND (length(created_at) = 19 OR (length(created_at) BETWEEN 21 AND 26
                                    AND substr(created_at, 20) GLOB '.[0-9]*' AND substr(created_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "updated_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (updated_at IS NULL OR (
        datetime(substr(updated_at, 1, 19), '+0 seconds') IS substr(updated_at, 1, 19)
        AND (length(updated_at) = 19 OR (length(updated_at) BETWEEN 21 AND 26
                                    AND substr(updated_at, 20) GLOB '.[0-9]*' AND substr(updated_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "completed_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (completed_at IS NULL OR (
        datetime(substr(completed_at, 1, 19), '+0 seconds') IS substr(completed_at, 1, 19)
        AND (length(completed_at) = 19 OR (length(completed_at) BETWEEN 21 AND 26
                                    AND substr(completed_at, 20) GLOB '.[0-9]*' AND substr(completed_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_tasks_status ON tasks (status, created_at DESC);
CREATE INDEX idx_tasks_forked_from ON tasks (forked_from) WHERE forked_from IS NOT NULL;

-- Where a task's checkpoints stand: the last number issued, and the hash chain through it. Narrow, because it is
-- written with every checkpoint.
CREATE TABLE task_heads (
    task_id        TEXT NOT NULL PRIMARY KEY,
    last_sequence  INTEGER NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    chain          BLOB NOT NULL DEFAULT x''
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_heads_rise BEFORE UPDATE ON task_heads
WHEN new.last_sequence < old.last_sequence OR new.task_id <> old.task_id OR new.last_sequence IS NULL OR new.chain IS NULL
BEGIN SELECT RAISE(ABORT, 'a task''s sequence never goes down'); END;
CREATE TRIGGER task_heads_stay BEFORE DELETE ON task_heads WHEN EXISTS (SELECT 1 FROM tasks WHERE task_id = old.task_id)
BEGIN SELECT RAISE(ABORT, 'a task''s sequence lives as long as the task'); END;
CREATE TRIGGER task_heads_once BEFORE INSERT ON task_heads WHEN EXISTS (SELECT 1 FROM task_heads WHERE task_id = new.task_id)
BEGIN SELECT RAISE(ABORT, 'a task''s sequence never goes down'); END;

-- Types of work seen so far. A paused type is not claimed.
CREATE TABLE work_types (
    work_type     TEXT NOT NULL PRIMARY KEY CHECK (typeof(work_type) = 'text' AND length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    is_paused     INTEGER NOT NULL DEFAULT 0 CHECK (is_paused IN (0, 1)),
    pause_reason  TEXT,
    paused_at     TIMESTAMP
) WITHOUT ROWID;

CREATE TABLE work_items (
    work_item_id       TEXT NOT NULL PRIMARY KEY
        CHECK (typeof(work_item_id) = 'text' AND length(CAST(work_item_id AS BLOB)) BETWEEN 1 AND 128),
    task_id            TEXT NOT NULL REFERENCES tasks (task_id),
    work_type          TEXT NOT NULL CHECK (typeof(work_type) = 'text' AND length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    status             TEXT NOT NULL DEFAULT 'pending',
    priority           INTEGER DEFAULT 0 CHECK (typeof(priority) = 'integer' AND priority BETWEEN -1000000 AND 1000000),
    lease_holder       TEXT,
    lease_acquired_at  TIMESTAMP,
    lease_expires_at   TIMESTAMP,
    heartbeat_at       TIMESTAMP,
    retry_count        INTEGER DEFAULT 0 CHECK (typeof(retry_count) = 'integer' AND retry_count BETWEEN 0 AND 1000000),
    max_retries        INTEGER DEFAULT 3 CHECK (typeof(max_retries) = 'integer' AND max_retries BETWEEN 0 AND 1000000),
    input_data         TEXT,
    output_data        TEXT,
    error_message      TEXT,
    created_at         TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    started_at         TIMESTAMP,
    completed_at       TIMESTAMP,
    updated_at         TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    -- ours
    lease_token        INTEGER NOT NULL DEFAULT 0 CHECK (typeof(lease_token) = 'integer' AND lease_token BETWEEN 0 AND 4611686018427387904),
    lease_via          TEXT CHECK (lease_via IN ('api', 'sql')),     -- who took the current lease
    revision           INTEGER NOT NULL DEFAULT 0 CHECK (typeof(revision) = 'integer' AND revision BETWEEN 0 AND 4611686018427387904),  -- raised by every change of the library
    run_after          TIMESTAMP,                                    -- not before; NULL once it may run
    unique_key         TEXT,                                         -- at most one live item per type and key
    timeout_us         INTEGER CHECK (typeof(timeout_us) IN ('integer', 'null') AND timeout_us BETWEEN 1 AND 3153600000000000),  -- of one attempt
    deadline_at        TIMESTAMP,                                    -- of the current attempt; leases do not outlast it
    failure_count      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(failure_count) = 'integer' AND failure_count BETWEEN 0 AND 1000000000),  -- attempts that said so
    crash_count        INTEGER NOT NULL DEFAULT 0 CHECK (typeof(crash_count) = 'integer' AND crash_count BETWEEN 0 AND 1000000000),    -- attempts whose lease ran out
    failure_kind       TEXT CHECK (failure_kind IN ('error', 'exhausted', 'quarantined', 'cancelled', 'dependency')),
    attempt_outcome    TEXT CHECK (attempt_outcome IN ('completed', 'failed', 'expired', 'timed_out', 'released',
                                                       'cancelled', 'replaced')),  -- of the last attempt that ended
    progress           TEXT,
    retried_from       TEXT,                                         -- the ended item this one repeats
    schedule_name      TEXT,
    -- dependencies not completed yet, and: does anything depend on this one?
    waits_for          INTEGER NOT NULL DEFAULT 0 CHECK (typeof(waits_for) = 'integer' AND waits_for >= 0),
    has_dependents     INTEGER NOT NULL DEFAULT 0 CHECK (has_dependents IN (0, 1)),
    -- Priorities age by a key fixed at enqueue: ten minutes of age weigh as much as one step of priority.
    claim_key          INTEGER GENERATED ALWAYS AS (
        coalesce(CAST(strftime('%s', substr(created_at, 1, 19)) AS INTEGER) * 1000000
                 + CAST(substr(substr(created_at, 21, 6) || '000000', 1, 6) AS INTEGER), 0) - priority * 600000000) STORED
);
CREATE INDEX idx_work_items_task ON work_items (task_id, status, created_at DESC);
CREATE INDEX idx_work_items_status_priority ON work_items (status, priority DESC, created_at ASC);
CREATE INDEX idx_work_items_lease_expiry ON work_items (lease_expires_at) WHERE status = 'in_progress';
CREATE INDEX idx_work_items_lease_holder ON work_items (lease_holder, status) WHERE lease_holder IS NOT NULL;
-- ours: what may be claimed now, by type and by task; what waits for its time; what is the only one of its key; what is
-- left to be followed up or cleaned up
CREATE INDEX idx_work_items_claim ON work_items (work_type, claim_key)
    WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0;
CREATE INDEX idx_work_items_claim_task ON work_items (task_id, claim_key)
    WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0;
CREATE INDEX idx_work_items_due ON work_items (run_after) WHERE status = 'pending' AND run_after IS NOT NULL;
CREATE UNIQUE INDEX idx_work_items_unique ON work_items (work_type, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'in_progress', 'expired');
CREATE INDEX idx_work_items_expired ON work_items (updated_at) WHERE status = 'expired';
CREATE INDEX idx_work_items_failed ON work_items (work_item_id) WHERE status = 'failed' AND has_dependents = 1;
CREATE INDEX idx_work_items_ended ON work_items (updated_at) WHERE status IN ('completed', 'failed');

-- One row per claim, opened and closed by triggers; a closed one never changes.
CREATE TABLE work_attempts (
    work_item_id   TEXT NOT NULL,
    lease_token    INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,  -- 1 for the first run; a released one is not counted
    worker         TEXT,
    via            TEXT NOT NULL CHECK (via IN ('api', 'sql')),
    started_at     TIMESTAMP NOT NULL,
    ended_at       TIMESTAMP,
    outcome        TEXT,
    error_message  TEXT,
    PRIMARY KEY (work_item_id, lease_token)
) WITHOUT ROWID;
CREATE TRIGGER work_attempts_keep BEFORE UPDATE ON work_attempts
WHEN old.ended_at IS NOT NULL OR new.work_item_id <> old.work_item_id OR new.lease_token <> old.lease_token
    OR new.attempt <> old.attempt OR new.worker IS NOT old.worker OR new.started_at <> old.started_at
BEGIN SELECT RAISE(ABORT, 'an attempt is closed once and then never changes'); END;
CREATE TRIGGER work_attempts_stay BEFORE DELETE ON work_attempts
WHEN EXISTS (SELECT 1 FROM work_items WHERE work_item_id = old.work_item_id)
BEGIN SELECT RAISE(ABORT, 'attempts live as long as their work item'); END;
CREATE TRIGGER work_attempts_once BEFORE INSERT ON work_attempts
WHEN EXISTS (SELECT 1 FROM work_attempts WHERE work_item_id = new.work_item_id AND lease_token >= new.lease_token)
    OR NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id AND lease_token >= new.lease_token)
BEGIN SELECT RAISE(ABORT, 'an attempt carries the newest token of its work item'); END;

-- An item waits until everything it depends on is completed.
CREATE TABLE work_dependencies (
    work_item_id  TEXT NOT NULL,
    depends_on    TEXT NOT NULL,
    PRIMARY KEY (work_item_id, depends_on)
) WITHOUT ROWID;
CREATE INDEX idx_work_dependencies_on ON work_dependencies (depends_on);

-- Items that come again and again. One of cron and every_us.
CREATE TABLE work_schedules (
    name          TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text' AND length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    work_type     TEXT NOT NULL CHECK (typeof(work_type) = 'text' AND length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    cron          TEXT,
    every_us      INTEGER CHECK (typeof(every_us) IN ('integer', 'null') AND every_us > 0),
    input_data    TEXT,
    priority      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(priority) = 'integer' AND priority BETWEEN -1000000 AND 1000000),
    max_retries   INTEGER NOT NULL DEFAULT 3 CHECK (typeof(max_retries) = 'integer' AND max_retries BETWEEN 0 AND 1000000),
    timeout_us    INTEGER CHECK (typeof(timeout_us) IN ('integer', 'null') AND timeout_us BETWEEN 1 AND 3153600000000000),
    is_paused     INTEGER NOT NULL DEFAULT 0 CHECK (is_paused IN (0, 1)),
    next_run_at   TIMESTAMP NOT NULL,
    last_run_at   TIMESTAMP,
    run_count     INTEGER NOT NULL DEFAULT 0 CHECK (typeof(run_count) = 'integer'),
    created_at    TIMESTAMP NOT NULL,
    CHECK ((cron IS NULL) <> (every_us IS NULL)),
    CONSTRAINT "next_run_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (next_run_at IS NULL OR (
        datetime(substr(next_run_at, 1, 19), '+0 seconds') IS substr(next_run_at, 1, 19)
        AND (length(next_run_at) = 19 OR (length(next_run_at) BETWEEN 21 AND 26
                                    AND substr(next_run_at, 20) GLOB '.[0-9]*' AND substr(next_run_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_work_schedules_next ON work_schedules (next_run_at) WHERE is_paused = 0;

-- The last checkpoint number issued, and a time beside it that never goes back.
CREATE TABLE journal_head (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    last     INTEGER NOT NULL CHECK (last >= 0),
    last_at  TEXT NOT NULL
) STRICT;
INSERT INTO journal_head (id, last, last_at) VALUES (1, 0, '1970-01-01 00:00:00.000000');
CREATE TRIGGER journal_head_rise BEFORE UPDATE ON journal_head WHEN new.last < old.last OR new.id <> old.id
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;
CREATE TRIGGER journal_head_stay BEFORE DELETE ON journal_head
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;
CREATE TRIGGER journal_head_once BEFORE INSERT ON journal_head WHEN EXISTS (SELECT 1 FROM journal_head)
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;

-- A row here allows what is otherwise refused: removing checkpoints. It lives inside one transaction: the library's
-- retention, or the cascade of a task's removal, puts it and takes it away again.
CREATE TABLE journal_permits (permit TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE checkpoint_types (
    checkpoint_type  TEXT NOT NULL PRIMARY KEY CHECK (typeof(checkpoint_type) = 'text' AND length(CAST(checkpoint_type AS BLOB)) BETWEEN 1 AND 64),
    is_resumable     INTEGER NOT NULL DEFAULT 0 CHECK (is_resumable IN (0, 1)),  -- retention keeps the newest
    description      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description) VALUES
    ('iteration_start', 1, 'an iteration begins'),
    ('iteration_end', 1, 'an iteration is complete'),
    ('tool_executed', 1, 'a tool ran; its result'),
    ('llm_response', 1, 'a model answered; its answer'),
    ('approval_point', 1, 'waiting for a person'),
    ('state_transition', 1, 'the task changed its state'),
    ('manual_checkpoint', 1, 'made by a person'),
    ('error_boundary', 1, 'an error happened here');

CREATE TABLE checkpoints (
    global_sequence  INTEGER PRIMARY KEY AUTOINCREMENT CHECK (global_sequence > 0),
    checkpoint_id    TEXT NOT NULL UNIQUE CHECK (typeof(checkpoint_id) = 'text' AND length(CAST(checkpoint_id AS BLOB)) BETWEEN 1 AND 128),
    task_id          TEXT NOT NULL REFERENCES tasks (task_id),
    work_item_id     TEXT,  -- no reference: it stays as evidence when the item is gone
    checkpoint_type  TEXT NOT NULL,
    sequence_number  INTEGER NOT NULL CHECK (typeof(sequence_number) = 'integer' AND sequence_number > 0),
    snapshot_data    TEXT NOT NULL,  -- the state; of a large one a note where its chunks are
    metadata         TEXT,
    created_at       TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    -- ours
    message          TEXT,
    trigger_kind     TEXT NOT NULL DEFAULT 'manual' CHECK (trigger_kind IN ('manual', 'scheduled',
        'hypothesis_status_changed', 'contradiction_found', 'verification_completed', 'branch_switched', 'gap_filled',
        'code_modified', 'time_passed', 'context_compaction_warning')),
    snapshot_len     INTEGER CHECK (typeof(snapshot_len) IN ('integer', 'null')),  -- bytes of the state; NULL: plain SQL
    chunk_count      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(chunk_count) = 'integer'),  -- 0: snapshot_data is the state itself
    checksum         BLOB,     -- SHA-256 of the row's fields in canonical encoding; NULL: plain SQL
    chain            BLOB,     -- SHA-256 over the task's previous chain, the number and the checksum
    origin_session   TEXT,     -- of an imported row: the store it comes from ...
    origin_global    INTEGER CHECK (typeof(origin_global) IN ('integer', 'null')),  -- ... its global_sequence there ...
    origin_number    INTEGER CHECK (typeof(origin_number) IN ('integer', 'null'))   -- ... and its sequence_number
);
CREATE UNIQUE INDEX idx_checkpoints_task_sequence ON checkpoints (task_id, sequence_number ASC);
CREATE INDEX idx_checkpoints_work_item ON checkpoints (work_item_id, sequence_number ASC) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_checkpoints_type ON checkpoints (checkpoint_type, created_at DESC);
CREATE INDEX idx_checkpoints_created_at ON checkpoints (created_at DESC);

-- Global numbers that carry no row, and why. Single numbers are joined to ranges by the library.
CREATE TABLE checkpoint_gaps (
    first_global  INTEGER NOT NULL PRIMARY KEY,
    last_global   INTEGER NOT NULL CHECK (typeof(last_global) = 'integer' AND last_global >= first_global),
    reason        TEXT NOT NULL CHECK (reason IN ('removed', 'imported', 'skipped')),
    recorded_at   TIMESTAMP NOT NULL
);
-- Ranges of a task's own numbers that were removed, with the chain behind the last of them: what follows still proves
-- that nothing else is missing.
CREATE TABLE checkpoint_cuts (
    task_id       TEXT NOT NULL,
    first_number  INTEGER NOT NULL CHECK (typeof(first_number) = 'integer'),
    last_number   INTEGER NOT NULL CHECK (typeof(last_number) = 'integer' AND last_number >= first_number),
    chain         BLOB,
    reason        TEXT NOT NULL,
    cut_at        TIMESTAMP NOT NULL,
    PRIMARY KEY (task_id, first_number)
) WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    idempotency_key  TEXT NOT NULL PRIMARY KEY CHECK (typeof(idempotency_key) = 'text' AND length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 512),
    task_id          TEXT,
    work_item_id     TEXT,
    request_hash     TEXT NOT NULL,
    response_data    TEXT,
    status           TEXT NOT NULL DEFAULT 'pending',
    created_at       TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    completed_at     TIMESTAMP,
    expires_at       TIMESTAMP,
    -- ours: who works on it now. Apart from expires_at, which is how long the answer is kept.
    lock_holder      TEXT,
    lock_token       INTEGER NOT NULL DEFAULT 0 CHECK (typeof(lock_token) = 'integer' AND lock_token BETWEEN 0 AND 4611686018427387904),
    lock_expires_at  TIMESTAMP,
    lock_via         TEXT CHECK (lock_via IN ('api', 'sql')),
    takeover         TEXT NOT NULL DEFAULT 'rerun' CHECK (takeover IN ('resume', 'rerun', 'fail')),
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND 1000000000),
    revision         INTEGER NOT NULL DEFAULT 0 CHECK (typeof(revision) = 'integer' AND revision BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT "created_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (created_at IS NULL OR (
        datetime(substr(created_at, 1, 19), '+0 seconds') IS substr(created_at, 1, 19)
        AND (length(created_at) = 19 OR (length(created_at) BETWEEN 21 AND 26
                                    AND substr(created_at, 20) GLOB '.[0-9]*' AND substr(created_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "completed_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (completed_at IS NULL OR (
        datetime(substr(completed_at, 1, 19), '+0 seconds') IS substr(completed_at, 1, 19)
        AND (length(completed_at) = 19 OR (length(completed_at) BETWEEN 21 AND 26
                                    AND substr(completed_at, 20) GLOB '.[0-9]*' AND substr(completed_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "expires_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (expires_at IS NULL OR (
        datetime(substr(expires_at, 1, 19), '+0 seconds') IS substr(expires_at, 1, 19)
        AND (length(expires_at) = 19 OR (length(expires_at) BETWEEN 21 AND 26
                                    AND substr(expires_at, 20) GLOB '.[0-9]*' AND substr(expires_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "lock_expires_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (lock_expires_at IS NULL OR (
        datetime(substr(lock_expires_at, 1, 19), '+0 seconds') IS substr(lock_expires_at, 1, 19)
        AND (length(lock_expires_at) = 19 OR (length(lock_expires_at) BETWEEN 21 AND 26
                                    AND substr(lock_expires_at, 20) GLOB '.[0-9]*' AND substr(lock_expires_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_idempotency_keys_task ON idempotency_keys (task_id, created_at DESC) WHERE task_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_work_item ON idempotency_keys (work_item_id, created_at DESC) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idx_idempotency_keys_status ON idempotency_keys (status, created_at DESC);

-- The lowest token that a claim may give now: of this epoch, and above every removed row's.
CREATE VIEW token_floors (work, idempotency) AS
SELECT max((SELECT (CAST(value AS INTEGER) << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
           coalesce((SELECT token + 1 FROM leases WHERE name = 'work items removed'), 0)),
       max((SELECT (CAST(value AS INTEGER) << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
           coalesce((SELECT token + 1 FROM leases WHERE name = 'idempotency keys removed'), 0));

-- ---- tasks ----

CREATE TRIGGER check_tasks_insert BEFORE INSERT ON tasks
BEGIN
    SELECT RAISE(ABORT, 'this task exists already') WHERE EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'task status is pending, running, succeeded, failed or cancelled')
    WHERE new.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled');
END;
CREATE TRIGGER check_tasks_status BEFORE UPDATE ON tasks
BEGIN
    SELECT RAISE(ABORT, 'title, status and revision are not NULL')
    WHERE new.title IS NULL OR new.status IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'a task keeps its id') WHERE new.task_id <> old.task_id;
    SELECT RAISE(ABORT, 'task status is pending, running, succeeded, failed or cancelled')
    WHERE new.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled');
    SELECT RAISE(ABORT, 'the task has ended: its status does not change any more')
    WHERE new.status <> old.status AND old.status IN ('succeeded', 'failed', 'cancelled');
    SELECT RAISE(ABORT, 'a task that was running does not become pending again')
    WHERE new.status = 'pending' AND old.status = 'running';
    SELECT RAISE(ABORT, 'revision only rises') WHERE new.revision < old.revision;
END;
CREATE TRIGGER update_tasks_timestamp AFTER UPDATE ON tasks
WHEN new.updated_at IS old.updated_at AND new.revision = old.revision
BEGIN
    UPDATE tasks SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), revision = revision + 1
    WHERE task_id = new.task_id;
END;
CREATE TRIGGER tasks_begin AFTER INSERT ON tasks
BEGIN INSERT INTO task_heads (task_id) VALUES (new.task_id); END;
-- Items of a task that ended end with it; those in progress only if it was cancelled, fenced off by the token.
CREATE TRIGGER tasks_cancel AFTER UPDATE OF status ON tasks
WHEN new.status <> old.status AND new.status IN ('succeeded', 'failed', 'cancelled')
BEGIN
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', revision = revision + 1,
        error_message = iif(new.status = 'cancelled', 'The task was cancelled', 'The task has ended'),
        attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
        completed_at = iif(new.revision > old.revision, new.updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        updated_at = iif(new.revision > old.revision, new.updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        lease_holder = NULL, lease_expires_at = NULL, run_after = NULL,
        lease_token = max(lease_token + 1, (SELECT work FROM token_floors))
    WHERE task_id = new.task_id
      AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND new.status = 'cancelled'));
END;
CREATE TRIGGER tasks_end BEFORE DELETE ON tasks
BEGIN
    SELECT RAISE(ABORT, 'another task is a fork of this one: delete the fork first')
    WHERE EXISTS (SELECT 1 FROM tasks WHERE forked_from = old.task_id);
    INSERT INTO journal_permits (permit) VALUES ('task ' || old.task_id);
    DELETE FROM checkpoints WHERE task_id = old.task_id;
    DELETE FROM checkpoint_cuts WHERE task_id = old.task_id;
    DELETE FROM journal_permits WHERE permit = 'task ' || old.task_id;
    DELETE FROM work_items WHERE task_id = old.task_id;
    DELETE FROM work_schedules WHERE task_id = old.task_id;
    UPDATE idempotency_keys SET task_id = NULL, revision = revision + 1 WHERE task_id = old.task_id;
END;
CREATE TRIGGER tasks_ended AFTER DELETE ON tasks
BEGIN DELETE FROM task_heads WHERE task_id = old.task_id; END;

-- ---- work items ----

CREATE TRIGGER check_work_items_insert BEFORE INSERT ON work_items
BEGIN
    SELECT RAISE(ABORT, 'this work item exists already')
    WHERE EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id)
       OR (new.rowid <> -1 AND EXISTS (SELECT 1 FROM work_items WHERE rowid = new.rowid));
    SELECT RAISE(ABORT, 'a live work item of this type has this unique key already')
    WHERE new.unique_key IS NOT NULL AND new.status IN ('pending', 'in_progress', 'expired')
      AND EXISTS (SELECT 1 FROM work_items WHERE work_type = new.work_type
                  AND unique_key = new.unique_key AND status IN ('pending', 'in_progress', 'expired'));
    SELECT RAISE(ABORT, 'there is no such task') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'the task has ended: it takes no more work items')
    WHERE new.status IN ('pending', 'in_progress', 'expired')
      AND (SELECT status FROM tasks WHERE task_id = new.task_id) NOT IN ('pending', 'running');
    SELECT RAISE(ABORT, 'status is pending, in_progress, completed, failed or expired')
    WHERE new.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired');
END;
-- The library writes what is right by construction; plain SQL is looked at more closely. A NULL that is written out would
-- become the column's default behind the triggers' back (OR REPLACE).
CREATE TRIGGER check_work_items_insert_plain BEFORE INSERT ON work_items WHEN new.revision IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'status, lease_token, revision and counts are not NULL')
    WHERE new.status IS NULL OR new.lease_token IS NULL OR new.revision IS NULL OR new.failure_count IS NULL
       OR new.crash_count IS NULL OR new.waits_for IS NULL OR new.has_dependents IS NULL;
    SELECT RAISE(ABORT, 'dependencies are added through the library')
    WHERE new.waits_for <> 0 OR new.has_dependents <> 0;
    SELECT RAISE(ABORT, 'lease_token and revision are given by the store: leave them out')
    WHERE new.lease_token <> 0 OR new.revision <> 0;
    SELECT RAISE(ABORT, 'times are UTC text like 2026-01-31 23:59:59.123456')
    FROM (SELECT new.created_at AS t
          UNION ALL SELECT new.updated_at
          UNION ALL SELECT new.completed_at
          UNION ALL SELECT new.lease_acquired_at
          UNION ALL SELECT new.lease_expires_at
          UNION ALL SELECT new.heartbeat_at
          UNION ALL SELECT new.run_after
          UNION ALL SELECT new.started_at
          UNION ALL SELECT new.deadline_at)
    WHERE t IS NOT NULL AND NOT (datetime(substr(t, 1, 19), '+0 seconds') IS substr(t, 1, 19)
        AND (length(t) = 19 OR (length(t) BETWEEN 21 AND 26 AND substr(t, 20) GLOB '.[0-9]*'
                                AND substr(t, 21) NOT GLOB '*[^0-9]*')));
END;
-- Which changes are allowed, from whomever they come.
CREATE TRIGGER check_work_items_status BEFORE UPDATE ON work_items
WHEN new.status IS NOT old.status OR new.revision <= old.revision OR old.status = 'completed' OR old.status = 'failed'
    OR new.lease_token < old.lease_token OR new.work_item_id <> old.work_item_id OR new.task_id <> old.task_id
    OR new.rowid <> old.rowid OR new.lease_token IS NULL OR new.revision IS NULL
BEGIN
    SELECT CASE
        WHEN new.status IS NULL OR new.lease_token IS NULL OR new.revision IS NULL
            THEN RAISE(ABORT, 'status, lease_token and revision are not NULL')
        WHEN new.work_item_id <> old.work_item_id OR new.task_id <> old.task_id OR new.rowid <> old.rowid
            THEN RAISE(ABORT, 'a work item keeps its id and its task')
        WHEN new.lease_token < old.lease_token THEN RAISE(ABORT, 'lease tokens only rise')
        WHEN new.revision < old.revision THEN RAISE(ABORT, 'revision only rises')
        WHEN (old.status = 'completed' OR old.status = 'failed')
             AND (new.status <> old.status OR new.output_data IS NOT old.output_data
                  OR new.lease_holder IS NOT old.lease_holder OR new.lease_acquired_at IS NOT old.lease_acquired_at
                  OR new.lease_expires_at IS NOT old.lease_expires_at OR new.heartbeat_at IS NOT old.heartbeat_at
                  OR new.lease_via IS NOT old.lease_via OR new.lease_token <> old.lease_token)
            THEN RAISE(ABORT, 'the work item has ended: status, output and lease do not change any more')
        WHEN new.status = old.status THEN NULL
        WHEN old.status = 'pending' AND (new.status = 'in_progress' OR new.status = 'failed') THEN NULL
        WHEN old.status = 'in_progress' AND (new.status = 'completed' OR new.status = 'failed' OR new.status = 'pending'
                                             OR new.status = 'expired') THEN NULL
        WHEN old.status = 'expired' AND (new.status = 'pending' OR new.status = 'failed') THEN NULL
        WHEN new.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired')
            THEN RAISE(ABORT, 'status is pending, in_progress, completed, failed or expired')
        WHEN old.status = 'pending' THEN RAISE(ABORT, 'a pending work item becomes in_progress or failed')
        ELSE RAISE(ABORT, 'an expired work item becomes pending or failed')
    END;
END;
-- What plain SQL may not do: it carries no token.
CREATE TRIGGER check_work_items_plain BEFORE UPDATE ON work_items WHEN new.revision = old.revision
BEGIN
    SELECT RAISE(ABORT, 'counts are not NULL')
    WHERE new.failure_count IS NULL OR new.crash_count IS NULL OR new.waits_for IS NULL OR new.has_dependents IS NULL;
    SELECT RAISE(ABORT, 'dependencies are kept by the library')
    WHERE new.waits_for <> old.waits_for OR new.has_dependents <> old.has_dependents;
    SELECT RAISE(ABORT, 'times are UTC text like 2026-01-31 23:59:59.123456')
    FROM (SELECT new.created_at AS t
          UNION ALL SELECT new.updated_at
          UNION ALL SELECT new.completed_at
          UNION ALL SELECT new.lease_acquired_at
          UNION ALL SELECT new.lease_expires_at
          UNION ALL SELECT new.heartbeat_at
          UNION ALL SELECT new.run_after
          UNION ALL SELECT new.started_at
          UNION ALL SELECT new.deadline_at)
    WHERE t IS NOT NULL AND NOT (datetime(substr(t, 1, 19), '+0 seconds') IS substr(t, 1, 19)
        AND (length(t) = 19 OR (length(t) BETWEEN 21 AND 26 AND substr(t, 20) GLOB '.[0-9]*'
                                AND substr(t, 21) NOT GLOB '*[^0-9]*')));
    SELECT RAISE(ABORT, 'lease tokens only rise, and not by plain SQL')
    WHERE new.lease_token <> old.lease_token OR new.lease_via IS NOT old.lease_via;
    SELECT RAISE(ABORT, 'the lease is held through the library: without its token it cannot be ended or changed')
    WHERE old.status = 'in_progress' AND old.lease_via = 'api'
      AND (new.status <> old.status OR new.output_data IS NOT old.output_data OR new.lease_holder IS NOT old.lease_holder
           OR new.lease_acquired_at IS NOT old.lease_acquired_at OR new.lease_expires_at IS NOT old.lease_expires_at
           OR new.heartbeat_at IS NOT old.heartbeat_at OR new.deadline_at IS NOT old.deadline_at)
      AND NOT (new.status IN ('pending', 'failed', 'expired') AND old.lease_expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now'));
    SELECT RAISE(ABORT, 'another worker holds the lease; once it has run out, set the item back to pending first')
    WHERE old.status = 'in_progress' AND new.status = 'in_progress' AND new.lease_holder IS NOT old.lease_holder;
    SELECT RAISE(ABORT, 'retry_count only rises') WHERE new.retry_count < old.retry_count;
    SELECT RAISE(ABORT, 'a lease has an end')
    WHERE old.status = 'in_progress' AND new.status = 'in_progress' AND new.lease_expires_at IS NULL;
    SELECT RAISE(ABORT, 'the work item is not in progress: nobody holds its lease')
    WHERE old.status IN ('pending', 'expired') AND new.status = old.status
      AND ((new.lease_holder IS NOT NULL AND new.lease_holder IS NOT old.lease_holder)
           OR (new.lease_acquired_at IS NOT NULL AND new.lease_acquired_at IS NOT old.lease_acquired_at)
           OR (new.lease_expires_at IS NOT NULL AND new.lease_expires_at IS NOT old.lease_expires_at)
           OR (new.heartbeat_at IS NOT NULL AND new.heartbeat_at IS NOT old.heartbeat_at));
END;
-- UPDATE OR REPLACE would delete the other item.
CREATE TRIGGER check_work_items_unique BEFORE UPDATE OF unique_key, work_type ON work_items
WHEN new.unique_key IS NOT NULL AND new.status IN ('pending', 'in_progress', 'expired')
BEGIN
    SELECT RAISE(ABORT, 'a live work item of this type has this unique key already')
    WHERE EXISTS (SELECT 1 FROM work_items WHERE work_type = new.work_type AND unique_key = new.unique_key
                  AND status IN ('pending', 'in_progress', 'expired') AND work_item_id <> old.work_item_id);
END;
CREATE TRIGGER update_work_items_timestamp AFTER UPDATE ON work_items
WHEN new.updated_at IS old.updated_at AND new.revision = old.revision
BEGIN
    UPDATE work_items SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), revision = revision + 1
    WHERE work_item_id = new.work_item_id;
END;

CREATE TRIGGER work_items_type AFTER INSERT ON work_items
WHEN NOT EXISTS (SELECT 1 FROM work_types WHERE work_type = new.work_type)
BEGIN INSERT INTO work_types (work_type) VALUES (new.work_type); END;
CREATE TRIGGER work_items_type_change AFTER UPDATE OF work_type ON work_items
WHEN NOT EXISTS (SELECT 1 FROM work_types WHERE work_type = new.work_type)
BEGIN INSERT INTO work_types (work_type) VALUES (new.work_type); END;

CREATE TRIGGER work_types_stay BEFORE DELETE ON work_types
WHEN EXISTS (SELECT 1 FROM work_items WHERE work_type = old.work_type AND status IN ('pending', 'in_progress', 'expired'))
BEGIN SELECT RAISE(ABORT, 'this type has live work items: nobody would claim them any more'); END;
CREATE TRIGGER work_dependencies_stay BEFORE DELETE ON work_dependencies
WHEN EXISTS (SELECT 1 FROM work_items WHERE work_item_id = old.work_item_id AND waits_for > 0)
     AND EXISTS (SELECT 1 FROM work_items WHERE work_item_id = old.depends_on)
BEGIN SELECT RAISE(ABORT, 'a work item waits for this dependency'); END;

-- A claim by the library brings its token and opens an attempt.
CREATE TRIGGER work_items_claimed AFTER UPDATE OF status ON work_items
WHEN new.status = 'in_progress' AND old.status = 'pending' AND new.revision > old.revision
BEGIN
    INSERT INTO work_attempts (work_item_id, lease_token, attempt, worker, via, started_at)
    VALUES (new.work_item_id, new.lease_token, new.retry_count + 1, new.lease_holder, 'api', new.lease_acquired_at);
END;
-- A claim by plain SQL gets its token here.
CREATE TRIGGER work_items_claimed_plainly AFTER UPDATE ON work_items
WHEN new.revision = old.revision AND new.status = 'in_progress' AND old.status = 'pending'
BEGIN
    UPDATE work_items
    SET lease_token = max(old.lease_token + 1, (SELECT work FROM token_floors)), lease_via = 'sql', revision = revision + 1,
        run_after = NULL, deadline_at = NULL, updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'),
        lease_acquired_at = coalesce(lease_acquired_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        lease_expires_at = coalesce(lease_expires_at, strftime('%Y-%m-%d %H:%M:%f', 'now', '+5 minutes'))
    WHERE work_item_id = new.work_item_id;
    INSERT INTO work_attempts (work_item_id, lease_token, attempt, worker, via, started_at)
    SELECT work_item_id, lease_token, retry_count + 1, lease_holder, 'sql', lease_acquired_at
    FROM work_items WHERE work_item_id = new.work_item_id;
END;
-- What plain SQL leaves open when it makes an item.
CREATE TRIGGER work_items_made_plainly AFTER INSERT ON work_items
WHEN new.revision = 0 AND (new.created_at IS NULL OR EXISTS (SELECT 1 FROM leases WHERE name = 'work items removed')
                           OR (new.status IN ('completed', 'failed') AND new.completed_at IS NULL))
BEGIN
    UPDATE work_items
    SET created_at = coalesce(created_at, strftime('%Y-%m-%d %H:%M:%f', 'now')), updated_at = coalesce(updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')), revision = revision + 1,
        lease_token = iif(status IN ('pending', 'expired'),
                          max(lease_token, coalesce((SELECT token FROM leases WHERE name = 'work items removed'), 0)), lease_token),
        completed_at = iif(status IN ('completed', 'failed'), coalesce(completed_at, updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')), completed_at)
    WHERE work_item_id = new.work_item_id AND status <> 'in_progress';
END;
CREATE TRIGGER work_items_inserted_claimed AFTER INSERT ON work_items WHEN new.status = 'in_progress'
BEGIN
    UPDATE work_items
    SET lease_token = max(new.lease_token + 1, (SELECT work FROM token_floors)), lease_via = 'sql', revision = revision + 1,
        created_at = coalesce(created_at, strftime('%Y-%m-%d %H:%M:%f', 'now')), updated_at = coalesce(updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        lease_acquired_at = coalesce(lease_acquired_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        lease_expires_at = coalesce(lease_expires_at, strftime('%Y-%m-%d %H:%M:%f', 'now', '+5 minutes'))
    WHERE work_item_id = new.work_item_id;
    INSERT INTO work_attempts (work_item_id, lease_token, attempt, worker, via, started_at)
    SELECT work_item_id, lease_token, retry_count + 1, lease_holder, 'sql', lease_acquired_at
    FROM work_items WHERE work_item_id = new.work_item_id;
END;
-- The library says how the attempt ended (attempt_outcome).
CREATE TRIGGER work_items_ended AFTER UPDATE OF status ON work_items
WHEN old.status = 'in_progress' AND new.status <> 'in_progress' AND new.revision > old.revision
BEGIN
    UPDATE work_attempts SET ended_at = new.updated_at, outcome = new.attempt_outcome, error_message = new.error_message
    WHERE work_item_id = new.work_item_id AND lease_token = old.lease_token AND ended_at IS NULL;
END;
-- Plain SQL says it by the status alone. One more retry is how a watchdog says that the lease ran out; a lease that has run
-- out spends an attempt also if nobody counted it.
CREATE TRIGGER work_items_ended_plainly AFTER UPDATE OF status ON work_items
WHEN old.status = 'in_progress' AND new.status <> 'in_progress' AND new.revision = old.revision
BEGIN
    UPDATE work_attempts
    SET ended_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), error_message = iif(new.status = 'completed', NULL, new.error_message),
        outcome = CASE WHEN new.status = 'completed' THEN 'completed'
                       WHEN new.status = 'expired' OR new.retry_count > old.retry_count
                            OR (new.status = 'pending' AND old.lease_expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 'expired'
                       WHEN new.status = 'failed' THEN 'failed' ELSE 'released' END
    WHERE work_item_id = new.work_item_id AND lease_token = old.lease_token AND ended_at IS NULL;
    -- A row that ended keeps its lease columns (nothing changes them any more); one that goes on is fenced anew.
    UPDATE work_items
    SET lease_token = max(old.lease_token + 1, (SELECT work FROM token_floors)), lease_via = NULL, lease_holder = NULL,
        lease_expires_at = NULL, deadline_at = NULL, revision = revision + 1, updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'),
        attempt_outcome = 'expired', crash_count = crash_count + 1,
        retry_count = iif(new.status = 'pending' AND new.retry_count = old.retry_count AND old.retry_count < max_retries,
                          retry_count + 1, retry_count),
        status = iif(new.status = 'pending' AND new.retry_count = old.retry_count AND old.retry_count >= max_retries,
                     'failed', status),
        failure_kind = iif(new.status = 'pending' AND new.retry_count = old.retry_count AND old.retry_count >= max_retries,
                           'exhausted', NULL),
        completed_at = iif(new.status = 'pending' AND new.retry_count = old.retry_count AND old.retry_count >= max_retries,
                           strftime('%Y-%m-%d %H:%M:%f', 'now'), NULL)
    WHERE work_item_id = new.work_item_id
      AND (new.status = 'expired'
           OR (new.status = 'pending' AND (new.retry_count > old.retry_count
                                           OR old.lease_expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now'))));
    UPDATE work_items
    SET lease_token = max(old.lease_token + 1, (SELECT work FROM token_floors)), lease_via = NULL, lease_holder = NULL,
        lease_expires_at = NULL, deadline_at = NULL, revision = revision + 1, updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'),
        attempt_outcome = 'released'
    WHERE work_item_id = new.work_item_id AND new.status = 'pending' AND new.retry_count <= old.retry_count
      AND NOT coalesce(old.lease_expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now'), false);
    UPDATE work_items
    SET attempt_outcome = CASE WHEN new.status = 'completed' THEN 'completed'
                               WHEN new.retry_count > old.retry_count THEN 'expired' ELSE 'failed' END,
        failure_kind = CASE WHEN new.status = 'completed' THEN NULL
                            WHEN new.retry_count > old.retry_count THEN 'exhausted' ELSE 'error' END,
        failure_count = failure_count + (new.status = 'failed' AND new.retry_count <= old.retry_count),
        crash_count = crash_count + (new.status = 'failed' AND new.retry_count > old.retry_count),
        completed_at = coalesce(completed_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), revision = revision + 1
    WHERE work_item_id = new.work_item_id AND new.status IN ('completed', 'failed');
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
        revision = revision + 1, completed_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
    WHERE work_item_id = new.work_item_id AND status = 'pending'
      AND (SELECT status FROM tasks WHERE task_id = new.task_id) NOT IN ('pending', 'running');
END;
-- What comes back to a task that has ended would wait for ever. (What plain SQL puts back is fenced first: see above.)
CREATE TRIGGER work_items_orphaned AFTER UPDATE OF status ON work_items
WHEN new.status = 'pending' AND (old.status = 'expired' OR (old.status = 'in_progress' AND new.revision > old.revision))
     AND (SELECT status FROM tasks WHERE task_id = new.task_id) NOT IN ('pending', 'running')
BEGIN
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
        revision = revision + 1, completed_at = new.updated_at
    WHERE work_item_id = new.work_item_id AND status = 'pending';
END;
CREATE TRIGGER work_items_failed_plainly AFTER UPDATE OF status ON work_items
WHEN old.status IN ('pending', 'expired') AND new.status = 'failed' AND new.revision = old.revision
BEGIN
    UPDATE work_items
    SET failure_kind = iif(old.status = 'expired', 'exhausted', 'error'), completed_at = coalesce(completed_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), revision = revision + 1
    WHERE work_item_id = new.work_item_id;
END;
-- Who waited for this item waits for one less, also if plain SQL has claimed it before its turn. (A failed one is
-- followed up by the sweep.)
CREATE TRIGGER work_items_completed AFTER UPDATE OF status ON work_items
WHEN new.status = 'completed' AND old.status <> 'completed' AND new.has_dependents
BEGIN
    UPDATE work_items
    SET waits_for = waits_for - 1, revision = revision + 1,
        updated_at = iif(new.revision > old.revision, new.updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now'))
    WHERE work_item_id IN (SELECT work_item_id FROM work_dependencies WHERE depends_on = new.work_item_id)
      AND status IN ('pending', 'in_progress', 'expired') AND waits_for > 0;
END;
-- Its attempts go with it; its token stays behind. Who waited for it in vain does not wait for ever.
CREATE TRIGGER work_items_deleted AFTER DELETE ON work_items
BEGIN
    DELETE FROM work_attempts WHERE work_item_id = old.work_item_id;
    UPDATE work_items
    SET status = iif(status = 'in_progress', status, 'failed'), waits_for = waits_for - 1, revision = revision + 1,
        failure_kind = iif(status = 'in_progress', failure_kind, 'dependency'),
        error_message = iif(status = 'in_progress', error_message, 'It depends on ' || old.work_item_id || ', which was deleted'),
        completed_at = iif(status = 'in_progress', completed_at, strftime('%Y-%m-%d %H:%M:%f', 'now')), updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
    WHERE old.has_dependents AND old.status <> 'completed' AND waits_for > 0
      AND status IN ('pending', 'in_progress', 'expired')
      AND work_item_id IN (SELECT work_item_id FROM work_dependencies WHERE depends_on = old.work_item_id);
    DELETE FROM work_dependencies WHERE work_item_id = old.work_item_id;
    DELETE FROM work_dependencies WHERE depends_on = old.work_item_id;
    -- The key under which it ran belongs to it; an item that comes again under this id is another one.
    DELETE FROM idempotency_keys WHERE idempotency_key = 'work-' || old.work_item_id;
    UPDATE idempotency_keys SET work_item_id = NULL, revision = revision + 1 WHERE work_item_id = old.work_item_id;
END;
CREATE TRIGGER work_items_token AFTER DELETE ON work_items
WHEN old.lease_token > coalesce((SELECT token FROM leases WHERE name = 'work items removed'), 0)
BEGIN
    UPDATE leases SET token = old.lease_token WHERE name = 'work items removed';
    INSERT INTO leases (name, token) SELECT 'work items removed', old.lease_token
    WHERE NOT EXISTS (SELECT 1 FROM leases WHERE name = 'work items removed');
END;

-- ---- checkpoints ----

CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'unknown checkpoint_type: see the table checkpoint_types')
    WHERE NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = new.checkpoint_type);
    SELECT RAISE(ABORT, 'there is no such task') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'this checkpoint exists already: checkpoints are append-only')
    WHERE EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_id = new.checkpoint_id)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE task_id = new.task_id AND sequence_number = new.sequence_number);
END;
-- Without a global number (SQLite shows -1 here) the row comes from plain SQL: its own number must be new.
CREATE TRIGGER check_checkpoints_plain BEFORE INSERT ON checkpoints WHEN new.global_sequence = -1
BEGIN
    SELECT RAISE(ABORT, 'times are UTC text like 2026-01-31 23:59:59.123456')
    FROM (SELECT new.created_at AS t)
    WHERE t IS NOT NULL AND NOT (datetime(substr(t, 1, 19), '+0 seconds') IS substr(t, 1, 19)
        AND (length(t) = 19 OR (length(t) BETWEEN 21 AND 26 AND substr(t, 20) GLOB '.[0-9]*'
                                AND substr(t, 21) NOT GLOB '*[^0-9]*')));
    SELECT RAISE(ABORT, 'sequence_number only rises within a task, also after removals')
    WHERE new.sequence_number <= (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'sequence_number is at most 9007199254740992') WHERE new.sequence_number > 9007199254740992;
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
END;
-- Numbers that are given must have been issued and never used.
CREATE TRIGGER check_checkpoints_numbers BEFORE INSERT ON checkpoints WHEN new.global_sequence <> -1
BEGIN
    SELECT RAISE(ABORT, 'global_sequence is given by the store: leave it out')
    WHERE new.global_sequence > (SELECT last FROM journal_head WHERE id = 1)
       OR new.sequence_number > (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = new.global_sequence)
       OR new.global_sequence <= (SELECT last_global FROM checkpoint_gaps
                                  WHERE first_global <= new.global_sequence ORDER BY first_global DESC LIMIT 1);
END;
-- SQLite numbers behind the highest row it knows. Numbers that it jumps over (an ignored INSERT takes one) are recorded.
CREATE TRIGGER checkpoints_numbered AFTER INSERT ON checkpoints
WHEN new.global_sequence > (SELECT last FROM journal_head WHERE id = 1)
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    SELECT last + 1, new.global_sequence - 1, 'skipped', strftime('%Y-%m-%d %H:%M:%f', 'now')
    FROM journal_head WHERE id = 1 AND last + 1 < new.global_sequence;
    UPDATE journal_head SET last = new.global_sequence, last_at = max(last_at, strftime('%Y-%m-%d %H:%M:%f', 'now')) WHERE id = 1;
    UPDATE task_heads SET last_sequence = new.sequence_number WHERE task_id = new.task_id;
END;
-- A number at or below the head with a sequence_number above the task's: SQLite's own counter (sqlite_sequence) has been
-- set back, and would give out numbers of removed rows again.
CREATE TRIGGER checkpoints_below AFTER INSERT ON checkpoints
WHEN new.global_sequence <= (SELECT last FROM journal_head WHERE id = 1)
     AND new.sequence_number > (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id)
BEGIN SELECT RAISE(ABORT, 'the numbering of checkpoints was altered: sqlite_sequence is behind journal_head'); END;
CREATE TRIGGER checkpoints_keep BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: they never change'); END;
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN
    SELECT RAISE(ABORT,
        'checkpoints are append-only: tidemark checkpoint compact removes old ones, task delete all of a task');
END;
CREATE TRIGGER checkpoints_removed AFTER DELETE ON checkpoints
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    VALUES (old.global_sequence, old.global_sequence, 'removed', strftime('%Y-%m-%d %H:%M:%f', 'now'));
END;

-- What is missing and why is evidence: recorded ranges may be joined, under the permit, and nothing else.
CREATE TRIGGER checkpoint_gaps_keep BEFORE UPDATE ON checkpoint_gaps
BEGIN SELECT RAISE(ABORT, 'a recorded gap stays as it is'); END;
CREATE TRIGGER checkpoint_gaps_stay BEFORE DELETE ON checkpoint_gaps WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded gap stays'); END;
CREATE TRIGGER checkpoint_gaps_once BEFORE INSERT ON checkpoint_gaps
BEGIN
    SELECT RAISE(ABORT, 'a recorded gap stays')
    WHERE EXISTS (SELECT 1 FROM checkpoint_gaps WHERE first_global = new.first_global);
    -- It would hide rows that are there, or keep numbers from being given.
    SELECT RAISE(ABORT, 'a gap is made of numbers that were given and have no row')
    WHERE EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence BETWEEN new.first_global AND new.last_global)
       OR (new.last_global > (SELECT last FROM journal_head WHERE id = 1)
           AND new.last_global > coalesce((SELECT max(global_sequence) FROM checkpoints), 0));
END;
CREATE TRIGGER checkpoint_cuts_keep BEFORE UPDATE ON checkpoint_cuts WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;
CREATE TRIGGER checkpoint_cuts_stay BEFORE DELETE ON checkpoint_cuts WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;
CREATE TRIGGER checkpoint_cuts_once BEFORE INSERT ON checkpoint_cuts
WHEN EXISTS (SELECT 1 FROM checkpoint_cuts WHERE task_id = new.task_id AND first_number = new.first_number)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;

CREATE TRIGGER checkpoint_types_stay BEFORE DELETE ON checkpoint_types
WHEN old.checkpoint_type IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                             'state_transition', 'manual_checkpoint', 'error_boundary')
     OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_type = old.checkpoint_type)
BEGIN SELECT RAISE(ABORT, 'this checkpoint type is in use or built in'); END;
CREATE TRIGGER checkpoint_types_keep BEFORE UPDATE ON checkpoint_types
WHEN new.checkpoint_type <> old.checkpoint_type OR new.is_resumable < old.is_resumable OR new.is_resumable IS NULL
BEGIN SELECT RAISE(ABORT, 'a checkpoint type keeps its name, and stays resumable once it is'); END;
CREATE TRIGGER checkpoint_types_once BEFORE INSERT ON checkpoint_types
WHEN EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = new.checkpoint_type AND is_resumable > new.is_resumable)
BEGIN SELECT RAISE(ABORT, 'a checkpoint type keeps its name, and stays resumable once it is'); END;

-- ---- idempotency keys ----

CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON idempotency_keys
BEGIN
    SELECT RAISE(ABORT, 'status, lock_token, takeover, attempts and revision are not NULL')
    WHERE new.status IS NULL OR new.lock_token IS NULL OR new.takeover IS NULL OR new.attempts IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'status is pending, completed or failed') WHERE new.status NOT IN ('pending', 'completed', 'failed');
    SELECT RAISE(ABORT, 'there is no such task')
    WHERE new.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
    -- For plain SQL an expired key that nobody works on through the library is born again. (The library revives its own, by its
    -- own clocks.)
    DELETE FROM idempotency_keys
    WHERE new.revision = 0 AND idempotency_key = new.idempotency_key AND expires_at <= strftime('%Y-%m-%d %H:%M:%f', 'now')
      AND NOT (status = 'pending' AND lock_via IS 'api' AND lock_expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now'));
    SELECT RAISE(ABORT, 'this idempotency key exists already')
    WHERE EXISTS (SELECT 1 FROM idempotency_keys WHERE idempotency_key = new.idempotency_key);
END;
CREATE TRIGGER check_idempotency_keys_update BEFORE UPDATE ON idempotency_keys
BEGIN
    SELECT RAISE(ABORT, 'status, lock_token, takeover, attempts and revision are not NULL')
    WHERE new.status IS NULL OR new.lock_token IS NULL OR new.takeover IS NULL OR new.attempts IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'status is pending, completed or failed') WHERE new.status NOT IN ('pending', 'completed', 'failed');
    SELECT RAISE(ABORT, 'a key keeps its name and its request')
    WHERE new.idempotency_key <> old.idempotency_key
       OR (new.request_hash <> old.request_hash AND new.revision = old.revision);
    SELECT RAISE(ABORT, 'lock tokens only rise, and not by plain SQL')
    WHERE new.lock_token < old.lock_token
       OR (new.revision = old.revision AND (new.lock_token <> old.lock_token OR new.lock_via IS NOT old.lock_via));
    SELECT RAISE(ABORT, 'revision only rises') WHERE new.revision < old.revision;
    SELECT RAISE(ABORT, 'the answer is stored: it does not change any more')
    WHERE old.status = 'completed' AND old.lock_via IS NOT 'sql' AND new.revision = old.revision
      AND (new.status <> old.status OR new.response_data IS NOT old.response_data);
    SELECT RAISE(ABORT, 'the key is locked through the library: without its token it cannot be completed')
    WHERE old.status = 'pending' AND old.lock_via = 'api' AND new.revision = old.revision
      AND (new.status <> old.status OR new.response_data IS NOT old.response_data
           OR new.lock_expires_at IS NOT old.lock_expires_at);
    SELECT RAISE(ABORT, 'there is no such task')
    WHERE new.task_id IS NOT NULL AND new.task_id IS NOT old.task_id
      AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND new.work_item_id IS NOT old.work_item_id
      AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
END;
-- A key made by plain SQL is locked for five minutes: after that the library may take it over.
CREATE TRIGGER idempotency_keys_made_plainly AFTER INSERT ON idempotency_keys
WHEN new.revision = 0 AND new.status = 'pending'
BEGIN
    UPDATE idempotency_keys
    SET lock_via = 'sql', lock_token = (SELECT idempotency FROM token_floors), attempts = 1, revision = revision + 1,
        lock_expires_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '+5 minutes')
    WHERE idempotency_key = new.idempotency_key;
END;
-- Never cleaned while somebody works on it.
CREATE TRIGGER idempotency_keys_stay BEFORE DELETE ON idempotency_keys
WHEN old.status = 'pending' AND old.lock_via = 'api' AND old.lock_expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now')
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER idempotency_keys_token AFTER DELETE ON idempotency_keys
WHEN old.lock_token > coalesce((SELECT token FROM leases WHERE name = 'idempotency keys removed'), 0)
BEGIN
    UPDATE leases SET token = old.lock_token WHERE name = 'idempotency keys removed';
    INSERT INTO leases (name, token) SELECT 'idempotency keys removed', old.lock_token
    WHERE NOT EXISTS (SELECT 1 FROM leases WHERE name = 'idempotency keys removed');
END;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres
-- The same tables, columns and rules. What differs, and why:
--   - Guards on tables that are written all the time fire AFTER the change: a table with any trigger BEFORE UPDATE locks
--     each row first, which costs a WAL record of its own. They name the columns they are about, and their WHEN is short:
--     PostgreSQL reads the text of every WHEN anew for each statement, about 5 us per 1,000 characters (all rules
--     behind WHEN: a renewal took 148 us of CPU, 68 us without triggers). So a renewal by the library (status
--     unchanged, revision raised) fires nothing at all, and one function serves a change of status.
--   - No index on lease_expires_at, and none on updated_at: a heartbeat then costs 99 bytes of WAL and stays on its
--     page (HOT); with one it costs 247 bytes and touches every index. The sweep walks the items in progress
--     (idx_work_items_lease_holder); clean-up goes by completed_at, which no heartbeat changes.
--   - No idx_work_items_status_priority: the partial claim indexes replace it. Every change of status would be written there
--     once more, and its dead entries stay in the claimers' way.
--   - work_types.low_key: no ready item of the type has a lower claim_key. A claim starts there instead of wading through
--     entries of rows that are gone (100,000 of them under a pinned horizon: 16.4 ms a claim, 0.37 ms with the bound).
--   - checkpoints by time: BRIN, because they arrive in that order.
--   - Functions look tables up where the store was made, whatever the client's search_path.
CREATE TABLE tasks (
    task_id       text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(task_id) BETWEEN 1 AND 128),
    title         text NOT NULL DEFAULT '',
    status        text COLLATE "C" NOT NULL DEFAULT 'pending',
    metadata      text,
    created_at    timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(created_at)),
    updated_at    timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(updated_at)),
    completed_at  timestamptz CHECK (isfinite(completed_at)),
    forked_from   text COLLATE "C",
    forked_at     bigint,
    revision      bigint NOT NULL DEFAULT 0
);
CREATE INDEX idx_tasks_status ON tasks (status, created_at DESC);
CREATE INDEX idx_tasks_forked_from ON tasks (forked_from) WHERE forked_from IS NOT NULL;

-- Written with every checkpoint: half of each page stays free for the next version of its rows.
CREATE TABLE task_heads (
    task_id        text COLLATE "C" NOT NULL PRIMARY KEY,
    last_sequence  bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    chain          bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE TABLE work_types (
    work_type     text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(work_type) BETWEEN 1 AND 128),
    is_paused     boolean NOT NULL DEFAULT false,
    pause_reason  text,
    paused_at     timestamptz,
    low_key       bigint NOT NULL DEFAULT -9223372036854775808
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE work_items (
    work_item_id       text COLLATE "C" NOT NULL PRIMARY KEY,
    task_id            text COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    work_type          text COLLATE "C" NOT NULL,
    status             text COLLATE "C" NOT NULL DEFAULT 'pending',
    priority           bigint NOT NULL DEFAULT 0,
    lease_holder       text COLLATE "C",
    lease_acquired_at  timestamptz,
    lease_expires_at   timestamptz,
    heartbeat_at       timestamptz,
    retry_count        bigint NOT NULL DEFAULT 0,
    max_retries        bigint NOT NULL DEFAULT 3,
    input_data         text,
    output_data        text,
    error_message      text,
    created_at         timestamptz DEFAULT CURRENT_TIMESTAMP,
    started_at         timestamptz,
    completed_at       timestamptz,
    updated_at         timestamptz DEFAULT CURRENT_TIMESTAMP,
    lease_token        bigint NOT NULL DEFAULT 0,
    lease_via          text COLLATE "C",
    revision           bigint NOT NULL DEFAULT 0,
    run_after          timestamptz,
    unique_key         text COLLATE "C",
    timeout_us         bigint,
    deadline_at        timestamptz,
    failure_count      bigint NOT NULL DEFAULT 0,
    crash_count        bigint NOT NULL DEFAULT 0,
    failure_kind       text COLLATE "C",
    attempt_outcome    text COLLATE "C",
    progress           text,
    retried_from       text COLLATE "C",
    schedule_name      text COLLATE "C",
    waits_for          bigint NOT NULL DEFAULT 0,
    has_dependents     boolean NOT NULL DEFAULT false,
    claim_key          bigint NOT NULL,  -- created (microseconds) - priority * 600,000,000; filled by trigger
    -- What every claim and renewal writes. The other columns' values are checked by tide_work_values, where they are
    -- written: the text of a CHECK, too, is read anew for each statement, and twenty of them took 60 us.
    CONSTRAINT work_items_lease CHECK (lease_token BETWEEN 0 AND 4611686018427387904
                                       AND isfinite(lease_expires_at) AND isfinite(deadline_at))
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX idx_work_items_task ON work_items (task_id, status, created_at DESC);
CREATE INDEX idx_work_items_lease_holder ON work_items (lease_holder) WHERE status = 'in_progress';
CREATE INDEX idx_work_items_claim ON work_items (work_type, claim_key)
    WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0;
CREATE INDEX idx_work_items_claim_task ON work_items (task_id, claim_key)
    WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0;
-- What a sweep looks for, and few items are: delayed, left in 'expired', failed while others wait. One index, because each
-- that a table has costs every statement about 3 us, whether its rows are in it or not.
CREATE INDEX idx_work_items_due ON work_items (status, run_after)
    WHERE (status = 'pending' AND run_after IS NOT NULL) OR status = 'expired' OR (status = 'failed' AND has_dependents);
CREATE UNIQUE INDEX idx_work_items_unique ON work_items (work_type, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'in_progress', 'expired');
CREATE INDEX idx_work_items_ended ON work_items (completed_at) WHERE status IN ('completed', 'failed');

CREATE TABLE work_attempts (
    work_item_id   text COLLATE "C" NOT NULL,
    lease_token    bigint NOT NULL,
    attempt        bigint NOT NULL,
    worker         text COLLATE "C",
    via            text COLLATE "C" NOT NULL CHECK (via IN ('api', 'sql')),
    started_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    outcome        text COLLATE "C",
    error_message  text,
    PRIMARY KEY (work_item_id, lease_token)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE TABLE work_dependencies (
    work_item_id  text COLLATE "C" NOT NULL,
    depends_on    text COLLATE "C" NOT NULL,
    PRIMARY KEY (work_item_id, depends_on)
);
CREATE INDEX idx_work_dependencies_on ON work_dependencies (depends_on);

CREATE TABLE work_schedules (
    name          text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
    task_id       text COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    work_type     text COLLATE "C" NOT NULL CHECK (octet_length(work_type) BETWEEN 1 AND 128),
    cron          text,
    every_us      bigint CHECK (every_us > 0),
    input_data    text CHECK (octet_length(input_data) <= 16777216),
    priority      bigint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1000000 AND 1000000),
    max_retries   bigint NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 1000000),
    timeout_us    bigint CHECK (timeout_us BETWEEN 1 AND 3153600000000000),
    is_paused     boolean NOT NULL DEFAULT false,
    next_run_at   timestamptz NOT NULL,
    last_run_at   timestamptz,
    run_count     bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    CHECK ((cron IS NULL) <> (every_us IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX idx_work_schedules_next ON work_schedules (next_run_at) WHERE NOT is_paused;

-- One row, one page: room for some hundred versions keeps its updates in place.
CREATE TABLE journal_head (
    id       bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    last     bigint NOT NULL CHECK (last >= 0),
    last_at  timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO journal_head (id, last, last_at) VALUES (1, 0, '1970-01-01 00:00:00+00');

CREATE TABLE checkpoint_types (
    checkpoint_type  text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(checkpoint_type) BETWEEN 1 AND 64),
    is_resumable     boolean NOT NULL DEFAULT false,
    description      text NOT NULL DEFAULT ''
);
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description) VALUES
    ('iteration_start', true, 'an iteration begins'),
    ('iteration_end', true, 'an iteration is complete'),
    ('tool_executed', true, 'a tool ran; its result'),
    ('llm_response', true, 'a model answered; its answer'),
    ('approval_point', true, 'waiting for a person'),
    ('state_transition', true, 'the task changed its state'),
    ('manual_checkpoint', true, 'made by a person'),
    ('error_boundary', true, 'an error happened here');

-- No reference to tasks: every row is written under the lock of its task's row in task_heads, and so is their removal.
CREATE TABLE checkpoints (
    global_sequence  bigint NOT NULL PRIMARY KEY,
    checkpoint_id    text COLLATE "C" NOT NULL UNIQUE,
    task_id          text COLLATE "C" NOT NULL,
    work_item_id     text COLLATE "C",
    checkpoint_type  text COLLATE "C" NOT NULL,
    sequence_number  bigint NOT NULL,
    snapshot_data    text NOT NULL,
    metadata         text,
    created_at       timestamptz DEFAULT CURRENT_TIMESTAMP,
    message          text,
    trigger_kind     text COLLATE "C" NOT NULL DEFAULT 'manual',
    snapshot_len     bigint,
    chunk_count      bigint NOT NULL DEFAULT 0,
    checksum         bytea,
    chain            bytea,
    origin_session   text COLLATE "C",
    origin_global    bigint,
    origin_number    bigint,
    -- Further rules about values are in tide_checkpoint_check: the text of a CHECK is read anew for each statement.
    CONSTRAINT checkpoints_numbers CHECK (global_sequence > 0 AND sequence_number > 0 AND isfinite(created_at))
);
CREATE UNIQUE INDEX idx_checkpoints_task_sequence ON checkpoints (task_id, sequence_number);
CREATE INDEX idx_checkpoints_work_item ON checkpoints (work_item_id, sequence_number) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_checkpoints_type ON checkpoints (checkpoint_type, created_at DESC);
CREATE INDEX idx_checkpoints_created_at ON checkpoints USING brin (created_at) WITH (pages_per_range = 32);

CREATE TABLE checkpoint_gaps (
    first_global  bigint NOT NULL PRIMARY KEY,
    last_global   bigint NOT NULL CHECK (last_global >= first_global),
    reason        text COLLATE "C" NOT NULL CHECK (reason IN ('removed', 'imported', 'skipped')),
    recorded_at   timestamptz NOT NULL
);
CREATE TABLE checkpoint_cuts (
    task_id       text COLLATE "C" NOT NULL,
    first_number  bigint NOT NULL,
    last_number   bigint NOT NULL CHECK (last_number >= first_number),
    chain         bytea,
    reason        text NOT NULL,
    cut_at        timestamptz NOT NULL,
    PRIMARY KEY (task_id, first_number)
);

CREATE TABLE idempotency_keys (
    idempotency_key  text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    task_id          text COLLATE "C",
    work_item_id     text COLLATE "C",
    request_hash     text COLLATE "C" NOT NULL,
    response_data    text,
    status           text COLLATE "C" NOT NULL DEFAULT 'pending',
    created_at       timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(created_at)),
    completed_at     timestamptz CHECK (isfinite(completed_at)),
    expires_at       timestamptz CHECK (isfinite(expires_at)),
    lock_holder      text COLLATE "C",
    lock_token       bigint NOT NULL DEFAULT 0 CHECK (lock_token BETWEEN 0 AND 4611686018427387904),
    lock_expires_at  timestamptz CHECK (isfinite(lock_expires_at)),
    lock_via         text COLLATE "C" CHECK (lock_via IN ('api', 'sql')),
    takeover         text COLLATE "C" NOT NULL DEFAULT 'rerun' CHECK (takeover IN ('resume', 'rerun', 'fail')),
    attempts         bigint NOT NULL DEFAULT 0,
    revision         bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX idx_idempotency_keys_task ON idempotency_keys (task_id, created_at DESC) WHERE task_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_work_item ON idempotency_keys (work_item_id, created_at DESC)
    WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idx_idempotency_keys_status ON idempotency_keys (status, created_at DESC);

-- The hash chain's step.
CREATE FUNCTION tide_link(previous bytea, number bigint, checksum bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT sha256(previous || int8send(number) || checksum) $$;

-- The lowest token that a claim may give now: of this epoch, and above every removed row's.
CREATE FUNCTION tide_token_floor(removed text) RETURNS bigint LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN greatest((SELECT (value::bigint << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
                    (SELECT token + 1 FROM leases WHERE name = removed));
END $$;
CREATE FUNCTION tide_token_keep(removed text, highest bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF highest > coalesce((SELECT token FROM leases WHERE name = removed), 0) THEN
        INSERT INTO leases (name, token) VALUES (removed, highest)
        ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE leases.token < excluded.token;
    END IF;
END $$;

-- ---- tasks ----

CREATE FUNCTION tide_task_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refusal text := NULL;
BEGIN
    IF NEW.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled') THEN
        refusal := 'task status is pending, running, succeeded, failed or cancelled';
    ELSIF TG_OP = 'UPDATE' THEN
        IF NEW.task_id <> OLD.task_id THEN
            refusal := 'a task keeps its id';
        ELSIF NEW.status <> OLD.status AND OLD.status IN ('succeeded', 'failed', 'cancelled') THEN
            refusal := 'the task has ended: its status does not change any more';
        ELSIF NEW.status = 'pending' AND OLD.status = 'running' THEN
            refusal := 'a task that was running does not become pending again';
        ELSIF NEW.revision < OLD.revision THEN
            refusal := 'revision only rises';
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.revision = OLD.revision THEN  -- plain SQL
        NEW.revision := OLD.revision + 1;
        IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
            NEW.updated_at := clock_timestamp();
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_tasks_insert BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_check();
CREATE TRIGGER check_tasks_status BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_check();
CREATE TRIGGER tasks_full BEFORE TRUNCATE ON tasks
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('tasks are deleted one by one, with everything that is theirs');

CREATE FUNCTION tide_task_begin() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO task_heads (task_id) VALUES (NEW.task_id);
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_begin AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_begin();

-- Items of a cancelled task end with it; those in progress are fenced off by the token.
CREATE FUNCTION tide_task_cancel() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', revision = revision + 1,
        error_message = CASE NEW.status WHEN 'cancelled' THEN 'The task was cancelled' ELSE 'The task has ended' END,
        attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
        completed_at = NEW.updated_at, updated_at = NEW.updated_at,
        lease_holder = NULL, lease_expires_at = NULL, run_after = NULL,
        lease_token = greatest(lease_token + 1, tide_token_floor('work items removed'))
    WHERE task_id = NEW.task_id
      AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND NEW.status = 'cancelled'));
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_cancel AFTER UPDATE OF status ON tasks FOR EACH ROW
    WHEN (new.status <> old.status AND new.status IN ('succeeded', 'failed', 'cancelled')) EXECUTE FUNCTION tide_task_cancel();

-- A task goes with everything that is its own. Not ON DELETE CASCADE: removing checkpoints needs a permit, and keys stay. Items
-- before the head: a finish locks in that order too.
CREATE FUNCTION tide_task_end() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tasks WHERE forked_from = OLD.task_id) THEN
        RAISE EXCEPTION 'another task is a fork of this one: delete the fork first'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    DELETE FROM work_items WHERE task_id = OLD.task_id;
    DELETE FROM work_schedules WHERE task_id = OLD.task_id;
    PERFORM 1 FROM task_heads WHERE task_id = OLD.task_id FOR UPDATE;
    PERFORM set_config('tidemark.permit', 'task ' || OLD.task_id, true);
    DELETE FROM checkpoints WHERE task_id = OLD.task_id;
    DELETE FROM checkpoint_cuts WHERE task_id = OLD.task_id;
    PERFORM set_config('tidemark.permit', '', true);
    UPDATE idempotency_keys SET task_id = NULL, revision = revision + 1 WHERE task_id = OLD.task_id;
    RETURN OLD;
END $$;
CREATE TRIGGER tasks_end BEFORE DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_end();
CREATE FUNCTION tide_task_ended() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM task_heads WHERE task_id = OLD.task_id;
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_ended AFTER DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_ended();

CREATE TRIGGER task_heads_rise AFTER UPDATE ON task_heads FOR EACH ROW WHEN (new.last_sequence < old.last_sequence)
    EXECUTE FUNCTION tide_refuse('a task''s sequence never goes down');
CREATE TRIGGER task_heads_keep AFTER UPDATE OF task_id ON task_heads FOR EACH ROW WHEN (new.task_id <> old.task_id)
    EXECUTE FUNCTION tide_refuse('a task''s sequence lives as long as the task');
CREATE FUNCTION tide_task_head_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tasks WHERE task_id = OLD.task_id) THEN
        RAISE EXCEPTION 'a task''s sequence lives as long as the task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_heads_stay AFTER DELETE ON task_heads FOR EACH ROW EXECUTE FUNCTION tide_task_head_stay();
CREATE TRIGGER task_heads_full BEFORE TRUNCATE ON task_heads
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a task''s sequence lives as long as the task');

-- ---- work items ----

-- No ready item of a type may lie below its low_key. Whoever makes one ready holds the type's row FOR KEY SHARE, so
-- that nobody raises the bound before this transaction has ended; lowering does not disturb others who hold it. A second
-- of room keeps items made at the same time from lowering it one after the other.
CREATE FUNCTION tide_work_bound(wanted text, key bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    bound bigint;
BEGIN
    SELECT low_key INTO bound FROM work_types WHERE work_type = wanted FOR KEY SHARE;
    IF NOT FOUND THEN
        INSERT INTO work_types (work_type) VALUES (wanted) ON CONFLICT DO NOTHING;
        SELECT low_key INTO bound FROM work_types WHERE work_type = wanted FOR KEY SHARE;
    END IF;
    IF bound > key THEN
        UPDATE work_types SET low_key = key - 1000000 WHERE work_type = wanted AND low_key > key;
    END IF;
END $$;

CREATE FUNCTION tide_work_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    task_status text;
BEGIN
    IF NEW.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired') THEN
        RAISE EXCEPTION 'status is pending, in_progress, completed, failed or expired'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.revision <> 1 THEN  -- made by plain SQL; the library has locked and looked at the task already
        IF NEW.waits_for <> 0 OR NEW.has_dependents THEN
            RAISE EXCEPTION 'dependencies are added through the library' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.lease_token <> 0 OR NEW.revision <> 0 THEN
            RAISE EXCEPTION 'lease_token and revision are given by the store: leave them out'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.status IN ('pending', 'in_progress', 'expired') THEN
            SELECT status INTO task_status FROM tasks WHERE task_id = NEW.task_id FOR SHARE;
            IF task_status NOT IN ('pending', 'running') THEN
                RAISE EXCEPTION 'the task has ended: it takes no more work items'
                    USING ERRCODE = 'integrity_constraint_violation';
            END IF;
        END IF;
    END IF;
    NEW.created_at := coalesce(NEW.created_at, clock_timestamp());
    NEW.claim_key := (extract(epoch FROM NEW.created_at) * 1000000)::bigint - NEW.priority * 600000000;
    IF NEW.status = 'in_progress' THEN  -- a claim by plain SQL
        NEW.lease_token := greatest(NEW.lease_token + 1, tide_token_floor('work items removed'));
        NEW.lease_via := 'sql';
        NEW.revision := NEW.revision + 1;
        NEW.lease_acquired_at := coalesce(NEW.lease_acquired_at, clock_timestamp());
        NEW.lease_expires_at := coalesce(NEW.lease_expires_at, clock_timestamp() + interval '5 minutes');
    ELSIF NEW.status IN ('completed', 'failed') THEN
        NEW.completed_at := coalesce(NEW.completed_at, NEW.updated_at, clock_timestamp());
    ELSIF NEW.revision = 0 THEN  -- made by plain SQL
        NEW.lease_token := greatest(NEW.lease_token, (SELECT token FROM leases WHERE name = 'work items removed'));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_work_items_insert BEFORE INSERT ON work_items FOR EACH ROW
    WHEN (new.revision <> 1 OR new.status <> 'pending' OR new.claim_key IS NULL) EXECUTE FUNCTION tide_work_insert();

-- For a whole statement at once: no item lies below its type's bound. (That its task is there, and stays, is for the foreign
-- key to say, which looks past the snapshot of whoever deletes a task.)
CREATE FUNCTION tide_work_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    added_type record;
BEGIN
    FOR added_type IN SELECT work_type, min(claim_key) AS low_key FROM added GROUP BY work_type ORDER BY work_type LOOP
        PERFORM tide_work_bound(added_type.work_type, added_type.low_key);
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_added AFTER INSERT ON work_items REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tide_work_added();
CREATE TRIGGER work_items_full BEFORE TRUNCATE ON work_items
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('work items are deleted one by one, with their attempts');

-- Bounds, and words out of a list. A claim, a renewal and a completion by the library write none of these columns (but its
-- times, which come from the clock).
CREATE FUNCTION tide_work_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (octet_length(NEW.work_item_id) BETWEEN 1 AND 128 AND octet_length(NEW.work_type) BETWEEN 1 AND 128) THEN
        RAISE EXCEPTION 'work_item_id and work_type have 1 to 128 bytes' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT (NEW.priority BETWEEN -1000000 AND 1000000 AND NEW.retry_count BETWEEN 0 AND 1000000
            AND NEW.max_retries BETWEEN 0 AND 1000000 AND NEW.waits_for >= 0 AND NEW.failure_count BETWEEN 0 AND 1000000000
            AND NEW.crash_count BETWEEN 0 AND 1000000000)
       OR NEW.timeout_us NOT BETWEEN 1 AND 3153600000000000 THEN
        RAISE EXCEPTION 'priority, a count or timeout_us is out of bounds' USING ERRCODE = 'check_violation';
    END IF;
    IF octet_length(NEW.input_data) > 16777216 THEN
        RAISE EXCEPTION 'input_data has at most 16 MiB' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.failure_kind NOT IN ('error', 'exhausted', 'quarantined', 'cancelled', 'dependency')
       OR NEW.attempt_outcome NOT IN ('completed', 'failed', 'expired', 'timed_out', 'released', 'cancelled', 'replaced')
       OR NEW.lease_via NOT IN ('api', 'sql') THEN
        RAISE EXCEPTION 'no such failure_kind, attempt_outcome or lease_via' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT isfinite(NEW.created_at) OR NOT isfinite(NEW.run_after) OR NOT isfinite(NEW.started_at)
       OR NOT isfinite(NEW.completed_at) OR NOT isfinite(NEW.updated_at) OR NOT isfinite(NEW.lease_acquired_at)
       OR NOT isfinite(NEW.heartbeat_at) THEN
        RAISE EXCEPTION 'times are finite' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_work_items_new AFTER INSERT ON work_items FOR EACH ROW
    EXECUTE FUNCTION tide_work_values();
CREATE TRIGGER check_work_items_values AFTER UPDATE OF work_item_id, work_type, priority, retry_count, max_retries,
    waits_for, timeout_us, failure_kind, failure_count, crash_count, created_at, run_after, input_data ON work_items
    FOR EACH ROW EXECUTE FUNCTION tide_work_values();
CREATE TRIGGER check_work_items_plain AFTER UPDATE OF attempt_outcome, lease_via, started_at, completed_at, updated_at,
    lease_acquired_at, heartbeat_at ON work_items
    FOR EACH ROW WHEN (new.revision = old.revision) EXECUTE FUNCTION tide_work_values();

-- A change of status, and of what makes an item ready: allowed or not, from whomever it comes; attempts; who waited for it.
-- (The attempts of plain SQL are written by tide_work_plain. The library's claims and completions write theirs themselves, set by set, and
-- are left alone here: a row trigger would cost more than the claim.)
CREATE FUNCTION tide_work_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.status <> OLD.status AND TG_NAME = 'check_work_items_status' THEN
        IF NOT ((OLD.status = 'pending' AND NEW.status IN ('in_progress', 'failed'))
                OR (OLD.status = 'in_progress' AND NEW.status IN ('completed', 'failed', 'expired', 'pending'))
                OR (OLD.status = 'expired' AND NEW.status IN ('pending', 'failed'))) THEN
            RAISE EXCEPTION '%', CASE
                WHEN NEW.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired')
                    THEN 'status is pending, in_progress, completed, failed or expired'
                WHEN OLD.status = 'pending' THEN 'a pending work item becomes in_progress or failed'
                WHEN OLD.status = 'expired' THEN 'an expired work item becomes pending or failed'
                ELSE 'the work item has ended: status, output and lease do not change any more' END
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.revision > OLD.revision THEN
            IF OLD.status = 'in_progress' THEN
                UPDATE work_attempts
                SET ended_at = NEW.updated_at, outcome = NEW.attempt_outcome, error_message = NEW.error_message
                WHERE work_item_id = NEW.work_item_id AND lease_token = OLD.lease_token AND ended_at IS NULL;
            END IF;
        END IF;
        IF NEW.status = 'completed' AND NEW.has_dependents THEN
            PERFORM tide_work_release(NEW.work_item_id,
                                      CASE WHEN NEW.revision > OLD.revision THEN NEW.updated_at ELSE clock_timestamp() END);
        END IF;
    END IF;
    -- What comes back to a task that has ended would wait for ever. (What plain SQL puts back is fenced first: tide_work_plain.)
    IF NEW.status = 'pending' AND (OLD.status = 'expired' OR (OLD.status = 'in_progress' AND NEW.revision > OLD.revision))
       AND (SELECT status FROM tasks WHERE task_id = NEW.task_id) NOT IN ('pending', 'running') THEN
        UPDATE work_items
        SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
            revision = revision + 1, completed_at = NEW.updated_at
        WHERE work_item_id = NEW.work_item_id AND status = 'pending';
        RETURN NULL;
    END IF;
    IF NEW.revision > OLD.revision AND NEW.claim_key = OLD.claim_key
       AND (NEW.priority <> OLD.priority OR NEW.created_at <> OLD.created_at) THEN
        UPDATE work_items
        SET claim_key = (extract(epoch FROM NEW.created_at) * 1000000)::bigint - NEW.priority * 600000000,
            revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    IF NEW.work_type <> OLD.work_type
       OR (NEW.status = 'pending' AND NEW.run_after IS NULL AND NEW.waits_for = 0
           AND (OLD.status <> 'pending' OR OLD.run_after IS NOT NULL OR OLD.waits_for > 0
                OR NEW.claim_key <> OLD.claim_key)) THEN
        PERFORM tide_work_bound(NEW.work_type, NEW.claim_key);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_work_items_status AFTER UPDATE OF status ON work_items FOR EACH ROW
    WHEN (new.status <> old.status
          AND NOT (new.revision > old.revision AND NOT new.has_dependents
                   AND old.status || new.status IN ('pendingin_progress', 'in_progresscompleted')))
    EXECUTE FUNCTION tide_work_move();
CREATE TRIGGER check_work_items_ready AFTER UPDATE OF run_after, waits_for, work_type, priority, created_at, claim_key
    ON work_items FOR EACH ROW
    WHEN (new.status = old.status OR new.work_type <> old.work_type OR new.priority <> old.priority
          OR new.created_at <> old.created_at OR new.claim_key <> old.claim_key)
    EXECUTE FUNCTION tide_work_move();

-- Who waited for this item waits for one less, also if plain SQL has claimed it before its turn. (A failed one is followed
-- up by the sweep.) In the order of ids, so that two items that end at once do not lock each other out.
CREATE FUNCTION tide_work_release(completed text, at timestamptz) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    WITH waiting AS MATERIALIZED (
        SELECT w.work_item_id FROM work_items w JOIN work_dependencies d ON d.work_item_id = w.work_item_id
        WHERE d.depends_on = completed AND w.status IN ('pending', 'in_progress', 'expired') AND w.waits_for > 0
        ORDER BY w.work_item_id FOR NO KEY UPDATE OF w)
    UPDATE work_items w SET waits_for = w.waits_for - 1, revision = w.revision + 1, updated_at = at
    FROM waiting WHERE w.work_item_id = waiting.work_item_id;
END $$;

-- A change by plain SQL: what it may not do, and what the library would have written with it. The row is written a second
-- time, which a statement of the library never needs. The library comes here only to be refused.
CREATE FUNCTION tide_work_plain() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at timestamptz := clock_timestamp();
    is_over boolean := coalesce(OLD.lease_expires_at < at, true);
    is_spent boolean := NEW.retry_count > OLD.retry_count;  -- how a watchdog says that the lease ran out
    uncounted boolean := NEW.status = 'pending' AND is_over AND NOT is_spent;
    ended text;
BEGIN
    IF OLD.status IN ('completed', 'failed')
       AND (NEW.output_data IS DISTINCT FROM OLD.output_data OR NEW.lease_holder IS DISTINCT FROM OLD.lease_holder
            OR NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at
            OR NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at
            OR NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at OR NEW.lease_via IS DISTINCT FROM OLD.lease_via
            OR NEW.lease_token <> OLD.lease_token) THEN
        RAISE EXCEPTION 'the work item has ended: status, output and lease do not change any more'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.lease_token < OLD.lease_token THEN
        RAISE EXCEPTION 'lease tokens only rise' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.revision < OLD.revision THEN
        RAISE EXCEPTION 'revision only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.revision > OLD.revision THEN
        RETURN NULL;
    END IF;
    IF NEW.lease_token <> OLD.lease_token OR NEW.lease_via IS DISTINCT FROM OLD.lease_via THEN
        RAISE EXCEPTION 'lease tokens only rise, and not by plain SQL' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND OLD.lease_via = 'api'
       AND (NEW.status <> OLD.status OR NEW.output_data IS DISTINCT FROM OLD.output_data
            OR NEW.lease_holder IS DISTINCT FROM OLD.lease_holder
            OR NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at
            OR NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at
            OR NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at
            OR NEW.deadline_at IS DISTINCT FROM OLD.deadline_at)
       AND NOT (NEW.status IN ('pending', 'failed', 'expired') AND is_over) THEN
        RAISE EXCEPTION 'the lease is held through the library: without its token it cannot be ended or changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND NEW.status = 'in_progress'
       AND NEW.lease_holder IS DISTINCT FROM OLD.lease_holder THEN
        RAISE EXCEPTION 'another worker holds the lease; once it has run out, set the item back to pending first'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.retry_count < OLD.retry_count THEN
        RAISE EXCEPTION 'retry_count only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.waits_for <> OLD.waits_for OR NEW.has_dependents <> OLD.has_dependents THEN
        RAISE EXCEPTION 'dependencies are kept by the library' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND NEW.status = 'in_progress' AND NEW.lease_expires_at IS NULL THEN
        RAISE EXCEPTION 'a lease has an end' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status IN ('pending', 'expired') AND NEW.status = OLD.status
       AND ((NEW.lease_holder IS NOT NULL AND NEW.lease_holder IS DISTINCT FROM OLD.lease_holder)
            OR (NEW.lease_acquired_at IS NOT NULL AND NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at)
            OR (NEW.lease_expires_at IS NOT NULL AND NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at)
            OR (NEW.heartbeat_at IS NOT NULL AND NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at)) THEN
        RAISE EXCEPTION 'the work item is not in progress: nobody holds its lease'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;

    IF NEW.status = 'in_progress' AND OLD.status = 'pending' THEN  -- a claim
        UPDATE work_items
        SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = 'sql', revision = revision + 1,
            run_after = NULL, deadline_at = NULL, updated_at = at, lease_acquired_at = coalesce(lease_acquired_at, at),
            lease_expires_at = coalesce(lease_expires_at, at + interval '5 minutes')
        WHERE work_item_id = NEW.work_item_id;
        INSERT INTO work_attempts (work_item_id, lease_token, attempt, worker, via, started_at)
        SELECT work_item_id, lease_token, retry_count + 1, lease_holder, 'sql', lease_acquired_at
        FROM work_items WHERE work_item_id = NEW.work_item_id;
    ELSIF OLD.status = 'in_progress' AND NEW.status <> 'in_progress' THEN  -- an end
        ended := CASE WHEN NEW.status = 'completed' THEN 'completed'
                      WHEN NEW.status = 'expired' OR is_spent OR (NEW.status = 'pending' AND is_over) THEN 'expired'
                      WHEN NEW.status = 'failed' THEN 'failed' ELSE 'released' END;
        UPDATE work_attempts
        SET ended_at = at, outcome = ended,
            error_message = CASE NEW.status WHEN 'completed' THEN NULL ELSE NEW.error_message END
        WHERE work_item_id = NEW.work_item_id AND lease_token = OLD.lease_token AND ended_at IS NULL;
        IF NEW.status IN ('completed', 'failed') THEN  -- it keeps its lease columns as they are
            UPDATE work_items
            SET attempt_outcome = ended, completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1,
                failure_kind = CASE ended WHEN 'expired' THEN 'exhausted' WHEN 'failed' THEN 'error' END,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                failure_count = failure_count + CASE ended WHEN 'failed' THEN 1 ELSE 0 END
            WHERE work_item_id = NEW.work_item_id;
        ELSE  -- it goes on, fenced anew
            UPDATE work_items
            SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = NULL, lease_holder = NULL,
                lease_expires_at = NULL, deadline_at = NULL, revision = revision + 1, updated_at = at, attempt_outcome = ended,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                -- A lease that has run out spends an attempt also if nobody counted it.
                retry_count = retry_count + CASE WHEN uncounted AND retry_count < max_retries THEN 1 ELSE 0 END,
                status = CASE WHEN uncounted AND retry_count >= max_retries THEN 'failed' ELSE status END,
                failure_kind = CASE WHEN uncounted AND retry_count >= max_retries THEN 'exhausted' END,
                completed_at = CASE WHEN uncounted AND retry_count >= max_retries THEN at END
            WHERE work_item_id = NEW.work_item_id;
            UPDATE work_items
            SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
                revision = revision + 1, completed_at = at
            WHERE work_item_id = NEW.work_item_id AND status = 'pending'
              AND (SELECT status FROM tasks WHERE task_id = NEW.task_id) NOT IN ('pending', 'running');
        END IF;
    ELSIF NEW.status = 'failed' AND OLD.status IN ('pending', 'expired') THEN
        UPDATE work_items
        SET failure_kind = CASE OLD.status WHEN 'expired' THEN 'exhausted' ELSE 'error' END,
            completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    ELSE
        UPDATE work_items
        SET updated_at = CASE WHEN NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN at ELSE NEW.updated_at END,
            revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    IF NEW.priority <> OLD.priority OR NEW.created_at IS DISTINCT FROM OLD.created_at THEN
        UPDATE work_items
        SET created_at = coalesce(NEW.created_at, OLD.created_at), revision = revision + 1,
            claim_key = (extract(epoch FROM coalesce(NEW.created_at, OLD.created_at)) * 1000000)::bigint
                        - NEW.priority * 600000000
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER update_work_items_timestamp AFTER UPDATE ON work_items FOR EACH ROW
    WHEN (new.revision <= old.revision OR old.status IN ('completed', 'failed') OR new.lease_token < old.lease_token)
    EXECUTE FUNCTION tide_work_plain();
CREATE TRIGGER work_items_keep AFTER UPDATE OF work_item_id, task_id ON work_items FOR EACH ROW
    WHEN (new.work_item_id <> old.work_item_id OR new.task_id <> old.task_id)
    EXECUTE FUNCTION tide_refuse('a work item keeps its id and its task');

-- An item that plain SQL makes in progress.
CREATE FUNCTION tide_work_made() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO work_attempts (work_item_id, lease_token, attempt, worker, via, started_at)
    VALUES (NEW.work_item_id, NEW.lease_token, NEW.retry_count + 1, NEW.lease_holder, 'sql', NEW.lease_acquired_at);
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_inserted_claimed AFTER INSERT ON work_items FOR EACH ROW WHEN (new.status = 'in_progress')
    EXECUTE FUNCTION tide_work_made();

-- Its attempts go with it; its token stays behind. Who waited for it in vain does not wait for ever.
CREATE FUNCTION tide_work_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM work_attempts WHERE work_item_id = OLD.work_item_id;
    UPDATE work_items
    SET status = CASE status WHEN 'in_progress' THEN status ELSE 'failed' END, waits_for = waits_for - 1,
        failure_kind = CASE status WHEN 'in_progress' THEN failure_kind ELSE 'dependency' END,
        error_message = CASE status WHEN 'in_progress' THEN error_message
                                    ELSE 'It depends on ' || OLD.work_item_id || ', which was deleted' END,
        completed_at = CASE status WHEN 'in_progress' THEN completed_at ELSE clock_timestamp() END,
        updated_at = clock_timestamp(), revision = revision + 1
    WHERE OLD.has_dependents AND OLD.status <> 'completed' AND waits_for > 0
      AND status IN ('pending', 'in_progress', 'expired')
      AND work_item_id IN (SELECT work_item_id FROM work_dependencies WHERE depends_on = OLD.work_item_id);
    DELETE FROM work_dependencies WHERE work_item_id = OLD.work_item_id OR depends_on = OLD.work_item_id;
    -- The key under which it ran belongs to it; an item that comes again under this id is another one.
    DELETE FROM idempotency_keys WHERE idempotency_key = 'work-' || OLD.work_item_id;
    UPDATE idempotency_keys SET work_item_id = NULL, revision = revision + 1 WHERE work_item_id = OLD.work_item_id;
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_deleted AFTER DELETE ON work_items FOR EACH ROW EXECUTE FUNCTION tide_work_deleted();
CREATE FUNCTION tide_work_token() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM tide_token_keep('work items removed', (SELECT max(lease_token) FROM gone));
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_token AFTER DELETE ON work_items REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_work_token();

CREATE FUNCTION tide_work_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'work_types' THEN
        IF EXISTS (SELECT 1 FROM work_items
                   WHERE work_type = OLD.work_type AND status IN ('pending', 'in_progress', 'expired')) THEN
            RAISE EXCEPTION 'this type has live work items: nobody would claim them any more'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF EXISTS (SELECT 1 FROM work_items WHERE work_item_id = OLD.work_item_id AND waits_for > 0)
          AND EXISTS (SELECT 1 FROM work_items WHERE work_item_id = OLD.depends_on) THEN
        RAISE EXCEPTION 'a work item waits for this dependency' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER work_types_stay BEFORE DELETE ON work_types FOR EACH ROW EXECUTE FUNCTION tide_work_stay();
CREATE TRIGGER work_dependencies_stay BEFORE DELETE ON work_dependencies FOR EACH ROW EXECUTE FUNCTION tide_work_stay();

CREATE TRIGGER work_attempts_keep AFTER UPDATE ON work_attempts FOR EACH ROW WHEN (old.ended_at IS NOT NULL)
    EXECUTE FUNCTION tide_refuse('an attempt is closed once and then never changes');
CREATE TRIGGER work_attempts_same AFTER UPDATE OF work_item_id, lease_token, attempt, worker, via, started_at
    ON work_attempts FOR EACH ROW EXECUTE FUNCTION tide_refuse('an attempt is closed once and then never changes');
CREATE FUNCTION tide_attempt_guard() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT 1 FROM work_items WHERE work_item_id = OLD.work_item_id) THEN
            RAISE EXCEPTION 'attempts live as long as their work item' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF NOT EXISTS (SELECT 1 FROM work_items
                      WHERE work_item_id = NEW.work_item_id AND lease_token >= NEW.lease_token)
          OR EXISTS (SELECT 1 FROM work_attempts
                     WHERE work_item_id = NEW.work_item_id AND lease_token > NEW.lease_token) THEN
        RAISE EXCEPTION 'an attempt carries the newest token of its work item'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_attempts_stay AFTER DELETE ON work_attempts FOR EACH ROW EXECUTE FUNCTION tide_attempt_guard();
CREATE TRIGGER work_attempts_once AFTER INSERT ON work_attempts FOR EACH ROW
    WHEN (pg_trigger_depth() = 0 AND new.via <> 'api')
    EXECUTE FUNCTION tide_attempt_guard();
-- The library opens attempts in the statement that claims their items: looked at together, when both are written.
CREATE FUNCTION tide_attempts_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added a WHERE a.via = 'api'
               AND NOT EXISTS (SELECT 1 FROM work_items w
                               WHERE w.work_item_id = a.work_item_id AND w.lease_token = a.lease_token)) THEN
        RAISE EXCEPTION 'an attempt carries the newest token of its work item'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_attempts_added AFTER INSERT ON work_attempts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tide_attempts_added();
CREATE TRIGGER work_attempts_full BEFORE TRUNCATE ON work_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('attempts live as long as their work item');

-- ---- checkpoints ----

CREATE TRIGGER journal_head_rise AFTER UPDATE ON journal_head FOR EACH ROW WHEN (new.last < old.last)
    EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');
CREATE TRIGGER journal_head_stay BEFORE DELETE ON journal_head
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');
CREATE TRIGGER journal_head_full BEFORE TRUNCATE ON journal_head
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');

-- A row without a global number comes from plain SQL: it is numbered here, under the locks that everybody takes in this
-- order (the task's head, then the journal's). What must be unique is looked up under them: ON CONFLICT DO NOTHING would
-- otherwise leave a number without a row.
CREATE FUNCTION tide_checkpoint_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = NEW.checkpoint_type) THEN
        RAISE EXCEPTION 'unknown checkpoint_type: see the table checkpoint_types'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.trigger_kind NOT IN ('manual', 'scheduled', 'hypothesis_status_changed', 'contradiction_found',
                                'verification_completed', 'branch_switched', 'gap_filled', 'code_modified',
                                'time_passed', 'context_compaction_warning') THEN
        RAISE EXCEPTION 'unknown trigger_kind' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT octet_length(NEW.checkpoint_id) BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION 'checkpoint_id has 1 to 128 bytes' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.global_sequence IS NOT NULL THEN  -- it must have been issued, and never used
        IF NOT EXISTS (SELECT 1 FROM journal_head j, task_heads h
                       WHERE j.id = 1 AND j.last >= NEW.global_sequence
                         AND h.task_id = NEW.task_id AND h.last_sequence >= NEW.sequence_number
                         AND coalesce((SELECT g.last_global FROM checkpoint_gaps g
                                       WHERE g.first_global <= NEW.global_sequence
                                       ORDER BY g.first_global DESC LIMIT 1), 0) < NEW.global_sequence) THEN
            RAISE EXCEPTION 'global_sequence is given by the store: leave it out'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.checksum IS NOT NULL OR NEW.chain IS NOT NULL OR NEW.chunk_count <> 0 OR NEW.snapshot_len IS NOT NULL
       OR NEW.origin_session IS NOT NULL OR NEW.origin_global IS NOT NULL OR NEW.origin_number IS NOT NULL THEN
        RAISE EXCEPTION 'checksum, chain, chunk_count, snapshot_len and origin are given by the store: leave them out'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.sequence_number > 9007199254740992 THEN
        RAISE EXCEPTION 'sequence_number is at most 9007199254740992' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        RAISE EXCEPTION 'there is no such work item' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    UPDATE task_heads SET last_sequence = coalesce(NEW.sequence_number, last_sequence + 1)
    WHERE task_id = NEW.task_id AND (NEW.sequence_number IS NULL OR NEW.sequence_number > last_sequence)
    RETURNING last_sequence INTO NEW.sequence_number;
    IF NOT FOUND THEN
        IF EXISTS (SELECT 1 FROM task_heads WHERE task_id = NEW.task_id) THEN
            RAISE EXCEPTION 'sequence_number only rises within a task, also after removals'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RAISE EXCEPTION 'there is no such task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    UPDATE journal_head SET last = last + 1, last_at = greatest(last_at, clock_timestamp()) WHERE id = 1
    RETURNING last INTO NEW.global_sequence;
    IF EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_id = NEW.checkpoint_id) THEN
        RAISE EXCEPTION 'this checkpoint exists already: checkpoints are append-only' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON checkpoints FOR EACH ROW
    WHEN (new.checksum IS NULL OR new.global_sequence IS NULL OR new.origin_global IS NOT NULL)
    EXECUTE FUNCTION tide_checkpoint_check();
-- What the library appends has been looked at already; its numbers are checked all the same. In the session's own
-- search_path: to set another one would cost more than the question.
CREATE FUNCTION tide_checkpoint_issued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.checkpoint_type NOT IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                                   'state_transition', 'manual_checkpoint', 'error_boundary') THEN  -- those are never removed
        IF NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = NEW.checkpoint_type) THEN
            RAISE EXCEPTION 'unknown checkpoint_type: see the table checkpoint_types'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM journal_head j, task_heads h
                   WHERE j.id = 1 AND j.last >= NEW.global_sequence
                     AND h.task_id = NEW.task_id AND h.last_sequence >= NEW.sequence_number
                     AND coalesce((SELECT g.last_global FROM checkpoint_gaps g WHERE g.first_global <= NEW.global_sequence
                                   ORDER BY g.first_global DESC LIMIT 1), 0) < NEW.global_sequence) THEN
        RAISE EXCEPTION 'global_sequence is given by the store: leave it out'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_checkpoints_issued BEFORE INSERT ON checkpoints FOR EACH ROW
    WHEN (new.checksum IS NOT NULL AND new.global_sequence IS NOT NULL AND new.origin_global IS NULL)
    EXECUTE FUNCTION tide_checkpoint_issued();
-- One checkpoint of the library: both numbers and the row, in one statement instead of three. Appenders queue at an
-- advisory lock before the journal's head: at a row each would sleep twice, for its turn and for the transaction before it.
CREATE FUNCTION tide_checkpoint_append(task text, new_id text, item text, type text, snapshot text, snapshot_bytes bigint,
                                       more text, note text, cause text, digest bytea, clock timestamptz,
                                       OUT own_number bigint, OUT global_number bigint) LANGUAGE plpgsql AS $$
DECLARE
    link bytea;
    at timestamptz;
BEGIN
    UPDATE task_heads SET last_sequence = last_sequence + 1, chain = tide_link(chain, last_sequence + 1, digest)
    WHERE task_id = task RETURNING last_sequence, chain INTO own_number, link;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    PERFORM pg_advisory_xact_lock(6073460636925384772);
    UPDATE journal_head SET last = last + 1, last_at = greatest(last_at, coalesce(clock, clock_timestamp())) WHERE id = 1
    RETURNING last, last_at INTO global_number, at;
    INSERT INTO checkpoints (global_sequence, sequence_number, checkpoint_id, task_id, work_item_id, checkpoint_type,
                             snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len, chunk_count, checksum,
                             chain)
    VALUES (global_number, own_number, new_id, task, item, type, snapshot, more, at, note, cause, snapshot_bytes, 0, digest,
            link);
END $$;
CREATE TRIGGER checkpoints_keep BEFORE UPDATE ON checkpoints
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('checkpoints are append-only: they never change');
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse(
        'checkpoints are append-only: tidemark checkpoint compact removes old ones, task delete all of a task');
CREATE TRIGGER checkpoints_full BEFORE TRUNCATE ON checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('checkpoints are append-only');
CREATE FUNCTION tide_checkpoint_removed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    SELECT min(global_sequence), max(global_sequence), 'removed', clock_timestamp()
    FROM (SELECT global_sequence, global_sequence - row_number() OVER (ORDER BY global_sequence) AS island FROM gone) g
    GROUP BY island;
    RETURN NULL;
END $$;
CREATE TRIGGER checkpoints_removed AFTER DELETE ON checkpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_checkpoint_removed();

-- What is missing and why is evidence: recorded ranges may be joined, under the permit, and nothing else.
CREATE TRIGGER checkpoint_gaps_keep BEFORE UPDATE ON checkpoint_gaps FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('a recorded gap stays as it is');
CREATE FUNCTION tide_gap_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- It would hide rows that are there, or keep numbers from being given.
    IF NEW.last_global > (SELECT last FROM journal_head WHERE id = 1)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence BETWEEN NEW.first_global AND NEW.last_global) THEN
        RAISE EXCEPTION 'a gap is made of numbers that were given and have no row'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkpoint_gaps_once BEFORE INSERT ON checkpoint_gaps FOR EACH ROW EXECUTE FUNCTION tide_gap_insert();
CREATE TRIGGER checkpoint_gaps_stay BEFORE DELETE ON checkpoint_gaps FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse('a recorded gap stays');
CREATE TRIGGER checkpoint_gaps_full BEFORE TRUNCATE ON checkpoint_gaps
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a recorded gap stays');
CREATE TRIGGER checkpoint_cuts_stay BEFORE UPDATE OR DELETE ON checkpoint_cuts FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse('a recorded cut stays');
CREATE TRIGGER checkpoint_cuts_full BEFORE TRUNCATE ON checkpoint_cuts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a recorded cut stays');

CREATE FUNCTION tide_checkpoint_type_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.checkpoint_type IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                               'state_transition', 'manual_checkpoint', 'error_boundary')
       OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_type = OLD.checkpoint_type) THEN
        RAISE EXCEPTION 'this checkpoint type is in use or built in' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER checkpoint_types_stay BEFORE DELETE ON checkpoint_types
    FOR EACH ROW EXECUTE FUNCTION tide_checkpoint_type_stay();
CREATE TRIGGER checkpoint_types_keep BEFORE UPDATE ON checkpoint_types FOR EACH ROW
    WHEN (new.checkpoint_type <> old.checkpoint_type OR new.is_resumable < old.is_resumable)
    EXECUTE FUNCTION tide_refuse('a checkpoint type keeps its name, and stays resumable once it is');
CREATE TRIGGER checkpoint_types_full BEFORE TRUNCATE ON checkpoint_types
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('this checkpoint type is in use or built in');

-- ---- idempotency keys ----

CREATE FUNCTION tide_key_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    refusal text := NULL;
BEGIN
    IF NEW.status NOT IN ('pending', 'completed', 'failed') THEN
        refusal := 'status is pending, completed or failed';
    ELSIF NEW.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id) THEN
        refusal := 'there is no such task';
    ELSIF NEW.work_item_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        refusal := 'there is no such work item';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    -- For plain SQL an expired key that nobody works on through the library is born again. (The library revives its own.)
    IF NEW.revision = 0 THEN
        DELETE FROM idempotency_keys
        WHERE idempotency_key = NEW.idempotency_key AND expires_at <= clock_timestamp()
          AND (status = 'pending' AND lock_via = 'api' AND lock_expires_at > clock_timestamp()) IS NOT TRUE;
    END IF;
    -- A key made by plain SQL is locked for five minutes: after that the library may take it over.
    IF NEW.revision = 0 AND NEW.status = 'pending' THEN
        NEW.lock_via := 'sql';
        NEW.lock_token := tide_token_floor('idempotency keys removed');
        NEW.attempts := 1;
        NEW.revision := 1;
        NEW.lock_expires_at := clock_timestamp() + interval '5 minutes';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION tide_key_insert();

CREATE FUNCTION tide_key_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    refusal text := NULL;
    is_plain boolean := NEW.revision = OLD.revision;
BEGIN
    IF NEW.revision > OLD.revision AND NEW.lock_token >= OLD.lock_token AND NEW.idempotency_key = OLD.idempotency_key
       AND NEW.status IN ('pending', 'completed', 'failed') THEN
        RETURN NULL;
    END IF;
    IF NEW.status NOT IN ('pending', 'completed', 'failed') THEN
        refusal := 'status is pending, completed or failed';
    ELSIF NEW.idempotency_key <> OLD.idempotency_key OR (NEW.request_hash <> OLD.request_hash AND is_plain) THEN
        refusal := 'a key keeps its name and its request';
    ELSIF NEW.lock_token < OLD.lock_token OR (is_plain AND (NEW.lock_token <> OLD.lock_token
                                                            OR NEW.lock_via IS DISTINCT FROM OLD.lock_via)) THEN
        refusal := 'lock tokens only rise, and not by plain SQL';
    ELSIF NEW.revision < OLD.revision THEN
        refusal := 'revision only rises';
    ELSIF is_plain AND OLD.status = 'completed' AND OLD.lock_via IS DISTINCT FROM 'sql'
          AND (NEW.status <> OLD.status OR NEW.response_data IS DISTINCT FROM OLD.response_data) THEN
        refusal := 'the answer is stored: it does not change any more';
    ELSIF is_plain AND OLD.status = 'pending' AND OLD.lock_via = 'api'
          AND (NEW.status <> OLD.status OR NEW.response_data IS DISTINCT FROM OLD.response_data
               OR NEW.lock_expires_at IS DISTINCT FROM OLD.lock_expires_at) THEN
        refusal := 'the key is locked through the library: without its token it cannot be completed';
    ELSIF is_plain AND NEW.task_id IS DISTINCT FROM OLD.task_id AND NEW.task_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id) THEN
        refusal := 'there is no such task';
    ELSIF is_plain AND NEW.work_item_id IS DISTINCT FROM OLD.work_item_id AND NEW.work_item_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        refusal := 'there is no such work item';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_idempotency_keys_update AFTER UPDATE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION tide_key_check();

-- Never cleaned while somebody works on it.
CREATE FUNCTION tide_key_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'pending' AND OLD.lock_via = 'api' AND OLD.lock_expires_at > clock_timestamp() THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER idempotency_keys_stay BEFORE DELETE ON idempotency_keys FOR EACH ROW
    WHEN (old.status = 'pending' AND old.lock_via = 'api') EXECUTE FUNCTION tide_key_stay();
CREATE FUNCTION tide_key_token() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM tide_token_keep('idempotency keys removed', (SELECT max(lock_token) FROM gone));
    RETURN NULL;
END $$;
CREATE TRIGGER idempotency_keys_token AFTER DELETE ON idempotency_keys REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_key_token();
CREATE TRIGGER idempotency_keys_full BEFORE TRUNCATE ON idempotency_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('keys are deleted one by one, never while somebody works on them');
