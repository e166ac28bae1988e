/* terminal.h - the real program on a terminal of its own: keys go in, the screen comes out.
 *
 *     terminal screen;
 *     terminal_start(&screen, t, 24, 80, argv);
 *     terminal_wait_for(&screen, "FLEET");          what was written since the last call contains it, or the test fails
 *     terminal_type(&screen, "q");
 *     assert_int_equal(0, terminal_end(&screen));
 *
 * Threads: one. */
#pragma once

#include <termios.h>

#include "cli/cli_run.h"

enum { TERMINAL_BYTES = 1 << 20, TERMINAL_WAIT_MS = 20000 };

typedef struct terminal {
    pid_t pid;
    int fd;                /* ours */
    int other_fd;          /* the program's side, to look at its settings */
    struct termios before; /* they were */
    char *bytes;           /* all that it wrote */
    size_t len;
    size_t seen; /* of them, up to where terminal_wait_for has looked */
} terminal;

/* argv[0] is the program; the case's environment and directory are its own. */
void terminal_start(terminal *screen, const cli_fixture *t, int rows, int columns,
                    const char *const *argv);
void terminal_type(terminal *screen, const char *keys);
void terminal_resize(terminal *screen, int rows, int columns);
void terminal_wait_for(terminal *screen, const char *text);
/* Its settings are those from before the start. */
bool terminal_is_restored(const terminal *screen);
/* Wait for the program's end: its exit code, or minus the signal that ended it. */
int terminal_end(terminal *screen);
void terminal_done(terminal *screen);
