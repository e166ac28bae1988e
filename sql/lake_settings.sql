-- What stock clients change through their connector and not by the batch of a commit. It updates and deletes rows by their ctid, which views do not have: settings are a table of the
-- exposed schema, whose rows are kept in step with ours, and the view of snapshots has a column of that name, so that their removal meets a refusal that says what to do.

-- migration: 10  version: 1.9  name: settings  engine: sqlite
UPDATE lake_head SET exposed_as = NULL; -- as in 2

-- migration: 10  version: 1.9  name: settings  engine: postgres
CREATE FUNCTION lake_stock_select(of_catalog bigint, t lake_stock_table) RETURNS text LANGUAGE sql STABLE AS $lake$
    SELECT CASE WHEN t.name = 'ducklake_snapshot' THEN replace(lake_stock_view(of_catalog, t), ' FROM ducklake_snapshot r', ', r.ctid FROM ducklake_snapshot r')
                ELSE lake_stock_view(of_catalog, t) END;
$lake$;

-- Privileges of a view that becomes a table: those who had them have them again.
CREATE FUNCTION lake_stock_grant(exposed varchar, name varchar, privileges aclitem[]) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
             FROM aclexplode(privileges) a WHERE a.grantee <> a.grantor LOOP
        EXECUTE format('GRANT %s ON %I.%I TO %s', p.privilege_type, exposed, name, p.grantee);
    END LOOP;
END $lake$;

-- The settings of a catalog: everybody's and its own. Ours are the truth, and every change goes through lake_stock_metadata to them first.
CREATE FUNCTION lake_expose_settings(of_catalog bigint, exposed varchar) RETURNS void LANGUAGE plpgsql AS $lake$
DECLARE
    was record;
BEGIN
    SELECT c.relkind, c.relacl INTO was FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = exposed AND c.relname = 'ducklake_metadata';
    IF was.relkind = 'v' THEN
        EXECUTE format('DROP VIEW %I.ducklake_metadata', exposed);
    END IF;
    IF was.relkind IS DISTINCT FROM 'r' THEN
        EXECUTE format('CREATE TABLE %I.ducklake_metadata (key varchar NOT NULL, value varchar NOT NULL, scope varchar, scope_id bigint)', exposed);
        PERFORM lake_stock_grant(exposed, 'ducklake_metadata', was.relacl);
    END IF;
    EXECUTE format('DROP TRIGGER IF EXISTS lake_stock ON %I.ducklake_metadata', exposed);
    EXECUTE format('DELETE FROM %I.ducklake_metadata', exposed);
    EXECUTE format('INSERT INTO %I.ducklake_metadata SELECT key, value, scope, scope_id FROM ducklake_metadata m WHERE m.catalog_id IN (0, %L)', exposed, of_catalog);
    EXECUTE format('CREATE TRIGGER lake_stock BEFORE INSERT OR UPDATE OR DELETE ON %I.ducklake_metadata FOR EACH ROW EXECUTE FUNCTION lake_stock_metadata(%L)', exposed, of_catalog);
END $lake$;

-- Settings of a catalog are not part of its history. What the lake rests on stays. As before, for a table: what is there already is not inserted again.
CREATE OR REPLACE FUNCTION lake_stock_metadata() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
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
    ELSIF NEW.key = 'data_inlining_row_limit' AND NEW.scope IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO ducklake_metadata (key, value, scope, scope_id, catalog_id) VALUES (NEW.key, NEW.value, NEW.scope, NEW.scope_id, of_catalog);
    RETURN NEW;
END $lake$;

DELETE FROM lake_stock_table WHERE name = 'ducklake_metadata';

-- The views of a catalog, made or brought up to date; its settings.
CREATE OR REPLACE FUNCTION lake_expose(of_catalog bigint, exposed varchar) RETURNS void LANGUAGE plpgsql AS $lake$
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
        EXECUTE format('CREATE OR REPLACE VIEW %I.%I AS %s', exposed, t.name, lake_stock_select(of_catalog, t));
        PERFORM lake_stock_guard(of_catalog, exposed, t);
    END LOOP;
    INSERT INTO ducklake_metadata (key, value, scope, scope_id, catalog_id)
    SELECT 'data_inlining_row_limit', '0', NULL, NULL, of_catalog
    WHERE NOT EXISTS (SELECT 1 FROM ducklake_metadata m WHERE m.catalog_id = of_catalog AND m.key = 'data_inlining_row_limit' AND m.scope IS NULL);
    PERFORM lake_expose_settings(of_catalog, exposed);
    UPDATE lake_head SET exposed_as = exposed WHERE catalog_id = of_catalog AND exposed_as IS NULL;
END $lake$;

-- A Parquet file belongs to one table: clean-up removes it when that table does not need it any more. Said at once, since a unique index would make the client try again.
CREATE FUNCTION lake_stock_one_table() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $lake$
DECLARE
    parts text[] := string_to_array(NEW.path, '/');
    other bigint := (SELECT d.table_id FROM ducklake_data_file d
                     WHERE d.path = ANY (ARRAY(SELECT array_to_string(parts[i:], '/') FROM generate_subscripts(parts, 1) i)) AND (d.path_is_relative OR d.path = NEW.path) LIMIT 1);
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'TM001', MESSAGE = format('file %s is in table %s already, and a file is in one table: add a copy of it', NEW.path, other);
    END IF;
    RETURN NEW;
END $lake$;
CREATE TRIGGER lake_stock_one_table BEFORE INSERT ON ducklake_data_file FOR EACH ROW WHEN (NOT NEW.path_is_relative) EXECUTE FUNCTION lake_stock_one_table();

SELECT lake_expose(h.catalog_id, h.exposed_as) FROM lake_head h WHERE h.exposed_as IS NOT NULL;
