-- What the tables over streams (src/feed/vtab.h) ask of the store, on the connection of whoever uses them: any program
-- with the extension, so every table is named with its schema. `main` becomes the schema that the table was made for.

-- statement: vtab_stream  only: sqlite
SELECT id, kind FROM main.feed_streams WHERE name = :name;

-- statement: vtab_stream_list  only: sqlite
SELECT name FROM main.feed_streams WHERE created_at IS NOT NULL ORDER BY id;

-- statement: vtab_declare  only: sqlite
-- Never run: it tells SQLite the columns of a table. Those of the stream's records stand where one stands for them here.
CREATE TABLE tide_vtab (
    seq_id INTEGER,
    record_columns TEXT,
    arrived_at TEXT,
    batch_epoch INTEGER HIDDEN,
    batch_id INTEGER HIDDEN,
    skip_damaged INTEGER HIDDEN
);

-- statement: vtab_walk_up  only: sqlite
-- Batches that end at :first or above, from the index alone: also those whose row cannot be read.
SELECT id, first_seq, last_seq FROM main.feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = :stream AND last_seq >= :first ORDER BY last_seq;

-- statement: vtab_walk_down  only: sqlite
-- The same from :last downwards, beginning with the batch that holds it.
SELECT id, first_seq, last_seq FROM main.feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = :stream AND last_seq >= :first AND last_seq <= coalesce(
    (SELECT last_seq FROM main.feed_batches INDEXED BY idx_feed_batches_seq
     WHERE stream_id = :stream AND last_seq >= :last ORDER BY last_seq LIMIT 1), :last)
ORDER BY last_seq DESC;

-- statement: vtab_batch  only: sqlite
-- The body stands last: it is read from the disk only when it is asked for.
SELECT stream_id, last_seq, first_seq, epoch, min_time_ms, max_time_ms, arrived_at, codec, raw_len,
       stored_through, chain_before, chain, services, body_crc, head_crc, body
FROM main.feed_batches WHERE id = :id;

-- statement: vtab_loss  only: sqlite
-- Is it known, and on record, that these numbers are gone?
SELECT 1 FROM main.feed_losses
WHERE stream_id = :stream AND last_seq >= :last AND first_seq <= :first ORDER BY last_seq LIMIT 1;

-- statement: vtab_sequence_next  only: sqlite
-- One number: sequence_take for whoever speaks SQL.
INSERT INTO main.sequences (name, last, last_at)
VALUES (:name, coalesce((SELECT last FROM main.sequences WHERE name = :name), 0) + 1, :clock)
ON CONFLICT (name) DO UPDATE SET last = excluded.last, last_at = max(sequences.last_at, excluded.last_at)
RETURNING last;

-- statement: vtab_sequence_last  only: sqlite
SELECT last FROM main.sequences WHERE name = :name;
