/* foreign_copy.h - a copy of an application's file as it was at one moment.
 *
 * The moment is chosen under the write lock, when no transaction is under way: a closure checks and
 * agrees, and before the lock is released a connection of its own begins to read. It reads that
 * moment, whatever is written afterwards. A closure that first has to change something does so, and
 * runs again as soon as that is committed; the lock is taken again at once, before waiting writers
 * retry, so a moment comes under any load. The pages are then copied from this one read (SQLite's
 * backup) at the speed of the disk. WAL checkpoints wait no longer than that, and everything slow
 * is done with the copy.
 *
 * The copy is a private scratch file: not synced, without an id of its own. The caller removes it
 * (and its -wal and -shm).
 *
 * Threads: as foreign_db.h. */
#pragma once

#include "store/foreign/foreign_db.h"

/* done of total pages. An answer below TIDE_OK ends it. */
typedef tide_status tide_foreign_copy_fn(void *arg, int64_t done, int64_t total, tide_error *err);

/* Copy to a file that does not exist. is_moment runs in a write transaction: TIDE_OK: now, and it
 * has changed nothing. TIDE_NONE: not yet; its changes are committed, and it runs again. progress
 * may be NULL. TIDE_E_BUSY: no moment came. TIDE_E_FULL, TIDE_E_IO, TIDE_E_EXISTS. */
TIDE_MUST_CHECK tide_status tide_foreign_copy(tide_foreign_db *app, const char *path,
                                              tide_foreign_fn *is_moment, void *arg,
                                              tide_foreign_copy_fn *progress, void *progress_arg,
                                              tide_error *err);
