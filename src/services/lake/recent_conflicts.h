/* recent_conflicts.h - commits that were refused because they collided with another one: the last of them, for people.
 *
 * A refused commit has left nothing in the metabase; who made it was told. Here is kept, in memory and since this process began, what others want to see: who
 * lost against whom, over what.
 *
 * Threads: any. Limits: TIDE_REFUSALS_KEPT; older ones are forgotten, and counted by tidemark_lake_conflicts all the same. */
#pragma once

#include <pthread.h>

#include "lake/change.h"

enum { TIDE_REFUSALS_KEPT = 256 };

typedef struct tide_refusal {
    int64_t time_us; /* wall */
    char catalog[TIDE_LAKE_NAME_MAX + 1];
    char author[100]; /* of the refused one; "": unknown */
    int64_t base;
    tide_lake_collision with;
} tide_refusal;

typedef struct tide_refusals {
    pthread_mutex_t lock;
    tide_refusal kept[TIDE_REFUSALS_KEPT];
    uint64_t count;    /* ever; the newest is at (count - 1) % KEPT */
    int64_t logged_us; /* monotonic, of the last line */
    int64_t omitted;   /* since then */
} tide_refusals;

void tide_refusals_init(tide_refusals *refusals);
void tide_refusals_done(tide_refusals *refusals);
void tide_refusals_add(tide_refusals *refusals, const tide_refusal *refusal);
/* May a line be logged, at most ten a second? How many were left out since the last one; -1: not this one. */
int64_t tide_refusals_admit_line(tide_refusals *refusals, int64_t now_us);
/* The newest-th of them, copied; false: there are fewer. */
bool tide_refusals_get(tide_refusals *refusals, uint64_t newest, tide_refusal *out);
