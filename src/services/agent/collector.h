/* collector.h - what the machine is doing, as records of system_metrics.
 *
 * A step reads /proc (and asks statvfs about file systems) once and appends a record per number;
 * names and attributes are OpenTelemetry's (semantic conventions for system metrics):
 *
 *     system.cpu.time                counter, s     cpu.mode
 *     system.cpu.utilization         gauge, 1       share that was not idle since the step before
 *     system.cpu.logical.count       gauge, {cpu}
 *     system.cpu.load_average.1m     gauge, {thread}        also .5m and .15m
 *     system.memory.usage            gauge, By      system.memory.state: used, free, cached, ...
 *     system.memory.limit            gauge, By
 *     system.linux.memory.available  gauge, By
 *     system.paging.usage            gauge, By      system.paging.state: used, free
 *     system.disk.io                 counter, By    system.device, disk.io.direction
 *     system.disk.operations         counter, {operation}   the same
 *     system.disk.operation_time     counter, s             the same
 *     system.disk.io_time            counter, s     system.device
 *     system.filesystem.usage        gauge, By      system.device, system.filesystem.mountpoint,
 *                                                   system.filesystem.type, ...state
 *     system.filesystem.utilization  gauge, 1       without the state
 *     system.network.io              counter, By    network.interface.name, network.io.direction
 *     system.network.packet.count    counter, {packet}      the same
 *     system.network.errors          counter, {error}       the same
 *     system.network.packet.dropped  counter, {packet}      the same
 *     system.uptime                  gauge, s
 *     system.process.count           gauge, {process}
 *
 * The loop-back interface, loop and RAM disks, partitions and file systems without a device of
 * their own (but not the root) are left out. Network file systems are never asked: they may not
 * answer. What cannot be read is left out and counted.
 *
 * Survives: nothing. Threads: a collector belongs to one thread at a time.
 * Limits: below; a step takes a few ms. When it is taken is the caller's business. */
#pragma once

#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/cleanup.h"
#include "feed/record.h"

enum {
    TIDE_COLLECTOR_ROOT_MAX = 256,     /* bytes of the root's path, with the NUL */
    TIDE_COLLECTOR_FILE_MAX = 1 << 20, /* bytes of a file that are read */
    TIDE_COLLECTOR_DEVICES_MAX = 256,  /* disks, and interfaces */
    TIDE_COLLECTOR_MOUNTS_MAX = 64,
};

typedef struct tide_collector tide_collector;

/* root is where /proc and the file systems are found; NULL: the machine itself. The env tells the
 * records' time and outlives the collector. TIDE_E_INVALID: the root is too long. */
TIDE_MUST_CHECK tide_status tide_collector_new(tide_collector **out, const char *root,
                                               tide_env *env, tide_error *err);
void tide_collector_free(tide_collector *collector); /* takes NULL */
TIDE_CLEANUP_FN(tide_collector_freep, tide_collector, tide_collector_free)

/* Append what is now to a batch of system_metrics. TIDE_E_LIMIT, TIDE_E_NOMEM: the batch could not
 * take it all; what it took stays. */
TIDE_MUST_CHECK tide_status tide_collector_step(tide_collector *collector, tide_record_batch *batch,
                                                tide_error *err);

/* Files and file systems that could not be read, of all steps. */
int64_t tide_collector_unreadable(const tide_collector *collector);
