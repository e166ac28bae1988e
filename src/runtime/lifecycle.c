#include "runtime/lifecycle.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/notify.h"

struct tide_lifecycle {
    tide_log *log;
    tide_env *env;
    FILE *ready_file;
    int64_t drain_us;
    tide_notify notify;
    int signal_fd;
    int finish_fd;
    bool has_mask;
    sigset_t old_mask;
    struct sigaction old_pipe;
    char status[TIDE_SERVICE_LINE_MAX];
    atomic_bool is_draining;
    int64_t drain_until_us;
    int64_t watchdog_at_us;
};

/* ---- open, close ---- */

static tide_status fail_system(tide_error *err, const char *what)
{
    return tide_fail(err, TIDE_E_IO, "%s: %s", what, strerror(errno));
}

static tide_status keep_signals(tide_lifecycle *service, tide_error *err)
{
    sigset_t wanted;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGTERM);
    (void)sigaddset(&wanted, SIGINT);
    (void)sigaddset(&wanted, SIGHUP);
    const int failure = pthread_sigmask(SIG_BLOCK, &wanted, &service->old_mask);
    if (failure != 0)
        return tide_fail(err, TIDE_E_IO, "signals cannot be kept back: %s", strerror(failure));
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignored, &service->old_pipe);
    service->has_mask = true;
    service->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (service->signal_fd < 0)
        return fail_system(err, "no descriptor for signals");
    service->finish_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return service->finish_fd < 0 ? fail_system(err, "no descriptor for the end") : TIDE_OK;
}

tide_status tide_lifecycle_open(tide_lifecycle **out, const tide_lifecycle_options *options,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_lifecycle_closep) tide_lifecycle *service = calloc(1, sizeof *service);
    if (!service)
        return tide_no_memory(err);
    service->log = options->log;
    service->env = options->env ? options->env : tide_env_system();
    service->ready_file = options->ready_file ? options->ready_file : stdout;
    service->drain_us = options->drain_us ? options->drain_us : TIDE_SERVICE_DRAIN_US;
    service->drain_until_us = INT64_MAX;
    service->watchdog_at_us = INT64_MAX;
    service->signal_fd = -1;
    service->finish_fd = -1;
    service->notify.fd = -1;
    TIDE_TRY(tide_notify_init(&service->notify, err));
    TIDE_TRY(keep_signals(service, err));
    *out = TIDE_TAKE(service);
    return TIDE_OK;
}

void tide_lifecycle_close(tide_lifecycle *service)
{
    if (!service)
        return;
    if (service->signal_fd >= 0)
        (void)close(service->signal_fd);
    if (service->finish_fd >= 0)
        (void)close(service->finish_fd);
    if (service->has_mask) {
        (void)sigaction(SIGPIPE, &service->old_pipe, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &service->old_mask, NULL);
    }
    tide_notify_done(&service->notify);
    free(service);
}

void tide_lifecycle_closep(tide_lifecycle **service)
{
    tide_lifecycle_close(*service);
}

/* ---- telling ---- */

static void log_line(tide_lifecycle *service, tide_log_level level, const char *message,
                     const char *key, const char *value)
{
    if (service->log && key)
        tide_log_write(service->log, level, message, TIDE_F(key, value), TIDE_F_END);
    else if (service->log)
        tide_log_write(service->log, level, message, TIDE_F_END);
}

void tide_lifecycle_ready(tide_lifecycle *service, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(service->status, sizeof service->status, format, args);
    va_end(args);
    /* One write: whoever waits for the line gets it whole. */
    (void)fprintf(service->ready_file, "ready %s\n", service->status);
    (void)fflush(service->ready_file);
    log_line(service, TIDE_LOG_INFO, "ready", "serves", service->status);
    tide_notify_ready(&service->notify, service->status);
}

void tide_lifecycle_finish(tide_lifecycle *service)
{
    const uint64_t one = 1;
    ssize_t written = 0;
    do {
        written = write(service->finish_fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

bool tide_lifecycle_is_draining(const tide_lifecycle *service)
{
    return atomic_load((atomic_bool *)&service->is_draining);
}

/* ---- what signals ask for ---- */

static void reload(tide_lifecycle *service, const tide_lifecycle_calls *calls)
{
    tide_error err = {.status = TIDE_OK};
    log_line(service, TIDE_LOG_INFO, "reloading", NULL, NULL);
    tide_notify_reloading(&service->notify, service->env);
    if (calls->reload && calls->reload(calls->arg, &err) < TIDE_OK)
        log_line(service, TIDE_LOG_ERROR, "reload failed, the old settings stay", "why", err.text);
    else
        log_line(service, TIDE_LOG_INFO, "reloaded", NULL, NULL);
    tide_notify_ready(&service->notify, service->status);
}

static void drain(tide_lifecycle *service, const tide_lifecycle_calls *calls, const char *why)
{
    const int64_t now_us = service->env->mono_us(service->env);
    atomic_store(&service->is_draining, true);
    service->drain_until_us =
        service->drain_us > INT64_MAX - now_us ? INT64_MAX : now_us + service->drain_us;
    log_line(service, TIDE_LOG_INFO, "draining", "why", why);
    tide_notify_stopping(&service->notify, "draining");
    if (calls->drain)
        calls->drain(calls->arg);
    else
        tide_lifecycle_finish(service);
}

static tide_status obey(tide_lifecycle *service, const tide_lifecycle_calls *calls, int number,
                        tide_error *err)
{
    const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
    if (number == SIGHUP && !tide_lifecycle_is_draining(service)) {
        reload(service, calls);
    } else if (number != SIGHUP && tide_lifecycle_is_draining(service)) {
        return tide_fail(err, TIDE_E_INTERRUPTED, "ended at once by a second %s", name);
    } else if (number != SIGHUP) {
        drain(service, calls, name);
    }
    return TIDE_OK;
}

/* Every signal that is there. */
static tide_status read_signals(tide_lifecycle *service, const tide_lifecycle_calls *calls,
                                tide_error *err)
{
    struct signalfd_siginfo info;
    while (read(service->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        TIDE_TRY(obey(service, calls, (int)info.ssi_signo, err));
    return TIDE_OK;
}

/* ---- waiting ---- */

static void tell_watchdog(tide_lifecycle *service, const tide_lifecycle_calls *calls)
{
    const int64_t now_us = service->env->mono_us(service->env);
    if (service->notify.watchdog_us == 0 ||
        (service->watchdog_at_us != INT64_MAX && now_us < service->watchdog_at_us))
        return;
    service->watchdog_at_us = now_us + service->notify.watchdog_us / 2;
    if (!calls->is_alive || calls->is_alive(calls->arg))
        tide_notify_watchdog(&service->notify);
}

static int get_timeout_ms(const tide_lifecycle *service)
{
    const int64_t until_us = service->drain_until_us < service->watchdog_at_us
                                 ? service->drain_until_us
                                 : service->watchdog_at_us;
    if (until_us == INT64_MAX)
        return -1;
    const int64_t left_us = until_us - service->env->mono_us(service->env);
    if (left_us <= 0)
        return 0;
    return left_us > INT64_C(60000000) ? 60000 : (int)(left_us / 1000) + 1;
}

static bool take_finish(tide_lifecycle *service)
{
    uint64_t count = 0;
    return read(service->finish_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

static tide_status wait_once(tide_lifecycle *service, const tide_lifecycle_calls *calls,
                             bool *is_over, tide_error *err)
{
    struct pollfd fds[] = {{.fd = service->signal_fd, .events = POLLIN},
                           {.fd = service->finish_fd, .events = POLLIN}};
    tell_watchdog(service, calls);
    if (poll(fds, 2, get_timeout_ms(service)) < 0 && errno != EINTR)
        return fail_system(err, "waiting for signals");
    *is_over = take_finish(service);
    if (*is_over)
        return TIDE_OK;
    TIDE_TRY(read_signals(service, calls, err));
    if (service->env->mono_us(service->env) >= service->drain_until_us)
        return tide_fail(err, TIDE_E_INTERRUPTED,
                         "ended after %" PRId64 " ms of draining; something was still running",
                         service->drain_us / 1000);
    return TIDE_OK;
}

tide_status tide_lifecycle_run(tide_lifecycle *service, const tide_lifecycle_calls *calls,
                               tide_error *err)
{
    bool is_over = false;
    tide_status status = TIDE_OK;
    while (status >= TIDE_OK && !is_over)
        status = wait_once(service, calls, &is_over, err);
    if (!tide_lifecycle_is_draining(service))
        tide_notify_stopping(&service->notify, "stopped");
    if (status < TIDE_OK)
        log_line(service, TIDE_LOG_WARN, "stopped", "why", err ? err->text : "");
    else
        log_line(service, TIDE_LOG_INFO, "stopped", NULL, NULL);
    return status;
}
