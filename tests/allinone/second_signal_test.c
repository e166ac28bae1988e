/* A second signal ends `tidemark up` at once: nothing is closed, so nothing may be freed or cleared
 * that a thread still reads. */
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allinone/up.h"
#include "base/cleanup.h"
#include "support/check.h"
#include "support/tempdir.h"
#include "web/events.h"

enum { READS_AFTERWARDS = 3, STACK_BYTES = 64 * 1024 };

static _Atomic(const tide_colonyd *) colony_seen;
static atomic_bool has_returned;
static sem_t read_afterwards;

uint64_t __real_tide_colonyd_version(const tide_colonyd *colonyd);
uint64_t __wrap_tide_colonyd_version(const tide_colonyd *colonyd);
void __wrap_tide_events_end(tide_events *events);

/* The thread that tells pages what is new reads the colony. */
uint64_t __wrap_tide_colonyd_version(const tide_colonyd *colonyd)
{
    const tide_colonyd *seen = NULL;
    if (!atomic_compare_exchange_strong(&colony_seen, &seen, colonyd) && seen != colonyd)
        _exit(EXIT_FAILURE); /* not the one that was opened */
    const uint64_t version = __real_tide_colonyd_version(colonyd);
    if (atomic_load(&has_returned))
        (void)sem_post(&read_afterwards);
    return version;
}

/* It has been asked to end and has not come to it: it goes on for as long as the process does. */
void __wrap_tide_events_end(tide_events *events)
{
    (void)events;
}

/* Both before the first is looked at: the second finds it draining. */
static tide_status signal_twice(void *arg, tide_store *store, const tide_listener *listener,
                                tide_error *err)
{
    (void)arg;
    (void)store;
    (void)listener;
    (void)err;
    return raise(SIGTERM) == 0 && raise(SIGINT) == 0 ? TIDE_OK : TIDE_E_FAILED;
}

static void overwrite_frames(void)
{
    volatile char frames[STACK_BYTES];
    for (size_t i = 0; i < sizeof frames; i++)
        frames[i] = '\x5a';
}

/* Never returns: the process is no test any more. */
static _Noreturn void run_and_stay(const char *dir)
{
    tide_log log;
    tide_error err = {0};
    tide_log_init(&log, stderr, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_ERROR);
    tide_up_options options = {
        .listener = {.log = &log, .env = tide_env_system(), .version = "test"},
        .data_dir = dir,
        .http = "127.0.0.1:0",
        .collect_us = INT64_C(1000000),
        .extra = {.begin = signal_twice}};
    tide_net_limits_init(&options.listener.limits);
    const tide_status status = tide_up_run(&options, &err);
    if (status != TIDE_E_INTERRUPTED) {
        (void)fprintf(stderr, "status %d: %s\n", (int)status, err.text);
        _exit(EXIT_FAILURE);
    }
    overwrite_frames();
    atomic_store(&has_returned, true);
    for (int i = 0; i < READS_AFTERWARDS; i++)
        while (sem_wait(&read_afterwards) != 0)
            ;
    /* Not an exit, at which the thread sanitizer would report the threads that nobody joins here. */
    (void)raise(SIGKILL);
    _exit(EXIT_FAILURE);
}

static void what_threads_read_outlives_a_second_signal(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    assert_ok_err(tempdir_make(&dir, &err), &err);
    assert_int_equal(0, sem_init(&read_afterwards, 0, 0));
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_and_stay(dir.path);
    int status = 0;
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(SIGKILL, WTERMSIG(status));
    assert_ok_err(tempdir_remove(&dir, &err), &err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_threads_read_outlives_a_second_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
