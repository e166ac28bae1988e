/* sqlite_locks.h - file locks that belong to the library's SQLite and not to the process.
 *
 * The unix VFS of SQLite takes POSIX locks. They belong to the process, and closing any descriptor
 * of a file drops all of them. With two SQLites in one process (the application's and ours),
 * neither sees the locks of the other, and each close of one drops the locks of the other. Another
 * process can then write in the middle of a transaction.
 *
 * So our copy of SQLite takes open file description locks (F_OFD_SETLK) on the same bytes. They
 * conflict with the POSIX locks of every other SQLite, in this process too, and survive a close.
 * The unix VFS stays as it is: its system calls open, close, fcntl, stat and fstat are replaced. A
 * file with locks (a database, its -shm) has per process
 *
 *   I/O descriptors    one per connection; SQLite sees only these
 *   lock descriptor    carries all locks of our SQLite on the file; never read, written or mapped
 *
 * One lock descriptor per file makes our SQLite one lock owner. The accounting of the unix VFS
 * assumes this: a lock taken for one connection may be released for another.
 *
 * Closing a descriptor would drop the POSIX locks of the application. So SQLite's close only marks
 * an I/O descriptor as idle, and the next open of the file reuses it. All descriptors of a file are
 * closed when none is in use, and while the lock descriptor holds an exclusive lock on the whole
 * file. Then no lock exists that could be dropped, and none can be taken before ours is released,
 * which the kernel does after it has dropped the POSIX locks. If the exclusive lock is not granted,
 * the descriptors stay open, and each later open or close of any file tries again.
 *
 * A file system without these locks is refused (tide_sqlite_locks_refused).
 *
 * Fork: a child closes its copies of the lock descriptors, so that no lock outlives the parent. The
 * parent's connections get no locks in the child, which may open the same file anew.
 * Unloading: the library is linked with -z nodelete, so that these functions outlive dlclose().
 * Threads: all.
 * Limits: TIDE_SQLITE_LOCKS_FILE_MAX files; beyond, opening fails with EMFILE. Memory is allocated
 * only for descriptors above 4095. */
#pragma once

#include <stdbool.h>

#include <tidemark/error.h>

enum { TIDE_SQLITE_LOCKS_FILE_MAX = 8192 };

/* Called by sqlite3_initialize() of the bundled SQLite, before any file can be opened. */
int tide_sqlite_locks_init(const char *unused);

/* Whether SQLite failed with code because the file system has no open file description locks. Call
 * it on the thread that failed, before the next call of SQLite. */
bool tide_sqlite_locks_refused(int code);

/* Whether anybody, this process included, holds a lock on a byte of a -shm file. False: there is no
 * such file. */
bool tide_sqlite_locks_is_locked(const char *path, long byte);

/* Whether a lock call failed with this errno because the file system has no such locks. */
bool tide_sqlite_locks_unsupported(int number);

/* TIDE_E_UNSUPPORTED, for either of them; what names the file. */
tide_status tide_sqlite_locks_fail(tide_error *err, const char *what);
