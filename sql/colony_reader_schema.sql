-- The name under which a colony reads at an agent (colony_schema.sql).

-- migration: 12  version: 0.56.0  name: agent readers  engine: sqlite
-- '': the name of the store, colony-SESSION. An agent that has seen a token above all of this store serves a copy of it, or its later
-- state, under that name; from then on this store reads there under a random one (colony/registry.h).
ALTER TABLE colony_agents ADD COLUMN reader TEXT NOT NULL DEFAULT '';

-- migration: 12  version: 0.56.0  name: agent readers  engine: postgres
ALTER TABLE colony_agents ADD COLUMN reader text NOT NULL DEFAULT '';
