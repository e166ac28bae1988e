/* idempotency_lock.h - keeps a key's lock while a command runs, and stops the command before the lock ends.
 *
 *     begun            renewed, renewed, ...             cannot renew       TERM      KILL     the lock ends
 *     |----------------|-----------|-----------...-------x--x--x--x---------|---------|--------|
 *                      1/3 of the lock, at most 60 s      tried again        5/6       11/12 of it
 *
 * One thread renews; it is the only one that waits for the store. The thread that runs the command asks
 * tide_cli_lock_watch (as the tick of child.h), which only looks at the clock: a store that hangs does not keep a
 * command alive beyond its lock. The lock counts from before the begin or renewal was sent, on the boot clock: so this
 * side believes that it ends earlier than the store does.
 *
 * A lock that is gone (deleted by force, taken over after a long sleep of the machine) kills the command at once.
 *
 * Threads: as said above. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/idempotency.h>

#include "runtime/child.h"

typedef enum tide_cli_lock_reason {
    TIDE_CLI_LOCK_LOST = 1,   /* another may have it */
    TIDE_CLI_LOCK_ENDING = 2, /* it could not be renewed */
} tide_cli_lock_reason;

typedef struct tide_cli_lock {
    tide_store *store;
    tide_env *env;
    const char *name;
    int64_t token;
    int64_t lock_us;
    int event_fd; /* readable: the lock is lost */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* Guarded by the mutex. */
    int64_t until_us; /* boot clock */
    bool is_lost;
    bool is_ending;
    tide_error err; /* why the last renewal failed */
} tide_cli_lock;

/* Start renewing. begun_us: the boot clock before the key was begun. */
TIDE_MUST_CHECK tide_status tide_cli_lock_keep(tide_cli_lock *lock, tide_store *store,
                                               const char *name, int64_t token, int64_t lock_us,
                                               int64_t begun_us, tide_error *err);

/* The tick of child.h; arg is the lock. */
int64_t tide_cli_lock_watch(void *arg, tide_child *child, int64_t boot_us);

/* A watch of child.h on event_fd; arg is the lock. */
void tide_cli_lock_hear(void *arg, tide_child *child, tide_child_watch *watch);

/* Does it still last, as far as this side knows? */
bool tide_cli_lock_lasts(tide_cli_lock *lock);

/* Stop renewing. */
void tide_cli_lock_end(tide_cli_lock *lock);

/* Signals to us, passed on to the command that we run.
 *
 * SIGINT, SIGTERM, SIGHUP and SIGQUIT reach the command instead of us; how it takes them is its business. Where it shares our
 * terminal and process group, the terminal has sent it Ctrl-C already, and it is not sent twice.
 *
 * Ctrl-Z (SIGTSTP) stops the command and then us. When we go on, the lock is looked at first: a command whose lock
 * is over is not woken but killed.
 *
 * What was ignored when we were started stays ignored, by the command too.
 *
 * Threads: the thread that runs the command; handlers write into a pipe and do nothing else. */

/* From here on until release. *fd is to be watched with tide_cli_signals_pass. */
TIDE_MUST_CHECK tide_status tide_cli_signals_catch(int *fd, tide_error *err);
void tide_cli_signals_release(void);

/* A watch of child.h; arg is the tide_cli_lock under which the command runs. */
void tide_cli_signals_pass(void *arg, tide_child *child, tide_child_watch *watch);
