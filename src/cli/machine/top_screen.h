/* top_screen.h - a terminal as a whole screen, and given back as it was, whatever ends the program.
 *
 * Written in the sequences that every terminal of today knows (ECMA-48, xterm's alternate screen): no terminfo is needed, and SSH carries them.
 *
 * Given back: on leave, on Ctrl-C and SIGTERM, SIGHUP, SIGQUIT, on a crash, and on Ctrl-Z for as long as the program stands
 * still. Only kill -9 cannot be helped: `reset` does.
 *
 * Threads: the main one. One screen at a time. */
#pragma once

#include "cli/machine/top.h"

typedef enum tide_top_key {
    TIDE_TOP_KEY_NONE = 0,
    /* others are the letters themselves */
    TIDE_TOP_KEY_UP = 1000,
    TIDE_TOP_KEY_DOWN,
    TIDE_TOP_KEY_PAGE_UP,
    TIDE_TOP_KEY_PAGE_DOWN,
    TIDE_TOP_KEY_HOME,
    TIDE_TOP_KEY_END,
    TIDE_TOP_KEY_ESCAPE,
    TIDE_TOP_KEY_GONE, /* nobody types any more: the terminal is closed */
} tide_top_key;

/* Can stdin and stdout be a screen? */
bool tide_top_screen_is_there(void);

/* TIDE_E_IO: the terminal does not obey. */
TIDE_MUST_CHECK tide_status tide_top_screen_enter(tide_error *err);
void tide_top_screen_leave(void);

/* How large it is now. */
void tide_top_screen_size(int *rows, int *columns);

/* Show a frame's lines, then foot in the last row; what is too wide is cut. */
void tide_top_screen_show(const tide_top_frame *frame, const char *foot, bool is_coloured);

/* Wait for a key, for ready_fd, or so long; a signal (another size) ends it, too. */
int tide_top_screen_wait(int ready_fd, int timeout_ms);
