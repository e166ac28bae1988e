/* data_duck_catalogue.c - the catalogue that tools/sqlgen makes of sql/duckdb_lake.sql, compiled here. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

#include "tidemark_lake_duck.c" /* NOLINT(bugprone-suspicious-include) */
