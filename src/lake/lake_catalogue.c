/* lake_catalogue.c - the catalogue that tools/sqlgen makes of sql/lake*.sql, compiled here. The schema is one long text. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

#include "tidemark_lake_sql.c" /* NOLINT(bugprone-suspicious-include) */
