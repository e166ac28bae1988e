-- Attempts, dependencies and schedules of work: see recovery_schema.sql.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 3
-- One row per claim, opened and closed by triggers; a closed one never changes.
CREATE TABLE work_attempts (
    work_item_id   TEXT NOT NULL,
    lease_token    INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,  -- 1 for the first run; a released one is not counted
    worker         TEXT,
    via            TEXT NOT NULL CHECK (via IN ('api', 'sql')),
    started_at     TIMESTAMP NOT NULL,
    ended_at       TIMESTAMP,
    outcome        TEXT,
    error_message  TEXT,
    PRIMARY KEY (work_item_id, lease_token)
) WITHOUT ROWID;
CREATE TRIGGER work_attempts_keep BEFORE UPDATE ON work_attempts
WHEN old.ended_at IS NOT NULL OR new.work_item_id <> old.work_item_id OR new.lease_token <> old.lease_token
    OR new.attempt <> old.attempt OR new.worker IS NOT old.worker OR new.started_at <> old.started_at
BEGIN SELECT RAISE(ABORT, 'an attempt is closed once and then never changes'); END;
CREATE TRIGGER work_attempts_stay BEFORE DELETE ON work_attempts
WHEN EXISTS (SELECT 1 FROM work_items WHERE work_item_id = old.work_item_id)
BEGIN SELECT RAISE(ABORT, 'attempts live as long as their work item'); END;
CREATE TRIGGER work_attempts_once BEFORE INSERT ON work_attempts
WHEN EXISTS (SELECT 1 FROM work_attempts WHERE work_item_id = new.work_item_id AND lease_token >= new.lease_token)
    OR NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id AND lease_token >= new.lease_token)
BEGIN SELECT RAISE(ABORT, 'an attempt carries the newest token of its work item'); END;

-- An item waits until everything it depends on is completed.
CREATE TABLE work_dependencies (
    work_item_id  TEXT NOT NULL,
    depends_on    TEXT NOT NULL,
    PRIMARY KEY (work_item_id, depends_on)
) WITHOUT ROWID;
CREATE INDEX idx_work_dependencies_on ON work_dependencies (depends_on);

-- Items that come again and again. One of cron and every_us.
CREATE TABLE work_schedules (
    name          TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text' AND length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    work_type     TEXT NOT NULL CHECK (typeof(work_type) = 'text' AND length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    cron          TEXT,
    every_us      INTEGER CHECK (typeof(every_us) IN ('integer', 'null') AND every_us > 0),
    input_data    TEXT,
    priority      INTEGER NOT NULL DEFAULT 0 CHECK (typeof(priority) = 'integer' AND priority BETWEEN -1000000 AND 1000000),
    max_retries   INTEGER NOT NULL DEFAULT 3 CHECK (typeof(max_retries) = 'integer' AND max_retries BETWEEN 0 AND 1000000),
    timeout_us    INTEGER CHECK (typeof(timeout_us) IN ('integer', 'null') AND timeout_us BETWEEN 1 AND 3153600000000000),
    is_paused     INTEGER NOT NULL DEFAULT 0 CHECK (is_paused IN (0, 1)),
    next_run_at   TIMESTAMP NOT NULL,
    last_run_at   TIMESTAMP,
    run_count     INTEGER NOT NULL DEFAULT 0 CHECK (typeof(run_count) = 'integer'),
    created_at    TIMESTAMP NOT NULL,
    CHECK ((cron IS NULL) <> (every_us IS NULL)),
    CONSTRAINT "next_run_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (next_run_at IS NULL OR (
        datetime(substr(next_run_at, 1, 19), '+0 seconds') IS substr(next_run_at, 1, 19)
        AND (length(next_run_at) = 19 OR (length(next_run_at) BETWEEN 21 AND 26
                                    AND substr(next_run_at, 20) GLOB '.[0-9]*' AND substr(next_run_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_work_schedules_next ON work_schedules (next_run_at) WHERE is_paused = 0;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 4
CREATE TABLE work_attempts (
    work_item_id   text COLLATE "C" NOT NULL,
    lease_token    bigint NOT NULL,
    attempt        bigint NOT NULL,
    worker         text COLLATE "C",
    via            text COLLATE "C" NOT NULL CHECK (via IN ('api', 'sql')),
    started_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    outcome        text COLLATE "C",
    error_message  text,
    PRIMARY KEY (work_item_id, lease_token)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE TABLE work_dependencies (
    work_item_id  text COLLATE "C" NOT NULL,
    depends_on    text COLLATE "C" NOT NULL,
    PRIMARY KEY (work_item_id, depends_on)
);
CREATE INDEX idx_work_dependencies_on ON work_dependencies (depends_on);

CREATE TABLE work_schedules (
    name          text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
    task_id       text COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    work_type     text COLLATE "C" NOT NULL CHECK (octet_length(work_type) BETWEEN 1 AND 128),
    cron          text,
    every_us      bigint CHECK (every_us > 0),
    input_data    text CHECK (octet_length(input_data) <= 16777216),
    priority      bigint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1000000 AND 1000000),
    max_retries   bigint NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 1000000),
    timeout_us    bigint CHECK (timeout_us BETWEEN 1 AND 3153600000000000),
    is_paused     boolean NOT NULL DEFAULT false,
    next_run_at   timestamptz NOT NULL,
    last_run_at   timestamptz,
    run_count     bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    CHECK ((cron IS NULL) <> (every_us IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX idx_work_schedules_next ON work_schedules (next_run_at) WHERE NOT is_paused;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 10
CREATE FUNCTION tide_attempt_guard() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT 1 FROM work_items WHERE work_item_id = OLD.work_item_id) THEN
            RAISE EXCEPTION 'attempts live as long as their work item' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF NOT EXISTS (SELECT 1 FROM work_items
                      WHERE work_item_id = NEW.work_item_id AND lease_token >= NEW.lease_token)
          OR EXISTS (SELECT 1 FROM work_attempts
                     WHERE work_item_id = NEW.work_item_id AND lease_token > NEW.lease_token) THEN
        RAISE EXCEPTION 'an attempt carries the newest token of its work item'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_attempts_stay AFTER DELETE ON work_attempts FOR EACH ROW EXECUTE FUNCTION tide_attempt_guard();
CREATE TRIGGER work_attempts_once AFTER INSERT ON work_attempts FOR EACH ROW
    WHEN (pg_trigger_depth() = 0 AND new.via <> 'api')
    EXECUTE FUNCTION tide_attempt_guard();
-- The library opens attempts in the statement that claims their items: looked at together, when both are written.
CREATE FUNCTION tide_attempts_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added a WHERE a.via = 'api'
               AND NOT EXISTS (SELECT 1 FROM work_items w
                               WHERE w.work_item_id = a.work_item_id AND w.lease_token = a.lease_token)) THEN
        RAISE EXCEPTION 'an attempt carries the newest token of its work item'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_attempts_added AFTER INSERT ON work_attempts REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tide_attempts_added();
CREATE TRIGGER work_attempts_full BEFORE TRUNCATE ON work_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('attempts live as long as their work item');

