/* tempdir.h - a directory of one's own, removed with all that is in it.
 *
 * Made below TMPDIR (or /tmp) as tidemark-test-XXXXXX, mode 0700. Removing refuses every path
 * that could not have come from here: another parent, another prefix, a symbolic link. Links
 * inside are removed, never followed, and other file systems mounted inside are left alone.
 *
 * Survives: a killed test leaves its directory behind, except where a supervisor clears it
 * (pg_cluster.h).
 * Threads: tempdir_make may run anywhere; one tempdir belongs to one thread at a time. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>

#define TEMPDIR_PREFIX "tidemark-test-"

enum { TEMPDIR_PATH_MAX = 512 }; /* bytes, with the terminator */

typedef struct tempdir {
    char path[TEMPDIR_PATH_MAX]; /* absolute; "" when there is none */
} tempdir;

/* TIDE_E_INVALID: TMPDIR is too long or not absolute. TIDE_E_IO: the system refused. */
TIDE_MUST_CHECK tide_status tempdir_make(tempdir *dir, tide_error *err);

/* Remove the directory and what it holds; an empty or already removed one is fine.
 * TIDE_E_INVALID: the path is not one of ours, nothing was removed. */
tide_status tempdir_remove(tempdir *dir, tide_error *err);

/* Write "<dir>/<name>"; a path that does not fit is a bug of the test. */
void tempdir_join(const tempdir *dir, const char *name, char out[TEMPDIR_PATH_MAX]);
