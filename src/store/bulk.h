/* bulk.h - many rows of one statement at the speed of the engine.
 *
 *     begin ---- row, row, row ... ---- end          one transaction of the caller's
 *         \______ drop: given up, and the transaction is doomed
 *
 *     sqlite_bulk.c  one prepared statement: bind without copies, step, reset
 *     pg_bulk.c      COPY ... FROM STDIN (FORMAT binary), sent in pieces of 256 KiB
 *
 * The statement stands in sql/ with one variant per engine, `bulk: sqlite` (INSERT ... VALUES) and
 * `bulk: postgres` (COPY), which list the same columns in the same order. Values go by position,
 * and their kinds fix the columns' types on PostgreSQL:
 *
 *     I64 bigint   F64 double precision   BOOL boolean   TEXT text   BLOB bytea   TIME timestamptz
 *
 * Between begin and end no other statement may run in the transaction: on PostgreSQL the connection
 * is busy copying.
 *
 * A bad row may be reported by tide_bulk_row or, because rows travel together, only by a later one
 * or by tide_bulk_end; in any case the transaction is doomed then and nothing of it is kept.
 *
 * Survives: as the transaction it is part of. Threads: as its tide_tx. Memory: 256 KiB and the
 * longest row. */
#pragma once

#include "store/engine.h"

enum { TIDE_BULK_BUFFER_LEN = 256 << 10 };

/* sql is a bulk statement (is_bulk); the transaction writes. */
TIDE_MUST_CHECK tide_status tide_bulk_begin(tide_bulk **out, tide_tx *tx, const tide_sql *sql,
                                            tide_error *err);

/* Values are borrowed for the call; there are as many as the statement has columns (a bug
 * otherwise). Texts are UTF-8 without NUL: who does not know that, checks (base/text/utf8.h).
 * TIDE_E_INVALID: a time outside the years 1 to 9999, ... */
TIDE_MUST_CHECK tide_status tide_bulk_row(tide_bulk *bulk, const tide_sql_value *values, int count,
                                          tide_error *err);

/* *rows (may be NULL): how many were written. *handle is gone afterwards, whatever is returned. */
TIDE_MUST_CHECK tide_status tide_bulk_end(tide_bulk **handle, int64_t *rows, tide_error *err);

/* Fits TIDE_CLEANUP: what was not ended is given up, and dooms the transaction. */
void tide_bulk_dropp(tide_bulk **handle);
