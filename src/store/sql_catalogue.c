/* sql_catalogue.c - the catalogues that tools/sqlgen makes of sql/, compiled here.
 *
 * A migration is one text, and a long one. ISO C promises no more than 4095 bytes of a literal; the
 * compilers that build this have no such limit. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

#include "tidemark_duckdb_sql.c" /* NOLINT(bugprone-suspicious-include) */
#include "tidemark_sql.c"        /* NOLINT(bugprone-suspicious-include) */
#include "tidemark_templates.c"  /* NOLINT(bugprone-suspicious-include) */
