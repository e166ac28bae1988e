/* quiet_thread.h - a thread that no signal reaches.
 *
 * Signals are the program's business, and its main thread takes them; a broken pipe is an error of write in ours. */
#ifndef TIDE_NET_SERVER_QUIET_THREAD_H
#define TIDE_NET_SERVER_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0, or the reason as of errno. */
static inline int tide_quiet_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

#endif
