-- An import is read into the tables import_* in steps (staging) and published by one transaction, which does what depends
-- on the state of this store: which checkpoints are new, which numbers they get, where their tasks' chains go on.

-- ---- staging ----

-- statement: import_run_add
INSERT INTO import_runs (import_id, touched_at, state) VALUES (:import_id, :now, 'staging');

-- statement: import_run_touch
-- Says that the import is alive. No row: somebody took it for dead and cleaned it away.
UPDATE import_runs SET touched_at = :now WHERE import_id = :import_id AND state = 'staging';

-- statement: import_run_end
UPDATE import_runs SET state = 'published' WHERE import_id = :import_id;

-- statement: import_stage_type
INSERT INTO import_types (import_id, checkpoint_type, is_resumable, description)
VALUES (:import_id, :type, :is_resumable, :description)
ON CONFLICT (import_id, checkpoint_type) DO NOTHING;

-- statement: import_stage_task
INSERT INTO import_tasks (import_id, task_id, title, status, metadata, created_at, completed_at, forked_from, fork_point,
                          last_sequence)
VALUES (:import_id, :task_id, :title, :status, :metadata, :created_at, :completed_at, :forked_from, :fork_point,
        :last_sequence)
ON CONFLICT (import_id, task_id) DO NOTHING;

-- statement: import_stage_row
-- A checkpoint that the file has twice is noticed by the count.
INSERT INTO import_checkpoints (import_id, ordinal, source_global, source_number, checkpoint_id, task_id, work_item_id,
                                checkpoint_type, snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len,
                                chunk_count, checksum, origin_session, origin_global, origin_number, tags, annotations)
VALUES (:import_id, :ordinal, :source_global, :source_number, :checkpoint_id, :task_id, :work_item_id, :type, :snapshot,
        :metadata, :created_at, :message, :trigger, :snapshot_len, :chunk_count, :checksum, :origin_session,
        :origin_global, :origin_number, :tags, :annotations)
ON CONFLICT (import_id, checkpoint_id) DO NOTHING;

-- statement: import_stage_chunks  engine: sqlite
WITH RECURSIVE place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :count)
INSERT INTO import_chunks (import_id, ordinal, position, chunk_id)
SELECT :import_id, :ordinal, p.i, k.chunk_id
FROM place p CROSS JOIN snapshot_chunks k ON k.digest = substr(:digests, p.i * 32 + 1, 32);

-- statement: import_stage_chunks  engine: postgres
INSERT INTO import_chunks (import_id, ordinal, position, chunk_id)
SELECT CAST(:import_id AS bigint), CAST(:ordinal AS bigint), i, k.chunk_id
FROM generate_series(0, CAST(:count AS int) - 1) i
JOIN snapshot_chunks k ON k.digest = substring(CAST(:digests AS bytea) FROM i * 32 + 1 FOR 32);

-- statement: import_stage_candidates
-- An import that dies leaves chunks behind that no checkpoint ever used: they are noted before that can happen.
INSERT INTO chunk_candidates (chunk_id)
SELECT DISTINCT k.chunk_id FROM import_chunks k
WHERE k.import_id = :import_id AND k.ordinal = :ordinal
  AND NOT EXISTS (SELECT 1 FROM chunk_candidates c WHERE c.chunk_id = k.chunk_id)
ON CONFLICT (chunk_id) DO NOTHING;

-- statement: import_depths
-- How far each task is from one that is no fork of another in the file. Those in a circle get no depth.
WITH RECURSIVE d (task_id, depth) AS (
    SELECT t.task_id, 0 FROM import_tasks t
    WHERE t.import_id = :import_id
      AND (t.forked_from IS NULL
           OR NOT EXISTS (SELECT 1 FROM import_tasks p WHERE p.import_id = t.import_id AND p.task_id = t.forked_from))
    UNION ALL
    SELECT t.task_id, d.depth + 1 FROM d JOIN import_tasks t ON t.import_id = :import_id AND t.forked_from = d.task_id
    WHERE d.depth < 64)
UPDATE import_tasks SET depth = d.depth FROM d WHERE import_tasks.import_id = :import_id AND import_tasks.task_id = d.task_id;

-- statement: import_count
-- Tasks, those without a depth, the greatest depth, checkpoints.
SELECT (SELECT count(*) FROM import_tasks WHERE import_id = :import_id),
       (SELECT count(*) FROM import_tasks WHERE import_id = :import_id AND depth IS NULL),
       (SELECT CAST(coalesce(max(depth), 0) AS BIGINT) FROM import_tasks WHERE import_id = :import_id),
       (SELECT count(*) FROM import_checkpoints WHERE import_id = :import_id);

-- statement: import_row_without_task
SELECT s.checkpoint_id, s.task_id FROM import_checkpoints s
WHERE s.import_id = :import_id
  AND NOT EXISTS (SELECT 1 FROM import_tasks t WHERE t.import_id = s.import_id AND t.task_id = s.task_id)
LIMIT 1;

-- statement: import_known_plain
-- Checkpoints of the file that are here already, but came by plain SQL: their content must be compared.
SELECT s.ordinal, c.global_sequence, s.checksum
FROM import_checkpoints s JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
WHERE s.import_id = :import_id AND s.ordinal > :after AND c.checksum IS NULL
ORDER BY s.ordinal LIMIT :limit;

-- statement: import_known_plain_count
SELECT count(*) FROM import_checkpoints s JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
WHERE s.import_id = :import_id AND c.checksum IS NULL;

-- ---- publishing ----

-- statement: import_types_publish
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description)
SELECT t.checkpoint_type, t.is_resumable, t.description FROM import_types t WHERE t.import_id = :import_id
  AND NOT EXISTS (SELECT 1 FROM checkpoint_types x WHERE x.checkpoint_type = t.checkpoint_type)
ON CONFLICT (checkpoint_type) DO NOTHING;

-- statement: import_row_without_type
SELECT s.checkpoint_id, s.checkpoint_type FROM import_checkpoints s
WHERE s.import_id = :import_id
  AND NOT EXISTS (SELECT 1 FROM checkpoint_types t WHERE t.checkpoint_type = s.checkpoint_type)
LIMIT 1;

-- statement: import_tasks_mark
UPDATE import_tasks SET is_new = NOT EXISTS (SELECT 1 FROM tasks x WHERE x.task_id = import_tasks.task_id)
WHERE import_id = :import_id;

-- statement: import_tasks_publish
INSERT INTO tasks (task_id, title, status, metadata, created_at, updated_at, completed_at, forked_from, revision)
SELECT t.task_id, t.title, t.status, t.metadata, t.created_at, t.created_at, t.completed_at, t.forked_from, 1
FROM import_tasks t WHERE t.import_id = :import_id AND t.is_new = :yes ORDER BY t.task_id;

-- statement: import_heads_lock  only: postgres
-- In the order in which everybody locks them, before the journal's head.
SELECT h.last_sequence FROM task_heads h JOIN import_tasks t ON t.task_id = h.task_id
WHERE t.import_id = :import_id ORDER BY h.task_id FOR UPDATE OF h;

-- statement: import_head_lock  engine: sqlite
UPDATE journal_head SET last_at = max(last_at, :clock) WHERE id = 1 RETURNING last;

-- statement: import_head_lock  engine: postgres
UPDATE journal_head SET last_at = greatest(last_at, coalesce(:clock, clock_timestamp())) WHERE id = 1 RETURNING last;

-- statement: import_mismatch
SELECT s.checkpoint_id FROM import_checkpoints s JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
WHERE s.import_id = :import_id AND (c.checksum <> s.checksum OR c.task_id <> s.task_id)
LIMIT 1;

-- statement: import_new_rows
-- How many are new here, their lowest and highest number in the file, and how many different ones.
SELECT count(*), coalesce(min(s.source_global), 0), coalesce(max(s.source_global), 0), count(DISTINCT s.source_global)
FROM import_checkpoints s
WHERE s.import_id = :import_id AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.checkpoint_id = s.checkpoint_id);

-- statement: import_new_annotations  engine: sqlite
SELECT count(*) FROM import_checkpoints s
CROSS JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
CROSS JOIN json_each(s.annotations) e
WHERE s.import_id = :import_id AND s.annotations IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM checkpoint_annotations a
                  WHERE a.global_sequence = c.global_sequence AND a.severity = json_extract(e.value, '$.severity')
                    AND a.note = json_extract(e.value, '$.note')
                    AND a.created_at = json_extract(e.value, '$.created_at'));

-- statement: import_new_annotations  engine: postgres
SELECT count(*) FROM import_checkpoints s
JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
CROSS JOIN LATERAL json_array_elements(CAST(s.annotations AS json)) e
WHERE s.import_id = :import_id AND s.annotations IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM checkpoint_annotations a
                  WHERE a.global_sequence = c.global_sequence AND a.severity = e ->> 'severity'
                    AND a.note = e ->> 'note'
                    AND a.created_at = CAST((e ->> 'created_at') || '+00' AS timestamptz));

-- statement: import_tasks_behind
-- Tasks of the file that are not here, or whose counter stood higher there.
SELECT count(*) FROM import_tasks t LEFT JOIN task_heads h ON h.task_id = t.task_id
WHERE t.import_id = :import_id AND (h.task_id IS NULL OR h.last_sequence < t.last_sequence);

-- statement: import_order_fill
INSERT INTO import_order (import_id, task_id, task_rank, global_rank, ordinal, new_global)
SELECT CAST(:import_id AS BIGINT), n.task_id, row_number() OVER (PARTITION BY n.task_id ORDER BY n.place, n.ordinal),
       row_number() OVER (ORDER BY n.place, n.ordinal), n.ordinal,
       CASE WHEN :is_kept THEN n.source_global
            ELSE CAST(:head AS BIGINT) + row_number() OVER (ORDER BY n.place, n.ordinal) END
FROM (SELECT s.task_id, s.ordinal, s.source_global,
             CASE WHEN :is_by_place THEN s.ordinal ELSE s.source_global END AS place
      FROM import_checkpoints s
      WHERE s.import_id = :import_id
        AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.checkpoint_id = s.checkpoint_id)) n;

-- statement: import_head_raise
UPDATE journal_head SET last = :last WHERE id = 1 AND last < :last;

-- statement: import_sequence_add  only: sqlite
-- SQLite numbers plain rows by a counter of its own, which must not fall behind.
INSERT INTO sqlite_sequence (name, seq)
SELECT 'checkpoints', :last WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'checkpoints');

-- statement: import_sequence_raise  only: sqlite
UPDATE sqlite_sequence SET seq = :last WHERE name = 'checkpoints' AND seq < :last;

-- statement: import_tags_publish  engine: sqlite
INSERT INTO checkpoint_tags (global_sequence, tag)
SELECT o.new_global, e.value
FROM import_order o CROSS JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
CROSS JOIN json_each(s.tags) e
WHERE o.import_id = :import_id AND s.tags IS NOT NULL;

-- statement: import_tags_publish  engine: postgres
INSERT INTO checkpoint_tags (global_sequence, tag)
SELECT o.new_global, e.value
FROM import_order o JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
CROSS JOIN LATERAL json_array_elements_text(CAST(s.tags AS json)) e (value)
WHERE o.import_id = :import_id AND s.tags IS NOT NULL;

-- statement: import_chunks_publish
INSERT INTO checkpoint_chunks (global_sequence, position, chunk_id)
SELECT o.new_global, k.position, k.chunk_id
FROM import_order o JOIN import_chunks k ON k.import_id = o.import_id AND k.ordinal = o.ordinal
WHERE o.import_id = :import_id;

-- statement: import_forks
-- Forks at this depth that are new here, and the number of their fork points in this store.
SELECT t.task_id, t.forked_from,
       (SELECT c.sequence_number FROM checkpoints c WHERE c.checkpoint_id = t.fork_point AND c.task_id = t.forked_from)
FROM import_tasks t
WHERE t.import_id = :import_id AND t.depth = :depth AND t.is_new = :yes AND t.forked_from IS NOT NULL
ORDER BY t.task_id;

-- statement: import_fork_set
UPDATE tasks SET forked_at = :number, revision = revision + 1 WHERE task_id = :task_id;

-- statement: import_shifts
-- A task keeps its numbers if all new ones lie above its counter and rise; otherwise they are counted on from it.
UPDATE import_tasks
SET shift = CASE WHEN n.lowest > h.last_sequence AND n.falls = 0 THEN NULL ELSE h.last_sequence END
FROM task_heads h,
     (SELECT x.task_id, min(x.source_number) AS lowest, sum(CASE WHEN x.source_number <= x.before THEN 1 ELSE 0 END) AS falls
      FROM (SELECT o.task_id, s.source_number,
                   lag(s.source_number) OVER (PARTITION BY o.task_id ORDER BY o.task_rank) AS before
            FROM import_order o JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
            WHERE o.import_id = :import_id) x
      GROUP BY x.task_id) n
WHERE import_tasks.import_id = :import_id AND import_tasks.depth = :depth AND h.task_id = import_tasks.task_id
  AND n.task_id = import_tasks.task_id;

-- statement: import_heads_raise
-- To the last new number, and at least to where the counter stood in the file.
UPDATE task_heads SET last_sequence = f.last
FROM (SELECT t.task_id,
             CASE WHEN t.last_sequence > coalesce(x.last, 0) THEN t.last_sequence ELSE coalesce(x.last, 0) END AS last
      FROM import_tasks t
      LEFT JOIN (SELECT o.task_id,
                        max(CASE WHEN u.shift IS NULL THEN s.source_number ELSE u.shift + o.task_rank END) AS last
                 FROM import_order o
                 JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
                 JOIN import_tasks u ON u.import_id = o.import_id AND u.task_id = o.task_id
                 WHERE o.import_id = :import_id GROUP BY o.task_id) x ON x.task_id = t.task_id
      WHERE t.import_id = :import_id AND t.depth = :depth) f
WHERE task_heads.task_id = f.task_id AND f.last > task_heads.last_sequence;

-- statement: import_rows_publish  engine: sqlite
-- Row by row along each task, because each link of the chain needs the one before it. CROSS JOIN keeps the order of the
-- joins: from a row to the next by its key. Left alone, SQLite reads all of the file's rows for each of them.
WITH RECURSIVE linked (ordinal, task_id, task_rank, new_global, number, chain) AS (
    SELECT o.ordinal, o.task_id, o.task_rank, o.new_global,
           CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + 1 END,
           tide_link(h.chain, CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + 1 END, s.checksum)
    FROM import_tasks t
    CROSS JOIN import_order o ON o.import_id = t.import_id AND o.task_id = t.task_id AND o.task_rank = 1
    CROSS JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
    CROSS JOIN task_heads h ON h.task_id = t.task_id
    WHERE t.import_id = :import_id AND t.depth = :depth
    UNION ALL
    SELECT o.ordinal, o.task_id, o.task_rank, o.new_global,
           CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + o.task_rank END,
           tide_link(l.chain, CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + o.task_rank END, s.checksum)
    FROM linked l
    CROSS JOIN import_order o ON o.import_id = :import_id AND o.task_id = l.task_id AND o.task_rank = l.task_rank + 1
    CROSS JOIN import_tasks t ON t.import_id = o.import_id AND t.task_id = o.task_id
    CROSS JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal)
INSERT INTO checkpoints (global_sequence, sequence_number, checkpoint_id, task_id, work_item_id, checkpoint_type,
                         snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len, chunk_count, checksum,
                         chain, origin_session, origin_global, origin_number)
SELECT l.new_global, l.number, s.checkpoint_id, s.task_id, s.work_item_id, s.checkpoint_type, s.snapshot_data, s.metadata,
       s.created_at, s.message, s.trigger_kind, s.snapshot_len, s.chunk_count, s.checksum, l.chain, s.origin_session,
       s.origin_global, s.origin_number
FROM linked l CROSS JOIN import_checkpoints s ON s.import_id = :import_id AND s.ordinal = l.ordinal
ORDER BY l.new_global;

-- statement: import_rows_publish  engine: postgres
-- OFFSET 0 makes the next row a question of its own, answered by its key. Otherwise PostgreSQL joins all of the file's rows in
-- each round, because it cannot know how short the rounds are.
WITH RECURSIVE linked (ordinal, task_id, task_rank, new_global, number, chain) AS (
    SELECT o.ordinal, o.task_id, o.task_rank, o.new_global,
           CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + 1 END,
           tide_link(h.chain, CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + 1 END, s.checksum)
    FROM import_tasks t
    JOIN import_order o ON o.import_id = t.import_id AND o.task_id = t.task_id AND o.task_rank = 1
    JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
    JOIN task_heads h ON h.task_id = t.task_id
    WHERE t.import_id = :import_id AND t.depth = :depth
    UNION ALL
    SELECT n.ordinal, n.task_id, n.task_rank, n.new_global, n.number, tide_link(l.chain, n.number, n.checksum)
    FROM linked l CROSS JOIN LATERAL (
        SELECT o.ordinal, o.task_id, o.task_rank, o.new_global, s.checksum,
               CASE WHEN t.shift IS NULL THEN s.source_number ELSE t.shift + o.task_rank END AS number
        FROM import_order o
        JOIN import_tasks t ON t.import_id = o.import_id AND t.task_id = o.task_id
        JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
        WHERE o.import_id = :import_id AND o.task_id = l.task_id AND o.task_rank = l.task_rank + 1
        OFFSET 0) n)
INSERT INTO checkpoints (global_sequence, sequence_number, checkpoint_id, task_id, work_item_id, checkpoint_type,
                         snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len, chunk_count, checksum,
                         chain, origin_session, origin_global, origin_number)
SELECT l.new_global, l.number, s.checkpoint_id, s.task_id, s.work_item_id, s.checkpoint_type, s.snapshot_data, s.metadata,
       s.created_at, s.message, s.trigger_kind, s.snapshot_len, s.chunk_count, s.checksum, l.chain, s.origin_session,
       s.origin_global, s.origin_number
FROM linked l JOIN import_checkpoints s ON s.import_id = :import_id AND s.ordinal = l.ordinal
ORDER BY l.new_global;

-- statement: import_chains_publish
UPDATE task_heads SET chain = x.chain
FROM (SELECT o.task_id, c.chain
      FROM import_order o
      JOIN (SELECT task_id, max(task_rank) AS top FROM import_order WHERE import_id = :import_id GROUP BY task_id) m
           ON m.task_id = o.task_id AND m.top = o.task_rank
      JOIN import_tasks t ON t.import_id = o.import_id AND t.task_id = o.task_id AND t.depth = :depth
      JOIN checkpoints c ON c.global_sequence = o.new_global
      WHERE o.import_id = :import_id) x
WHERE task_heads.task_id = x.task_id;

-- statement: import_gaps_publish
-- Numbers between those of the file belong to checkpoints that did not come.
INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
SELECT g.before + 1, g.new_global - 1, 'imported', (SELECT last_at FROM journal_head WHERE id = 1)
FROM (SELECT o.new_global, lag(o.new_global, 1, CAST(:head AS BIGINT)) OVER (ORDER BY o.new_global) AS before
      FROM import_order o WHERE o.import_id = :import_id) g
WHERE g.new_global > g.before + 1;

-- statement: import_gap_publish
INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
VALUES (:first, :last, 'imported', (SELECT last_at FROM journal_head WHERE id = 1));

-- statement: import_annotations_publish  engine: sqlite
INSERT INTO checkpoint_annotations (global_sequence, severity, note, created_at)
SELECT c.global_sequence, json_extract(e.value, '$.severity'), json_extract(e.value, '$.note'),
       json_extract(e.value, '$.created_at')
FROM import_checkpoints s
CROSS JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
CROSS JOIN json_each(s.annotations) e
WHERE s.import_id = :import_id AND s.annotations IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM checkpoint_annotations a
                  WHERE a.global_sequence = c.global_sequence AND a.severity = json_extract(e.value, '$.severity')
                    AND a.note = json_extract(e.value, '$.note')
                    AND a.created_at = json_extract(e.value, '$.created_at'));

-- statement: import_annotations_publish  engine: postgres
INSERT INTO checkpoint_annotations (global_sequence, severity, note, created_at)
SELECT c.global_sequence, e ->> 'severity', e ->> 'note', CAST((e ->> 'created_at') || '+00' AS timestamptz)
FROM import_checkpoints s
JOIN checkpoints c ON c.checkpoint_id = s.checkpoint_id
CROSS JOIN LATERAL json_array_elements(CAST(s.annotations AS json)) e
WHERE s.import_id = :import_id AND s.annotations IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM checkpoint_annotations a
                  WHERE a.global_sequence = c.global_sequence AND a.severity = e ->> 'severity'
                    AND a.note = e ->> 'note'
                    AND a.created_at = CAST((e ->> 'created_at') || '+00' AS timestamptz));

-- statement: import_result
-- New checkpoints, those with other numbers than in the file, the first and the last global number.
SELECT count(*),
       count(CASE WHEN o.new_global <> s.source_global
                       OR (t.shift IS NOT NULL AND t.shift + o.task_rank <> s.source_number) THEN 1 END),
       coalesce(min(o.new_global), 0), coalesce(max(o.new_global), 0)
FROM import_order o
JOIN import_checkpoints s ON s.import_id = o.import_id AND s.ordinal = o.ordinal
JOIN import_tasks t ON t.import_id = o.import_id AND t.task_id = o.task_id
WHERE o.import_id = :import_id;

-- ---- cleaning up ----

-- statement: import_stale
-- Runs that are over, or whose process has said nothing for a long time.
SELECT import_id FROM import_runs WHERE (state = 'published' OR touched_at < :before) AND import_id > :after
ORDER BY import_id LIMIT 1;

-- statement: import_clear_rows
DELETE FROM import_checkpoints
WHERE import_id = :import_id
  AND ordinal IN (SELECT s.ordinal FROM import_checkpoints s WHERE s.import_id = :import_id ORDER BY s.ordinal LIMIT :limit);

-- statement: import_clear_chunks
DELETE FROM import_chunks
WHERE import_id = :import_id
  AND ordinal IN (SELECT s.ordinal FROM import_chunks s WHERE s.import_id = :import_id ORDER BY s.ordinal LIMIT :limit);

-- statement: import_clear_order
DELETE FROM import_order
WHERE import_id = :import_id
  AND ordinal IN (SELECT s.ordinal FROM import_order s WHERE s.import_id = :import_id ORDER BY s.ordinal LIMIT :limit);

-- statement: import_clear_tasks
DELETE FROM import_tasks
WHERE import_id = :import_id
  AND task_id IN (SELECT s.task_id FROM import_tasks s WHERE s.import_id = :import_id ORDER BY s.task_id LIMIT :limit);

-- statement: import_clear_types
DELETE FROM import_types WHERE import_id = :import_id;

-- statement: import_clear_run
DELETE FROM import_runs WHERE import_id = :import_id;
