#include "cli/machine/terminal.h"
#include "support/clock/fair_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

static void become_program(const cli_fixture *t, int fd, const char *const *argv)
{
    (void)login_tty(fd);
    if (chdir(t->dir.path) != 0)
        _exit(125);
    (void)setenv("TERM", "xterm", 1);
    (void)unsetenv("NO_COLOR");
    for (int i = 0; t->env[i]; i++)
        if (strchr(t->env[i], '='))
            (void)putenv((char *)t->env[i]);
    (void)execvp(argv[0], (char *const *)argv);
    _exit(126);
}

void terminal_start(terminal *screen, const cli_fixture *t, int rows, int columns,
                    const char *const *argv)
{
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    *screen = (terminal){.bytes = calloc(1, TERMINAL_BYTES + 1)};
    assert_non_null(screen->bytes);
    assert_int_equal(0, openpty(&screen->fd, &screen->other_fd, NULL, NULL, &size));
    assert_int_equal(0, tcgetattr(screen->other_fd, &screen->before));
    screen->pid = fork();
    assert_true(screen->pid >= 0);
    if (screen->pid == 0) {
        (void)close(screen->fd);
        become_program(t, screen->other_fd, argv);
    }
}

void terminal_type(terminal *screen, const char *keys)
{
    assert_int_equal(strlen(keys), write(screen->fd, keys, strlen(keys)));
}

void terminal_resize(terminal *screen, int rows, int columns)
{
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    assert_int_equal(0, ioctl(screen->fd, TIOCSWINSZ, &size));
}

/* Take what is there; false: nothing came in this time. */
static bool take(terminal *screen, int timeout_ms)
{
    struct pollfd input = {.fd = screen->fd, .events = POLLIN};
    if (poll(&input, 1, timeout_ms) <= 0)
        return false;
    const ssize_t len = read(screen->fd, screen->bytes + screen->len, TERMINAL_BYTES - screen->len);
    if (len <= 0)
        return false;
    screen->len += (size_t)len;
    return true;
}

void terminal_wait_for(terminal *screen, const char *text)
{
    const int64_t until_ms = proc_now_ms() + TERMINAL_WAIT_MS;
    for (;;) {
        const char *found =
            memmem(screen->bytes + screen->seen, screen->len - screen->seen, text, strlen(text));
        if (found) {
            screen->seen = (size_t)(found - screen->bytes) + strlen(text);
            return;
        }
        if (!fair_wait_fd(screen->fd, until_ms) || !take(screen, 0))
            fail_msg("'%s' does not come onto the screen; the last was: %s", text,
                     screen->bytes + screen->seen);
    }
}

bool terminal_is_restored(const terminal *screen)
{
    struct termios now;
    assert_int_equal(0, tcgetattr(screen->other_fd, &now));
    return now.c_lflag == screen->before.c_lflag && now.c_iflag == screen->before.c_iflag &&
           now.c_oflag == screen->before.c_oflag;
}

int terminal_end(terminal *screen)
{
    const int64_t until_ms = proc_now_ms() + TERMINAL_WAIT_MS;
    int status = 0;
    while (waitpid(screen->pid, &status, WNOHANG) == 0) {
        (void)take(screen, 20); /* a full terminal would hold it up */
        if (proc_now_ms() > until_ms)
            fail_msg("the program does not end");
    }
    screen->pid = 0;
    while (take(screen, 0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void terminal_done(terminal *screen)
{
    if (screen->pid > 0) {
        (void)kill(screen->pid, SIGKILL);
        (void)waitpid(screen->pid, NULL, 0);
    }
    (void)close(screen->fd);
    (void)close(screen->other_fd);
    free(screen->bytes);
}
