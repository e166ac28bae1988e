"""The statements that foreign clients rely on, word for word as in the recovery document: they are the contract.

Placeholders are the contract's own ('task-01KG4XYZ', ?, ...). A statement that is not valid SQL stands apart.
"""

TASK = "INSERT INTO tasks (task_id, title, status) VALUES ('task-01KG4XYZ', 'Contract', 'running')"

# ---- work items ----

WORK_CREATE = """
INSERT INTO work_items (
    work_item_id, task_id, work_type, priority, input_data
) VALUES (
    'work-01KG4ABC', 'task-01KG4XYZ', 'tool_execution', 10,
    '{"tool": "bash", "command": "ls -la", "args": []}'
);
"""

WORK_CLAIM = """
-- Atomic claim using UPDATE + subquery
UPDATE work_items
SET
    status = 'in_progress',
    lease_holder = 'worker-abc-123',
    lease_acquired_at = CURRENT_TIMESTAMP,
    lease_expires_at = datetime(CURRENT_TIMESTAMP, '+5 minutes'),
    heartbeat_at = CURRENT_TIMESTAMP,
    started_at = CASE WHEN started_at IS NULL THEN CURRENT_TIMESTAMP ELSE started_at END
WHERE work_item_id = (
    SELECT work_item_id
    FROM work_items
    WHERE status = 'pending'
    ORDER BY priority DESC, created_at ASC
    LIMIT 1
)
RETURNING work_item_id, input_data;
"""

WORK_HEARTBEAT = """
UPDATE work_items
SET
    heartbeat_at = CURRENT_TIMESTAMP,
    lease_expires_at = datetime(CURRENT_TIMESTAMP, '+5 minutes')
WHERE work_item_id = 'work-01KG4ABC'
  AND lease_holder = 'worker-abc-123'
  AND status = 'in_progress';
"""

WORK_COMPLETE = """
UPDATE work_items
SET
    status = 'completed',
    output_data = '{"result": "success", "files_found": 42}',
    completed_at = CURRENT_TIMESTAMP,
    lease_holder = NULL,
    lease_expires_at = NULL
WHERE work_item_id = 'work-01KG4ABC';
"""

WORK_FAIL = """
UPDATE work_items
SET
    status = 'failed',
    error_message = 'Command execution timeout',
    completed_at = CURRENT_TIMESTAMP,
    lease_holder = NULL,
    lease_expires_at = NULL
WHERE work_item_id = 'work-01KG4ABC';
"""

WORK_WATCHDOG = """
-- Find and expire stale work items
UPDATE work_items
SET
    status = CASE
        WHEN retry_count < max_retries THEN 'pending'
        ELSE 'failed'
    END,
    retry_count = retry_count + 1,
    lease_holder = NULL,
    lease_expires_at = NULL,
    error_message = 'Lease expired - no heartbeat received'
WHERE status = 'in_progress'
  AND lease_expires_at < CURRENT_TIMESTAMP;
"""

# ---- checkpoints ----

CHECKPOINT_START = """
INSERT INTO checkpoints (
    checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data
) VALUES (
    'ckpt-01KG4ABC', 'task-01KG4XYZ', 'iteration_start', 1,
    json_object(
        'iteration', 1,
        'state', json_object('step', 'planning', 'context', '...'),
        'timestamp', datetime('now')
    )
);
"""

CHECKPOINT_TOOL = """
INSERT INTO checkpoints (
    checkpoint_id, task_id, work_item_id, checkpoint_type,
    sequence_number, snapshot_data
) VALUES (
    'ckpt-01KG4DEF', 'task-01KG4XYZ', 'work-01KG4ABC', 'tool_executed', 2,
    json_object(
        'tool', 'bash',
        'command', 'ls -la',
        'result', json_object('stdout', '...', 'stderr', '', 'exit_code', 0),
        'duration_ms', 1234
    )
);
"""

CHECKPOINT_LATEST = """
SELECT checkpoint_id, checkpoint_type, snapshot_data
FROM checkpoints
WHERE task_id = 'task-01KG4XYZ'
ORDER BY sequence_number DESC
LIMIT 1;
"""

CHECKPOINT_LAST_START = """
SELECT snapshot_data
FROM checkpoints
WHERE task_id = 'task-01KG4XYZ'
  AND checkpoint_type = 'iteration_start'
ORDER BY sequence_number DESC
LIMIT 1;
"""

CHECKPOINT_ALL = """
SELECT
    checkpoint_type,
    sequence_number,
    snapshot_data,
    created_at
FROM checkpoints
WHERE task_id = 'task-01KG4XYZ'
ORDER BY sequence_number ASC;
"""

CHECKPOINT_COUNT = """
SELECT
    checkpoint_type,
    COUNT(*) as count
FROM checkpoints
WHERE task_id = 'task-01KG4XYZ'
GROUP BY checkpoint_type;
"""

# ---- idempotency keys ----

KEY_LOOK = """
SELECT idempotency_key, status, response_data, completed_at
FROM idempotency_keys
WHERE idempotency_key = 'idem-01KG4ABC'
  AND status = 'completed'
  AND (expires_at IS NULL OR expires_at > CURRENT_TIMESTAMP);
"""

KEY_CREATE = """
INSERT INTO idempotency_keys (
    idempotency_key, task_id, request_hash, status, expires_at
) VALUES (
    'idem-01KG4ABC',
    'task-01KG4XYZ',
    'sha256:a1b2c3d4...',
    'pending',
    datetime(CURRENT_TIMESTAMP, '+24 hours')
);
"""

KEY_COMPLETE = """
UPDATE idempotency_keys
SET
    status = 'completed',
    response_data = '{"result": "success", "data": {...}}',
    completed_at = CURRENT_TIMESTAMP
WHERE idempotency_key = 'idem-01KG4ABC';
"""

KEY_FAIL = """
UPDATE idempotency_keys
SET
    status = 'failed',
    response_data = '{"error": "Operation failed", "details": "..."}',
    completed_at = CURRENT_TIMESTAMP
WHERE idempotency_key = 'idem-01KG4ABC';
"""

KEY_CLEAN = """
DELETE FROM idempotency_keys
WHERE expires_at < CURRENT_TIMESTAMP;
"""

KEY_VERIFY = """
-- Check if request matches original
SELECT
    CASE
        WHEN request_hash = 'sha256:a1b2c3d4...' THEN 'MATCH'
        ELSE 'CONFLICT'
    END as integrity_check
FROM idempotency_keys
WHERE idempotency_key = 'idem-01KG4ABC';
"""

# ---- retention ----

# Not valid SQL: OFFSET needs a LIMIT. `tidemark checkpoint compact` does what it means.
CHECKPOINT_CLEAN_INVALID = """
-- Keep only last 100 checkpoints per task
DELETE FROM checkpoints
WHERE checkpoint_id IN (
    SELECT checkpoint_id
    FROM checkpoints
    WHERE task_id = ?
    ORDER BY sequence_number DESC
    OFFSET 100
);
"""

WORK_CLEAN = """
-- Delete completed work items older than 30 days
DELETE FROM work_items
WHERE status IN ('completed', 'failed')
  AND updated_at < datetime('now', '-30 days');
"""

KEYS_CLEAN = """
-- Delete expired keys
DELETE FROM idempotency_keys
WHERE expires_at < CURRENT_TIMESTAMP;

-- Delete old completed keys (keep last 7 days)
DELETE FROM idempotency_keys
WHERE status = 'completed'
  AND completed_at < datetime('now', '-7 days');
"""

# ---- monitoring ----

MONITOR_WORK = """
SELECT
    work_type,
    status,
    COUNT(*) as count,
    AVG(julianday(CURRENT_TIMESTAMP) - julianday(created_at)) * 24 as avg_age_hours
FROM work_items
GROUP BY work_type, status;
"""

MONITOR_LEASES = """
SELECT
    COUNT(*) as active_leases,
    COUNT(CASE WHEN heartbeat_at < datetime('now', '-2 minutes') THEN 1 END) as stale_leases,
    AVG(julianday(CURRENT_TIMESTAMP) - julianday(heartbeat_at)) * 24 * 60 as avg_minutes_since_heartbeat
FROM work_items
WHERE status = 'in_progress';
"""

MONITOR_CHECKPOINTS = """
SELECT
    task_id,
    COUNT(*) as checkpoint_count,
    MAX(sequence_number) as max_sequence,
    MIN(created_at) as first_checkpoint,
    MAX(created_at) as last_checkpoint
FROM checkpoints
GROUP BY task_id
ORDER BY checkpoint_count DESC
LIMIT 10;
"""

VERSION = "SELECT version FROM schema_version WHERE version = '0.30.0'"

# ---- the whole workflow, and the recovery after a crash ----

WORKFLOW = """
-- 1. Create task
INSERT INTO tasks (task_id, title, status)
VALUES ('task-001', 'Process documents', 'running');

-- 2. Create work item
INSERT INTO work_items (
    work_item_id, task_id, work_type, priority, input_data
) VALUES (
    'work-001', 'task-001', 'tool_execution', 10,
    '{"tool": "pdf_parser", "file": "document.pdf"}'
);

-- 3. Worker claims work item
UPDATE work_items
SET
    status = 'in_progress',
    lease_holder = 'worker-abc',
    lease_acquired_at = CURRENT_TIMESTAMP,
    lease_expires_at = datetime(CURRENT_TIMESTAMP, '+5 minutes'),
    heartbeat_at = CURRENT_TIMESTAMP
WHERE work_item_id = 'work-001';

-- 4. Create checkpoint before execution
INSERT INTO checkpoints (
    checkpoint_id, task_id, work_item_id,
    checkpoint_type, sequence_number, snapshot_data
) VALUES (
    'ckpt-001', 'task-001', 'work-001',
    'iteration_start', 1,
    '{"state": "before_execution", "timestamp": "2026-01-29T10:00:00Z"}'
);

-- 5. Check idempotency
SELECT * FROM idempotency_keys WHERE idempotency_key = 'tool-pdf_parser-document.pdf';

-- 6. Create idempotency key if not exists
INSERT INTO idempotency_keys (
    idempotency_key, task_id, work_item_id, request_hash
) VALUES (
    'tool-pdf_parser-document.pdf', 'task-001', 'work-001', 'sha256:abc123...'
);

-- 7. Send heartbeat (repeat every 1 minute)
UPDATE work_items
SET heartbeat_at = CURRENT_TIMESTAMP,
    lease_expires_at = datetime(CURRENT_TIMESTAMP, '+5 minutes')
WHERE work_item_id = 'work-001';

-- 8. Tool execution completes - create checkpoint
INSERT INTO checkpoints (
    checkpoint_id, task_id, work_item_id,
    checkpoint_type, sequence_number, snapshot_data
) VALUES (
    'ckpt-002', 'task-001', 'work-001',
    'tool_executed', 2,
    '{"result": "success", "pages": 42, "text_length": 12345}'
);

-- 9. Update idempotency key with result
UPDATE idempotency_keys
SET
    status = 'completed',
    response_data = '{"pages": 42, "text_length": 12345}',
    completed_at = CURRENT_TIMESTAMP
WHERE idempotency_key = 'tool-pdf_parser-document.pdf';

-- 10. Complete work item
UPDATE work_items
SET
    status = 'completed',
    output_data = '{"pages": 42, "text_length": 12345}',
    completed_at = CURRENT_TIMESTAMP,
    lease_holder = NULL,
    lease_expires_at = NULL
WHERE work_item_id = 'work-001';

-- 11. Update task status
UPDATE tasks
SET status = 'succeeded', updated_at = CURRENT_TIMESTAMP
WHERE task_id = 'task-001';
"""

RECOVER_ITEMS = """
-- 1. Find incomplete work items
SELECT * FROM work_items
WHERE task_id = 'task-001'
  AND status IN ('pending', 'expired');
"""

RECOVER_CHECKPOINT = """
-- 2. Find last checkpoint
SELECT * FROM checkpoints
WHERE task_id = 'task-001'
ORDER BY sequence_number DESC
LIMIT 1;
"""

RECOVER_ANSWER = """
-- 3. Check idempotency cache
SELECT response_data FROM idempotency_keys
WHERE idempotency_key = 'tool-pdf_parser-document.pdf'
  AND status = 'completed';
"""


def split(script):
    """The statements of a script, one by one."""
    import sqlite3

    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
