-- Where each epoch began (core_schema.sql), so that the readers of older ones learn how much of what
-- they have seen still exists.

-- migration: 8  version: 0.52.0  name: epoch heads  engine: sqlite
-- journal_head and journal_event are the journal's last numbers when the epoch began. A position of
-- an older epoch is still good up to the smallest of all later epochs. Epochs from before this
-- table count as begun at 0: their readers read everything again.
CREATE TABLE epoch_heads (
    epoch          INTEGER NOT NULL PRIMARY KEY REFERENCES epochs,
    journal_head   INTEGER NOT NULL CHECK (journal_head >= 0),
    journal_event  INTEGER NOT NULL CHECK (journal_event >= 0)
) STRICT;
INSERT INTO epoch_heads SELECT epoch, 0, 0 FROM epochs;
CREATE TRIGGER epochs_heads AFTER INSERT ON epochs BEGIN
    INSERT INTO epoch_heads (epoch, journal_head, journal_event)
    VALUES (new.epoch, (SELECT last FROM journal_head WHERE id = 1),
            coalesce((SELECT last FROM sequences WHERE name = 'journal/events'), 0));
END;
CREATE TRIGGER epoch_heads_keep BEFORE UPDATE ON epoch_heads BEGIN SELECT RAISE(ABORT, 'epochs are append-only'); END;
CREATE TRIGGER epoch_heads_stay BEFORE DELETE ON epoch_heads BEGIN SELECT RAISE(ABORT, 'epochs are append-only'); END;
CREATE TRIGGER epoch_heads_once BEFORE INSERT ON epoch_heads
WHEN EXISTS (SELECT 1 FROM epoch_heads WHERE epoch >= new.epoch)
BEGIN SELECT RAISE(ABORT, 'epochs only rise'); END;

-- migration: 8  version: 0.52.0  name: epoch heads  engine: postgres
CREATE TABLE epoch_heads (
    epoch          bigint NOT NULL PRIMARY KEY REFERENCES epochs,
    journal_head   bigint NOT NULL CHECK (journal_head >= 0),
    journal_event  bigint NOT NULL CHECK (journal_event >= 0)
);
INSERT INTO epoch_heads SELECT epoch, 0, 0 FROM epochs;
-- The lock on journal_head waits for appends under way: a snapshot that shows a later number shows the epoch too.
CREATE FUNCTION tide_epoch_heads() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    head bigint;
BEGIN
    SELECT last INTO STRICT head FROM journal_head WHERE id = 1 FOR UPDATE;
    INSERT INTO epoch_heads (epoch, journal_head, journal_event)
    VALUES (NEW.epoch, head, coalesce((SELECT last FROM sequences WHERE name = 'journal/events'), 0));
    RETURN NULL;
END $$;
CREATE TRIGGER epochs_heads AFTER INSERT ON epochs FOR EACH ROW EXECUTE FUNCTION tide_epoch_heads();
CREATE TRIGGER epoch_heads_keep BEFORE UPDATE OR DELETE ON epoch_heads
    FOR EACH ROW EXECUTE FUNCTION tide_refuse('epochs are append-only');
CREATE TRIGGER epoch_heads_full BEFORE TRUNCATE ON epoch_heads
    FOR EACH STATEMENT EXECUTE FUNCTION tide_refuse('epochs are append-only');
