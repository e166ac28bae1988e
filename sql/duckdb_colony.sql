-- Everything a colony asks of DuckDB. A catalogue of its own (TIDE_DUCKDB_SQL_<NAME>): see src/store/duckdb/duckdb.h.
--
-- Tables are appended to, and have neither indexes nor constraints nor sequences: that is where DuckDB's recovery is weakest.
-- What would be an update is a further row, and the newest one counts (checkpoint_states, gap_states); clean-up deletes
-- the others.

-- statement: colony_format_exists
SELECT count(*) FROM duckdb_tables() WHERE table_name = 'colony_format';

-- statement: colony_foreign_tables
SELECT count(*) FROM duckdb_tables();

-- statement: colony_format_read
SELECT max(version) FROM colony_format;

-- statement: colony_schema
CREATE TABLE colony_format (version INTEGER, created_at TIMESTAMP);

-- Rows, with agent and session in each: a column of few different values costs next to nothing.
CREATE TABLE spans_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, service_name VARCHAR,
    span_kind VARCHAR, duration_ms DOUBLE, is_error BOOLEAN, http_status INTEGER,
    http_method VARCHAR, http_route VARCHAR, attributes VARCHAR, span_name VARCHAR,
    stored_at TIMESTAMP);
CREATE VIEW spans AS SELECT * EXCLUDE (stored_at) FROM spans_rows;

CREATE TABLE system_metrics_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    metric_name VARCHAR, value DOUBLE, unit VARCHAR, metric_type VARCHAR, attributes VARCHAR,
    stored_at TIMESTAMP);
CREATE VIEW system_metrics AS SELECT * EXCLUDE (stored_at) FROM system_metrics_rows;

CREATE TABLE ebpf_http_metrics_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_name VARCHAR, http_method VARCHAR, http_route VARCHAR, http_status_code INTEGER,
    latency_bucket_ms DOUBLE, count BIGINT, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW ebpf_http_metrics AS SELECT * EXCLUDE (stored_at) FROM ebpf_http_metrics_rows;

CREATE TABLE ebpf_grpc_metrics_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_name VARCHAR, grpc_method VARCHAR, grpc_status_code INTEGER, latency_bucket_ms DOUBLE,
    count BIGINT, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW ebpf_grpc_metrics AS SELECT * EXCLUDE (stored_at) FROM ebpf_grpc_metrics_rows;

CREATE TABLE ebpf_sql_metrics_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_name VARCHAR, sql_operation VARCHAR, table_name VARCHAR, latency_bucket_ms DOUBLE,
    count BIGINT, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW ebpf_sql_metrics AS SELECT * EXCLUDE (stored_at) FROM ebpf_sql_metrics_rows;

CREATE TABLE ebpf_traces_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, trace_id VARCHAR,
    span_id VARCHAR, parent_span_id VARCHAR, service_name VARCHAR, span_name VARCHAR,
    span_kind VARCHAR, start_time TIMESTAMP, duration_us BIGINT, status_code INTEGER,
    process_pid INTEGER, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW ebpf_traces AS SELECT * EXCLUDE (stored_at) FROM ebpf_traces_rows;

CREATE TABLE cpu_profile_samples_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_id VARCHAR, build_id VARCHAR, tgid INTEGER, stack_hash UBIGINT,
    stack_frame_ids UBIGINT[], sample_count BIGINT, stored_at TIMESTAMP);
CREATE VIEW cpu_profile_samples AS SELECT * EXCLUDE (stored_at) FROM cpu_profile_samples_rows;

CREATE TABLE memory_profile_samples_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_id VARCHAR, build_id VARCHAR, stack_hash UBIGINT, stack_frame_ids UBIGINT[],
    alloc_bytes BIGINT, alloc_objects BIGINT, stored_at TIMESTAMP);
CREATE VIEW memory_profile_samples AS SELECT * EXCLUDE (stored_at) FROM memory_profile_samples_rows;

CREATE TABLE logs_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    service_name VARCHAR, severity_number INTEGER, severity_text VARCHAR, body VARCHAR,
    trace_id VARCHAR, span_id VARCHAR, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW logs AS SELECT * EXCLUDE (stored_at) FROM logs_rows;

CREATE TABLE loss_receipts_rows (
    agent_id VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT, timestamp TIMESTAMP,
    stream VARCHAR, first_seq_id UBIGINT, last_seq_id UBIGINT, loss_epoch UBIGINT, reason VARCHAR,
    detail VARCHAR, stored_at TIMESTAMP);
CREATE VIEW loss_receipts AS SELECT * EXCLUDE (stored_at) FROM loss_receipts_rows;

CREATE TABLE records_rows (
    agent_id VARCHAR, data_type VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT,
    timestamp TIMESTAMP, data BLOB, attributes VARCHAR, stored_at TIMESTAMP);
CREATE VIEW records AS SELECT * EXCLUDE (stored_at) FROM records_rows;
CREATE TABLE dead_letters (
    agent_id VARCHAR, data_type VARCHAR, session_id VARCHAR, epoch BIGINT, seq_id BIGINT,
    reason VARCHAR, body BLOB, stored_at TIMESTAMP);

CREATE TABLE frame_rows (
    agent_id VARCHAR, session_id VARCHAR, frame_id UBIGINT, frame_name VARCHAR);

CREATE TABLE polling_batches (
    source_id BIGINT, target VARCHAR, first_seq BIGINT, last_seq BIGINT, rows BIGINT,
    stored_at TIMESTAMP, chain BLOB);

-- Every position there ever was; of each source the highest version is the state. One source of an agent and type is
-- current (the last one stays so when it is closed for good); states with an event are history and stay.
CREATE TABLE checkpoint_states (
    source_id BIGINT, version BIGINT, agent_id VARCHAR, data_type VARCHAR, session_id VARCHAR,
    epoch BIGINT, epoch_id VARCHAR, first_seq_id BIGINT, last_seq_id BIGINT, highest_seq_id BIGINT,
    holes BIGINT, held BIGINT, cursor BLOB, head_seq_id BIGINT, stored BIGINT, dead BIGINT, filtered BIGINT,
    points BLOB, is_foreign BOOLEAN, next_arrived_ms BIGINT, head_arrived_ms BIGINT,
    agent_now_ms BIGINT, retention_ms BIGINT, oldest_seq_id BIGINT, created_at TIMESTAMP,
    updated_at TIMESTAMP, last_poll_time TIMESTAMP, closed_at TIMESTAMP, closed_reason VARCHAR,
    is_current BOOLEAN, event VARCHAR, note VARCHAR, recorded_at TIMESTAMP);

-- What clean-up has taken away of a source: rows, dead letters, the numbers of ended gaps. Added up.
CREATE TABLE source_folds (
    source_id BIGINT, expired BIGINT, expired_dead BIGINT, folded_void BIGINT, folded_lost BIGINT,
    folded_recovered BIGINT);

-- Of each id the highest revision is the state; a revision is the version of the position it was written with.
CREATE TABLE gap_states (
    id BIGINT, revision BIGINT, source_id BIGINT, agent_id VARCHAR, data_type VARCHAR,
    session_id VARCHAR, epoch BIGINT, start_seq_id BIGINT, end_seq_id BIGINT, status VARCHAR,
    reason VARCHAR, evidence VARCHAR, recovery_attempts INTEGER, detected_at TIMESTAMP,
    recovered_at TIMESTAMP, last_recovery_attempt TIMESTAMP, settled_at TIMESTAMP);

-- Highest ids ever given, of gaps and sources: never derived from rows that clean-up may remove.
CREATE TABLE colony_counters (name VARCHAR, value BIGINT);

CREATE VIEW source_sums AS
SELECT source_id, sum(expired)::BIGINT AS expired, sum(expired_dead)::BIGINT AS expired_dead,
       sum(folded_void)::BIGINT AS folded_void, sum(folded_lost)::BIGINT AS folded_lost,
       sum(folded_recovered)::BIGINT AS folded_recovered
FROM source_folds GROUP BY source_id;

CREATE VIEW source_states AS
SELECT s.*, coalesce(f.expired, 0) AS expired, coalesce(f.folded_void, 0) AS folded_void,
       coalesce(f.folded_lost, 0) AS folded_lost,
       coalesce(f.folded_recovered, 0) AS folded_recovered
FROM (SELECT * FROM checkpoint_states
      QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY version DESC, event) = 1) s
LEFT JOIN source_sums f ON f.source_id = s.source_id;

CREATE VIEW polling_sources AS
SELECT source_id, agent_id, data_type, session_id, epoch FROM source_states;

CREATE VIEW polling_checkpoints AS
SELECT agent_id, data_type, session_id, last_seq_id, last_poll_time, created_at, updated_at,
       source_id, epoch, epoch_id, version, first_seq_id, highest_seq_id, head_seq_id,
       oldest_seq_id, holes, held, cursor, stored, dead, filtered, points, is_foreign,
       next_arrived_ms, head_arrived_ms, agent_now_ms, retention_ms, closed_at, closed_reason
FROM source_states WHERE is_current;

CREATE VIEW polling_checkpoint_history AS
SELECT event, note, recorded_at, agent_id, data_type, session_id, last_seq_id, last_poll_time,
       created_at, updated_at, source_id, epoch, epoch_id, version, first_seq_id, highest_seq_id,
       head_seq_id, oldest_seq_id, holes, held, cursor, stored, dead, filtered, points, is_foreign,
       next_arrived_ms, head_arrived_ms, agent_now_ms, retention_ms, closed_at, closed_reason
FROM checkpoint_states WHERE event <> '';

CREATE VIEW sequence_gaps AS
SELECT id, agent_id, data_type, start_seq_id, end_seq_id, detected_at, recovered_at, status,
       recovery_attempts, last_recovery_attempt, session_id, epoch, reason, evidence, source_id,
       settled_at
FROM gap_states QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC) = 1;

CREATE VIEW profile_frames AS
SELECT agent_id, session_id, frame_id, any_value(frame_name) AS frame_name
FROM frame_rows GROUP BY agent_id, session_id, frame_id;

-- Histograms (rollup.h): what each change adds to its minutes; added up when they are looked at.
CREATE TABLE rollup_rows (
    data_type VARCHAR, minute TIMESTAMP, agent_id VARCHAR, service_name VARCHAR, bucket INTEGER,
    count BIGINT, errors BIGINT);
CREATE TABLE rollup_bounds (bucket INTEGER, ms DOUBLE);

CREATE VIEW rollup_buckets AS
SELECT data_type, minute, agent_id, service_name, bucket, sum(count)::BIGINT AS count,
       sum(errors)::BIGINT AS errors
FROM rollup_rows GROUP BY data_type, minute, agent_id, service_name, bucket;

CREATE VIEW rollup_minutes AS
WITH running AS (
    SELECT b.*, m.ms,
           sum(b.count) OVER (PARTITION BY data_type, minute, agent_id, service_name
                              ORDER BY b.bucket) AS reached,
           sum(b.count) OVER (PARTITION BY data_type, minute, agent_id, service_name) AS total
    FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket)
SELECT data_type, minute, agent_id, service_name, max(total)::BIGINT AS count,
       sum(errors)::BIGINT AS errors, min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM running GROUP BY data_type, minute, agent_id, service_name;

CREATE VIEW spans_1m AS
SELECT * EXCLUDE (data_type) FROM rollup_minutes WHERE data_type = 'telemetry';
CREATE VIEW ebpf_http_metrics_1m AS
SELECT * EXCLUDE (data_type) FROM rollup_minutes WHERE data_type = 'beyla_http';
CREATE VIEW ebpf_grpc_metrics_1m AS
SELECT * EXCLUDE (data_type) FROM rollup_minutes WHERE data_type = 'beyla_grpc';
CREATE VIEW ebpf_sql_metrics_1m AS
SELECT * EXCLUDE (data_type) FROM rollup_minutes WHERE data_type = 'beyla_sql';

INSERT INTO colony_format VALUES (1, current_timestamp::TIMESTAMP);

-- statement: colony_counters_read
SELECT name, max(value) FROM colony_counters GROUP BY name;

-- statement: colony_states_current
-- What is current, for the memory of a colony that starts.
SELECT source_id, version, agent_id, data_type, session_id, epoch, epoch_id, first_seq_id,
       last_seq_id, cursor, head_seq_id, stored, dead, filtered, points, is_foreign,
       next_arrived_ms, head_arrived_ms, agent_now_ms, retention_ms, oldest_seq_id, created_at,
       updated_at, last_poll_time, closed_at, closed_reason, expired, folded_void, folded_lost,
       folded_recovered
FROM source_states WHERE is_current ORDER BY agent_id, data_type, version;

-- statement: colony_states_list
-- The same of all positions that match, with the sums of their gaps.
SELECT s.source_id, s.version, s.agent_id, s.data_type, s.session_id, s.epoch, s.epoch_id,
       s.first_seq_id, s.last_seq_id, s.cursor, s.head_seq_id, s.stored, s.dead, s.filtered,
       s.points, s.is_foreign, s.next_arrived_ms, s.head_arrived_ms, s.agent_now_ms,
       s.retention_ms, s.oldest_seq_id, s.created_at, s.updated_at, s.last_poll_time, s.closed_at,
       s.closed_reason, s.expired, s.folded_void, s.folded_lost, s.folded_recovered,
       coalesce(g.open, 0), coalesce(g.void, 0), coalesce(g.permanent, 0), coalesce(g.recovered, 0),
       coalesce(g.accepted, 0)
FROM source_states s
LEFT JOIN (
    SELECT source_id,
           sum(end_seq_id - start_seq_id + 1)
               FILTER (WHERE status IN ('detected', 'recovering'))::BIGINT AS open,
           sum(end_seq_id - start_seq_id + 1) FILTER (WHERE status = 'void')::BIGINT AS void,
           sum(end_seq_id - start_seq_id + 1)
               FILTER (WHERE status = 'permanent')::BIGINT AS permanent,
           sum(end_seq_id - start_seq_id + 1)
               FILTER (WHERE status = 'recovered')::BIGINT AS recovered,
           sum(end_seq_id - start_seq_id + 1)
               FILTER (WHERE status = 'permanent' AND reason = 'operator')::BIGINT AS accepted
    FROM sequence_gaps GROUP BY source_id) g ON g.source_id = s.source_id
WHERE (:agent_id::VARCHAR IS NULL OR s.agent_id = :agent_id)
  AND (:data_type::VARCHAR IS NULL OR s.data_type = :data_type)
  AND (s.closed_at IS NULL OR :with_closed <> 0)
ORDER BY s.agent_id, s.data_type, s.source_id;

-- statement: colony_source_find
-- Is there a source of this key already?
SELECT coalesce(max(source_id), 0) FROM checkpoint_states
WHERE agent_id = :agent_id AND data_type = :data_type AND session_id = :session_id
  AND epoch = :epoch;

-- statement: colony_session_owner
-- Another agent that has this session, and was not removed.
SELECT agent_id FROM polling_sources s
WHERE session_id = :session_id AND agent_id <> :agent_id AND NOT EXISTS (
    SELECT 1 FROM source_states c
    WHERE c.is_current AND c.agent_id = s.agent_id AND c.data_type = s.data_type AND c.closed_at IS NOT NULL)
ORDER BY agent_id LIMIT 1;

-- statement: colony_source_version
SELECT coalesce(max(version), 0) FROM checkpoint_states WHERE source_id = :source_id;

-- statement: colony_gaps_list
-- Newest states of gaps, ascending by id. Filters that never change for a gap stand inside.
SELECT id, source_id, agent_id, data_type, session_id, epoch, start_seq_id, end_seq_id, status,
       reason, evidence, recovery_attempts, detected_at, recovered_at, last_recovery_attempt,
       settled_at
FROM (
    SELECT * FROM gap_states
    WHERE id > :after_id AND (:agent_id::VARCHAR IS NULL OR agent_id = :agent_id)
      AND (:data_type::VARCHAR IS NULL OR data_type = :data_type)
      AND (:session_id::VARCHAR IS NULL OR session_id = :session_id)
      AND (:epoch < 0 OR epoch = :epoch)
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC) = 1)
WHERE list_contains(string_split(:statuses, ','), status)
  AND (:last_seq = 0 OR (start_seq_id <= :last_seq AND end_seq_id >= :first_seq))
ORDER BY id LIMIT :limit;

-- statement: colony_gap_find
SELECT id, source_id, agent_id, data_type, session_id, epoch, start_seq_id, end_seq_id, status,
       reason, evidence, recovery_attempts, detected_at, recovered_at, last_recovery_attempt,
       settled_at
FROM gap_states WHERE id = :id ORDER BY revision DESC LIMIT 1;

-- statement: colony_gaps_known
SELECT DISTINCT id, start_seq_id FROM gap_states
WHERE source_id = :source_id AND start_seq_id BETWEEN :first AND :last;

-- statement: colony_gaps_open
SELECT id, source_id, agent_id, data_type, session_id, epoch, start_seq_id, end_seq_id, status,
       reason, evidence, recovery_attempts, detected_at, recovered_at, last_recovery_attempt,
       settled_at
FROM (SELECT * FROM gap_states WHERE source_id = :source_id
      QUALIFY row_number() OVER (PARTITION BY id ORDER BY revision DESC) = 1)
WHERE status IN ('detected', 'recovering') ORDER BY start_seq_id;

-- statement: colony_rows_count
-- :table is spans_rows or one of its like.
SELECT count(*) FROM query_table(:table)
WHERE agent_id = :agent_id AND session_id = :session_id AND epoch = :epoch;

-- statement: colony_records_count
SELECT count(*) FROM records_rows
WHERE agent_id = :agent_id AND session_id = :session_id AND epoch = :epoch
  AND data_type = :data_type;

-- Numbers that a batch has stored and no row has; those of dead letters are among them.
-- statement: colony_rows_absent
WITH batches AS (SELECT first_seq, last_seq FROM polling_batches WHERE source_id = :source_id),
bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM batches),
present AS (SELECT seq_id FROM query_table(:table)
            WHERE agent_id = :agent_id AND session_id = :session_id AND epoch = :epoch
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT greatest(p.seq_id + 1, b.first_seq), least(p.next - 1, b.last_seq)
FROM pairs p JOIN batches b ON b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY 1 LIMIT :limit;

-- statement: colony_records_absent
WITH batches AS (SELECT first_seq, last_seq FROM polling_batches WHERE source_id = :source_id),
bounds AS (SELECT min(first_seq) AS first, max(last_seq) AS last FROM batches),
present AS (SELECT seq_id FROM records_rows
            WHERE agent_id = :agent_id AND session_id = :session_id AND epoch = :epoch AND data_type = :data_type
            UNION ALL SELECT first - 1 FROM bounds WHERE first IS NOT NULL
            UNION ALL SELECT last + 1 FROM bounds WHERE last IS NOT NULL),
pairs AS (SELECT seq_id, lead(seq_id) OVER (ORDER BY seq_id) AS next FROM present)
SELECT greatest(p.seq_id + 1, b.first_seq), least(p.next - 1, b.last_seq)
FROM pairs p JOIN batches b ON b.first_seq < p.next AND b.last_seq > p.seq_id
WHERE p.next > p.seq_id + 1 ORDER BY 1 LIMIT :limit;

-- statement: colony_trace_find
SELECT * FROM (
    SELECT 'spans' AS source, agent_id, session_id, epoch, seq_id, timestamp, span_id, parent_span_id,
           service_name, span_name, span_kind, (coalesce(duration_ms, 0) * 1000)::BIGINT AS duration_us,
           (CASE WHEN is_error THEN 1 ELSE 0 END)::BIGINT AS is_error, attributes
    FROM spans_rows WHERE trace_id = :trace_id
    UNION ALL
    SELECT 'ebpf_traces', agent_id, session_id, epoch, seq_id, start_time, span_id, parent_span_id,
           service_name, span_name, span_kind, coalesce(duration_us, 0),
           (CASE WHEN status_code = 2 THEN 1 ELSE 0 END)::BIGINT, attributes
    FROM ebpf_traces_rows WHERE trace_id = :trace_id
    UNION ALL
    SELECT 'logs', agent_id, session_id, epoch, seq_id, timestamp, span_id, '', service_name, body,
           severity_text, 0::BIGINT, (CASE WHEN severity_number >= 17 THEN 1 ELSE 0 END)::BIGINT,
           attributes
    FROM logs_rows WHERE trace_id = :trace_id)
ORDER BY timestamp, source, agent_id, seq_id LIMIT :limit;

-- statement: colony_dead_count
SELECT count(*) FROM dead_letters
WHERE agent_id = :agent_id AND session_id = :session_id AND epoch = :epoch
  AND data_type = :data_type AND seq_id > 0;

-- statement: colony_dead_expired
SELECT coalesce(sum(f.expired_dead), 0)::BIGINT FROM source_folds f
JOIN polling_sources s ON s.source_id = f.source_id
WHERE s.agent_id = :agent_id AND s.session_id = :session_id AND s.epoch = :epoch
  AND s.data_type = :data_type;

-- statement: colony_rows_old
SELECT min(stored_at), count(*) FROM query_table(:table) WHERE stored_at < :before;

-- statement: colony_rows_expiring
-- How many rows of which source go: a deletion is booked before it is done.
SELECT s.source_id, count(*)
FROM query_table(:table) r
JOIN source_states s ON s.agent_id = r.agent_id AND s.session_id = r.session_id
                    AND s.epoch = r.epoch AND s.data_type = :data_type
WHERE r.stored_at < :before GROUP BY s.source_id;

-- statement: colony_records_expiring
SELECT s.source_id, count(*)
FROM records_rows r
JOIN source_states s ON s.agent_id = r.agent_id AND s.session_id = r.session_id
                    AND s.epoch = r.epoch AND s.data_type = r.data_type
WHERE r.stored_at < :before GROUP BY s.source_id;

-- statement: colony_expire_telemetry
DELETE FROM spans_rows WHERE stored_at < :before;

-- statement: colony_expire_system_metrics
DELETE FROM system_metrics_rows WHERE stored_at < :before;

-- statement: colony_expire_beyla_http
DELETE FROM ebpf_http_metrics_rows WHERE stored_at < :before;

-- statement: colony_expire_beyla_grpc
DELETE FROM ebpf_grpc_metrics_rows WHERE stored_at < :before;

-- statement: colony_expire_beyla_sql
DELETE FROM ebpf_sql_metrics_rows WHERE stored_at < :before;

-- statement: colony_expire_beyla_traces
DELETE FROM ebpf_traces_rows WHERE stored_at < :before;

-- statement: colony_expire_cpu_profile
DELETE FROM cpu_profile_samples_rows WHERE stored_at < :before;

-- statement: colony_expire_memory_profile
DELETE FROM memory_profile_samples_rows WHERE stored_at < :before;

-- statement: colony_expire_logs
DELETE FROM logs_rows WHERE stored_at < :before;

-- statement: colony_expire_loss_receipts
DELETE FROM loss_receipts_rows WHERE stored_at < :before;

-- statement: colony_expire_opaque
DELETE FROM records_rows WHERE stored_at < :before;

-- statement: colony_batches_expire
DELETE FROM polling_batches WHERE stored_at < :before AND target = :target;

-- statement: colony_dead_expiring
-- Of those with a number: the others are in no ledger.
SELECT s.source_id, count(*) FILTER (WHERE d.seq_id > 0)
FROM dead_letters d
JOIN source_states s ON s.agent_id = d.agent_id AND s.session_id = d.session_id
                    AND s.epoch = d.epoch AND s.data_type = d.data_type
WHERE d.stored_at < :before GROUP BY s.source_id;

-- statement: colony_dead_expire
DELETE FROM dead_letters WHERE stored_at < :before;

-- statement: colony_gaps_ending
-- What ended gaps add to their sources when they go: numbers by outcome.
SELECT source_id,
       coalesce(sum(end_seq_id - start_seq_id + 1) FILTER (WHERE status = 'void'), 0)::BIGINT,
       coalesce(sum(end_seq_id - start_seq_id + 1) FILTER (WHERE status = 'permanent'), 0)::BIGINT,
       coalesce(sum(end_seq_id - start_seq_id + 1) FILTER (WHERE status = 'recovered'), 0)::BIGINT,
       count(*)
FROM sequence_gaps WHERE settled_at < :before GROUP BY source_id;

-- statement: colony_gaps_expire
DELETE FROM gap_states WHERE id IN (SELECT id FROM sequence_gaps WHERE settled_at < :before);

-- statement: colony_rollups_expire
DELETE FROM rollup_rows WHERE minute < :before;

-- statement: colony_rollups_superseded
SELECT count(*) - count(DISTINCT (data_type, minute, agent_id, service_name, bucket))
FROM rollup_rows;

-- statement: colony_rollups_last
SELECT coalesce(max(rowid), -1) FROM rollup_rows;

-- statement: colony_rollups_add_up
INSERT INTO rollup_rows SELECT * FROM rollup_buckets;

-- statement: colony_rollups_compact
DELETE FROM rollup_rows WHERE rowid <= :last;

-- statement: colony_states_superseded
-- How many rows say what is no longer so.
SELECT sum(n)::BIGINT FROM (
    SELECT count(*) FILTER (WHERE event = '') - count(DISTINCT source_id) AS n FROM checkpoint_states
    UNION ALL SELECT count(*) - count(DISTINCT id) FROM gap_states
    UNION ALL SELECT count(*) - count(DISTINCT name) FROM colony_counters
    UNION ALL SELECT count(*) - count(DISTINCT source_id) FROM source_folds
    UNION ALL SELECT count(*) - count(DISTINCT (agent_id, session_id, frame_id)) FROM frame_rows);

-- statement: colony_states_compact
DELETE FROM checkpoint_states WHERE event = '' AND (source_id, version) NOT IN
    (SELECT (source_id, max(version)) FROM checkpoint_states GROUP BY source_id);

-- statement: colony_gaps_compact
DELETE FROM gap_states WHERE (id, revision) NOT IN
    (SELECT (id, max(revision)) FROM gap_states GROUP BY id);

-- statement: colony_counters_compact
DELETE FROM colony_counters WHERE (name, value) NOT IN
    (SELECT (name, max(value)) FROM colony_counters GROUP BY name);

-- statement: colony_frames_compact
DELETE FROM frame_rows WHERE rowid NOT IN
    (SELECT min(rowid) FROM frame_rows GROUP BY agent_id, session_id, frame_id);

-- statement: colony_folds_last
SELECT coalesce(max(rowid), -1) FROM source_folds;

-- statement: colony_folds_add_up
INSERT INTO source_folds
SELECT source_id, expired, expired_dead, folded_void, folded_lost, folded_recovered
FROM source_sums;

-- statement: colony_folds_compact
DELETE FROM source_folds WHERE rowid <= :last;

-- statement: colony_checkpoint
CHECKPOINT;

-- statement: parquet_write
-- :table is a table of this database, :path a file that does not exist yet.
COPY (SELECT * FROM query_table(:table) ORDER BY seq_id)
TO :path (FORMAT parquet, COMPRESSION zstd);

-- statement: parquet_numbers
SELECT seq_id FROM read_parquet(:path) ORDER BY seq_id;
