-- Tasks and work items: see work.h. Tables, guards and the opening and closing of attempts are in recovery_items_schema.sql.
--
-- Every change raises revision and sets updated_at: that is how the guards know the library. On PostgreSQL a statement that raises it
-- by two has left nothing to the trigger, which is not called then (it costs 24 us per item): claims change their entries
-- themselves, set by set, and most finishes have none to change. docs/internals/work-layout.md has the invariants.
--
-- value_digest is the XOR of the digests of input and output (value_digest.h): a finish changes it by that of its output and needs no
-- read of the input.
--
-- Lists travel as one JSON parameter: one statement per batch, whatever its length.
--
-- Times: :now is the store's time, :lease_now that of leases (lease.h). Statements that stand alone in their transaction
-- take :clock on PostgreSQL instead, which is NULL where the server's clock counts: so they need no round trip to ask for
-- the time first. On SQLite times are computed in C, because there they are text.

-- ---- tasks ----

-- statement: task_create
INSERT INTO tasks (task_id, title, status, metadata, created_at, updated_at, revision)
SELECT :task_id, :title, 'pending', :metadata, :now, :now, 1
WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = :task_id)
ON CONFLICT (task_id) DO NOTHING;

-- statement: task_find
SELECT t.task_id, t.title, t.status, t.metadata, t.forked_from, t.forked_at, h.last_sequence, t.created_at, t.updated_at,
       t.completed_at
FROM tasks t LEFT JOIN task_heads h ON h.task_id = t.task_id WHERE t.task_id = :task_id;

-- statement: task_list
-- Newest first; a page goes on behind (:before_at, :before_id).
SELECT t.task_id, t.title, t.status, t.metadata, t.forked_from, t.forked_at, h.last_sequence, t.created_at, t.updated_at,
       t.completed_at
FROM tasks t LEFT JOIN task_heads h ON h.task_id = t.task_id
WHERE (CAST(:status AS text) IS NULL OR t.status = CAST(:status AS text))
  AND (CAST(:before_id AS text) IS NULL OR t.created_at < :before_at
       OR (t.created_at = :before_at AND t.task_id < CAST(:before_id AS text)))
ORDER BY t.created_at DESC, t.task_id DESC LIMIT :limit;

-- statement: task_items
SELECT status, count(*) FROM work_items WHERE task_id = :task_id GROUP BY status;

-- statement: task_lock  engine: sqlite
SELECT status FROM tasks WHERE task_id = :task_id;

-- statement: task_lock  engine: postgres
-- Whoever adds items holds the task's row FOR SHARE: what is counted behind this lock stays as it is.
SELECT status FROM tasks WHERE task_id = :task_id FOR UPDATE;

-- statement: task_end
UPDATE tasks SET status = :status, completed_at = :now, updated_at = :now, revision = revision + 1
WHERE task_id = :task_id AND status IN ('pending', 'running');

-- statement: task_end_items  engine: sqlite
-- A step of the end of a task.
UPDATE work_items
SET status = 'failed', failure_kind = 'cancelled', error_message = :message,
    attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
    completed_at = :now, updated_at = :now, revision = revision + 1, lease_holder = NULL, lease_expires_at = NULL,
    run_after = NULL, lease_token = max(lease_token + 1, :floor)
WHERE rowid IN (SELECT rowid FROM work_items INDEXED BY idx_work_items_task
                WHERE task_id = :task_id AND status = :status LIMIT :limit)
RETURNING work_item_id;

-- statement: task_end_items  engine: postgres
-- It waits for rows that are locked: an item that is released meanwhile must not be left behind. Entries lead to the items; only
-- pending ones that are not ready (delayed, or waiting for others) are found by reading those of the task.
WITH leased AS MATERIALIZED (
    SELECT w.item_no FROM work_items w
    WHERE CAST(:status AS text) = 'in_progress'
      AND w.item_no = ANY(ARRAY(SELECT i FROM work_lease_ends CROSS JOIN unnest(items) AS i
                                WHERE CAST(:status AS text) = 'in_progress'))
      AND w.task_id = CAST(:task_id AS text) AND w.status = 'in_progress'
    LIMIT :limit FOR NO KEY UPDATE),
expired AS MATERIALIZED (
    SELECT w.item_no FROM work_items w
    WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM work_due
                                WHERE kind = 'expired' AND CAST(:status AS text) = 'expired'))
      AND w.task_id = CAST(:task_id AS text) AND w.status = 'expired'
    LIMIT :limit FOR NO KEY UPDATE),
ready AS MATERIALIZED (
    SELECT w.item_no FROM (SELECT r.item_no FROM work_ready r
                           WHERE r.task_id = CAST(:task_id AS text) AND CAST(:status AS text) = 'pending'
                           ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807)) r
    CROSS JOIN LATERAL (SELECT w.item_no FROM work_items w WHERE w.item_no = r.item_no AND w.status = 'pending'
                        LIMIT 1 FOR NO KEY UPDATE) w
    LIMIT (SELECT CAST(:limit AS bigint))),
other AS MATERIALIZED (
    SELECT item_no FROM work_items
    WHERE CAST(:status AS text) = 'pending' AND NOT EXISTS (SELECT 1 FROM ready)
      AND task_id = CAST(:task_id AS text) AND status = 'pending'
    LIMIT :limit FOR NO KEY UPDATE)
UPDATE work_items w
SET status = 'failed', failure_kind = 'cancelled', error_message = :message,
    attempt_outcome = CASE w.status WHEN 'in_progress' THEN 'cancelled' ELSE w.attempt_outcome END,
    completed_at = :now, updated_at = :now, revision = w.revision + 1, lease_holder = NULL, lease_expires_at = NULL,
    run_after = NULL, lease_token = greatest(w.lease_token + 1, :floor)
WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM leased UNION ALL SELECT item_no FROM expired
                            UNION ALL SELECT item_no FROM ready UNION ALL SELECT item_no FROM other))
RETURNING w.work_item_id;

-- statement: task_delete_items  engine: sqlite
DELETE FROM work_items WHERE rowid IN (
    SELECT rowid FROM work_items INDEXED BY idx_work_items_task WHERE task_id = :task_id LIMIT :limit);

-- statement: task_delete_items  engine: postgres
WITH step AS MATERIALIZED (
    SELECT work_item_id FROM work_items WHERE task_id = CAST(:task_id AS text) LIMIT :limit FOR UPDATE)
DELETE FROM work_items w USING step WHERE w.work_item_id = step.work_item_id;

-- statement: task_leave_keys  engine: sqlite
-- Idempotency keys outlive their task.
UPDATE idempotency_keys SET task_id = NULL, revision = revision + 1
WHERE idempotency_key IN (SELECT idempotency_key FROM idempotency_keys WHERE task_id = :task_id LIMIT :limit);

-- statement: task_leave_keys  engine: postgres
WITH step AS MATERIALIZED (
    SELECT idempotency_key FROM idempotency_keys WHERE task_id = CAST(:task_id AS text) LIMIT :limit FOR NO KEY UPDATE)
UPDATE idempotency_keys k SET task_id = NULL, revision = k.revision + 1
FROM step WHERE k.idempotency_key = step.idempotency_key;

-- statement: task_size
-- How many items, keys and checkpoints it has, each counted up to :limit.
SELECT (SELECT count(*) FROM (SELECT 1 AS one FROM work_items WHERE task_id = CAST(:task_id AS text) LIMIT :limit) i),
       (SELECT count(*) FROM (SELECT 1 AS one FROM idempotency_keys WHERE task_id = CAST(:task_id AS text) LIMIT :limit) k),
       (SELECT count(*) FROM (SELECT 1 AS one FROM checkpoints WHERE task_id = CAST(:task_id AS text) LIMIT :limit) c);

-- statement: task_ending_put
-- A delete of a task whose end is under way replaces that.
INSERT INTO task_endings (task_id, action, message, begun_at) VALUES (:task_id, :action, :message, :now)
ON CONFLICT (task_id) DO UPDATE SET action = excluded.action, message = excluded.message;

-- statement: task_ending_find
SELECT 1 FROM task_endings WHERE task_id = :task_id;

-- statement: task_has_live
SELECT EXISTS (SELECT 1 FROM work_items WHERE task_id = CAST(:task_id AS text)
                 AND status IN ('pending', 'in_progress', 'expired'));

-- statement: task_ending_first
SELECT task_id, action, message FROM task_endings ORDER BY begun_at, task_id LIMIT 1;

-- statement: task_ending_delete
DELETE FROM task_endings WHERE task_id = :task_id;

-- statement: task_fork
SELECT task_id FROM tasks WHERE forked_from = :task_id ORDER BY task_id LIMIT 1;

-- statement: task_hold_items  only: postgres
-- What the delete below locks, in its order, so that what is read behind this is what it removes.
SELECT count(*) FROM (SELECT 1 FROM work_items WHERE task_id = :task_id FOR UPDATE) held;

-- statement: task_hold_head  only: postgres
SELECT last_sequence FROM task_heads WHERE task_id = :task_id FOR UPDATE;

-- statement: task_checkpoints
-- How many it has, and their first and last number.
SELECT count(*), coalesce(min(global_sequence), 0), coalesce(max(global_sequence), 0)
FROM checkpoints WHERE task_id = :task_id;

-- statement: task_delete
-- Everything that is its own goes with it, by trigger.
DELETE FROM tasks WHERE task_id = :task_id;

-- ---- adding ----

-- statement: work_seen  engine: sqlite
-- Which of these ids are there, and what they stand for.
SELECT work_item_id, task_id, work_type, input_data FROM work_items
WHERE work_item_id IN (SELECT value FROM json_each(:ids));

-- statement: work_seen  engine: postgres
SELECT work_item_id, task_id, work_type, input_data FROM work_items
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- statement: work_live_keys  engine: sqlite
-- Which of these pairs of type and unique key belong to a live item.
SELECT k.value ->> 0, k.value ->> 1, w.work_item_id
FROM json_each(:keys) k CROSS JOIN work_items w
WHERE w.work_type = k.value ->> 0 AND w.unique_key = k.value ->> 1 AND w.unique_key IS NOT NULL
  AND w.status IN ('pending', 'in_progress', 'expired');

-- statement: work_live_keys  engine: postgres
SELECT u.work_type, u.unique_key, w.work_item_id
FROM jsonb_array_elements(CAST(:keys AS jsonb)) AS k
JOIN work_unique_keys u ON u.work_type = k ->> 0 AND u.unique_key = k ->> 1
JOIN work_items w ON w.item_no = u.item_no AND w.status IN ('pending', 'in_progress', 'expired');

-- statement: work_tasks  engine: sqlite
SELECT task_id, status FROM tasks WHERE task_id IN (SELECT value FROM json_each(:ids));

-- statement: work_tasks  engine: postgres
-- FOR SHARE: a task cannot end while items are added to it. In the order of ids, before any item is locked.
SELECT task_id, status FROM tasks WHERE task_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
ORDER BY task_id FOR SHARE;

-- statement: work_tasks_of_finish  only: postgres
-- The tasks that a finish with follow-up items adds to are locked before its item: everybody locks tasks first.
SELECT t.task_id FROM tasks t
WHERE t.task_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
   OR t.task_id = (SELECT w.task_id FROM work_items w WHERE w.work_item_id = :id)
ORDER BY t.task_id FOR SHARE;

-- statement: work_task_of
SELECT task_id FROM work_items WHERE work_item_id = :id;

-- statement: work_dependencies_lock  engine: sqlite
SELECT work_item_id, task_id, status FROM work_items WHERE work_item_id IN (SELECT value FROM json_each(:ids));

-- statement: work_dependencies_lock  engine: postgres
-- Locked before they are looked at: one that is being completed is waited for and then seen completed; one that is not
-- cannot complete before its new dependent is there to be told.
SELECT work_item_id, task_id, status FROM work_items
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
ORDER BY work_item_id FOR NO KEY UPDATE;

-- statement: work_dependencies_mark  engine: sqlite
UPDATE work_items SET has_dependents = 1, revision = revision + 1, updated_at = :now
WHERE work_item_id IN (SELECT value FROM json_each(:ids)) AND NOT has_dependents
  AND status NOT IN ('completed', 'failed');

-- statement: work_dependencies_mark  engine: postgres
UPDATE work_items SET has_dependents = true, revision = revision + 1, updated_at = :now
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))) AND NOT has_dependents
  AND status NOT IN ('completed', 'failed');

-- statement: work_depend  engine: sqlite
INSERT INTO work_dependencies (work_item_id, depends_on)
SELECT value ->> 0, value ->> 1 FROM json_each(:pairs) WHERE true ON CONFLICT DO NOTHING;

-- statement: work_depend  engine: postgres
INSERT INTO work_dependencies (work_item_id, depends_on)
SELECT pair ->> 0, pair ->> 1 FROM jsonb_array_elements(CAST(:pairs AS jsonb)) AS pair ON CONFLICT DO NOTHING;

-- statement: work_insert  engine: sqlite
-- Tokens begin above those of items that were removed: an id that comes again does not give out a token twice.
-- (MATERIALIZED: a member of the list is written out once, not once per column. One statement for all also costs
-- one statement journal, which is most of the price of a single change.)
WITH list AS MATERIALIZED (SELECT key, value AS item FROM json_each(:items))
INSERT INTO work_items (work_item_id, task_id, work_type, status, priority, max_retries, input_data, created_at, updated_at,
                        run_after, unique_key, timeout_us, retried_from, schedule_name, waits_for, has_dependents,
                        lease_token, revision, title, limit_key, value_digest)
SELECT item ->> 'id', item ->> 'task', item ->> 'type', 'pending', item ->> 'priority',
       coalesce(item ->> 'retries', (SELECT p.max_retries FROM work_policies p WHERE p.work_type = item ->> 'type'), 3),
       item ->> 'input', item ->> 'at', item ->> 'at', item ->> 'after', item ->> 'key', item ->> 'timeout',
       item ->> 'from', item ->> 'schedule', item ->> 'waits', item ->> 'needed',
       coalesce((SELECT token FROM leases WHERE name = 'work items removed'), 0), 1, item ->> 'title',
       item ->> 'limit_key', item ->> 'digest'
FROM list ORDER BY key;

-- statement: work_insert  engine: postgres
-- Fewer rows than items: somebody else was faster with an id or a unique key. (With its claim_key an item of the library is
-- complete: no trigger has to look at it, row by row.)
INSERT INTO work_items (work_item_id, task_id, work_type, status, priority, max_retries, input_data, created_at, updated_at,
                        run_after, unique_key, timeout_us, retried_from, schedule_name, waits_for, has_dependents,
                        lease_token, revision, claim_key, title, limit_key, value_digest)
SELECT id, task, type, 'pending', priority,
       coalesce(retries, (SELECT p.max_retries FROM work_policies p WHERE p.work_type = x.type), 3), input, at, at, after, key, timeout, "from", schedule, waits, needed <> 0,
       coalesce((SELECT token FROM leases WHERE name = 'work items removed'), 0), 1, claim, title, limit_key, digest
FROM jsonb_to_recordset(CAST(:items AS jsonb))
     AS x(id text, task text, type text, priority bigint, retries bigint, input text, at timestamptz,
          after timestamptz, key text, timeout bigint, "from" text, schedule text, waits bigint, needed bigint, claim bigint,
          title text, limit_key text, digest bigint)
ON CONFLICT DO NOTHING;

-- ---- claiming ----

-- statement: work_look_types  engine: sqlite
-- Is there anything to claim, and when is the next delayed item due, whosever it is? Has any type a limit? :types NULL: any type.
SELECT (SELECT min(run_after) FROM work_items INDEXED BY idx_work_items_due WHERE status = 'pending' AND run_after IS NOT NULL),
       EXISTS (SELECT 1 FROM work_types y
               WHERE NOT y.is_paused AND (:types IS NULL OR y.work_type IN (SELECT value FROM json_each(:types)))
                 AND EXISTS (SELECT 1 FROM work_items w INDEXED BY idx_work_items_claim
                             WHERE w.work_type = y.work_type
                               AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
                               AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running'))),
       EXISTS (SELECT 1 FROM work_limits);

-- statement: work_look_types  engine: postgres
-- The row decides whether an entry counts. (LIMIT keeps the planner from turning the inner questions into joins over everything that
-- is ready.)
SELECT (SELECT min(at) FROM work_due WHERE kind = 'delayed'),
       EXISTS (SELECT 1 FROM work_types y
               WHERE NOT y.is_paused
                 AND (CAST(:types AS jsonb) IS NULL
                      OR y.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
                 AND (SELECT true
                      FROM (SELECT r.item_no, r.task_id FROM work_ready r
                            WHERE r.work_type = y.work_type AND r.claim_key >= y.low_key
                            ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807)) r
                      CROSS JOIN LATERAL (
                          SELECT 1 FROM work_items w
                          WHERE w.item_no = r.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
                            AND (SELECT t.status FROM tasks t WHERE t.task_id = r.task_id) IN ('pending', 'running')
                          LIMIT 1) w
                      LIMIT 1)),
       EXISTS (SELECT 1 FROM work_limits);

-- statement: work_look_task  engine: sqlite
SELECT (SELECT min(run_after) FROM work_items INDEXED BY idx_work_items_due WHERE status = 'pending' AND run_after IS NOT NULL),
       EXISTS (SELECT 1 FROM work_items w INDEXED BY idx_work_items_claim_task
               WHERE w.task_id = :task_id AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
                 AND (:types IS NULL OR w.work_type IN (SELECT value FROM json_each(:types)))
                 AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = w.work_type))
       AND (SELECT t.status FROM tasks t WHERE t.task_id = :task_id) IN ('pending', 'running'),
       EXISTS (SELECT 1 FROM work_limits);

-- statement: work_look_task  engine: postgres
SELECT (SELECT min(at) FROM work_due WHERE kind = 'delayed'),
       EXISTS (SELECT 1
               FROM (SELECT r.item_no, r.work_type FROM work_ready r WHERE r.task_id = CAST(:task_id AS text)
                     ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807)) r
               CROSS JOIN LATERAL (
                   SELECT 1 FROM work_items w
                   WHERE w.item_no = r.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
                     AND (CAST(:types AS jsonb) IS NULL
                          OR r.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
                     AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = r.work_type)
                   LIMIT 1) w)
       AND (SELECT t.status FROM tasks t WHERE t.task_id = CAST(:task_id AS text)) IN ('pending', 'running'),
       EXISTS (SELECT 1 FROM work_limits);

-- statement: work_next_due  engine: sqlite
-- When is the next delayed item due that this claim could take? Of the :limit that come first; behind them: when to look
-- again.
SELECT coalesce(
    (SELECT d.run_after
     FROM (SELECT run_after, work_type, task_id, waits_for FROM work_items INDEXED BY idx_work_items_due
           WHERE status = 'pending' AND run_after IS NOT NULL ORDER BY run_after LIMIT :limit) d
     WHERE d.waits_for = 0 AND (:task_id IS NULL OR d.task_id = :task_id)
       AND (:types IS NULL OR d.work_type IN (SELECT value FROM json_each(:types)))
       AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = d.work_type)
       AND (SELECT t.status FROM tasks t WHERE t.task_id = d.task_id) IN ('pending', 'running')
     LIMIT 1),
    (SELECT run_after FROM work_items INDEXED BY idx_work_items_due
     WHERE status = 'pending' AND run_after IS NOT NULL ORDER BY run_after LIMIT 1 OFFSET :limit));

-- statement: work_next_due  engine: postgres
SELECT coalesce(
    (SELECT w.run_after
     FROM (SELECT d.item_no FROM work_due d WHERE d.kind = 'delayed'
           ORDER BY d.at LIMIT (SELECT CAST(:limit AS bigint))) d
     CROSS JOIN LATERAL (
         SELECT w.run_after FROM work_items w
         WHERE w.item_no = d.item_no AND w.status = 'pending' AND w.run_after IS NOT NULL
           AND w.waits_for = 0 AND (CAST(:task_id AS text) IS NULL OR w.task_id = CAST(:task_id AS text))
           AND (CAST(:types AS jsonb) IS NULL
                OR w.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
           AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = w.work_type)
           AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
         LIMIT 1) w
     LIMIT 1),
    (SELECT at FROM work_due WHERE kind = 'delayed' ORDER BY at LIMIT 1 OFFSET :limit));

-- statement: work_promote  engine: sqlite
-- Delayed items whose time has come may run.
UPDATE work_items SET run_after = NULL, revision = revision + 1, updated_at = :now
WHERE rowid IN (SELECT rowid FROM work_items INDEXED BY idx_work_items_due
                WHERE status = 'pending' AND run_after IS NOT NULL AND run_after <= :now
                ORDER BY run_after LIMIT :limit)
RETURNING work_type;

-- statement: work_promote  engine: postgres
-- Entries whose row is not delayed until then are deleted: they would keep every claim from its first try.
WITH due AS MATERIALIZED (
    SELECT d.ctid AS entry, d.item_no, d.at FROM work_due d WHERE d.kind = 'delayed' AND d.at <= :now
    ORDER BY d.at LIMIT :limit),
stale AS (
    DELETE FROM work_due WHERE ctid = ANY(ARRAY(
        SELECT d.entry FROM due d
        WHERE NOT EXISTS (SELECT 1 FROM work_items w
                          WHERE w.item_no = d.item_no AND w.status = 'pending' AND w.run_after = d.at)))),
held AS MATERIALIZED (
    SELECT w.item_no FROM due d CROSS JOIN LATERAL (
        SELECT w.item_no FROM work_items w
        WHERE w.item_no = d.item_no AND w.status = 'pending' AND w.run_after <= :now
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w)
UPDATE work_items w SET run_after = NULL, revision = w.revision + 1, updated_at = :now
WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM held))
RETURNING w.work_type;

-- statement: work_claim_turn  only: postgres
-- Claimers of many items of a type take turns until they commit: each would pass what the others have locked, entry by entry.
-- The one that has the turn waits for nothing.
SELECT CAST(pg_advisory_xact_lock(1414087749, hashtext(CAST(:type AS text))) AS text);

-- statement: work_claim_type  engine: sqlite
-- The :limit first ones of a type. (A subquery, not a join: nothing else than the index decides the order.) While something is due,
-- nothing is picked: it is to be promoted first (unless that was done: :is_promoted).
UPDATE work_items
SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = :lease_now, heartbeat_at = :lease_now,
    deadline_at = CASE WHEN timeout_us IS NULL THEN NULL ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    lease_expires_at = CASE WHEN timeout_us IS NULL OR timeout_us >= :lease_us THEN :expires ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    started_at = coalesce(started_at, :now), lease_token = max(lease_token + 1, :floor), lease_via = 'api',
    revision = revision + 1, updated_at = :now
WHERE rowid IN (
    SELECT w.rowid FROM work_items w INDEXED BY idx_work_items_claim
    WHERE w.work_type = :type AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
      AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = :type)
      AND NOT EXISTS (SELECT 1 FROM work_limits l WHERE l.work_type = :type)
      AND (:is_promoted OR NOT EXISTS (SELECT 1 FROM work_items d INDEXED BY idx_work_items_due
                                       WHERE d.status = 'pending' AND d.run_after IS NOT NULL AND d.run_after <= :now))
      AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
    ORDER BY w.claim_key LIMIT :limit)
RETURNING work_item_id, task_id, work_type, input_data, lease_token, retry_count + 1, max_retries, priority,
          lease_expires_at, deadline_at, lease_acquired_at, claim_key, value_digest,
          (SELECT t.status FROM tasks t WHERE t.task_id = work_items.task_id) = 'pending';

-- statement: work_claim_one  only: sqlite
-- The first one of a type. (IN would make and drop a temporary table.)
UPDATE work_items
SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = :lease_now, heartbeat_at = :lease_now,
    deadline_at = CASE WHEN timeout_us IS NULL THEN NULL ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    lease_expires_at = CASE WHEN timeout_us IS NULL OR timeout_us >= :lease_us THEN :expires ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    started_at = coalesce(started_at, :now), lease_token = max(lease_token + 1, :floor), lease_via = 'api',
    revision = revision + 1, updated_at = :now
WHERE rowid = (
    SELECT w.rowid FROM work_items w INDEXED BY idx_work_items_claim
    WHERE w.work_type = :type AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
      AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = :type)
      AND NOT EXISTS (SELECT 1 FROM work_limits l WHERE l.work_type = :type)
      AND (:is_promoted OR NOT EXISTS (SELECT 1 FROM work_items d INDEXED BY idx_work_items_due
                                       WHERE d.status = 'pending' AND d.run_after IS NOT NULL AND d.run_after <= :now))
      AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
    ORDER BY w.claim_key LIMIT 1)
RETURNING work_item_id, task_id, work_type, input_data, lease_token, retry_count + 1, max_retries, priority,
          lease_expires_at, deadline_at, lease_acquired_at, claim_key, value_digest,
          (SELECT t.status FROM tasks t WHERE t.task_id = work_items.task_id) = 'pending';

-- statement: work_claim_type  engine: postgres
-- Walks the entries of a type in order and locks their rows until there are enough; the row decides, and SKIP LOCKED lets
-- claimers pass each other. Reading starts at the type's low_key, above entries that are gone. A type with a limit is left to
-- work_claim_limited. While something is due, nothing is picked: it is to be promoted first (unless that was done: :is_promoted).
-- Only entries of rows that were claimed are deleted: a row that changed since this statement began is locked and not updated.
-- The entry is locked first: a row that another claimer has taken since this statement began would otherwise be locked in
-- vain, and its finish would wait for our commit.
-- Items of a task that is being ended are left; a claim that got nothing therefore looks again, at the tasks too (:is_promoted).
-- A limit that the planner does not know (a subquery) makes it read the index in order and stop: with a known one, or
-- with none, it may decide to read and sort all that is ready. ANY(ARRAY[]) leaves no join but the index by item_no.
WITH clock AS MATERIALIZED (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at),
picked AS MATERIALIZED (
    SELECT r.entry, r.item_no, r.task_id, w.ctid AS row
    FROM (SELECT r.ctid AS entry, r.item_no, r.task_id FROM work_ready r
          WHERE r.work_type = CAST(:type AS text)
            AND r.claim_key >= (SELECT y.low_key FROM work_types y
                                WHERE y.work_type = CAST(:type AS text) AND NOT y.is_paused AND NOT y.is_limited)
            AND (CAST(:is_promoted AS boolean)
                 OR coalesce((SELECT min(d.at) FROM work_due d WHERE d.kind = 'delayed')
                             > (SELECT at FROM clock), true))
          ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807) FOR UPDATE SKIP LOCKED) r
    JOIN work_items w ON w.item_no = ANY(ARRAY[r.item_no]) AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
         AND (NOT CAST(:is_promoted AS boolean)
              OR (SELECT t.status FROM tasks t WHERE t.task_id = r.task_id) IN ('pending', 'running'))
    LIMIT (SELECT CAST(:limit AS bigint)) FOR NO KEY UPDATE OF w SKIP LOCKED),
live AS MATERIALIZED (
    SELECT t.task_id, CASE t.status WHEN 'pending' THEN tide_task_start(t.task_id, c.at) END
    FROM tasks t CROSS JOIN clock c
    WHERE t.task_id = ANY(ARRAY(SELECT task_id FROM picked)) AND t.status IN ('pending', 'running')),
given AS MATERIALIZED (
    SELECT entry, item_no, row FROM picked WHERE task_id = ANY(ARRAY(SELECT task_id FROM live))),
claimed AS (
    UPDATE work_items w
    SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = c.at, heartbeat_at = c.at,
        deadline_at = c.at + w.timeout_us * interval '1 microsecond',
        lease_expires_at = c.at + least(CAST(:lease_us AS bigint), w.timeout_us) * interval '1 microsecond',
        started_at = coalesce(w.started_at, c.at), lease_token = greatest(w.lease_token + 1, :floor), lease_via = 'api',
        revision = w.revision + 2, updated_at = c.at
    FROM clock c WHERE w.ctid = ANY(ARRAY(SELECT row FROM given))
    RETURNING w.work_item_id, w.task_id, w.work_type, w.input_data, w.lease_token, w.retry_count + 1 AS attempt,
              w.max_retries, w.priority, w.lease_expires_at, w.deadline_at, w.lease_acquired_at, w.claim_key,
              w.value_digest, w.item_no),
taken AS (
    DELETE FROM work_ready
    WHERE ctid = ANY(ARRAY(SELECT entry FROM given WHERE item_no = ANY(ARRAY(SELECT item_no FROM claimed))))),
leased AS (
    INSERT INTO work_lease_ends (check_at, items)
    SELECT min(lease_expires_at), array_agg(item_no) FROM claimed HAVING count(*) > 0)
SELECT work_item_id, task_id, work_type, input_data, lease_token, attempt, max_retries, priority, lease_expires_at,
       deadline_at, lease_acquired_at, claim_key, value_digest, false
FROM claimed;

-- statement: work_claim_shared  only: postgres
-- work_claim_type for several claimers of one process: the n-th item is for the claimer of which :places has the number in
-- :workers and :leases. It has the type's turn (work_claim_turn), and needs no lock of entries. (The plus sign: the rows are read once, by their places, and no join reads the list for each of them.)
WITH clock AS MATERIALIZED (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at),
picked AS MATERIALIZED (
    SELECT r.entry, r.item_no, r.task_id, w.ctid AS row
    FROM (SELECT r.ctid AS entry, r.item_no, r.task_id FROM work_ready r
          WHERE r.work_type = CAST(:type AS text)
            AND r.claim_key >= (SELECT y.low_key FROM work_types y
                                WHERE y.work_type = CAST(:type AS text) AND NOT y.is_paused AND NOT y.is_limited)
            AND coalesce((SELECT min(d.at) FROM work_due d WHERE d.kind = 'delayed')
                         > (SELECT at FROM clock), true)
          ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807)) r
    JOIN work_items w ON w.item_no = ANY(ARRAY[r.item_no]) AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
    LIMIT (SELECT CAST(:limit AS bigint)) FOR NO KEY UPDATE OF w SKIP LOCKED),
live AS MATERIALIZED (
    SELECT t.task_id, CASE t.status WHEN 'pending' THEN tide_task_start(t.task_id, c.at) END
    FROM tasks t CROSS JOIN clock c
    WHERE t.task_id = ANY(ARRAY(SELECT task_id FROM picked)) AND t.status IN ('pending', 'running')),
given AS MATERIALIZED (
    SELECT entry, item_no, row, (SELECT CAST(CAST(:places AS text) AS integer[]))[CAST(row_number() OVER () AS integer)] AS place
    FROM picked WHERE task_id = ANY(ARRAY(SELECT task_id FROM live))),
claimed AS (
    UPDATE work_items w
    SET status = 'in_progress', lease_holder = (SELECT CAST(CAST(:workers AS text) AS text[]))[g.place],
        lease_acquired_at = c.at, heartbeat_at = c.at,
        deadline_at = c.at + w.timeout_us * interval '1 microsecond',
        lease_expires_at = c.at + least((SELECT CAST(CAST(:leases AS text) AS bigint[]))[g.place], w.timeout_us)
                                  * interval '1 microsecond',
        started_at = coalesce(w.started_at, c.at), lease_token = greatest(w.lease_token + 1, :floor), lease_via = 'api',
        revision = w.revision + 2, updated_at = c.at
    FROM given g CROSS JOIN clock c
    WHERE w.ctid = ANY(ARRAY(SELECT row FROM given)) AND w.item_no + 0 = g.item_no
    RETURNING g.place, w.work_item_id, w.task_id, w.work_type, w.input_data, w.lease_token, w.retry_count + 1 AS attempt,
              w.max_retries, w.priority, w.lease_expires_at, w.deadline_at, w.lease_acquired_at, w.claim_key,
              w.value_digest, w.item_no, g.entry),
taken AS (DELETE FROM work_ready WHERE ctid = ANY(ARRAY(SELECT entry FROM claimed))),
leased AS (
    INSERT INTO work_lease_ends (check_at, items)
    SELECT min(lease_expires_at), array_agg(item_no) FROM claimed HAVING count(*) > 0)
SELECT place, work_item_id, task_id, work_type, input_data, lease_token, attempt, max_retries, priority, lease_expires_at,
       deadline_at, lease_acquired_at, claim_key, value_digest, false
FROM claimed;

-- statement: work_claim_types  engine: sqlite
-- The :limit first ones of several types (NULL: all): the heads of each, and of those the first. json_each stands in for
-- LATERAL.
UPDATE work_items
SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = :lease_now, heartbeat_at = :lease_now,
    deadline_at = CASE WHEN timeout_us IS NULL THEN NULL ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    lease_expires_at = CASE WHEN timeout_us IS NULL OR timeout_us >= :lease_us THEN :expires ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    started_at = coalesce(started_at, :now), lease_token = max(lease_token + 1, :floor), lease_via = 'api',
    revision = revision + 1, updated_at = :now
WHERE rowid IN (
    SELECT h.value ->> 1
    FROM work_types y CROSS JOIN json_each((
        SELECT json_group_array(json_array(claim_key, row)) FROM (
            SELECT w.claim_key, w.rowid AS row FROM work_items w INDEXED BY idx_work_items_claim
            WHERE w.work_type = y.work_type AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
              AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
            ORDER BY w.claim_key LIMIT :limit))) h
    WHERE NOT EXISTS (SELECT 1 FROM work_limits l WHERE :types IS NULL OR l.work_type IN (SELECT value FROM json_each(:types)))
      AND NOT y.is_paused AND (:types IS NULL OR y.work_type IN (SELECT value FROM json_each(:types)))
      AND (:is_promoted OR NOT EXISTS (SELECT 1 FROM work_items d INDEXED BY idx_work_items_due
                                       WHERE d.status = 'pending' AND d.run_after IS NOT NULL AND d.run_after <= :now))
    ORDER BY h.value ->> 0, h.value ->> 1 LIMIT :limit)
RETURNING work_item_id, task_id, work_type, input_data, lease_token, retry_count + 1, max_retries, priority,
          lease_expires_at, deadline_at, lease_acquired_at, claim_key, value_digest,
          (SELECT t.status FROM tasks t WHERE t.task_id = work_items.task_id) = 'pending';

-- statement: work_claim_types  engine: postgres
-- The first entries of each type are read without locks, and their rows locked in their common order, no more than are
-- wanted: a claimer that locked the heads of every type would make others believe that there is nothing. :reach is more
-- than :limit, because some of the heads may be in other hands. Where one of the types has a limit, all are left to
-- work_claim_limited, so that they are claimed in one order.
WITH clock AS MATERIALIZED (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at),
heads AS MATERIALIZED (
    SELECT h.entry, h.item_no, h.claim_key
    FROM work_types y CROSS JOIN LATERAL (
        SELECT r.entry, r.item_no, r.claim_key
        FROM (SELECT r.ctid AS entry, r.item_no, r.task_id, r.claim_key FROM work_ready r
              WHERE r.work_type = y.work_type AND r.claim_key >= y.low_key
              ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807)) r
        WHERE (SELECT t.status FROM tasks t WHERE t.task_id = r.task_id) IN ('pending', 'running')
        LIMIT (SELECT CAST(:reach AS bigint))) h
    WHERE NOT y.is_paused
      AND NOT EXISTS (SELECT 1 FROM work_types l
                      WHERE l.is_limited
                        AND (CAST(:types AS jsonb) IS NULL
                             OR l.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))))
      AND (CAST(:types AS jsonb) IS NULL OR y.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
      AND (CAST(:is_promoted AS boolean)
           OR coalesce((SELECT min(d.at) FROM work_due d WHERE d.kind = 'delayed') > (SELECT at FROM clock), true))
    ORDER BY h.claim_key LIMIT :reach),
picked AS MATERIALIZED (
    SELECT r.entry, r.item_no, w.row FROM (SELECT * FROM heads ORDER BY claim_key LIMIT :reach) r
    CROSS JOIN LATERAL (SELECT 1 FROM work_ready e WHERE e.ctid = r.entry LIMIT 1 FOR UPDATE SKIP LOCKED) e
    CROSS JOIN LATERAL (
        SELECT w.ctid AS row FROM work_items w
        WHERE w.item_no = r.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w
    LIMIT (SELECT CAST(:limit AS bigint))),
claimed AS (
    UPDATE work_items w
    SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = c.at, heartbeat_at = c.at,
        deadline_at = c.at + w.timeout_us * interval '1 microsecond',
        lease_expires_at = c.at + least(CAST(:lease_us AS bigint), w.timeout_us) * interval '1 microsecond',
        started_at = coalesce(w.started_at, c.at), lease_token = greatest(w.lease_token + 1, :floor), lease_via = 'api',
        revision = w.revision + 2, updated_at = c.at
    FROM clock c WHERE w.ctid = ANY(ARRAY(SELECT row FROM picked))
    RETURNING w.work_item_id, w.task_id, w.work_type, w.input_data, w.lease_token, w.retry_count + 1 AS attempt,
              w.max_retries, w.priority, w.lease_expires_at, w.deadline_at, w.lease_acquired_at, w.claim_key,
              w.value_digest, w.item_no),
taken AS (
    DELETE FROM work_ready
    WHERE ctid = ANY(ARRAY(SELECT entry FROM picked WHERE item_no = ANY(ARRAY(SELECT item_no FROM claimed))))),
leased AS (
    INSERT INTO work_lease_ends (check_at, items)
    SELECT min(lease_expires_at), array_agg(item_no) FROM claimed HAVING count(*) > 0),
waiting AS MATERIALIZED (
    SELECT t.task_id FROM tasks t WHERE t.task_id = ANY(ARRAY(SELECT task_id FROM claimed)) AND t.status = 'pending'
    FOR NO KEY UPDATE SKIP LOCKED),
started AS (
    UPDATE tasks t SET status = 'running', updated_at = c.at, revision = t.revision + 1
    FROM waiting CROSS JOIN clock c WHERE t.task_id = waiting.task_id)
SELECT work_item_id, task_id, work_type, input_data, lease_token, attempt, max_retries, priority, lease_expires_at,
       deadline_at, lease_acquired_at, claim_key, value_digest, false
FROM claimed;

-- statement: work_claim_task  engine: sqlite
UPDATE work_items
SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = :lease_now, heartbeat_at = :lease_now,
    deadline_at = CASE WHEN timeout_us IS NULL THEN NULL ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    lease_expires_at = CASE WHEN timeout_us IS NULL OR timeout_us >= :lease_us THEN :expires ELSE
        strftime('%Y-%m-%d %H:%M:%S', (:lease_now_us + timeout_us) / 1000000, 'unixepoch')
        || printf('.%06d', (:lease_now_us + timeout_us) % 1000000) END,
    started_at = coalesce(started_at, :now), lease_token = max(lease_token + 1, :floor), lease_via = 'api',
    revision = revision + 1, updated_at = :now
WHERE rowid IN (
    SELECT w.rowid FROM work_items w INDEXED BY idx_work_items_claim_task
    WHERE w.task_id = :task_id AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
      AND (:types IS NULL OR w.work_type IN (SELECT value FROM json_each(:types)))
      AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = w.work_type)
      AND NOT EXISTS (SELECT 1 FROM work_limits l WHERE :types IS NULL OR l.work_type IN (SELECT value FROM json_each(:types)))
      AND (SELECT t.status FROM tasks t WHERE t.task_id = :task_id) IN ('pending', 'running')
      AND (:is_promoted OR NOT EXISTS (SELECT 1 FROM work_items d INDEXED BY idx_work_items_due
                                       WHERE d.status = 'pending' AND d.run_after IS NOT NULL AND d.run_after <= :now))
    ORDER BY w.claim_key LIMIT :limit)
RETURNING work_item_id, task_id, work_type, input_data, lease_token, retry_count + 1, max_retries, priority,
          lease_expires_at, deadline_at, lease_acquired_at, claim_key, value_digest,
          (SELECT t.status FROM tasks t WHERE t.task_id = work_items.task_id) = 'pending';

-- statement: work_claim_task  engine: postgres
WITH clock AS MATERIALIZED (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at),
picked AS MATERIALIZED (
    SELECT r.entry, r.item_no, w.row
    FROM (SELECT r.ctid AS entry, r.item_no, r.work_type FROM work_ready r
          WHERE r.task_id = CAST(:task_id AS text)
            AND (SELECT t.status FROM tasks t WHERE t.task_id = CAST(:task_id AS text)) IN ('pending', 'running')
            AND NOT EXISTS (SELECT 1 FROM work_types l
                            WHERE l.is_limited
                              AND (CAST(:types AS jsonb) IS NULL
                                   OR l.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))))
            AND (CAST(:is_promoted AS boolean)
                 OR coalesce((SELECT min(d.at) FROM work_due d WHERE d.kind = 'delayed')
                             > (SELECT at FROM clock), true))
          ORDER BY r.claim_key LIMIT (SELECT 9223372036854775807) FOR UPDATE SKIP LOCKED) r
    CROSS JOIN LATERAL (
        SELECT w.ctid AS row FROM work_items w
        WHERE w.item_no = r.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
          AND (CAST(:types AS jsonb) IS NULL OR r.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
          AND (SELECT NOT y.is_paused FROM work_types y WHERE y.work_type = r.work_type)
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w
    LIMIT (SELECT CAST(:limit AS bigint))),
claimed AS (
    UPDATE work_items w
    SET status = 'in_progress', lease_holder = :worker, lease_acquired_at = c.at, heartbeat_at = c.at,
        deadline_at = c.at + w.timeout_us * interval '1 microsecond',
        lease_expires_at = c.at + least(CAST(:lease_us AS bigint), w.timeout_us) * interval '1 microsecond',
        started_at = coalesce(w.started_at, c.at), lease_token = greatest(w.lease_token + 1, :floor), lease_via = 'api',
        revision = w.revision + 2, updated_at = c.at
    FROM clock c WHERE w.ctid = ANY(ARRAY(SELECT row FROM picked))
    RETURNING w.work_item_id, w.task_id, w.work_type, w.input_data, w.lease_token, w.retry_count + 1 AS attempt,
              w.max_retries, w.priority, w.lease_expires_at, w.deadline_at, w.lease_acquired_at, w.claim_key,
              w.value_digest, w.item_no),
taken AS (
    DELETE FROM work_ready
    WHERE ctid = ANY(ARRAY(SELECT entry FROM picked WHERE item_no = ANY(ARRAY(SELECT item_no FROM claimed))))),
leased AS (
    INSERT INTO work_lease_ends (check_at, items)
    SELECT min(lease_expires_at), array_agg(item_no) FROM claimed HAVING count(*) > 0),
waiting AS MATERIALIZED (
    SELECT t.task_id FROM tasks t WHERE t.task_id = ANY(ARRAY(SELECT task_id FROM claimed)) AND t.status = 'pending'
    FOR NO KEY UPDATE SKIP LOCKED),
started AS (
    UPDATE tasks t SET status = 'running', updated_at = c.at, revision = t.revision + 1
    FROM waiting CROSS JOIN clock c WHERE t.task_id = waiting.task_id)
SELECT work_item_id, task_id, work_type, input_data, lease_token, attempt, max_retries, priority, lease_expires_at,
       deadline_at, lease_acquired_at, claim_key, value_digest, false
FROM claimed;

-- statement: work_run_tasks  only: sqlite
-- The first claim starts the task.
UPDATE tasks SET status = 'running', updated_at = :now, revision = revision + 1
WHERE task_id IN (SELECT value FROM json_each(:ids)) AND +status = 'pending';

-- statement: work_bounds_lock  only: postgres
-- Whoever makes an item ready holds his type's row FOR KEY SHARE. Locked by somebody: another time.
SELECT work_type FROM work_types WHERE CAST(:type AS text) IS NULL OR work_type = CAST(:type AS text)
ORDER BY work_type FOR UPDATE SKIP LOCKED;

-- statement: work_bounds_raise  only: postgres
-- In a later statement than the lock, so that everything ready is seen. Without anything ready: items from now on.
UPDATE work_types y SET low_key = b.low_key
FROM (SELECT t.work_type, coalesce((
          SELECT r.claim_key FROM work_ready r WHERE r.work_type = t.work_type AND r.claim_key >= t.low_key
          ORDER BY r.claim_key LIMIT 1), CAST(:now_us AS bigint)) AS low_key
      FROM work_types t WHERE t.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))) b
WHERE y.work_type = b.work_type AND y.low_key < b.low_key;

-- statement: work_bound_hold  only: postgres
-- work_bounds_lock and work_bounds_raise for one type, in one pipeline: the second knows by a setting of the transaction whether the
-- first has the lock. Where nothing is ready, nothing is locked or written: a claim in vain leaves no trace.
SELECT set_config('tidemark.bound', work_type, true)
FROM (SELECT y.work_type FROM work_types y
      WHERE y.work_type = CAST(:type AS text)
        AND EXISTS (SELECT 1 FROM work_ready r WHERE r.work_type = CAST(:type AS text) AND r.claim_key >= y.low_key)
      FOR UPDATE SKIP LOCKED) y;

-- statement: work_bound_raise  only: postgres
UPDATE work_types y SET low_key = b.low_key
FROM (SELECT r.claim_key AS low_key FROM work_ready r
      WHERE r.work_type = CAST(:type AS text)
        AND r.claim_key >= (SELECT t.low_key FROM work_types t WHERE t.work_type = CAST(:type AS text))
      ORDER BY r.claim_key LIMIT 1) b
WHERE y.work_type = CAST(:type AS text) AND y.low_key < b.low_key
  AND current_setting('tidemark.bound', true) = y.work_type
RETURNING y.work_type;

-- statement: work_ready_tidy  only: postgres
-- Entries at the front of a type whose row is not ready (each claim would pass them): deleted. An item that becomes ready
-- again gets a new entry. Only these are locked: a claim that deletes its own entries does not wait.
DELETE FROM work_ready WHERE ctid = ANY(ARRAY(
    SELECT r.entry
    FROM work_types y CROSS JOIN LATERAL (
        SELECT r.ctid AS entry, r.item_no FROM work_ready r
        WHERE r.work_type = y.work_type AND r.claim_key >= y.low_key ORDER BY r.claim_key LIMIT :limit) r
    CROSS JOIN LATERAL (SELECT 1 FROM work_ready e WHERE e.ctid = r.entry LIMIT 1 FOR UPDATE SKIP LOCKED) e
    WHERE (CAST(:type AS text) IS NULL OR y.work_type = CAST(:type AS text))
      AND NOT EXISTS (SELECT 1 FROM work_items w
                      WHERE w.item_no = r.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0)));

-- statement: work_lease_ends_tidy  only: postgres
-- Entries whose time has come: moved to the next end of a lease among their items, or deleted. Those with a lease that is
-- over stay for work_overdue. Returns how many were looked at.
WITH due AS MATERIALIZED (
    SELECT e.ctid AS entry, e.items FROM work_lease_ends e WHERE e.check_at <= :lease_now
    ORDER BY e.check_at LIMIT :limit FOR UPDATE SKIP LOCKED),
ends AS MATERIALIZED (
    SELECT d.entry, (SELECT min(w.lease_expires_at) FROM work_items w
                     WHERE w.item_no = ANY(d.items) AND w.status = 'in_progress') AS next_at FROM due d),
deleted AS (
    DELETE FROM work_lease_ends WHERE ctid = ANY(ARRAY(SELECT entry FROM ends WHERE next_at IS NULL))),
moved AS (
    UPDATE work_lease_ends l SET check_at = e.next_at
    FROM ends e WHERE l.ctid = e.entry AND l.ctid = ANY(ARRAY(SELECT entry FROM ends)) AND e.next_at > :lease_now)
SELECT count(*) FILTER (WHERE coalesce(next_at > :lease_now, true)) FROM ends;

-- ---- under a lease ----

-- statement: work_renew  engine: sqlite
-- Zero rows for an item: its lease was lost. One that is over is not renewed, even if nobody has taken it yet. (The
-- plus signs, and coalesce on PostgreSQL, leave no index but that of ids: the list is walked, not everything in progress.)
UPDATE work_items
SET heartbeat_at = :lease_now, lease_expires_at = min(:expires, coalesce(deadline_at, :expires)),
    revision = revision + 1, updated_at = :now
FROM json_each(:items) j
WHERE work_items.work_item_id = j.value ->> 'id' AND +work_items.lease_token = j.value ->> 'token'
  AND +work_items.status = 'in_progress' AND +work_items.lease_expires_at > :lease_now
RETURNING work_item_id, lease_token;

-- statement: work_renew  engine: postgres
UPDATE work_items w
SET heartbeat_at = c.at, updated_at = c.at,
    lease_expires_at = least(c.at + CAST(:lease_us AS bigint) * interval '1 microsecond', w.deadline_at),
    revision = w.revision + CASE WHEN w.lease_expires_at <= c.at + CAST(:lease_us AS bigint) * interval '1 microsecond'
                                 THEN 2 ELSE 1 END
FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x(id text, token bigint)
     CROSS JOIN (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at) c
WHERE w.work_item_id = x.id AND w.lease_token = x.token AND coalesce(w.status, '') = 'in_progress'
  AND w.lease_expires_at > c.at
RETURNING w.work_item_id, w.lease_token;

-- statement: work_hold  engine: sqlite
-- Is this token the effective holder? What the caller needs to go on.
SELECT task_id, work_type, retry_count, max_retries, failure_count, crash_count FROM work_items
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :lease_now;

-- statement: work_hold  engine: postgres
-- ... and until this transaction ends: nobody can renew, expire or cancel it meanwhile.
SELECT task_id, work_type, retry_count, max_retries, failure_count, crash_count FROM work_items
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress'
  AND lease_expires_at > coalesce(CAST(:clock AS timestamptz), clock_timestamp())
FOR NO KEY UPDATE;

-- statement: work_state
-- Why a token was refused.
SELECT status, lease_holder, lease_token, failure_kind FROM work_items WHERE work_item_id = :id;

-- statement: work_progress  engine: sqlite
UPDATE work_items SET progress = :progress, revision = revision + 1, updated_at = :now
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :lease_now;

-- statement: work_progress  engine: postgres
UPDATE work_items SET progress = :progress, revision = revision + 1,
                      updated_at = coalesce(CAST(:clock AS timestamptz), clock_timestamp())
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress'
  AND lease_expires_at > coalesce(CAST(:clock AS timestamptz), clock_timestamp());

-- statement: work_release  engine: sqlite
UPDATE work_items
SET status = 'pending', attempt_outcome = 'released', run_after = :run_after, error_message = NULL, lease_holder = NULL,
    lease_expires_at = NULL, lease_via = NULL, deadline_at = NULL, revision = revision + 1, updated_at = :now
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :lease_now
RETURNING work_type;

-- statement: work_release  engine: postgres
UPDATE work_items w
SET status = 'pending', attempt_outcome = 'released', error_message = NULL, lease_holder = NULL, lease_expires_at = NULL,
    run_after = CASE WHEN CAST(:delay_us AS bigint) > 0 THEN c.at + CAST(:delay_us AS bigint) * interval '1 microsecond' END,
    lease_via = NULL, deadline_at = NULL, revision = w.revision + 1, updated_at = c.at
FROM (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at) c
WHERE w.work_item_id = :id AND w.lease_token = :token AND w.status = 'in_progress' AND w.lease_expires_at > c.at
RETURNING w.work_type;

-- statement: work_finish_many  engine: sqlite
-- The last column: is there more to do? Items that waited for this one, idempotency keys that it left unanswered, or a slot that
-- is free now.
WITH list AS MATERIALIZED (SELECT value AS item FROM json_each(:items))
UPDATE work_items
SET status = 'completed', output_data = list.item ->> 'output',
    value_digest = (value_digest | list.item ->> 'digest') - (value_digest & list.item ->> 'digest'), attempt_outcome = 'completed', error_message = NULL,
    completed_at = :now, lease_holder = NULL, lease_expires_at = NULL, deadline_at = NULL,
    revision = revision + 1, updated_at = :now
FROM list
WHERE work_items.work_item_id = list.item ->> 'id' AND +work_items.lease_token = list.item ->> 'token'
  AND +work_items.status = 'in_progress' AND +work_items.lease_expires_at > :lease_now
RETURNING work_item_id, lease_token,
          has_dependents OR EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.work_item_id = work_items.work_item_id
                                      AND k.status = 'pending' AND k.lock_via = 'api')
          OR EXISTS (SELECT 1 FROM work_running r WHERE r.work_item_id = work_items.work_item_id);

-- statement: work_finish_many  engine: postgres
UPDATE work_items w
SET status = 'completed', output_data = x.output, value_digest = w.value_digest # x.digest, attempt_outcome = 'completed', error_message = NULL,
    completed_at = c.at, completed_by = w.lease_holder, lease_holder = NULL, lease_expires_at = NULL,
    deadline_at = NULL, updated_at = c.at,
    revision = w.revision + CASE WHEN w.has_dependents OR w.unique_key IS NOT NULL OR w.limit_key IS NOT NULL THEN 1 ELSE 2 END
FROM unnest(CAST(CAST(:ids AS text) AS text[]), CAST(CAST(:tokens AS text) AS bigint[]),
            CAST(CAST(:outputs AS text) AS text[]), CAST(CAST(:digests AS text) AS bigint[])) AS x(id, token, output, digest)
     CROSS JOIN (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at) c
WHERE w.work_item_id = x.id AND w.lease_token = x.token AND w.status = 'in_progress' AND w.lease_expires_at > c.at
RETURNING w.work_item_id, w.lease_token,
          w.has_dependents OR (w.work_item_id = ANY(ARRAY(
                                   SELECT k.work_item_id FROM idempotency_keys k
                                   WHERE k.work_item_id = ANY(CAST(CAST(:ids AS text) AS text[]))
                                     AND k.status = 'pending' AND k.lock_via = 'api'))
                               AND tide_work_keys_free(w.work_item_id))
          OR w.work_item_id = ANY(ARRAY(SELECT r.work_item_id FROM work_running r
                                        WHERE r.work_item_id = ANY(CAST(CAST(:ids AS text) AS text[]))));

-- statement: work_finish_one  engine: sqlite
UPDATE work_items
SET status = 'completed', output_data = :output,
    value_digest = (value_digest | :digest) - (value_digest & :digest), attempt_outcome = 'completed', error_message = NULL,
    completed_at = :now, lease_holder = NULL, lease_expires_at = NULL, deadline_at = NULL,
    revision = revision + 1, updated_at = :now
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :lease_now
RETURNING task_id,
          has_dependents OR EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.work_item_id = work_items.work_item_id
                                      AND k.status = 'pending' AND k.lock_via = 'api')
          OR EXISTS (SELECT 1 FROM work_running r WHERE r.work_item_id = work_items.work_item_id);

-- statement: work_finish_one  engine: postgres
-- :is_plain: nothing else ends with it, so the keys that it left unanswered are given back here.
UPDATE work_items w
SET status = 'completed', output_data = :output,
    value_digest = w.value_digest # CAST(:digest AS bigint), attempt_outcome = 'completed', error_message = NULL,
    completed_at = c.at, completed_by = w.lease_holder, lease_holder = NULL, lease_expires_at = NULL,
    deadline_at = NULL, updated_at = c.at,
    revision = w.revision + CASE WHEN w.has_dependents OR w.unique_key IS NOT NULL OR w.limit_key IS NOT NULL THEN 1 ELSE 2 END
FROM (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at) c
WHERE w.work_item_id = :id AND w.lease_token = :token AND w.status = 'in_progress' AND w.lease_expires_at > c.at
RETURNING w.task_id,
          w.has_dependents OR (EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.work_item_id = w.work_item_id
                                         AND k.status = 'pending' AND k.lock_via = 'api')
                               AND (NOT CAST(:is_plain AS boolean) OR tide_work_keys_free(w.work_item_id)))
          OR EXISTS (SELECT 1 FROM work_running r WHERE r.work_item_id = w.work_item_id);

-- statement: work_finished  engine: sqlite
-- Which of these were completed before, by this very token and with this very output? (Ended rows keep their token.)
SELECT w.work_item_id, w.lease_token FROM json_each(:items) j CROSS JOIN work_items w
WHERE w.work_item_id = j.value ->> 'id' AND w.lease_token = j.value ->> 'token' AND w.status = 'completed'
  AND w.output_data IS j.value ->> 'output';

-- statement: work_finished  engine: postgres
SELECT w.work_item_id, w.lease_token FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x(id text, token bigint, output text)
JOIN work_items w ON w.work_item_id = x.id
WHERE w.lease_token = x.token AND w.status = 'completed' AND w.output_data IS NOT DISTINCT FROM x.output;

-- statement: work_verify
-- A page of items with values, by id.
SELECT work_item_id, input_data, output_data, value_digest FROM work_items
WHERE work_item_id > :after AND (input_data IS NOT NULL OR output_data IS NOT NULL OR value_digest IS NOT NULL)
ORDER BY work_item_id LIMIT :limit;

-- statement: work_last_checkpoint
SELECT checkpoint_id, sequence_number, global_sequence FROM checkpoints
WHERE work_item_id = :id ORDER BY sequence_number DESC LIMIT 1;

-- statement: work_ready_dependents  engine: sqlite
-- The types of items that waited for these and are ready now, and of those whose slot is free now.
SELECT DISTINCT w.work_type FROM json_each(:ids) j CROSS JOIN work_dependencies d CROSS JOIN work_items w
WHERE d.depends_on = j.value AND w.work_item_id = d.work_item_id
  AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
UNION
SELECT r.work_type FROM json_each(:ids) j CROSS JOIN work_running r WHERE r.work_item_id = j.value;

-- statement: work_ready_dependents  engine: postgres
SELECT DISTINCT w.work_type FROM work_dependencies d JOIN work_items w ON w.work_item_id = d.work_item_id
WHERE d.depends_on IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
  AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
UNION
SELECT r.work_type FROM work_running r
WHERE r.work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- statement: work_fail
-- Behind work_hold, which has checked the token.
UPDATE work_items
SET status = CAST(:status AS text), retry_count = :retry_count, failure_count = failure_count + 1, run_after = :run_after,
    failure_kind = :failure_kind, attempt_outcome = 'failed', error_message = :error, lease_holder = NULL,
    lease_expires_at = NULL, lease_via = CASE CAST(:status AS text) WHEN 'failed' THEN lease_via END, deadline_at = NULL,
    completed_at = :completed_at, revision = revision + 1, updated_at = :now
WHERE work_item_id = :id AND lease_token = :token AND status = 'in_progress';

-- statement: work_failed
-- Has this token failed with this error before? Has the item ended with that, for good, and when does it run again otherwise?
SELECT w.status = 'failed' AND w.lease_token = a.lease_token, coalesce(w.failure_kind = 'error', false),
       CASE WHEN w.lease_token = a.lease_token THEN w.run_after END
FROM work_attempts a JOIN work_items w ON w.work_item_id = a.work_item_id
WHERE a.work_item_id = :id AND a.lease_token = :token AND a.outcome = 'failed' AND a.error_message = :error;

-- ---- decisions from outside ----

-- statement: work_cancel_many  engine: sqlite
UPDATE work_items
SET status = 'failed', failure_kind = 'cancelled', error_message = :reason,
    attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
    completed_at = :now, updated_at = :now, revision = revision + 1, lease_holder = NULL, lease_expires_at = NULL,
    run_after = NULL, lease_token = max(lease_token + 1, :floor)
WHERE work_item_id IN (SELECT value FROM json_each(:ids)) AND +status IN ('pending', 'in_progress', 'expired')
RETURNING work_item_id;

-- statement: work_cancel_many  engine: postgres
UPDATE work_items
SET status = 'failed', failure_kind = 'cancelled', error_message = :reason,
    attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
    completed_at = :now, updated_at = :now, revision = revision + 1, lease_holder = NULL, lease_expires_at = NULL,
    run_after = NULL, lease_token = greatest(lease_token + 1, :floor)
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
  AND coalesce(status, '') IN ('pending', 'in_progress', 'expired')
RETURNING work_item_id;

-- statement: work_reprioritise  engine: sqlite
UPDATE work_items SET priority = :priority, updated_at = :now, revision = revision + 1
WHERE work_item_id IN (SELECT value FROM json_each(:ids)) AND +status IN ('pending', 'in_progress', 'expired')
RETURNING work_item_id;

-- statement: work_reprioritise  engine: postgres
UPDATE work_items
SET priority = CAST(:priority AS bigint), updated_at = :now, revision = revision + 1,
    claim_key = claim_key + (priority - CAST(:priority AS bigint)) * 600000000
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
  AND coalesce(status, '') IN ('pending', 'in_progress', 'expired')
RETURNING work_item_id;

-- statement: work_copy
-- What a retry takes over from the item that has ended.
SELECT status, task_id, work_type, input_data, output_data, value_digest, priority, max_retries, timeout_us, unique_key, title,
       limit_key
FROM work_items WHERE work_item_id = :id;

-- statement: work_keys_free  engine: sqlite
-- Attempts ended: the idempotency keys of their items that they left unanswered are given back.
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE work_item_id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' AND lock_via = 'api';

-- statement: work_keys_free_finished  only: sqlite
-- The same behind plain finishes, in their transaction: those of the list that are completed by their token.
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE status = 'pending' AND lock_via = 'api' AND work_item_id IN (
    SELECT w.work_item_id FROM json_each(:items) j CROSS JOIN work_items w
    WHERE w.work_item_id = j.value ->> 'id' AND w.lease_token = j.value ->> 'token' AND w.status = 'completed');

-- statement: work_keys_free  engine: postgres
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))) AND status = 'pending' AND lock_via = 'api';

-- statement: work_keys_end  engine: sqlite
-- Attempts were ended from outside: what they did is unknown, so the locks are over and the keys' policies decide.
UPDATE idempotency_keys SET lock_expires_at = :lease_now, revision = revision + 1
WHERE work_item_id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' AND lock_via = 'api'
  AND lock_expires_at > :lease_now;

-- statement: work_keys_end  engine: postgres
UPDATE idempotency_keys SET lock_expires_at = :lease_now, revision = revision + 1
WHERE work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb))) AND status = 'pending'
  AND lock_via = 'api' AND lock_expires_at > :lease_now;

-- statement: work_dependencies_of
-- What an item depends on, as far as it still exists.
SELECT d.depends_on FROM work_dependencies d JOIN work_items w ON w.work_item_id = d.depends_on
WHERE d.work_item_id = :id ORDER BY d.depends_on;

-- statement: work_failed_dependents
-- What failed because it depends on this item.
SELECT w.work_item_id FROM work_dependencies d JOIN work_items w ON w.work_item_id = d.work_item_id
WHERE d.depends_on = :id AND w.status = 'failed' AND w.failure_kind = 'dependency' ORDER BY w.work_item_id;

-- statement: work_retried  engine: sqlite
-- Which of these were retried already.
SELECT DISTINCT retried_from FROM work_items WHERE retried_from IN (SELECT value FROM json_each(:ids));

-- statement: work_retried  engine: postgres
SELECT DISTINCT retried_from FROM work_items
WHERE retried_from IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- statement: work_lock  engine: sqlite
SELECT status FROM work_items WHERE work_item_id = :id;

-- statement: work_lock  engine: postgres
SELECT status FROM work_items WHERE work_item_id = :id FOR UPDATE;

-- statement: work_live_dependent
SELECT w.work_item_id FROM work_dependencies d JOIN work_items w ON w.work_item_id = d.work_item_id
WHERE d.depends_on = :id AND w.status IN ('pending', 'in_progress', 'expired') AND w.waits_for > 0
ORDER BY w.work_item_id LIMIT 1;

-- statement: work_delete
DELETE FROM work_items WHERE work_item_id = :id;

-- statement: work_pause  engine: sqlite
INSERT INTO work_types (work_type, is_paused, pause_reason, paused_at) VALUES (:type, 1, :reason, :now)
ON CONFLICT (work_type) DO UPDATE SET is_paused = 1, pause_reason = excluded.pause_reason,
    paused_at = CASE WHEN work_types.is_paused THEN work_types.paused_at ELSE excluded.paused_at END;

-- statement: work_pause  engine: postgres
INSERT INTO work_types (work_type, is_paused, pause_reason, paused_at) VALUES (:type, true, :reason, :now)
ON CONFLICT (work_type) DO UPDATE SET is_paused = true, pause_reason = excluded.pause_reason,
    paused_at = CASE WHEN work_types.is_paused THEN work_types.paused_at ELSE excluded.paused_at END;

-- statement: work_resume  engine: sqlite
UPDATE work_types SET is_paused = 0, pause_reason = NULL, paused_at = NULL WHERE work_type = :type AND is_paused;

-- statement: work_resume  engine: postgres
UPDATE work_types SET is_paused = false, pause_reason = NULL, paused_at = NULL WHERE work_type = :type AND is_paused;

-- statement: work_types_list
SELECT work_type, is_paused, pause_reason, paused_at FROM work_types ORDER BY work_type;

-- statement: policy_get
SELECT max_retries, backoff_us, backoff_max_us, no_retry FROM work_policies WHERE work_type = :type;

-- statement: policy_list
SELECT work_type, max_retries, backoff_us, backoff_max_us, no_retry FROM work_policies ORDER BY work_type;

-- statement: policy_set
INSERT INTO work_policies (work_type, max_retries, backoff_us, backoff_max_us, no_retry)
VALUES (:type, :max_retries, :backoff_us, :backoff_max_us, :no_retry)
ON CONFLICT (work_type) DO UPDATE SET max_retries = excluded.max_retries, backoff_us = excluded.backoff_us,
    backoff_max_us = excluded.backoff_max_us, no_retry = excluded.no_retry;

-- statement: policy_delete
DELETE FROM work_policies WHERE work_type = :type;

-- ---- looking ----

-- statement: work_find  engine: sqlite
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, rowid
FROM work_items WHERE work_item_id = :id;

-- statement: work_find  engine: postgres
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, 0
FROM work_items WHERE work_item_id = :id;

-- statement: work_list  engine: sqlite
-- Newest first, by the order of insertion; a page goes on behind :before_row.
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, rowid
FROM work_items
WHERE rowid < :before_row AND (:type IS NULL OR work_type = :type) AND (:status IS NULL OR status = :status)
  AND (:failure_kind IS NULL OR failure_kind = :failure_kind) AND (:worker IS NULL OR lease_holder = :worker)
  AND (:ended_since IS NULL OR completed_at >= :ended_since)
ORDER BY rowid DESC LIMIT :limit;

-- statement: work_list  engine: postgres
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, 0
FROM work_items
WHERE (CAST(:before_id AS text) IS NULL OR created_at < :before_at
       OR (created_at = :before_at AND work_item_id < CAST(:before_id AS text)))
  AND (CAST(:type AS text) IS NULL OR work_type = CAST(:type AS text))
  AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
  AND (CAST(:failure_kind AS text) IS NULL OR failure_kind = CAST(:failure_kind AS text))
  AND (CAST(:worker AS text) IS NULL OR lease_holder = CAST(:worker AS text))
  AND (CAST(:ended_since AS timestamptz) IS NULL OR completed_at >= :ended_since)
ORDER BY created_at DESC, work_item_id DESC LIMIT :limit;

-- statement: work_list_task  engine: sqlite
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, rowid
FROM work_items INDEXED BY idx_work_items_task
WHERE task_id = :task_id AND rowid < :before_row
  AND (:type IS NULL OR work_type = :type) AND (:status IS NULL OR status = :status)
  AND (:failure_kind IS NULL OR failure_kind = :failure_kind) AND (:worker IS NULL OR lease_holder = :worker)
  AND (:ended_since IS NULL OR completed_at >= :ended_since)
ORDER BY rowid DESC LIMIT :limit;

-- statement: work_list_task  engine: postgres
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, 0
FROM work_items
WHERE task_id = CAST(:task_id AS text)
  AND (CAST(:before_id AS text) IS NULL OR created_at < :before_at
       OR (created_at = :before_at AND work_item_id < CAST(:before_id AS text)))
  AND (CAST(:type AS text) IS NULL OR work_type = CAST(:type AS text))
  AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
  AND (CAST(:failure_kind AS text) IS NULL OR failure_kind = CAST(:failure_kind AS text))
  AND (CAST(:worker AS text) IS NULL OR lease_holder = CAST(:worker AS text))
  AND (CAST(:ended_since AS timestamptz) IS NULL OR completed_at >= :ended_since)
ORDER BY created_at DESC, work_item_id DESC LIMIT :limit;

-- statement: work_position  engine: sqlite
SELECT rowid, created_at FROM work_items WHERE work_item_id = :id;

-- statement: work_position  engine: postgres
SELECT 0, created_at FROM work_items WHERE work_item_id = :id;

-- statement: work_attempts_list
SELECT attempt, lease_token, worker, via, outcome, error_message, started_at, ended_at FROM work_attempts
WHERE work_item_id = :id AND lease_token > :after ORDER BY lease_token LIMIT :limit;

-- statement: work_explain
SELECT w.status, w.work_type, w.claim_key, w.lease_holder, w.lease_expires_at, w.run_after, w.waits_for, w.failure_kind,
       w.error_message, w.retry_count, w.max_retries, w.task_id, t.status, y.is_paused, y.pause_reason
FROM work_items w LEFT JOIN tasks t ON t.task_id = w.task_id LEFT JOIN work_types y ON y.work_type = w.work_type
WHERE w.work_item_id = :id;

-- statement: work_ahead  engine: sqlite
-- How many items of its type come first? Counted up to :limit.
SELECT count(*) FROM (
    SELECT 1 AS one FROM work_items WHERE work_type = :type AND claim_key < :claim_key
      AND status = 'pending' AND run_after IS NULL AND waits_for = 0 LIMIT :limit) a;

-- statement: work_ahead  engine: postgres
SELECT count(*) FROM (
    SELECT 1 AS one FROM work_ready WHERE work_type = :type AND claim_key < :claim_key LIMIT :limit) a;

-- statement: work_waits_on
SELECT d.depends_on, w.status FROM work_dependencies d LEFT JOIN work_items w ON w.work_item_id = d.depends_on
WHERE d.work_item_id = :id AND (w.status IS NULL OR w.status <> 'completed') ORDER BY d.depends_on LIMIT :limit;

-- statement: work_stats_items  engine: sqlite
SELECT work_type, status, count(*), avg((julianday(:now) - julianday(created_at)) * 86400.0)
FROM work_items GROUP BY work_type, status ORDER BY work_type, status;

-- statement: work_stats_items  engine: postgres
SELECT work_type, status, count(*), avg(CAST(extract(epoch FROM CAST(:now AS timestamptz) - created_at) AS double precision))
FROM work_items GROUP BY work_type, status ORDER BY work_type, status;

-- statement: work_stats_leases  engine: sqlite
SELECT count(*), count(CASE WHEN heartbeat_at < :stale_before THEN 1 END),
       avg((julianday(:lease_now) - julianday(heartbeat_at)) * 86400.0)
FROM work_items WHERE status = 'in_progress';

-- statement: work_stats_leases  engine: postgres
SELECT count(*), count(*) FILTER (WHERE heartbeat_at < :stale_before),
       avg(CAST(extract(epoch FROM CAST(:lease_now AS timestamptz) - heartbeat_at) AS double precision))
FROM work_items
WHERE item_no = ANY(ARRAY(SELECT DISTINCT i FROM work_lease_ends CROSS JOIN unnest(items) AS i)) AND status = 'in_progress';

-- statement: work_stats_tasks
SELECT task_id, count(*) AS checkpoint_count, max(sequence_number), min(created_at), max(created_at)
FROM checkpoints GROUP BY task_id ORDER BY checkpoint_count DESC, task_id LIMIT 10;

-- ---- looking after ----

-- statement: work_overdue  engine: sqlite
-- Leases that have run out.
SELECT work_item_id, task_id, work_type, lease_token, lease_holder, retry_count, max_retries, crash_count,
       deadline_at IS NOT NULL AND deadline_at <= :lease_now, lease_expires_at
FROM work_items INDEXED BY idx_work_items_lease_expiry
WHERE status = 'in_progress' AND lease_expires_at <= :lease_now ORDER BY lease_expires_at LIMIT :limit;

-- statement: work_overdue  engine: postgres
-- SKIP LOCKED lets sweeps pass each other, and renewals under way. Behind work_lease_ends_tidy the first entries have such items.
SELECT work_item_id, task_id, work_type, lease_token, lease_holder, retry_count, max_retries, crash_count,
       deadline_at IS NOT NULL AND deadline_at <= :lease_now, lease_expires_at
FROM work_items
WHERE item_no = ANY(ARRAY(
        SELECT i FROM (SELECT items FROM work_lease_ends WHERE check_at <= :lease_now ORDER BY check_at LIMIT 1000) e
        CROSS JOIN unnest(e.items) AS i))
  AND status = 'in_progress' AND lease_expires_at <= :lease_now
LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED;

-- statement: work_left_expired  engine: sqlite
-- Rows that plain SQL left in 'expired': nobody claims those. Their attempts are closed and counted already.
SELECT work_item_id, task_id, work_type, lease_token, lease_holder, retry_count, max_retries, crash_count, 0, lease_expires_at
FROM work_items INDEXED BY idx_work_items_expired WHERE status = 'expired' ORDER BY updated_at LIMIT :limit;

-- statement: work_left_expired  engine: postgres
SELECT w.work_item_id, w.task_id, w.work_type, w.lease_token, w.lease_holder, w.retry_count, w.max_retries, w.crash_count, false,
       w.lease_expires_at
FROM work_items w
WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM work_due WHERE kind = 'expired' ORDER BY at, item_no LIMIT :limit))
  AND w.status = 'expired'
ORDER BY w.created_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED;

-- statement: work_expire  engine: sqlite
-- The predicate stands here once more: a lease renewed a moment ago is left alone.
UPDATE work_items
SET status = j.value ->> 'status', retry_count = j.value ->> 'retry', crash_count = crash_count + (j.value ->> 'crash'),
    failure_count = failure_count + (j.value ->> 'failure'), failure_kind = j.value ->> 'kind',
    attempt_outcome = coalesce(j.value ->> 'outcome', attempt_outcome), error_message = j.value ->> 'error',
    run_after = j.value ->> 'after', completed_at = CASE j.value ->> 'status' WHEN 'failed' THEN :now END,
    lease_holder = NULL, lease_expires_at = NULL, lease_via = NULL, deadline_at = NULL,
    lease_token = max(lease_token + 1, :floor), revision = revision + 1, updated_at = :now
FROM json_each(:items) j
WHERE work_items.work_item_id = j.value ->> 'id' AND +work_items.lease_token = j.value ->> 'token'
  AND (+work_items.status = 'expired'
       OR (+work_items.status = 'in_progress' AND +work_items.lease_expires_at <= :lease_now))
RETURNING work_item_id;

-- statement: work_expire  engine: postgres
UPDATE work_items w
SET status = x.status, retry_count = x.retry, crash_count = w.crash_count + x.crash,
    failure_count = w.failure_count + x.failure, failure_kind = x.kind,
    attempt_outcome = coalesce(x.outcome, w.attempt_outcome), error_message = x.error, run_after = x.after,
    completed_at = CASE x.status WHEN 'failed' THEN CAST(:now AS timestamptz) END,
    lease_holder = NULL, lease_expires_at = NULL, lease_via = NULL, deadline_at = NULL,
    lease_token = greatest(w.lease_token + 1, :floor), revision = w.revision + 1, updated_at = :now
FROM jsonb_to_recordset(CAST(:items AS jsonb))
     AS x(id text, token bigint, status text, retry bigint, crash bigint, failure bigint, kind text, outcome text, error text,
          after timestamptz)
WHERE w.work_item_id = x.id AND w.lease_token = x.token
  AND (coalesce(w.status, '') = 'expired' OR (coalesce(w.status, '') = 'in_progress' AND w.lease_expires_at <= :lease_now))
RETURNING w.work_item_id;

-- statement: work_block  engine: sqlite
-- What depends on a failed item will never run.
UPDATE work_items
SET status = 'failed', failure_kind = 'dependency', completed_at = :now, updated_at = :now, revision = revision + 1,
    run_after = NULL, error_message = 'It depends on ' || (
        SELECT f.work_item_id FROM work_dependencies d JOIN work_items f ON f.work_item_id = d.depends_on
        WHERE d.work_item_id = work_items.work_item_id AND f.status = 'failed' LIMIT 1) || ', which failed'
WHERE +status = 'pending' AND rowid IN (
    SELECT w.rowid FROM work_items f CROSS JOIN work_dependencies d CROSS JOIN work_items w
    WHERE f.status = 'failed' AND f.has_dependents = 1 AND d.depends_on = f.work_item_id
      AND w.work_item_id = d.work_item_id AND w.status = 'pending'
    LIMIT :limit);

-- statement: work_block  engine: postgres
WITH hopeless AS MATERIALIZED (
    SELECT w.work_item_id, f.work_item_id AS failed
    FROM work_due x JOIN work_items f ON f.item_no = x.item_no JOIN work_dependencies d ON d.depends_on = f.work_item_id
    JOIN work_items w ON w.work_item_id = d.work_item_id
    WHERE x.kind = 'failed' AND f.status = 'failed' AND f.has_dependents AND w.status = 'pending'
    LIMIT :limit FOR NO KEY UPDATE OF w SKIP LOCKED)
UPDATE work_items w
SET status = 'failed', failure_kind = 'dependency', completed_at = :now, updated_at = :now, revision = w.revision + 1,
    run_after = NULL, error_message = 'It depends on ' || h.failed || ', which failed'
FROM hopeless h WHERE w.work_item_id = h.work_item_id;

-- statement: work_followed_up  engine: sqlite
-- Failed items that nothing live depends on any more need not be looked at again.
UPDATE work_items SET has_dependents = 0, revision = revision + 1, updated_at = :now
WHERE rowid IN (
    SELECT f.rowid FROM work_items f
    WHERE f.status = 'failed' AND f.has_dependents = 1
      AND NOT EXISTS (SELECT 1 FROM work_dependencies d CROSS JOIN work_items w
                      WHERE d.depends_on = f.work_item_id AND w.work_item_id = d.work_item_id
                        AND w.status IN ('pending', 'in_progress', 'expired'))
    LIMIT :limit);

-- statement: work_followed_up  engine: postgres
WITH done AS MATERIALIZED (
    SELECT f.item_no
    FROM work_due x JOIN work_items f ON f.item_no = x.item_no
    WHERE x.kind = 'failed' AND f.status = 'failed' AND f.has_dependents
      AND NOT EXISTS (SELECT 1 FROM work_dependencies d JOIN work_items w ON w.work_item_id = d.work_item_id
                      WHERE d.depends_on = f.work_item_id AND w.status IN ('pending', 'in_progress', 'expired'))
    LIMIT :limit FOR NO KEY UPDATE OF f SKIP LOCKED),
deleted AS (
    DELETE FROM work_due WHERE kind = 'failed' AND at = '1970-01-01 00:00:00+00'
                           AND item_no = ANY(ARRAY(SELECT item_no FROM done)))
UPDATE work_items f SET has_dependents = false, revision = f.revision + 1, updated_at = :now
WHERE f.item_no = ANY(ARRAY(SELECT item_no FROM done));

-- statement: work_look_after  engine: sqlite
-- What is there to do for a sweep? Asked in a read transaction, so that a sweep in vain writes nothing. Leases that ran
-- out; delayed items that are due; failed items that others depend on; schedules.
SELECT EXISTS (SELECT 1 FROM work_items INDEXED BY idx_work_items_lease_expiry
               WHERE status = 'in_progress' AND lease_expires_at <= :lease_now)
       OR EXISTS (SELECT 1 FROM work_items INDEXED BY idx_work_items_expired WHERE status = 'expired'),
       EXISTS (SELECT 1 FROM work_items INDEXED BY idx_work_items_due
               WHERE status = 'pending' AND run_after IS NOT NULL AND run_after <= :now),
       EXISTS (SELECT 1 FROM work_items WHERE status = 'failed' AND has_dependents = 1),
       EXISTS (SELECT 1 FROM work_schedules WHERE is_paused = 0 AND next_run_at <= :now);

-- statement: work_look_after  engine: postgres
-- Of leases: of the 20 entries that come first. More than that are worth a sweep also if their items were finished.
SELECT EXISTS (SELECT 1 FROM work_items
               WHERE item_no = ANY(ARRAY(
                       SELECT i FROM (SELECT items FROM work_lease_ends WHERE check_at <= :lease_now
                                      ORDER BY check_at LIMIT 20) e CROSS JOIN unnest(e.items) AS i))
                 AND status = 'in_progress' AND lease_expires_at <= :lease_now)
       OR EXISTS (SELECT 1 FROM work_lease_ends WHERE check_at <= :lease_now ORDER BY check_at OFFSET 20 LIMIT 1)
       OR EXISTS (SELECT 1 FROM work_due WHERE kind = 'expired'),
       EXISTS (SELECT 1 FROM work_due WHERE kind = 'delayed' AND at <= :now),
       EXISTS (SELECT 1 FROM work_due WHERE kind = 'failed'),
       EXISTS (SELECT 1 FROM work_schedules WHERE NOT is_paused AND next_run_at <= :now);

-- statement: work_next_sweep  engine: sqlite
-- When will a sweep have something to do? The earliest end of a lease, due item and schedule after now, each from the front
-- of its index.
SELECT (SELECT min(lease_expires_at) FROM work_items INDEXED BY idx_work_items_lease_expiry
        WHERE status = 'in_progress' AND lease_expires_at > :lease_now),
       (SELECT min(run_after) FROM work_items INDEXED BY idx_work_items_due
        WHERE status = 'pending' AND run_after IS NOT NULL AND run_after > :now),
       (SELECT min(next_run_at) FROM work_schedules WHERE is_paused = 0 AND next_run_at > :now);

-- statement: work_next_sweep  engine: postgres
-- Of leases: the first end among the 20 entries that come first, or the entry behind them.
SELECT least((SELECT min(lease_expires_at) FROM work_items
              WHERE item_no = ANY(ARRAY(
                      SELECT i FROM (SELECT items FROM work_lease_ends ORDER BY check_at LIMIT 20) e
                      CROSS JOIN unnest(e.items) AS i))
                AND status = 'in_progress' AND lease_expires_at > :lease_now),
             (SELECT greatest(check_at, :lease_now) FROM work_lease_ends ORDER BY check_at OFFSET 20 LIMIT 1)),
       (SELECT min(at) FROM work_due WHERE kind = 'delayed' AND at > :now),
       (SELECT min(next_run_at) FROM work_schedules WHERE NOT is_paused AND next_run_at > :now);

-- statement: work_look_strayed  engine: sqlite
-- Was the clock set back? Back-offs and schedules that were written while it was ahead (later than :ahead, which is more
-- than they may be off by themselves) would wait for time that has been taken back. Items: of the :limit that wait longest.
SELECT EXISTS (SELECT 1 FROM (SELECT updated_at, attempt_outcome FROM work_items INDEXED BY idx_work_items_due
                              WHERE status = 'pending' AND run_after IS NOT NULL ORDER BY run_after DESC LIMIT :limit) d
               WHERE d.updated_at > :ahead AND d.attempt_outcome IS NOT NULL),
       EXISTS (SELECT 1 FROM work_schedules WHERE is_paused = 0 AND coalesce(last_run_at, created_at) > :ahead);

-- statement: work_look_strayed  engine: postgres
SELECT EXISTS (SELECT 1 FROM work_items w
               WHERE w.item_no = ANY(ARRAY(
                       SELECT item_no FROM work_due WHERE kind = 'delayed' ORDER BY at DESC LIMIT :limit))
                 AND w.status = 'pending' AND w.run_after IS NOT NULL AND w.updated_at > :ahead
                 AND w.attempt_outcome IS NOT NULL),
       EXISTS (SELECT 1 FROM work_schedules WHERE NOT is_paused AND coalesce(last_run_at, created_at) > :ahead);

-- statement: work_pull_in  engine: sqlite
-- They have waited long enough. (An item that was never tried waits for a time that somebody named.)
UPDATE work_items SET run_after = NULL, revision = revision + 1, updated_at = :now
WHERE rowid IN (SELECT d.id FROM (SELECT rowid AS id, updated_at, attempt_outcome FROM work_items INDEXED BY idx_work_items_due
                                  WHERE status = 'pending' AND run_after IS NOT NULL ORDER BY run_after DESC LIMIT :limit) d
                WHERE d.updated_at > :ahead AND d.attempt_outcome IS NOT NULL)
RETURNING work_type;

-- statement: work_pull_in  engine: postgres
WITH strayed AS MATERIALIZED (
    SELECT w.item_no FROM work_items w
    WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM work_due WHERE kind = 'delayed' ORDER BY at DESC LIMIT :limit))
      AND w.status = 'pending' AND w.run_after IS NOT NULL AND w.updated_at > :ahead AND w.attempt_outcome IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED)
UPDATE work_items w SET run_after = NULL, revision = w.revision + 1, updated_at = :now
WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM strayed))
RETURNING w.work_type;

-- statement: work_clean  engine: sqlite
-- Their checkpoints stay. What a sweep has still to follow up stays, too.
DELETE FROM work_items WHERE rowid IN (
    SELECT rowid FROM work_items INDEXED BY idx_work_items_ended
    WHERE status IN ('completed', 'failed') AND updated_at < :before AND NOT (status = 'failed' AND has_dependents)
    ORDER BY updated_at LIMIT :limit);

-- statement: work_clean  engine: postgres
-- Items in the order in which they were added, :walk of them behind :after: those that ended long enough ago are deleted. The
-- walk is over at the end, or where all are younger. Returns how many it deleted, where it came to, and whether it is over.
WITH walked AS MATERIALIZED (
    SELECT w.item_no, least(w.created_at, w.completed_at) AS made_at FROM work_items w WHERE w.item_no > :after ORDER BY w.item_no LIMIT :walk),
old AS MATERIALIZED (
    SELECT w.item_no FROM work_items w
    WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM walked))
      AND w.status IN ('completed', 'failed') AND w.completed_at < :before
      AND NOT (w.status = 'failed' AND w.has_dependents)
    ORDER BY w.item_no LIMIT :limit FOR UPDATE SKIP LOCKED),
deleted AS (
    DELETE FROM work_items w WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM old)) RETURNING w.item_no)
SELECT (SELECT count(*) FROM deleted),
       CASE WHEN (SELECT count(*) FROM old) = :limit THEN (SELECT max(item_no) FROM old)
            ELSE (SELECT coalesce(max(item_no), :after) FROM walked) END,
       (SELECT count(*) FROM old) < :limit
       AND ((SELECT count(*) FROM walked) < :walk OR NOT EXISTS (SELECT 1 FROM walked WHERE made_at < :before));

-- statement: work_entries_check  only: postgres
-- Rows without the entry that they need (docs/internals/work-layout.md), up to :limit. An entry without its row does no harm.
SELECT x.work_item_id, x.kind FROM (
    SELECT w.work_item_id, 'work_ready' AS kind FROM work_items w
    WHERE w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
      AND NOT EXISTS (SELECT 1 FROM work_ready r
                      WHERE r.work_type = w.work_type AND r.claim_key = w.claim_key AND r.item_no = w.item_no)
    UNION ALL
    SELECT w.work_item_id, 'work_due' FROM work_items w
    WHERE ((w.status = 'pending' AND w.run_after IS NOT NULL) OR w.status = 'expired'
           OR (w.status = 'failed' AND w.has_dependents))
      AND NOT EXISTS (SELECT 1 FROM work_due d
                      WHERE d.kind = CASE w.status WHEN 'pending' THEN 'delayed' ELSE w.status END
                        AND d.at = CASE w.status WHEN 'pending' THEN w.run_after ELSE '1970-01-01 00:00:00+00' END
                        AND d.item_no = w.item_no)
    UNION ALL
    SELECT w.work_item_id, 'work_unique_keys' FROM work_items w
    WHERE w.unique_key IS NOT NULL AND w.status IN ('pending', 'in_progress', 'expired')
      AND NOT EXISTS (SELECT 1 FROM work_unique_keys u
                      WHERE u.work_type = w.work_type AND u.unique_key = w.unique_key AND u.item_no = w.item_no)
    UNION ALL
    SELECT w.work_item_id, 'work_lease_ends' FROM work_items w
    WHERE w.status = 'in_progress'
      AND NOT EXISTS (SELECT 1 FROM (SELECT unnest(items) AS item_no, check_at FROM work_lease_ends) l
                      WHERE l.item_no = w.item_no AND l.check_at <= w.lease_expires_at)
    UNION ALL
    SELECT w.work_item_id, 'work_keyed' FROM work_items w
    WHERE w.limit_key IS NOT NULL AND w.status IN ('pending', 'in_progress', 'expired')
      AND NOT EXISTS (SELECT 1 FROM work_keyed e WHERE e.work_type = w.work_type AND e.limit_key = w.limit_key
                                                   AND e.claim_key = w.claim_key AND e.item_no = w.item_no)) x
LIMIT :limit;

-- statement: work_vacuum  only: sqlite
-- Give pages that became free back to the file system, a bounded number at a time.
PRAGMA incremental_vacuum(256);

-- ---- schedules ----

-- statement: schedule_find
SELECT name, task_id, work_type, cron, every_us, input_data, priority, max_retries, timeout_us, is_paused, next_run_at,
       last_run_at, run_count, time_zone
FROM work_schedules WHERE name = :name;

-- statement: schedule_list
SELECT name, task_id, work_type, cron, every_us, input_data, priority, max_retries, timeout_us, is_paused, next_run_at,
       last_run_at, run_count, time_zone
FROM work_schedules WHERE name > :after ORDER BY name LIMIT :limit;

-- statement: schedule_add
INSERT INTO work_schedules (name, task_id, work_type, cron, every_us, input_data, priority, max_retries, timeout_us,
                            next_run_at, created_at, time_zone)
VALUES (:name, :task_id, :work_type, :cron, :every_us, :input, :priority, :max_retries, :timeout_us, :next, :now,
        :time_zone)
ON CONFLICT (name) DO NOTHING;

-- statement: schedule_update  engine: sqlite
-- All that can change; what the caller leaves as it was has just been read in the same transaction.
UPDATE work_schedules
SET work_type = :work_type, cron = :cron, every_us = :every_us, time_zone = :time_zone, input_data = :input,
    priority = :priority, max_retries = :max_retries, timeout_us = :timeout_us, next_run_at = :next
WHERE name = :name;

-- statement: schedule_update  engine: postgres
UPDATE work_schedules
SET work_type = CAST(:work_type AS text), cron = CAST(:cron AS text), every_us = CAST(:every_us AS bigint),
    time_zone = CAST(:time_zone AS text), input_data = CAST(:input AS text), priority = CAST(:priority AS bigint),
    max_retries = CAST(:max_retries AS bigint), timeout_us = CAST(:timeout_us AS bigint), next_run_at = :next
WHERE name = :name;

-- statement: schedule_lock  engine: sqlite
SELECT 1 FROM work_schedules WHERE name = :name;

-- statement: schedule_lock  engine: postgres
SELECT 1 FROM work_schedules WHERE name = :name FOR UPDATE;

-- statement: schedule_due  engine: sqlite
SELECT s.name, s.task_id, s.work_type, s.cron, s.every_us, s.input_data, s.priority, s.max_retries, s.timeout_us, s.is_paused,
       s.next_run_at, s.last_run_at, s.run_count, s.time_zone
FROM work_schedules s JOIN tasks t ON t.task_id = s.task_id
WHERE s.is_paused = 0 AND s.next_run_at <= :now AND t.status IN ('pending', 'running')
ORDER BY s.next_run_at LIMIT :limit;

-- statement: schedule_due  engine: postgres
SELECT s.name, s.task_id, s.work_type, s.cron, s.every_us, s.input_data, s.priority, s.max_retries, s.timeout_us, s.is_paused,
       s.next_run_at, s.last_run_at, s.run_count, s.time_zone
FROM work_schedules s JOIN tasks t ON t.task_id = s.task_id
WHERE NOT s.is_paused AND s.next_run_at <= :now AND t.status IN ('pending', 'running')
ORDER BY s.next_run_at LIMIT :limit FOR UPDATE OF s SKIP LOCKED;

-- statement: schedule_advance  engine: sqlite
-- Compare and set: the item of a time is made by whoever moves the schedule on, in the same transaction.
-- Plain SQL may write a time with fewer digits than we do.
UPDATE work_schedules SET next_run_at = :next, last_run_at = :now, run_count = run_count + 1
WHERE name = :name AND substr(next_run_at || CASE length(next_run_at) WHEN 19 THEN '.000000' ELSE '000000' END, 1, 26) = :due;

-- statement: schedule_advance  engine: postgres
UPDATE work_schedules SET next_run_at = :next, last_run_at = :now, run_count = run_count + 1
WHERE name = :name AND next_run_at = :due;

-- statement: schedule_strayed  engine: sqlite
-- Those that ran, or were made, while the clock was ahead of what it is now.
SELECT s.name, s.task_id, s.work_type, s.cron, s.every_us, s.input_data, s.priority, s.max_retries, s.timeout_us, s.is_paused,
       s.next_run_at, s.last_run_at, s.run_count, s.time_zone
FROM work_schedules s WHERE s.is_paused = 0 AND coalesce(s.last_run_at, s.created_at) > :ahead
ORDER BY s.name LIMIT :limit;

-- statement: schedule_strayed  engine: postgres
SELECT s.name, s.task_id, s.work_type, s.cron, s.every_us, s.input_data, s.priority, s.max_retries, s.timeout_us, s.is_paused,
       s.next_run_at, s.last_run_at, s.run_count, s.time_zone
FROM work_schedules s WHERE NOT s.is_paused AND coalesce(s.last_run_at, s.created_at) > :ahead
ORDER BY s.name LIMIT :limit FOR UPDATE OF s SKIP LOCKED;

-- statement: schedule_pull_in  engine: sqlite
-- Plain SQL may write a time with fewer digits than we do.
UPDATE work_schedules
SET next_run_at = :next, last_run_at = :last,
    created_at = CASE WHEN created_at > :now THEN :now ELSE created_at END
WHERE name = :name AND substr(next_run_at || CASE length(next_run_at) WHEN 19 THEN '.000000' ELSE '000000' END, 1, 26) = :due;

-- statement: schedule_pull_in  engine: postgres
UPDATE work_schedules
SET next_run_at = :next, last_run_at = :last,
    created_at = CASE WHEN created_at > :now THEN :now ELSE created_at END
WHERE name = :name AND next_run_at = :due;

-- statement: schedule_pause
UPDATE work_schedules SET is_paused = :is_paused, next_run_at = :next WHERE name = :name;

-- statement: schedule_remove
DELETE FROM work_schedules WHERE name = :name;

-- ---- resuming ----

-- statement: task_resume_items  engine: sqlite
-- What is unfinished and held by nobody.
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, rowid
FROM work_items
WHERE task_id = :task_id
  AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND lease_expires_at <= :lease_now))
ORDER BY claim_key, rowid;

-- statement: task_resume_items  engine: postgres
SELECT work_item_id, task_id, work_type, status, priority, lease_holder, lease_acquired_at, lease_expires_at, heartbeat_at,
       retry_count, max_retries, input_data, output_data, error_message, created_at, started_at, completed_at, updated_at,
       lease_token, lease_via, revision, run_after, unique_key, timeout_us, deadline_at, failure_count, crash_count,
       failure_kind, attempt_outcome, progress, retried_from, schedule_name, waits_for, has_dependents, claim_key, title,
       limit_key, value_digest, 0
FROM work_items
WHERE task_id = :task_id
  AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND lease_expires_at <= :lease_now))
ORDER BY claim_key, work_item_id;

-- statement: task_last_end
-- The newest iteration_end among these numbers of a task, and how many there are.
SELECT global_sequence, sequence_number FROM checkpoints
WHERE task_id = :task_id AND sequence_number > :low AND sequence_number <= :high AND checkpoint_type = 'iteration_end'
ORDER BY sequence_number DESC LIMIT 1;

-- statement: task_count_ends
SELECT count(*) FROM checkpoints
WHERE task_id = :task_id AND sequence_number > :low AND sequence_number <= :high AND checkpoint_type = 'iteration_end';

-- statement: task_later
-- What was done behind it and need not be done again.
SELECT global_sequence FROM checkpoints
WHERE task_id = :task_id AND sequence_number > :low AND sequence_number <= :high
  AND checkpoint_type IN ('tool_executed', 'llm_response')
ORDER BY sequence_number LIMIT :limit;

-- statement: task_answers
-- Completed responses of the task's keys.
SELECT idempotency_key, task_id, work_item_id, request_hash, status, lock_holder, takeover, response_data, value_digest, lock_token,
       attempts, created_at, completed_at, expires_at
FROM idempotency_keys
WHERE task_id = :task_id AND status = 'completed' AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, idempotency_key;
