/* fault_vfs.h - a disk that fails on request: a SQLite VFS for errors, full disks and power cuts.
 *
 * One fault_vfs is one simulated disk: a directory of real files behind SQLite's unix VFS,
 * registered under a name of its own. A connection uses it by that name,
 *
 *     sqlite3_open_v2(path, &db, flags, fault_vfs_name(disk))
 *
 * and every I/O call SQLite makes passes through here, where it is counted and may be failed.
 * Memory mapping is switched off, so that no read or write goes past.
 *
 * Durability. The real files hold what the running program sees. Beside them the shim keeps in
 * memory what the disk itself would hold: per file the durable content and the changes since,
 * per name the durable directory entry and the changes since. Nothing is really fsynced; this
 * model stands for it:
 *
 *  - A successful xSync makes all earlier writes and truncates of that file durable, with its size
 *    and with its own directory entry (as the usual Linux file systems do for a new file).
 *  - A directory is synced where the unix VFS does it, and only there: by the first xSync of a
 *    handle that opened a journal, WAL or super-journal with SQLITE_OPEN_CREATE, and by xDelete
 *    with syncDir. That makes all creations and deletions so far durable.
 *  - Anything else survives a power cut or does not. Each unsynced write is kept, dropped, torn
 *    (each 512-byte sector of the file for itself) or reduced to its effect on the file size, with
 *    zeros for data; each unsynced truncate is kept or dropped; what is kept is applied in order.
 *    Each name's creations and deletions survive up to some point of their own order, independent
 *    of other names and of the content: a deleted journal may come back, a new file may be gone.
 *  - Bytes next to a torn write stay as they were (SQLITE_IOCAP_POWERSAFE_OVERWRITE).
 *  - A failed xSync is as bad as on Linux: the kernel marks the pages clean and forgets them. The
 *    unsynced changes get one of the fates above there and then, the program goes on reading what
 *    it wrote, and no later xSync brings them to the disk.
 *  - What a file held when this disk first met its name is durable, and so is a file that was not
 *    opened on this disk, when the image is drawn. -shm files are outside the
 *    model (they belong to running processes), as are temporary files; both work, and their calls
 *    can be failed.
 *
 *      running ---- fault_vfs_power_cut(), or at the nth call ----> cut: all calls fail with
 *                                                                   |   SQLITE_IOERR
 *                                                                   |   close the connections
 *                                                                   v
 *                                            fault_vfs_image(): what the next boot may find
 *
 * The call that cuts is itself under way: a write, truncate or delete may or may not reach the
 * disk, a sync has promised nothing. After the cut any number of images can be drawn, each
 * another possible outcome; a new fault_vfs on an image directory continues from there.
 *
 * Calls that give something back (xClose, xUnlock, unlocking and unmapping shared memory) are
 * not counted and never fail, so that a failed connection can always be closed.
 *
 * Determinism: everything random comes from the seed given to fault_vfs_new() or the prng given
 * to fault_vfs_image(). One thread and one seed give one history; several threads count in the
 * order they come. SQLite's own randomness (WAL salts, randomblob()) is seeded by
 * sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, n, NULL), for the whole process.
 *
 * Threads: safe; one lock per disk. Connections may be used from any thread that SQLite allows.
 * Limits: one process; one directory without subdirectories; files used through this VFS only
 * while it lives (reading them otherwise would drop the process's file locks). Memory: the
 * content of the files plus all unsynced changes. Out of memory inside a call of SQLite's is
 * SQLITE_IOERR_NOMEM to it, so a disk made before an allocation sweep can be used in the sweep;
 * misuse, and trouble in the functions below, end the test program with a message. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "support/prng.h"

enum {
    FAULT_VFS_SECTOR_LEN = 512,
};

#define FAULT_VFS_NO_QUOTA INT64_MAX

/* The classes of calls. X(name, what a failing call of the class returns by default) */
#define FAULT_VFS_CALL_TABLE(X)                                                                    \
    X(ANY, SQLITE_IOERR)                                                                           \
    X(OPEN, SQLITE_CANTOPEN)                                                                       \
    X(READ, SQLITE_IOERR_READ)                                                                     \
    X(WRITE, SQLITE_IOERR_WRITE)                                                                   \
    X(SYNC, SQLITE_IOERR_FSYNC)                                                                    \
    X(TRUNCATE, SQLITE_IOERR_TRUNCATE)                                                             \
    X(LOCK, SQLITE_IOERR_LOCK)   /* taking or asking, not giving back */                           \
    X(SHM, SQLITE_IOERR_SHMLOCK) /* mapping and locking, not giving back */                        \
    X(DELETE, SQLITE_IOERR_DELETE)                                                                 \
    X(FILE_SIZE, SQLITE_IOERR_FSTAT)                                                               \
    X(ACCESS, SQLITE_IOERR_ACCESS)

typedef enum fault_vfs_call {
#define FAULT_VFS_CALL_ENUM(name, code) FAULT_VFS_##name,
    FAULT_VFS_CALL_TABLE(FAULT_VFS_CALL_ENUM)
#undef FAULT_VFS_CALL_ENUM
        FAULT_VFS_CALL_COUNT
} fault_vfs_call;

typedef struct fault_vfs fault_vfs;

typedef struct fault_vfs_fault {
    fault_vfs_call on; /* which calls are counted */
    int64_t nth;       /* 1 is the next of them */
    int code;       /* a SQLite error; 0 takes the one of the failing call's class. SQLITE_FULL is
                          ENOSPC. SQLITE_IOERR_SHORT_READ is no error to SQLite and refused here. */
    bool is_sticky; /* the nth and all after it, not the nth alone */
    bool is_short;  /* a failing write leaves a random part of its bytes in the file */
} fault_vfs_fault;

typedef struct fault_vfs_counters {
    int64_t calls[FAULT_VFS_CALL_COUNT]; /* made until the cut, failed ones included */
    int64_t syncs;                       /* that succeeded */
    int64_t writes;                      /* that succeeded in full */
    int64_t bytes_written;               /* that reached a file, short writes included */
} fault_vfs_counters;

typedef enum fault_vfs_survival {
    FAULT_VFS_KEEP_RANDOM, /* each unsynced change for itself; how many survive differs by image */
    FAULT_VFS_KEEP_PREFIX, /* the disk worked in order: all up to a random change, that one torn */
    FAULT_VFS_KEEP_ALL,
    FAULT_VFS_KEEP_NONE,
} fault_vfs_survival;

/* A disk on an existing directory. Registered with SQLite under a unique name until freed. */
fault_vfs *fault_vfs_new(const char *dir, uint64_t seed);

/* All connections must be closed. NULL is fine. The real files stay. */
void fault_vfs_free(fault_vfs *disk);

/* Borrowed until fault_vfs_free(). */
const char *fault_vfs_name(const fault_vfs *disk);

/* Arm a fault, counting from now and replacing an earlier one. */
void fault_vfs_fail(fault_vfs *disk, fault_vfs_fault fault);
void fault_vfs_fail_off(fault_vfs *disk);

/* How many calls the last armed fault has failed. A sweep arms nth = 1, 2, 3... until this stays
 * 0. */
int64_t fault_vfs_hits(fault_vfs *disk);

/* How many calls of a class (FAULT_VFS_ANY: of all) were made on this disk. */
int64_t fault_vfs_calls(fault_vfs *disk, fault_vfs_call call);

fault_vfs_counters fault_vfs_count(fault_vfs *disk);

/* Bytes in the files of the disk, as the running program sees them. */
int64_t fault_vfs_used_len(fault_vfs *disk);

/* Let the files together grow to quota_len bytes and no further: a write beyond puts down what
 * fits and fails with SQLITE_FULL. Lifted by FAULT_VFS_NO_QUOTA. Files already larger stay, and
 * can be rewritten. */
void fault_vfs_set_quota(fault_vfs *disk, int64_t quota_len);

/* Cut the power now, or while the nth call of a class from now is under way (nth 0: not any
 * more). */
void fault_vfs_power_cut(fault_vfs *disk);
void fault_vfs_power_cut_at(fault_vfs *disk, fault_vfs_call on, int64_t nth);
bool fault_vfs_is_cut(fault_vfs *disk);

/* Write a possible content of the cut disk into dir, an existing empty directory. p is not used
 * by KEEP_ALL and KEEP_NONE and may then be NULL. */
void fault_vfs_image(fault_vfs *disk, fault_vfs_survival survival, prng *p, const char *dir);

/* Flip one random bit of the bytes [first, first + len) of a file that is not open; the
 * range is cut to the file, and must not be empty then. Returns the position of the bit, counted
 * from the file's start. */
int64_t fault_vfs_flip_bit(const char *path, int64_t first, int64_t len, prng *p);
