/* duckdb_layout.h - sizes and offsets of DuckDB's structs, computed by two files: one includes
 * store/duckdb/duckdb_api.h, the other DuckDB's own header. duckdb_api_test.c compares the results. */
#pragma once

#include <stddef.h>

enum { DUCKDB_LAYOUT_COUNT = 18 };

extern const size_t duckdb_layout_ours[DUCKDB_LAYOUT_COUNT];
extern const size_t duckdb_layout_theirs[DUCKDB_LAYOUT_COUNT];

#define DUCKDB_LAYOUT                                                                              \
    {                                                                                              \
        sizeof(idx_t), sizeof(duckdb_result), sizeof(duckdb_string_t),                             \
            offsetof(duckdb_string_t, value.pointer.length),                                       \
            offsetof(duckdb_string_t, value.pointer.ptr),                                          \
            offsetof(duckdb_string_t, value.inlined.inlined), sizeof(duckdb_list_entry),           \
            offsetof(duckdb_list_entry, length), sizeof(duckdb_hugeint),                           \
            offsetof(duckdb_hugeint, upper), sizeof(duckdb_uhugeint),                              \
            offsetof(duckdb_uhugeint, upper), sizeof(duckdb_interval),                             \
            offsetof(duckdb_interval, days), offsetof(duckdb_interval, micros),                    \
            sizeof(duckdb_timestamp), sizeof(duckdb_type), sizeof(duckdb_state),                   \
    }
