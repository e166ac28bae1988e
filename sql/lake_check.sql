-- What the history checker (src/lake/history.h) asks. Everything is read in pages, in one transaction that sees one state. Queries for
-- findings give at most :limit rows; queries for rows come in the order of their keys.

-- statement: check_catalog
-- The next catalog, dropped ones too. Catalog 0 is the bootstrap's.
SELECT c.catalog_id, coalesce(c.parent_id, 0), coalesce(c.fork_snapshot, 0), c.created_snapshot, c.dropped_at IS NOT NULL,
       h.catalog_id IS NOT NULL, h.snapshot_id, h.parent_snapshot_id, h.digest_a, h.digest_b, h.oldest_base
FROM lake_catalog c LEFT JOIN lake_head h ON h.catalog_id = c.catalog_id
WHERE c.catalog_id > :after AND c.catalog_id > 0
ORDER BY c.catalog_id LIMIT 1;

-- statement: check_catalog_id
SELECT catalog_id FROM lake_catalog WHERE lower(catalog_name) = lower(:name) AND dropped_at IS NULL;

-- statement: check_line
SELECT k.snapshot_id, k.parent_snapshot_id, k.digest_a, k.digest_b, k.expired_at IS NOT NULL,
       s.snapshot_id IS NOT NULL, x.snapshot_id IS NOT NULL,
       s.snapshot_time, coalesce(s.schema_version, 0), coalesce(s.next_catalog_id, 0), coalesce(s.next_file_id, 0)
FROM lake_commit k
LEFT JOIN ducklake_snapshot s ON s.snapshot_id = k.snapshot_id AND s.catalog_id = k.catalog_id
LEFT JOIN ducklake_snapshot_changes x ON x.snapshot_id = k.snapshot_id AND x.catalog_id = k.catalog_id
WHERE k.catalog_id = :catalog AND k.snapshot_id > :after
ORDER BY k.snapshot_id LIMIT :limit;

-- statement: check_strays
-- Snapshots and changes that no commit made.
SELECT q.snapshot_id, q.what FROM (
    SELECT s.snapshot_id, 'snapshot' AS what FROM ducklake_snapshot s
    LEFT JOIN lake_commit k ON k.snapshot_id = s.snapshot_id AND k.catalog_id = s.catalog_id
    WHERE s.catalog_id = :catalog AND k.snapshot_id IS NULL
    UNION ALL
    SELECT x.snapshot_id, 'list of changes' FROM ducklake_snapshot_changes x
    LEFT JOIN lake_commit k ON k.snapshot_id = x.snapshot_id AND k.catalog_id = x.catalog_id
    WHERE x.catalog_id = :catalog AND k.snapshot_id IS NULL
) q ORDER BY q.snapshot_id LIMIT :limit;

-- Rows with a life, as a catalog sees them, that began by :upto and did not end by :since (the same twice: those visible there): their key, their life,
-- then what digest.h adds up.

-- statement: check_schemas
SELECT v.schema_id, v.begin_snapshot, v.end_snapshot,
       v.schema_id, lower(CAST(v.schema_uuid AS varchar)), v.schema_name, v.path, v.path_is_relative
FROM lake_schema v WHERE v.viewer_id = :catalog AND v.schema_id > :a AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.schema_id LIMIT :limit;

-- statement: check_tables
SELECT v.table_id, v.begin_snapshot, v.begin_snapshot, v.end_snapshot,
       v.table_id, lower(CAST(v.table_uuid AS varchar)), v.schema_id, v.table_name, v.path, v.path_is_relative
FROM lake_table v WHERE v.viewer_id = :catalog AND (v.table_id, v.begin_snapshot) > (:a, :b)
AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.table_id, v.begin_snapshot LIMIT :limit;

-- statement: check_views
SELECT v.view_id, v.begin_snapshot, v.begin_snapshot, v.end_snapshot,
       v.view_id, lower(CAST(v.view_uuid AS varchar)), v.schema_id, v.view_name, v.dialect, v.sql
FROM lake_view v WHERE v.viewer_id = :catalog AND (v.view_id, v.begin_snapshot) > (:a, :b)
AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.view_id, v.begin_snapshot LIMIT :limit;

-- statement: check_columns
SELECT v.table_id, v.column_id, v.begin_snapshot, v.begin_snapshot, v.end_snapshot,
       v.table_id, v.column_id, v.column_order, v.column_name, v.column_type, v.initial_default, v.default_value, v.nulls_allowed
FROM lake_column v WHERE v.viewer_id = :catalog AND (v.table_id, v.column_id, v.begin_snapshot) > (:a, :b, :c)
AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.table_id, v.column_id, v.begin_snapshot LIMIT :limit;

-- statement: check_data_files
SELECT v.data_file_id, v.begin_snapshot, v.end_snapshot,
       v.data_file_id, v.table_id, v.path, v.path_is_relative, v.record_count, v.file_size_bytes, v.footer_size
FROM lake_data_file v WHERE v.viewer_id = :catalog AND v.data_file_id > :a AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.data_file_id LIMIT :limit;

-- statement: check_delete_files
SELECT v.delete_file_id, v.begin_snapshot, v.end_snapshot,
       v.delete_file_id, v.table_id, v.data_file_id, v.path, v.path_is_relative, v.delete_count, v.file_size_bytes
FROM lake_delete_file v WHERE v.viewer_id = :catalog AND v.delete_file_id > :a AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.delete_file_id LIMIT :limit;

-- statement: check_partitions
SELECT v.partition_id, v.begin_snapshot, v.end_snapshot, v.partition_id, v.table_id
FROM lake_partition_info v WHERE v.viewer_id = :catalog AND v.partition_id > :a AND v.begin_snapshot <= :upto AND (v.end_snapshot IS NULL OR v.end_snapshot > :since) ORDER BY v.partition_id LIMIT :limit;

-- statement: check_partition_keys
SELECT column_id, transform FROM ducklake_partition_column WHERE partition_id = :partition ORDER BY partition_key_index;

-- What commits did, for the matrix. Of expired ones the rows that say more may be gone.

-- statement: check_changes
SELECT k.snapshot_id, coalesce(k.base_snapshot_id, k.parent_snapshot_id), k.parent_snapshot_id, x.changes_made
FROM lake_commit k JOIN ducklake_snapshot_changes x ON x.snapshot_id = k.snapshot_id AND x.catalog_id = k.catalog_id
WHERE k.catalog_id = :catalog AND k.snapshot_id > :after AND k.expired_at IS NULL
ORDER BY k.snapshot_id LIMIT :limit;

-- statement: check_begun
-- Names that a catalog's commits gave, after :after and up to :upto. is_first: not a renaming.
SELECT q.begin_snapshot, q.kind, q.schema_id, q.object_id, q.name, q.is_first FROM (
    SELECT r.begin_snapshot, 1 AS kind, r.schema_id, r.schema_id AS object_id, r.schema_name AS name, 1 AS is_first
    FROM ducklake_schema r WHERE r.catalog_id = :catalog AND r.begin_snapshot > :after AND r.begin_snapshot <= :upto
    UNION ALL
    SELECT r.begin_snapshot, 2, r.schema_id, r.table_id, r.table_name,
           CASE WHEN EXISTS (SELECT 1 FROM ducklake_table o WHERE o.table_id = r.table_id AND o.begin_snapshot < r.begin_snapshot) THEN 0 ELSE 1 END
    FROM ducklake_table r WHERE r.catalog_id = :catalog AND r.begin_snapshot > :after AND r.begin_snapshot <= :upto
    UNION ALL
    SELECT r.begin_snapshot, 3, r.schema_id, r.view_id, r.view_name,
           CASE WHEN EXISTS (SELECT 1 FROM ducklake_view o WHERE o.view_id = r.view_id AND o.begin_snapshot < r.begin_snapshot) THEN 0 ELSE 1 END
    FROM ducklake_view r WHERE r.catalog_id = :catalog AND r.begin_snapshot > :after AND r.begin_snapshot <= :upto
) q ORDER BY q.begin_snapshot, q.kind, q.object_id;

-- statement: check_deleted
-- Data files that a catalog's commits deleted rows of: by a delete file, or whole.
SELECT q.snapshot_id, q.table_id, q.data_file_id FROM (
    SELECT r.begin_snapshot AS snapshot_id, r.table_id, r.data_file_id FROM ducklake_delete_file r
    WHERE r.catalog_id = :catalog AND r.begin_snapshot > :after AND r.begin_snapshot <= :upto
    UNION ALL
    SELECT r.end_snapshot, r.table_id, r.data_file_id FROM ducklake_data_file r
    WHERE r.catalog_id = :catalog AND r.end_snapshot > :after AND r.end_snapshot <= :upto
    UNION ALL
    SELECT e.end_snapshot, r.table_id, r.data_file_id FROM lake_ended e JOIN ducklake_data_file r ON r.data_file_id = e.object_id
    WHERE e.catalog_id = :catalog AND e.kind = 5 AND e.end_snapshot > :after AND e.end_snapshot <= :upto
) q ORDER BY q.snapshot_id, q.data_file_id;

-- Findings: what must not be. Columns: a snapshot, two ids, a text.

-- statement: check_schema_names
SELECT q.begin_snapshot, q.schema_id, q.other_id, q.schema_name FROM (
    SELECT v.begin_snapshot, v.schema_id, v.schema_name,
           max(coalesce(v.end_snapshot, 9223372036854775807)) OVER earlier AS free_at, max(v.schema_id) OVER earlier AS other_id
    FROM lake_schema v WHERE v.viewer_id = :catalog
    WINDOW earlier AS (PARTITION BY lower(v.schema_name) ORDER BY v.begin_snapshot, v.schema_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) q WHERE q.free_at > q.begin_snapshot ORDER BY q.begin_snapshot, q.schema_id LIMIT :limit;

-- statement: check_object_names
-- Tables and views of a schema share their names.
SELECT q.begin_snapshot, q.object_id, q.other_id, q.name FROM (
    SELECT o.begin_snapshot, o.object_id, o.name,
           max(coalesce(o.end_snapshot, 9223372036854775807)) OVER earlier AS free_at, max(o.object_id) OVER earlier AS other_id
    FROM (SELECT t.begin_snapshot, t.end_snapshot, t.schema_id, t.table_id AS object_id, t.table_name AS name
          FROM lake_table t WHERE t.viewer_id = :catalog
          UNION ALL
          SELECT w.begin_snapshot, w.end_snapshot, w.schema_id, w.view_id, w.view_name FROM lake_view w WHERE w.viewer_id = :catalog) o
    WINDOW earlier AS (PARTITION BY o.schema_id, lower(o.name) ORDER BY o.begin_snapshot, o.object_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) q WHERE q.free_at > q.begin_snapshot ORDER BY q.begin_snapshot, q.object_id LIMIT :limit;

-- statement: check_column_names
SELECT q.begin_snapshot, q.column_id, q.table_id, q.column_name FROM (
    SELECT v.begin_snapshot, v.column_id, v.table_id, v.column_name,
           max(coalesce(v.end_snapshot, 9223372036854775807)) OVER earlier AS free_at
    FROM lake_column v WHERE v.viewer_id = :catalog
    WINDOW earlier AS (PARTITION BY v.table_id, coalesce(v.parent_column, 0), lower(v.column_name) ORDER BY v.begin_snapshot, v.column_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) q WHERE q.free_at > q.begin_snapshot ORDER BY q.begin_snapshot, q.column_id LIMIT :limit;

-- statement: check_delete_alone
-- A delete file whose data file does not live as long as it.
SELECT d.begin_snapshot, d.delete_file_id, d.data_file_id, d.path
FROM lake_delete_file d LEFT JOIN lake_data_file f
  ON f.viewer_id = d.viewer_id AND f.data_file_id = d.data_file_id AND f.table_id = d.table_id
WHERE d.viewer_id = :catalog
  AND (f.data_file_id IS NULL OR f.begin_snapshot > d.begin_snapshot
       OR coalesce(f.end_snapshot, 9223372036854775807) < coalesce(d.end_snapshot, 9223372036854775807))
ORDER BY d.begin_snapshot, d.delete_file_id LIMIT :limit;

-- statement: check_delete_twice
-- Two delete files of one data file, both alive.
SELECT q.begin_snapshot, q.delete_file_id, q.data_file_id, q.path FROM (
    SELECT v.begin_snapshot, v.delete_file_id, v.data_file_id, v.path,
           max(coalesce(v.end_snapshot, 9223372036854775807)) OVER earlier AS free_at
    FROM lake_delete_file v WHERE v.viewer_id = :catalog
    WINDOW earlier AS (PARTITION BY v.data_file_id ORDER BY v.begin_snapshot, v.delete_file_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) q WHERE q.free_at > q.begin_snapshot ORDER BY q.begin_snapshot, q.delete_file_id LIMIT :limit;

-- statement: check_file_alone
-- A data file that outlives its table, or whose table never was.
SELECT f.begin_snapshot, f.data_file_id, f.table_id, f.path
FROM lake_data_file f LEFT JOIN (
    SELECT t.table_id, max(coalesce(t.end_snapshot, 9223372036854775807)) AS gone_at
    FROM lake_table t WHERE t.viewer_id = :catalog GROUP BY t.table_id) l ON l.table_id = f.table_id
WHERE f.viewer_id = :catalog AND (l.table_id IS NULL OR l.gone_at < coalesce(f.end_snapshot, 9223372036854775807))
ORDER BY f.begin_snapshot, f.data_file_id LIMIT :limit;

-- The same, of all catalogs at once.

-- statement: check_object_ids
-- Schemas, tables and views have ids of one counter. A thing that changes keeps its UUID.
SELECT max(q.begin_snapshot), q.id, count(DISTINCT q.uuid), max(q.name) FROM (
    SELECT schema_id AS id, begin_snapshot, CAST(schema_uuid AS text) AS uuid, schema_name AS name FROM ducklake_schema
    UNION ALL
    SELECT table_id, begin_snapshot, CAST(table_uuid AS text), table_name FROM ducklake_table
    UNION ALL
    SELECT view_id, begin_snapshot, CAST(view_uuid AS text), view_name FROM ducklake_view) q
GROUP BY q.id HAVING count(DISTINCT q.uuid) > 1 ORDER BY q.id LIMIT :limit;

-- statement: check_file_ids
SELECT max(q.begin_snapshot), q.id, count(*), max(q.path) FROM (
    SELECT data_file_id AS id, begin_snapshot, path FROM ducklake_data_file
    UNION ALL
    SELECT delete_file_id, begin_snapshot, path FROM ducklake_delete_file) q
GROUP BY q.id HAVING count(*) > 1 ORDER BY q.id LIMIT :limit;

-- statement: check_file_paths
SELECT max(q.begin_snapshot), max(q.id), min(q.id), q.path FROM (
    SELECT data_file_id AS id, begin_snapshot, path FROM ducklake_data_file
    UNION ALL
    SELECT delete_file_id, begin_snapshot, path FROM ducklake_delete_file) q
GROUP BY q.path HAVING count(*) > 1 ORDER BY 4 LIMIT :limit;

-- statement: check_scheduled
-- Scheduled for deletion, and still a row's file.
SELECT coalesce(f.begin_snapshot, d.begin_snapshot), s.data_file_id, s.catalog_id, s.path
FROM ducklake_files_scheduled_for_deletion s
LEFT JOIN ducklake_data_file f ON f.data_file_id = s.data_file_id
LEFT JOIN ducklake_delete_file d ON d.delete_file_id = s.data_file_id
WHERE f.data_file_id IS NOT NULL OR d.delete_file_id IS NOT NULL
ORDER BY s.data_file_id LIMIT :limit;

-- statement: check_counters  engine: sqlite
SELECT c.name, c.last, m.highest FROM lake_sequence c JOIN (
    SELECT 'snapshot' AS name, max((SELECT coalesce(max(snapshot_id), 0) FROM ducklake_snapshot), (SELECT coalesce(max(snapshot_id), 0) FROM lake_commit)) AS highest
    UNION ALL SELECT 'catalog', coalesce(max(catalog_id), 0) FROM lake_catalog
    UNION ALL SELECT 'object', max((SELECT coalesce(max(schema_id), 0) FROM ducklake_schema), (SELECT coalesce(max(table_id), 0) FROM ducklake_table),
                                   (SELECT coalesce(max(view_id), 0) FROM ducklake_view), (SELECT coalesce(max(macro_id), 0) FROM ducklake_macro),
                                   (SELECT coalesce(max(partition_id), 0) FROM ducklake_partition_info))
    UNION ALL SELECT 'column', coalesce(max(column_id), 0) FROM ducklake_column
    UNION ALL SELECT 'file', max((SELECT coalesce(max(data_file_id), 0) FROM ducklake_data_file), (SELECT coalesce(max(delete_file_id), 0) FROM ducklake_delete_file))) m ON m.name = c.name;

-- statement: check_counters  engine: postgres
SELECT 'snapshot', (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM ducklake_snapshot_id_seq),
       greatest((SELECT coalesce(max(snapshot_id), 0) FROM ducklake_snapshot), (SELECT coalesce(max(snapshot_id), 0) FROM lake_commit))
UNION ALL SELECT 'catalog', (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM ducklake_catalog_id_seq), (SELECT coalesce(max(catalog_id), 0) FROM lake_catalog)
UNION ALL SELECT 'object', (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM ducklake_object_id_seq),
       greatest((SELECT coalesce(max(schema_id), 0) FROM ducklake_schema), (SELECT coalesce(max(table_id), 0) FROM ducklake_table),
                (SELECT coalesce(max(view_id), 0) FROM ducklake_view), (SELECT coalesce(max(macro_id), 0) FROM ducklake_macro),
                                   (SELECT coalesce(max(partition_id), 0) FROM ducklake_partition_info))
UNION ALL SELECT 'column', (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM ducklake_column_id_seq), (SELECT coalesce(max(column_id), 0) FROM ducklake_column)
UNION ALL SELECT 'file', (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM ducklake_file_id_seq),
       greatest((SELECT coalesce(max(data_file_id), 0) FROM ducklake_data_file), (SELECT coalesce(max(delete_file_id), 0) FROM ducklake_delete_file));

-- statement: check_commit
-- What was recorded of one snapshot: for what an observer saw.
SELECT k.digest_a, k.digest_b, k.expired_at IS NOT NULL FROM lake_commit k WHERE k.catalog_id = :catalog AND k.snapshot_id = :snapshot;
