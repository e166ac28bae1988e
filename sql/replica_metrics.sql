-- Figures of a node (services/replica/metrics.c).

-- template: metric_table_events
-- Events in the log, by table: from an index alone.
SELECT table_name, count(*) FROM tide_replica_events GROUP BY table_name ORDER BY table_name LIMIT 200;

-- template: metric_tombstones
SELECT count(*) FROM tide_replica_clocks WHERE gone IS NOT NULL;

-- template: metric_file_bytes
SELECT c.page_count * s.page_size FROM pragma_page_count c, pragma_page_size s;
