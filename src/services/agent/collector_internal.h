/* collector_internal.h - what the parts of the collector share. See collector.h. */
#pragma once

#include <stdbool.h>

#include <tidemark/view.h>

#include "base/buffer.h"
#include "services/agent/collector.h"

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

/* Append one record. After a failure it does nothing. */
void tide_collector_put(tide_collector *collector, const char *name, const char *type,
                        const char *unit, double value, const tide_collector_label *labels);

/* Read root/path; NULL (and counted): it cannot be read. Valid until the next file is read. */
const char *tide_collector_read(tide_collector *collector, const char *path);

/* The next line of *rest, which moves behind it; false at the end. */
bool tide_collector_next_line(const char **rest, tide_view *line);

/* The next word of *rest, between blanks; empty at the end. */
tide_view tide_collector_next_word(tide_view *rest);

/* The next word as a number; 0: it is none. */
uint64_t tide_collector_next_number(tide_view *rest);

void tide_collector_cpu(tide_collector *collector);
void tide_collector_memory(tide_collector *collector);
void tide_collector_load(tide_collector *collector);
void tide_collector_disks(tide_collector *collector);
void tide_collector_networks(tide_collector *collector);
void tide_collector_filesystems(tide_collector *collector);
