/* type.h - what a colony collects: the data types, how an agent is asked for them, where their rows go.
 *
 * A colony type is a stream type of the agent (feed/record.h) with the colony's side of it: the call and the field numbers
 * of its request and answer (agent.proto), the table, how long rows are kept, how often an agent without long polls is
 * asked, and in which order gaps are recovered. User-declared streams share the last row; their rows are told apart
 * by the stream's name, which is their data_type.
 *
 * Threads: constant tables. */
#pragma once

#include <stdint.h>

#include "feed/record.h"

/* X(kind, table, service and method, start, max, position, max_seq, session, state: field numbers,
 *   metric type of QueryEbpfMetrics (0: none of its), retention in hours, poll interval in seconds, priority of recovery: 1 is first) */
#define TIDE_COLONY_TYPES(X)                                                                       \
    X(TELEMETRY, "spans", "AgentService/QueryTelemetry", 4, 5, 20, 3, 4, 20, 0, 24, 30, 1)         \
    X(SYSTEM_METRICS, "system_metrics", "AgentService/QuerySystemMetrics", 4, 5, 20, 3, 4, 20, 0,  \
      720, 60, 3)                                                                                  \
    X(BEYLA_HTTP, "ebpf_http_metrics", "AgentService/QueryEbpfMetrics", 8, 12, 20, 6, 10, 20, 1,   \
      720, 30, 2)                                                                                  \
    X(BEYLA_GRPC, "ebpf_grpc_metrics", "AgentService/QueryEbpfMetrics", 9, 12, 21, 7, 10, 21, 2,   \
      720, 30, 2)                                                                                  \
    X(BEYLA_SQL, "ebpf_sql_metrics", "AgentService/QueryEbpfMetrics", 10, 12, 22, 8, 10, 22, 3,    \
      336, 30, 2)                                                                                  \
    X(BEYLA_TRACES, "ebpf_traces", "AgentService/QueryEbpfMetrics", 11, 7, 23, 9, 10, 23, 0, 168,  \
      30, 2)                                                                                       \
    X(CPU_PROFILE, "cpu_profile_samples", "AgentDebugService/QueryCPUProfileSamples", 4, 5, 20, 3, \
      4, 20, 0, 720, 30, 4)                                                                        \
    X(MEMORY_PROFILE, "memory_profile_samples", "AgentDebugService/QueryMemoryProfileSamples", 4,  \
      5, 20, 3, 4, 20, 0, 720, 60, 4)                                                              \
    X(LOGS, "logs", "AgentService/QueryLogs", 4, 5, 20, 3, 4, 20, 0, 720, 30, 2)                   \
    X(LOSS_RECEIPTS, "loss_receipts", "AgentService/QueryLossReceipts", 4, 5, 20, 3, 4, 20, 0,     \
      8760, 60, 1)                                                                                 \
    X(OPAQUE, "records", "AgentService/QueryRecords", 4, 5, 20, 3, 4, 20, 0, 720, 30, 3)

typedef struct tide_colony_type {
    const tide_stream_type *stream;
    const char *table;
    const char *path; /* "/tidemark.agent.v1.AgentService/QueryTelemetry" */
    uint32_t start_field;
    uint32_t max_field;
    uint32_t position_field;
    uint32_t max_seq_field;
    uint32_t session_field;
    uint32_t state_field;
    int metric_type; /* EbpfMetricType that is asked for; 0: the call has none, or traces */
    int64_t keep_us; /* rows, by the time they were stored */
    int64_t interval_us;
    int priority;
} tide_colony_type;

/* In the order of tide_stream_kind. Constant. */
const tide_colony_type *tide_colony_type_of(tide_stream_kind kind);

/* By data_type; what is not built in is a user's stream. Never NULL. */
const tide_colony_type *tide_colony_type_find(const char *data_type);
