/* history.h - the history checker: proves from what is written that nothing was lost, doubled or changed.
 *
 * Rules, each with a name that findings carry:
 *     order        within a catalog snapshot ids rise with commit order: each commit's parent is the one before it, times never go back
 *     linear       one commit per parent within a catalog; every snapshot has a commit and changes, every commit a snapshot (or is expired); rows begin and end
 *                  with a commit; the head is the last one
 *     immutable    the state at each snapshot, computed anew from the rows, has the digest that its commit recorded
 *     conflict     no two commits, of which the later began before the earlier was there (its base), collide by the matrix (mark.h)
 *     files        one file id is one file for ever; one path has one id; a delete file belongs to a data file that lives with it; nothing that a row names is
 *                  scheduled for deletion
 *     names        no two live objects of one name at any snapshot; one id is one schema, table or view for ever
 *     counters     next_catalog_id and next_file_id never go back, and lie above all ids issued before; the counters of the store above all rows
 *     observed     what an observer saw (tide_lake_look) is what is there now
 *
 * How: a catalog's commits are a line of points; every row of the catalog adds its digest to the point where it begins and takes it away where it ends;
 * walking along the line gives the digest of each snapshot. What commits did comes from their rows and changes, not from lake_mark. Expired snapshots are
 * points without a state.
 *
 * Memory: under 100 bytes per commit of one catalog, 32 per mark that its commits left, and a page of rows. Findings are told one by one, at most
 * TIDE_LAKE_FINDINGS_MAX of one query; TIDE_E_DAMAGED at the end when there were any.
 * Threads: reads one consistent snapshot of the store, in one closure: for a large metabase the store is opened with a larger closure_us. If the closure is
 * run again (a connection that broke), findings are told again, and counted anew. */
#pragma once

#include "lake/digest.h"
#include "lake/lake.h"

enum { TIDE_LAKE_FINDINGS_MAX = 100 };

/* What somebody saw of a catalog at a snapshot. */
typedef struct tide_lake_sight {
    int64_t catalog_id;
    int64_t snapshot_id;
    tide_lake_digest digest; /* of the rows that were visible */
} tide_lake_sight;

/* Look at a snapshot: reads its rows, not what its commit recorded. */
TIDE_MUST_CHECK tide_status tide_lake_look(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                           tide_lake_sight *out, tide_error *err);

/* Are these sights still what is there? Compares each with what its commit recorded; with tide_lake_check_history, which compares that with the rows, nothing
 * that was ever seen can have changed. */
TIDE_MUST_CHECK tide_status tide_lake_check_sights(tide_lake *lake, const tide_lake_sight *sights,
                                                   int64_t count, tide_lake_finding_fn *fn,
                                                   void *arg, tide_lake_checked *out,
                                                   tide_error *err);
