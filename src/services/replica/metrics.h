/* metrics.h - metrics of a node, at /metrics of `replica serve` and `run`.
 *
 *     tidemark_replica_syncs{peer,result}                 syncs that ended: proven, by_time, snapshot_required, unavailable, failed
 *     tidemark_replica_pulled_events{peer}, _pushed_events{peer}
 *     tidemark_replica_proven_age_seconds{peer}           since the last proven cut
 *     tidemark_replica_collected_rows{kind}               rows deleted by collection: events, tombstones, knowledge
 *     tidemark_replica_table_rows{table}, _table_events{table}, tidemark_replica_tombstones, tidemark_replica_file_bytes
 *     tidemark_replica_lag_events{origin}                 that some peer has and this node does not (as peers said last)
 *     tidemark_replica_peer_lag_events{peer}              that this node has and the peer does not
 *     tidemark_replica_peer_seen_age_seconds{peer}
 *     tidemark_replica_log_prefix{origin}, _log_floor{origin}   of the newest epoch
 *     tidemark_replica_floor_pin{origin,peer}             the least mark, and whose it is: what keeps the floor down
 *     tidemark_replica_clock_ahead_seconds                the hybrid clock against the wall clock: drift that was met
 *     tidemark_replica_differing_tables{peer}             tables that differed from a peer's although all logs were equal (`replica verify`)
 *     tidemark_replica_conflicts, _aside_rows, _quarantined_events
 *
 * Counters count since the process began. The others are looked up when somebody asks, and then kept for TIDE_REPLICA_METRICS_US: counting rows
 * costs a walk over an index.
 *
 * Threads: every function from any thread. Limits: TIDE_REPLICA_METRICS_MAX series per figure; further origins and peers are left out. */
#pragma once

#include "replica/sync.h"
#include "runtime/metrics.h"

#define TIDE_REPLICA_METRICS_US INT64_C(10000000)

enum { TIDE_REPLICA_METRICS_MAX = 200 };

typedef struct tide_replica_metrics tide_replica_metrics;

/* Adds a source to metrics (NULL: none); the node must outlive it, and it the metrics. */
TIDE_MUST_CHECK tide_status tide_replica_metrics_new(tide_replica_metrics **out,
                                                     tide_metrics *metrics, tide_node *node,
                                                     tide_error *err);
void tide_replica_metrics_free(tide_replica_metrics *metrics); /* takes NULL */

/* The families, for the reference. */
const tide_metric_row *tide_replica_metric_rows(size_t *count);

/* A sync with a peer ended so. */
void tide_replica_metrics_synced(tide_replica_metrics *metrics, const char *peer,
                                 tide_status status, const tide_sync_result *result);
void tide_replica_metrics_collected(tide_replica_metrics *metrics, const tide_collected *done);

/* Tables were compared with a peer's. */
void tide_replica_metrics_compared(tide_replica_metrics *metrics, const char *peer, int differing);
