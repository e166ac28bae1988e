-- Digests of stored values: 64 bits over the row's name and the value (src/core/value_digest.h). NULL: not written by the library, or
-- before this version. Plain SQL cannot change a response that the library stored (check_idempotency_keys_update), so no trigger has to
-- clear it.

-- migration: 21  version: 0.65.0  name: response digests  engine: sqlite
ALTER TABLE idempotency_keys ADD COLUMN value_digest INTEGER;

-- migration: 21  version: 0.65.0  name: response digests  engine: postgres
ALTER TABLE idempotency_keys ADD COLUMN value_digest bigint;
