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
