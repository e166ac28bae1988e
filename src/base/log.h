/* log.h - the program log: one line per event, for operators.
 *
 *     tide_log_write(log, TIDE_LOG_INFO, "opened", TIDE_F("url", url), TIDE_FI("ms", 12),
 *                    TIDE_F_END);
 *
 *     time=2024-02-29T12:30:00.000000Z level=info msg=opened url=a.db ms=12
 *     {"time":"2024-02-29T12:30:00.000000Z","level":"info","msg":"opened","url":"a.db","ms":12}
 *
 * Only programs hold a tide_log; libraries return errors and never log.
 *
 * A line reaches the file by one write, so lines of several threads and processes on one file or
 * pipe do not mix (a pipe keeps this up to 4096 bytes). Whatever the values contain, a line stays
 * one line and can be taken apart again: logfmt values with spaces, quotes, '=' or control
 * characters are quoted and escaped, broken UTF-8 becomes U+FFFD. In the logfmt form a key's
 * awkward bytes become '_'. A long value is cut and ends in "..."; fields that no longer fit on the
 * line are dropped and the line says cut=true. A line that cannot be written (disk full, reader
 * gone, no memory) is lost and counted: logging never stops the work.
 *
 * Threads: safe, one tide_log may be shared. The time is the env's wall clock. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/env.h>
#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

enum {
    TIDE_LOG_VALUE_MAX = 2048, /* bytes of one text before escaping */
    TIDE_LOG_LINE_MAX = 32768, /* bytes, with the line break */
};

typedef enum tide_log_level {
    TIDE_LOG_ERROR, /* an operator has to act */
    TIDE_LOG_WARN,  /* an operator may want to act */
    TIDE_LOG_INFO,
    TIDE_LOG_DEBUG,
} tide_log_level;

typedef enum tide_log_format {
    TIDE_LOG_LOGFMT,
    TIDE_LOG_JSON,
} tide_log_format;

typedef struct tide_log {
    FILE *file;
    tide_env *env;
    tide_log_format format;
    tide_log_level level;      /* lines above it are not written */
    atomic_uint_fast64_t lost; /* lines that could not be written */
} tide_log;

typedef enum tide_log_kind {
    TIDE_LOG_KIND_TEXT,
    TIDE_LOG_KIND_INT,
    TIDE_LOG_KIND_DOUBLE,
    TIDE_LOG_KIND_BOOL,
} tide_log_kind;

typedef struct tide_log_field {
    const char *key;
    tide_log_kind kind;
    tide_view text;
    int64_t integer;
    double real;
    bool truth;
} tide_log_field;

/* The fields of a line; each lives until the call is over. A NULL text is written as "". */
#define TIDE_F(key_, text_)                                                                        \
    (&(const tide_log_field){                                                                      \
        .key = (key_), .kind = TIDE_LOG_KIND_TEXT, .text = tide_view_of(text_)})
#define TIDE_FV(key_, view_)                                                                       \
    (&(const tide_log_field){.key = (key_), .kind = TIDE_LOG_KIND_TEXT, .text = (view_)})
#define TIDE_FI(key_, integer_)                                                                    \
    (&(const tide_log_field){.key = (key_), .kind = TIDE_LOG_KIND_INT, .integer = (integer_)})
#define TIDE_FD(key_, real_)                                                                       \
    (&(const tide_log_field){.key = (key_), .kind = TIDE_LOG_KIND_DOUBLE, .real = (real_)})
#define TIDE_FB(key_, truth_)                                                                      \
    (&(const tide_log_field){.key = (key_), .kind = TIDE_LOG_KIND_BOOL, .truth = (truth_)})
#define TIDE_F_END ((const tide_log_field *)NULL)

/* The file stays the caller's and must outlive the log. */
void tide_log_init(tide_log *log, FILE *file, tide_env *env, tide_log_format format,
                   tide_log_level level);

bool tide_log_is_on(const tide_log *log, tide_log_level level);

/* Write one line. The compiler checks that the last argument is TIDE_F_END. Keeps errno. */
void tide_log_write(tide_log *log, tide_log_level level, const char *message, ...)
    __attribute__((sentinel));

/* "error", "warn", "info", "debug"; "logfmt", "json". TIDE_E_INVALID: no such name. */
TIDE_MUST_CHECK tide_status tide_log_level_parse(tide_log_level *level, const char *text);
TIDE_MUST_CHECK tide_status tide_log_format_parse(tide_log_format *format, const char *text);
