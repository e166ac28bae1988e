/* otlp.h - OTLP export requests become records of our streams.
 *
 *     bytes     -> reader -> one pass over the messages -> records, encoded -> tide_feed_commit
 *     protobuf               resource > scope > record     (feed/record.h)
 *     or JSON
 *
 * Protobuf and JSON are read by one walk over one table of messages (schema.h), so that the same
 * request gives the same records whichever way it came. Nothing is built in between: texts stay
 * where they came in until they are copied into their record. Unknown fields are passed over.
 *
 * What becomes of what (docs/otlp.md has the columns):
 *     traces    telemetry; spans of eBPF instrumentation (Beyla, OBI): beyla_traces
 *     metrics   beyla_http, beyla_grpc, beyla_sql: histograms of durations by name, a record per
 *               non-empty bucket; everything else: system_metrics
 *     logs      logs
 *     profiles  cpu_profile, memory_profile: a record per sample
 *
 * Samples of profiles name their frames by numbers that hold beyond the request. Who gives them is told by the options (frames):
 * everything is read once, and when nothing is wrong with it, the frames that samples use are numbered and the records are made. So a request
 * that fails leaves no frame behind.
 *
 * Counts in beyla_* are what happened since the point before: histograms with cumulative
 * temporality are compared with their last point, which is remembered per series (series.h). Nobody
 * else can: a reader that sums counts must not need to know who exported them. A request whose
 * records were not stored must be taken back (tide_otlp_undo).
 *
 * A record that cannot be taken is rejected with a reason and counted; the others go on (OTLP:
 * partial success). A request that is malformed or beyond a limit fails as a whole, and nothing of
 * it is in the output.
 *
 * Survives: nothing; it computes. Remembered series begin anew with the process.
 * Threads: a tide_otlp and an output belong to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "feed/record.h"

enum {
    TIDE_OTLP_REQUEST_MAX = 64 << 20, /* bytes; TIDE_E_LIMIT */
    TIDE_OTLP_VALUE_DEPTH_MAX = 16,   /* lists within lists in one attribute; record rejected */
    TIDE_OTLP_ATTRIBUTES_MAX =
        1024, /* of a record, its scope and its resource together; rejected */
    TIDE_OTLP_ATTRIBUTE_BYTES_MAX = 512 << 10, /* keys and values of them; rejected */
    TIDE_OTLP_RECORD_BYTES_MAX = 1 << 20,      /* of one record; rejected */
    TIDE_OTLP_BUCKETS_MAX = 2048,              /* of one data point; rejected */
    TIDE_OTLP_SERIES_MAX = 16384,              /* remembered; the longest unseen is forgotten */
    TIDE_OTLP_SERIES_BYTES_MAX = 16 << 20,     /* of their counts */
    TIDE_OTLP_MESSAGE_MAX = 512,     /* of the words about rejected records, with the NUL */
    TIDE_OTLP_OUTPUT_MAX = 96 << 20, /* bytes of all records of a request; TIDE_E_LIMIT */
    TIDE_OTLP_TABLE_MAX = 131072,    /* entries of each table of a dictionary; TIDE_E_LIMIT */
    TIDE_OTLP_INDICES_MAX =
        2097152, /* locations of all its stacks, lines of all locations; TIDE_E_LIMIT */
    TIDE_OTLP_DICTIONARY_BYTES_MAX = 16
                                     << 20, /* of texts in it that had to be made; TIDE_E_LIMIT */
    TIDE_OTLP_STACK_MAX = 2048,             /* frames of a sample; rejected */
    TIDE_OTLP_FRAME_NAME_MAX = 16384,       /* bytes; longer names are cut */
    /* Records of one request and stream: TIDE_FEED_COMMIT_RECORDS_MAX; TIDE_E_LIMIT. */
};

typedef enum tide_otlp_signal {
    TIDE_OTLP_TRACES,
    TIDE_OTLP_METRICS,
    TIDE_OTLP_LOGS,
    TIDE_OTLP_PROFILES,
    TIDE_OTLP_SIGNAL_COUNT,
} tide_otlp_signal;

typedef enum tide_otlp_format {
    TIDE_OTLP_PROTOBUF,
    TIDE_OTLP_JSON,
} tide_otlp_format;

/* X(name, what the exporter is told). Why a record was not taken. */
#define TIDE_OTLP_REASON_TABLE(X)                                                                  \
    X(IDS, "without a valid trace_id and span_id")                                                 \
    X(RECORD_BYTES, "larger than 1048576 bytes")                                                   \
    X(ATTRIBUTES, "with more than 1024 attributes")                                                \
    X(ATTRIBUTE_BYTES, "with more than 524288 bytes of attributes")                                \
    X(DEPTH, "with an attribute nested deeper than 16")                                            \
    X(NO_VALUE, "without a value")                                                                 \
    X(TEMPORALITY, "without an aggregation temporality")                                           \
    X(BUCKETS, "with buckets that do not fit their bounds or are more than 2048")                  \
    X(PROFILE_TYPE, "of a type other than samples, cpu, alloc_space, alloc_objects")               \
    X(REFERENCE, "that refer to what the dictionary does not have")                                \
    X(STACK, "with a stack of more than 2048 frames")

typedef enum tide_otlp_reason {
    TIDE_OTLP_REASON_NONE = -1,
#define TIDE_OTLP_REASON_ENUM(name, text) TIDE_OTLP_REASON_##name,
    TIDE_OTLP_REASON_TABLE(TIDE_OTLP_REASON_ENUM)
#undef TIDE_OTLP_REASON_ENUM
        TIDE_OTLP_REASON_COUNT,
} tide_otlp_reason;

/* Who numbers the frames of profiles; durable when it returns. names: valid UTF-8, not empty, some of them twice. */
typedef struct tide_otlp_frames {
    tide_status (*number)(void *arg, const tide_view *names, uint64_t *ids, int count,
                          tide_error *err); /* NULL: frames have the numbers of their places */
    void *arg;
} tide_otlp_frames;

typedef struct tide_otlp_options {
    tide_otlp_frames frames;
    /* Of spans that neither failed nor took longer than 500 ms this share is kept, the same of a
     * trace everywhere. 1 (and every value above): all of them. */
    double sample_fraction;
    /* Unix ms; a series of counts that began later is new to us as a whole. 0: nothing is known to
     * be. */
    int64_t started_ms;
    uint64_t hash_seed; /* a random number: nobody outside can choose keys that collide */
} tide_otlp_options;

/* What a request became. Batches are indexed by tide_stream_kind; those of other streams stay
 * empty. */
typedef struct tide_otlp_output {
    tide_record_batch batches[TIDE_STREAM_BUILT_IN_COUNT];
    int64_t received; /* spans, data points, log records, profiles */
    int64_t rejected; /* of them, for these reasons */
    int64_t reasons[TIDE_OTLP_REASON_COUNT];
    int64_t sampled_out; /* spans that were left out by choice */
    int64_t
        unchanged; /* data points and profiles that told nothing new: first of their series, late, empty */
    uint64_t replaced; /* broken characters */
    tide_buffer undo;  /* series.h */
    size_t undo_last;
} tide_otlp_output;

/* Allocates nothing yet. Fits TIDE_CLEANUP with tide_otlp_output_done. */
void tide_otlp_output_init(tide_otlp_output *output);
void tide_otlp_output_done(tide_otlp_output *output);
/* Forget everything, keep the memory. */
void tide_otlp_output_clear(tide_otlp_output *output);

/* The batches that have records, for tide_feed_commit; returns how many. Borrowed until the output
 * changes. */
int tide_otlp_output_records(tide_otlp_output *output,
                             tide_feed_records records[TIDE_STREAM_BUILT_IN_COUNT]);

typedef struct tide_otlp tide_otlp;

TIDE_MUST_CHECK tide_status tide_otlp_new(tide_otlp **out, const tide_otlp_options *options,
                                          tide_error *err);
void tide_otlp_free(tide_otlp *otlp);
TIDE_CLEANUP_FN(tide_otlp_freep, tide_otlp, tide_otlp_free)

/* Read one request; now_ms is the time of records that do not tell theirs. The output is cleared
 * first. TIDE_E_INVALID: malformed, the text says where (offset; line and column). TIDE_E_LIMIT:
 * too large, or too many records. TIDE_E_NOMEM. What the options' frames say. On failure the output is empty and no series has
 * changed. */
TIDE_MUST_CHECK tide_status tide_otlp_decode(tide_otlp *otlp, tide_otlp_signal signal,
                                             tide_otlp_format format, tide_view request,
                                             int64_t now_ms, tide_otlp_output *output,
                                             tide_error *err);

/* The output's records were not stored: the series are as before, unless a later request went on
 * from them. */
void tide_otlp_undo(tide_otlp *otlp, tide_otlp_output *output);

/* ---- answers ---- */

/* What to say about rejected records: "2 spans rejected: 2 without a valid trace_id and span_id";
 * "" when there are none. */
void tide_otlp_describe(tide_otlp_signal signal, const tide_otlp_output *output,
                        char out[TIDE_OTLP_MESSAGE_MAX]);

/* Append Export{Trace,Metrics,Logs,Profiles}ServiceResponse. On failure (TIDE_E_LIMIT, TIDE_E_NOMEM) out is
 * as before. */
TIDE_MUST_CHECK tide_status tide_otlp_answer(tide_buffer *out, tide_otlp_signal signal,
                                             tide_otlp_format format,
                                             const tide_otlp_output *output);
