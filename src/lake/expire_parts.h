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
tide_status tide_expiry_lock(tide_tx *tx, tide_error *err);
/* Hand a statement over to the end of the transaction; in a rehearsal, which never gets there, run it. */
tide_status tide_expiry_send(const tide_expiry *e, tide_query **query, tide_error *err);

/* expire_rows.c: the sweep. One step is a bounded piece of a transaction, sweep_on goes on behind it when it is committed. */
void tide_expiry_sweep_start(tide_expiry *e);
bool tide_expiry_is_swept(const tide_expiry *e);
void tide_expiry_sweep_on(tide_expiry *e);
tide_status tide_expiry_sweep(tide_expiry *e, tide_tx *tx, tide_error *err);
