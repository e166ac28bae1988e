-- What compaction (src/lake/compact.h) asks.

-- statement: compact_values
-- The partition values of a table's files.
SELECT data_file_id, coalesce(partition_value, '') FROM ducklake_file_partition_value
WHERE table_id = :table ORDER BY data_file_id, partition_key_index;

-- statement: compact_tables
-- Tables that a catalog sees at a snapshot, after :after, with their schemas' names.
SELECT t.table_id, s.schema_name, t.table_name
FROM lake_table t JOIN lake_schema s ON s.viewer_id = t.viewer_id AND s.schema_id = t.schema_id
  AND s.begin_snapshot <= :snapshot AND (s.end_snapshot IS NULL OR s.end_snapshot > :snapshot)
WHERE t.viewer_id = :catalog AND t.begin_snapshot <= :snapshot AND (t.end_snapshot IS NULL OR t.end_snapshot > :snapshot)
  AND t.table_id > :after
ORDER BY t.table_id LIMIT 1;
