-- Types of work and work items: see recovery_schema.sql.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 2
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

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 8
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

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 3
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

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 9
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
