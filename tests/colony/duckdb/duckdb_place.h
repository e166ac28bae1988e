/* duckdb_place.h - where tests find libduckdb.so: $TIDEMARK_DUCKDB, or where make setup has put it. */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static inline void duckdb_place(void)
{
    const char *deps = getenv("TIDEMARK_DEPS_DIR");
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/duckdb/libduckdb.so", deps ? deps : "build/deps");
    (void)setenv("TIDEMARK_DUCKDB", path, 0);
}
