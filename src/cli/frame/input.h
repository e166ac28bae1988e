/* input.h - values of options: literal, from a file, or from stdin.
 *
 *     --data '{"a":1}'      the text itself
 *     --data @state.json    what the file holds
 *     --data -              stdin, until it ends
 *
 *     tide_buffer data;
 *     tide_buffer_init(&data, TIDE_CLI_INPUT_MAX);
 *     TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
 *
 * The buffer's maximum is the value's; what is longer is refused as soon as it is seen. stdin can
 * be read by one value of a command only; a second one is refused.
 *
 * JSON is as in json_scan.h: one value of any kind, valid UTF-8, no NUL, at most
 * TIDE_JSON_NESTING_MAX deep. A member may appear twice. The text is stored as written, without the
 * white space around it.
 *
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "base/text/json_tree.h"

enum { TIDE_CLI_INPUT_MAX = 64 << 20 }; /* bytes of one value, where nothing else is said */

/* The value's bytes into an empty buffer. what names the value in messages ("--data").
 * TIDE_E_INVALID: longer than the buffer's maximum, no such file, or stdin was read already;
 * TIDE_E_DENIED, TIDE_E_IO: the file. */
TIDE_MUST_CHECK tide_status tide_cli_input_read(tide_buffer *out, const char *value,
                                                const char *what, tide_error *err);

/* As above, and it is JSON. TIDE_E_INVALID: it is not; the text says where. */
TIDE_MUST_CHECK tide_status tide_cli_input_json(tide_buffer *out, const char *value,
                                                const char *what, tide_error *err);

/* ---- JSON lines ----
 *
 *     TIDE_CLEANUP(tide_cli_lines_done) tide_cli_lines lines;
 *     TIDE_TRY(tide_cli_lines_init(&lines, tide_cli_text(cli, TIDE_CLI_BATCH),
 *                                  TIDE_CLI_INPUT_MAX, err));
 *     while ((status = tide_cli_lines_next(&lines, &object, err)) == TIDE_OK) ...
 *
 * Empty lines are skipped and counted; the last line needs no line break. A member that is kept as
 * it was written is taken from the line itself (tide_cli_lines_member). */

typedef struct tide_cli_lines {
    FILE *file; /* NULL: could not be opened */
    const char *name;
    int64_t number; /* of the line last read, from 1 */
    tide_buffer line;
    tide_json_node *object;
} tide_cli_lines;

/* source: "-" is stdin, "FILE" and "@FILE" a file. line_max: bytes of a line. To be given back also
 * after a failure. */
TIDE_MUST_CHECK tide_status tide_cli_lines_init(tide_cli_lines *lines, const char *source,
                                                size_t line_max, tide_error *err);
void tide_cli_lines_done(tide_cli_lines *lines);

/* The next line's object; its text is tide_buffer_view(&lines->line). Both are borrowed until the
 * next call. TIDE_NONE: that was all. TIDE_E_INVALID: no JSON object, or a line too long; the text
 * names file and line. */
TIDE_MUST_CHECK tide_status tide_cli_lines_next(tide_cli_lines *lines,
                                                const tide_json_node **object, tide_error *err);

/* The text of a member of the line last read, as it was written. ptr NULL: there is none. Of two
 * the last counts. Borrowed until the next line. */
tide_view tide_cli_lines_member(const tide_cli_lines *lines, const char *key);

/* The same for any text that is a JSON object. */
tide_view tide_cli_json_member(tide_view object, const char *key);

/* Put "items.jsonl, line 17: " in front of a failure about the line last read; returns status. */
tide_status tide_cli_lines_context(const tide_cli_lines *lines, tide_status status,
                                   tide_error *err);

/* Fail about the line last read: tide_cli_lines_fail(&lines, err, TIDE_E_INVALID, "no such type
 * %s", type). */
#define tide_cli_lines_fail(lines, err, status, ...)                                               \
    tide_cli_lines_context((lines), tide_fail((err), (status), __VA_ARGS__), (err))
