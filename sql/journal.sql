-- ---- numbers ----

-- statement: journal_take_task
-- The next :count numbers of a task, and the hash chain through the first of them.
UPDATE task_heads
SET last_sequence = last_sequence + :count, chain = tide_link(chain, last_sequence + 1, :checksum)
WHERE task_id = :task_id
RETURNING last_sequence;

-- statement: journal_link
-- The chain through a further checkpoint of the same transaction, :back before the last.
UPDATE task_heads SET chain = tide_link(chain, last_sequence - :back, :checksum) WHERE task_id = :task_id;

-- statement: journal_take_global  engine: sqlite
UPDATE journal_head SET last = last + :count, last_at = max(last_at, :clock) WHERE id = 1 RETURNING last;

-- statement: journal_take_global  engine: postgres
-- The clock is read after the lock is held, so times rise with the numbers.
UPDATE journal_head SET last = last + :count, last_at = greatest(last_at, coalesce(:clock, clock_timestamp()))
WHERE id = 1
RETURNING last;

-- statement: journal_expect
-- Fails unless :last is where the numbers stand now.
INSERT INTO journal_expected (last) VALUES (:last);

-- statement: journal_head_get
SELECT last FROM journal_head WHERE id = 1;

-- ---- append ----

-- statement: journal_tasks_missing  engine: sqlite
SELECT value FROM json_each(:tasks)
WHERE NOT EXISTS (SELECT 1 FROM task_heads h WHERE h.task_id = value) LIMIT 1;

-- statement: journal_tasks_missing  engine: postgres
SELECT value FROM jsonb_array_elements_text(:tasks)
WHERE NOT EXISTS (SELECT 1 FROM task_heads h WHERE h.task_id = value) LIMIT 1;

-- statement: journal_type_get
SELECT is_resumable FROM checkpoint_types WHERE checkpoint_type = :type;

-- statement: journal_add
-- VALUES and not SELECT: without a task it fails instead of adding nothing, and SQLite is quicker.
INSERT INTO checkpoints (global_sequence, sequence_number, checkpoint_id, task_id, work_item_id, checkpoint_type,
                         snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len, chunk_count, checksum,
                         chain)
VALUES ((SELECT last FROM journal_head WHERE id = 1) - :global_back,
        (SELECT last_sequence FROM task_heads WHERE task_id = :task_id) - :back, :checkpoint_id, :task_id, :work_item_id,
        :type, :snapshot, :metadata, (SELECT last_at FROM journal_head WHERE id = 1), :message, :trigger, :snapshot_len,
        :chunk_count, :checksum, (SELECT chain FROM task_heads WHERE task_id = :task_id));

-- statement: journal_append  only: postgres
-- A checkpoint without tags and chunks, in a transaction of its own.
SELECT own_number, global_number
FROM tide_checkpoint_append(:task_id, :checkpoint_id, :work_item_id, :type, :snapshot, :snapshot_len, :metadata, :message,
                            :trigger, :checksum, :clock);

-- statement: journal_task_lease
-- No row: no such task. No holder: the task is not being resumed.
SELECT l.holder, l.token, l.expires_at FROM task_heads h LEFT JOIN leases l ON l.name = 'task/' || h.task_id
WHERE h.task_id = :task_id;

-- statement: journal_task_lock  only: postgres
-- Before the lease of a task is claimed: appends hold this row until their commit.
SELECT 1 FROM task_heads WHERE task_id = :task_id FOR UPDATE;

-- statement: journal_fence  only: postgres
-- Fails unless :token holds the lease, or, where :token is 0, no lease is held. It runs behind the statement that
-- has locked the task's head, so a lease that was claimed before is seen. No head has the number -1.
INSERT INTO journal_expected (last)
SELECT -1
WHERE (CAST(:token AS bigint) > 0) <> EXISTS (
    SELECT 1 FROM leases
    WHERE name = :name AND holder IS NOT NULL AND expires_at > coalesce(:clock, now())
      AND (token = :token OR :token = 0));

-- statement: step_unlock_orphan
-- The key of a step whose task was deleted.
UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
WHERE idempotency_key = :key AND task_id IS NULL AND lock_via IS NOT NULL;

-- statement: step_delete_orphan
DELETE FROM idempotency_keys WHERE idempotency_key = :key AND task_id IS NULL;

-- statement: journal_item_task
SELECT task_id FROM work_items WHERE work_item_id = :work_item_id;

-- statement: journal_item_hold  engine: sqlite
SELECT 1 FROM work_items
WHERE work_item_id = :work_item_id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :now;

-- statement: journal_item_hold  engine: postgres
-- FOR SHARE: the attempt does not end before this transaction does.
SELECT 1 FROM work_items
WHERE work_item_id = :work_item_id AND lease_token = :token AND status = 'in_progress' AND lease_expires_at > :now
FOR SHARE;

-- statement: journal_add_tags  engine: sqlite
INSERT INTO checkpoint_tags (global_sequence, tag)
SELECT (SELECT last FROM journal_head WHERE id = 1) - :global_back, value FROM json_each(:tags);

-- statement: journal_add_tags  engine: postgres
INSERT INTO checkpoint_tags (global_sequence, tag)
SELECT (SELECT last FROM journal_head WHERE id = 1) - :global_back, value FROM jsonb_array_elements_text(:tags);

-- statement: journal_add_chunks  engine: sqlite
-- :digests holds :count digests of 32 bytes, in the order of the snapshot.
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :count)
INSERT INTO checkpoint_chunks (global_sequence, position, chunk_id)
SELECT (SELECT last FROM journal_head WHERE id = 1) - :global_back, p.i, k.chunk_id
FROM place p CROSS JOIN snapshot_chunks k ON k.digest = substr(:digests, p.i * 32 + 1, 32);

-- statement: journal_add_chunks  engine: postgres
INSERT INTO checkpoint_chunks (global_sequence, position, chunk_id)
SELECT (SELECT last FROM journal_head WHERE id = 1) - :global_back, i, k.chunk_id
FROM generate_series(0, CAST(:count AS int) - 1) i
JOIN snapshot_chunks k ON k.digest = substring(CAST(:digests AS bytea) FROM i * 32 + 1 FOR 32);

-- statement: journal_same
-- Is this id here already, and with which content?
SELECT global_sequence, sequence_number, checksum FROM checkpoints WHERE checkpoint_id = :checkpoint_id;

-- statement: journal_type_add
-- Known already: nothing is done. (On SQLite the guard before INSERT would see an attempt to change it.)
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description)
SELECT CAST(:type AS text), :is_resumable, CAST(:description AS text)
WHERE NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = CAST(:type AS text))
ON CONFLICT (checkpoint_type) DO NOTHING;

-- statement: journal_type_raise
-- A known type may become resumable, never the other way round.
UPDATE checkpoint_types SET is_resumable = :yes WHERE checkpoint_type = :type AND NOT is_resumable;

-- ---- chunks ----

-- statement: chunks_share  only: postgres
-- Held by everybody who counts on a chunk that is there, until his reference to it is committed.
SELECT pg_advisory_xact_lock_shared(6073460636925384771);

-- statement: chunks_alone  only: postgres
-- Held by the collector. What has no reference now gets none before the commit.
SELECT pg_advisory_xact_lock(6073460636925384771);

-- statement: chunks_known  engine: sqlite
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :count)
SELECT p.i FROM place p
WHERE EXISTS (SELECT 1 FROM snapshot_chunks k WHERE k.digest = substr(:digests, p.i * 32 + 1, 32));

-- statement: chunks_known  engine: postgres
SELECT CAST(i AS bigint) FROM generate_series(0, CAST(:count AS int) - 1) i
WHERE EXISTS (SELECT 1 FROM snapshot_chunks k
              WHERE k.digest = substring(CAST(:digests AS bytea) FROM i * 32 + 1 FOR 32));

-- statement: chunks_add  engine: sqlite
-- :list has [raw_len, codec, offset, length] for each digest; offset and length are places in :bodies.
INSERT INTO snapshot_chunks (digest, raw_len, codec, body)
SELECT substr(:digests, e.key * 32 + 1, 32), json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]'),
       substr(:bodies, json_extract(e.value, '$[2]') + 1, json_extract(e.value, '$[3]'))
FROM json_each(:list) e
WHERE true
ON CONFLICT (digest) DO NOTHING;

-- statement: chunks_add  engine: postgres
INSERT INTO snapshot_chunks (digest, raw_len, codec, body)
SELECT substring(CAST(:digests AS bytea) FROM (e.n * 32 - 31)::int FOR 32), (e.v ->> 0)::bigint, (e.v ->> 1)::bigint,
       substring(CAST(:bodies AS bytea) FROM (e.v ->> 2)::int + 1 FOR (e.v ->> 3)::int)
FROM jsonb_array_elements(:list) WITH ORDINALITY e (v, n)
ORDER BY 1
ON CONFLICT (digest) DO NOTHING;

-- statement: chunks_of
-- The chunks of a checkpoint, in order; a missing one has no body.
SELECT r.position, k.raw_len, k.codec, k.digest, k.body
FROM checkpoint_chunks r LEFT JOIN snapshot_chunks k ON k.chunk_id = r.chunk_id
WHERE r.global_sequence = :global_sequence
ORDER BY r.position;

-- statement: chunks_candidates
SELECT chunk_id FROM chunk_candidates WHERE chunk_id > :after ORDER BY chunk_id LIMIT :limit;

-- statement: chunks_collect
DELETE FROM snapshot_chunks
WHERE chunk_id IN (SELECT chunk_id FROM chunk_candidates WHERE chunk_id >= :first AND chunk_id <= :last)
  AND NOT EXISTS (SELECT 1 FROM checkpoint_chunks r WHERE r.chunk_id = snapshot_chunks.chunk_id)
  AND NOT EXISTS (SELECT 1 FROM import_chunks r WHERE r.chunk_id = snapshot_chunks.chunk_id)
RETURNING CAST(length(body) AS BIGINT);

-- statement: chunks_collected
-- What an import still holds stays a candidate: its rows may vanish without a trace.
DELETE FROM chunk_candidates
WHERE chunk_id >= :first AND chunk_id <= :last
  AND NOT EXISTS (SELECT 1 FROM import_chunks r WHERE r.chunk_id = chunk_candidates.chunk_id);

-- statement: file_free_pages  only: sqlite
PRAGMA freelist_count;

-- statement: file_shrink  only: sqlite
PRAGMA incremental_vacuum(256);

-- ---- read ----

-- statement: journal_lineage
-- A task and what it was forked from, oldest first: numbers above low up to high are part of its history.
WITH RECURSIVE line (task_id, forked_from, low, high, depth) AS (
    SELECT t.task_id, t.forked_from, CASE WHEN t.forked_from IS NULL THEN 0 ELSE coalesce(t.forked_at, 0) END,
           CAST(9223372036854775807 AS BIGINT), 0
    FROM tasks t WHERE t.task_id = :task_id
    UNION ALL
    SELECT p.task_id, p.forked_from, CASE WHEN p.forked_from IS NULL THEN 0 ELSE coalesce(p.forked_at, 0) END, l.low,
           l.depth + 1
    FROM line l JOIN tasks p ON p.task_id = l.forked_from WHERE l.depth < 64)
SELECT task_id, CAST(low AS BIGINT), CAST(high AS BIGINT) FROM line ORDER BY depth DESC;

-- statement: journal_pick_up
-- Numbers and sizes of checkpoints that a filter wants; what they hold is read by journal_rows. One statement per way to
-- find them and direction.
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
ORDER BY c.global_sequence LIMIT :limit;

-- statement: journal_pick_down
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
ORDER BY c.global_sequence DESC LIMIT :limit;

-- statement: journal_pick_task_up
-- Within a task numbers rise together, so its own index gives the order.
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.task_id = :task_id AND c.sequence_number > :low AND c.sequence_number <= :high
  AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.work_item_id = :work_item_id OR :work_item_id IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
  AND (EXISTS (SELECT 1 FROM checkpoint_tags t WHERE t.global_sequence = c.global_sequence AND t.tag = :tag)
       OR :tag IS NULL)
ORDER BY c.sequence_number LIMIT :limit;

-- statement: journal_pick_task_down
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.task_id = :task_id AND c.sequence_number > :low AND c.sequence_number <= :high
  AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.work_item_id = :work_item_id OR :work_item_id IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
  AND (EXISTS (SELECT 1 FROM checkpoint_tags t WHERE t.global_sequence = c.global_sequence AND t.tag = :tag)
       OR :tag IS NULL)
ORDER BY c.sequence_number DESC LIMIT :limit;

-- statement: journal_pick_item_up
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.work_item_id = :work_item_id AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
  AND (EXISTS (SELECT 1 FROM checkpoint_tags t WHERE t.global_sequence = c.global_sequence AND t.tag = :tag)
       OR :tag IS NULL)
ORDER BY c.global_sequence LIMIT :limit;

-- statement: journal_pick_item_down
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.work_item_id = :work_item_id AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
  AND (EXISTS (SELECT 1 FROM checkpoint_tags t WHERE t.global_sequence = c.global_sequence AND t.tag = :tag)
       OR :tag IS NULL)
ORDER BY c.global_sequence DESC LIMIT :limit;

-- statement: journal_pick_tag_up
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoint_tags t JOIN checkpoints c ON c.global_sequence = t.global_sequence
WHERE t.tag = :tag AND t.global_sequence >= :first AND t.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
ORDER BY t.global_sequence LIMIT :limit;

-- statement: journal_pick_tag_down
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoint_tags t JOIN checkpoints c ON c.global_sequence = t.global_sequence
WHERE t.tag = :tag AND t.global_sequence >= :first AND t.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
  AND (c.created_at >= :since OR :since IS NULL) AND (c.created_at < :until OR :until IS NULL)
ORDER BY t.global_sequence DESC LIMIT :limit;

-- statement: journal_pick_time_up
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.created_at >= :since AND c.created_at < :until
  AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
ORDER BY c.global_sequence LIMIT :limit;

-- statement: journal_pick_time_down
SELECT c.global_sequence, c.sequence_number, CAST(coalesce(c.snapshot_len, length(c.snapshot_data)) AS BIGINT),
       CAST(coalesce(length(c.metadata), 0) + coalesce(length(c.message), 0) AS BIGINT)
FROM checkpoints c
WHERE c.created_at >= :since AND c.created_at < :until
  AND c.global_sequence >= :first AND c.global_sequence <= :last
  AND (c.checkpoint_type = :type OR :type IS NULL)
ORDER BY c.global_sequence DESC LIMIT :limit;

-- statement: journal_rows  engine: sqlite
-- Whole rows by number. Numbers are cast, because a foreign program may have put text where a number belongs.
SELECT c.global_sequence, CAST(c.sequence_number AS INTEGER), c.checkpoint_id, c.task_id, c.work_item_id,
       c.checkpoint_type, c.trigger_kind, c.message, c.metadata, c.created_at, c.checksum, c.chain,
       CAST(c.chunk_count AS INTEGER),
       CAST(coalesce(c.snapshot_len, length(CAST(c.snapshot_data AS BLOB))) AS INTEGER),
       c.origin_session, CAST(c.origin_global AS INTEGER), CAST(c.origin_number AS INTEGER),
       (SELECT group_concat(tag, char(10))
        FROM (SELECT tag FROM checkpoint_tags t WHERE t.global_sequence = c.global_sequence ORDER BY tag)),
       CASE WHEN :with_annotations THEN
           (SELECT json_group_array(json_object('severity', a.severity, 'note', a.note, 'created_at', a.created_at))
            FROM (SELECT * FROM checkpoint_annotations a WHERE a.global_sequence = c.global_sequence
                  ORDER BY annotation_id) a) END,
       CASE WHEN :with_snapshot THEN c.snapshot_data END
FROM checkpoints c
WHERE c.global_sequence IN (SELECT value FROM json_each(:numbers))
ORDER BY c.global_sequence;

-- statement: journal_rows  engine: postgres
SELECT c.global_sequence, c.sequence_number, c.checkpoint_id, c.task_id, c.work_item_id, c.checkpoint_type,
       c.trigger_kind, c.message, c.metadata, c.created_at, c.checksum, c.chain, c.chunk_count,
       coalesce(c.snapshot_len, octet_length(c.snapshot_data)), c.origin_session, c.origin_global, c.origin_number,
       (SELECT string_agg(t.tag, E'\n' ORDER BY t.tag) FROM checkpoint_tags t
        WHERE t.global_sequence = c.global_sequence),
       CASE WHEN :with_annotations THEN
           coalesce((SELECT json_agg(json_build_object(
                         'severity', a.severity, 'note', a.note,
                         'created_at', to_char(a.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'))
                     ORDER BY a.annotation_id)::text
                     FROM checkpoint_annotations a WHERE a.global_sequence = c.global_sequence), '[]') END,
       CASE WHEN :with_snapshot THEN c.snapshot_data END
FROM checkpoints c
WHERE c.global_sequence = ANY (ARRAY(SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(:numbers)))
ORDER BY c.global_sequence;

-- statement: journal_find
SELECT global_sequence FROM checkpoints WHERE checkpoint_id = :checkpoint_id;

-- statement: journal_find_number
SELECT global_sequence FROM checkpoints WHERE global_sequence = :global_sequence;

-- statement: journal_hold  engine: sqlite
SELECT checkpoint_id FROM checkpoints WHERE global_sequence = :global_sequence;

-- statement: journal_hold  engine: postgres
-- What is added to a checkpoint must not meet its removal.
SELECT checkpoint_id FROM checkpoints WHERE global_sequence = :global_sequence FOR KEY SHARE;

-- ---- epochs ----

-- statement: journal_epoch_common
-- How much of a position of an epoch still exists: the smallest head of all later epochs. An epoch
-- that this store does not have may have branched off anywhere (an old backup begins an epoch above
-- all that the host knows), so the heads of all epochs count, and the first began with nothing.
SELECT min(h.journal_head), min(h.journal_event) FROM epoch_heads h
WHERE h.epoch > coalesce((SELECT e.epoch FROM epochs e WHERE e.epoch_id = :epoch_id), 0);

-- statement: journal_epoch_known
-- Or one that an operator has begun in its stead.
SELECT count(*) FROM epochs WHERE epoch_id = :epoch_id OR (reason = 'operator' AND evidence LIKE '%(' || :epoch_id || ')%');

-- ---- events, annotations ----

-- statement: journal_event_add
INSERT INTO journal_events (event_id, kind, head, first_global, last_global, checkpoint_count, task_id, at)
VALUES ((SELECT last FROM sequences WHERE name = 'journal/events'), :kind,
        (SELECT last FROM journal_head WHERE id = 1), :first, :last, :count, :task_id,
        (SELECT last_at FROM sequences WHERE name = 'journal/events'));

-- statement: journal_event_list
SELECT event_id, kind, head, first_global, last_global, checkpoint_count, task_id, at
FROM journal_events WHERE event_id > :after ORDER BY event_id LIMIT :limit;

-- statement: journal_events_old
-- Times rise with the numbers: is the oldest older than this? The newest stays in any case.
SELECT EXISTS (SELECT 1 FROM journal_events e
               WHERE e.event_id = (SELECT min(event_id) FROM journal_events) AND e.at < :before
                 AND e.event_id < (SELECT max(event_id) FROM journal_events));

-- statement: journal_events_trim
DELETE FROM journal_events
WHERE event_id IN (SELECT o.event_id FROM (SELECT event_id, at FROM journal_events ORDER BY event_id LIMIT :limit) o
                   WHERE o.at < :before)
  AND event_id < (SELECT max(event_id) FROM journal_events);

-- statement: annotation_add
INSERT INTO checkpoint_annotations (global_sequence, severity, note, created_at)
VALUES (:global_sequence, :severity, :note, :now)
RETURNING annotation_id;

-- statement: annotation_list
SELECT a.annotation_id, c.checkpoint_id, a.note, a.severity, a.created_at
FROM checkpoint_annotations a JOIN checkpoints c ON c.global_sequence = a.global_sequence
WHERE a.global_sequence = :global_sequence AND a.annotation_id > :after
ORDER BY a.annotation_id LIMIT :limit;

-- ---- removal ----

-- statement: removal_alone  only: postgres
-- One removal at a time; who makes a fork keeps removals away (removal_share), so that its fork point stays.
SELECT pg_advisory_xact_lock(6073460636925384772);

-- statement: removal_share  only: postgres
SELECT pg_advisory_xact_lock_shared(6073460636925384772);

-- statement: removal_permit  engine: sqlite
INSERT INTO journal_permits (permit) VALUES ('retention');

-- statement: removal_permit  engine: postgres
SELECT set_config('tidemark.permit', 'retention', true);

-- statement: removal_permit_end  engine: sqlite
DELETE FROM journal_permits WHERE permit = 'retention';

-- statement: removal_permit_end  engine: postgres
SELECT set_config('tidemark.permit', '', true);

-- statement: journal_tasks
SELECT task_id FROM task_heads WHERE task_id > :after ORDER BY task_id LIMIT :limit;

-- statement: removal_count
SELECT count(*) FROM checkpoints WHERE task_id = :task_id;

-- statement: removal_bound
-- The number of the oldest checkpoint among the newest :skip + 1 of a task.
SELECT sequence_number FROM checkpoints WHERE task_id = :task_id ORDER BY sequence_number DESC LIMIT 1 OFFSET :skip;

-- statement: removal_candidates
-- Checkpoints of a task, oldest first, and why each must stay. A checkpoint is needed for resuming at a point of the
-- history if nothing of its kind stands between: the points are the task's head and the places where forks leave
-- it. What the nearest fork at or behind it does not need, no later point needs.
WITH page AS (
    SELECT c.global_sequence, c.sequence_number, c.task_id, c.work_item_id, c.checkpoint_type, c.chain, c.created_at,
           c.chunk_count, c.snapshot_data,
           (SELECT min(f.forked_at) FROM tasks f
            WHERE f.forked_from = c.task_id AND f.forked_at >= c.sequence_number) AS fork
    FROM checkpoints c
    WHERE c.task_id = :task_id AND c.sequence_number > :after AND c.sequence_number < :before
    ORDER BY c.sequence_number LIMIT :limit)
SELECT p.global_sequence, p.sequence_number, p.chain, CAST(length(p.snapshot_data) AS BIGINT),
       p.created_at IS NULL OR p.created_at < :older OR :older IS NULL,
       EXISTS (SELECT 1 FROM checkpoint_tags t WHERE t.global_sequence = p.global_sequence),
       coalesce(p.fork = p.sequence_number, false),
       (EXISTS (SELECT 1 FROM checkpoint_types y WHERE y.checkpoint_type = p.checkpoint_type AND y.is_resumable = :yes)
        AND NOT EXISTS (SELECT 1 FROM checkpoints n
                        WHERE n.task_id = p.task_id AND n.sequence_number > p.sequence_number
                          AND n.sequence_number <= coalesce(p.fork, 9223372036854775807)
                          AND n.checkpoint_type = p.checkpoint_type))
       OR (p.checkpoint_type IN ('tool_executed', 'llm_response')
           AND NOT EXISTS (SELECT 1 FROM checkpoints n
                           WHERE n.task_id = p.task_id AND n.sequence_number > p.sequence_number
                             AND n.sequence_number <= coalesce(p.fork, 9223372036854775807)
                             AND n.checkpoint_type = 'iteration_end')),
       (p.work_item_id IS NOT NULL
        AND EXISTS (SELECT 1 FROM work_items w WHERE w.work_item_id = p.work_item_id
                                                 AND w.status IN ('pending', 'in_progress', 'expired'))
        AND NOT EXISTS (SELECT 1 FROM checkpoints n WHERE n.work_item_id = p.work_item_id
                                                      AND n.sequence_number > p.sequence_number
                                                      AND n.checkpoint_type = p.checkpoint_type)),
       p.fork IS NOT NULL
FROM page p ORDER BY p.sequence_number;

-- statement: removal_neighbours
-- The next number of the task on either side that still has a row.
SELECT coalesce((SELECT max(c.sequence_number) FROM checkpoints c
                 WHERE c.task_id = :task_id AND c.sequence_number < :first), 0),
       coalesce((SELECT min(c.sequence_number) FROM checkpoints c
                 WHERE c.task_id = :task_id AND c.sequence_number > :last), 9223372036854775807);

-- statement: removal_do  engine: sqlite
DELETE FROM checkpoints WHERE global_sequence IN (SELECT value FROM json_each(:numbers));

-- statement: removal_do  engine: postgres
DELETE FROM checkpoints
WHERE global_sequence = ANY (ARRAY(SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(:numbers)));

-- statement: gap_edges  engine: sqlite
-- Recorded gaps that touch a run of removed numbers ([first, last] each) from outside.
SELECT CAST(g.first_global AS BIGINT), CAST(g.last_global AS BIGINT) FROM json_each(:runs) e CROSS JOIN checkpoint_gaps g
WHERE g.reason = 'removed' AND g.last_global = json_extract(e.value, '$[0]') - 1
  AND g.first_global = (SELECT max(first_global) FROM checkpoint_gaps
                        WHERE first_global < json_extract(e.value, '$[0]'))
UNION
SELECT CAST(g.first_global AS BIGINT), CAST(g.last_global AS BIGINT) FROM json_each(:runs) e CROSS JOIN checkpoint_gaps g
WHERE g.reason = 'removed' AND g.first_global = json_extract(e.value, '$[1]') + 1
ORDER BY 1;

-- statement: gap_edges  engine: postgres
WITH runs AS (SELECT (v ->> 0)::bigint AS first, (v ->> 1)::bigint AS last FROM jsonb_array_elements(:runs) v)
SELECT CAST(g.first_global AS BIGINT), CAST(g.last_global AS BIGINT)
FROM runs e JOIN checkpoint_gaps g ON g.first_global = (SELECT max(x.first_global) FROM checkpoint_gaps x
                                                        WHERE x.first_global < e.first)
WHERE g.reason = 'removed' AND g.last_global = e.first - 1
UNION
SELECT CAST(g.first_global AS BIGINT), CAST(g.last_global AS BIGINT) FROM runs e JOIN checkpoint_gaps g ON g.first_global = e.last + 1
WHERE g.reason = 'removed'
ORDER BY 1;

-- statement: gap_forget
DELETE FROM checkpoint_gaps WHERE first_global >= :first AND first_global <= :last;

-- statement: gap_add
INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at) VALUES (:first, :last, 'removed', :now);

-- statement: cut_list
SELECT CAST(first_number AS BIGINT), CAST(last_number AS BIGINT), chain FROM checkpoint_cuts
WHERE task_id = :task_id AND first_number > :low AND last_number < :high
ORDER BY first_number;

-- statement: cut_forget
DELETE FROM checkpoint_cuts WHERE task_id = :task_id AND first_number > :low AND last_number < :high;

-- statement: cut_add
INSERT INTO checkpoint_cuts (task_id, first_number, last_number, chain, reason, cut_at)
VALUES (:task_id, :first, :last, :chain, :reason, :now);

-- statement: cut_find
-- Was anything removed of these numbers of a task?
SELECT 1 FROM checkpoint_cuts WHERE task_id = :task_id AND last_number > :low AND first_number <= :high LIMIT 1;

-- ---- fork ----

-- statement: fork_parent  engine: sqlite
SELECT c.task_id, c.sequence_number, t.title
FROM checkpoints c JOIN tasks t ON t.task_id = c.task_id WHERE c.global_sequence = :global_sequence;

-- statement: fork_parent  engine: postgres
SELECT c.task_id, c.sequence_number, t.title
FROM checkpoints c JOIN tasks t ON t.task_id = c.task_id WHERE c.global_sequence = :global_sequence
FOR KEY SHARE OF t;

-- statement: fork_chain
-- The hash chain of a task as it stood behind one of its numbers: of the last row up to it, or of a cut.
SELECT number, chain FROM (
    SELECT * FROM (SELECT c.sequence_number AS number, c.chain AS chain FROM checkpoints c
                   WHERE c.task_id = :task_id AND c.sequence_number <= :number AND c.chain IS NOT NULL
                   ORDER BY c.sequence_number DESC LIMIT 1) a
    UNION ALL
    SELECT * FROM (SELECT x.last_number AS number, x.chain AS chain FROM checkpoint_cuts x
                   WHERE x.task_id = :task_id AND x.last_number <= :number AND x.chain IS NOT NULL
                   ORDER BY x.last_number DESC LIMIT 1) b) both_of_them
ORDER BY number DESC LIMIT 1;

-- statement: fork_task_exists
SELECT 1 FROM tasks WHERE task_id = :task_id;

-- statement: fork_task_add
INSERT INTO tasks (task_id, title, status, created_at, updated_at, forked_from, forked_at, revision)
VALUES (:task_id, :title, 'pending', :now, :now, :forked_from, :forked_at, 1);

-- statement: fork_head_set
UPDATE task_heads SET last_sequence = :number, chain = :chain WHERE task_id = :task_id;

-- ---- verify ----

-- statement: verify_head
SELECT CAST(h.last_sequence AS BIGINT), h.chain, t.forked_from, CAST(t.forked_at AS BIGINT)
FROM task_heads h JOIN tasks t ON t.task_id = h.task_id WHERE h.task_id = :task_id;

-- statement: verify_cuts
SELECT CAST(first_number AS BIGINT), CAST(last_number AS BIGINT), chain FROM checkpoint_cuts
WHERE task_id = :task_id AND last_number > :after AND first_number <= :until
ORDER BY first_number;

-- statement: verify_numbers
-- Rows by number: has it lost its task, does its time tell (a sealed one that was born here), and the time.
WITH page AS (
    SELECT c.global_sequence, c.task_id, c.created_at,
           c.checksum IS NOT NULL AND c.origin_session IS NULL AND c.origin_global IS NULL AS is_timed
    FROM checkpoints c WHERE c.global_sequence > :after ORDER BY c.global_sequence LIMIT :limit)
SELECT p.global_sequence,
       NOT EXISTS (SELECT 1 FROM tasks t WHERE t.task_id = p.task_id)
           OR NOT EXISTS (SELECT 1 FROM task_heads h WHERE h.task_id = p.task_id),
       p.is_timed, p.created_at
FROM page p ORDER BY p.global_sequence;

-- statement: verify_below
-- Rows of a fork that stand where its history is that of its parent.
SELECT count(*) FROM checkpoints WHERE task_id = :task_id AND sequence_number <= :number;

-- statement: verify_permits  only: sqlite
-- A permit is removed by the transaction that wrote it: one that can be seen was left behind.
SELECT count(*) FROM journal_permits;

-- statement: verify_gaps
SELECT CAST(first_global AS BIGINT), CAST(last_global AS BIGINT) FROM checkpoint_gaps
WHERE first_global >= coalesce((SELECT max(first_global) FROM checkpoint_gaps WHERE first_global <= :after), 0)
  AND first_global <= :until AND last_global > :after
ORDER BY first_global LIMIT :limit;

-- ---- import ----
-- What publishing an import asks of the journal; the rest is in journal_import.sql.

-- statement: import_drop_removed
-- Of the staged checkpoints those that this store has numbered and removed, because what was removed stays removed: the
-- number is the file's if the file was made here (:is_own), or the one with which the checkpoint once left this store. A
-- task that was deleted comes back as a whole.
DELETE FROM import_checkpoints
WHERE import_id = :import_id
  AND EXISTS (SELECT 1 FROM tasks t WHERE t.task_id = import_checkpoints.task_id)
  AND NOT EXISTS (SELECT 1 FROM import_tasks i WHERE i.import_id = :import_id AND i.task_id = import_checkpoints.task_id
                                                  AND i.is_new)
  AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.checkpoint_id = import_checkpoints.checkpoint_id)
  AND ((:is_own
        AND EXISTS (SELECT 1 FROM checkpoint_gaps g
                    WHERE g.first_global = (SELECT max(x.first_global) FROM checkpoint_gaps x
                                            WHERE x.first_global <= import_checkpoints.source_global)
                      AND g.last_global >= import_checkpoints.source_global AND g.reason = 'removed'))
       OR (import_checkpoints.origin_session = :session
           AND EXISTS (SELECT 1 FROM checkpoint_gaps g
                       WHERE g.first_global = (SELECT max(x.first_global) FROM checkpoint_gaps x
                                               WHERE x.first_global <= import_checkpoints.origin_global)
                         AND g.last_global >= import_checkpoints.origin_global AND g.reason = 'removed')));

-- statement: import_new_types
SELECT count(*) FROM import_types t
WHERE t.import_id = :import_id
  AND NOT EXISTS (SELECT 1 FROM checkpoint_types x WHERE x.checkpoint_type = t.checkpoint_type);

-- ---- export ----

-- statement: export_count
SELECT count(*) FROM checkpoints WHERE global_sequence <= :head;

-- statement: export_types
SELECT checkpoint_type, is_resumable, description FROM checkpoint_types WHERE checkpoint_type > :after
ORDER BY checkpoint_type LIMIT :limit;

-- statement: export_tasks
-- A task that was forked since the export began, at a checkpoint above :head, is left out: its fork point is not in the file.
SELECT t.task_id, t.title, t.status, t.metadata, t.created_at, t.completed_at, t.forked_from,
       (SELECT c.checkpoint_id FROM checkpoints c
        WHERE c.task_id = t.forked_from AND c.sequence_number = t.forked_at),
       h.last_sequence
FROM tasks t JOIN task_heads h ON h.task_id = t.task_id
WHERE t.task_id > :after AND (t.task_id = :task_id OR :task_id IS NULL)
  AND NOT EXISTS (SELECT 1 FROM checkpoints f
                  WHERE f.task_id = t.forked_from AND f.sequence_number = t.forked_at AND f.global_sequence > :head)
ORDER BY t.task_id LIMIT :limit;
