/* foreign_copy.h - a copy of an application's file as it was at one moment.
 *
 * The moment is chosen under the write lock, when nobody can be in the middle of anything: a closure looks and says yes, and before the lock is
 * released a connection of its own begins to read. What it reads is that moment, whoever writes afterwards. A closure that first has something to do does it,
 * and is asked again as soon as it is committed: the lock is taken again at once, before those who wait for it look again, so that a
 * moment comes however much is written. The pages are then copied from this one
 * read (SQLite's backup), at the speed of the disk: checkpoints wait for no longer than that, and everything slow is done with the copy.
 *
 * The copy is a private scratch file: not synced, with no id of its own; the caller removes it (and its -wal and -shm).
 *
 * Threads: as app_file.h. */
#pragma once

#include "store/foreign/foreign_db.h"

/* done of total pages. An answer below TIDE_OK ends it. */
typedef tide_status tide_foreign_copy_fn(void *arg, int64_t done, int64_t total, tide_error *err);

/* Copy to a file that does not exist. is_moment runs in a write transaction: TIDE_OK: now, and it has changed nothing. TIDE_NONE: not yet; what it changed is
 * committed, and it is asked again. progress may be NULL. TIDE_E_BUSY: no moment came. TIDE_E_FULL, TIDE_E_IO, TIDE_E_EXISTS. */
TIDE_MUST_CHECK tide_status tide_foreign_copy(tide_foreign_db *app, const char *path,
                                              tide_foreign_fn *is_moment, void *arg,
                                              tide_foreign_copy_fn *progress, void *progress_arg,
                                              tide_error *err);
