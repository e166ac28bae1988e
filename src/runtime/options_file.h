/* options_file.h - settings in a file: one `name = value` per line.
 *
 *     # the agent of this host
 *     grpc = 127.0.0.1:4317
 *     name = "agent 1"
 *     keep = 7d
 *     insecure = false
 *
 * A name is an option of the command line without its dashes: lower-case letters, digits and '-'. A
 * value is the rest of the line without the blanks around it. In double quotes it keeps its blanks
 * and may be empty (there are no escapes, so it cannot contain a double quote). A line whose first
 * visible character is '#' or ';' is a comment; there are no comments behind values. Lines may end
 * in CR LF. The text is valid UTF-8 without control characters, except tabs.
 *
 * The reader knows no options: the table of options (cli/frame/options.h) checks names, values and
 * repetitions, and fails through tide_options_file_fail. Every error begins with FILE:LINE.
 *
 * Threads: pure. Limits: below. */
#pragma once

#include <stddef.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

enum {
    TIDE_OPTIONS_FILE_MAX = 256 << 10, /* bytes of a file */
    TIDE_OPTIONS_FILE_LINES = 4096,    /* settings in a file */
    TIDE_OPTIONS_NAME_MAX = 64,        /* bytes of a name */
    TIDE_OPTIONS_VALUE_MAX = 4096,     /* bytes of a value */
};

typedef struct tide_setting {
    const char *name;
    const char *value;
    int line; /* from 1 */
} tide_setting;

typedef struct tide_options_file {
    char *path; /* as given, for messages */
    char *text; /* what the settings point into */
    tide_setting *settings;
    int count;
} tide_options_file;

/* TIDE_E_INVALID: a malformed line; the text begins with FILE:LINE. TIDE_E_NOMEM, and the statuses
 * of tide_file_read. Call done also after a failure. */
TIDE_MUST_CHECK tide_status tide_options_file_read(tide_options_file *out, const char *path,
                                                   tide_error *err);

/* The same from memory; path is for messages. */
TIDE_MUST_CHECK tide_status tide_options_file_parse(tide_options_file *out, tide_view text,
                                                    const char *path, tide_error *err);

/* Fits TIDE_CLEANUP on a variable that began as {0}. */
void tide_options_file_done(tide_options_file *file);

/* Put "FILE:LINE: " in front of a failure about a setting; returns status. */
tide_status tide_options_file_fail(const tide_options_file *file, const tide_setting *setting,
                                   tide_status status, tide_error *err);
