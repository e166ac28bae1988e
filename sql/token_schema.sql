-- Bearer tokens: who may call this store's services. Of a token only the SHA-256 of its text is kept, which is enough
-- to recognise it and useless to whoever reads the table. A revoked row stays, so that it is known who had access and
-- until when; its name is free again.

-- migration: 5  version: 0.41.0  name: tokens  engine: sqlite
CREATE TABLE access_tokens (
    digest        BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    name          TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    role          TEXT NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    agent         TEXT CHECK (length(CAST(agent AS BLOB)) BETWEEN 1 AND 128),
    created_at    TEXT NOT NULL,
    expires_at    TEXT,
    last_used_at  TEXT,
    revoked_at    TEXT
) STRICT, WITHOUT ROWID;
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

-- migration: 5  version: 0.41.0  name: tokens  engine: postgres
CREATE TABLE access_tokens (
    digest        bytea NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    name          text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 128),
    role          text COLLATE "C" NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    agent         text COLLATE "C" CHECK (octet_length(agent) BETWEEN 1 AND 128),
    created_at    timestamptz NOT NULL CHECK (isfinite(created_at)),
    expires_at    timestamptz CHECK (isfinite(expires_at)),
    last_used_at  timestamptz CHECK (isfinite(last_used_at)),
    revoked_at    timestamptz CHECK (isfinite(revoked_at))
);
CREATE UNIQUE INDEX idx_access_tokens_name ON access_tokens (name) WHERE revoked_at IS NULL;
CREATE INDEX idx_access_tokens_list ON access_tokens (name, digest);

CREATE FUNCTION tide_token_keep() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION 'a token is revoked and made anew, never changed'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER access_tokens_keep BEFORE UPDATE ON access_tokens FOR EACH ROW
WHEN (new.digest <> old.digest OR new.name <> old.name OR new.role <> old.role
      OR new.agent IS DISTINCT FROM old.agent OR new.created_at <> old.created_at
      OR (old.revoked_at IS NOT NULL AND new.revoked_at IS DISTINCT FROM old.revoked_at))
EXECUTE FUNCTION tide_token_keep();
