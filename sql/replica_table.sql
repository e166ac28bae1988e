-- Statements made for a table of an application (replica/table.h). {{table}} is its name; the lists are its stored columns, its key, its unique
-- keys. Rows without a key (nullable) are nobody's but their node's. ?1 to ?64 are key values in the key's order, ?65 and on the stored columns (hole p).

-- template: table_row_get
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
WHERE {{each key AND}}{{name}} = ?{{n}}{{if wide}} AND {{name}} IS ?{{n}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}{{end}};

-- template: table_row_put
-- ABORT: what a table would replace or ignore by itself is decided by stamps.
INSERT OR ABORT INTO {{table}} ({{each some ,}}{{name}}{{end}}) VALUES ({{each some ,}}?{{p}}{{end}});

-- template: table_row_set
UPDATE OR ABORT {{table}} SET {{each some ,}}{{name}} = ?{{p}}{{end}}
WHERE {{each key AND}}{{name}} = ?{{n}}{{if wide}} AND {{name}} IS ?{{n}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}{{end}};

-- template: table_row_delete
DELETE FROM {{table}}
WHERE {{each key AND}}{{name}} = ?{{n}}{{if wide}} AND {{name}} IS ?{{n}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}{{end}};

-- template: table_row_walk
-- By the collation of the key, which may be another than the column's: two rows that the column takes for equal are two.
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}{{if nullable}} WHERE {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}} ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: table_row_walk_from
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
WHERE ({{each key ,}}{{name}}{{end}}) > ({{each key ,}}?{{n}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}} ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: table_row_walk_added
-- Rows that have something else than its default in a column that was added.
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}} WHERE ({{each some OR}}{{name}} IS NOT ({{sql}}){{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: table_row_added
-- Which columns of one row have something else than their defaults?
SELECT {{each some ,}}{{name}} IS NOT ({{sql}}){{end}} FROM {{table}}
WHERE {{each key AND}}{{name}} = ?{{n}}{{if wide}} AND {{name}} IS ?{{n}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}{{end}};

-- template: table_defaults
-- What a row has in columns that nobody names. Texts become numbers where their columns make them so: tried, and seen whether they mean the same.
SELECT {{each columns ,}}{{if number}}CASE WHEN typeof({{sql}}) = 'text' AND CAST({{sql}} AS NUMERIC) = ({{sql}}) + 0 AND CAST(CAST({{sql}} AS NUMERIC) AS TEXT) = ({{sql}}) THEN CAST({{sql}} AS NUMERIC) ELSE ({{sql}}) END{{end}}{{if !number}}{{if text}}CASE WHEN typeof({{sql}}) IN ('integer', 'real') THEN CAST({{sql}} AS TEXT) ELSE ({{sql}}) END{{end}}{{if !text}}({{sql}}){{end}}{{end}}{{end}};

-- template: table_row_force
-- Undone again: see what unique keys make of the row (resolve.c).
INSERT OR REPLACE INTO {{table}} ({{each some ,}}{{name}}{{end}}) VALUES ({{each some ,}}?{{p}}{{end}});

-- template: table_row_terms
-- For each unique key: is the row in it, and by which values?
SELECT {{each uniques ,}}{{if partial}}(({{sql}}) IS TRUE){{end}}{{if whole}}1{{end}}, {{each terms ,}}{{if plain}}{{name}}{{end}}{{if made}}({{sql}}){{end}}{{end}}{{end}} FROM {{table}}
WHERE {{each key AND}}{{name}} = ?{{n}}{{if wide}} AND {{name}} IS ?{{n}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}{{end}};

-- template: table_row_rivals
-- Rows with another key that have one of these values of unique keys.
{{each uniques UNION}}SELECT {{each key ,}}{{name}}{{end}} FROM {{table}}
WHERE ?{{p}} AND {{each terms AND}}{{if plain}}{{name}} = ?{{p}} COLLATE {{sql}}{{end}}{{if made}}({{sql}}) = ?{{p}}{{end}}{{end}}{{if partial}} AND ({{sql}}){{end}}
AND NOT ({{each key AND}}({{name}} IS ?{{n}} COLLATE BINARY{{if loose}} AND typeof({{name}}) = typeof(?{{n}}){{end}}){{end}}){{end}};

-- template: table_foreign_parent
SELECT 1 FROM {{parent}} WHERE {{each pairs AND}}{{name}} = ?{{p}}{{end}} LIMIT 1;

-- template: table_foreign_children
SELECT {{each key ,}}{{name}}{{end}} FROM {{table}} WHERE {{each pairs AND}}{{name}} = ?{{p}}{{end}};

-- template: table_foreign_orphans
-- Rows that refer to something, and it is not there.
SELECT {{each key ,}}{{name}}{{end}} FROM {{table}} AS tide_child
WHERE {{each pairs AND}}{{name}} IS NOT NULL{{end}}
AND NOT EXISTS (SELECT 1 FROM {{parent}} AS tide_parent WHERE {{each pairs AND}}tide_parent.{{sql}} = tide_child.{{name}}{{end}});

-- template: table_count
SELECT count(*) FROM {{table}}{{if nullable}} WHERE {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: table_count_nameless
-- Rows without a key.
SELECT count(*) FROM {{table}} WHERE {{each key OR}}{{name}} IS NULL{{end}};

-- The log: one row per change. op 1 create (all columns), 2 update (those of the masks), 3 delete (all, as they were: a
-- concurrent write may bring the row back), 4 delete of which only the key is known (a scan found the row gone). Columns without a type keep a value as it is.

-- template: table_log_make
-- Changes of a narrow table stand in tide_replica_seq, beside their numbers: one insert. Those of a wide one (table.h) would make the rows of all
-- others wide, and have a table of their own. tide_log_<id> reads alike.
{{if narrow}}CREATE VIEW tide_log_{{id}} AS SELECT seq, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}}
FROM tide_replica_seq WHERE t = {{id}} AND op > 0;{{end}}{{if !narrow}}CREATE TABLE tide_wide_{{id}} (seq INTEGER PRIMARY KEY, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}});
CREATE VIEW tide_log_{{id}} AS SELECT seq, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}} FROM tide_wide_{{id}};{{end}}

-- template: table_log_widen
-- Columns that tide_replica_seq has not had to have yet.
{{each some ;}}ALTER TABLE tide_replica_seq ADD COLUMN c{{n}}{{end}};

-- template: table_gone_make
-- Rows that a REPLACE could have removed unseen: settled when the log is folded.
CREATE TABLE tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}});
CREATE INDEX tide_gone_{{id}}_key ON tide_gone_{{id}} ({{each keycolumns ,}}c{{n}}{{end}});

-- template: table_log_drop
DROP VIEW IF EXISTS tide_log_{{id}};
DROP TABLE IF EXISTS tide_wide_{{id}};
UPDATE tide_replica_seq SET op = NULL WHERE t = {{id}};
DROP TABLE IF EXISTS tide_gone_{{id}};

-- template: table_log_read
SELECT seq, op, (SELECT at FROM tide_replica_seq s WHERE s.seq = l.seq), {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}} FROM tide_log_{{id}} l
WHERE seq > :after AND seq <= :through ORDER BY seq;

-- template: table_log_first
SELECT min(seq) FROM tide_log_{{id}};

-- template: table_log_cut
{{if narrow}}UPDATE tide_replica_seq SET op = NULL WHERE t = {{id}} AND seq <= :through;{{end}}{{if !narrow}}DELETE FROM tide_wide_{{id}} WHERE seq <= :through;{{end}}

-- template: table_log_is_empty
SELECT NOT EXISTS (SELECT 1 FROM tide_log_{{id}}) AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}});

-- template: table_log_add
-- What a rescan found: ?2 the operation, ?64 the time; masks of 0 stand for "all".
{{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
VALUES ({{id}}, ?64, ?2, {{each masks ,}}?{{p}}{{end}}, {{each columns ,}}?{{p}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_wide_{{id}} (seq, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
VALUES (last_insert_rowid(), ?2, {{each masks ,}}?{{p}}{{end}}, {{each columns ,}}?{{p}}{{end}});{{end}}

-- template: table_log_put
{{if narrow}}INSERT OR REPLACE INTO tide_replica_seq (seq, t, at, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
VALUES (?1, {{id}}, ?64, ?2, {{each masks ,}}?{{p}}{{end}}, {{each columns ,}}?{{p}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_wide_{{id}} (seq, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
VALUES (?1, ?2, {{each masks ,}}?{{p}}{{end}}, {{each columns ,}}?{{p}}{{end}});{{end}}

-- template: table_gone_read
SELECT {{each columns ,}}c{{n}}{{end}} FROM tide_gone_{{id}};

-- template: table_gone_cut
DELETE FROM tide_gone_{{id}};

-- Triggers. They run in any program, with whatever SQLite it has: no functions but typeof,
-- last_insert_rowid and julianday, nothing newer than 3.8. They only append. The time of a write is part of it: it may be ingested days later.

-- template: hook_insert
CREATE TRIGGER tide_capture_{{id}}_insert AFTER INSERT ON {{table}} BEGIN
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 1, {{each columns ,}}NEW.{{name}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 1, {{each columns ,}}NEW.{{name}}{{end}});{{end}}
END

-- template: hook_delete
CREATE TRIGGER tide_capture_{{id}}_delete AFTER DELETE ON {{table}} BEGIN
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 3, {{each columns ,}}OLD.{{name}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 3, {{each columns ,}}OLD.{{name}}{{end}});{{end}}
END

-- template: hook_update
-- The key stays, a column changes. Values are compared bit by bit: no collation, and the class where a column has no type. Short values are
-- logged as they are, long ones only if they changed. What SQL cannot tell apart, or not cheaply, is logged always and looked at when the log is
-- folded: a zero in columns without a type (0.0 and -0.0), the lowest integer in columns of integers (it has a REAL that is equal and stays one).
-- A mask begins with the key's own bit: one of 0 stands for "all". Every register counts: SQLite makes room for all of them anew with each row.
CREATE TRIGGER tide_capture_{{id}}_update AFTER UPDATE ON {{table}}
WHEN {{each keycolumns AND}}(OLD.{{name}} IS NEW.{{name}} COLLATE BINARY{{if loose}} AND typeof(OLD.{{name}}) = typeof(NEW.{{name}}){{end}}){{end}}
AND ({{each changing OR}}({{each changes OR}}OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}) OR (NEW.{{name}} = 0 AND typeof(NEW.{{name}}) = 'real'){{end}}{{if edge}} OR (NEW.{{name}} = -9223372036854775808 AND typeof(OLD.{{name}}) <> typeof(NEW.{{name}})){{end}}{{if low}} OR NEW.{{name}} = -9223372036854775808{{end}}{{end}}){{end}})
BEGIN
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 2,{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each masks ,}}m{{n}}{{end}}, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 2,{{end}}
        {{each masks ,}}{{sql}}{{each changes}} | ((OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}) OR (NEW.{{name}} = 0 AND typeof(NEW.{{name}}) = 'real'){{end}}{{if edge}} OR (NEW.{{name}} = -9223372036854775808 AND typeof(OLD.{{name}}) <> typeof(NEW.{{name}})){{end}}) << {{bit}}){{end}}{{end}},
        {{each columns ,}}{{if short}}NEW.{{name}}{{end}}{{if !short}}CASE WHEN OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}) OR (NEW.{{name}} = 0 AND typeof(NEW.{{name}}) = 'real'){{end}}{{if edge}} OR (NEW.{{name}} = -9223372036854775808 AND typeof(OLD.{{name}}) <> typeof(NEW.{{name}})){{end}} THEN NEW.{{name}} END{{end}}{{end}});
END

-- template: hook_move
-- The key changes: the old row goes, another comes. A key that is the rowid can be set by any of its names; where it is none, these are nobody's.
CREATE TRIGGER tide_capture_{{id}}_move AFTER UPDATE OF {{each keycolumns ,}}{{name}}{{end}}, rowid, _rowid_, oid ON {{table}}
WHEN {{each keycolumns OR}}OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}){{end}}{{end}}
BEGIN
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 3, {{each columns ,}}OLD.{{name}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 3, {{each columns ,}}OLD.{{name}}{{end}});{{end}}
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 1, {{each columns ,}}NEW.{{name}}{{end}});{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 1, {{each columns ,}}NEW.{{name}}{{end}});{{end}}
END

-- template: hook_move_again
-- The same for a table with foreign keys. Their actions come before AFTER triggers: a row that refers to itself has a new reference by now (ON UPDATE CASCADE),
-- which was logged, and NEW has the old one. So the row that comes is read as it stands; where it does not stand any more, that was logged as well. (A row without a
-- key cannot be found, and nobody refers to it.)
CREATE TRIGGER tide_capture_{{id}}_move AFTER UPDATE OF {{each keycolumns ,}}{{name}}{{end}}, rowid, _rowid_, oid ON {{table}}
WHEN {{each keycolumns OR}}OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}){{end}}{{end}}
BEGIN
    {{if narrow}}INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    VALUES ({{id}}, julianday('now'), 3, {{each columns ,}}OLD.{{name}}{{end}});
    INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    SELECT {{id}}, julianday('now'), 1, {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE {{each key AND}}{{name}} = NEW.{{name}}{{if wide}} AND {{name}} IS NEW.{{name}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(NEW.{{name}}){{end}}{{end}};{{if nullable}}
    INSERT INTO tide_replica_seq (t, at, op, {{each columns ,}}c{{n}}{{end}})
    SELECT {{id}}, julianday('now'), 1, {{each columns ,}}NEW.{{name}}{{end}} WHERE {{each key OR}}NEW.{{name}} IS NULL{{end}};{{end}}{{end}}{{if !narrow}}INSERT INTO tide_replica_seq (t, at) VALUES ({{id}}, julianday('now'));
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    VALUES (last_insert_rowid(), 3, {{each columns ,}}OLD.{{name}}{{end}});
    INSERT INTO tide_replica_seq (t, at) SELECT {{id}}, julianday('now') FROM {{table}}
    WHERE {{each key AND}}{{name}} = NEW.{{name}}{{if wide}} AND {{name}} IS NEW.{{name}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(NEW.{{name}}){{end}}{{end}};
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    SELECT last_insert_rowid(), 1, {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE {{each key AND}}{{name}} = NEW.{{name}}{{if wide}} AND {{name}} IS NEW.{{name}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(NEW.{{name}}){{end}}{{end}};{{if nullable}}
    INSERT INTO tide_replica_seq (t, at) SELECT {{id}}, julianday('now') WHERE {{each key OR}}NEW.{{name}} IS NULL{{end}};
    INSERT INTO tide_wide_{{id}} (seq, op, {{each columns ,}}c{{n}}{{end}})
    SELECT last_insert_rowid(), 1, {{each columns ,}}NEW.{{name}}{{end}} WHERE {{each key OR}}NEW.{{name}} IS NULL{{end}};{{end}}{{end}}
END

-- template: hook_before_insert
-- (The key's own index is among them where equal keys may be two: a collation, 1 and 1.0.)
-- Rows that have a value of one of the new row's unique keys: REPLACE removes them unseen. Which of them are really gone is seen when the log is
-- folded: one that still stands was never replaced, or has come back, and then its creation was logged. Where NULL is not allowed, REPLACE puts the
-- default in its place, after triggers have seen it.
-- Keys that are not of stored columns alone have a statement each: SQLite finds no index of theirs below an OR.
-- Where the rowid is the only such key, rows that are given none (SQLite shows -1) pass without a look at the notes.
CREATE TRIGGER tide_capture_{{id}}_before_insert BEFORE INSERT ON {{table}}
{{if unwatched}}WHEN NEW.{{rowid}} IS NOT -1 OR EXISTS (SELECT 1 FROM {{table}} WHERE {{rowid}} = -1){{end}} BEGIN
    {{if doubled}}INSERT INTO tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}})
    SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE ({{each doubles OR}}({{each terms AND}}{{if plain}}{{name}} = {{if given}}CASE WHEN NEW.{{name}} IS NULL THEN {{each fallback}}{{sql}}{{end}} ELSE NEW.{{name}} END{{end}}{{if !given}}NEW.{{name}}{{end}} COLLATE {{sql}}{{end}}{{if rowid}}{{name}} = NEW.{{name}}{{end}}{{if made}}({{sql}}) = (SELECT {{sql}} FROM (SELECT {{each columns ,}}NEW.{{name}} AS {{name}}{{end}})){{end}}{{end}}{{if partial}} AND ({{sql}}){{end}}){{end}})
    AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}} WHERE {{each keycolumns AND}}c{{n}} IS {{table}}.{{name}}{{if loose}} AND typeof(c{{n}}) = typeof({{table}}.{{name}}){{end}}{{end}});{{end}}{{each apart}}INSERT INTO tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}})
    SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE ({{each terms AND}}{{if plain}}{{name}} = {{if given}}CASE WHEN NEW.{{name}} IS NULL THEN {{each fallback}}{{sql}}{{end}} ELSE NEW.{{name}} END{{end}}{{if !given}}NEW.{{name}}{{end}} COLLATE {{sql}}{{end}}{{if rowid}}{{name}} = NEW.{{name}}{{end}}{{if made}}({{sql}}) = (SELECT {{sql}} FROM (SELECT {{each columns ,}}NEW.{{name}} AS {{name}}{{end}})){{end}}{{end}}{{if partial}} AND ({{sql}}){{end}})
    AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}} WHERE {{each keycolumns AND}}c{{n}} IS {{table}}.{{name}}{{if loose}} AND typeof(c{{n}}) = typeof({{table}}.{{name}}){{end}}{{end}});{{end}}
END

-- template: hook_before_update
CREATE TRIGGER tide_capture_{{id}}_before_update BEFORE UPDATE ON {{table}}
{{if watched}}WHEN {{each watched OR}}OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{end}}{{if hidden}} OR OLD.{{rowid}} IS NOT NEW.{{rowid}}{{end}}{{end}}{{if unwatched}}WHEN OLD.{{rowid}} IS NOT NEW.{{rowid}}{{end}} BEGIN
    {{if doubled}}INSERT INTO tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}})
    SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE ({{each doubles OR}}({{each terms AND}}{{if plain}}{{name}} = {{if given}}CASE WHEN NEW.{{name}} IS NULL THEN {{each fallback}}{{sql}}{{end}} ELSE NEW.{{name}} END{{end}}{{if !given}}NEW.{{name}}{{end}} COLLATE {{sql}}{{end}}{{if rowid}}{{name}} = NEW.{{name}}{{end}}{{if made}}({{sql}}) = (SELECT {{sql}} FROM (SELECT {{each columns ,}}NEW.{{name}} AS {{name}}{{end}})){{end}}{{end}}{{if partial}} AND ({{sql}}){{end}}){{end}})
    AND NOT ({{each key AND}}({{name}} IS OLD.{{name}} COLLATE BINARY{{if loose}} AND typeof({{name}}) = typeof(OLD.{{name}}){{end}}){{end}})
    AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}} WHERE {{each keycolumns AND}}c{{n}} IS {{table}}.{{name}}{{if loose}} AND typeof(c{{n}}) = typeof({{table}}.{{name}}){{end}}{{end}});{{end}}{{each apart}}INSERT INTO tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}})
    SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE ({{each terms AND}}{{if plain}}{{name}} = {{if given}}CASE WHEN NEW.{{name}} IS NULL THEN {{each fallback}}{{sql}}{{end}} ELSE NEW.{{name}} END{{end}}{{if !given}}NEW.{{name}}{{end}} COLLATE {{sql}}{{end}}{{if rowid}}{{name}} = NEW.{{name}}{{end}}{{if made}}({{sql}}) = (SELECT {{sql}} FROM (SELECT {{each columns ,}}NEW.{{name}} AS {{name}}{{end}})){{end}}{{end}}{{if partial}} AND ({{sql}}){{end}})
    AND NOT ({{each key AND}}({{name}} IS OLD.{{name}} COLLATE BINARY{{if loose}} AND typeof({{name}}) = typeof(OLD.{{name}}){{end}}){{end}})
    AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}} WHERE {{each keycolumns AND}}c{{n}} IS {{table}}.{{name}}{{if loose}} AND typeof(c{{n}}) = typeof({{table}}.{{name}}){{end}}{{end}});{{end}}
END

-- template: hook_before_move
-- Of a table with foreign keys: UPDATE OR REPLACE removes the row that has the new key, and its ON DELETE CASCADE may come round to the row that is being
-- updated. Then neither stands, and no AFTER trigger tells of the first.
CREATE TRIGGER tide_capture_{{id}}_before_move BEFORE UPDATE OF {{each keycolumns ,}}{{name}}{{end}}, rowid, _rowid_, oid ON {{table}}
WHEN {{each keycolumns OR}}OLD.{{name}} IS NOT NEW.{{name}} COLLATE BINARY{{if loose}} OR typeof(OLD.{{name}}) <> typeof(NEW.{{name}}){{end}}{{end}}
BEGIN
    INSERT INTO tide_gone_{{id}} ({{each columns ,}}c{{n}}{{end}})
    SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
    WHERE {{each key AND}}{{name}} = NEW.{{name}}{{if wide}} AND {{name}} IS NEW.{{name}} COLLATE BINARY{{end}}{{if loose}} AND typeof({{name}}) = typeof(NEW.{{name}}){{end}}{{end}}
    AND NOT EXISTS (SELECT 1 FROM tide_gone_{{id}} WHERE {{each keycolumns AND}}c{{n}} IS {{table}}.{{name}}{{if loose}} AND typeof(c{{n}}) = typeof({{table}}.{{name}}){{end}}{{end}});
END

-- template: hook_drop
DROP TRIGGER IF EXISTS tide_capture_{{id}}_insert;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_delete;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_update;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_move;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_before_insert;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_before_update;
DROP TRIGGER IF EXISTS tide_capture_{{id}}_before_move;

-- template: events_view
-- Origins of imported history (epoch 0) may have had names that are no UUIDs.
CREATE VIEW {{view}} AS
SELECT id, table_name, operation_type, record_id, data, timestamp,
    coalesce((SELECT value FROM tide_replica_state WHERE epoch = 0 AND key = 'origin/' || hex(origin)),
        lower(substr(hex(origin), 1, 8) || '-' || substr(hex(origin), 9, 4) || '-' || substr(hex(origin), 13, 4) || '-' ||
              substr(hex(origin), 17, 4) || '-' || substr(hex(origin), 21))) AS origin_node_id,
    seq AS origin_seq, processed
FROM tide_replica_events
WHERE table_name IN (SELECT name FROM tide_replica_tables WHERE id = {{id}}
    UNION ALL SELECT name FROM tide_replica_names WHERE table_id = {{id}});

-- template: events_view_drop
DROP VIEW IF EXISTS {{view}};

-- template: seed_events
-- In order of (timestamp, id); what the replication document's columns may not lack is given. The first two columns are the place in that order.
SELECT timestamp, id, coalesce(id, ''), coalesce(operation_type, ''), coalesce(record_id, ''), data, coalesce(timestamp, 0), {{node}},
    coalesce(processed, 0)
FROM {{renamed}} ORDER BY timestamp, id;

-- template: seed_events_from
SELECT timestamp, id, coalesce(id, ''), coalesce(operation_type, ''), coalesce(record_id, ''), data, coalesce(timestamp, 0), {{node}},
    coalesce(processed, 0)
FROM {{renamed}} WHERE (timestamp, id) > (:timestamp, :id) ORDER BY timestamp, id;

-- template: seed_events_from_null
-- The same where the last row had no timestamp or no id: these sort first.
SELECT timestamp, id, coalesce(id, ''), coalesce(operation_type, ''), coalesce(record_id, ''), data, coalesce(timestamp, 0), {{node}},
    coalesce(processed, 0)
FROM {{renamed}}
WHERE CASE WHEN :timestamp IS NULL THEN timestamp IS NOT NULL OR id > :id OR (:id IS NULL AND id IS NOT NULL)
    ELSE timestamp > :timestamp OR (timestamp = :timestamp AND (id > :id OR (:id IS NULL AND id IS NOT NULL))) END
ORDER BY timestamp, id;

-- template: events_rename
ALTER TABLE {{view}} RENAME TO {{renamed}};
