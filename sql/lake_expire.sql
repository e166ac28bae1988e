-- Old snapshots, rows that no snapshot sees any more, and their files: src/lake/expire.h.
--
-- A row is reachable while some catalog sees it (the view lake_<kind>) at a snapshot that is still there (ducklake_snapshot). Pins and forks keep the
-- snapshots they stand on, so nothing else has to be asked.

-- statement: expire_lock  only: postgres
-- One at a time. The key is 'TIDELAKE' in ASCII, plus one.
SELECT pg_advisory_xact_lock(6073460657986616134);

-- statement: expire_catalog
-- The next catalog below :before: forks before their parents, which they may have kept.
SELECT c.catalog_id, c.dropped_at IS NOT NULL FROM lake_catalog c
WHERE c.catalog_id < :before AND c.catalog_id > 0 ORDER BY c.catalog_id DESC LIMIT 1;

-- statement: expire_find
SELECT catalog_id FROM lake_catalog WHERE lower(catalog_name) = lower(:name) AND dropped_at IS NULL;

-- statement: expire_boundary
-- The oldest of the newest :keep snapshots; none: there are fewer.
SELECT snapshot_id FROM ducklake_snapshot WHERE catalog_id = :catalog ORDER BY snapshot_id DESC LIMIT 1 OFFSET :keep - 1;

-- statement: expire_pins
DELETE FROM lake_pin WHERE expires_at <= :now;

-- statement: expire_snapshots  engine: sqlite
-- Snapshots that may go: asked for, not the head, no fork's point, not pinned.
SELECT s.snapshot_id FROM ducklake_snapshot s
WHERE s.catalog_id = :catalog AND s.snapshot_id < :boundary AND s.snapshot_time < :older_than
  AND NOT EXISTS (SELECT 1 FROM lake_head h JOIN lake_catalog c ON c.catalog_id = h.catalog_id
                  WHERE h.catalog_id = s.catalog_id AND h.snapshot_id = s.snapshot_id AND c.dropped_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.ancestor_id = s.catalog_id AND a.upto = s.snapshot_id AND a.catalog_id <> s.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM lake_pin p WHERE p.snapshot_id = s.snapshot_id AND p.expires_at > :now)
ORDER BY s.snapshot_id LIMIT :limit;

-- statement: expire_snapshots  engine: postgres
-- The lock waits for those who are pinning or forking one just now (they hold it FOR KEY SHARE); expire_snapshot looks again, behind it.
SELECT s.snapshot_id FROM ducklake_snapshot s
WHERE s.catalog_id = :catalog AND s.snapshot_id < :boundary AND s.snapshot_time < :older_than
  AND NOT EXISTS (SELECT 1 FROM lake_head h JOIN lake_catalog c ON c.catalog_id = h.catalog_id
                  WHERE h.catalog_id = s.catalog_id AND h.snapshot_id = s.snapshot_id AND c.dropped_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.ancestor_id = s.catalog_id AND a.upto = s.snapshot_id AND a.catalog_id <> s.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM lake_pin p WHERE p.snapshot_id = s.snapshot_id AND p.expires_at > :now)
ORDER BY s.snapshot_id LIMIT :limit FOR UPDATE OF s;

-- statement: expire_snapshot
DELETE FROM ducklake_snapshot
WHERE snapshot_id = :snapshot
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.ancestor_id = ducklake_snapshot.catalog_id AND a.upto = ducklake_snapshot.snapshot_id
                                                  AND a.catalog_id <> ducklake_snapshot.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM lake_pin p WHERE p.snapshot_id = ducklake_snapshot.snapshot_id AND p.expires_at > :now)
RETURNING snapshot_id;

-- statement: expire_changes
-- What snapshots changed outlives them for a time: a stock client whose transaction is open checks against it when it tries again.
DELETE FROM ducklake_snapshot_changes
WHERE catalog_id = :catalog AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = ducklake_snapshot_changes.snapshot_id)
  AND snapshot_id < (SELECT max(x.snapshot_id) FROM ducklake_snapshot_changes x JOIN lake_commit k ON k.snapshot_id = x.snapshot_id
                    WHERE x.catalog_id = :catalog AND k.expired_at IS NOT NULL AND k.committed_at < :due
                      AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = x.snapshot_id));

-- statement: expire_changes_refuse  engine: sqlite
-- The newest of these stays, with a word that no client knows: one that began before it stops there, and every other one reads only what is newer.
UPDATE ducklake_snapshot_changes SET changes_made = 'since_this_transaction_began_snapshots_were_expired:' || snapshot_id
WHERE catalog_id = :catalog
  AND snapshot_id = (SELECT max(x.snapshot_id) FROM ducklake_snapshot_changes x JOIN lake_commit k ON k.snapshot_id = x.snapshot_id
                    WHERE x.catalog_id = :catalog AND k.expired_at IS NOT NULL AND k.committed_at < :due
                      AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = x.snapshot_id));

-- statement: expire_changes_refuse  engine: postgres
-- The newest of these stays, with a word that no client knows: one that began before it stops there, and every other one reads only what is newer. Files that ended by then need
-- no trace any more.
WITH refused AS (
UPDATE ducklake_snapshot_changes SET changes_made = 'since_this_transaction_began_snapshots_were_expired:' || snapshot_id
WHERE catalog_id = :catalog
  AND snapshot_id = (SELECT max(x.snapshot_id) FROM ducklake_snapshot_changes x JOIN lake_commit k ON k.snapshot_id = x.snapshot_id
                    WHERE x.catalog_id = :catalog AND k.expired_at IS NOT NULL AND k.committed_at < :due
                      AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = x.snapshot_id))
RETURNING snapshot_id)
DELETE FROM lake_gone_file g USING refused r WHERE g.catalog_id = :catalog AND g.end_snapshot <= r.snapshot_id;

-- statement: expire_commit
-- The commit stays, so that its request's key answers for ever and the line has no hole.
UPDATE lake_commit SET expired_at = :now
WHERE snapshot_id = :snapshot AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = :snapshot);

-- statement: expire_base
-- A change from an older base than the oldest snapshot is refused from now on ...
UPDATE lake_head SET oldest_base = (SELECT min(s.snapshot_id) FROM ducklake_snapshot s WHERE s.catalog_id = :catalog)
WHERE catalog_id = :catalog AND oldest_base < (SELECT min(s.snapshot_id) FROM ducklake_snapshot s WHERE s.catalog_id = :catalog);

-- statement: expire_marks
-- ... so that nobody fears marks up to there.
DELETE FROM lake_mark WHERE catalog_id = :catalog AND snapshot_id <= (SELECT h.oldest_base FROM lake_head h WHERE h.catalog_id = :catalog);

-- ---- files ----

-- statement: expire_data_files
-- A page of data files of the catalog's line that have ended somewhere, or whose catalog is dropped; is anybody left who sees them?
SELECT f.data_file_id, CASE WHEN EXISTS (
    SELECT 1 FROM lake_data_file v JOIN ducklake_snapshot s
      ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
    WHERE v.data_file_id = f.data_file_id) THEN 1 ELSE 0 END
FROM (SELECT r.data_file_id FROM ducklake_data_file r
      WHERE r.data_file_id > :after
        AND r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
        AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      ORDER BY r.data_file_id LIMIT :limit) f
ORDER BY f.data_file_id;

-- statement: expire_delete_files
SELECT f.delete_file_id, CASE WHEN EXISTS (
    SELECT 1 FROM lake_delete_file v JOIN ducklake_snapshot s
      ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
    WHERE v.delete_file_id = f.delete_file_id) THEN 1 ELSE 0 END
FROM (SELECT r.delete_file_id FROM ducklake_delete_file r
      WHERE r.delete_file_id > :after
        AND r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
        AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      ORDER BY r.delete_file_id LIMIT :limit) f
ORDER BY f.delete_file_id;

-- statement: expire_schedule_data  engine: sqlite
-- A path is relative to its table's, and that to its schema's, unless it says otherwise; what is scheduled is relative to the data directory.
INSERT INTO ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start, catalog_id)
SELECT f.data_file_id,
       CASE WHEN f.path_is_relative THEN
           (SELECT CASE WHEN t.path_is_relative THEN coalesce((SELECT c.path FROM ducklake_schema c WHERE c.schema_id = t.schema_id), '') || t.path ELSE t.path END
            FROM ducklake_table t WHERE t.table_id = f.table_id ORDER BY t.begin_snapshot DESC LIMIT 1) || f.path
       ELSE f.path END,
       f.path_is_relative, :now, f.catalog_id
FROM ducklake_data_file f WHERE f.data_file_id = :id;

-- statement: expire_schedule_data  engine: postgres
-- A path is relative to its table's, and that to its schema's, unless it says otherwise; what is scheduled is relative to the data directory.
-- Catalogs that saw it end keep its id (lake_gone.sql).
WITH gone AS (
INSERT INTO lake_gone_file (data_file_id, catalog_id, table_id, begin_snapshot, end_snapshot)
SELECT v.data_file_id, v.viewer_id, v.table_id, v.begin_snapshot, v.end_snapshot
FROM lake_data_file v JOIN lake_catalog c ON c.catalog_id = v.viewer_id AND c.dropped_at IS NULL
WHERE v.data_file_id = :id AND v.end_snapshot IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot_changes x WHERE x.catalog_id = v.viewer_id AND x.snapshot_id >= v.end_snapshot
                                                              AND x.changes_made LIKE 'since_this_transaction_began_snapshots_were_expired:%')
ON CONFLICT DO NOTHING)
INSERT INTO ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start, catalog_id)
SELECT f.data_file_id,
       CASE WHEN f.path_is_relative THEN
           (SELECT CASE WHEN t.path_is_relative THEN coalesce((SELECT c.path FROM ducklake_schema c WHERE c.schema_id = t.schema_id), '') || t.path ELSE t.path END
            FROM ducklake_table t WHERE t.table_id = f.table_id ORDER BY t.begin_snapshot DESC LIMIT 1) || f.path
       ELSE f.path END,
       f.path_is_relative, :now, f.catalog_id
FROM ducklake_data_file f WHERE f.data_file_id = :id;

-- statement: expire_schedule_delete
INSERT INTO ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start, catalog_id)
SELECT f.delete_file_id,
       CASE WHEN f.path_is_relative THEN
           (SELECT CASE WHEN t.path_is_relative THEN coalesce((SELECT c.path FROM ducklake_schema c WHERE c.schema_id = t.schema_id), '') || t.path ELSE t.path END
            FROM ducklake_table t WHERE t.table_id = f.table_id ORDER BY t.begin_snapshot DESC LIMIT 1) || f.path
       ELSE f.path END,
       f.path_is_relative, :now, f.catalog_id
FROM ducklake_delete_file f WHERE f.delete_file_id = :id;

-- statement: expire_data_file
DELETE FROM ducklake_data_file WHERE data_file_id = :id;

-- statement: expire_delete_file
DELETE FROM ducklake_delete_file WHERE delete_file_id = :id;

-- statement: expire_file_stats
DELETE FROM ducklake_file_column_stats WHERE data_file_id = :id;

-- statement: expire_file_partition
DELETE FROM ducklake_file_partition_value WHERE data_file_id = :id;

-- statement: expire_file_ended
DELETE FROM lake_ended WHERE kind = :kind AND object_id = :id;

-- ---- other rows: at most :limit of a kind at a time, from the leaves to the roots ----

-- statement: expire_columns
DELETE FROM ducklake_column WHERE (table_id, column_id, begin_snapshot, catalog_id) IN (
    SELECT r.table_id, r.column_id, r.begin_snapshot, r.catalog_id FROM ducklake_column r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_column v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.table_id = r.table_id AND v.column_id = r.column_id AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_partitions
DELETE FROM ducklake_partition_info WHERE (partition_id, catalog_id) IN (
    SELECT r.partition_id, r.catalog_id FROM ducklake_partition_info r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_partition_info v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.partition_id = r.partition_id AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_tags
DELETE FROM ducklake_tag WHERE (object_id, key, begin_snapshot, catalog_id) IN (
    SELECT r.object_id, r.key, r.begin_snapshot, r.catalog_id FROM ducklake_tag r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_tag v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.object_id = r.object_id AND v.key = r.key AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_column_tags
DELETE FROM ducklake_column_tag WHERE (table_id, column_id, key, begin_snapshot, catalog_id) IN (
    SELECT r.table_id, r.column_id, r.key, r.begin_snapshot, r.catalog_id FROM ducklake_column_tag r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_column_tag v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.table_id = r.table_id AND v.column_id = r.column_id AND v.key = r.key AND v.begin_snapshot = r.begin_snapshot
                        AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_macros
DELETE FROM ducklake_macro WHERE (macro_id, begin_snapshot, catalog_id) IN (
    SELECT r.macro_id, r.begin_snapshot, r.catalog_id FROM ducklake_macro r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_macro v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.macro_id = r.macro_id AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_sorts
DELETE FROM ducklake_sort_info WHERE (sort_id, begin_snapshot, catalog_id) IN (
    SELECT r.sort_id, r.begin_snapshot, r.catalog_id FROM ducklake_sort_info r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_sort_info v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.sort_id = r.sort_id AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_views
DELETE FROM ducklake_view WHERE (view_id, begin_snapshot, catalog_id) IN (
    SELECT r.view_id, r.begin_snapshot, r.catalog_id FROM ducklake_view r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_view v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.view_id = r.view_id AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
    LIMIT :limit);

-- statement: expire_tables
-- Not while a file needs it to know its path.
DELETE FROM ducklake_table WHERE (table_id, begin_snapshot, catalog_id) IN (
    SELECT r.table_id, r.begin_snapshot, r.catalog_id FROM ducklake_table r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_table v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.table_id = r.table_id AND v.begin_snapshot = r.begin_snapshot AND v.owner_id = r.catalog_id)
      AND (EXISTS (SELECT 1 FROM ducklake_table o WHERE o.table_id = r.table_id AND o.begin_snapshot > r.begin_snapshot)
           OR NOT EXISTS (SELECT 1 FROM ducklake_data_file f WHERE f.table_id = r.table_id)
              AND NOT EXISTS (SELECT 1 FROM ducklake_delete_file d WHERE d.table_id = r.table_id))
    LIMIT :limit);

-- statement: expire_schemas
DELETE FROM ducklake_schema WHERE schema_id IN (
    SELECT r.schema_id FROM ducklake_schema r
    WHERE r.catalog_id IN (SELECT a.ancestor_id FROM lake_ancestor a WHERE a.catalog_id = :catalog)
      AND (r.end_snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM lake_catalog c WHERE c.catalog_id = r.catalog_id AND c.dropped_at IS NOT NULL))
      AND NOT EXISTS (SELECT 1 FROM lake_schema v JOIN ducklake_snapshot s
                        ON s.catalog_id = v.viewer_id AND s.snapshot_id >= v.begin_snapshot AND s.snapshot_id < coalesce(v.end_snapshot, 9223372036854775807)
                      WHERE v.schema_id = r.schema_id)
      AND NOT EXISTS (SELECT 1 FROM ducklake_table t WHERE t.schema_id = r.schema_id)
    LIMIT :limit);

-- ---- what hangs on rows that are gone ----

-- statement: expire_ended
-- Ends of rows that are gone.
DELETE FROM lake_ended WHERE (kind, object_id, sub_id, begin_snapshot, catalog_id) IN (
    SELECT e.kind, e.object_id, e.sub_id, e.begin_snapshot, e.catalog_id FROM lake_ended e
    WHERE e.kind = 1 AND NOT EXISTS (SELECT 1 FROM ducklake_schema r WHERE r.schema_id = e.object_id)
       OR e.kind = 2 AND NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.table_id = e.object_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 3 AND NOT EXISTS (SELECT 1 FROM ducklake_view r WHERE r.view_id = e.object_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 4 AND NOT EXISTS (SELECT 1 FROM ducklake_column r WHERE r.table_id = e.object_id AND r.column_id = e.sub_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 7 AND NOT EXISTS (SELECT 1 FROM ducklake_partition_info r WHERE r.partition_id = e.object_id)
       OR e.kind = 8 AND NOT EXISTS (SELECT 1 FROM ducklake_tag r WHERE r.object_id = e.object_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 9 AND NOT EXISTS (SELECT 1 FROM ducklake_column_tag r WHERE r.table_id = e.object_id AND r.column_id = e.sub_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 10 AND NOT EXISTS (SELECT 1 FROM ducklake_macro r WHERE r.macro_id = e.object_id AND r.begin_snapshot = e.begin_snapshot)
       OR e.kind = 11 AND NOT EXISTS (SELECT 1 FROM ducklake_sort_info r WHERE r.sort_id = e.object_id AND r.begin_snapshot = e.begin_snapshot)
    LIMIT :limit);

-- statement: expire_partition_keys
DELETE FROM ducklake_partition_column WHERE NOT EXISTS (SELECT 1 FROM ducklake_partition_info r WHERE r.partition_id = ducklake_partition_column.partition_id);

-- statement: expire_table_stats
DELETE FROM ducklake_table_stats WHERE NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.table_id = ducklake_table_stats.table_id);

-- statement: expire_table_column_stats
DELETE FROM ducklake_table_column_stats WHERE NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.table_id = ducklake_table_column_stats.table_id);

-- statement: expire_schema_versions
DELETE FROM ducklake_schema_versions
WHERE table_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.table_id = ducklake_schema_versions.table_id);

-- statement: expire_macro_impls
DELETE FROM ducklake_macro_impl WHERE NOT EXISTS (SELECT 1 FROM ducklake_macro r WHERE r.macro_id = ducklake_macro_impl.macro_id);

-- statement: expire_macro_parameters
DELETE FROM ducklake_macro_parameters WHERE NOT EXISTS (SELECT 1 FROM ducklake_macro r WHERE r.macro_id = ducklake_macro_parameters.macro_id);

-- statement: expire_sort_expressions
DELETE FROM ducklake_sort_expression WHERE NOT EXISTS (SELECT 1 FROM ducklake_sort_info r WHERE r.sort_id = ducklake_sort_expression.sort_id);

-- statement: expire_variant_stats
DELETE FROM ducklake_file_variant_stats WHERE NOT EXISTS (SELECT 1 FROM ducklake_data_file r WHERE r.data_file_id = ducklake_file_variant_stats.data_file_id);

-- statement: expire_column_mappings
DELETE FROM ducklake_column_mapping WHERE NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.table_id = ducklake_column_mapping.table_id);

-- statement: expire_name_mappings
DELETE FROM ducklake_name_mapping WHERE NOT EXISTS (SELECT 1 FROM ducklake_column_mapping r WHERE r.mapping_id = ducklake_name_mapping.mapping_id);

-- ---- a dropped catalog of which nothing is left ----

-- statement: expire_is_over
SELECT 1 FROM lake_catalog c
WHERE c.catalog_id = :catalog AND c.dropped_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.ancestor_id = c.catalog_id AND a.catalog_id <> c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_data_file r WHERE r.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_delete_file r WHERE r.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_column r WHERE r.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_table r WHERE r.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_view r WHERE r.catalog_id = c.catalog_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_schema r WHERE r.catalog_id = c.catalog_id);

-- statement: expire_over_ended
DELETE FROM lake_ended WHERE catalog_id = :catalog;

-- statement: expire_over_changes  engine: sqlite
DELETE FROM ducklake_snapshot_changes WHERE catalog_id = :catalog;

-- statement: expire_over_changes  engine: postgres
WITH gone AS (DELETE FROM lake_gone_file WHERE catalog_id = :catalog)
DELETE FROM ducklake_snapshot_changes WHERE catalog_id = :catalog;

-- statement: expire_over_marks
DELETE FROM lake_mark WHERE catalog_id = :catalog;

-- statement: expire_over_commits
DELETE FROM lake_commit WHERE catalog_id = :catalog;

-- statement: expire_over_stats
DELETE FROM ducklake_table_stats WHERE catalog_id = :catalog;

-- statement: expire_over_column_stats
DELETE FROM ducklake_table_column_stats WHERE catalog_id = :catalog;

-- statement: expire_over_unbounded
DELETE FROM lake_unbounded WHERE catalog_id = :catalog;

-- statement: expire_over_versions
DELETE FROM ducklake_schema_versions WHERE catalog_id = :catalog;

-- statement: expire_over_metadata
DELETE FROM ducklake_metadata WHERE catalog_id = :catalog;

-- statement: expire_over_pins
DELETE FROM lake_pin WHERE catalog_id = :catalog;

-- statement: expire_over_head
DELETE FROM lake_head WHERE catalog_id = :catalog;

-- statement: expire_over_ancestors
DELETE FROM lake_ancestor WHERE catalog_id = :catalog;

-- statement: expire_over_catalog
DELETE FROM lake_catalog WHERE catalog_id = :catalog;

-- ---- cleanup ----

-- statement: clean_due
-- Files whose time has come. One whose id has a row again, which cannot be, is left alone.
SELECT f.data_file_id, f.path, f.path_is_relative FROM ducklake_files_scheduled_for_deletion f
WHERE f.schedule_start <= :due AND (f.data_file_id, f.path) > (:after_id, :after_path)
  AND NOT EXISTS (SELECT 1 FROM ducklake_data_file r WHERE r.data_file_id = f.data_file_id)
  AND NOT EXISTS (SELECT 1 FROM ducklake_delete_file r WHERE r.delete_file_id = f.data_file_id)
ORDER BY f.data_file_id, f.path LIMIT :limit;

-- statement: clean_done
DELETE FROM ducklake_files_scheduled_for_deletion WHERE data_file_id = :id AND path = :path;

-- statement: clean_oldest_pin
SELECT min(taken_at) FROM lake_pin WHERE expires_at > :now;

-- statement: clean_named  engine: sqlite
-- Which of these paths, and endings of paths, does a row name?
SELECT j.value FROM json_each(:paths) j
WHERE EXISTS (SELECT 1 FROM ducklake_data_file r WHERE r.path = j.value)
   OR EXISTS (SELECT 1 FROM ducklake_delete_file r WHERE r.path = j.value)
   OR j.value IN (SELECT r.path FROM ducklake_files_scheduled_for_deletion r);

-- statement: clean_named  engine: postgres
SELECT j.value FROM json_array_elements_text(CAST(CAST(:paths AS text) AS json)) AS j (value)
WHERE EXISTS (SELECT 1 FROM ducklake_data_file r WHERE r.path = j.value)
   OR EXISTS (SELECT 1 FROM ducklake_delete_file r WHERE r.path = j.value)
   OR j.value IN (SELECT r.path FROM ducklake_files_scheduled_for_deletion r);
