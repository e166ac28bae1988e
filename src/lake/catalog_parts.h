/* catalog_parts.h - what making and forking a catalog share; for the files of this folder alone. */
#pragma once

#include "base/backoff.h"
#include "lake/catalog.h"
#include "lake/change_parts.h"

typedef struct lake_making {
    const char *name;
    bool may_exist;
    const tide_lake_commit_options *options;
    const char *parent; /* of a fork */
    const char *at;
    int64_t parent_id;
    char uuid[37];  /* its own, and its token where the caller has no key */
    bool is_replay; /* the one that is there was made by this request */
    bool is_own;    /* and by this attempt */
    tide_lake_catalog there;
    int64_t parent_of_first;
    int64_t locked_head; /* the parent's, under its lock */
    tide_lake_created out;
} lake_making;

/* A UUID, the same for every attempt. */
void lake_making_init(lake_making *m, tide_lake *lake);
/* Is there one of that name? TIDE_NONE: no; otherwise out and is_replay are filled. */
TIDE_MUST_CHECK tide_status lake_catalog_there(tide_tx *tx, lake_making *m, tide_error *err);
TIDE_MUST_CHECK tide_status lake_catalog_exists(const lake_making *m, tide_error *err);
/* Its id, its UUID, and a head before the first snapshot. */
TIDE_MUST_CHECK tide_status lake_catalog_begin(tide_tx *tx, lake_making *m, tide_error *err);
/* Its own rows and its first snapshot, deferred. */
TIDE_MUST_CHECK tide_status lake_catalog_finish(tide_tx *tx, lake_making *m, const char *changes,
                                                const char *marks, tide_error *err);
TIDE_MUST_CHECK tide_status lake_catalog_try(tide_lake *lake, tide_tx_fn *fn, lake_making *m,
                                             tide_error *err);
