/* lifecycle.h - a daemon's life, seen from outside: ready, reloaded, drained, gone.
 *
 *     tide_lifecycle_open          first thing in a daemon, before any thread: signals are kept back from here on
 *     ... open stores, listen ...
 *     tide_lifecycle_ready         one line on stdout, READY=1 to the service manager
 *     tide_lifecycle_run           until it is over:
 *         SIGHUP                 calls.reload      RELOADING=1 ... READY=1; a failure is logged, the old settings stay
 *         SIGTERM, SIGINT        calls.drain       STOPPING=1; whoever drains calls tide_lifecycle_finish at the end
 *         a second one           at once           run returns TIDE_E_INTERRUPTED
 *         drain_us over          at once           the same
 *         tide_lifecycle_finish    TIDE_OK           also without a signal: a daemon may end by itself
 *     tide_lifecycle_close
 *
 * The line on stdout is `ready ` and what the daemon says about itself ("grpc=127.0.0.1:4317 http=127.0.0.1:4318"): scripts
 * wait for it. A stdout that nobody reads is no reason to fail.
 *
 * Signals come through a descriptor (signalfd) and are looked at by run alone: no code of ours runs inside a signal
 * handler. SIGPIPE is ignored: a peer that left is an error of a write, not of the process. Threads that are started
 * after open inherit the blocked signals, so they never see them; child processes must unblock theirs (runtime/child.h
 * does).
 *
 * While run waits it tells the watchdog of the service manager, at half the interval it asks for, that it is alive;
 * calls.is_alive may object (a loop that hangs), and then nothing is told.
 *
 * Log lines: ready, reloading, reloaded or reload failed, draining, stopped; with why.
 *
 * Threads: tide_lifecycle_finish may be called from any thread (also from a call); the others from the main thread. The calls
 * are made on the thread of run and must not take long.
 * Limits: one service per process. */
#ifndef TIDE_RUNTIME_LIFECYCLE_H
#define TIDE_RUNTIME_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/log.h"

enum { TIDE_LIFECYCLE_LINE_MAX = 1024 }; /* bytes of what stands behind "ready " */

#define TIDE_LIFECYCLE_DRAIN_US INT64_C(30000000)

typedef struct tide_lifecycle tide_lifecycle;

typedef struct tide_lifecycle_calls {
    tide_status (*reload)(void *arg, tide_error *err); /* NULL: nothing to reload */
    void (*drain)(void *arg);                          /* NULL: over at once */
    bool (*is_alive)(void *arg);                       /* NULL: always */
    void *arg;
} tide_lifecycle_calls;

typedef struct tide_lifecycle_options {
    tide_log *log;    /* NULL: says nothing */
    tide_env *env;    /* NULL: tide_env_system(); run waits in real time */
    FILE *ready_file; /* NULL: stdout */
    int64_t drain_us; /* 0: TIDE_LIFECYCLE_DRAIN_US */
} tide_lifecycle_options;

/* Keep the signals back. TIDE_E_IO: the system refuses descriptors. TIDE_E_INVALID: NOTIFY_SOCKET is no address. */
TIDE_MUST_CHECK tide_status tide_lifecycle_open(tide_lifecycle **out,
                                                const tide_lifecycle_options *options,
                                                tide_error *err);
/* The signals are as before. Takes NULL. */
void tide_lifecycle_close(tide_lifecycle *lifecycle);
void tide_lifecycle_closep(tide_lifecycle **lifecycle);

/* Say that it serves; what is one line, without its end. */
void tide_lifecycle_ready(tide_lifecycle *lifecycle, const char *format, ...) TIDE_PRINTF(2, 3);

/* See above. TIDE_OK: everything was done. TIDE_E_INTERRUPTED: ended before that. TIDE_E_IO: the system cannot wait. */
TIDE_MUST_CHECK tide_status tide_lifecycle_run(tide_lifecycle *lifecycle,
                                               const tide_lifecycle_calls *calls, tide_error *err);

/* It is over; run returns. */
void tide_lifecycle_finish(tide_lifecycle *lifecycle);

/* Has a signal asked for the end? */
bool tide_lifecycle_is_draining(const tide_lifecycle *lifecycle);

#endif
