/* catalog.h - catalogs are made, forked and dropped.
 *
 * A new catalog begins with one snapshot, which holds the schema main. A fork begins with one snapshot of its own whose state is that of its parent at the
 * fork's snapshot: no rows are copied (lake_ancestor), files are shared. Both are isolated from then on. The parent's snapshot stays pinned. A parent
 * that is dropped is hidden until no fork needs it.
 *
 * Names are unique among live catalogs; two who create one name at once: one gets it, the other TIDE_E_EXISTS (told by the constraint's name). With a request
 * key the second answer is the first's. Survives: one transaction each. */
#pragma once

#include "lake/change.h"

typedef struct tide_lake_created {
    int64_t catalog_id;
    int64_t snapshot_id;
    int64_t parent_snapshot_id; /* of a fork: the parent's; otherwise 0 */
    bool was_there;             /* may_exist, or a replay */
} tide_lake_created;

/* may_exist: fine when there is one of that name. */
TIDE_MUST_CHECK tide_status tide_lake_create_catalog(tide_lake *lake, const char *name,
                                                     bool may_exist,
                                                     const tide_lake_commit_options *options,
                                                     tide_lake_created *out, tide_error *err);
/* at: as tide_lake_find_snapshot; "" the head at the moment of the fork, taken under the parent's head lock so that it is exactly one snapshot. */
TIDE_MUST_CHECK tide_status tide_lake_fork(tide_lake *lake, const char *parent, const char *child,
                                           const char *at, const tide_lake_commit_options *options,
                                           tide_lake_created *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_drop_catalog(tide_lake *lake, const char *name,
                                                   tide_error *err);

/* ---- pins (pin.c): who reads or builds on a snapshot ---- */

typedef struct tide_lake_pin {
    char id[37];
    int64_t catalog_id;
    int64_t snapshot_id;
    int64_t expires_at_us;
} tide_lake_pin;
TIDE_MUST_CHECK tide_status tide_lake_pin_take(tide_lake *lake, int64_t catalog_id,
                                               int64_t snapshot, const char *holder,
                                               int64_t lease_us, tide_lake_pin *out,
                                               tide_error *err);
/* TIDE_E_LEASE_LOST: it ran out. */
TIDE_MUST_CHECK tide_status tide_lake_pin_renew(tide_lake *lake, tide_lake_pin *pin,
                                                int64_t lease_us, tide_error *err);
/* The holder of the pin deletes rows of a table, and appenders let it go first for so long. */
TIDE_MUST_CHECK tide_status tide_lake_pin_ask_turn(tide_lake *lake, const tide_lake_pin *pin,
                                                   int64_t table_id, int64_t turn_us,
                                                   tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_pin_find_turn(tide_lake *lake, int64_t table_id,
                                                    bool *is_asked, tide_error *err);
TIDE_MUST_CHECK tide_status tide_lake_pin_release(tide_lake *lake, const tide_lake_pin *pin,
                                                  tide_error *err);
