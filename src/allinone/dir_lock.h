/* dir_lock.h - exclusive lock of a data directory: one process at a time.
 *
 *     DIR/lock     locked by the running process; contains its pid, for the message of a refusal
 *
 * A process locks the directory before it touches the first file below it.
 *
 * Survives: the lock ends with its process, however that ends; children do not inherit it. */
#pragma once

#include <tidemark/error.h>

/* Creates the directory if it does not exist. *out is the caller's: closing it ends the lock.
 * TIDE_E_BUSY: another process has the lock; the text names it. */
TIDE_MUST_CHECK tide_status tide_dir_lock(int *out, const char *dir, tide_error *err);
