-- Checkpoints, their numbers and what was removed of them: see recovery_schema.sql.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 4
-- The last checkpoint number issued, and a time beside it that never goes back.
CREATE TABLE journal_head (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    last     INTEGER NOT NULL CHECK (last >= 0),
    last_at  TEXT NOT NULL
) STRICT;
INSERT INTO journal_head (id, last, last_at) VALUES (1, 0, '1970-01-01 00:00:00.000000');
CREATE TRIGGER journal_head_rise BEFORE UPDATE ON journal_head WHEN new.last < old.last OR new.id <> old.id
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;
CREATE TRIGGER journal_head_stay BEFORE DELETE ON journal_head
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;
CREATE TRIGGER journal_head_once BEFORE INSERT ON journal_head WHEN EXISTS (SELECT 1 FROM journal_head)
BEGIN SELECT RAISE(ABORT, 'checkpoint numbers never go down'); END;

-- A row here allows what is otherwise refused: removing checkpoints. It lives inside one transaction: the library's
-- retention, or the cascade of a task's removal, puts it and takes it away again.
CREATE TABLE journal_permits (permit TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE checkpoint_types (
    checkpoint_type  TEXT NOT NULL PRIMARY KEY CHECK (typeof(checkpoint_type) = 'text' AND length(CAST(checkpoint_type AS BLOB)) BETWEEN 1 AND 64),
    is_resumable     INTEGER NOT NULL DEFAULT 0 CHECK (is_resumable IN (0, 1)),  -- retention keeps the newest
    description      TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description) VALUES
    ('iteration_start', 1, 'an iteration begins'),
    ('iteration_end', 1, 'an iteration is complete'),
    ('tool_executed', 1, 'a tool ran; its result'),
    ('llm_response', 1, 'a model answered; its answer'),
    ('approval_point', 1, 'waiting for a person'),
    ('state_transition', 1, 'the task changed its state'),
    ('manual_checkpoint', 1, 'made by a person'),
    ('error_boundary', 1, 'an error happened here');

CREATE TABLE checkpoints (
    global_sequence  INTEGER PRIMARY KEY AUTOINCREMENT CHECK (global_sequence > 0),
    checkpoint_id    TEXT NOT NULL UNIQUE CHECK (typeof(checkpoint_id) = 'text' AND length(CAST(checkpoint_id AS BLOB)) BETWEEN 1 AND 128),
    task_id          TEXT NOT NULL REFERENCES tasks (task_id),
    work_item_id     TEXT,  -- no reference: it stays as evidence when the item is gone
    checkpoint_type  TEXT NOT NULL,
    sequence_number  INTEGER NOT NULL CHECK (typeof(sequence_number) = 'integer' AND sequence_number > 0),
    snapshot_data    TEXT NOT NULL,  -- the state; of a large one a note where its chunks are
    metadata         TEXT,
    created_at       TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    -- ours
    message          TEXT,
    trigger_kind     TEXT NOT NULL DEFAULT 'manual' CHECK (trigger_kind IN ('manual', 'scheduled',
        'hypothesis_status_changed', 'contradiction_found', 'verification_completed', 'branch_switched', 'gap_filled',
        'code_modified', 'time_passed', 'context_compaction_warning')),
    snapshot_len     INTEGER CHECK (typeof(snapshot_len) IN ('integer', 'null')),  -- bytes of the state; NULL: plain SQL
    chunk_count      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(chunk_count) = 'integer'),  -- 0: snapshot_data is the state itself
    checksum         BLOB,     -- SHA-256 of the row's fields in canonical encoding; NULL: plain SQL
    chain            BLOB,     -- SHA-256 over the task's previous chain, the number and the checksum
    origin_session   TEXT,     -- of an imported row: the store it comes from ...
    origin_global    INTEGER CHECK (typeof(origin_global) IN ('integer', 'null')),  -- ... its global_sequence there ...
    origin_number    INTEGER CHECK (typeof(origin_number) IN ('integer', 'null'))   -- ... and its sequence_number
);
CREATE UNIQUE INDEX idx_checkpoints_task_sequence ON checkpoints (task_id, sequence_number ASC);
CREATE INDEX idx_checkpoints_work_item ON checkpoints (work_item_id, sequence_number ASC) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_checkpoints_type ON checkpoints (checkpoint_type, created_at DESC);
CREATE INDEX idx_checkpoints_created_at ON checkpoints (created_at DESC);

-- Global numbers that carry no row, and why. Single numbers are joined to ranges by the library.
CREATE TABLE checkpoint_gaps (
    first_global  INTEGER NOT NULL PRIMARY KEY,
    last_global   INTEGER NOT NULL CHECK (typeof(last_global) = 'integer' AND last_global >= first_global),
    reason        TEXT NOT NULL CHECK (reason IN ('removed', 'imported', 'skipped')),
    recorded_at   TIMESTAMP NOT NULL
);
-- Ranges of a task's own numbers that were removed, with the chain behind the last of them: what follows still proves
-- that nothing else is missing.
CREATE TABLE checkpoint_cuts (
    task_id       TEXT NOT NULL,
    first_number  INTEGER NOT NULL CHECK (typeof(first_number) = 'integer'),
    last_number   INTEGER NOT NULL CHECK (typeof(last_number) = 'integer' AND last_number >= first_number),
    chain         BLOB,
    reason        TEXT NOT NULL,
    cut_at        TIMESTAMP NOT NULL,
    PRIMARY KEY (task_id, first_number)
) WITHOUT ROWID;

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 9
-- ---- checkpoints ----

CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON checkpoints
BEGIN
    SELECT RAISE(ABORT, 'unknown checkpoint_type: see the table checkpoint_types')
    WHERE NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = new.checkpoint_type);
    SELECT RAISE(ABORT, 'there is no such task') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'this checkpoint exists already: checkpoints are append-only')
    WHERE EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_id = new.checkpoint_id)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE task_id = new.task_id AND sequence_number = new.sequence_number);
END;
-- Without a global number (SQLite shows -1 here) the row comes from plain SQL: its own number must be new.
CREATE TRIGGER check_checkpoints_plain BEFORE INSERT ON checkpoints WHEN new.global_sequence = -1
BEGIN
    SELECT RAISE(ABORT, 'times are UTC text like 2026-01-31 23:59:59.123456')
    FROM (SELECT new.created_at AS t)
    WHERE t IS NOT NULL AND NOT (datetime(substr(t, 1, 19), '+0 seconds') IS substr(t, 1, 19)
        AND (length(t) = 19 OR (length(t) BETWEEN 21 AND 26 AND substr(t, 20) GLOB '.[0-9]*'
                                AND substr(t, 21) NOT GLOB '*[^0-9]*')));
    SELECT RAISE(ABORT, 'sequence_number only rises within a task, also after removals')
    WHERE new.sequence_number <= (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'sequence_number is at most 9007199254740992') WHERE new.sequence_number > 9007199254740992;
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
END;
-- Numbers that are given must have been issued and never used.
CREATE TRIGGER check_checkpoints_numbers BEFORE INSERT ON checkpoints WHEN new.global_sequence <> -1
BEGIN
    SELECT RAISE(ABORT, 'global_sequence is given by the store: leave it out')
    WHERE new.global_sequence > (SELECT last FROM journal_head WHERE id = 1)
       OR new.sequence_number > (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence = new.global_sequence)
       OR new.global_sequence <= (SELECT last_global FROM checkpoint_gaps
                                  WHERE first_global <= new.global_sequence ORDER BY first_global DESC LIMIT 1);
END;
-- SQLite numbers behind the highest row it knows. Numbers that it jumps over (an ignored INSERT takes one) are recorded.
CREATE TRIGGER checkpoints_numbered AFTER INSERT ON checkpoints
WHEN new.global_sequence > (SELECT last FROM journal_head WHERE id = 1)
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    SELECT last + 1, new.global_sequence - 1, 'skipped', strftime('%Y-%m-%d %H:%M:%f', 'now')
    FROM journal_head WHERE id = 1 AND last + 1 < new.global_sequence;
    UPDATE journal_head SET last = new.global_sequence, last_at = max(last_at, strftime('%Y-%m-%d %H:%M:%f', 'now')) WHERE id = 1;
    UPDATE task_heads SET last_sequence = new.sequence_number WHERE task_id = new.task_id;
END;
-- A number at or below the head with a sequence_number above the task's: SQLite's own counter (sqlite_sequence) has been
-- set back, and would give out numbers of removed rows again.
CREATE TRIGGER checkpoints_below AFTER INSERT ON checkpoints
WHEN new.global_sequence <= (SELECT last FROM journal_head WHERE id = 1)
     AND new.sequence_number > (SELECT last_sequence FROM task_heads WHERE task_id = new.task_id)
BEGIN SELECT RAISE(ABORT, 'the numbering of checkpoints was altered: sqlite_sequence is behind journal_head'); END;
CREATE TRIGGER checkpoints_keep BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only: they never change'); END;
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN
    SELECT RAISE(ABORT,
        'checkpoints are append-only: tidemark checkpoint compact removes old ones, task delete all of a task');
END;
CREATE TRIGGER checkpoints_removed AFTER DELETE ON checkpoints
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    VALUES (old.global_sequence, old.global_sequence, 'removed', strftime('%Y-%m-%d %H:%M:%f', 'now'));
END;

-- What is missing and why is evidence: recorded ranges may be joined, under the permit, and nothing else.
CREATE TRIGGER checkpoint_gaps_keep BEFORE UPDATE ON checkpoint_gaps
BEGIN SELECT RAISE(ABORT, 'a recorded gap stays as it is'); END;
CREATE TRIGGER checkpoint_gaps_stay BEFORE DELETE ON checkpoint_gaps WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded gap stays'); END;
CREATE TRIGGER checkpoint_gaps_once BEFORE INSERT ON checkpoint_gaps
BEGIN
    SELECT RAISE(ABORT, 'a recorded gap stays')
    WHERE EXISTS (SELECT 1 FROM checkpoint_gaps WHERE first_global = new.first_global);
    -- It would hide rows that are there, or keep numbers from being given.
    SELECT RAISE(ABORT, 'a gap is made of numbers that were given and have no row')
    WHERE EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence BETWEEN new.first_global AND new.last_global)
       OR (new.last_global > (SELECT last FROM journal_head WHERE id = 1)
           AND new.last_global > coalesce((SELECT max(global_sequence) FROM checkpoints), 0));
END;
CREATE TRIGGER checkpoint_cuts_keep BEFORE UPDATE ON checkpoint_cuts WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;
CREATE TRIGGER checkpoint_cuts_stay BEFORE DELETE ON checkpoint_cuts WHEN NOT EXISTS (SELECT 1 FROM journal_permits)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;
CREATE TRIGGER checkpoint_cuts_once BEFORE INSERT ON checkpoint_cuts
WHEN EXISTS (SELECT 1 FROM checkpoint_cuts WHERE task_id = new.task_id AND first_number = new.first_number)
BEGIN SELECT RAISE(ABORT, 'a recorded cut stays'); END;

CREATE TRIGGER checkpoint_types_stay BEFORE DELETE ON checkpoint_types
WHEN old.checkpoint_type IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                             'state_transition', 'manual_checkpoint', 'error_boundary')
     OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_type = old.checkpoint_type)
BEGIN SELECT RAISE(ABORT, 'this checkpoint type is in use or built in'); END;
CREATE TRIGGER checkpoint_types_keep BEFORE UPDATE ON checkpoint_types
WHEN new.checkpoint_type <> old.checkpoint_type OR new.is_resumable < old.is_resumable OR new.is_resumable IS NULL
BEGIN SELECT RAISE(ABORT, 'a checkpoint type keeps its name, and stays resumable once it is'); END;
CREATE TRIGGER checkpoint_types_once BEFORE INSERT ON checkpoint_types
WHEN EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = new.checkpoint_type AND is_resumable > new.is_resumable)
BEGIN SELECT RAISE(ABORT, 'a checkpoint type keeps its name, and stays resumable once it is'); END;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 5
-- One row, one page: room for some hundred versions keeps its updates in place.
CREATE TABLE journal_head (
    id       bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    last     bigint NOT NULL CHECK (last >= 0),
    last_at  timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO journal_head (id, last, last_at) VALUES (1, 0, '1970-01-01 00:00:00+00');

CREATE TABLE checkpoint_types (
    checkpoint_type  text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(checkpoint_type) BETWEEN 1 AND 64),
    is_resumable     boolean NOT NULL DEFAULT false,
    description      text NOT NULL DEFAULT ''
);
INSERT INTO checkpoint_types (checkpoint_type, is_resumable, description) VALUES
    ('iteration_start', true, 'an iteration begins'),
    ('iteration_end', true, 'an iteration is complete'),
    ('tool_executed', true, 'a tool ran; its result'),
    ('llm_response', true, 'a model answered; its answer'),
    ('approval_point', true, 'waiting for a person'),
    ('state_transition', true, 'the task changed its state'),
    ('manual_checkpoint', true, 'made by a person'),
    ('error_boundary', true, 'an error happened here');

-- No reference to tasks: every row is written under the lock of its task's row in task_heads, and so is their removal.
CREATE TABLE checkpoints (
    global_sequence  bigint NOT NULL PRIMARY KEY,
    checkpoint_id    text COLLATE "C" NOT NULL UNIQUE,
    task_id          text COLLATE "C" NOT NULL,
    work_item_id     text COLLATE "C",
    checkpoint_type  text COLLATE "C" NOT NULL,
    sequence_number  bigint NOT NULL,
    snapshot_data    text NOT NULL,
    metadata         text,
    created_at       timestamptz DEFAULT CURRENT_TIMESTAMP,
    message          text,
    trigger_kind     text COLLATE "C" NOT NULL DEFAULT 'manual',
    snapshot_len     bigint,
    chunk_count      bigint NOT NULL DEFAULT 0,
    checksum         bytea,
    chain            bytea,
    origin_session   text COLLATE "C",
    origin_global    bigint,
    origin_number    bigint,
    -- Further rules about values are in tide_checkpoint_check: the text of a CHECK is read anew for each statement.
    CONSTRAINT checkpoints_numbers CHECK (global_sequence > 0 AND sequence_number > 0 AND isfinite(created_at))
);
CREATE UNIQUE INDEX idx_checkpoints_task_sequence ON checkpoints (task_id, sequence_number);
CREATE INDEX idx_checkpoints_work_item ON checkpoints (work_item_id, sequence_number) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_checkpoints_type ON checkpoints (checkpoint_type, created_at DESC);
CREATE INDEX idx_checkpoints_created_at ON checkpoints USING brin (created_at) WITH (pages_per_range = 32);

CREATE TABLE checkpoint_gaps (
    first_global  bigint NOT NULL PRIMARY KEY,
    last_global   bigint NOT NULL CHECK (last_global >= first_global),
    reason        text COLLATE "C" NOT NULL CHECK (reason IN ('removed', 'imported', 'skipped')),
    recorded_at   timestamptz NOT NULL
);
CREATE TABLE checkpoint_cuts (
    task_id       text COLLATE "C" NOT NULL,
    first_number  bigint NOT NULL,
    last_number   bigint NOT NULL CHECK (last_number >= first_number),
    chain         bytea,
    reason        text NOT NULL,
    cut_at        timestamptz NOT NULL,
    PRIMARY KEY (task_id, first_number)
);

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 11
-- ---- checkpoints ----

CREATE TRIGGER journal_head_rise AFTER UPDATE ON journal_head FOR EACH ROW WHEN (new.last < old.last)
    EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');
CREATE TRIGGER journal_head_stay BEFORE DELETE ON journal_head
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');
CREATE TRIGGER journal_head_full BEFORE TRUNCATE ON journal_head
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('checkpoint numbers never go down');

-- A row without a global number comes from plain SQL: it is numbered here, under the locks that everybody takes in this
-- order (the task's head, then the journal's). What must be unique is looked up under them: ON CONFLICT DO NOTHING would
-- otherwise leave a number without a row.
CREATE FUNCTION tide_checkpoint_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = NEW.checkpoint_type) THEN
        RAISE EXCEPTION 'unknown checkpoint_type: see the table checkpoint_types'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.trigger_kind NOT IN ('manual', 'scheduled', 'hypothesis_status_changed', 'contradiction_found',
                                'verification_completed', 'branch_switched', 'gap_filled', 'code_modified',
                                'time_passed', 'context_compaction_warning') THEN
        RAISE EXCEPTION 'unknown trigger_kind' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT octet_length(NEW.checkpoint_id) BETWEEN 1 AND 128 THEN
        RAISE EXCEPTION 'checkpoint_id has 1 to 128 bytes' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.global_sequence IS NOT NULL THEN  -- it must have been issued, and never used
        IF NOT EXISTS (SELECT 1 FROM journal_head j, task_heads h
                       WHERE j.id = 1 AND j.last >= NEW.global_sequence
                         AND h.task_id = NEW.task_id AND h.last_sequence >= NEW.sequence_number
                         AND coalesce((SELECT g.last_global FROM checkpoint_gaps g
                                       WHERE g.first_global <= NEW.global_sequence
                                       ORDER BY g.first_global DESC LIMIT 1), 0) < NEW.global_sequence) THEN
            RAISE EXCEPTION 'global_sequence is given by the store: leave it out'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.checksum IS NOT NULL OR NEW.chain IS NOT NULL OR NEW.chunk_count <> 0 OR NEW.snapshot_len IS NOT NULL
       OR NEW.origin_session IS NOT NULL OR NEW.origin_global IS NOT NULL OR NEW.origin_number IS NOT NULL THEN
        RAISE EXCEPTION 'checksum, chain, chunk_count, snapshot_len and origin are given by the store: leave them out'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.sequence_number > 9007199254740992 THEN
        RAISE EXCEPTION 'sequence_number is at most 9007199254740992' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        RAISE EXCEPTION 'there is no such work item' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    UPDATE task_heads SET last_sequence = coalesce(NEW.sequence_number, last_sequence + 1)
    WHERE task_id = NEW.task_id AND (NEW.sequence_number IS NULL OR NEW.sequence_number > last_sequence)
    RETURNING last_sequence INTO NEW.sequence_number;
    IF NOT FOUND THEN
        IF EXISTS (SELECT 1 FROM task_heads WHERE task_id = NEW.task_id) THEN
            RAISE EXCEPTION 'sequence_number only rises within a task, also after removals'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RAISE EXCEPTION 'there is no such task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    UPDATE journal_head SET last = last + 1, last_at = greatest(last_at, clock_timestamp()) WHERE id = 1
    RETURNING last INTO NEW.global_sequence;
    IF EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_id = NEW.checkpoint_id) THEN
        RAISE EXCEPTION 'this checkpoint exists already: checkpoints are append-only' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON checkpoints FOR EACH ROW
    WHEN (new.checksum IS NULL OR new.global_sequence IS NULL OR new.origin_global IS NOT NULL)
    EXECUTE FUNCTION tide_checkpoint_check();
-- What the library appends has been looked at already; its numbers are checked all the same. In the session's own
-- search_path: to set another one would cost more than the question.
CREATE FUNCTION tide_checkpoint_issued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.checkpoint_type NOT IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                                   'state_transition', 'manual_checkpoint', 'error_boundary') THEN  -- those are never removed
        IF NOT EXISTS (SELECT 1 FROM checkpoint_types WHERE checkpoint_type = NEW.checkpoint_type) THEN
            RAISE EXCEPTION 'unknown checkpoint_type: see the table checkpoint_types'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM journal_head j, task_heads h
                   WHERE j.id = 1 AND j.last >= NEW.global_sequence
                     AND h.task_id = NEW.task_id AND h.last_sequence >= NEW.sequence_number
                     AND coalesce((SELECT g.last_global FROM checkpoint_gaps g WHERE g.first_global <= NEW.global_sequence
                                   ORDER BY g.first_global DESC LIMIT 1), 0) < NEW.global_sequence) THEN
        RAISE EXCEPTION 'global_sequence is given by the store: leave it out'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_checkpoints_issued BEFORE INSERT ON checkpoints FOR EACH ROW
    WHEN (new.checksum IS NOT NULL AND new.global_sequence IS NOT NULL AND new.origin_global IS NULL)
    EXECUTE FUNCTION tide_checkpoint_issued();
-- One checkpoint of the library: both numbers and the row, in one statement instead of three. Appenders queue at an
-- advisory lock before the journal's head: at a row each would sleep twice, for its turn and for the transaction before it.
CREATE FUNCTION tide_checkpoint_append(task text, new_id text, item text, type text, snapshot text, snapshot_bytes bigint,
                                       more text, note text, cause text, digest bytea, clock timestamptz,
                                       OUT own_number bigint, OUT global_number bigint) LANGUAGE plpgsql AS $$
DECLARE
    link bytea;
    at timestamptz;
BEGIN
    UPDATE task_heads SET last_sequence = last_sequence + 1, chain = tide_link(chain, last_sequence + 1, digest)
    WHERE task_id = task RETURNING last_sequence, chain INTO own_number, link;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    PERFORM pg_advisory_xact_lock(6073460636925384772);
    UPDATE journal_head SET last = last + 1, last_at = greatest(last_at, coalesce(clock, clock_timestamp())) WHERE id = 1
    RETURNING last, last_at INTO global_number, at;
    INSERT INTO checkpoints (global_sequence, sequence_number, checkpoint_id, task_id, work_item_id, checkpoint_type,
                             snapshot_data, metadata, created_at, message, trigger_kind, snapshot_len, chunk_count, checksum,
                             chain)
    VALUES (global_number, own_number, new_id, task, item, type, snapshot, more, at, note, cause, snapshot_bytes, 0, digest,
            link);
END $$;
CREATE TRIGGER checkpoints_keep BEFORE UPDATE ON checkpoints
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('checkpoints are append-only: they never change');
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse(
        'checkpoints are append-only: tidemark checkpoint compact removes old ones, task delete all of a task');
CREATE TRIGGER checkpoints_full BEFORE TRUNCATE ON checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('checkpoints are append-only');
CREATE FUNCTION tide_checkpoint_removed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO checkpoint_gaps (first_global, last_global, reason, recorded_at)
    SELECT min(global_sequence), max(global_sequence), 'removed', clock_timestamp()
    FROM (SELECT global_sequence, global_sequence - row_number() OVER (ORDER BY global_sequence) AS island FROM gone) g
    GROUP BY island;
    RETURN NULL;
END $$;
CREATE TRIGGER checkpoints_removed AFTER DELETE ON checkpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_checkpoint_removed();

-- What is missing and why is evidence: recorded ranges may be joined, under the permit, and nothing else.
CREATE TRIGGER checkpoint_gaps_keep BEFORE UPDATE ON checkpoint_gaps FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('a recorded gap stays as it is');
CREATE FUNCTION tide_gap_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- It would hide rows that are there, or keep numbers from being given.
    IF NEW.last_global > (SELECT last FROM journal_head WHERE id = 1)
       OR EXISTS (SELECT 1 FROM checkpoints WHERE global_sequence BETWEEN NEW.first_global AND NEW.last_global) THEN
        RAISE EXCEPTION 'a gap is made of numbers that were given and have no row'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkpoint_gaps_once BEFORE INSERT ON checkpoint_gaps FOR EACH ROW EXECUTE FUNCTION tide_gap_insert();
CREATE TRIGGER checkpoint_gaps_stay BEFORE DELETE ON checkpoint_gaps FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse('a recorded gap stays');
CREATE TRIGGER checkpoint_gaps_full BEFORE TRUNCATE ON checkpoint_gaps
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a recorded gap stays');
CREATE TRIGGER checkpoint_cuts_stay BEFORE UPDATE OR DELETE ON checkpoint_cuts FOR EACH ROW
    WHEN (coalesce(current_setting('tidemark.permit', true), '') = '')
    EXECUTE FUNCTION tide_refuse('a recorded cut stays');
CREATE TRIGGER checkpoint_cuts_full BEFORE TRUNCATE ON checkpoint_cuts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a recorded cut stays');

CREATE FUNCTION tide_checkpoint_type_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.checkpoint_type IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point',
                               'state_transition', 'manual_checkpoint', 'error_boundary')
       OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoint_type = OLD.checkpoint_type) THEN
        RAISE EXCEPTION 'this checkpoint type is in use or built in' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER checkpoint_types_stay BEFORE DELETE ON checkpoint_types
    FOR EACH ROW EXECUTE FUNCTION tide_checkpoint_type_stay();
CREATE TRIGGER checkpoint_types_keep BEFORE UPDATE ON checkpoint_types FOR EACH ROW
    WHEN (new.checkpoint_type <> old.checkpoint_type OR new.is_resumable < old.is_resumable)
    EXECUTE FUNCTION tide_refuse('a checkpoint type keeps its name, and stays resumable once it is');
CREATE TRIGGER checkpoint_types_full BEFORE TRUNCATE ON checkpoint_types
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('this checkpoint type is in use or built in');

