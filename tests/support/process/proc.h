/* proc.h - child processes: start, read, kill, wait.
 *
 *     proc child;
 *     proc_options options = {.argv = argv, .out = PROC_PIPE};
 *     assert_ok_err(proc_start(&child, &options, &err), &err);
 *     ... read child.out_fd ...
 *     assert_ok_err(proc_kill(&child, SIGKILL, &err), &err);
 *     assert_ok_err(proc_wait(&child, 5000, &err), &err);
 *     assert_int_equal(SIGKILL, child.signal);
 *     proc_done(&child);
 *
 * A program that cannot be executed fails proc_start itself, with the reason; no test has to
 * guess it from exit code 127. Every wait ends by an event (the process ended, a pipe has data)
 * or at its deadline. No descriptor of ours leaks into a child, so a pipe ends when its child
 * does.
 *
 * Threads: any thread may start children, also while others run: between fork and exec only
 * async-signal-safe calls are made. One proc belongs to one thread at a time.
 * Limits: PROC_OUTPUT_MAX bytes per stream in proc_run. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

enum {
    PROC_OUTPUT_MAX = 64 * 1024 * 1024,
    PROC_ENV_MAX = 64, /* own entries in proc_options.env */
};

typedef enum proc_stream {
    PROC_INHERIT, /* the test's own */
    PROC_NULL,
    PROC_PIPE, /* in_fd, out_fd, err_fd of the proc */
    PROC_FILE, /* appended to the path given; not for stdin */
} proc_stream;

typedef struct proc_options {
    const char *const *argv; /* NULL at the end; argv[0] is a path, or looked up in PATH */
    const char *const *env;  /* "NAME=value" to set, "NAME" to unset, NULL at the end; or NULL */
    const char *user;        /* become this user if we are root; NULL stays */
    const char *directory;   /* working directory; NULL stays */
    proc_stream in;
    proc_stream out;
    proc_stream err;
    const char *out_path;
    const char *err_path;
    bool has_own_session; /* signals to our process group (Ctrl-C) pass it by */
} proc_options;

typedef struct proc {
    pid_t pid; /* 0 once reaped */
    int in_fd; /* -1 where there is no pipe; closed by proc_done */
    int out_fd;
    int err_fd;
    int exit_code; /* once reaped: 0..255, or -1 when a signal ended it */
    int signal;    /* once reaped: the signal that ended it, or 0 */
} proc;

/* TIDE_E_NOT_FOUND: no such program or user. TIDE_E_DENIED: not executable. TIDE_E_IO: the rest.
 * The proc is safe for proc_done also after a failure. */
TIDE_MUST_CHECK tide_status proc_start(proc *child, const proc_options *options, tide_error *err);

/* Signal it; fine also when it has ended. TIDE_E_DENIED: it belongs to another user. */
tide_status proc_kill(proc *child, int signal, tide_error *err);

/* kill -9 of the process and its direct children, so that none of them can react to the death of
 * another: the parent is stopped first, then its children are killed, then it. Returns when all
 * are gone. */
TIDE_MUST_CHECK tide_status proc_kill_family(proc *child, int64_t timeout_ms, tide_error *err);

/* Wait until it has ended, and reap it. TIDE_E_TIMEOUT: it still runs. */
TIDE_MUST_CHECK tide_status proc_wait(proc *child, int64_t timeout_ms, tide_error *err);

/* Has it ended? Reaps it then. */
bool proc_poll(proc *child);

/* Does no such process run? For pids that are not our children. A zombie has ended too: where
 * no init reaps orphans it would stay for ever. */
bool proc_is_gone(pid_t pid);

/* Kill -9 what still runs, reap, close the pipes. */
void proc_done(proc *child);

typedef struct proc_result {
    int exit_code; /* as in proc */
    int signal;
    char *out; /* what it printed, with a terminator behind it */
    size_t out_len;
    char *err;
    size_t err_len;
} proc_result;

/* Run to the end with stdout and stderr collected. TIDE_OK whatever the exit code.
 * TIDE_E_TIMEOUT: killed at the deadline. TIDE_E_LIMIT: printed too much. proc_result_done is
 * fine after any outcome. */
TIDE_MUST_CHECK tide_status proc_run(proc_result *result, const proc_options *options,
                                     int64_t timeout_ms, tide_error *err);
void proc_result_done(proc_result *result);

/* The running test program. */
void proc_self_path(char out[PATH_MAX]);

/* An executable beside the test program or in one of the directories above it.
 * The program under test, "tidemark", is $TIDEMARK_BIN where that is set. TIDE_E_NOT_FOUND. */
TIDE_MUST_CHECK tide_status proc_find(const char *name, char out[PATH_MAX], tide_error *err);

/* Milliseconds of the clock for deadlines (fair_clock.h), nothing else: it is slower than the wall
 * clock while the machine is busy. */
int64_t proc_now_ms(void);
