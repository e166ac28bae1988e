-- Idempotency keys: see recovery_schema.sql.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 5
CREATE TABLE idempotency_keys (
    idempotency_key  TEXT NOT NULL PRIMARY KEY CHECK (typeof(idempotency_key) = 'text' AND length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 512),
    task_id          TEXT,
    work_item_id     TEXT,
    request_hash     TEXT NOT NULL,
    response_data    TEXT,
    status           TEXT NOT NULL DEFAULT 'pending',
    created_at       TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    completed_at     TIMESTAMP,
    expires_at       TIMESTAMP,
    -- ours: who works on it now. Apart from expires_at, which is how long the answer is kept.
    lock_holder      TEXT,
    lock_token       INTEGER NOT NULL DEFAULT 0 CHECK (typeof(lock_token) = 'integer' AND lock_token BETWEEN 0 AND 4611686018427387904),
    lock_expires_at  TIMESTAMP,
    lock_via         TEXT CHECK (lock_via IN ('api', 'sql')),
    takeover         TEXT NOT NULL DEFAULT 'rerun' CHECK (takeover IN ('resume', 'rerun', 'fail')),
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND 1000000000),
    revision         INTEGER NOT NULL DEFAULT 0 CHECK (typeof(revision) = 'integer' AND revision BETWEEN 0 AND 4611686018427387904),
    CONSTRAINT "created_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (created_at IS NULL OR (
        datetime(substr(created_at, 1, 19), '+0 seconds') IS substr(created_at, 1, 19)
        AND (length(created_at) = 19 OR (length(created_at) BETWEEN 21 AND 26
                                    AND substr(created_at, 20) GLOB '.[0-9]*' AND substr(created_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "completed_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (completed_at IS NULL OR (
        datetime(substr(completed_at, 1, 19), '+0 seconds') IS substr(completed_at, 1, 19)
        AND (length(completed_at) = 19 OR (length(completed_at) BETWEEN 21 AND 26
                                    AND substr(completed_at, 20) GLOB '.[0-9]*' AND substr(completed_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "expires_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (expires_at IS NULL OR (
        datetime(substr(expires_at, 1, 19), '+0 seconds') IS substr(expires_at, 1, 19)
        AND (length(expires_at) = 19 OR (length(expires_at) BETWEEN 21 AND 26
                                    AND substr(expires_at, 20) GLOB '.[0-9]*' AND substr(expires_at, 21) NOT GLOB '*[^0-9]*')))),
    CONSTRAINT "lock_expires_at is a UTC time like 2026-01-31 23:59:59.123456" CHECK (lock_expires_at IS NULL OR (
        datetime(substr(lock_expires_at, 1, 19), '+0 seconds') IS substr(lock_expires_at, 1, 19)
        AND (length(lock_expires_at) = 19 OR (length(lock_expires_at) BETWEEN 21 AND 26
                                    AND substr(lock_expires_at, 20) GLOB '.[0-9]*' AND substr(lock_expires_at, 21) NOT GLOB '*[^0-9]*'))))
) WITHOUT ROWID;
CREATE INDEX idx_idempotency_keys_task ON idempotency_keys (task_id, created_at DESC) WHERE task_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_work_item ON idempotency_keys (work_item_id, created_at DESC) WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idx_idempotency_keys_status ON idempotency_keys (status, created_at DESC);

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 10
-- ---- idempotency keys ----

CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON idempotency_keys
BEGIN
    SELECT RAISE(ABORT, 'status, lock_token, takeover, attempts and revision are not NULL')
    WHERE new.status IS NULL OR new.lock_token IS NULL OR new.takeover IS NULL OR new.attempts IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'status is pending, completed or failed') WHERE new.status NOT IN ('pending', 'completed', 'failed');
    SELECT RAISE(ABORT, 'there is no such task')
    WHERE new.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
    -- For plain SQL an expired key that nobody works on through the library is born again. (The library revives its own, by its
    -- own clocks.)
    DELETE FROM idempotency_keys
    WHERE new.revision = 0 AND idempotency_key = new.idempotency_key AND expires_at <= strftime('%Y-%m-%d %H:%M:%f', 'now')
      AND NOT (status = 'pending' AND lock_via IS 'api' AND lock_expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now'));
    SELECT RAISE(ABORT, 'this idempotency key exists already')
    WHERE EXISTS (SELECT 1 FROM idempotency_keys WHERE idempotency_key = new.idempotency_key);
END;
CREATE TRIGGER check_idempotency_keys_update BEFORE UPDATE ON idempotency_keys
BEGIN
    SELECT RAISE(ABORT, 'status, lock_token, takeover, attempts and revision are not NULL')
    WHERE new.status IS NULL OR new.lock_token IS NULL OR new.takeover IS NULL OR new.attempts IS NULL OR new.revision IS NULL;
    SELECT RAISE(ABORT, 'status is pending, completed or failed') WHERE new.status NOT IN ('pending', 'completed', 'failed');
    SELECT RAISE(ABORT, 'a key keeps its name and its request')
    WHERE new.idempotency_key <> old.idempotency_key
       OR (new.request_hash <> old.request_hash AND new.revision = old.revision);
    SELECT RAISE(ABORT, 'lock tokens only rise, and not by plain SQL')
    WHERE new.lock_token < old.lock_token
       OR (new.revision = old.revision AND (new.lock_token <> old.lock_token OR new.lock_via IS NOT old.lock_via));
    SELECT RAISE(ABORT, 'revision only rises') WHERE new.revision < old.revision;
    SELECT RAISE(ABORT, 'the answer is stored: it does not change any more')
    WHERE old.status = 'completed' AND old.lock_via IS NOT 'sql' AND new.revision = old.revision
      AND (new.status <> old.status OR new.response_data IS NOT old.response_data);
    SELECT RAISE(ABORT, 'the key is locked through the library: without its token it cannot be completed')
    WHERE old.status = 'pending' AND old.lock_via = 'api' AND new.revision = old.revision
      AND (new.status <> old.status OR new.response_data IS NOT old.response_data
           OR new.lock_expires_at IS NOT old.lock_expires_at);
    SELECT RAISE(ABORT, 'there is no such task')
    WHERE new.task_id IS NOT NULL AND new.task_id IS NOT old.task_id
      AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = new.task_id);
    SELECT RAISE(ABORT, 'there is no such work item')
    WHERE new.work_item_id IS NOT NULL AND new.work_item_id IS NOT old.work_item_id
      AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = new.work_item_id);
END;
-- A key made by plain SQL is locked for five minutes: after that the library may take it over.
CREATE TRIGGER idempotency_keys_made_plainly AFTER INSERT ON idempotency_keys
WHEN new.revision = 0 AND new.status = 'pending'
BEGIN
    UPDATE idempotency_keys
    SET lock_via = 'sql', lock_token = (SELECT idempotency FROM token_floors), attempts = 1, revision = revision + 1,
        lock_expires_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '+5 minutes')
    WHERE idempotency_key = new.idempotency_key;
END;
-- Never cleaned while somebody works on it.
CREATE TRIGGER idempotency_keys_stay BEFORE DELETE ON idempotency_keys
WHEN old.status = 'pending' AND old.lock_via = 'api' AND old.lock_expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now')
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER idempotency_keys_token AFTER DELETE ON idempotency_keys
WHEN old.lock_token > coalesce((SELECT token FROM leases WHERE name = 'idempotency keys removed'), 0)
BEGIN
    UPDATE leases SET token = old.lock_token WHERE name = 'idempotency keys removed';
    INSERT INTO leases (name, token) SELECT 'idempotency keys removed', old.lock_token
    WHERE NOT EXISTS (SELECT 1 FROM leases WHERE name = 'idempotency keys removed');
END;

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 6
CREATE TABLE idempotency_keys (
    idempotency_key  text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    task_id          text COLLATE "C",
    work_item_id     text COLLATE "C",
    request_hash     text COLLATE "C" NOT NULL,
    response_data    text,
    status           text COLLATE "C" NOT NULL DEFAULT 'pending',
    created_at       timestamptz DEFAULT CURRENT_TIMESTAMP CHECK (isfinite(created_at)),
    completed_at     timestamptz CHECK (isfinite(completed_at)),
    expires_at       timestamptz CHECK (isfinite(expires_at)),
    lock_holder      text COLLATE "C",
    lock_token       bigint NOT NULL DEFAULT 0 CHECK (lock_token BETWEEN 0 AND 4611686018427387904),
    lock_expires_at  timestamptz CHECK (isfinite(lock_expires_at)),
    lock_via         text COLLATE "C" CHECK (lock_via IN ('api', 'sql')),
    takeover         text COLLATE "C" NOT NULL DEFAULT 'rerun' CHECK (takeover IN ('resume', 'rerun', 'fail')),
    attempts         bigint NOT NULL DEFAULT 0,
    revision         bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX idx_idempotency_keys_task ON idempotency_keys (task_id, created_at DESC) WHERE task_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_work_item ON idempotency_keys (work_item_id, created_at DESC)
    WHERE work_item_id IS NOT NULL;
CREATE INDEX idx_idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idx_idempotency_keys_status ON idempotency_keys (status, created_at DESC);

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 12
-- ---- idempotency keys ----

CREATE FUNCTION tide_key_insert() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    refusal text := NULL;
BEGIN
    IF NEW.status NOT IN ('pending', 'completed', 'failed') THEN
        refusal := 'status is pending, completed or failed';
    ELSIF NEW.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id) THEN
        refusal := 'there is no such task';
    ELSIF NEW.work_item_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        refusal := 'there is no such work item';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    -- For plain SQL an expired key that nobody works on through the library is born again. (The library revives its own.)
    IF NEW.revision = 0 THEN
        DELETE FROM idempotency_keys
        WHERE idempotency_key = NEW.idempotency_key AND expires_at <= clock_timestamp()
          AND (status = 'pending' AND lock_via = 'api' AND lock_expires_at > clock_timestamp()) IS NOT TRUE;
    END IF;
    -- A key made by plain SQL is locked for five minutes: after that the library may take it over.
    IF NEW.revision = 0 AND NEW.status = 'pending' THEN
        NEW.lock_via := 'sql';
        NEW.lock_token := tide_token_floor('idempotency keys removed');
        NEW.attempts := 1;
        NEW.revision := 1;
        NEW.lock_expires_at := clock_timestamp() + interval '5 minutes';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION tide_key_insert();

CREATE FUNCTION tide_key_check() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    refusal text := NULL;
    is_plain boolean := NEW.revision = OLD.revision;
BEGIN
    IF NEW.revision > OLD.revision AND NEW.lock_token >= OLD.lock_token AND NEW.idempotency_key = OLD.idempotency_key
       AND NEW.status IN ('pending', 'completed', 'failed') THEN
        RETURN NULL;
    END IF;
    IF NEW.status NOT IN ('pending', 'completed', 'failed') THEN
        refusal := 'status is pending, completed or failed';
    ELSIF NEW.idempotency_key <> OLD.idempotency_key OR (NEW.request_hash <> OLD.request_hash AND is_plain) THEN
        refusal := 'a key keeps its name and its request';
    ELSIF NEW.lock_token < OLD.lock_token OR (is_plain AND (NEW.lock_token <> OLD.lock_token
                                                            OR NEW.lock_via IS DISTINCT FROM OLD.lock_via)) THEN
        refusal := 'lock tokens only rise, and not by plain SQL';
    ELSIF NEW.revision < OLD.revision THEN
        refusal := 'revision only rises';
    ELSIF is_plain AND OLD.status = 'completed' AND OLD.lock_via IS DISTINCT FROM 'sql'
          AND (NEW.status <> OLD.status OR NEW.response_data IS DISTINCT FROM OLD.response_data) THEN
        refusal := 'the answer is stored: it does not change any more';
    ELSIF is_plain AND OLD.status = 'pending' AND OLD.lock_via = 'api'
          AND (NEW.status <> OLD.status OR NEW.response_data IS DISTINCT FROM OLD.response_data
               OR NEW.lock_expires_at IS DISTINCT FROM OLD.lock_expires_at) THEN
        refusal := 'the key is locked through the library: without its token it cannot be completed';
    ELSIF is_plain AND NEW.task_id IS DISTINCT FROM OLD.task_id AND NEW.task_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM tasks WHERE task_id = NEW.task_id) THEN
        refusal := 'there is no such task';
    ELSIF is_plain AND NEW.work_item_id IS DISTINCT FROM OLD.work_item_id AND NEW.work_item_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM work_items WHERE work_item_id = NEW.work_item_id) THEN
        refusal := 'there is no such work item';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION '%', refusal USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_idempotency_keys_update AFTER UPDATE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION tide_key_check();

-- Never cleaned while somebody works on it.
CREATE FUNCTION tide_key_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'pending' AND OLD.lock_via = 'api' AND OLD.lock_expires_at > clock_timestamp() THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER idempotency_keys_stay BEFORE DELETE ON idempotency_keys FOR EACH ROW
    WHEN (old.status = 'pending' AND old.lock_via = 'api') EXECUTE FUNCTION tide_key_stay();
CREATE FUNCTION tide_key_token() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM tide_token_keep('idempotency keys removed', (SELECT max(lock_token) FROM gone));
    RETURN NULL;
END $$;
CREATE TRIGGER idempotency_keys_token AFTER DELETE ON idempotency_keys REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION tide_key_token();
CREATE TRIGGER idempotency_keys_full BEFORE TRUNCATE ON idempotency_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('keys are deleted one by one, never while somebody works on them');
