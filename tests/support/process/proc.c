#include "support/process/proc.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/clock/fair_clock.h"
#include "support/process/proc_internal.h"

int64_t proc_now_ms(void)
{
    return fair_clock_ms();
}

int proc_slice_ms(int64_t deadline_ms)
{
    const int64_t left_ms = deadline_ms - proc_now_ms();
    return left_ms <= 0 ? 0 : left_ms > FAIR_SLICE_MS ? FAIR_SLICE_MS : (int)left_ms;
}

void proc_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

tide_status proc_kill(proc *child, int signal, tide_error *err)
{
    if (child->pid <= 0 || kill(child->pid, signal) == 0 || errno == ESRCH)
        return TIDE_OK;
    return tide_fail(err, errno == EPERM ? TIDE_E_DENIED : TIDE_E_IO, "signal %d to process %d: %s",
                     signal, (int)child->pid, strerror(errno));
}

bool proc_poll(proc *child)
{
    if (child->pid <= 0)
        return true;
    int status;
    pid_t got;
    while ((got = waitpid(child->pid, &status, WNOHANG)) < 0 && errno == EINTR)
        ;
    if (got == 0)
        return false;
    assert(got == child->pid); /* other code reaped our child */
    child->pid = 0;
    child->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

tide_status proc_wait(proc *child, int64_t timeout_ms, tide_error *err)
{
    const int64_t deadline_ms = proc_now_ms() + timeout_ms;
    if (proc_poll(child))
        return TIDE_OK;
    int fd = pidfd_open(child->pid, 0); /* readable when the process has ended */
    if (fd < 0)
        return tide_fail(err, TIDE_E_IO, "watch process %d: %s", (int)child->pid, strerror(errno));
    bool has_ended = false;
    do {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        poll(&watched, 1, proc_slice_ms(deadline_ms));
        has_ended = proc_poll(child);
    } while (!has_ended && proc_now_ms() < deadline_ms);
    proc_close_fd(&fd);
    if (!has_ended)
        return tide_fail(err, TIDE_E_TIMEOUT, "process %d still runs after %lld ms",
                         (int)child->pid, (long long)timeout_ms);
    return TIDE_OK;
}

void proc_done(proc *child)
{
    if (!proc_poll(child)) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        child->pid = 0;
        child->signal = SIGKILL;
    }
    proc_close_fd(&child->in_fd);
    proc_close_fd(&child->out_fd);
    proc_close_fd(&child->err_fd);
}
