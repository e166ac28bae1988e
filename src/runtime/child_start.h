/* child_start.h - fork and exec, with a report about what went wrong in between.
 *
 * Threads: any thread; between fork and exec only async-signal-safe calls are made. */
#ifndef TIDE_RUNTIME_CHILD_START_H
#define TIDE_RUNTIME_CHILD_START_H

#include "runtime/child.h"

typedef struct tide_child_started {
    pid_t pid;
    bool has_own_group;
    int in_fd;  /* its stdin; -1: none. Does not block */
    int out_fd; /* its stdout; -1: none. Does not block */
} tide_child_started;

/* Statuses as tide_child_run. The descriptors are the caller's. */
TIDE_MUST_CHECK tide_status tide_child_start(const tide_child_spec *spec, tide_child_started *out,
                                             tide_error *err);

#endif
