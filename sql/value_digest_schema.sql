-- Digests of stored values: 64 bits over the row's name and the value (src/core/value_digest.h). NULL: not written by the library, or
-- before this version. Of an item: the XOR of those of its input and output. Plain SQL cannot change a response that the library stored (check_idempotency_keys_update), so no trigger has to
-- clear it.

-- migration: 21  version: 0.65.0  name: response digests  engine: sqlite
ALTER TABLE idempotency_keys ADD COLUMN value_digest INTEGER;

-- migration: 21  version: 0.65.0  name: response digests  engine: postgres
ALTER TABLE idempotency_keys ADD COLUMN value_digest bigint;

-- migration: 22  version: 0.66.0  name: work digests  engine: sqlite
-- Plain SQL that writes an input or an output leaves no digest: the item is unchecked from then on.
ALTER TABLE work_items ADD COLUMN value_digest INTEGER;
CREATE TRIGGER work_items_unchecked AFTER UPDATE OF input_data, output_data ON work_items
WHEN new.revision = old.revision AND new.value_digest IS NOT NULL
BEGIN
    UPDATE work_items SET value_digest = NULL, revision = revision + 1 WHERE work_item_id = new.work_item_id;
END;

-- migration: 22  version: 0.66.0  name: work digests  engine: postgres
ALTER TABLE work_items ADD COLUMN value_digest bigint;
-- As limit_schema.sql has it, and behind a change of an input or an output by plain SQL the digest goes. (Raised by two, as that leaves
-- nothing to a trigger.)
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
    IF NEW.revision = OLD.revision AND NEW.value_digest IS NOT NULL
       AND (NEW.input_data IS DISTINCT FROM OLD.input_data OR NEW.output_data IS DISTINCT FROM OLD.output_data) THEN
        UPDATE work_items SET value_digest = NULL, revision = revision + 2 WHERE work_item_id = NEW.work_item_id;
    END IF;
    -- A lease that ends earlier than it did: its entry would be looked at too late.
    IF NEW.status = 'in_progress' AND NEW.lease_expires_at < OLD.lease_expires_at THEN
        INSERT INTO work_lease_ends (check_at, items) VALUES (NEW.lease_expires_at, ARRAY[NEW.item_no]);
    END IF;
    RETURN NULL;
END $$;
