/* context_file.h - files of contexts as such: private, whole, trusted. See context.h.
 *
 * Threads: one. */
#ifndef TIDE_CLI_FRAME_CONTEXT_FILE_H
#define TIDE_CLI_FRAME_CONTEXT_FILE_H

#include <stdbool.h>

#include <tidemark/error.h>
#include <tidemark/view.h>

/* The directory and those above it, for their owner alone. TIDE_E_DENIED, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_cli_context_make_directory(const char *path, tide_error *err);

/* TIDE_NONE: no such file. TIDE_E_DENIED: it is somebody else's, or others can write it. */
TIDE_MUST_CHECK tide_status tide_cli_context_check_owner(const char *path, tide_error *err);

/* It appears whole and synced, readable for its owner alone. TIDE_E_EXISTS: there is one, and is_replaced is false. */
TIDE_MUST_CHECK tide_status tide_cli_context_write_file(const char *path, tide_view text,
                                                        bool is_replaced, tide_error *err);

#endif
