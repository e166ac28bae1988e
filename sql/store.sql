-- statement: schema_list
-- What has been applied. Rows without a number were put there for clients that look a version up by name.
SELECT number, version, name, checksum FROM schema_version WHERE number IS NOT NULL ORDER BY number;

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

-- statement: integrity_check  only: sqlite
PRAGMA integrity_check(20);

-- statement: foreign_key_check  only: sqlite
PRAGMA foreign_key_check;

-- statement: table_check  only: postgres
-- Counting reads every page of every table beside schema_version; a damaged page makes the statement fail.
SELECT c.oid::regclass::text,
       CAST((xpath('/row/n/text()', query_to_xml('SELECT count(t.*) AS n FROM ' || c.oid::regclass || ' t',
                                                 false, true, '')))[1]::text AS bigint)
FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema_version'::regclass)
ORDER BY 1;

-- statement: setting_get  only: postgres
SELECT current_setting(:name);

-- statement: flush_probe  only: postgres
-- True: everything written before this statement is on disk already (or this is a standby, which shows only that).
SELECT CASE WHEN pg_is_in_recovery() THEN true
            ELSE current_setting('synchronous_standby_names') = ''
                 AND pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() END;

-- statement: flush  only: postgres
-- A tiny transaction whose synchronous commit carries every earlier commit to disk with it.
SELECT pg_logical_emit_message(true, 'tidemark', '');

-- statement: transaction_status  only: postgres
SELECT pg_xact_status(CAST(CAST(:xid AS text) AS xid8));

-- statement: transaction_start  only: postgres
-- The id is asked for at the start, so that a lost answer to COMMIT can be looked up (transaction_status).
SELECT clock_timestamp(), pg_current_xact_id()::text;

-- statement: transaction_now  only: postgres
SELECT clock_timestamp();

-- statement: notify  only: postgres
SELECT pg_notify('tidemark', CAST(:topic AS text));
