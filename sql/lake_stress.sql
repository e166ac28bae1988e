-- What the stress run (bench/stress/stress.h) asks about its own commits.

-- statement: stress_find
-- The commit of a request, if there is one.
SELECT k.catalog_id, k.snapshot_id FROM lake_commit k JOIN lake_catalog c ON c.catalog_id = k.catalog_id
WHERE c.catalog_name = :catalog AND c.dropped_at IS NULL AND k.request_key = :key;

-- statement: stress_commits
-- Every commit to catalogs of a run.
SELECT k.snapshot_id, coalesce(k.request_key, '') FROM lake_commit k JOIN lake_catalog c ON c.catalog_id = k.catalog_id
WHERE substr(c.catalog_name, 1, length(CAST(:prefix AS varchar))) = CAST(:prefix AS varchar) AND k.snapshot_id > :after
ORDER BY k.snapshot_id LIMIT :limit;
