-- Retry policies of types, and titles of items (recovery_items_schema.sql has the others).

-- migration: 15  version: 0.59.0  name: policies  engine: sqlite
-- NULL: the default of the library. no_retry: words of error, crash and timeout, with commas.
CREATE TABLE work_policies (
    work_type       TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(work_type AS BLOB)) BETWEEN 1 AND 128),
    max_retries     INTEGER CHECK (max_retries BETWEEN 0 AND 1000000),
    backoff_us      INTEGER CHECK (backoff_us > 0),
    backoff_max_us  INTEGER CHECK (backoff_max_us >= backoff_us),
    no_retry        TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
ALTER TABLE work_items ADD COLUMN title TEXT;

-- migration: 15  version: 0.59.0  name: policies  engine: postgres
CREATE TABLE work_policies (
    work_type       text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(work_type) BETWEEN 1 AND 128),
    max_retries     bigint CHECK (max_retries BETWEEN 0 AND 1000000),
    backoff_us      bigint CHECK (backoff_us > 0),
    backoff_max_us  bigint CHECK (backoff_max_us >= backoff_us),
    no_retry        text NOT NULL DEFAULT ''
);
ALTER TABLE work_items ADD COLUMN title text;
