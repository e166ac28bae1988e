/* sink_duckdb.h - what the files of the DuckDB sink share.
 *
 * Everything is appended (sql/duckdb_colony.sql): rows, and with them, in the same transaction, the next state of the position and of the
 * gaps that changed. The newest state of a source counts. So a crash at any point leaves rows, positions and gaps together, or
 * nothing of them; DuckDB replays its log when the file is opened next.
 *
 * The current positions are kept in memory too (about 2 KB each), read at open. A change is compared with them under the database's lock
 * (tide_duckdb_lock), which makes compare-and-set of one version out of it: DuckDB admits one process, so nobody else can have moved them. A
 * commit whose outcome is unknown makes them stale, and they are read again before they are used.
 *
 * Leases live in the SQLite store beside the file, and so cannot be part of DuckDB's transaction: the lease is checked right before
 * the commit. A holder that loses it in between is a thread of this same process, and its change still has to be
 * in place of the version it was made from: it is late, but neither twice nor out of order.
 *
 * What clean-up takes away (rows, ended gaps) is booked in source_folds by the transaction that takes it, so that the ledger balances at any time. It
 * does not raise a position's version: pollers are not disturbed. */
#pragma once

#include "base/buffer.h"
#include "base/cleanup.h"
#include "colony/sink.h"
#include "store/duckdb/duckdb.h"

enum {
    TIDE_DUCK_TABLE_SIZE = 64,
    TIDE_SINK_DUCKDB_FORMAT = 1, /* of colony_format */
    TIDE_SINK_DUCKDB_SUPERSEDED_MAX =
        20000, /* rows that say what is no longer so, before they are removed */
};

typedef struct tide_duck_sink {
    tide_sink base; /* first */
    tide_duckdb *db;
    tide_duck *writer;         /* under tide_duckdb_lock, as all that follows */
    tide_position **positions; /* current ones, by agent and type */
    int count;
    int64_t last_source_id; /* highest ever given */
    int64_t last_gap_id;
    int64_t superseded_max; /* TIDE_SINK_DUCKDB_SUPERSEDED_MAX; tests have less */
    bool is_stale;          /* the memory may not be what is on disk */
} tide_duck_sink;

static inline tide_duck_sink *tide_duck_sink_of(tide_sink *sink)
{
    return (tide_duck_sink *)sink;
}

/* ---- memory; the caller holds the lock ---- */

/* Make it what is on disk, if it may not be. */
TIDE_MUST_CHECK tide_status tide_duck_sink_refresh(tide_duck_sink *sink, tide_error *err);
/* NULL: there is none. */
tide_position *tide_duck_sink_find(tide_duck_sink *sink, const char *agent_id,
                                   const char *data_type);
/* Room for one more, so that putting cannot fail. */
TIDE_MUST_CHECK tide_status tide_duck_sink_reserve(tide_duck_sink *sink, tide_error *err);
/* In place of the one of its agent and type; taken over. */
void tide_duck_sink_put(tide_duck_sink *sink, tide_position *position);
void tide_duck_position_free(tide_position *position); /* takes NULL */
TIDE_CLEANUP_FN(tide_duck_position_freep, tide_position, tide_duck_position_free)

/* ---- states as rows ---- */

/* Why a state is written. */
typedef struct tide_duck_event {
    bool is_current;   /* it is the one of its agent and type */
    const char *event; /* closed, reopened, noted: history; "": an ordinary step */
    const char *note;
    int64_t at_us;
} tide_duck_event;

TIDE_MUST_CHECK tide_status tide_duck_put_state(tide_duck_appender *out,
                                                const tide_position *position,
                                                const tide_duck_event *event, tide_error *err);
/* A row of colony_states_current or colony_states_list, up to folded_recovered; *out is initialised by it. */
TIDE_MUST_CHECK tide_status tide_duck_read_state(tide_duck_query *row, tide_position *out,
                                                 tide_error *err);
void tide_duck_put_gap(tide_duck_appender *out, const tide_gap *gap, int64_t revision);
/* A row of colony_gaps_*. */
TIDE_MUST_CHECK tide_status tide_duck_read_gap(tide_duck_query *row, tide_gap *out,
                                               tide_error *err);

/* ---- records as rows ---- */

/* Which table holds the rows of a type: spans_rows. */
void tide_duck_rows_table(char out[TIDE_DUCK_TABLE_SIZE], const tide_colony_type *type);

/* Which statement removes those that were stored before :before. */
const tide_sql *tide_duck_expire_statement(tide_stream_kind kind);

/* Append records to their table, and what they add to the rollups. */
TIDE_MUST_CHECK tide_status tide_duck_put_records(tide_duck *duck, const tide_position *position,
                                                  const tide_change *change, int64_t now_us,
                                                  tide_error *err);

/* ---- the operations ---- */

tide_status tide_duck_sink_apply(tide_sink *base, tide_change *change, tide_error *err);
tide_status tide_duck_sink_positions(tide_sink *base, const char *agent_id, const char *data_type,
                                     bool with_closed, tide_position_fn *fn, void *arg,
                                     tide_error *err);
tide_status tide_duck_sink_gaps(tide_sink *base, const tide_gap_filter *filter, tide_gap_fn *fn,
                                void *arg, tide_error *err);
tide_status tide_duck_sink_absent(tide_sink *base, const tide_position *which, tide_interval_fn *fn,
                                  void *arg, tide_error *err);
tide_status tide_duck_sink_trace(tide_sink *base, const char *trace_id, tide_trace_fn *fn,
                                 void *arg, tide_error *err);
tide_status tide_duck_sink_gap(tide_sink *base, int64_t id, tide_gap *out, tide_error *err);
tide_status tide_duck_sink_count(tide_sink *base, const tide_position *which, tide_position_fn *fn,
                                 void *arg, int64_t *rows, int64_t *dead, tide_error *err);
tide_status tide_duck_sink_retain(tide_sink *base, int64_t gap_keep_us, tide_retained *out,
                                  tide_error *err);
tide_status tide_duck_sink_query(tide_sink *base, const tide_sink_query *query,
                                 const tide_sink_rows *rows, tide_error *err);
