/* expire.h - old snapshots go, then the files that nobody can reach any more.
 *
 *     expire    snapshots of a catalog older than a time or all but the newest n; never the head, a pinned one, a fork's point. Rows that no
 *               retained snapshot of any catalog sees go; their files are scheduled (ducklake_files_scheduled_for_deletion). Of a dropped catalog everything
 *               goes that no fork and no pin needs, at last the catalog itself
 *     cleanup   scheduled files are removed from the disk after a grace; orphans (Parquet files below the data directory that no row names, older than the grace
 *               and than the oldest live pin) too
 *
 * A row is reachable while any catalog sees it at a snapshot that is still there: its owner, or a fork that began while it lived and has not ended it
 * (lake_ended). Reachability is decided and recorded in one transaction with the removal of the row; the file goes afterwards, so a crash leaves
 * a file too many, never one too few. All transactions are bounded.
 *
 * Who builds on a snapshot (a pin, a fork) holds its row of ducklake_snapshot until the commit (PostgreSQL: FOR KEY SHARE); expire locks the rows first and looks
 * for pins and forks behind the lock. So one of the two comes first: the snapshot stays, or the other is told that it is not there.
 *
 * Who writes data files holds a pin from before the first until they are committed or removed: orphans are older than every live pin. A file's age
 * is told by the clock of the machine that wrote it, a pin's by the store's: the grace must be longer than they can differ. A commit checks its pin and holds it; clean-up deletes
 * pins that have run out before it looks for rows: a writer that was in time has its rows there, one that was not is refused.
 *
 * Files are removed by the metabase alone that the data directory belongs to (owner.h): not by a copy, nor by another one.
 *
 * Files outside of the data directory (a stock client may name any) are never removed. Commits stay when their snapshots go (lake_commit.expired_at), so a request's
 * key answers for ever. What they changed (ducklake_snapshot_changes) stays for a while: a stock client that began before reads it when it tries again.
 *
 * Survives: a crash at any point; doing it again goes on. Several at once are fine. Threads: as the store. */
#pragma once

#include "lake/catalog.h"

enum { TIDE_LAKE_EXPIRE_BATCH = 1000, TIDE_LAKE_EXPIRE_BATCH_MAX = 10000 };

#define TIDE_LAKE_GRACE_US INT64_C(3600000000)                /* of scheduled files: 1 h */
#define TIDE_LAKE_ORPHAN_GRACE_US INT64_C(86400000000)        /* 24 h */
#define TIDE_LAKE_CONFLICT_RETENTION_US INT64_C(604800000000) /* 7 days */

typedef struct tide_lake_expire_options {
    int64_t older_than_us; /* wall time; 0: not by time */
    int64_t
        keep_last; /* 0: not by count (the head always stays). With both: what is older, beyond the newest n */
    /* What snapshots changed outlives them by so much, counted from their commit; 0: 7 days; below 0: not at all. */
    int64_t conflict_retention_us;
    bool is_dry_run; /* count what would go */
    int64_t batch;   /* snapshots per turn, and rows per transaction; 0: 1,000 */
} tide_lake_expire_options;

typedef struct tide_lake_expired {
    int64_t snapshots;
    int64_t rows;     /* of any kind, files' too */
    int64_t files;    /* scheduled */
    int64_t catalogs; /* dropped ones of which nothing is left */
    bool more;        /* there are further snapshots */
} tide_lake_expired;

/* catalog NULL: every catalog, and what dropped ones have left behind (with neither time nor count: that alone). TIDE_E_INVALID: neither
 * time nor count for a catalog. TIDE_E_NOT_FOUND: no such catalog. *out is written on TIDE_OK. */
TIDE_MUST_CHECK tide_status tide_lake_expire(tide_lake *lake, const char *catalog,
                                             const tide_lake_expire_options *options,
                                             tide_lake_expired *out, tide_error *err);

/* A file below a directory: path is relative to it; valid until fn returns. */
typedef struct tide_lake_disk_file {
    const char *path;
    int64_t size;
    int64_t changed_at_us;
} tide_lake_disk_file;
typedef tide_status tide_lake_disk_fn(void *arg, const tide_lake_disk_file *file, tide_error *err);

/* What touches the disk. */
typedef struct tide_lake_disk {
    void *context;
    /* Remove a file; *bytes: its size. TIDE_NONE: it is not there. */
    tide_status (*remove)(void *context, const char *path, int64_t *bytes, tide_error *err);
    /* Every regular file below dir, in any order; symbolic links are not followed. fn's failure ends it. */
    tide_status (*walk)(void *context, const char *dir, tide_lake_disk_fn *fn, void *arg,
                        tide_error *err);
} tide_lake_disk;

const tide_lake_disk *tide_lake_disk_system(void);

typedef struct tide_lake_cleanup_options {
    int64_t grace_us;           /* 0: as above; below 0: none */
    bool with_orphans;          /* look through the directory */
    bool is_dry_run;            /* count what would go */
    int64_t batch;              /* files per turn; 0: 1,000 */
    const tide_lake_disk *disk; /* NULL: tide_lake_disk_system() */
} tide_lake_cleanup_options;

typedef struct tide_lake_cleaned {
    int64_t files; /* removed, orphans not counted */
    int64_t orphans;
    int64_t bytes;   /* of both */
    int64_t missing; /* scheduled, and not there any more */
    int64_t foreign; /* scheduled, outside of the data directory: left alone and forgotten */
    bool more;
} tide_lake_cleaned;

/* A file that cannot be removed ends the turn with its failure; what was removed before is removed. TIDE_E_CONFLICT, TIDE_E_NOT_FOUND: owner.h. options may be NULL. *out counts in any case. */
TIDE_MUST_CHECK tide_status tide_lake_cleanup(tide_lake *lake,
                                              const tide_lake_cleanup_options *options,
                                              tide_lake_cleaned *out, tide_error *err);
