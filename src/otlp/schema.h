/* schema.h - the messages of OTLP v1 as far as we read them: fields by number, with their JSON
 * names.
 *
 * The table serves both formats: protobuf looks a field up by its number, JSON by its
 * lowerCamelCase name (or the name as it stands in the .proto files). A field that is not in the
 * table is unknown and passed over. Field numbers are the enums below.
 *
 * Threads: constant data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/view.h>

#include "otlp/otlp.h"

enum {
    TIDE_OTLP_ID_LEN_MAX = 16, /* bytes of a trace id; a span id has 8 */
};

typedef enum tide_otlp_kind {
    TIDE_OTLP_KIND_UNKNOWN,
    TIDE_OTLP_KIND_MESSAGE,
    TIDE_OTLP_KIND_TEXT,
    TIDE_OTLP_KIND_BYTES, /* JSON: base64 */
    TIDE_OTLP_KIND_ID,    /* bytes; JSON: hexadecimal */
    TIDE_OTLP_KIND_BOOL,
    TIDE_OTLP_KIND_INT,  /* every varint; JSON: a number, a text of digits, or the name of an enum's
                            value */
    TIDE_OTLP_KIND_SINT, /* zigzag */
    TIDE_OTLP_KIND_FIXED64,
    TIDE_OTLP_KIND_DOUBLE, /* JSON: also "NaN", "Infinity", "-Infinity" */
} tide_otlp_kind;

struct tide_otlp_message_type;

/* The values of an enum, from 0 on. */
typedef struct tide_otlp_enum {
    const char *const *names;
    int count;
} tide_otlp_enum;

typedef struct tide_otlp_field_type {
    const char *name; /* NULL: not a field */
    tide_otlp_kind kind;
    bool is_list;
    const struct tide_otlp_message_type *message;
    const tide_otlp_enum *values;
    uint32_t if_too_large; /* JSON: the DOUBLE that a whole number beyond int64 is instead; 0: such
                              a number is refused */
} tide_otlp_field_type;

typedef struct tide_otlp_message_type {
    const tide_otlp_field_type *fields; /* by number; 0 is none */
    uint32_t count;
} tide_otlp_message_type;

/* The same in all signals; a dictionary is of profiles. */
enum { TIDE_OTLP_REQUEST_RESOURCES = 1, TIDE_OTLP_REQUEST_DICTIONARY = 2 };
enum {
    TIDE_OTLP_GROUP_OWNER = 1,
    TIDE_OTLP_GROUP_MEMBERS = 2
}; /* resource or scope, and what it has */

enum { TIDE_OTLP_RESOURCE_ATTRIBUTES = 1 };
enum { TIDE_OTLP_SCOPE_NAME = 1, TIDE_OTLP_SCOPE_VERSION = 2, TIDE_OTLP_SCOPE_ATTRIBUTES = 3 };
enum { TIDE_OTLP_PAIR_KEY = 1, TIDE_OTLP_PAIR_VALUE = 2, TIDE_OTLP_PAIR_KEY_STRINDEX = 3 };
enum {
    TIDE_OTLP_ANY_STRING = 1,
    TIDE_OTLP_ANY_BOOL,
    TIDE_OTLP_ANY_INT,
    TIDE_OTLP_ANY_DOUBLE,
    TIDE_OTLP_ANY_ARRAY,
    TIDE_OTLP_ANY_KVLIST,
    TIDE_OTLP_ANY_BYTES,
    TIDE_OTLP_ANY_STRINDEX, /* in the dictionary */
};
enum { TIDE_OTLP_LIST_VALUES = 1 };

enum {
    TIDE_OTLP_SPAN_TRACE_ID = 1,
    TIDE_OTLP_SPAN_SPAN_ID = 2,
    TIDE_OTLP_SPAN_TRACE_STATE = 3,
    TIDE_OTLP_SPAN_PARENT_SPAN_ID = 4,
    TIDE_OTLP_SPAN_NAME = 5,
    TIDE_OTLP_SPAN_KIND = 6,
    TIDE_OTLP_SPAN_START = 7,
    TIDE_OTLP_SPAN_END = 8,
    TIDE_OTLP_SPAN_ATTRIBUTES = 9,
    TIDE_OTLP_SPAN_EVENTS = 11,
    TIDE_OTLP_SPAN_LINKS = 13,
    TIDE_OTLP_SPAN_STATUS = 15,
};
enum { TIDE_OTLP_EVENT_TIME = 1, TIDE_OTLP_EVENT_NAME = 2, TIDE_OTLP_EVENT_ATTRIBUTES = 3 };
enum { TIDE_OTLP_LINK_TRACE_ID = 1, TIDE_OTLP_LINK_SPAN_ID = 2, TIDE_OTLP_LINK_ATTRIBUTES = 4 };
enum { TIDE_OTLP_STATUS_MESSAGE = 2, TIDE_OTLP_STATUS_CODE = 3 };
enum { TIDE_OTLP_STATUS_ERROR = 2 }; /* value of the code */

enum {
    TIDE_OTLP_METRIC_NAME = 1,
    TIDE_OTLP_METRIC_UNIT = 3,
    TIDE_OTLP_METRIC_GAUGE = 5,
    TIDE_OTLP_METRIC_SUM = 7,
    TIDE_OTLP_METRIC_HISTOGRAM = 9,
    TIDE_OTLP_METRIC_EXPONENTIAL = 10,
    TIDE_OTLP_METRIC_SUMMARY = 11,
};
enum { TIDE_OTLP_DATA_POINTS = 1, TIDE_OTLP_DATA_TEMPORALITY = 2, TIDE_OTLP_DATA_MONOTONIC = 3 };
enum { TIDE_OTLP_TEMPORALITY_DELTA = 1, TIDE_OTLP_TEMPORALITY_CUMULATIVE = 2 };
enum { TIDE_OTLP_POINT_START = 2, TIDE_OTLP_POINT_TIME = 3 }; /* of every kind of point */
enum { TIDE_OTLP_FLAG_NO_VALUE = 1 };
enum {
    TIDE_OTLP_NUMBER_DOUBLE = 4,
    TIDE_OTLP_NUMBER_INT = 6,
    TIDE_OTLP_NUMBER_ATTRIBUTES = 7,
    TIDE_OTLP_NUMBER_FLAGS = 8,
};
enum {
    TIDE_OTLP_HISTOGRAM_COUNT = 4,
    TIDE_OTLP_HISTOGRAM_SUM = 5,
    TIDE_OTLP_HISTOGRAM_COUNTS = 6,
    TIDE_OTLP_HISTOGRAM_BOUNDS = 7,
    TIDE_OTLP_HISTOGRAM_ATTRIBUTES = 9,
    TIDE_OTLP_HISTOGRAM_FLAGS = 10,
    TIDE_OTLP_HISTOGRAM_MIN = 11,
    TIDE_OTLP_HISTOGRAM_MAX = 12,
};
enum {
    TIDE_OTLP_EXPONENTIAL_ATTRIBUTES = 1,
    TIDE_OTLP_EXPONENTIAL_COUNT = 4,
    TIDE_OTLP_EXPONENTIAL_SUM = 5,
    TIDE_OTLP_EXPONENTIAL_SCALE = 6,
    TIDE_OTLP_EXPONENTIAL_ZERO_COUNT = 7,
    TIDE_OTLP_EXPONENTIAL_POSITIVE = 8,
    TIDE_OTLP_EXPONENTIAL_NEGATIVE = 9,
    TIDE_OTLP_EXPONENTIAL_FLAGS = 10,
    TIDE_OTLP_EXPONENTIAL_MIN = 12,
    TIDE_OTLP_EXPONENTIAL_MAX = 13,
    TIDE_OTLP_EXPONENTIAL_ZERO_THRESHOLD = 14,
};
enum { TIDE_OTLP_BUCKETS_OFFSET = 1, TIDE_OTLP_BUCKETS_COUNTS = 2 };
enum {
    TIDE_OTLP_SUMMARY_COUNT = 4,
    TIDE_OTLP_SUMMARY_SUM = 5,
    TIDE_OTLP_SUMMARY_QUANTILES = 6,
    TIDE_OTLP_SUMMARY_ATTRIBUTES = 7,
    TIDE_OTLP_SUMMARY_FLAGS = 8,
};
enum { TIDE_OTLP_QUANTILE_AT = 1, TIDE_OTLP_QUANTILE_VALUE = 2 };

enum {
    TIDE_OTLP_LOG_TIME = 1,
    TIDE_OTLP_LOG_SEVERITY_NUMBER = 2,
    TIDE_OTLP_LOG_SEVERITY_TEXT = 3,
    TIDE_OTLP_LOG_BODY = 5,
    TIDE_OTLP_LOG_ATTRIBUTES = 6,
    TIDE_OTLP_LOG_TRACE_ID = 9,
    TIDE_OTLP_LOG_SPAN_ID = 10,
    TIDE_OTLP_LOG_OBSERVED_TIME = 11,
    TIDE_OTLP_LOG_EVENT_NAME = 12,
};

/* Profiles: opentelemetry.proto.profiles.v1development as it was published with OTLP v1.10.0. The signal
 * is in development, and numbers have changed between versions: docs/otlp.md. */
enum {
    TIDE_OTLP_DICTIONARY_MAPPINGS = 1,
    TIDE_OTLP_DICTIONARY_LOCATIONS = 2,
    TIDE_OTLP_DICTIONARY_FUNCTIONS = 3,
    TIDE_OTLP_DICTIONARY_STRINGS = 5,
    TIDE_OTLP_DICTIONARY_ATTRIBUTES = 6,
    TIDE_OTLP_DICTIONARY_STACKS = 7,
};
enum { TIDE_OTLP_MAPPING_FILENAME = 4, TIDE_OTLP_MAPPING_ATTRIBUTES = 5 };
enum {
    TIDE_OTLP_LOCATION_MAPPING = 1,
    TIDE_OTLP_LOCATION_ADDRESS = 2,
    TIDE_OTLP_LOCATION_LINES = 3
};
enum { TIDE_OTLP_LINE_FUNCTION = 1 };
enum { TIDE_OTLP_FUNCTION_NAME = 1, TIDE_OTLP_FUNCTION_SYSTEM_NAME = 2 };
enum { TIDE_OTLP_STACK_LOCATIONS = 1 };
enum { TIDE_OTLP_ENTRY_KEY = 1, TIDE_OTLP_ENTRY_VALUE = 2 }; /* of the table of attributes */
enum {
    TIDE_OTLP_PROFILE_TYPE = 1,
    TIDE_OTLP_PROFILE_SAMPLES = 2,
    TIDE_OTLP_PROFILE_TIME = 3,
    TIDE_OTLP_PROFILE_PERIOD = 6,
    TIDE_OTLP_PROFILE_ATTRIBUTES = 11,
};
enum { TIDE_OTLP_TYPE_NAME = 1, TIDE_OTLP_TYPE_UNIT = 2 };
enum {
    TIDE_OTLP_SAMPLE_STACK = 1,
    TIDE_OTLP_SAMPLE_ATTRIBUTES = 2,
    TIDE_OTLP_SAMPLE_VALUES = 4,
    TIDE_OTLP_SAMPLE_TIMES = 5,
};

/* The message of a signal's export request. */
const tide_otlp_message_type *tide_otlp_request_type(tide_otlp_signal signal);

/* The field of a JSON key; 0: unknown. */
uint32_t tide_otlp_field_find(const tide_otlp_message_type *type, tide_view key);

/* The number of an enum's value; false: no such name. */
bool tide_otlp_enum_find(const tide_otlp_enum *values, tide_view name, uint64_t *out);
