/* metrics.h - metrics of a daemon, one row each, served as Prometheus and OpenMetrics text.
 *
 *     tide_metrics_add(metrics, TIDE_METRIC_LOG_LOST, 1);                 without labels
 *     tide_series *series = tide_metrics_series(metrics, TIDE_METRIC_RPC_DURATION, path);
 *     tide_series_observe(series, elapsed_us);                            with a label
 *
 * A metric is a row of TIDE_METRICS_TABLE: its name, type, unit, labels and help exist there and
 * nowhere else. A series is a metric with values for its labels. It is found once, under a short
 * lock, and then held by the code that counts: from there on counting is one atomic addition.
 *
 * Labels take their values from a small set (methods, codes, streams, agents). Beyond
 * TIDE_METRICS_SERIES_MAX series of one metric (TIDE_METRICS_AGENT_SERIES_MAX where agent_id is a
 * label) all further ones share a last one, whose labels are "other", and
 * tidemark_metrics_overflows counts them. So no peer can make memory grow.
 *
 * What was never measured is not shown: a histogram with labels and no observation, a gauge without
 * labels that was never set.
 *
 * Times are given in microseconds and shown in seconds: everything with the unit "seconds" is
 * counted, set and observed in microseconds.
 *
 *     table name                     Prometheus                          OpenMetrics
 *     COUNTER  x                     # TYPE x_total counter, x_total     # TYPE x counter, x_total
 *     GAUGE    x                     x                                   x, # UNIT
 *     HISTOGRAM x                    x_bucket{le}, x_sum, x_count        the same, # UNIT, # EOF
 *
 * Names of metrics with a unit end in it (checked by a test). Values of labels are made valid UTF-8
 * and escaped.
 *
 * Sources add families that are counted elsewhere (counters.h of the network server, sizes that are
 * read from the store): each is called while the text is written.
 *
 * Survives: nothing; counters start at 0 with the process.
 * Threads: every function may be called from any thread; a source may be called from any thread,
 * one call at a time.
 * Limits: below; the text is at most the buffer's maximum. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/buffer.h"
#include "base/cleanup.h"

enum {
    TIDE_METRICS_LABEL_MAX = 3,            /* labels of a metric */
    TIDE_METRICS_SERIES_MAX = 200,         /* series of a metric, the last of which is "other" */
    TIDE_METRICS_AGENT_SERIES_MAX = 20000, /* the same, where agent_id is a label */
    TIDE_METRICS_VALUE_MAX = 128,          /* bytes of a label's value; longer ones are cut */
    TIDE_METRICS_BUCKET_MAX = 16,          /* bounds of a histogram, without +Inf */
    TIDE_METRICS_SOURCE_MAX = 16,
    TIDE_METRICS_TEXT_MAX = 128 << 20 /* bytes: a good maximum for the buffer */
};

/* X(id, name, type, unit, labels, buckets, help); labels are parted by commas */
#define TIDE_METRICS_TABLE(X)                                                                      \
    X(BUILD, "tidemark_build_info", GAUGE, "", "version", NONE,                                    \
      "always 1; the labels name the version")                                                     \
    X(START_TIME, "process_start_time_seconds", GAUGE, "seconds", "", NONE,                        \
      "when the process started, since 1970")                                                      \
    X(CPU, "process_cpu_seconds", COUNTER, "seconds", "", NONE, "CPU time on all processors")      \
    X(RESIDENT, "process_resident_memory_bytes", GAUGE, "bytes", "", NONE, "resident memory")      \
    X(VIRTUAL, "process_virtual_memory_bytes", GAUGE, "bytes", "", NONE, "virtual memory")         \
    X(OPEN_FDS, "process_open_fds", GAUGE, "", "", NONE, "open file descriptors")                  \
    X(MAX_FDS, "process_max_fds", GAUGE, "", "", NONE, "file descriptors that may be open")        \
    X(OVERFLOWS, "tidemark_metrics_overflows", COUNTER, "", "metric", NONE,                        \
      "series not created because the metric has too many")                                        \
    X(LOG_LOST, "tidemark_log_lost_lines", COUNTER, "", "", NONE,                                  \
      "log lines that could not be written")                                                       \
    X(RELOADS, "tidemark_reloads", COUNTER, "", "result", NONE,                                    \
      "reloads of settings, certificates and tokens")                                              \
    X(CERTIFICATE_EXPIRY, "tidemark_certificate_expiry_seconds", GAUGE, "seconds", "", NONE,       \
      "end of the server's certificate, since 1970")                                               \
    X(STEP_LAST_SUCCESS, "tidemark_step_last_success_timestamp_seconds", GAUGE, "seconds", "step", \
      NONE, "when a background step last succeeded, since 1970")                                   \
    X(STEP_DURATION, "tidemark_step_duration_seconds", HISTOGRAM, "seconds", "step", LATENCY,      \
      "duration of one run of a background step")                                                  \
    X(STEP_FAILURES, "tidemark_step_failures", COUNTER, "", "step", NONE,                          \
      "failed runs of a background step")                                                          \
    X(SWEPT, "tidemark_swept_items", COUNTER, "items", "result", NONE,                             \
      "work items changed or made by sweeps")                                                      \
    X(REFUSED_TOKENS, "tidemark_refused_tokens", COUNTER, "", "method", NONE,                      \
      "fencing tokens of callers that did not hold any more, by method")                           \
    X(WORK_ATTEMPTS, "tidemark_work_attempts", COUNTER, "", "outcome", NONE,                       \
      "attempts that ended through this process: completed, failed (for good), retried, released") \
    X(WORK_WAIT, "tidemark_work_wait_seconds", HISTOGRAM, "seconds", "work_type", WORK,            \
      "from adding a work item to its first claim, of those claimed through this process")         \
    X(WORK_RUN, "tidemark_work_run_seconds", HISTOGRAM, "seconds", "work_type", WORK,              \
      "from a claim to the end of the attempt, of those that ended through this process")          \
    X(MISSING_NUMBERS, "tidemark_journal_missing_numbers", GAUGE, "", "store", NONE,               \
      "checkpoint numbers that were issued and have neither a row nor a record of their removal")  \
    X(CLEANED, "tidemark_cleaned_rows", COUNTER, "rows", "kind", NONE,                             \
      "rows deleted by the clean-up steps")                                                        \
    X(STORE_EPOCH, "tidemark_store_epoch", GAUGE, "", "store", NONE,                               \
      "epoch of the store, as this process knows it")                                              \
    X(STORE_EPOCH_CHANGES, "tidemark_store_epoch_changes", COUNTER, "", "store", NONE,             \
      "epochs that began while this process had the store open")                                   \
    X(STORE_LOST_TAILS, "tidemark_store_lost_tails", COUNTER, "", "store", NONE,                   \
      "times that acknowledged commits were lost with the end of the write-ahead log")             \
    X(STORE_DAMAGED, "tidemark_store_damaged_values", COUNTER, "", "store", NONE,                  \
      "damage that reads and verification found: each is a finding of 'tidemark store verify'")    \
    X(STORE_VERIFIED, "tidemark_store_verified_timestamp_seconds", GAUGE, "seconds", "store",      \
      NONE, "when this process last verified the whole store and found it sound, since 1970")      \
    X(STORE_FAILURES, "tidemark_store_failures", COUNTER, "", "store,reason", NONE,                \
      "calls of the store that failed because it was away, busy, full, damaged or another one")    \
    X(STORE_UP, "tidemark_store_up", GAUGE, "", "store", NONE,                                     \
      "1 while the store answers and takes writes, else 0")                                        \
    X(STORE_AGE, "tidemark_store_age_seconds", GAUGE, "seconds", "store", NONE,                    \
      "time since a call of the store last succeeded")                                             \
    X(DISK_FREE, "tidemark_disk_free_bytes", GAUGE, "bytes", "store", NONE,                        \
      "free bytes on the disk of a store that is a file")                                          \
    X(DISK_SIZE, "tidemark_disk_size_bytes", GAUGE, "bytes", "store", NONE, "size of that disk")   \
    X(AUTH_FAILURES, "tidemark_auth_failures", COUNTER, "", "reason", NONE,                        \
      "calls refused for their credentials")                                                       \
    X(RPC_CALLS, "tidemark_rpc_calls", COUNTER, "", "method,code", NONE,                           \
      "calls that ended, by method and gRPC code")                                                 \
    X(RPC_DURATION, "tidemark_rpc_duration_seconds", HISTOGRAM, "seconds", "method", LATENCY,      \
      "from a call's headers to its end")                                                          \
    X(QUERIES_KILLED, "tidemark_queries_killed", COUNTER, "", "reason", NONE,                      \
      "SQL queries of callers ended before their result: time, memory, caller (left), crash")      \
    X(CLIENT_CALLS, "tidemark_client_calls", COUNTER, "", "method,code", NONE,                     \
      "calls that this process made, by method and gRPC code")                                     \
    X(CLIENT_RETRIES, "tidemark_client_retries", COUNTER, "", "method", NONE,                      \
      "retries of calls that this process made")                                                   \
    X(FEED_RECORDS, "tidemark_feed_records", COUNTER, "", "stream", NONE, "records stored")        \
    X(FEED_STORED, "tidemark_feed_stored_bytes", COUNTER, "bytes", "stream", NONE,                 \
      "bytes of records stored, before compression")                                               \
    X(FEED_COMMIT, "tidemark_feed_commit_seconds", HISTOGRAM, "seconds", "", LATENCY,              \
      "from a commit group's begin to its sync")                                                   \
    X(FEED_GROUP, "tidemark_feed_group_records", HISTOGRAM, "records", "", COUNT,                  \
      "records that one sync made durable")                                                        \
    X(FEED_READ, "tidemark_feed_read_records", COUNTER, "records", "stream", NONE,                 \
      "records sent to readers")                                                                   \
    X(FEED_LOST, "tidemark_feed_lost_records", COUNTER, "records", "stream,reason", NONE,          \
      "records deleted before every reader had read them; each has a loss receipt")                \
    X(FEED_AHEAD, "tidemark_feed_ahead", COUNTER, "", "stream", NONE,                              \
      "reads from a position that this history does not have: ahead of its head, or diverged")     \
    X(FEED_HEAD, "tidemark_feed_head", GAUGE, "", "stream", NONE,                                  \
      "last sequence number of a stream")                                                          \
    X(FEED_OLDEST, "tidemark_feed_oldest", GAUGE, "", "stream", NONE,                              \
      "lowest stored sequence number of a stream")                                                 \
    X(TEXT_CLEANED, "tidemark_text_cleaned", COUNTER, "", "", NONE,                                \
      "invalid UTF-8 sequences replaced in text")                                                  \
    X(OTLP_REFUSED, "tidemark_otlp_refused_records", COUNTER, "records", "signal,reason", NONE,    \
      "records refused by the OTLP receiver")                                                      \
    X(CHECKPOINT_LAG, "checkpoint_lag_seconds", GAUGE, "seconds", "agent_id,data_type", NONE,      \
      "age of the oldest unread record, or time since all was proven read, if that is more")       \
    X(GAPS_DETECTED, "sequence_gaps_detected", COUNTER, "", "agent_id,data_type", NONE,            \
      "gaps that were found")                                                                      \
    X(GAPS_RECOVERED, "sequence_gaps_recovered", COUNTER, "", "agent_id,data_type", NONE,          \
      "gaps whose records were recovered")                                                         \
    X(GAPS_PERMANENT, "sequence_gaps_permanent", COUNTER, "", "agent_id,data_type", NONE,          \
      "gaps whose records are lost")                                                               \
    X(GAPS_VOID, "sequence_gaps_void", COUNTER, "", "agent_id,data_type", NONE,                    \
      "gaps of numbers that no record ever had")                                                   \
    X(POLL_QUERY, "poll_query_duration_seconds", HISTOGRAM, "seconds", "poller_type,agent_id",     \
      LATENCY, "from a poll request to its response")                                              \
    X(CHECKPOINT_FAILURES, "checkpoint_update_failures", COUNTER, "", "poller_type,agent_id",      \
      NONE, "responses that could not be stored, and are requested again")                         \
    X(COLONY_RECEIVED, "tidemark_colony_received_records", COUNTER, "records", "data_type", NONE,  \
      "records received from agents")                                                              \
    X(COLONY_RECEIVED_BYTES, "tidemark_colony_received_bytes", COUNTER, "bytes", "data_type",      \
      NONE, "bytes of responses received from agents")                                             \
    X(COLONY_STORED, "tidemark_colony_stored_records", COUNTER, "records", "data_type", NONE,      \
      "records that were stored")                                                                  \
    X(COLONY_REPEATED, "tidemark_colony_repeated_records", COUNTER, "records", "data_type", NONE,  \
      "records that were stored already")                                                          \
    X(COLONY_DEAD, "tidemark_colony_dead_letters", COUNTER, "", "data_type", NONE,                 \
      "records that cannot be decoded")                                                            \
    X(COLONY_FAILURES, "tidemark_colony_failures", COUNTER, "", "agent_id,status", NONE,           \
      "requests without a usable response")                                                        \
    X(COLONY_CLOSED, "tidemark_colony_closed_positions", COUNTER, "", "agent_id,reason", NONE,     \
      "positions that were closed because an agent has another history, by reason")                \
    X(COLONY_LAG, "tidemark_colony_lag_records", GAUGE, "records", "agent_id,data_type", NONE,     \
      "records that agents have and the colony has not stored")                                    \
    X(COLONY_LAG_BYTES, "tidemark_colony_lag_bytes", GAUGE, "bytes", "agent_id,data_type", NONE,   \
      "estimated bytes of those records, by the mean length of the stream's records")              \
    X(COLONY_UNTIL_LOSS, "tidemark_colony_until_loss_seconds", GAUGE, "seconds",                   \
      "agent_id,data_type", NONE, "until an agent drops its oldest unread record")                 \
    X(COLONY_HOLD, "tidemark_colony_hold", GAUGE, "", "agent_id,data_type,reason", NONE,           \
      "1 while a stream is held, with the reason")                                                 \
    X(COLONY_AGENT_UP, "tidemark_colony_agent_up", GAUGE, "", "agent_id", NONE,                    \
      "1 while an agent that is polled here answers and its records are stored, else 0")           \
    X(COLONY_AGENT_AGE, "tidemark_colony_agent_age_seconds", GAUGE, "seconds", "agent_id", NONE,   \
      "time since an agent was last read without a failure")                                       \
    X(COLONY_STORE_UP, "tidemark_colony_store_up", GAUGE, "", "", NONE,                            \
      "1 while the colony's store answers and takes writes, else 0")                               \
    X(COLONY_STORE_AGE, "tidemark_colony_store_age_seconds", GAUGE, "seconds", "", NONE,           \
      "time since a call of the colony's store last succeeded")                                    \
    X(COLONY_CLOCK_OFFSET, "tidemark_colony_clock_offset_seconds", GAUGE, "seconds", "", NONE,     \
      "the colony's clock against the median of its agents' clocks; above 0: it is ahead")         \
    X(COLONY_CLOCK_SUSPECT, "tidemark_colony_clock_suspect", GAUGE, "", "", NONE,                  \
      "1 while the colony's clock is more than 10 minutes off the median of its agents' clocks")   \
    X(COLONY_VIEW_AGE, "tidemark_colony_view_age_seconds", GAUGE, "seconds", "", NONE,             \
      "age of the metrics that are read from the store: agents, lost, unexplained, pending")       \
    X(COLONY_LOST, "tidemark_colony_lost_records", GAUGE, "records", "agent_id,data_type", NONE,   \
      "records that are lost and that no operator has accepted")                                   \
    X(COLONY_AGENTS, "tidemark_colony_agents", GAUGE, "", "health", NONE, "agents by health")      \
    X(COLONY_UNEXPLAINED, "tidemark_colony_unexplained_numbers", GAUGE, "", "", NONE,              \
      "sequence numbers that the ledger does not explain; 0 unless records are missing")           \
    X(COLONY_PENDING, "tidemark_colony_pending_numbers", GAUGE, "", "", NONE,                      \
      "sequence numbers that are unread, held or in open gaps")                                    \
    X(LAKE_COMMITS, "tidemark_lake_commits", COUNTER, "", "result", NONE,                          \
      "changes of catalogs by result: committed, replayed, unchanged, or a failure")               \
    X(LAKE_CONFLICTS, "tidemark_lake_conflicts", COUNTER, "", "with", NONE,                        \
      "changes refused, by the kind of the conflicting change")                                    \
    X(LAKE_RETRIES, "tidemark_lake_retries", COUNTER, "", "status", NONE,                          \
      "retries of commits, by the status that caused them")                                        \
    X(LAKE_COMMIT, "tidemark_lake_commit_seconds", HISTOGRAM, "seconds", "", LATENCY,              \
      "duration of a commit with its retries, without writing files")                              \
    X(LAKE_ROWS, "tidemark_lake_changed_rows", COUNTER, "rows", "change", NONE,                    \
      "rows that were added or deleted")                                                           \
    X(LAKE_WRITTEN_FILES, "tidemark_lake_written_files", COUNTER, "files", "", NONE,               \
      "files added by commits")                                                                    \
    X(LAKE_WRITTEN_BYTES, "tidemark_lake_written_bytes", COUNTER, "bytes", "", NONE,               \
      "bytes of files added by commits")

typedef enum tide_metric {
#define TIDE_METRIC_ID(id, ...) TIDE_METRIC_##id,
    TIDE_METRICS_TABLE(TIDE_METRIC_ID)
#undef TIDE_METRIC_ID
        TIDE_METRIC_COUNT
} tide_metric;

typedef enum tide_metric_type {
    TIDE_METRIC_COUNTER,
    TIDE_METRIC_GAUGE,
    TIDE_METRIC_HISTOGRAM,
} tide_metric_type;

typedef struct tide_metric_row {
    const char *name; /* without _total */
    tide_metric_type type;
    const char *unit;   /* "": none */
    const char *labels; /* "": none */
    const char *help;
    const int64_t *bounds; /* of buckets, in the unit in which is observed; NULL: no histogram */
    int bound_count;
} tide_metric_row;

extern const tide_metric_row tide_metric_rows[TIDE_METRIC_COUNT];

typedef struct tide_metrics tide_metrics;
typedef struct tide_series tide_series;

/* version is shown by tidemark_build. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_metrics_new(tide_metrics **out, const char *version, tide_env *env,
                                             tide_error *err);
/* No series may be used afterwards. Takes NULL. */
void tide_metrics_free(tide_metrics *metrics);
TIDE_CLEANUP_FN(tide_metrics_freep, tide_metrics, tide_metrics_free)

/* The series with these values, one per label of the row, in its order; lives as long as metrics.
 * Never NULL: without memory, or with too many series, it is the one called "other". */
tide_series *tide_metrics_series_of(tide_metrics *metrics, tide_metric id,
                                    const char *const values[TIDE_METRICS_LABEL_MAX]);
#define tide_metrics_series(metrics, id, ...)                                                      \
    tide_metrics_series_of((metrics), (id),                                                        \
                           (const char *const[TIDE_METRICS_LABEL_MAX]){__VA_ARGS__})

/* Counters go up only: by is not negative. Gauges take both. */
void tide_series_add(tide_series *series, int64_t by);
void tide_series_set(tide_series *series, int64_t value);     /* gauges */
void tide_series_observe(tide_series *series, int64_t value); /* histograms */
int64_t tide_series_value(const tide_series *series);         /* of a histogram: how many */

/* The same for metrics without labels. */
void tide_metrics_add(tide_metrics *metrics, tide_metric id, int64_t by);
void tide_metrics_set(tide_metrics *metrics, tide_metric id, int64_t value);
void tide_metrics_observe(tide_metrics *metrics, tide_metric id, int64_t value);

/* ---- showing them ---- */

typedef enum tide_metrics_format {
    TIDE_METRICS_PROMETHEUS,
    TIDE_METRICS_OPENMETRICS,
} tide_metrics_format;

/* The format that an Accept header selects (NULL: Prometheus), and its Content-Type. */
tide_metrics_format tide_metrics_choose(const char *accept);
const char *tide_metrics_content_type(tide_metrics_format format);

/* Append all of them. TIDE_E_LIMIT, TIDE_E_NOMEM: out is as before. */
TIDE_MUST_CHECK tide_status tide_metrics_write(tide_metrics *metrics, tide_metrics_format format,
                                               tide_buffer *out, tide_error *err);

/* ---- sources ---- */

typedef struct tide_metrics_writer tide_metrics_writer;
typedef void tide_metrics_source_fn(void *arg, tide_metrics_writer *writer);

/* Before the first write; arg must live as long as metrics. */
void tide_metrics_add_source(tide_metrics *metrics, tide_metrics_source_fn *fn, void *arg);

/* Inside a source: begin a family (a row of its own, no histogram), then its samples; values has
 * one text per label. */
void tide_metrics_family(tide_metrics_writer *writer, const tide_metric_row *row);
void tide_metrics_sample(tide_metrics_writer *writer, const char *const *values, int64_t value);
