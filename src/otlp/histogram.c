#include "otlp/histogram.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "otlp/metrics.h"

/* The upper bound of a bucket, in the metric's own unit. */
static double otlp_histogram_upper(const tide_otlp_histogram *histogram, int bucket)
{
    if (histogram->is_exponential)
        return exp2(ldexp((double)(histogram->offset + bucket + 1), -histogram->scale));
    return bucket < histogram->bound_count ? histogram->bounds[bucket] : INFINITY;
}

/* ---- reading ---- */

static void clear_point(tide_otlp_histogram *point, bool is_exponential)
{
    point->start_ns = 0;
    point->time_ns = 0;
    point->flags = 0;
    point->count = 0;
    point->sum = 0;
    point->min = 0;
    point->max = 0;
    point->has_sum = false;
    point->has_min = false;
    point->has_max = false;
    point->is_exponential = is_exponential;
    point->scale = 0;
    point->offset = 0;
    point->zero_count = 0;
    point->zero_threshold = 0;
    point->bucket_count = 0;
    point->bound_count = 0;
}

static void add_count(tide_otlp *otlp, uint64_t count)
{
    tide_otlp_histogram *point = &otlp->histogram;
    if (point->bucket_count == TIDE_OTLP_BUCKETS_MAX)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_BUCKETS);
    else
        point->counts[point->bucket_count++] = count;
}

static void add_bound(tide_otlp *otlp, double bound)
{
    tide_otlp_histogram *point = &otlp->histogram;
    if (point->bound_count == TIDE_OTLP_BUCKETS_MAX)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_BUCKETS);
    else
        point->bounds[point->bound_count++] = bound;
}

static void take_double(double *out, bool *has, double value)
{
    *out = value;
    *has = true;
}

static tide_status read_explicit_field(tide_otlp *otlp, tide_otlp_message *message,
                                       const tide_otlp_field *field)
{
    tide_otlp_histogram *point = &otlp->histogram;
    switch (field->number) {
    case TIDE_OTLP_POINT_START:
        point->start_ns = field->u64;
        break;
    case TIDE_OTLP_POINT_TIME:
        point->time_ns = field->u64;
        break;
    case TIDE_OTLP_HISTOGRAM_COUNT:
        point->count = field->u64;
        break;
    case TIDE_OTLP_HISTOGRAM_SUM:
        take_double(&point->sum, &point->has_sum, field->f64);
        break;
    case TIDE_OTLP_HISTOGRAM_COUNTS:
        add_count(otlp, field->u64);
        break;
    case TIDE_OTLP_HISTOGRAM_BOUNDS:
        add_bound(otlp, field->f64);
        break;
    case TIDE_OTLP_HISTOGRAM_FLAGS:
        point->flags = field->u64;
        break;
    case TIDE_OTLP_HISTOGRAM_MIN:
        take_double(&point->min, &point->has_min, field->f64);
        break;
    case TIDE_OTLP_HISTOGRAM_MAX:
        take_double(&point->max, &point->has_max, field->f64);
        break;
    default: /* TIDE_OTLP_HISTOGRAM_ATTRIBUTES */
        return tide_otlp_read_attribute(otlp, message, field);
    }
    return TIDE_OK;
}

static tide_status read_buckets(tide_otlp *otlp, tide_otlp_message *parent,
                                const tide_otlp_field *field)
{
    tide_otlp_histogram *point = &otlp->histogram;
    const bool is_positive = field->number == TIDE_OTLP_EXPONENTIAL_POSITIVE;
    tide_otlp_message message;
    tide_otlp_enter(&message, parent, field);
    tide_otlp_field part;
    tide_status status;
    while ((status = tide_otlp_next(&message, &part)) == TIDE_OK) {
        if (part.number == TIDE_OTLP_BUCKETS_COUNTS && is_positive)
            add_count(otlp, part.u64);
        else if (part.number == TIDE_OTLP_BUCKETS_COUNTS)
            point->zero_count += part.u64;
        else if (is_positive)
            point->offset = (int32_t)part.u64;
    }
    return status;
}

static tide_status read_exponential_field(tide_otlp *otlp, tide_otlp_message *message,
                                          const tide_otlp_field *field)
{
    tide_otlp_histogram *point = &otlp->histogram;
    switch (field->number) {
    case TIDE_OTLP_POINT_START:
        point->start_ns = field->u64;
        break;
    case TIDE_OTLP_POINT_TIME:
        point->time_ns = field->u64;
        break;
    case TIDE_OTLP_EXPONENTIAL_COUNT:
        point->count = field->u64;
        break;
    case TIDE_OTLP_EXPONENTIAL_SUM:
        take_double(&point->sum, &point->has_sum, field->f64);
        break;
    case TIDE_OTLP_EXPONENTIAL_SCALE:
        point->scale = (int32_t)field->u64;
        break;
    case TIDE_OTLP_EXPONENTIAL_ZERO_COUNT:
        point->zero_count += field->u64;
        break;
    case TIDE_OTLP_EXPONENTIAL_POSITIVE:
    case TIDE_OTLP_EXPONENTIAL_NEGATIVE:
        return read_buckets(otlp, message, field);
    case TIDE_OTLP_EXPONENTIAL_FLAGS:
        point->flags = field->u64;
        break;
    case TIDE_OTLP_EXPONENTIAL_MIN:
        take_double(&point->min, &point->has_min, field->f64);
        break;
    case TIDE_OTLP_EXPONENTIAL_MAX:
        take_double(&point->max, &point->has_max, field->f64);
        break;
    case TIDE_OTLP_EXPONENTIAL_ZERO_THRESHOLD:
        point->zero_threshold = field->f64;
        break;
    default: /* TIDE_OTLP_EXPONENTIAL_ATTRIBUTES */
        return tide_otlp_read_attribute(otlp, message, field);
    }
    return TIDE_OK;
}

/* One bucket more than bounds; a point without buckets has one, for all of it. A scale is a small
 * number. */
static void check_point(tide_otlp *otlp)
{
    tide_otlp_histogram *point = &otlp->histogram;
    if (point->is_exponential) {
        if (point->scale < -64 || point->scale > 64)
            tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_BUCKETS);
        return;
    }
    if (point->bucket_count == 0 && point->bound_count == 0)
        add_count(otlp, point->count);
    if (point->bucket_count != point->bound_count + 1)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_BUCKETS);
}

/* ---- durations, bucket by bucket ---- */

/* With dots, or as Prometheus writes them. New conventions first. */
static const char *const method_keys[] = {"http.request.method", "http.method",
                                          "http_request_method", "http_method", NULL};
static const char *const route_keys[] = {"http.route", "http_route", NULL};
static const char *const status_keys[] = {"http.response.status_code", "http.status_code",
                                          "http_response_status_code", "http_status_code", NULL};
static const char *const rpc_system_keys[] = {"rpc.system", "rpc.system.name", "rpc_system", NULL};
static const char *const rpc_service_keys[] = {"rpc.service", "rpc_service", NULL};
static const char *const rpc_method_keys[] = {"rpc.method", "rpc_method", NULL};
static const char *const rpc_status_keys[] = {"rpc.grpc.status_code", "rpc.response.status_code",
                                              "rpc_grpc_status_code", "rpc_response_status_code",
                                              NULL};
static const char *const operation_keys[] = {"db.operation.name", "db.operation",
                                             "db_operation_name", "db_operation", NULL};
static const char *const table_keys[] = {"db.collection.name", "db.sql.table", "db_collection_name",
                                         "db_sql_table", NULL};

static tide_status write_http(tide_otlp *otlp, double upper_ms, int64_t count)
{
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_BEYLA_HTTP);
    tide_record_i64(batch, TIDE_HTTP_METRIC_TIMESTAMP,
                    tide_otlp_time_ms(otlp, otlp->histogram.time_ns));
    tide_record_text(batch, TIDE_HTTP_METRIC_SERVICE_NAME, otlp->service_name);
    tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_METHOD,
                     tide_otlp_find_attribute(otlp, method_keys));
    tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_ROUTE,
                     tide_otlp_find_attribute(otlp, route_keys));
    tide_record_i64(batch, TIDE_HTTP_METRIC_HTTP_STATUS_CODE,
                    tide_otlp_find_number(otlp, status_keys));
    tide_record_f64(batch, TIDE_HTTP_METRIC_LATENCY_BUCKET_MS, upper_ms);
    tide_record_i64(batch, TIDE_HTTP_METRIC_COUNT, count);
    return tide_otlp_record_end(otlp, batch, TIDE_HTTP_METRIC_ATTRIBUTES);
}

/* service/method, as it stands in a path, unless the method is one already. */
static tide_status find_grpc_method(tide_otlp *otlp, tide_view *out)
{
    *out = tide_otlp_find_attribute(otlp, rpc_method_keys);
    const tide_view service = tide_otlp_find_attribute(otlp, rpc_service_keys);
    if (service.len == 0 || (out->len > 0 && memchr(out->ptr, '/', out->len)))
        return TIDE_OK;
    tide_buffer_clear(&otlp->json);
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_view(&otlp->json, service)));
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_text(&otlp->json, "/")));
    TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_view(&otlp->json, *out)));
    *out = tide_buffer_view(&otlp->json);
    return TIDE_OK;
}

static tide_status write_grpc(tide_otlp *otlp, double upper_ms, int64_t count)
{
    tide_view method;
    TIDE_TRY(find_grpc_method(otlp, &method));
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_BEYLA_GRPC);
    tide_record_i64(batch, TIDE_GRPC_METRIC_TIMESTAMP,
                    tide_otlp_time_ms(otlp, otlp->histogram.time_ns));
    tide_record_text(batch, TIDE_GRPC_METRIC_SERVICE_NAME, otlp->service_name);
    tide_record_text(batch, TIDE_GRPC_METRIC_GRPC_METHOD, method);
    tide_record_i64(batch, TIDE_GRPC_METRIC_GRPC_STATUS_CODE,
                    tide_otlp_find_number(otlp, rpc_status_keys));
    tide_record_f64(batch, TIDE_GRPC_METRIC_LATENCY_BUCKET_MS, upper_ms);
    tide_record_i64(batch, TIDE_GRPC_METRIC_COUNT, count);
    return tide_otlp_record_end(otlp, batch, TIDE_GRPC_METRIC_ATTRIBUTES);
}

static tide_status write_sql(tide_otlp *otlp, double upper_ms, int64_t count)
{
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_BEYLA_SQL);
    tide_record_i64(batch, TIDE_SQL_METRIC_TIMESTAMP,
                    tide_otlp_time_ms(otlp, otlp->histogram.time_ns));
    tide_record_text(batch, TIDE_SQL_METRIC_SERVICE_NAME, otlp->service_name);
    tide_record_text(batch, TIDE_SQL_METRIC_SQL_OPERATION,
                     tide_otlp_find_attribute(otlp, operation_keys));
    tide_record_text(batch, TIDE_SQL_METRIC_TABLE_NAME, tide_otlp_find_attribute(otlp, table_keys));
    tide_record_f64(batch, TIDE_SQL_METRIC_LATENCY_BUCKET_MS, upper_ms);
    tide_record_i64(batch, TIDE_SQL_METRIC_COUNT, count);
    return tide_otlp_record_end(otlp, batch, TIDE_SQL_METRIC_ATTRIBUTES);
}

static tide_status write_bucket(tide_otlp *otlp, tide_otlp_class class, double upper_ms,
                                uint64_t count)
{
    if (count == 0)
        return TIDE_OK;
    const int64_t number = count > INT64_MAX ? INT64_MAX : (int64_t)count;
    switch (class) {
    case TIDE_OTLP_CLASS_HTTP:
        return write_http(otlp, upper_ms, number);
    case TIDE_OTLP_CLASS_GRPC:
        return write_grpc(otlp, upper_ms, number);
    case TIDE_OTLP_CLASS_SQL:
    case TIDE_OTLP_CLASS_OTHER:
        break;
    }
    return write_sql(otlp, upper_ms, number);
}

static tide_digest128 digest_with(tide_digest128 digest, tide_view text)
{
    return tide_digest_chain(digest, text);
}

/* What came since the point before; *is_news: anything. */
static tide_status take_news(tide_otlp *otlp, const tide_otlp_metric *metric, bool *is_news)
{
    const tide_otlp_attributes *attributes = &otlp->attributes;
    const tide_digest128 group =
        digest_with(tide_otlp_attributes_digest(attributes, otlp->scope_count), metric->name);
    const tide_digest128 key =
        digest_with(tide_otlp_attributes_digest(attributes, attributes->count),
                    tide_view_bytes(group.bytes, sizeof group.bytes));
    const tide_status status =
        tide_otlp_series_advance(&otlp->series, key, group, &otlp->histogram, is_news,
                                 &otlp->output->undo, &otlp->output->undo_last);
    if (status == TIDE_E_LIMIT)
        return tide_fail(otlp->err, status, "too many data points with cumulative counts");
    if (status != TIDE_OK)
        return tide_buffer_check(status, otlp->err);
    return TIDE_OK;
}

static tide_status write_durations(tide_otlp *otlp, const tide_otlp_metric *metric)
{
    const tide_otlp_histogram *point = &otlp->histogram;
    bool is_news = true;
    if (metric->temporality == TIDE_OTLP_TEMPORALITY_CUMULATIVE)
        TIDE_TRY(take_news(otlp, metric, &is_news));
    if (!is_news) {
        otlp->output->unchanged++;
        return TIDE_OK;
    }
    /* Servers and clients, old and new conventions share a stream: the name tells them apart. */
    TIDE_TRY(tide_otlp_add_attribute(otlp, "otel.metric.name", metric->name));
    TIDE_TRY(write_bucket(otlp, metric->class, point->zero_threshold * metric->to_ms,
                          point->zero_count));
    for (int i = 0; i < point->bucket_count; i++)
        TIDE_TRY(write_bucket(otlp, metric->class, otlp_histogram_upper(point, i) * metric->to_ms,
                              point->counts[i]));
    return TIDE_OK;
}

/* ---- histograms of anything else ---- */

static tide_status write_counted(tide_otlp *otlp, const tide_otlp_metric *metric, double upper,
                                 uint64_t count)
{
    if (count == 0)
        return TIDE_OK;
    const int before = otlp->attributes.count;
    tide_view text;
    TIDE_TRY(tide_otlp_double_text(otlp, upper, &text));
    TIDE_TRY(tide_otlp_add_attribute(otlp, "upper_bound", text));
    TIDE_TRY(tide_otlp_write_number(otlp, metric, ".bucket", metric->type, tide_view_of(""),
                                    otlp->histogram.time_ns, (double)count));
    tide_otlp_attributes_cut(&otlp->attributes, before);
    return TIDE_OK;
}

static tide_status write_numbers(tide_otlp *otlp, const tide_otlp_metric *metric)
{
    const tide_otlp_histogram *point = &otlp->histogram;
    const uint64_t ns = point->time_ns;
    TIDE_TRY(tide_otlp_write_number(otlp, metric, ".count", metric->type, tide_view_of(""), ns,
                                    (double)point->count));
    if (point->has_sum)
        TIDE_TRY(tide_otlp_write_number(otlp, metric, ".sum", metric->type, metric->unit, ns,
                                        point->sum));
    if (point->has_min)
        TIDE_TRY(
            tide_otlp_write_number(otlp, metric, ".min", "gauge", metric->unit, ns, point->min));
    if (point->has_max)
        TIDE_TRY(
            tide_otlp_write_number(otlp, metric, ".max", "gauge", metric->unit, ns, point->max));
    TIDE_TRY(write_counted(otlp, metric, point->zero_threshold, point->zero_count));
    for (int i = 0; i < point->bucket_count; i++)
        TIDE_TRY(write_counted(otlp, metric, otlp_histogram_upper(point, i), point->counts[i]));
    return TIDE_OK;
}

/* ---- a point ---- */

/* RPCs of other systems than gRPC are no gRPC metrics, whatever they are called. */
static bool is_duration(const tide_otlp *otlp, const tide_otlp_metric *metric)
{
    if (metric->class != TIDE_OTLP_CLASS_GRPC)
        return metric->class != TIDE_OTLP_CLASS_OTHER;
    const tide_view system = tide_otlp_find_attribute(otlp, rpc_system_keys);
    return system.len == 0 || tide_view_equal(system, tide_view_of("grpc"));
}

tide_status tide_otlp_read_histogram(tide_otlp *otlp, const tide_otlp_metric *metric,
                                     tide_otlp_message *message, bool is_exponential)
{
    clear_point(&otlp->histogram, is_exponential);
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(message, &field))
        TIDE_TRY(is_exponential ? read_exponential_field(otlp, message, &field)
                                : read_explicit_field(otlp, message, &field));
    if (otlp->histogram.flags & TIDE_OTLP_FLAG_NO_VALUE) {
        otlp->output->unchanged++;
        return TIDE_OK;
    }
    check_point(otlp);
    if (!metric->type)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_TEMPORALITY);
    tide_otlp_expect_attribute(otlp, metric->name.len + TIDE_OTLP_NUMBER_LEN_MAX);
    if (!tide_otlp_accept(otlp, 2 * metric->name.len + metric->unit.len))
        return TIDE_OK;
    return is_duration(otlp, metric) ? write_durations(otlp, metric) : write_numbers(otlp, metric);
}
