/* fault_disk.h - the insides of a fault_vfs, for the files that make it up.
 *
 *     fault_vfs.c     the VFS: open, delete, access; arming faults, quotas and cuts
 *     fault_file.c    the methods of an open file
 *     fault_gate.c    counts every call and decides whether it may go on
 *     fault_model.c   what the disk itself holds
 *     fault_image.c   what the next boot finds
 *
 * A call of SQLite's passes the gate, is noted in the model, and then reaches the real file.
 *
 * Threads: one lock per disk, held from the verdict until the model and the real file agree. */
#pragma once

#include <limits.h>
#include <pthread.h>

#include <sqlite3.h>

#include "support/disk/fault_gate.h"
#include "support/disk/fault_model.h"
#include "support/disk/fault_vfs.h"

struct fault_vfs {
    sqlite3_vfs base;
    sqlite3_vfs *real;
    char name[32];
    char dir[PATH_MAX]; /* absolute, no links, no slash at the end */

    pthread_mutex_t lock; /* guards all that follows */
    prng random;
    fault_model model;
    fault_gate gate;
    int open_count;
    int64_t quota_len;
};

typedef struct fault_handle {
    sqlite3_file base;
    fault_vfs *disk;
    fault_node *node;   /* NULL: a temporary file */
    fault_entry *entry; /* where it was opened */
    bool must_sync_directory;
    sqlite3_file real[]; /* as many bytes as the unix VFS asks for */
} fault_handle;

/* Of a fault_handle that was opened. */
extern const sqlite3_io_methods fault_file_methods;

/* For calls that change nothing the disk model knows; takes the lock. SQLITE_OK: go on. */
int fault_disk_judge(fault_vfs *disk, fault_vfs_call call);
