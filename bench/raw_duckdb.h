/* raw_duckdb.h - spans in a DuckDB table, and the query that pages through them by number: what the feed's reading is compared
 * with.
 *
 * The library is opened at run time: $TIDEMARK_DUCKDB, or what `make setup` obtained. The table has a column per field and an index on seq_id;
 * it is filled by an appender and checkpointed before anything is measured.
 *
 * Threads: one. DuckDB itself uses all cores. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "feed_load.h"

typedef struct raw_duckdb raw_duckdb;

/* A new file at path. NULL: there is no library. */
raw_duckdb *raw_duckdb_open(const char *path);
void raw_duckdb_close(raw_duckdb *db);
const char *raw_duckdb_version(const raw_duckdb *db);

/* The spans of load, times over, numbered from 1. */
void raw_duckdb_fill(raw_duckdb *db, const feed_load *load, int times);

/* SELECT all columns WHERE seq_id > after ORDER BY seq_id LIMIT limit; returns how many rows came. The rows are fetched chunk by
 * chunk as DuckDB has them, and not looked at. */
int64_t raw_duckdb_page(raw_duckdb *db, int64_t after, int64_t limit);
