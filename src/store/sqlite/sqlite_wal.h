/* sqlite_wal.h - the write-ahead log before SQLite opens it.
 *
 * SQLite ends recovery at the first frame whose checksum is wrong, and says nothing: after a crash
 * that is where a write was torn. But each of our commits is synced before the next is written. So
 * a frame of a later transaction that continues the checksum stored in the frame before it proves
 * that what stands between was whole once, and was damaged afterwards. A bad last transaction alone
 * is torn.
 *
 * Only a log that nobody has open is looked at: recovery happens at the first open, and the frames
 * of somebody who writes are in motion.
 *
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>

typedef struct tide_sqlite_wal {
    int64_t frames;     /* that the file has room for */
    int64_t good;       /* frames up to the last commit that SQLite will find */
    int64_t bad_frame;  /* the first whose checksum is wrong, from 1; 0: none, or the header's */
    bool is_header_bad; /* the log counts as empty */
    bool is_damaged;    /* proven */
} tide_sqlite_wal;

/* TIDE_NONE: no log, an empty one, or one that somebody has open. */
TIDE_MUST_CHECK tide_status tide_sqlite_wal_scan(tide_sqlite_wal *out, const char *path,
                                                 tide_error *err);

/* Set a copy of the log aside, as PATH-wal.lost; an earlier copy stays. */
TIDE_MUST_CHECK tide_status tide_sqlite_wal_copy(const char *path, tide_error *err);

/* That copy becomes PATH-wal.lost-EPOCH; epoch 0: it is removed. */
void tide_sqlite_wal_keep(const char *path, int64_t epoch);
