/* history.h - histories of clients: one JSON line per call, for the checkers of tests/check.
 *
 * The format is described in tests/check/README.md. A line is built in place and written by one
 * write(2), so threads and processes may append to one file, and a killed process leaves whole
 * lines only. A client that may be killed announces its call first.
 *
 *     history_line line;
 *     history_begin(&line, "writer-1", "take");       the clock starts
 *     history_text(&line, "value", "a1");
 *     history_announce(&line, fd);                     where the process may be killed
 *     status = call();
 *     history_number(&line, "number", number);
 *     history_end(&line, fd, HISTORY_OK);
 *
 * Threads: a line belongs to one.
 * Limits: HISTORY_LINE_MAX; a longer line, or one that cannot be written, aborts the process,
 * because a history with a missing line proves nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>

enum { HISTORY_LINE_MAX = 32768 }; /* bytes; a pipe takes 4096 of them whole */

typedef enum history_result {
    HISTORY_OK,
    HISTORY_FAIL,    /* refused, and without effect */
    HISTORY_UNKNOWN, /* it may have happened or not */
} history_result;

typedef struct history_line {
    size_t len;
    char text[HISTORY_LINE_MAX];
} history_line;

/* CLOCK_MONOTONIC, the same for all processes of a machine. */
int64_t history_now_ns(void);

/* Open a history for appending, creating it. Ends the process where that fails. */
int history_open(const char *path);

/* Start a line, and with it the clock of its call. */
void history_begin(history_line *line, const char *process, const char *operation);
/* The same with a clock that was read before. */
void history_begin_at(history_line *line, const char *process, const char *operation,
                      int64_t begin_ns);

void history_text(history_line *line, const char *name, const char *value);
void history_number(history_line *line, const char *name, int64_t value);
/* A list of texts or numbers. */
void history_texts(history_line *line, const char *name, const char *const *values, size_t count);
void history_numbers(history_line *line, const char *name, const int64_t *values, size_t count);
void history_flag(history_line *line, const char *name, bool value);

/* Write the line as one whose answer has not arrived; it can be continued and ended afterwards. */
void history_announce(const history_line *line, int fd);
/* Stop the clock and write the line. */
void history_end(history_line *line, int fd, history_result result);
void history_end_at(history_line *line, int fd, history_result result, int64_t end_ns);

/* What a status means for a call: TIDE_OK and above HISTORY_OK; an unknown outcome, a time-out or
 * a server that is away HISTORY_UNKNOWN; everything else HISTORY_FAIL. */
history_result history_result_of(tide_status status);

/* Run tests/check/<checker> over histories (NULL ends the list; options of the checker may be in
 * it). TIDE_OK: sound, and *verdict is the line it printed. TIDE_E_DAMAGED: the first violation is
 * in *err. Other failures: it could not judge. */
enum { HISTORY_VERDICT_MAX = 512 };
TIDE_MUST_CHECK tide_status history_judge(const char *checker, const char *const *paths,
                                          char verdict[HISTORY_VERDICT_MAX], tide_error *err);
