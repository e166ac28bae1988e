-- The layout of work items on PostgreSQL: see docs/internals/work-layout.md.

-- migration: 16  version: 0.60.0  name: work layout  engine: sqlite
-- The indexes of work_items stay: one writer, and no versions of rows.
SELECT 1;

-- migration: 16  version: 0.60.0  name: work layout  engine: postgres
-- No index of work_items contains what a claim, a renewal or a finish changes: each is a HOT update. What its indexes answered by
-- status is in narrow tables of their own, which refer to items by item_no. The row in work_items decides; an entry that does not
-- match its row is skipped and deleted. Whoever changes an entry has locked its row before: our claims lock rows (SKIP LOCKED)
-- and then delete entries, and plain SQL changes the row, after which the triggers change the entries.
DROP INDEX idx_work_items_task, idx_work_items_lease_holder, idx_work_items_claim, idx_work_items_claim_task,
           idx_work_items_due, idx_work_items_unique, idx_work_items_ended;
DROP TRIGGER check_work_items_new ON work_items;
DROP TRIGGER check_work_items_status ON work_items;
DROP TRIGGER check_work_items_ready ON work_items;
-- A page has room for two versions of each of its rows: of the claim beside that of the adding, and of the finish beside that of
-- the claim (240, 292 and 326 bytes, and the input in each).
ALTER TABLE work_items SET (fillfactor = 38);
ALTER TABLE work_items
    ADD COLUMN item_no bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN completed_by text COLLATE "C";  -- the worker whose attempt completed it, through the library
CREATE UNIQUE INDEX idx_work_items_number ON work_items (item_no);
CREATE INDEX idx_work_items_task ON work_items (task_id, created_at DESC);

-- Items that can be claimed: pending, not delayed, waiting for nothing.
CREATE TABLE work_ready (
    work_type  text COLLATE "C" NOT NULL,
    claim_key  bigint NOT NULL,
    item_no    bigint NOT NULL,
    task_id    text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX idx_work_ready_type ON work_ready (work_type, claim_key, item_no);
CREATE INDEX idx_work_ready_task ON work_ready (task_id, claim_key);
INSERT INTO work_ready (work_type, claim_key, item_no, task_id)
SELECT work_type, claim_key, item_no, task_id FROM work_items
WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0 ORDER BY work_type, claim_key;

-- What a sweep looks for: items delayed until a time; left in 'expired' by plain SQL; failed while others depend on
-- them (both at the epoch).
CREATE TABLE work_due (
    kind     text COLLATE "C" NOT NULL CHECK (kind IN ('delayed', 'expired', 'failed')),
    at       timestamptz NOT NULL,
    item_no  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idx_work_due_at ON work_due (kind, at, item_no);
INSERT INTO work_due (kind, at, item_no)
SELECT CASE status WHEN 'pending' THEN 'delayed' ELSE status END,
       CASE status WHEN 'pending' THEN run_after ELSE '1970-01-01 00:00:00+00' END, item_no FROM work_items
WHERE (status = 'pending' AND run_after IS NOT NULL) OR status = 'expired' OR (status = 'failed' AND has_dependents);

-- At most one live item per type and unique key.
CREATE TABLE work_unique_keys (
    work_type   text COLLATE "C" NOT NULL,
    unique_key  text COLLATE "C" NOT NULL,
    item_no     bigint NOT NULL,
    PRIMARY KEY (work_type, unique_key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
INSERT INTO work_unique_keys (work_type, unique_key, item_no)
SELECT work_type, unique_key, item_no FROM work_items
WHERE unique_key IS NOT NULL AND status IN ('pending', 'in_progress', 'expired');

-- An entry per claim: no lease of these items ends before check_at, unless another entry says so. Renewals and finishes leave
-- it alone. The sweep looks at it when its time has come, and moves or deletes it.
CREATE TABLE work_lease_ends (
    check_at  timestamptz NOT NULL,
    items     bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idx_work_lease_ends_at ON work_lease_ends (check_at);
INSERT INTO work_lease_ends (check_at, items)
SELECT min(lease_expires_at), array_agg(item_no)
FROM (SELECT coalesce(lease_expires_at, '1970-01-01 00:00:00+00') AS lease_expires_at, item_no,
             row_number() OVER (ORDER BY lease_expires_at) / 100 AS part
      FROM work_items WHERE status = 'in_progress') held
GROUP BY part;

CREATE TRIGGER work_ready_full BEFORE TRUNCATE ON work_ready
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: nothing would be claimed any more');
CREATE TRIGGER work_due_full BEFORE TRUNCATE ON work_due
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: delayed items would wait for ever');
CREATE TRIGGER work_unique_keys_full BEFORE TRUNCATE ON work_unique_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: keys would not be unique any more');
CREATE TRIGGER work_lease_ends_full BEFORE TRUNCATE ON work_lease_ends
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the store keeps these entries: leases would not end any more');

-- ---- attempts ----

-- An attempt is written when it ends. One that is open, and one that completed its item through the library, is in the
-- item's row; work_attempts shows all of them.
ALTER TABLE work_attempts RENAME TO work_attempts_ended;
DROP TRIGGER work_attempts_keep ON work_attempts_ended;
DROP TRIGGER work_attempts_same ON work_attempts_ended;
DROP TRIGGER work_attempts_stay ON work_attempts_ended;
DROP TRIGGER work_attempts_once ON work_attempts_ended;
DROP TRIGGER work_attempts_added ON work_attempts_ended;
DROP TRIGGER work_attempts_full ON work_attempts_ended;
DROP FUNCTION tide_attempt_guard();
DROP FUNCTION tide_attempts_added();
DELETE FROM work_attempts_ended WHERE ended_at IS NULL;
ALTER TABLE work_attempts_ended ALTER COLUMN ended_at SET NOT NULL;
ALTER TABLE work_attempts_ended SET (fillfactor = 100);
CREATE TRIGGER work_attempts_ended_keep BEFORE UPDATE ON work_attempts_ended FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('an attempt is closed once and then never changes');
CREATE FUNCTION tide_attempt_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM work_items WHERE work_item_id = OLD.work_item_id) THEN
        RAISE EXCEPTION 'attempts live as long as their work item' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_attempts_ended_stay AFTER DELETE ON work_attempts_ended FOR EACH ROW
    EXECUTE FUNCTION tide_attempt_stay();
CREATE TRIGGER work_attempts_ended_once BEFORE INSERT ON work_attempts_ended FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION tide_refuse('attempts are written by the store: one carries the newest token of its work item');
CREATE TRIGGER work_attempts_ended_full BEFORE TRUNCATE ON work_attempts_ended
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('attempts live as long as their work item');

CREATE VIEW work_attempts AS
SELECT work_item_id, lease_token, attempt, worker, via, started_at, ended_at, outcome, error_message
FROM work_attempts_ended
UNION ALL
SELECT work_item_id, lease_token, retry_count + 1, CASE status WHEN 'in_progress' THEN lease_holder ELSE completed_by END,
       coalesce(lease_via, 'sql'), coalesce(lease_acquired_at, started_at, updated_at),
       CASE status WHEN 'completed' THEN completed_at END, CASE status WHEN 'completed' THEN status END, NULL
FROM work_items WHERE status = 'in_progress' OR (status = 'completed' AND completed_by IS NOT NULL);
CREATE TRIGGER work_attempts_keep INSTEAD OF UPDATE ON work_attempts FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('an attempt is closed once and then never changes');
CREATE TRIGGER work_attempts_stay INSTEAD OF DELETE ON work_attempts FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('attempts live as long as their work item');
CREATE TRIGGER work_attempts_once INSTEAD OF INSERT ON work_attempts FOR EACH ROW
    EXECUTE FUNCTION tide_refuse('attempts are written by the store: one carries the newest token of its work item');

-- ---- items that are added ----

CREATE FUNCTION tide_work_keys_add(wanted_type text, wanted_key text, item bigint, is_library boolean) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO work_unique_keys (work_type, unique_key, item_no) VALUES (wanted_type, wanted_key, item)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND AND is_library THEN  -- it has looked before: another was faster, and the next look finds that one
        RAISE EXCEPTION 'an item of the same unique key was added at the same time' USING ERRCODE = 'serialization_failure';
    ELSIF NOT FOUND THEN
        RAISE EXCEPTION 'a live work item of this type has the same unique_key' USING ERRCODE = 'unique_violation';
    END IF;
END $$;

-- For a whole statement at once: values, the bounds of types, entries. (That its task is there, and stays, is for the foreign
-- key to say, which looks past the snapshot of whoever deletes a task.)
CREATE OR REPLACE FUNCTION tide_work_added() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    added_type record;
    keyed record;
    has_keys boolean := false;
    has_due boolean := false;
BEGIN
    FOR added_type IN
        SELECT work_type, min(claim_key) AS low_key, bool_or(unique_key IS NOT NULL) AS has_keys,
               bool_or(run_after IS NOT NULL OR status <> 'pending') AS has_due,
               min(CASE
                   WHEN NOT (octet_length(work_item_id) BETWEEN 1 AND 128 AND octet_length(work_type) BETWEEN 1 AND 128)
                       THEN 'work_item_id and work_type have 1 to 128 bytes'
                   WHEN NOT (priority BETWEEN -1000000 AND 1000000 AND retry_count BETWEEN 0 AND 1000000
                             AND max_retries BETWEEN 0 AND 1000000 AND waits_for >= 0
                             AND failure_count BETWEEN 0 AND 1000000000 AND crash_count BETWEEN 0 AND 1000000000)
                        OR timeout_us NOT BETWEEN 1 AND 3153600000000000
                       THEN 'priority, a count or timeout_us is out of bounds'
                   WHEN octet_length(input_data) > 16777216 THEN 'input_data has at most 16 MiB'
                   WHEN failure_kind NOT IN ('error', 'exhausted', 'quarantined', 'cancelled', 'dependency')
                        OR attempt_outcome NOT IN ('completed', 'failed', 'expired', 'timed_out', 'released', 'cancelled',
                                                   'replaced')
                        OR lease_via NOT IN ('api', 'sql')
                       THEN 'no such failure_kind, attempt_outcome or lease_via'
                   WHEN NOT isfinite(created_at) OR NOT isfinite(run_after) OR NOT isfinite(started_at)
                        OR NOT isfinite(completed_at) OR NOT isfinite(updated_at) OR NOT isfinite(lease_acquired_at)
                        OR NOT isfinite(heartbeat_at)
                       THEN 'times are finite' END) AS refusal
        FROM added GROUP BY work_type ORDER BY work_type
    LOOP
        IF added_type.refusal IS NOT NULL THEN
            RAISE EXCEPTION '%', added_type.refusal USING ERRCODE = 'check_violation';
        END IF;
        PERFORM tide_work_bound(added_type.work_type, added_type.low_key);
        has_keys := has_keys OR added_type.has_keys;
        has_due := has_due OR added_type.has_due;
    END LOOP;
    INSERT INTO work_ready (work_type, claim_key, item_no, task_id)
    SELECT work_type, claim_key, item_no, task_id FROM added
    WHERE status = 'pending' AND run_after IS NULL AND waits_for = 0;
    IF has_due THEN
        INSERT INTO work_due (kind, at, item_no)
        SELECT CASE status WHEN 'pending' THEN 'delayed' ELSE status END,
               CASE status WHEN 'pending' THEN run_after ELSE '1970-01-01 00:00:00+00' END, item_no FROM added
        WHERE (status = 'pending' AND run_after IS NOT NULL) OR status = 'expired' OR (status = 'failed' AND has_dependents);
        INSERT INTO work_lease_ends (check_at, items)
        SELECT lease_expires_at, ARRAY[item_no] FROM added WHERE status = 'in_progress' AND lease_expires_at IS NOT NULL;
    END IF;
    IF has_keys THEN  -- in one order, so that two statements with the same keys do not lock each other out
        FOR keyed IN SELECT work_type, unique_key, item_no, revision = 1 AND status = 'pending' AS is_library FROM added
                     WHERE unique_key IS NOT NULL AND status IN ('pending', 'in_progress', 'expired')
                     ORDER BY work_type, unique_key LOOP
            PERFORM tide_work_keys_add(keyed.work_type, keyed.unique_key, keyed.item_no, keyed.is_library);
        END LOOP;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER work_items_inserted_claimed ON work_items;  -- it opened the attempt, which the row is now
DROP FUNCTION tide_work_made();

-- ---- changes ----

-- A change of status, and of what entries are made of: allowed or not, from whomever it comes; attempts; who waited for it. (The attempts
-- of plain SQL are written by tide_work_plain. Claims and completions by the library change their entries
-- themselves, set by set, and are left alone here: a row trigger would cost more than the claim.)
CREATE OR REPLACE FUNCTION tide_work_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was_ready boolean := OLD.status = 'pending' AND OLD.run_after IS NULL AND OLD.waits_for = 0;
    is_ready boolean := NEW.status = 'pending' AND NEW.run_after IS NULL AND NEW.waits_for = 0;
    is_moved boolean := NEW.work_type <> OLD.work_type OR NEW.claim_key <> OLD.claim_key;
    was_keyed boolean := OLD.unique_key IS NOT NULL AND OLD.status IN ('pending', 'in_progress', 'expired');
    is_keyed boolean := NEW.unique_key IS NOT NULL AND NEW.status IN ('pending', 'in_progress', 'expired');
    was_due timestamptz := CASE WHEN OLD.status = 'pending' THEN OLD.run_after
                                WHEN OLD.status = 'expired' THEN '1970-01-01 00:00:00+00' END;
    is_due timestamptz := CASE WHEN NEW.status = 'pending' THEN NEW.run_after
                               WHEN NEW.status = 'expired' OR (NEW.status = 'failed' AND NEW.has_dependents)
                                   THEN '1970-01-01 00:00:00+00' END;
BEGIN
    IF NEW.status <> OLD.status AND TG_NAME <> 'check_work_items_status' THEN  -- that one does all of it
        RETURN NULL;
    END IF;
    IF NEW.status <> OLD.status THEN
        IF NOT ((OLD.status = 'pending' AND NEW.status IN ('in_progress', 'failed'))
                OR (OLD.status = 'in_progress' AND NEW.status IN ('completed', 'failed', 'expired', 'pending'))
                OR (OLD.status = 'expired' AND NEW.status IN ('pending', 'failed'))) THEN
            RAISE EXCEPTION '%', CASE
                WHEN NEW.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired')
                    THEN 'status is pending, in_progress, completed, failed or expired'
                WHEN OLD.status = 'pending' THEN 'a pending work item becomes in_progress or failed'
                WHEN OLD.status = 'expired' THEN 'an expired work item becomes pending or failed'
                ELSE 'the work item has ended: status, output and lease do not change any more' END
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.revision > OLD.revision AND OLD.status = 'in_progress'
           AND NOT (NEW.status = 'completed' AND NEW.completed_by IS NOT NULL) THEN
            INSERT INTO work_attempts_ended (work_item_id, lease_token, attempt, worker, via, started_at, ended_at, outcome,
                                             error_message)
            VALUES (OLD.work_item_id, OLD.lease_token, OLD.retry_count + 1, OLD.lease_holder, coalesce(OLD.lease_via, 'sql'),
                    coalesce(OLD.lease_acquired_at, OLD.started_at, OLD.updated_at), NEW.updated_at, NEW.attempt_outcome,
                    NEW.error_message);
        END IF;
        IF NEW.status = 'completed' AND NEW.has_dependents THEN
            PERFORM tide_work_release(NEW.work_item_id,
                                      CASE WHEN NEW.revision > OLD.revision THEN NEW.updated_at ELSE clock_timestamp() END);
        END IF;
    END IF;
    -- What comes back to a task that has ended would wait for ever. (What plain SQL puts back is fenced first: tide_work_plain.)
    IF NEW.status = 'pending' AND (OLD.status = 'expired' OR (OLD.status = 'in_progress' AND NEW.revision > OLD.revision))
       AND (SELECT status FROM tasks WHERE task_id = NEW.task_id) NOT IN ('pending', 'running') THEN
        IF was_due IS NOT NULL THEN
            DELETE FROM work_due WHERE kind = OLD.status AND at = was_due AND item_no = OLD.item_no;
        END IF;
        UPDATE work_items
        SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
            revision = revision + 1, completed_at = NEW.updated_at
        WHERE work_item_id = NEW.work_item_id AND status = 'pending';
        RETURN NULL;
    END IF;
    IF was_ready AND (NOT is_ready OR is_moved) THEN
        DELETE FROM work_ready WHERE work_type = OLD.work_type AND claim_key = OLD.claim_key AND item_no = OLD.item_no;
    END IF;
    IF is_ready AND (NOT was_ready OR is_moved) THEN
        PERFORM tide_work_bound(NEW.work_type, NEW.claim_key);
        INSERT INTO work_ready (work_type, claim_key, item_no, task_id)
        VALUES (NEW.work_type, NEW.claim_key, NEW.item_no, NEW.task_id);
    ELSIF NEW.work_type <> OLD.work_type THEN  -- it may be a type that was never seen
        PERFORM tide_work_bound(NEW.work_type, NEW.claim_key);
    END IF;
    IF NEW.status <> OLD.status OR was_due IS DISTINCT FROM is_due THEN
        IF was_due IS NOT NULL THEN
            DELETE FROM work_due WHERE kind = CASE OLD.status WHEN 'pending' THEN 'delayed' ELSE OLD.status END
                                   AND at = was_due AND item_no = OLD.item_no;
        END IF;
        IF is_due IS NOT NULL THEN
            INSERT INTO work_due (kind, at, item_no)
            VALUES (CASE NEW.status WHEN 'pending' THEN 'delayed' ELSE NEW.status END, is_due, NEW.item_no);
        END IF;
    END IF;
    IF was_keyed AND (NOT is_keyed OR NEW.unique_key <> OLD.unique_key OR NEW.work_type <> OLD.work_type) THEN
        DELETE FROM work_unique_keys
        WHERE work_type = OLD.work_type AND unique_key = OLD.unique_key AND item_no = OLD.item_no;
    END IF;
    IF is_keyed AND (NOT was_keyed OR NEW.unique_key <> OLD.unique_key OR NEW.work_type <> OLD.work_type) THEN
        PERFORM tide_work_keys_add(NEW.work_type, NEW.unique_key, NEW.item_no, false);
    END IF;
    IF NEW.revision > OLD.revision AND NEW.claim_key = OLD.claim_key
       AND (NEW.priority <> OLD.priority OR NEW.created_at <> OLD.created_at) THEN
        UPDATE work_items
        SET claim_key = (extract(epoch FROM NEW.created_at) * 1000000)::bigint - NEW.priority * 600000000,
            revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER check_work_items_status AFTER UPDATE OF status ON work_items FOR EACH ROW
    WHEN (new.status <> old.status
          AND NOT (new.revision > old.revision AND NOT new.has_dependents AND new.unique_key IS NULL
                   AND old.status || new.status IN ('pendingin_progress', 'in_progresscompleted')))
    EXECUTE FUNCTION tide_work_move();
CREATE TRIGGER check_work_items_ready AFTER UPDATE OF run_after, waits_for, work_type, priority, created_at, claim_key,
    unique_key ON work_items FOR EACH ROW
    WHEN (new.status = old.status)
    EXECUTE FUNCTION tide_work_move();

-- A lease that ends earlier than it did: its entry would be looked at too late.
CREATE FUNCTION tide_work_lease_cut() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.status = 'in_progress' THEN
        INSERT INTO work_lease_ends (check_at, items) VALUES (NEW.lease_expires_at, ARRAY[NEW.item_no]);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_lease_cut AFTER UPDATE OF lease_expires_at ON work_items FOR EACH ROW
    WHEN (new.lease_expires_at < old.lease_expires_at) EXECUTE FUNCTION tide_work_lease_cut();

-- A change by plain SQL: what it may not do, and what the library would have written with it. The row is written a second
-- time, which a statement of the library never needs. The library comes here only to be refused.
CREATE OR REPLACE FUNCTION tide_work_plain() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at timestamptz := clock_timestamp();
    is_over boolean := coalesce(OLD.lease_expires_at < at, true);
    is_spent boolean := NEW.retry_count > OLD.retry_count;  -- how a watchdog says that the lease ran out
    uncounted boolean := NEW.status = 'pending' AND is_over AND NOT is_spent;
    ended text;
BEGIN
    IF OLD.status IN ('completed', 'failed')
       AND (NEW.output_data IS DISTINCT FROM OLD.output_data OR NEW.lease_holder IS DISTINCT FROM OLD.lease_holder
            OR NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at
            OR NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at
            OR NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at OR NEW.lease_via IS DISTINCT FROM OLD.lease_via
            OR NEW.lease_token <> OLD.lease_token) THEN
        RAISE EXCEPTION 'the work item has ended: status, output and lease do not change any more'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.lease_token < OLD.lease_token THEN
        RAISE EXCEPTION 'lease tokens only rise' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.revision < OLD.revision THEN
        RAISE EXCEPTION 'revision only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.revision > OLD.revision THEN
        RETURN NULL;
    END IF;
    IF NEW.lease_token <> OLD.lease_token OR NEW.lease_via IS DISTINCT FROM OLD.lease_via THEN
        RAISE EXCEPTION 'lease tokens only rise, and not by plain SQL' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND OLD.lease_via = 'api'
       AND (NEW.status <> OLD.status OR NEW.output_data IS DISTINCT FROM OLD.output_data
            OR NEW.lease_holder IS DISTINCT FROM OLD.lease_holder
            OR NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at
            OR NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at
            OR NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at
            OR NEW.deadline_at IS DISTINCT FROM OLD.deadline_at)
       AND NOT (NEW.status IN ('pending', 'failed', 'expired') AND is_over) THEN
        RAISE EXCEPTION 'the lease is held through the library: without its token it cannot be ended or changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND NEW.status = 'in_progress'
       AND NEW.lease_holder IS DISTINCT FROM OLD.lease_holder THEN
        RAISE EXCEPTION 'another worker holds the lease; once it has run out, set the item back to pending first'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.retry_count < OLD.retry_count THEN
        RAISE EXCEPTION 'retry_count only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.waits_for <> OLD.waits_for OR NEW.has_dependents <> OLD.has_dependents THEN
        RAISE EXCEPTION 'dependencies are kept by the library' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status = 'in_progress' AND NEW.status = 'in_progress' AND NEW.lease_expires_at IS NULL THEN
        RAISE EXCEPTION 'a lease has an end' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.status IN ('pending', 'expired') AND NEW.status = OLD.status
       AND ((NEW.lease_holder IS NOT NULL AND NEW.lease_holder IS DISTINCT FROM OLD.lease_holder)
            OR (NEW.lease_acquired_at IS NOT NULL AND NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at)
            OR (NEW.lease_expires_at IS NOT NULL AND NEW.lease_expires_at IS DISTINCT FROM OLD.lease_expires_at)
            OR (NEW.heartbeat_at IS NOT NULL AND NEW.heartbeat_at IS DISTINCT FROM OLD.heartbeat_at)) THEN
        RAISE EXCEPTION 'the work item is not in progress: nobody holds its lease'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;

    IF NEW.status = 'in_progress' AND OLD.status = 'pending' THEN  -- a claim
        UPDATE work_items
        SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = 'sql', revision = revision + 1,
            run_after = NULL, deadline_at = NULL, updated_at = at, lease_acquired_at = coalesce(lease_acquired_at, at),
            lease_expires_at = coalesce(lease_expires_at, at + interval '5 minutes')
        WHERE work_item_id = NEW.work_item_id;
        INSERT INTO work_lease_ends (check_at, items)
        SELECT lease_expires_at, ARRAY[item_no] FROM work_items WHERE work_item_id = NEW.work_item_id;
    ELSIF OLD.status = 'in_progress' AND NEW.status <> 'in_progress' THEN  -- an end
        ended := CASE WHEN NEW.status = 'completed' THEN 'completed'
                      WHEN NEW.status = 'expired' OR is_spent OR (NEW.status = 'pending' AND is_over) THEN 'expired'
                      WHEN NEW.status = 'failed' THEN 'failed' ELSE 'released' END;
        INSERT INTO work_attempts_ended (work_item_id, lease_token, attempt, worker, via, started_at, ended_at, outcome,
                                         error_message)
        VALUES (OLD.work_item_id, OLD.lease_token, OLD.retry_count + 1, OLD.lease_holder, coalesce(OLD.lease_via, 'sql'),
                coalesce(OLD.lease_acquired_at, OLD.started_at, OLD.updated_at), at, ended,
                CASE NEW.status WHEN 'completed' THEN NULL ELSE NEW.error_message END);
        IF NEW.status IN ('completed', 'failed') THEN  -- it keeps its lease columns as they are
            UPDATE work_items
            SET attempt_outcome = ended, completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1,
                failure_kind = CASE ended WHEN 'expired' THEN 'exhausted' WHEN 'failed' THEN 'error' END,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                failure_count = failure_count + CASE ended WHEN 'failed' THEN 1 ELSE 0 END
            WHERE work_item_id = NEW.work_item_id;
        ELSE  -- it goes on, fenced anew
            UPDATE work_items
            SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = NULL, lease_holder = NULL,
                lease_expires_at = NULL, deadline_at = NULL, revision = revision + 1, updated_at = at, attempt_outcome = ended,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                -- A lease that has run out spends an attempt also if nobody counted it.
                retry_count = retry_count + CASE WHEN uncounted AND retry_count < max_retries THEN 1 ELSE 0 END,
                status = CASE WHEN uncounted AND retry_count >= max_retries THEN 'failed' ELSE status END,
                failure_kind = CASE WHEN uncounted AND retry_count >= max_retries THEN 'exhausted' END,
                completed_at = CASE WHEN uncounted AND retry_count >= max_retries THEN at END
            WHERE work_item_id = NEW.work_item_id;
            UPDATE work_items
            SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
                revision = revision + 1, completed_at = at
            WHERE work_item_id = NEW.work_item_id AND status = 'pending'
              AND (SELECT status FROM tasks WHERE task_id = NEW.task_id) NOT IN ('pending', 'running');
        END IF;
    ELSIF NEW.status = 'failed' AND OLD.status IN ('pending', 'expired') THEN
        UPDATE work_items
        SET failure_kind = CASE OLD.status WHEN 'expired' THEN 'exhausted' ELSE 'error' END,
            completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    ELSE
        UPDATE work_items
        SET updated_at = CASE WHEN NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at THEN at ELSE NEW.updated_at END,
            revision = revision + 1
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    IF NEW.priority <> OLD.priority OR NEW.created_at IS DISTINCT FROM OLD.created_at THEN
        UPDATE work_items
        SET created_at = coalesce(NEW.created_at, OLD.created_at), revision = revision + 1,
            claim_key = (extract(epoch FROM coalesce(NEW.created_at, OLD.created_at)) * 1000000)::bigint
                        - NEW.priority * 600000000
        WHERE work_item_id = NEW.work_item_id;
    END IF;
    RETURN NULL;
END $$;

-- Its attempts and entries go with it; its token stays behind. Who waited for it in vain does not wait for ever.
CREATE OR REPLACE FUNCTION tide_work_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM work_attempts_ended WHERE work_item_id = OLD.work_item_id;
    DELETE FROM work_ready WHERE work_type = OLD.work_type AND claim_key = OLD.claim_key AND item_no = OLD.item_no;
    IF OLD.status IN ('pending', 'expired', 'failed') THEN
        DELETE FROM work_due
        WHERE kind = CASE OLD.status WHEN 'pending' THEN 'delayed' ELSE OLD.status END AND item_no = OLD.item_no
          AND at = CASE OLD.status WHEN 'pending' THEN OLD.run_after ELSE '1970-01-01 00:00:00+00' END;
    END IF;
    IF OLD.unique_key IS NOT NULL THEN
        DELETE FROM work_unique_keys
        WHERE work_type = OLD.work_type AND unique_key = OLD.unique_key AND item_no = OLD.item_no;
    END IF;
    UPDATE work_items
    SET status = CASE status WHEN 'in_progress' THEN status ELSE 'failed' END, waits_for = waits_for - 1,
        failure_kind = CASE status WHEN 'in_progress' THEN failure_kind ELSE 'dependency' END,
        error_message = CASE status WHEN 'in_progress' THEN error_message
                                    ELSE 'It depends on ' || OLD.work_item_id || ', which was deleted' END,
        completed_at = CASE status WHEN 'in_progress' THEN completed_at ELSE clock_timestamp() END,
        updated_at = clock_timestamp(), revision = revision + 1
    WHERE OLD.has_dependents AND OLD.status <> 'completed' AND waits_for > 0
      AND status IN ('pending', 'in_progress', 'expired')
      AND work_item_id IN (SELECT work_item_id FROM work_dependencies WHERE depends_on = OLD.work_item_id);
    DELETE FROM work_dependencies WHERE work_item_id = OLD.work_item_id OR depends_on = OLD.work_item_id;
    -- The key under which it ran belongs to it; an item that comes again under this id is another one.
    DELETE FROM idempotency_keys WHERE idempotency_key = 'work-' || OLD.work_item_id;
    UPDATE idempotency_keys SET work_item_id = NULL, revision = revision + 1 WHERE work_item_id = OLD.work_item_id;
    RETURN NULL;
END $$;
