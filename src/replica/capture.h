/* capture.h - how writes of any SQLite program come into the log: triggers that only append (node.h, track).
 *
 *     AFTER INSERT, DELETE, UPDATE     a row of tide_replica_seq, in the writer's own transaction: its number, and what the row is. What a
 *                                      table of many columns wrote stands in tide_wide_<id> beside the number; tide_log_<id> shows either
 *     BEFORE INSERT, UPDATE            only where the table has further unique keys: rows that a REPLACE could remove are noted in
 *                                      tide_gone_<id>. With foreign keys, also the row that has the key which another takes
 *
 * Beside it the time of the write, as the program's SQLite has it (julianday): events are ordered by when they were written, not by when they were found.
 *
 * A row image is logged, not a statement: whatever random(), now() or AUTOINCREMENT gave. An update logs the columns that changed, bit for
 * bit. The sign of a zero in a column without a type cannot be seen in SQL, and of the lowest integer and the REAL that is equal to it only dearly: these
 * are logged always, and fold compares them with the print.
 *
 * REPLACE removes rows without firing their DELETE triggers (unless recursive_triggers is on). A row with the same key is simply created anew. Rows
 * that it removes by another unique key were noted before; when the log is folded, those of them that do not stand in the table become deletes.
 * That they are settled there, not by an AFTER trigger, makes it right in every nesting: INSERT OR IGNORE leaves notes behind that no
 * AFTER trigger would see, and triggers of the application may write to the same table between ours.
 *
 * Survives: a crash at any point; notes, numbers and log rows belong to the writer's transaction.
 * Threads: as the transaction. */
#pragma once

#include "replica/node.h"

/* At the start of a fold, in its write transaction: notes become deletes of the log, and replication_meta is brought up to date. */
TIDE_MUST_CHECK tide_status tide_capture_settle(tide_foreign_tx *tx, tide_error *err);

/* ---- shared by capture.c, check.c, rescan.c ---- */

/* Triggers, log and record of a table as they shall be from now on. The log must be empty unless the columns stay or are only added to. */
TIDE_MUST_CHECK tide_status tide_capture_install(tide_foreign_tx *tx, tide_table *table,
                                                 int64_t retain_us, tide_error *err);
/* Its parts. The log is made anew, and empty. */
TIDE_MUST_CHECK tide_status tide_capture_unhook(tide_foreign_tx *tx, const tide_table *table,
                                                tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_make_log(tide_foreign_tx *tx, const tide_table *table,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_drop_log(tide_foreign_tx *tx, const tide_table *table,
                                                  tide_error *err);
/* Notes of rows that do not stand in the table become deletes of its log. recorded: what the log's columns are; live: how rows are found. */
TIDE_MUST_CHECK tide_status tide_capture_settle_gone(tide_foreign_tx *tx,
                                                     const tide_table *recorded,
                                                     const tide_table *live, tide_error *err);
/* The record alone. */
TIDE_MUST_CHECK tide_status tide_capture_record(tide_foreign_tx *tx, const tide_table *table,
                                                int64_t retain_us, tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_remove(tide_foreign_tx *tx, const tide_table *table,
                                                tide_error *err);

/* Are all triggers there, and as they would be made for this table? */
TIDE_MUST_CHECK tide_status tide_capture_look(tide_foreign_tx *tx, const tide_table *table,
                                              bool *is_whole, tide_error *err);

/* Are there no captured changes that wait to be folded? */
TIDE_MUST_CHECK tide_status tide_capture_is_folded(tide_foreign_tx *tx, const tide_table *table,
                                                   bool *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_fold_all(tide_node *node, tide_error *err);

/* Log a change that no trigger saw. values: one per stored column; is_written: of an update, one per stored column; NULL: all. */
TIDE_MUST_CHECK tide_status tide_capture_log(tide_foreign_tx *tx, const tide_table *table,
                                             tide_change_kind kind, const tide_sql_value *values,
                                             const bool *is_written, tide_error *err);

/* A row that a scan found gone: only its key is known. */
TIDE_MUST_CHECK tide_status tide_capture_log_gone(tide_foreign_tx *tx, const tide_table *table,
                                                  const tide_sql_value *values, tide_error *err);
/* The same for a change that has its number already; a row of the log. */
TIDE_MUST_CHECK tide_status tide_capture_log_put(tide_foreign_tx *tx, const tide_table *table,
                                                 const tide_log_row *row, tide_error *err);

/* Compare a table with its clocks, in bounded transactions, and log the difference: rows without a clock, clocks without a row, columns whose
 * prints are others. */
TIDE_MUST_CHECK tide_status tide_capture_rescan(tide_foreign_db *file, const char *table,
                                                int64_t *found, tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_scan_wanted(tide_foreign_tx *tx, int64_t table_id,
                                                     bool *out, tide_error *err);
TIDE_MUST_CHECK tide_status tide_capture_want_scan(tide_foreign_tx *tx, int64_t table_id,
                                                   tide_error *err);

/* import.c: a table <table>_Events of the replication document's own kind is renamed, to be imported; the view of that name is made. */
TIDE_MUST_CHECK tide_status tide_capture_take_events(tide_foreign_tx *tx, const tide_table *table,
                                                     tide_error *err);
/* Events of such a table are taken over as history, in bounded transactions; what an earlier call has left is gone on with. *imported: how many. */
TIDE_MUST_CHECK tide_status tide_capture_import(tide_foreign_db *file, const char *table,
                                                int64_t *imported, tide_error *err);

/* check.c: one table. What is found is added to *out. */
TIDE_MUST_CHECK tide_status tide_capture_check(tide_node *node, const char *table,
                                               tide_capture_found *out, tide_error *err);
/* Is the table's key still the recorded one? As tide_table_read. */
TIDE_MUST_CHECK tide_status tide_capture_fits(bool *out, const tide_table *recorded,
                                              tide_foreign_tx *tx, tide_error *err);
/* Tables that the application has renamed are known by their new names from now on. Before their logs are read. */
TIDE_MUST_CHECK tide_status tide_capture_follow(tide_foreign_tx *tx, tide_error *err);

/* capture.c: track inside a transaction of the caller, a table that is not tracked and has no rows. */
TIDE_MUST_CHECK tide_status tide_capture_track_empty(tide_foreign_tx *tx, const char *table,
                                                     int64_t retain_us, tide_error *err);

/* Triggers of the application beside what peers wrote (store/foreign/foreign_triggers.h).
 *
 * Threads: as the transaction. */

/* Before rows of peers are written: copies of the triggers that may run for them. */
TIDE_MUST_CHECK tide_status tide_triggers_copy(tide_foreign_tx *tx, tide_error *err);

/* TIDE_E_UNSUPPORTED: writes of tracked tables fire a trigger that can neither run here nor be left
 * out; err has the reason. */
TIDE_MUST_CHECK tide_status tide_triggers_check(tide_foreign_tx *tx, tide_error *err);
