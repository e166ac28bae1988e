-- statement: sequence_take  engine: sqlite
-- Hand out :count numbers, return the first. One writer at a time: commit order is number order. The time beside
-- the number never goes back.
INSERT INTO sequences (name, last, last_at)
VALUES (:name, coalesce((SELECT last FROM sequences WHERE name = :name), 0) + :count, :clock)
ON CONFLICT (name) DO UPDATE SET last = excluded.last, last_at = max(sequences.last_at, excluded.last_at)
RETURNING last - :count + 1;

-- statement: sequence_take  engine: postgres
-- The row lock makes commit order number order; the runner sends this last, in one pipeline with the rows and
-- the COMMIT. The clock is read after the lock is held, so times rise with the numbers.
INSERT INTO sequences (name, last, last_at)
VALUES (:name, :count, coalesce(:clock, clock_timestamp()))
ON CONFLICT (name) DO UPDATE
SET last = sequences.last + :count,
    last_at = greatest(sequences.last_at, coalesce(:clock, clock_timestamp()))
RETURNING last - :count + 1;

-- statement: sequence_raise  engine: sqlite
-- Only up: a lower :last changes nothing.
INSERT INTO sequences (name, last, last_at)
VALUES (:name, max(coalesce((SELECT last FROM sequences WHERE name = :name), 0), :last), :clock)
ON CONFLICT (name) DO UPDATE SET last = excluded.last, last_at = max(sequences.last_at, excluded.last_at)
RETURNING last;

-- statement: sequence_raise  engine: postgres
INSERT INTO sequences (name, last, last_at)
VALUES (:name, :last, coalesce(:clock, clock_timestamp()))
ON CONFLICT (name) DO UPDATE
SET last = greatest(sequences.last, :last),
    last_at = greatest(sequences.last_at, coalesce(:clock, clock_timestamp()))
RETURNING last;

-- statement: sequence_show
SELECT last, last_at FROM sequences WHERE name = :name;

-- statement: sequence_list
-- Keyset page: names above :after, in byte order.
SELECT name, last, last_at FROM sequences WHERE name > :after ORDER BY name LIMIT :limit;
