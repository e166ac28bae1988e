-- Starts of the PostgreSQL server that this history has seen (src/store/identity.h).

-- migration: 18  version: 0.62.0  name: server starts  engine: sqlite
-- A file has no server.
SELECT 1;

-- migration: 18  version: 0.62.0  name: server starts  engine: postgres
-- The first process that writes after a start adds a row with a random id before anything else, and every process
-- remembers the newest id beside the store. A history that lacks a remembered id is an older copy. wal is the last WAL
-- checkpoint when the row was added: behind everything that was durable before the start.
CREATE TABLE server_starts (
    number      bigint NOT NULL PRIMARY KEY,
    start_id    text NOT NULL UNIQUE,
    started     text NOT NULL, -- seconds, as pg_postmaster_start_time() has them
    epoch       bigint NOT NULL REFERENCES epochs,
    wal         pg_lsn NOT NULL, -- 0/0: not known
    noticed_at  timestamptz NOT NULL
);
CREATE TRIGGER server_starts_keep BEFORE UPDATE OR DELETE ON server_starts
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('server starts are append-only');
CREATE TRIGGER server_starts_full BEFORE TRUNCATE ON server_starts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('server starts are append-only');
