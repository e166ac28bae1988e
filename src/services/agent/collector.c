#include "services/agent/collector.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"

struct tide_collector {
    char root[TIDE_COLLECTOR_ROOT_MAX];
    tide_env *env;
    tide_buffer file;
    int64_t unreadable;
    bool has_before;
    uint64_t idle_before; /* ticks */
    uint64_t total_before;

    /* the step under way */
    tide_record_batch *batch;
    int64_t now_ms;
    tide_status status; /* the first failure to append */
};

typedef struct tide_collector_label {
    const char *key; /* NULL ends them */
    tide_view value;
} tide_collector_label;

/* ---- machine ---- */

enum { TICKS_PER_S = 100 }; /* of /proc, whatever the kernel uses inside */

static bool starts_with(tide_view text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

/* ---- processors ---- */

/* Append one record. After a failure it does nothing. */
static void collector_put(tide_collector *collector, const char *name, const char *type,
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
        collector_put(collector, "system.cpu.utilization", "gauge", "1", busy > 0 ? busy / span : 0,
                      NULL);
    }
    collector->has_before = true;
    collector->idle_before = idle;
    collector->total_before = total;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word of *rest, between blanks; empty at the end. */
static tide_view collector_next_word(tide_view *rest)
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

/* The next word as a number; 0: it is none. */
static uint64_t collector_next_number(tide_view *rest)
{
    const tide_view word = collector_next_word(rest);
    uint64_t number = 0;
    for (size_t i = 0; i < word.len; i++) {
        const char c = word.ptr[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(c - '0'), &number))
            return 0;
    }
    return number;
}

static void put_cpu_times(tide_collector *collector, tide_view line)
{
    uint64_t ticks[MODES];
    (void)collector_next_word(&line);
    for (int i = 0; i < MODES; i++)
        ticks[i] = collector_next_number(&line);
    put_utilization(collector, ticks);
    ticks[SOFTIRQ] += ticks[IRQ];
    for (int i = 0; i < MODES; i++) {
        if (i == IRQ)
            continue;
        const tide_collector_label labels[] = {{"cpu.mode", tide_view_of(modes[i])}, {0}};
        collector_put(collector, "system.cpu.time", "counter", "s", (double)ticks[i] / TICKS_PER_S,
                      labels);
    }
}

/* The next line of *rest, which moves behind it; false at the end. */
static bool collector_next_line(const char **rest, tide_view *line)
{
    if (**rest == '\0')
        return false;
    const size_t len = strcspn(*rest, "\n");
    *line = tide_view_bytes(*rest, len);
    *rest += len + ((*rest)[len] == '\n' ? 1 : 0);
    return true;
}

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

/* Read root/path; NULL (and counted): it cannot be read. Valid until the next file is read. */
static const char *collector_read(tide_collector *collector, const char *path)
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

static void collector_cpu(tide_collector *collector)
{
    const char *rest = collector_read(collector, "/proc/stat");
    if (!rest)
        return;
    int count = 0;
    tide_view line;
    while (collector_next_line(&rest, &line)) {
        if (starts_with(line, "cpu "))
            put_cpu_times(collector, line);
        else if (starts_with(line, "cpu"))
            count++;
    }
    collector_put(collector, "system.cpu.logical.count", "gauge", "{cpu}", count, NULL);
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

static void collector_load(tide_collector *collector)
{
    tide_view line;
    const char *rest = collector_read(collector, "/proc/loadavg");
    if (rest && collector_next_line(&rest, &line)) {
        static const char *const names[] = {"system.cpu.load_average.1m",
                                            "system.cpu.load_average.5m",
                                            "system.cpu.load_average.15m"};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            collector_put(collector, names[i], "gauge", "{thread}",
                          parse_decimal(collector_next_word(&line)), NULL);
        tide_view processes = collector_next_word(&line); /* running/all */
        const char *slash = memchr(processes.ptr, '/', processes.len);
        if (slash) {
            tide_view all =
                tide_view_bytes(slash + 1, processes.len - (size_t)(slash + 1 - processes.ptr));
            collector_put(collector, "system.process.count", "gauge", "{process}",
                          (double)collector_next_number(&all), NULL);
        }
    }
    rest = collector_read(collector, "/proc/uptime");
    if (rest && collector_next_line(&rest, &line))
        collector_put(collector, "system.uptime", "gauge", "s",
                      parse_decimal(collector_next_word(&line)), NULL);
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
    const tide_view name = collector_next_word(&line);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (tide_view_equal(name, tide_view_of(rows[i].name)))
            *rows[i].value = 1024.0 * (double)collector_next_number(&line);
}

static void put_state(tide_collector *collector, const char *name, const char *key,
                      const char *state, double value)
{
    const tide_collector_label labels[] = {{key, tide_view_of(state)}, {0}};
    collector_put(collector, name, "gauge", "By", value > 0 ? value : 0, labels);
}

static void collector_memory(tide_collector *collector)
{
    const char *rest = collector_read(collector, "/proc/meminfo");
    if (!rest)
        return;
    memory m = {0};
    tide_view line;
    while (collector_next_line(&rest, &line))
        take_memory(&m, line);
    const double cached = m.cached + m.reclaimable;
    static const char usage[] = "system.memory.usage";
    static const char state[] = "system.memory.state";
    put_state(collector, usage, state, "used", m.total - m.free - m.buffers - cached);
    put_state(collector, usage, state, "free", m.free);
    put_state(collector, usage, state, "cached", cached);
    put_state(collector, usage, state, "buffers", m.buffers);
    collector_put(collector, "system.memory.limit", "gauge", "By", m.total, NULL);
    collector_put(collector, "system.linux.memory.available", "gauge", "By", m.available, NULL);
    static const char paging[] = "system.paging.usage";
    put_state(collector, paging, "system.paging.state", "used", m.swap_total - m.swap_free);
    put_state(collector, paging, "system.paging.state", "free", m.swap_free);
}

/* ---- devices ---- */

enum { PATH_SIZE = 1024, SECTOR_LEN = 512 };

static bool starts_with_devices(tide_view text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

/* A number in each of two directions. */
static void put_both(tide_collector *collector, const char *name, const char *unit,
                     const char *device_key, tide_view device, const char *direction_key,
                     const char *const directions[2], double in, double out)
{
    tide_collector_label labels[] = {
        {device_key, device}, {direction_key, tide_view_of(directions[0])}, {0}};
    collector_put(collector, name, "counter", unit, in, labels);
    labels[1].value = tide_view_of(directions[1]);
    collector_put(collector, name, "counter", unit, out, labels);
}

/* ---- disks ---- */

/* Whole disks have a folder in /sys/block, partitions do not. Without /sys everything counts. */
static bool is_disk(const tide_collector *collector, tide_view name)
{
    if (starts_with_devices(name, "loop") || starts_with_devices(name, "ram") || name.len > 64)
        return false;
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/sys/block", collector->root);
    if (access(path, F_OK) != 0)
        return true;
    (void)snprintf(path, sizeof path, "%s/sys/block/%.*s", collector->root, (int)name.len,
                   name.ptr);
    for (char *c = path + strlen(path) - name.len; *c; c++)
        if (*c == '/')
            *c = '!'; /* as /sys writes them */
    return access(path, F_OK) == 0;
}

static void put_disk(tide_collector *collector, tide_view device, tide_view numbers)
{
    static const char *const directions[2] = {"read", "write"};
    static const char key[] = "system.device";
    static const char direction[] = "disk.io.direction";
    uint64_t n[10];
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        n[i] = collector_next_number(&numbers);
    put_both(collector, "system.disk.io", "By", key, device, direction, directions,
             (double)n[2] * SECTOR_LEN, (double)n[6] * SECTOR_LEN);
    put_both(collector, "system.disk.operations", "{operation}", key, device, direction, directions,
             (double)n[0], (double)n[4]);
    put_both(collector, "system.disk.operation_time", "s", key, device, direction, directions,
             (double)n[3] / 1e3, (double)n[7] / 1e3);
    const tide_collector_label labels[] = {{key, device}, {0}};
    collector_put(collector, "system.disk.io_time", "counter", "s", (double)n[9] / 1e3, labels);
}

static void collector_disks(tide_collector *collector)
{
    const char *rest = collector_read(collector, "/proc/diskstats");
    tide_view line;
    for (int count = 0;
         rest && count < TIDE_COLLECTOR_DEVICES_MAX && collector_next_line(&rest, &line);) {
        (void)collector_next_number(&line); /* major */
        (void)collector_next_number(&line); /* minor */
        const tide_view device = collector_next_word(&line);
        if (device.len == 0 || !is_disk(collector, device))
            continue;
        put_disk(collector, device, line);
        count++;
    }
}

/* ---- network ---- */

static void put_network(tide_collector *collector, tide_view device, tide_view numbers)
{
    static const char *const directions[2] = {"receive", "transmit"};
    static const char key[] = "network.interface.name";
    static const char direction[] = "network.io.direction";
    static const struct {
        const char *name;
        const char *unit;
        int column;
    } rows[] = {
        {"system.network.io", "By", 0},
        {"system.network.packet.count", "{packet}", 1},
        {"system.network.errors", "{error}", 2},
        {"system.network.packet.dropped", "{packet}", 3},
    };
    uint64_t n[16]; /* eight received, eight sent */
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        n[i] = collector_next_number(&numbers);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_both(collector, rows[i].name, rows[i].unit, key, device, direction, directions,
                 (double)n[rows[i].column], (double)n[8 + rows[i].column]);
}

static void collector_networks(tide_collector *collector)
{
    const char *rest = collector_read(collector, "/proc/net/dev");
    tide_view line;
    for (int count = 0;
         rest && count < TIDE_COLLECTOR_DEVICES_MAX && collector_next_line(&rest, &line);) {
        const char *colon =
            memchr(line.ptr, ':', line.len); /* the two lines of the heading have none */
        if (!colon)
            continue;
        tide_view before = tide_view_bytes(line.ptr, (size_t)(colon - line.ptr));
        const tide_view device = collector_next_word(&before);
        if (device.len == 0 || tide_view_equal(device, tide_view_of("lo")))
            continue;
        put_network(collector, device,
                    tide_view_bytes(colon + 1, line.len - (size_t)(colon + 1 - line.ptr)));
        count++;
    }
}

/* ---- file systems ---- */

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* A path of /proc/mounts: blanks and the like are written \040. */
static bool read_path(char *out, size_t size, tide_view word)
{
    size_t len = 0;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        const char *digits = word.ptr + i + 1;
        if (c == '\\' && word.len - i > 3 && is_octal(digits[0]) && is_octal(digits[1]) &&
            is_octal(digits[2])) {
            c = (char)((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        }
        if (len + 1 >= size)
            return false;
        out[len++] = c;
    }
    out[len] = '\0';
    return true;
}

/* Those of a device, and the root whatever it is. A file system of the network may never answer; a
 * read-only image is always full. */
static bool is_asked(tide_view device, tide_view mountpoint, tide_view type)
{
    static const char *const never[] = {"nfs",  "cifs",     "smb",     "9p",    "ceph",
                                        "fuse", "squashfs", "iso9660", "autofs"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (starts_with_devices(type, never[i]))
            return false;
    return starts_with_devices(device, "/dev/") || tide_view_equal(mountpoint, tide_view_of("/"));
}

typedef struct mount {
    tide_view device;
    tide_view type;
    char mountpoint[PATH_SIZE];
} mount;

static void put_filesystem(tide_collector *collector, const mount *m)
{
    char path[TIDE_COLLECTOR_ROOT_MAX + PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s%s", collector->root, m->mountpoint);
    struct statvfs answer;
    if (statvfs(path, &answer) != 0) {
        collector->unreadable++;
        return;
    }
    const double block = (double)answer.f_frsize;
    const double used = (double)(answer.f_blocks - answer.f_bfree) * block;
    const double available = (double)answer.f_bavail * block;
    const double reserved = (double)(answer.f_bfree - answer.f_bavail) * block;
    tide_collector_label labels[] = {
        {"system.device", m->device},
        {"system.filesystem.mountpoint", tide_view_of(m->mountpoint)},
        {"system.filesystem.type", m->type},
        {"system.filesystem.state", tide_view_of("used")},
        {0},
    };
    static const char usage[] = "system.filesystem.usage";
    collector_put(collector, usage, "gauge", "By", used, labels);
    labels[3].value = tide_view_of("free");
    collector_put(collector, usage, "gauge", "By", available, labels);
    labels[3].value = tide_view_of("reserved");
    collector_put(collector, usage, "gauge", "By", reserved, labels);
    labels[3].key = NULL;
    if (used + available > 0)
        collector_put(collector, "system.filesystem.utilization", "gauge", "1",
                      used / (used + available), labels);
}

static void collector_filesystems(tide_collector *collector)
{
    const char *rest = collector_read(collector, "/proc/self/mounts");
    tide_view seen[TIDE_COLLECTOR_MOUNTS_MAX]; /* devices: a second mount tells the same */
    int count = 0;
    tide_view line;
    while (rest && count < TIDE_COLLECTOR_MOUNTS_MAX && collector_next_line(&rest, &line)) {
        mount m = {.device = collector_next_word(&line)};
        const tide_view mountpoint = collector_next_word(&line);
        m.type = collector_next_word(&line);
        bool is_known = !is_asked(m.device, mountpoint, m.type);
        for (int i = 0; i < count && !is_known; i++)
            is_known = tide_view_equal(seen[i], m.device);
        if (is_known || !read_path(m.mountpoint, sizeof m.mountpoint, mountpoint))
            continue;
        seen[count++] = m.device;
        put_filesystem(collector, &m);
    }
}

tide_status tide_collector_new(tide_collector **out, const char *root, tide_env *env,
                               tide_error *err)
{
    const size_t len = root ? strlen(root) : 0;
    if (len >= TIDE_COLLECTOR_ROOT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a root of %zu bytes, at most %d are taken", len,
                         TIDE_COLLECTOR_ROOT_MAX - 1);
    TIDE_NEW(tide_collector, collector, err);
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
    collector_cpu(collector);
    collector_load(collector);
    collector_memory(collector);
    collector_disks(collector);
    collector_filesystems(collector);
    collector_networks(collector);
    collector->batch = NULL;
    if (collector->status != TIDE_OK)
        return tide_fail(err, collector->status, "no room for all of the system's metrics");
    return TIDE_OK;
}

/* ---- reading ---- */
