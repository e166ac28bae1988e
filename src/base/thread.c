#include "base/thread.h"

#include <signal.h>
#include <string.h>

tide_status tide_thread_start_unmasked(pthread_t *thread, void *(*fn)(void *arg), void *arg,
                                       tide_error *err)
{
    const int failure = pthread_create(thread, NULL, fn, arg);
    return failure == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_NOMEM, "cannot start a thread: %s", strerror(failure));
}

tide_status tide_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg, tide_error *err)
{
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t blocked;
    sigset_t before;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++)
        (void)sigdelset(&blocked, FAULTS[i]);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const tide_status status = tide_thread_start_unmasked(thread, fn, arg, err);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
