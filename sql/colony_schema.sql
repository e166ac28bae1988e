-- What a colony has collected, how far it has come, and what became of every number. See colony/sink.h.
--
-- Rows of the agents' streams stand in <table>_rows, keyed by (source_id, seq_id); a source is (agent, data type, session, epoch).
-- The names that people know (spans, system_metrics, ...) are views that add who it was. What an agent says is no reason for a
-- batch to fail: columns may be NULL and have no checks.
--
--     attributes        JSON as text. jsonb would refuse texts that an agent may send (\u0000, lone surrogates), and one such
--                       record would stop its stream; a cast is at hand for who wants it
--     stack_hash        64 bits without a sign: kept as they are, shown as numeric on PostgreSQL and as decimal text on SQLite,
--                       which has no integer of that width. A bigint would show half of them as negative numbers
--     stack_frame_ids   a JSON array as text on both: such numbers need not fit into bigint[]
--     loss_receipts     speak of numbers of their agent; the epoch of those is loss_epoch
--     timestamp         a time of the engine; one outside the years 1 to 9999 is kept as the nearest inside
--
-- Checkpoints are guarded: who updates one without raising its version, or deletes one, is refused. What retention and clean-up count lies in
-- polling_sources, so that they do not touch versions.

-- migration: 6  version: 0.50.0  name: colony  engine: sqlite
CREATE TABLE colony_agents (
    agent_id    TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(agent_id AS BLOB)) BETWEEN 1 AND 128),
    address     TEXT NOT NULL CHECK (length(CAST(address AS BLOB)) BETWEEN 1 AND 512),
    origin      TEXT NOT NULL,
    is_removed  INTEGER NOT NULL DEFAULT 0,
    added_at    TEXT NOT NULL,
    seen_at     TEXT,
    failed_at   TEXT,
    error       TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE polling_sources (
    source_id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    agent_id          TEXT NOT NULL CHECK (length(CAST(agent_id AS BLOB)) BETWEEN 1 AND 128),
    data_type         TEXT NOT NULL,
    session_id        TEXT NOT NULL CHECK (session_id <> ''),
    epoch             INTEGER NOT NULL CHECK (epoch >= 0),
    epoch_id          TEXT NOT NULL DEFAULT '',
    created_at        TEXT NOT NULL,
    expired           INTEGER NOT NULL DEFAULT 0,  -- rows that retention has removed
    expired_dead      INTEGER NOT NULL DEFAULT 0,  -- and dead letters
    folded_void       INTEGER NOT NULL DEFAULT 0,  -- numbers of gap records that were cleaned up
    folded_lost       INTEGER NOT NULL DEFAULT 0,
    folded_recovered  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent_id, data_type, session_id, epoch)
) STRICT;

CREATE TABLE polling_checkpoints (
    agent_id          TEXT NOT NULL,
    data_type         TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    last_seq_id       INTEGER NOT NULL,  -- where reading goes on: the contiguous prefix
    last_poll_time    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    source_id         INTEGER NOT NULL,
    epoch             INTEGER NOT NULL,  -- 0: the agent has none
    epoch_id          TEXT NOT NULL,
    version           INTEGER NOT NULL,  -- rises with every change
    first_seq_id      INTEGER NOT NULL,  -- 0: nothing seen yet
    highest_seq_id    INTEGER NOT NULL,  -- greatest settled number
    head_seq_id       INTEGER NOT NULL,  -- greatest number the agent has stated
    oldest_seq_id     INTEGER NOT NULL,  -- lowest it still has
    holes             INTEGER NOT NULL,  -- intervals that are held open: see cursor
    held              INTEGER NOT NULL,  -- numbers in them
    cursor            BLOB NOT NULL,  -- prefix and holes: cursor.h
    stored            INTEGER NOT NULL,  -- numbers ever stored
    dead              INTEGER NOT NULL,
    filtered          INTEGER NOT NULL,
    points            BLOB NOT NULL,  -- number, epoch, digest: 8, 8 and 16 bytes each, little endian
    is_foreign        INTEGER NOT NULL,
    next_arrived_ms   INTEGER NOT NULL,
    head_arrived_ms   INTEGER NOT NULL,
    agent_now_ms      INTEGER NOT NULL,
    retention_ms      INTEGER NOT NULL,
    closed_at         TEXT,  -- of an agent that was removed; NULL: current
    closed_reason     TEXT NOT NULL,
    PRIMARY KEY (agent_id, data_type)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_polling_checkpoints_agent ON polling_checkpoints (agent_id);
CREATE INDEX idx_polling_checkpoints_updated ON polling_checkpoints (updated_at DESC);
CREATE TRIGGER polling_checkpoints_rise BEFORE UPDATE ON polling_checkpoints
WHEN new.version <= old.version OR new.agent_id <> old.agent_id OR new.data_type <> old.data_type
BEGIN SELECT RAISE(ABORT, 'a checkpoint is moved by the colony: tidemark colony checkpoint reset'); END;
CREATE TRIGGER polling_checkpoints_stay BEFORE DELETE ON polling_checkpoints
BEGIN SELECT RAISE(ABORT, 'a checkpoint is closed, never deleted'); END;
CREATE TRIGGER polling_checkpoints_once BEFORE INSERT ON polling_checkpoints
WHEN EXISTS (SELECT 1 FROM polling_checkpoints WHERE agent_id = new.agent_id AND data_type = new.data_type)
BEGIN SELECT RAISE(ABORT, 'a checkpoint is moved by the colony: tidemark colony checkpoint reset'); END;

CREATE TABLE polling_checkpoint_history (
    id                INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    event             TEXT NOT NULL CHECK (event IN ('closed', 'reopened', 'noted')),
    note              TEXT NOT NULL,
    recorded_at       TEXT NOT NULL,
    agent_id          TEXT NOT NULL,
    data_type         TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    last_seq_id       INTEGER NOT NULL,  -- where reading goes on: the contiguous prefix
    last_poll_time    TEXT NOT NULL,
    created_at        TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    source_id         INTEGER NOT NULL,
    epoch             INTEGER NOT NULL,  -- 0: the agent has none
    epoch_id          TEXT NOT NULL,
    version           INTEGER NOT NULL,  -- rises with every change
    first_seq_id      INTEGER NOT NULL,  -- 0: nothing seen yet
    highest_seq_id    INTEGER NOT NULL,  -- greatest settled number
    head_seq_id       INTEGER NOT NULL,  -- greatest number the agent has stated
    oldest_seq_id     INTEGER NOT NULL,  -- lowest it still has
    holes             INTEGER NOT NULL,  -- intervals that are held open: see cursor
    held              INTEGER NOT NULL,  -- numbers in them
    cursor            BLOB NOT NULL,  -- prefix and holes: cursor.h
    stored            INTEGER NOT NULL,  -- numbers ever stored
    dead              INTEGER NOT NULL,
    filtered          INTEGER NOT NULL,
    points            BLOB NOT NULL,  -- number, epoch, digest: 8, 8 and 16 bytes each, little endian
    is_foreign        INTEGER NOT NULL,
    next_arrived_ms   INTEGER NOT NULL,
    head_arrived_ms   INTEGER NOT NULL,
    agent_now_ms      INTEGER NOT NULL,
    retention_ms      INTEGER NOT NULL,
    closed_at         TEXT,
    closed_reason     TEXT NOT NULL
) STRICT;
CREATE INDEX idx_polling_checkpoint_history_agent ON polling_checkpoint_history (agent_id, data_type, recorded_at);
CREATE UNIQUE INDEX idx_polling_checkpoint_history_closed ON polling_checkpoint_history (source_id) WHERE event = 'closed';

CREATE TABLE sequence_gaps (
    id                     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    agent_id               TEXT NOT NULL,
    data_type              TEXT NOT NULL,
    start_seq_id           INTEGER NOT NULL CHECK (start_seq_id >= 1),
    end_seq_id             INTEGER NOT NULL CHECK (end_seq_id >= start_seq_id),
    detected_at            TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
    recovered_at           TEXT,
    status                 TEXT NOT NULL DEFAULT 'detected'
                           CHECK (status IN ('detected', 'recovering', 'recovered', 'permanent', 'void')),
    recovery_attempts      INTEGER DEFAULT 0,
    last_recovery_attempt  TEXT,
    session_id             TEXT NOT NULL DEFAULT '',
    epoch                  INTEGER NOT NULL DEFAULT 0,
    reason                 TEXT NOT NULL DEFAULT '',
    evidence               TEXT NOT NULL DEFAULT '',
    source_id              INTEGER NOT NULL DEFAULT 0,
    settled_at             TEXT,  -- when it ended, however
    UNIQUE (agent_id, data_type, session_id, epoch, start_seq_id)
) STRICT;
CREATE INDEX idx_sequence_gaps_agent ON sequence_gaps (agent_id, data_type);
CREATE INDEX idx_sequence_gaps_status ON sequence_gaps (status);
CREATE INDEX idx_sequence_gaps_source ON sequence_gaps (source_id, status);
CREATE INDEX idx_sequence_gaps_settled ON sequence_gaps (settled_at) WHERE settled_at IS NOT NULL;

-- seq_id 0: its number could not be read.
CREATE TABLE dead_letters_rows (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    source_id  INTEGER NOT NULL,
    seq_id     INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    body       BLOB NOT NULL,
    stored_at  TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX idx_dead_letters_seq ON dead_letters_rows (source_id, seq_id) WHERE seq_id > 0;
CREATE INDEX idx_dead_letters_stored ON dead_letters_rows (stored_at);
CREATE VIEW dead_letters AS
SELECT s.agent_id, s.data_type, s.session_id, s.epoch, r.seq_id, r.reason, r.body, r.stored_at
FROM dead_letters_rows r JOIN polling_sources s ON s.source_id = r.source_id;

-- What one change stored. target: the table, without _rows. Retention goes by these, oldest first.
CREATE TABLE polling_batches (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    source_id  INTEGER NOT NULL,
    target     TEXT NOT NULL,
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    rows       INTEGER NOT NULL,
    stored_at  TEXT NOT NULL,
    chain      BLOB  -- d(last_seq); NULL: not known
) STRICT;
CREATE INDEX idx_polling_batches_age ON polling_batches (target, stored_at, id);
CREATE INDEX idx_polling_batches_source ON polling_batches (source_id, first_seq);

CREATE TABLE profile_frames_rows (
    agent_id    TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    frame_id    INTEGER NOT NULL,  -- the 64 bits of an unsigned number
    frame_name  TEXT NOT NULL,
    PRIMARY KEY (agent_id, session_id, frame_id)
) STRICT, WITHOUT ROWID;
CREATE VIEW profile_frames AS
SELECT agent_id, session_id,
       CASE WHEN frame_id < 0 THEN format('%u', frame_id) ELSE frame_id END AS frame_id, frame_name
FROM profile_frames_rows;

-- Histograms: how many durations of a minute lie above the bound before `bucket` and not above its own (rollup.h).
CREATE TABLE rollup_buckets (
    data_type     TEXT NOT NULL,
    minute        TEXT NOT NULL,
    agent_id      TEXT NOT NULL,
    service_name  TEXT NOT NULL,
    bucket        INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    errors        INTEGER NOT NULL,
    PRIMARY KEY (data_type, minute, agent_id, service_name, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE rollup_bounds (
    bucket  INTEGER NOT NULL PRIMARY KEY,
    ms      REAL NOT NULL
) STRICT;
WITH RECURSIVE bounds (bucket, ms) AS (
    SELECT 0, 0.001 UNION ALL SELECT bucket + 1, ms * 1.02 FROM bounds WHERE bucket < 1500)
INSERT INTO rollup_bounds (bucket, ms) SELECT bucket, ms FROM bounds;
CREATE VIEW spans_1m AS
SELECT minute, agent_id, service_name, max(total) AS count, sum(errors) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'telemetry') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_http_metrics_1m AS
SELECT minute, agent_id, service_name, max(total) AS count, sum(errors) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_http') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_grpc_metrics_1m AS
SELECT minute, agent_id, service_name, max(total) AS count, sum(errors) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_grpc') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_sql_metrics_1m AS
SELECT minute, agent_id, service_name, max(total) AS count, sum(errors) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_sql') AS w
GROUP BY minute, agent_id, service_name;

CREATE TABLE spans_rows (
    source_id       INTEGER NOT NULL,
    seq_id          INTEGER NOT NULL,
    timestamp       TEXT,
    trace_id        TEXT,
    span_id         TEXT,
    parent_span_id  TEXT,
    service_name    TEXT,
    span_kind       TEXT,
    duration_ms     REAL,
    is_error        INTEGER,
    http_status     INTEGER,
    http_method     TEXT,
    http_route      TEXT,
    attributes      TEXT,
    span_name       TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_spans_rows_time ON spans_rows (timestamp);
CREATE VIEW spans AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.trace_id, r.span_id, r.parent_span_id,
       r.service_name, r.span_kind, r.duration_ms, r.is_error, r.http_status, r.http_method, r.http_route,
       r.attributes, r.span_name
FROM spans_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE system_metrics_rows (
    source_id    INTEGER NOT NULL,
    seq_id       INTEGER NOT NULL,
    timestamp    TEXT,
    metric_name  TEXT,
    value        REAL,
    unit         TEXT,
    metric_type  TEXT,
    attributes   TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_system_metrics_rows_time ON system_metrics_rows (timestamp);
CREATE VIEW system_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.metric_name, r.value, r.unit, r.metric_type,
       r.attributes
FROM system_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_http_metrics_rows (
    source_id          INTEGER NOT NULL,
    seq_id             INTEGER NOT NULL,
    timestamp          TEXT,
    service_name       TEXT,
    http_method        TEXT,
    http_route         TEXT,
    http_status_code   INTEGER,
    latency_bucket_ms  REAL,
    count              INTEGER,
    attributes         TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_ebpf_http_metrics_rows_time ON ebpf_http_metrics_rows (timestamp);
CREATE VIEW ebpf_http_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.http_method, r.http_route,
       r.http_status_code, r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_http_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_grpc_metrics_rows (
    source_id          INTEGER NOT NULL,
    seq_id             INTEGER NOT NULL,
    timestamp          TEXT,
    service_name       TEXT,
    grpc_method        TEXT,
    grpc_status_code   INTEGER,
    latency_bucket_ms  REAL,
    count              INTEGER,
    attributes         TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_ebpf_grpc_metrics_rows_time ON ebpf_grpc_metrics_rows (timestamp);
CREATE VIEW ebpf_grpc_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.grpc_method, r.grpc_status_code,
       r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_grpc_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_sql_metrics_rows (
    source_id          INTEGER NOT NULL,
    seq_id             INTEGER NOT NULL,
    timestamp          TEXT,
    service_name       TEXT,
    sql_operation      TEXT,
    table_name         TEXT,
    latency_bucket_ms  REAL,
    count              INTEGER,
    attributes         TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_ebpf_sql_metrics_rows_time ON ebpf_sql_metrics_rows (timestamp);
CREATE VIEW ebpf_sql_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.sql_operation, r.table_name,
       r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_sql_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_traces_rows (
    source_id       INTEGER NOT NULL,
    seq_id          INTEGER NOT NULL,
    trace_id        TEXT,
    span_id         TEXT,
    parent_span_id  TEXT,
    service_name    TEXT,
    span_name       TEXT,
    span_kind       TEXT,
    start_time      TEXT,
    duration_us     INTEGER,
    status_code     INTEGER,
    process_pid     INTEGER,
    attributes      TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_ebpf_traces_rows_time ON ebpf_traces_rows (start_time);
CREATE VIEW ebpf_traces AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.trace_id, r.span_id, r.parent_span_id, r.service_name,
       r.span_name, r.span_kind, r.start_time, r.duration_us, r.status_code, r.process_pid, r.attributes
FROM ebpf_traces_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE cpu_profile_samples_rows (
    source_id        INTEGER NOT NULL,
    seq_id           INTEGER NOT NULL,
    timestamp        TEXT,
    service_id       TEXT,
    build_id         TEXT,
    tgid             INTEGER,
    stack_hash       INTEGER,
    stack_frame_ids  TEXT,
    sample_count     INTEGER,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_cpu_profile_samples_rows_time ON cpu_profile_samples_rows (timestamp);
CREATE VIEW cpu_profile_samples AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_id, r.build_id, r.tgid,
       format('%u', r.stack_hash) AS stack_hash, r.stack_frame_ids, r.sample_count
FROM cpu_profile_samples_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE memory_profile_samples_rows (
    source_id        INTEGER NOT NULL,
    seq_id           INTEGER NOT NULL,
    timestamp        TEXT,
    service_id       TEXT,
    build_id         TEXT,
    stack_hash       INTEGER,
    stack_frame_ids  TEXT,
    alloc_bytes      INTEGER,
    alloc_objects    INTEGER,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_memory_profile_samples_rows_time ON memory_profile_samples_rows (timestamp);
CREATE VIEW memory_profile_samples AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_id, r.build_id,
       format('%u', r.stack_hash) AS stack_hash, r.stack_frame_ids, r.alloc_bytes, r.alloc_objects
FROM memory_profile_samples_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE logs_rows (
    source_id        INTEGER NOT NULL,
    seq_id           INTEGER NOT NULL,
    timestamp        TEXT,
    service_name     TEXT,
    severity_number  INTEGER,
    severity_text    TEXT,
    body             TEXT,
    trace_id         TEXT,
    span_id          TEXT,
    attributes       TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_logs_rows_time ON logs_rows (timestamp);
CREATE VIEW logs AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.severity_number, r.severity_text,
       r.body, r.trace_id, r.span_id, r.attributes
FROM logs_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE loss_receipts_rows (
    source_id     INTEGER NOT NULL,
    seq_id        INTEGER NOT NULL,
    timestamp     TEXT,
    stream        TEXT,
    first_seq_id  INTEGER,
    last_seq_id   INTEGER,
    epoch         INTEGER,
    reason        TEXT,
    detail        TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_loss_receipts_rows_time ON loss_receipts_rows (timestamp);
CREATE VIEW loss_receipts AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.stream, r.first_seq_id, r.last_seq_id,
       r.epoch AS loss_epoch, r.reason, r.detail
FROM loss_receipts_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE records_rows (
    source_id   INTEGER NOT NULL,
    seq_id      INTEGER NOT NULL,
    timestamp   TEXT,
    data        BLOB,
    attributes  TEXT,
    PRIMARY KEY (source_id, seq_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_records_rows_time ON records_rows (timestamp);
CREATE VIEW records AS
SELECT s.agent_id, s.data_type, s.session_id, s.epoch, r.seq_id, r.timestamp, r.data, r.attributes
FROM records_rows r JOIN polling_sources s ON s.source_id = r.source_id;

-- migration: 6  version: 0.50.0  name: colony  engine: postgres
CREATE TABLE colony_agents (
    agent_id    text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(agent_id) BETWEEN 1 AND 128),
    address     text NOT NULL CHECK (octet_length(address) BETWEEN 1 AND 512),
    origin      text NOT NULL,
    is_removed  boolean NOT NULL DEFAULT false,
    added_at    timestamptz NOT NULL,
    seen_at     timestamptz,
    failed_at   timestamptz,
    error       text NOT NULL DEFAULT ''
);

CREATE TABLE polling_sources (
    source_id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    agent_id          text COLLATE "C" NOT NULL CHECK (octet_length(agent_id) BETWEEN 1 AND 128),
    data_type         text COLLATE "C" NOT NULL,
    session_id        text COLLATE "C" NOT NULL CHECK (session_id <> ''),
    epoch             bigint NOT NULL CHECK (epoch >= 0),
    epoch_id          text COLLATE "C" NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL,
    expired           bigint NOT NULL DEFAULT 0,  -- rows that retention has removed
    expired_dead      bigint NOT NULL DEFAULT 0,  -- and dead letters
    folded_void       bigint NOT NULL DEFAULT 0,  -- numbers of gap records that were cleaned up
    folded_lost       bigint NOT NULL DEFAULT 0,
    folded_recovered  bigint NOT NULL DEFAULT 0,
    UNIQUE (agent_id, data_type, session_id, epoch)
);

CREATE TABLE polling_checkpoints (
    agent_id          text COLLATE "C" NOT NULL,
    data_type         text COLLATE "C" NOT NULL,
    session_id        text COLLATE "C" NOT NULL,
    last_seq_id       bigint NOT NULL,  -- where reading goes on: the contiguous prefix
    last_poll_time    timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    created_at        timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at        timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    source_id         bigint NOT NULL,
    epoch             bigint NOT NULL,  -- 0: the agent has none
    epoch_id          text COLLATE "C" NOT NULL,
    version           bigint NOT NULL,  -- rises with every change
    first_seq_id      bigint NOT NULL,  -- 0: nothing seen yet
    highest_seq_id    bigint NOT NULL,  -- greatest settled number
    head_seq_id       bigint NOT NULL,  -- greatest number the agent has stated
    oldest_seq_id     bigint NOT NULL,  -- lowest it still has
    holes             bigint NOT NULL,  -- intervals that are held open: see cursor
    held              bigint NOT NULL,  -- numbers in them
    cursor            bytea NOT NULL,  -- prefix and holes: cursor.h
    stored            bigint NOT NULL,  -- numbers ever stored
    dead              bigint NOT NULL,
    filtered          bigint NOT NULL,
    points            bytea NOT NULL,  -- number, epoch, digest: 8, 8 and 16 bytes each, little endian
    is_foreign        boolean NOT NULL,
    next_arrived_ms   bigint NOT NULL,
    head_arrived_ms   bigint NOT NULL,
    agent_now_ms      bigint NOT NULL,
    retention_ms      bigint NOT NULL,
    closed_at         timestamptz,  -- of an agent that was removed; NULL: current
    closed_reason     text COLLATE "C" NOT NULL,
    PRIMARY KEY (agent_id, data_type)
);
CREATE INDEX idx_polling_checkpoints_agent ON polling_checkpoints (agent_id);
CREATE INDEX idx_polling_checkpoints_updated ON polling_checkpoints (updated_at DESC);
CREATE TRIGGER polling_checkpoints_rise BEFORE UPDATE ON polling_checkpoints FOR EACH ROW
    WHEN (new.version <= old.version OR new.agent_id <> old.agent_id OR new.data_type <> old.data_type)
    EXECUTE FUNCTION tide_refuse('a checkpoint is moved by the colony: tidemark colony checkpoint reset');
CREATE TRIGGER polling_checkpoints_stay BEFORE DELETE ON polling_checkpoints FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('a checkpoint is closed, never deleted');
CREATE TRIGGER polling_checkpoints_full BEFORE TRUNCATE ON polling_checkpoints FOR EACH STATEMENT
    EXECUTE FUNCTION tide_refuse('a checkpoint is closed, never deleted');

CREATE TABLE polling_checkpoint_history (
    id                bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    event             text COLLATE "C" NOT NULL CHECK (event IN ('closed', 'reopened', 'noted')),
    note              text NOT NULL,
    recorded_at       timestamptz NOT NULL,
    agent_id          text COLLATE "C" NOT NULL,
    data_type         text COLLATE "C" NOT NULL,
    session_id        text COLLATE "C" NOT NULL,
    last_seq_id       bigint NOT NULL,  -- where reading goes on: the contiguous prefix
    last_poll_time    timestamptz NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    source_id         bigint NOT NULL,
    epoch             bigint NOT NULL,  -- 0: the agent has none
    epoch_id          text COLLATE "C" NOT NULL,
    version           bigint NOT NULL,  -- rises with every change
    first_seq_id      bigint NOT NULL,  -- 0: nothing seen yet
    highest_seq_id    bigint NOT NULL,  -- greatest settled number
    head_seq_id       bigint NOT NULL,  -- greatest number the agent has stated
    oldest_seq_id     bigint NOT NULL,  -- lowest it still has
    holes             bigint NOT NULL,  -- intervals that are held open: see cursor
    held              bigint NOT NULL,  -- numbers in them
    cursor            bytea NOT NULL,  -- prefix and holes: cursor.h
    stored            bigint NOT NULL,  -- numbers ever stored
    dead              bigint NOT NULL,
    filtered          bigint NOT NULL,
    points            bytea NOT NULL,  -- number, epoch, digest: 8, 8 and 16 bytes each, little endian
    is_foreign        boolean NOT NULL,
    next_arrived_ms   bigint NOT NULL,
    head_arrived_ms   bigint NOT NULL,
    agent_now_ms      bigint NOT NULL,
    retention_ms      bigint NOT NULL,
    closed_at         timestamptz,
    closed_reason     text COLLATE "C" NOT NULL
);
CREATE INDEX idx_polling_checkpoint_history_agent ON polling_checkpoint_history (agent_id, data_type, recorded_at);
CREATE UNIQUE INDEX idx_polling_checkpoint_history_closed ON polling_checkpoint_history (source_id) WHERE event = 'closed';

CREATE TABLE sequence_gaps (
    id                     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    agent_id               text COLLATE "C" NOT NULL,
    data_type              text COLLATE "C" NOT NULL,
    start_seq_id           bigint NOT NULL CHECK (start_seq_id >= 1),
    end_seq_id             bigint NOT NULL CHECK (end_seq_id >= start_seq_id),
    detected_at            timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    recovered_at           timestamptz,
    status                 text COLLATE "C" NOT NULL DEFAULT 'detected'
                           CHECK (status IN ('detected', 'recovering', 'recovered', 'permanent', 'void')),
    recovery_attempts      bigint DEFAULT 0,
    last_recovery_attempt  timestamptz,
    session_id             text COLLATE "C" NOT NULL DEFAULT '',
    epoch                  bigint NOT NULL DEFAULT 0,
    reason                 text NOT NULL DEFAULT '',
    evidence               text NOT NULL DEFAULT '',
    source_id              bigint NOT NULL DEFAULT 0,
    settled_at             timestamptz,  -- when it ended, however
    UNIQUE (agent_id, data_type, session_id, epoch, start_seq_id)
);
CREATE INDEX idx_sequence_gaps_agent ON sequence_gaps (agent_id, data_type);
CREATE INDEX idx_sequence_gaps_status ON sequence_gaps (status);
CREATE INDEX idx_sequence_gaps_source ON sequence_gaps (source_id, status);
CREATE INDEX idx_sequence_gaps_settled ON sequence_gaps (settled_at) WHERE settled_at IS NOT NULL;

-- seq_id 0: its number could not be read.
CREATE TABLE dead_letters_rows (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    source_id  bigint NOT NULL,
    seq_id     bigint NOT NULL,
    reason     text NOT NULL,
    body       bytea NOT NULL,
    stored_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX idx_dead_letters_seq ON dead_letters_rows (source_id, seq_id) WHERE seq_id > 0;
CREATE INDEX idx_dead_letters_stored ON dead_letters_rows (stored_at);
CREATE VIEW dead_letters AS
SELECT s.agent_id, s.data_type, s.session_id, s.epoch, r.seq_id, r.reason, r.body, r.stored_at
FROM dead_letters_rows r JOIN polling_sources s ON s.source_id = r.source_id;

-- What one change stored. target: the table, without _rows. Retention goes by these, oldest first.
CREATE TABLE polling_batches (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    source_id  bigint NOT NULL,
    target     text COLLATE "C" NOT NULL,
    first_seq  bigint NOT NULL,
    last_seq   bigint NOT NULL,
    rows       bigint NOT NULL,
    stored_at  timestamptz NOT NULL,
    chain      bytea  -- d(last_seq); NULL: not known
);
CREATE INDEX idx_polling_batches_age ON polling_batches (target, stored_at, id);
CREATE INDEX idx_polling_batches_source ON polling_batches (source_id, first_seq);

CREATE TABLE profile_frames_rows (
    agent_id    text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    frame_id    bigint NOT NULL,  -- the 64 bits of an unsigned number
    frame_name  text NOT NULL,
    PRIMARY KEY (agent_id, session_id, frame_id)
);
CREATE VIEW profile_frames AS
SELECT agent_id, session_id,
       CASE WHEN frame_id < 0 THEN frame_id + 18446744073709551616 ELSE frame_id END AS frame_id, frame_name
FROM profile_frames_rows;

-- Histograms: how many durations of a minute lie above the bound before `bucket` and not above its own (rollup.h).
CREATE TABLE rollup_buckets (
    data_type     text COLLATE "C" NOT NULL,
    minute        timestamptz NOT NULL,
    agent_id      text COLLATE "C" NOT NULL,
    service_name  text COLLATE "C" NOT NULL,
    bucket        bigint NOT NULL,
    count         bigint NOT NULL,
    errors        bigint NOT NULL,
    PRIMARY KEY (data_type, minute, agent_id, service_name, bucket)
);
CREATE TABLE rollup_bounds (
    bucket  bigint NOT NULL PRIMARY KEY,
    ms      double precision NOT NULL
);
WITH RECURSIVE bounds (bucket, ms) AS (
    SELECT CAST(0 AS bigint), CAST(0.001 AS double precision) UNION ALL SELECT bucket + 1, ms * CAST(1.02 AS double precision) FROM bounds WHERE bucket < 1500)
INSERT INTO rollup_bounds (bucket, ms) SELECT bucket, ms FROM bounds;
CREATE VIEW spans_1m AS
SELECT minute, agent_id, service_name, CAST(max(total) AS bigint) AS count, CAST(sum(errors) AS bigint) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'telemetry') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_http_metrics_1m AS
SELECT minute, agent_id, service_name, CAST(max(total) AS bigint) AS count, CAST(sum(errors) AS bigint) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_http') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_grpc_metrics_1m AS
SELECT minute, agent_id, service_name, CAST(max(total) AS bigint) AS count, CAST(sum(errors) AS bigint) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_grpc') AS w
GROUP BY minute, agent_id, service_name;
CREATE VIEW ebpf_sql_metrics_1m AS
SELECT minute, agent_id, service_name, CAST(max(total) AS bigint) AS count, CAST(sum(errors) AS bigint) AS errors,
       min(ms) FILTER (WHERE reached * 2 >= total) AS p50_ms,
       min(ms) FILTER (WHERE reached * 20 >= total * 19) AS p95_ms,
       min(ms) FILTER (WHERE reached * 100 >= total * 99) AS p99_ms
FROM (SELECT b.minute, b.agent_id, b.service_name, b.errors, m.ms,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name ORDER BY b.bucket) AS reached,
             sum(b.count) OVER (PARTITION BY b.minute, b.agent_id, b.service_name) AS total
      FROM rollup_buckets b JOIN rollup_bounds m ON m.bucket = b.bucket WHERE b.data_type = 'beyla_sql') AS w
GROUP BY minute, agent_id, service_name;

CREATE TABLE spans_rows (
    source_id       bigint NOT NULL,
    seq_id          bigint NOT NULL,
    timestamp       timestamptz,
    trace_id        text,
    span_id         text,
    parent_span_id  text,
    service_name    text,
    span_kind       text,
    duration_ms     double precision,
    is_error        boolean,
    http_status     bigint,
    http_method     text,
    http_route      text,
    attributes      text,
    span_name       text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_spans_rows_time ON spans_rows USING brin (timestamp);
CREATE VIEW spans AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.trace_id, r.span_id, r.parent_span_id,
       r.service_name, r.span_kind, r.duration_ms, r.is_error, r.http_status, r.http_method, r.http_route,
       r.attributes, r.span_name
FROM spans_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE system_metrics_rows (
    source_id    bigint NOT NULL,
    seq_id       bigint NOT NULL,
    timestamp    timestamptz,
    metric_name  text,
    value        double precision,
    unit         text,
    metric_type  text,
    attributes   text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_system_metrics_rows_time ON system_metrics_rows USING brin (timestamp);
CREATE VIEW system_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.metric_name, r.value, r.unit, r.metric_type,
       r.attributes
FROM system_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_http_metrics_rows (
    source_id          bigint NOT NULL,
    seq_id             bigint NOT NULL,
    timestamp          timestamptz,
    service_name       text,
    http_method        text,
    http_route         text,
    http_status_code   bigint,
    latency_bucket_ms  double precision,
    count              bigint,
    attributes         text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_ebpf_http_metrics_rows_time ON ebpf_http_metrics_rows USING brin (timestamp);
CREATE VIEW ebpf_http_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.http_method, r.http_route,
       r.http_status_code, r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_http_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_grpc_metrics_rows (
    source_id          bigint NOT NULL,
    seq_id             bigint NOT NULL,
    timestamp          timestamptz,
    service_name       text,
    grpc_method        text,
    grpc_status_code   bigint,
    latency_bucket_ms  double precision,
    count              bigint,
    attributes         text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_ebpf_grpc_metrics_rows_time ON ebpf_grpc_metrics_rows USING brin (timestamp);
CREATE VIEW ebpf_grpc_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.grpc_method, r.grpc_status_code,
       r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_grpc_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_sql_metrics_rows (
    source_id          bigint NOT NULL,
    seq_id             bigint NOT NULL,
    timestamp          timestamptz,
    service_name       text,
    sql_operation      text,
    table_name         text,
    latency_bucket_ms  double precision,
    count              bigint,
    attributes         text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_ebpf_sql_metrics_rows_time ON ebpf_sql_metrics_rows USING brin (timestamp);
CREATE VIEW ebpf_sql_metrics AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.sql_operation, r.table_name,
       r.latency_bucket_ms, r.count, r.attributes
FROM ebpf_sql_metrics_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE ebpf_traces_rows (
    source_id       bigint NOT NULL,
    seq_id          bigint NOT NULL,
    trace_id        text,
    span_id         text,
    parent_span_id  text,
    service_name    text,
    span_name       text,
    span_kind       text,
    start_time      timestamptz,
    duration_us     bigint,
    status_code     bigint,
    process_pid     bigint,
    attributes      text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_ebpf_traces_rows_time ON ebpf_traces_rows USING brin (start_time);
CREATE VIEW ebpf_traces AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.trace_id, r.span_id, r.parent_span_id, r.service_name,
       r.span_name, r.span_kind, r.start_time, r.duration_us, r.status_code, r.process_pid, r.attributes
FROM ebpf_traces_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE cpu_profile_samples_rows (
    source_id        bigint NOT NULL,
    seq_id           bigint NOT NULL,
    timestamp        timestamptz,
    service_id       text,
    build_id         text,
    tgid             bigint,
    stack_hash       bigint,
    stack_frame_ids  text,
    sample_count     bigint,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_cpu_profile_samples_rows_time ON cpu_profile_samples_rows USING brin (timestamp);
CREATE VIEW cpu_profile_samples AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_id, r.build_id, r.tgid,
       CASE WHEN r.stack_hash < 0 THEN r.stack_hash + 18446744073709551616 ELSE r.stack_hash END AS stack_hash,
       r.stack_frame_ids, r.sample_count
FROM cpu_profile_samples_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE memory_profile_samples_rows (
    source_id        bigint NOT NULL,
    seq_id           bigint NOT NULL,
    timestamp        timestamptz,
    service_id       text,
    build_id         text,
    stack_hash       bigint,
    stack_frame_ids  text,
    alloc_bytes      bigint,
    alloc_objects    bigint,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_memory_profile_samples_rows_time ON memory_profile_samples_rows USING brin (timestamp);
CREATE VIEW memory_profile_samples AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_id, r.build_id,
       CASE WHEN r.stack_hash < 0 THEN r.stack_hash + 18446744073709551616 ELSE r.stack_hash END AS stack_hash,
       r.stack_frame_ids, r.alloc_bytes, r.alloc_objects
FROM memory_profile_samples_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE logs_rows (
    source_id        bigint NOT NULL,
    seq_id           bigint NOT NULL,
    timestamp        timestamptz,
    service_name     text,
    severity_number  bigint,
    severity_text    text,
    body             text,
    trace_id         text,
    span_id          text,
    attributes       text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_logs_rows_time ON logs_rows USING brin (timestamp);
CREATE VIEW logs AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.service_name, r.severity_number, r.severity_text,
       r.body, r.trace_id, r.span_id, r.attributes
FROM logs_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE loss_receipts_rows (
    source_id     bigint NOT NULL,
    seq_id        bigint NOT NULL,
    timestamp     timestamptz,
    stream        text,
    first_seq_id  bigint,
    last_seq_id   bigint,
    epoch         bigint,
    reason        text,
    detail        text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_loss_receipts_rows_time ON loss_receipts_rows USING brin (timestamp);
CREATE VIEW loss_receipts AS
SELECT s.agent_id, s.session_id, s.epoch, r.seq_id, r.timestamp, r.stream, r.first_seq_id, r.last_seq_id,
       r.epoch AS loss_epoch, r.reason, r.detail
FROM loss_receipts_rows r JOIN polling_sources s ON s.source_id = r.source_id;

CREATE TABLE records_rows (
    source_id   bigint NOT NULL,
    seq_id      bigint NOT NULL,
    timestamp   timestamptz,
    data        bytea,
    attributes  text,
    PRIMARY KEY (source_id, seq_id)
);
CREATE INDEX idx_records_rows_time ON records_rows USING brin (timestamp);
CREATE VIEW records AS
SELECT s.agent_id, s.data_type, s.session_id, s.epoch, r.seq_id, r.timestamp, r.data, r.attributes
FROM records_rows r JOIN polling_sources s ON s.source_id = r.source_id;
