/* thread_test.c - which signals reach a thread. */
#include "base/thread.h"

#include <signal.h>

#include "support/check.h"

static void *read_mask(void *arg)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void a_thread_starts_with_all_signals_blocked_but_the_faults(void **state)
{
    (void)state;
    tide_error err;
    pthread_t thread;
    sigset_t mask;
    assert_status(TIDE_OK, tide_thread_start(&thread, read_mask, &mask, &err));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&mask, SIGPIPE), 1);
    assert_int_equal(sigismember(&mask, SIGCHLD), 1);
    assert_int_equal(sigismember(&mask, SIGSEGV), 0);
    assert_int_equal(sigismember(&mask, SIGBUS), 0);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0); /* the caller's is as before */
}

static void an_unmasked_thread_has_the_mask_of_its_caller(void **state)
{
    (void)state;
    tide_error err;
    pthread_t thread;
    sigset_t usr1;
    sigset_t mask;
    (void)sigemptyset(&usr1);
    (void)sigaddset(&usr1, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    assert_status(TIDE_OK, tide_thread_start_unmasked(&thread, read_mask, &mask, &err));
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    assert_int_equal(sigismember(&mask, SIGUSR1), 1);
    assert_int_equal(sigismember(&mask, SIGTERM), 0);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_starts_with_all_signals_blocked_but_the_faults),
        cmocka_unit_test(an_unmasked_thread_has_the_mask_of_its_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
