/* collector_devices.c - disks, file systems, network interfaces. See collector.h. */
#include "services/agent/collector_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH_SIZE = 1024, SECTOR_LEN = 512 };

static bool starts_with(tide_view text, const char *prefix)
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
    tide_collector_put(collector, name, "counter", unit, in, labels);
    labels[1].value = tide_view_of(directions[1]);
    tide_collector_put(collector, name, "counter", unit, out, labels);
}

/* ---- disks ---- */

/* Whole disks have a folder in /sys/block, partitions do not. Without /sys everything counts. */
static bool is_disk(const tide_collector *collector, tide_view name)
{
    if (starts_with(name, "loop") || starts_with(name, "ram") || name.len > 64)
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
        n[i] = tide_collector_next_number(&numbers);
    put_both(collector, "system.disk.io", "By", key, device, direction, directions,
             (double)n[2] * SECTOR_LEN, (double)n[6] * SECTOR_LEN);
    put_both(collector, "system.disk.operations", "{operation}", key, device, direction, directions,
             (double)n[0], (double)n[4]);
    put_both(collector, "system.disk.operation_time", "s", key, device, direction, directions,
             (double)n[3] / 1e3, (double)n[7] / 1e3);
    const tide_collector_label labels[] = {{key, device}, {0}};
    tide_collector_put(collector, "system.disk.io_time", "counter", "s", (double)n[9] / 1e3,
                       labels);
}

void tide_collector_disks(tide_collector *collector)
{
    const char *rest = tide_collector_read(collector, "/proc/diskstats");
    tide_view line;
    for (int count = 0;
         rest && count < TIDE_COLLECTOR_DEVICES_MAX && tide_collector_next_line(&rest, &line);) {
        (void)tide_collector_next_number(&line); /* major */
        (void)tide_collector_next_number(&line); /* minor */
        const tide_view device = tide_collector_next_word(&line);
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
        n[i] = tide_collector_next_number(&numbers);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_both(collector, rows[i].name, rows[i].unit, key, device, direction, directions,
                 (double)n[rows[i].column], (double)n[8 + rows[i].column]);
}

void tide_collector_networks(tide_collector *collector)
{
    const char *rest = tide_collector_read(collector, "/proc/net/dev");
    tide_view line;
    for (int count = 0;
         rest && count < TIDE_COLLECTOR_DEVICES_MAX && tide_collector_next_line(&rest, &line);) {
        const char *colon =
            memchr(line.ptr, ':', line.len); /* the two lines of the heading have none */
        if (!colon)
            continue;
        tide_view before = tide_view_bytes(line.ptr, (size_t)(colon - line.ptr));
        const tide_view device = tide_collector_next_word(&before);
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
        if (starts_with(type, never[i]))
            return false;
    return starts_with(device, "/dev/") || tide_view_equal(mountpoint, tide_view_of("/"));
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
    tide_collector_put(collector, usage, "gauge", "By", used, labels);
    labels[3].value = tide_view_of("free");
    tide_collector_put(collector, usage, "gauge", "By", available, labels);
    labels[3].value = tide_view_of("reserved");
    tide_collector_put(collector, usage, "gauge", "By", reserved, labels);
    labels[3].key = NULL;
    if (used + available > 0)
        tide_collector_put(collector, "system.filesystem.utilization", "gauge", "1",
                           used / (used + available), labels);
}

void tide_collector_filesystems(tide_collector *collector)
{
    const char *rest = tide_collector_read(collector, "/proc/self/mounts");
    tide_view seen[TIDE_COLLECTOR_MOUNTS_MAX]; /* devices: a second mount tells the same */
    int count = 0;
    tide_view line;
    while (rest && count < TIDE_COLLECTOR_MOUNTS_MAX && tide_collector_next_line(&rest, &line)) {
        mount m = {.device = tide_collector_next_word(&line)};
        const tide_view mountpoint = tide_collector_next_word(&line);
        m.type = tide_collector_next_word(&line);
        bool is_known = !is_asked(m.device, mountpoint, m.type);
        for (int i = 0; i < count && !is_known; i++)
            is_known = tide_view_equal(seen[i], m.device);
        if (is_known || !read_path(m.mountpoint, sizeof m.mountpoint, mountpoint))
            continue;
        seen[count++] = m.device;
        put_filesystem(collector, &m);
    }
}
