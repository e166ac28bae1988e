#include "cli/idempotency/idempotency_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cli/idempotency/idempotency_lock.h"

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
