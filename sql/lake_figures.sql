-- How much a metabase holds, for who watches it.

-- statement: lake_figures
-- Files that any retained snapshot sees, deleted rows' files too; those that wait for cleanup are not among them.
SELECT (SELECT count(*) FROM lake_head),
       (SELECT count(*) FROM ducklake_snapshot),
       (SELECT count(*) FROM ducklake_data_file),
       (SELECT CAST(coalesce(sum(file_size_bytes), 0) AS bigint) FROM ducklake_data_file),
       (SELECT count(*) FROM ducklake_delete_file),
       (SELECT CAST(coalesce(sum(file_size_bytes), 0) AS bigint) FROM ducklake_delete_file),
       (SELECT count(*) FROM ducklake_files_scheduled_for_deletion),
       (SELECT count(*) FROM lake_pin);
