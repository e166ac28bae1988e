-- Stock DuckLake clients on our catalogs (src/lake/expose.h): a schema of views with DuckLake 1.0's tables, and what happens when they are written.
--
-- A stock commit is one transaction: INSERT of a snapshot (the one it read, plus 1), rows, INSERT of its changes, COMMIT. The INSERT of the snapshot locks the head and
-- moves it, or fails with SQLSTATE 40001 and the word "concurrent", upon which the client reads again, checks and tries again. What it calls read + 1 becomes the
-- next number of our counter (the same, unless another catalog has it); every row that it writes afterwards is translated. At COMMIT the snapshot is sealed:
-- digest, marks, commit, as ours leave them (src/lake/digest.h, src/lake/mark.h).
--
-- Words that make a client try again ("concurrent", "conflict", "unique", "primary key") are in no other refusal.
--
-- Between its first statement and its COMMIT a stock commit lives in settings of the transaction: tidemark.lake_catalog (whose), lake_claimed (what it calls its
-- snapshot), lake_snapshot (what it is), lake_objects and lake_files (the least new id that is its own), lake_a and lake_b (digest), lake_partitions.

-- migration: 2  version: 1.1  name: expose  engine: sqlite
-- Nothing is exposed on SQLite: a stock client cannot share a file with other writers.
UPDATE lake_head SET exposed_as = NULL;

-- Bounds of a column over all files that its catalog ever saw. NULL is not known, and stays: a bound that is too narrow would hide rows. Where a catalog has no row yet:
-- its nearest ancestor's; else, before its first files, none.
CREATE TRIGGER lake_widen AFTER INSERT ON ducklake_file_column_stats BEGIN
    INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null, contains_nan, min_value, max_value, extra_stats, catalog_id)
    SELECT s.table_id, s.column_id, s.contains_null, s.contains_nan, s.min_value, s.max_value, NULL, NEW.catalog_id
    FROM lake_ancestor a JOIN ducklake_table_column_stats s ON s.catalog_id = a.ancestor_id
    WHERE a.catalog_id = NEW.catalog_id AND a.depth > 0 AND s.table_id = NEW.table_id AND s.column_id = NEW.column_id
      AND NOT EXISTS (SELECT 1 FROM ducklake_table_column_stats o
                      WHERE o.table_id = NEW.table_id AND o.column_id = NEW.column_id AND o.catalog_id = NEW.catalog_id)
    ORDER BY a.depth LIMIT 1;
    INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null, contains_nan, min_value, max_value, extra_stats, catalog_id)
    SELECT NEW.table_id, NEW.column_id, CASE WHEN o.is_first THEN NEW.null_count > 0 END, CASE WHEN o.is_first THEN NEW.contains_nan END,
           CASE WHEN o.is_first THEN NEW.min_value END, CASE WHEN o.is_first THEN NEW.max_value END, NULL, NEW.catalog_id
    FROM (SELECT NOT EXISTS (SELECT 1 FROM lake_data_file f WHERE f.viewer_id = NEW.catalog_id AND f.table_id = NEW.table_id
                             AND f.begin_snapshot < (SELECT n.begin_snapshot FROM ducklake_data_file n WHERE n.data_file_id = NEW.data_file_id)) AS is_first) o
    WHERE NOT EXISTS (SELECT 1 FROM ducklake_table_column_stats o
                      WHERE o.table_id = NEW.table_id AND o.column_id = NEW.column_id AND o.catalog_id = NEW.catalog_id);
    UPDATE ducklake_table_column_stats
    SET contains_null = contains_null OR NEW.null_count > 0, contains_nan = contains_nan OR NEW.contains_nan,
        min_value = CASE WHEN NEW.value_count = 0 OR min_value = NEW.min_value THEN min_value ELSE (
            SELECT CASE k.sort WHEN 'integer' THEN CASE WHEN CAST(min_value AS integer) < CAST(NEW.min_value AS integer) THEN min_value ELSE NEW.min_value END
                               WHEN 'real' THEN CASE WHEN CAST(min_value AS real) < CAST(NEW.min_value AS real) THEN min_value ELSE NEW.min_value END
                               WHEN 'text' THEN min(min_value, NEW.min_value) END
            FROM (SELECT CASE WHEN (c.column_type GLOB 'int*' OR c.column_type GLOB 'uint*') AND length(min_value) < 19 AND length(NEW.min_value) < 19 THEN 'integer'
                              WHEN c.column_type GLOB 'decimal*' AND length(min_value) < 16 AND length(NEW.min_value) < 16 THEN 'real'
                              WHEN c.column_type GLOB 'float*' AND min_value GLOB '[-0-9]*[0-9]' AND NEW.min_value GLOB '[-0-9]*[0-9]' THEN 'real'
                              WHEN c.column_type IN ('varchar', 'boolean', 'uuid') THEN 'text'
                              WHEN c.column_type IN ('date', 'timestamp', 'timestamp_s', 'timestamp_ms', 'timestamp_ns')
                                   AND min_value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9]*[0-9]' AND NEW.min_value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9]*[0-9]'
                              THEN 'text' END AS sort
                  FROM ducklake_column c WHERE c.table_id = NEW.table_id AND c.column_id = NEW.column_id ORDER BY c.begin_snapshot DESC LIMIT 1) k) END,
        max_value = CASE WHEN NEW.value_count = 0 OR max_value = NEW.max_value THEN max_value ELSE (
            SELECT CASE k.sort WHEN 'integer' THEN CASE WHEN CAST(max_value AS integer) > CAST(NEW.max_value AS integer) THEN max_value ELSE NEW.max_value END
                               WHEN 'real' THEN CASE WHEN CAST(max_value AS real) > CAST(NEW.max_value AS real) THEN max_value ELSE NEW.max_value END
                               WHEN 'text' THEN max(max_value, NEW.max_value) END
            FROM (SELECT CASE WHEN (c.column_type GLOB 'int*' OR c.column_type GLOB 'uint*') AND length(max_value) < 19 AND length(NEW.max_value) < 19 THEN 'integer'
                              WHEN c.column_type GLOB 'decimal*' AND length(max_value) < 16 AND length(NEW.max_value) < 16 THEN 'real'
                              WHEN c.column_type GLOB 'float*' AND max_value GLOB '[-0-9]*[0-9]' AND NEW.max_value GLOB '[-0-9]*[0-9]' THEN 'real'
                              WHEN c.column_type IN ('varchar', 'boolean', 'uuid') THEN 'text'
                              WHEN c.column_type IN ('date', 'timestamp', 'timestamp_s', 'timestamp_ms', 'timestamp_ns')
                                   AND max_value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9]*[0-9]' AND NEW.max_value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9]*[0-9]'
                              THEN 'text' END AS sort
                  FROM ducklake_column c WHERE c.table_id = NEW.table_id AND c.column_id = NEW.column_id ORDER BY c.begin_snapshot DESC LIMIT 1) k) END
    WHERE table_id = NEW.table_id AND column_id = NEW.column_id AND catalog_id = NEW.catalog_id;
END;

-- migration: 2  version: 1.1  name: expose  engine: postgres
-- Stock commits under way; what is sealed is gone from here.
CREATE TABLE lake_stock_commit (
    snapshot_id bigint PRIMARY KEY,
    catalog_id bigint NOT NULL
);

-- Several tags of one thing may begin together and end apart.
CREATE OR REPLACE VIEW lake_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.object_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 8 AND e.object_id = r.object_id AND e.sub_id = hashtextextended(r.key, 0) AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

CREATE OR REPLACE VIEW lake_column_tag AS
SELECT a.catalog_id AS viewer_id, r.catalog_id AS owner_id, a.depth, r.table_id, r.column_id, r.begin_snapshot, CASE WHEN a.depth = 0 OR r.end_snapshot <= a.upto THEN r.end_snapshot
         ELSE (SELECT min(e.end_snapshot) FROM lake_ended e JOIN lake_ancestor b ON b.catalog_id = a.catalog_id AND b.ancestor_id = e.catalog_id
               WHERE e.kind = 9 AND e.object_id = r.table_id AND e.sub_id = hashtextextended(r.column_id || ' ' || r.key, 0) AND e.begin_snapshot = r.begin_snapshot
                 AND e.end_snapshot <= b.upto) END AS end_snapshot, r.key, r.value
FROM lake_ancestor a JOIN ducklake_column_tag r ON r.catalog_id = a.ancestor_id AND r.begin_snapshot <= a.upto;

-- ---- bounds of columns ----

-- Of two bounds the one that holds for both: the lesser, or the greater. NULL: not known, or not to be compared.
CREATE FUNCTION lake_bound(column_type text, a text, b text, want_lesser boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $lake$
DECLARE
    is_lesser boolean;
    moment text := '^([0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(\+00)?)?|[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)$';
BEGIN
    IF a = b THEN
        RETURN a;
    ELSIF column_type ~ '^(u?int[0-9]+|decimal)' AND a ~ '^-?[0-9]+(\.[0-9]+)?$' AND b ~ '^-?[0-9]+(\.[0-9]+)?$' THEN
        is_lesser := CAST(a AS numeric) < CAST(b AS numeric);
    ELSIF column_type ~ '^float' AND a ~ '^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]{1,3})?$' AND b ~ '^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]{1,3})?$' THEN
        is_lesser := CAST(a AS numeric) < CAST(b AS numeric);
    ELSIF column_type IN ('varchar', 'boolean', 'uuid') THEN
        is_lesser := a COLLATE "C" < b COLLATE "C";
    ELSIF column_type ~ '^(date|time|timestamp)' AND a ~ moment AND b ~ moment THEN
        is_lesser := replace(a, '+00', '') COLLATE "C" < replace(b, '+00', '') COLLATE "C";
    END IF;
    RETURN CASE WHEN is_lesser = want_lesser THEN a WHEN is_lesser <> want_lesser THEN b END;
END $lake$;

-- A column without a row: its nearest ancestor's; else over all files that the catalog sees.
CREATE FUNCTION lake_bound_first(of_catalog bigint, of_table bigint, of_column bigint, column_type text) RETURNS ducklake_table_column_stats LANGUAGE plpgsql STABLE AS $lake$
DECLARE
    s ducklake_table_column_stats;
    f record;
    is_first boolean := true;
BEGIN
    SELECT t.* INTO s FROM lake_ancestor a JOIN ducklake_table_column_stats t ON t.catalog_id = a.ancestor_id
    WHERE a.catalog_id = of_catalog AND a.depth > 0 AND t.table_id = of_table AND t.column_id = of_column ORDER BY a.depth LIMIT 1;
    s.catalog_id := of_catalog;
    IF s.table_id IS NOT NULL THEN
        RETURN s;
    END IF;
    s.table_id := of_table;
    s.column_id := of_column;
    FOR f IN SELECT x.* FROM lake_data_file d LEFT JOIN ducklake_file_column_stats x ON x.data_file_id = d.data_file_id AND x.column_id = of_column
             WHERE d.viewer_id = of_catalog AND d.table_id = of_table LOOP
        IF f.data_file_id IS NULL OR f.null_count IS NULL THEN -- a file that does not say: nothing is known
            s.contains_null := NULL;
            s.contains_nan := NULL;
            s.min_value := NULL;
            s.max_value := NULL;
            RETURN s;
        ELSIF is_first THEN
            s.contains_null := f.null_count > 0;
            s.contains_nan := f.contains_nan;
            s.min_value := f.min_value;
            s.max_value := f.max_value;
        ELSE
            s.contains_null := s.contains_null OR f.null_count > 0;
            s.contains_nan := s.contains_nan OR f.contains_nan;
            s.min_value := lake_bound(column_type, s.min_value, f.min_value, true);
            s.max_value := lake_bound(column_type, s.max_value, f.max_value, false);
        END IF;
        is_first := false;
    END LOOP;
    RETURN s;
END $lake$;

-- Bounds of a column over all files that its catalog ever saw: whoever adds a file widens them, under the head's lock. NULL is not known, and stays: a bound that is too
-- narrow would hide rows.
CREATE FUNCTION lake_widen() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    f record;
    s ducklake_table_column_stats;
    lesser text;
    greater text;
BEGIN
    FOR f IN SELECT n.*, (SELECT c.column_type FROM ducklake_column c WHERE c.table_id = n.table_id AND c.column_id = n.column_id ORDER BY c.begin_snapshot DESC LIMIT 1) AS column_type
             FROM added n LOOP
        SELECT t.* INTO s FROM ducklake_table_column_stats t WHERE t.table_id = f.table_id AND t.column_id = f.column_id AND t.catalog_id = f.catalog_id;
        IF NOT FOUND THEN
            s := lake_bound_first(f.catalog_id, f.table_id, f.column_id, f.column_type);
            INSERT INTO ducklake_table_column_stats SELECT s.*;
        END IF;
        lesser := CASE WHEN f.value_count = 0 THEN s.min_value ELSE lake_bound(f.column_type, s.min_value, f.min_value, true) END;
        greater := CASE WHEN f.value_count = 0 THEN s.max_value ELSE lake_bound(f.column_type, s.max_value, f.max_value, false) END;
        IF lesser IS DISTINCT FROM s.min_value OR greater IS DISTINCT FROM s.max_value OR (s.contains_null OR f.null_count > 0) IS DISTINCT FROM s.contains_null
           OR (s.contains_nan OR f.contains_nan) IS DISTINCT FROM s.contains_nan THEN
            UPDATE ducklake_table_column_stats t
            SET contains_null = s.contains_null OR f.null_count > 0, contains_nan = s.contains_nan OR f.contains_nan, min_value = lesser, max_value = greater
            WHERE t.table_id = f.table_id AND t.column_id = f.column_id AND t.catalog_id = f.catalog_id;
        END IF;
    END LOOP;
    RETURN NULL;
END $lake$;
CREATE TRIGGER lake_widen AFTER INSERT ON ducklake_file_column_stats REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION lake_widen();

-- ---- a stock commit under way ----

CREATE FUNCTION lake_stock_set(name text, value bigint) RETURNS void LANGUAGE sql AS $lake$
    SELECT set_config('tidemark.lake_' || name, CAST(value AS text), true);
$lake$;

-- NULL: nothing is under way.
CREATE FUNCTION lake_stock_get(name text) RETURNS bigint LANGUAGE sql STABLE AS $lake$
    SELECT CAST(nullif(current_setting('tidemark.lake_' || name, true), '') AS bigint);
$lake$;

-- The snapshot that this transaction makes in this catalog.
CREATE FUNCTION lake_stock_at(of_catalog bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $lake$
BEGIN
    IF lake_stock_get('catalog') IS DISTINCT FROM of_catalog THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'rows of a lake''s catalog are written behind the INSERT of their snapshot, in its transaction';
    END IF;
    RETURN lake_stock_get('snapshot');
END $lake$;

CREATE FUNCTION lake_stock_catalog(of_catalog bigint) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
BEGIN
    PERFORM lake_stock_at(of_catalog);
    RETURN of_catalog;
END $lake$;

-- A row's begin or end, translated. Files that the client makes from older ones begin where they are committed: what was there before stays as it was.
CREATE FUNCTION lake_stock_begin(of_catalog bigint, claimed bigint, may_be_older boolean) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    at bigint := lake_stock_at(of_catalog);
    expected bigint := lake_stock_get('claimed');
BEGIN
    IF claimed = expected OR (may_be_older AND claimed < expected) THEN
        RETURN at;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('a row of snapshot %s says that it is of %s: snapshots that are there do not change', expected, claimed);
END $lake$;

CREATE FUNCTION lake_stock_mark(of_catalog bigint, mark text) RETURNS void LANGUAGE sql AS $lake$
    INSERT INTO lake_mark (catalog_id, mark, snapshot_id) VALUES (of_catalog, mark, lake_stock_get('snapshot')) ON CONFLICT DO NOTHING;
$lake$;

-- Every id up to :upto is spent. The least from which on they are all this transaction's own: nobody else was given one of them.
CREATE FUNCTION lake_stock_take(counter regclass, upto bigint) RETURNS bigint LANGUAGE plpgsql AS $lake$
DECLARE
    last bigint;
    drawn bigint;
    own bigint := 9223372036854775807;
BEGIN
    EXECUTE format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM %s', counter) INTO last;
    IF upto - last > 10000000 THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('ids up to %s at once, the last is %s: commit in smaller pieces', upto, last);
    END IF;
    WHILE last < upto LOOP
        drawn := nextval(counter);
        IF own = 9223372036854775807 OR drawn <> last + 1 THEN
            own := drawn;
        END IF;
        last := drawn;
    END LOOP;
    RETURN own;
END $lake$;

CREATE FUNCTION lake_stock_own(which text, id bigint) RETURNS void LANGUAGE plpgsql AS $lake$
BEGIN
    IF id < lake_stock_get(which) THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('concurrent commit: id %s was given to somebody else', id);
    END IF;
END $lake$;

-- ---- digests (digest.h) ----

CREATE FUNCTION lake_digest(fields text[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $lake$
    SELECT ARRAY[CAST(CAST('x' || substr(h, 1, 16) AS bit(64)) AS bigint) & 4611686018427387903,
                 CAST(CAST('x' || substr(h, 17, 16) AS bit(64)) AS bigint) & 4611686018427387903]
    FROM (SELECT encode(sha256(convert_to(string_agg(coalesce(octet_length(convert_to(f, 'UTF8')) || ':' || f, '-'), '' ORDER BY n), 'UTF8')), 'hex') AS h
          FROM unnest(fields) WITH ORDINALITY u (f, n)) s;
$lake$;

CREATE FUNCTION lake_row_digest(kind int, r jsonb) RETURNS bigint[] LANGUAGE sql STABLE AS $lake$
    SELECT lake_digest(CASE kind
        WHEN 1 THEN ARRAY['1', r->>'schema_id', lower(r->>'schema_uuid'), r->>'schema_name', r->>'path', CASE r->>'path_is_relative' WHEN 'true' THEN '1' WHEN 'false' THEN '0' END]
        WHEN 2 THEN ARRAY['2', r->>'table_id', lower(r->>'table_uuid'), r->>'schema_id', r->>'table_name', r->>'path',
                          CASE r->>'path_is_relative' WHEN 'true' THEN '1' WHEN 'false' THEN '0' END]
        WHEN 3 THEN ARRAY['3', r->>'view_id', lower(r->>'view_uuid'), r->>'schema_id', r->>'view_name', r->>'dialect', r->>'sql']
        WHEN 4 THEN ARRAY['4', r->>'table_id', r->>'column_id', r->>'column_order', r->>'column_name', r->>'column_type', r->>'initial_default', r->>'default_value',
                          CASE r->>'nulls_allowed' WHEN 'true' THEN '1' WHEN 'false' THEN '0' END]
        WHEN 5 THEN ARRAY['5', r->>'data_file_id', r->>'table_id', r->>'path', CASE r->>'path_is_relative' WHEN 'true' THEN '1' WHEN 'false' THEN '0' END,
                          r->>'record_count', r->>'file_size_bytes', r->>'footer_size']
        WHEN 6 THEN ARRAY['6', r->>'delete_file_id', r->>'table_id', r->>'data_file_id', r->>'path', CASE r->>'path_is_relative' WHEN 'true' THEN '1' WHEN 'false' THEN '0' END,
                          r->>'delete_count', r->>'file_size_bytes']
        ELSE ARRAY['7', r->>'partition_id', r->>'table_id'] || ARRAY(
                SELECT f.field FROM ducklake_partition_column k, unnest(ARRAY[CAST(k.column_id AS text), k.transform]) WITH ORDINALITY f (field, n)
                WHERE k.partition_id = CAST(r->>'partition_id' AS bigint) ORDER BY k.partition_key_index, f.n) END);
$lake$;

CREATE FUNCTION lake_stock_count(sign int, digest bigint[]) RETURNS void LANGUAGE sql AS $lake$
    SELECT lake_stock_set('a', (lake_stock_get('a') + sign * digest[1]) & 4611686018427387903);
    SELECT lake_stock_set('b', (lake_stock_get('b') + sign * digest[2]) & 4611686018427387903);
$lake$;

-- ---- writes ----

-- The guard: a commit begins where the head is, or not at all.
CREATE FUNCTION lake_stock_snapshot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    of_catalog bigint := TG_ARGV[0];
    h lake_head;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'snapshots of this catalog stay until ''tidemark lake expire'' removes them';
    END IF;
    IF lake_stock_get('catalog') IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'a second snapshot in one transaction: commit the first';
    END IF;
    UPDATE lake_head
    SET parent_snapshot_id = snapshot_id, snapshot_id = nextval('ducklake_snapshot_id_seq'), snapshot_time = greatest(snapshot_time, clock_timestamp()),
        schema_version = NEW.schema_version
    WHERE catalog_id = of_catalog AND snapshot_id = NEW.snapshot_id - 1 AND schema_version <= NEW.schema_version
    RETURNING * INTO h;
    IF NOT FOUND AND EXISTS (SELECT 1 FROM lake_head WHERE catalog_id = of_catalog) THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('concurrent commit: snapshot %s does not follow the newest one', NEW.snapshot_id);
    ELSIF h.catalog_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'this catalog was dropped';
    END IF;
    PERFORM lake_stock_set('catalog', of_catalog), lake_stock_set('claimed', NEW.snapshot_id), lake_stock_set('snapshot', h.snapshot_id),
            lake_stock_set('objects', lake_stock_take('ducklake_object_id_seq', NEW.next_catalog_id - 1)),
            lake_stock_set('files', lake_stock_take('ducklake_file_id_seq', NEW.next_file_id - 1)),
            lake_stock_set('a', 0), lake_stock_set('b', 0), set_config('tidemark.lake_partitions', '', true);
    INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id, catalog_id)
    SELECT h.snapshot_id, h.snapshot_time, h.schema_version, o.next, f.next, of_catalog
    FROM (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_object_id_seq) o,
         (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END AS next FROM ducklake_file_id_seq) f;
    INSERT INTO lake_stock_commit (snapshot_id, catalog_id) VALUES (h.snapshot_id, of_catalog);
    RETURN NEW;
END $lake$;

CREATE FUNCTION lake_stock_changes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    of_catalog bigint := TG_ARGV[0];
BEGIN
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'what a snapshot changed does not change';
    END IF;
    INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message, commit_extra_info, catalog_id)
    VALUES (lake_stock_begin(of_catalog, NEW.snapshot_id, false), coalesce(NEW.changes_made, ''), NEW.author, NEW.commit_message, NEW.commit_extra_info, of_catalog);
    RETURN NEW;
END $lake$;

-- Ids, marks and digest of a row that begins.
CREATE FUNCTION lake_stock_begins(of_catalog bigint, kind int, id bigint, r jsonb) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    is_known boolean := false;
BEGIN
    IF kind = 2 THEN
        is_known := EXISTS (SELECT 1 FROM lake_table v WHERE v.viewer_id = of_catalog AND v.table_id = id);
    ELSIF kind = 3 THEN
        is_known := EXISTS (SELECT 1 FROM lake_view v WHERE v.viewer_id = of_catalog AND v.view_id = id);
    ELSIF kind = 4 THEN
        PERFORM lake_stock_take('ducklake_column_id_seq', CAST(r->>'column_id' AS bigint));
    END IF;
    IF kind IN (5, 6) THEN
        PERFORM lake_stock_own('files', id);
    ELSIF kind NOT IN (4, 8, 9) AND NOT is_known THEN
        PERFORM lake_stock_own('objects', id);
    END IF;
    IF kind = 1 THEN
        PERFORM lake_stock_mark(of_catalog, 'name-schema ' || lower((r->>'schema_name') COLLATE "C"));
    ELSIF kind IN (2, 3, 10) THEN
        PERFORM lake_stock_mark(of_catalog, 'name ' || (r->>'schema_id') || ' ' || lower(coalesce(r->>'table_name', r->>'view_name', r->>'macro_name') COLLATE "C"));
        IF NOT is_known THEN
            PERFORM lake_stock_mark(of_catalog, 'create-in ' || (r->>'schema_id'));
        END IF;
    ELSIF kind = 6 THEN
        PERFORM lake_stock_mark(of_catalog, 'delete-file ' || (r->>'data_file_id'));
    END IF;
    IF kind = 7 AND r->>'end_snapshot' IS NULL THEN -- its keys come behind it
        PERFORM set_config('tidemark.lake_partitions', concat_ws(',', nullif(current_setting('tidemark.lake_partitions'), ''), id), true);
    ELSIF kind <= 6 THEN
        PERFORM lake_stock_count(1, lake_row_digest(kind, r));
    END IF;
END $lake$;

-- A row ends: an own one in place, an ancestor's for this catalog alone.
CREATE FUNCTION lake_stock_ends(of_catalog bigint, kind int, base text, keys text[], r jsonb) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    at bigint := lake_stock_at(of_catalog);
    found_own bigint;
BEGIN
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

-- Rows with a life: TG_ARGV is the catalog, the kind (state.h), the columns of the key.
CREATE FUNCTION lake_stock_life() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
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
        IF OLD.end_snapshot IS NULL AND NEW.end_snapshot IS NOT NULL THEN
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

-- Statistics of tables, as the client says them: it read them at the head, which is locked.
CREATE FUNCTION lake_stock_stats() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    of_catalog bigint := TG_ARGV[0];
BEGIN
    PERFORM lake_stock_at(of_catalog);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    ELSIF TG_TABLE_NAME = 'ducklake_table_stats' THEN
        INSERT INTO ducklake_table_stats AS s (table_id, record_count, next_row_id, file_size_bytes, catalog_id)
        VALUES (NEW.table_id, NEW.record_count, NEW.next_row_id, NEW.file_size_bytes, of_catalog)
        ON CONFLICT (table_id, catalog_id) DO UPDATE
        SET record_count = excluded.record_count, next_row_id = greatest(s.next_row_id, excluded.next_row_id), file_size_bytes = excluded.file_size_bytes;
    ELSE
        INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null, contains_nan, min_value, max_value, extra_stats, catalog_id)
        VALUES (NEW.table_id, NEW.column_id, NEW.contains_null, NEW.contains_nan, NEW.min_value, NEW.max_value, NEW.extra_stats, of_catalog)
        ON CONFLICT (table_id, column_id, catalog_id) DO UPDATE
        SET contains_null = excluded.contains_null, contains_nan = excluded.contains_nan, min_value = excluded.min_value, max_value = excluded.max_value,
            extra_stats = excluded.extra_stats;
    END IF;
    RETURN NEW;
END $lake$;

-- Settings of a catalog are not part of its history. What the lake rests on stays.
CREATE FUNCTION lake_stock_metadata() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    of_catalog bigint := TG_ARGV[0];
BEGIN
    IF (TG_OP = 'DELETE' OR TG_OP = 'UPDATE') AND OLD.key IN ('version', 'created_by', 'data_path', 'encrypted', 'data_inlining_row_limit')
       OR TG_OP <> 'DELETE' AND NEW.key IN ('version', 'created_by', 'data_path', 'encrypted')
       OR TG_OP <> 'DELETE' AND NEW.key = 'data_inlining_row_limit' AND NEW.value <> '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('the setting %s of this lake stays as it is', CASE WHEN TG_OP = 'DELETE' THEN OLD.key ELSE NEW.key END);
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM ducklake_metadata m
        WHERE m.catalog_id = of_catalog AND m.key = OLD.key AND m.scope IS NOT DISTINCT FROM OLD.scope AND m.scope_id IS NOT DISTINCT FROM OLD.scope_id;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
    END IF;
    IF NEW.key <> 'data_inlining_row_limit' OR NEW.scope IS NOT NULL THEN -- said for the whole catalog it is there already
        INSERT INTO ducklake_metadata (key, value, scope, scope_id, catalog_id) VALUES (NEW.key, NEW.value, NEW.scope, NEW.scope_id, of_catalog);
    END IF;
    RETURN NEW;
END $lake$;

CREATE FUNCTION lake_stock_inlined() RETURNS trigger LANGUAGE plpgsql AS $lake$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'rows are not kept in the metadata here: attach with DATA_INLINING_ROW_LIMIT 0';
END $lake$;

-- What a clean-up by the client would look for: never a number, so that it stops before it removes what other catalogs need.
CREATE FUNCTION lake_stock_hands_off() RETURNS bigint LANGUAGE plpgsql STABLE AS $lake$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'files of this lake are removed by ''tidemark lake cleanup'', which knows all catalogs';
END $lake$;

-- ---- the end of a stock commit ----

-- What its changes say, as marks. An unknown word stops the commit, as it would stop every client that reads it.
CREATE FUNCTION lake_stock_marks(of_catalog bigint, changes text) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    said text[];
    mark text;
BEGIN
    IF changes !~ '^([a-z_]+:("([^"]|"")+"(\."([^"]|"")+")?|[0-9]+)(,(?=.)|$))*$' THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('changes_made is not as DuckLake 1.0 writes it: %s', left(changes, 100));
    END IF;
    FOR said IN SELECT regexp_matches(changes, '([a-z_]+):((?:"(?:[^"]|"")+")(?:\."(?:[^"]|"")+")?|[0-9]+)', 'g') LOOP
        IF said[1] IN ('inlined_insert', 'inlined_delete', 'flushed_inlined') THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'rows are not kept in the metadata here: attach with DATA_INLINING_ROW_LIMIT 0';
        END IF;
        mark := CASE
            WHEN said[1] IN ('created_schema', 'created_table', 'created_view', 'created_scalar_macro', 'created_table_macro') THEN '' -- their rows have left it
            WHEN said[1] = 'dropped_schema' THEN 'drop-schema '
            WHEN said[1] IN ('dropped_table', 'dropped_view', 'dropped_scalar_macro', 'dropped_table_macro') THEN 'drop '
            WHEN said[1] = 'inserted_into_table' THEN 'insert '
            WHEN said[1] = 'deleted_from_table' THEN 'delete '
            WHEN said[1] IN ('altered_table', 'altered_view') THEN 'alter '
            WHEN said[1] IN ('compacted_table', 'merge_adjacent', 'rewrite_delete') THEN 'compact ' END;
        IF mark IS NULL OR (mark <> '') <> (said[2] ~ '^[0-9]+$') THEN
            RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('changes_made holds what DuckLake 1.0 does not know: %s', said[1]);
        ELSIF mark <> '' THEN
            PERFORM lake_stock_mark(of_catalog, mark || said[2]);
        END IF;
    END LOOP;
END $lake$;

CREATE FUNCTION lake_stock_seal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    changes text;
    partition bigint;
BEGIN
    SELECT c.changes_made INTO changes FROM ducklake_snapshot_changes c WHERE c.snapshot_id = NEW.snapshot_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'a snapshot without its row in ducklake_snapshot_changes';
    END IF;
    PERFORM lake_stock_marks(NEW.catalog_id, changes);
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
CREATE CONSTRAINT TRIGGER lake_stock_seal AFTER INSERT ON lake_stock_commit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lake_stock_seal();

-- ---- the views ----

-- A row per table of DuckLake 1.0: how its view is made and written. The columns are those of our table, without the last.
CREATE TABLE lake_stock_table (
    name varchar PRIMARY KEY,
    kind int,        -- of rows with a life (state.h)
    keys varchar,    -- their key
    source varchar,  -- the view that shows them through ancestors
    part_of varchar  -- whose rows these belong to: written by a rule, in one statement for all
);
INSERT INTO lake_stock_table (name, kind, keys, source, part_of) VALUES
    ('ducklake_schema', 1, 'schema_id', 'lake_schema', NULL), ('ducklake_table', 2, 'table_id', 'lake_table', NULL), ('ducklake_view', 3, 'view_id', 'lake_view', NULL),
    ('ducklake_column', 4, 'table_id,column_id', 'lake_column', NULL), ('ducklake_data_file', 5, 'data_file_id', 'lake_data_file', NULL),
    ('ducklake_delete_file', 6, 'delete_file_id', 'lake_delete_file', NULL), ('ducklake_partition_info', 7, 'partition_id', 'lake_partition_info', NULL),
    ('ducklake_tag', 8, 'object_id,key', 'lake_tag', NULL), ('ducklake_column_tag', 9, 'table_id,column_id,key', 'lake_column_tag', NULL),
    ('ducklake_macro', 10, 'macro_id', 'lake_macro', NULL), ('ducklake_sort_info', 11, 'sort_id', 'lake_sort_info', NULL),
    ('ducklake_file_column_stats', NULL, NULL, NULL, 'file'), ('ducklake_file_variant_stats', NULL, NULL, NULL, 'file'),
    ('ducklake_file_partition_value', NULL, NULL, NULL, 'file'), ('ducklake_partition_column', NULL, NULL, NULL, 'table'),
    ('ducklake_column_mapping', NULL, NULL, NULL, 'table'), ('ducklake_name_mapping', NULL, NULL, NULL, 'table'), ('ducklake_macro_impl', NULL, NULL, NULL, 'table'),
    ('ducklake_macro_parameters', NULL, NULL, NULL, 'table'), ('ducklake_sort_expression', NULL, NULL, NULL, 'table'),
    ('ducklake_schema_versions', NULL, NULL, NULL, 'snapshot'),
    ('ducklake_snapshot', NULL, NULL, NULL, NULL), ('ducklake_snapshot_changes', NULL, NULL, NULL, NULL), ('ducklake_metadata', NULL, NULL, NULL, NULL),
    ('ducklake_table_stats', NULL, NULL, NULL, NULL), ('ducklake_table_column_stats', NULL, NULL, NULL, NULL),
    ('ducklake_files_scheduled_for_deletion', NULL, NULL, NULL, NULL), ('ducklake_inlined_data_tables', NULL, NULL, NULL, NULL);

-- Columns of one of our tables, in order, without catalog_id: "r.a, r.b".
CREATE FUNCTION lake_stock_columns(table_name text, prefix text) RETURNS text LANGUAGE sql STABLE AS $lake$
    SELECT string_agg(prefix || quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = CAST(quote_ident(table_name) AS regclass) AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'catalog_id';
$lake$;

-- The line of a catalog as a condition on r: its own rows, and each ancestor's up to its bound. The line of a fork never changes.
CREATE FUNCTION lake_stock_line(of_catalog bigint, snapshot_column text) RETURNS text LANGUAGE sql STABLE AS $lake$
    SELECT '(' || string_agg(CASE WHEN a.depth = 0 THEN format('r.catalog_id = %s', a.ancestor_id)
                                  ELSE format('(r.catalog_id = %s AND r.%I <= %s)', a.ancestor_id, snapshot_column, a.upto) END, ' OR ' ORDER BY a.depth) || ')'
    FROM lake_ancestor a WHERE a.catalog_id = of_catalog;
$lake$;

CREATE FUNCTION lake_stock_view(of_catalog bigint, t lake_stock_table) RETURNS text LANGUAGE plpgsql STABLE AS $lake$
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
    -- A fork counts for itself from its first insert on; until then its nearest ancestor's are bounds of its own.
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

-- How its view is written.
CREATE FUNCTION lake_stock_guard(of_catalog bigint, exposed text, t lake_stock_table) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    fn text := CASE WHEN t.kind IS NOT NULL THEN 'lake_stock_life' WHEN t.name = 'ducklake_snapshot' THEN 'lake_stock_snapshot'
                    WHEN t.name = 'ducklake_snapshot_changes' THEN 'lake_stock_changes' WHEN t.name = 'ducklake_metadata' THEN 'lake_stock_metadata'
                    WHEN t.name IN ('ducklake_table_stats', 'ducklake_table_column_stats') THEN 'lake_stock_stats'
                    WHEN t.name = 'ducklake_inlined_data_tables' THEN 'lake_stock_inlined' END;
BEGIN
    IF t.part_of IS NOT NULL THEN
        EXECUTE format('CREATE OR REPLACE RULE lake_insert AS ON INSERT TO %I.%I DO INSTEAD INSERT INTO %I VALUES (%s, lake_stock_catalog(%s))', exposed, t.name, t.name,
                       CASE WHEN t.part_of = 'snapshot' THEN replace(lake_stock_columns(t.name, 'NEW.'), 'NEW.begin_snapshot',
                                                                     format('lake_stock_begin(%s, NEW.begin_snapshot, false)', of_catalog))
                            ELSE lake_stock_columns(t.name, 'NEW.') END, of_catalog);
        -- Older snapshots need them.
        EXECUTE format('CREATE OR REPLACE RULE lake_delete AS ON DELETE TO %I.%I DO INSTEAD NOTHING', exposed, t.name);
    ELSIF t.name = 'ducklake_files_scheduled_for_deletion' THEN
        EXECUTE format('CREATE OR REPLACE RULE lake_insert AS ON INSERT TO %I.%I DO INSTEAD NOTHING', exposed, t.name);
        EXECUTE format('CREATE OR REPLACE RULE lake_delete AS ON DELETE TO %I.%I DO INSTEAD NOTHING', exposed, t.name);
    ELSE
        EXECUTE format('CREATE OR REPLACE TRIGGER lake_stock INSTEAD OF INSERT OR UPDATE OR DELETE ON %I.%I FOR EACH ROW EXECUTE FUNCTION %I(%s)', exposed, t.name, fn,
                       CASE WHEN t.kind IS NOT NULL THEN format('%L, %L, %L', of_catalog, t.kind, t.keys) ELSE quote_literal(of_catalog) END);
    END IF;
END $lake$;

-- The views of a catalog, made or brought up to date.
CREATE FUNCTION lake_expose(of_catalog bigint, exposed varchar) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    t lake_stock_table;
    there varchar := (SELECT h.exposed_as FROM lake_head h WHERE h.catalog_id = of_catalog FOR NO KEY UPDATE);
BEGIN
    IF there <> exposed THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('it is exposed as schema %s already: unexpose it first', quote_ident(there));
    ELSIF there IS NULL AND EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = exposed) THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('there is a schema %s: name another one (--schema)', quote_ident(exposed));
    END IF;
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', exposed);
    FOR t IN SELECT * FROM lake_stock_table ORDER BY name LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %I.%I AS %s', exposed, t.name, lake_stock_view(of_catalog, t));
        PERFORM lake_stock_guard(of_catalog, exposed, t);
    END LOOP;
    INSERT INTO ducklake_metadata (key, value, scope, scope_id, catalog_id)
    SELECT 'data_inlining_row_limit', '0', NULL, NULL, of_catalog
    WHERE NOT EXISTS (SELECT 1 FROM ducklake_metadata m WHERE m.catalog_id = of_catalog AND m.key = 'data_inlining_row_limit' AND m.scope IS NULL);
    UPDATE lake_head SET exposed_as = exposed WHERE catalog_id = of_catalog AND exposed_as IS NULL;
END $lake$;

CREATE FUNCTION lake_unexpose(of_catalog bigint) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    there varchar := (SELECT h.exposed_as FROM lake_head h WHERE h.catalog_id = of_catalog FOR NO KEY UPDATE);
BEGIN
    IF there IS NOT NULL THEN
        EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', there);
        DELETE FROM ducklake_metadata WHERE catalog_id = of_catalog AND key = 'data_inlining_row_limit';
        UPDATE lake_head SET exposed_as = NULL WHERE catalog_id = of_catalog;
    END IF;
END $lake$;

-- migration: 3  version: 1.2  name: guard  engine: sqlite
UPDATE lake_head SET exposed_as = NULL; -- as in 2

-- migration: 3  version: 1.2  name: guard  engine: postgres
-- The snapshot that this transaction makes in this catalog: the one whose INSERT it has behind it and that is not sealed. Settings are anybody's to set; this row is there
-- only between the two, and only for its own transaction.
CREATE OR REPLACE FUNCTION lake_stock_at(of_catalog bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $lake$
DECLARE
    at bigint := (SELECT c.snapshot_id FROM lake_stock_commit c WHERE c.snapshot_id = lake_stock_get('snapshot') AND c.catalog_id = of_catalog);
BEGIN
    IF at IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = 'rows of a lake''s catalog are written behind the INSERT of their snapshot, in its transaction';
    END IF;
    RETURN at;
END $lake$;

-- Who watches the lake is told, as by our own commits.
CREATE FUNCTION lake_stock_tell() RETURNS trigger LANGUAGE plpgsql AS $lake$
BEGIN
    PERFORM pg_notify('tidemark', 'lake');
    RETURN NULL;
END $lake$;
CREATE TRIGGER lake_stock_tell AFTER INSERT ON lake_stock_commit FOR EACH ROW EXECUTE FUNCTION lake_stock_tell();

-- statement: lake_expose  only: postgres
SELECT lake_expose(:catalog_id, :schema);

-- statement: lake_unexpose  only: postgres
SELECT lake_unexpose(:catalog_id);
