-- Digests of data and delete files, taken when they were written: what is read later is compared (src/lake/file_digest.h). Files of
-- stock clients have none, until `lake verify --files --record-digests`.

-- migration: 8  version: 1.7  name: file digests  engine: sqlite
CREATE TABLE lake_file_digest (
    file_id bigint PRIMARY KEY,
    sha256 varchar NOT NULL CHECK (length(sha256) = 64)
);

-- migration: 8  version: 1.7  name: file digests  engine: postgres
CREATE TABLE lake_file_digest (
    file_id bigint PRIMARY KEY,
    sha256 varchar NOT NULL CHECK (length(sha256) = 64)
);

-- statement: lake_add_file_digests  engine: sqlite
INSERT INTO lake_file_digest (file_id, sha256)
SELECT json_extract(r.value, '$.id'), json_extract(r.value, '$.sha256') FROM json_each(:rows) r;

-- statement: lake_add_file_digests  engine: postgres
INSERT INTO lake_file_digest (file_id, sha256)
SELECT r.id, r.sha256 FROM json_to_recordset(:rows) r (id bigint, sha256 text);

-- statement: lake_record_file_digest
INSERT INTO lake_file_digest (file_id, sha256) VALUES (:id, :sha256) ON CONFLICT (file_id) DO NOTHING;

-- statement: expire_file_digest
DELETE FROM lake_file_digest WHERE file_id = :id;

-- statement: lake_file_page
-- Every file that a row names, by id; of a catalog and what it shows of its ancestors, or of all (:catalog_id 0).
SELECT f.file_id, f.table_id, f.path, f.path_is_relative, f.bytes, coalesce(g.sha256, '')
FROM (SELECT data_file_id AS file_id, table_id, path, path_is_relative, file_size_bytes AS bytes FROM ducklake_data_file
      WHERE data_file_id > :after AND (:catalog_id = 0 OR data_file_id IN
            (SELECT v.data_file_id FROM lake_data_file v WHERE v.viewer_id = :catalog_id))
      UNION ALL
      SELECT delete_file_id, table_id, path, path_is_relative, file_size_bytes FROM ducklake_delete_file
      WHERE delete_file_id > :after AND (:catalog_id = 0 OR delete_file_id IN
            (SELECT v.delete_file_id FROM lake_delete_file v WHERE v.viewer_id = :catalog_id))) f
LEFT JOIN lake_file_digest g ON g.file_id = f.file_id
ORDER BY f.file_id LIMIT :limit;
