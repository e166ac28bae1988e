/* sink.h - where a colony keeps what it has collected: rows, positions, gaps, in one transaction.
 *
 *     sink_sql*.c     SQLite and PostgreSQL: the tables of a tide_store
 *     sink_duckdb*.c  DuckDB: append-only tables, newest states read back
 *
 * Promise: tide_sink_apply carries out a whole change durably or nothing of it. It is refused (TIDE_E_CONFLICT) unless the
 * position still has the version that the change was made from, and (TIDE_E_LEASE_LOST) unless its lease is still held. Outcome
 * unknown: load the position again and look at its version; applying the same change again is refused, never done twice.
 *
 * One transaction; where the process (or the server, or the power) may die:
 *
 *     lease checked, source named         nothing has happened; the position stands where it was
 *     position moved by compare-and-set   not seen by anybody before the commit; from here on other appliers of this position wait (PostgreSQL)
 *     rows, dead letters, frames, gaps, history, batch, rollup
 *                                         the same: whatever fails or dies here takes everything back, and the page is asked for again
 *     commit sent, no answer              outcome unknown: the version tells. Either all of it is there, or nothing
 *     commit answered                     all of it is on disk; a crash before the agent hears of it repeats a page whose rows are recognised
 *
 * An applier may be run again by the store (a lost connection, a deadlock, a group taken apart): it keeps nothing of an earlier run, and what it
 * fills in of the change is filled in after the commit alone.
 *
 * Positions: a change whose `to` is closed (recovery of a closed position's gaps) is applied to the closed one, found by source and version. One
 * that begins on a source which has a closed position is refused (TIDE_E_CONFLICT) unless it opens that one again (tide_settle_return:
 * to.source_id is its source). When an agent is removed its last position is closed like any other; load then tells a fresh one with a
 * version, and what is applied to it takes the old one's place.
 *
 * Counts of retention and clean-up (expired, folded_*) are told by load and positions, and not written by apply: they have their own place, so
 * that they do not get into the way of a version.
 *
 * Tables that everybody may read (SQL names are the same in all stores; on SQLite and PostgreSQL the row tables are views
 * over <table>_rows joined with polling_sources, so that agent and session are not repeated in every row):
 *
 *     polling_checkpoints          current positions: agent_id, data_type, session_id, last_seq_id, last_poll_time, created_at,
 *                                  updated_at; ours: epoch, first_seq_id, highest_seq_id, head_seq_id, holes, stored, dead, ...
 *     polling_checkpoint_history   closed ones, and what operators did
 *     sequence_gaps                id, agent_id, data_type, start_seq_id, end_seq_id, detected_at, recovered_at, status,
 *                                  recovery_attempts, last_recovery_attempt; ours: session_id, epoch, reason, evidence
 *     dead_letters                 agent_id, data_type, session_id, epoch, seq_id, reason, body, stored_at
 *     spans, system_metrics, ...   agent_id, session_id, epoch, seq_id, the type's columns; timestamp is a time of the engine
 *     profile_frames               agent_id, session_id, frame_id, frame_name
 *     colony_agents                registry.h
 *     spans_1m, ebpf_*_1m          rollups: minute, agent_id, service_name, count, errors, p50_ms, p95_ms, p99_ms
 *     polling_batches              source_id, target, first_seq, last_seq, rows, stored_at, chain: what one change stored
 *
 * Values: text that is not UTF-8, or has a NUL in it, is stored with U+FFFD in those places; a time outside the years 1 to 9999 as the nearest inside; a
 * NaN on SQLite as NULL. Attributes and stack_frame_ids are JSON text; stack_hash has no sign (numeric, decimal text on SQLite).
 *
 * Rollups (rollup.h) are kept as counts per (minute, agent, service, bucket) of a histogram whose bounds grow by 2 %; a change adds to them in its own
 * transaction, so rows that come late or are recovered are in them, once. They outlive the rows, by 90 days.
 *
 * Retention: rows go by the batch that stored them, dead letters 30 days after they were stored. Gap records that ended are cleaned up, their widths
 * folded into the counts first: the ledger balances before and after.
 *
 * Threads: a sink may be used from any thread. DuckDB admits one process. */
#pragma once

#include <tidemark/store.h>

#include "base/sql_value.h"
#include "colony/settle.h"

typedef struct tide_sink tide_sink;

/* Called per row; a failure ends the listing and is returned. The argument is borrowed for the call. */
typedef tide_status tide_position_fn(void *arg, const tide_position *position,
                                     const tide_gap_sums *gaps, tide_error *err);
typedef tide_status tide_gap_fn(void *arg, const tide_gap *gap, tide_error *err);

typedef struct tide_gap_filter {
    const char *agent_id; /* NULL: all */
    const char *data_type;
    const char *session_id;
    int64_t epoch;     /* -1: all */
    uint32_t statuses; /* bits 1 << tide_gap_status; 0: all */
    int64_t first_seq; /* those that touch first_seq .. last_seq; last_seq 0: all */
    int64_t last_seq;
    int64_t after_id; /* keyset */
    int64_t limit;    /* 0: 1,000; at most TIDE_SINK_GAPS_MAX */
} tide_gap_filter;

enum { TIDE_SINK_GAPS_MAX = 10000 };

enum {
    TIDE_SINK_ABSENT_MAX = 20000, /* intervals of one look */
    TIDE_SINK_TRACE_MAX = 10000,  /* rows of one trace */
};

/* Numbers of a stored batch that have no row and no dead letter. */
typedef tide_status tide_interval_fn(void *arg, tide_interval absent, tide_error *err);

/* A row of spans, ebpf_traces or logs. Texts are borrowed for the call; "": none. */
typedef struct tide_trace_row {
    int64_t index;    /* 0: the first; the read may begin again */
    tide_view source; /* the table */
    tide_view agent_id;
    tide_view session_id;
    int64_t epoch;
    int64_t seq;
    int64_t time_us;
    tide_view span_id;
    tide_view parent_span_id;
    tide_view service_name;
    tide_view name; /* of the span; of a log its body */
    tide_view kind; /* of the span; of a log its severity */
    int64_t duration_us;
    bool is_error;
    tide_view attributes; /* JSON */
} tide_trace_row;
/* Called inside of the read. */
typedef tide_status tide_trace_fn(void *arg, const tide_trace_row *row, tide_error *err);

typedef struct tide_retained {
    int64_t rows;
    int64_t batches;
    int64_t dead;    /* dead letters */
    int64_t gaps;    /* folded into their positions */
    int64_t next_us; /* when to come again, from now; 0: there is more to do */
} tide_retained;

enum { TIDE_SINK_QUERY_ROWS = 10000 }; /* of a query that names no number */

typedef struct tide_sink_query {
    const char *sql;    /* one statement that only reads */
    int64_t row_max;    /* 0: TIDE_SINK_QUERY_ROWS */
    int64_t timeout_us; /* 0: 30 s */
    int64_t bytes_max;  /* of the answer; 0: 64 MiB */
    int cancel_fd;      /* PostgreSQL: readable when the caller has left; 0: none */
} tide_sink_query;

typedef struct tide_sink_rows {
    /* Once, before the rows. */
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    tide_status (*row)(void *arg, const tide_sql_value *cells, int count, tide_error *err);
    void *arg;
} tide_sink_rows;

typedef struct tide_sink_ops {
    const char *name; /* sqlite, postgres, duckdb */
    void (*close)(tide_sink *sink);

    /* The current position; of an unknown one the initialised one (version 0). Held holes are aged from now. */
    tide_status (*load)(tide_sink *sink, const char *agent_id, const char *data_type,
                        tide_position *out, tide_error *err);
    /* Fills source_id and version of `to` and `closed`, and the ids of new gaps. TIDE_E_CONFLICT: also when a gap that shall be changed is gone.
     * TIDE_E_EXISTS: a session begins that another agent has, or had, which was not removed. */
    tide_status (*apply)(tide_sink *sink, tide_change *change, tide_error *err);

    /* Ascending by agent, data type, source; each with the sums of its gaps, of one snapshot. fn may use the sink. */
    tide_status (*positions)(tide_sink *sink, const char *agent_id, const char *data_type,
                             bool with_closed, tide_position_fn *fn, void *arg, tide_error *err);
    /* Ascending by id. fn may use the sink. */
    tide_status (*gaps)(tide_sink *sink, const tide_gap_filter *filter, tide_gap_fn *fn, void *arg,
                        tide_error *err);
    tide_status (*gap)(tide_sink *sink, int64_t id, tide_gap *out, tide_error *err); /* TIDE_NONE */

    /* For the audit: rows that are really there (expired ones are not), and dead letters with a number, expired ones included; and the position that
     * they are of, all of one snapshot: others may go on storing. fn (may be NULL) is called once, after it, with `which` as it was then. TIDE_NONE: it is
     * not there any more. */
    tide_status (*count)(tide_sink *sink, const tide_position *which, tide_position_fn *fn,
                         void *arg, int64_t *rows, int64_t *dead, tide_error *err);

    /* Ascending; at most TIDE_SINK_ABSENT_MAX. fn may use the sink. */
    tide_status (*absent)(tide_sink *sink, const tide_position *which, tide_interval_fn *fn,
                          void *arg, tide_error *err);
    /* Ascending by time. */
    tide_status (*trace)(tide_sink *sink, const char *trace_id, tide_trace_fn *fn, void *arg,
                         tide_error *err);

    /* One bounded turn: rows older than their type's keep_us (or the sink's), gaps that ended longer ago than gap_keep_us. */
    tide_status (*retain)(tide_sink *sink, int64_t gap_keep_us, tide_retained *out,
                          tide_error *err);

    /* TIDE_E_LIMIT: there is more than row_max or bytes_max; what came before was handed over. TIDE_E_TIMEOUT, TIDE_E_DENIED: it would not
     * only read, TIDE_E_INVALID: no SQL, or more than one statement. */
    tide_status (*query)(tide_sink *sink, const tide_sink_query *query, const tide_sink_rows *rows,
                         tide_error *err);
} tide_sink_ops;

struct tide_sink {
    const tide_sink_ops *ops;
    tide_store
        *store; /* registry, leases, work: the sink's own tables are here too, except of DuckDB */
    tide_env *env;
    int64_t
        keep_us; /* rows of every type at most so long; 0: as their types say. Whoever opened it may set it, before it is used */
};

/* How long rows of a type are kept in a sink. */
static inline int64_t tide_sink_keep_us(const tide_sink *sink, int64_t type_keep_us)
{
    return sink->keep_us > 0 && sink->keep_us < type_keep_us ? sink->keep_us : type_keep_us;
}

/* On the tables of a store (SQLite, PostgreSQL), which stays the caller's. */
TIDE_MUST_CHECK tide_status tide_sink_open_sql(tide_sink **out, tide_store *store, tide_error *err);
/* On a DuckDB file; store holds the rest: a SQLite file beside it. library: path of libduckdb.so, NULL: where it is usually. */
TIDE_MUST_CHECK tide_status tide_sink_open_duckdb(tide_sink **out, tide_store *store,
                                                  const char *path, const char *library,
                                                  tide_error *err);
void tide_sink_close(tide_sink *sink); /* takes NULL */
void tide_sink_closep(tide_sink **sink);

/* The ops by name, so that callers read well; those that TIDE_TRY. */
static inline tide_status tide_sink_load(tide_sink *sink, const char *agent_id,
                                         const char *data_type, tide_position *out, tide_error *err)
{
    return sink->ops->load(sink, agent_id, data_type, out, err);
}
static inline tide_status tide_sink_apply(tide_sink *sink, tide_change *change, tide_error *err)
{
    return sink->ops->apply(sink, change, err);
}

/* For engines: intervals of overlapping batches as one list, ascending. Reorders found. */
TIDE_MUST_CHECK tide_status tide_sink_tell_absent(tide_interval *found, int count,
                                                  tide_interval_fn *fn, void *arg, tide_error *err);

/* For engines: TIDE_E_EXISTS, the session of `to` is another agent's. */
TIDE_MUST_CHECK tide_status tide_sink_fail_owner(const tide_position *to, tide_view owner,
                                                 tide_error *err);

/* The gaps of a position that are not recovered and touch first .. last, ascending: what tide_settle wants. *out is empty on failure; free with
 * tide_gap_list_done. */
TIDE_MUST_CHECK tide_status tide_sink_gaps_in(tide_sink *sink, const tide_position *position,
                                              int64_t first, int64_t last, tide_gap_list *out,
                                              tide_error *err);
void tide_gap_list_done(tide_gap_list *list); /* fits TIDE_CLEANUP */
