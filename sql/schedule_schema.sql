-- Time zones of schedules (recovery_attempts_schema.sql has the table).

-- migration: 14  version: 0.58.0  name: schedule zones  engine: sqlite
-- NULL: UTC.
ALTER TABLE work_schedules ADD COLUMN time_zone TEXT;

-- migration: 14  version: 0.58.0  name: schedule zones  engine: postgres
ALTER TABLE work_schedules ADD COLUMN time_zone text;
