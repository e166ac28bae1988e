-- One trigger for every change of a work item that the library's statement has not done itself (PostgreSQL): see
-- docs/internals/work-layout.md.

-- migration: 19  version: 0.63.0  name: one work trigger  engine: sqlite
-- There a condition of a trigger costs next to nothing.
SELECT 1;

-- migration: 19  version: 0.63.0  name: one work trigger  engine: postgres
-- A statement reads the conditions of all triggers anew: six of them took a third of the time of a claim of one item. A statement of
-- the library that leaves nothing to do (a claim, a renewal, the finish of an item that no other and no key depends on)
-- raises revision by two and passes the one that is left; every other change raises it by one, or is plain SQL.
DROP TRIGGER check_work_items_plain ON work_items;
DROP TRIGGER check_work_items_ready ON work_items;
DROP TRIGGER check_work_items_status ON work_items;
DROP TRIGGER check_work_items_values ON work_items;
DROP TRIGGER update_work_items_timestamp ON work_items;
DROP TRIGGER work_items_keep ON work_items;
DROP TRIGGER work_items_lease_cut ON work_items;
DROP TRIGGER work_items_too_late ON work_items;
DROP FUNCTION tide_work_values();
DROP FUNCTION tide_work_move();
DROP FUNCTION tide_work_plain();
DROP FUNCTION tide_work_lease_cut();

-- Bounds, and words out of a list.
CREATE FUNCTION tide_work_check(item work_items) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (octet_length(item.work_item_id) BETWEEN 1 AND 128 AND octet_length(item.work_type) BETWEEN 1 AND 128) THEN
        RAISE EXCEPTION 'work_item_id and work_type have 1 to 128 bytes' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT (item.priority BETWEEN -1000000 AND 1000000 AND item.retry_count BETWEEN 0 AND 1000000
            AND item.max_retries BETWEEN 0 AND 1000000 AND item.waits_for >= 0 AND item.failure_count BETWEEN 0 AND 1000000000
            AND item.crash_count BETWEEN 0 AND 1000000000)
       OR item.timeout_us NOT BETWEEN 1 AND 3153600000000000 THEN
        RAISE EXCEPTION 'priority, a count or timeout_us is out of bounds' USING ERRCODE = 'check_violation';
    END IF;
    IF octet_length(item.input_data) > 16777216 THEN
        RAISE EXCEPTION 'input_data has at most 16 MiB' USING ERRCODE = 'check_violation';
    END IF;
    IF item.failure_kind NOT IN ('error', 'exhausted', 'quarantined', 'cancelled', 'dependency')
       OR item.attempt_outcome NOT IN ('completed', 'failed', 'expired', 'timed_out', 'released', 'cancelled', 'replaced')
       OR item.lease_via NOT IN ('api', 'sql') THEN
        RAISE EXCEPTION 'no such failure_kind, attempt_outcome or lease_via' USING ERRCODE = 'check_violation';
    END IF;
    IF NOT isfinite(item.created_at) OR NOT isfinite(item.run_after) OR NOT isfinite(item.started_at)
       OR NOT isfinite(item.completed_at) OR NOT isfinite(item.updated_at) OR NOT isfinite(item.lease_acquired_at)
       OR NOT isfinite(item.heartbeat_at) THEN
        RAISE EXCEPTION 'times are finite' USING ERRCODE = 'check_violation';
    END IF;
END $$;

-- A change of status, and of what entries are made of: allowed or not, by the library or plain SQL; attempts; who waited for it. (The
-- attempts of plain SQL are written by tide_work_plain.)
CREATE FUNCTION tide_work_move(was work_items, item work_items) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was_ready boolean := was.status = 'pending' AND was.run_after IS NULL AND was.waits_for = 0;
    is_ready boolean := item.status = 'pending' AND item.run_after IS NULL AND item.waits_for = 0;
    is_moved boolean := item.work_type <> was.work_type OR item.claim_key <> was.claim_key;
    was_keyed boolean := was.unique_key IS NOT NULL AND was.status IN ('pending', 'in_progress', 'expired');
    is_keyed boolean := item.unique_key IS NOT NULL AND item.status IN ('pending', 'in_progress', 'expired');
    was_due timestamptz := CASE WHEN was.status = 'pending' THEN was.run_after
                                WHEN was.status = 'expired' THEN '1970-01-01 00:00:00+00' END;
    is_due timestamptz := CASE WHEN item.status = 'pending' THEN item.run_after
                               WHEN item.status = 'expired' OR (item.status = 'failed' AND item.has_dependents)
                                   THEN '1970-01-01 00:00:00+00' END;
BEGIN
    IF item.status <> was.status THEN
        IF NOT ((was.status = 'pending' AND item.status IN ('in_progress', 'failed'))
                OR (was.status = 'in_progress' AND item.status IN ('completed', 'failed', 'expired', 'pending'))
                OR (was.status = 'expired' AND item.status IN ('pending', 'failed'))) THEN
            RAISE EXCEPTION '%', CASE
                WHEN item.status NOT IN ('pending', 'in_progress', 'completed', 'failed', 'expired')
                    THEN 'status is pending, in_progress, completed, failed or expired'
                WHEN was.status = 'pending' THEN 'a pending work item becomes in_progress or failed'
                WHEN was.status = 'expired' THEN 'an expired work item becomes pending or failed'
                ELSE 'the work item has ended: status, output and lease do not change any more' END
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF item.revision > was.revision AND was.status = 'in_progress'
           AND NOT (item.status = 'completed' AND item.completed_by IS NOT NULL) THEN
            INSERT INTO work_attempts_ended (work_item_id, lease_token, attempt, worker, via, started_at, ended_at, outcome,
                                             error_message)
            VALUES (was.work_item_id, was.lease_token, was.retry_count + 1, was.lease_holder, coalesce(was.lease_via, 'sql'),
                    coalesce(was.lease_acquired_at, was.started_at, was.updated_at), item.updated_at, item.attempt_outcome,
                    item.error_message);
        END IF;
        IF item.status = 'completed' AND item.has_dependents THEN
            PERFORM tide_work_release(item.work_item_id,
                                      CASE WHEN item.revision > was.revision THEN item.updated_at ELSE clock_timestamp() END);
        END IF;
    END IF;
    -- What comes back to a task that has ended would wait for ever. (What plain SQL puts back is fenced first: tide_work_plain.)
    IF item.status = 'pending' AND (was.status = 'expired' OR (was.status = 'in_progress' AND item.revision > was.revision))
       AND (SELECT status FROM tasks WHERE task_id = item.task_id) NOT IN ('pending', 'running') THEN
        IF was_due IS NOT NULL THEN
            DELETE FROM work_due WHERE kind = was.status AND at = was_due AND item_no = was.item_no;
        END IF;
        UPDATE work_items
        SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
            revision = revision + 1, completed_at = item.updated_at
        WHERE work_item_id = item.work_item_id AND status = 'pending';
        RETURN;
    END IF;
    IF was_ready AND (NOT is_ready OR is_moved) THEN
        DELETE FROM work_ready WHERE work_type = was.work_type AND claim_key = was.claim_key AND item_no = was.item_no;
    END IF;
    IF is_ready AND (NOT was_ready OR is_moved) THEN
        PERFORM tide_work_bound(item.work_type, item.claim_key);
        INSERT INTO work_ready (work_type, claim_key, item_no, task_id)
        VALUES (item.work_type, item.claim_key, item.item_no, item.task_id);
    ELSIF item.work_type <> was.work_type THEN  -- it may be a type that was never seen
        PERFORM tide_work_bound(item.work_type, item.claim_key);
    END IF;
    IF item.status <> was.status OR was_due IS DISTINCT FROM is_due THEN
        IF was_due IS NOT NULL THEN
            DELETE FROM work_due WHERE kind = CASE was.status WHEN 'pending' THEN 'delayed' ELSE was.status END
                                   AND at = was_due AND item_no = was.item_no;
        END IF;
        IF is_due IS NOT NULL THEN
            INSERT INTO work_due (kind, at, item_no)
            VALUES (CASE item.status WHEN 'pending' THEN 'delayed' ELSE item.status END, is_due, item.item_no);
        END IF;
    END IF;
    IF was_keyed AND (NOT is_keyed OR item.unique_key <> was.unique_key OR item.work_type <> was.work_type) THEN
        DELETE FROM work_unique_keys
        WHERE work_type = was.work_type AND unique_key = was.unique_key AND item_no = was.item_no;
    END IF;
    IF is_keyed AND (NOT was_keyed OR item.unique_key <> was.unique_key OR item.work_type <> was.work_type) THEN
        PERFORM tide_work_keys_add(item.work_type, item.unique_key, item.item_no, false);
    END IF;
    IF item.revision > was.revision AND item.claim_key = was.claim_key
       AND (item.priority <> was.priority OR item.created_at <> was.created_at) THEN
        UPDATE work_items
        SET claim_key = (extract(epoch FROM item.created_at) * 1000000)::bigint - item.priority * 600000000,
            revision = revision + 1
        WHERE work_item_id = item.work_item_id;
    END IF;
END $$;

-- A change by plain SQL: what it may not do, and what the library would have written with it. The row is written a second
-- time, which a statement of the library never needs. The library comes here only to be refused.
CREATE FUNCTION tide_work_plain(was work_items, item work_items) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at timestamptz := clock_timestamp();
    is_over boolean := coalesce(was.lease_expires_at < at, true);
    is_spent boolean := item.retry_count > was.retry_count;  -- how a watchdog says that the lease ran out
    uncounted boolean := item.status = 'pending' AND is_over AND NOT is_spent;
    ended text;
BEGIN
    IF was.status IN ('completed', 'failed')
       AND (item.output_data IS DISTINCT FROM was.output_data OR item.lease_holder IS DISTINCT FROM was.lease_holder
            OR item.lease_acquired_at IS DISTINCT FROM was.lease_acquired_at
            OR item.lease_expires_at IS DISTINCT FROM was.lease_expires_at
            OR item.heartbeat_at IS DISTINCT FROM was.heartbeat_at OR item.lease_via IS DISTINCT FROM was.lease_via
            OR item.lease_token <> was.lease_token) THEN
        RAISE EXCEPTION 'the work item has ended: status, output and lease do not change any more'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF item.lease_token < was.lease_token THEN
        RAISE EXCEPTION 'lease tokens only rise' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF item.revision < was.revision THEN
        RAISE EXCEPTION 'revision only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF item.revision > was.revision THEN
        RETURN;
    END IF;
    IF item.lease_token <> was.lease_token OR item.lease_via IS DISTINCT FROM was.lease_via THEN
        RAISE EXCEPTION 'lease tokens only rise, and not by plain SQL' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF was.status = 'in_progress' AND was.lease_via = 'api'
       AND (item.status <> was.status OR item.output_data IS DISTINCT FROM was.output_data
            OR item.lease_holder IS DISTINCT FROM was.lease_holder
            OR item.lease_acquired_at IS DISTINCT FROM was.lease_acquired_at
            OR item.lease_expires_at IS DISTINCT FROM was.lease_expires_at
            OR item.heartbeat_at IS DISTINCT FROM was.heartbeat_at
            OR item.deadline_at IS DISTINCT FROM was.deadline_at)
       AND NOT (item.status IN ('pending', 'failed', 'expired') AND is_over) THEN
        RAISE EXCEPTION 'the lease is held through the library: without its token it cannot be ended or changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF was.status = 'in_progress' AND item.status = 'in_progress'
       AND item.lease_holder IS DISTINCT FROM was.lease_holder THEN
        RAISE EXCEPTION 'another worker holds the lease; once it has run out, set the item back to pending first'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF item.retry_count < was.retry_count THEN
        RAISE EXCEPTION 'retry_count only rises' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF item.waits_for <> was.waits_for OR item.has_dependents <> was.has_dependents THEN
        RAISE EXCEPTION 'dependencies are kept by the library' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF was.status = 'in_progress' AND item.status = 'in_progress' AND item.lease_expires_at IS NULL THEN
        RAISE EXCEPTION 'a lease has an end' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF was.status IN ('pending', 'expired') AND item.status = was.status
       AND ((item.lease_holder IS NOT NULL AND item.lease_holder IS DISTINCT FROM was.lease_holder)
            OR (item.lease_acquired_at IS NOT NULL AND item.lease_acquired_at IS DISTINCT FROM was.lease_acquired_at)
            OR (item.lease_expires_at IS NOT NULL AND item.lease_expires_at IS DISTINCT FROM was.lease_expires_at)
            OR (item.heartbeat_at IS NOT NULL AND item.heartbeat_at IS DISTINCT FROM was.heartbeat_at)) THEN
        RAISE EXCEPTION 'the work item is not in progress: it has no lease'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;

    IF item.status = 'in_progress' AND was.status = 'pending' THEN  -- a claim
        UPDATE work_items
        SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = 'sql', revision = revision + 1,
            run_after = NULL, deadline_at = NULL, updated_at = at, lease_acquired_at = coalesce(lease_acquired_at, at),
            lease_expires_at = coalesce(lease_expires_at, at + interval '5 minutes')
        WHERE work_item_id = item.work_item_id;
        INSERT INTO work_lease_ends (check_at, items)
        SELECT lease_expires_at, ARRAY[item_no] FROM work_items WHERE work_item_id = item.work_item_id;
    ELSIF was.status = 'in_progress' AND item.status <> 'in_progress' THEN  -- an end
        ended := CASE WHEN item.status = 'completed' THEN 'completed'
                      WHEN item.status = 'expired' OR is_spent OR (item.status = 'pending' AND is_over) THEN 'expired'
                      WHEN item.status = 'failed' THEN 'failed' ELSE 'released' END;
        INSERT INTO work_attempts_ended (work_item_id, lease_token, attempt, worker, via, started_at, ended_at, outcome,
                                         error_message)
        VALUES (was.work_item_id, was.lease_token, was.retry_count + 1, was.lease_holder, coalesce(was.lease_via, 'sql'),
                coalesce(was.lease_acquired_at, was.started_at, was.updated_at), at, ended,
                CASE item.status WHEN 'completed' THEN NULL ELSE item.error_message END);
        IF item.status IN ('completed', 'failed') THEN  -- it keeps its lease columns as they are
            UPDATE work_items
            SET attempt_outcome = ended, completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1,
                failure_kind = CASE ended WHEN 'expired' THEN 'exhausted' WHEN 'failed' THEN 'error' END,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                failure_count = failure_count + CASE ended WHEN 'failed' THEN 1 ELSE 0 END
            WHERE work_item_id = item.work_item_id;
        ELSE  -- it goes on, fenced anew
            UPDATE work_items
            SET lease_token = greatest(lease_token + 1, tide_token_floor('work items removed')), lease_via = NULL, lease_holder = NULL,
                lease_expires_at = NULL, deadline_at = NULL, revision = revision + 1, updated_at = at, attempt_outcome = ended,
                crash_count = crash_count + CASE ended WHEN 'expired' THEN 1 ELSE 0 END,
                -- A lease that has run out spends an attempt also if no watchdog counted it.
                retry_count = retry_count + CASE WHEN uncounted AND retry_count < max_retries THEN 1 ELSE 0 END,
                status = CASE WHEN uncounted AND retry_count >= max_retries THEN 'failed' ELSE status END,
                failure_kind = CASE WHEN uncounted AND retry_count >= max_retries THEN 'exhausted' END,
                completed_at = CASE WHEN uncounted AND retry_count >= max_retries THEN at END
            WHERE work_item_id = item.work_item_id;
            UPDATE work_items
            SET status = 'failed', failure_kind = 'cancelled', error_message = 'The task has ended', run_after = NULL,
                revision = revision + 1, completed_at = at
            WHERE work_item_id = item.work_item_id AND status = 'pending'
              AND (SELECT status FROM tasks WHERE task_id = item.task_id) NOT IN ('pending', 'running');
        END IF;
    ELSIF item.status = 'failed' AND was.status IN ('pending', 'expired') THEN
        UPDATE work_items
        SET failure_kind = CASE was.status WHEN 'expired' THEN 'exhausted' ELSE 'error' END,
            completed_at = coalesce(completed_at, at), updated_at = at, revision = revision + 1
        WHERE work_item_id = item.work_item_id;
    ELSE
        UPDATE work_items
        SET updated_at = CASE WHEN item.updated_at IS NOT DISTINCT FROM was.updated_at THEN at ELSE item.updated_at END,
            revision = revision + 1
        WHERE work_item_id = item.work_item_id;
    END IF;
    IF item.priority <> was.priority OR item.created_at IS DISTINCT FROM was.created_at THEN
        UPDATE work_items
        SET created_at = coalesce(item.created_at, was.created_at), revision = revision + 1,
            claim_key = (extract(epoch FROM coalesce(item.created_at, was.created_at)) * 1000000)::bigint
                        - item.priority * 600000000
        WHERE work_item_id = item.work_item_id;
    END IF;
END $$;

CREATE FUNCTION tide_work_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.work_item_id <> OLD.work_item_id OR NEW.task_id <> OLD.task_id THEN
        RAISE EXCEPTION 'a work item keeps its id and its task' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    PERFORM tide_work_check(NEW);
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
CREATE TRIGGER work_items_changed AFTER UPDATE ON work_items FOR EACH ROW
    WHEN (new.revision <> old.revision + 2) EXECUTE FUNCTION tide_work_changed();

-- (A function in SQL would be parsed again by every statement that changes an item, to be made a part of the condition.)
CREATE OR REPLACE FUNCTION tide_is_unseen(writer xid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT NOT pg_visible_in_snapshot(
                greatest(horizon - ((horizon - low + 2147483648) & 4294967295) + 2147483648, 3)::text::xid8, snapshot)
            FROM (SELECT pg_current_snapshot() AS snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS horizon,
                         writer::text::bigint AS low) s);
END $$;
CREATE OR REPLACE FUNCTION tide_work_too_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'in_progress' AND OLD.status <> 'pending' AND NEW.lease_acquired_at IS DISTINCT FROM OLD.lease_acquired_at THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER work_items_too_late BEFORE UPDATE OF status ON work_items FOR EACH ROW
    WHEN (new.revision = old.revision AND tide_is_unseen(old.xmin)) EXECUTE FUNCTION tide_work_too_late();

-- ---- what few items need, and no statement prepares for ----

-- The first claim of a task starts it. A transaction that has it locked starts or ends it. Waiting for that one with
-- items in hand could end in a deadlock with a cancellation.
CREATE FUNCTION tide_task_start(task text, at timestamptz) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM 1 FROM tasks WHERE task_id = task AND status = 'pending' FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE tasks SET status = 'running', updated_at = at, revision = revision + 1 WHERE task_id = task;
    END IF;
END $$;

-- Keys that an attempt left unanswered are given back with its end.
CREATE FUNCTION tide_work_keys_free(item text) RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE idempotency_keys SET lock_holder = NULL, lock_expires_at = NULL, lock_via = NULL, revision = revision + 1
    WHERE work_item_id = item AND status = 'pending' AND lock_via = 'api';
    RETURN true;
END $$;
