/* limit.h - limits of how many items run at once, of a type and of each limit key of a type.
 *
 *     work_limits    what is allowed; a claim of the type holds its row until it commits
 *     work_running   slots in use: an entry per claim. The item's row decides: a slot whose item is not
 *                    in progress is free, whoever ended it (the library, plain SQL, the sweep that found its
 *                    lease over, a delete)
 *
 * A claim of a type without a limit reads neither. A type with one is left out by the statements of
 * claim.c on PostgreSQL; there, and on SQLite whenever the store has a limit, claims come here: the
 * limits are locked, the slots in use counted, and no more items claimed than there are slots left.
 * Where there are none, slots that are free again are deleted first.
 *
 * Plain SQL that claims items is counted and not limited.
 *
 * Survives: a crash at any point. A worker's slot ends with its lease.
 * Threads: as safe as the tide_tx. */
#pragma once

#include "work/turn/turn.h"

/* Limits that a transaction holds. */
typedef struct tide_limits {
    int count;
    bool has_keys;      /* one of them is per key */
    tide_buffer locked; /* their types, a JSON list */
} tide_limits;

void tide_limits_init(tide_limits *limits);
void tide_limits_done(tide_limits *limits);

/* Lock the limits of the types of a claim. count 0: none of them has one. */
TIDE_MUST_CHECK tide_status tide_limits_lock(tide_limits *limits, tide_tx *tx,
                                             const tide_work_claim_request *request,
                                             tide_error *err);
/* Delete slots that are free again; adds to *count. */
TIDE_MUST_CHECK tide_status tide_limits_prune(const tide_limits *limits, tide_tx *tx,
                                              int64_t *count, tide_error *err);
/* The slots of what was claimed. */
TIDE_MUST_CHECK tide_status tide_limits_occupy(tide_tx *tx, const tide_work_claims *claims,
                                               tide_error *err);

/* Why a pending item does not run: its type, or its key, has no slot left. */
typedef struct tide_limit_state {
    int64_t running;         /* the limit; 0: none */
    int64_t running_per_key; /* 0: none */
    int64_t used;            /* items of the type that are in progress */
    int64_t used_of_key;
    char key[TIDE_WORK_LIMIT_KEY_MAX + 1]; /* "": none */
} tide_limit_state;
/* TIDE_NONE: its type has no limit. */
TIDE_MUST_CHECK tide_status tide_limit_explain(tide_limit_state *out, tide_tx *tx, const char *id,
                                               tide_error *err);
