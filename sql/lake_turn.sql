-- A delete that lost to appends of its table again and again asks for its turn: appenders wait for it (src/lake/work.c).

-- migration: 7  version: 1.6  name: turn  engine: sqlite
ALTER TABLE lake_pin ADD COLUMN deleted_table_id bigint;
ALTER TABLE lake_pin ADD COLUMN turn_until varchar;

-- migration: 7  version: 1.6  name: turn  engine: postgres
ALTER TABLE lake_pin ADD COLUMN deleted_table_id bigint, ADD COLUMN turn_until timestamptz;
