-- How far retention may delete: see core/retention_clock.h.

-- migration: 13  version: 0.57.0  name: retention clocks  engine: sqlite
CREATE TABLE retention_clocks (
    name          TEXT NOT NULL,
    boot_id       TEXT NOT NULL,     -- of the machine that noted it
    boot_us       INTEGER NOT NULL,  -- its monotonic clock then
    watermark_us  INTEGER NOT NULL,  -- microseconds since 1970; the greatest of a name is in force
    PRIMARY KEY (name, boot_id)
) STRICT, WITHOUT ROWID;

-- migration: 13  version: 0.57.0  name: retention clocks  engine: postgres
CREATE TABLE retention_clocks (
    name          text NOT NULL,
    boot_id       text NOT NULL,
    boot_us       bigint NOT NULL,
    watermark_us  bigint NOT NULL,
    PRIMARY KEY (name, boot_id)
);
