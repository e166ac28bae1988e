-- Statements of the colony: see colony/sink.h and colony/registry.h. Tables are in colony_schema.sql.
--
-- Lists travel as one JSON parameter: one statement per change, whatever its length. Rows travel in bulk (store/bulk.h).

-- ---- positions ----

-- statement: source_put
-- The source of a position; what is learnt of its epoch is added.
INSERT INTO polling_sources (agent_id, data_type, session_id, epoch, epoch_id, created_at)
VALUES (:agent_id, :data_type, :session_id, :epoch, :epoch_id, :now)
ON CONFLICT (agent_id, data_type, session_id, epoch) DO UPDATE
SET epoch_id = CASE excluded.epoch_id WHEN '' THEN polling_sources.epoch_id ELSE excluded.epoch_id END
RETURNING source_id;

-- statement: session_turn  only: postgres
-- Of two agents with one session that begin at once, the second sees the first.
SELECT pg_advisory_xact_lock(6073460, hashtext(:session_id));

-- statement: session_owner
-- Another agent that has this session, and was not removed.
SELECT s.agent_id FROM polling_sources s
WHERE s.session_id = :session_id AND s.agent_id <> :agent_id AND NOT EXISTS (
    SELECT 1 FROM polling_checkpoints c
    WHERE c.agent_id = s.agent_id AND c.data_type = s.data_type AND c.closed_at IS NOT NULL)
ORDER BY s.agent_id LIMIT 1;

-- statement: position_find
SELECT c.source_id, c.agent_id, c.data_type, c.session_id, c.epoch, c.epoch_id, c.version, c.first_seq_id,
       c.last_seq_id, c.highest_seq_id, c.head_seq_id, c.oldest_seq_id, c.holes, c.held, c.cursor, c.stored, c.dead,
       c.filtered, c.points, c.is_foreign, c.next_arrived_ms, c.head_arrived_ms, c.agent_now_ms, c.retention_ms,
       c.created_at, c.updated_at, c.last_poll_time, c.closed_at, c.closed_reason, s.expired, s.folded_void,
       s.folded_lost, s.folded_recovered
FROM polling_checkpoints c JOIN polling_sources s ON s.source_id = c.source_id
WHERE c.agent_id = :agent_id AND c.data_type = :data_type;

-- statement: position_closed
-- Has this source a closed position?
SELECT version FROM polling_checkpoint_history WHERE source_id = :source_id AND event = 'closed';

-- statement: position_reopen
UPDATE polling_checkpoint_history SET event = 'reopened' WHERE source_id = :source_id AND event = 'closed';

-- statement: position_add
-- Zero rows: somebody was first.
INSERT INTO polling_checkpoints (
    source_id, agent_id, data_type, session_id, epoch, epoch_id, version, first_seq_id, last_seq_id, highest_seq_id,
    head_seq_id, oldest_seq_id, holes, held, cursor, stored, dead, filtered, points, is_foreign, next_arrived_ms,
    head_arrived_ms, agent_now_ms, retention_ms, created_at, updated_at, last_poll_time, closed_at, closed_reason)
SELECT :source_id, :agent_id, :data_type, :session_id, :epoch, :epoch_id, :version, :first_seq_id, :last_seq_id,
       :highest_seq_id, :head_seq_id, :oldest_seq_id, :holes, :held, :cursor, :stored, :dead, :filtered, :points,
       :is_foreign, :next_arrived_ms, :head_arrived_ms, :agent_now_ms, :retention_ms, :created_at, :updated_at,
       :last_poll_time, :closed_at, :closed_reason
WHERE NOT EXISTS (SELECT 1 FROM polling_checkpoints WHERE agent_id = :agent_id AND data_type = :data_type)
ON CONFLICT (agent_id, data_type) DO NOTHING;

-- statement: position_move
-- Zero rows: it is no longer what the change was made from.
UPDATE polling_checkpoints SET
    source_id = :source_id, session_id = :session_id, epoch = :epoch, epoch_id = :epoch_id, version = :version,
    first_seq_id = :first_seq_id, last_seq_id = :last_seq_id, highest_seq_id = :highest_seq_id,
    head_seq_id = :head_seq_id, oldest_seq_id = :oldest_seq_id, holes = :holes, held = :held, cursor = :cursor,
    stored = :stored, dead = :dead, filtered = :filtered, points = :points, is_foreign = :is_foreign,
    next_arrived_ms = :next_arrived_ms, head_arrived_ms = :head_arrived_ms, agent_now_ms = :agent_now_ms,
    retention_ms = :retention_ms, created_at = :created_at, updated_at = :updated_at,
    last_poll_time = :last_poll_time, closed_at = :closed_at, closed_reason = :closed_reason
WHERE agent_id = :agent_id AND data_type = :data_type AND version = :from_version;

-- statement: position_move_closed
-- The same for one that is closed: its gaps are still recovered.
UPDATE polling_checkpoint_history SET
    session_id = :session_id, epoch = :epoch, epoch_id = :epoch_id, version = :version, first_seq_id = :first_seq_id,
    last_seq_id = :last_seq_id, highest_seq_id = :highest_seq_id, head_seq_id = :head_seq_id,
    oldest_seq_id = :oldest_seq_id, holes = :holes, held = :held, cursor = :cursor, stored = :stored, dead = :dead,
    filtered = :filtered, points = :points, is_foreign = :is_foreign, next_arrived_ms = :next_arrived_ms,
    head_arrived_ms = :head_arrived_ms, agent_now_ms = :agent_now_ms, retention_ms = :retention_ms,
    created_at = :created_at, updated_at = :updated_at, last_poll_time = :last_poll_time, closed_at = :closed_at,
    closed_reason = :closed_reason
WHERE source_id = :source_id AND agent_id = :agent_id AND data_type = :data_type AND event = 'closed' AND version = :from_version;

-- statement: position_note
INSERT INTO polling_checkpoint_history (event, note, recorded_at,
    source_id, agent_id, data_type, session_id, epoch, epoch_id, version, first_seq_id, last_seq_id, highest_seq_id,
    head_seq_id, oldest_seq_id, holes, held, cursor, stored, dead, filtered, points, is_foreign, next_arrived_ms,
    head_arrived_ms, agent_now_ms, retention_ms, created_at, updated_at, last_poll_time, closed_at, closed_reason)
VALUES (:event, :note, :recorded_at,
    :source_id, :agent_id, :data_type, :session_id, :epoch, :epoch_id, :version, :first_seq_id, :last_seq_id,
    :highest_seq_id, :head_seq_id, :oldest_seq_id, :holes, :held, :cursor, :stored, :dead, :filtered, :points,
    :is_foreign, :next_arrived_ms, :head_arrived_ms, :agent_now_ms, :retention_ms, :created_at, :updated_at,
    :last_poll_time, :closed_at, :closed_reason);

-- statement: position_list
-- Positions with the sums of their gap records, of one snapshot: the ledger balances or does not.
SELECT c.source_id, c.agent_id, c.data_type, c.session_id, c.epoch, c.epoch_id, c.version, c.first_seq_id,
       c.last_seq_id, c.highest_seq_id, c.head_seq_id, c.oldest_seq_id, c.holes, c.held, c.cursor, c.stored, c.dead,
       c.filtered, c.points, c.is_foreign, c.next_arrived_ms, c.head_arrived_ms, c.agent_now_ms, c.retention_ms,
       c.created_at, c.updated_at, c.last_poll_time, c.closed_at, c.closed_reason, s.expired, s.folded_void,
       s.folded_lost, s.folded_recovered,
       CAST(coalesce((SELECT sum(end_seq_id - start_seq_id + 1) FROM sequence_gaps g
                      WHERE g.source_id = c.source_id AND g.status IN ('detected', 'recovering')), 0) AS bigint),
       CAST(coalesce((SELECT sum(end_seq_id - start_seq_id + 1) FROM sequence_gaps g
                      WHERE g.source_id = c.source_id AND g.status = 'void'), 0) AS bigint),
       CAST(coalesce((SELECT sum(end_seq_id - start_seq_id + 1) FROM sequence_gaps g
                      WHERE g.source_id = c.source_id AND g.status = 'permanent'), 0) AS bigint),
       CAST(coalesce((SELECT sum(end_seq_id - start_seq_id + 1) FROM sequence_gaps g
                      WHERE g.source_id = c.source_id AND g.status = 'recovered'), 0) AS bigint),
       CAST(coalesce((SELECT sum(end_seq_id - start_seq_id + 1) FROM sequence_gaps g
                      WHERE g.source_id = c.source_id AND g.status = 'permanent' AND g.reason = 'operator'), 0) AS bigint)
FROM (SELECT source_id, agent_id, data_type, session_id, epoch, epoch_id, version, first_seq_id, last_seq_id,
           highest_seq_id, head_seq_id, oldest_seq_id, holes, held, cursor, stored, dead, filtered, points,
           is_foreign, next_arrived_ms, head_arrived_ms, agent_now_ms, retention_ms, created_at, updated_at,
           last_poll_time, closed_at, closed_reason
      FROM polling_checkpoints WHERE closed_at IS NULL
      UNION ALL
      SELECT source_id, agent_id, data_type, session_id, epoch, epoch_id, version, first_seq_id, last_seq_id,
           highest_seq_id, head_seq_id, oldest_seq_id, holes, held, cursor, stored, dead, filtered, points,
           is_foreign, next_arrived_ms, head_arrived_ms, agent_now_ms, retention_ms, created_at, updated_at,
           last_poll_time, closed_at, closed_reason
      FROM polling_checkpoint_history WHERE event = 'closed' AND :with_closed) AS c
JOIN polling_sources s ON s.source_id = c.source_id
WHERE (CAST(:agent_id AS text) IS NULL OR c.agent_id = CAST(:agent_id AS text))
  AND (CAST(:data_type AS text) IS NULL OR c.data_type = CAST(:data_type AS text))
  AND (c.agent_id, c.data_type, c.source_id) > (:after_agent, :after_type, :after_source) AND c.agent_id <= :last_agent
ORDER BY c.agent_id, c.data_type, c.source_id LIMIT :limit;

-- ---- gaps ----

-- statement: gap_put  engine: sqlite
-- A list of [start, end, status, reason, evidence, attempts, detected, recovered, last attempt, settled]. One with this start that
-- is there already is a bug or somebody else's, and fails: nothing is counted twice.
INSERT INTO sequence_gaps (agent_id, data_type, session_id, epoch, source_id, start_seq_id, end_seq_id, status, reason,
                           evidence, recovery_attempts, detected_at, recovered_at, last_recovery_attempt, settled_at)
SELECT :agent_id, :data_type, :session_id, :epoch, :source_id, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9
FROM json_each(:gaps) WHERE true
RETURNING id, start_seq_id;

-- statement: gap_put  engine: postgres
INSERT INTO sequence_gaps (agent_id, data_type, session_id, epoch, source_id, start_seq_id, end_seq_id, status, reason,
                           evidence, recovery_attempts, detected_at, recovered_at, last_recovery_attempt, settled_at)
SELECT :agent_id, :data_type, :session_id, CAST(:epoch AS bigint), CAST(:source_id AS bigint), CAST(g ->> 0 AS bigint),
       CAST(g ->> 1 AS bigint), g ->> 2, g ->> 3, g ->> 4, CAST(g ->> 5 AS bigint),
       CAST(g ->> 6 AS timestamp) AT TIME ZONE 'UTC', CAST(g ->> 7 AS timestamp) AT TIME ZONE 'UTC',
       CAST(g ->> 8 AS timestamp) AT TIME ZONE 'UTC', CAST(g ->> 9 AS timestamp) AT TIME ZONE 'UTC'
FROM json_array_elements(CAST(:gaps AS json)) AS g
RETURNING id, start_seq_id;

-- statement: gap_change
-- Zero rows: it was cleaned up meanwhile, or is somebody else's.
UPDATE sequence_gaps
SET end_seq_id = :end, status = :status, reason = :reason, evidence = :evidence,
    recovery_attempts = :attempts, recovered_at = :recovered_at, last_recovery_attempt = :last_attempt,
    settled_at = :settled_at
WHERE id = :id AND source_id = :source_id AND start_seq_id = :start;

-- statement: gap_close_all
UPDATE sequence_gaps SET status = 'permanent', reason = :reason, settled_at = :now
WHERE source_id = :source_id AND status IN ('detected', 'recovering') AND end_seq_id > :above;

-- statement: gap_find
SELECT id, agent_id, data_type, session_id, epoch, source_id, start_seq_id, end_seq_id, status, reason, evidence,
       recovery_attempts, detected_at, recovered_at, last_recovery_attempt, settled_at
FROM sequence_gaps WHERE id = :id;

-- statement: gap_list
SELECT id, agent_id, data_type, session_id, epoch, source_id, start_seq_id, end_seq_id, status, reason, evidence,
       recovery_attempts, detected_at, recovered_at, last_recovery_attempt, settled_at
FROM sequence_gaps
WHERE id > :after
  AND (CAST(:agent_id AS text) IS NULL OR agent_id = CAST(:agent_id AS text))
  AND (CAST(:data_type AS text) IS NULL OR data_type = CAST(:data_type AS text))
  AND (CAST(:session_id AS text) IS NULL OR session_id = CAST(:session_id AS text))
  AND (CAST(:epoch AS bigint) < 0 OR epoch = CAST(:epoch AS bigint))
  AND start_seq_id <= :last AND end_seq_id >= :first
  AND (:detected AND status = 'detected' OR :recovering AND status = 'recovering' OR :recovered AND status = 'recovered'
       OR :permanent AND status = 'permanent' OR :void AND status = 'void')
ORDER BY id LIMIT :limit;

-- statement: gap_list_of
-- The same for one position: by the unique key.
SELECT id, agent_id, data_type, session_id, epoch, source_id, start_seq_id, end_seq_id, status, reason, evidence,
       recovery_attempts, detected_at, recovered_at, last_recovery_attempt, settled_at
FROM sequence_gaps
WHERE id > :after AND agent_id = :agent_id AND data_type = :data_type AND session_id = :session_id AND epoch = :epoch
  AND start_seq_id <= :last AND end_seq_id >= :first
  AND (:detected AND status = 'detected' OR :recovering AND status = 'recovering' OR :recovered AND status = 'recovered'
       OR :permanent AND status = 'permanent' OR :void AND status = 'void')
ORDER BY id LIMIT :limit;

-- statement: gap_ended  engine: sqlite
SELECT id, source_id, status, end_seq_id - start_seq_id + 1 FROM sequence_gaps
WHERE settled_at < :before AND status IN ('recovered', 'permanent', 'void') ORDER BY settled_at, id LIMIT :limit;

-- statement: gap_ended  engine: postgres
-- Ended ones that may be cleaned up. SKIP LOCKED: several colonies may do this at once.
SELECT id, source_id, status, end_seq_id - start_seq_id + 1 FROM sequence_gaps
WHERE settled_at < :before AND status IN ('recovered', 'permanent', 'void') ORDER BY settled_at, id LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- statement: gap_drop
DELETE FROM sequence_gaps WHERE id = :id;

-- statement: source_add
-- What leaves the tables stays counted.
UPDATE polling_sources
SET expired = expired + :expired, expired_dead = expired_dead + :expired_dead, folded_void = folded_void + :voided,
    folded_lost = folded_lost + :lost, folded_recovered = folded_recovered + :recovered
WHERE source_id = :source_id;

-- ---- what comes with the rows ----

-- statement: batch_put
INSERT INTO polling_batches (source_id, target, first_seq, last_seq, rows, stored_at, chain)
VALUES (:source_id, :target, :first, :last, :rows, :now, :chain);

-- statement: batch_old  engine: sqlite
SELECT id, source_id, first_seq, last_seq FROM polling_batches WHERE target = :target AND stored_at < :before
ORDER BY stored_at, id LIMIT :limit;

-- statement: batch_old  engine: postgres
SELECT id, source_id, first_seq, last_seq FROM polling_batches WHERE target = :target AND stored_at < :before
ORDER BY stored_at, id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- statement: batch_drop
DELETE FROM polling_batches WHERE id = :id;

-- statement: dead_letter_put  bulk: sqlite
INSERT INTO dead_letters_rows (source_id, seq_id, reason, body, stored_at) VALUES (:source_id, :seq, :reason, :body, :now);

-- statement: dead_letter_put  bulk: postgres
COPY dead_letters_rows (source_id, seq_id, reason, body, stored_at) FROM STDIN (FORMAT binary);

-- statement: dead_letter_count
-- Those whose number is known, expired ones included.
SELECT (SELECT count(*) FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0)
       + coalesce((SELECT expired_dead FROM polling_sources WHERE source_id = :source_id), 0);

-- statement: dead_letter_old  engine: sqlite
SELECT id, source_id, seq_id FROM dead_letters_rows WHERE stored_at < :before ORDER BY stored_at, id LIMIT :limit;

-- statement: dead_letter_old  engine: postgres
SELECT id, source_id, seq_id FROM dead_letters_rows WHERE stored_at < :before ORDER BY stored_at, id LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- statement: dead_letter_drop
DELETE FROM dead_letters_rows WHERE id = :id;

-- statement: frame_put  engine: sqlite
-- A list of [id, name]. A frame keeps its name.
INSERT INTO profile_frames_rows (agent_id, session_id, frame_id, frame_name)
SELECT :agent_id, :session_id, value ->> 0, value ->> 1 FROM json_each(:frames) WHERE true
ON CONFLICT (agent_id, session_id, frame_id) DO NOTHING;

-- statement: frame_put  engine: postgres
-- Two streams of one agent bring the same frames: everybody locks them in the order of their numbers.
INSERT INTO profile_frames_rows (agent_id, session_id, frame_id, frame_name)
SELECT :agent_id, :session_id, CAST(f ->> 0 AS bigint), f ->> 1
FROM json_array_elements(CAST(:frames AS json)) AS f ORDER BY 3
ON CONFLICT (agent_id, session_id, frame_id) DO NOTHING;

-- statement: rollup_put  engine: sqlite
-- A list of [minute, service, bucket, count, errors], ascending. Sums stop at 2^50: an agent that counts nonsense
-- cannot make them overflow.
INSERT INTO rollup_buckets (data_type, minute, agent_id, service_name, bucket, count, errors)
SELECT :data_type, value ->> 0, :agent_id, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:buckets) WHERE true
ON CONFLICT (data_type, minute, agent_id, service_name, bucket) DO UPDATE
SET count = min(rollup_buckets.count + excluded.count, 1125899906842624),
    errors = min(rollup_buckets.errors + excluded.errors, 1125899906842624);

-- statement: rollup_put  engine: postgres
INSERT INTO rollup_buckets (data_type, minute, agent_id, service_name, bucket, count, errors)
SELECT :data_type, CAST(b ->> 0 AS timestamp) AT TIME ZONE 'UTC', :agent_id, b ->> 1, CAST(b ->> 2 AS bigint),
       CAST(b ->> 3 AS bigint), CAST(b ->> 4 AS bigint)
FROM json_array_elements(CAST(:buckets AS json)) AS b
ON CONFLICT (data_type, minute, agent_id, service_name, bucket) DO UPDATE
SET count = least(rollup_buckets.count + excluded.count, 1125899906842624),
    errors = least(rollup_buckets.errors + excluded.errors, 1125899906842624);

-- statement: rollup_drop  engine: sqlite
DELETE FROM rollup_buckets WHERE (data_type, minute, agent_id, service_name, bucket) IN (
    SELECT data_type, minute, agent_id, service_name, bucket FROM rollup_buckets
    WHERE data_type = :data_type AND minute < :before LIMIT :limit);

-- statement: rollup_drop  engine: postgres
DELETE FROM rollup_buckets WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM rollup_buckets WHERE data_type = :data_type AND minute < :before LIMIT :limit FOR UPDATE SKIP LOCKED));

-- ---- rows, per table: the columns are those of feed/record.h, in their order ----

-- statement: spans_put  bulk: sqlite
INSERT INTO spans_rows (
    source_id, seq_id, timestamp, trace_id, span_id, parent_span_id, service_name, span_kind, duration_ms, is_error,
    http_status, http_method, http_route, attributes, span_name)
VALUES (
    :source_id, :seq_id, :timestamp, :trace_id, :span_id, :parent_span_id, :service_name, :span_kind, :duration_ms,
    :is_error, :http_status, :http_method, :http_route, :attributes, :span_name);

-- statement: spans_put  bulk: postgres
COPY spans_rows (
    source_id, seq_id, timestamp, trace_id, span_id, parent_span_id, service_name, span_kind, duration_ms, is_error,
    http_status, http_method, http_route, attributes, span_name)
FROM STDIN (FORMAT binary);

-- statement: spans_count
SELECT count(*) FROM spans_rows WHERE source_id = :source_id;

-- statement: spans_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM spans_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= spans_rows.seq_id AND y.last_seq >= spans_rows.seq_id);

-- statement: system_metrics_put  bulk: sqlite
INSERT INTO system_metrics_rows (
    source_id, seq_id, timestamp, metric_name, value, unit, metric_type, attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :metric_name, :value, :unit, :metric_type, :attributes);

-- statement: system_metrics_put  bulk: postgres
COPY system_metrics_rows (
    source_id, seq_id, timestamp, metric_name, value, unit, metric_type, attributes)
FROM STDIN (FORMAT binary);

-- statement: system_metrics_count
SELECT count(*) FROM system_metrics_rows WHERE source_id = :source_id;

-- statement: system_metrics_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM system_metrics_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= system_metrics_rows.seq_id AND y.last_seq >= system_metrics_rows.seq_id);

-- statement: ebpf_http_metrics_put  bulk: sqlite
INSERT INTO ebpf_http_metrics_rows (
    source_id, seq_id, timestamp, service_name, http_method, http_route, http_status_code, latency_bucket_ms, count,
    attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :service_name, :http_method, :http_route, :http_status_code, :latency_bucket_ms,
    :count, :attributes);

-- statement: ebpf_http_metrics_put  bulk: postgres
COPY ebpf_http_metrics_rows (
    source_id, seq_id, timestamp, service_name, http_method, http_route, http_status_code, latency_bucket_ms, count,
    attributes)
FROM STDIN (FORMAT binary);

-- statement: ebpf_http_metrics_count
SELECT count(*) FROM ebpf_http_metrics_rows WHERE source_id = :source_id;

-- statement: ebpf_http_metrics_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM ebpf_http_metrics_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= ebpf_http_metrics_rows.seq_id AND y.last_seq >= ebpf_http_metrics_rows.seq_id);

-- statement: ebpf_grpc_metrics_put  bulk: sqlite
INSERT INTO ebpf_grpc_metrics_rows (
    source_id, seq_id, timestamp, service_name, grpc_method, grpc_status_code, latency_bucket_ms, count, attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :service_name, :grpc_method, :grpc_status_code, :latency_bucket_ms, :count,
    :attributes);

-- statement: ebpf_grpc_metrics_put  bulk: postgres
COPY ebpf_grpc_metrics_rows (
    source_id, seq_id, timestamp, service_name, grpc_method, grpc_status_code, latency_bucket_ms, count, attributes)
FROM STDIN (FORMAT binary);

-- statement: ebpf_grpc_metrics_count
SELECT count(*) FROM ebpf_grpc_metrics_rows WHERE source_id = :source_id;

-- statement: ebpf_grpc_metrics_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM ebpf_grpc_metrics_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= ebpf_grpc_metrics_rows.seq_id AND y.last_seq >= ebpf_grpc_metrics_rows.seq_id);

-- statement: ebpf_sql_metrics_put  bulk: sqlite
INSERT INTO ebpf_sql_metrics_rows (
    source_id, seq_id, timestamp, service_name, sql_operation, table_name, latency_bucket_ms, count, attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :service_name, :sql_operation, :table_name, :latency_bucket_ms, :count,
    :attributes);

-- statement: ebpf_sql_metrics_put  bulk: postgres
COPY ebpf_sql_metrics_rows (
    source_id, seq_id, timestamp, service_name, sql_operation, table_name, latency_bucket_ms, count, attributes)
FROM STDIN (FORMAT binary);

-- statement: ebpf_sql_metrics_count
SELECT count(*) FROM ebpf_sql_metrics_rows WHERE source_id = :source_id;

-- statement: ebpf_sql_metrics_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM ebpf_sql_metrics_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= ebpf_sql_metrics_rows.seq_id AND y.last_seq >= ebpf_sql_metrics_rows.seq_id);

-- statement: ebpf_traces_put  bulk: sqlite
INSERT INTO ebpf_traces_rows (
    source_id, seq_id, trace_id, span_id, parent_span_id, service_name, span_name, span_kind, start_time, duration_us,
    status_code, process_pid, attributes)
VALUES (
    :source_id, :seq_id, :trace_id, :span_id, :parent_span_id, :service_name, :span_name, :span_kind, :start_time,
    :duration_us, :status_code, :process_pid, :attributes);

-- statement: ebpf_traces_put  bulk: postgres
COPY ebpf_traces_rows (
    source_id, seq_id, trace_id, span_id, parent_span_id, service_name, span_name, span_kind, start_time, duration_us,
    status_code, process_pid, attributes)
FROM STDIN (FORMAT binary);

-- statement: ebpf_traces_count
SELECT count(*) FROM ebpf_traces_rows WHERE source_id = :source_id;

-- statement: ebpf_traces_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM ebpf_traces_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= ebpf_traces_rows.seq_id AND y.last_seq >= ebpf_traces_rows.seq_id);

-- statement: cpu_profile_samples_put  bulk: sqlite
INSERT INTO cpu_profile_samples_rows (
    source_id, seq_id, timestamp, service_id, build_id, tgid, stack_hash, stack_frame_ids, sample_count)
VALUES (
    :source_id, :seq_id, :timestamp, :service_id, :build_id, :tgid, :stack_hash, :stack_frame_ids, :sample_count);

-- statement: cpu_profile_samples_put  bulk: postgres
COPY cpu_profile_samples_rows (
    source_id, seq_id, timestamp, service_id, build_id, tgid, stack_hash, stack_frame_ids, sample_count)
FROM STDIN (FORMAT binary);

-- statement: cpu_profile_samples_count
SELECT count(*) FROM cpu_profile_samples_rows WHERE source_id = :source_id;

-- statement: cpu_profile_samples_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM cpu_profile_samples_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= cpu_profile_samples_rows.seq_id AND y.last_seq >= cpu_profile_samples_rows.seq_id);

-- statement: memory_profile_samples_put  bulk: sqlite
INSERT INTO memory_profile_samples_rows (
    source_id, seq_id, timestamp, service_id, build_id, stack_hash, stack_frame_ids, alloc_bytes, alloc_objects)
VALUES (
    :source_id, :seq_id, :timestamp, :service_id, :build_id, :stack_hash, :stack_frame_ids, :alloc_bytes,
    :alloc_objects);

-- statement: memory_profile_samples_put  bulk: postgres
COPY memory_profile_samples_rows (
    source_id, seq_id, timestamp, service_id, build_id, stack_hash, stack_frame_ids, alloc_bytes, alloc_objects)
FROM STDIN (FORMAT binary);

-- statement: memory_profile_samples_count
SELECT count(*) FROM memory_profile_samples_rows WHERE source_id = :source_id;

-- statement: memory_profile_samples_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM memory_profile_samples_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= memory_profile_samples_rows.seq_id AND y.last_seq >= memory_profile_samples_rows.seq_id);

-- statement: logs_put  bulk: sqlite
INSERT INTO logs_rows (
    source_id, seq_id, timestamp, service_name, severity_number, severity_text, body, trace_id, span_id, attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :service_name, :severity_number, :severity_text, :body, :trace_id, :span_id,
    :attributes);

-- statement: logs_put  bulk: postgres
COPY logs_rows (
    source_id, seq_id, timestamp, service_name, severity_number, severity_text, body, trace_id, span_id, attributes)
FROM STDIN (FORMAT binary);

-- statement: logs_count
SELECT count(*) FROM logs_rows WHERE source_id = :source_id;

-- statement: logs_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM logs_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= logs_rows.seq_id AND y.last_seq >= logs_rows.seq_id);

-- statement: loss_receipts_put  bulk: sqlite
INSERT INTO loss_receipts_rows (
    source_id, seq_id, timestamp, stream, first_seq_id, last_seq_id, epoch, reason, detail)
VALUES (
    :source_id, :seq_id, :timestamp, :stream, :first_seq_id, :last_seq_id, :epoch, :reason, :detail);

-- statement: loss_receipts_put  bulk: postgres
COPY loss_receipts_rows (
    source_id, seq_id, timestamp, stream, first_seq_id, last_seq_id, epoch, reason, detail)
FROM STDIN (FORMAT binary);

-- statement: loss_receipts_count
SELECT count(*) FROM loss_receipts_rows WHERE source_id = :source_id;

-- statement: loss_receipts_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM loss_receipts_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= loss_receipts_rows.seq_id AND y.last_seq >= loss_receipts_rows.seq_id);

-- statement: records_put  bulk: sqlite
INSERT INTO records_rows (
    source_id, seq_id, timestamp, data, attributes)
VALUES (
    :source_id, :seq_id, :timestamp, :data, :attributes);

-- statement: records_put  bulk: postgres
COPY records_rows (
    source_id, seq_id, timestamp, data, attributes)
FROM STDIN (FORMAT binary);

-- statement: records_count
SELECT count(*) FROM records_rows WHERE source_id = :source_id;

-- statement: records_expire
-- The rows of an old batch, except those that a younger one overlaps: they go with that one, never too early. Few batches begin
-- below an old one's numbers: the look for younger ones is short.
DELETE FROM records_rows WHERE source_id = :source_id AND seq_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM polling_batches y
                  WHERE y.source_id = :source_id AND y.id <> :batch AND y.stored_at >= :before
                    AND y.first_seq <= records_rows.seq_id AND y.last_seq >= records_rows.seq_id);

-- ---- agents and who polls them ----

-- statement: agent_put
INSERT INTO colony_agents (agent_id, address, origin, added_at) VALUES (:agent_id, :address, :origin, :now)
ON CONFLICT (agent_id) DO UPDATE SET address = excluded.address, origin = excluded.origin, is_removed = :false;

-- statement: registry_touch
-- A mark that changes with the registry: whoever is told that the store has changed looks at it before at the agents.
INSERT INTO db_metadata (key, value) VALUES ('colony_registry', '1')
ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(db_metadata.value AS bigint) + 1 AS text);

-- statement: registry_mark
SELECT CAST(value AS bigint) FROM db_metadata WHERE key = 'colony_registry';

-- statement: agent_remove
UPDATE colony_agents SET is_removed = :true WHERE agent_id = :agent_id AND NOT is_removed;

-- statement: agent_list
-- An agent with its lease: who polls it, under which token, until when.
SELECT a.agent_id, a.address, a.origin, a.is_removed, a.added_at, a.seen_at, a.failed_at, a.error, l.holder, l.token, l.expires_at,
       a.reader
FROM colony_agents a LEFT JOIN leases l ON l.name = 'colony/agent/' || a.agent_id
WHERE (NOT a.is_removed OR :with_removed) AND (CAST(:agent_id AS text) IS NULL OR a.agent_id = CAST(:agent_id AS text))
ORDER BY a.agent_id;

-- statement: agent_seen
UPDATE colony_agents SET seen_at = :now, error = '' WHERE agent_id = :agent_id;

-- statement: agent_failed
UPDATE colony_agents SET failed_at = :now, error = :error WHERE agent_id = :agent_id;

-- statement: agent_reader  engine: sqlite
-- The name under which the agent is read, and the highest token that was issued for it.
SELECT a.reader, coalesce(l.token, 0)
FROM colony_agents a LEFT JOIN leases l ON l.name = 'colony/agent/' || a.agent_id
WHERE a.agent_id = :agent_id AND NOT a.is_removed;

-- statement: agent_reader  engine: postgres
SELECT a.reader, coalesce(l.token, 0)
FROM colony_agents a LEFT JOIN leases l ON l.name = 'colony/agent/' || a.agent_id
WHERE a.agent_id = :agent_id AND NOT a.is_removed
FOR UPDATE OF a;

-- statement: agent_reader_set
UPDATE colony_agents SET reader = :reader WHERE agent_id = :agent_id;

-- statement: epoch_last_begun
-- When the newest epoch began that somebody's claim has begun.
SELECT started_at FROM epochs WHERE reason = 'diverged' ORDER BY epoch DESC LIMIT 1;

-- statement: member_count
-- Colonies that are alive. Names go from 'colony/member/' to before 'colony/member0', the character behind the slash.
SELECT count(*) FROM leases WHERE name >= 'colony/member/' AND name < 'colony/member0' AND holder IS NOT NULL AND expires_at > :now;

-- statement: agent_lock  engine: sqlite
-- Can the lease be claimed without waiting for somebody's transaction?
SELECT :name IS NOT NULL;

-- statement: agent_lock  engine: postgres
WITH reached AS MATERIALIZED (SELECT name FROM leases WHERE name = :name FOR UPDATE SKIP LOCKED)
SELECT EXISTS (SELECT 1 FROM reached) OR NOT EXISTS (SELECT 1 FROM leases WHERE name = :name);

-- statement: agent_renew  engine: sqlite
-- Renew a list of [lease name, token]; what does not come back was lost.
UPDATE leases SET expires_at = :expires
FROM (SELECT value ->> 0 AS held_name, value ->> 1 AS held_token FROM json_each(:held)) AS h
WHERE name = h.held_name AND token = h.held_token AND holder IS NOT NULL AND expires_at > :now
RETURNING name;

-- statement: agent_renew  engine: postgres
UPDATE leases SET expires_at = :expires
FROM (SELECT h ->> 0 AS held_name, CAST(h ->> 1 AS bigint) AS held_token FROM json_array_elements(CAST(:held AS json)) AS h) AS h
WHERE name = h.held_name AND token = h.held_token AND holder IS NOT NULL AND expires_at > :now
RETURNING name;

-- ---- numbers that a batch has stored and no row has: between neighbours, in each batch that reaches there ----

-- statement: spans_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM spans_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: system_metrics_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM system_metrics_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: ebpf_http_metrics_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM ebpf_http_metrics_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: ebpf_grpc_metrics_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM ebpf_grpc_metrics_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: ebpf_sql_metrics_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM ebpf_sql_metrics_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: ebpf_traces_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM ebpf_traces_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: cpu_profile_samples_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM cpu_profile_samples_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: memory_profile_samples_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM memory_profile_samples_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: logs_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM logs_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: loss_receipts_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM loss_receipts_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- statement: records_absent
WITH bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM polling_batches WHERE source_id = :source_id),
present AS (SELECT seq_id FROM records_rows WHERE source_id = :source_id
            UNION ALL SELECT seq_id FROM dead_letters_rows WHERE source_id = :source_id AND seq_id > 0
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT p.seq_id + 1, p.next - 1, b.first_seq, b.last_seq
FROM pairs p JOIN polling_batches b
    ON b.source_id = :source_id AND b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY p.seq_id, b.first_seq LIMIT :limit;

-- ---- traces ----

-- statement: trace_find
-- The indexes leave out rows without a trace: the condition says so again.
SELECT * FROM (
    SELECT 'spans' AS source, agent_id, session_id, epoch, seq_id, timestamp, span_id, parent_span_id, service_name,
           span_name, span_kind, CAST(coalesce(duration_ms, 0) * 1000 AS bigint) AS duration_us,
           CAST(CASE WHEN is_error THEN 1 ELSE 0 END AS bigint) AS is_error, attributes
    FROM spans WHERE trace_id = :trace_id AND trace_id <> ''
    UNION ALL
    SELECT 'ebpf_traces', agent_id, session_id, epoch, seq_id, start_time, span_id, parent_span_id, service_name,
           span_name, span_kind, coalesce(duration_us, 0), CAST(CASE WHEN status_code = 2 THEN 1 ELSE 0 END AS bigint), attributes
    FROM ebpf_traces WHERE trace_id = :trace_id AND trace_id <> ''
    UNION ALL
    SELECT 'logs', agent_id, session_id, epoch, seq_id, timestamp, span_id, '', service_name,
           body, severity_text, CAST(0 AS bigint),
           CAST(CASE WHEN severity_number >= 17 THEN 1 ELSE 0 END AS bigint), attributes
    FROM logs WHERE trace_id = :trace_id AND trace_id <> '') AS t
ORDER BY timestamp, source, agent_id, seq_id LIMIT :limit;
