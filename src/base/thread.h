/* thread.h - start of a thread.
 *
 * Signals belong to the main thread of a program, and a library must not take those of its
 * application. A thread therefore starts with all signals blocked except the faults (SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL), for which an application or a sanitizer may have a handler. */
#pragma once

#include <pthread.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

/* TIDE_E_NOMEM: the system starts no thread; *thread is undefined. */
TIDE_MUST_CHECK tide_status tide_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg,
                                              tide_error *err);

/* As tide_thread_start, with the caller's signal mask: for a thread that starts programs, which
 * inherit it. */
TIDE_MUST_CHECK tide_status tide_thread_start_unmasked(pthread_t *thread, void *(*fn)(void *arg),
                                                       void *arg, tide_error *err);
