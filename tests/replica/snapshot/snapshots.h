/* snapshots.h - nodes with tables of all kinds, and a snapshot of one of them. */
#pragma once

#include "replica/snapshot.h"
#include "replica/world.h"

#define DAY_US INT64_C(86400000000)

extern const char *const snapshots_tables[];

typedef struct snapshots {
    world w;
    char path[TEMPDIR_PATH_MAX]; /* of a snapshot */
} snapshots;

void snapshots_begin(snapshots *t, int nodes, uint64_t seed);
/* Of a node, which must succeed. */
void snapshots_make(snapshots *t, int node);
tide_snapshot_restored snapshots_restore(snapshots *t, int node);
/* Who waits for others' locks needs a clock that goes. */
void snapshots_use_real_time(snapshots *t);
int snapshots_count_files(const char *dir);
