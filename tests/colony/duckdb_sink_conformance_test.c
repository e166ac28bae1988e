#include "duckdb_conformance.h"

#include "sink_test.c" /* NOLINT(bugprone-suspicious-include) */
