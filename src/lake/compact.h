/* compact.h - small files become larger ones: a background job that one process at a time does for a table.
 *
 *     lease on the table ---- pin of the head ---- which files? ---- rewritten by DuckDB ---- one commit: the old end, the new begin
 *
 * Worth it are files that lie next to each other in a table, in one partition, each below a quarter of the target, at least `files_least` of them; and any
 * file of which at least half the rows are deleted. One step takes one group, up to the target's size; a job is steps until there is nothing left to do.
 *
 * It stands beside everything that goes on: inserts commute with it, and whoever deletes from or drops the table first makes the commit a conflict; then the new
 * files are removed and nothing has happened (mark.h). The lease, core's `lake/compact/<table>`, only saves double work: two that do not know of each other collide at
 * the commit.
 *
 * Survives: a crash before the commit leaves files that no row names (expire.h finds them) and a lease that runs out; after it, everything.
 * Threads: as tide_lake_data. */
#pragma once

#include "lake/data.h"

typedef struct tide_lake_compact_options {
    int64_t target_bytes; /* of a new file; 0: 128 MiB */
    int files_least;      /* 0: 4 */
    int files_most;       /* of one step; 0: 200 */
    int64_t lease_us;     /* 0: 10 minutes; a step must be done by then */
    const char *holder;   /* for people; NULL: "compaction" */
} tide_lake_compact_options;

typedef struct tide_lake_compacted {
    int64_t steps; /* commits */
    int64_t files_before;
    int64_t files_after;
    int64_t rows;
    int64_t conflicts; /* given up: somebody was faster */
    int64_t busy;      /* tables that another works on */
} tide_lake_compacted;

/* Which files of a table, given in order of their ids, to take together. partitions[i] tells the file's partition apart from others. Writes the group's indexes, ascending, to
 * which (room for count); returns how many, 0: nothing is worth it. */
int tide_lake_compact_choose(const tide_lake_file_seen *files, const uint64_t *partitions,
                             int count, const tide_lake_compact_options *options, int *which);

/* One step on one table. TIDE_NONE: nothing to do, or another works on it (out->busy). TIDE_E_NOT_FOUND: no such table. Adds to *out. options may be NULL. */
TIDE_MUST_CHECK tide_status tide_lake_compact_step(tide_lake *lake, tide_lake_data *data,
                                                   const char *catalog, const char *schema,
                                                   const char *table,
                                                   const tide_lake_compact_options *options,
                                                   tide_lake_compacted *out, tide_error *err);

/* Every table of a catalog, until nothing is worth it; a table that somebody else changes all the time is left for the next time. */
TIDE_MUST_CHECK tide_status tide_lake_compact(tide_lake *lake, tide_lake_data *data,
                                              const char *catalog,
                                              const tide_lake_compact_options *options,
                                              tide_lake_compacted *out, tide_error *err);
