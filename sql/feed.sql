-- Streams of numbered records. SQLite only: see feed_schema.sql.

-- statement: feed_stream_find  only: sqlite
-- Where a stream stands: its counter, its floor, the store's epoch, and the last epoch it wrote in. The cast: the name in a
-- damaged row can be a blob, which equals no text, and a stream without its counter would give numbers twice.
SELECT s.id, s.kind, s.sequence, coalesce(q.last, s.floor_seq),
       s.floor_seq, s.floor_chain, s.floor_arrived_at, s.floor_bytes,
       (SELECT CAST(value AS INTEGER) FROM db_metadata WHERE key = 'epoch'),
       e.epoch, e.first_seq
FROM feed_streams s
LEFT JOIN sequences q ON q.name = CAST(s.sequence AS TEXT)
LEFT JOIN feed_epochs e ON e.stream_id = s.id
    AND e.epoch = (SELECT max(epoch) FROM feed_epochs WHERE stream_id = s.id)
WHERE s.name = :name;

-- statement: feed_stream_list  only: sqlite
SELECT name FROM feed_streams ORDER BY id;

-- statement: feed_stream_heads  only: sqlite
SELECT s.name, coalesce(q.last, s.floor_seq)
FROM feed_streams s LEFT JOIN sequences q ON q.name = s.sequence ORDER BY s.id;

-- statement: feed_stream_count  only: sqlite
SELECT count(*) FROM feed_streams;

-- statement: feed_stream_add  only: sqlite
-- A sequence of this name that somebody else uses is left alone.
INSERT INTO feed_streams (id, name, kind, sequence, created_at)
SELECT (SELECT max(id) + 1 FROM feed_streams), :name, 'opaque', :sequence, :now
WHERE NOT EXISTS (SELECT 1 FROM sequences WHERE name = :sequence);

-- statement: feed_stream_created  only: sqlite
SELECT created_at FROM feed_streams WHERE name = :name;

-- statement: feed_floor_raise  only: sqlite
UPDATE feed_streams
SET floor_seq = :seq, floor_chain = :chain, floor_arrived_at = :arrived_at, floor_bytes = :bytes
WHERE id = :stream AND floor_seq < :seq;

-- statement: feed_sequence_raise  only: sqlite
-- Behind the batch that carries the numbers: the triggers of `sequences` look for it.
INSERT INTO sequences (name, last, last_at) VALUES (:name, :last, :at)
ON CONFLICT (name) DO UPDATE SET last = excluded.last, last_at = max(sequences.last_at, excluded.last_at);

-- statement: feed_epoch_add  only: sqlite
INSERT INTO feed_epochs (stream_id, epoch, first_seq) VALUES (:stream, :epoch, :first)
ON CONFLICT (stream_id, epoch) DO NOTHING;

-- statement: feed_epoch_starts  only: sqlite
-- The newest epochs of a stream, newest first.
SELECT f.epoch, f.first_seq, coalesce(e.epoch_id, ''), coalesce(e.reason, '')
FROM feed_epochs f LEFT JOIN epochs e ON e.epoch = f.epoch
WHERE f.stream_id = :stream ORDER BY f.epoch DESC LIMIT :limit;

-- statement: feed_epoch_starts_from  only: sqlite
-- The epochs of a stream from this one on, oldest first.
SELECT f.epoch, f.first_seq, coalesce(e.epoch_id, ''), coalesce(e.reason, '')
FROM feed_epochs f LEFT JOIN epochs e ON e.epoch = f.epoch
WHERE f.stream_id = :stream AND f.epoch >= :epoch ORDER BY f.epoch LIMIT :limit;

-- statement: feed_epoch_after  only: sqlite
SELECT min(first_seq) FROM feed_epochs WHERE stream_id = :stream AND epoch > :epoch;

-- statement: feed_epoch_list  only: sqlite
SELECT epoch, first_seq FROM feed_epochs WHERE stream_id = :stream ORDER BY epoch;

-- statement: feed_batch_add  only: sqlite
INSERT INTO feed_batches (stream_id, last_seq, first_seq, epoch, min_time_ms, max_time_ms, arrived_at, codec, raw_len,
                          stored_through, chain_before, chain, services, body_crc, head_crc, body)
VALUES (:stream, :last, :first, :epoch, :min_time, :max_time, :arrived_at, :codec, :raw_len,
        :stored_through, :chain_before, :chain, :services, :body_crc, :head_crc, :body);

-- statement: feed_batch_walk  only: sqlite
-- Heads above :after, in order. length() does not read the body. The casts: in a damaged row a column can be of any type.
SELECT id, CAST(stream_id AS INTEGER), CAST(last_seq AS INTEGER), CAST(first_seq AS INTEGER), CAST(epoch AS INTEGER),
       CAST(min_time_ms AS INTEGER), CAST(max_time_ms AS INTEGER), arrived_at, CAST(codec AS INTEGER),
       CAST(raw_len AS INTEGER), CAST(stored_through AS INTEGER), CAST(chain_before AS BLOB), CAST(chain AS BLOB),
       CAST(services AS BLOB), CAST(body_crc AS INTEGER), CAST(head_crc AS INTEGER), length(body)
FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = :stream AND last_seq > :after ORDER BY last_seq;

-- statement: feed_batch_last  only: sqlite
-- The batch that ends at :last.
SELECT id, CAST(stream_id AS INTEGER), CAST(last_seq AS INTEGER), CAST(first_seq AS INTEGER), CAST(epoch AS INTEGER),
       CAST(min_time_ms AS INTEGER), CAST(max_time_ms AS INTEGER), arrived_at, CAST(codec AS INTEGER),
       CAST(raw_len AS INTEGER), CAST(stored_through AS INTEGER), CAST(chain_before AS BLOB), CAST(chain AS BLOB),
       CAST(services AS BLOB), CAST(body_crc AS INTEGER), CAST(head_crc AS INTEGER), length(body)
FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = :stream AND last_seq = :last;

-- statement: feed_batch_body  only: sqlite
SELECT CAST(body AS BLOB) FROM feed_batches WHERE id = :id;

-- statement: feed_batch_range  only: sqlite
-- From the index alone: which numbers the next batch has, though its row may be unreadable.
SELECT CAST(first_seq AS INTEGER), CAST(last_seq AS INTEGER) FROM feed_batches INDEXED BY idx_feed_batches_seq
WHERE stream_id = :stream AND last_seq > :after ORDER BY last_seq LIMIT 1;

-- statement: feed_batch_drop  only: sqlite
DELETE FROM feed_batches WHERE id = :id;

-- statement: feed_batch_count  only: sqlite
SELECT count(*) FROM feed_batches INDEXED BY idx_feed_batches_seq WHERE stream_id = :stream;

-- statement: feed_loss_next  only: sqlite
-- The first loss that ends above :after.
SELECT first_seq, last_seq, reason, detail, found_at FROM feed_losses
WHERE stream_id = :stream AND last_seq > :after ORDER BY last_seq LIMIT 1;

-- statement: feed_loss_before  only: sqlite
-- The loss that ends exactly at :last: a new one right behind it, for the same reason, makes one of the two.
SELECT first_seq, reason FROM feed_losses WHERE stream_id = :stream AND last_seq = :last;

-- statement: feed_loss_drop  only: sqlite
DELETE FROM feed_losses WHERE stream_id = :stream AND last_seq = :last;

-- statement: feed_loss_add  only: sqlite
INSERT INTO feed_losses (stream_id, last_seq, first_seq, reason, found_at, detail)
VALUES (:stream, :last, :first, :reason, :found_at, :detail)
ON CONFLICT (stream_id, last_seq) DO NOTHING;

-- statement: feed_loss_trim  only: sqlite
-- Below the floor the newest :keep are remembered by their reason; older ones are "expired" like their neighbours.
DELETE FROM feed_losses WHERE stream_id = :stream AND last_seq <= :floor AND last_seq <= (
    SELECT last_seq FROM feed_losses WHERE stream_id = :stream AND last_seq <= :floor
    ORDER BY last_seq DESC LIMIT 1 OFFSET :keep);

-- statement: feed_reader_find  only: sqlite
SELECT epoch, position, lease_token, seen_at, opened_seq FROM feed_readers WHERE stream_id = :stream AND reader = :reader;

-- statement: feed_reader_put  only: sqlite
INSERT INTO feed_readers (stream_id, reader, epoch, position, lease_token, seen_at, opened_seq)
VALUES (:stream, :reader, :epoch, :position, :token, :now, :opened)
ON CONFLICT (stream_id, reader) DO UPDATE
SET epoch = excluded.epoch, position = excluded.position, lease_token = excluded.lease_token, seen_at = excluded.seen_at,
    opened_seq = excluded.opened_seq;

-- statement: feed_reader_unopened  only: sqlite
SELECT count(*) FROM feed_readers WHERE opened_seq IS NULL;

-- statement: feed_reader_open  only: sqlite
UPDATE feed_readers SET opened_seq = coalesce((SELECT q.last FROM feed_streams s JOIN sequences q ON q.name = s.sequence
                                               WHERE s.id = feed_readers.stream_id), 0)
WHERE opened_seq IS NULL;

-- statement: feed_reader_count  only: sqlite
SELECT count(*) FROM feed_readers WHERE stream_id = :stream;

-- statement: feed_reader_list  only: sqlite
SELECT reader, epoch, position, lease_token, seen_at FROM feed_readers WHERE stream_id = :stream ORDER BY reader;

-- statement: feed_reader_drop  only: sqlite
DELETE FROM feed_readers WHERE stream_id = :stream AND reader = :reader;

-- statement: feed_reader_forget  only: sqlite
DELETE FROM feed_readers WHERE seen_at < :before OR seen_at > :ahead;

-- statement: feed_reader_oldest  only: sqlite
SELECT min(seen_at) FROM feed_readers;

-- statement: feed_settled  only: sqlite
-- What every reader of a stream has settled; no row: nobody reads it. A reader of an earlier epoch has yet to say where it
-- stands in this one.
SELECT min(position) FROM feed_readers WHERE stream_id = :stream;

-- statement: feed_frame_find  only: sqlite
SELECT frame_id FROM profile_frame_dictionary WHERE frame_name = :name;

-- statement: feed_frame_add  only: sqlite
INSERT INTO profile_frame_dictionary (frame_name)
SELECT :name WHERE (SELECT coalesce(max(frame_id), 0) FROM profile_frame_dictionary) < :max
RETURNING frame_id;

-- statement: feed_frame_name  only: sqlite
SELECT frame_name FROM profile_frame_dictionary WHERE frame_id = :id;

-- statement: feed_frame_walk  only: sqlite
SELECT frame_id, frame_name FROM profile_frame_dictionary WHERE frame_id > :after ORDER BY frame_id LIMIT :limit;

-- statement: feed_frame_put  only: sqlite
INSERT INTO profile_frame_dictionary (frame_id, frame_name) VALUES (:id, :name) ON CONFLICT DO NOTHING;

-- statement: feed_binary_put  only: sqlite
INSERT INTO binary_metadata (build_id, service_id, binary_path, first_seen, last_seen, has_debug_info)
VALUES (:build_id, :service_id, :path, :first_seen, :last_seen, :has_debug_info)
ON CONFLICT (build_id, service_id) DO UPDATE
SET binary_path = excluded.binary_path, last_seen = max(binary_metadata.last_seen, excluded.last_seen),
    first_seen = min(binary_metadata.first_seen, excluded.first_seen), has_debug_info = excluded.has_debug_info;

-- statement: feed_binary_count  only: sqlite
SELECT count(*) FROM binary_metadata;

-- statement: feed_binary_list  only: sqlite
SELECT build_id, service_id, binary_path, first_seen, last_seen, has_debug_info
FROM binary_metadata ORDER BY build_id, service_id;

-- statement: feed_pages  only: sqlite
SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count),
       (SELECT page_size FROM pragma_page_size);

-- statement: feed_vacuum  only: sqlite
-- Gives pages at the file's end back, where the file was made for it; else it does nothing.
PRAGMA incremental_vacuum(256);
