-- The server judges every row that a stock client writes, whatever the client has checked itself: at the end of its commit, under the head's lock.
--
-- A client checks its change against the changes of others only when it tries again, and only by what changes_made says. Refusals here are final (TM001): trying again with the same
-- files cannot mend them, so their words say what to do, and have none of those that make a client try again.

-- migration: 6  version: 1.5  name: judge  engine: sqlite
UPDATE lake_head SET exposed_as = NULL; -- as in 2

-- migration: 6  version: 1.5  name: judge  engine: postgres
-- A data file that ends takes its delete file along; clients that delete its last rows leave it behind.
CREATE FUNCTION lake_stock_end_deletes(of_catalog bigint, of_snapshot bigint) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    d record;
BEGIN
    FOR d IN SELECT x.* FROM (SELECT r.data_file_id FROM ducklake_data_file r WHERE r.catalog_id = of_catalog AND r.end_snapshot = of_snapshot
                              UNION SELECT e.object_id FROM lake_ended e WHERE e.catalog_id = of_catalog AND e.end_snapshot = of_snapshot AND e.kind = 5) f
             JOIN lake_delete_file x ON x.viewer_id = of_catalog AND x.data_file_id = f.data_file_id AND x.end_snapshot IS NULL LOOP
        PERFORM lake_stock_ends(of_catalog, 6, 'ducklake_delete_file', ARRAY['delete_file_id'], to_jsonb(d));
    END LOOP;
END $lake$;

CREATE FUNCTION lake_stock_judge(of_catalog bigint, of_snapshot bigint, changes text) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    r record;
BEGIN
    -- A delete file names a live data file, and is its only one.
    FOR r IN SELECT x.data_file_id, x.table_id,
                    EXISTS (SELECT 1 FROM lake_data_file f
                            WHERE f.viewer_id = of_catalog AND f.data_file_id = x.data_file_id AND f.table_id = x.table_id AND f.end_snapshot IS NULL) AS is_live,
                    (SELECT count(*) FROM lake_delete_file o WHERE o.viewer_id = of_catalog AND o.data_file_id = x.data_file_id AND o.end_snapshot IS NULL) AS live
             FROM ducklake_delete_file x
             WHERE x.delete_file_id >= lake_stock_get('files') AND x.begin_snapshot = of_snapshot AND x.catalog_id = of_catalog AND x.end_snapshot IS NULL LOOP
        IF NOT r.is_live THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001',
                MESSAGE = format('rows of data file %s of table %s were deleted, which was replaced or deleted since they were read: run the statement again', r.data_file_id, r.table_id);
        ELSIF r.live > 1 THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001',
                MESSAGE = format('other rows of data file %s of table %s were deleted since it was read: run the statement again', r.data_file_id, r.table_id);
        END IF;
    END LOOP;
    -- New rows refer to what is live, and changes_made names the tables of files.
    FOR r IN SELECT f.table_id, EXISTS (SELECT 1 FROM lake_table t WHERE t.viewer_id = of_catalog AND t.table_id = f.table_id AND t.end_snapshot IS NULL) AS is_live
             FROM (SELECT d.table_id FROM ducklake_data_file d
                   WHERE d.data_file_id >= lake_stock_get('files') AND d.begin_snapshot = of_snapshot AND d.catalog_id = of_catalog AND d.end_snapshot IS NULL
                   UNION SELECT x.table_id FROM ducklake_delete_file x
                   WHERE x.delete_file_id >= lake_stock_get('files') AND x.begin_snapshot = of_snapshot AND x.catalog_id = of_catalog AND x.end_snapshot IS NULL) f LOOP
        IF NOT r.is_live THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('table %s has been dropped: its new files belong to no table', r.table_id);
        ELSIF changes !~ ('(^|,)(inserted_into_table|deleted_from_table|compacted_table|merge_adjacent|rewrite_delete):' || r.table_id || '(,|$)') THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001',
                MESSAGE = format('table %s has new files, and changes_made does not say so: %s', r.table_id, left(changes, 100));
        END IF;
    END LOOP;
    IF changes !~ '(^|,)(created|altered)_' AND NOT EXISTS (
           SELECT 1 FROM lake_head h JOIN ducklake_snapshot s ON s.snapshot_id = h.parent_snapshot_id WHERE h.catalog_id = of_catalog AND s.schema_version <> h.schema_version) THEN
        RETURN;
    END IF;
    FOR r IN SELECT t.table_id, t.table_name AS name, t.schema_id FROM ducklake_table t
             WHERE t.begin_snapshot = of_snapshot AND t.catalog_id = of_catalog AND t.end_snapshot IS NULL
             UNION ALL SELECT v.view_id, v.view_name, v.schema_id FROM ducklake_view v
             WHERE v.begin_snapshot = of_snapshot AND v.catalog_id = of_catalog AND v.end_snapshot IS NULL LOOP
        IF NOT EXISTS (SELECT 1 FROM lake_schema s WHERE s.viewer_id = of_catalog AND s.schema_id = r.schema_id AND s.end_snapshot IS NULL) THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('the schema of %s has been dropped: create it again, or name another', r.name);
        ELSIF (SELECT count(*) FROM lake_table t WHERE t.viewer_id = of_catalog AND t.schema_id = r.schema_id AND t.end_snapshot IS NULL AND lower(t.table_name) = lower(r.name))
            + (SELECT count(*) FROM lake_view v WHERE v.viewer_id = of_catalog AND v.schema_id = r.schema_id AND v.end_snapshot IS NULL AND lower(v.view_name) = lower(r.name)) > 1 THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('there is a table or view %s already: choose another name', r.name);
        END IF;
    END LOOP;
    FOR r IN SELECT s.schema_name AS name FROM ducklake_schema s
             WHERE s.begin_snapshot = of_snapshot AND s.catalog_id = of_catalog AND s.end_snapshot IS NULL LOOP
        IF (SELECT count(*) FROM lake_schema s WHERE s.viewer_id = of_catalog AND s.end_snapshot IS NULL AND lower(s.schema_name) = lower(r.name)) > 1 THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('there is a schema %s already: choose another name', r.name);
        END IF;
    END LOOP;
    FOR r IN SELECT k.table_id, k.column_name FROM ducklake_column k
             WHERE k.begin_snapshot = of_snapshot AND k.catalog_id = of_catalog AND k.end_snapshot IS NULL
               AND NOT EXISTS (SELECT 1 FROM lake_table t WHERE t.viewer_id = of_catalog AND t.table_id = k.table_id AND t.end_snapshot IS NULL) LIMIT 1 LOOP
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('column %s is of table %s, which has been dropped', r.column_name, r.table_id);
    END LOOP;
END $lake$;

-- Rows with a life: TG_ARGV is the catalog, the kind (state.h), the columns of the key. As before, and a row ends only if it is live.
CREATE OR REPLACE FUNCTION lake_stock_life() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    of_catalog bigint := TG_ARGV[0];
    kind int := TG_ARGV[1];
    keys text[] := string_to_array(TG_ARGV[2], ',');
    at bigint := lake_stock_at(of_catalog);
    is_file boolean := kind IN (5, 6);
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.begin_snapshot := lake_stock_begin(of_catalog, NEW.begin_snapshot, is_file);
        IF NEW.end_snapshot IS NOT NULL THEN
            NEW.end_snapshot := lake_stock_begin(of_catalog, NEW.end_snapshot, false);
        END IF;
        PERFORM lake_stock_begins(of_catalog, kind, CAST(to_jsonb(NEW)->>keys[1] AS bigint), to_jsonb(NEW));
        EXECUTE format('INSERT INTO %I SELECT ($1).*, $2', TG_TABLE_NAME) USING NEW, of_catalog;
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF to_jsonb(OLD) - 'begin_snapshot' - 'end_snapshot' <> to_jsonb(NEW) - 'begin_snapshot' - 'end_snapshot'
           OR (NEW.begin_snapshot <> OLD.begin_snapshot AND OLD.begin_snapshot <> at) THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('%s: rows begin and end, and do not change', TG_TABLE_NAME);
        END IF;
        IF NEW.end_snapshot IS NOT NULL AND OLD.end_snapshot IS NOT NULL AND OLD.end_snapshot <> at THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001',
                MESSAGE = format('%s: row %s has ended in snapshot %s: run the statement again', TG_TABLE_NAME, to_jsonb(OLD)->>keys[1], OLD.end_snapshot);
        ELSIF OLD.end_snapshot IS NULL AND NEW.end_snapshot IS NOT NULL THEN
            PERFORM lake_stock_begin(of_catalog, NEW.end_snapshot, false);
            PERFORM lake_stock_ends(of_catalog, kind, TG_TABLE_NAME, keys, to_jsonb(OLD));
        END IF;
        RETURN NEW;
    END IF;
    -- A client that replaces a file removes its row; here it ends, so that older snapshots keep it.
    IF NOT is_file THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('%s: rows end, and are removed by ''tidemark lake expire''', TG_TABLE_NAME);
    END IF;
    IF OLD.end_snapshot IS NULL THEN
        PERFORM lake_stock_ends(of_catalog, kind, TG_TABLE_NAME, keys, to_jsonb(OLD));
    END IF;
    RETURN OLD;
END $lake$;

CREATE OR REPLACE FUNCTION lake_stock_seal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    changes text;
    partition bigint;
BEGIN
    SELECT c.changes_made INTO changes FROM ducklake_snapshot_changes c WHERE c.snapshot_id = NEW.snapshot_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'a snapshot without its row in ducklake_snapshot_changes';
    END IF;
    PERFORM lake_stock_marks(NEW.catalog_id, changes);
    PERFORM lake_stock_end_deletes(NEW.catalog_id, NEW.snapshot_id);
    PERFORM lake_stock_judge(NEW.catalog_id, NEW.snapshot_id, changes);
    PERFORM lake_stock_settle(NEW.catalog_id, NEW.snapshot_id, changes);
    FOREACH partition IN ARRAY string_to_array(current_setting('tidemark.lake_partitions'), ',') LOOP
        PERFORM lake_stock_count(1, lake_row_digest(7, to_jsonb(p))) FROM ducklake_partition_info p
        WHERE p.partition_id = partition AND p.catalog_id = NEW.catalog_id AND p.end_snapshot IS NULL;
    END LOOP;
    UPDATE lake_head
    SET digest_a = (digest_a + lake_stock_get('a')) & 4611686018427387903, digest_b = (digest_b + lake_stock_get('b')) & 4611686018427387903
    WHERE catalog_id = NEW.catalog_id AND snapshot_id = NEW.snapshot_id;
    INSERT INTO lake_commit (snapshot_id, catalog_id, parent_snapshot_id, base_snapshot_id, digest_a, digest_b, request_key, request_hash, rows_added, is_stock, committed_at)
    SELECT h.snapshot_id, h.catalog_id, h.parent_snapshot_id, h.parent_snapshot_id, h.digest_a, h.digest_b, NULL, NULL, 0, true, h.snapshot_time
    FROM lake_head h WHERE h.catalog_id = NEW.catalog_id;
    DELETE FROM lake_stock_commit WHERE snapshot_id = NEW.snapshot_id;
    RETURN NULL;
END $lake$;

