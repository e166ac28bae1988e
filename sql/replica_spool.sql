-- Batches that wait until they are whole (replica/spool.h).

-- template: spool_find
SELECT 1 FROM tide_replica_spool WHERE origin = :origin AND epoch = :epoch AND cut_seq = :cut;

-- template: spool_put
INSERT INTO tide_replica_spool (origin, epoch, cut_seq, first_seq, since) VALUES (:origin, :epoch, :cut, :first, :now)
ON CONFLICT (origin, epoch, cut_seq) DO UPDATE SET first_seq = min(first_seq, excluded.first_seq);

-- template: spool_next
SELECT cut_seq, first_seq FROM tide_replica_spool
WHERE origin = :origin AND epoch = :epoch AND cut_seq > :after ORDER BY cut_seq LIMIT 1;

-- template: spool_cut
DELETE FROM tide_replica_spool WHERE origin = :origin AND epoch = :epoch AND cut_seq = :cut;

-- template: spool_origin
-- The next one that something waits of.
SELECT origin, epoch FROM tide_replica_spool WHERE (origin, epoch) > (:origin, :epoch) ORDER BY origin, epoch LIMIT 1;

-- template: spool_bodies
SELECT body FROM tide_replica_events
WHERE origin = :origin AND epoch = :epoch AND seq > :after AND seq <= :cut AND cut_seq = :cut AND processed = 0 ORDER BY seq;

-- template: spool_bound
SELECT min(first_seq) - 1 FROM tide_replica_spool WHERE origin = :origin AND epoch = :epoch;

-- template: spool_waiting_stamp
-- The lowest stamp of what is here and not merged: what waits for its batch, a table, a column, the time.
SELECT min(stamp) FROM tide_replica_events WHERE processed = 0 AND epoch > 0;
