-- What tables and columns were called before (replica/schemas.h).

-- template: schemas_counter
SELECT value FROM tide_replica_state WHERE key = 'schemas';

-- template: schemas_raise
INSERT INTO tide_replica_state (key, value) VALUES ('schemas', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1;

-- template: schemas_put
-- A schema that the table has now: its columns are called what they are called.
INSERT OR REPLACE INTO tide_replica_schemas (table_name, schema, columns, becomes, key_columns)
VALUES (:table_name, :schema, :columns, NULL, :key_columns);

-- template: schemas_find
SELECT coalesce(becomes, columns) FROM tide_replica_schemas WHERE table_name = :table_name AND schema = :schema;

-- template: schemas_has_other
SELECT EXISTS (SELECT 1 FROM tide_replica_schemas WHERE table_name = :table_name AND schema <> :schema);

-- template: schemas_columns
SELECT columns, key_columns FROM tide_replica_schemas WHERE table_name = :table_name AND schema = :schema;

-- template: schemas_list
SELECT schema, columns, coalesce(becomes, columns), key_columns FROM tide_replica_schemas WHERE table_name = :table_name;

-- template: schemas_becomes
UPDATE tide_replica_schemas SET becomes = :becomes WHERE table_name = :table_name AND schema = :schema;

-- template: schemas_rename
UPDATE OR REPLACE tide_replica_schemas SET table_name = :after WHERE table_name = :before AND :table_id > 0;

-- template: schemas_learn
-- What is known here already stays as it is.
INSERT OR IGNORE INTO tide_replica_schemas (table_name, schema, columns, becomes, key_columns)
VALUES (:table_name, :schema, :columns, :becomes, :key_columns);

-- template: names_rename
UPDATE tide_replica_tables SET name = :after WHERE id = :table_id AND name = :before;

-- template: names_cut
-- A name that is in use again is no former one.
DELETE FROM tide_replica_names WHERE name = :after AND :before <> '' AND :table_id > 0;

-- template: names_put
INSERT OR REPLACE INTO tide_replica_names (name, table_id) VALUES (:name, :table_id);

-- template: names_learn
-- Of what a peer says. A table that stands here under that name is another one, tracked or not.
INSERT OR IGNORE INTO tide_replica_names (name, table_id)
SELECT :name, id FROM tide_replica_tables
WHERE name = :table_name AND is_tracked
  AND NOT EXISTS (SELECT 1 FROM tide_replica_tables WHERE name = :name AND is_tracked)
  AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = :name COLLATE NOCASE);

-- template: names_list
SELECT name FROM tide_replica_names WHERE table_id = :table_id;

-- template: names_all
SELECT name, table_id FROM tide_replica_names;

-- template: names_back
SELECT n.name FROM tide_replica_names n JOIN sqlite_master m ON m.type = 'table' AND m.name = n.name COLLATE NOCASE
WHERE n.table_id = :table_id AND NOT EXISTS (SELECT 1 FROM tide_replica_tables t WHERE t.name = n.name AND t.is_tracked);

-- template: names_stands
-- Is a table of that name known here under another? Its name here.
SELECT t.name FROM tide_replica_names n JOIN tide_replica_tables t ON t.id = n.table_id WHERE n.name = :name AND t.is_tracked;

-- template: names_taken
-- Whose name it was, or is elsewhere: events under it are that table's on every node.
SELECT t.id, t.name, t.is_tracked FROM tide_replica_names n JOIN tide_replica_tables t ON t.id = n.table_id
WHERE n.name = :name AND NOT EXISTS (SELECT 1 FROM tide_replica_tables WHERE name = :name);

-- template: names_own
SELECT name FROM tide_replica_tables WHERE name = :name AND is_tracked;

-- template: names_note
-- To be told by the next look at the file.
INSERT OR REPLACE INTO tide_replica_state (key, value) SELECT 'renamed/' || :table_id, :before WHERE :after <> '';

-- template: names_noted
SELECT value FROM tide_replica_state WHERE key = 'renamed/' || :table_id;

-- template: names_told
DELETE FROM tide_replica_state WHERE key = 'renamed/' || :table_id;

-- template: names_lost
-- Tracked tables that do not stand under their names. Where another one does by now, the triggers tell: they went along to a name that the table has elsewhere.
SELECT id, name FROM tide_replica_tables t
WHERE is_tracked AND (t.name NOT IN (SELECT name FROM sqlite_master WHERE type = 'table')
   OR EXISTS (SELECT 1 FROM tide_replica_names n CROSS JOIN sqlite_master m ON n.table_id = t.id AND n.name = m.tbl_name
              WHERE m.type = 'trigger' AND m.name = 'tide_capture_' || t.id || '_insert' AND m.tbl_name <> t.name COLLATE NOCASE
                AND NOT EXISTS (SELECT 1 FROM tide_replica_tables o WHERE o.name = m.tbl_name)));

-- template: schemas_again
-- Events of a table that are here are merged once more (replica/quarantine.h), which changes nothing but what was left out.
INSERT OR IGNORE INTO tide_replica_quarantine (origin, epoch, seq, reason, detail, found_at, tried)
SELECT origin, epoch, seq, 'column', 'a column that was thought to be dropped was renamed: merged again', 0, -1 FROM tide_replica_events
WHERE epoch > 0 AND processed AND table_name IN (SELECT name FROM tide_replica_tables WHERE id = :table_id
    UNION ALL SELECT name FROM tide_replica_names WHERE table_id = :table_id);

-- template: schemas_again_mark
UPDATE tide_replica_events SET processed = 0 WHERE (origin, epoch, seq) IN
    (SELECT origin, epoch, seq FROM tide_replica_quarantine WHERE tried = -1) AND :table_id > 0;
