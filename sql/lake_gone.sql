-- What an expiry removes, and a stock client that began before it would still end: its check and its UPDATE find rows, or nothing.
--
-- A file that was replaced and then expired leaves its id here, for as long as the changes of its time are kept (`lake expire --conflict-retention`). The view ducklake_data_file
-- shows it as live within a stock commit alone, so that the UPDATE that would end it a second time reaches the trigger, which refuses it. Readers never see it.

-- migration: 9  version: 1.8  name: gone files  engine: sqlite
UPDATE lake_head SET exposed_as = NULL; -- as in 2

-- migration: 9  version: 1.8  name: gone files  engine: postgres
CREATE TABLE lake_gone_file (
    data_file_id bigint NOT NULL,
    catalog_id bigint NOT NULL, -- who saw it end
    table_id bigint NOT NULL,
    begin_snapshot bigint NOT NULL,
    end_snapshot bigint NOT NULL,
    PRIMARY KEY (catalog_id, data_file_id)
);

CREATE VIEW lake_stock_data_file AS
SELECT r.viewer_id, r.data_file_id, r.table_id, r.begin_snapshot, r.end_snapshot, r.file_order, r.path, r.path_is_relative, r.file_format, r.record_count, r.file_size_bytes,
       r.footer_size, r.row_id_start, r.partition_id, r.encryption_key, r.mapping_id, r.partial_max
FROM lake_data_file r
UNION ALL
SELECT g.catalog_id, g.data_file_id, g.table_id, g.begin_snapshot, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM lake_gone_file g WHERE lake_stock_get('snapshot') IS NOT NULL;

UPDATE lake_stock_table SET source = 'lake_stock_data_file' WHERE name = 'ducklake_data_file';

-- A row ends: an own one in place, an ancestor's for this catalog alone. As before, and what is gone does not end again; with its table it may, which clients drop first.
CREATE OR REPLACE FUNCTION lake_stock_ends(of_catalog bigint, kind int, base text, keys text[], r jsonb) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    at bigint := lake_stock_at(of_catalog);
    found_own bigint;
    gone lake_gone_file;
BEGIN
    IF kind = 5 THEN
        SELECT g.* INTO gone FROM lake_gone_file g WHERE g.catalog_id = of_catalog AND g.data_file_id = CAST(r->>'data_file_id' AS bigint);
        IF FOUND AND EXISTS (SELECT 1 FROM lake_table t WHERE t.viewer_id = of_catalog AND t.table_id = gone.table_id AND t.end_snapshot IS NULL) THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001',
                MESSAGE = format('ducklake_data_file: row %s has ended in snapshot %s: run the statement again', gone.data_file_id, gone.end_snapshot);
        ELSIF FOUND THEN
            RETURN;
        END IF;
    END IF;
    EXECUTE format('UPDATE %I SET end_snapshot = $1 WHERE %s AND begin_snapshot = $2 AND catalog_id = $3 AND end_snapshot IS NULL', base,
                   (SELECT string_agg(format('%I = %L', k, r->>k), ' AND ') FROM unnest(keys) k))
    USING at, CAST(r->>'begin_snapshot' AS bigint), of_catalog;
    GET DIAGNOSTICS found_own = ROW_COUNT;
    IF found_own = 0 THEN
        INSERT INTO lake_ended (kind, object_id, sub_id, begin_snapshot, catalog_id, end_snapshot)
        VALUES (kind, CAST(r->>keys[1] AS bigint),
                CASE kind WHEN 4 THEN CAST(r->>'column_id' AS bigint) WHEN 8 THEN hashtextextended(r->>'key', 0)
                          WHEN 9 THEN hashtextextended((r->>'column_id') || ' ' || (r->>'key'), 0) ELSE 0 END,
                CAST(r->>'begin_snapshot' AS bigint), of_catalog, at);
    END IF;
    IF kind = 5 THEN
        PERFORM lake_stock_mark(of_catalog, 'delete-file ' || (r->>'data_file_id'));
    END IF;
    IF kind <= 7 THEN
        PERFORM lake_stock_count(-1, lake_row_digest(kind, r));
    END IF;
END $lake$;

SELECT lake_expose(h.catalog_id, h.exposed_as) FROM lake_head h WHERE h.exposed_as IS NOT NULL;
