/* types.h - types of columns: SQL as people write it, DuckLake's words, DuckDB's names.
 *
 *     BIGINT, INT8, LONG -> int64      VARCHAR, TEXT, STRING -> varchar      DOUBLE -> float64      DECIMAL(18,2) -> decimal(18,2)
 *     TIMESTAMP -> timestamp           TIMESTAMPTZ -> timestamptz            BOOLEAN -> boolean     UUID, BLOB, DATE, TIME, ...
 *
 * Nested types (LIST, STRUCT, MAP) are refused with words: a stock client's tables that have them can be read, ours do not make them.
 * Threads: pure. */
#pragma once

#include "lake/change.h"

/* Integers of 128 bits: Parquet has none, DuckDB would write doubles. */
bool tide_lake_type_is_too_wide(const char *type);

/* out: 256 bytes. TIDE_E_INVALID: not a type that can be stored; the words list those there are. */
TIDE_MUST_CHECK tide_status tide_lake_type_parse(char out[256], const char *sql, tide_error *err);
/* DuckDB's name of one of DuckLake's types; NULL: not one. */
TIDE_MUST_CHECK tide_status tide_lake_type_duckdb(char out[256], const char *type, tide_error *err);
/* May a column become this type (DuckLake's promotions)? */
bool tide_lake_type_widens(const char *from, const char *to);

/* "a BIGINT, b VARCHAR NOT NULL DEFAULT 'x'": columns; free with tide_lake_column_defs_free. TIDE_E_INVALID: where it stops making sense. */
TIDE_MUST_CHECK tide_status tide_lake_columns_parse(const char *text, tide_lake_column_def **out,
                                                    int *count, tide_error *err);
void tide_lake_column_defs_free(tide_lake_column_def *columns, int count);
