/* child.h - run another program under our eyes: feed it, hear it, end it in time.
 *
 *     tide_child_spec spec = {.argv = argv, .stdout_max = 1 << 20, .tee_fd = STDOUT_FILENO};
 *     TIDE_CLEANUP(tide_child_result_done) tide_child_result result = {.pid = 0};
 *     TIDE_TRY(tide_child_run(&spec, &result, err));
 *
 * tide_child_run returns when the program has ended. Until then it moves bytes (to its stdin, from its
 * stdout), calls the watches whose descriptor has something to read, and calls tick when tick asked to
 * be called. Nothing in this loop waits for anything but poll: a callback that must ask a store does so on
 * another thread, or a store that hangs would keep the program alive beyond its lease.
 *
 * The program leads a process group of its own, so that ending it ends what it has started. Only when it
 * shares our terminal as stdin does it stay in our group: otherwise the terminal would stop it. Then
 * Ctrl-C reaches it directly (and tide_child_signal need not repeat it), and only the program
 * itself is ended, not what it has started.
 *
 * Ending: tide_child_terminate sends SIGTERM, and SIGKILL after the grace, both to the whole group. Who
 * has ended by itself keeps its exit code.
 *
 * When it has ended but others hold its stdout (a background process it left behind), they are heard for
 * TIDE_CHILD_LINGER_US more and then no longer. They are not killed, unless the program was terminated.
 *
 * If we die:
 *     before the fork                         nothing was started
 *     between fork and exec, and after it     the program gets SIGKILL (PR_SET_PDEATHSIG); what it has started in
 *                                             turn goes on, as after any parent's death
 *     after its end, before it is reaped      it has ended; nobody knows how
 * So the program never goes on for ever unnoticed; whatever lock it ran under runs out by itself. The kernel clears
 * the death signal where the program is set-user-id. SIGSTOP to us stops neither the program nor its lock's
 * clock: the first tick after SIGCONT sees what is left.
 *
 * Threads: any number of threads may each run a program. The thread that runs one must live until it has
 * ended: the death signal follows the thread, not the process. Callbacks are called on that thread. A
 * SIGCHLD that is ignored is set back to its default, because otherwise nobody learns exit codes. */
#ifndef TIDE_RUNTIME_CHILD_H
#define TIDE_RUNTIME_CHILD_H

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

/* Called while fd has something to read or is at its end; fn reads it, or sets fd to -1 to hear no more of it.
 * What is left in it when the program has ended is the caller's to read. */
typedef struct tide_child_watch {
    int fd;
    void (*fn)(void *arg, tide_child *child, struct tide_child_watch *watch);
    void *arg;
} tide_child_watch;

/* Called at the start and then when it asked to be; returns the time (boot clock) of the next call, INT64_MAX: never.
 * It may be called earlier. */
typedef int64_t tide_child_tick_fn(void *arg, tide_child *child, int64_t boot_us);

typedef struct tide_child_spec {
    char *const *argv;      /* NULL at the end; argv[0] is a path, or looked up in PATH */
    const char *const *env; /* "NAME=VALUE" to set besides ours, NULL at the end; NULL: none */
    tide_child_stdin stdin_kind;
    tide_view stdin_bytes; /* borrowed until the end */
    bool is_captured;      /* stdout comes to us; else it is ours, and the next two mean nothing */
    size_t stdout_max;     /* bytes that are kept */
    int tee_fd;            /* what is captured also goes here, as it comes; -1: nowhere */
    tide_child_pass pass[TIDE_CHILD_PASS_MAX];
    int pass_count;
    tide_child_watch *watches; /* at most TIDE_CHILD_WATCH_MAX */
    int watch_count;
    tide_child_tick_fn *tick; /* NULL: none */
    void *tick_arg;
    tide_env *clock; /* NULL: the machine's */
} tide_child_spec;

typedef struct tide_child_result {
    pid_t pid;        /* it was, for messages */
    int exit_code;    /* 0..255; -1 when a signal ended it */
    int signal;       /* that ended it; 0: none */
    int reason;       /* of the first tide_child_terminate; 0: none */
    tide_buffer out;  /* what it printed, unless is_out_over */
    bool is_out_over; /* it printed more than stdout_max (or than memory holds): nothing is kept */
    uint64_t out_len; /* bytes it printed */
    int tee_errno;    /* what kept its output from tee_fd; 0: nothing did; EPIPE: the reader left */
} tide_child_result;

/* TIDE_OK whatever the exit code. TIDE_E_NOT_FOUND: there is no such program. TIDE_E_DENIED: it cannot be executed.
 * TIDE_E_IO, TIDE_E_NOMEM: something else was missing. After a failure no program runs. */
TIDE_MUST_CHECK tide_status tide_child_run(const tide_child_spec *spec, tide_child_result *result,
                                           tide_error *err);
void tide_child_result_done(tide_child_result *result);

/* ---- for callbacks ---- */

/* To the whole group. Fine also when it has ended meanwhile. */
void tide_child_signal(tide_child *child, int number);

/* SIGTERM now and SIGKILL after grace_us; 0: SIGKILL now. reason is the caller's, not 0; the first one stays.
 * A later call can shorten the grace. */
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

#endif
