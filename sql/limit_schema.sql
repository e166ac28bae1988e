-- How many items of a type run at once: see work/limit/limit.h.

-- migration: 20  version: 0.64.0  name: limits  engine: sqlite
-- NULL: no limit of this kind.
CREATE TABLE work_limits (
    work_type        TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    running          INTEGER CHECK (running BETWEEN 1 AND 1000000),          -- of the type
    running_per_key  INTEGER CHECK (running_per_key BETWEEN 1 AND 1000000),  -- of each limit_key of the type
    is_settled       INTEGER NOT NULL DEFAULT 1,                             -- what runs has its entries
    CHECK (running IS NOT NULL OR running_per_key IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- The slots in use: an entry per claim of a type with a limit. The row decides: an entry whose item is not in progress is free,
-- and is deleted by the next claim that finds no slot.
CREATE TABLE work_running (
    work_item_id  TEXT NOT NULL PRIMARY KEY,
    work_type     TEXT NOT NULL,
    limit_key     TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_work_running_type ON work_running (work_type, limit_key);

ALTER TABLE work_items ADD COLUMN limit_key TEXT;
CREATE INDEX idx_work_items_limit ON work_items (work_type, limit_key, claim_key)
    WHERE limit_key IS NOT NULL AND status = 'pending' AND run_after IS NULL AND waits_for = 0;

CREATE TRIGGER work_limits_settle AFTER INSERT ON work_limits
BEGIN
    INSERT INTO work_running (work_item_id, work_type, limit_key)
    SELECT w.work_item_id, w.work_type, w.limit_key FROM work_items w
    WHERE w.status = 'in_progress' AND w.work_type = new.work_type
      AND NOT EXISTS (SELECT 1 FROM work_running r WHERE r.work_item_id = w.work_item_id);
END;
CREATE TRIGGER work_limits_keep BEFORE UPDATE ON work_limits WHEN new.work_type <> old.work_type
BEGIN SELECT RAISE(ABORT, 'a limit keeps its type'); END;
CREATE TRIGGER work_limits_end AFTER DELETE ON work_limits
BEGIN DELETE FROM work_running WHERE work_type = old.work_type; END;
-- Claims by plain SQL are counted, not refused: they carry no token by which the library could know them.
CREATE TRIGGER work_items_running AFTER UPDATE OF status ON work_items
WHEN new.revision = old.revision AND new.status = 'in_progress' AND old.status = 'pending'
     AND EXISTS (SELECT 1 FROM work_limits WHERE work_type = new.work_type)
     AND NOT EXISTS (SELECT 1 FROM work_running WHERE work_item_id = new.work_item_id)
BEGIN
    INSERT INTO work_running (work_item_id, work_type, limit_key) VALUES (new.work_item_id, new.work_type, new.limit_key);
END;
CREATE TRIGGER work_items_inserted_running AFTER INSERT ON work_items
WHEN new.status = 'in_progress' AND EXISTS (SELECT 1 FROM work_limits WHERE work_type = new.work_type)
     AND NOT EXISTS (SELECT 1 FROM work_running WHERE work_item_id = new.work_item_id)
BEGIN
    INSERT INTO work_running (work_item_id, work_type, limit_key) VALUES (new.work_item_id, new.work_type, new.limit_key);
END;

-- migration: 20  version: 0.64.0  name: limits  engine: postgres
ALTER TABLE work_types ADD COLUMN is_limited boolean NOT NULL DEFAULT false;  -- claimed by work_claim_limited alone
CREATE TABLE work_limits (
    work_type        text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES work_types (work_type),
    running          bigint CHECK (running BETWEEN 1 AND 1000000),
    running_per_key  bigint CHECK (running_per_key BETWEEN 1 AND 1000000),
    is_settled       boolean NOT NULL DEFAULT false,
    CHECK (running IS NOT NULL OR running_per_key IS NOT NULL)
);
CREATE TABLE work_running (
    work_item_id  text COLLATE "C" NOT NULL PRIMARY KEY,
    work_type     text COLLATE "C" NOT NULL,
    limit_key     text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX idx_work_running_type ON work_running (work_type, limit_key);

-- Live items that have a key, in the order of claims: how a claim finds the first of each key behind thousands of one that is full.
-- The row decides.
CREATE TABLE work_keyed (
    work_type  text COLLATE "C" NOT NULL,
    limit_key  text COLLATE "C" NOT NULL,
    claim_key  bigint NOT NULL,
    item_no    bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX idx_work_keyed_key ON work_keyed (work_type, limit_key, claim_key, item_no);
ALTER TABLE work_items ADD COLUMN limit_key text COLLATE "C";

-- A claim that has not seen the limit holds work_ready until it ends, and one that comes later waits and sees it. So behind this
-- lock every item of the type that runs is committed, and every later claim respects the limit.
CREATE FUNCTION tide_work_limit_new() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    LOCK TABLE work_ready IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO work_types (work_type, is_limited) VALUES (NEW.work_type, true)
    ON CONFLICT (work_type) DO UPDATE SET is_limited = true;
    NEW.is_settled := false;
    RETURN NEW;
END $$;
CREATE TRIGGER work_limits_new BEFORE INSERT ON work_limits FOR EACH ROW EXECUTE FUNCTION tide_work_limit_new();
CREATE TRIGGER work_limits_keep BEFORE UPDATE ON work_limits FOR EACH ROW
    WHEN (new.work_type <> old.work_type) EXECUTE FUNCTION tide_refuse('a limit keeps its type');
CREATE FUNCTION tide_work_limit_end() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE work_types SET is_limited = false WHERE work_type = OLD.work_type;
    DELETE FROM work_running WHERE work_type = OLD.work_type;
    RETURN NULL;
END $$;
CREATE TRIGGER work_limits_end AFTER DELETE ON work_limits FOR EACH ROW EXECUTE FUNCTION tide_work_limit_end();
CREATE TRIGGER work_limits_full BEFORE TRUNCATE ON work_limits
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('limits are deleted one by one');
CREATE TRIGGER work_running_full BEFORE TRUNCATE ON work_running
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: limits would be exceeded');
CREATE TRIGGER work_keyed_full BEFORE TRUNCATE ON work_keyed
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: items would wait for ever');

-- ---- entries of items ----

-- The entry of an item with a key: while it is live. was, is: whether it had one, and has one.
CREATE FUNCTION tide_work_keyed(was_keyed boolean, was work_items, is_keyed boolean, item work_items) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF was_keyed THEN
        DELETE FROM work_keyed
        WHERE work_type = was.work_type AND limit_key = was.limit_key AND claim_key = was.claim_key AND item_no = was.item_no;
    END IF;
    IF is_keyed THEN
        INSERT INTO work_keyed (work_type, limit_key, claim_key, item_no)
        VALUES (item.work_type, item.limit_key, item.claim_key, item.item_no);
    END IF;
END $$;
-- Claims by plain SQL are counted, not refused.
CREATE FUNCTION tide_work_running(item work_items) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO work_running (work_item_id, work_type, limit_key)
    SELECT item.work_item_id, item.work_type, item.limit_key FROM work_limits l WHERE l.work_type = item.work_type
    ON CONFLICT (work_item_id) DO NOTHING;
END $$;

-- As work_trigger_schema.sql has it, and these entries before the changes that the others make in turn.
CREATE OR REPLACE FUNCTION tide_work_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was_keyed boolean := OLD.limit_key IS NOT NULL AND OLD.status IN ('pending', 'in_progress', 'expired');
    is_keyed boolean := NEW.limit_key IS NOT NULL AND NEW.status IN ('pending', 'in_progress', 'expired');
BEGIN
    IF NEW.work_item_id <> OLD.work_item_id OR NEW.task_id <> OLD.task_id THEN
        RAISE EXCEPTION 'a work item keeps its id and its task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    PERFORM tide_work_check(NEW);
    IF was_keyed <> is_keyed OR (is_keyed AND (NEW.work_type, NEW.limit_key, NEW.claim_key)
                                              <> (OLD.work_type, OLD.limit_key, OLD.claim_key)) THEN
        PERFORM tide_work_keyed(was_keyed, OLD, is_keyed, NEW);
    END IF;
    IF NEW.status = 'in_progress' AND OLD.status = 'pending' AND NEW.revision = OLD.revision THEN
        PERFORM tide_work_running(NEW);
    END IF;
    IF NEW.status <> OLD.status OR NEW.run_after IS DISTINCT FROM OLD.run_after OR NEW.waits_for <> OLD.waits_for
       OR NEW.work_type <> OLD.work_type OR NEW.priority <> OLD.priority OR NEW.created_at IS DISTINCT FROM OLD.created_at
       OR NEW.claim_key <> OLD.claim_key OR NEW.unique_key IS DISTINCT FROM OLD.unique_key THEN
        PERFORM tide_work_move(OLD, NEW);
    END IF;
    IF NEW.revision <= OLD.revision OR OLD.status IN ('completed', 'failed') OR NEW.lease_token < OLD.lease_token THEN
        PERFORM tide_work_plain(OLD, NEW);
    END IF;
    -- A lease that ends earlier than it did: its entry would be looked at too late.
    IF NEW.status = 'in_progress' AND NEW.lease_expires_at < OLD.lease_expires_at THEN
        INSERT INTO work_lease_ends (check_at, items) VALUES (NEW.lease_expires_at, ARRAY[NEW.item_no]);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tide_work_limited() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM tide_work_keyed(true, OLD, false, OLD);
        RETURN NULL;
    END IF;
    PERFORM tide_work_keyed(false, NEW, NEW.limit_key IS NOT NULL AND NEW.status IN ('pending', 'in_progress', 'expired'), NEW);
    IF NEW.status = 'in_progress' THEN
        PERFORM tide_work_running(NEW);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_limited AFTER INSERT ON work_items FOR EACH ROW
    WHEN (new.limit_key IS NOT NULL OR new.status = 'in_progress') EXECUTE FUNCTION tide_work_limited();
CREATE TRIGGER work_items_unlimited AFTER DELETE ON work_items FOR EACH ROW
    WHEN (old.limit_key IS NOT NULL) EXECUTE FUNCTION tide_work_limited();
