#include "support/disk/fault_vfs.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/disk/fault_disk.h"

/* --- the methods of the VFS ------------------------------------------------------------------- */

static fault_vfs *get_disk(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* The name of a path inside the disk's directory; NULL when it is outside. */
static const char *get_name(const fault_vfs *disk, const char *path)
{
    const size_t dir_len = strlen(disk->dir);
    if (strncmp(path, disk->dir, dir_len) != 0 || path[dir_len] != '/')
        return NULL;
    const char *name = path + dir_len + 1;
    return *name == '\0' || strchr(name, '/') ? NULL : name;
}

/* The same condition as in the unix VFS, whose directory syncs are modelled. */
static bool is_new_journal(int flags)
{
    const int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    return (flags & SQLITE_OPEN_CREATE) && (flags & journals);
}

/* Open the real file and, where it is new, its node; e is NULL for a temporary file. */
static int open_entry(fault_vfs *disk, fault_handle *h, fault_entry *e, const char *path, int flags,
                      int *got)
{
    fault_node *n = e ? fault_entry_node(e) : NULL;
    fault_entry_change *created = NULL;
    if (e && !n) {
        n = fault_node_new();
        created = calloc(1, sizeof(*created));
        if (!n || !created) {
            free(n);
            free(created);
            return SQLITE_IOERR_NOMEM;
        }
    }
    const int rc = disk->real->xOpen(disk->real, path, h->real, flags, got);
    if (rc != SQLITE_OK) {
        if (created)
            free(n);
        free(created);
        return rc;
    }
    if (created) {
        created->to = n;
        fault_entry_note(&disk->model, e, created);
    }
    if (n)
        n->refs++;
    h->disk = disk;
    h->node = n;
    h->entry = e;
    h->must_sync_directory = is_new_journal(flags);
    h->base.pMethods = &fault_file_methods;
    disk->open_count++;
    return SQLITE_OK;
}

static int open_locked(fault_vfs *disk, fault_handle *h, const char *path, int flags, int *got)
{
    const fault_verdict v = fault_gate_judge(&disk->gate, FAULT_VFS_OPEN);
    if (v.code != SQLITE_OK)
        return v.code;
    if (!path || (flags & SQLITE_OPEN_DELETEONCLOSE))
        return open_entry(disk, h, NULL, path, flags, got);
    const char *name = get_name(disk, path);
    if (!name)
        return SQLITE_CANTOPEN;
    fault_entry *e = fault_model_find(&disk->model, name, path);
    return e ? open_entry(disk, h, e, path, flags, got) : SQLITE_IOERR_NOMEM;
}

static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *got)
{
    fault_vfs *disk = get_disk(vfs);
    fault_handle *h = (fault_handle *)(void *)file;
    memset(h, 0, sizeof(*h));
    pthread_mutex_lock(&disk->lock);
    const int rc = open_locked(disk, h, path, flags, got);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static int delete_locked(fault_vfs *disk, const char *path, int must_sync_directory)
{
    const fault_verdict v = fault_gate_judge(&disk->gate, FAULT_VFS_DELETE);
    if (v.code != SQLITE_OK && !v.is_cutting)
        return v.code;
    const char *name = get_name(disk, path);
    if (!name)
        return v.is_cutting ? v.code : disk->real->xDelete(disk->real, path, 0);

    fault_entry *e = fault_model_find(&disk->model, name, path);
    fault_entry_change *deleted = calloc(1, sizeof(*deleted));
    int rc = e && deleted ? v.code : SQLITE_IOERR_NOMEM;
    if (rc == SQLITE_OK)
        rc = disk->real->xDelete(disk->real, path, 0);
    if (e && deleted && fault_entry_node(e) && (rc == SQLITE_OK || v.is_cutting)) {
        fault_entry_note(&disk->model, e, deleted);
        deleted = NULL;
    }
    free(deleted);
    if (rc == SQLITE_OK && (must_sync_directory & 1))
        fault_model_settle(&disk->model);
    return rc;
}

static int delete_file(sqlite3_vfs *vfs, const char *path, int must_sync_directory)
{
    fault_vfs *disk = get_disk(vfs);
    pthread_mutex_lock(&disk->lock);
    const int rc = delete_locked(disk, path, must_sync_directory);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static int access_file(sqlite3_vfs *vfs, const char *path, int flags, int *result)
{
    fault_vfs *disk = get_disk(vfs);
    const int rc = fault_disk_judge(disk, FAULT_VFS_ACCESS);
    return rc != SQLITE_OK ? rc : disk->real->xAccess(disk->real, path, flags, result);
}

/* --- what tests call -------------------------------------------------------------------------- */

fault_vfs *fault_vfs_new(const char *dir, uint64_t seed)
{
    static atomic_int made_count;

    fault_vfs *disk = calloc(1, sizeof(*disk));
    if (!disk || !realpath(dir, disk->dir))
        fault_give_up("cannot use as a disk", dir);
    if (sqlite3_initialize() != SQLITE_OK || !(disk->real = sqlite3_vfs_find("unix")))
        fault_give_up("no unix VFS", dir);
    snprintf(disk->name, sizeof(disk->name), "fault-%d", atomic_fetch_add(&made_count, 1) + 1);
    pthread_mutex_init(&disk->lock, NULL);
    prng_init(&disk->random, seed);
    disk->quota_len = FAULT_VFS_NO_QUOTA;

    /* The unix VFS uses its own address only in xOpen: its other methods are used unchanged. */
    disk->base = *disk->real;
    disk->base.pNext = NULL;
    disk->base.zName = disk->name;
    disk->base.pAppData = disk;
    disk->base.szOsFile = (int)sizeof(fault_handle) + disk->real->szOsFile;
    disk->base.xOpen = open_file;
    disk->base.xDelete = delete_file;
    disk->base.xAccess = access_file;
    if (sqlite3_vfs_register(&disk->base, 0) != SQLITE_OK)
        fault_give_up("cannot register", disk->name);
    return disk;
}

void fault_vfs_free(fault_vfs *disk)
{
    if (!disk)
        return;
    assert(disk->open_count == 0);
    sqlite3_vfs_unregister(&disk->base);
    fault_model_done(&disk->model);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}

const char *fault_vfs_name(const fault_vfs *disk)
{
    return disk->name;
}

void fault_vfs_fail(fault_vfs *disk, fault_vfs_fault fault)
{
    assert(fault.nth >= 0 && fault.on < FAULT_VFS_CALL_COUNT);
    assert(fault.code != SQLITE_IOERR_SHORT_READ);
    pthread_mutex_lock(&disk->lock);
    disk->gate.fault = fault;
    disk->gate.fault_seen = 0;
    disk->gate.fault_hits = 0;
    pthread_mutex_unlock(&disk->lock);
}

void fault_vfs_fail_off(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->gate.fault.nth = 0;
    pthread_mutex_unlock(&disk->lock);
}

int64_t fault_vfs_hits(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const int64_t hits = disk->gate.fault_hits;
    pthread_mutex_unlock(&disk->lock);
    return hits;
}

fault_vfs_counters fault_vfs_count(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const fault_vfs_counters counters = disk->gate.counters;
    pthread_mutex_unlock(&disk->lock);
    return counters;
}

int64_t fault_vfs_calls(fault_vfs *disk, fault_vfs_call call)
{
    return fault_vfs_count(disk).calls[call];
}

int64_t fault_vfs_used_len(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const int64_t used_len = fault_model_used_len(&disk->model);
    pthread_mutex_unlock(&disk->lock);
    return used_len;
}

void fault_vfs_set_quota(fault_vfs *disk, int64_t quota_len)
{
    pthread_mutex_lock(&disk->lock);
    disk->quota_len = quota_len;
    pthread_mutex_unlock(&disk->lock);
}

void fault_vfs_power_cut(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->gate.is_cut = true;
    pthread_mutex_unlock(&disk->lock);
}

void fault_vfs_power_cut_at(fault_vfs *disk, fault_vfs_call on, int64_t nth)
{
    pthread_mutex_lock(&disk->lock);
    disk->gate.cut_on = on;
    disk->gate.cut_left = nth;
    pthread_mutex_unlock(&disk->lock);
}

bool fault_vfs_is_cut(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const bool is_cut = disk->gate.is_cut;
    pthread_mutex_unlock(&disk->lock);
    return is_cut;
}
