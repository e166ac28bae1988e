#include "otlp/metrics.h"

#include <string.h>

#include "base/cleanup.h"

/* ---- classes of metrics ---- */

typedef struct class_name {
    const char *name;
    tide_otlp_class class;
    bool is_in_s; /* where nothing says the unit */
} class_name;

/* Semantic conventions since 1.23 measure in seconds, those before in milliseconds. */
static const class_name class_names[] = {
    {"http.server.request.duration", TIDE_OTLP_CLASS_HTTP, true},
    {"http.client.request.duration", TIDE_OTLP_CLASS_HTTP, true},
    {"http.server.duration", TIDE_OTLP_CLASS_HTTP, false},
    {"http.client.duration", TIDE_OTLP_CLASS_HTTP, false},
    {"rpc.server.duration", TIDE_OTLP_CLASS_GRPC, false},
    {"rpc.client.duration", TIDE_OTLP_CLASS_GRPC, false},
    {"rpc.server.call.duration", TIDE_OTLP_CLASS_GRPC, true},
    {"rpc.client.call.duration", TIDE_OTLP_CLASS_GRPC, true},
    {"db.client.operation.duration", TIDE_OTLP_CLASS_SQL, true},
    {"sql.client.duration", TIDE_OTLP_CLASS_SQL, true},
};

typedef struct unit_name {
    const char *name;
    double to_ms;
} unit_name;

static const unit_name units[] = {
    {"s", 1e3}, {"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}, {"seconds", 1e3}, {"milliseconds", 1},
};

static bool find_unit(tide_view text, double *to_ms)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (tide_view_equal(tide_view_of(units[i].name), text)) {
            *to_ms = units[i].to_ms;
            return true;
        }
    }
    return false;
}

/* Is this the name, with '.' or '_' between the words, and perhaps a unit behind it? */
static bool matches(const char *name, tide_view text, tide_view *suffix)
{
    const size_t len = strlen(name);
    if (text.len < len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text.ptr[i] != name[i] && !(name[i] == '.' && text.ptr[i] == '_'))
            return false;
    *suffix = tide_view_bytes(text.ptr + len, text.len - len);
    if (suffix->len == 0)
        return true;
    double ignored;
    if (suffix->ptr[0] != '_' && suffix->ptr[0] != '.')
        return false;
    *suffix = tide_view_bytes(suffix->ptr + 1, suffix->len - 1);
    return suffix->len > 2 && find_unit(*suffix, &ignored);
}

/* By name, as semantic conventions, Beyla and OBI write it, with dots or as Prometheus does with
 * underscores and the unit behind. */
static void metric_classify(tide_otlp_metric *metric)
{
    metric->class = TIDE_OTLP_CLASS_OTHER;
    for (size_t i = 0; i < sizeof class_names / sizeof class_names[0]; i++) {
        const class_name *row = &class_names[i];
        tide_view suffix;
        if (!matches(row->name, metric->name, &suffix))
            continue;
        metric->class = row->class;
        if (!find_unit(metric->unit, &metric->to_ms) && !find_unit(suffix, &metric->to_ms))
            metric->to_ms = row->is_in_s ? 1e3 : 1;
        return;
    }
}

/* ---- metrics ---- */

static void take_metric_field(tide_otlp_metric *metric, const tide_otlp_field *field)
{
    if (field->number == TIDE_OTLP_METRIC_NAME) {
        metric->name = field->text;
        metric->has_name = true;
    } else if (field->number == TIDE_OTLP_METRIC_UNIT) {
        metric->unit = field->text;
        metric->has_unit = true;
    }
}

static void take_data_field(tide_otlp_metric *metric, const tide_otlp_field *field)
{
    if (field->number == TIDE_OTLP_DATA_TEMPORALITY)
        metric->temporality = field->u64;
    else if (field->number == TIDE_OTLP_DATA_MONOTONIC)
        metric->is_monotonic = field->u64 != 0;
}

/* What stands behind the first point, or behind the data, counts for all of it. */
static tide_status look_behind(tide_otlp_metric *metric, const tide_otlp_message *message,
                               void (*take)(tide_otlp_metric *metric, const tide_otlp_field *field))
{
    tide_otlp_ahead ahead;
    tide_otlp_look_ahead(&ahead, message);
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(&ahead.message, &field)) == TIDE_OK)
        take(metric, &field);
    message->reader->is_overfull |= ahead.reader.is_overfull;
    return status;
}

/* ---- numbers and summaries ---- */

tide_status tide_otlp_write_number(tide_otlp *otlp, const tide_otlp_metric *metric,
                                   const char *suffix, const char *type, tide_view unit,
                                   uint64_t time_ns, double value)
{
    tide_view name = metric->name;
    if (suffix[0] != '\0') {
        tide_buffer_clear(&otlp->json);
        TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_view(&otlp->json, metric->name)));
        TIDE_TRY(tide_otlp_note_status(otlp, tide_buffer_append_text(&otlp->json, suffix)));
        name = tide_buffer_view(&otlp->json);
    }
    tide_record_batch *batch = tide_otlp_record_begin(otlp, TIDE_STREAM_SYSTEM_METRICS);
    tide_record_i64(batch, TIDE_SYSTEM_METRIC_TIMESTAMP, tide_otlp_time_ms(otlp, time_ns));
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_NAME, name);
    tide_record_f64(batch, TIDE_SYSTEM_METRIC_VALUE, value);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_UNIT, unit);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_TYPE, tide_view_of(type));
    return tide_otlp_record_end(otlp, batch, TIDE_SYSTEM_METRIC_ATTRIBUTES);
}

static tide_status read_number(tide_otlp *otlp, const tide_otlp_metric *metric,
                               tide_otlp_message *point)
{
    uint64_t time_ns = 0;
    uint64_t flags = 0;
    double value = 0;
    bool has_value = false;
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(point, &field)) {
        if (field.number == TIDE_OTLP_POINT_TIME)
            time_ns = field.u64;
        else if (field.number == TIDE_OTLP_NUMBER_FLAGS)
            flags = field.u64;
        else if (field.number == TIDE_OTLP_NUMBER_ATTRIBUTES)
            TIDE_TRY(tide_otlp_read_attribute(otlp, point, &field));
        else if (field.number == TIDE_OTLP_NUMBER_DOUBLE || field.number == TIDE_OTLP_NUMBER_INT) {
            has_value = true;
            value =
                field.number == TIDE_OTLP_NUMBER_DOUBLE ? field.f64 : (double)(int64_t)field.u64;
        }
    }
    if (flags & TIDE_OTLP_FLAG_NO_VALUE) {
        otlp->output->unchanged++;
        return TIDE_OK;
    }
    if (!has_value)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_NO_VALUE);
    if (!metric->type)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_TEMPORALITY);
    if (!tide_otlp_accept(otlp, metric->name.len + metric->unit.len))
        return TIDE_OK;
    return tide_otlp_write_number(otlp, metric, "", metric->type, metric->unit, time_ns, value);
}

typedef struct summary {
    uint64_t time_ns;
    uint64_t flags;
    uint64_t count;
    double sum;
    int quantile_count;
} summary;

/* Quantiles are read into the two arrays of the histogram, which is not in use now. */
static tide_status read_quantile(tide_otlp *otlp, tide_otlp_message *point,
                                 const tide_otlp_field *field, summary *s)
{
    if (s->quantile_count == TIDE_OTLP_BUCKETS_MAX) {
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_BUCKETS);
        return TIDE_OK;
    }
    double at = 0;
    double value = 0;
    tide_otlp_message message;
    tide_otlp_enter(&message, point, field);
    tide_otlp_field part;
    tide_status status;
    while ((status = tide_otlp_next(&message, &part)) == TIDE_OK) {
        if (part.number == TIDE_OTLP_QUANTILE_AT)
            at = part.f64;
        else
            value = part.f64;
    }
    otlp->histogram.bounds[s->quantile_count] = at;
    memcpy(&otlp->histogram.counts[s->quantile_count], &value, sizeof value);
    s->quantile_count++;
    return status;
}

static tide_status write_summary(tide_otlp *otlp, const tide_otlp_metric *metric, const summary *s)
{
    TIDE_TRY(tide_otlp_write_number(otlp, metric, ".count", "counter", tide_view_of(""), s->time_ns,
                                    (double)s->count));
    TIDE_TRY(
        tide_otlp_write_number(otlp, metric, ".sum", "counter", metric->unit, s->time_ns, s->sum));
    const int count = otlp->attributes.count;
    for (int i = 0; i < s->quantile_count; i++) {
        double value;
        memcpy(&value, &otlp->histogram.counts[i], sizeof value);
        tide_view quantile;
        TIDE_TRY(tide_otlp_double_text(otlp, otlp->histogram.bounds[i], &quantile));
        TIDE_TRY(tide_otlp_add_attribute(otlp, "quantile", quantile));
        TIDE_TRY(tide_otlp_write_number(otlp, metric, ".quantile", "gauge", metric->unit,
                                        s->time_ns, value));
        tide_otlp_attributes_cut(&otlp->attributes, count);
    }
    return TIDE_OK;
}

static tide_status read_summary(tide_otlp *otlp, const tide_otlp_metric *metric,
                                tide_otlp_message *point)
{
    summary s = {0};
    tide_otlp_field field;
    TIDE_EACH(tide_otlp_next(point, &field)) {
        if (field.number == TIDE_OTLP_POINT_TIME)
            s.time_ns = field.u64;
        else if (field.number == TIDE_OTLP_SUMMARY_COUNT)
            s.count = field.u64;
        else if (field.number == TIDE_OTLP_SUMMARY_SUM)
            s.sum = field.f64;
        else if (field.number == TIDE_OTLP_SUMMARY_FLAGS)
            s.flags = field.u64;
        else if (field.number == TIDE_OTLP_SUMMARY_QUANTILES)
            TIDE_TRY(read_quantile(otlp, point, &field, &s));
        else if (field.number == TIDE_OTLP_SUMMARY_ATTRIBUTES)
            TIDE_TRY(tide_otlp_read_attribute(otlp, point, &field));
    }
    if (s.flags & TIDE_OTLP_FLAG_NO_VALUE) {
        otlp->output->unchanged++;
        return TIDE_OK;
    }
    tide_otlp_expect_attribute(otlp, TIDE_OTLP_NUMBER_LEN_MAX);
    if (!tide_otlp_accept(otlp, metric->name.len + metric->unit.len))
        return TIDE_OK;
    return write_summary(otlp, metric, &s);
}

/* ---- data ---- */

/* A sum that may also fall is the current value of something. */
static const char *type_of(const tide_otlp_metric *metric, uint32_t data)
{
    if (data == TIDE_OTLP_METRIC_GAUGE)
        return "gauge";
    if (metric->temporality == TIDE_OTLP_TEMPORALITY_DELTA)
        return "delta";
    if (metric->temporality != TIDE_OTLP_TEMPORALITY_CUMULATIVE)
        return NULL;
    return metric->is_monotonic || data != TIDE_OTLP_METRIC_SUM ? "counter" : "gauge";
}

static tide_status read_point(tide_otlp *otlp, const tide_otlp_metric *metric,
                              tide_otlp_message *point, uint32_t data)
{
    tide_otlp_begin_member(otlp);
    if (metric->is_overfull)
        tide_otlp_note_flaw(otlp, TIDE_OTLP_REASON_RECORD_BYTES);
    switch (data) {
    case TIDE_OTLP_METRIC_HISTOGRAM:
        return tide_otlp_read_histogram(otlp, metric, point, false);
    case TIDE_OTLP_METRIC_EXPONENTIAL:
        return tide_otlp_read_histogram(otlp, metric, point, true);
    case TIDE_OTLP_METRIC_SUMMARY:
        return read_summary(otlp, metric, point);
    default:
        return read_number(otlp, metric, point);
    }
}

static tide_status read_data(tide_otlp *otlp, tide_otlp_metric *metric,
                             const tide_otlp_message *parent, const tide_otlp_field *field)
{
    const uint32_t data = field->number;
    tide_otlp_message message;
    tide_otlp_enter(&message, parent, field);
    metric->temporality = 0;
    metric->is_monotonic = false;
    bool is_complete = data == TIDE_OTLP_METRIC_GAUGE || data == TIDE_OTLP_METRIC_SUMMARY;
    tide_otlp_field part;
    tide_status status;
    while ((status = tide_otlp_next(&message, &part)) == TIDE_OK) {
        if (part.number != TIDE_OTLP_DATA_POINTS) {
            take_data_field(metric, &part);
            continue;
        }
        if (!is_complete)
            TIDE_TRY(look_behind(metric, &message, take_data_field));
        is_complete = true;
        metric->type = type_of(metric, data);
        tide_otlp_message point;
        tide_otlp_enter(&point, &message, &part);
        TIDE_TRY(read_point(otlp, metric, &point, data));
    }
    return status;
}

tide_status tide_otlp_read_metric(tide_otlp *otlp, tide_otlp_message *message)
{
    tide_otlp_begin_layer(otlp, TIDE_OTLP_LAYER_METRIC);
    tide_otlp_metric metric = {.name = tide_view_of(""), .unit = tide_view_of("")};
    tide_otlp_field field;
    tide_status status;
    while ((status = tide_otlp_next(message, &field)) == TIDE_OK) {
        if (field.number <= TIDE_OTLP_METRIC_UNIT) {
            take_metric_field(&metric, &field);
            continue;
        }
        if (!metric.has_name || !metric.has_unit)
            TIDE_TRY(look_behind(&metric, message, take_metric_field));
        metric.has_name = true;
        metric.has_unit = true;
        metric.is_overfull |= otlp->reader.is_overfull;
        metric_classify(&metric);
        TIDE_TRY(read_data(otlp, &metric, message, &field));
    }
    return status;
}
