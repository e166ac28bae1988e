-- Limits of how many items of a type run at once: see work/limit/limit.h.

-- statement: limit_find
SELECT l.running, l.running_per_key,
       (SELECT count(*) FROM work_running r JOIN work_items w ON w.work_item_id = r.work_item_id
        WHERE r.work_type = l.work_type AND w.status = 'in_progress')
FROM work_limits l WHERE l.work_type = :type;

-- statement: limit_insert
INSERT INTO work_limits (work_type, running, running_per_key) VALUES (:type, :running, :running_per_key)
ON CONFLICT (work_type) DO UPDATE SET running = excluded.running, running_per_key = excluded.running_per_key;

-- statement: limit_update  engine: sqlite
UPDATE work_limits SET running = :running, running_per_key = :running_per_key WHERE work_type = :type;

-- statement: limit_update  engine: postgres
UPDATE work_limits SET running = CAST(:running AS bigint), running_per_key = CAST(:running_per_key AS bigint)
WHERE work_type = :type;

-- statement: limit_delete
DELETE FROM work_limits WHERE work_type = :type;

-- statement: limits_lock  engine: sqlite
-- The limits of these types (NULL: all).
SELECT work_type, running, running_per_key, is_settled FROM work_limits
WHERE :types IS NULL OR work_type IN (SELECT value FROM json_each(:types)) ORDER BY work_type;

-- statement: limits_lock  engine: postgres
-- ... until this transaction ends: no other claim of these types passes meanwhile, so what is counted stays so.
SELECT work_type, running, running_per_key, is_settled FROM work_limits
WHERE CAST(:types AS jsonb) IS NULL OR work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))
ORDER BY work_type FOR UPDATE;

-- statement: limit_settle  only: postgres
-- What ran already when the limit was set. (On SQLite a trigger does it.)
WITH found AS (
    INSERT INTO work_running (work_item_id, work_type, limit_key)
    SELECT w.work_item_id, w.work_type, w.limit_key FROM work_items w
    WHERE w.item_no = ANY(ARRAY(SELECT DISTINCT i FROM work_lease_ends CROSS JOIN unnest(items) AS i))
      AND w.status = 'in_progress' AND w.work_type = CAST(:type AS text)
    ON CONFLICT (work_item_id) DO NOTHING)
UPDATE work_limits SET is_settled = true WHERE work_type = CAST(:type AS text);

-- statement: running_add  engine: sqlite
-- The slots of what was just claimed.
INSERT INTO work_running (work_item_id, work_type, limit_key)
SELECT w.work_item_id, w.work_type, w.limit_key FROM work_items w
WHERE w.work_item_id IN (SELECT value FROM json_each(:ids))
  AND EXISTS (SELECT 1 FROM work_limits l WHERE l.work_type = w.work_type)
ON CONFLICT (work_item_id) DO UPDATE SET work_type = excluded.work_type, limit_key = excluded.limit_key;

-- statement: running_add  engine: postgres
INSERT INTO work_running (work_item_id, work_type, limit_key)
SELECT w.work_item_id, w.work_type, w.limit_key FROM work_items w
WHERE w.work_item_id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)))
  AND EXISTS (SELECT 1 FROM work_limits l WHERE l.work_type = w.work_type)
ON CONFLICT (work_item_id) DO UPDATE SET work_type = excluded.work_type, limit_key = excluded.limit_key;

-- statement: running_prune  engine: sqlite
-- Slots of items that are not in progress any more.
DELETE FROM work_running
WHERE work_type IN (SELECT value FROM json_each(:types))
  AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.work_item_id = work_running.work_item_id AND w.status = 'in_progress');

-- statement: running_prune  engine: postgres
DELETE FROM work_running r
WHERE r.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb)))
  AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.work_item_id = r.work_item_id AND w.status = 'in_progress');

-- statement: work_claim_limited  engine: sqlite
-- The first ones of several types (NULL: all), or of a task, as far as there are slots: of the type (room), and of the key. Of each
-- type the :reach first ones are looked at; with :is_by_key instead the first ones of each key that has a slot.
WITH RECURSIVE slots (work_type, limit_key, used) AS MATERIALIZED (
    SELECT work_type, limit_key, count(*) FROM work_running GROUP BY work_type, limit_key),
types (work_type, room, per_key) AS MATERIALIZED (
    SELECT y.work_type,
           coalesce(l.running - (SELECT coalesce(sum(s.used), 0) FROM slots s WHERE s.work_type = y.work_type), :limit),
           l.running_per_key
    FROM work_types y LEFT JOIN work_limits l ON l.work_type = y.work_type
    WHERE NOT y.is_paused AND (:types IS NULL OR y.work_type IN (SELECT value FROM json_each(:types)))),
keys (work_type, limit_key) AS (
    SELECT t.work_type, (SELECT min(w.limit_key) FROM work_items w INDEXED BY idx_work_items_limit
                         WHERE w.work_type = t.work_type AND w.limit_key IS NOT NULL
                           AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0)
    FROM types t WHERE :is_by_key AND t.per_key IS NOT NULL AND t.room > 0
    UNION ALL
    SELECT k.work_type, (SELECT min(w.limit_key) FROM work_items w INDEXED BY idx_work_items_limit
                         WHERE w.work_type = k.work_type AND w.limit_key > k.limit_key
                           AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0)
    FROM keys k WHERE k.limit_key IS NOT NULL),
walked (row) AS (
    SELECT h.value
    FROM types t CROSS JOIN json_each((
        SELECT json_group_array(row) FROM (
            SELECT w.rowid AS row FROM work_items w INDEXED BY idx_work_items_claim
            WHERE w.work_type = t.work_type AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
            ORDER BY w.claim_key LIMIT :reach))) h
    WHERE NOT :is_by_key AND :task_id IS NULL AND t.room > 0
    UNION ALL
    SELECT row FROM (
        SELECT w.rowid AS row FROM work_items w INDEXED BY idx_work_items_claim_task
        WHERE w.task_id = :task_id AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
        ORDER BY w.claim_key LIMIT :reach)
    UNION ALL
    SELECT h.value
    FROM keys k CROSS JOIN types t ON t.work_type = k.work_type CROSS JOIN json_each((
        SELECT json_group_array(row) FROM (
            SELECT w.rowid AS row FROM work_items w INDEXED BY idx_work_items_limit
            WHERE w.work_type = k.work_type AND w.limit_key = k.limit_key
              AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
              AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
            ORDER BY w.claim_key LIMIT :limit))) h
    WHERE k.limit_key IS NOT NULL
      AND t.per_key > coalesce((SELECT s.used FROM slots s
                                WHERE s.work_type = k.work_type AND s.limit_key = k.limit_key), 0)),
by_key AS (
    SELECT w.rowid AS row, w.work_type, w.limit_key, w.claim_key, t.room, t.per_key,
           row_number() OVER (PARTITION BY w.work_type, w.limit_key ORDER BY w.claim_key, w.rowid) AS place
    FROM walked d CROSS JOIN work_items w ON w.rowid = d.row CROSS JOIN types t ON t.work_type = w.work_type
    WHERE t.room > 0 AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')),
by_type AS (
    SELECT b.row, b.claim_key, b.room,
           row_number() OVER (PARTITION BY b.work_type ORDER BY b.claim_key, b.row) AS place
    FROM by_key b
    WHERE b.per_key IS NULL OR b.limit_key IS NULL
       OR b.place <= b.per_key - coalesce((SELECT s.used FROM slots s
                                           WHERE s.work_type = b.work_type AND s.limit_key = b.limit_key), 0))
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
WHERE rowid IN (SELECT row FROM by_type WHERE place <= room ORDER BY claim_key, row LIMIT :limit)
RETURNING work_item_id, task_id, work_type, input_data, lease_token, retry_count + 1, max_retries, priority,
          lease_expires_at, deadline_at, lease_acquired_at, claim_key, value_digest,
          (SELECT t.status FROM tasks t WHERE t.task_id = work_items.task_id) = 'pending';

-- statement: work_claim_limited  engine: postgres
-- A type whose limit this transaction does not hold (:locked) was limited a moment ago: another time.
WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce(CAST(:clock AS timestamptz), clock_timestamp()) AS at),
slots AS MATERIALIZED (
    SELECT work_type, limit_key, count(*) AS used FROM work_running GROUP BY work_type, limit_key),
types AS MATERIALIZED (
    SELECT y.work_type, y.low_key, l.running_per_key AS per_key,
           coalesce(l.running - (SELECT coalesce(sum(s.used), 0) FROM slots s WHERE s.work_type = y.work_type),
                    CAST(:limit AS bigint)) AS room
    FROM work_types y LEFT JOIN work_limits l ON l.work_type = y.work_type
    WHERE NOT y.is_paused
      AND (CAST(:types AS jsonb) IS NULL OR y.work_type IN (SELECT jsonb_array_elements_text(CAST(:types AS jsonb))))
      AND (NOT y.is_limited OR y.work_type IN (SELECT jsonb_array_elements_text(CAST(:locked AS jsonb))))),
keys AS (
    SELECT t.work_type, (SELECT min(e.limit_key) FROM work_keyed e WHERE e.work_type = t.work_type) AS limit_key
    FROM types t WHERE CAST(:is_by_key AS boolean) AND t.per_key IS NOT NULL AND t.room > 0
    UNION ALL
    SELECT k.work_type, (SELECT min(e.limit_key) FROM work_keyed e
                         WHERE e.work_type = k.work_type AND e.limit_key > k.limit_key)
    FROM keys k WHERE k.limit_key IS NOT NULL),
walked AS MATERIALIZED (
    SELECT r.item_no
    FROM types t CROSS JOIN LATERAL (
        SELECT r.item_no FROM work_ready r WHERE r.work_type = t.work_type AND r.claim_key >= t.low_key
        ORDER BY r.claim_key LIMIT (SELECT CAST(:reach AS bigint))) r
    WHERE NOT CAST(:is_by_key AS boolean) AND CAST(:task_id AS text) IS NULL AND t.room > 0
    UNION ALL
    SELECT r.item_no FROM (
        SELECT r.item_no FROM work_ready r WHERE r.task_id = CAST(:task_id AS text)
        ORDER BY r.claim_key LIMIT (SELECT CAST(:reach AS bigint))) r
    UNION ALL
    SELECT e.item_no
    FROM keys k JOIN types t ON t.work_type = k.work_type CROSS JOIN LATERAL (
        SELECT e.item_no FROM work_keyed e JOIN work_items w ON w.item_no = e.item_no
        WHERE e.work_type = k.work_type AND e.limit_key = k.limit_key
          AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
          AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')
        ORDER BY e.claim_key LIMIT (SELECT CAST(:limit AS bigint))) e
    WHERE k.limit_key IS NOT NULL
      AND t.per_key > coalesce((SELECT s.used FROM slots s
                                WHERE s.work_type = k.work_type AND s.limit_key = k.limit_key), 0)),
by_key AS (
    SELECT w.item_no, w.work_type, w.limit_key, w.claim_key, t.room, t.per_key,
           row_number() OVER (PARTITION BY w.work_type, w.limit_key ORDER BY w.claim_key, w.item_no) AS place
    FROM work_items w JOIN types t ON t.work_type = w.work_type
    WHERE w.item_no = ANY(ARRAY(SELECT item_no FROM walked)) AND t.room > 0
      AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
      AND (SELECT t.status FROM tasks t WHERE t.task_id = w.task_id) IN ('pending', 'running')),
by_type AS (
    SELECT b.item_no, b.work_type, b.claim_key, b.room,
           row_number() OVER (PARTITION BY b.work_type ORDER BY b.claim_key, b.item_no) AS place
    FROM by_key b
    WHERE b.per_key IS NULL OR b.limit_key IS NULL
       OR b.place <= b.per_key - coalesce((SELECT s.used FROM slots s
                                           WHERE s.work_type = b.work_type AND s.limit_key = b.limit_key), 0)),
picked AS MATERIALIZED (
    SELECT r.entry, b.item_no, w.row
    FROM (SELECT item_no, work_type, claim_key FROM by_type WHERE place <= room
          ORDER BY claim_key, item_no LIMIT (SELECT CAST(:limit AS bigint))) b
    CROSS JOIN LATERAL (
        SELECT r.ctid AS entry FROM work_ready r
        WHERE r.work_type = b.work_type AND r.claim_key = b.claim_key AND r.item_no = b.item_no
        LIMIT 1) r
    CROSS JOIN LATERAL (
        SELECT w.ctid AS row FROM work_items w
        WHERE w.item_no = b.item_no AND w.status = 'pending' AND w.run_after IS NULL AND w.waits_for = 0
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w),
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

-- statement: limit_explain
-- The limits of an item's type, how many of the type and of its key run, and its key.
SELECT l.running, l.running_per_key,
       (SELECT count(*) FROM work_running r JOIN work_items i ON i.work_item_id = r.work_item_id
        WHERE r.work_type = w.work_type AND i.status = 'in_progress'),
       (SELECT count(*) FROM work_running r JOIN work_items i ON i.work_item_id = r.work_item_id
        WHERE r.work_type = w.work_type AND r.limit_key = w.limit_key AND i.status = 'in_progress'),
       w.limit_key
FROM work_items w JOIN work_limits l ON l.work_type = w.work_type WHERE w.work_item_id = :id;
