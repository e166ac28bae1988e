/* query_child.h - the loop of a query process: one query at a time, from stdin to stdout.
 *
 * A hidden command of the program runs it. It opens one file or directory, confines itself
 * (query_limits.h) and serves the frames of query_frame.h until stdin ends. What the engine prints
 * goes nowhere: 0 and 1 are /dev/null then.
 *
 * Survives: nothing; it can be killed at any point.
 * Limits: those of each query, and its memory. */
#pragma once

#include <tidemark/error.h>

enum {
    /* The file was replaced before the query began: start another process. */
    TIDE_QUERY_EXIT_STALE = 75,
};

/* TIDE_OK: stdin has ended. Exits with TIDE_QUERY_EXIT_STALE by itself. */
TIDE_MUST_CHECK tide_status tide_query_child_run(tide_error *err);
