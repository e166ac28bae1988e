-- The metabase: DuckLake's metadata tables for several catalogs, and ours beside them. This text is the canonical schema and
-- what `tidemark lake init` runs; there is no other.
--
-- DuckLake's tables have its names, columns and order, and one more column behind them: catalog_id, whose row it is. Snapshot ids come from one
-- counter for all catalogs, taken under the catalog's head. A row lives from begin_snapshot to before end_snapshot, in its own catalog; in a fork it
-- lives on, whatever its owner does later, until lake_ended says otherwise. The views lake_<kind> show the rows of a catalog (viewer_id)
-- through its ancestors, with the ends that it sees.
--
-- Bootstrap: snapshot 0 and its schema main belong to catalog 0, which has no name; the first new snapshot is 1.

-- migration: 1  version: 1.0  name: lake  engine: sqlite
CREATE TABLE lake_sequence (name varchar PRIMARY KEY, last bigint NOT NULL) WITHOUT ROWID;
INSERT INTO lake_sequence (name, last) VALUES ('snapshot', 0), ('catalog', 0), ('object', 0), ('column', 0), ('file', 0), ('partition', 0);

CREATE TABLE ducklake_metadata (
    key varchar NOT NULL,
    value varchar NOT NULL,
    scope varchar,
    scope_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_snapshot (
    snapshot_id bigint PRIMARY KEY,
    snapshot_time varchar,
    schema_version bigint,
    next_catalog_id bigint,
    next_file_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_snapshot_changes (
    snapshot_id bigint PRIMARY KEY,
    changes_made varchar,
    author varchar,
    commit_message varchar,
    commit_extra_info varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_schema (
    schema_id bigint PRIMARY KEY,
    schema_uuid varchar,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_name varchar,
    path varchar,
    path_is_relative bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table (
    table_id bigint,
    table_uuid varchar,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    table_name varchar,
    path varchar,
    path_is_relative bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_view (
    view_id bigint,
    view_uuid varchar,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    view_name varchar,
    dialect varchar,
    sql varchar,
    column_aliases varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column (
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    table_id bigint,
    column_order bigint,
    column_name varchar,
    column_type varchar,
    initial_default varchar,
    default_value varchar,
    nulls_allowed bigint,
    parent_column bigint,
    default_value_type varchar,
    default_value_dialect varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_tag (
    object_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column_tag (
    table_id bigint,
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_data_file (
    data_file_id bigint PRIMARY KEY,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    file_order bigint,
    path varchar,
    path_is_relative bigint,
    file_format varchar,
    record_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    row_id_start bigint,
    partition_id bigint,
    encryption_key varchar,
    mapping_id bigint,
    partial_max bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_delete_file (
    delete_file_id bigint PRIMARY KEY,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    data_file_id bigint,
    path varchar,
    path_is_relative bigint,
    format varchar,
    delete_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    encryption_key varchar,
    partial_max bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_files_scheduled_for_deletion (
    data_file_id bigint,
    path varchar,
    path_is_relative bigint,
    schedule_start varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_inlined_data_tables (
    table_id bigint,
    table_name varchar,
    schema_version bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_column_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan bigint,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_variant_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    variant_path varchar,
    shredded_type varchar,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan bigint,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table_stats (
    table_id bigint,
    record_count bigint,
    next_row_id bigint,
    file_size_bytes bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table_column_stats (
    table_id bigint,
    column_id bigint,
    contains_null bigint,
    contains_nan bigint,
    min_value varchar,
    max_value varchar,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_partition_info (
    partition_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_partition_column (
    partition_id bigint,
    table_id bigint,
    partition_key_index bigint,
    column_id bigint,
    transform varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_partition_value (
    data_file_id bigint,
    table_id bigint,
    partition_key_index bigint,
    partition_value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column_mapping (
    mapping_id bigint,
    table_id bigint,
    type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_name_mapping (
    mapping_id bigint,
    column_id bigint,
    source_name varchar,
    target_field_id bigint,
    parent_column bigint,
    is_partition bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_schema_versions (
    begin_snapshot bigint,
    schema_version bigint,
    table_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro (
    schema_id bigint,
    macro_id bigint,
    macro_name varchar,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro_impl (
    macro_id bigint,
    impl_id bigint,
    dialect varchar,
    sql varchar,
    type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro_parameters (
    macro_id bigint,
    impl_id bigint,
    column_id bigint,
    parameter_name varchar,
    parameter_type varchar,
    default_value varchar,
    default_value_type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_sort_info (
    sort_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_sort_expression (
    sort_id bigint,
    table_id bigint,
    sort_key_index bigint,
    expression varchar,
    dialect varchar,
    sort_direction varchar,
    null_order varchar,
    catalog_id bigint NOT NULL
);

-- What was applied of this file.
CREATE TABLE lake_version (
    number bigint PRIMARY KEY,
    version varchar NOT NULL,
    name varchar NOT NULL,
    checksum varchar NOT NULL,
    applied_at varchar NOT NULL
);

CREATE TABLE lake_catalog (
    catalog_id bigint PRIMARY KEY,
    catalog_name varchar NOT NULL,
    catalog_uuid varchar NOT NULL,
    parent_id bigint,                 -- of a fork
    fork_snapshot bigint,             -- the parent's, which it equals
    created_snapshot bigint NOT NULL, -- its first
    created_at varchar NOT NULL,
    dropped_at varchar                   -- hidden from then on; its rows stay while a fork needs them
);
CREATE UNIQUE INDEX lake_catalog_name ON lake_catalog (lower(catalog_name)) WHERE dropped_at IS NULL;

-- The catalog itself (depth 0, no bound), its parent up to the fork's snapshot, and so on: a fork reads through it in one join.
CREATE TABLE lake_ancestor (
    catalog_id bigint NOT NULL,
    depth bigint NOT NULL,
    ancestor_id bigint NOT NULL,
    upto bigint NOT NULL, -- the greatest snapshot of the ancestor that is seen
    PRIMARY KEY (catalog_id, depth)
);
CREATE INDEX lake_ancestor_of ON lake_ancestor (ancestor_id, upto);

-- Where a catalog's history ends. Who commits locks this row first: so ids follow commit order within a catalog, and catalogs do not wait for each other.
CREATE TABLE lake_head (
    catalog_id bigint PRIMARY KEY,
    snapshot_id bigint NOT NULL,
    parent_snapshot_id bigint NOT NULL, -- the head before
    snapshot_time varchar NOT NULL,
    schema_version bigint NOT NULL,
    digest_a bigint NOT NULL, -- of the state: sums, modulo 2^62, over the live rows
    digest_b bigint NOT NULL,
    oldest_base bigint NOT NULL DEFAULT 0, -- marks at or below it are gone: a commit from an older base cannot be checked
    exposed_as varchar -- the schema of views for stock clients
);

-- One row per snapshot: what it followed, the state's digest after it, and under which key it was asked for.
CREATE TABLE lake_commit (
    snapshot_id bigint PRIMARY KEY,
    catalog_id bigint NOT NULL,
    parent_snapshot_id bigint NOT NULL, -- the head before; of a first one 0, of a fork's first the parent's snapshot
    base_snapshot_id bigint, -- what its author had read: conflicts were checked against everything since; NULL: the parent
    digest_a bigint NOT NULL,
    digest_b bigint NOT NULL,
    request_key varchar,
    request_hash blob,
    rows_added bigint NOT NULL DEFAULT 0,
    is_stock bigint NOT NULL DEFAULT 0,
    committed_at varchar NOT NULL,
    expired_at varchar -- the snapshot is gone, on purpose; the commit stays, so that its key answers for ever
);
CREATE UNIQUE INDEX lake_commit_key ON lake_commit (catalog_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX lake_commit_of ON lake_commit (catalog_id, snapshot_id);

-- What a commit did, in the words that others are checked against (src/lake/mark.h).
CREATE TABLE lake_mark (
    catalog_id bigint NOT NULL,
    mark varchar NOT NULL,
    snapshot_id bigint NOT NULL,
    PRIMARY KEY (catalog_id, mark, snapshot_id)
) WITHOUT ROWID;
CREATE INDEX lake_mark_age ON lake_mark (catalog_id, snapshot_id);

-- Rows of an ancestor that ended in this catalog alone.
CREATE TABLE lake_ended (
    kind bigint NOT NULL, -- src/lake/state.h
    object_id bigint NOT NULL,
    sub_id bigint NOT NULL, -- a column's; otherwise 0
    begin_snapshot bigint NOT NULL,
    catalog_id bigint NOT NULL,
    end_snapshot bigint NOT NULL,
    PRIMARY KEY (kind, object_id, sub_id, begin_snapshot, catalog_id)
) WITHOUT ROWID;
CREATE INDEX lake_ended_by ON lake_ended (catalog_id, end_snapshot);

-- Who reads or builds on a snapshot: it is not expired, and files that are newer than the oldest of these are nobody's orphans.
CREATE TABLE lake_pin (
    pin_id varchar PRIMARY KEY,
    catalog_id bigint NOT NULL,
    snapshot_id bigint NOT NULL,
    holder varchar NOT NULL,
    taken_at varchar NOT NULL,
    expires_at varchar NOT NULL
);
CREATE INDEX lake_pin_of ON lake_pin (catalog_id, snapshot_id);

CREATE INDEX ducklake_snapshot_of ON ducklake_snapshot (catalog_id, snapshot_id);
CREATE INDEX ducklake_snapshot_at ON ducklake_snapshot (catalog_id, snapshot_time, snapshot_id);
CREATE INDEX ducklake_snapshot_changes_of ON ducklake_snapshot_changes (catalog_id, snapshot_id);
CREATE UNIQUE INDEX ducklake_schema_live ON ducklake_schema (catalog_id, lower(schema_name)) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_schema_of ON ducklake_schema (catalog_id, lower(schema_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_table_live ON ducklake_table (catalog_id, schema_id, lower(table_name)) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX ducklake_table_id ON ducklake_table (table_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_table_of ON ducklake_table (catalog_id, schema_id, lower(table_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_view_live ON ducklake_view (catalog_id, schema_id, lower(view_name)) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_view_of ON ducklake_view (catalog_id, schema_id, lower(view_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_view_id ON ducklake_view (view_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_column_newest ON ducklake_column (column_id);
CREATE UNIQUE INDEX ducklake_column_id ON ducklake_column (table_id, column_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_data_file_of ON ducklake_data_file (table_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_data_file_live ON ducklake_data_file (table_id, catalog_id) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_data_file_ended ON ducklake_data_file (catalog_id, end_snapshot) WHERE end_snapshot IS NOT NULL;
CREATE UNIQUE INDEX ducklake_data_file_path ON ducklake_data_file (path);
CREATE UNIQUE INDEX ducklake_delete_file_live ON ducklake_delete_file (data_file_id, catalog_id) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_delete_file_by ON ducklake_delete_file (data_file_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_delete_file_of ON ducklake_delete_file (table_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_delete_file_ended ON ducklake_delete_file (catalog_id, end_snapshot) WHERE end_snapshot IS NOT NULL;
CREATE UNIQUE INDEX ducklake_delete_file_path ON ducklake_delete_file (path);
CREATE UNIQUE INDEX ducklake_file_column_stats_of ON ducklake_file_column_stats (data_file_id, column_id);
CREATE INDEX ducklake_file_column_stats_by ON ducklake_file_column_stats (table_id, column_id);
CREATE UNIQUE INDEX ducklake_table_stats_of ON ducklake_table_stats (table_id, catalog_id);
CREATE UNIQUE INDEX ducklake_table_column_stats_of ON ducklake_table_column_stats (table_id, column_id, catalog_id);
CREATE INDEX ducklake_partition_info_of ON ducklake_partition_info (table_id, begin_snapshot);
CREATE INDEX ducklake_partition_column_of ON ducklake_partition_column (partition_id, partition_key_index);
CREATE UNIQUE INDEX ducklake_file_partition_value_of ON ducklake_file_partition_value (data_file_id, partition_key_index);
CREATE INDEX ducklake_schema_versions_of ON ducklake_schema_versions (catalog_id, table_id, begin_snapshot);
CREATE UNIQUE INDEX ducklake_tag_id ON ducklake_tag (object_id, key, begin_snapshot, catalog_id);
CREATE UNIQUE INDEX ducklake_column_tag_id ON ducklake_column_tag (table_id, column_id, key, begin_snapshot, catalog_id);
CREATE INDEX ducklake_metadata_of ON ducklake_metadata (catalog_id, key);

CREATE VIEW lake_schema AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.schema_id, r.schema_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 1 AND e.object_id = r.schema_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_name, r.path, r.path_is_relative
FROM lake_ancestor a JOIN ducklake_schema r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_table AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.table_id, r.table_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 2 AND e.object_id = r.table_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_id, r.table_name, r.path, r.path_is_relative
FROM lake_ancestor a JOIN ducklake_table r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_view AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.view_id, r.view_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 3 AND e.object_id = r.view_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_id, r.view_name, r.dialect, r.sql, r.column_aliases
FROM lake_ancestor a JOIN ducklake_view r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_column AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.column_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 4 AND e.object_id = r.table_id AND e.sub_id = r.column_id AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.table_id, r.column_order, r.column_name, r.column_type, r.initial_default, r.default_value, r.nulls_allowed, r.parent_column, r.default_value_type, r.default_value_dialect
FROM lake_ancestor a JOIN ducklake_column r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_data_file AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.data_file_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 5 AND e.object_id = r.data_file_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.file_order, r.path, r.path_is_relative, r.file_format, r.record_count, r.file_size_bytes, r.footer_size, r.row_id_start, r.partition_id, r.encryption_key, r.mapping_id, r.partial_max
FROM lake_ancestor a JOIN ducklake_data_file r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_delete_file AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.delete_file_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 6 AND e.object_id = r.delete_file_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.data_file_id, r.path, r.path_is_relative, r.format, r.delete_count, r.file_size_bytes, r.footer_size, r.encryption_key, r.partial_max
FROM lake_ancestor a JOIN ducklake_delete_file r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_partition_info AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.partition_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 7 AND e.object_id = r.partition_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_partition_info r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.object_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 8 AND e.object_id = r.object_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_column_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.table_id, r.column_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 9 AND e.object_id = r.table_id AND e.sub_id = r.column_id AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_column_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_macro AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.schema_id, r.macro_id, r.macro_name, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 10 AND e.object_id = r.macro_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_macro r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_sort_info AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.sort_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 11 AND e.object_id = r.sort_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_sort_info r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

INSERT INTO ducklake_snapshot VALUES (0, strftime('%Y-%m-%d %H:%M:%f', 'now') || '000', 0, 1, 0, 0);
INSERT INTO ducklake_snapshot_changes VALUES (0, 'created_schema:"main"', NULL, NULL, NULL, 0);
INSERT INTO ducklake_schema VALUES (0, '00000000-0000-0000-0000-000000000000', 0, NULL, 'main', 'main/', 1, 0);
INSERT INTO ducklake_metadata VALUES ('version', '1.0', NULL, NULL, 0);

-- migration: 1  version: 1.0  name: lake  engine: postgres
CREATE SEQUENCE ducklake_snapshot_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;
CREATE SEQUENCE ducklake_catalog_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;
CREATE SEQUENCE ducklake_object_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;
CREATE SEQUENCE ducklake_column_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;
CREATE SEQUENCE ducklake_file_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;
CREATE SEQUENCE ducklake_partition_id_seq AS bigint MINVALUE 0 START 1 CACHE 1;

CREATE TABLE ducklake_metadata (
    key varchar NOT NULL,
    value varchar NOT NULL,
    scope varchar,
    scope_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_snapshot (
    snapshot_id bigint PRIMARY KEY,
    snapshot_time timestamptz,
    schema_version bigint,
    next_catalog_id bigint,
    next_file_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_snapshot_changes (
    snapshot_id bigint PRIMARY KEY,
    changes_made varchar,
    author varchar,
    commit_message varchar,
    commit_extra_info varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_schema (
    schema_id bigint PRIMARY KEY,
    schema_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_name varchar COLLATE "C",
    path varchar,
    path_is_relative boolean,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table (
    table_id bigint,
    table_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    table_name varchar COLLATE "C",
    path varchar,
    path_is_relative boolean,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_view (
    view_id bigint,
    view_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    view_name varchar COLLATE "C",
    dialect varchar,
    sql varchar,
    column_aliases varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column (
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    table_id bigint,
    column_order bigint,
    column_name varchar COLLATE "C",
    column_type varchar,
    initial_default varchar,
    default_value varchar,
    nulls_allowed boolean,
    parent_column bigint,
    default_value_type varchar,
    default_value_dialect varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_tag (
    object_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column_tag (
    table_id bigint,
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_data_file (
    data_file_id bigint PRIMARY KEY,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    file_order bigint,
    path varchar,
    path_is_relative boolean,
    file_format varchar,
    record_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    row_id_start bigint,
    partition_id bigint,
    encryption_key varchar,
    mapping_id bigint,
    partial_max bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_delete_file (
    delete_file_id bigint PRIMARY KEY,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    data_file_id bigint,
    path varchar,
    path_is_relative boolean,
    format varchar,
    delete_count bigint,
    file_size_bytes bigint,
    footer_size bigint,
    encryption_key varchar,
    partial_max bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_files_scheduled_for_deletion (
    data_file_id bigint,
    path varchar,
    path_is_relative boolean,
    schedule_start timestamptz,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_inlined_data_tables (
    table_id bigint,
    table_name varchar,
    schema_version bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_column_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan boolean,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_variant_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    variant_path varchar,
    shredded_type varchar,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan boolean,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table_stats (
    table_id bigint,
    record_count bigint,
    next_row_id bigint,
    file_size_bytes bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_table_column_stats (
    table_id bigint,
    column_id bigint,
    contains_null boolean,
    contains_nan boolean,
    min_value varchar,
    max_value varchar,
    extra_stats varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_partition_info (
    partition_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_partition_column (
    partition_id bigint,
    table_id bigint,
    partition_key_index bigint,
    column_id bigint,
    transform varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_file_partition_value (
    data_file_id bigint,
    table_id bigint,
    partition_key_index bigint,
    partition_value varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_column_mapping (
    mapping_id bigint,
    table_id bigint,
    type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_name_mapping (
    mapping_id bigint,
    column_id bigint,
    source_name varchar,
    target_field_id bigint,
    parent_column bigint,
    is_partition boolean,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_schema_versions (
    begin_snapshot bigint,
    schema_version bigint,
    table_id bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro (
    schema_id bigint,
    macro_id bigint,
    macro_name varchar,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro_impl (
    macro_id bigint,
    impl_id bigint,
    dialect varchar,
    sql varchar,
    type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_macro_parameters (
    macro_id bigint,
    impl_id bigint,
    column_id bigint,
    parameter_name varchar,
    parameter_type varchar,
    default_value varchar,
    default_value_type varchar,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_sort_info (
    sort_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    catalog_id bigint NOT NULL
);

CREATE TABLE ducklake_sort_expression (
    sort_id bigint,
    table_id bigint,
    sort_key_index bigint,
    expression varchar,
    dialect varchar,
    sort_direction varchar,
    null_order varchar,
    catalog_id bigint NOT NULL
);

-- What was applied of this file.
CREATE TABLE lake_version (
    number bigint PRIMARY KEY,
    version varchar NOT NULL,
    name varchar NOT NULL,
    checksum varchar NOT NULL,
    applied_at timestamptz NOT NULL
);

CREATE TABLE lake_catalog (
    catalog_id bigint PRIMARY KEY,
    catalog_name varchar COLLATE "C" NOT NULL,
    catalog_uuid uuid NOT NULL,
    parent_id bigint,                 -- of a fork
    fork_snapshot bigint,             -- the parent's, which it equals
    created_snapshot bigint NOT NULL, -- its first
    created_at timestamptz NOT NULL,
    dropped_at timestamptz                   -- hidden from then on; its rows stay while a fork needs them
);
CREATE UNIQUE INDEX lake_catalog_name ON lake_catalog (lower(catalog_name)) WHERE dropped_at IS NULL;

-- The catalog itself (depth 0, no bound), its parent up to the fork's snapshot, and so on: a fork reads through it in one join.
CREATE TABLE lake_ancestor (
    catalog_id bigint NOT NULL,
    depth bigint NOT NULL,
    ancestor_id bigint NOT NULL,
    upto bigint NOT NULL, -- the greatest snapshot of the ancestor that is seen
    PRIMARY KEY (catalog_id, depth)
);
CREATE INDEX lake_ancestor_of ON lake_ancestor (ancestor_id, upto);

-- Where a catalog's history ends. Who commits locks this row first: so ids follow commit order within a catalog, and catalogs do not wait for each other.
CREATE TABLE lake_head (
    catalog_id bigint PRIMARY KEY,
    snapshot_id bigint NOT NULL,
    parent_snapshot_id bigint NOT NULL, -- the head before
    snapshot_time timestamptz NOT NULL,
    schema_version bigint NOT NULL,
    digest_a bigint NOT NULL, -- of the state: sums, modulo 2^62, over the live rows
    digest_b bigint NOT NULL,
    oldest_base bigint NOT NULL DEFAULT 0, -- marks at or below it are gone: a commit from an older base cannot be checked
    exposed_as varchar -- the schema of views for stock clients
) WITH (fillfactor = 20); -- changed by every commit: room for its versions on the page

-- One row per snapshot: what it followed, the state's digest after it, and under which key it was asked for.
CREATE TABLE lake_commit (
    snapshot_id bigint PRIMARY KEY,
    catalog_id bigint NOT NULL,
    parent_snapshot_id bigint NOT NULL, -- the head before; of a first one 0, of a fork's first the parent's snapshot
    base_snapshot_id bigint, -- what its author had read: conflicts were checked against everything since; NULL: the parent
    digest_a bigint NOT NULL,
    digest_b bigint NOT NULL,
    request_key varchar,
    request_hash bytea,
    rows_added bigint NOT NULL DEFAULT 0,
    is_stock boolean NOT NULL DEFAULT false,
    committed_at timestamptz NOT NULL,
    expired_at timestamptz -- the snapshot is gone, on purpose; the commit stays, so that its key answers for ever
);
CREATE UNIQUE INDEX lake_commit_key ON lake_commit (catalog_id, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX lake_commit_of ON lake_commit (catalog_id, snapshot_id);

-- What a commit did, in the words that others are checked against (src/lake/mark.h).
CREATE TABLE lake_mark (
    catalog_id bigint NOT NULL,
    mark varchar COLLATE "C" NOT NULL,
    snapshot_id bigint NOT NULL,
    PRIMARY KEY (catalog_id, mark, snapshot_id)
);
CREATE INDEX lake_mark_age ON lake_mark (catalog_id, snapshot_id);

-- Rows of an ancestor that ended in this catalog alone.
CREATE TABLE lake_ended (
    kind bigint NOT NULL, -- src/lake/state.h
    object_id bigint NOT NULL,
    sub_id bigint NOT NULL, -- a column's; otherwise 0
    begin_snapshot bigint NOT NULL,
    catalog_id bigint NOT NULL,
    end_snapshot bigint NOT NULL,
    PRIMARY KEY (kind, object_id, sub_id, begin_snapshot, catalog_id)
);
CREATE INDEX lake_ended_by ON lake_ended (catalog_id, end_snapshot);

-- Who reads or builds on a snapshot: it is not expired, and files that are newer than the oldest of these are nobody's orphans.
CREATE TABLE lake_pin (
    pin_id uuid PRIMARY KEY,
    catalog_id bigint NOT NULL,
    snapshot_id bigint NOT NULL,
    holder varchar NOT NULL,
    taken_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX lake_pin_of ON lake_pin (catalog_id, snapshot_id);

CREATE INDEX ducklake_snapshot_of ON ducklake_snapshot (catalog_id, snapshot_id);
CREATE INDEX ducklake_snapshot_at ON ducklake_snapshot (catalog_id, snapshot_time, snapshot_id);
CREATE INDEX ducklake_snapshot_changes_of ON ducklake_snapshot_changes (catalog_id, snapshot_id);
CREATE UNIQUE INDEX ducklake_schema_live ON ducklake_schema (catalog_id, lower(schema_name)) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_schema_of ON ducklake_schema (catalog_id, lower(schema_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_table_live ON ducklake_table (catalog_id, schema_id, lower(table_name)) WHERE end_snapshot IS NULL;
CREATE UNIQUE INDEX ducklake_table_id ON ducklake_table (table_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_table_of ON ducklake_table (catalog_id, schema_id, lower(table_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_view_live ON ducklake_view (catalog_id, schema_id, lower(view_name)) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_view_of ON ducklake_view (catalog_id, schema_id, lower(view_name), begin_snapshot);
CREATE UNIQUE INDEX ducklake_view_id ON ducklake_view (view_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_column_newest ON ducklake_column (column_id);
CREATE UNIQUE INDEX ducklake_column_id ON ducklake_column (table_id, column_id, begin_snapshot, catalog_id);
CREATE INDEX ducklake_data_file_of ON ducklake_data_file (table_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_data_file_live ON ducklake_data_file (table_id, catalog_id) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_data_file_ended ON ducklake_data_file (catalog_id, end_snapshot) WHERE end_snapshot IS NOT NULL;
CREATE UNIQUE INDEX ducklake_data_file_path ON ducklake_data_file (path);
CREATE UNIQUE INDEX ducklake_delete_file_live ON ducklake_delete_file (data_file_id, catalog_id) WHERE end_snapshot IS NULL;
CREATE INDEX ducklake_delete_file_by ON ducklake_delete_file (data_file_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_delete_file_of ON ducklake_delete_file (table_id, catalog_id, begin_snapshot);
CREATE INDEX ducklake_delete_file_ended ON ducklake_delete_file (catalog_id, end_snapshot) WHERE end_snapshot IS NOT NULL;
CREATE UNIQUE INDEX ducklake_delete_file_path ON ducklake_delete_file (path);
CREATE UNIQUE INDEX ducklake_file_column_stats_of ON ducklake_file_column_stats (data_file_id, column_id);
CREATE INDEX ducklake_file_column_stats_by ON ducklake_file_column_stats (table_id, column_id);
CREATE UNIQUE INDEX ducklake_table_stats_of ON ducklake_table_stats (table_id, catalog_id);
CREATE UNIQUE INDEX ducklake_table_column_stats_of ON ducklake_table_column_stats (table_id, column_id, catalog_id);
CREATE INDEX ducklake_partition_info_of ON ducklake_partition_info (table_id, begin_snapshot);
CREATE INDEX ducklake_partition_column_of ON ducklake_partition_column (partition_id, partition_key_index);
CREATE UNIQUE INDEX ducklake_file_partition_value_of ON ducklake_file_partition_value (data_file_id, partition_key_index);
CREATE INDEX ducklake_schema_versions_of ON ducklake_schema_versions (catalog_id, table_id, begin_snapshot);
CREATE UNIQUE INDEX ducklake_tag_id ON ducklake_tag (object_id, key, begin_snapshot, catalog_id);
CREATE UNIQUE INDEX ducklake_column_tag_id ON ducklake_column_tag (table_id, column_id, key, begin_snapshot, catalog_id);
CREATE INDEX ducklake_metadata_of ON ducklake_metadata (catalog_id, key);

CREATE VIEW lake_schema AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.schema_id, r.schema_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 1 AND e.object_id = r.schema_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_name, r.path, r.path_is_relative
FROM lake_ancestor a JOIN ducklake_schema r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_table AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.table_id, r.table_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 2 AND e.object_id = r.table_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_id, r.table_name, r.path, r.path_is_relative
FROM lake_ancestor a JOIN ducklake_table r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_view AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.view_id, r.view_uuid, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 3 AND e.object_id = r.view_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.schema_id, r.view_name, r.dialect, r.sql, r.column_aliases
FROM lake_ancestor a JOIN ducklake_view r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_column AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.column_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 4 AND e.object_id = r.table_id AND e.sub_id = r.column_id AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.table_id, r.column_order, r.column_name, r.column_type, r.initial_default, r.default_value, r.nulls_allowed, r.parent_column, r.default_value_type, r.default_value_dialect
FROM lake_ancestor a JOIN ducklake_column r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_data_file AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.data_file_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 5 AND e.object_id = r.data_file_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.file_order, r.path, r.path_is_relative, r.file_format, r.record_count, r.file_size_bytes, r.footer_size, r.row_id_start, r.partition_id, r.encryption_key, r.mapping_id, r.partial_max
FROM lake_ancestor a JOIN ducklake_data_file r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_delete_file AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.delete_file_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 6 AND e.object_id = r.delete_file_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.data_file_id, r.path, r.path_is_relative, r.format, r.delete_count, r.file_size_bytes, r.footer_size, r.encryption_key, r.partial_max
FROM lake_ancestor a JOIN ducklake_delete_file r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_partition_info AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.partition_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 7 AND e.object_id = r.partition_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_partition_info r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.object_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 8 AND e.object_id = r.object_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_column_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.table_id, r.column_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 9 AND e.object_id = r.table_id AND e.sub_id = r.column_id AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_column_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_macro AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.schema_id, r.macro_id, r.macro_name, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 10 AND e.object_id = r.macro_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_macro r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE VIEW lake_sort_info AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.sort_id, r.table_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 11 AND e.object_id = r.sort_id AND e.sub_id = 0 AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot
FROM lake_ancestor a JOIN ducklake_sort_info r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

-- Called by a commit that has just locked the head of its catalog, with what it fears (src/lake/mark.h) and its key: fails the transaction when it
-- must not go on. The words are for the log; who is refused looks again for what it was.
CREATE FUNCTION lake_refuse(of_catalog bigint, base bigint, fears jsonb, key varchar) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    known_from bigint;
BEGIN
    SELECT h.oldest_base INTO known_from FROM lake_head h WHERE h.catalog_id = of_catalog;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('catalog %s is gone', of_catalog);
    END IF;
    IF key IS NOT NULL AND EXISTS (SELECT 1 FROM lake_commit c WHERE c.catalog_id = of_catalog AND c.request_key = key) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('request %s is done already', key);
    END IF;
    IF base < known_from THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('base %s is older than what conflicts are known of (%s)', base, known_from);
    END IF;
    IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(fears) f
               WHERE EXISTS (SELECT 1 FROM lake_mark m WHERE m.catalog_id = of_catalog AND m.mark = f AND m.snapshot_id > base)) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('changed since base %s', base);
    END IF;
END $lake$;

-- Brings a sequence above what is there. ALTER SEQUENCE changes nothing; its lock keeps everybody from the sequence until the commit.
CREATE FUNCTION lake_raise(sequence_name varchar, wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $lake$
DECLARE
    last bigint;
BEGIN
    EXECUTE format('ALTER SEQUENCE %I CACHE 1', sequence_name);
    EXECUTE format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM %I', sequence_name) INTO last;
    IF last < wanted THEN
        PERFORM setval(CAST(quote_ident(sequence_name) AS regclass), wanted, true);
        RETURN 1;
    END IF;
    RETURN 0;
END $lake$;

INSERT INTO ducklake_snapshot VALUES (0, now(), 0, 1, 0, 0);
INSERT INTO ducklake_snapshot_changes VALUES (0, 'created_schema:"main"', NULL, NULL, NULL, 0);
INSERT INTO ducklake_schema VALUES (0, '00000000-0000-0000-0000-000000000000', 0, NULL, 'main', 'main/', true, 0);
INSERT INTO ducklake_metadata VALUES ('version', '1.0', NULL, NULL, 0);
SELECT setval('ducklake_snapshot_id_seq', 1, false);
