-- statement: schema_list
-- What has been applied. Rows without a number were put there for clients that look a version up by name.
SELECT number, version, checksum FROM schema_version WHERE number IS NOT NULL ORDER BY number;

-- statement: schema_add
INSERT INTO schema_version (version, number, name, checksum, applied_at)
VALUES (:version, :number, :name, :checksum, :now);

-- statement: schema_exists  engine: sqlite
-- Is there a table schema_version, and is it ours?
SELECT count(*) > 0, count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version';

-- statement: schema_exists  engine: postgres
-- Not to_regclass: it answers from a cache that a wait for schema_lock does not refresh.
SELECT count(*) > 0, count(*) FILTER (WHERE column_name = 'checksum') > 0 FROM information_schema.columns
WHERE table_name = 'schema_version' AND table_schema = ANY (current_schemas(false));

-- statement: schema_lock  only: postgres
-- Two programs that start at once migrate one after the other. The key is 'TIDEMARK' in ASCII.
SELECT pg_advisory_xact_lock(6073460636925383243);

-- statement: probe_read
SELECT count(*) FROM schema_version WHERE number = 1;

-- statement: probe_write
-- Changes nothing, and yet writes a page and its WAL: a store that is full, locked or read-only refuses it.
UPDATE schema_version SET name = name WHERE number = 1;

-- statement: integrity_check  only: sqlite
PRAGMA integrity_check(20);

-- statement: foreign_key_check  only: sqlite
PRAGMA foreign_key_check;

-- statement: table_check  only: postgres
-- Counting reads every page of every table beside schema_version; a damaged page makes the statement fail.
-- A standby has no rows of unlogged tables, which hold an import under way, and refuses to read them.
SELECT c.oid::regclass::text,
       CAST((xpath('/row/n/text()', query_to_xml('SELECT count(t.*) AS n FROM ' || c.oid::regclass || ' t',
                                                 false, true, '')))[1]::text AS bigint)
FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema_version'::regclass)
  AND (c.relpersistence = 'p' OR NOT pg_is_in_recovery())
ORDER BY 1;

-- statement: setting_get  only: postgres
SELECT current_setting(:name);

-- statement: flush_probe  only: postgres
-- True: everything written before this statement is on disk already (or this is a standby, which shows only that).
SELECT CASE WHEN pg_is_in_recovery() THEN true
            ELSE current_setting('synchronous_standby_names') = ''
                 AND pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() END;

-- statement: flush  only: postgres
-- A tiny transaction whose synchronous commit carries every earlier commit to disk with it, and to the standbys that the role or
-- database asks for. Returns a position behind all of them.
SELECT pg_logical_emit_message(true, 'tidemark', ''),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);

-- statement: wal_end  only: postgres
-- Right before a COMMIT that is synchronous: a position that is durable behind it.
SELECT pg_current_wal_insert_lsn();

-- statement: flush_inside  only: postgres
-- The same as the last statement of a transaction behind a pooler, where no connection outlives the commit. A transaction that
-- wrote flushes by its own commit; one that only read, and may have seen what is not on disk, writes a message.
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
       CASE WHEN pg_current_xact_id_if_assigned() IS NULL AND NOT pg_is_in_recovery()
             AND NOT (current_setting('synchronous_standby_names') = ''
                      AND pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn())
            THEN pg_logical_emit_message(true, 'tidemark', '') END;

-- statement: standby_wait  only: postgres
-- Is one of our commits waiting for a synchronous standby?
SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep';

-- statement: privilege_list  only: postgres
-- What this role may do, and what does not work where it may not.
SELECT * FROM (VALUES
    ('CREATE on schema ' || quote_ident(current_schema()), has_schema_privilege(current_schema(), 'CREATE'),
     'a store cannot be made or migrated'),
    ('TEMPORARY on database ' || quote_ident(current_database()), has_database_privilege(current_database(), 'TEMPORARY'),
     'tidemark query is refused'),
    ('EXECUTE on function pg_current_wal_lsn()', has_function_privilege('pg_current_wal_lsn()', 'EXECUTE'),
     'commits are synchronous, and every start of the server begins an epoch'),
    ('EXECUTE on function pg_current_wal_insert_lsn()', has_function_privilege('pg_current_wal_insert_lsn()', 'EXECUTE'),
     'commits are synchronous, and every start of the server begins an epoch'),
    ('EXECUTE on function pg_walfile_name(pg_lsn)', has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE'),
     'commits are synchronous, and every start of the server begins an epoch'),
    ('EXECUTE on function pg_control_system()', has_function_privilege('pg_control_system()', 'EXECUTE'),
     'commits are synchronous, and every start of the server begins an epoch'),
    ('EXECUTE on function pg_control_checkpoint()', has_function_privilege('pg_control_checkpoint()', 'EXECUTE'),
     'commits are synchronous, and every start of the server begins an epoch'),
    ('EXECUTE on function pg_logical_emit_message',
     (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
      WHERE proname = 'pg_logical_emit_message' AND pronamespace = 'pg_catalog'::regnamespace),
     'commits are synchronous')
) AS privileges (name, is_held, consequence);

-- statement: server_is_standby  only: postgres
SELECT pg_is_in_recovery();

-- statement: standby_list  only: postgres
-- Standbys, those whose state this role may see, the synchronous ones of these; whether commits have to wait for
-- standbys, and whether pg_rewind can make this server a standby again.
SELECT count(*), count(sync_state), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
       current_setting('synchronous_standby_names') <> '',
       current_setting('wal_log_hints') = 'on' OR current_setting('data_checksums') = 'on'
FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup';

-- statement: standby_lag  only: postgres
-- Bytes that were received and not applied yet, and seconds since the last transaction that was applied, where there is
-- anything to apply.
SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::bigint, 0),
       CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END::bigint;

-- statement: transaction_status  only: postgres
SELECT pg_xact_status(CAST(CAST(:xid AS text) AS xid8));

-- statement: transaction_now  only: postgres
SELECT clock_timestamp();

-- statement: notify  only: postgres
-- A hint, which need not be durable.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('tidemark', CAST(:topic AS text));

-- statement: query_role  only: postgres
-- The role that queries of callers run under: whether it exists without powers of its own, whether this user may become it,
-- how many of these tables it cannot read yet, and whether this user may create it.
SELECT coalesce(NOT (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls)
                AND NOT EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid), false),
       coalesce(pg_has_role(me.oid, r.oid, 'MEMBER'), false),
       (SELECT count(*) FROM pg_class c
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema_version'::regclass)
          AND c.relname = ANY (CAST(:tables AS text[]))
          AND NOT coalesce(has_table_privilege(r.oid, c.oid, 'SELECT') AND has_schema_privilege(r.oid, c.relnamespace, 'USAGE'),
                           false)),
       me.rolsuper OR me.rolcreaterole
FROM pg_roles me LEFT JOIN pg_roles r ON r.rolname = 'tidemark_query' WHERE me.rolname = current_user;

-- statement: query_tables  only: postgres
-- For query_role_make, which can have no parameters.
SELECT set_config('tidemark.query_tables', CAST(:tables AS text), true);

-- statement: query_role_make  only: postgres
-- A user that may not, and the second of two at once, change nothing; query_role is read again afterwards.
DO $$
DECLARE
    place oid;
    found oid;
BEGIN
    SELECT relnamespace INTO place FROM pg_class WHERE oid = 'schema_version'::regclass;
    IF to_regrole('tidemark_query') IS NULL THEN
        CREATE ROLE tidemark_query NOLOGIN NOINHERIT;
        COMMENT ON ROLE tidemark_query IS 'tidemark query: reads the tables of stores, and nothing else';
    END IF;
    IF NOT pg_has_role(current_user, 'tidemark_query', 'MEMBER') THEN
        EXECUTE format('GRANT tidemark_query TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO tidemark_query', place::regnamespace);
    FOR found IN SELECT c.oid FROM pg_class c
                 WHERE c.relnamespace = place AND c.relname = ANY (current_setting('tidemark.query_tables')::text[])
                   AND NOT has_table_privilege('tidemark_query', c.oid, 'SELECT') LOOP
        EXECUTE format('GRANT SELECT ON %s TO tidemark_query', found::regclass);
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;

-- statement: query_refused  only: postgres
-- One function or table that a caller's statement names and may not use. The statement is the body of a function that is never called
-- (pg_temp.tidemark_query_body), so the server itself has resolved every name in it. Functions that may do something (volatile, or with the rights of
-- another) are refused, but for those that only report; tables, but for ours, the parts of the catalogue that the public may read, and
-- those that their owner lets the role read.
WITH named AS (
    SELECT DISTINCT m[1] AS kind, CAST(m[2] AS oid) AS id
    FROM pg_proc p, regexp_matches(p.prosqlbody::text, ':(funcid|aggfnoid|winfnoid|opno|relid) ([0-9]+)', 'g') AS m
    WHERE p.proname = 'tidemark_query_body' AND p.pronamespace = pg_my_temp_schema()
), functions AS (
    SELECT id FROM named WHERE kind IN ('funcid', 'aggfnoid', 'winfnoid')
    UNION SELECT CAST(o.oprcode AS oid) FROM named JOIN pg_operator o ON o.oid = id WHERE kind = 'opno'
)
SELECT 'the function ' || p.oid::regprocedure::text FROM functions JOIN pg_proc p ON p.oid = id
WHERE p.prosecdef
   OR p.proname IN ('table_to_xml', 'table_to_xml_and_xmlschema', 'schema_to_xml', 'schema_to_xml_and_xmlschema',
                    'database_to_xml', 'database_to_xml_and_xmlschema')
   OR (p.provolatile = 'v'
       AND NOT (p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname IN ('random', 'clock_timestamp', 'timeofday', 'gen_random_uuid', 'pg_sleep', 'pg_sleep_for',
                                  'pg_is_in_recovery', 'pg_relation_size', 'pg_total_relation_size', 'pg_table_size',
                                  'pg_indexes_size', 'pg_database_size')))
UNION ALL
SELECT 'the table ' || c.oid::regclass::text FROM named JOIN pg_class c ON c.oid = id
WHERE kind = 'relid'
  AND NOT (c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema_version'::regclass)
           AND c.relname = ANY (CAST(:tables AS text[])))
  AND NOT (c.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
           AND has_table_privilege('public', c.oid, 'SELECT'))
  AND NOT coalesce(c.relname <> 'access_tokens' AND c.relnamespace <> 'pg_catalog'::regnamespace
                   AND has_table_privilege(CAST(to_regrole('tidemark_query') AS oid), c.oid, 'SELECT'), false)
LIMIT 1;
