-- What peers tell each other about tables (replica/peer.c).

-- template: peer_table_sql
-- How a table is created: itself, then its indexes. Those that a constraint brings have no text.
SELECT sql FROM sqlite_schema WHERE tbl_name = :name AND type IN ('table', 'index') AND sql IS NOT NULL
ORDER BY type DESC, name;

-- template: peer_table_stands
SELECT sql FROM sqlite_schema WHERE name = :name COLLATE NOCASE AND type IN ('table', 'view', 'index');

-- template: peer_created
-- Did the statement create exactly this, and nothing with another text?
SELECT count(*) FROM sqlite_schema WHERE sql = :sql AND tbl_name = :table AND type = :type;

-- template: peer_list
SELECT p.peer, p.name, p.seen_at, p.expires_at, (SELECT value FROM tide_replica_state WHERE key = 'unlike/' || hex(p.peer))
FROM tide_replica_peers p ORDER BY p.peer;

-- template: peer_unlike_get
SELECT value FROM tide_replica_state WHERE key = 'unlike/' || hex(:peer);

-- template: peer_unlike_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('unlike/' || hex(:peer), :unlike);

-- template: peer_unlike_cut
DELETE FROM tide_replica_state WHERE key = 'unlike/' || hex(:peer);

-- template: peer_mark_list
SELECT origin, epoch, mark FROM tide_replica_peer_marks WHERE peer = :peer ORDER BY origin, epoch;

-- template: peer_table_events
-- Events of one table and one log above a number.
SELECT seq, id, operation_type, record_id, data, timestamp, processed, body, value_digest FROM tide_replica_events
WHERE table_name = :table AND origin = :origin AND epoch = :epoch AND seq > :after AND timestamp > :since
ORDER BY seq LIMIT :limit;

-- template: peer_cursor_list
SELECT table_name, origin, epoch, cursor FROM tide_replica_cursors ORDER BY table_name, origin, epoch;

-- template: self_stamp
SELECT stamp FROM tide_replica_events WHERE origin = :origin AND epoch = :epoch AND seq = :seq;

-- template: self_knows_peer
SELECT 1 FROM tide_replica_peers WHERE peer = :peer;

-- template: self_repaired_get
SELECT 1 FROM tide_replica_state WHERE key = :key;

-- template: self_repaired_put
INSERT OR IGNORE INTO tide_replica_state (key, value) VALUES (:key, 1);

-- template: self_repaired_cut
DELETE FROM tide_replica_state WHERE key = :key;

-- template: changes_of_table
-- Events of a table under all its names, in the order of their arrival.
SELECT rowid, id, table_name, operation_type, record_id, data, timestamp, origin, epoch, seq, processed, value_digest
FROM tide_replica_events
WHERE rowid > :after AND table_name IN (
    SELECT name FROM tide_replica_tables WHERE id = :table_id
    UNION ALL SELECT name FROM tide_replica_names WHERE table_id = :table_id)
ORDER BY rowid LIMIT :limit;

-- template: changes_of_peers
-- Merged events of other nodes: those behind a position, and those that waited.
SELECT rowid, id, table_name, operation_type, record_id, data, timestamp, origin, epoch, seq, processed, value_digest
FROM tide_replica_events
WHERE (rowid > :after AND rowid <= :through OR rowid IN (SELECT value FROM json_each(:waiting)))
    AND origin <> :node AND epoch > 0 AND processed
ORDER BY rowid;

-- template: changes_waiting
-- Positions of events that are not merged yet, as a JSON array, their number and the lowest.
SELECT json_group_array(rowid), count(*), min(rowid) FROM (
    SELECT rowid FROM tide_replica_events
    WHERE (rowid > :after AND rowid <= :through OR rowid IN (SELECT value FROM json_each(:waiting)))
        AND origin <> :node AND epoch > 0 AND NOT processed);

-- template: changes_last
SELECT coalesce(max(rowid), 0) FROM tide_replica_events;

-- template: changes_table
-- A table by its name, or by one that it had before.
SELECT id FROM tide_replica_tables WHERE name = :table COLLATE NOCASE
UNION ALL SELECT table_id FROM tide_replica_names WHERE name = :table COLLATE NOCASE LIMIT 1;

-- template: changes_seq_at
-- How far a log had come when the event at a position arrived.
SELECT coalesce(max(seq), 0) FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND rowid <= :through;

-- template: status_numbers
-- Floor of the own log; own events that no peer has acknowledged; orphans by references that hold nothing back.
SELECT o.floor,
    (SELECT count(*) FROM tide_replica_events e WHERE e.origin = :node AND e.epoch = :epoch AND e.seq > coalesce(
        (SELECT max(m.mark) FROM tide_replica_peer_marks m WHERE m.origin = :node AND m.epoch = :epoch), 0)),
    (SELECT count(*) FROM tide_replica_tables t, pragma_foreign_key_check(t.name)
     WHERE t.is_tracked AND t.id IN (SELECT table_id FROM tide_replica_loose)
         AND t.name IN (SELECT name FROM sqlite_master WHERE type = 'table'))
FROM tide_replica_origins o WHERE o.origin = :node AND o.epoch = :epoch
UNION ALL SELECT 0, 0, 0 LIMIT 1;

-- template: status_waiting
-- Events that are here and in no table: in quarantine, or for the rest of their transaction.
SELECT q.origin, q.reason, count(*), coalesce(max(CASE q.reason WHEN 'drift' THEN e.timestamp * 1000 - :drift END), 0)
FROM tide_replica_quarantine q LEFT JOIN tide_replica_events e USING (origin, epoch, seq)
GROUP BY q.origin, q.reason
UNION ALL
SELECT s.origin, 'batch', count(*), 0 FROM tide_replica_spool s JOIN tide_replica_events e USING (origin, epoch, cut_seq)
GROUP BY s.origin
ORDER BY 1, 2;

-- template: status_divergence_put
-- Tables that differ from a peer's, as a JSON array.
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('differs/' || :peer, :tables);

-- template: status_divergence
SELECT substr(s.key, 9), j.value FROM tide_replica_state s, json_each(s.value) j
WHERE s.key >= 'differs/' AND s.key < 'differs0' ORDER BY 1, 2;
