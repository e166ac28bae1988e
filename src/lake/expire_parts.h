/* expire_parts.h - what the files of expire.h share. */
#pragma once

#include "lake/expire.h"

/* Expiring a catalog: its snapshots, then a sweep over the rows of its line, stage by stage. */
typedef struct tide_expiry {
    tide_lake *lake;
    int64_t catalog_id;
    bool is_dropped;
    bool is_dry_run;
    int64_t older_than_us;
    int64_t keep_last;
    int64_t conflict_retention_us;
    int64_t batch;
    int64_t *ids; /* batch of them */
    int64_t count;

    tide_status (*step)(struct tide_expiry *e, tide_tx *tx, tide_error *err);
    tide_lake_expired turn; /* of the transaction under way */
    tide_lake_expired rehearsed;
    tide_lake_expired total;

    int stage;      /* of the sweep */
    int64_t after;  /* the last file that was looked at */
    int next_stage; /* where the transaction under way leads, when it is committed */
    int64_t next_after;
} tide_expiry;

/* expire.c */
