#include "otlp/schema.h"

#define MESSAGE_TYPE(fields_)                                                                      \
    {                                                                                              \
        .fields = (fields_), .count = sizeof(fields_) / sizeof((fields_)[0])                       \
    }
#define FIELD(name_, kind_)                                                                        \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_##kind_                                            \
    }
#define LIST(name_, kind_)                                                                         \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_##kind_, .is_list = true                           \
    }
/* Exporters in JavaScript call every number without a fraction an integer, also 1e21. */
#define SIGNED(name_, kind_, if_too_large_)                                                        \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_##kind_, .if_too_large = (if_too_large_)           \
    }
#define ENUM(name_, values_)                                                                       \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_INT, .values = &(values_)                          \
    }
#define ONE(name_, type_)                                                                          \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_MESSAGE, .message = &(type_)                       \
    }
#define MANY(name_, type_)                                                                         \
    {                                                                                              \
        .name = (name_), .kind = TIDE_OTLP_KIND_MESSAGE, .is_list = true, .message = &(type_)      \
    }
#define ENUM_OF(names_)                                                                            \
    {                                                                                              \
        .names = (names_), .count = sizeof(names_) / sizeof((names_)[0])                           \
    }

/* ---- enums ---- */

static const char *const span_kind_names[] = {
    "SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",      "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER",
};
static const char *const status_code_names[] = {
    "STATUS_CODE_UNSET",
    "STATUS_CODE_OK",
    "STATUS_CODE_ERROR",
};
static const char *const temporality_names[] = {
    "AGGREGATION_TEMPORALITY_UNSPECIFIED",
    "AGGREGATION_TEMPORALITY_DELTA",
    "AGGREGATION_TEMPORALITY_CUMULATIVE",
};
static const char *const severity_names[] = {
    "SEVERITY_NUMBER_UNSPECIFIED", "SEVERITY_NUMBER_TRACE",  "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",      "SEVERITY_NUMBER_TRACE4", "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",      "SEVERITY_NUMBER_DEBUG3", "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",        "SEVERITY_NUMBER_INFO2",  "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",       "SEVERITY_NUMBER_WARN",   "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",       "SEVERITY_NUMBER_WARN4",  "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",      "SEVERITY_NUMBER_ERROR3", "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",       "SEVERITY_NUMBER_FATAL2", "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
};
static const tide_otlp_enum span_kinds = ENUM_OF(span_kind_names);
static const tide_otlp_enum status_codes = ENUM_OF(status_code_names);
static const tide_otlp_enum temporalities = ENUM_OF(temporality_names);
static const tide_otlp_enum severities = ENUM_OF(severity_names);

/* ---- common ---- */

static const tide_otlp_message_type any_value;
static const tide_otlp_message_type key_value;

static const tide_otlp_field_type array_fields[] = {
    [TIDE_OTLP_LIST_VALUES] = MANY("values", any_value),
};
static const tide_otlp_message_type array_value = MESSAGE_TYPE(array_fields);

static const tide_otlp_field_type kvlist_fields[] = {
    [TIDE_OTLP_LIST_VALUES] = MANY("values", key_value),
};
static const tide_otlp_message_type kvlist_value = MESSAGE_TYPE(kvlist_fields);

static const tide_otlp_field_type any_fields[] = {
    [TIDE_OTLP_ANY_STRING] = FIELD("stringValue", TEXT),
    [TIDE_OTLP_ANY_BOOL] = FIELD("boolValue", BOOL),
    [TIDE_OTLP_ANY_INT] = SIGNED("intValue", INT, TIDE_OTLP_ANY_DOUBLE),
    [TIDE_OTLP_ANY_DOUBLE] = FIELD("doubleValue", DOUBLE),
    [TIDE_OTLP_ANY_ARRAY] = ONE("arrayValue", array_value),
    [TIDE_OTLP_ANY_KVLIST] = ONE("kvlistValue", kvlist_value),
    [TIDE_OTLP_ANY_BYTES] = FIELD("bytesValue", BYTES),
    [TIDE_OTLP_ANY_STRINDEX] = FIELD("stringValueStrindex", INT),
};
static const tide_otlp_message_type any_value = MESSAGE_TYPE(any_fields);

static const tide_otlp_field_type pair_fields[] = {
    [TIDE_OTLP_PAIR_KEY] = FIELD("key", TEXT),
    [TIDE_OTLP_PAIR_VALUE] = ONE("value", any_value),
    [TIDE_OTLP_PAIR_KEY_STRINDEX] = FIELD("keyStrindex", INT),
};
static const tide_otlp_message_type key_value = MESSAGE_TYPE(pair_fields);

static const tide_otlp_field_type resource_fields[] = {
    [TIDE_OTLP_RESOURCE_ATTRIBUTES] = MANY("attributes", key_value),
};
static const tide_otlp_message_type resource = MESSAGE_TYPE(resource_fields);

static const tide_otlp_field_type scope_fields[] = {
    [TIDE_OTLP_SCOPE_NAME] = FIELD("name", TEXT),
    [TIDE_OTLP_SCOPE_VERSION] = FIELD("version", TEXT),
    [TIDE_OTLP_SCOPE_ATTRIBUTES] = MANY("attributes", key_value),
};
static const tide_otlp_message_type scope = MESSAGE_TYPE(scope_fields);

/* ---- traces ---- */

static const tide_otlp_field_type event_fields[] = {
    [TIDE_OTLP_EVENT_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_EVENT_NAME] = FIELD("name", TEXT),
    [TIDE_OTLP_EVENT_ATTRIBUTES] = MANY("attributes", key_value),
};
static const tide_otlp_message_type event = MESSAGE_TYPE(event_fields);

static const tide_otlp_field_type link_fields[] = {
    [TIDE_OTLP_LINK_TRACE_ID] = FIELD("traceId", ID),
    [TIDE_OTLP_LINK_SPAN_ID] = FIELD("spanId", ID),
    [TIDE_OTLP_LINK_ATTRIBUTES] = MANY("attributes", key_value),
};
static const tide_otlp_message_type span_link = MESSAGE_TYPE(link_fields);

static const tide_otlp_field_type status_fields[] = {
    [TIDE_OTLP_STATUS_MESSAGE] = FIELD("message", TEXT),
    [TIDE_OTLP_STATUS_CODE] = ENUM("code", status_codes),
};
static const tide_otlp_message_type span_status = MESSAGE_TYPE(status_fields);

static const tide_otlp_field_type span_fields[] = {
    [TIDE_OTLP_SPAN_TRACE_ID] = FIELD("traceId", ID),
    [TIDE_OTLP_SPAN_SPAN_ID] = FIELD("spanId", ID),
    [TIDE_OTLP_SPAN_TRACE_STATE] = FIELD("traceState", TEXT),
    [TIDE_OTLP_SPAN_PARENT_SPAN_ID] = FIELD("parentSpanId", ID),
    [TIDE_OTLP_SPAN_NAME] = FIELD("name", TEXT),
    [TIDE_OTLP_SPAN_KIND] = ENUM("kind", span_kinds),
    [TIDE_OTLP_SPAN_START] = FIELD("startTimeUnixNano", FIXED64),
    [TIDE_OTLP_SPAN_END] = FIELD("endTimeUnixNano", FIXED64),
    [TIDE_OTLP_SPAN_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_SPAN_EVENTS] = MANY("events", event),
    [TIDE_OTLP_SPAN_LINKS] = MANY("links", span_link),
    [TIDE_OTLP_SPAN_STATUS] = ONE("status", span_status),
};
static const tide_otlp_message_type span = MESSAGE_TYPE(span_fields);

static const tide_otlp_field_type scope_spans_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("scope", scope),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("spans", span),
};
static const tide_otlp_message_type scope_spans = MESSAGE_TYPE(scope_spans_fields);

static const tide_otlp_field_type resource_spans_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("resource", resource),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("scopeSpans", scope_spans),
};
static const tide_otlp_message_type resource_spans = MESSAGE_TYPE(resource_spans_fields);

static const tide_otlp_field_type traces_fields[] = {
    [TIDE_OTLP_REQUEST_RESOURCES] = MANY("resourceSpans", resource_spans),
};
static const tide_otlp_message_type traces = MESSAGE_TYPE(traces_fields);

/* ---- metrics ---- */

static const tide_otlp_field_type number_fields[] = {
    [TIDE_OTLP_POINT_START] = FIELD("startTimeUnixNano", FIXED64),
    [TIDE_OTLP_POINT_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_NUMBER_DOUBLE] = FIELD("asDouble", DOUBLE),
    [TIDE_OTLP_NUMBER_INT] = SIGNED("asInt", FIXED64, TIDE_OTLP_NUMBER_DOUBLE),
    [TIDE_OTLP_NUMBER_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_NUMBER_FLAGS] = FIELD("flags", INT),
};
static const tide_otlp_message_type number_point = MESSAGE_TYPE(number_fields);

static const tide_otlp_field_type histogram_point_fields[] = {
    [TIDE_OTLP_POINT_START] = FIELD("startTimeUnixNano", FIXED64),
    [TIDE_OTLP_POINT_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_HISTOGRAM_COUNT] = FIELD("count", FIXED64),
    [TIDE_OTLP_HISTOGRAM_SUM] = FIELD("sum", DOUBLE),
    [TIDE_OTLP_HISTOGRAM_COUNTS] = LIST("bucketCounts", FIXED64),
    [TIDE_OTLP_HISTOGRAM_BOUNDS] = LIST("explicitBounds", DOUBLE),
    [TIDE_OTLP_HISTOGRAM_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_HISTOGRAM_FLAGS] = FIELD("flags", INT),
    [TIDE_OTLP_HISTOGRAM_MIN] = FIELD("min", DOUBLE),
    [TIDE_OTLP_HISTOGRAM_MAX] = FIELD("max", DOUBLE),
};
static const tide_otlp_message_type histogram_point = MESSAGE_TYPE(histogram_point_fields);

static const tide_otlp_field_type buckets_fields[] = {
    [TIDE_OTLP_BUCKETS_OFFSET] = FIELD("offset", SINT),
    [TIDE_OTLP_BUCKETS_COUNTS] = LIST("bucketCounts", INT),
};
static const tide_otlp_message_type buckets = MESSAGE_TYPE(buckets_fields);

static const tide_otlp_field_type exponential_point_fields[] = {
    [TIDE_OTLP_EXPONENTIAL_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_POINT_START] = FIELD("startTimeUnixNano", FIXED64),
    [TIDE_OTLP_POINT_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_EXPONENTIAL_COUNT] = FIELD("count", FIXED64),
    [TIDE_OTLP_EXPONENTIAL_SUM] = FIELD("sum", DOUBLE),
    [TIDE_OTLP_EXPONENTIAL_SCALE] = FIELD("scale", SINT),
    [TIDE_OTLP_EXPONENTIAL_ZERO_COUNT] = FIELD("zeroCount", FIXED64),
    [TIDE_OTLP_EXPONENTIAL_POSITIVE] = ONE("positive", buckets),
    [TIDE_OTLP_EXPONENTIAL_NEGATIVE] = ONE("negative", buckets),
    [TIDE_OTLP_EXPONENTIAL_FLAGS] = FIELD("flags", INT),
    [TIDE_OTLP_EXPONENTIAL_MIN] = FIELD("min", DOUBLE),
    [TIDE_OTLP_EXPONENTIAL_MAX] = FIELD("max", DOUBLE),
    [TIDE_OTLP_EXPONENTIAL_ZERO_THRESHOLD] = FIELD("zeroThreshold", DOUBLE),
};
static const tide_otlp_message_type exponential_point = MESSAGE_TYPE(exponential_point_fields);

static const tide_otlp_field_type quantile_fields[] = {
    [TIDE_OTLP_QUANTILE_AT] = FIELD("quantile", DOUBLE),
    [TIDE_OTLP_QUANTILE_VALUE] = FIELD("value", DOUBLE),
};
static const tide_otlp_message_type quantile = MESSAGE_TYPE(quantile_fields);

static const tide_otlp_field_type summary_point_fields[] = {
    [TIDE_OTLP_POINT_START] = FIELD("startTimeUnixNano", FIXED64),
    [TIDE_OTLP_POINT_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_SUMMARY_COUNT] = FIELD("count", FIXED64),
    [TIDE_OTLP_SUMMARY_SUM] = FIELD("sum", DOUBLE),
    [TIDE_OTLP_SUMMARY_QUANTILES] = MANY("quantileValues", quantile),
    [TIDE_OTLP_SUMMARY_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_SUMMARY_FLAGS] = FIELD("flags", INT),
};
static const tide_otlp_message_type summary_point = MESSAGE_TYPE(summary_point_fields);

static const tide_otlp_field_type gauge_fields[] = {
    [TIDE_OTLP_DATA_POINTS] = MANY("dataPoints", number_point),
};
static const tide_otlp_message_type gauge = MESSAGE_TYPE(gauge_fields);

static const tide_otlp_field_type sum_fields[] = {
    [TIDE_OTLP_DATA_POINTS] = MANY("dataPoints", number_point),
    [TIDE_OTLP_DATA_TEMPORALITY] = ENUM("aggregationTemporality", temporalities),
    [TIDE_OTLP_DATA_MONOTONIC] = FIELD("isMonotonic", BOOL),
};
static const tide_otlp_message_type sum = MESSAGE_TYPE(sum_fields);

static const tide_otlp_field_type histogram_fields[] = {
    [TIDE_OTLP_DATA_POINTS] = MANY("dataPoints", histogram_point),
    [TIDE_OTLP_DATA_TEMPORALITY] = ENUM("aggregationTemporality", temporalities),
};
static const tide_otlp_message_type histogram = MESSAGE_TYPE(histogram_fields);

static const tide_otlp_field_type exponential_fields[] = {
    [TIDE_OTLP_DATA_POINTS] = MANY("dataPoints", exponential_point),
    [TIDE_OTLP_DATA_TEMPORALITY] = ENUM("aggregationTemporality", temporalities),
};
static const tide_otlp_message_type exponential = MESSAGE_TYPE(exponential_fields);

static const tide_otlp_field_type summary_fields[] = {
    [TIDE_OTLP_DATA_POINTS] = MANY("dataPoints", summary_point),
};
static const tide_otlp_message_type summary = MESSAGE_TYPE(summary_fields);

static const tide_otlp_field_type metric_fields[] = {
    [TIDE_OTLP_METRIC_NAME] = FIELD("name", TEXT),
    [TIDE_OTLP_METRIC_UNIT] = FIELD("unit", TEXT),
    [TIDE_OTLP_METRIC_GAUGE] = ONE("gauge", gauge),
    [TIDE_OTLP_METRIC_SUM] = ONE("sum", sum),
    [TIDE_OTLP_METRIC_HISTOGRAM] = ONE("histogram", histogram),
    [TIDE_OTLP_METRIC_EXPONENTIAL] = ONE("exponentialHistogram", exponential),
    [TIDE_OTLP_METRIC_SUMMARY] = ONE("summary", summary),
};
static const tide_otlp_message_type metric = MESSAGE_TYPE(metric_fields);

static const tide_otlp_field_type scope_metrics_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("scope", scope),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("metrics", metric),
};
static const tide_otlp_message_type scope_metrics = MESSAGE_TYPE(scope_metrics_fields);

static const tide_otlp_field_type resource_metrics_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("resource", resource),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("scopeMetrics", scope_metrics),
};
static const tide_otlp_message_type resource_metrics = MESSAGE_TYPE(resource_metrics_fields);

static const tide_otlp_field_type metrics_fields[] = {
    [TIDE_OTLP_REQUEST_RESOURCES] = MANY("resourceMetrics", resource_metrics),
};
static const tide_otlp_message_type metrics = MESSAGE_TYPE(metrics_fields);

/* ---- logs ---- */

static const tide_otlp_field_type log_fields[] = {
    [TIDE_OTLP_LOG_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_LOG_SEVERITY_NUMBER] = ENUM("severityNumber", severities),
    [TIDE_OTLP_LOG_SEVERITY_TEXT] = FIELD("severityText", TEXT),
    [TIDE_OTLP_LOG_BODY] = ONE("body", any_value),
    [TIDE_OTLP_LOG_ATTRIBUTES] = MANY("attributes", key_value),
    [TIDE_OTLP_LOG_TRACE_ID] = FIELD("traceId", ID),
    [TIDE_OTLP_LOG_SPAN_ID] = FIELD("spanId", ID),
    [TIDE_OTLP_LOG_OBSERVED_TIME] = FIELD("observedTimeUnixNano", FIXED64),
    [TIDE_OTLP_LOG_EVENT_NAME] = FIELD("eventName", TEXT),
};
static const tide_otlp_message_type log_record = MESSAGE_TYPE(log_fields);

static const tide_otlp_field_type scope_logs_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("scope", scope),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("logRecords", log_record),
};
static const tide_otlp_message_type scope_logs = MESSAGE_TYPE(scope_logs_fields);

static const tide_otlp_field_type resource_logs_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("resource", resource),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("scopeLogs", scope_logs),
};
static const tide_otlp_message_type resource_logs = MESSAGE_TYPE(resource_logs_fields);

static const tide_otlp_field_type logs_fields[] = {
    [TIDE_OTLP_REQUEST_RESOURCES] = MANY("resourceLogs", resource_logs),
};
static const tide_otlp_message_type logs = MESSAGE_TYPE(logs_fields);

/* ---- profiles ---- */

static const tide_otlp_field_type mapping_fields[] = {
    [TIDE_OTLP_MAPPING_FILENAME] = FIELD("filenameStrindex", INT),
    [TIDE_OTLP_MAPPING_ATTRIBUTES] = LIST("attributeIndices", INT),
};
static const tide_otlp_message_type mapping = MESSAGE_TYPE(mapping_fields);

static const tide_otlp_field_type line_fields[] = {
    [TIDE_OTLP_LINE_FUNCTION] = FIELD("functionIndex", INT),
};
static const tide_otlp_message_type line = MESSAGE_TYPE(line_fields);

static const tide_otlp_field_type location_fields[] = {
    [TIDE_OTLP_LOCATION_MAPPING] = FIELD("mappingIndex", INT),
    [TIDE_OTLP_LOCATION_ADDRESS] = FIELD("address", INT),
    [TIDE_OTLP_LOCATION_LINES] = MANY("lines", line),
};
static const tide_otlp_message_type location = MESSAGE_TYPE(location_fields);

static const tide_otlp_field_type function_fields[] = {
    [TIDE_OTLP_FUNCTION_NAME] = FIELD("nameStrindex", INT),
    [TIDE_OTLP_FUNCTION_SYSTEM_NAME] = FIELD("systemNameStrindex", INT),
};
static const tide_otlp_message_type function = MESSAGE_TYPE(function_fields);

static const tide_otlp_field_type entry_fields[] = {
    [TIDE_OTLP_ENTRY_KEY] = FIELD("keyStrindex", INT),
    [TIDE_OTLP_ENTRY_VALUE] = ONE("value", any_value),
};
static const tide_otlp_message_type entry = MESSAGE_TYPE(entry_fields);

static const tide_otlp_field_type stack_fields[] = {
    [TIDE_OTLP_STACK_LOCATIONS] = LIST("locationIndices", INT),
};
static const tide_otlp_message_type stack = MESSAGE_TYPE(stack_fields);

static const tide_otlp_field_type dictionary_fields[] = {
    [TIDE_OTLP_DICTIONARY_MAPPINGS] = MANY("mappingTable", mapping),
    [TIDE_OTLP_DICTIONARY_LOCATIONS] = MANY("locationTable", location),
    [TIDE_OTLP_DICTIONARY_FUNCTIONS] = MANY("functionTable", function),
    [TIDE_OTLP_DICTIONARY_STRINGS] = LIST("stringTable", TEXT),
    [TIDE_OTLP_DICTIONARY_ATTRIBUTES] = MANY("attributeTable", entry),
    [TIDE_OTLP_DICTIONARY_STACKS] = MANY("stackTable", stack),
};
static const tide_otlp_message_type dictionary = MESSAGE_TYPE(dictionary_fields);

static const tide_otlp_field_type value_type_fields[] = {
    [TIDE_OTLP_TYPE_NAME] = FIELD("typeStrindex", INT),
    [TIDE_OTLP_TYPE_UNIT] = FIELD("unitStrindex", INT),
};
static const tide_otlp_message_type value_type = MESSAGE_TYPE(value_type_fields);

static const tide_otlp_field_type sample_fields[] = {
    [TIDE_OTLP_SAMPLE_STACK] = FIELD("stackIndex", INT),
    [TIDE_OTLP_SAMPLE_ATTRIBUTES] = LIST("attributeIndices", INT),
    [TIDE_OTLP_SAMPLE_VALUES] = LIST("values", INT),
    [TIDE_OTLP_SAMPLE_TIMES] = LIST("timestampsUnixNano", FIXED64),
};
static const tide_otlp_message_type sample = MESSAGE_TYPE(sample_fields);

static const tide_otlp_field_type profile_fields[] = {
    [TIDE_OTLP_PROFILE_TYPE] = ONE("sampleType", value_type),
    [TIDE_OTLP_PROFILE_SAMPLES] = MANY("samples", sample),
    [TIDE_OTLP_PROFILE_TIME] = FIELD("timeUnixNano", FIXED64),
    [TIDE_OTLP_PROFILE_PERIOD] = FIELD("period", INT),
    [TIDE_OTLP_PROFILE_ATTRIBUTES] = LIST("attributeIndices", INT),
};
static const tide_otlp_message_type profile = MESSAGE_TYPE(profile_fields);

static const tide_otlp_field_type scope_profiles_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("scope", scope),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("profiles", profile),
};
static const tide_otlp_message_type scope_profiles = MESSAGE_TYPE(scope_profiles_fields);

static const tide_otlp_field_type resource_profiles_fields[] = {
    [TIDE_OTLP_GROUP_OWNER] = ONE("resource", resource),
    [TIDE_OTLP_GROUP_MEMBERS] = MANY("scopeProfiles", scope_profiles),
};
static const tide_otlp_message_type resource_profiles = MESSAGE_TYPE(resource_profiles_fields);

static const tide_otlp_field_type profiles_fields[] = {
    [TIDE_OTLP_REQUEST_RESOURCES] = MANY("resourceProfiles", resource_profiles),
    [TIDE_OTLP_REQUEST_DICTIONARY] = ONE("dictionary", dictionary),
};
static const tide_otlp_message_type profiles = MESSAGE_TYPE(profiles_fields);

/* ---- looking up ---- */

const tide_otlp_message_type *tide_otlp_request_type(tide_otlp_signal signal)
{
    switch (signal) {
    case TIDE_OTLP_TRACES:
        return &traces;
    case TIDE_OTLP_METRICS:
        return &metrics;
    case TIDE_OTLP_PROFILES:
        return &profiles;
    case TIDE_OTLP_LOGS:
    case TIDE_OTLP_SIGNAL_COUNT:
        break;
    }
    return &logs;
}

/* Is the key this name, or the same in snake_case? */
static bool is_name(const char *name, tide_view key)
{
    size_t at = 0;
    for (; *name; name++, at++) {
        if (at == key.len)
            return false;
        if (key.ptr[at] == *name)
            continue;
        const bool is_upper = *name >= 'A' && *name <= 'Z';
        if (!is_upper || key.ptr[at] != '_' || at + 1 == key.len ||
            key.ptr[at + 1] != *name - 'A' + 'a')
            return false;
        at++;
    }
    return at == key.len;
}

uint32_t tide_otlp_field_find(const tide_otlp_message_type *type, tide_view key)
{
    for (uint32_t number = 1; number < type->count; number++)
        if (type->fields[number].name && is_name(type->fields[number].name, key))
            return number;
    return 0;
}

bool tide_otlp_enum_find(const tide_otlp_enum *values, tide_view name, uint64_t *out)
{
    for (int i = 0; i < values->count; i++) {
        if (tide_view_equal(tide_view_of(values->names[i]), name)) {
            *out = (uint64_t)i;
            return true;
        }
    }
    return false;
}
