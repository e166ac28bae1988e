-- Commits that were acknowledged and that a damaged write-ahead log has taken back.

-- migration: 9  version: 0.53.0  name: lost numbers  engine: sqlite
-- Numbers of a sequence that were issued in an epoch and are not in the file any more. The epochs that
-- follow issue them again, so a number is only known together with its epoch.
CREATE TABLE lost_numbers (
    sequence      TEXT NOT NULL,
    epoch         INTEGER NOT NULL REFERENCES epochs, -- that they were issued in
    first_number  INTEGER NOT NULL,
    last_number   INTEGER NOT NULL CHECK (last_number >= first_number),
    is_receipted  INTEGER NOT NULL DEFAULT 0 CHECK (is_receipted IN (0, 1)), -- streams: a receipt is stored
    PRIMARY KEY (sequence, epoch, first_number)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER lost_numbers_stay BEFORE DELETE ON lost_numbers
BEGIN SELECT RAISE(ABORT, 'what was lost is not forgotten'); END;
-- A further reason in a CHECK constraint: nothing that is stored changes, and a table that others refer to cannot be
-- rebuilt inside of a transaction.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''diverged'', ''operator''', '''diverged'', ''operator'', ''lost_tail''')
WHERE type = 'table' AND name = 'epochs';
PRAGMA writable_schema = RESET;

-- migration: 9  version: 0.53.0  name: lost numbers  engine: postgres
CREATE TABLE lost_numbers (
    sequence      text NOT NULL,
    epoch         bigint NOT NULL REFERENCES epochs,
    first_number  bigint NOT NULL,
    last_number   bigint NOT NULL CHECK (last_number >= first_number),
    is_receipted  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (sequence, epoch, first_number)
);
ALTER TABLE epochs DROP CONSTRAINT epochs_reason_check;
ALTER TABLE epochs ADD CONSTRAINT epochs_reason_check
    CHECK (reason IN ('created', 'restored', 'copied', 'failover', 'diverged', 'operator', 'lost_tail'));
