-- The lake's statements: bootstrap, counters, what a catalog holds, commit, forks, pins. The tables are in lake_schema.sql.

-- ---- bootstrap ----

-- statement: lake_lock  only: postgres
-- Who makes or heals a metabase is alone with it. The key is 'TIDELAKE' in ASCII.
SELECT pg_advisory_xact_lock(6073460657986616133);

-- statement: lake_look  engine: sqlite
-- Is there a metabase of ours, and is there one of anybody's?
SELECT count(*) FILTER (WHERE name = 'lake_version') > 0, count(*) FILTER (WHERE name = 'ducklake_snapshot') > 0
FROM sqlite_master WHERE type IN ('table', 'view') AND name IN ('lake_version', 'ducklake_snapshot');

-- statement: lake_look  engine: postgres
-- Not to_regclass: it answers from a cache that a wait for lake_lock does not refresh.
SELECT count(*) FILTER (WHERE table_name = 'lake_version') > 0, count(*) FILTER (WHERE table_name = 'ducklake_snapshot') > 0
FROM information_schema.tables
WHERE table_name IN ('lake_version', 'ducklake_snapshot') AND table_schema = current_schema();

-- statement: lake_version_list
SELECT number, version, checksum FROM lake_version ORDER BY number;

-- statement: lake_version_add
INSERT INTO lake_version (number, version, name, checksum, applied_at) VALUES (:number, :version, :name, :checksum, :now);

-- statement: lake_setting_get
SELECT value FROM ducklake_metadata WHERE key = :key AND scope IS NULL AND catalog_id = 0;

-- statement: lake_has_files
SELECT EXISTS (SELECT 1 FROM ducklake_data_file) OR EXISTS (SELECT 1 FROM ducklake_files_scheduled_for_deletion);

-- statement: lake_setting_add
INSERT INTO ducklake_metadata (key, value, scope, scope_id, catalog_id) VALUES (:key, :value, NULL, NULL, 0);

-- ---- counters ----

-- statement: lake_ids  engine: sqlite
-- The last of :count ids.
UPDATE lake_sequence SET last = last + :count WHERE name = :name RETURNING last;

-- statement: lake_ids  engine: postgres
-- Every one of :count ids.
SELECT nextval(CAST(quote_ident(CAST(:sequence AS text)) AS regclass)) FROM generate_series(1, CAST(:count AS int));

-- The greatest ids that are known to be given: what a counter gives lies above them.

-- statement: lake_given_objects
-- The newest snapshot says what was the next when it was made.
SELECT next_catalog_id - 1 FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1;

-- statement: lake_given_columns
SELECT coalesce(max(column_id), 0) FROM ducklake_column WHERE table_id = :table_id;

-- statement: lake_given_snapshots
SELECT snapshot_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1;

-- statement: lake_counters  engine: sqlite
-- Where each counter stands, and the greatest id that is there: what it must not be below.
SELECT s.name, s.name, s.last, CASE s.name
    WHEN 'snapshot' THEN max((SELECT max(snapshot_id) FROM ducklake_snapshot), coalesce((SELECT max(snapshot_id) FROM lake_commit), 0),
                             coalesce((SELECT max(snapshot_id) FROM lake_head), 0))
    WHEN 'catalog' THEN coalesce((SELECT max(catalog_id) FROM lake_catalog), 0)
    WHEN 'object' THEN max(coalesce((SELECT max(schema_id) FROM ducklake_schema), 0), coalesce((SELECT max(table_id) FROM ducklake_table), 0),
                           coalesce((SELECT max(view_id) FROM ducklake_view), 0), coalesce((SELECT max(macro_id) FROM ducklake_macro), 0),
                           coalesce((SELECT max(partition_id) FROM ducklake_partition_column), 0),
                           coalesce((SELECT max(n.next_catalog_id) - 1 FROM lake_head h JOIN ducklake_snapshot n ON n.snapshot_id = h.snapshot_id), 0))
    WHEN 'column' THEN coalesce((SELECT max(column_id) FROM ducklake_column), 0)
    WHEN 'file' THEN max(coalesce((SELECT max(data_file_id) FROM ducklake_data_file), 0), coalesce((SELECT max(delete_file_id) FROM ducklake_delete_file), 0),
                         coalesce((SELECT max(data_file_id) FROM ducklake_files_scheduled_for_deletion), 0),
                         coalesce((SELECT max(n.next_file_id) - 1 FROM lake_head h JOIN ducklake_snapshot n ON n.snapshot_id = h.snapshot_id), 0))
    ELSE 0 END -- partitions have ids of objects
FROM lake_sequence s;

-- statement: lake_counters  engine: postgres
SELECT 'snapshot', 'ducklake_snapshot_id_seq', CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       greatest((SELECT max(snapshot_id) FROM ducklake_snapshot), (SELECT max(snapshot_id) FROM lake_commit), (SELECT max(snapshot_id) FROM lake_head), 0)
FROM ducklake_snapshot_id_seq
UNION ALL
SELECT 'catalog', 'ducklake_catalog_id_seq', CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       greatest((SELECT max(catalog_id) FROM lake_catalog), 0)
FROM ducklake_catalog_id_seq
UNION ALL
SELECT 'object', 'ducklake_object_id_seq', CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       greatest((SELECT max(schema_id) FROM ducklake_schema), (SELECT max(table_id) FROM ducklake_table), (SELECT max(view_id) FROM ducklake_view),
                (SELECT max(macro_id) FROM ducklake_macro), (SELECT max(partition_id) FROM ducklake_partition_column),
                (SELECT max(n.next_catalog_id) - 1 FROM lake_head h JOIN ducklake_snapshot n ON n.snapshot_id = h.snapshot_id), 0)
FROM ducklake_object_id_seq
UNION ALL
SELECT 'column', 'ducklake_column_id_seq', CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       greatest((SELECT max(column_id) FROM ducklake_column), 0)
FROM ducklake_column_id_seq
UNION ALL
SELECT 'file', 'ducklake_file_id_seq', CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       greatest((SELECT max(data_file_id) FROM ducklake_data_file), (SELECT max(delete_file_id) FROM ducklake_delete_file),
                (SELECT max(data_file_id) FROM ducklake_files_scheduled_for_deletion),
                (SELECT max(n.next_file_id) - 1 FROM lake_head h JOIN ducklake_snapshot n ON n.snapshot_id = h.snapshot_id), 0)
FROM ducklake_file_id_seq;

-- statement: lake_raise  engine: sqlite
UPDATE lake_sequence SET last = :wanted WHERE name = :name AND last < :wanted RETURNING 1;

-- statement: lake_raise  engine: postgres
SELECT lake_raise(:sequence, :wanted);

-- statement: lake_snapshot_step  only: sqlite
-- The writer is alone: lake_head_take, behind it, finds the number.
UPDATE lake_sequence SET last = last + 1 WHERE name = 'snapshot';

-- statement: lake_head_take  engine: sqlite
-- The one way to a new snapshot: lock the head, move it. Times never go back beside the numbers.
UPDATE lake_head
SET parent_snapshot_id = snapshot_id, snapshot_id = (SELECT last FROM lake_sequence WHERE name = 'snapshot'),
    snapshot_time = max(snapshot_time, :clock), schema_version = schema_version + :schema_step,
    digest_a = (digest_a + :digest_a) & 4611686018427387903, digest_b = (digest_b + :digest_b) & 4611686018427387903
WHERE catalog_id = :catalog_id
RETURNING snapshot_id;

-- statement: lake_head_take  engine: postgres
-- Who waited for the row computes everything again from what it has become, so the number is always taken under the lock and above the head.
UPDATE lake_head
SET parent_snapshot_id = snapshot_id, snapshot_id = nextval('ducklake_snapshot_id_seq'),
    snapshot_time = greatest(snapshot_time, coalesce(:clock, clock_timestamp())), schema_version = schema_version + :schema_step,
    digest_a = (digest_a + :digest_a) & 4611686018427387903, digest_b = (digest_b + :digest_b) & 4611686018427387903
WHERE catalog_id = :catalog_id
RETURNING snapshot_id;

-- statement: lake_head_digest
-- What was found to end under the lock.
UPDATE lake_head
SET digest_a = (digest_a + :digest_a) & 4611686018427387903, digest_b = (digest_b + :digest_b) & 4611686018427387903
WHERE catalog_id = :catalog_id;

-- statement: lake_head_get
SELECT snapshot_id, oldest_base FROM lake_head WHERE catalog_id = :catalog_id;

-- ---- catalogs ----

-- statement: lake_catalog_find
SELECT c.catalog_id, c.catalog_name, CAST(c.catalog_uuid AS text), coalesce(c.parent_id, 0), coalesce(p.catalog_name, ''), coalesce(c.fork_snapshot, 0),
       c.created_snapshot, c.created_at, h.snapshot_id, h.snapshot_time, h.schema_version, coalesce(h.exposed_as, ''), h.digest_a, h.digest_b
FROM lake_catalog c JOIN lake_head h ON h.catalog_id = c.catalog_id LEFT JOIN lake_catalog p ON p.catalog_id = c.parent_id
WHERE c.dropped_at IS NULL AND lower(c.catalog_name) = :name;

-- statement: lake_catalog_list
SELECT c.catalog_id, c.catalog_name, CAST(c.catalog_uuid AS text), coalesce(c.parent_id, 0), coalesce(p.catalog_name, ''), coalesce(c.fork_snapshot, 0),
       c.created_snapshot, c.created_at, h.snapshot_id, h.snapshot_time, h.schema_version, coalesce(h.exposed_as, ''), h.digest_a, h.digest_b
FROM lake_catalog c JOIN lake_head h ON h.catalog_id = c.catalog_id LEFT JOIN lake_catalog p ON p.catalog_id = c.parent_id
WHERE c.dropped_at IS NULL
ORDER BY lower(c.catalog_name);

-- statement: lake_catalog_add
INSERT INTO lake_catalog (catalog_id, catalog_name, catalog_uuid, parent_id, fork_snapshot, created_snapshot, created_at, dropped_at)
VALUES (:catalog_id, :name, :uuid, :parent_id, :fork_snapshot, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id),
        (SELECT snapshot_time FROM lake_head WHERE catalog_id = :catalog_id), NULL);

-- statement: lake_catalog_hide
UPDATE lake_catalog SET dropped_at = :now WHERE catalog_id = :catalog_id AND dropped_at IS NULL;

-- statement: lake_head_add
-- Before its first snapshot; nobody sees it.
INSERT INTO lake_head (catalog_id, snapshot_id, parent_snapshot_id, snapshot_time, schema_version, digest_a, digest_b, oldest_base, exposed_as)
VALUES (:catalog_id, 0, 0, :now, 0, 0, 0, 0, NULL);

-- statement: lake_head_remove
-- Who waits to commit finds it gone.
DELETE FROM lake_head WHERE catalog_id = :catalog_id RETURNING snapshot_id;

-- statement: lake_ancestor_self
INSERT INTO lake_ancestor (catalog_id, depth, ancestor_id, upto) VALUES (:catalog_id, 0, :catalog_id, 9223372036854775807);

-- statement: lake_catalog_first
-- By which request was it made?
SELECT k.snapshot_id, coalesce(k.request_key, ''), coalesce(c.fork_snapshot, 0), k.request_hash
FROM lake_catalog c JOIN lake_commit k ON k.snapshot_id = c.created_snapshot WHERE c.catalog_id = :catalog_id;

-- ---- forks ----

-- statement: lake_parent_take  engine: sqlite
SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id;

-- statement: lake_parent_take  engine: postgres
-- The parent stands still while it is forked: nothing is committed, nothing expires.
SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id FOR NO KEY UPDATE;

-- statement: lake_fork_point  engine: sqlite
-- A snapshot that the parent sees, with the state's digest after it.
SELECT s.schema_version, k.digest_a, k.digest_b
FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
JOIN lake_commit k ON k.snapshot_id = s.snapshot_id
WHERE a.catalog_id = :parent_id AND s.snapshot_id = :snapshot;

-- statement: lake_fork_point  engine: postgres
-- Held, so that it does not expire meanwhile: who expires locks what he is about to remove, and looks for forks afterwards.
SELECT s.schema_version, k.digest_a, k.digest_b
FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
JOIN lake_commit k ON k.snapshot_id = s.snapshot_id
WHERE a.catalog_id = :parent_id AND s.snapshot_id = :snapshot
FOR KEY SHARE OF s;

-- statement: lake_fork_ancestors  engine: sqlite
INSERT INTO lake_ancestor (catalog_id, depth, ancestor_id, upto)
SELECT :catalog_id, a.depth + 1, a.ancestor_id, min(a.upto, :snapshot) FROM lake_ancestor a WHERE a.catalog_id = :parent_id;

-- statement: lake_fork_ancestors  engine: postgres
INSERT INTO lake_ancestor (catalog_id, depth, ancestor_id, upto)
SELECT CAST(:catalog_id AS bigint), a.depth + 1, a.ancestor_id, least(a.upto, CAST(:snapshot AS bigint)) FROM lake_ancestor a WHERE a.catalog_id = :parent_id;

-- statement: lake_fork_depth
SELECT count(*) FROM lake_ancestor WHERE catalog_id = :catalog_id;

-- statement: lake_fork_head  engine: sqlite
-- The fork's first snapshot has the state of its point, and is not older.
UPDATE lake_head
SET parent_snapshot_id = :snapshot, schema_version = :schema_version, digest_a = :digest_a, digest_b = :digest_b,
    snapshot_time = max(snapshot_time, (SELECT s.snapshot_time FROM ducklake_snapshot s WHERE s.snapshot_id = :snapshot))
WHERE catalog_id = :catalog_id;

-- statement: lake_fork_head  engine: postgres
UPDATE lake_head
SET parent_snapshot_id = :snapshot, schema_version = :schema_version, digest_a = :digest_a, digest_b = :digest_b,
    snapshot_time = greatest(snapshot_time, (SELECT s.snapshot_time FROM ducklake_snapshot s WHERE s.snapshot_id = :snapshot))
WHERE catalog_id = :catalog_id;

-- ---- snapshots ----

-- statement: lake_snapshot_find
SELECT s.snapshot_id FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
WHERE a.catalog_id = :catalog_id AND s.snapshot_id = :snapshot;

-- statement: lake_snapshot_at
-- Per catalog of the line, the own first: the newest at or before a time. The first that has one has the answer.
SELECT (SELECT s.snapshot_id FROM ducklake_snapshot s
        WHERE s.catalog_id = a.ancestor_id AND s.snapshot_time <= :time AND s.snapshot_id <= a.upto
        ORDER BY s.snapshot_time DESC, s.snapshot_id DESC LIMIT 1)
FROM lake_ancestor a WHERE a.catalog_id = :catalog_id ORDER BY a.depth;

-- statement: lake_snapshot_oldest
SELECT (SELECT s.snapshot_id FROM ducklake_snapshot s WHERE s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto ORDER BY s.snapshot_id LIMIT 1),
       (SELECT s.snapshot_time FROM ducklake_snapshot s WHERE s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto ORDER BY s.snapshot_id LIMIT 1)
FROM lake_ancestor a WHERE a.catalog_id = :catalog_id ORDER BY a.depth DESC;

-- statement: lake_snapshot_list
-- Ancestors' numbers lie below: by depth, then number, is by number.
SELECT s.snapshot_id, s.catalog_id, s.snapshot_time, s.schema_version, coalesce(c.changes_made, ''), coalesce(c.author, ''), coalesce(c.commit_message, '')
FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id
WHERE a.catalog_id = :catalog_id AND s.snapshot_id > :after
ORDER BY a.depth DESC, s.snapshot_id LIMIT :limit;

-- ---- what a catalog holds ----

-- statement: lake_schema_find
SELECT 1, schema_id, schema_id, owner_id, begin_snapshot, CAST(schema_uuid AS text), schema_name, path, path, path_is_relative, '', ''
FROM lake_schema
WHERE viewer_id = :catalog_id AND begin_snapshot <= :snapshot AND (end_snapshot IS NULL OR end_snapshot > :snapshot) AND lower(schema_name) = :name;

-- statement: lake_schema_list
SELECT 1, schema_id, schema_id, owner_id, begin_snapshot, CAST(schema_uuid AS text), schema_name, path, path, path_is_relative, '', ''
FROM lake_schema
WHERE viewer_id = :catalog_id AND begin_snapshot <= :snapshot AND (end_snapshot IS NULL OR end_snapshot > :snapshot)
ORDER BY lower(schema_name);

-- statement: lake_object_find
SELECT 2, t.table_id, t.schema_id, t.owner_id, t.begin_snapshot, CAST(t.table_uuid AS text), t.table_name,
       CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END, t.path, t.path_is_relative, '', ''
FROM lake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id
WHERE t.viewer_id = :catalog_id AND t.schema_id = :schema_id AND lower(t.table_name) = :name
  AND t.begin_snapshot <= :snapshot AND (t.end_snapshot IS NULL OR t.end_snapshot > :snapshot)
UNION ALL
SELECT 3, v.view_id, v.schema_id, v.owner_id, v.begin_snapshot, CAST(v.view_uuid AS text), v.view_name, '', '', false, coalesce(v.dialect, ''), coalesce(v.sql, '')
FROM lake_view v
WHERE v.viewer_id = :catalog_id AND v.schema_id = :schema_id AND lower(v.view_name) = :name
  AND v.begin_snapshot <= :snapshot AND (v.end_snapshot IS NULL OR v.end_snapshot > :snapshot);

-- statement: lake_object_list
SELECT 2, t.table_id, t.schema_id, t.owner_id, t.begin_snapshot, CAST(t.table_uuid AS text), t.table_name,
       CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END, t.path, t.path_is_relative, '', ''
FROM lake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id
WHERE t.viewer_id = :catalog_id AND t.schema_id = :schema_id
  AND t.begin_snapshot <= :snapshot AND (t.end_snapshot IS NULL OR t.end_snapshot > :snapshot)
UNION ALL
SELECT 3, v.view_id, v.schema_id, v.owner_id, v.begin_snapshot, CAST(v.view_uuid AS text), v.view_name, '', '', false, coalesce(v.dialect, ''), coalesce(v.sql, '')
FROM lake_view v
WHERE v.viewer_id = :catalog_id AND v.schema_id = :schema_id
  AND v.begin_snapshot <= :snapshot AND (v.end_snapshot IS NULL OR v.end_snapshot > :snapshot)
ORDER BY 7;

-- statement: lake_table_get
SELECT 2, t.table_id, t.schema_id, t.owner_id, t.begin_snapshot, CAST(t.table_uuid AS text), t.table_name,
       CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END, t.path, t.path_is_relative, '', ''
FROM lake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id
WHERE t.viewer_id = :catalog_id AND t.table_id = :table_id
  AND t.begin_snapshot <= :snapshot AND (t.end_snapshot IS NULL OR t.end_snapshot > :snapshot);

-- statement: lake_view_get
SELECT 3, v.view_id, v.schema_id, v.owner_id, v.begin_snapshot, CAST(v.view_uuid AS text), v.view_name, '', '', false, coalesce(v.dialect, ''), coalesce(v.sql, '')
FROM lake_view v
WHERE v.viewer_id = :catalog_id AND v.view_id = :view_id
  AND v.begin_snapshot <= :snapshot AND (v.end_snapshot IS NULL OR v.end_snapshot > :snapshot);

-- statement: lake_table_path  engine: sqlite
-- The same in all of a table's rows.
SELECT CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END
FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id WHERE t.table_id = :table_id LIMIT 1;

-- statement: lake_table_path  engine: postgres
-- Behind it the table's files are listed. Tables differ in size by orders of magnitude, so the server, left to itself, plans that list anew for each of them, which takes longer
-- than the list: for the rest of this transaction it keeps one plan for all, and goes by index, whose cost is that of the files that are listed.
SELECT CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END,
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)
FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id WHERE t.table_id = :table_id LIMIT 1;

-- statement: lake_column_list
SELECT column_id, begin_snapshot, owner_id, column_order, column_name, column_type, initial_default, default_value, nulls_allowed
FROM lake_column
WHERE viewer_id = :catalog_id AND table_id = :table_id AND parent_column IS NULL
  AND begin_snapshot <= :snapshot AND (end_snapshot IS NULL OR end_snapshot > :snapshot)
ORDER BY column_order, column_id;

-- statement: lake_partition_get
SELECT p.partition_id, p.begin_snapshot, p.owner_id, k.column_id, k.transform
FROM lake_partition_info p LEFT JOIN ducklake_partition_column k ON k.partition_id = p.partition_id
WHERE p.viewer_id = :catalog_id AND p.table_id = :table_id
  AND p.begin_snapshot <= :snapshot AND (p.end_snapshot IS NULL OR p.end_snapshot > :snapshot)
ORDER BY p.partition_id, k.partition_key_index;

-- statement: lake_file_list  engine: sqlite
SELECT f.data_file_id, f.owner_id, f.begin_snapshot, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, coalesce(f.footer_size, 0),
       coalesce(f.row_id_start, 0), coalesce(f.partition_id, 0), coalesce(d.delete_file_id, 0), coalesce(d.begin_snapshot, 0), coalesce(d.owner_id, 0),
       coalesce(d.path, ''), d.path_is_relative, coalesce(d.delete_count, 0),
       f.mapping_id IS NOT NULL OR f.encryption_key IS NOT NULL OR d.encryption_key IS NOT NULL OR coalesce(d.format, 'parquet') <> 'parquet',
       coalesce(g.sha256, ''), coalesce(h.sha256, '')
FROM lake_data_file f
LEFT JOIN lake_delete_file d ON d.viewer_id = f.viewer_id AND d.data_file_id = f.data_file_id
      AND d.begin_snapshot <= :snapshot AND (d.end_snapshot IS NULL OR d.end_snapshot > :snapshot)
LEFT JOIN lake_file_digest g ON g.file_id = f.data_file_id
LEFT JOIN lake_file_digest h ON h.file_id = d.delete_file_id
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND f.begin_snapshot <= :snapshot AND (f.end_snapshot IS NULL OR f.end_snapshot > :snapshot)
ORDER BY f.data_file_id;

-- statement: lake_file_list  engine: postgres
-- Each file's deletes are looked up by index (OFFSET 0 keeps it so): one plan serves tables of any size, see lake_table_path.
SELECT f.data_file_id, f.owner_id, f.begin_snapshot, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, coalesce(f.footer_size, 0),
       coalesce(f.row_id_start, 0), coalesce(f.partition_id, 0), coalesce(d.delete_file_id, 0), coalesce(d.begin_snapshot, 0), coalesce(d.owner_id, 0),
       coalesce(d.path, ''), d.path_is_relative, coalesce(d.delete_count, 0),
       f.mapping_id IS NOT NULL OR f.encryption_key IS NOT NULL OR d.encryption_key IS NOT NULL OR coalesce(d.format, 'parquet') <> 'parquet',
       coalesce(g.sha256, ''), coalesce(h.sha256, '')
FROM lake_data_file f
LEFT JOIN LATERAL (SELECT * FROM lake_delete_file x WHERE x.viewer_id = f.viewer_id AND x.data_file_id = f.data_file_id
                     AND x.begin_snapshot <= :snapshot AND (x.end_snapshot IS NULL OR x.end_snapshot > :snapshot) OFFSET 0) d ON true
LEFT JOIN lake_file_digest g ON g.file_id = f.data_file_id
LEFT JOIN lake_file_digest h ON h.file_id = d.delete_file_id
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND f.begin_snapshot <= :snapshot AND (f.end_snapshot IS NULL OR f.end_snapshot > :snapshot)
ORDER BY f.data_file_id;

-- statement: lake_file_list_stats  engine: sqlite
-- The same with the statistics of one column.
SELECT f.data_file_id, f.owner_id, f.begin_snapshot, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, coalesce(f.footer_size, 0),
       coalesce(f.row_id_start, 0), coalesce(f.partition_id, 0), coalesce(d.delete_file_id, 0), coalesce(d.begin_snapshot, 0), coalesce(d.owner_id, 0),
       coalesce(d.path, ''), d.path_is_relative, coalesce(d.delete_count, 0),
       f.mapping_id IS NOT NULL OR f.encryption_key IS NOT NULL OR d.encryption_key IS NOT NULL OR coalesce(d.format, 'parquet') <> 'parquet',
       coalesce(g.sha256, ''), coalesce(h.sha256, ''), s.min_value, s.max_value, s.value_count, s.null_count
FROM lake_data_file f
LEFT JOIN lake_delete_file d ON d.viewer_id = f.viewer_id AND d.data_file_id = f.data_file_id
      AND d.begin_snapshot <= :snapshot AND (d.end_snapshot IS NULL OR d.end_snapshot > :snapshot)
LEFT JOIN ducklake_file_column_stats s ON s.data_file_id = f.data_file_id AND s.column_id = :column_id
LEFT JOIN lake_file_digest g ON g.file_id = f.data_file_id
LEFT JOIN lake_file_digest h ON h.file_id = d.delete_file_id
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND f.begin_snapshot <= :snapshot AND (f.end_snapshot IS NULL OR f.end_snapshot > :snapshot)
ORDER BY f.data_file_id;

-- statement: lake_file_list_stats  engine: postgres
SELECT f.data_file_id, f.owner_id, f.begin_snapshot, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, coalesce(f.footer_size, 0),
       coalesce(f.row_id_start, 0), coalesce(f.partition_id, 0), coalesce(d.delete_file_id, 0), coalesce(d.begin_snapshot, 0), coalesce(d.owner_id, 0),
       coalesce(d.path, ''), d.path_is_relative, coalesce(d.delete_count, 0),
       f.mapping_id IS NOT NULL OR f.encryption_key IS NOT NULL OR d.encryption_key IS NOT NULL OR coalesce(d.format, 'parquet') <> 'parquet',
       coalesce(g.sha256, ''), coalesce(h.sha256, ''), s.min_value, s.max_value, s.value_count, s.null_count
FROM lake_data_file f
LEFT JOIN LATERAL (SELECT * FROM lake_delete_file x WHERE x.viewer_id = f.viewer_id AND x.data_file_id = f.data_file_id
                     AND x.begin_snapshot <= :snapshot AND (x.end_snapshot IS NULL OR x.end_snapshot > :snapshot) OFFSET 0) d ON true
LEFT JOIN LATERAL (SELECT x.min_value, x.max_value, x.value_count, x.null_count FROM ducklake_file_column_stats x
                   WHERE x.data_file_id = f.data_file_id AND x.column_id = :column_id OFFSET 0) s ON true
LEFT JOIN lake_file_digest g ON g.file_id = f.data_file_id
LEFT JOIN lake_file_digest h ON h.file_id = d.delete_file_id
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND f.begin_snapshot <= :snapshot AND (f.end_snapshot IS NULL OR f.end_snapshot > :snapshot)
ORDER BY f.data_file_id;

-- statement: lake_file_get
-- What a file that is to end is made of.
SELECT table_id, path, path_is_relative, record_count, file_size_bytes, footer_size FROM ducklake_data_file WHERE data_file_id = :id;

-- statement: lake_delete_get
SELECT table_id, data_file_id, path, path_is_relative, delete_count, file_size_bytes FROM ducklake_delete_file WHERE delete_file_id = :id;

-- statement: lake_diff
-- Visible at :b and not at :a; the same with both exchanged is what went.
SELECT 1, schema_id, CAST(0 AS bigint), schema_name, CAST(0 AS bigint) FROM lake_schema
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 2, table_id, CAST(0 AS bigint), table_name, CAST(0 AS bigint) FROM lake_table
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 3, view_id, CAST(0 AS bigint), view_name, CAST(0 AS bigint) FROM lake_view
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 4, column_id, table_id, column_name, CAST(0 AS bigint) FROM lake_column
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 5, data_file_id, table_id, path, record_count FROM lake_data_file
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 6, delete_file_id, table_id, path, delete_count FROM lake_delete_file
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
UNION ALL
SELECT 7, partition_id, table_id, '', CAST(0 AS bigint) FROM lake_partition_info
WHERE viewer_id = :catalog_id AND begin_snapshot <= :b AND (end_snapshot IS NULL OR end_snapshot > :b)
  AND NOT (begin_snapshot <= :a AND (end_snapshot IS NULL OR end_snapshot > :a))
ORDER BY 1, 3, 2;

-- ---- commit ----

-- statement: lake_refuse  only: postgres
SELECT lake_refuse(:catalog_id, :base, :fears, :key, :pin, :clock);

-- statement: lake_base_find
SELECT 1 FROM lake_commit WHERE catalog_id = :catalog_id AND snapshot_id = :base AND digest_a = :digest_a AND digest_b = :digest_b;

-- statement: lake_key_find
SELECT snapshot_id, parent_snapshot_id, request_hash, rows_added, coalesce(attempt_id, '') FROM lake_commit WHERE catalog_id = :catalog_id AND request_key = :key;

-- statement: lake_conflict_find  engine: sqlite
-- The first that was done since the base and that is feared; who did it.
SELECT m.mark, m.snapshot_id, coalesce(c.author, '')
FROM json_each(:fears) f JOIN lake_mark m ON m.catalog_id = :catalog_id AND m.mark = f.value AND m.snapshot_id > :base
LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = m.snapshot_id
ORDER BY m.snapshot_id, m.mark LIMIT 1;

-- statement: lake_conflict_find  engine: postgres
SELECT m.mark, m.snapshot_id, coalesce(c.author, '')
FROM jsonb_array_elements_text(:fears) f (mark) JOIN lake_mark m ON m.catalog_id = :catalog_id AND m.mark = f.mark AND m.snapshot_id > :base
LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = m.snapshot_id
ORDER BY m.snapshot_id, m.mark LIMIT 1;

-- statement: lake_add_schema
INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, end_snapshot, schema_name, path, path_is_relative, catalog_id)
VALUES (:id, :uuid, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), NULL, :name, :path, :is_relative, :catalog_id);

-- statement: lake_add_table
INSERT INTO ducklake_table (table_id, table_uuid, begin_snapshot, end_snapshot, schema_id, table_name, path, path_is_relative, catalog_id)
VALUES (:id, :uuid, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), NULL, :schema_id, :name, :path, :is_relative, :catalog_id);

-- statement: lake_add_view
INSERT INTO ducklake_view (view_id, view_uuid, begin_snapshot, end_snapshot, schema_id, view_name, dialect, sql, column_aliases, catalog_id)
VALUES (:id, :uuid, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), NULL, :schema_id, :name, :dialect, :sql, '', :catalog_id);

-- statement: lake_add_column
INSERT INTO ducklake_column (column_id, begin_snapshot, end_snapshot, table_id, column_order, column_name, column_type, initial_default, default_value,
                             nulls_allowed, parent_column, default_value_type, default_value_dialect, catalog_id)
VALUES (:id, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), NULL, :table_id, :order, :name, :type, :initial_default, :default_value,
        :nulls_allowed, NULL, 'literal', 'duckdb', :catalog_id);

-- statement: lake_add_partition
INSERT INTO ducklake_partition_info (partition_id, table_id, begin_snapshot, end_snapshot, catalog_id)
VALUES (:id, :table_id, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), NULL, :catalog_id);

-- statement: lake_add_partition_key
INSERT INTO ducklake_partition_column (partition_id, table_id, partition_key_index, column_id, transform, catalog_id)
VALUES (:id, :table_id, :index, :column_id, :transform, :catalog_id);

-- statement: lake_add_schema_version
INSERT INTO ducklake_schema_versions (begin_snapshot, schema_version, table_id, catalog_id)
VALUES ((SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id), (SELECT schema_version FROM lake_head WHERE catalog_id = :catalog_id),
        :table_id, :catalog_id);

-- statement: lake_stats_begin  engine: sqlite
-- A fork counts for itself from its first insert on, beginning with what it sees; row ids go on above all that it ever saw.
INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
SELECT :table_id, coalesce(sum(CASE WHEN f.end_snapshot IS NULL THEN f.record_count ELSE 0 END), 0),
       coalesce(max(coalesce(f.row_id_start, 0) + f.record_count), 0), coalesce(sum(CASE WHEN f.end_snapshot IS NULL THEN f.file_size_bytes ELSE 0 END), 0), :catalog_id
FROM lake_data_file f
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND NOT EXISTS (SELECT 1 FROM ducklake_table_stats s WHERE s.table_id = :table_id AND s.catalog_id = :catalog_id)
HAVING NOT EXISTS (SELECT 1 FROM ducklake_table_stats s WHERE s.table_id = :table_id AND s.catalog_id = :catalog_id);

-- statement: lake_stats_begin  engine: postgres
INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
SELECT CAST(:table_id AS bigint), CAST(coalesce(sum(f.record_count) FILTER (WHERE f.end_snapshot IS NULL), 0) AS bigint),
       coalesce(max(coalesce(f.row_id_start, 0) + f.record_count), 0),
       CAST(coalesce(sum(f.file_size_bytes) FILTER (WHERE f.end_snapshot IS NULL), 0) AS bigint), CAST(:catalog_id AS bigint)
FROM lake_data_file f
WHERE f.viewer_id = :catalog_id AND f.table_id = :table_id
  AND NOT EXISTS (SELECT 1 FROM ducklake_table_stats s WHERE s.table_id = :table_id AND s.catalog_id = :catalog_id)
HAVING NOT EXISTS (SELECT 1 FROM ducklake_table_stats s WHERE s.table_id = :table_id AND s.catalog_id = :catalog_id);

-- statement: lake_stats_step
-- Deltas, never values read earlier.
INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
VALUES (:table_id, :records, :row_ids, :bytes, :catalog_id)
ON CONFLICT (table_id, catalog_id) DO UPDATE
SET record_count = ducklake_table_stats.record_count + excluded.record_count, next_row_id = ducklake_table_stats.next_row_id + excluded.next_row_id,
    file_size_bytes = ducklake_table_stats.file_size_bytes + excluded.file_size_bytes;

-- statement: lake_add_files  engine: sqlite
INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, end_snapshot, file_order, path, path_is_relative, file_format, record_count,
                                file_size_bytes, footer_size, row_id_start, partition_id, encryption_key, mapping_id, partial_max, catalog_id)
SELECT json_extract(r.value, '$.id'), json_extract(r.value, '$.table'), h.snapshot_id, NULL, NULL, json_extract(r.value, '$.path'), 1, 'parquet',
       json_extract(r.value, '$.records'), json_extract(r.value, '$.bytes'), json_extract(r.value, '$.footer'),
       coalesce(s.next_row_id, 0) + json_extract(r.value, '$.row'), json_extract(r.value, '$.partition'), NULL, NULL, NULL, h.catalog_id
FROM json_each(:rows) r JOIN lake_head h ON h.catalog_id = :catalog_id
LEFT JOIN ducklake_table_stats s ON s.table_id = json_extract(r.value, '$.table') AND s.catalog_id = h.catalog_id;

-- statement: lake_add_files  engine: postgres
INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, end_snapshot, file_order, path, path_is_relative, file_format, record_count,
                                file_size_bytes, footer_size, row_id_start, partition_id, encryption_key, mapping_id, partial_max, catalog_id)
SELECT r.id, r."table", h.snapshot_id, NULL, NULL, r.path, true, 'parquet', r.records, r.bytes, r.footer, coalesce(s.next_row_id, 0) + r.row, r.partition,
       NULL, NULL, NULL, h.catalog_id
FROM json_to_recordset(:rows) r (id bigint, "table" bigint, path text, records bigint, bytes bigint, footer bigint, row bigint, partition bigint)
JOIN lake_head h ON h.catalog_id = :catalog_id
LEFT JOIN ducklake_table_stats s ON s.table_id = r."table" AND s.catalog_id = h.catalog_id;

-- statement: lake_add_file_stats  engine: sqlite
INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value, contains_nan,
                                        extra_stats, catalog_id)
SELECT json_extract(r.value, '$.file'), json_extract(r.value, '$.table'), json_extract(r.value, '$.column'), json_extract(r.value, '$.bytes'),
       json_extract(r.value, '$.values'), json_extract(r.value, '$.nulls'), json_extract(r.value, '$.min'), json_extract(r.value, '$.max'),
       json_extract(r.value, '$.nan'), NULL, :catalog_id
FROM json_each(:rows) r;

-- statement: lake_add_file_stats  engine: postgres
INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value, contains_nan,
                                        extra_stats, catalog_id)
SELECT r.file, r."table", r."column", r.bytes, r."values", r.nulls, r.min, r.max, r.nan, NULL, CAST(:catalog_id AS bigint)
FROM json_to_recordset(:rows) r (file bigint, "table" bigint, "column" bigint, bytes bigint, "values" bigint, nulls bigint, min text, max text, nan boolean);

-- statement: lake_add_file_partitions  engine: sqlite
INSERT INTO ducklake_file_partition_value (data_file_id, table_id, partition_key_index, partition_value, catalog_id)
SELECT json_extract(r.value, '$.file'), json_extract(r.value, '$.table'), json_extract(r.value, '$.index'), json_extract(r.value, '$.value'), :catalog_id
FROM json_each(:rows) r;

-- statement: lake_add_file_partitions  engine: postgres
INSERT INTO ducklake_file_partition_value (data_file_id, table_id, partition_key_index, partition_value, catalog_id)
SELECT r.file, r."table", r.index, r.value, CAST(:catalog_id AS bigint)
FROM json_to_recordset(:rows) r (file bigint, "table" bigint, index bigint, value text);

-- statement: lake_add_deletes  engine: sqlite
INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, end_snapshot, data_file_id, path, path_is_relative, format, delete_count,
                                  file_size_bytes, footer_size, encryption_key, partial_max, catalog_id)
SELECT json_extract(r.value, '$.id'), json_extract(r.value, '$.table'), h.snapshot_id, NULL, json_extract(r.value, '$.file'), json_extract(r.value, '$.path'), 1,
       'parquet', json_extract(r.value, '$.records'), json_extract(r.value, '$.bytes'), json_extract(r.value, '$.footer'), NULL, NULL, h.catalog_id
FROM json_each(:rows) r JOIN lake_head h ON h.catalog_id = :catalog_id;

-- statement: lake_add_deletes  engine: postgres
INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, end_snapshot, data_file_id, path, path_is_relative, format, delete_count,
                                  file_size_bytes, footer_size, encryption_key, partial_max, catalog_id)
SELECT r.id, r."table", h.snapshot_id, NULL, r.file, r.path, true, 'parquet', r.records, r.bytes, r.footer, NULL, NULL, h.catalog_id
FROM json_to_recordset(:rows) r (id bigint, "table" bigint, file bigint, path text, records bigint, bytes bigint, footer bigint)
JOIN lake_head h ON h.catalog_id = :catalog_id;

-- Rows end: an own one in place, an ancestor's in lake_ended.

-- statement: lake_end_schema
UPDATE ducklake_schema SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE schema_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_table
UPDATE ducklake_table SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_view
UPDATE ducklake_view SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE view_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_column
UPDATE ducklake_column SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :id AND column_id = :sub_id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_data_file
UPDATE ducklake_data_file SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE data_file_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_delete_file
UPDATE ducklake_delete_file SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE delete_file_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_partition
UPDATE ducklake_partition_info SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE partition_id = :id AND begin_snapshot = :begin AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_end_inherited
INSERT INTO lake_ended (kind, object_id, sub_id, begin_snapshot, catalog_id, end_snapshot)
VALUES (:kind, :id, :sub_id, :begin, :catalog_id, (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id));

-- What a dropped table takes along, as it is under the head's lock: others may have inserted since the base.

-- statement: lake_live_columns
SELECT column_id, column_order, column_name, column_type, initial_default, default_value, nulls_allowed
FROM lake_column WHERE viewer_id = :catalog_id AND table_id = :table_id AND end_snapshot IS NULL;

-- statement: lake_live_files
SELECT data_file_id, path, path_is_relative, record_count, file_size_bytes, footer_size
FROM lake_data_file WHERE viewer_id = :catalog_id AND table_id = :table_id AND end_snapshot IS NULL;

-- statement: lake_live_deletes
SELECT delete_file_id, data_file_id, path, path_is_relative, delete_count, file_size_bytes
FROM lake_delete_file WHERE viewer_id = :catalog_id AND table_id = :table_id AND end_snapshot IS NULL;

-- statement: lake_drop_inherited
INSERT INTO lake_ended (kind, object_id, sub_id, begin_snapshot, catalog_id, end_snapshot)
SELECT e.kind, e.object_id, e.sub_id, e.begin_snapshot, h.catalog_id, h.snapshot_id
FROM lake_head h,
     (SELECT 4 AS kind, table_id AS object_id, column_id AS sub_id, begin_snapshot FROM lake_column
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL
      UNION ALL
      SELECT 5, data_file_id, 0, begin_snapshot FROM lake_data_file
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL
      UNION ALL
      SELECT 6, delete_file_id, 0, begin_snapshot FROM lake_delete_file
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL
      UNION ALL
      SELECT 7, partition_id, 0, begin_snapshot FROM lake_partition_info
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL
      UNION ALL
      SELECT 11, sort_id, 0, begin_snapshot FROM lake_sort_info
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL) e
WHERE h.catalog_id = :catalog_id;

-- statement: lake_drop_columns
UPDATE ducklake_column SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_files
UPDATE ducklake_data_file SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_deletes
UPDATE ducklake_delete_file SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_partitions
UPDATE ducklake_partition_info SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_sorts
UPDATE ducklake_sort_info SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- Tags are stock clients', which PostgreSQL alone has. Several of one thing may begin together and end apart: hence the hash (lake_expose.sql).

-- statement: lake_drop_tags  only: postgres
UPDATE ducklake_tag SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE object_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_column_tags  only: postgres
UPDATE ducklake_column_tag SET end_snapshot = (SELECT snapshot_id FROM lake_head WHERE catalog_id = :catalog_id)
WHERE table_id = :table_id AND catalog_id = :catalog_id AND end_snapshot IS NULL;

-- statement: lake_drop_inherited_tags  only: postgres
INSERT INTO lake_ended (kind, object_id, sub_id, begin_snapshot, catalog_id, end_snapshot)
SELECT e.kind, CAST(:table_id AS bigint), e.sub_id, e.begin_snapshot, h.catalog_id, h.snapshot_id
FROM lake_head h,
     (SELECT 8 AS kind, hashtextextended(key, 0) AS sub_id, begin_snapshot FROM lake_tag
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND object_id = :table_id AND end_snapshot IS NULL
      UNION ALL
      SELECT 9, hashtextextended(column_id || ' ' || key, 0), begin_snapshot FROM lake_column_tag
      WHERE viewer_id = :catalog_id AND owner_id <> :catalog_id AND table_id = :table_id AND end_snapshot IS NULL) e
WHERE h.catalog_id = :catalog_id;

-- statement: lake_publish  only: postgres
-- The snapshot and everything that is said about it. next_catalog_id and next_file_id lie above all ids issued.
WITH h AS MATERIALIZED (SELECT * FROM lake_head WHERE catalog_id = :catalog_id),
snapshot AS (
    INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id, catalog_id)
    SELECT h.snapshot_id, h.snapshot_time, h.schema_version, o.next, f.next, h.catalog_id
    FROM h, (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_object_id_seq) o,
         (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_file_id_seq) f),
changes AS (
    INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message, commit_extra_info, catalog_id)
    SELECT h.snapshot_id, CAST(:changes AS varchar), CAST(:author AS varchar), CAST(:message AS varchar), CAST(:extra AS varchar), h.catalog_id FROM h),
marks AS (
    INSERT INTO lake_mark (catalog_id, mark, snapshot_id)
    SELECT DISTINCT h.catalog_id, m, h.snapshot_id FROM h, jsonb_array_elements_text(:marks) m)
INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, base_snapshot_id, digest_a, digest_b, request_key, request_hash, rows_added, is_stock, committed_at, attempt_id)
SELECT h.snapshot_id, h.catalog_id, h.parent_snapshot_id, CAST(:base AS bigint), h.digest_a, h.digest_b, CAST(:key AS varchar), CAST(:hash AS bytea), CAST(:rows AS bigint), false,
       h.snapshot_time, CAST(:attempt AS varchar)
FROM h
RETURNING parent_snapshot_id;

-- Appends that are committed together (src/lake/commit_together.c): behind the head's lock (lake_parent_take), over all members at once.

-- statement: lake_group_publish  only: postgres
-- One statement for everything: what is written for several members costs little more than for one. A snapshot per member, each behind the one before it; the head moves to
-- the last. Nobody is refused, mostly: whoever looks as if is asked properly, and fails it all. A base that was read and then lost in a crash of the server is nobody's
-- snapshot, or another one. Look-ups one by one, by index: a join would be planned once, for tables as small as they were then. h.catalog_id, not the
-- parameter: what the planner does not know, it need not plan anew.
WITH h AS MATERIALIZED (
    SELECT catalog_id, snapshot_id, schema_version, digest_a, digest_b, oldest_base, greatest(snapshot_time, coalesce(:clock, clock_timestamp())) AS at
    FROM lake_head WHERE catalog_id = :catalog_id),
m AS MATERIALIZED (
    SELECT nextval('ducklake_snapshot_id_seq') AS snapshot_id, r.*
    FROM json_to_recordset(:members) r (place bigint, base bigint, base_a bigint, base_b bigint, fears text, asked varchar, marks text, changes varchar, key varchar,
                                        attempt varchar, pin varchar, author varchar, message varchar, extra varchar, hash text, rows bigint, digest_a bigint, digest_b bigint)),
line AS MATERIALIZED (
    SELECT m.snapshot_id, lag(m.snapshot_id, 1, h.snapshot_id) OVER (ORDER BY m.place) AS parent_id, h.catalog_id, h.schema_version, h.at,
           (h.digest_a + m.digest_a) & 4611686018427387903 AS digest_a, (h.digest_b + m.digest_b) & 4611686018427387903 AS digest_b,
           m.place, m.base, m.marks, m.changes, m.key, m.attempt, m.author, m.message, m.extra, m.hash, m.rows
    FROM m, h),
refused AS MATERIALIZED (
    SELECT lake_refuse(CASE WHEN d.is_lost THEN 0 ELSE d.catalog_id END, d.base, CAST(d.fears AS jsonb), d.asked, d.pin, :clock)
    FROM (SELECT h.catalog_id, h.oldest_base, m.base, m.fears, m.asked, m.pin, m.pin IS NOT NULL AND NOT lake_pin_held(m.pin, :clock) AS is_unpinned,
                 (SELECT k.catalog_id <> h.catalog_id OR k.digest_a <> coalesce(m.base_a, k.digest_a) OR k.digest_b <> coalesce(m.base_b, k.digest_b)
                  FROM lake_commit k WHERE k.snapshot_id = m.base) IS NOT FALSE AS is_lost,
                 m.asked IS NOT NULL AND EXISTS (SELECT 1 FROM lake_commit k WHERE k.catalog_id = h.catalog_id AND k.request_key = m.asked) AS is_done,
                 (SELECT max((SELECT k.snapshot_id FROM lake_mark k WHERE k.catalog_id = h.catalog_id AND k.mark = f ORDER BY k.snapshot_id DESC LIMIT 1))
                  FROM json_array_elements_text(CAST(m.fears AS json)) f) AS feared_at
          FROM m, h OFFSET 0) d
    WHERE d.is_lost OR d.is_done OR d.is_unpinned OR d.feared_at > d.base OR d.base < d.oldest_base),
head AS (
    UPDATE lake_head u
    SET snapshot_id = l.snapshot_id, parent_snapshot_id = l.parent_id, snapshot_time = l.at, digest_a = l.digest_a, digest_b = l.digest_b
    FROM (SELECT * FROM line ORDER BY place DESC LIMIT 1) l
    WHERE u.catalog_id = :catalog_id),
snapshot AS (
    INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id, catalog_id)
    SELECT l.snapshot_id, l.at, l.schema_version, o.next, f.next, l.catalog_id
    FROM line l, (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_object_id_seq) o,
         (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_file_id_seq) f),
changes AS (
    INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message, commit_extra_info, catalog_id)
    SELECT l.snapshot_id, l.changes, l.author, l.message, l.extra, l.catalog_id FROM line l),
marks AS (
    INSERT INTO lake_mark (catalog_id, mark, snapshot_id)
    SELECT DISTINCT l.catalog_id, k, l.snapshot_id FROM line l, json_array_elements_text(CAST(l.marks AS json)) k),
commits AS (
    INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, base_snapshot_id, digest_a, digest_b, request_key, request_hash, rows_added, is_stock, committed_at, attempt_id)
    SELECT l.snapshot_id, l.catalog_id, l.parent_id, l.base, l.digest_a, l.digest_b, l.key, decode(l.hash, 'hex'), l.rows, false, l.at, l.attempt FROM line l),
files AS (
    INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, end_snapshot, file_order, path, path_is_relative, file_format, record_count,
                                    file_size_bytes, footer_size, row_id_start, partition_id, encryption_key, mapping_id, partial_max, catalog_id)
    SELECT r.id, r."table", (SELECT l.snapshot_id FROM line l WHERE l.place = r.place), NULL, NULL, r.path, true, 'parquet', r.records, r.bytes, r.footer,
           coalesce((SELECT s.next_row_id FROM ducklake_table_stats s WHERE s.table_id = r."table" AND s.catalog_id = h.catalog_id), 0) + r.row, r.partition,
           NULL, NULL, NULL, h.catalog_id
    FROM h, json_to_recordset(:files) r (place bigint, id bigint, "table" bigint, path text, records bigint, bytes bigint, footer bigint, row bigint, partition bigint)),
bounds AS (
    INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value, contains_nan,
                                            extra_stats, catalog_id)
    SELECT r.file, r."table", r."column", r.bytes, r."values", r.nulls, r.min, r.max, r.nan, NULL, h.catalog_id
    FROM h, json_to_recordset(:stats) r (file bigint, "table" bigint, "column" bigint, bytes bigint, "values" bigint, nulls bigint, min text, max text, nan boolean)),
sums AS (
    INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
    SELECT r."table", CAST(sum(r.records) AS bigint), CAST(sum(r.row_ids) AS bigint), CAST(sum(r.bytes) AS bigint), h.catalog_id
    FROM h, json_to_recordset(:sums) r ("table" bigint, records bigint, row_ids bigint, bytes bigint)
    GROUP BY r."table", h.catalog_id
    ON CONFLICT (table_id, catalog_id) DO UPDATE
    SET record_count = ducklake_table_stats.record_count + excluded.record_count, next_row_id = ducklake_table_stats.next_row_id + excluded.next_row_id,
        file_size_bytes = ducklake_table_stats.file_size_bytes + excluded.file_size_bytes)
SELECT place, snapshot_id, parent_id FROM line WHERE (SELECT count(*) FROM refused) = 0 ORDER BY place;

-- statement: lake_publish_snapshot  only: sqlite
INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id, catalog_id)
SELECT h.snapshot_id, h.snapshot_time, h.schema_version, (SELECT last + 1 FROM lake_sequence WHERE name = 'object'),
       (SELECT last + 1 FROM lake_sequence WHERE name = 'file'), h.catalog_id
FROM lake_head h WHERE h.catalog_id = :catalog_id;

-- statement: lake_publish_changes  only: sqlite
INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message, commit_extra_info, catalog_id)
SELECT h.snapshot_id, :changes, :author, :message, :extra, h.catalog_id FROM lake_head h WHERE h.catalog_id = :catalog_id;

-- statement: lake_publish_marks  only: sqlite
INSERT INTO lake_mark (catalog_id, mark, snapshot_id)
SELECT DISTINCT h.catalog_id, m.value, h.snapshot_id FROM lake_head h, json_each(:marks) m WHERE h.catalog_id = :catalog_id;

-- statement: lake_publish_commit  only: sqlite
INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, base_snapshot_id, digest_a, digest_b, request_key, request_hash, rows_added, is_stock, committed_at, attempt_id)
SELECT h.snapshot_id, h.catalog_id, h.parent_snapshot_id, :base, h.digest_a, h.digest_b, :key, :hash, :rows, 0, h.snapshot_time, :attempt
FROM lake_head h WHERE h.catalog_id = :catalog_id
RETURNING parent_snapshot_id;

-- ---- pins ----

-- statement: lake_pin_hold  engine: sqlite
SELECT s.snapshot_id FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
WHERE a.catalog_id = :catalog_id AND s.snapshot_id = :snapshot;

-- statement: lake_pin_hold  engine: postgres
-- Who expires locks the rows that he is about to remove, and looks for pins afterwards: one of us sees the other.
SELECT s.snapshot_id FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
WHERE a.catalog_id = :catalog_id AND s.snapshot_id = :snapshot
FOR KEY SHARE OF s;

-- statement: lake_pin_add
-- Again, after a lost answer: the same pin.
INSERT INTO lake_pin (pin_id, catalog_id, snapshot_id, holder, taken_at, expires_at) VALUES (:id, :catalog_id, :snapshot, :holder, :now, :expires_at)
ON CONFLICT (pin_id) DO UPDATE SET expires_at = excluded.expires_at;

-- statement: lake_pin_find
-- The pin of a commit's files, unless it has run out.
SELECT snapshot_id FROM lake_pin WHERE pin_id = :id AND expires_at > :now;

-- statement: lake_pin_renew
UPDATE lake_pin SET expires_at = :expires_at WHERE pin_id = :id AND expires_at > :now RETURNING snapshot_id;

-- statement: lake_pin_ask_turn
UPDATE lake_pin SET deleted_table_id = :table, turn_until = :until WHERE pin_id = :id;

-- statement: lake_pin_find_turn
-- Pins are few: those of writers and readers that are under way.
SELECT 1 FROM lake_pin WHERE deleted_table_id = :table AND turn_until > :now AND expires_at > :now LIMIT 1;

-- statement: lake_pin_remove
DELETE FROM lake_pin WHERE pin_id = :id;
