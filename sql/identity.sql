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
-- loaded into the same database makes it anew). Then: is this a standby; when was the server started; the process
-- that answers, which behind a proxy is not the one of the connection; the end of the WAL; may this role write a message into it;
-- and the last WAL checkpoint, which is not older than the WAL that the server found when it started.
SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
       CASE WHEN pg_is_in_recovery() THEN (SELECT to_hex(timeline_id) FROM pg_control_checkpoint())
            ELSE ltrim(lower(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)), '0') END || '/' ||
       (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' ||
       coalesce(to_regclass('db_metadata')::oid::text, '0'),
       pg_is_in_recovery(),
       extract(epoch FROM pg_postmaster_start_time())::text, pg_backend_pid(),
       CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END,
       (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
        WHERE proname = 'pg_logical_emit_message' AND pronamespace = 'pg_catalog'::regnamespace),
       (SELECT checkpoint_lsn FROM pg_control_checkpoint());

-- statement: identity_host_reduced  only: postgres
-- The same where the server refuses its control or WAL functions (managed services): a part that is not known is '-', and
-- equals any other.
SELECT '-/-/' || (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '.' ||
       coalesce(to_regclass('db_metadata')::oid::text, '0'),
       pg_is_in_recovery(), extract(epoch FROM pg_postmaster_start_time())::text, pg_backend_pid(), CAST(NULL AS pg_lsn), false,
       CAST(NULL AS pg_lsn);

-- statement: epoch_is_known  only: postgres
-- Does this history have an epoch that was seen elsewhere? An operator may have begun one in its stead, and named it. Then: does it
-- have the epoch itself?
SELECT count(*) > 0, coalesce(bool_or(epoch_id = :epoch_id), false) FROM epochs
WHERE epoch_id = :epoch_id OR (reason = 'operator' AND position(CAST(:epoch_id AS text) IN evidence) > 0);

-- statement: server_start_check  only: postgres
-- What the store knows of the starts of its server (server_starts): when the newest was; whether the one that was seen elsewhere is among
-- them, or an epoch has begun because it is not; and the start behind it in the same epoch, with the WAL that it found.
-- Then: the start with which this history parted from the one in which seen_list was read, which is behind the last that
-- both have, or else the last before that epoch; and the newest starts.
SELECT coalesce(n.started, ''),
       :seen = '' OR EXISTS (SELECT 1 FROM server_starts WHERE start_id = :seen)
                  OR EXISTS (SELECT 1 FROM epochs WHERE position(CAST(:seen AS text) IN evidence) > 0),
       coalesce(f.number, 0), coalesce(f.wal - '0/0'::pg_lsn, 0)::bigint,
       coalesce((SELECT max(number) + 1 FROM server_starts
                 WHERE start_id = ANY (string_to_array(CAST(:seen_list AS text), ' '))),
                (SELECT max(number) FROM server_starts WHERE epoch < :epoch), 1),
       coalesce((SELECT string_agg(number || ' ' || start_id, ' ' ORDER BY number DESC)
                 FROM (SELECT number, start_id FROM server_starts ORDER BY number DESC LIMIT :limit) AS newest), '')
FROM (SELECT 1) AS one LEFT JOIN (SELECT started FROM server_starts ORDER BY number DESC LIMIT 1) AS n ON true
     LEFT JOIN (SELECT next.number, next.wal
                FROM server_starts seen JOIN server_starts next ON next.number > seen.number
                WHERE seen.start_id = :seen AND next.epoch = :epoch ORDER BY next.number LIMIT 1) AS f ON true;

-- statement: server_start_add  only: postgres
-- Under the lock of identity_lock.
INSERT INTO server_starts (number, start_id, started, epoch, wal, journal_head, journal_event, noticed_at)
SELECT coalesce(max(number), 0) + 1, :start_id, :started, :epoch, '0/0'::pg_lsn + CAST(:wal AS bigint),
       (SELECT last FROM journal_head WHERE id = 1),
       coalesce((SELECT last FROM sequences WHERE name = 'journal/events'), 0), :now
FROM server_starts
RETURNING number;

-- statement: transaction_guarded  only: postgres
-- Right behind every BEGIN, in its pipeline: the settings of the transaction, which end with it, and the proof that it runs
-- where its process believes: in this epoch, on this timeline, on the server that was started then, not behind a WAL position
-- that was durable. Otherwise the cast fails, and with it the transaction. A standby has the timeline of its primary and
-- no WAL of its own.
-- synchronous_commit NULL: what the role or database asks for, but not less than on.
SELECT clock_timestamp(), CASE WHEN CAST(:with_id AS boolean) THEN pg_current_xact_id()::text END, pg_is_in_recovery(),
       CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END,
       CASE WHEN m.value = :epoch_id
             AND CASE WHEN pg_is_in_recovery() THEN true
                      ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) = :timeline
                           AND extract(epoch FROM pg_postmaster_start_time())::text = :started
                           AND pg_current_wal_insert_lsn() >= CAST(:wal AS pg_lsn) END THEN 0
            ELSE CAST('tidemark: this server is not in the epoch that the client knows: ' || coalesce(m.value, 'none') AS integer) END,
       set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true),
       set_config('idle_in_transaction_session_timeout', :idle_ms, true),
       -- A claim stops at its limit; the planner, which does not know it, sees millions of rows and compiles.
       set_config('jit', 'off', true),
       set_config('synchronous_commit', coalesce(:commit, CASE current_setting('synchronous_commit')
                                                          WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END), true)
FROM (SELECT 1) AS one LEFT JOIN db_metadata m ON m.key = 'epoch_id';

-- statement: transaction_guarded_reduced  only: postgres
-- Where WAL functions are refused: the epoch, and the start of the server.
SELECT clock_timestamp(), CASE WHEN CAST(:with_id AS boolean) THEN pg_current_xact_id()::text END, pg_is_in_recovery(),
       CAST(NULL AS pg_lsn),
       CASE WHEN m.value = :epoch_id
             AND (pg_is_in_recovery() OR extract(epoch FROM pg_postmaster_start_time())::text = :started) THEN 0
            ELSE CAST('tidemark: this server is not in the epoch that the client knows: ' || coalesce(m.value, 'none') AS integer) END,
       set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true),
       set_config('idle_in_transaction_session_timeout', :idle_ms, true),
       set_config('jit', 'off', true),
       set_config('synchronous_commit', coalesce(:commit, CASE current_setting('synchronous_commit')
                                                          WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END), true)
FROM (SELECT 1) AS one LEFT JOIN db_metadata m ON m.key = 'epoch_id';

-- statement: transaction_settings  only: postgres
-- The same for the transactions that find out who the server is, or make the tables.
SELECT clock_timestamp(), CASE WHEN CAST(:with_id AS boolean) THEN pg_current_xact_id()::text END, pg_is_in_recovery(),
       CAST(NULL AS pg_lsn), 0,
       set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true),
       set_config('idle_in_transaction_session_timeout', :idle_ms, true),
       set_config('jit', 'off', true),
       set_config('synchronous_commit', coalesce(:commit, CASE current_setting('synchronous_commit')
                                                          WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END), true);

-- statement: lost_numbers_add  only: sqlite
INSERT INTO lost_numbers (sequence, epoch, first_number, last_number)
VALUES (:sequence, :epoch, :first, :last);

-- statement: lost_numbers_next  only: sqlite
-- The first that has no receipt yet, of sequences that belong to streams.
SELECT l.sequence, l.epoch, l.first_number, l.last_number, s.name
FROM lost_numbers l JOIN feed_streams s ON s.sequence = l.sequence
WHERE NOT l.is_receipted ORDER BY l.sequence, l.epoch, l.first_number LIMIT 1;

-- statement: lost_numbers_receipted  only: sqlite
UPDATE lost_numbers SET is_receipted = 1
WHERE sequence = :sequence AND epoch = :epoch AND first_number = :first;
