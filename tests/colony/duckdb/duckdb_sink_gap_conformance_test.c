#include "colony/duckdb/duckdb_conformance.h"

#include "colony/sink_gap_test.c" /* NOLINT(bugprone-suspicious-include) */
