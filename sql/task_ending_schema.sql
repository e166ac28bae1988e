-- Ends of tasks that are under way (src/work/task/task_end.c): tables and rules of recovery_tasks_schema.sql, changed.

-- migration: 11  version: 0.55.0  name: task endings  engine: sqlite
-- A row exists from the transaction that ends a task to the one that ends or deletes its last item. action: 'end' or 'delete';
-- message: the error_message of the items that are ended.
CREATE TABLE task_endings (
    task_id TEXT NOT NULL PRIMARY KEY,
    action TEXT NOT NULL CHECK (action IN ('end', 'delete')),
    message TEXT NOT NULL,
    begun_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER task_endings_end AFTER DELETE ON tasks
BEGIN DELETE FROM task_endings WHERE task_id = old.task_id; END;
-- Items of a task that plain SQL ended end with it; those in progress only if it was cancelled, fenced off by the token. The
-- library ends them in steps.
DROP TRIGGER tasks_cancel;
CREATE TRIGGER tasks_cancel AFTER UPDATE OF status ON tasks
WHEN new.status <> old.status AND new.status IN ('succeeded', 'failed', 'cancelled')
     AND NOT EXISTS (SELECT 1 FROM task_endings WHERE task_id = new.task_id)
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

-- migration: 11  version: 0.55.0  name: task endings  engine: postgres
CREATE TABLE task_endings (
    task_id text NOT NULL PRIMARY KEY REFERENCES tasks (task_id) ON DELETE CASCADE,
    action text NOT NULL CHECK (action IN ('end', 'delete')),
    message text NOT NULL,
    begun_at timestamptz NOT NULL
);
CREATE OR REPLACE FUNCTION tide_task_cancel() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM task_endings WHERE task_id = NEW.task_id) THEN
        RETURN NULL;
    END IF;
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
