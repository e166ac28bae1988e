#include "duckdb_conformance.h"

#include "rollup_test.c" /* NOLINT(bugprone-suspicious-include) */
