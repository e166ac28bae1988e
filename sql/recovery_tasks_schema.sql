-- Tasks, and where the checkpoints of each stand: see recovery_schema.sql.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 1
CREATE TABLE tasks (
    task_id       TEXT NOT NULL PRIMARY KEY CHECK (typeof(task_id) = 'text' AND length(CAST(task_id AS BLOB)) BETWEEN 1 AND 128),
    title         TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL DEFAULT 'pending',
    metadata      TEXT,
    created_at    TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at    TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    completed_at  TIMESTAMP,
    forked_from   TEXT,     -- the task whose history this one shares ...
    forked_at     INTEGER CHECK (typeof(forked_at) IN ('integer', 'null')),  -- ... up to this sequence_number of it
    revision      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(revision) = 'integer' AND revision BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT "created_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (created_at IS NULL OR (
        datetime(substr(created_at, 1, 19), '+0 seconds') IS substr(created_at, 1, 19)
        AND (length(created_at) = 19 OR (length(created_at) BETWEEN 21 AND 26
                                    AND substr(created_at, 20) GLOB '.[0-9]*' AND substr(created_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "updated_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (updated_at IS NULL OR (
        datetime(substr(updated_at, 1, 19), '+0 seconds') IS substr(updated_at, 1, 19)
        AND (length(updated_at) = 19 OR (length(updated_at) BETWEEN 21 AND 26
                                    AND substr(updated_at, 20) GLOB '.[0-9]*' AND substr(updated_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "completed_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (completed_at IS NULL OR (
        datetime(substr(completed_at, 1, 19), '+0 seconds') IS substr(completed_at, 1, 19)
        AND (length(completed_at) = 19 OR (length(completed_at) BETWEEN 21 AND 26
                                    AND substr(completed_at, 20) GLOB '.[0-9]*' AND substr(completed_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_tasks_status ON tasks (status, created_at DESC);
CREATE INDEX idx_tasks_forked_from ON tasks (forked_from) WHERE forked_from IS NOT NULL;

-- Where a task's checkpoints stand: the last number issued, and the hash chain through it. Narrow, because it is
-- written with every checkpoint.
CREATE TABLE task_heads (
    task_id        TEXT NOT NULL PRIMARY KEY,
    last_sequence  INTEGER NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    chain          BLOB NOT NULL DEFAULT x''
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_heads_rise BEFORE UPDATE ON task_heads
WHEN new.last_sequence < old.last_sequence OR new.task_id <> old.task_id OR new.last_sequence IS NULL OR new.chain IS NULL
BEGIN SELECT RAISE(ABORT, 'a task''s sequence never goes down'); END;
CREATE TRIGGER task_heads_stay BEFORE DELETE ON task_heads WHEN EXISTS (SELECT 1 FROM tasks WHERE task_id = old.task_id)
BEGIN SELECT RAISE(ABORT, 'a task''s sequence lives as long as the task'); END;
CREATE TRIGGER task_heads_once BEFORE INSERT ON task_heads WHEN EXISTS (SELECT 1 FROM task_heads WHERE task_id = new.task_id)
BEGIN SELECT RAISE(ABORT, 'a task''s sequence never goes down'); END;

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 7
-- ---- tasks ----

CREATE TRIGGER check_tasks_insert BEFORE INSERT ON tasks
BEGIN
    SELECT RAISE(ABORT, 'this task exists already') WHERE EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'task status is pending, running, succeeded, failed or cancelled')
    WHERE new.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled');
END;
CREATE TRIGGER check_tasks_status BEFORE UPDATE ON tasks
BEGIN
    SELECT RAISE(ABORT, 'title, status and revision are not NULL')
    WHERE new.title IS NULL OR new.status IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'a task keeps its id') WHERE new.task_id <> old.task_id;
    SELECT RAISE(ABORT, 'task status is pending, running, succeeded, failed or cancelled')
    WHERE new.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled');
    SELECT RAISE(ABORT, 'the task has ended: its status does not change any more')
    WHERE new.status <> old.status AND old.status IN ('succeeded', 'failed', 'cancelled');
    SELECT RAISE(ABORT, 'a task that was running does not become pending again')
    WHERE new.status = 'pending' AND old.status = 'running';
    SELECT RAISE(ABORT, 'revision only rises') WHERE new.revision < old.revision;
END;
CREATE TRIGGER update_tasks_timestamp AFTER UPDATE ON tasks
WHEN new.updated_at IS old.updated_at AND new.revision = old.revision
BEGIN
    UPDATE tasks SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), revision = revision + 1
    WHERE task_id = new.task_id;
END;
CREATE TRIGGER tasks_begin AFTER INSERT ON tasks
BEGIN INSERT INTO task_heads (task_id) VALUES (new.task_id); END;
-- Items of a task that ended end with it; those in progress only if it was cancelled, fenced off by the token.
CREATE TRIGGER tasks_cancel AFTER UPDATE OF status ON tasks
WHEN new.status <> old.status AND new.status IN ('succeeded', 'failed', 'cancelled')
BEGIN
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', revision = revision + 1,
        error_message = iif(new.status = 'cancelled', 'The task was cancelled', 'The task has ended'),
        attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
        completed_at = iif(new.revision > old.revision, new.updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        updated_at = iif(new.revision > old.revision, new.updated_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        lease_holder = NULL, lease_expires_at = NULL, run_after = NULL,
        lease_token = max(lease_token + 1, (SELECT work FROM token_floors))
    WHERE task_id = new.task_id
      AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND new.status = 'cancelled'));
END;
CREATE TRIGGER tasks_end BEFORE DELETE ON tasks
BEGIN
    SELECT RAISE(ABORT, 'another task is a fork of this one: delete the fork first')
    WHERE EXISTS (SELECT 1 FROM tasks WHERE forked_from = old.task_id);
    INSERT INTO journal_permits (permit) VALUES ('task ' || old.task_id);
    DELETE FROM checkpoints WHERE task_id = old.task_id;
    DELETE FROM checkpoint_cuts WHERE task_id = old.task_id;
    DELETE FROM journal_permits WHERE permit = 'task ' || old.task_id;
    DELETE FROM work_items WHERE task_id = old.task_id;
    DELETE FROM work_schedules WHERE task_id = old.task_id;
    UPDATE idempotency_keys SET task_id = NULL, revision = revision + 1 WHERE task_id = old.task_id;
END;
CREATE TRIGGER tasks_ended AFTER DELETE ON tasks
BEGIN DELETE FROM task_heads WHERE task_id = old.task_id; END;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 2
CREATE TABLE tasks (
    task_id       text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(task_id) BETWEEN 1 AND 128),
    title         text NOT NULL DEFAULT '',
    status        text COLLATE "C" NOT NULL DEFAULT 'pending',
    metadata      text,
    created_at    timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(created_at)),
    updated_at    timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(updated_at)),
    completed_at  timestamptz CHECK (isfinite(completed_at)),
    forked_from   text COLLATE "C",
    forked_at     bigint,
    revision      bigint NOT NULL DEFAULT 0
);
CREATE INDEX idx_tasks_status ON tasks (status, created_at DESC);
CREATE INDEX idx_tasks_forked_from ON tasks (forked_from) WHERE forked_from IS NOT NULL;

-- Written with every checkpoint: half of each page stays free for the next version of its rows.
CREATE TABLE task_heads (
    task_id        text COLLATE "C" NOT NULL PRIMARY KEY,
    last_sequence  bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    chain          bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 8
-- ---- tasks ----

CREATE FUNCTION tide_task_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refusal text := NULL;
BEGIN
    IF NEW.status NOT IN ('pending', 'running', 'succeeded', 'failed', 'cancelled') THEN
        refusal := 'task status is pending, running, succeeded, failed or cancelled';
    ELSIF TG_OP = 'UPDATE' THEN
        IF NEW.task_id <> OLD.task_id THEN
            refusal := 'a task keeps its id';
        ELSIF NEW.status <> OLD.status AND OLD.status IN ('succeeded', 'failed', 'cancelled') THEN
            refusal := 'the task has ended: its status does not change any more';
        ELSIF NEW.status = 'pending' AND OLD.status = 'running' THEN
            refusal := 'a task that was running does not become pending again';
        ELSIF NEW.revision < OLD.revision THEN
            refusal := 'revision only rises';
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.revision = OLD.revision THEN  -- plain SQL
        NEW.revision := OLD.revision + 1;
        IF NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN
            NEW.updated_at := clock_timestamp();
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_tasks_insert BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_check();
CREATE TRIGGER check_tasks_status BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_check();
CREATE TRIGGER tasks_full BEFORE TRUNCATE ON tasks
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('tasks are deleted one by one, with everything that is theirs');

CREATE FUNCTION tide_task_begin() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO task_heads (task_id) VALUES (NEW.task_id);
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_begin AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_begin();

-- Items of a cancelled task end with it; those in progress are fenced off by the token.
CREATE FUNCTION tide_task_cancel() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE work_items
    SET status = 'failed', failure_kind = 'cancelled', revision = revision + 1,
        error_message = CASE NEW.status WHEN 'cancelled' THEN 'The task was cancelled' ELSE 'The task has ended' END,
        attempt_outcome = CASE status WHEN 'in_progress' THEN 'cancelled' ELSE attempt_outcome END,
        completed_at = NEW.updated_at, updated_at = NEW.updated_at,
        lease_holder = NULL, lease_expires_at = NULL, run_after = NULL,
        lease_token = greatest(lease_token + 1, tide_token_floor('work items removed'))
    WHERE task_id = NEW.task_id
      AND (status IN ('pending', 'expired') OR (status = 'in_progress' AND NEW.status = 'cancelled'));
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_cancel AFTER UPDATE OF status ON tasks FOR EACH ROW
    WHEN (new.status <> old.status AND new.status IN ('succeeded', 'failed', 'cancelled')) EXECUTE FUNCTION tide_task_cancel();

-- A task goes with everything that is its own. Not ON DELETE CASCADE: removing checkpoints needs a permit, and keys stay. Items
-- before the head: a finish locks in that order too.
CREATE FUNCTION tide_task_end() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tasks WHERE forked_from = OLD.task_id) THEN
        RAISE EXCEPTION 'another task is a fork of this one: delete the fork first'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    DELETE FROM work_items WHERE task_id = OLD.task_id;
    DELETE FROM work_schedules WHERE task_id = OLD.task_id;
    PERFORM 1 FROM task_heads WHERE task_id = OLD.task_id FOR UPDATE;
    PERFORM set_config('tidemark.permit', 'task ' || OLD.task_id, true);
    DELETE FROM checkpoints WHERE task_id = OLD.task_id;
    DELETE FROM checkpoint_cuts WHERE task_id = OLD.task_id;
    PERFORM set_config('tidemark.permit', '', true);
    UPDATE idempotency_keys SET task_id = NULL, revision = revision + 1 WHERE task_id = OLD.task_id;
    RETURN OLD;
END $$;
CREATE TRIGGER tasks_end BEFORE DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_end();
CREATE FUNCTION tide_task_ended() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM task_heads WHERE task_id = OLD.task_id;
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_ended AFTER DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION tide_task_ended();

CREATE TRIGGER task_heads_rise AFTER UPDATE ON task_heads FOR EACH ROW WHEN (new.last_sequence < old.last_sequence)
    EXECUTE FUNCTION tide_refuse('a task''s sequence never goes down');
CREATE TRIGGER task_heads_keep AFTER UPDATE OF task_id ON task_heads FOR EACH ROW WHEN (new.task_id <> old.task_id)
    EXECUTE FUNCTION tide_refuse('a task''s sequence lives as long as the task');
CREATE FUNCTION tide_task_head_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tasks WHERE task_id = OLD.task_id) THEN
        RAISE EXCEPTION 'a task''s sequence lives as long as the task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_heads_stay AFTER DELETE ON task_heads FOR EACH ROW EXECUTE FUNCTION tide_task_head_stay();
CREATE TRIGGER task_heads_full BEFORE TRUNCATE ON task_heads
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a task''s sequence lives as long as the task');

