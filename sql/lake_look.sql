-- What people look at.

-- statement: lake_snapshot_newest
-- Downwards from :before. Ancestors' numbers lie below: by depth, then number.
SELECT s.snapshot_id, s.catalog_id, s.snapshot_time, s.schema_version, coalesce(c.changes_made, ''), coalesce(c.author, ''), coalesce(c.commit_message, '')
FROM lake_ancestor a JOIN ducklake_snapshot s ON s.catalog_id = a.ancestor_id AND s.snapshot_id <= a.upto
LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id
WHERE a.catalog_id = :catalog_id AND s.snapshot_id < :before
ORDER BY a.depth, s.snapshot_id DESC LIMIT :limit;
