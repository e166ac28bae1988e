/* A daemon's life as others see it: signals, the line on stdout, the service manager. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/lifecycle.h"
#include "runtime/notify.h"
#include "support/check.h"
#include "support/tempdir.h"

#define SECOND INT64_C(1000000)

typedef struct service_test {
    tempdir dir;
    int manager_fd; /* what the service manager listens on */
    char log_path[TEMPDIR_PATH_MAX];
    char out_path[TEMPDIR_PATH_MAX];
    FILE *log_file;
    FILE *out_file;
    tide_log log;
    tide_lifecycle *service;
    int reload_count;
    int drain_count;
    bool is_bad;      /* the next reload fails */
    bool is_stubborn; /* draining does not end by itself */
    bool is_hung;
    char text[4096];
    tide_error err;
} service_test;

static int setup(void **state)
{
    service_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "notify", path);
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    t->manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(t->manager_fd >= 0);
    assert_int_equal(
        0, bind(t->manager_fd, (const struct sockaddr *)&address, (socklen_t)sizeof address));
    assert_int_equal(0, setenv("NOTIFY_SOCKET", address.sun_path, 1));
    assert_int_equal(0, unsetenv("WATCHDOG_USEC"));
    assert_int_equal(0, unsetenv("WATCHDOG_PID"));
    tempdir_join(&t->dir, "log", t->log_path);
    tempdir_join(&t->dir, "out", t->out_path);
    t->log_file = fopen(t->log_path, "w");
    t->out_file = fopen(t->out_path, "w");
    assert_true(t->log_file && t->out_file);
    tide_log_init(&t->log, t->log_file, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_DEBUG);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    service_test *t = *state;
    tide_lifecycle_close(t->service);
    (void)fclose(t->log_file);
    (void)fclose(t->out_file);
    (void)close(t->manager_fd);
    assert_int_equal(0, unsetenv("NOTIFY_SOCKET"));
    assert_int_equal(0, unsetenv("WATCHDOG_USEC"));
    (void)tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

static void open_service(service_test *t, int64_t drain_us)
{
    const tide_lifecycle_options options = {
        .log = &t->log, .ready_file = t->out_file, .drain_us = drain_us};
    assert_ok_err(tide_lifecycle_open(&t->service, &options, &t->err), &t->err);
}

static const char *read_all(service_test *t, const char *path)
{
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    const size_t len = fread(t->text, 1, sizeof t->text - 1, in);
    t->text[len] = '\0';
    (void)fclose(in);
    return t->text;
}

/* Everything the service manager was told so far, messages parted by '|'. */
static const char *heard(service_test *t)
{
    size_t len = 0;
    for (;;) {
        const ssize_t got = recv(t->manager_fd, t->text + len, sizeof t->text - len - 2, 0);
        if (got < 0)
            break;
        len += (size_t)got;
        t->text[len++] = '|';
    }
    t->text[len] = '\0';
    return t->text;
}

static tide_status on_reload(void *arg, tide_error *err)
{
    service_test *t = arg;
    t->reload_count++;
    return t->is_bad ? tide_fail(err, TIDE_E_INVALID, "agent.conf:3: no such option") : TIDE_OK;
}

static void on_drain(void *arg)
{
    service_test *t = arg;
    t->drain_count++;
    if (!t->is_stubborn)
        tide_lifecycle_finish(t->service);
}

static bool on_alive(void *arg)
{
    return !((service_test *)arg)->is_hung;
}

static tide_status run(service_test *t)
{
    const tide_lifecycle_calls calls = {
        .reload = on_reload, .drain = on_drain, .is_alive = on_alive, .arg = t};
    return tide_lifecycle_run(t->service, &calls, &t->err);
}

/* ---- */

static void ready_is_one_line_and_a_message(void **state)
{
    service_test *t = *state;
    open_service(t, 0);
    tide_lifecycle_ready(t->service, "grpc=127.0.0.1:%d http=127.0.0.1:%d", 4317, 4318);
    assert_string_equal("ready grpc=127.0.0.1:4317 http=127.0.0.1:4318\n",
                        read_all(t, t->out_path));
    assert_string_equal("READY=1\nSTATUS=grpc=127.0.0.1:4317 http=127.0.0.1:4318|", heard(t));
    assert_contains(read_all(t, t->log_path), "msg=ready serves=\"grpc=127.0.0.1:4317 ");
}

static void a_signal_drains_and_the_end_is_clean(void **state)
{
    service_test *t = *state;
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        open_service(t, 0);
        assert_int_equal(0, raise(signals[i]));
        assert_false(tide_lifecycle_is_draining(t->service));
        assert_ok_err(run(t), &t->err);
        assert_int_equal(i + 1, t->drain_count);
        assert_true(tide_lifecycle_is_draining(t->service));
        assert_string_equal("STOPPING=1\nSTATUS=draining|", heard(t));
        tide_lifecycle_close(t->service);
        t->service = NULL;
    }
    assert_contains(read_all(t, t->log_path), "msg=draining why=SIGINT");
    assert_contains(read_all(t, t->log_path), "msg=stopped");
}

static void a_second_signal_ends_it_at_once(void **state)
{
    service_test *t = *state;
    t->is_stubborn = true;
    open_service(t, 0);
    assert_int_equal(0, raise(SIGTERM));
    assert_int_equal(0, raise(SIGINT));
    assert_status(TIDE_E_INTERRUPTED, run(t));
    assert_contains(t->err.text, "second");
    assert_int_equal(1, t->drain_count);
}

static void draining_has_an_end(void **state)
{
    service_test *t = *state;
    t->is_stubborn = true;
    open_service(t, 20000);
    assert_int_equal(0, raise(SIGTERM));
    assert_status(TIDE_E_INTERRUPTED, run(t));
    assert_contains(t->err.text, "after 20 ms");
}

static void a_hangup_reloads_and_a_failure_changes_nothing(void **state)
{
    service_test *t = *state;
    open_service(t, 0);
    tide_lifecycle_ready(t->service, "here");
    (void)heard(t);
    t->is_bad = true;
    assert_int_equal(0, raise(SIGHUP));
    tide_lifecycle_finish(
        t->service); /* looked at first: the hangup is not lost, run again finds it */
    assert_ok(run(t));
    assert_int_equal(0, t->reload_count);
    assert_int_equal(0, raise(SIGTERM));
    assert_ok(run(t));
    assert_int_equal(1, t->reload_count);
    const char *messages = heard(t);
    assert_contains(messages, "RELOADING=1\nMONOTONIC_USEC=");
    assert_contains(strstr(messages, "RELOADING=1"), "|READY=1\nSTATUS=here|STOPPING=1");
    assert_contains(read_all(t, t->log_path), "agent.conf:3: no such option");
}

static void *finish_later(void *arg)
{
    tide_lifecycle_finish(arg);
    return NULL;
}

static void another_thread_may_end_it(void **state)
{
    service_test *t = *state;
    pthread_t thread;
    open_service(t, 0);
    assert_int_equal(0, pthread_create(&thread, NULL, finish_later, t->service));
    assert_ok_err(run(t), &t->err);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(0, t->drain_count);
    assert_contains(heard(t), "STOPPING=1");
}

static void *wait_and_term(void *arg)
{
    (void)arg;
    const struct timespec moment = {.tv_nsec = 100000000};
    (void)nanosleep(&moment, NULL); /* several beats of the watchdog */
    assert_int_equal(0, kill(getpid(), SIGTERM));
    return NULL;
}

static void the_watchdog_hears_from_whoever_is_alive(void **state)
{
    service_test *t = *state;
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        t->is_hung = round == 1;
        assert_int_equal(0, setenv("WATCHDOG_USEC", "20000", 1));
        open_service(t, 0);
        assert_int_equal(0, pthread_create(&thread, NULL, wait_and_term, NULL));
        assert_ok_err(run(t), &t->err);
        assert_int_equal(0, pthread_join(thread, NULL));
        const bool is_heard = strstr(heard(t), "WATCHDOG=1|");
        assert_true(is_heard == !t->is_hung);
        tide_lifecycle_close(t->service);
        t->service = NULL;
    }
}

static void a_watchdog_for_another_process_is_not_ours(void **state)
{
    service_test *t = *state;
    tide_notify notify;
    assert_int_equal(0, setenv("WATCHDOG_USEC", "20000", 1));
    assert_int_equal(0, setenv("WATCHDOG_PID", "1", 1));
    assert_ok(tide_notify_init(&notify, &t->err));
    assert_int_equal(0, notify.watchdog_us);
    tide_notify_done(&notify);
    assert_int_equal(0, unsetenv("WATCHDOG_PID"));
    assert_int_equal(0, setenv("WATCHDOG_USEC", "20x", 1));
    assert_ok(tide_notify_init(&notify, &t->err));
    assert_int_equal(0, notify.watchdog_us);
    tide_notify_done(&notify);
}

static void without_a_manager_nothing_is_sent_and_a_bad_address_is_refused(void **state)
{
    service_test *t = *state;
    tide_notify notify;
    assert_int_equal(0, unsetenv("NOTIFY_SOCKET"));
    assert_ok(tide_notify_init(&notify, &t->err));
    assert_int_equal(-1, notify.fd);
    tide_notify_ready(&notify, "nobody hears");
    tide_notify_done(&notify);
    static const char *const bad[] = {"relative/path", "/", "@"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(0, setenv("NOTIFY_SOCKET", bad[i], 1));
        assert_status(TIDE_E_INVALID, tide_notify_init(&notify, &t->err));
    }
    char huge[200];
    memset(huge, 'x', sizeof huge - 1);
    huge[0] = '/';
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(0, setenv("NOTIFY_SOCKET", huge, 1));
    assert_status(TIDE_E_INVALID, tide_notify_init(&notify, &t->err));
}

static void abstract_addresses_and_awkward_words_arrive(void **state)
{
    service_test *t = *state;
    char name[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(name, sizeof name, "@tidemark-test-%d", (int)getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    (void)close(t->manager_fd);
    t->manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(t->manager_fd, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))));
    assert_int_equal(0, setenv("NOTIFY_SOCKET", name, 1));
    tide_notify notify;
    assert_ok_err(tide_notify_init(&notify, &t->err), &t->err);
    tide_notify_ready(&notify, "one\nSTOPPING=1\ttwo");
    assert_string_equal("READY=1\nSTATUS=one STOPPING=1 two|", heard(t));
    tide_notify_done(&notify);
}

/* After close a signal does again what it did before. */
static void the_signals_are_given_back(void **state)
{
    service_test *t = *state;
    sigset_t before;
    sigset_t after;
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, NULL, &before));
    open_service(t, 0);
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, NULL, &after));
    assert_int_equal(1, sigismember(&after, SIGTERM));
    tide_lifecycle_close(t->service);
    t->service = NULL;
    assert_int_equal(0, pthread_sigmask(SIG_SETMASK, NULL, &after));
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

#define SERVICE_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        SERVICE_CASE(ready_is_one_line_and_a_message),
        SERVICE_CASE(a_signal_drains_and_the_end_is_clean),
        SERVICE_CASE(a_second_signal_ends_it_at_once),
        SERVICE_CASE(draining_has_an_end),
        SERVICE_CASE(a_hangup_reloads_and_a_failure_changes_nothing),
        SERVICE_CASE(another_thread_may_end_it),
        SERVICE_CASE(the_watchdog_hears_from_whoever_is_alive),
        SERVICE_CASE(a_watchdog_for_another_process_is_not_ours),
        SERVICE_CASE(without_a_manager_nothing_is_sent_and_a_bad_address_is_refused),
        SERVICE_CASE(abstract_addresses_and_awkward_words_arrive),
        SERVICE_CASE(the_signals_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
