/* metrics_text.c - metrics as Prometheus and OpenMetrics text: see metrics.h. */
#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "runtime/metrics_internal.h"

/* ---- the process ---- */

/* What cannot be read stays unset, and is not shown. */
static void read_descriptors(tide_metrics *metrics)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return;
    int64_t count = -1; /* the list itself */
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list))
        count += entry->d_name[0] != '.';
    (void)closedir(list);
    tide_metrics_set(metrics, TIDE_METRIC_OPEN_FDS, count);
}

static void read_memory(tide_metrics *metrics)
{
    char line[256] = "";
    FILE *in = fopen("/proc/self/statm", "re");
    if (!in)
        return;
    const bool is_read = fgets(line, sizeof line, in) != NULL;
    (void)fclose(in);
    char *rest = line;
    const int64_t virtual_pages = strtoll(line, &rest, 10);
    const int64_t resident_pages = strtoll(rest, &rest, 10);
    if (!is_read || resident_pages <= 0)
        return;
    const int64_t page_len = sysconf(_SC_PAGESIZE);
    tide_metrics_set(metrics, TIDE_METRIC_VIRTUAL, virtual_pages * page_len);
    tide_metrics_set(metrics, TIDE_METRIC_RESIDENT, resident_pages * page_len);
}

/* The process's own metrics, from /proc. */
static void metrics_read_process(tide_metrics *metrics)
{
    struct rusage used;
    struct rlimit descriptors;
    read_memory(metrics);
    read_descriptors(metrics);
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_MAX_FDS, (int64_t)descriptors.rlim_cur);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        tide_metrics_set(metrics, TIDE_METRIC_CPU,
                         (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                             used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

struct tide_metrics_writer {
    tide_buffer *out;
    tide_metrics_format format;
    tide_status status; /* the first failure; everything after it does nothing */
    const tide_metric_row *row;
};

/* ---- words ---- */

static void put(tide_metrics_writer *writer, const char *text)
{
    if (writer->status >= TIDE_OK)
        writer->status = tide_buffer_append_text(writer->out, text);
}

static void put_byte(tide_metrics_writer *writer, char byte)
{
    if (writer->status >= TIDE_OK)
        writer->status = tide_buffer_append_byte(writer->out, (uint8_t)byte);
}

/* Backslash and line break are escaped everywhere, quotes in values of labels and, in OpenMetrics,
 * in help. */
static void put_escaped(tide_metrics_writer *writer, const char *text, bool has_quotes)
{
    for (; *text; text++) {
        if (*text == '\\')
            put(writer, "\\\\");
        else if (*text == '\n')
            put(writer, "\\n");
        else if (*text == '"' && has_quotes)
            put(writer, "\\\"");
        else
            put_byte(writer, *text);
    }
}

/* A value of a source may be anything. */
static void put_value(tide_metrics_writer *writer, const char *text)
{
    size_t replaced = 0;
    tide_buffer clean;
    tide_buffer_init(&clean, (size_t)TIDE_METRICS_VALUE_MAX * 3);
    const tide_view cut = tide_utf8_cut(tide_view_of(text ? text : ""), TIDE_METRICS_VALUE_MAX);
    const tide_status status = tide_utf8_clean(&clean, cut, &replaced);
    if (status >= TIDE_OK)
        put_escaped(writer, tide_buffer_text(&clean), true);
    else if (writer->status >= TIDE_OK)
        writer->status = status;
    tide_buffer_done(&clean);
}

static bool is_seconds(const tide_metric_row *row)
{
    return strcmp(row->unit, "seconds") == 0;
}

/* Microseconds become seconds with all their digits, without a detour over doubles. */
static void put_number(tide_metrics_writer *writer, int64_t number)
{
    char text[48];
    if (!is_seconds(writer->row)) {
        (void)snprintf(text, sizeof text, "%" PRId64, number);
    } else {
        const uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
        (void)snprintf(text, sizeof text, "%s%" PRIu64 ".%06" PRIu64, number < 0 ? "-" : "",
                       size / 1000000, size % 1000000);
    }
    put(writer, text);
}

/* The bound of a bucket: both formats are read by programs that compare texts, so it is the
 * shortest decimal with a point: 0.0025, 1.0. */
static void put_bound(tide_metrics_writer *writer, int64_t bound)
{
    char text[48];
    if (is_seconds(writer->row))
        (void)snprintf(text, sizeof text, "%" PRId64 ".%06" PRId64, bound / 1000000,
                       bound % 1000000);
    else
        (void)snprintf(text, sizeof text, "%" PRId64 ".0", bound);
    size_t len = strlen(text);
    while (text[len - 1] == '0' && text[len - 2] != '.')
        text[--len] = '\0';
    put(writer, text);
}

/* ---- families and samples ---- */

static void put_meta(tide_metrics_writer *writer, const char *keyword, bool has_total)
{
    put(writer, keyword);
    put(writer, writer->row->name);
    put(writer, has_total ? "_total " : " ");
}

void tide_metrics_family(tide_metrics_writer *writer, const tide_metric_row *row)
{
    static const char *const type_names[] = {[TIDE_METRIC_COUNTER] = "counter",
                                             [TIDE_METRIC_GAUGE] = "gauge",
                                             [TIDE_METRIC_HISTOGRAM] = "histogram"};
    const bool is_open = writer->format == TIDE_METRICS_OPENMETRICS;
    const bool has_total = !is_open && row->type == TIDE_METRIC_COUNTER;
    writer->row = row;
    put_meta(writer, "# HELP ", has_total);
    put_escaped(writer, row->help, is_open);
    put(writer, "\n");
    put_meta(writer, "# TYPE ", has_total);
    put(writer, type_names[row->type]);
    put(writer, "\n");
    if (is_open && row->unit[0]) {
        put_meta(writer, "# UNIT ", false);
        put(writer, row->unit);
        put(writer, "\n");
    }
}

/* {stream="a",le="0.5"}; le NULL: none but the row's. */
static void put_labels(tide_metrics_writer *writer, const char *const *values, const int64_t *le,
                       bool is_last)
{
    const char *name = writer->row->labels;
    const char *before = "{";
    for (int i = 0; *name; i++) {
        const size_t len = strcspn(name, ",");
        put(writer, before);
        for (size_t at = 0; at < len; at++)
            put_byte(writer, name[at]);
        put(writer, "=\"");
        put_value(writer, values[i]);
        put(writer, "\"");
        before = ",";
        name += len + (name[len] == ',');
    }
    if (le || is_last) {
        put(writer, before);
        put(writer, "le=\"");
        if (is_last)
            put(writer, "+Inf");
        else
            put_bound(writer, *le);
        put(writer, "\"");
        before = ",";
    }
    if (before[0] == ',')
        put(writer, "}");
    put(writer, " ");
}

void tide_metrics_sample(tide_metrics_writer *writer, const char *const *values, int64_t value)
{
    assert(writer->row && writer->row->type != TIDE_METRIC_HISTOGRAM);
    put(writer, writer->row->name);
    if (writer->row->type == TIDE_METRIC_COUNTER)
        put(writer, "_total");
    put_labels(writer, values, NULL, false);
    put_number(writer, value);
    put(writer, "\n");
}

static void put_count(tide_metrics_writer *writer, int64_t count)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64 "\n", count);
    put(writer, text);
}

static void put_histogram(tide_metrics_writer *writer, const tide_series *series)
{
    const tide_metric_row *row = series->row;
    int64_t count = 0;
    for (int i = 0; i <= row->bound_count; i++) {
        const bool is_last = i == row->bound_count;
        count +=
            atomic_load_explicit((atomic_int_fast64_t *)&series->buckets[i], memory_order_relaxed);
        put(writer, row->name);
        put(writer, "_bucket");
        put_labels(writer, series->values, is_last ? NULL : &row->bounds[i], is_last);
        put_count(writer, count);
    }
    put(writer, row->name);
    put(writer, "_sum");
    put_labels(writer, series->values, NULL, false);
    put_number(writer,
               atomic_load_explicit((atomic_int_fast64_t *)&series->value, memory_order_relaxed));
    put(writer, "\n");
    put(writer, row->name);
    put(writer, "_count");
    put_labels(writer, series->values, NULL, false);
    put_count(writer, count);
}

static void put_series(tide_metrics_writer *writer, const tide_series *series)
{
    if (series->row->type == TIDE_METRIC_HISTOGRAM)
        put_histogram(writer, series);
    else
        tide_metrics_sample(writer, series->values, tide_series_value(series));
}

static bool is_measured(const tide_series *series)
{
    const bool has_labels = series->row->labels[0] != '\0';
    if (series->row->type == TIDE_METRIC_HISTOGRAM)
        return !has_labels || tide_series_value(series) > 0;
    return has_labels || series->row->type != TIDE_METRIC_GAUGE ||
           atomic_load_explicit((atomic_bool *)&series->is_set, memory_order_relaxed);
}

/* A family begins with the first of its series that is shown. */
static void put_if_measured(tide_metrics_writer *writer, const tide_series *series)
{
    if (!is_measured(series))
        return;
    if (!writer->row)
        tide_metrics_family(writer, series->row);
    put_series(writer, series);
}

/* Series are never removed: what the list held a moment ago can be read without the lock. */
static void put_family(tide_metrics_writer *writer, tide_metrics *metrics,
                       const tide_metric_family *family)
{
    pthread_mutex_lock(&metrics->lock);
    const int count = family->series_count;
    const tide_series *series = family->first;
    const tide_series *other = family->has_other ? &family->other : NULL;
    pthread_mutex_unlock(&metrics->lock);
    writer->row = NULL;
    for (int i = 0; i < count; i++) {
        put_if_measured(writer, series);
        if (i + 1 < count)
            series = series->next;
    }
    if (other)
        put_if_measured(writer, other);
}

tide_status tide_metrics_write(tide_metrics *metrics, tide_metrics_format format, tide_buffer *out,
                               tide_error *err)
{
    const size_t before_len = out->len;
    tide_metrics_writer writer = {.out = out, .format = format, .status = TIDE_OK};
    pthread_mutex_lock(&metrics->writing);
    metrics_read_process(metrics);
    for (int id = 0; id < TIDE_METRIC_COUNT; id++)
        put_family(&writer, metrics, &metrics->families[id]);
    for (int i = 0; i < metrics->source_count; i++)
        metrics->sources[i].fn(metrics->sources[i].arg, &writer);
    if (format == TIDE_METRICS_OPENMETRICS)
        put(&writer, "# EOF\n");
    pthread_mutex_unlock(&metrics->writing);
    if (writer.status >= TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(out, before_len);
    return tide_fail(err, writer.status, "the metrics do not fit into %zu bytes", out->max);
}

/* ---- which format ---- */

const char *tide_metrics_content_type(tide_metrics_format format)
{
    return format == TIDE_METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* The weight of one range of an Accept header ("text/plain;q=0.5"), in thousandths; 1000 where none
 * is given. */
static int get_weight(const char *at, const char *end)
{
    for (const char *q = at; q < end; q++) {
        if (*q != ';')
            continue;
        const char *name = skip_blanks(q + 1);
        if (end - name < 3 || strncasecmp(name, "q=", 2) != 0)
            continue;
        const double weight = strtod(name + 2, NULL);
        return weight >= 0 && weight <= 1 ? (int)(weight * 1000 + 0.5) : 0;
    }
    return 1000;
}

/* How much a media type is wanted by name: 0 is not at all. */
static int get_wish(const char *accept, const char *type)
{
    const size_t type_len = strlen(type);
    int best = 0;
    for (const char *at = accept; *at;) {
        const char *begin = skip_blanks(at);
        const char *end = begin + strcspn(begin, ",");
        const size_t len = strcspn(begin, ",; \t");
        if (len == type_len && strncasecmp(begin, type, type_len) == 0) {
            const int weight = get_weight(begin, end);
            best = weight > best ? weight : best;
        }
        at = *end ? end + 1 : end;
    }
    return best;
}

tide_metrics_format tide_metrics_choose(const char *accept)
{
    if (!accept)
        return TIDE_METRICS_PROMETHEUS;
    const int open = get_wish(accept, "application/openmetrics-text");
    return open > 0 && open >= get_wish(accept, "text/plain") ? TIDE_METRICS_OPENMETRICS
                                                              : TIDE_METRICS_PROMETHEUS;
}
