-- Fixed statements of folding, applying, the log, conflicts, quarantine and collection (replica/desk.c, log.c, ...). Tables: replica_schema.sql.

-- template: apply_hybrid_get
SELECT value FROM tide_replica_state WHERE key = 'hybrid';

-- template: apply_hybrid_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('hybrid', :last);

-- template: apply_fold_cut_get
SELECT value FROM tide_replica_state WHERE key = 'fold_cut';

-- template: apply_fold_cut_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('fold_cut', :cut);

-- template: rivals_begin
SAVEPOINT tide_rivals;

-- template: rivals_undo
ROLLBACK TO tide_rivals;
RELEASE tide_rivals;

-- template: apply_refer_want
-- A table was scanned, so it may not have been captured for a while: rows that refer to nothing are looked for once all is folded.
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('refer', :table_id);

-- template: apply_refer_release
-- Rows that are kept out are looked at once all is folded.
INSERT OR IGNORE INTO tide_replica_state (key, value) VALUES ('refer', NULL);

-- template: apply_refer_scanned
SELECT EXISTS (SELECT 1 FROM tide_replica_state WHERE key = 'refer' AND value IS NOT NULL)
    OR EXISTS (SELECT 1 FROM tide_replica_state WHERE key >= 'scan/' AND key < 'scan0');

-- template: apply_refer_wanted
SELECT EXISTS (SELECT 1 FROM tide_replica_state WHERE key = 'refer');

-- template: apply_refer_cut
DELETE FROM tide_replica_state WHERE key = 'refer';

-- template: apply_clock_get
SELECT clock, image, aside, rival, digest FROM tide_replica_clocks WHERE table_id = :table AND key = :key;

-- template: apply_clock_put
-- Not REPLACE: that takes the row out of its tree and puts it back.
INSERT INTO tide_replica_clocks (table_id, key, clock, image, digest, aside, rival, gone)
VALUES (:table, :key, :clock, :image, :digest, :aside, :rival, :gone)
ON CONFLICT (table_id, key) DO UPDATE SET clock = excluded.clock, image = excluded.image, digest = excluded.digest,
    aside = excluded.aside, rival = excluded.rival, gone = excluded.gone;

-- template: apply_clock_any_aside
SELECT 1 FROM tide_replica_clocks INDEXED BY tide_replica_clocks_aside WHERE aside > 0 LIMIT 1;

-- template: apply_clock_kept_out
-- The index is named: without statistics SQLite would rather walk all rows of the table.
SELECT key FROM tide_replica_clocks INDEXED BY tide_replica_clocks_aside WHERE table_id = :table AND rival = :rival AND aside > 0;

-- template: apply_clock_aside
SELECT key FROM tide_replica_clocks INDEXED BY tide_replica_clocks_aside WHERE table_id = :table AND aside > 0;

-- template: apply_clock_waiting
-- Those aside for a foreign key have no rival; nor have those of a CHECK.
SELECT key FROM tide_replica_clocks INDEXED BY tide_replica_clocks_aside WHERE table_id = :table AND rival IS NULL AND aside > 0 AND aside = 3;

-- template: apply_known_put
INSERT OR IGNORE INTO tide_replica_known (table_id, key, col, time, node, added) VALUES (:table, :key, :col, :time, :node, :now);

-- template: apply_known_find
-- -2 stands for every column.
SELECT 1 FROM tide_replica_known
WHERE table_id = :table AND key = :key AND (col = :col OR (col = -2 AND :col >= 0)) AND time = :time AND node = :node LIMIT 1;

-- template: apply_conflict_put
INSERT OR IGNORE INTO tide_replica_conflicts (table_id, key, col, time, node, value, found_at)
VALUES (:table, :key, :col, :time, :node, :value, :now);

-- template: apply_conflict_delete
DELETE FROM tide_replica_conflicts
WHERE table_id = :table AND key = :key AND (col = :col OR (:col = -2 AND col >= 0)) AND time = :time AND node = :node;

-- template: apply_conflict_list
-- Writes that were lost unseen, then rows that a constraint keeps out of their tables.
SELECT t.name, c.key, c.col, c.time, c.node, c.value, 0 AS aside, c.found_at
FROM tide_replica_conflicts c JOIN tide_replica_tables t ON t.id = c.table_id
UNION ALL
SELECT t.name, k.key, -3, 0, NULL, k.image, k.aside, 0
FROM tide_replica_clocks k JOIN tide_replica_tables t ON t.id = k.table_id WHERE k.aside > 0
ORDER BY 1, 2, 4, 5, 3;

-- template: apply_conflict_counts
SELECT (SELECT count(*) FROM tide_replica_conflicts), (SELECT count(*) FROM tide_replica_clocks WHERE aside > 0),
    (SELECT count(*) FROM tide_replica_quarantine), (SELECT count(*) FROM tide_replica_quarantine WHERE reason = 'drift');

-- template: apply_quarantine_counts
SELECT count(*), count(*) FILTER (WHERE reason = 'drift') FROM tide_replica_quarantine;

-- template: apply_origin_get
SELECT start, floor, cursor FROM tide_replica_origins WHERE origin = :origin AND epoch = :epoch;

-- template: apply_origin_put
INSERT OR REPLACE INTO tide_replica_origins (origin, epoch, start, floor, cursor)
VALUES (:origin, :epoch, :start, :floor, :cursor);

-- template: apply_origin_list
SELECT origin, epoch, start, floor, cursor FROM tide_replica_origins ORDER BY origin, epoch;

-- template: apply_cursor_get
SELECT cursor, last_seq FROM tide_replica_cursors WHERE table_name = :table AND origin = :origin AND epoch = :epoch;

-- template: apply_cursor_put
INSERT OR REPLACE INTO tide_replica_cursors (table_name, origin, epoch, cursor, last_seq)
VALUES (:table, :origin, :epoch, :cursor, :last);

-- template: apply_checkpoint_put
-- The replication document's key has no epoch: the newest one stands there.
INSERT OR REPLACE INTO replication_checkpoints (table_name, origin_node_id, origin_seq)
SELECT :table, :node, :seq
WHERE NOT EXISTS (SELECT 1 FROM tide_replica_origins WHERE origin = :origin AND epoch > :epoch);

-- template: apply_meta_put
INSERT OR REPLACE INTO replication_meta (key, value) VALUES (:key, CAST(:value AS TEXT));

-- template: apply_event_put
INSERT OR IGNORE INTO tide_replica_events (origin, epoch, seq, cut_seq, id, table_name, operation_type, record_id, data,
    timestamp, processed, stamp, body, value_digest)
VALUES (:origin, :epoch, :seq, :cut, :id, :table, :operation, :record, :data, :timestamp, :processed, :stamp, :body, :digest);

-- template: apply_event_of_stamp
SELECT body FROM tide_replica_events WHERE timestamp = :timestamp AND stamp = :stamp AND origin = :origin AND epoch > 0 LIMIT 1;

-- template: apply_event_processed
UPDATE tide_replica_events SET processed = 1, data = coalesce(data, :data),
    value_digest = CASE WHEN data IS NULL THEN (value_digest | :digest) - (value_digest & :digest) ELSE value_digest END
WHERE origin = :origin AND epoch = :epoch AND seq = :seq;

-- template: apply_event_without_data
SELECT body FROM tide_replica_events
WHERE (origin, epoch, seq) > (:origin, :epoch, :seq) AND epoch > 0 AND processed = 1 AND data IS NULL
ORDER BY origin, epoch, seq LIMIT 1;

-- template: apply_event_data_put
UPDATE tide_replica_events SET data = :data, value_digest = (value_digest | :digest) - (value_digest & :digest)
WHERE origin = :origin AND epoch = :epoch AND seq = :seq AND data IS NULL;

-- template: apply_waiting_without_data
-- By the index of what waits.
SELECT stamp, rowid, body FROM tide_replica_events
WHERE processed = 0 AND epoch > 0 AND (stamp, rowid) > (:stamp, :row) AND data IS NULL ORDER BY stamp, rowid LIMIT 1;

-- template: apply_told_behind
-- Other schemas are known than when the data of waiting events was looked at last.
SELECT (SELECT value FROM tide_replica_state WHERE key = 'schemas') IS NOT (SELECT value FROM tide_replica_state WHERE key = 'told');

-- template: apply_told_put
INSERT OR REPLACE INTO tide_replica_state (key, value) SELECT 'told', value FROM tide_replica_state WHERE key = 'schemas';

-- template: apply_event_sizes
SELECT seq, cut_seq, length(body) FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND seq > :after AND seq <= :through ORDER BY seq;

-- template: apply_event_bodies
SELECT seq, cut_seq, body FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND seq > :after AND seq <= :through ORDER BY seq;

-- template: apply_quarantine_put
INSERT INTO tide_replica_quarantine (origin, epoch, seq, reason, detail, found_at, tried)
VALUES (:origin, :epoch, :seq, :reason, :detail, :now, :tried)
ON CONFLICT (origin, epoch, seq) DO UPDATE SET reason = excluded.reason, detail = excluded.detail, tried = excluded.tried;

-- template: apply_quarantine_delete
DELETE FROM tide_replica_quarantine WHERE origin = :origin AND epoch = :epoch AND seq = :seq;

-- template: apply_quarantine_bodies
-- What may have become possible: the clock has come nearer, or other tables and schemas are known than when it was tried.
SELECT e.body FROM tide_replica_quarantine q
JOIN tide_replica_events e ON e.origin = q.origin AND e.epoch = q.epoch AND e.seq = q.seq
WHERE (q.reason = 'drift' AND e.stamp <= :horizon)
   OR (q.reason NOT IN ('drift', 'size', 'null') AND q.tried < :counter)
ORDER BY q.origin, q.epoch, q.seq LIMIT :limit;

-- template: apply_quarantine_has_size
SELECT EXISTS (SELECT 1 FROM tide_replica_quarantine WHERE reason = 'size');

-- template: apply_quarantine_end_size
-- The row's value was replaced by one that fits, or the row is gone; details begin with the column's name.
DELETE FROM tide_replica_quarantine
WHERE reason = 'size' AND origin = :origin AND (:column IS NULL OR substr(detail, 1, length(:column) + 2) = :column || ': ')
    AND (epoch, seq) IN (SELECT o.epoch, o.seq FROM tide_replica_events o
        JOIN tide_replica_events n ON n.table_name = o.table_name AND n.record_id = o.record_id
        WHERE o.origin = :origin AND n.origin = :origin AND n.epoch = :epoch AND n.seq = :seq AND (o.epoch, o.seq) <> (n.epoch, n.seq));

-- template: apply_quarantine_end_null
-- Rows without a key cannot be told apart: the oldest stands for the one. Details begin with the table's name.
DELETE FROM tide_replica_quarantine WHERE (origin, epoch, seq) IN (
    SELECT origin, epoch, seq FROM tide_replica_quarantine
    WHERE reason = 'null' AND substr(detail, 1, length(:table) + 2) = :table || ': ' ORDER BY epoch, seq LIMIT 1);

-- template: apply_quarantine_any
SELECT EXISTS (SELECT 1 FROM tide_replica_quarantine);

-- template: apply_quarantine_list
SELECT q.origin, q.epoch, q.seq, e.table_name, e.record_id, q.reason, q.detail, q.found_at
FROM tide_replica_quarantine q
LEFT JOIN tide_replica_events e ON e.origin = q.origin AND e.epoch = q.epoch AND e.seq = q.seq
ORDER BY q.origin, q.epoch, q.seq LIMIT :limit;

-- template: apply_peer_put
INSERT OR REPLACE INTO tide_replica_peers (peer, name, seen_at, expires_at) VALUES (:peer, :name, :now, :expires);

-- template: apply_peer_marks_cut
DELETE FROM tide_replica_peer_marks WHERE peer = :peer;

-- template: apply_peer_mark_put
INSERT OR REPLACE INTO tide_replica_peer_marks (peer, origin, epoch, mark) VALUES (:peer, :origin, :epoch, :mark);

-- template: apply_peer_expire
DELETE FROM tide_replica_peers WHERE expires_at <= :now;

-- template: apply_peer_marks_expire
DELETE FROM tide_replica_peer_marks WHERE peer NOT IN (SELECT peer FROM tide_replica_peers);

-- template: apply_least_mark
-- What every live peer has of an origin's epoch; NULL: there are no peers. The origin itself has all of its own, unless it says otherwise: one that
-- was put back gets its old events from us.
SELECT min(coalesce((SELECT m.mark FROM tide_replica_peer_marks m
    WHERE m.peer = p.peer AND m.origin = :origin AND m.epoch = :epoch), CASE WHEN p.peer = :origin THEN 9223372036854775807 ELSE 0 END))
FROM tide_replica_peers p;

-- template: apply_greatest_mark
SELECT max(mark) FROM tide_replica_peer_marks WHERE origin = :origin AND epoch = :epoch;

-- template: apply_unknown_marks
-- Peers have origins of which nothing is here.
SELECT 1 FROM tide_replica_peer_marks m
WHERE m.mark > 0 AND NOT EXISTS (SELECT 1 FROM tide_replica_origins o WHERE o.origin = m.origin AND o.epoch = m.epoch) LIMIT 1;

-- template: apply_gc_bound
-- The first event of an origin's epoch that has to stay.
SELECT min(e.seq) FROM (
    SELECT seq, table_name, timestamp, processed FROM tide_replica_events
    WHERE origin = :origin AND epoch = :epoch AND seq > :floor ORDER BY seq LIMIT :limit + 1
) e LEFT JOIN tide_replica_tables t ON t.name = e.table_name
WHERE e.seq > :mark OR e.processed = 0 OR e.timestamp > (:now - coalesce(t.retain_us, :retain)) / 1000;

-- template: apply_gc_last
SELECT max(seq) FROM (SELECT seq FROM tide_replica_events
    WHERE origin = :origin AND epoch = :epoch AND seq > :floor ORDER BY seq LIMIT :limit);

-- template: apply_gc_events
-- Those that wait stay: a snapshot may have brought some that lie below its cut.
DELETE FROM tide_replica_events WHERE origin = :origin AND epoch = :epoch AND seq <= :through AND processed <> 0;

-- template: apply_gc_first_stamp
-- Of what a peer may not have yet.
SELECT stamp FROM tide_replica_events WHERE origin = :origin AND epoch = :epoch AND seq > :mark ORDER BY seq LIMIT 1;

-- template: apply_gc_newest
-- The newest deletion that was ever forgotten here (replica/again.h); apply_gc_clocks does it.
INSERT OR REPLACE INTO tide_replica_state (key, value)
SELECT 'forgotten', m FROM (SELECT max(v) AS m FROM (
    SELECT value AS v FROM tide_replica_state WHERE key = 'forgotten'
    UNION ALL
    SELECT gone FROM (
        SELECT k.gone FROM tide_replica_clocks k LEFT JOIN tide_replica_tables t ON t.id = k.table_id
        WHERE k.gone IS NOT NULL AND k.gone < :horizon AND (k.gone >> 16) <= (:now - coalesce(t.retain_us, :retain)) / 1000
        ORDER BY k.gone LIMIT :limit)))
WHERE m IS NOT NULL;

-- template: again_late_put
INSERT OR REPLACE INTO tide_replica_state (key, value) SELECT :key, value FROM tide_replica_state WHERE key = 'forgotten';

-- template: again_late_get
SELECT value FROM tide_replica_state WHERE key = :key;

-- template: apply_gc_clocks
DELETE FROM tide_replica_clocks WHERE (table_id, key) IN (
    SELECT k.table_id, k.key FROM tide_replica_clocks k LEFT JOIN tide_replica_tables t ON t.id = k.table_id
    WHERE k.gone IS NOT NULL AND k.gone < :horizon AND (k.gone >> 16) <= (:now - coalesce(t.retain_us, :retain)) / 1000
    ORDER BY k.gone LIMIT :limit);

-- template: apply_gc_known
DELETE FROM tide_replica_known WHERE (table_id, key, col, time, node) IN (
    SELECT table_id, key, col, time, node FROM tide_replica_known WHERE time < :horizon LIMIT :limit);

-- template: stamped_spans
-- The numbers that the logs of an origin have, the newest first. Imported history (epoch 0) has no stamps.
SELECT epoch, (SELECT min(e.seq) FROM tide_replica_events e WHERE e.origin = o.origin AND e.epoch = o.epoch),
    (SELECT max(e.seq) FROM tide_replica_events e WHERE e.origin = o.origin AND e.epoch = o.epoch)
FROM tide_replica_origins o
WHERE origin = :origin AND epoch > 0 AND EXISTS (SELECT 1 FROM tide_replica_events e WHERE e.origin = o.origin AND e.epoch = o.epoch)
ORDER BY epoch DESC;

-- template: stamped_from
SELECT seq, stamp, processed, body FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND seq >= :from ORDER BY seq LIMIT 1;

-- template: reference_list
SELECT table_id, columns FROM tide_replica_loose;

-- template: reference_of_table
SELECT columns FROM tide_replica_loose WHERE table_id = :table_id;

-- template: reference_put
INSERT OR IGNORE INTO tide_replica_loose (table_id, columns, key) VALUES (:table_id, :columns, :key);

-- template: reference_unreported
SELECT table_id, columns, key FROM tide_replica_loose WHERE key IS NOT NULL LIMIT 1;

-- template: reference_reported
UPDATE tide_replica_loose SET key = NULL WHERE table_id = :table_id AND columns = :columns;

-- template: reference_rename
UPDATE OR REPLACE tide_replica_loose SET columns = :renamed WHERE table_id = :table_id AND columns = :columns;
