#include "store/duckdb/duckdb_layout.h"

#include "store/duckdb/duckdb_api.h"

const size_t duckdb_layout_ours[DUCKDB_LAYOUT_COUNT] = DUCKDB_LAYOUT;
