-- Tasks, work items, attempts, checkpoints, idempotency keys: the recovery system.
--
-- The database itself keeps the promises, whoever writes: statuses and transitions, append-only checkpoints, numbers
-- that only rise, tokens that only rise, attempts opened and closed. So plain SQL from any client (Python's sqlite3, psql) is
-- safe beside the library, and its claims are fenced too.
--
-- How a trigger tells plain SQL from the library: every change made by the library raises `revision`. A statement that
-- leaves it as it was is plain SQL. It carries no token, so it may end a lease only if that lease was itself taken
-- by plain SQL (lease_via = 'sql'), or if the lease has run out.
--
-- Numbers: journal_head counts checkpoints globally, task_heads per task. The library takes its numbers there first and
-- inserts rows that carry them; a row inserted without a global number is numbered here. A number that was not issued,
-- is taken, or belonged to a removed row is refused.
--
-- Tokens of removed rows are remembered in `leases`, under names nobody claims: an id or a key that comes again gives out
-- higher ones.
--
-- SQLite: triggers before INSERT stand beside those before UPDATE and DELETE, because INSERT OR REPLACE and UPDATE OR REPLACE
-- delete without firing them; so a second INSERT of the same id is refused by them, also with OR IGNORE. Foreign keys may
-- be off in a client, so parents are checked by triggers as well. A statement inside a trigger inherits the
-- conflict clause of the client's statement; RAISE does not.
--
-- The text of this migration is in parts, which sqlgen joins in the order of their numbers: a file per table, and
-- here what they share.

-- migration: 2  version: 0.30.0  name: recovery  engine: sqlite  part: 6
-- The lowest token that a claim may give now: of this epoch, and above every removed row's.
CREATE VIEW token_floors (work, idempotency) AS
SELECT max((SELECT (CAST(value AS INTEGER) << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
           coalesce((SELECT token + 1 FROM leases WHERE name = 'work items removed'), 0)),
       max((SELECT (CAST(value AS INTEGER) << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
           coalesce((SELECT token + 1 FROM leases WHERE name = 'idempotency keys removed'), 0));

-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 1
-- The same tables, columns and rules. What differs, and why:
--   - Guards on tables that are written all the time fire AFTER the change: a table with any trigger BEFORE UPDATE locks
--     each row first, which costs a WAL record of its own. They name the columns they are about, and their WHEN is short:
--     PostgreSQL reads the text of every WHEN anew for each statement, about 5 us per 1,000 characters (all rules
--     behind WHEN: a renewal took 148 us of CPU, 68 us without triggers). So a renewal by the library (status
--     unchanged, revision raised) fires nothing at all, and one function serves a change of status.
--   - No index on lease_expires_at, and none on updated_at: a heartbeat then costs 99 bytes of WAL and stays on its
--     page (HOT); with one it costs 247 bytes and touches every index. The sweep walks the items in progress
--     (idx_work_items_lease_holder); clean-up goes by completed_at, which no heartbeat changes.
--   - No idx_work_items_status_priority: the partial claim indexes replace it. Every change of status would be written there
--     once more, and its dead entries stay in the claimers' way.
--   - work_types.low_key: no ready item of the type has a lower claim_key. A claim starts there instead of wading through
--     entries of rows that are gone (100,000 of them under a pinned horizon: 16.4 ms a claim, 0.37 ms with the bound).
--   - checkpoints by time: BRIN, because they arrive in that order.
--   - Functions look tables up where the store was made, whatever the client's search_path.
-- migration: 2  version: 0.30.0  name: recovery  engine: postgres  part: 7
-- The hash chain's step.
CREATE FUNCTION tide_link(previous bytea, number bigint, checksum bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT sha256(previous || int8send(number) || checksum) $$;

-- The lowest token that a claim may give now: of this epoch, and above every removed row's.
CREATE FUNCTION tide_token_floor(removed text) RETURNS bigint LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN greatest((SELECT (value::bigint << 40) + 1 FROM db_metadata WHERE key = 'epoch'),
                    (SELECT token + 1 FROM leases WHERE name = removed));
END $$;
CREATE FUNCTION tide_token_keep(removed text, highest bigint) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF highest > coalesce((SELECT token FROM leases WHERE name = removed), 0) THEN
        INSERT INTO leases (name, token) VALUES (removed, highest)
        ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE leases.token < excluded.token;
    END IF;
END $$;

