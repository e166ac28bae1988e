/* foreign_triggers.h - triggers of an application's tables, run for rows that we write.
 *
 * Our connections fire no triggers of the file (foreign_db.h): the effect of a trigger on
 * replicated tables arrives from the node where it ran. Full-text indexes, counters and audit
 * tables that are not replicated have no other source than the trigger. SQLite fires TEMP triggers
 * also where those of the file are off, so the writer's connection has a TEMP copy of each trigger
 * that may run:
 *
 *     runs     writes tables that are not tracked, and nothing else
 *     off      writes tracked tables alone, or nothing (it only refuses rows, which was its part at
 *              the row's origin)
 *     mixed    writes both, or refuses rows and writes: neither to run nor to leave out
 *     unknown  needs a function or a module that our SQLite does not have
 *
 * What a trigger writes is what SQLite's authorizer reports of it when a write of its table is
 * prepared. A view's INSTEAD OF triggers count as parts of those that write the view. Triggers of a
 * table that a copy writes are copied, too, and judged by themselves.
 *
 * A copy that fails does not keep a row of a peer out: the row is written without it, and the
 * failure is reported (tide_foreign_trigger_failure).
 *
 * Survives: copies live as long as the connection. Threads: as the write transaction. */
#pragma once

#include "store/foreign/foreign_db.h"

typedef enum tide_trigger_kind {
    TIDE_TRIGGER_RUNS,
    TIDE_TRIGGER_OFF,
    TIDE_TRIGGER_MIXED,
    TIDE_TRIGGER_UNKNOWN,
} tide_trigger_kind;

typedef bool tide_foreign_tracked_fn(void *arg, const char *table);

/* Make the copies that the file's schema asks for. Costs one comparison of the schema's version
 * while that stays. Takes no effect in a read transaction. */
TIDE_MUST_CHECK tide_status tide_foreign_copy_triggers(tide_foreign_tx *tx,
                                                       tide_foreign_tracked_fn *is_tracked,
                                                       void *arg, tide_error *err);

/* Of the triggers that writes of tracked tables would fire, the first one that is mixed or unknown,
 * in words; TIDE_NONE: there is none. After tide_foreign_copy_triggers. */
TIDE_MUST_CHECK tide_status tide_foreign_trigger_problem(tide_foreign_tx *tx, char *out,
                                                         size_t size, tide_error *err);

/* What the last copy that failed said, once; false: none did since. */
bool tide_foreign_trigger_failure(tide_foreign_tx *tx, char *out, size_t size);

/* Run a write of one row; where a copy of a trigger fails, again without copies. As
 * tide_foreign_run. */
TIDE_MUST_CHECK tide_status tide_foreign_run_row(tide_foreign_query *query, tide_error *err);

/* For writes that are undone: no copies run until it is set to false. */
void tide_foreign_mute_triggers(tide_foreign_tx *tx, bool is_muted);
