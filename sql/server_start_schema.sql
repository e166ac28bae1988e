-- Starts of the PostgreSQL server that this history has seen (src/store/identity.h).

-- migration: 18  version: 0.62.0  name: server starts  engine: sqlite
-- A file has no server.
SELECT 1;

-- migration: 18  version: 0.62.0  name: server starts  engine: postgres
-- The first process that writes after a start adds a row with a random id before anything else, and every process
-- remembers the newest id beside the store. A history that lacks a remembered id is an older copy. wal is the last WAL
-- checkpoint when the row was added: behind everything that was durable before the start.
CREATE TABLE server_starts (
    number         bigint NOT NULL PRIMARY KEY,
    start_id       text NOT NULL UNIQUE,
    started        text NOT NULL, -- seconds, as pg_postmaster_start_time() has them
    epoch          bigint NOT NULL REFERENCES epochs,
    wal            pg_lsn NOT NULL, -- 0/0: not known
    journal_head   bigint NOT NULL, -- when the row was added
    journal_event  bigint NOT NULL,
    noticed_at     timestamptz NOT NULL
);
CREATE TRIGGER server_starts_keep BEFORE UPDATE OR DELETE ON server_starts
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('server starts are append-only');
CREATE TRIGGER server_starts_full BEFORE TRUNCATE ON server_starts
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('server starts are append-only');

-- An epoch that begins because a start is missing, or found too little WAL, was cut there, and processes that did not know it may
-- have written since: what is in common ends where that start, or the one that has its number here, began.
CREATE OR REPLACE FUNCTION tide_epoch_heads() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    head bigint;
    event bigint;
    start bigint = CASE WHEN NEW.reason IN ('restored', 'failover')
                        THEN substring(NEW.evidence FROM 'start ([0-9]+) of the server')::bigint END;
BEGIN
    SELECT last INTO STRICT head FROM journal_head WHERE id = 1 FOR UPDATE;
    event = coalesce((SELECT last FROM sequences WHERE name = 'journal/events'), 0);
    INSERT INTO epoch_heads (epoch, journal_head, journal_event)
    SELECT NEW.epoch, least(head, min(journal_head)), least(event, min(journal_event))
    FROM server_starts WHERE number >= start;
    RETURN NULL;
END $$;
