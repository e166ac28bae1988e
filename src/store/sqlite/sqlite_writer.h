/* sqlite_writer.h - group commit: the closures of all threads share one transaction and one sync.
 *
 *     tide_store_write ... tide_store_write ... tide_store_write        callers, waiting
 *            \           |            /
 *             queue (bounded)
 *                        |
 *     door - BEGIN IMMEDIATE - [closure - takes - deferred rows]* - COMMIT - answers - checkpoint
 *     when due
 *
 * A closure that fails changes nothing, and takes nobody along: the group is rolled back and run
 * again, each closure inside a savepoint; so are the next groups, as failures come in crowds.
 * Without one, savepoints are left out: they copy every page that a closure touches. Some failures
 * (disk full, I/O error, no memory, RAISE(ROLLBACK)) make SQLite drop the whole transaction
 * silently: after every closure the writer looks whether the transaction is still there, and if
 * not, runs the others again, each alone.
 *
 * Where a crash can fall: before COMMIT returns, nobody has been answered and nothing or everything
 * of the group is on disk; after it, everything is. A COMMIT that fails leaves frames that a crash
 * could still bring back; so the writer commits something harmless over them, and only if that
 * succeeds says "failed"; otherwise it says "outcome unknown".
 *
 * The writer is the only checkpointer of this process: passive, after the answers, before 1,000
 * frames, so that foreign programs on the file (with an older SQLite) hardly ever need to do it
 * themselves.
 *
 * Threads: submit from any thread. Inline mode has no thread of its own: the caller runs the
 * group. */
#pragma once

#include "store/sqlite/sqlite_connection.h"
#include "store/sqlite/sqlite_file.h"

typedef struct tide_sqlite_writer tide_sqlite_writer;

TIDE_MUST_CHECK tide_status tide_sqlite_writer_open(tide_sqlite_writer **out, tide_store *store,
                                                    const char *path, tide_error *err);
void tide_sqlite_writer_close(tide_sqlite_writer *writer); /* finishes what is queued */

TIDE_MUST_CHECK tide_status tide_sqlite_writer_submit(tide_sqlite_writer *writer, tide_tx_fn *fn,
                                                      void *arg, tide_error *err);

/* For opening and migrating, before others use the store. */
tide_sqlite_connection *tide_sqlite_writer_connection(tide_sqlite_writer *writer);
tide_sqlite_door *tide_sqlite_writer_door(tide_sqlite_writer *writer);

/* Move the log into the file, as far as readers and the disk allow, and cut it to nothing: room for
 * others on a disk that is full. Waits for the writer, not for readers. */
void tide_sqlite_writer_empty_log(tide_sqlite_writer *writer);

/* While the last room of a disk is needed for something else, the log is held: the file, which may
 * have to grow for it, takes nothing from the log but by tide_sqlite_writer_empty_log. Holds are
 * counted; what was under way is finished behind the next answer. Any thread. */
void tide_sqlite_writer_hold_log(tide_sqlite_writer *writer);
void tide_sqlite_writer_release_log(tide_sqlite_writer *writer);

/* Bytes in the write-ahead log, as of the last commit; any thread. */
int64_t tide_sqlite_writer_wal_bytes(const tide_sqlite_writer *writer);
