#include "services/agent/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "services/agent/collector_internal.h"

tide_status tide_collector_new(tide_collector **out, const char *root, tide_env *env,
                               tide_error *err)
{
    const size_t len = root ? strlen(root) : 0;
    if (len >= TIDE_COLLECTOR_ROOT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a root of %zu bytes, at most %d are taken", len,
                         TIDE_COLLECTOR_ROOT_MAX - 1);
    tide_collector *collector = calloc(1, sizeof *collector);
    TIDE_NEED_MEMORY(collector, err);
    if (len > 0)
        memcpy(collector->root, root, len);
    collector->env = env;
    tide_buffer_init(&collector->file, TIDE_COLLECTOR_FILE_MAX);
    *out = collector;
    return TIDE_OK;
}

void tide_collector_free(tide_collector *collector)
{
    if (!collector)
        return;
    tide_buffer_done(&collector->file);
    free(collector);
}

int64_t tide_collector_unreadable(const tide_collector *collector)
{
    return collector->unreadable;
}

tide_status tide_collector_step(tide_collector *collector, tide_record_batch *batch,
                                tide_error *err)
{
    collector->batch = batch;
    collector->now_ms = collector->env->wall_us(collector->env) / 1000;
    collector->status = TIDE_OK;
    tide_collector_cpu(collector);
    tide_collector_load(collector);
    tide_collector_memory(collector);
    tide_collector_disks(collector);
    tide_collector_filesystems(collector);
    tide_collector_networks(collector);
    collector->batch = NULL;
    if (collector->status != TIDE_OK)
        return tide_fail(err, collector->status, "no room for all of the system's metrics");
    return TIDE_OK;
}

void tide_collector_put(tide_collector *collector, const char *name, const char *type,
                        const char *unit, double value, const tide_collector_label *labels)
{
    if (collector->status != TIDE_OK)
        return;
    tide_record_batch *batch = collector->batch;
    tide_record_begin(batch);
    tide_record_i64(batch, TIDE_SYSTEM_METRIC_TIMESTAMP, collector->now_ms);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_NAME, tide_view_of(name));
    tide_record_f64(batch, TIDE_SYSTEM_METRIC_VALUE, value);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_UNIT, tide_view_of(unit));
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_TYPE, tide_view_of(type));
    for (; labels && labels->key; labels++)
        tide_record_pair(batch, TIDE_SYSTEM_METRIC_ATTRIBUTES, tide_view_of(labels->key),
                         labels->value);
    collector->status = tide_record_end(batch);
}

/* ---- reading ---- */

static bool read_all(tide_buffer *out, int file)
{
    tide_buffer_clear(out);
    for (;;) {
        char part[4096];
        const ssize_t len = read(file, part, sizeof part);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return len == 0;
        /* Longer than we read: what we have is enough. */
        if (tide_buffer_append(out, part, (size_t)len) != TIDE_OK)
            return out->len > 0;
    }
}

const char *tide_collector_read(tide_collector *collector, const char *path)
{
    char full[TIDE_COLLECTOR_ROOT_MAX + 64];
    (void)snprintf(full, sizeof full, "%s%s", collector->root, path);
    const int file = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0) {
        collector->unreadable++;
        return NULL;
    }
    const bool is_read = read_all(&collector->file, file);
    (void)close(file);
    if (!is_read) {
        collector->unreadable++;
        return NULL;
    }
    return tide_buffer_text(&collector->file);
}

bool tide_collector_next_line(const char **rest, tide_view *line)
{
    if (**rest == '\0')
        return false;
    const size_t len = strcspn(*rest, "\n");
    *line = tide_view_bytes(*rest, len);
    *rest += len + ((*rest)[len] == '\n' ? 1 : 0);
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

tide_view tide_collector_next_word(tide_view *rest)
{
    while (rest->len > 0 && is_blank(rest->ptr[0]))
        *rest = tide_view_bytes(rest->ptr + 1, rest->len - 1);
    size_t len = 0;
    while (len < rest->len && !is_blank(rest->ptr[len]))
        len++;
    const tide_view word = tide_view_bytes(rest->ptr, len);
    *rest = tide_view_bytes(rest->ptr + len, rest->len - len);
    return word;
}

uint64_t tide_collector_next_number(tide_view *rest)
{
    const tide_view word = tide_collector_next_word(rest);
    uint64_t number = 0;
    for (size_t i = 0; i < word.len; i++) {
        const char c = word.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(c - '0'), &number))
            return 0;
    }
    return number;
}
