/* lifecycle.h - signals, readiness and drain of a daemon; notifications of the service manager.
 *
 *     tide_lifecycle_open      first in a daemon, before any thread: blocks the signals
 *     ... open stores, listen ...
 *     tide_lifecycle_ready     one line on stdout, READY=1 to the service manager
 *     tide_lifecycle_run       until the end:
 *         SIGHUP                  calls.reload   RELOADING=1 ... READY=1; after a failure, which
 *                                                is logged, the old settings stay
 *         SIGTERM, SIGINT         calls.drain    STOPPING=1; the drain ends with
 *                                                tide_lifecycle_finish
 *         a second one            at once        run returns TIDE_E_INTERRUPTED
 *         drain_us over           at once        the same
 *         drain_us + end_us over  the process ends, whatever still runs or closes
 *         tide_lifecycle_finish   TIDE_OK        also without a signal
 *     tide_lifecycle_close
 *
 * The line on stdout is `ready ` and the addresses of the daemon ("grpc=127.0.0.1:4317
 * http=127.0.0.1:4318"). Scripts wait for it. A stdout that is closed is no failure.
 *
 * Signals are read from a descriptor (signalfd) by run alone: no code of ours runs inside a signal
 * handler. SIGPIPE is ignored, so that a peer that left is an error of a write and not the end of
 * the process. Threads that are started after open inherit the blocked signals and never receive
 * them. Child processes must unblock theirs (runtime/child.h does).
 *
 * While run waits it sends WATCHDOG=1 at half the interval that the service manager expects, unless
 * calls.is_alive returns false (a loop that hangs).
 *
 * Log lines: ready, reloading, reloaded or reload failed, draining, stopped; with the reason.
 *
 * Threads: tide_lifecycle_finish from any thread, also from a call; the others from the main
 * thread. The calls are made on the thread of run and must not take long.
 * Limits: one per process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { TIDE_LIFECYCLE_LINE_MAX = 1024 }; /* bytes behind "ready " */

#define TIDE_LIFECYCLE_DRAIN_US INT64_C(30000000)

typedef struct tide_lifecycle tide_lifecycle;

typedef struct tide_lifecycle_calls {
    tide_status (*reload)(void *arg, tide_error *err); /* NULL: nothing to reload */
    void (*drain)(void *arg);                          /* NULL: over at once */
    bool (*is_alive)(void *arg);                       /* NULL: always */
    void *arg;
} tide_lifecycle_calls;

typedef struct tide_lifecycle_options {
    tide_log *log;    /* NULL: none */
    tide_env *env;    /* NULL: tide_env_system(); run waits in real time */
    FILE *ready_file; /* NULL: stdout */
    int64_t drain_us; /* 0: TIDE_LIFECYCLE_DRAIN_US */
    /* For a process that has nothing else to do: its end, counted from the end of drain_us. Stores
     * survive it as they do a crash. 0: as long as closing takes. */
    int64_t end_us;
    bool is_resumed; /* the line was printed before: only the service manager is notified */
} tide_lifecycle_options;

/* Block the signals. TIDE_E_IO: no descriptor. TIDE_E_INVALID: NOTIFY_SOCKET is no address. */
TIDE_MUST_CHECK tide_status tide_lifecycle_open(tide_lifecycle **out,
                                                const tide_lifecycle_options *options,
                                                tide_error *err);
/* Restore the signal mask. Takes NULL. */
void tide_lifecycle_close(tide_lifecycle *lifecycle);
TIDE_CLEANUP_FN(tide_lifecycle_closep, tide_lifecycle, tide_lifecycle_close)

/* Report that the daemon serves. format makes one line, without its end. */
void tide_lifecycle_ready(tide_lifecycle *lifecycle, const char *format, ...) TIDE_PRINTF(2, 3);

/* See above. TIDE_OK: finished. TIDE_E_INTERRUPTED: ended before that. TIDE_E_IO: poll failed. */
TIDE_MUST_CHECK tide_status tide_lifecycle_run(tide_lifecycle *lifecycle,
                                               const tide_lifecycle_calls *calls, tide_error *err);

/* Make run return. */
void tide_lifecycle_finish(tide_lifecycle *lifecycle);

/* Has a signal begun the drain? */
bool tide_lifecycle_is_draining(const tide_lifecycle *lifecycle);
