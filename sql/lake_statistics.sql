-- Statistics of tables and columns belong to the server: they are computed from the files of each commit, under the head's lock, whoever commits.
--
-- A column has a row in ducklake_table_column_stats only while the bounds of all files that its catalog ever saw are known and comparable. There NULL bounds mean that no value
-- exists. Without a row every client scans: to DuckDB 1.5 NULL bounds in a row mean "no values yet", to newer clients "not known". Bounds only widen: they are not versioned,
-- and clients use them for older snapshots too.

-- migration: 5  version: 1.4  name: statistics  engine: sqlite
-- Columns whose bounds are not known in a catalog, for good. Here rows with NULL bounds say it too, which exports leave out.
CREATE TABLE lake_unbounded (
    table_id bigint NOT NULL,
    column_id bigint NOT NULL,
    catalog_id bigint NOT NULL,
    PRIMARY KEY (table_id, column_id, catalog_id)
) WITHOUT ROWID;

-- Values of FLOAT have other digits as DOUBLE: bounds that were written for the one do not hold for the other.
CREATE TRIGGER lake_retype AFTER INSERT ON ducklake_column
WHEN NEW.column_type = 'float64' AND EXISTS (SELECT 1 FROM ducklake_column o WHERE o.table_id = NEW.table_id AND o.column_id = NEW.column_id AND o.column_type = 'float32')
BEGIN
    UPDATE ducklake_file_column_stats SET min_value = NULL, max_value = NULL WHERE table_id = NEW.table_id AND column_id = NEW.column_id;
    UPDATE ducklake_table_column_stats SET min_value = NULL, max_value = NULL WHERE table_id = NEW.table_id AND column_id = NEW.column_id;
END;

-- migration: 5  version: 1.4  name: statistics  engine: postgres
-- Columns whose bounds are not known in a catalog, for good.
CREATE TABLE lake_unbounded (
    table_id bigint NOT NULL,
    column_id bigint NOT NULL,
    catalog_id bigint NOT NULL,
    PRIMARY KEY (table_id, column_id, catalog_id)
);

-- How a bound of a type is compared. NULL: not at all, or it is no text of the type that we know.
CREATE FUNCTION lake_bound_order(column_type text, bound text) RETURNS text LANGUAGE sql IMMUTABLE AS $lake$
    SELECT CASE
        WHEN column_type = 'varchar' AND bound IS NOT NULL THEN 'text'
        WHEN column_type ~ '^(u?int(8|16|32|64)|decimal.*)$' AND bound ~ '^-?[0-9]+(\.[0-9]+)?$' THEN 'number'
        WHEN column_type IN ('float32', 'float64') AND bound ~ '^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]{1,3})?$' THEN 'number'
        WHEN column_type = 'boolean' AND lower(bound) IN ('0', '1', 'false', 'true') THEN 'boolean'
        WHEN column_type = 'uuid' AND bound ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN 'text'
        WHEN column_type = 'date' AND bound ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN 'text'
        WHEN column_type = 'time' AND bound ~ '^[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?$' THEN 'moment'
        WHEN column_type ~ '^timestamp(_s|_ms|_ns|tz)?$' AND bound ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(\+00)?)?$' THEN 'moment' END;
$lake$;

-- Of two bounds the one that holds for both: the lesser, or the greater. NULL: not to be compared.
CREATE OR REPLACE FUNCTION lake_bound(column_type text, a text, b text, want_lesser boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $lake$
DECLARE
    kind text := lake_bound_order(column_type, a);
    is_lesser boolean;
BEGIN
    IF kind IS DISTINCT FROM lake_bound_order(column_type, b) THEN
        RETURN NULL;
    ELSIF kind = 'number' THEN
        is_lesser := CAST(a AS numeric) < CAST(b AS numeric);
    ELSIF kind = 'boolean' THEN
        is_lesser := lower(a) IN ('0', 'false') AND lower(b) IN ('1', 'true');
    ELSIF kind = 'text' THEN
        is_lesser := a COLLATE "C" < b COLLATE "C";
    ELSIF kind = 'moment' THEN
        is_lesser := replace(a, '+00', '') COLLATE "C" < replace(b, '+00', '') COLLATE "C";
    END IF;
    RETURN CASE WHEN is_lesser = want_lesser THEN a WHEN is_lesser <> want_lesser THEN b END;
END $lake$;

DROP TRIGGER lake_widen ON ducklake_file_column_stats;
DROP FUNCTION lake_widen();
DROP FUNCTION lake_bound_first(bigint, bigint, bigint, text);
DELETE FROM ducklake_table_column_stats; -- computed again, by the next commit of each table

-- Where the bounds of a column begin for a catalog that has none of its own: its nearest ancestor's, which covers all files that it has from there. Of no table_id: nowhere.
CREATE FUNCTION lake_bound_inherited(of_catalog bigint, of_table bigint, of_column bigint) RETURNS ducklake_table_column_stats LANGUAGE sql STABLE AS $lake$
    SELECT t.* FROM lake_ancestor a JOIN ducklake_table_column_stats t ON t.catalog_id = a.ancestor_id
    WHERE a.catalog_id = of_catalog AND a.depth > 0 AND t.table_id = of_table AND t.column_id = of_column
      AND NOT EXISTS (SELECT 1 FROM lake_ancestor b JOIN lake_unbounded u ON u.catalog_id = b.ancestor_id
                      WHERE b.catalog_id = of_catalog AND b.depth < a.depth AND u.table_id = of_table AND u.column_id = of_column)
    ORDER BY a.depth LIMIT 1;
$lake$;

-- The bounds of the columns of some files' tables, after a commit has added the files.
CREATE FUNCTION lake_settle_bounds(of_catalog bigint, added bigint[]) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    c record;
    f record;
    was ducklake_table_column_stats;
    s ducklake_table_column_stats;
    files bigint[];
    has_row boolean;
    is_known boolean;
BEGIN
    FOR c IN SELECT k.table_id, k.column_id, k.column_type, k.parent_column
             FROM (SELECT DISTINCT d.table_id FROM ducklake_data_file d WHERE d.data_file_id = ANY (added)) t
             JOIN lake_column k ON k.viewer_id = of_catalog AND k.table_id = t.table_id AND k.end_snapshot IS NULL
             WHERE NOT EXISTS (SELECT 1 FROM lake_unbounded u WHERE u.table_id = k.table_id AND u.column_id = k.column_id AND u.catalog_id = of_catalog) LOOP
        is_known := c.parent_column IS NULL;
        files := added;
        SELECT t.* INTO was FROM ducklake_table_column_stats t WHERE t.table_id = c.table_id AND t.column_id = c.column_id AND t.catalog_id = of_catalog;
        has_row := FOUND;
        s := was;
        IF NOT has_row AND is_known THEN
            s := lake_bound_inherited(of_catalog, c.table_id, c.column_id);
            IF s.table_id IS NULL THEN -- over every file that there is
                files := ARRAY(SELECT d.data_file_id FROM lake_data_file d WHERE d.viewer_id = of_catalog AND d.table_id = c.table_id);
            END IF;
        END IF;
        FOR f IN SELECT d.record_count, x.data_file_id, x.null_count, x.min_value, x.max_value,
                        x.contains_nan OR (x.contains_nan IS NULL AND c.column_type IN ('float32', 'float64')) AS may_have_nan
                 FROM ducklake_data_file d LEFT JOIN ducklake_file_column_stats x ON x.data_file_id = d.data_file_id AND x.column_id = c.column_id
                 WHERE d.data_file_id = ANY (files) AND d.table_id = c.table_id AND is_known LOOP
            IF f.data_file_id IS NULL OR f.null_count IS NULL THEN -- a file that does not say
                is_known := false;
                EXIT;
            END IF;
            s.contains_null := coalesce(s.contains_null, false) OR f.null_count > 0;
            CONTINUE WHEN f.null_count >= f.record_count;
            s.min_value := lake_bound(c.column_type, coalesce(s.min_value, f.min_value), f.min_value, true);
            s.max_value := lake_bound(c.column_type, coalesce(s.max_value, f.max_value), f.max_value, false);
            IF f.may_have_nan OR s.min_value IS NULL OR s.max_value IS NULL THEN
                is_known := false;
                EXIT;
            END IF;
        END LOOP;
        IF NOT is_known THEN
            DELETE FROM ducklake_table_column_stats t WHERE t.table_id = c.table_id AND t.column_id = c.column_id AND t.catalog_id = of_catalog;
            INSERT INTO lake_unbounded (table_id, column_id, catalog_id) VALUES (c.table_id, c.column_id, of_catalog) ON CONFLICT DO NOTHING;
        ELSIF NOT has_row THEN
            INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null, contains_nan, min_value, max_value, extra_stats, catalog_id)
            VALUES (c.table_id, c.column_id, s.contains_null, CASE WHEN c.column_type IN ('float32', 'float64') THEN false END, s.min_value, s.max_value, NULL, of_catalog);
        ELSIF s IS DISTINCT FROM was THEN
            UPDATE ducklake_table_column_stats t SET contains_null = s.contains_null, min_value = s.min_value, max_value = s.max_value
            WHERE t.table_id = c.table_id AND t.column_id = c.column_id AND t.catalog_id = of_catalog;
        END IF;
    END LOOP;
END $lake$;

-- Values of FLOAT have other digits as DOUBLE: bounds that were written for the one do not hold for the other.
CREATE FUNCTION lake_retype() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
BEGIN
    IF EXISTS (SELECT 1 FROM ducklake_column o WHERE o.table_id = NEW.table_id AND o.column_id = NEW.column_id AND o.column_type = 'float32') THEN
        UPDATE ducklake_file_column_stats SET min_value = NULL, max_value = NULL WHERE table_id = NEW.table_id AND column_id = NEW.column_id;
        DELETE FROM ducklake_table_column_stats WHERE table_id = NEW.table_id AND column_id = NEW.column_id AND catalog_id = NEW.catalog_id;
        INSERT INTO lake_unbounded (table_id, column_id, catalog_id) VALUES (NEW.table_id, NEW.column_id, NEW.catalog_id) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $lake$;
CREATE TRIGGER lake_retype AFTER INSERT ON ducklake_column FOR EACH ROW WHEN (NEW.column_type = 'float64') EXECUTE FUNCTION lake_retype();

-- What a client says about statistics is ignored: it computes them from what it read, or from less.
CREATE OR REPLACE FUNCTION lake_stock_stats() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
BEGIN
    PERFORM lake_stock_at(CAST(TG_ARGV[0] AS bigint));
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $lake$;

-- Counts of the tables that a stock commit gave files, and the row ids of these: those of inserted files are the next of the table, whatever the client said. Files that were merged
-- or rewritten have the row ids of the files that they replace.
CREATE FUNCTION lake_stock_settle(of_catalog bigint, of_snapshot bigint, changes text) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    added bigint[] := ARRAY(SELECT d.data_file_id FROM ducklake_data_file d
                            WHERE d.data_file_id >= lake_stock_get('files') AND d.begin_snapshot = of_snapshot AND d.catalog_id = of_catalog);
    t record;
    next_row bigint;
BEGIN
    IF cardinality(added) = 0 THEN
        RETURN;
    END IF;
    FOR t IN SELECT d.table_id, CAST(sum(d.record_count) AS bigint) AS records, CAST(sum(d.file_size_bytes) AS bigint) AS bytes,
                    changes ~ ('(compacted_table|merge_adjacent|rewrite_delete):' || d.table_id || '(,|$)') AS is_compacted
             FROM ducklake_data_file d WHERE d.data_file_id = ANY (added) GROUP BY d.table_id LOOP
        INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
        SELECT t.table_id, coalesce(o.record_count, 0), coalesce(o.next_row_id, 0), coalesce(o.file_size_bytes, 0), of_catalog
        FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT x.* FROM lake_ancestor a JOIN ducklake_table_stats x ON x.catalog_id = a.ancestor_id
                                               WHERE a.catalog_id = of_catalog AND x.table_id = t.table_id ORDER BY a.depth LIMIT 1) o ON true
        ON CONFLICT (table_id, catalog_id) DO NOTHING;
        IF t.is_compacted THEN
            UPDATE ducklake_table_stats x
            SET record_count = x.record_count + t.records - e.records, file_size_bytes = x.file_size_bytes + t.bytes - e.bytes
            FROM (SELECT coalesce(CAST(sum(d.record_count) AS bigint), 0) AS records, coalesce(CAST(sum(d.file_size_bytes) AS bigint), 0) AS bytes
                  FROM lake_data_file d WHERE d.viewer_id = of_catalog AND d.table_id = t.table_id AND d.end_snapshot = of_snapshot) e
            WHERE x.table_id = t.table_id AND x.catalog_id = of_catalog;
        ELSE
            UPDATE ducklake_table_stats x
            SET record_count = x.record_count + t.records, next_row_id = x.next_row_id + t.records, file_size_bytes = x.file_size_bytes + t.bytes
            WHERE x.table_id = t.table_id AND x.catalog_id = of_catalog
            RETURNING x.next_row_id - t.records INTO next_row;
            UPDATE ducklake_data_file d SET row_id_start = next_row + n.before
            FROM (SELECT o.data_file_id, CAST(coalesce(sum(o.record_count) OVER (ORDER BY o.row_id_start, o.data_file_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bigint) AS before
                  FROM ducklake_data_file o WHERE o.data_file_id = ANY (added) AND o.table_id = t.table_id) n
            WHERE d.data_file_id = n.data_file_id;
        END IF;
    END LOOP;
    PERFORM lake_settle_bounds(of_catalog, added);
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

CREATE OR REPLACE FUNCTION lake_stock_view(of_catalog bigint, t lake_stock_table) RETURNS text LANGUAGE plpgsql STABLE AS $lake$
DECLARE
    columns text := lake_stock_columns(t.name, 'r.');
    catalogs text := (SELECT string_agg(CAST(a.ancestor_id AS text), ', ' ORDER BY a.depth) FROM lake_ancestor a WHERE a.catalog_id = of_catalog);
    is_fork boolean := (SELECT count(*) > 1 FROM lake_ancestor a WHERE a.catalog_id = of_catalog);
BEGIN
    RETURN CASE
    WHEN t.source IS NOT NULL THEN format('SELECT %s FROM %I r WHERE r.viewer_id = %s', columns, t.source, of_catalog)
    WHEN t.part_of = 'file' AND is_fork THEN format('SELECT %s FROM %I r WHERE EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = %s AND f.data_file_id = r.data_file_id)',
                                                    columns, t.name, of_catalog)
    WHEN t.part_of IN ('file', 'table') THEN format('SELECT %s FROM %I r WHERE r.catalog_id IN (%s)', columns, t.name, catalogs)
    WHEN t.part_of = 'snapshot' THEN format('SELECT %s FROM %I r WHERE %s', columns, t.name, lake_stock_line(of_catalog, 'begin_snapshot'))
    -- The newest row says what no counter of ours has given yet.
    WHEN t.name = 'ducklake_snapshot' THEN format(
            'SELECT r.snapshot_id, r.snapshot_time, r.schema_version, '
            'CASE WHEN r.snapshot_id = (SELECT h.snapshot_id FROM lake_head h WHERE h.catalog_id = %1$s) '
            'THEN greatest(r.next_catalog_id, (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM ducklake_object_id_seq)) ELSE r.next_catalog_id END '
            'AS next_catalog_id, '
            'CASE WHEN r.snapshot_id = (SELECT h.snapshot_id FROM lake_head h WHERE h.catalog_id = %1$s) '
            'THEN greatest(r.next_file_id, (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM ducklake_file_id_seq)) ELSE r.next_file_id END AS next_file_id '
            'FROM ducklake_snapshot r WHERE %2$s', of_catalog, lake_stock_line(of_catalog, 'snapshot_id'))
    WHEN t.name = 'ducklake_snapshot_changes' THEN format(
            'SELECT r.snapshot_id, CAST(nullif(r.changes_made, '''') AS varchar) AS changes_made, r.author, r.commit_message, r.commit_extra_info '
            'FROM ducklake_snapshot_changes r WHERE %s', lake_stock_line(of_catalog, 'snapshot_id'))
    WHEN t.name = 'ducklake_metadata' THEN format('SELECT %s FROM ducklake_metadata r WHERE r.catalog_id IN (0, %s)', columns, of_catalog)
    -- A fork counts for itself from its first insert on; until then its nearest ancestor's are bounds of its own, unless they are not known nearer by.
    WHEN t.name = 'ducklake_table_column_stats' AND is_fork THEN format(
            'SELECT DISTINCT ON (r.table_id, r.column_id) %1$s FROM lake_ancestor a JOIN %2$I r ON r.catalog_id = a.ancestor_id WHERE a.catalog_id = %3$s '
            'AND EXISTS (SELECT 1 FROM lake_table v WHERE v.viewer_id = %3$s AND v.table_id = r.table_id) '
            'AND NOT EXISTS (SELECT 1 FROM lake_ancestor b JOIN lake_unbounded u ON u.catalog_id = b.ancestor_id '
            'WHERE b.catalog_id = %3$s AND b.depth <= a.depth AND u.table_id = r.table_id AND u.column_id = r.column_id) '
            'ORDER BY r.table_id, r.column_id, a.depth', columns, t.name, of_catalog)
    WHEN t.name IN ('ducklake_table_stats', 'ducklake_table_column_stats') AND is_fork THEN format(
            'SELECT DISTINCT ON (r.table_id%1$s) %2$s FROM lake_ancestor a JOIN %3$I r ON r.catalog_id = a.ancestor_id WHERE a.catalog_id = %4$s '
            'AND EXISTS (SELECT 1 FROM lake_table v WHERE v.viewer_id = %4$s AND v.table_id = r.table_id) ORDER BY r.table_id%1$s, a.depth',
            CASE WHEN t.name = 'ducklake_table_stats' THEN '' ELSE ', r.column_id' END, columns, t.name, of_catalog)
    WHEN t.name IN ('ducklake_table_stats', 'ducklake_table_column_stats') THEN format('SELECT %s FROM %I r WHERE r.catalog_id = %s', columns, t.name, of_catalog)
    -- Every file of every catalog: a client that looks for files that nobody knows finds none that somebody needs.
    WHEN t.name = 'ducklake_files_scheduled_for_deletion' THEN
            'SELECT lake_stock_hands_off() AS data_file_id, CAST(CASE WHEN f.path_is_relative THEN '
            '(SELECT CASE WHEN t.path_is_relative THEN s.path || t.path ELSE t.path END FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id '
            'WHERE t.table_id = f.table_id LIMIT 1) || f.path ELSE f.path END AS varchar) AS path, f.path_is_relative, CAST(NULL AS timestamptz) AS schedule_start '
            'FROM (SELECT table_id, path, path_is_relative FROM ducklake_data_file UNION ALL SELECT table_id, path, path_is_relative FROM ducklake_delete_file) f '
            'UNION ALL SELECT lake_stock_hands_off(), r.path, r.path_is_relative, CAST(NULL AS timestamptz) FROM ducklake_files_scheduled_for_deletion r'
    ELSE format('SELECT %s FROM %I r WHERE false', columns, t.name) END;
END $lake$;

SELECT lake_expose(h.catalog_id, h.exposed_as) FROM lake_head h WHERE h.exposed_as IS NOT NULL;

-- statement: lake_settle_bounds  only: postgres
SELECT lake_settle_bounds(:catalog_id, CAST(CAST(:files AS text) AS bigint[]));
