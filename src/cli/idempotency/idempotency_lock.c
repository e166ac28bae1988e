#include "cli/idempotency/idempotency_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"

#define RENEW_MAX_US INT64_C(60000000) /* at most so far apart */
#define LOOK_US INT64_C(1000000) /* the machine may have slept, and the condition's clock with it */

static int64_t min_us(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Until us on the boot clock, or LOOK_US at most; with the mutex held. */
static void wait_a_while(tide_cli_lock *lock, int64_t us)
{
    const int64_t now_us = lock->env->boot_us(lock->env);
    const int64_t left_us = now_us < us ? min_us(us - now_us, LOOK_US) : 0;
    (void)!tide_cond_wait(&lock->wake, &lock->mutex, tide_cond_until(left_us));
}

/* Once, with the mutex held except while the store is asked. Returns when to do it again; INT64_MAX: never. */
static int64_t renew(tide_cli_lock *lock)
{
    tide_error err = {.status = TIDE_OK};
    (void)pthread_mutex_unlock(&lock->mutex);
    const int64_t sent_us = lock->env->boot_us(lock->env);
    const tide_status status =
        tide_idempotency_renew(lock->store, lock->name, lock->token, lock->lock_us, &err);
    (void)pthread_mutex_lock(&lock->mutex);
    if (status == TIDE_OK) {
        lock->until_us = sent_us + lock->lock_us;
        return sent_us + min_us(lock->lock_us / 3, RENEW_MAX_US);
    }
    lock->err = err;
    if (status != TIDE_E_LEASE_LOST)
        return lock->env->boot_us(lock->env) + lock->lock_us / 20;
    lock->is_lost = true;
    (void)eventfd_write(lock->event_fd, 1);
    return INT64_MAX;
}

static void *keep_renewing(void *arg)
{
    tide_cli_lock *lock = arg;
    TIDE_HOLD(&lock->mutex);
    int64_t next_us = lock->until_us - lock->lock_us + min_us(lock->lock_us / 3, RENEW_MAX_US);
    while (!lock->is_ending && !lock->is_lost) {
        if (lock->env->boot_us(lock->env) < next_us)
            wait_a_while(lock, next_us);
        else
            next_us = renew(lock);
    }
    return NULL;
}

tide_status tide_cli_lock_keep(tide_cli_lock *lock, tide_store *store, const char *name,
                               int64_t token, int64_t lock_us, int64_t begun_us, tide_error *err)
{
    *lock = (tide_cli_lock){.store = store,
                            .env = tide_store_env(store),
                            .name = name,
                            .token = token,
                            .lock_us = lock_us,
                            .until_us = begun_us + lock_us};
    lock->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lock->event_fd < 0)
        return tide_fail(err, TIDE_E_IO, "no event descriptor");
    (void)pthread_mutex_init(&lock->mutex, NULL);
    (void)pthread_cond_init(&lock->wake, NULL);
    const tide_status status = tide_thread_start(&lock->thread, keep_renewing, lock, err);
    if (status < TIDE_OK)
        (void)close(lock->event_fd);
    return status;
}

int64_t tide_cli_lock_watch(void *arg, tide_child *child, int64_t boot_us)
{
    tide_cli_lock *lock = arg;
    (void)pthread_mutex_lock(&lock->mutex);
    const int64_t until_us = lock->until_us;
    const bool is_lost = lock->is_lost;
    (void)pthread_mutex_unlock(&lock->mutex);
    const int64_t term_us = until_us - lock->lock_us / 6;
    const int64_t kill_us = until_us - lock->lock_us / 12;
    if (is_lost) {
        tide_child_terminate(child, TIDE_CLI_LOCK_LOST, 0);
        return INT64_MAX;
    }
    if (boot_us < term_us)
        return term_us;
    tide_child_terminate(child, TIDE_CLI_LOCK_ENDING, boot_us < kill_us ? kill_us - boot_us : 0);
    return INT64_MAX;
}

void tide_cli_lock_hear(void *arg, tide_child *child, tide_child_watch *watch)
{
    tide_cli_lock *lock = arg;
    watch->fd = -1; /* once is enough */
    (void)tide_cli_lock_watch(lock, child, lock->env->boot_us(lock->env));
}

bool tide_cli_lock_lasts(tide_cli_lock *lock)
{
    TIDE_HOLD(&lock->mutex);
    return !lock->is_lost && lock->env->boot_us(lock->env) < lock->until_us;
}

void tide_cli_lock_end(tide_cli_lock *lock)
{
    (void)pthread_mutex_lock(&lock->mutex);
    lock->is_ending = true;
    (void)pthread_cond_signal(&lock->wake);
    (void)pthread_mutex_unlock(&lock->mutex);
    (void)pthread_join(lock->thread, NULL);
    (void)pthread_cond_destroy(&lock->wake);
    (void)pthread_mutex_destroy(&lock->mutex);
    (void)close(lock->event_fd);
}

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
enum { NUMBERS = sizeof numbers / sizeof numbers[0], FROM_TERMINAL = 0x80 };

static int ends[2] = {-1, -1};
static struct sigaction before[NUMBERS];
static bool is_caught[NUMBERS];

/* One byte per signal: its number, and whether the terminal sent it. */
static void note_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    const unsigned char byte =
        (unsigned char)(number | (info->si_code == SI_KERNEL ? FROM_TERMINAL : 0));
    const ssize_t written = write(ends[1], &byte, 1);
    (void)written; /* full: so many wait already that one more says nothing new */
    errno = saved;
}

tide_status tide_cli_signals_catch(int *fd, tide_error *err)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return tide_fail(err, TIDE_E_IO, "no pipe: %s", strerror(errno));
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = note_signal;
    (void)sigfillset(&action.sa_mask);
    for (int i = 0; i < NUMBERS; i++) {
        is_caught[i] =
            sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN;
        if (is_caught[i])
            (void)sigaction(numbers[i], &action, NULL);
    }
    *fd = ends[0];
    return TIDE_OK;
}

void tide_cli_signals_release(void)
{
    for (int i = 0; i < NUMBERS; i++)
        if (is_caught[i])
            (void)sigaction(numbers[i], &before[i], NULL);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void stop_both(tide_cli_lock *lock, tide_child *child)
{
    if (!tide_child_is_in_our_group(child))
        tide_child_signal(child, SIGSTOP);
    (void)kill(getpid(), SIGSTOP);
    /* Somebody has woken us. */
    (void)tide_cli_lock_watch(lock, child, lock->env->boot_us(lock->env));
    if (!tide_child_is_in_our_group(child) && tide_cli_lock_lasts(lock))
        tide_child_signal(child, SIGCONT);
}

void tide_cli_signals_pass(void *arg, tide_child *child, tide_child_watch *watch)
{
    unsigned char byte = 0;
    while (read(watch->fd, &byte, 1) == 1) {
        const int number = byte & ~FROM_TERMINAL;
        const bool has_heard = (byte & FROM_TERMINAL) && tide_child_is_in_our_group(child);
        if (number == SIGTSTP)
            stop_both(arg, child);
        else if (!has_heard)
            tide_child_signal(child, number);
    }
}
