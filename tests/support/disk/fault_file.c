#include "support/disk/fault_disk.h"

#include <sqlite3.h>

int fault_disk_judge(fault_vfs *disk, fault_vfs_call call)
{
    pthread_mutex_lock(&disk->lock);
    const fault_verdict v = fault_gate_judge(&disk->gate, call);
    pthread_mutex_unlock(&disk->lock);
    return v.code;
}

static fault_handle *get_handle(sqlite3_file *file)
{
    return (fault_handle *)(void *)file;
}

static int close_file(sqlite3_file *file)
{
    fault_handle *h = get_handle(file);
    const int rc = h->real->pMethods->xClose(h->real);
    pthread_mutex_lock(&h->disk->lock);
    fault_node_unref(h->node);
    h->disk->open_count--;
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int read_file(sqlite3_file *file, void *out, int len, sqlite3_int64 offset)
{
    fault_handle *h = get_handle(file);
    const int rc = fault_disk_judge(h->disk, FAULT_VFS_READ);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xRead(h->real, out, len, offset);
}

/* How many of len bytes at offset can be written before the quota is reached. */
static size_t fit_quota(const fault_vfs *disk, const fault_node *n, size_t offset, size_t len)
{
    if (disk->quota_len == FAULT_VFS_NO_QUOTA || offset + len <= n->size_now)
        return len;
    const int64_t free_len = disk->quota_len - fault_model_used_len(&disk->model);
    const size_t end = n->size_now + (free_len > 0 ? (size_t)free_len : 0);
    if (end <= offset)
        return 0;
    return end - offset < len ? end - offset : len;
}

/* Put down the first len bytes; the disk's lock is held. */
static int write_part(fault_handle *h, const void *data, size_t len, sqlite3_int64 offset)
{
    if (h->node && !fault_node_note(&h->disk->model, h->node, data, (size_t)offset, len))
        return SQLITE_IOERR_NOMEM;
    h->disk->gate.counters.bytes_written += (int64_t)len;
    return h->real->pMethods->xWrite(h->real, data, (int)len, offset);
}

static int write_locked(fault_handle *h, const void *data, size_t len, sqlite3_int64 offset)
{
    fault_vfs *disk = h->disk;
    const fault_verdict v = fault_gate_judge(&disk->gate, FAULT_VFS_WRITE);
    size_t reach = len;
    int rc = v.code;

    if (v.code != SQLITE_OK && !v.is_cutting) {
        const bool is_short = v.is_fault && disk->gate.fault.is_short && len > 0;
        reach = is_short ? (size_t)prng_below(&disk->random, len) : 0;
    }
    if (h->node && fit_quota(disk, h->node, (size_t)offset, reach) < reach) {
        reach = fit_quota(disk, h->node, (size_t)offset, reach);
        rc = rc == SQLITE_OK ? SQLITE_FULL : rc;
    }
    const int put_rc = reach > 0 ? write_part(h, data, reach, offset) : SQLITE_OK;
    rc = rc == SQLITE_OK ? put_rc : rc;
    if (rc == SQLITE_OK)
        disk->gate.counters.writes++;
    return rc;
}

static int write_file(sqlite3_file *file, const void *data, int len, sqlite3_int64 offset)
{
    fault_handle *h = get_handle(file);
    pthread_mutex_lock(&h->disk->lock);
    const int rc = write_locked(h, data, (size_t)len, offset);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int truncate_locked(fault_handle *h, sqlite3_int64 size)
{
    const fault_verdict v = fault_gate_judge(&h->disk->gate, FAULT_VFS_TRUNCATE);
    if (v.code != SQLITE_OK && !v.is_cutting)
        return v.code;
    if (h->node && !fault_node_note(&h->disk->model, h->node, NULL, (size_t)size, 0))
        return SQLITE_IOERR_NOMEM;
    return v.is_cutting ? v.code : h->real->pMethods->xTruncate(h->real, size);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size)
{
    fault_handle *h = get_handle(file);
    pthread_mutex_lock(&h->disk->lock);
    const int rc = truncate_locked(h, size);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int sync_locked(fault_handle *h)
{
    fault_vfs *disk = h->disk;
    const fault_verdict v = fault_gate_judge(&disk->gate, FAULT_VFS_SYNC);
    if (v.is_fault && h->node) {
        const fault_lottery l = fault_lottery_open(FAULT_VFS_KEEP_RANDOM, &disk->random);
        fault_node_settle(h->node, &l);
    }
    if (v.code != SQLITE_OK)
        return v.code;

    disk->gate.counters.syncs++;
    if (!h->node)
        return SQLITE_OK;
    const fault_lottery l = fault_lottery_open(FAULT_VFS_KEEP_ALL, NULL);
    fault_node_settle(h->node, &l);
    if (fault_entry_node(h->entry) == h->node)
        fault_entry_settle(h->entry);
    if (h->must_sync_directory)
        fault_model_settle(&disk->model);
    h->must_sync_directory = false;
    return SQLITE_OK;
}

static int sync_file(sqlite3_file *file, int flags)
{
    fault_handle *h = get_handle(file);
    (void)flags; /* a data-only sync still saves the size, as fdatasync does */
    pthread_mutex_lock(&h->disk->lock);
    const int rc = sync_locked(h);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int get_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    fault_handle *h = get_handle(file);
    const int rc = fault_disk_judge(h->disk, FAULT_VFS_FILE_SIZE);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xFileSize(h->real, size);
}

static int lock_file(sqlite3_file *file, int level)
{
    fault_handle *h = get_handle(file);
    const int rc = fault_disk_judge(h->disk, FAULT_VFS_LOCK);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xLock(h->real, level);
}

static int unlock_file(sqlite3_file *file, int level)
{
    fault_handle *h = get_handle(file);
    return h->real->pMethods->xUnlock(h->real, level);
}

static int check_reserved_lock(sqlite3_file *file, int *is_reserved)
{
    fault_handle *h = get_handle(file);
    const int rc = fault_disk_judge(h->disk, FAULT_VFS_LOCK);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xCheckReservedLock(h->real, is_reserved);
}

static int control_file(sqlite3_file *file, int op, void *arg)
{
    fault_handle *h = get_handle(file);
    switch (op) {
    case SQLITE_FCNTL_CHUNK_SIZE: /* the unix VFS would grow the file unseen by the model */
    case SQLITE_FCNTL_SIZE_HINT:
        return SQLITE_OK;
    case SQLITE_FCNTL_MMAP_SIZE:
        *(sqlite3_int64 *)arg = 0;
        return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
        *(char **)arg = sqlite3_mprintf("%s", h->disk->name);
        return SQLITE_OK;
    default:
        return h->real->pMethods->xFileControl(h->real, op, arg);
    }
}

static int get_sector_size(sqlite3_file *file)
{
    fault_handle *h = get_handle(file);
    return h->real->pMethods->xSectorSize(h->real);
}

static int get_device_characteristics(sqlite3_file *file)
{
    fault_handle *h = get_handle(file);
    return h->real->pMethods->xDeviceCharacteristics(h->real);
}

static int map_shm(sqlite3_file *file, int page, int page_len, int extend, void volatile **out)
{
    fault_handle *h = get_handle(file);
    const int rc = fault_disk_judge(h->disk, FAULT_VFS_SHM);
    if (rc != SQLITE_OK) {
        *out = NULL;
        return rc;
    }
    return h->real->pMethods->xShmMap(h->real, page, page_len, extend, out);
}

static int lock_shm(sqlite3_file *file, int offset, int n, int flags)
{
    fault_handle *h = get_handle(file);
    const bool gives_back = (flags & SQLITE_SHM_UNLOCK) != 0;
    const int rc = gives_back ? SQLITE_OK : fault_disk_judge(h->disk, FAULT_VFS_SHM);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xShmLock(h->real, offset, n, flags);
}

static void set_shm_barrier(sqlite3_file *file)
{
    fault_handle *h = get_handle(file);
    h->real->pMethods->xShmBarrier(h->real);
}

static int unmap_shm(sqlite3_file *file, int is_last)
{
    fault_handle *h = get_handle(file);
    return h->real->pMethods->xShmUnmap(h->real, is_last);
}

/* Version 2 has shared memory but no xFetch: SQLite then never maps a file. */
const sqlite3_io_methods fault_file_methods = {
    .iVersion = 2,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = get_file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved_lock,
    .xFileControl = control_file,
    .xSectorSize = get_sector_size,
    .xDeviceCharacteristics = get_device_characteristics,
    .xShmMap = map_shm,
    .xShmLock = lock_shm,
    .xShmBarrier = set_shm_barrier,
    .xShmUnmap = unmap_shm,
};
