-- How far peers that cannot state cursors were read, by time (remote/legacy_pull.c).

-- template: by_time_get
SELECT value FROM tide_replica_state WHERE key = 'by_time/' || :peer || '/' || :table;

-- template: by_time_put
INSERT OR REPLACE INTO tide_replica_state (key, value) VALUES ('by_time/' || :peer || '/' || :table, :timestamp);

-- template: by_time_waiting
-- Batches of which something has not come: they are not merged.
SELECT count(*) FROM tide_replica_spool;
