#include "cli/frame/interrupt.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/status.h>

#include "store/postgres/pg_interrupt.h"

enum { CANCEL_S = 2 };

static char partial_path[PATH_MAX];
static char journal_path[PATH_MAX + sizeof "-journal"]; /* SQLite writes one beside a copy */
static volatile sig_atomic_t has_partial;
static volatile sig_atomic_t interrupted_by;

static void end_now(int number)
{
    static const char words[] = "tidemark: interrupted\n";
    if (number == SIGINT) {
        const ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
        (void)written; /* stderr is closed */
        _exit(TIDE_EXIT_INTERRUPTED);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    sigset_t own;
    (void)sigemptyset(&own);
    (void)sigaddset(&own, number);
    (void)sigprocmask(SIG_UNBLOCK, &own, NULL); /* it is blocked in its handler, and comes now */
}

/* The server has not accepted the cancel request: it is not repeated. */
static void stop_waiting(int number)
{
    (void)number;
    end_now(interrupted_by);
}

/* Only calls that POSIX allows in a handler, and PQcancel, which may be called there. */
static void stop_now(int number)
{
    interrupted_by = number;
    if (has_partial) {
        (void)unlink(partial_path);
        (void)unlink(journal_path);
    }
    (void)signal(SIGALRM, stop_waiting);
    (void)alarm(CANCEL_S);
    tide_pg_interrupt_all();
    end_now(number);
}

void tide_cli_interrupt_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction before;
        /* Started with the signal ignored (nohup, a background job of a script): it stays so. */
        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler == SIG_IGN)
            continue;
        struct sigaction action = {.sa_handler = stop_now};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(numbers[i], &action, NULL);
    }
}

void tide_cli_interrupt_partial(const char *path)
{
    has_partial = 0;
    if (path && strlen(path) < sizeof partial_path) {
        (void)snprintf(partial_path, sizeof partial_path, "%s", path);
        (void)snprintf(journal_path, sizeof journal_path, "%s-journal", path);
        has_partial = 1;
    }
}
