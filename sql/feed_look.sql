-- What `tidemark feed` shows of streams, besides include/tidemark/feed.h. SQLite only.

-- statement: feed_look_records  only: sqlite
-- How many records are there; from the index alone.
SELECT coalesce(sum(last_seq - first_seq + 1), 0) FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = (SELECT id FROM feed_streams WHERE name = :name);

-- statement: feed_look_arrival  only: sqlite
-- When the first record behind :after arrived.
SELECT arrived_at FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = (SELECT id FROM feed_streams WHERE name = :name) AND last_seq > :after ORDER BY last_seq LIMIT 1;

-- statement: feed_look_batches  only: sqlite
-- The newest ones. length() does not read the body.
SELECT id, first_seq, last_seq, epoch, arrived_at, codec, raw_len, length(body)
FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = (SELECT id FROM feed_streams WHERE name = :name) ORDER BY last_seq DESC LIMIT :limit;

-- statement: feed_look_losses  only: sqlite
SELECT first_seq, last_seq, reason, detail, found_at FROM feed_losses
WHERE stream_id = (SELECT id FROM feed_streams WHERE name = :name) ORDER BY last_seq DESC LIMIT :limit;

-- statement: feed_look_setting  only: sqlite
-- The retention in force, as the program that applies it has left it.
SELECT CAST(value AS INTEGER) FROM db_metadata WHERE key = :key;
