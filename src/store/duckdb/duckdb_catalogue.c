/* duckdb_catalogue.c - the catalogue that tools/sqlgen makes of sql/duckdb_*.sql, compiled here. The schema is one long text. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

#include "tidemark_duckdb_sql.c" /* NOLINT(bugprone-suspicious-include) */
