/* lake_parts.h - what a tide_lake is made of; for the files of this folder alone. */
#pragma once

#include <stdatomic.h>

#include "base/combiner.h"
#include "lake/lake.h"

enum {
    TIDE_LAKE_SPARE_IDS = 512,
    TIDE_LAKE_GROUPS = 1, /* of one catalog, that write at once; others may wait for the disk */
};

/* File ids that were taken from the store's counter and not yet given away (PostgreSQL: so that an append needs no round trip for them). What
 * is left when the process ends is a gap. Only ids of a transaction that is on disk: a crash of the server puts the counter back to before any other, and their ids
 * are given again. */
typedef struct tide_lake_spare {
    atomic_flag is_held; /* for a few instructions */
    int64_t ids[TIDE_LAKE_SPARE_IDS];
    int count;
    int step; /* how many were taken at once the last time */
} tide_lake_spare;

/* What a transaction has taken beyond what it needs. */
typedef struct tide_lake_left {
    int64_t ids[TIDE_LAKE_SPARE_IDS];
    int count;
} tide_lake_left;

enum { TIDE_LAKE_KNOWN_MAX = 256 };

/* Schemas and tables that were read before (known.h). */
typedef struct tide_lake_known_all {
    atomic_flag is_held; /* for a few instructions */
    struct lake_known *entries[TIDE_LAKE_KNOWN_MAX];
    int next; /* to be replaced */
} tide_lake_known_all;

struct tide_lake {
    tide_store *store;
    char *data_dir; /* absolute, with a slash at its end */
    tide_lake_spare spare;
    tide_lake_known_all known;
    tide_combiner *heads; /* who begins at the same time (change.c) */
    tide_combiner *crew;  /* who commits at the same time (commit_together.c) */
};

/* File ids for a commit: from the spare ones, else from the counter, and then more of them than are needed: *left. */
TIDE_MUST_CHECK tide_status tide_lake_file_ids(tide_lake *lake, tide_tx *tx, int count,
                                               int64_t *ids, tide_lake_left *left, tide_error *err);
/* Its transaction is on disk: what is left is spare. */
void tide_lake_keep_ids(tide_lake *lake, const tide_lake_left *left);

/* The next `count` ids, spent in a transaction of its own. table_id: whose COLUMN_IDS; 0: nobody's yet. A counter that stands behind what is there (a dump was restored
 * under us) is raised first. */
TIDE_MUST_CHECK tide_status tide_lake_spend_ids(tide_lake *lake, tide_lake_counter counter,
                                                int64_t table_id, int count, int64_t *ids,
                                                tide_error *err);

/* Declares that this transaction locks the catalog's head, for snapshots that its deferred statements number themselves (commit_together.c). As
 * tide_lake_next_snapshot otherwise. */
TIDE_MUST_CHECK tide_status tide_lake_hold_head(tide_tx *tx, int64_t catalog_id, int64_t *head,
                                                tide_error *err);

/* Raise counters that stand behind what is there. *raised (may be NULL): how many. */
TIDE_MUST_CHECK tide_status tide_lake_heal(tide_store *store, int *raised, tide_error *err);
/* The same for one that is open: spare ids were taken from a counter that is not to be trusted. */
TIDE_MUST_CHECK tide_status tide_lake_heal_behind(tide_lake *lake, tide_error *err);

/* Names as DuckDB compares them: ASCII letters in lower case. out holds as many bytes as the name, and the terminator. */
void tide_lake_fold(char *out, const char *name);
bool tide_lake_same_name(const char *a, const char *b);

/* A directory's name for a thing: what is plain of its name, and its UUID; with a slash at its end. */
void tide_lake_directory(char out[96], const char *name, const char *uuid);
