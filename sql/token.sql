-- statement: token_add
-- Nothing comes back when the name is in use by a token that has not been revoked.
INSERT INTO access_tokens (digest, name, role, agent, created_at, expires_at)
VALUES (:digest, :name, :role, :agent, :now, :expires)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING name;

-- statement: token_find
SELECT digest, name, role, agent, created_at, expires_at, last_used_at, revoked_at
FROM access_tokens WHERE digest = :digest;

-- statement: token_use
-- At most once a minute: what is newer than :before stays.
UPDATE access_tokens SET last_used_at = :now
WHERE name = :name AND revoked_at IS NULL AND (last_used_at IS NULL OR last_used_at < :before);

-- statement: token_revoke
UPDATE access_tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL;

-- statement: token_list
-- Keyset page: behind :after_name and :after_digest.
SELECT digest, name, role, agent, created_at, expires_at, last_used_at, revoked_at
FROM access_tokens
WHERE (name, digest) > (:after_name, :after_digest) AND (:all OR revoked_at IS NULL)
ORDER BY name, digest LIMIT :limit;
