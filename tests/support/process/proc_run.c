#include "support/process/proc_internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { READ_CHUNK = 64 * 1024 };

/* Append what the pipe has; closes it at its end. */
static tide_status drain(int *fd, char **text, size_t *len, tide_error *err)
{
    if (*len > PROC_OUTPUT_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d bytes of output", PROC_OUTPUT_MAX);
    char *grown = realloc(*text, *len + READ_CHUNK + 1);
    assert(grown != NULL);
    *text = grown;
    const ssize_t got = read(*fd, grown + *len, READ_CHUNK);
    if (got > 0)
        *len += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        proc_close_fd(fd);
    grown[*len] = '\0';
    return TIDE_OK;
}

static tide_status collect(proc *child, proc_result *result, int64_t deadline_ms, tide_error *err)
{
    while (child->out_fd >= 0 || child->err_fd >= 0) {
        struct pollfd pipes[2] = {{.fd = child->out_fd, .events = POLLIN},
                                  {.fd = child->err_fd, .events = POLLIN}};
        const int ready = poll(pipes, 2, proc_slice_ms(deadline_ms));
        if (ready == 0 && proc_now_ms() >= deadline_ms)
            return tide_fail(err, TIDE_E_TIMEOUT, "process %d still prints at its deadline",
                             (int)child->pid);
        if (ready > 0 && pipes[0].revents != 0)
            TIDE_TRY(drain(&child->out_fd, &result->out, &result->out_len, err));
        if (ready > 0 && pipes[1].revents != 0)
            TIDE_TRY(drain(&child->err_fd, &result->err, &result->err_len, err));
    }
    return TIDE_OK;
}

tide_status proc_run(proc_result *result, const proc_options *options, int64_t timeout_ms,
                     tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + timeout_ms;
    *result = (proc_result){.exit_code = -1};
    proc_options piped = *options;
    piped.out = PROC_PIPE;
    piped.err = PROC_PIPE;
    if (piped.in == PROC_INHERIT)
        piped.in = PROC_NULL;
    TIDE_CLEANUP(proc_done) proc child = {.in_fd = -1, .out_fd = -1, .err_fd = -1};
    TIDE_TRY(proc_start(&child, &piped, err));
    TIDE_TRY(collect(&child, result, deadline_ms, err));
    TIDE_TRY(proc_wait(&child, deadline_ms - proc_now_ms(), err));
    result->exit_code = child.exit_code;
    result->signal = child.signal;
    return TIDE_OK;
}

void proc_result_done(proc_result *result)
{
    free(result->out);
    free(result->err);
    *result = (proc_result){.exit_code = -1};
}
