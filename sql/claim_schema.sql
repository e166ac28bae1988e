-- Claims by plain SQL at the same moment (recovery_items_schema.sql).

-- migration: 10  version: 0.54.0  name: plain claims  engine: sqlite
-- One writer at a time: a claim sees what the one before it has claimed.
SELECT 1;

-- migration: 10  version: 0.54.0  name: plain claims  engine: postgres
-- A claim picks an item that its snapshot shows as pending. If another transaction has just claimed it, the UPDATE waits for that
-- one and then finds the row changed, but its WHERE, which names only the id, still true. Such a claim came too late: it
-- changes nothing. A claim that could have seen the row as it is goes on to be refused with words.
--
-- This is the one trigger BEFORE UPDATE of the table, because no other can leave a row out. It locks the row first.
-- The library's claims have locked theirs already.

-- Was this row written by a transaction that the running statement does not see? (STABLE: the statement's own snapshot.) A
-- row has only the low half of its writer's number: the whole one is the nearest to the snapshot's end.
CREATE FUNCTION tide_is_unseen(writer xid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT pg_visible_in_snapshot(
        greatest(horizon - ((horizon - low + 2147483648) & 4294967295) + 2147483648, 3)::text::xid8, snapshot)
    FROM (SELECT pg_current_snapshot() AS snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS horizon,
                 writer::text::bigint AS low) s $$;
CREATE FUNCTION tide_work_too_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$;
CREATE TRIGGER work_items_too_late BEFORE UPDATE OF status ON work_items FOR EACH ROW
    WHEN (new.status = 'in_progress' AND old.status <> 'pending' AND new.revision = old.revision
          AND new.lease_acquired_at IS DISTINCT FROM old.lease_acquired_at AND tide_is_unseen(old.xmin))
    EXECUTE FUNCTION tide_work_too_late();
