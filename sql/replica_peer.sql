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
SELECT seq, id, operation_type, record_id, data, timestamp, processed, body FROM tide_replica_events
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
