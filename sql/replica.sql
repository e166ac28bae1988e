-- Fixed statements of replica/node.c, table.c and capture.c. Those of folding and applying: replica_apply.sql.

-- template: replica_taken_names
-- Tables and views of the application that have names which we need.
SELECT name FROM sqlite_master
WHERE name LIKE 'tide\_replica\_%' ESCAPE '\' OR name LIKE 'tide\_log\_%' ESCAPE '\' OR name LIKE 'tide\_gone\_%' ESCAPE '\' OR name LIKE 'tide\_wide\_%' ESCAPE '\'
ORDER BY name LIMIT 1;

-- template: replica_check_meta
-- Prepared to see whether tables of the replication document's names have its columns.
SELECT m.key, m.value, c.table_name, c.origin_node_id, c.origin_seq
FROM replication_meta m, replication_checkpoints c LIMIT 0;

-- template: replica_meta_put
INSERT OR REPLACE INTO replication_meta (key, value) VALUES (:key, :value);

-- template: replica_seq_last
SELECT max(seq) FROM tide_replica_seq;

-- template: replica_seq_add
INSERT INTO tide_replica_seq (t, at) VALUES (:table_id, :at);

-- template: replica_seq_raise
INSERT INTO tide_replica_seq (seq, t) VALUES (:seq, 0);

-- template: replica_seq_cut
-- The newest row stays: it is the counter.
DELETE FROM tide_replica_seq
WHERE seq <= :through AND seq < (SELECT max(seq) FROM tide_replica_seq);

-- template: replica_seq_clear
-- All of them, which is quick; the counter is put back (replica_seq_raise).
DELETE FROM tide_replica_seq;

-- template: replica_seq_columns
SELECT count(*) FROM pragma_table_info('tide_replica_seq') WHERE name LIKE 'c%';

-- template: replica_epoch_add
INSERT INTO tide_replica_epochs (node, epoch, started_at, reason, evidence)
VALUES (:node, :epoch, :started_at, :reason, :evidence);

-- template: replica_origin_add
INSERT INTO tide_replica_origins (origin, epoch, start, cursor) VALUES (:origin, :epoch, :start, :cursor);

-- template: replica_table_add
INSERT INTO tide_replica_tables (name, is_tracked, schema, retain_us) VALUES (:name, 0, 0, 0) RETURNING id;

-- template: replica_orphans
-- Rows that refer to nothing, of a tracked table and to a tracked table, one of which is :name.
SELECT f."table", f.parent, count(*)
FROM tide_replica_tables t, pragma_foreign_key_check(t.name) f, tide_replica_tables p
WHERE t.is_tracked AND p.is_tracked AND p.name = f.parent COLLATE NOCASE AND (t.name = :name COLLATE NOCASE OR p.name = :name COLLATE NOCASE)
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 1;

-- template: replica_table_is_tracked
SELECT count(*) FROM tide_replica_tables WHERE name = :name COLLATE NOCASE AND is_tracked;

-- template: replica_table_put
UPDATE tide_replica_tables
SET name = :name, is_tracked = :is_tracked, schema = :schema, retain_us = :retain_us WHERE id = :id;

-- template: replica_table_untrack
UPDATE tide_replica_tables SET is_tracked = 0 WHERE id = :id;

-- template: replica_table_ended
-- What was captured of it is folded yet.
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('ended/' || :id, 1);

-- template: replica_absent
-- Tables of which only the log can be read: dropped, or not tracked any more.
SELECT name FROM tide_replica_tables t
WHERE (is_tracked AND t.name NOT IN (SELECT name FROM sqlite_master WHERE type = 'table'))
   OR (NOT is_tracked AND EXISTS (SELECT 1 FROM tide_replica_state WHERE key = 'ended/' || t.id));

-- template: replica_absent_cut
DELETE FROM tide_replica_state WHERE key >= 'ended/' AND key < 'ended0';

-- template: replica_table_retrack
UPDATE tide_replica_tables SET is_tracked = 1, retain_us = :retain_us WHERE id = :id;

-- template: replica_clocks_cut
-- The table has another key: its rows are others.
DELETE FROM tide_replica_clocks WHERE table_id = :id AND :retain_us = 0;

-- template: replica_table_find
SELECT id, name, is_tracked, schema, retain_us FROM tide_replica_tables WHERE name = :name;

-- template: replica_table_list
-- Those that are there: the application may have dropped or renamed one since (check.c).
SELECT name FROM tide_replica_tables t
WHERE is_tracked AND t.name IN (SELECT name FROM sqlite_master WHERE type = 'table')
ORDER BY id;

-- template: replica_table_names
SELECT name FROM tide_replica_tables WHERE is_tracked ORDER BY id;

-- template: replica_look_state
-- Version of the schema, and whether something is noted for the next look at the file: to be scanned, told, imported.
SELECT schema_version, EXISTS (SELECT 1 FROM tide_replica_state WHERE key >= 'scan/' AND key < 'scan0')
    OR EXISTS (SELECT 1 FROM tide_replica_state WHERE key >= 'renamed/' AND key < 'renamed0')
    OR EXISTS (SELECT 1 FROM tide_replica_state WHERE key >= 'seed/' AND key < 'seed0')
FROM pragma_schema_version;

-- template: replica_has_schema
SELECT count(*) FROM sqlite_master WHERE name = 'tide_replica_tables';

-- template: replica_columns_cut
DELETE FROM tide_replica_columns WHERE table_id = :table_id;

-- template: replica_column_put
INSERT INTO tide_replica_columns (table_id, position, name, key_position, is_not_null, affinity, fallback)
VALUES (:table_id, :position, :name, :key_position, :is_not_null, :affinity, :fallback);

-- template: replica_columns
SELECT name, key_position, is_not_null, affinity, fallback FROM tide_replica_columns
WHERE table_id = :table_id ORDER BY position;

-- template: schema_find
SELECT type, name, sql FROM sqlite_master WHERE name = :name COLLATE NOCASE AND type IN ('table', 'view');

-- template: schema_kind
SELECT type, wr, strict FROM pragma_table_list(:name) WHERE schema = 'main';

-- template: schema_columns
-- hidden: 0 stored, 1 of a virtual table, 2 and 3 generated.
SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(:name) ORDER BY cid;

-- template: schema_uniques
SELECT i.name, i.origin, i.partial, s.sql FROM pragma_index_list(:name) i
LEFT JOIN sqlite_master s ON s.type = 'index' AND s.name = i.name
WHERE i."unique" ORDER BY i.origin = 'pk' DESC, i.name;

-- template: schema_terms
-- cid -2 is an expression, -1 the rowid.
SELECT cid, name, coll FROM pragma_index_xinfo(:name) WHERE key ORDER BY seqno;

-- template: schema_foreign
SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(:name) ORDER BY id, seq;

-- template: schema_hooks
SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE ORDER BY name;

-- template: hook_overtaken
-- SQLite fires the newest trigger first. One of the application's that is newer than ours may change the row again before its creation is logged,
-- and the log then has it the wrong way round.
SELECT EXISTS (
    SELECT 1 FROM sqlite_master a
    WHERE a.type = 'trigger' AND a.tbl_name = :name COLLATE NOCASE AND a.name NOT LIKE 'tide\_capture\_%' ESCAPE '\'
    AND a.rowid > (
        SELECT min(o.rowid) FROM sqlite_master o
        WHERE o.type = 'trigger' AND o.tbl_name = :name COLLATE NOCASE AND o.name LIKE 'tide\_capture\_%' ESCAPE '\'));

-- template: replica_clocks_of
SELECT key FROM tide_replica_clocks
WHERE table_id = :table_id AND key > :after AND gone IS NULL AND aside = 0 ORDER BY key LIMIT :limit;

-- template: replica_clock_find
SELECT gone IS NULL, aside, digest FROM tide_replica_clocks WHERE table_id = :table_id AND key = :key;

-- template: replica_scan_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('scan/' || :table_id, 1);

-- template: replica_scan_find
SELECT 1 FROM tide_replica_state WHERE key = 'scan/' || :table_id;

-- template: replica_scan_cut
DELETE FROM tide_replica_state WHERE key = 'scan/' || :table_id;

-- template: replica_seed_put
-- History of another implementation: shown, never served (epoch 0).
INSERT OR IGNORE INTO tide_replica_events
    (origin, epoch, seq, cut_seq, id, table_name, operation_type, record_id, data, timestamp, processed, stamp, body)
VALUES (:origin, 0, :seq, :seq, :id, :table_name, :operation_type, :record_id, :data, :timestamp, :processed, 0, x'');

-- template: replica_seed_origin
INSERT OR IGNORE INTO tide_replica_state (key, value) VALUES ('origin/' || hex(:origin), :name);

-- template: replica_seed_last
SELECT coalesce(max(seq), 0) FROM tide_replica_events WHERE origin = :origin AND epoch = 0;

-- template: seed_note
-- A table of another implementation that is to be imported; 'import/' has how far that is.
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('seed/' || :table_id, :renamed);

-- template: seed_place
SELECT s.value, i.value FROM tide_replica_state s
LEFT JOIN tide_replica_state i ON i.key = 'import/' || :table_id WHERE s.key = 'seed/' || :table_id;

-- template: seed_place_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('import/' || :table_id, :place);

-- template: seed_done
DELETE FROM tide_replica_state WHERE key IN ('seed/' || :table_id, 'import/' || :table_id) AND :place IS NOT 0;

-- template: hook_home
-- The table that a trigger of ours stands on: it follows a renamed table.
SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name = 'tide_capture_' || :table_id || '_insert';

-- template: hook_text
SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name AND tbl_name = :table_name COLLATE NOCASE;

-- template: reshape_clocks
SELECT key, clock, image, digest FROM tide_replica_clocks WHERE table_id = :table_id AND key > :after ORDER BY key LIMIT :limit;

-- template: reshape_clock_put
UPDATE tide_replica_clocks SET clock = :clock, image = :image, digest = :digest, gone = :gone WHERE table_id = :table_id AND key = :key;

-- template: reshape_conflicts_lift
UPDATE tide_replica_conflicts SET col = -1000 - col WHERE table_id = :table_id AND col >= 0 AND :col = 0 AND :to >= -1;

-- template: reshape_conflicts_set
UPDATE tide_replica_conflicts SET col = :to WHERE table_id = :table_id AND col = -1000 - :col;

-- template: reshape_conflicts_cut
DELETE FROM tide_replica_conflicts WHERE table_id = :table_id AND col = -1000 - :col AND :to < 0;

-- template: reshape_known_lift
UPDATE tide_replica_known SET col = -1000 - col WHERE table_id = :table_id AND col >= 0 AND :col = 0 AND :to >= -1;

-- template: reshape_known_set
UPDATE tide_replica_known SET col = :to WHERE table_id = :table_id AND col = -1000 - :col;

-- template: reshape_known_cut
DELETE FROM tide_replica_known WHERE table_id = :table_id AND col = -1000 - :col AND :to < 0;
