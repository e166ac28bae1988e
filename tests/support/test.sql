-- A table whose rows carry the numbers of a sequence: what most tests write and read.

-- migration: 1  version: test-1  name: numbered  engine: sqlite
CREATE TABLE numbered (
    seq_id  INTEGER NOT NULL PRIMARY KEY,
    writer  TEXT NOT NULL,
    n       INTEGER NOT NULL,
    at      TEXT NOT NULL,
    UNIQUE (writer, n)
) STRICT;
CREATE TABLE appended (
    seq_id  INTEGER NOT NULL PRIMARY KEY,
    writer  TEXT NOT NULL,
    n       INTEGER NOT NULL,
    at      TEXT NOT NULL
) STRICT;
CREATE TABLE typed (
    id  INTEGER NOT NULL PRIMARY KEY,
    i   INTEGER,
    f   REAL,
    t   TEXT,
    b   BLOB,
    at  TEXT
) STRICT;
CREATE TABLE bulky (
    id    INTEGER NOT NULL PRIMARY KEY,
    i     INTEGER,
    f     REAL,
    flag  INTEGER,
    t     TEXT,
    b     BLOB,
    at    TEXT
) STRICT;
CREATE TABLE parents (id INTEGER NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE children (
    id      INTEGER NOT NULL PRIMARY KEY,
    parent  INTEGER NOT NULL REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

-- migration: 1  version: test-1  name: numbered  engine: postgres
CREATE TABLE numbered (
    seq_id  bigint NOT NULL PRIMARY KEY,
    writer  text NOT NULL,
    n       bigint NOT NULL,
    at      timestamptz NOT NULL,
    UNIQUE (writer, n)
);
CREATE TABLE appended (
    seq_id  bigint NOT NULL PRIMARY KEY,
    writer  text NOT NULL,
    n       bigint NOT NULL,
    at      timestamptz NOT NULL
);
CREATE TABLE typed (
    id  bigint NOT NULL PRIMARY KEY,
    i   bigint,
    f   double precision,
    t   text,
    b   bytea,
    at  timestamptz
);
CREATE TABLE bulky (
    id    bigint NOT NULL PRIMARY KEY,
    i     bigint,
    f     double precision,
    flag  boolean,
    t     text,
    b     bytea,
    at    timestamptz
);
CREATE TABLE parents (id bigint NOT NULL PRIMARY KEY);
CREATE TABLE children (
    id      bigint NOT NULL PRIMARY KEY,
    parent  bigint NOT NULL REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED
);

-- statement: numbered_add
-- A row that carries the :back-th number before the last one taken.
INSERT INTO numbered (seq_id, writer, n, at)
SELECT last - :back, :writer, CAST(:n AS BIGINT), last_at FROM sequences WHERE name = :sequence;

-- statement: appended_add
-- The same into a table that is only appended to, for benchmarks: what is measured is the commit, not an index. VALUES
-- and not SELECT: SQLite keeps a copy of every page that an INSERT of possibly many rows touches.
INSERT INTO appended (seq_id, writer, n, at)
VALUES ((SELECT last FROM sequences WHERE name = :sequence) - :back, :writer, :n,
        (SELECT last_at FROM sequences WHERE name = :sequence));

-- statement: numbered_put
-- A row with a number that the closure knows already.
INSERT INTO numbered (seq_id, writer, n, at) VALUES (:seq_id, :writer, :n, :at);

-- statement: numbered_tail
SELECT seq_id, writer, n, at FROM numbered WHERE seq_id > :after ORDER BY seq_id LIMIT :limit;

-- statement: numbered_find
SELECT seq_id FROM numbered WHERE writer = :writer AND n = :n;

-- statement: numbered_count
SELECT count(*), coalesce(max(seq_id), 0) FROM numbered;

-- statement: numbered_from_max
-- How not to number: derived from the rows that survive.
INSERT INTO numbered (seq_id, writer, n, at)
SELECT coalesce(max(seq_id), 0) + 1, CAST(:writer AS TEXT), CAST(:n AS BIGINT), :at FROM numbered;

-- statement: typed_put
INSERT INTO typed (id, i, f, t, b, at) VALUES (:id, :i, :f, :t, :b, :at);

-- statement: bulky_put  bulk: sqlite
INSERT INTO bulky (id, i, f, flag, t, b, at) VALUES (:id, :i, :f, :flag, :t, :b, :at);

-- statement: bulky_put  bulk: postgres
COPY bulky (id, i, f, flag, t, b, at) FROM STDIN (FORMAT binary);

-- statement: bulky_get
SELECT i, f, flag, t, b, at FROM bulky WHERE id = :id;

-- statement: bulky_count
SELECT count(*), coalesce(CAST(sum(i) AS BIGINT), 0) FROM bulky;

-- statement: typed_get
SELECT i, f, t, b, at FROM typed WHERE id = :id;

-- statement: typed_all
SELECT id FROM typed ORDER BY id;

-- statement: typed_touch
UPDATE typed SET i = :i WHERE id >= :id;

-- statement: child_put
INSERT INTO children (id, parent) VALUES (:id, :parent);

-- statement: row_lock  engine: sqlite
SELECT i FROM typed WHERE id = :id;

-- statement: row_lock  engine: postgres
SELECT i FROM typed WHERE id = :id FOR UPDATE;

-- statement: count_up_to  engine: sqlite
-- Work that takes as long as :n says.
WITH RECURSIVE up (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM up WHERE i < :n) SELECT count(*) FROM up;

-- statement: count_up_to  engine: postgres
SELECT count(*) FROM generate_series(1, CAST(:n AS bigint));

-- statement: blocked_backends  only: postgres
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock';

-- statement: kill_backend  only: postgres
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid();
