#include "colony/duckdb/duckdb_conformance.h"

#include "colony/sink_test.c" /* NOLINT(bugprone-suspicious-include) */
