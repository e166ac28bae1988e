-- statement: metadata_get
SELECT value FROM db_metadata WHERE key = :key;

-- statement: metadata_put
INSERT INTO db_metadata (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- statement: metadata_all
SELECT key, value FROM db_metadata ORDER BY key;

-- statement: identity_get
SELECT (SELECT value FROM db_metadata WHERE key = 'session_id'),
       CAST((SELECT value FROM db_metadata WHERE key = 'epoch') AS bigint),
       (SELECT value FROM db_metadata WHERE key = 'epoch_id');

-- statement: identity_lock  engine: sqlite
-- Read under the write lock that every SQLite write transaction already holds.
SELECT value FROM db_metadata WHERE key = 'epoch';

-- statement: identity_lock  engine: postgres
-- Two processes that notice the same failover raise the epoch once: the second waits here and looks again.
SELECT value FROM db_metadata WHERE key = 'epoch' FOR UPDATE;

-- statement: epoch_add
INSERT INTO epochs (epoch, epoch_id, started_at, reason, evidence)
VALUES (:epoch, :epoch_id, :started_at, :reason, :evidence);

-- statement: epoch_find
SELECT epoch_id, reason FROM epochs WHERE epoch = :epoch;

-- statement: epoch_list
SELECT epoch, epoch_id, started_at, reason, evidence FROM epochs ORDER BY epoch;

-- statement: identity_mark  only: sqlite
-- One step of the mark that the identity marker outside the file repeats; see identity.h.
UPDATE db_metadata SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'mark'
RETURNING CAST(value AS INTEGER);

-- statement: identity_host  only: postgres
-- What a failover or a restored copy changes: cluster, timeline, database, and the table itself (a dump that is
-- loaded into the same database makes it anew). Then: is this a standby; and which running server is it?
SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
       CASE WHEN pg_is_in_recovery() THEN (SELECT to_hex(timeline_id) FROM pg_control_checkpoint())
            ELSE ltrim(lower(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)), '0') END || '/' ||
       (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' ||
       coalesce(to_regclass('db_metadata')::oid::text, '0'),
       pg_is_in_recovery(),
       (SELECT system_identifier::text FROM pg_control_system()) || '/' || extract(epoch FROM pg_postmaster_start_time())::text;
