/* collector_machine.c - processors, load, memory. See collector.h. */
#include "services/agent/collector_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TICKS_PER_S = 100 }; /* of /proc, whatever the kernel uses inside */

static bool starts_with(tide_view text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

/* ---- processors ---- */

/* The columns of a cpu line; time of guests is in user and nice already. */
static const char *const modes[] = {"user",   "nice",      "system",    "idle",
                                    "iowait", "interrupt", "interrupt", "steal"};
enum { MODES = sizeof modes / sizeof modes[0], IDLE = 3, IOWAIT = 4, IRQ = 5, SOFTIRQ = 6 };

static void put_utilization(tide_collector *collector, const uint64_t ticks[MODES])
{
    uint64_t total = 0;
    for (int i = 0; i < MODES; i++)
        total += ticks[i];
    const uint64_t idle = ticks[IDLE] + ticks[IOWAIT];
    /* iowait may fall, and idle time runs back when processors go; then there is nothing to say. */
    if (collector->has_before && total > collector->total_before &&
        idle >= collector->idle_before) {
        const double span = (double)(total - collector->total_before);
        const double busy = span - (double)(idle - collector->idle_before);
        tide_collector_put(collector, "system.cpu.utilization", "gauge", "1",
                           busy > 0 ? busy / span : 0, NULL);
    }
    collector->has_before = true;
    collector->idle_before = idle;
    collector->total_before = total;
}

static void put_cpu_times(tide_collector *collector, tide_view line)
{
    uint64_t ticks[MODES];
    (void)tide_collector_next_word(&line);
    for (int i = 0; i < MODES; i++)
        ticks[i] = tide_collector_next_number(&line);
    put_utilization(collector, ticks);
    ticks[SOFTIRQ] += ticks[IRQ];
    for (int i = 0; i < MODES; i++) {
        if (i == IRQ)
            continue;
        const tide_collector_label labels[] = {{"cpu.mode", tide_view_of(modes[i])}, {0}};
        tide_collector_put(collector, "system.cpu.time", "counter", "s",
                           (double)ticks[i] / TICKS_PER_S, labels);
    }
}

void tide_collector_cpu(tide_collector *collector)
{
    const char *rest = tide_collector_read(collector, "/proc/stat");
    if (!rest)
        return;
    int count = 0;
    tide_view line;
    while (tide_collector_next_line(&rest, &line)) {
        if (starts_with(line, "cpu "))
            put_cpu_times(collector, line);
        else if (starts_with(line, "cpu"))
            count++;
    }
    tide_collector_put(collector, "system.cpu.logical.count", "gauge", "{cpu}", count, NULL);
}

/* ---- load ---- */

/* Digits, a point, digits: no locale has a say. */
static double parse_decimal(tide_view word)
{
    double number = 0;
    double scale = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '.' && scale == 0) {
            scale = 1;
        } else if (isdigit((unsigned char)word.ptr[i])) {
            number = number * 10 + (word.ptr[i] - '0');
            scale *= 10;
        } else {
            return 0;
        }
    }
    return scale > 0 ? number / scale : number;
}

void tide_collector_load(tide_collector *collector)
{
    tide_view line;
    const char *rest = tide_collector_read(collector, "/proc/loadavg");
    if (rest && tide_collector_next_line(&rest, &line)) {
        static const char *const names[] = {"system.cpu.load_average.1m",
                                            "system.cpu.load_average.5m",
                                            "system.cpu.load_average.15m"};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            tide_collector_put(collector, names[i], "gauge", "{thread}",
                               parse_decimal(tide_collector_next_word(&line)), NULL);
        tide_view processes = tide_collector_next_word(&line); /* running/all */
        const char *slash = memchr(processes.ptr, '/', processes.len);
        if (slash) {
            tide_view all =
                tide_view_bytes(slash + 1, processes.len - (size_t)(slash + 1 - processes.ptr));
            tide_collector_put(collector, "system.process.count", "gauge", "{process}",
                               (double)tide_collector_next_number(&all), NULL);
        }
    }
    rest = tide_collector_read(collector, "/proc/uptime");
    if (rest && tide_collector_next_line(&rest, &line))
        tide_collector_put(collector, "system.uptime", "gauge", "s",
                           parse_decimal(tide_collector_next_word(&line)), NULL);
}

/* ---- memory ---- */

typedef struct memory {
    double total;
    double free;
    double available;
    double buffers;
    double cached;
    double reclaimable;
    double swap_total;
    double swap_free;
} memory;

static void take_memory(memory *m, tide_view line)
{
    const struct {
        const char *name;
        double *value;
    } rows[] = {
        {"MemTotal:", &m->total},         {"MemFree:", &m->free},
        {"MemAvailable:", &m->available}, {"Buffers:", &m->buffers},
        {"Cached:", &m->cached},          {"SReclaimable:", &m->reclaimable},
        {"SwapTotal:", &m->swap_total},   {"SwapFree:", &m->swap_free},
    };
    const tide_view name = tide_collector_next_word(&line);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (tide_view_equal(name, tide_view_of(rows[i].name)))
            *rows[i].value = 1024.0 * (double)tide_collector_next_number(&line);
}

static void put_state(tide_collector *collector, const char *name, const char *key,
                      const char *state, double value)
{
    const tide_collector_label labels[] = {{key, tide_view_of(state)}, {0}};
    tide_collector_put(collector, name, "gauge", "By", value > 0 ? value : 0, labels);
}

void tide_collector_memory(tide_collector *collector)
{
    const char *rest = tide_collector_read(collector, "/proc/meminfo");
    if (!rest)
        return;
    memory m = {0};
    tide_view line;
    while (tide_collector_next_line(&rest, &line))
        take_memory(&m, line);
    const double cached = m.cached + m.reclaimable;
    static const char usage[] = "system.memory.usage";
    static const char state[] = "system.memory.state";
    put_state(collector, usage, state, "used", m.total - m.free - m.buffers - cached);
    put_state(collector, usage, state, "free", m.free);
    put_state(collector, usage, state, "cached", cached);
    put_state(collector, usage, state, "buffers", m.buffers);
    tide_collector_put(collector, "system.memory.limit", "gauge", "By", m.total, NULL);
    tide_collector_put(collector, "system.linux.memory.available", "gauge", "By", m.available,
                       NULL);
    static const char paging[] = "system.paging.usage";
    put_state(collector, paging, "system.paging.state", "used", m.swap_total - m.swap_free);
    put_state(collector, paging, "system.paging.state", "free", m.swap_free);
}
