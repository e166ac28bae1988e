#include "otlp/metrics.h"

#include <string.h>

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

void tide_otlp_metric_classify(tide_otlp_metric *metric)
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
