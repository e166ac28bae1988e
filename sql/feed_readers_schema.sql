-- Readers of streams (feed_schema.sql), and what the store was when it was opened.

-- migration: 7  version: 0.51.0  name: feed readers  engine: sqlite
-- The head when the store was first opened after this reader last showed its points; NULL: it was not opened since. A store that was put back to an earlier state is opened,
-- so what a reader claims to have above it, and is not there to be compared, came from a history that was cut off.
ALTER TABLE feed_readers ADD COLUMN opened_seq INTEGER;

-- migration: 7  version: 0.51.0  name: feed readers  engine: postgres
SELECT 1;
