-- A catalog as a file for stock DuckLake clients (src/lake/expose.h): what is read of the metabase, table by table, through ancestors; and the tables of the file, which are
-- exactly DuckLake 1.0's on SQLite (booleans and ids are bigint, UUIDs and times varchar).

-- template: lake_file_schema
DROP TABLE IF EXISTS ducklake_metadata;
CREATE TABLE ducklake_metadata (key varchar NOT NULL, value varchar NOT NULL, scope varchar, scope_id bigint);
DROP TABLE IF EXISTS ducklake_snapshot;
CREATE TABLE ducklake_snapshot (snapshot_id bigint PRIMARY KEY, snapshot_time varchar, schema_version bigint, next_catalog_id bigint, next_file_id bigint);
DROP TABLE IF EXISTS ducklake_snapshot_changes;
CREATE TABLE ducklake_snapshot_changes (snapshot_id bigint PRIMARY KEY, changes_made varchar, author varchar, commit_message varchar, commit_extra_info varchar);
DROP TABLE IF EXISTS ducklake_schema;
CREATE TABLE ducklake_schema (schema_id bigint PRIMARY KEY, schema_uuid varchar, begin_snapshot bigint, end_snapshot bigint, schema_name varchar, path varchar, path_is_relative bigint);
DROP TABLE IF EXISTS ducklake_table;
CREATE TABLE ducklake_table (table_id bigint, table_uuid varchar, begin_snapshot bigint, end_snapshot bigint, schema_id bigint, table_name varchar, path varchar, path_is_relative bigint);
DROP TABLE IF EXISTS ducklake_view;
CREATE TABLE ducklake_view (view_id bigint, view_uuid varchar, begin_snapshot bigint, end_snapshot bigint, schema_id bigint, view_name varchar, dialect varchar, sql varchar, column_aliases varchar);
DROP TABLE IF EXISTS ducklake_column;
CREATE TABLE ducklake_column (column_id bigint, begin_snapshot bigint, end_snapshot bigint, table_id bigint, column_order bigint, column_name varchar, column_type varchar, initial_default varchar, default_value varchar, nulls_allowed bigint, parent_column bigint, default_value_type varchar, default_value_dialect varchar);
DROP TABLE IF EXISTS ducklake_tag;
CREATE TABLE ducklake_tag (object_id bigint, begin_snapshot bigint, end_snapshot bigint, key varchar, value varchar);
DROP TABLE IF EXISTS ducklake_column_tag;
CREATE TABLE ducklake_column_tag (table_id bigint, column_id bigint, begin_snapshot bigint, end_snapshot bigint, key varchar, value varchar);
DROP TABLE IF EXISTS ducklake_data_file;
CREATE TABLE ducklake_data_file (data_file_id bigint PRIMARY KEY, table_id bigint, begin_snapshot bigint, end_snapshot bigint, file_order bigint, path varchar, path_is_relative bigint, file_format varchar, record_count bigint, file_size_bytes bigint, footer_size bigint, row_id_start bigint, partition_id bigint, encryption_key varchar, mapping_id bigint, partial_max bigint);
DROP TABLE IF EXISTS ducklake_delete_file;
CREATE TABLE ducklake_delete_file (delete_file_id bigint PRIMARY KEY, table_id bigint, begin_snapshot bigint, end_snapshot bigint, data_file_id bigint, path varchar, path_is_relative bigint, format varchar, delete_count bigint, file_size_bytes bigint, footer_size bigint, encryption_key varchar, partial_max bigint);
DROP TABLE IF EXISTS ducklake_files_scheduled_for_deletion;
CREATE TABLE ducklake_files_scheduled_for_deletion (data_file_id bigint, path varchar, path_is_relative bigint, schedule_start varchar);
DROP TABLE IF EXISTS ducklake_inlined_data_tables;
CREATE TABLE ducklake_inlined_data_tables (table_id bigint, table_name varchar, schema_version bigint);
DROP TABLE IF EXISTS ducklake_file_column_stats;
CREATE TABLE ducklake_file_column_stats (data_file_id bigint, table_id bigint, column_id bigint, column_size_bytes bigint, value_count bigint, null_count bigint, min_value varchar, max_value varchar, contains_nan bigint, extra_stats varchar);
DROP TABLE IF EXISTS ducklake_file_variant_stats;
CREATE TABLE ducklake_file_variant_stats (data_file_id bigint, table_id bigint, column_id bigint, variant_path varchar, shredded_type varchar, column_size_bytes bigint, value_count bigint, null_count bigint, min_value varchar, max_value varchar, contains_nan bigint, extra_stats varchar);
DROP TABLE IF EXISTS ducklake_table_stats;
CREATE TABLE ducklake_table_stats (table_id bigint, record_count bigint, next_row_id bigint, file_size_bytes bigint);
DROP TABLE IF EXISTS ducklake_table_column_stats;
CREATE TABLE ducklake_table_column_stats (table_id bigint, column_id bigint, contains_null bigint, contains_nan bigint, min_value varchar, max_value varchar, extra_stats varchar);
DROP TABLE IF EXISTS ducklake_partition_info;
CREATE TABLE ducklake_partition_info (partition_id bigint, table_id bigint, begin_snapshot bigint, end_snapshot bigint);
DROP TABLE IF EXISTS ducklake_partition_column;
CREATE TABLE ducklake_partition_column (partition_id bigint, table_id bigint, partition_key_index bigint, column_id bigint, transform varchar);
DROP TABLE IF EXISTS ducklake_file_partition_value;
CREATE TABLE ducklake_file_partition_value (data_file_id bigint, table_id bigint, partition_key_index bigint, partition_value varchar);
DROP TABLE IF EXISTS ducklake_column_mapping;
CREATE TABLE ducklake_column_mapping (mapping_id bigint, table_id bigint, type varchar);
DROP TABLE IF EXISTS ducklake_name_mapping;
CREATE TABLE ducklake_name_mapping (mapping_id bigint, column_id bigint, source_name varchar, target_field_id bigint, parent_column bigint, is_partition bigint);
DROP TABLE IF EXISTS ducklake_schema_versions;
CREATE TABLE ducklake_schema_versions (begin_snapshot bigint, schema_version bigint, table_id bigint);
DROP TABLE IF EXISTS ducklake_macro;
CREATE TABLE ducklake_macro (schema_id bigint, macro_id bigint, macro_name varchar, begin_snapshot bigint, end_snapshot bigint);
DROP TABLE IF EXISTS ducklake_macro_impl;
CREATE TABLE ducklake_macro_impl (macro_id bigint, impl_id bigint, dialect varchar, sql varchar, type varchar);
DROP TABLE IF EXISTS ducklake_macro_parameters;
CREATE TABLE ducklake_macro_parameters (macro_id bigint, impl_id bigint, column_id bigint, parameter_name varchar, parameter_type varchar, default_value varchar, default_value_type varchar);
DROP TABLE IF EXISTS ducklake_sort_info;
CREATE TABLE ducklake_sort_info (sort_id bigint, table_id bigint, begin_snapshot bigint, end_snapshot bigint);
DROP TABLE IF EXISTS ducklake_sort_expression;
CREATE TABLE ducklake_sort_expression (sort_id bigint, table_id bigint, sort_key_index bigint, expression varchar, dialect varchar, sort_direction varchar, null_order varchar);

-- template: lake_file_insert
INSERT INTO {{table}} VALUES ({{each columns ,}}?{{n}}{{end}});

-- template: lake_file_places
-- Every data and delete file: where it is (relative to the lake's data directory, or absolute), and where the copy has it. What lies outside gets a name of its own.
WITH place AS (
    SELECT t.table_id,
           CASE WHEN t.path_is_relative THEN coalesce(s.path, '') || t.path ELSE t.path END AS source,
           CASE WHEN s.path_is_relative THEN s.path ELSE 'schema-' || s.schema_id || '/' END || CASE WHEN t.path_is_relative THEN t.path ELSE 'table-' || t.table_id || '/' END AS target
    FROM ducklake_table t LEFT JOIN ducklake_schema s ON s.schema_id = t.schema_id GROUP BY t.table_id)
SELECT CASE WHEN f.path_is_relative THEN p.source || f.path ELSE f.path END,
       p.target || CASE WHEN f.path_is_relative THEN f.path ELSE 'added-' || f.id || '.parquet' END
FROM (SELECT data_file_id AS id, table_id, path, path_is_relative FROM ducklake_data_file
      UNION ALL SELECT delete_file_id, table_id, path, path_is_relative FROM ducklake_delete_file) f
JOIN place p ON p.table_id = f.table_id;

-- template: lake_file_owns
-- The file's own data directory, and in it the places of lake_file_places.
UPDATE ducklake_data_file SET path = 'added-' || data_file_id || '.parquet', path_is_relative = 1 WHERE NOT path_is_relative;
UPDATE ducklake_delete_file SET path = 'added-' || delete_file_id || '.parquet', path_is_relative = 1 WHERE NOT path_is_relative;
UPDATE ducklake_table SET path = 'table-' || table_id || '/', path_is_relative = 1 WHERE NOT path_is_relative;
UPDATE ducklake_schema SET path = 'schema-' || schema_id || '/', path_is_relative = 1 WHERE NOT path_is_relative;

-- template: lake_file_directory
UPDATE ducklake_metadata SET value = ?1 WHERE key = 'data_path';

-- statement: lake_export_metadata
SELECT r.key, r.value, r.scope, r.scope_id FROM ducklake_metadata r WHERE r.catalog_id IN (0, :catalog_id) ORDER BY r.catalog_id, r.key;

-- statement: lake_export_snapshot
SELECT r.snapshot_id, r.snapshot_time, r.schema_version, r.next_catalog_id, r.next_file_id FROM lake_ancestor a JOIN ducklake_snapshot r ON r.catalog_id = a.ancestor_id AND r.snapshot_id <= a.upto
WHERE a.catalog_id = :catalog_id ORDER BY r.snapshot_id;

-- statement: lake_export_snapshot_changes
-- Nothing said is NULL: a client that puts changes together would stumble over an empty one.
SELECT r.snapshot_id, nullif(r.changes_made, ''), r.author, r.commit_message, r.commit_extra_info
FROM lake_ancestor a JOIN ducklake_snapshot_changes r ON r.catalog_id = a.ancestor_id AND r.snapshot_id <= a.upto
JOIN ducklake_snapshot s ON s.snapshot_id = r.snapshot_id
WHERE a.catalog_id = :catalog_id ORDER BY r.snapshot_id;

-- statement: lake_export_schema
SELECT r.schema_id, lower(CAST(r.schema_uuid AS varchar)), r.begin_snapshot, r.end_snapshot, r.schema_name, r.path, r.path_is_relative FROM lake_schema r WHERE r.viewer_id = :catalog_id ORDER BY r.schema_id;

-- statement: lake_export_table
SELECT r.table_id, lower(CAST(r.table_uuid AS varchar)), r.begin_snapshot, r.end_snapshot, r.schema_id, r.table_name, r.path, r.path_is_relative FROM lake_table r WHERE r.viewer_id = :catalog_id ORDER BY r.table_id, r.begin_snapshot;

-- statement: lake_export_view
SELECT r.view_id, lower(CAST(r.view_uuid AS varchar)), r.begin_snapshot, r.end_snapshot, r.schema_id, r.view_name, r.dialect, r.sql, r.column_aliases FROM lake_view r WHERE r.viewer_id = :catalog_id ORDER BY r.view_id, r.begin_snapshot;

-- statement: lake_export_column
SELECT r.column_id, r.begin_snapshot, r.end_snapshot, r.table_id, r.column_order, r.column_name, r.column_type, r.initial_default, r.default_value, r.nulls_allowed, r.parent_column, r.default_value_type, r.default_value_dialect FROM lake_column r WHERE r.viewer_id = :catalog_id ORDER BY r.table_id, r.column_id, r.begin_snapshot;

-- statement: lake_export_tag
SELECT r.object_id, r.begin_snapshot, r.end_snapshot, r.key, r.value FROM lake_tag r WHERE r.viewer_id = :catalog_id ORDER BY r.object_id, r.key, r.begin_snapshot;

-- statement: lake_export_column_tag
SELECT r.table_id, r.column_id, r.begin_snapshot, r.end_snapshot, r.key, r.value FROM lake_column_tag r WHERE r.viewer_id = :catalog_id ORDER BY r.table_id, r.column_id, r.key, r.begin_snapshot;

-- statement: lake_export_data_file
SELECT r.data_file_id, r.table_id, r.begin_snapshot, r.end_snapshot, r.file_order, r.path, r.path_is_relative, r.file_format, r.record_count, r.file_size_bytes, r.footer_size, r.row_id_start, r.partition_id, r.encryption_key, r.mapping_id, r.partial_max FROM lake_data_file r WHERE r.viewer_id = :catalog_id ORDER BY r.data_file_id;

-- statement: lake_export_delete_file
SELECT r.delete_file_id, r.table_id, r.begin_snapshot, r.end_snapshot, r.data_file_id, r.path, r.path_is_relative, r.format, r.delete_count, r.file_size_bytes, r.footer_size, r.encryption_key, r.partial_max FROM lake_delete_file r WHERE r.viewer_id = :catalog_id ORDER BY r.delete_file_id;

-- statement: lake_export_file_column_stats
SELECT r.data_file_id, r.table_id, r.column_id, r.column_size_bytes, r.value_count, r.null_count, r.min_value, r.max_value, r.contains_nan, r.extra_stats
FROM ducklake_file_column_stats r
WHERE EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = :catalog_id AND f.data_file_id = r.data_file_id) ORDER BY r.data_file_id, r.column_id;

-- statement: lake_export_file_variant_stats
SELECT r.data_file_id, r.table_id, r.column_id, r.variant_path, r.shredded_type, r.column_size_bytes, r.value_count, r.null_count, r.min_value, r.max_value, r.contains_nan, r.extra_stats
FROM ducklake_file_variant_stats r
WHERE EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = :catalog_id AND f.data_file_id = r.data_file_id) ORDER BY r.data_file_id, r.column_id, r.variant_path;

-- statement: lake_export_table_stats
-- A fork's own; else its nearest ancestor's, which hold for it too.
SELECT r.table_id, r.record_count, r.next_row_id, r.file_size_bytes
FROM lake_ancestor a JOIN ducklake_table_stats r ON r.catalog_id = a.ancestor_id
WHERE a.catalog_id = :catalog_id AND EXISTS (SELECT 1 FROM lake_table v WHERE v.viewer_id = :catalog_id AND v.table_id = r.table_id)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor b JOIN ducklake_table_stats o ON o.catalog_id = b.ancestor_id
                  WHERE b.catalog_id = :catalog_id AND b.depth < a.depth AND o.table_id = r.table_id) ORDER BY r.table_id;

-- statement: lake_export_table_column_stats
-- Only what is known: without a row every client scans.
-- A fork's own; else its nearest ancestor's, which hold for it too.
SELECT r.table_id, r.column_id, r.contains_null, r.contains_nan, r.min_value, r.max_value, r.extra_stats
FROM lake_ancestor a JOIN ducklake_table_column_stats r ON r.catalog_id = a.ancestor_id
WHERE a.catalog_id = :catalog_id AND EXISTS (SELECT 1 FROM lake_table v WHERE v.viewer_id = :catalog_id AND v.table_id = r.table_id)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor b JOIN ducklake_table_column_stats o ON o.catalog_id = b.ancestor_id
                  WHERE b.catalog_id = :catalog_id AND b.depth < a.depth AND o.table_id = r.table_id AND o.column_id = r.column_id)
  AND NOT EXISTS (SELECT 1 FROM lake_ancestor b JOIN lake_unbounded u ON u.catalog_id = b.ancestor_id
                  WHERE b.catalog_id = :catalog_id AND b.depth <= a.depth AND u.table_id = r.table_id AND u.column_id = r.column_id)
  AND r.min_value IS NOT NULL AND r.max_value IS NOT NULL AND r.contains_nan IS NOT TRUE
  AND NOT (r.contains_nan IS NULL AND EXISTS (SELECT 1 FROM ducklake_column k WHERE k.table_id = r.table_id AND k.column_id = r.column_id AND k.column_type LIKE 'float%'))
  AND NOT EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = :catalog_id AND f.table_id = r.table_id
                    AND NOT EXISTS (SELECT 1 FROM ducklake_file_column_stats x WHERE x.data_file_id = f.data_file_id AND x.column_id = r.column_id))
ORDER BY r.table_id, r.column_id;

-- statement: lake_export_partition_info
SELECT r.partition_id, r.table_id, r.begin_snapshot, r.end_snapshot FROM lake_partition_info r WHERE r.viewer_id = :catalog_id ORDER BY r.partition_id;

-- statement: lake_export_partition_column
SELECT r.partition_id, r.table_id, r.partition_key_index, r.column_id, r.transform FROM ducklake_partition_column r
WHERE EXISTS (SELECT 1 FROM lake_partition_info p WHERE p.viewer_id = :catalog_id AND p.partition_id = r.partition_id) ORDER BY r.partition_id, r.partition_key_index;

-- statement: lake_export_file_partition_value
SELECT r.data_file_id, r.table_id, r.partition_key_index, r.partition_value
FROM ducklake_file_partition_value r
WHERE EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = :catalog_id AND f.data_file_id = r.data_file_id) ORDER BY r.data_file_id, r.partition_key_index;

-- statement: lake_export_column_mapping
SELECT r.mapping_id, r.table_id, r.type FROM ducklake_column_mapping r
WHERE EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.catalog_id = :catalog_id AND a.ancestor_id = r.catalog_id) ORDER BY r.mapping_id;

-- statement: lake_export_name_mapping
SELECT r.mapping_id, r.column_id, r.source_name, r.target_field_id, r.parent_column, r.is_partition FROM ducklake_name_mapping r
WHERE EXISTS (SELECT 1 FROM lake_ancestor a WHERE a.catalog_id = :catalog_id AND a.ancestor_id = r.catalog_id) ORDER BY r.mapping_id, r.column_id;

-- statement: lake_export_schema_versions
SELECT r.begin_snapshot, r.schema_version, r.table_id FROM lake_ancestor a JOIN ducklake_schema_versions r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto
WHERE a.catalog_id = :catalog_id ORDER BY r.begin_snapshot, r.table_id;

-- statement: lake_export_macro
SELECT r.schema_id, r.macro_id, r.macro_name, r.begin_snapshot, r.end_snapshot FROM lake_macro r WHERE r.viewer_id = :catalog_id ORDER BY r.macro_id;

-- statement: lake_export_macro_impl
SELECT r.macro_id, r.impl_id, r.dialect, r.sql, r.type FROM ducklake_macro_impl r
WHERE EXISTS (SELECT 1 FROM lake_macro m WHERE m.viewer_id = :catalog_id AND m.macro_id = r.macro_id) ORDER BY r.macro_id, r.impl_id;

-- statement: lake_export_macro_parameters
SELECT r.macro_id, r.impl_id, r.column_id, r.parameter_name, r.parameter_type, r.default_value, r.default_value_type FROM ducklake_macro_parameters r
WHERE EXISTS (SELECT 1 FROM lake_macro m WHERE m.viewer_id = :catalog_id AND m.macro_id = r.macro_id) ORDER BY r.macro_id, r.impl_id, r.column_id;

-- statement: lake_export_sort_info
SELECT r.sort_id, r.table_id, r.begin_snapshot, r.end_snapshot FROM lake_sort_info r WHERE r.viewer_id = :catalog_id ORDER BY r.sort_id;

-- statement: lake_export_sort_expression
SELECT r.sort_id, r.table_id, r.sort_key_index, r.expression, r.dialect, r.sort_direction, r.null_order FROM ducklake_sort_expression r
WHERE EXISTS (SELECT 1 FROM lake_sort_info s WHERE s.viewer_id = :catalog_id AND s.sort_id = r.sort_id) ORDER BY r.sort_id, r.sort_key_index;
