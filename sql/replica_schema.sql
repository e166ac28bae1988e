-- What replication keeps in an application's file. Foreign programs open this file too: nothing here needs a SQLite newer than 3.8.2 to be parsed.
-- Names: tide_replica_*, tide_log_<id>, tide_wide_<id>, tide_gone_<id>; replication_meta and replication_checkpoints are those of the replication document.
-- Ids of nodes are 16 bytes; times are microseconds unless a column says ms; keys and values are encoded as in replica/value.h.

-- template: replica_schema_1
-- Version 1. Forward only: a later version is another block, run after this one (replica/node.c).
CREATE TABLE IF NOT EXISTS replication_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS replication_checkpoints (
    table_name TEXT,
    origin_node_id TEXT,
    origin_seq INTEGER,
    PRIMARY KEY (table_name, origin_node_id)
);

-- Numbers of our own events: one row per captured change, the newest is never deleted.
CREATE TABLE tide_replica_seq (seq INTEGER PRIMARY KEY, t);

CREATE TABLE tide_replica_tables (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    is_tracked INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    retain_us INTEGER NOT NULL
);
-- The stored columns as they were recorded; the log's columns c1, c2, ... are these.
CREATE TABLE tide_replica_columns (
    table_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    key_position INTEGER NOT NULL, -- from 1; 0: not of the key
    is_not_null INTEGER NOT NULL,
    affinity TEXT NOT NULL,
    fallback TEXT,
    PRIMARY KEY (table_id, position)
) WITHOUT ROWID;
CREATE TABLE tide_replica_schemas (
    table_name TEXT NOT NULL,
    schema INTEGER NOT NULL,
    columns BLOB NOT NULL, -- names with NUL between
    sql TEXT,              -- how the table is made
    PRIMARY KEY (table_name, schema)
) WITHOUT ROWID;

CREATE TABLE tide_replica_events (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cut_seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    table_name TEXT NOT NULL,
    operation_type TEXT NOT NULL,
    record_id TEXT NOT NULL,
    data TEXT,
    timestamp INTEGER NOT NULL, -- ms
    processed INTEGER NOT NULL DEFAULT 0,
    stamp INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (origin, epoch, seq)
);
CREATE INDEX tide_replica_events_by_time ON tide_replica_events (timestamp, id);
CREATE INDEX tide_replica_events_by_table ON tide_replica_events (table_name, origin, epoch, seq);

CREATE TABLE tide_replica_clocks (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    clock BLOB NOT NULL,
    image BLOB,                       -- columns of a row that does not stand in its table
    aside INTEGER NOT NULL DEFAULT 0, -- 1 check, 2 unique, 3 foreign key: exists by its clock but is kept out of the table
    rival BLOB,                       -- key of the row that keeps it out
    gone INTEGER,                     -- stamp of the deletion, of rows that do not exist
    digest INTEGER,                   -- of the row as it stands in its table; NULL: not known
    PRIMARY KEY (table_id, key)
) WITHOUT ROWID;
CREATE INDEX tide_replica_clocks_aside ON tide_replica_clocks (table_id, rival) WHERE aside > 0;
CREATE INDEX tide_replica_clocks_gone ON tide_replica_clocks (gone) WHERE gone IS NOT NULL;

CREATE TABLE tide_replica_origins (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    start INTEGER NOT NULL DEFAULT 0, -- numbers at or below it belong to earlier epochs
    floor INTEGER NOT NULL DEFAULT 0,
    cursor BLOB NOT NULL,
    PRIMARY KEY (origin, epoch)
) WITHOUT ROWID;
CREATE TABLE tide_replica_cursors (
    table_name TEXT NOT NULL,
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    cursor BLOB NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (table_name, origin, epoch)
) WITHOUT ROWID;
CREATE TABLE tide_replica_epochs (
    node BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (node, epoch)
) WITHOUT ROWID;

CREATE TABLE tide_replica_peers (
    peer BLOB PRIMARY KEY,
    name TEXT,
    seen_at INTEGER,
    expires_at INTEGER
) WITHOUT ROWID;
CREATE TABLE tide_replica_peer_marks (
    peer BLOB NOT NULL,
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    PRIMARY KEY (peer, origin, epoch)
) WITHOUT ROWID;
CREATE TABLE tide_replica_state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE tide_replica_conflicts (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    col INTEGER NOT NULL, -- -1: a delete
    time INTEGER NOT NULL,
    node BLOB NOT NULL,
    value BLOB,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (table_id, key, col, time, node)
) WITHOUT ROWID;
CREATE TABLE tide_replica_known (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    col INTEGER NOT NULL,
    time INTEGER NOT NULL,
    node BLOB NOT NULL,
    added INTEGER NOT NULL,
    PRIMARY KEY (table_id, key, col, time, node)
) WITHOUT ROWID;
CREATE TABLE tide_replica_quarantine (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (origin, epoch, seq)
) WITHOUT ROWID;
CREATE TABLE tide_replica_snapshots (
    snapshot_id TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    digest BLOB NOT NULL,
    per_origin_seq_cut TEXT NOT NULL,
    tables TEXT NOT NULL,
    verified INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- template: replica_schema_2
-- Version 2. Names that columns and tables had before; batches that are not whole yet; prints of columns in place of one digest per row.
ALTER TABLE tide_replica_schemas ADD COLUMN becomes BLOB;     -- what its columns are called now, as columns; '': dropped. NULL: the same
ALTER TABLE tide_replica_schemas ADD COLUMN key_columns BLOB; -- positions of the key's columns, 4 bytes each
ALTER TABLE tide_replica_quarantine ADD COLUMN tried INTEGER NOT NULL DEFAULT 0; -- which state of the schemas it was tried with
CREATE TABLE tide_replica_names (name TEXT PRIMARY KEY COLLATE NOCASE, table_id INTEGER NOT NULL) WITHOUT ROWID; -- former ones
CREATE TABLE tide_replica_spool (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    cut_seq INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, -- the lowest of its events that are here
    since INTEGER NOT NULL,
    PRIMARY KEY (origin, epoch, cut_seq)
) WITHOUT ROWID;
CREATE INDEX tide_replica_events_waiting ON tide_replica_events (stamp) WHERE processed = 0 AND epoch > 0;
UPDATE tide_replica_clocks SET digest = NULL; -- from now on: 6 bytes per column

-- template: replica_schema_3
-- Version 3. Captured changes stand beside their numbers (replica_table.sql, table_log_make); c1, c2, ... are added as tables need them.
ALTER TABLE tide_replica_seq ADD COLUMN op;
ALTER TABLE tide_replica_seq ADD COLUMN m1;

-- template: replica_schema_4
-- Version 4. References that an application has broken itself: they hold no rows back (replica/references.h).
CREATE TABLE tide_replica_loose (
    table_id INTEGER NOT NULL,
    columns BLOB NOT NULL, -- names of the reference's columns, each with a NUL behind
    key BLOB,              -- of the orphan, until the event is written
    PRIMARY KEY (table_id, columns)
) WITHOUT ROWID;

-- template: replica_schema_5
-- Version 5. When a change was written, as a Julian day; NULL: when it is ingested.
ALTER TABLE tide_replica_seq ADD COLUMN at;

-- template: replica_schema_6
-- Version 6. Digest of what an event's columns tell (replica/log.h); NULL: written before there was one, or by another implementation.
ALTER TABLE tide_replica_events ADD COLUMN value_digest INTEGER;
