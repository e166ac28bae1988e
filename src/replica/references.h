/* references.h - foreign keys between tracked tables: which of them hold rows back.
 *
 * SQLite enforces foreign keys only for programs that ask for it. Whether a reference holds rows back
 * here depends on events alone, never on a setting of a node:
 *
 *     enforced   a row whose parent is missing is kept out of its table (resolve.h, rule 3)
 *     loose      an application has committed an orphan itself: a row without its parent. From then
 *                on the reference holds nothing back, on any node
 *
 * That a reference became loose is an event (event.h, is_orphan) of the node whose application did
 * it, so nodes with the same events enforce the same references. It is never undone. A reference is
 * known by its table and the names of its columns (tide_replica_loose).
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"
#include "replica/log.h"
#include "replica/quarantine.h"
#include "replica/sync.h"

/* Set is_loose of the row set's references. */
TIDE_MUST_CHECK tide_status tide_references_load(tide_desk *desk, tide_error *err);

/* Has the row all parents that enforced references demand? */
TIDE_MUST_CHECK tide_status tide_references_hold(bool *out, tide_desk *desk,
                                                 const tide_desk_row *row, tide_error *err);
/* Rows in tables that referred to these values of a row that has left, or has other ones now. Where
 * they cannot be found by value, the reference is marked (is_touched) instead. */
TIDE_MUST_CHECK tide_status tide_references_children(tide_found *out, tide_desk *desk,
                                                     const tide_table *child, int reference,
                                                     const tide_table *parent,
                                                     const tide_sql_value *values,
                                                     const tide_sql_value *now, tide_error *err);
/* All orphans of a reference. */
TIDE_MUST_CHECK tide_status tide_references_orphans(tide_found *out, tide_desk *desk,
                                                    const tide_table *child, int reference,
                                                    tide_error *err);

/* Ingest: an application has written the rows of the set that are changed. References that it broke,
 * and touched ones that are broken, become loose. With is_refer_wanted touched ones do so only if
 * clocks show that it was an application of this node, and stay touched: what a peer's event left
 * without its parent is held back (resolve.h). */
TIDE_MUST_CHECK tide_status tide_references_judge(tide_desk *desk, tide_error *err);
/* Make events of references that became loose here. */
TIDE_MUST_CHECK tide_status tide_references_report(tide_desk *desk, tide_log_origin *origin,
                                                   tide_error *err);
/* Such an event of a peer. *why: as tide_quarantine_merge. */
TIDE_MUST_CHECK tide_status tide_references_apply(tide_hold *why, tide_desk *desk,
                                                  const tide_table *table, const tide_event *event,
                                                  tide_error *err);

/* The loose references of a table, for a snapshot; and those that a snapshot brings. here: the table
 * of this node; id 0: there is none. */
TIDE_MUST_CHECK tide_status tide_references_list(tide_foreign_tx *tx, int64_t table_id,
                                                 tide_peer_table *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_references_learn(tide_foreign_tx *tx, const tide_peer_table *told,
                                                  const tide_table *here, tide_error *err);

/* Columns of a table were renamed or dropped. map: as tide_schemas_follow. */
TIDE_MUST_CHECK tide_status tide_references_follow(tide_foreign_tx *tx, const tide_table *before,
                                                   const tide_table *after, const int *map,
                                                   tide_error *err);
