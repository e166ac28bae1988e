-- Tokens with the role ingest (token_schema.sql has the table).

-- migration: 17  version: 0.61.0  name: ingest tokens  engine: sqlite
CREATE TABLE access_tokens_new (
    digest        BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    name          TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    role          TEXT NOT NULL CHECK (role IN ('ingest', 'read', 'write', 'admin')),
    agent         TEXT CHECK (length(CAST(agent AS BLOB)) BETWEEN 1 AND 128),
    created_at    TEXT NOT NULL,
    expires_at    TEXT,
    last_used_at  TEXT,
    revoked_at    TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO access_tokens_new (digest, name, role, agent, created_at, expires_at, last_used_at, revoked_at)
SELECT digest, name, role, agent, created_at, expires_at, last_used_at, revoked_at FROM access_tokens;
DROP TABLE access_tokens;
ALTER TABLE access_tokens_new RENAME TO access_tokens;
CREATE UNIQUE INDEX idx_access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
CREATE INDEX idx_access_tokens_list ON access_tokens (name, digest);
CREATE TRIGGER access_tokens_keep BEFORE UPDATE ON access_tokens
WHEN new.digest <> old.digest OR new.name <> old.name OR new.role <> old.role OR new.agent IS NOT old.agent
     OR new.created_at <> old.created_at OR (old.revoked_at IS NOT NULL AND new.revoked_at IS NOT old.revoked_at)
BEGIN SELECT RAISE(ABORT, 'a token is revoked and made anew, never changed'); END;
-- INSERT OR REPLACE deletes without firing the triggers of DELETE and UPDATE.
CREATE TRIGGER access_tokens_once BEFORE INSERT ON access_tokens
WHEN EXISTS (SELECT 1 FROM access_tokens WHERE digest = new.digest)
BEGIN SELECT RAISE(ABORT, 'a token is revoked and made anew, never changed'); END;

-- migration: 17  version: 0.61.0  name: ingest tokens  engine: postgres
ALTER TABLE access_tokens DROP CONSTRAINT access_tokens_role_check;
ALTER TABLE access_tokens ADD CONSTRAINT access_tokens_role_check CHECK (role IN ('ingest', 'read', 'write', 'admin'));
