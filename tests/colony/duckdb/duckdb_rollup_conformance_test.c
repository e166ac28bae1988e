#include "colony/duckdb/duckdb_conformance.h"

#include "colony/rollup_test.c" /* NOLINT(bugprone-suspicious-include) */
