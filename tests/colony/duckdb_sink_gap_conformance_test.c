#include "duckdb_conformance.h"

#include "sink_gap_test.c" /* NOLINT(bugprone-suspicious-include) */
