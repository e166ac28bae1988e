/* record.h - records as they are stored and answered: which streams there are, their columns, their bytes.
 *
 * A record is one occurrence of the repeated field of its stream's query response (agent.proto), so that an answer is
 * made by copying:
 *
 *     tag   length        seq tag   seq_id, padded        fields
 *     1     1..4, varint  1         10, varint            in any order, defaults left out
 *
 * seq_id stands first and always takes ten bytes (0x80 | seven bits, nine times, then the last): numbers are
 * patched in place when they are known, and nothing moves. Protobuf parsers read it like any other varint.
 *
 * Writing: a tide_record_batch gathers records of one stream; begin, columns by their enum, end. What goes wrong in
 * between is remembered and told by end, and the record is then left out as a whole. Text is made valid UTF-8 without
 * NUL on the way in (invalid text makes readers refuse whole pages), and the replacements are counted.
 * The batch also knows the times and the set of services that tide_feed_commit wants.
 *
 *     tide_record_begin(&batch);
 *     tide_record_i64(&batch, TIDE_LOG_TIMESTAMP, now_ms);
 *     tide_record_text(&batch, TIDE_LOG_BODY, body);
 *     tide_record_pair(&batch, TIDE_LOG_ATTRIBUTES, key, value);
 *     TIDE_TRY(tide_record_end(&batch));
 *
 * Reading: tide_record_next walks over records, tide_record_decode reads the columns of one. Bytes are never trusted:
 * what does not fit is TIDE_E_DAMAGED. Fields that this version does not know are passed over; of a field that
 * stands there twice the last one counts, as protobuf has it.
 *
 * Limits: TIDE_FEED_RECORD_MAX bytes of one record, the batch's own maximum, TIDE_RECORD_SERVICES_MAX names.
 * Threads: pure; a batch belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/feed.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/digest.h"

enum {
    TIDE_RECORD_COLUMNS_MAX = 16,
    TIDE_RECORD_SEQ_LEN = 11,           /* tag and padded number */
    TIDE_RECORD_SERVICES_MAX = 64,      /* names in a batch's set; more: not known */
    TIDE_RECORD_SERVICES_LEN_MAX = 4096 /* bytes of them, each with its NUL */
};

/* ---- streams and columns ---- */

typedef enum tide_column_kind {
    TIDE_COLUMN_I64,  /* int64 */
    TIDE_COLUMN_I32,  /* int32: ten bytes when negative */
    TIDE_COLUMN_U64,  /* uint64 */
    TIDE_COLUMN_F64,  /* double */
    TIDE_COLUMN_BOOL, /* bool */
    TIDE_COLUMN_TEXT, /* string */
    TIDE_COLUMN_BLOB, /* bytes */
    TIDE_COLUMN_MAP,  /* map<string, string> */
    TIDE_COLUMN_IDS,  /* repeated uint64, packed */
} tide_column_kind;

typedef struct tide_column {
    const char *name;
    uint32_t field; /* number in the message */
    tide_column_kind kind;
} tide_column;

/* X(column, name, field number, kind), in the order in which SQL and JSON show them, behind seq_id. */
#define TIDE_SPAN_COLUMNS(X)                                                                       \
    X(TIDE_SPAN_TIMESTAMP, "timestamp", 1, I64)                                                    \
    X(TIDE_SPAN_TRACE_ID, "trace_id", 2, TEXT)                                                     \
    X(TIDE_SPAN_SPAN_ID, "span_id", 3, TEXT)                                                       \
    X(TIDE_SPAN_PARENT_SPAN_ID, "parent_span_id", 20, TEXT)                                        \
    X(TIDE_SPAN_SERVICE_NAME, "service_name", 4, TEXT)                                             \
    X(TIDE_SPAN_SPAN_KIND, "span_kind", 5, TEXT)                                                   \
    X(TIDE_SPAN_DURATION_MS, "duration_ms", 6, F64)                                                \
    X(TIDE_SPAN_IS_ERROR, "is_error", 7, BOOL)                                                     \
    X(TIDE_SPAN_HTTP_STATUS, "http_status", 8, I32)                                                \
    X(TIDE_SPAN_HTTP_METHOD, "http_method", 9, TEXT)                                               \
    X(TIDE_SPAN_HTTP_ROUTE, "http_route", 10, TEXT)                                                \
    X(TIDE_SPAN_ATTRIBUTES, "attributes", 11, MAP)                                                 \
    X(TIDE_SPAN_SPAN_NAME, "span_name", 21, TEXT)

#define TIDE_SYSTEM_METRIC_COLUMNS(X)                                                              \
    X(TIDE_SYSTEM_METRIC_TIMESTAMP, "timestamp", 1, I64)                                           \
    X(TIDE_SYSTEM_METRIC_METRIC_NAME, "metric_name", 2, TEXT)                                      \
    X(TIDE_SYSTEM_METRIC_VALUE, "value", 3, F64)                                                   \
    X(TIDE_SYSTEM_METRIC_UNIT, "unit", 4, TEXT)                                                    \
    X(TIDE_SYSTEM_METRIC_METRIC_TYPE, "metric_type", 5, TEXT)                                      \
    X(TIDE_SYSTEM_METRIC_ATTRIBUTES, "attributes", 6, MAP)

#define TIDE_HTTP_METRIC_COLUMNS(X)                                                                \
    X(TIDE_HTTP_METRIC_TIMESTAMP, "timestamp", 1, I64)                                             \
    X(TIDE_HTTP_METRIC_SERVICE_NAME, "service_name", 2, TEXT)                                      \
    X(TIDE_HTTP_METRIC_HTTP_METHOD, "http_method", 3, TEXT)                                        \
    X(TIDE_HTTP_METRIC_HTTP_ROUTE, "http_route", 4, TEXT)                                          \
    X(TIDE_HTTP_METRIC_HTTP_STATUS_CODE, "http_status_code", 5, I32)                               \
    X(TIDE_HTTP_METRIC_LATENCY_BUCKET_MS, "latency_bucket_ms", 6, F64)                             \
    X(TIDE_HTTP_METRIC_COUNT, "count", 7, I64)                                                     \
    X(TIDE_HTTP_METRIC_ATTRIBUTES, "attributes", 8, MAP)

#define TIDE_GRPC_METRIC_COLUMNS(X)                                                                \
    X(TIDE_GRPC_METRIC_TIMESTAMP, "timestamp", 1, I64)                                             \
    X(TIDE_GRPC_METRIC_SERVICE_NAME, "service_name", 2, TEXT)                                      \
    X(TIDE_GRPC_METRIC_GRPC_METHOD, "grpc_method", 3, TEXT)                                        \
    X(TIDE_GRPC_METRIC_GRPC_STATUS_CODE, "grpc_status_code", 4, I32)                               \
    X(TIDE_GRPC_METRIC_LATENCY_BUCKET_MS, "latency_bucket_ms", 5, F64)                             \
    X(TIDE_GRPC_METRIC_COUNT, "count", 6, I64)                                                     \
    X(TIDE_GRPC_METRIC_ATTRIBUTES, "attributes", 7, MAP)

#define TIDE_SQL_METRIC_COLUMNS(X)                                                                 \
    X(TIDE_SQL_METRIC_TIMESTAMP, "timestamp", 1, I64)                                              \
    X(TIDE_SQL_METRIC_SERVICE_NAME, "service_name", 2, TEXT)                                       \
    X(TIDE_SQL_METRIC_SQL_OPERATION, "sql_operation", 3, TEXT)                                     \
    X(TIDE_SQL_METRIC_TABLE_NAME, "table_name", 4, TEXT)                                           \
    X(TIDE_SQL_METRIC_LATENCY_BUCKET_MS, "latency_bucket_ms", 5, F64)                              \
    X(TIDE_SQL_METRIC_COUNT, "count", 6, I64)                                                      \
    X(TIDE_SQL_METRIC_ATTRIBUTES, "attributes", 7, MAP)

#define TIDE_TRACE_COLUMNS(X)                                                                      \
    X(TIDE_TRACE_TRACE_ID, "trace_id", 1, TEXT)                                                    \
    X(TIDE_TRACE_SPAN_ID, "span_id", 2, TEXT)                                                      \
    X(TIDE_TRACE_PARENT_SPAN_ID, "parent_span_id", 3, TEXT)                                        \
    X(TIDE_TRACE_SERVICE_NAME, "service_name", 4, TEXT)                                            \
    X(TIDE_TRACE_SPAN_NAME, "span_name", 5, TEXT)                                                  \
    X(TIDE_TRACE_SPAN_KIND, "span_kind", 6, TEXT)                                                  \
    X(TIDE_TRACE_START_TIME, "start_time", 7, I64)                                                 \
    X(TIDE_TRACE_DURATION_US, "duration_us", 8, I64)                                               \
    X(TIDE_TRACE_STATUS_CODE, "status_code", 9, I32)                                               \
    X(TIDE_TRACE_PROCESS_PID, "process_pid", 10, I32)                                              \
    X(TIDE_TRACE_ATTRIBUTES, "attributes", 11, MAP)

#define TIDE_CPU_PROFILE_COLUMNS(X)                                                                \
    X(TIDE_CPU_PROFILE_TIMESTAMP, "timestamp", 1, I64)                                             \
    X(TIDE_CPU_PROFILE_SERVICE_ID, "service_id", 2, TEXT)                                          \
    X(TIDE_CPU_PROFILE_BUILD_ID, "build_id", 3, TEXT)                                              \
    X(TIDE_CPU_PROFILE_TGID, "tgid", 4, I32)                                                       \
    X(TIDE_CPU_PROFILE_STACK_HASH, "stack_hash", 5, U64)                                           \
    X(TIDE_CPU_PROFILE_STACK_FRAME_IDS, "stack_frame_ids", 6, IDS)                                 \
    X(TIDE_CPU_PROFILE_SAMPLE_COUNT, "sample_count", 7, I64)

#define TIDE_MEMORY_PROFILE_COLUMNS(X)                                                             \
    X(TIDE_MEMORY_PROFILE_TIMESTAMP, "timestamp", 1, I64)                                          \
    X(TIDE_MEMORY_PROFILE_SERVICE_ID, "service_id", 2, TEXT)                                       \
    X(TIDE_MEMORY_PROFILE_BUILD_ID, "build_id", 3, TEXT)                                           \
    X(TIDE_MEMORY_PROFILE_STACK_HASH, "stack_hash", 4, U64)                                        \
    X(TIDE_MEMORY_PROFILE_STACK_FRAME_IDS, "stack_frame_ids", 5, IDS)                              \
    X(TIDE_MEMORY_PROFILE_ALLOC_BYTES, "alloc_bytes", 6, I64)                                      \
    X(TIDE_MEMORY_PROFILE_ALLOC_OBJECTS, "alloc_objects", 7, I64)

#define TIDE_LOG_COLUMNS(X)                                                                        \
    X(TIDE_LOG_TIMESTAMP, "timestamp", 1, I64)                                                     \
    X(TIDE_LOG_SERVICE_NAME, "service_name", 2, TEXT)                                              \
    X(TIDE_LOG_SEVERITY_NUMBER, "severity_number", 3, I32)                                         \
    X(TIDE_LOG_SEVERITY_TEXT, "severity_text", 4, TEXT)                                            \
    X(TIDE_LOG_BODY, "body", 5, TEXT)                                                              \
    X(TIDE_LOG_TRACE_ID, "trace_id", 6, TEXT)                                                      \
    X(TIDE_LOG_SPAN_ID, "span_id", 7, TEXT)                                                        \
    X(TIDE_LOG_ATTRIBUTES, "attributes", 8, MAP)

#define TIDE_LOSS_COLUMNS(X)                                                                       \
    X(TIDE_LOSS_TIMESTAMP, "timestamp", 1, I64)                                                    \
    X(TIDE_LOSS_STREAM, "stream", 2, TEXT)                                                         \
    X(TIDE_LOSS_FIRST_SEQ_ID, "first_seq_id", 3, U64)                                              \
    X(TIDE_LOSS_LAST_SEQ_ID, "last_seq_id", 4, U64)                                                \
    X(TIDE_LOSS_EPOCH, "epoch", 5, U64)                                                            \
    X(TIDE_LOSS_REASON, "reason", 6, TEXT)                                                         \
    X(TIDE_LOSS_DETAIL, "detail", 7, TEXT)

#define TIDE_OPAQUE_COLUMNS(X)                                                                     \
    X(TIDE_OPAQUE_TIMESTAMP, "timestamp", 1, I64)                                                  \
    X(TIDE_OPAQUE_DATA, "data", 2, BLOB)                                                           \
    X(TIDE_OPAQUE_ATTRIBUTES, "attributes", 3, MAP)

#define TIDE_COLUMN_ENUM(column, name, field, kind) column,
enum { TIDE_SPAN_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_SYSTEM_METRIC_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_HTTP_METRIC_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_GRPC_METRIC_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_SQL_METRIC_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_TRACE_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_CPU_PROFILE_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_MEMORY_PROFILE_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_LOG_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_LOSS_COLUMNS(TIDE_COLUMN_ENUM) };
enum { TIDE_OPAQUE_COLUMNS(TIDE_COLUMN_ENUM) };
#undef TIDE_COLUMN_ENUM

/* X(kind, stream name = data_type, table, sequence, default page, field of the response, field of seq_id, columns,
 *   column of the time (Unix ms), column of the service or -1)
 *
 * OPAQUE stands for all streams that users declare: its names are patterns, and a stream `orders` has the sequence
 * `seq_orders`. */
#define TIDE_STREAM_TABLE(X)                                                                       \
    X(TELEMETRY, "telemetry", "otel_spans_local", "seq_otel_spans", 10000, 1, 12, SPAN,            \
      TIDE_SPAN_TIMESTAMP, TIDE_SPAN_SERVICE_NAME)                                                 \
    X(SYSTEM_METRICS, "system_metrics", "system_metrics_local", "seq_system_metrics", 10000, 1, 7, \
      SYSTEM_METRIC, TIDE_SYSTEM_METRIC_TIMESTAMP, TIDE_SYSTEM_METRIC_METRIC_NAME)                 \
    X(BEYLA_HTTP, "beyla_http", "beyla_http_metrics_local", "seq_beyla_http_metrics", 10000, 1, 9, \
      HTTP_METRIC, TIDE_HTTP_METRIC_TIMESTAMP, TIDE_HTTP_METRIC_SERVICE_NAME)                      \
    X(BEYLA_GRPC, "beyla_grpc", "beyla_grpc_metrics_local", "seq_beyla_grpc_metrics", 10000, 2, 8, \
      GRPC_METRIC, TIDE_GRPC_METRIC_TIMESTAMP, TIDE_GRPC_METRIC_SERVICE_NAME)                      \
    X(BEYLA_SQL, "beyla_sql", "beyla_sql_metrics_local", "seq_beyla_sql_metrics", 5000, 3, 8,      \
      SQL_METRIC, TIDE_SQL_METRIC_TIMESTAMP, TIDE_SQL_METRIC_SERVICE_NAME)                         \
    X(BEYLA_TRACES, "beyla_traces", "beyla_traces_local", "seq_beyla_traces", 1000, 4, 12, TRACE,  \
      TIDE_TRACE_START_TIME, TIDE_TRACE_SERVICE_NAME)                                              \
    X(CPU_PROFILE, "cpu_profile", "cpu_profile_samples_local", "seq_cpu_profile_samples", 5000, 1, \
      8, CPU_PROFILE, TIDE_CPU_PROFILE_TIMESTAMP, TIDE_CPU_PROFILE_SERVICE_ID)                     \
    X(MEMORY_PROFILE, "memory_profile", "memory_profile_samples_local",                            \
      "seq_memory_profile_samples", 5000, 1, 8, MEMORY_PROFILE, TIDE_MEMORY_PROFILE_TIMESTAMP,     \
      TIDE_MEMORY_PROFILE_SERVICE_ID)                                                              \
    X(LOGS, "logs", "logs_local", "seq_logs", 10000, 1, 9, LOG, TIDE_LOG_TIMESTAMP,                \
      TIDE_LOG_SERVICE_NAME)                                                                       \
    X(LOSS_RECEIPTS, "loss_receipts", "loss_receipts_local", "seq_loss_receipts", 1000, 1, 8,      \
      LOSS, TIDE_LOSS_TIMESTAMP, TIDE_LOSS_STREAM)                                                 \
    X(OPAQUE, "<stream>", "<stream>_local", "seq_<stream>", 1000, 1, 4, OPAQUE,                    \
      TIDE_OPAQUE_TIMESTAMP, -1)

typedef enum tide_stream_kind {
#define TIDE_STREAM_ENUM(kind, name, table, sequence, page, field, seq_field, columns, time,       \
                         service)                                                                  \
    TIDE_STREAM_##kind,
    TIDE_STREAM_TABLE(TIDE_STREAM_ENUM)
#undef TIDE_STREAM_ENUM
        TIDE_STREAM_COUNT,
    TIDE_STREAM_BUILT_IN_COUNT = TIDE_STREAM_OPAQUE,
} tide_stream_kind;

typedef struct tide_stream_type {
    tide_stream_kind kind;
    const char *name; /* data_type */
    const char *table;
    const char *sequence;
    int page;        /* records of an answer where the request says nothing */
    uint8_t tag;     /* of a record in its response; fields are below 16: one byte */
    uint8_t seq_tag; /* of seq_id in the record */
    uint32_t field;  /* of the response */
    uint32_t seq_field;
    const tide_column *columns;
    int column_count;
    int time_column;
    int service_column; /* what filters by service match (system_metrics: metric_name); -1: nothing */
} tide_stream_type;

/* Constant; kind is one of the table. */
const tide_stream_type *tide_stream_type_of(tide_stream_kind kind);

/* A built-in stream by its name; NULL: there is none. */
const tide_stream_type *tide_stream_type_find(const char *name);

/* A column by name; -1: there is none. */
int tide_stream_column_find(const tide_stream_type *type, const char *name);

/* TIDE_E_INVALID unless a user may declare a stream of this name: a lower-case letter, then lower-case letters, digits, '_',
 * '-' and '.', at most TIDE_FEED_NAME_MAX bytes. TIDE_E_EXISTS: a built-in stream, or one whose sequence has the name that
 * this one's would get. */
TIDE_MUST_CHECK tide_status tide_stream_check_name(const char *name, tide_error *err);

/* ---- writing ---- */

typedef struct tide_record_batch {
    const tide_stream_type *type;
    tide_buffer bytes; /* whole records, one behind the other */
    int count;
    int count_max;
    int64_t min_time_ms; /* of the records; 0 where there are none */
    int64_t max_time_ms;
    tide_buffer services; /* the set, each name with its NUL */
    int service_count;
    bool has_all_services; /* false: there were too many, and the set means nothing */
    uint64_t replaced;     /* broken characters in the records' texts */
    uint64_t refused; /* records that were left out, because they were too long or had no room */

    /* the record under way */
    bool is_open;
    tide_status status; /* the first failure since begin */
    size_t begin_len;   /* of bytes, before it */
    int64_t time_ms;
    size_t service_at; /* where its service stands in bytes; 0: none */
    size_t service_len;
    uint64_t open_replaced;
} tide_record_batch;

/* Allocates nothing yet. bytes_max: at most TIDE_FEED_COMMIT_BYTES_MAX; 0: TIDE_FEED_BATCH_BYTES_MAX. Up to that it takes as many records as
 * one stored batch; beyond, as many as one commit. */
void tide_record_batch_init(tide_record_batch *batch, const tide_stream_type *type,
                            size_t bytes_max);
/* Fits TIDE_CLEANUP. The batch is then empty and usable again. */
void tide_record_batch_done(tide_record_batch *batch);
/* Forget the records, keep the memory; the counters replaced and refused start again. */
void tide_record_batch_clear(tide_record_batch *batch);

/* What tide_feed_commit takes: borrowed from the batch, until it changes. stream may be NULL for a built-in one. */
tide_feed_records tide_record_batch_feed(tide_record_batch *batch, const char *stream);

/* A record: begin, each column at most once (pairs and ids excepted) and of its own kind, end. Defaults (0, "", false) cost nothing.
 * The column is an enum of the batch's type; another kind is a bug and asserts. */
void tide_record_begin(tide_record_batch *batch);
void tide_record_i64(tide_record_batch *batch, int column, int64_t value); /* I64, I32 */
void tide_record_u64(tide_record_batch *batch, int column, uint64_t value);
void tide_record_f64(tide_record_batch *batch, int column, double value);
void tide_record_bool(tide_record_batch *batch, int column, bool value);
void tide_record_text(tide_record_batch *batch, int column, tide_view value);
void tide_record_blob(tide_record_batch *batch, int column, tide_view value);
/* One entry of a MAP, also when its value is empty. Who gives a key twice: the last one counts. */
void tide_record_pair(tide_record_batch *batch, int column, tide_view key, tide_view value);
void tide_record_ids(tide_record_batch *batch, int column, const uint64_t *ids, int count);
/* The hash of a stack by the numbers of its frames: the same stack has the same hash whoever sent it. 0: it is empty. */
uint64_t tide_record_stack_hash(const uint64_t *ids, int count);
/* Fields that are encoded already, as they are: for attributes of a whole resource, encoded once. The caller answers for them: fields of
 * this message, neither its time, its service nor its seq_id, texts cleaned (tide_utf8_clean). */
void tide_record_fields(tide_record_batch *batch, tide_view fields);

/* TIDE_OK: the record is in. TIDE_E_LIMIT: it is longer than TIDE_FEED_RECORD_MAX, or does not fit into the batch (with other records
 * in it, a fresh batch may take it); TIDE_E_NOMEM. It is then left out, and the batch is as before begin. */
TIDE_MUST_CHECK tide_status tide_record_end(tide_record_batch *batch);
/* Leave out the record under way. */
void tide_record_abandon(tide_record_batch *batch);

/* ---- numbers ---- */

/* The number of a padded field: ten bytes. */
void tide_record_put_seq(char *at, uint64_t seq);

/* The digest of a history that ends in record, given the one before it. */
tide_digest128 tide_record_chain(tide_digest128 previous, tide_view record);

/* Number the records in bytes from first on, and go on with their chain: *chain is d(first - 1) and becomes d of the last.
 * TIDE_E_DAMAGED: these are not count whole records of this type; bytes may be partly numbered, *chain is untouched. */
TIDE_MUST_CHECK tide_status tide_record_number(const tide_stream_type *type, char *bytes,
                                               size_t len, int count, int64_t first,
                                               tide_digest128 *chain, tide_error *err);

/* ---- reading ---- */

typedef struct tide_record {
    int64_t seq;
    tide_view bytes;   /* all of it */
    tide_view message; /* behind tag and length */
} tide_record;

/* The next record of *rest, which moves behind it. TIDE_NONE: the end. TIDE_E_DAMAGED: no record of this type stands
 * there; *rest stays. The views are borrowed from the bytes. */
TIDE_MUST_CHECK tide_status tide_record_next(const tide_stream_type *type, tide_view *rest,
                                             tide_record *out);

typedef struct tide_record_value {
    union {
        int64_t i64; /* I64, I32; BOOL as 0 and 1 */
        uint64_t u64;
        double f64;
        int count; /* MAP: entries; IDS: ids */
    };
    tide_view bytes; /* TEXT, BLOB; MAP and IDS: where the fields stand, for the cursor */
} tide_record_value;

/* A decoded record: values by column; those that were left out have their default. */
typedef struct tide_record_row {
    int64_t seq;
    tide_record_value values[TIDE_RECORD_COLUMNS_MAX];
} tide_record_row;

/* Read all columns of a message (tide_record.message). TIDE_E_DAMAGED: it is no message of this type. The
 * views are borrowed from the message. */
TIDE_MUST_CHECK tide_status tide_record_decode(const tide_stream_type *type, tide_view message,
                                               tide_record_row *out);

/* Read one column only. */
TIDE_MUST_CHECK tide_status tide_record_find(const tide_stream_type *type, tide_view message,
                                             int column, tide_record_value *out);

/* Walks over the entries of a MAP or the ids of an IDS value. The value was decoded without failure; the views are
 * borrowed from its bytes. */
typedef struct tide_record_cursor {
    uint32_t field;
    tide_reader fields;
    tide_reader packed;
} tide_record_cursor;

tide_record_cursor tide_record_cursor_of(const tide_stream_type *type, int column,
                                         const tide_record_value *value);
/* False at the end. */
bool tide_record_next_pair(tide_record_cursor *cursor, tide_view *key, tide_view *value);
bool tide_record_next_id(tide_record_cursor *cursor, uint64_t *id);

/* Is this a record that readers may get: a message of this type, its texts valid UTF-8 without NUL, its numbers in their range?
 * Whoever takes encoded records from outside asks before numbering them. TIDE_E_INVALID says what is wrong. */
TIDE_MUST_CHECK tide_status tide_record_check(const tide_stream_type *type,
                                              const tide_record *record, tide_error *err);

/* Append one value as JSON: a MAP as an object (a key given twice: its last value), IDS as an array, a BLOB in base64, U64 as a number. */
TIDE_MUST_CHECK tide_status tide_record_value_json(tide_buffer *out, const tide_stream_type *type,
                                                   int column, const tide_record_value *value);
/* A whole record as an object: seq_id first, then every column by name. */
TIDE_MUST_CHECK tide_status tide_record_row_json(tide_buffer *out, const tide_stream_type *type,
                                                 const tide_record_row *row);

/* ---- sets of services ---- */

/* Does the set (names with their NULs) hold one of these? An empty set is not known and may hold any. */
bool tide_record_services_may_hold(tide_view services, const char *const *names, int count);
