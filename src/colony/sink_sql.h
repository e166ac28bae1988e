/* sink_sql.h - what the files of the SQL sink share: positions and gaps as rows.
 *
 *     sink_sql.c           open, load, lists, count, query, changes, retention
 *     sink_sql_position.c  a position as the columns of polling_checkpoints and its history
 *     sink_sql_rows.c      its rows, dead letters, frames and rollups
 *     sink_sql_gap.c       its gaps
 *
 * Threads: functions run inside of a closure of the store. */
#pragma once

#include "colony/sink.h"

/* Copy a column's text; what is too long for its place is cut. */
void tide_sink_sql_text(char *out, size_t size, tide_view text);
/* Bind a time where 0 means none, and read it back. */
void tide_sink_sql_bind_time(tide_query *query, const char *name, int64_t us);
int64_t tide_sink_sql_col_time(tide_query *query);

/* ---- positions ---- */

/* Bind all columns of a position under these numbers. */
TIDE_MUST_CHECK tide_status tide_sink_sql_bind_position(tide_query *query,
                                                        const tide_position *position,
                                                        int64_t source_id, int64_t version,
                                                        tide_error *err);
/* Read them from the current row, in the order of position_find, with the counts of its source. *out is initialised here, and holds nothing on
 * failure. TIDE_E_DAMAGED: its cursor or points are no such thing. */
TIDE_MUST_CHECK tide_status tide_sink_sql_read_position(tide_position *out, tide_query *query,
                                                        tide_error *err);

/* ---- applying ---- */

/* Rows, dead letters, frames of a change, and what follows from them, to the source of `of`. */
TIDE_MUST_CHECK tide_status tide_sink_sql_put_rows(tide_tx *tx, const tide_change *change,
                                                   const tide_position *of, int64_t source_id,
                                                   int64_t now_us, tide_error *err);

/* Gaps of a change. ids (as many as gaps): filled for those that are new. */
TIDE_MUST_CHECK tide_status tide_sink_sql_put_gaps(tide_tx *tx, const tide_change *change,
                                                   const tide_position *of, int64_t source_id,
                                                   int64_t now_us, int64_t *ids, tide_error *err);

/* ---- gaps ---- */

tide_status tide_sink_sql_gaps(tide_sink *sink, const tide_gap_filter *filter, tide_gap_fn *fn,
                               void *arg, tide_error *err);
tide_status tide_sink_sql_gap(tide_sink *sink, int64_t id, tide_gap *out, tide_error *err);

/* ---- looking up (repair/find_sql.c) ---- */

tide_status tide_sink_sql_absent(tide_sink *sink, const tide_position *which, tide_interval_fn *fn,
                                 void *arg, tide_error *err);
tide_status tide_sink_sql_trace(tide_sink *sink, const char *trace_id, tide_trace_fn *fn, void *arg,
                                tide_error *err);

/* ---- retention ---- */
