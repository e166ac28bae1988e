/* colony_raw.h - the pace at which a store takes the rows of a colony when nothing else is done: its bulk insert, into the same table with the
 * same indexes, the same rows, one transaction per page.
 *
 *     SQLite       one prepared INSERT whose columns are bound without copies; WAL, synchronous=FULL, the file's own page size
 *     PostgreSQL   COPY in binary form, of bytes that were made before
 *     DuckDB       the appender, by chunks (store/duckdb/duckdb.h)
 *
 * Opening and closing are timed, as they are for the colony. Whatever fails ends the program. Threads: the main thread's. */
#pragma once

#include "colony_place.h"

/* Insert the rows of `count` pages, COLONY_PAGE each, for each of `sources` agents, in turn. Returns the seconds that it took. */
double colony_raw_insert(const colony_place *place, const feed_load *pages, int sources, int count);
