#include "cli/machine/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The other screen, no cursor, no wrapping; and back. */
static const char ENTER[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char LEAVE[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

static struct termios before;
static volatile sig_atomic_t is_entered;

static void write_all(const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, len);
        if (written < 0 && errno != EINTR)
            return;
        bytes += written > 0 ? written : 0;
        len -= written > 0 ? (size_t)written : 0;
    }
}

static void make_raw(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* signals stay: Ctrl-C, Ctrl-Z */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all(ENTER, sizeof ENTER - 1);
    is_entered = 1;
}

/* Only calls that POSIX allows in a handler. */
void tide_top_screen_leave(void)
{
    if (!is_entered)
        return;
    is_entered = 0;
    write_all(LEAVE, sizeof LEAVE - 1);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* ---- signals ---- */

static void end_now(int number)
{
    tide_top_screen_leave();
    if (number == SIGINT)
        _exit(TIDE_EXIT_INTERRUPTED);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void stand_still(int number)
{
    const int kept = errno;
    sigset_t set;
    tide_top_screen_leave();
    (void)signal(number, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stands, until fg */
    struct sigaction action = {.sa_handler = stand_still};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    make_raw();
    errno = kept;
}

static void note_size(int number)
{
    (void)number; /* that poll ends is all */
}

static void set_handlers(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV,
                               SIGBUS, SIGFPE,  SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = end_now};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        (void)sigaction(ends[i], &action, NULL);
    action.sa_handler = stand_still;
    (void)sigaction(SIGTSTP, &action, NULL);
    action.sa_handler = note_size; /* without SA_RESTART */
    (void)sigaction(SIGWINCH, &action, NULL);
}

/* ---- the screen ---- */

bool tide_top_screen_is_there(void)
{
    const char *terminal = getenv("TERM");
    return terminal && *terminal && strcmp(terminal, "dumb") != 0 && isatty(STDIN_FILENO) == 1 &&
           isatty(STDOUT_FILENO) == 1;
}

tide_status tide_top_screen_enter(tide_error *err)
{
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return tide_fail(err, TIDE_E_IO, "the terminal does not tell its settings: %s",
                         strerror(errno));
    set_handlers();
    make_raw();
    return TIDE_OK;
}

void tide_top_screen_size(int *rows, int *columns)
{
    struct winsize size;
    *rows = 24;
    *columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        *rows = size.ws_row;
        *columns = size.ws_col;
    }
}

static size_t cut_at(const char *text, size_t len, int columns)
{
    int count = 0;
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && ++count > columns)
            return i;
    return len;
}

static void put_line(tide_buffer *out, const char *text, size_t len, const char *style)
{
    /* What does not fit in is missing from this one frame. */
    TIDE_IGNORE(tide_buffer_append_text(out, style));
    TIDE_IGNORE(tide_buffer_append(out, text, len));
    TIDE_IGNORE(tide_buffer_append_text(out, *style ? "\033[0m\033[K" : "\033[K"));
}

void tide_top_screen_show(const tide_top_frame *frame, const char *foot, bool is_coloured)
{
    static const char *const styles[] = {[TIDE_CLI_PLAIN] = "",
                                         [TIDE_CLI_BOLD] = "\033[1m",
                                         [TIDE_CLI_GREEN] = "\033[32m",
                                         [TIDE_CLI_YELLOW] = "\033[33m",
                                         [TIDE_CLI_RED] = "\033[31m"};
    int rows = 0;
    int columns = 0;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(1 << 20);
    tide_top_screen_size(&rows, &columns);
    TIDE_IGNORE(tide_buffer_append_text(&out, "\033[H"));
    const char *at = frame->text ? frame->text : "";
    for (int i = 0; i < frame->count && i < rows - 1; i++) {
        const size_t len = strcspn(at, "\n");
        const tide_cli_style style = frame->styles[i];
        const bool is_styled = is_coloured || style == TIDE_CLI_BOLD;
        put_line(&out, at, cut_at(at, len, columns), is_styled ? styles[style] : "");
        TIDE_IGNORE(tide_buffer_append_text(&out, "\r\n"));
        at += len + (at[len] == '\n');
    }
    TIDE_IGNORE(tide_buffer_append_text(&out, "\033[J"));
    TIDE_IGNORE(tide_buffer_printf(&out, "\033[%d;1H", rows));
    put_line(&out, foot, cut_at(foot, strlen(foot), columns), "\033[7m");
    write_all(tide_buffer_text(&out), out.len);
}

/* ---- keys ---- */

static int read_sequence(void)
{
    static const struct {
        const char *bytes;
        int key;
    } sequences[] = {{"[A", TIDE_TOP_KEY_UP},       {"OA", TIDE_TOP_KEY_UP},
                     {"[B", TIDE_TOP_KEY_DOWN},     {"OB", TIDE_TOP_KEY_DOWN},
                     {"[5~", TIDE_TOP_KEY_PAGE_UP}, {"[6~", TIDE_TOP_KEY_PAGE_DOWN},
                     {"[H", TIDE_TOP_KEY_HOME},     {"[1~", TIDE_TOP_KEY_HOME},
                     {"[F", TIDE_TOP_KEY_END},      {"[4~", TIDE_TOP_KEY_END}};
    char bytes[8] = "";
    for (size_t len = 0; len < sizeof bytes - 1; len++) {
        /* The rest of a sequence may lag behind on a slow line. */
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&input, 1, 25) <= 0 || read(STDIN_FILENO, &bytes[len], 1) != 1)
            break;
        for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++)
            if (strcmp(sequences[i].bytes, bytes) == 0)
                return sequences[i].key;
        if (len > 0 && ((bytes[len] >= 'A' && bytes[len] <= 'Z') || bytes[len] == '~'))
            return TIDE_TOP_KEY_NONE; /* one that we do not know */
    }
    return bytes[0] ? TIDE_TOP_KEY_NONE : TIDE_TOP_KEY_ESCAPE;
}

int tide_top_screen_wait(int ready_fd, int timeout_ms)
{
    struct pollfd inputs[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = ready_fd, .events = POLLIN}};
    char byte = 0;
    if (poll(inputs, 2, timeout_ms) <= 0 || !inputs[0].revents)
        return TIDE_TOP_KEY_NONE;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return inputs[0].revents & (POLLHUP | POLLERR) ? TIDE_TOP_KEY_GONE : TIDE_TOP_KEY_NONE;
    return byte == '\033' ? read_sequence() : (unsigned char)byte;
}
