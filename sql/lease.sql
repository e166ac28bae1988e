-- statement: lease_claim  engine: sqlite
-- Take a lease that nobody holds or whose time is up. :floor is the lowest token of this epoch.
INSERT INTO leases (name, holder, token, claimed_at, expires_at)
VALUES (:name, :holder, max(coalesce((SELECT token + 1 FROM leases WHERE name = :name), 0), :floor), :now, :expires)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token,
    claimed_at = excluded.claimed_at, expires_at = excluded.expires_at
WHERE leases.holder IS NULL OR leases.expires_at <= :now
RETURNING token;

-- statement: lease_claim  engine: postgres
INSERT INTO leases (name, holder, token, claimed_at, expires_at)
VALUES (:name, :holder, :floor, :now, :expires)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = greatest(leases.token + 1, :floor),
    claimed_at = excluded.claimed_at, expires_at = excluded.expires_at
WHERE leases.holder IS NULL OR leases.expires_at <= :now
RETURNING token;

-- statement: lease_renew
-- Zero rows: the lease was lost. An expired lease is not renewed, even if nobody has taken it yet.
UPDATE leases SET expires_at = :expires
WHERE name = :name AND token = :token AND holder IS NOT NULL AND expires_at > :now;

-- statement: lease_release
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL
WHERE name = :name AND token = :token AND holder IS NOT NULL AND expires_at > :now;

-- statement: lease_end  engine: sqlite
-- Whatever its token: the holder is refused from now on.
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL, token = max(token + 1, :floor)
WHERE name = :name AND holder IS NOT NULL;

-- statement: lease_end  engine: postgres
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL, token = greatest(token + 1, :floor)
WHERE name = :name AND holder IS NOT NULL;

-- statement: lease_check  engine: sqlite
-- For a caller's own transaction: is this token the effective holder, and will it be until we commit?
SELECT 1 FROM leases WHERE name = :name AND token = :token AND holder IS NOT NULL AND expires_at > :now;

-- statement: lease_check  engine: postgres
-- FOR SHARE: nobody can claim or expire the lease before this transaction ends.
SELECT 1 FROM leases WHERE name = :name AND token = :token AND holder IS NOT NULL AND expires_at > :now FOR SHARE;

-- statement: lease_expire  engine: sqlite
-- End up to :limit leases whose time is up. The predicate stands twice so that a lease renewed a moment ago is
-- left alone.
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL, token = max(token + 1, :floor)
WHERE name IN (SELECT name FROM leases WHERE expires_at <= :now ORDER BY name LIMIT :limit)
  AND expires_at <= :now;

-- statement: lease_expire  engine: postgres
-- SKIP LOCKED lets sweeps pass each other and the renewals under way.
WITH due AS MATERIALIZED (
    SELECT name FROM leases WHERE expires_at <= :now ORDER BY name LIMIT :limit FOR UPDATE SKIP LOCKED)
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL, token = greatest(token + 1, :floor)
FROM due WHERE leases.name = due.name AND leases.expires_at <= :now;

-- statement: lease_end_all  only: sqlite
-- After a new boot: nobody who held a lease is still running.
UPDATE leases SET holder = NULL, claimed_at = NULL, expires_at = NULL, token = max(token + 1, :floor)
WHERE holder IS NOT NULL;

-- statement: lease_end_work  only: sqlite
-- The same for work items: nobody can renew or finish under these leases any more, and the sweep takes the items up. One
-- that plain SQL took since the machine came up (:booted) was not there before.
UPDATE work_items SET lease_expires_at = :now, revision = revision + 1, updated_at = :now
WHERE status = 'in_progress' AND lease_expires_at > :now AND (lease_via = 'api' OR lease_acquired_at < :booted);

-- statement: lease_find
SELECT holder, token, claimed_at, expires_at FROM leases WHERE name = :name;

-- statement: lease_list
SELECT name, holder, token, claimed_at, expires_at FROM leases WHERE name > :after ORDER BY name LIMIT :limit;

-- statement: lease_clock_get  only: sqlite
SELECT boot_id, offset_us FROM lease_clock WHERE id = 1;

-- statement: lease_clock_put  only: sqlite
INSERT INTO lease_clock (id, boot_id, offset_us) VALUES (1, :boot_id, :offset_us)
ON CONFLICT (id) DO UPDATE SET boot_id = excluded.boot_id, offset_us = excluded.offset_us;
