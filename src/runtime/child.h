/* child.h - run a program with bounded time: stdin, captured stdout, termination.
 *
 *     tide_child_spec spec = {.argv = argv, .stdout_max = 1 << 20, .tee_fd = STDOUT_FILENO};
 *     TIDE_CLEANUP(tide_child_result_done) tide_child_result result = {.pid = 0};
 *     TIDE_TRY(tide_child_run(&spec, &result, err));
 *
 * tide_child_run returns when the program has ended. Until then it moves bytes (to its stdin, from
 * its stdout), calls the watches whose descriptor is readable, and calls tick at the times that
 * tick returned. This loop waits for poll only: a callback that needs a store uses another thread,
 * because a store that hangs would keep the program alive beyond its lease.
 *
 * The program leads a process group of its own, so that ending it ends what it has started. Only
 * when it shares our terminal as stdin does it stay in our group, because the terminal would stop
 * it otherwise. Then Ctrl-C reaches it directly (and tide_child_signal need not repeat it), and
 * only the program itself is ended, not what it has started.
 *
 * Ending: tide_child_terminate sends SIGTERM, and SIGKILL after the grace period, both to the whole
 * group. A program that ends by itself keeps its exit code.
 *
 * When it has ended but other processes hold its stdout (a background process that it left), their
 * output is read for TIDE_CHILD_LINGER_US more. They are not killed, unless the program was
 * terminated.
 *
 * If this process dies:
 *     before the fork                       nothing was started
 *     between fork and exec, and later      the program gets SIGKILL (PR_SET_PDEATHSIG); what it
 *                                           has started continues
 *     after its end, before it is reaped    it has ended; its exit code is lost
 * So the program never continues unnoticed, and a lock that it ran under expires. The kernel clears
 * the death signal where the program is set-user-id. SIGSTOP to us stops neither the program nor
 * the clock of its lock: the first tick after SIGCONT sees what is left.
 *
 * Threads: any number of threads may each run a program. The thread that runs one must live until
 * it has ended: the death signal follows the thread, not the process. Callbacks are called on that
 * thread. An ignored SIGCHLD is set to its default, because exit codes are lost otherwise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/view.h>

#include "base/buffer.h"

enum {
    TIDE_CHILD_WATCH_MAX = 8,
    TIDE_CHILD_PASS_MAX = 8,
};

#define TIDE_CHILD_LINGER_US INT64_C(1000000) /* 1 s */

typedef struct tide_child tide_child; /* one that runs: for callbacks */

typedef enum tide_child_stdin {
    TIDE_CHILD_STDIN_INHERIT, /* ours */
    TIDE_CHILD_STDIN_BYTES,   /* stdin_bytes, then the end */
    TIDE_CHILD_STDIN_NONE,    /* at its end: /dev/null, or a closed pipe where there is none */
} tide_child_stdin;

/* A descriptor of ours that the program finds under another number, 2 (stderr) or above. */
typedef struct tide_child_pass {
    int ours;
    int theirs;
} tide_child_pass;

/* Called while fd is readable or at its end. fn reads it, or sets fd to -1 to be called no more.
 * What is left in it when the program has ended is for the caller to read. */
typedef struct tide_child_watch {
    int fd;
    void (*fn)(void *arg, tide_child *child, struct tide_child_watch *watch);
    void *arg;
} tide_child_watch;

/* Called at the start and then at the time (boot clock) that it returned; INT64_MAX: never. It may
 * be called earlier. */
typedef int64_t tide_child_tick_fn(void *arg, tide_child *child, int64_t boot_us);

typedef struct tide_child_spec {
    char *const *argv;      /* NULL at the end; argv[0] is a path, or looked up in PATH */
    const char *const *env; /* "NAME=VALUE" to set besides ours, NULL at the end; NULL: none */
    tide_child_stdin stdin_kind;
    tide_view stdin_bytes; /* borrowed until the end */
    bool is_captured;      /* stdout is read; else it is ours, and the next two are ignored */
    size_t stdout_max;     /* bytes stored */
    int tee_fd;            /* captured bytes are copied here; -1: nowhere */
    tide_child_pass pass[TIDE_CHILD_PASS_MAX];
    int pass_count;
    tide_child_watch *watches; /* at most TIDE_CHILD_WATCH_MAX */
    int watch_count;
    tide_child_tick_fn *tick; /* NULL: none */
    void *tick_arg;
    tide_env *clock; /* NULL: the machine's */
} tide_child_spec;

typedef struct tide_child_result {
    pid_t pid;        /* for messages */
    int exit_code;    /* 0..255; -1 when a signal ended it */
    int signal;       /* that ended it; 0: none */
    int reason;       /* of the first tide_child_terminate; 0: none */
    tide_buffer out;  /* what it printed, unless is_out_over */
    bool is_out_over; /* more than stdout_max, or than memory: nothing is stored */
    uint64_t out_len; /* bytes it printed */
    int tee_errno;    /* of a failed write to tee_fd; 0: none; EPIPE: the reader left */
} tide_child_result;

/* TIDE_OK with any exit code. TIDE_E_NOT_FOUND: no such program. TIDE_E_DENIED: not executable.
 * TIDE_E_IO,
 * TIDE_E_NOMEM: no descriptor, process or memory. After a failure no program runs. */
TIDE_MUST_CHECK tide_status tide_child_run(const tide_child_spec *spec, tide_child_result *result,
                                           tide_error *err);
void tide_child_result_done(tide_child_result *result);

/* ---- for callbacks ---- */

/* To the whole group. Fine also when it has ended meanwhile. */
void tide_child_signal(tide_child *child, int number);

/* SIGTERM now and SIGKILL after grace_us; 0: SIGKILL now. reason is the caller's, not 0; the first
 * one stays. A later call can shorten the grace. */
void tide_child_terminate(tide_child *child, int reason, int64_t grace_us);

/* Does it share our process group (and terminal)? */
bool tide_child_is_in_our_group(const tide_child *child);

/* ---- a child that the caller waits for itself ---- */

/* Between fork and exec only async-signal-safe calls are made. */
typedef struct tide_child_started {
    pid_t pid;
    bool has_own_group;
    int in_fd;  /* its stdin; -1: none. Does not block */
    int out_fd; /* its stdout; -1: none. Does not block */
} tide_child_started;

/* Statuses as tide_child_run. The descriptors are the caller's. */
TIDE_MUST_CHECK tide_status tide_child_start(const tide_child_spec *spec, tide_child_started *out,
                                             tide_error *err);
