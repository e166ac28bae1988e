-- What belongs to checkpoints besides their rows: chunks of large snapshots, tags, annotations, events, and the place
-- where an import waits until all of it can be published at once.
--
-- Chunks are stored once for all checkpoints and never change. Who uses a chunk is told by references, not by a count in
-- the chunk: using one again writes a few bytes. A chunk that has lost a reference is noted (chunk_candidates); the
-- collector looks there and nowhere else.
--
-- Tags and references are part of what a checkpoint's checksum covers. So they are written before its row, in the same
-- transaction, and are refused once the row is there.

-- migration: 3  version: 0.31.0  name: journal  engine: sqlite
CREATE TABLE snapshot_chunks (
    chunk_id  INTEGER PRIMARY KEY,
    digest    BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),  -- SHA-256 of the raw bytes
    raw_len   INTEGER NOT NULL CHECK (raw_len > 0),
    codec     INTEGER NOT NULL CHECK (codec >= 0),
    body      BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoint_chunks (
    global_sequence  INTEGER NOT NULL,
    position         INTEGER NOT NULL CHECK (position >= 0),
    chunk_id         INTEGER NOT NULL,
    PRIMARY KEY (global_sequence, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_checkpoint_chunks_chunk ON checkpoint_chunks (chunk_id);
CREATE TABLE chunk_candidates (chunk_id INTEGER NOT NULL PRIMARY KEY) STRICT;

CREATE TABLE checkpoint_tags (
    global_sequence  INTEGER NOT NULL,
    tag              TEXT NOT NULL CHECK (length(CAST(tag AS BLOB)) BETWEEN 1 AND 128 AND instr(tag, char(10)) = 0),
    PRIMARY KEY (global_sequence, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_checkpoint_tags_tag ON checkpoint_tags (tag, global_sequence);

CREATE TABLE checkpoint_annotations (
    annotation_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    global_sequence  INTEGER NOT NULL,
    severity         TEXT NOT NULL DEFAULT 'info' CHECK (severity IN ('info', 'warning', 'critical')),
    note             TEXT NOT NULL,
    created_at       TEXT NOT NULL
) STRICT;
CREATE INDEX idx_checkpoint_annotations_of ON checkpoint_annotations (global_sequence);

-- What happened besides appends, numbered by the sequence 'journal/events'. head: the last checkpoint number at that time.
CREATE TABLE journal_events (
    event_id          INTEGER NOT NULL PRIMARY KEY,
    kind              TEXT NOT NULL CHECK (kind IN ('restored', 'deleted', 'compacted', 'imported')),
    head              INTEGER NOT NULL,
    first_global      INTEGER NOT NULL,
    last_global       INTEGER NOT NULL,
    checkpoint_count  INTEGER NOT NULL,
    task_id           TEXT,
    at                TEXT NOT NULL
) STRICT;

-- Refuses a transaction that expects another number: INSERT INTO journal_expected (last) VALUES (n).
CREATE VIEW journal_expected AS SELECT last FROM journal_head WHERE id = 1;
CREATE TRIGGER journal_expected_check INSTEAD OF INSERT ON journal_expected
BEGIN
    SELECT RAISE(ABORT, 'the next global sequence is another one')
    WHERE new.last <> (SELECT last FROM journal_head WHERE id = 1);
END;

CREATE TRIGGER snapshot_chunks_keep BEFORE UPDATE ON snapshot_chunks
BEGIN SELECT RAISE(ABORT, 'a chunk never changes'); END;
CREATE TRIGGER snapshot_chunks_stay BEFORE DELETE ON snapshot_chunks
WHEN EXISTS (SELECT 1 FROM checkpoint_chunks WHERE chunk_id = old.chunk_id)
BEGIN SELECT RAISE(ABORT, 'a checkpoint needs this chunk'); END;
CREATE TRIGGER snapshot_chunks_once BEFORE INSERT ON snapshot_chunks
WHEN EXISTS (SELECT 1 FROM snapshot_chunks WHERE digest = new.digest OR chunk_id = new.chunk_id)
BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER checkpoint_chunks_before BEFORE INSERT ON checkpoint_chunks
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = new.global_sequence)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: they never change'); END;
CREATE TRIGGER checkpoint_chunks_keep BEFORE UPDATE ON checkpoint_chunks
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: they never change'); END;
CREATE TRIGGER checkpoint_chunks_stay BEFORE DELETE ON checkpoint_chunks
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = old.global_sequence)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: they never change'); END;
CREATE TRIGGER checkpoint_chunks_gone AFTER DELETE ON checkpoint_chunks
BEGIN
    INSERT INTO chunk_candidates (chunk_id) SELECT old.chunk_id
    WHERE NOT EXISTS (SELECT 1 FROM chunk_candidates WHERE chunk_id = old.chunk_id);
END;

-- A row from plain SQL has no checksum: it may be tagged at any time.
CREATE TRIGGER checkpoint_tags_before BEFORE INSERT ON checkpoint_tags
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only: tags are given with the checkpoint')
    WHERE EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = new.global_sequence AND checksum IS NOT NULL);
    SELECT RAISE(ABORT, 'there is no such checkpoint') WHERE new.global_sequence > (SELECT last FROM journal_head WHERE id = 1);
END;
CREATE TRIGGER checkpoint_tags_keep BEFORE UPDATE ON checkpoint_tags
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: tags are given with the checkpoint'); END;
CREATE TRIGGER checkpoint_tags_stay BEFORE DELETE ON checkpoint_tags
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = old.global_sequence AND checksum IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: tags are given with the checkpoint'); END;

CREATE TRIGGER checkpoint_annotations_of BEFORE INSERT ON checkpoint_annotations
WHEN NOT EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = new.global_sequence)
BEGIN SELECT RAISE(ABORT, 'there is no such checkpoint'); END;

CREATE TRIGGER journal_events_keep BEFORE UPDATE ON journal_events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER journal_events_stay BEFORE DELETE ON journal_events WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'events are append-only: tidemark checkpoint compact removes old ones'); END;
CREATE TRIGGER journal_events_once BEFORE INSERT ON journal_events
WHEN EXISTS (SELECT 1 FROM journal_events WHERE event_id >= new.event_id)
    OR new.event_id IS NOT (SELECT last FROM sequences WHERE name = 'journal/events')
BEGIN SELECT RAISE(ABORT, 'events are append-only, and numbered by the store'); END;

-- Checksum, chain, chunks and origin are the library's; it takes its numbers first.
CREATE TRIGGER checkpoints_bare BEFORE INSERT ON checkpoints
WHEN new.global_sequence = -1 AND (new.checksum IS NOT NULL OR new.chain IS NOT NULL OR new.chunk_count <> 0
    OR new.snapshot_len IS NOT NULL OR new.origin_session IS NOT NULL OR new.origin_global IS NOT NULL
    OR new.origin_number IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'checksum, chain, chunk_count, snapshot_len and origin are given by the store: leave them out'); END;
-- Where an iteration ended: what resuming and compaction ask for first.
CREATE INDEX idx_checkpoints_ends ON checkpoints (task_id, sequence_number) WHERE checkpoint_type = 'iteration_end';
-- What belongs to a checkpoint goes with it.
CREATE TRIGGER checkpoints_parted AFTER DELETE ON checkpoints
BEGIN
    DELETE FROM checkpoint_chunks WHERE global_sequence = old.global_sequence;
    DELETE FROM checkpoint_tags WHERE global_sequence = old.global_sequence;
    DELETE FROM checkpoint_annotations WHERE global_sequence = old.global_sequence;
END;

-- Imports are read into these tables in steps and published by one transaction. Rows of an import that was not
-- finished are garbage, removed by the next one.
CREATE TABLE import_runs (
    import_id   INTEGER NOT NULL PRIMARY KEY,
    touched_at  TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('staging', 'published'))
) STRICT;
CREATE TABLE import_types (
    import_id        INTEGER NOT NULL,
    checkpoint_type  TEXT NOT NULL,
    is_resumable     INTEGER NOT NULL,
    description      TEXT NOT NULL,
    PRIMARY KEY (import_id, checkpoint_type)
) STRICT, WITHOUT ROWID;
CREATE TABLE import_tasks (
    import_id      INTEGER NOT NULL,
    task_id        TEXT NOT NULL,
    title          TEXT NOT NULL,
    status         TEXT NOT NULL,
    metadata       TEXT,
    created_at     TEXT NOT NULL,
    completed_at   TEXT,
    forked_from    TEXT,
    fork_point     TEXT,              -- the checkpoint_id it was forked at
    last_sequence  INTEGER NOT NULL,
    depth          INTEGER,           -- forks of forks; NULL until known
    is_new         INTEGER NOT NULL DEFAULT 0,
    shift          INTEGER,           -- numbers are kept (NULL), or counted from here
    PRIMARY KEY (import_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_import_tasks_forks ON import_tasks (import_id, forked_from) WHERE forked_from IS NOT NULL;
CREATE TABLE import_checkpoints (
    import_id        INTEGER NOT NULL,
    ordinal          INTEGER NOT NULL,  -- place in the file
    source_global    INTEGER NOT NULL,
    source_number    INTEGER NOT NULL,
    checkpoint_id    TEXT NOT NULL,
    task_id          TEXT NOT NULL,
    work_item_id     TEXT,
    checkpoint_type  TEXT NOT NULL,
    snapshot_data    TEXT NOT NULL,
    metadata         TEXT,
    created_at       TEXT,
    message          TEXT,
    trigger_kind     TEXT NOT NULL,
    snapshot_len     INTEGER NOT NULL,
    chunk_count      INTEGER NOT NULL,
    checksum         BLOB NOT NULL,
    origin_session   TEXT,
    origin_global    INTEGER NOT NULL,
    origin_number    INTEGER NOT NULL,
    tags             TEXT,              -- JSON; NULL: none
    annotations      TEXT,              -- JSON; NULL: none
    PRIMARY KEY (import_id, ordinal),
    UNIQUE (import_id, checkpoint_id)
) STRICT;
CREATE TABLE import_chunks (
    import_id  INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    chunk_id   INTEGER NOT NULL,
    PRIMARY KEY (import_id, ordinal, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_import_chunks_chunk ON import_chunks (chunk_id);
CREATE TRIGGER import_chunks_gone AFTER DELETE ON import_chunks
BEGIN
    INSERT INTO chunk_candidates (chunk_id) SELECT old.chunk_id
    WHERE NOT EXISTS (SELECT 1 FROM chunk_candidates WHERE chunk_id = old.chunk_id);
END;
-- The rows that are new here, in the order in which they get their numbers.
CREATE TABLE import_order (
    import_id    INTEGER NOT NULL,
    task_id      TEXT NOT NULL,
    task_rank    INTEGER NOT NULL,  -- 1, 2, 3, ... within the task
    global_rank  INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL,
    new_global   INTEGER NOT NULL,
    PRIMARY KEY (import_id, task_id, task_rank)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_import_order_ordinal ON import_order (import_id, ordinal);

-- migration: 3  version: 0.31.0  name: journal  engine: postgres
-- The same. Guards look at whole statements (transition tables) instead of single rows.
CREATE TABLE snapshot_chunks (
    chunk_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest    bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    raw_len   bigint NOT NULL CHECK (raw_len > 0),
    codec     bigint NOT NULL CHECK (codec >= 0),
    body      bytea NOT NULL
);
-- Compressed already.
ALTER TABLE snapshot_chunks ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE checkpoint_chunks (
    global_sequence  bigint NOT NULL,
    position         bigint NOT NULL CHECK (position >= 0),
    chunk_id         bigint NOT NULL,
    PRIMARY KEY (global_sequence, position)
);
CREATE INDEX idx_checkpoint_chunks_chunk ON checkpoint_chunks (chunk_id);
CREATE TABLE chunk_candidates (chunk_id bigint NOT NULL PRIMARY KEY);

CREATE TABLE checkpoint_tags (
    global_sequence  bigint NOT NULL,
    tag              text COLLATE "C" NOT NULL CHECK (octet_length(tag) BETWEEN 1 AND 128 AND strpos(tag, E'\n') = 0),
    PRIMARY KEY (global_sequence, tag)
);
CREATE INDEX idx_checkpoint_tags_tag ON checkpoint_tags (tag, global_sequence);

CREATE TABLE checkpoint_annotations (
    annotation_id    bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    global_sequence  bigint NOT NULL,
    severity         text COLLATE "C" NOT NULL DEFAULT 'info' CHECK (severity IN ('info', 'warning', 'critical')),
    note             text NOT NULL,
    created_at       timestamptz NOT NULL CHECK (isfinite(created_at))
);
CREATE INDEX idx_checkpoint_annotations_of ON checkpoint_annotations (global_sequence);

CREATE TABLE journal_events (
    event_id          bigint NOT NULL PRIMARY KEY,
    kind              text COLLATE "C" NOT NULL CHECK (kind IN ('restored', 'deleted', 'compacted', 'imported')),
    head              bigint NOT NULL,
    first_global      bigint NOT NULL,
    last_global       bigint NOT NULL,
    checkpoint_count  bigint NOT NULL,
    task_id           text COLLATE "C",
    at                timestamptz NOT NULL
);

CREATE VIEW journal_expected AS SELECT last FROM journal_head WHERE id = 1;
CREATE FUNCTION tide_journal_expect() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.last <> (SELECT last FROM journal_head WHERE id = 1) THEN
        RAISE EXCEPTION 'the next global sequence is another one' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER journal_expected_check INSTEAD OF INSERT ON journal_expected
    FOR EACH ROW EXECUTE FUNCTION tide_journal_expect();

CREATE TRIGGER snapshot_chunks_keep BEFORE UPDATE ON snapshot_chunks
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('a chunk never changes');
CREATE FUNCTION tide_chunk_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone JOIN checkpoint_chunks USING (chunk_id)) THEN
        RAISE EXCEPTION 'a checkpoint needs this chunk' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER snapshot_chunks_stay AFTER DELETE ON snapshot_chunks REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_chunk_stay();
CREATE TRIGGER snapshot_chunks_full BEFORE TRUNCATE ON snapshot_chunks
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a checkpoint needs this chunk');

CREATE FUNCTION tide_parts_before() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added JOIN checkpoints c USING (global_sequence)
               WHERE TG_TABLE_NAME = 'checkpoint_chunks' OR c.checksum IS NOT NULL) THEN
        RAISE EXCEPTION 'checkpoints are append-only: tags and chunks are given with the checkpoint'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF (SELECT max(global_sequence) FROM added) > (SELECT last FROM journal_head WHERE id = 1) THEN
        RAISE EXCEPTION 'there is no such checkpoint' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION tide_parts_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone JOIN checkpoints c USING (global_sequence)
               WHERE TG_TABLE_NAME = 'checkpoint_chunks' OR c.checksum IS NOT NULL) THEN
        RAISE EXCEPTION 'checkpoints are append-only: tags and chunks are given with the checkpoint'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER checkpoint_chunks_before AFTER INSERT ON checkpoint_chunks REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tide_parts_before();
CREATE TRIGGER checkpoint_chunks_stay AFTER DELETE ON checkpoint_chunks REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_parts_stay();
CREATE TRIGGER checkpoint_chunks_keep BEFORE UPDATE ON checkpoint_chunks
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('checkpoints are append-only: they never change');
CREATE TRIGGER checkpoint_chunks_full BEFORE TRUNCATE ON checkpoint_chunks
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('checkpoints are append-only: they never change');
CREATE TRIGGER checkpoint_tags_before AFTER INSERT ON checkpoint_tags REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tide_parts_before();
CREATE TRIGGER checkpoint_tags_stay AFTER DELETE ON checkpoint_tags REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_parts_stay();
CREATE TRIGGER checkpoint_tags_keep BEFORE UPDATE ON checkpoint_tags FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('checkpoints are append-only: tags are given with the checkpoint');
CREATE TRIGGER checkpoint_tags_full BEFORE TRUNCATE ON checkpoint_tags FOR EACH STATEMENT
    EXECUTE FUNCTION tide_refuse('checkpoints are append-only: tags are given with the checkpoint');

-- Shared with the collector, which holds it alone: otherwise it could drop the note of a chunk whose last reference
-- is being removed at this moment.
CREATE FUNCTION tide_chunk_candidates() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM gone) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(6073460636925384771);
    INSERT INTO chunk_candidates (chunk_id) SELECT DISTINCT chunk_id FROM gone ORDER BY chunk_id ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER checkpoint_chunks_gone AFTER DELETE ON checkpoint_chunks REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_chunk_candidates();

CREATE FUNCTION tide_annotation_of() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = NEW.global_sequence) THEN
        RAISE EXCEPTION 'there is no such checkpoint' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkpoint_annotations_of BEFORE INSERT ON checkpoint_annotations
    FOR EACH ROW EXECUTE FUNCTION tide_annotation_of();

CREATE TRIGGER journal_events_keep BEFORE UPDATE ON journal_events
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('events are append-only');
CREATE TRIGGER journal_events_stay BEFORE DELETE ON journal_events FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse('events are append-only: tidemark checkpoint compact removes old ones');
CREATE FUNCTION tide_event_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.event_id IS DISTINCT FROM (SELECT last FROM sequences WHERE name = 'journal/events')
       OR EXISTS (SELECT 1 FROM journal_events WHERE event_id >= NEW.event_id) THEN
        RAISE EXCEPTION 'events are append-only, and numbered by the store'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER journal_events_once BEFORE INSERT ON journal_events FOR EACH ROW EXECUTE FUNCTION tide_event_check();
CREATE TRIGGER journal_events_full BEFORE TRUNCATE ON journal_events
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('events are append-only');

CREATE INDEX idx_checkpoints_ends ON checkpoints (task_id, sequence_number) WHERE checkpoint_type = 'iteration_end';
CREATE FUNCTION tide_checkpoint_parted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM checkpoint_chunks p USING gone WHERE p.global_sequence = gone.global_sequence;
    DELETE FROM checkpoint_tags p USING gone WHERE p.global_sequence = gone.global_sequence;
    DELETE FROM checkpoint_annotations p USING gone WHERE p.global_sequence = gone.global_sequence;
    RETURN NULL;
END $$;
CREATE TRIGGER checkpoints_parted AFTER DELETE ON checkpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_checkpoint_parted();

-- Unlogged: after a crash they are empty, which is what they are worth then. import_runs tells a publisher so.
CREATE UNLOGGED TABLE import_runs (
    import_id   bigint NOT NULL PRIMARY KEY,
    touched_at  timestamptz NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('staging', 'published'))
);
CREATE UNLOGGED TABLE import_types (
    import_id        bigint NOT NULL,
    checkpoint_type  text COLLATE "C" NOT NULL,
    is_resumable     boolean NOT NULL,
    description      text NOT NULL,
    PRIMARY KEY (import_id, checkpoint_type)
);
CREATE UNLOGGED TABLE import_tasks (
    import_id      bigint NOT NULL,
    task_id        text COLLATE "C" NOT NULL,
    title          text NOT NULL,
    status         text COLLATE "C" NOT NULL,
    metadata       text,
    created_at     timestamptz NOT NULL,
    completed_at   timestamptz,
    forked_from    text COLLATE "C",
    fork_point     text COLLATE "C",
    last_sequence  bigint NOT NULL,
    depth          bigint,
    is_new         boolean NOT NULL DEFAULT false,
    shift          bigint,
    PRIMARY KEY (import_id, task_id)
);
CREATE INDEX idx_import_tasks_forks ON import_tasks (import_id, forked_from) WHERE forked_from IS NOT NULL;
CREATE UNLOGGED TABLE import_checkpoints (
    import_id        bigint NOT NULL,
    ordinal          bigint NOT NULL,
    source_global    bigint NOT NULL,
    source_number    bigint NOT NULL,
    checkpoint_id    text COLLATE "C" NOT NULL,
    task_id          text COLLATE "C" NOT NULL,
    work_item_id     text COLLATE "C",
    checkpoint_type  text COLLATE "C" NOT NULL,
    snapshot_data    text NOT NULL,
    metadata         text,
    created_at       timestamptz,
    message          text,
    trigger_kind     text COLLATE "C" NOT NULL,
    snapshot_len     bigint NOT NULL,
    chunk_count      bigint NOT NULL,
    checksum         bytea NOT NULL,
    origin_session   text COLLATE "C",
    origin_global    bigint NOT NULL,
    origin_number    bigint NOT NULL,
    tags             text,
    annotations      text,
    PRIMARY KEY (import_id, ordinal),
    UNIQUE (import_id, checkpoint_id)
);
CREATE UNLOGGED TABLE import_chunks (
    import_id  bigint NOT NULL,
    ordinal    bigint NOT NULL,
    position   bigint NOT NULL,
    chunk_id   bigint NOT NULL,
    PRIMARY KEY (import_id, ordinal, position)
);
CREATE INDEX idx_import_chunks_chunk ON import_chunks (chunk_id);
CREATE TRIGGER import_chunks_gone AFTER DELETE ON import_chunks REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_chunk_candidates();
CREATE UNLOGGED TABLE import_order (
    import_id    bigint NOT NULL,
    task_id      text COLLATE "C" NOT NULL,
    task_rank    bigint NOT NULL,
    global_rank  bigint NOT NULL,
    ordinal      bigint NOT NULL,
    new_global   bigint NOT NULL,
    PRIMARY KEY (import_id, task_id, task_rank)
);
CREATE INDEX idx_import_order_ordinal ON import_order (import_id, ordinal);
