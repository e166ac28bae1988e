-- What we keep in an application's file about the file itself (store/foreign/foreign_db.h).

-- template: app_notes
CREATE TABLE IF NOT EXISTS tide_metadata (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- template: app_has_notes
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'tide_metadata';

-- template: app_note_get
SELECT value FROM tide_metadata WHERE key = :key;

-- template: app_note_put
INSERT INTO tide_metadata (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- template: app_triggers
-- Triggers of the application, those of views first.
SELECT m.name, m.tbl_name, m.sql, t.type = 'view'
FROM main.sqlite_schema m JOIN main.sqlite_schema t ON t.name = m.tbl_name COLLATE NOCASE AND t.type IN ('table', 'view')
WHERE m.type = 'trigger' AND m.name NOT LIKE 'tide\_%' ESCAPE '\' ORDER BY t.type = 'view' DESC, m.rowid;

-- template: app_trigger_columns
SELECT name FROM pragma_table_xinfo(:name, 'main') WHERE hidden = 0;

-- template: app_trigger_copy
CREATE TEMP TRIGGER {{name}} {{each head}}{{sql}}{{end}} ON main.{{table}} FOR EACH ROW
WHEN tide_triggers_run(){{each guard}} AND ({{sql}}){{end}} {{each body}}{{sql}}{{end}}

-- template: app_trigger_drop
DROP TRIGGER IF EXISTS temp.{{name}}

-- template: app_trigger_insert
INSERT INTO main.{{table}} DEFAULT VALUES

-- template: app_trigger_delete
DELETE FROM main.{{table}}

-- template: app_trigger_update
UPDATE main.{{table}} SET {{each columns ,}}{{name}} = {{name}}{{end}}
