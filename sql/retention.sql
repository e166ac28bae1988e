-- statement: retention_clock_get
-- The watermark, and what this boot noted last; NULL where there is none.
SELECT max(watermark_us), max(CASE WHEN boot_id = :boot_id THEN boot_us END),
       max(CASE WHEN boot_id = :boot_id THEN watermark_us END)
FROM retention_clocks WHERE name = :name;

-- statement: retention_clock_put
INSERT INTO retention_clocks (name, boot_id, boot_us, watermark_us) VALUES (:name, :boot_id, :boot_us, :watermark_us)
ON CONFLICT (name, boot_id) DO UPDATE SET boot_us = excluded.boot_us, watermark_us = excluded.watermark_us;

-- statement: retention_clock_forget
DELETE FROM retention_clocks WHERE name = :name AND watermark_us < :before_us;
