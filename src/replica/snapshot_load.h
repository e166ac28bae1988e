/* snapshot_load.h - rows of a snapshot into a node that has none: as they are. The maker has resolved them; with the same constraints they stand together
 * here as they stood there, in any order.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/snapshot_parts.h"

/* *written: rows of tables. TIDE_E_EXISTS, TIDE_E_INVALID: the table here refuses it. */
TIDE_MUST_CHECK tide_status tide_snapshot_load_row(tide_foreign_tx *tx,
                                                   const tide_snapshot_target *target,
                                                   const tide_snapshot_row *row, int64_t *written,
                                                   tide_error *err);
