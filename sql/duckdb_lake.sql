-- What the lake asks of DuckDB (lake/data.h). Columns, files and types vary with the table, so these are templates (store/sql_template.h): {{name}} is
-- a name between double quotes; {{sql}} is a text that lake/quote.h has quoted, a type of lake/types.h, or a piece made of such.

-- statement: names
-- Which tables does a question name? It is only parsed; nothing is looked up. Names of its own (WITH) are among them.
SELECT DISTINCT json_extract_string(value, 'catalog_name'), json_extract_string(value, 'schema_name'), json_extract_string(value, 'table_name')
FROM json_tree(json_serialize_sql(:text::VARCHAR))
WHERE type = 'OBJECT' AND json_extract_string(value, 'type') = 'BASE_TABLE'
ORDER BY ALL;

-- statement: parsed
-- What is wrong with a question; NULL: it is one statement, or several, that read. Then a function that it names
-- and that changes the engine's state or takes another text, or NULL; and how many table functions may show or
-- leave something in the instance.
SELECT CASE WHEN json_extract_string(tree, 'error') = 'true' THEN json_extract_string(tree, 'error_message') END,
    json_extract_string(tree, 'error_type'), json_array_length(tree, '$.statements')::BIGINT,
    list_filter(json_extract_string(tree, '$..function_name'), lambda f: lower(f) IN (
        'query', 'json_execute_serialized_sql', 'write_log', 'enable_logging', 'disable_logging',
        'truncate_duckdb_logs', 'enable_profiling', 'disable_profiling', 'enable_peg_parser', 'disable_peg_parser',
        'checkpoint', 'force_checkpoint', 'arrow_scan', 'arrow_scan_dumb', 'seq_scan'))[1],
    len(list_filter(json_extract_string(tree, '$..function.function_name'), lambda f: lower(f) NOT IN (
        'range', 'generate_series', 'unnest', 'repeat', 'repeat_row', 'json_each', 'json_tree')))::BIGINT
FROM (SELECT json_serialize_sql(:text::VARCHAR) AS tree);

-- template: duck_utc
-- Times with a zone are read, cut into days and printed alike on every machine.
SET GLOBAL TimeZone = 'UTC';

-- template: duck_no_files
-- From here on these files are read, and nothing else.
SET GLOBAL allowed_paths = [{{each files ,}}{{sql}}{{end}}];

-- template: duck_no_access
SET GLOBAL enable_external_access = false;

-- template: duck_lock
SET GLOBAL lock_configuration = true;

-- template: duck_source_columns
SELECT column_name FROM (DESCRIBE SELECT * FROM {{each source}}{{sql}}{{end}});

-- template: duck_csv_head
-- Nothing is guessed: a first line with names, values with commas (or tabs) between them, double quotes.
read_csv({{each path}}{{sql}}{{end}}, header = true, all_varchar = true, delim = {{each delimiter}}{{sql}}{{end}}, quote = '"', escape = '"',
    comment = '', skip = 0, hive_partitioning = false, sample_size = 1, ignore_errors = true)

-- template: duck_csv
-- Nothing between two commas is NULL; nothing between quotes is an empty text.
read_csv({{each path}}{{sql}}{{end}}, auto_detect = false, header = true, delim = {{each delimiter}}{{sql}}{{end}}, quote = '"', escape = '"',
    allow_quoted_nulls = false, columns = { {{each found ,}}{{name}}: {{sql}}{{end}} }, hive_partitioning = false)

-- template: duck_json_head
-- Every object is looked at: a name that appears late is a name.
read_json({{each path}}{{sql}}{{end}}, records = true, sample_size = -1, maximum_depth = 1, map_inference_threshold = -1, hive_partitioning = false)

-- template: duck_json
read_json({{each path}}{{sql}}{{end}}, records = true, columns = { {{each found ,}}{{name}}: {{sql}}{{end}} }, hive_partitioning = false)

-- template: duck_parquet
read_parquet({{each path}}{{sql}}{{end}}, hive_partitioning = false)

-- template: duck_cast
CAST({{each value}}{{sql}}{{end}} AS {{each type}}{{sql}}{{end}})

-- template: duck_whole
-- A text as a whole number: '1.0' is one, and '1.5' is not rounded.
CAST(CASE WHEN (contains({{each value}}{{sql}}{{end}}, '.') OR contains(lower({{each value}}{{sql}}{{end}}), 'e'))
          AND TRY_CAST({{each value}}{{sql}}{{end}} AS DOUBLE) <> TRY_CAST({{each value}}{{sql}}{{end}} AS {{each type}}{{sql}}{{end}})
     THEN 'not whole' ELSE {{each value}}{{sql}}{{end}} END AS {{each type}}{{sql}}{{end}})

-- template: duck_copy
COPY (
    SELECT {{each columns ,}}{{sql}} AS {{name}}{{end}}{{each keys}}, {{sql}} AS {{name}}{{end}}
    FROM {{each source}}{{sql}}{{end}}
) TO {{each target}}{{sql}}{{end}} (
    FORMAT parquet, FILENAME_PATTERN '{uuid}', RETURN_STATS true,
    FIELD_IDS { {{each columns ,}}{{name}}: {{n}}{{end}} },
    {{if parts}}PARTITION_BY ({{each keys ,}}{{name}}{{end}}), WRITE_PARTITION_COLUMNS false{{end}}
    {{if !parts}}FILE_SIZE_BYTES {{file_bytes}}, WRITE_EMPTY_FILE false{{end}}
);

-- template: duck_year_or_such
{{each function}}{{sql}}{{end}}({{each value}}{{sql}}{{end}})

-- template: duck_bucket
-- As DuckLake does it: values that are not stored in 8 bytes or as bytes are hashed as texts.
((tide_murmur3({{if text}}CAST({{end}}{{each value}}{{sql}}{{end}}{{if text}} AS VARCHAR){{end}}) & 2147483647) % {{buckets}})

-- template: duck_partition_key
-- Every value has a directory's name of its own, whatever it holds and however long it is.
coalesce(sha256(CAST({{each value}}{{sql}}{{end}} AS VARCHAR)), 'null')

-- template: duck_partition_values
SELECT {{each keys ,}}CAST({{sql}} AS VARCHAR){{end}}
FROM read_parquet({{each file}}{{sql}}{{end}}, hive_partitioning = false) LIMIT 1;

-- template: duck_null_counts
-- Of types for which Parquet keeps no statistics.
SELECT {{each columns ,}}count(*) - count({{name}}){{end}}
FROM read_parquet({{each file}}{{sql}}{{end}}, hive_partitioning = false);

-- template: duck_bad_value
-- The first row with a value that is not of its column's type: row, column, value.
SELECT r, k, v FROM (
    SELECT row_number() OVER () AS r,
        CASE {{each columns}}WHEN {{name}} IS NOT NULL AND (TRY_CAST({{name}} AS {{sql}}) IS NULL{{if whole}} OR TRY_CAST({{name}} AS DOUBLE) <> TRY_CAST({{name}} AS {{sql}}){{end}}) THEN {{n}} {{end}}ELSE 0 END::BIGINT AS k,
        CASE {{each columns}}WHEN {{name}} IS NOT NULL AND (TRY_CAST({{name}} AS {{sql}}) IS NULL{{if whole}} OR TRY_CAST({{name}} AS DOUBLE) <> TRY_CAST({{name}} AS {{sql}}){{end}})
             THEN left(CAST({{name}} AS VARCHAR), 64) {{end}}ELSE '' END AS v
    FROM {{each source}}{{sql}}{{end}}
) WHERE k > 0 ORDER BY r LIMIT 1;

-- template: duck_null_row
-- The first row without a value in a column.
SELECT r FROM (
    SELECT row_number() OVER () AS r, {{each value}}{{sql}}{{end}} AS v FROM {{each source}}{{sql}}{{end}}
) WHERE v IS NULL ORDER BY r LIMIT 1;

-- template: duck_scan
-- A table's rows. Inside, columns are called by number, so that no name of a user's meets one of DuckDB's (filename, file_row_number). A file and its
-- delete file stand at the same place of their lists.
{{if plain}}SELECT {{each columns ,}}c{{n}} AS {{name}}{{end}}{{if places}}, 0 AS {{group}}, file_index AS {{file}}, file_row_number AS {{row}}{{end}}
FROM read_parquet([{{each plain ,}}{{sql}}{{end}}], hive_partitioning = false, schema = MAP { {{each columns ,}}{{p}}: {{sql}}{{end}} }){{end}}
{{if both}}UNION ALL{{end}}
{{if deleted}}SELECT {{each columns ,}}c{{n}} AS {{name}}{{end}}{{if places}}, 1 AS {{group}}, d.file_index AS {{file}}, d.file_row_number AS {{row}}{{end}}
FROM (
    SELECT {{each columns ,}}c{{n}}{{end}}, file_index, file_row_number
    FROM read_parquet([{{each deleted ,}}{{sql}}{{end}}], hive_partitioning = false, schema = MAP { {{each columns ,}}{{p}}: {{sql}}{{end}} })
) AS d ANTI JOIN (
    SELECT file_index, pos FROM read_parquet([{{each deletes ,}}{{sql}}{{end}}], hive_partitioning = false)
) AS x ON d.file_index = x.file_index AND d.file_row_number = x.pos{{end}}
{{if none}}SELECT {{each types ,}}CAST(NULL AS {{sql}}) AS {{name}}{{end}}{{if places}}, 0 AS {{group}}, 0 AS {{file}}, 0 AS {{row}}{{end}} WHERE false{{end}}

-- template: duck_find
-- Where are the rows that meet a condition? It comes with a line's end of its own, in case it ends in a comment.
SELECT CAST({{group}} AS BIGINT), CAST({{file}} AS BIGINT), CAST({{row}} AS BIGINT)
FROM ({{each scan}}{{sql}}{{end}}) AS {{table}} WHERE ({{each condition}}{{sql}}{{end}});

-- template: duck_is_round
SELECT ({{each condition}}{{sql}}{{end}});

-- template: duck_is_square
SELECT [{{each condition}}{{sql}}{{end}}];

-- template: duck_found
CREATE OR REPLACE TABLE tide_found (file BIGINT, pos BIGINT);

-- template: duck_found_files
SELECT file, count(*) FROM tide_found GROUP BY file ORDER BY file;

-- template: duck_found_drop
DROP TABLE IF EXISTS tide_found;

-- template: duck_delete_file
-- As DuckLake writes them; the field ids are Iceberg's.
COPY (
    SELECT CAST({{each path}}{{sql}}{{end}} AS VARCHAR) AS file_path, pos FROM (
        SELECT pos FROM tide_found WHERE file = {{index}}
        {{each older}}UNION SELECT CAST(pos AS BIGINT) FROM read_parquet({{sql}}, hive_partitioning = false){{end}}
    ) ORDER BY pos
) TO {{each target}}{{sql}}{{end}} (
    FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, RETURN_STATS true,
    FIELD_IDS {file_path: 2147483546, pos: 2147483545}
);

-- template: duck_attach
ATTACH ':memory:' AS {{catalog}};

-- template: duck_schema
CREATE SCHEMA IF NOT EXISTS {{catalog}}.{{schema}};

-- template: duck_view
CREATE VIEW {{catalog}}.{{schema}}.{{view}} AS {{each scan}}{{sql}}{{end}};

-- template: duck_view_alias
CREATE VIEW {{home}}.{{schema}}.{{view}} AS SELECT * FROM {{catalog}}.{{schema}}.{{view}};
