-- The tables every store has. One migration per engine, side by side; times are text on SQLite
-- ('YYYY-MM-DD HH:MM:SS.ffffff', UTC) and timestamptz on PostgreSQL, so that plain SQL from any client reads them.

-- migration: 1  version: 0.1.0  name: core  engine: sqlite
CREATE TABLE schema_version (
    version     TEXT NOT NULL PRIMARY KEY,
    number      INTEGER UNIQUE,
    name        TEXT NOT NULL,
    checksum    TEXT NOT NULL,
    applied_at  TEXT NOT NULL
) STRICT;

-- session_id, epoch, epoch_id, mark, host: see identity.h
CREATE TABLE db_metadata (
    key    TEXT NOT NULL PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_keeps BEFORE UPDATE ON db_metadata
WHEN old.key = 'session_id' AND (new.key <> old.key OR new.value <> old.value)
BEGIN SELECT RAISE(ABORT, 'the session id never changes'); END;
CREATE TRIGGER session_stays BEFORE DELETE ON db_metadata WHEN old.key = 'session_id'
BEGIN SELECT RAISE(ABORT, 'the session id never changes'); END;
CREATE TRIGGER session_once BEFORE INSERT ON db_metadata
WHEN new.key = 'session_id' AND EXISTS (SELECT 1 FROM db_metadata WHERE key = 'session_id')
BEGIN SELECT RAISE(ABORT, 'the session id never changes'); END;

-- Every epoch of this store's history and why it began; append-only. A trigger before INSERT stands beside those
-- before UPDATE and DELETE, because INSERT OR REPLACE deletes without firing them.
CREATE TABLE epochs (
    epoch       INTEGER NOT NULL PRIMARY KEY CHECK (epoch BETWEEN 1 AND 8388607),
    epoch_id    TEXT NOT NULL UNIQUE,
    started_at  TEXT NOT NULL,
    reason      TEXT NOT NULL CHECK (reason IN ('created', 'restored', 'copied', 'failover', 'diverged', 'operator')),
    evidence    TEXT NOT NULL
) STRICT;
CREATE TRIGGER epochs_keep BEFORE UPDATE ON epochs BEGIN SELECT RAISE(ABORT, 'epochs are append-only'); END;
CREATE TRIGGER epochs_stay BEFORE DELETE ON epochs BEGIN SELECT RAISE(ABORT, 'epochs are append-only'); END;
CREATE TRIGGER epochs_once BEFORE INSERT ON epochs
WHEN EXISTS (SELECT 1 FROM epochs WHERE epoch >= new.epoch OR epoch_id = new.epoch_id)
BEGIN SELECT RAISE(ABORT, 'epochs only rise'); END;

-- One row per sequence: the last number issued, and a time that never goes back beside it. STRICT refuses
-- the REAL that an addition beyond 2^63-1 would become.
CREATE TABLE sequences (
    name     TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 128),
    last     INTEGER NOT NULL CHECK (last >= 0),
    last_at  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER sequences_rise BEFORE UPDATE OF last ON sequences WHEN new.last < old.last
BEGIN SELECT RAISE(ABORT, 'a sequence never goes down'); END;
CREATE TRIGGER sequences_stay BEFORE DELETE ON sequences BEGIN SELECT RAISE(ABORT, 'a sequence is never deleted'); END;
-- sequence_take offers the raised number to INSERT, so it passes.
CREATE TRIGGER sequences_once BEFORE INSERT ON sequences
WHEN EXISTS (SELECT 1 FROM sequences WHERE name = new.name AND last > new.last)
BEGIN SELECT RAISE(ABORT, 'a sequence never goes down'); END;

-- One row per lease: see lease.h.
CREATE TABLE leases (
    name        TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 256),
    holder      TEXT,
    token       INTEGER NOT NULL CHECK (token >= 0),
    claimed_at  TEXT,
    expires_at  TEXT,
    CHECK ((holder IS NULL) = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TRIGGER leases_rise BEFORE UPDATE OF token ON leases WHEN new.token < old.token
BEGIN SELECT RAISE(ABORT, 'a lease token never goes down'); END;
CREATE TRIGGER leases_stay BEFORE DELETE ON leases BEGIN SELECT RAISE(ABORT, 'a lease is released, never deleted'); END;
CREATE TRIGGER leases_once BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM leases WHERE name = new.name AND token >= new.token)
BEGIN SELECT RAISE(ABORT, 'a lease token never goes down'); END;

-- The clock that leases run on: wall time = CLOCK_BOOTTIME + offset_us, for as long as boot_id lasts.
CREATE TABLE lease_clock (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    boot_id    TEXT NOT NULL,
    offset_us  INTEGER NOT NULL
) STRICT;

-- migration: 1  version: 0.1.0  name: core  engine: postgres
CREATE TABLE schema_version (
    version     text NOT NULL PRIMARY KEY,
    number      bigint UNIQUE,
    name        text NOT NULL,
    checksum    text NOT NULL,
    applied_at  timestamptz NOT NULL
);

CREATE TABLE db_metadata (
    key    text NOT NULL PRIMARY KEY,
    value  text NOT NULL
);

CREATE FUNCTION tide_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER session_keeps BEFORE UPDATE ON db_metadata FOR EACH ROW
    WHEN (old.key = 'session_id' AND (new.key <> old.key OR new.value <> old.value))
    EXECUTE FUNCTION tide_refuse('the session id never changes');
CREATE TRIGGER session_stays BEFORE DELETE ON db_metadata FOR EACH ROW WHEN (old.key = 'session_id')
    EXECUTE FUNCTION tide_refuse('the session id never changes');
CREATE TRIGGER metadata_full BEFORE TRUNCATE ON db_metadata
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('the session id never changes');

CREATE TABLE epochs (
    epoch       bigint NOT NULL PRIMARY KEY CHECK (epoch BETWEEN 1 AND 8388607),
    epoch_id    text NOT NULL UNIQUE,
    started_at  timestamptz NOT NULL,
    reason      text NOT NULL CHECK (reason IN ('created', 'restored', 'copied', 'failover', 'diverged', 'operator')),
    evidence    text NOT NULL
);

CREATE TRIGGER epochs_keep BEFORE UPDATE OR DELETE ON epochs
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('epochs are append-only');
CREATE TRIGGER epochs_full BEFORE TRUNCATE ON epochs
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('epochs are append-only');

-- A counter row is updated all the time: room on its page keeps the updates in place (HOT).
CREATE TABLE sequences (
    name     text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
    last     bigint NOT NULL CHECK (last >= 0),
    last_at  timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TRIGGER sequences_rise BEFORE UPDATE ON sequences
    FOR EACH ROW WHEN (new.last < old.last) EXECUTE FUNCTION tide_refuse('a sequence never goes down');
CREATE TRIGGER sequences_stay BEFORE DELETE ON sequences
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('a sequence is never deleted');
CREATE TRIGGER sequences_full BEFORE TRUNCATE ON sequences
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a sequence is never deleted');

CREATE TABLE leases (
    name        text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 256),
    holder      text,
    token       bigint NOT NULL CHECK (token >= 0),
    claimed_at  timestamptz,
    expires_at  timestamptz,
    CHECK ((holder IS NULL) = (expires_at IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TRIGGER leases_rise BEFORE UPDATE ON leases
    FOR EACH ROW WHEN (new.token < old.token) EXECUTE FUNCTION tide_refuse('a lease token never goes down');
CREATE TRIGGER leases_stay BEFORE DELETE ON leases
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('a lease is released, never deleted');
CREATE TRIGGER leases_full BEFORE TRUNCATE ON leases
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('a lease is released, never deleted');
