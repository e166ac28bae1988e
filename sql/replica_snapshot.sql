-- Snapshots of a node's tables (replica/snapshot*.c). Tables: replica_schema.sql.

-- template: snapshot_is_scanning
-- Rows of a table that is being tracked are not all captured yet.
SELECT 1 FROM tide_replica_state WHERE key LIKE 'scan/%' LIMIT 1;

-- template: snapshot_cursors
SELECT table_name, origin, epoch, cursor, last_seq FROM tide_replica_cursors ORDER BY table_name, origin, epoch;

-- template: snapshot_events
-- What the rows do not tell: events that wait, that lie beyond a hole, or whose table is not tracked here.
SELECT e.processed, q.reason, q.detail, q.found_at, e.body FROM tide_replica_events e
LEFT JOIN tide_replica_quarantine q ON q.origin = e.origin AND q.epoch = e.epoch AND q.seq = e.seq AND q.reason NOT IN ('size', 'null')
WHERE e.origin = :origin AND e.epoch = :epoch
    AND (q.reason IS NOT NULL OR (e.processed <> 0
        AND (e.seq > :prefix OR e.table_name NOT IN (SELECT name FROM tide_replica_tables WHERE is_tracked UNION
            SELECT n.name FROM tide_replica_names n JOIN tide_replica_tables t ON t.id = n.table_id WHERE t.is_tracked))))
ORDER BY e.seq;

-- template: snapshot_rows
-- Every row that was ever written and is not forgotten, and those of which only conflicts or knowledge are left.
SELECT r.key, k.clock, k.image, k.aside, k.rival, k.digest FROM (
    SELECT key FROM tide_replica_clocks WHERE table_id = :table
    UNION SELECT key FROM tide_replica_conflicts WHERE table_id = :table
    UNION SELECT key FROM tide_replica_known WHERE table_id = :table
    ORDER BY 1
) r LEFT JOIN tide_replica_clocks k ON k.table_id = :table AND k.key = r.key;

-- template: snapshot_conflicts
SELECT col, time, node, value, found_at FROM tide_replica_conflicts WHERE table_id = :table AND key = :key ORDER BY col, time, node;

-- template: snapshot_knowledge
SELECT col, time, node, added FROM tide_replica_known WHERE table_id = :table AND key = :key ORDER BY col, time, node;

-- template: snapshot_any_conflict
SELECT EXISTS (SELECT 1 FROM tide_replica_conflicts) OR EXISTS (SELECT 1 FROM tide_replica_known);

-- template: snapshot_any_clock
SELECT EXISTS (SELECT 1 FROM tide_replica_clocks);

-- template: snapshot_conflict_put
INSERT OR IGNORE INTO tide_replica_conflicts (table_id, key, col, time, node, value, found_at)
VALUES (:table, :key, :col, :time, :node, :value, :found_at);

-- template: snapshot_conflict_cut
DELETE FROM tide_replica_conflicts WHERE table_id = :table AND key = :key AND col = :col AND time = :time AND node = :node;

-- template: snapshot_outlived_cut
DELETE FROM tide_replica_conflicts WHERE table_id = :table AND key = :key AND col = -1;

-- template: snapshot_clock_cut
DELETE FROM tide_replica_clocks WHERE table_id = :table AND key = :key;

-- template: snapshot_keys_between
-- Rows that are here and not in the snapshot.
SELECT key FROM tide_replica_clocks WHERE table_id = :table AND key > :after AND key < :until ORDER BY key LIMIT :limit;

-- template: snapshot_keys_behind
-- ... behind its last row.
SELECT key FROM tide_replica_clocks WHERE table_id = :table AND key > :after ORDER BY key LIMIT :limit;

-- template: snapshot_events_above
-- Only what was merged: a batch whose rest is missing, or an event that waits, has replaced nothing yet, and may never do.
SELECT body FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND seq > :after AND processed = 1 ORDER BY seq;

-- template: snapshot_quarantine_put
INSERT OR IGNORE INTO tide_replica_quarantine (origin, epoch, seq, reason, detail, found_at)
VALUES (:origin, :epoch, :seq, :reason, :detail, :found_at);

-- template: snapshot_is_processed
SELECT processed FROM tide_replica_events WHERE origin = :origin AND epoch = :epoch AND seq = :seq;

-- template: snapshot_spooled_done
-- Events of batches that waited for their rest.
UPDATE tide_replica_events SET processed = 1
WHERE origin = :origin AND epoch = :epoch AND seq <= :cut AND processed = 0
    AND cut_seq IN (SELECT cut_seq FROM tide_replica_spool WHERE origin = :origin AND epoch = :epoch)
    AND NOT EXISTS (SELECT 1 FROM tide_replica_quarantine q
        WHERE q.origin = :origin AND q.epoch = :epoch AND q.seq = tide_replica_events.seq);

-- template: snapshot_spool_cut
DELETE FROM tide_replica_spool WHERE origin = :origin AND epoch = :epoch AND cut_seq <= :cut;

-- template: snapshot_put
INSERT OR REPLACE INTO tide_replica_snapshots (snapshot_id, created_at, path, bytes, digest, per_origin_seq_cut, tables, verified)
VALUES (:id, :created_at, :path, :bytes, :digest, :cut, :tables, :verified);

-- template: snapshot_list
SELECT snapshot_id, created_at, path, bytes, digest, per_origin_seq_cut, tables, verified
FROM tide_replica_snapshots ORDER BY created_at, snapshot_id;

-- template: snapshot_cut
DELETE FROM tide_replica_snapshots WHERE snapshot_id = :id;
