-- Idempotency keys: see idempotency.h. The table is in recovery_keys_schema.sql.
--
-- Whoever acts on a key first locks its row and then reads it again in a later statement: on PostgreSQL only that
-- statement is sure to see what the previous holder of the row lock has committed.
--
-- Tokens also rise when a key is removed and made again: triggers keep the highest token of removed keys in the
-- lease 'idempotency keys removed', which nobody claims.

-- statement: idempotency_parents
-- Do the task and the work item that a key refers to exist?
SELECT CAST(:task_id AS text) IS NULL OR EXISTS (SELECT 1 FROM tasks WHERE task_id = CAST(:task_id AS text)),
       CAST(:work_item_id AS text) IS NULL
       OR EXISTS (SELECT 1 FROM work_items WHERE work_item_id = CAST(:work_item_id AS text));

-- statement: idempotency_look
SELECT request_hash, status, lock_holder, CAST(lock_token AS bigint), lock_expires_at, lock_via, takeover,
       response_data IS NOT NULL, created_at, completed_at, expires_at
FROM idempotency_keys WHERE idempotency_key = :name;

-- statement: idempotency_answer
-- Apart from the look, because it may be large; only of the row that was looked at.
SELECT response_data, value_digest FROM idempotency_keys
WHERE idempotency_key = :name AND lock_token = :token AND status <> 'pending';

-- statement: idempotency_lock  engine: sqlite
-- One writer: whoever gets here is alone.
SELECT 1 FROM idempotency_keys WHERE idempotency_key = :name;

-- statement: idempotency_lock  engine: postgres
SELECT 1 FROM idempotency_keys WHERE idempotency_key = :name FOR UPDATE;

-- statement: idempotency_make
-- A key that nobody holds yet: idempotency_take follows. On PostgreSQL a second maker waits here for the first.
INSERT INTO idempotency_keys (idempotency_key, task_id, work_item_id, request_hash, status, created_at, expires_at,
                              takeover, attempts, revision)
VALUES (:name, :task_id, :work_item_id, :request_hash, 'pending', :now, :expires, :takeover, 0, 1)
ON CONFLICT (idempotency_key) DO NOTHING;

-- statement: idempotency_revive
-- An expired key begins again, as if it had just been made; only its token goes on.
UPDATE idempotency_keys
SET task_id = :task_id, work_item_id = :work_item_id, request_hash = :request_hash, status = 'pending',
    response_data = NULL, value_digest = NULL, created_at = :now, completed_at = NULL, expires_at = :expires, takeover = :takeover,
    lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, attempts = 0, revision = revision + 1
WHERE idempotency_key = :name;

-- statement: idempotency_take  engine: sqlite
-- Ours now. :floor is the lowest token of this epoch. The end of an attempt at the work item frees the key: it is the item
-- of the holder, not of those that held it before.
UPDATE idempotency_keys
SET lock_holder = :holder, lock_expires_at = :lock_expires, lock_via = 'api', attempts = attempts + 1,
    work_item_id = CAST(:work_item_id AS text),
    lock_token = max(lock_token + 1, :floor,
                     coalesce((SELECT token + 1 FROM leases WHERE name = 'idempotency keys removed'), 0)),
    revision = revision + 1
WHERE idempotency_key = :name
RETURNING CAST(lock_token AS bigint);

-- statement: idempotency_take  engine: postgres
UPDATE idempotency_keys
SET lock_holder = :holder, lock_expires_at = :lock_expires, lock_via = 'api', attempts = attempts + 1,
    work_item_id = CAST(:work_item_id AS text),
    lock_token = greatest(lock_token + 1, :floor,
                          (SELECT token + 1 FROM leases WHERE name = 'idempotency keys removed')),
    revision = revision + 1
WHERE idempotency_key = :name
RETURNING CAST(lock_token AS bigint);

-- statement: idempotency_renew
-- Zero rows: the lock was lost. A lock that is over is not renewed, even if nobody has taken it yet.
UPDATE idempotency_keys SET lock_expires_at = :lock_expires, revision = revision + 1
WHERE idempotency_key = :name AND lock_token = :token AND status = 'pending' AND lock_via = 'api'
  AND lock_expires_at > :now;

-- statement: idempotency_finish
-- The answer, for good. Token and holder stay, to know a second call of the same holder.
UPDATE idempotency_keys
SET status = :status, response_data = :response, value_digest = :digest, completed_at = :now, expires_at = :expires, lock_expires_at = NULL,
    revision = revision + 1
WHERE idempotency_key = :name AND lock_token = :token AND status = 'pending' AND lock_via = 'api';

-- statement: idempotency_give_back
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE idempotency_key = :name AND lock_token = :token AND status = 'pending' AND lock_via = 'api';

-- statement: idempotency_end_all  only: sqlite
-- After a new boot: nobody who held a lock is still running. lock_via stays, so that the next begin takes over. Plain SQL's
-- locks are measured by the wall clock and end by themselves within minutes; one may have been taken since the boot.
UPDATE idempotency_keys SET lock_expires_at = NULL, lock_token = max(lock_token + 1, :floor), revision = revision + 1
WHERE status = 'pending' AND lock_via = 'api';

-- statement: idempotency_show
SELECT idempotency_key, task_id, work_item_id, request_hash, status, lock_holder, lock_via, takeover,
       response_data IS NOT NULL, CAST(lock_token AS bigint), lock_expires_at, CAST(attempts AS bigint),
       created_at, completed_at, expires_at, response_data, value_digest
FROM idempotency_keys WHERE idempotency_key = :name;

-- statement: idempotency_list
-- The columns of idempotency_show, without the answer itself.
SELECT idempotency_key, task_id, work_item_id, request_hash, status, lock_holder, lock_via, takeover,
       response_data IS NOT NULL, CAST(lock_token AS bigint), lock_expires_at, CAST(attempts AS bigint),
       created_at, completed_at, expires_at
FROM idempotency_keys
WHERE idempotency_key > :after AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
  AND (CAST(:task_id AS text) IS NULL OR task_id = CAST(:task_id AS text))
ORDER BY idempotency_key LIMIT :limit;

-- statement: idempotency_unlock
-- Before a key is removed: the schema refuses to remove one that is locked.
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE idempotency_key = :name AND lock_via IS NOT NULL;

-- statement: idempotency_remove
DELETE FROM idempotency_keys WHERE idempotency_key = :name;

-- statement: idempotency_unlock_expired  engine: sqlite
-- The predicates stand twice, here and below, so that a lock renewed a moment ago is left alone.
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE idempotency_key IN (
    SELECT idempotency_key FROM idempotency_keys
    WHERE expires_at <= :now AND status = 'pending' AND lock_via IS NOT NULL
      AND (lock_expires_at IS NULL OR lock_expires_at <= :lock_now)
    ORDER BY expires_at LIMIT :limit);

-- statement: idempotency_unlock_expired  engine: postgres
WITH due AS MATERIALIZED (
    SELECT idempotency_key FROM idempotency_keys
    WHERE expires_at <= :now AND status = 'pending' AND lock_via IS NOT NULL
      AND (lock_expires_at IS NULL OR lock_expires_at <= :lock_now)
    ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE idempotency_keys k SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
FROM due WHERE k.idempotency_key = due.idempotency_key;

-- statement: idempotency_remove_expired  engine: sqlite
DELETE FROM idempotency_keys
WHERE idempotency_key IN (
    SELECT idempotency_key FROM idempotency_keys
    WHERE expires_at <= :now AND (status <> 'pending' OR lock_via IS NULL)
    ORDER BY expires_at LIMIT :limit);

-- statement: idempotency_remove_expired  engine: postgres
WITH due AS MATERIALIZED (
    SELECT idempotency_key FROM idempotency_keys
    WHERE expires_at <= :now AND (status <> 'pending' OR lock_via IS NULL)
    ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM idempotency_keys k USING due WHERE k.idempotency_key = due.idempotency_key;

-- statement: idempotency_remove_old  engine: sqlite
-- A key is made before it is completed: created_at bounds the search by its index.
DELETE FROM idempotency_keys
WHERE idempotency_key IN (
    SELECT idempotency_key FROM idempotency_keys
    WHERE status = 'completed' AND created_at <= :before AND completed_at <= :before
      AND (:is_any OR expires_at IS NULL)
    ORDER BY created_at LIMIT :limit);

-- statement: idempotency_remove_old  engine: postgres
WITH due AS MATERIALIZED (
    SELECT idempotency_key FROM idempotency_keys
    WHERE status = 'completed' AND created_at <= :before AND completed_at <= :before
      AND (CAST(:is_any AS boolean) OR expires_at IS NULL)
    ORDER BY created_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM idempotency_keys k USING due WHERE k.idempotency_key = due.idempotency_key;

-- statement: idempotency_verify
-- Keyset page of stored responses.
SELECT idempotency_key, response_data, value_digest FROM idempotency_keys
WHERE idempotency_key > :after AND response_data IS NOT NULL ORDER BY idempotency_key LIMIT :limit;
