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
#include "base/thread.h"
#include "runtime/notify.h"

struct tide_lifecycle {
    tide_log *log;
    tide_env *env;
    FILE *ready_file;
    int64_t drain_us;
    int64_t end_us;
    bool is_resumed;
    tide_notify notify;
    int signal_fd;
    int finish_fd;
    bool has_mask;
    sigset_t old_mask;
    struct sigaction old_pipe;
    char status[TIDE_LIFECYCLE_LINE_MAX];
    atomic_bool is_draining;
    int64_t drain_until_us;
    int64_t watchdog_at_us;
};

/* ---- open, close ---- */

static tide_status fail_system(tide_error *err, const char *what)
{
    return tide_fail(err, TIDE_E_IO, "%s: %s", what, strerror(errno));
}

static tide_status block_signals(tide_lifecycle *lifecycle, tide_error *err)
{
    sigset_t wanted;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGTERM);
    (void)sigaddset(&wanted, SIGINT);
    (void)sigaddset(&wanted, SIGHUP);
    const int failure = pthread_sigmask(SIG_BLOCK, &wanted, &lifecycle->old_mask);
    if (failure != 0)
        return tide_fail(err, TIDE_E_IO, "cannot block signals: %s", strerror(failure));
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignored, &lifecycle->old_pipe);
    lifecycle->has_mask = true;
    lifecycle->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (lifecycle->signal_fd < 0)
        return fail_system(err, "cannot create a descriptor for signals");
    lifecycle->finish_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return lifecycle->finish_fd < 0 ? fail_system(err, "cannot create a descriptor for the end")
                                    : TIDE_OK;
}

/* A bare chroot. What is read there is left out where it is shown, so it is reported once here. */
static void warn_without_proc(tide_log *log)
{
    if (log && access("/proc/self/stat", R_OK) != 0)
        tide_log_write(log, TIDE_LOG_WARN, "/proc is not mounted",
                       TIDE_F("missing", "metrics of the machine, memory and descriptors of this "
                                         "process, the boot id by which leases end when the "
                                         "machine restarts"),
                       TIDE_F_END);
}

tide_status tide_lifecycle_open(tide_lifecycle **out, const tide_lifecycle_options *options,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_lifecycle_closep) TIDE_NEW(tide_lifecycle, lifecycle, err);
    lifecycle->log = options->log;
    lifecycle->env = options->env ? options->env : tide_env_system();
    lifecycle->ready_file = options->ready_file ? options->ready_file : stdout;
    lifecycle->drain_us = options->drain_us ? options->drain_us : TIDE_LIFECYCLE_DRAIN_US;
    lifecycle->end_us = options->end_us;
    lifecycle->is_resumed = options->is_resumed;
    lifecycle->drain_until_us = INT64_MAX;
    lifecycle->watchdog_at_us = INT64_MAX;
    lifecycle->signal_fd = -1;
    lifecycle->finish_fd = -1;
    lifecycle->notify.fd = -1;
    TIDE_TRY(tide_notify_init(&lifecycle->notify, err));
    TIDE_TRY(block_signals(lifecycle, err));
    warn_without_proc(lifecycle->log);
    *out = TIDE_TAKE(lifecycle);
    return TIDE_OK;
}

void tide_lifecycle_close(tide_lifecycle *lifecycle)
{
    if (!lifecycle)
        return;
    if (lifecycle->signal_fd >= 0)
        (void)close(lifecycle->signal_fd);
    if (lifecycle->finish_fd >= 0)
        (void)close(lifecycle->finish_fd);
    if (lifecycle->has_mask) {
        (void)sigaction(SIGPIPE, &lifecycle->old_pipe, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &lifecycle->old_mask, NULL);
    }
    tide_notify_done(&lifecycle->notify);
    free(lifecycle);
}

/* ---- reporting ---- */

static void log_line(tide_lifecycle *lifecycle, tide_log_level level, const char *message,
                     const char *key, const char *value)
{
    if (lifecycle->log && key)
        tide_log_write(lifecycle->log, level, message, TIDE_F(key, value), TIDE_F_END);
    else if (lifecycle->log)
        tide_log_write(lifecycle->log, level, message, TIDE_F_END);
}

void tide_lifecycle_ready(tide_lifecycle *lifecycle, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(lifecycle->status, sizeof lifecycle->status, format, args);
    va_end(args);
    /* One write, so that a reader gets the line whole. */
    if (!lifecycle->is_resumed)
        (void)fprintf(lifecycle->ready_file, "ready %s\n", lifecycle->status);
    (void)fflush(lifecycle->ready_file);
    log_line(lifecycle, TIDE_LOG_INFO, "ready", "serves", lifecycle->status);
    tide_notify_ready(&lifecycle->notify, lifecycle->status);
}

void tide_lifecycle_finish(tide_lifecycle *lifecycle)
{
    const uint64_t one = 1;
    ssize_t written = 0;
    do {
        written = write(lifecycle->finish_fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

bool tide_lifecycle_is_draining(const tide_lifecycle *lifecycle)
{
    return atomic_load((atomic_bool *)&lifecycle->is_draining);
}

/* ---- signals ---- */

static void reload(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls)
{
    tide_error err = {.status = TIDE_OK};
    log_line(lifecycle, TIDE_LOG_INFO, "reloading", NULL, NULL);
    tide_notify_reloading(&lifecycle->notify, lifecycle->env);
    if (calls->reload && calls->reload(calls->arg, &err) < TIDE_OK)
        log_line(lifecycle, TIDE_LOG_ERROR, "reload failed, the old settings stay", "why",
                 err.text);
    else
        log_line(lifecycle, TIDE_LOG_INFO, "reloaded", NULL, NULL);
    tide_notify_ready(&lifecycle->notify, lifecycle->status);
}

/* Closing joins threads and waits for disks and servers. This thread outlives all of that, so it
 * uses nothing of the lifecycle. */
static void *end_process(void *arg)
{
    int64_t *after_us = arg;
    tide_env *env = tide_env_system();
    env->sleep_us(env, *after_us);
    (void)dprintf(STDERR_FILENO,
                  "tidemark: ended %" PRId64 " ms after the signal; something still "
                  "ran that could not be stopped\n",
                  *after_us / 1000);
    _exit((int)tide_status_get(TIDE_E_INTERRUPTED)->exit_code);
}

static void bound_end(const tide_lifecycle *lifecycle)
{
    if (lifecycle->end_us == 0 || lifecycle->drain_us > INT64_MAX - lifecycle->end_us)
        return;
    pthread_t thread;
    int64_t *after_us = malloc(sizeof *after_us);
    if (!after_us)
        return;
    *after_us = lifecycle->drain_us + lifecycle->end_us;
    if (tide_thread_start(&thread, end_process, after_us, NULL) == TIDE_OK)
        (void)pthread_detach(thread);
    else
        free(after_us);
}

static void drain(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls, const char *why)
{
    const int64_t now_us = lifecycle->env->mono_us(lifecycle->env);
    atomic_store(&lifecycle->is_draining, true);
    lifecycle->drain_until_us =
        lifecycle->drain_us > INT64_MAX - now_us ? INT64_MAX : now_us + lifecycle->drain_us;
    bound_end(lifecycle);
    log_line(lifecycle, TIDE_LOG_INFO, "draining", "why", why);
    tide_notify_stopping(&lifecycle->notify, "draining");
    if (calls->drain)
        calls->drain(calls->arg);
    else
        tide_lifecycle_finish(lifecycle);
}

static tide_status handle_signal(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls,
                                 int number, tide_error *err)
{
    const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
    if (number == SIGHUP && !tide_lifecycle_is_draining(lifecycle)) {
        reload(lifecycle, calls);
    } else if (number != SIGHUP && tide_lifecycle_is_draining(lifecycle)) {
        return tide_fail(err, TIDE_E_INTERRUPTED, "ended at once by a second %s", name);
    } else if (number != SIGHUP) {
        drain(lifecycle, calls, name);
    }
    return TIDE_OK;
}

/* All pending signals. */
static tide_status read_signals(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls,
                                tide_error *err)
{
    struct signalfd_siginfo info;
    while (read(lifecycle->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        TIDE_TRY(handle_signal(lifecycle, calls, (int)info.ssi_signo, err));
    return TIDE_OK;
}

/* ---- waiting ---- */

static void notify_watchdog(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls)
{
    const int64_t now_us = lifecycle->env->mono_us(lifecycle->env);
    if (lifecycle->notify.watchdog_us == 0 ||
        (lifecycle->watchdog_at_us != INT64_MAX && now_us < lifecycle->watchdog_at_us))
        return;
    lifecycle->watchdog_at_us = now_us + lifecycle->notify.watchdog_us / 2;
    if (!calls->is_alive || calls->is_alive(calls->arg))
        tide_notify_watchdog(&lifecycle->notify);
}

static int get_timeout_ms(const tide_lifecycle *lifecycle)
{
    const int64_t until_us = lifecycle->drain_until_us < lifecycle->watchdog_at_us
                                 ? lifecycle->drain_until_us
                                 : lifecycle->watchdog_at_us;
    if (until_us == INT64_MAX)
        return -1;
    const int64_t left_us = until_us - lifecycle->env->mono_us(lifecycle->env);
    if (left_us <= 0)
        return 0;
    return left_us > INT64_C(60000000) ? 60000 : (int)(left_us / 1000) + 1;
}

static bool read_finish(tide_lifecycle *lifecycle)
{
    uint64_t count = 0;
    return read(lifecycle->finish_fd, &count, sizeof count) == (ssize_t)sizeof count;
}

static tide_status wait_once(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls,
                             bool *is_over, tide_error *err)
{
    struct pollfd fds[] = {{.fd = lifecycle->signal_fd, .events = POLLIN},
                           {.fd = lifecycle->finish_fd, .events = POLLIN}};
    notify_watchdog(lifecycle, calls);
    if (poll(fds, 2, get_timeout_ms(lifecycle)) < 0 && errno != EINTR)
        return fail_system(err, "waiting for signals");
    *is_over = read_finish(lifecycle);
    if (*is_over)
        return TIDE_OK;
    TIDE_TRY(read_signals(lifecycle, calls, err));
    if (lifecycle->env->mono_us(lifecycle->env) >= lifecycle->drain_until_us)
        return tide_fail(err, TIDE_E_INTERRUPTED,
                         "ended after %" PRId64 " ms of draining; calls were still running",
                         lifecycle->drain_us / 1000);
    return TIDE_OK;
}

tide_status tide_lifecycle_run(tide_lifecycle *lifecycle, const tide_lifecycle_calls *calls,
                               tide_error *err)
{
    bool is_over = false;
    tide_status status = TIDE_OK;
    while (status >= TIDE_OK && !is_over)
        status = wait_once(lifecycle, calls, &is_over, err);
    if (!tide_lifecycle_is_draining(lifecycle))
        tide_notify_stopping(&lifecycle->notify, "stopped");
    if (status < TIDE_OK)
        log_line(lifecycle, TIDE_LOG_WARN, "stopped", "why", err ? err->text : "");
    else
        log_line(lifecycle, TIDE_LOG_INFO, "stopped", NULL, NULL);
    return status;
}
