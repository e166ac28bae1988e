-- Streams of numbered records, in batches: one commit of one stream is one row. See include/tidemark/feed.h.
--
-- A batch row is written once and never changed. What its last row says of a stream (chain, arrival, bytes) is the
-- stream's state, so that a commit touches no other page than the batch's, its index entry's and the counter's; feed_streams
-- holds the same for the number up to which batches have been dropped. The body is large: it stands last, and the table has a rowid,
-- so that the pages above the leaves hold nothing but numbers.
--
-- The counters of streams are rows of `sequences`, which only rise together with a batch that carries the numbers.

-- migration: 4  version: 0.40.0  name: feed  engine: sqlite
CREATE TABLE feed_streams (
    id                INTEGER NOT NULL PRIMARY KEY CHECK (id BETWEEN 1 AND 256),
    name              TEXT NOT NULL UNIQUE CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 64),
    kind              TEXT NOT NULL,    -- a built-in stream's own name, or 'opaque'
    sequence          TEXT NOT NULL UNIQUE,
    created_at        TEXT,             -- NULL: built in
    floor_seq         INTEGER NOT NULL DEFAULT 0 CHECK (floor_seq >= 0),  -- batches up to here have been dropped
    floor_chain       BLOB NOT NULL DEFAULT x'00000000000000000000000000000000' CHECK (length(floor_chain) = 16),
    floor_arrived_at  TEXT,
    floor_bytes       INTEGER NOT NULL DEFAULT 0  -- stored_through at the floor
) STRICT;
CREATE TRIGGER feed_streams_rise BEFORE UPDATE ON feed_streams
WHEN new.floor_seq < old.floor_seq OR new.id <> old.id OR new.name <> old.name OR new.sequence <> old.sequence
BEGIN SELECT RAISE(ABORT, 'a stream keeps its name, and its floor never goes down'); END;
CREATE TRIGGER feed_streams_stay BEFORE DELETE ON feed_streams
BEGIN SELECT RAISE(ABORT, 'a stream is never deleted'); END;
CREATE TRIGGER feed_streams_once BEFORE INSERT ON feed_streams
WHEN EXISTS (SELECT 1 FROM feed_streams WHERE id = new.id OR name = new.name OR sequence = new.sequence)
BEGIN SELECT RAISE(ABORT, 'a stream keeps its name, and its floor never goes down'); END;

-- A sequence that somebody used before under such a name goes on from where it stands.
INSERT INTO feed_streams (id, name, kind, sequence, floor_seq)
SELECT column1, column2, column2, column3, coalesce((SELECT last FROM sequences WHERE name = column3), 0) FROM (VALUES
    (1, 'telemetry', 'seq_otel_spans'),
    (2, 'system_metrics', 'seq_system_metrics'),
    (3, 'beyla_http', 'seq_beyla_http_metrics'),
    (4, 'beyla_grpc', 'seq_beyla_grpc_metrics'),
    (5, 'beyla_sql', 'seq_beyla_sql_metrics'),
    (6, 'beyla_traces', 'seq_beyla_traces'),
    (7, 'cpu_profile', 'seq_cpu_profile_samples'),
    (8, 'memory_profile', 'seq_memory_profile_samples'),
    (9, 'logs', 'seq_logs'),
    (10, 'loss_receipts', 'seq_loss_receipts'));

CREATE TABLE feed_batches (
    id              INTEGER NOT NULL PRIMARY KEY,
    stream_id       INTEGER NOT NULL,
    last_seq        INTEGER NOT NULL,
    first_seq       INTEGER NOT NULL CHECK (first_seq BETWEEN 1 AND last_seq),
    epoch           INTEGER NOT NULL,
    min_time_ms     INTEGER NOT NULL,   -- of the records
    max_time_ms     INTEGER NOT NULL,
    arrived_at      TEXT NOT NULL,      -- never goes back beside the numbers
    codec           INTEGER NOT NULL,   -- 0: none, 1: LZ4, 2: zstd
    raw_len         INTEGER NOT NULL,
    stored_through  INTEGER NOT NULL,   -- bytes of all bodies of the stream so far, this one included
    chain_before    BLOB NOT NULL,      -- d(first_seq - 1)
    chain           BLOB NOT NULL,      -- d(last_seq)
    services        BLOB NOT NULL,      -- the set of names, each with its NUL; empty: not known
    body_crc        INTEGER NOT NULL,   -- CRC-32C of the body as it is stored
    head_crc        INTEGER NOT NULL,   -- of everything above
    body            BLOB NOT NULL,      -- the records as an answer repeats them
    record_count    INTEGER GENERATED ALWAYS AS (last_seq - first_seq + 1) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX idx_feed_batches_seq ON feed_batches (stream_id, last_seq, first_seq);
CREATE TRIGGER feed_batches_keep BEFORE UPDATE ON feed_batches
BEGIN SELECT RAISE(ABORT, 'a batch never changes'); END;

-- The first number of each epoch.
CREATE TABLE feed_epochs (
    stream_id  INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, epoch)
) STRICT, WITHOUT ROWID;

-- Who reads, and what it has settled. Unread records are kept for those who are named here.
CREATE TABLE feed_readers (
    stream_id    INTEGER NOT NULL,
    reader       TEXT NOT NULL CHECK (length(CAST(reader AS BLOB)) BETWEEN 1 AND 128),
    epoch        INTEGER NOT NULL,
    position     INTEGER NOT NULL CHECK (position >= 0),
    lease_token  INTEGER NOT NULL,
    seen_at      TEXT NOT NULL,
    PRIMARY KEY (stream_id, reader)
) STRICT, WITHOUT ROWID;

-- Numbers that no answer will carry. What lies below a stream's floor and is not named here was read by everybody.
CREATE TABLE feed_losses (
    stream_id  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL CHECK (first_seq BETWEEN 1 AND last_seq),
    reason     TEXT NOT NULL CHECK (reason IN ('expired', 'evicted', 'damaged', 'lost')),
    found_at   TEXT NOT NULL,
    detail     TEXT NOT NULL,
    PRIMARY KEY (stream_id, last_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE profile_frame_dictionary (
    frame_id    INTEGER NOT NULL PRIMARY KEY,
    frame_name  TEXT NOT NULL UNIQUE
) STRICT;
CREATE TRIGGER profile_frames_keep BEFORE UPDATE ON profile_frame_dictionary
BEGIN SELECT RAISE(ABORT, 'a frame keeps its number'); END;
CREATE TABLE binary_metadata (
    build_id        TEXT NOT NULL,
    service_id      TEXT NOT NULL,
    binary_path     TEXT NOT NULL,
    first_seen      TEXT NOT NULL,
    last_seen       TEXT NOT NULL,
    has_debug_info  INTEGER NOT NULL,
    PRIMARY KEY (build_id, service_id)
) STRICT, WITHOUT ROWID;

-- Numbers of a stream are given to its records and to nothing else: a batch, a floor or a loss that ends there comes first.
CREATE TRIGGER sequences_of_streams BEFORE UPDATE OF last ON sequences
WHEN new.last <> old.last AND EXISTS (SELECT 1 FROM feed_streams WHERE sequence = new.name)
    AND NOT EXISTS (SELECT 1 FROM feed_streams s JOIN feed_batches b ON b.stream_id = s.id AND b.last_seq = new.last
                    WHERE s.sequence = new.name)
BEGIN SELECT RAISE(ABORT, 'the numbers of this sequence belong to a stream: its records take them when they are stored'); END;
CREATE TRIGGER sequences_of_new_streams BEFORE INSERT ON sequences
WHEN EXISTS (SELECT 1 FROM feed_streams WHERE sequence = new.name)
    AND NOT EXISTS (SELECT 1 FROM feed_streams s JOIN feed_batches b ON b.stream_id = s.id AND b.last_seq = new.last
                    WHERE s.sequence = new.name)
    AND NOT EXISTS (SELECT 1 FROM feed_streams WHERE sequence = new.name AND floor_seq = new.last)
BEGIN SELECT RAISE(ABORT, 'the numbers of this sequence belong to a stream: its records take them when they are stored'); END;

-- migration: 4  version: 0.40.0  name: feed  engine: postgres
-- Streams live on SQLite, beside the program that writes them. The step is recorded here too, so that the steps of both
-- engines have the same numbers.
SELECT 1;
