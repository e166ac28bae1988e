#include "support/fault_vfs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

/* --- the disk in memory: what is durable, and the changes since ------------------------------- */

typedef struct content {
    unsigned char *bytes;
    size_t len;
    size_t room;
} content;

typedef struct change { /* of a file's content, not synced yet */
    struct change *next;
    uint64_t serial;
    bool is_truncate;
    size_t offset; /* of a truncate: the new size */
    size_t len;
    unsigned char bytes[];
} change;

typedef struct node { /* a file apart from its name, as an inode */
    int refs;         /* handles, durable entries, unsynced entries */
    content durable;  /* has room for all changes, so that a sync needs no memory */
    size_t size_now;
    change *first;
    change **last_next;
} node;

typedef struct entry_change { /* of a directory entry, not synced yet */
    struct entry_change *next;
    uint64_t serial;
    node *to; /* NULL: deleted */
} entry_change;

typedef struct entry {
    struct entry *next;
    node *durable; /* NULL: no such file */
    entry_change *first;
    char name[];
} entry;

typedef enum fate { FATE_KEPT, FATE_DROPPED, FATE_TORN, FATE_ZEROED } fate;

typedef struct lottery { /* draws fates */
    fault_vfs_survival survival;
    prng *random;
    uint64_t kept_of_8; /* KEEP_RANDOM */
    uint64_t torn;      /* KEEP_PREFIX: the serial at which the disk stopped */
} lottery;

struct fault_vfs {
    sqlite3_vfs base;
    sqlite3_vfs *real;
    char name[32];
    char dir[PATH_MAX]; /* absolute, no links, no slash at the end */

    pthread_mutex_t lock; /* guards all that follows */
    prng random;
    entry *entries;
    uint64_t serial; /* of the next change */
    int open_count;
    int64_t quota_len;
    fault_vfs_counters counters;
    fault_vfs_fault fault; /* nth 0: none */
    int64_t fault_seen;
    int64_t fault_hits;
    fault_vfs_call cut_on;
    int64_t cut_left; /* 0: no cut planned */
    bool is_cut;
};

typedef struct handle {
    sqlite3_file base;
    fault_vfs *disk;
    node *node;   /* NULL: a temporary file */
    entry *entry; /* where it was opened */
    bool must_sync_directory;
    sqlite3_file real[]; /* as many bytes as the unix VFS asks for */
} handle;

_Noreturn static void give_up(const char *what, const char *about)
{
    fprintf(stderr, "fault_vfs: %s: %s (%s)\n", what, about, strerror(errno));
    abort();
}

static bool reserve_content(content *c, size_t len)
{
    if (len <= c->room)
        return true;
    const size_t room = len < 4096 ? 4096 : len + len / 2;
    unsigned char *bytes = realloc(c->bytes, room);
    if (!bytes)
        return false;
    c->bytes = bytes;
    c->room = room;
    return true;
}

/* The room must be there. Growth is filled with zeros, as in a file. */
static void resize_content(content *c, size_t len)
{
    assert(len <= c->room);
    if (len > c->len)
        memset(c->bytes + c->len, 0, len - c->len);
    c->len = len;
}

static void apply_part(content *c, const change *w, size_t from, size_t to)
{
    if (c->len < to)
        resize_content(c, to);
    memcpy(c->bytes + from, w->bytes + (from - w->offset), to - from);
}

static void apply_change(content *c, const change *w, fate f, prng *random)
{
    const size_t end = w->offset + w->len;

    if (f == FATE_DROPPED)
        return;
    if (w->is_truncate) {
        if (f == FATE_KEPT)
            resize_content(c, w->offset);
    } else if (f == FATE_KEPT) {
        apply_part(c, w, w->offset, end);
    } else if (f == FATE_ZEROED) {
        if (c->len < end)
            resize_content(c, end);
    } else {
        for (size_t from = w->offset; from < end;) {
            const size_t sector_end = (from / FAULT_VFS_SECTOR_LEN + 1) * FAULT_VFS_SECTOR_LEN;
            const size_t to = sector_end < end ? sector_end : end;
            if (prng_chance(random, 1, 2))
                apply_part(c, w, from, to);
            from = to;
        }
    }
}

static lottery open_lottery(fault_vfs_survival survival, prng *random)
{
    lottery l = {.survival = survival, .random = random};
    if (survival == FAULT_VFS_KEEP_RANDOM)
        l.kept_of_8 = prng_below(random, 9);
    return l;
}

static fate draw_fate(const lottery *l, uint64_t serial)
{
    switch (l->survival) {
    case FAULT_VFS_KEEP_ALL:
        return FATE_KEPT;
    case FAULT_VFS_KEEP_NONE:
        return FATE_DROPPED;
    case FAULT_VFS_KEEP_PREFIX:
        return serial < l->torn ? FATE_KEPT : serial == l->torn ? FATE_TORN : FATE_DROPPED;
    case FAULT_VFS_KEEP_RANDOM:
        if (prng_chance(l->random, l->kept_of_8, 8))
            return FATE_KEPT;
        if (prng_chance(l->random, 1, 2))
            return FATE_DROPPED;
        return prng_chance(l->random, 3, 4) ? FATE_TORN : FATE_ZEROED;
    }
    give_up("unknown survival", "bug");
}

/* --- nodes and entries ------------------------------------------------------------------------ */

static node *new_node(void)
{
    node *n = calloc(1, sizeof(*n));
    if (n)
        n->last_next = &n->first;
    return n;
}

static void drop_changes(node *n)
{
    while (n->first) {
        change *gone = n->first;
        n->first = gone->next;
        free(gone);
    }
    n->last_next = &n->first;
}

static void unref_node(node *n)
{
    if (!n || --n->refs > 0)
        return;
    drop_changes(n);
    free(n->durable.bytes);
    free(n);
}

/* The unsynced changes get their fates now, and what is left of them is durable. */
static void settle_node(node *n, const lottery *l)
{
    for (const change *w = n->first; w; w = w->next)
        apply_change(&n->durable, w, draw_fate(l, w->serial), l->random);
    drop_changes(n);
}

/* data NULL: a truncate to offset. False: no memory, nothing noted. */
static bool note_change(fault_vfs *disk, node *n, const void *data, size_t offset, size_t len)
{
    change *w = reserve_content(&n->durable, offset + len) ? malloc(sizeof(*w) + len) : NULL;
    if (!w)
        return false;
    *w = (change){.serial = disk->serial++, .is_truncate = !data, .offset = offset, .len = len};
    if (data)
        memcpy(w->bytes, data, len);
    *n->last_next = w;
    n->last_next = &w->next;
    if (!data || n->size_now < offset + len)
        n->size_now = offset + len;
    return true;
}

static node *get_node_now(const entry *e)
{
    node *now = e->durable;
    for (const entry_change *c = e->first; c; c = c->next)
        now = c->to;
    return now;
}

/* Takes over c, and a reference of its own to c->to. */
static void note_entry_change(fault_vfs *disk, entry *e, entry_change *c)
{
    entry_change **at = &e->first;
    while (*at)
        at = &(*at)->next;
    c->serial = disk->serial++;
    if (c->to)
        c->to->refs++;
    *at = c;
}

static void settle_entry(entry *e)
{
    while (e->first) {
        entry_change *c = e->first;
        e->first = c->next;
        unref_node(e->durable);
        e->durable = c->to; /* with the reference that c held */
        free(c);
    }
}

static void settle_directory(fault_vfs *disk)
{
    for (entry *e = disk->entries; e; e = e->next)
        settle_entry(e);
}

/* Read a file that was there before this disk met it. 1: read, 0: there is none, -1: no memory. */
static int load_node(node *n, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file) {
        if (errno != ENOENT)
            give_up("cannot read", path);
        return 0;
    }
    if (fstat(fileno(file), &st) != 0)
        give_up("cannot stat", path);
    const size_t len = (size_t)st.st_size;
    const bool has_room = reserve_content(&n->durable, len);
    if (has_room && fread(n->durable.bytes, 1, len, file) != len)
        give_up("cannot read", path);
    fclose(file);
    n->durable.len = n->size_now = len;
    return has_room ? 1 : -1;
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

/* The entry of a path inside, made at the first meeting. NULL: no memory. */
static entry *find_entry(fault_vfs *disk, const char *path)
{
    const char *name = get_name(disk, path);
    assert(name);
    entry **at = &disk->entries;
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0)
            return *at;

    entry *e = calloc(1, sizeof(*e) + strlen(name) + 1);
    node *n = new_node();
    const int is_there = e && n ? load_node(n, path) : -1;
    if (is_there < 0) {
        if (n)
            free(n->durable.bytes);
        free(n);
        free(e);
        return NULL;
    }
    strcpy(e->name, name);
    n->refs = 1;
    if (is_there)
        e->durable = n;
    else
        unref_node(n);
    *at = e;
    return e;
}

/* --- the gate: every call is counted here and may be stopped ---------------------------------- */

typedef struct verdict {
    int code; /* SQLITE_OK: go on */
    bool is_cutting;
    bool is_fault; /* the armed fault, not a disk that was cut before */
} verdict;

static int get_code(const fault_vfs *disk, fault_vfs_call call)
{
    static const int codes[] = {
#define CALL_CODE(name, code) [FAULT_VFS_##name] = (code),
        FAULT_VFS_CALL_TABLE(CALL_CODE)
#undef CALL_CODE
    };
    return disk->fault.code ? disk->fault.code : codes[call];
}

static bool is_counted(fault_vfs_call on, fault_vfs_call call)
{
    return on == FAULT_VFS_ANY || on == call;
}

/* The disk's lock is held. */
static verdict judge(fault_vfs *disk, fault_vfs_call call)
{
    verdict v = {.code = SQLITE_IOERR, .is_cutting = false, .is_fault = false};
    if (disk->is_cut)
        return v;
    disk->counters.calls[FAULT_VFS_ANY]++;
    disk->counters.calls[call]++;

    if (disk->cut_left > 0 && is_counted(disk->cut_on, call) && --disk->cut_left == 0) {
        disk->is_cut = true;
        v.is_cutting = true;
        return v;
    }
    const fault_vfs_fault *f = &disk->fault;
    if (f->nth > 0 && is_counted(f->on, call)) {
        disk->fault_seen++;
        if (disk->fault_seen == f->nth || (f->is_sticky && disk->fault_seen > f->nth)) {
            disk->fault_hits++;
            v.code = get_code(disk, call);
            v.is_fault = true;
            return v;
        }
    }
    v.code = SQLITE_OK;
    return v;
}

/* For calls that change nothing the disk model knows. */
static int judge_alone(fault_vfs *disk, fault_vfs_call call)
{
    pthread_mutex_lock(&disk->lock);
    const verdict v = judge(disk, call);
    pthread_mutex_unlock(&disk->lock);
    return v.code;
}

static int64_t sum_used(const fault_vfs *disk)
{
    int64_t used = 0;
    for (const entry *e = disk->entries; e; e = e->next) {
        const node *n = get_node_now(e);
        used += n ? (int64_t)n->size_now : 0;
    }
    return used;
}

/* How many of len bytes at offset can be written before the quota is reached. */
static size_t fit_quota(const fault_vfs *disk, const node *n, size_t offset, size_t len)
{
    if (disk->quota_len == FAULT_VFS_NO_QUOTA || offset + len <= n->size_now)
        return len;
    const int64_t free_len = disk->quota_len - sum_used(disk);
    const size_t end = n->size_now + (free_len > 0 ? (size_t)free_len : 0);
    if (end <= offset)
        return 0;
    return end - offset < len ? end - offset : len;
}

/* --- the methods of a file -------------------------------------------------------------------- */

static handle *get_handle(sqlite3_file *file)
{
    return (handle *)(void *)file;
}

static int close_file(sqlite3_file *file)
{
    handle *h = get_handle(file);
    const int rc = h->real->pMethods->xClose(h->real);
    pthread_mutex_lock(&h->disk->lock);
    unref_node(h->node);
    h->disk->open_count--;
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int read_file(sqlite3_file *file, void *out, int len, sqlite3_int64 offset)
{
    handle *h = get_handle(file);
    const int rc = judge_alone(h->disk, FAULT_VFS_READ);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xRead(h->real, out, len, offset);
}

/* Put down the first len bytes; the disk's lock is held. */
static int write_part(handle *h, const void *data, size_t len, sqlite3_int64 offset)
{
    if (h->node && !note_change(h->disk, h->node, data, (size_t)offset, len))
        return SQLITE_IOERR_NOMEM;
    h->disk->counters.bytes_written += (int64_t)len;
    return h->real->pMethods->xWrite(h->real, data, (int)len, offset);
}

static int write_locked(handle *h, const void *data, size_t len, sqlite3_int64 offset)
{
    fault_vfs *disk = h->disk;
    const verdict v = judge(disk, FAULT_VFS_WRITE);
    size_t reach = len;
    int rc = v.code;

    if (v.code != SQLITE_OK && !v.is_cutting) {
        const bool is_short = v.is_fault && disk->fault.is_short && len > 0;
        reach = is_short ? (size_t)prng_below(&disk->random, len) : 0;
    }
    if (h->node && fit_quota(disk, h->node, (size_t)offset, reach) < reach) {
        reach = fit_quota(disk, h->node, (size_t)offset, reach);
        rc = rc == SQLITE_OK ? SQLITE_FULL : rc;
    }
    const int put_rc = reach > 0 ? write_part(h, data, reach, offset) : SQLITE_OK;
    rc = rc == SQLITE_OK ? put_rc : rc;
    if (rc == SQLITE_OK)
        disk->counters.writes++;
    return rc;
}

static int write_file(sqlite3_file *file, const void *data, int len, sqlite3_int64 offset)
{
    handle *h = get_handle(file);
    pthread_mutex_lock(&h->disk->lock);
    const int rc = write_locked(h, data, (size_t)len, offset);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int truncate_locked(handle *h, sqlite3_int64 size)
{
    const verdict v = judge(h->disk, FAULT_VFS_TRUNCATE);
    if (v.code != SQLITE_OK && !v.is_cutting)
        return v.code;
    if (h->node && !note_change(h->disk, h->node, NULL, (size_t)size, 0))
        return SQLITE_IOERR_NOMEM;
    return v.is_cutting ? v.code : h->real->pMethods->xTruncate(h->real, size);
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 size)
{
    handle *h = get_handle(file);
    pthread_mutex_lock(&h->disk->lock);
    const int rc = truncate_locked(h, size);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int sync_locked(handle *h)
{
    fault_vfs *disk = h->disk;
    const verdict v = judge(disk, FAULT_VFS_SYNC);
    if (v.is_fault && h->node) {
        const lottery l = open_lottery(FAULT_VFS_KEEP_RANDOM, &disk->random);
        settle_node(h->node, &l);
    }
    if (v.code != SQLITE_OK)
        return v.code;

    disk->counters.syncs++;
    if (!h->node)
        return SQLITE_OK;
    const lottery l = open_lottery(FAULT_VFS_KEEP_ALL, NULL);
    settle_node(h->node, &l);
    if (get_node_now(h->entry) == h->node)
        settle_entry(h->entry);
    if (h->must_sync_directory)
        settle_directory(disk);
    h->must_sync_directory = false;
    return SQLITE_OK;
}

static int sync_file(sqlite3_file *file, int flags)
{
    handle *h = get_handle(file);
    (void)flags; /* a data-only sync still saves the size, as fdatasync does */
    pthread_mutex_lock(&h->disk->lock);
    const int rc = sync_locked(h);
    pthread_mutex_unlock(&h->disk->lock);
    return rc;
}

static int get_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    handle *h = get_handle(file);
    const int rc = judge_alone(h->disk, FAULT_VFS_FILE_SIZE);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xFileSize(h->real, size);
}

static int lock_file(sqlite3_file *file, int level)
{
    handle *h = get_handle(file);
    const int rc = judge_alone(h->disk, FAULT_VFS_LOCK);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xLock(h->real, level);
}

static int unlock_file(sqlite3_file *file, int level)
{
    handle *h = get_handle(file);
    return h->real->pMethods->xUnlock(h->real, level);
}

static int check_reserved_lock(sqlite3_file *file, int *is_reserved)
{
    handle *h = get_handle(file);
    const int rc = judge_alone(h->disk, FAULT_VFS_LOCK);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xCheckReservedLock(h->real, is_reserved);
}

static int control_file(sqlite3_file *file, int op, void *arg)
{
    handle *h = get_handle(file);
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
    handle *h = get_handle(file);
    return h->real->pMethods->xSectorSize(h->real);
}

static int get_device_characteristics(sqlite3_file *file)
{
    handle *h = get_handle(file);
    return h->real->pMethods->xDeviceCharacteristics(h->real);
}

static int map_shm(sqlite3_file *file, int page, int page_len, int extend, void volatile **out)
{
    handle *h = get_handle(file);
    const int rc = judge_alone(h->disk, FAULT_VFS_SHM);
    if (rc != SQLITE_OK) {
        *out = NULL;
        return rc;
    }
    return h->real->pMethods->xShmMap(h->real, page, page_len, extend, out);
}

static int lock_shm(sqlite3_file *file, int offset, int n, int flags)
{
    handle *h = get_handle(file);
    const bool gives_back = (flags & SQLITE_SHM_UNLOCK) != 0;
    const int rc = gives_back ? SQLITE_OK : judge_alone(h->disk, FAULT_VFS_SHM);
    return rc != SQLITE_OK ? rc : h->real->pMethods->xShmLock(h->real, offset, n, flags);
}

static void set_shm_barrier(sqlite3_file *file)
{
    handle *h = get_handle(file);
    h->real->pMethods->xShmBarrier(h->real);
}

static int unmap_shm(sqlite3_file *file, int is_last)
{
    handle *h = get_handle(file);
    return h->real->pMethods->xShmUnmap(h->real, is_last);
}

/* Version 2 has shared memory but no xFetch: SQLite then never maps a file. */
static const sqlite3_io_methods file_methods = {
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

/* --- the methods of the VFS ------------------------------------------------------------------- */

static fault_vfs *get_disk(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* The same condition as in the unix VFS, whose directory syncs are modelled. */
static bool is_new_journal(int flags)
{
    const int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    return (flags & SQLITE_OPEN_CREATE) && (flags & journals);
}

/* Open the real file and, where it is new, its node; e is NULL for a temporary file. */
static int open_entry(fault_vfs *disk, handle *h, entry *e, const char *path, int flags, int *got)
{
    node *n = e ? get_node_now(e) : NULL;
    entry_change *created = NULL;
    if (e && !n) {
        n = new_node();
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
        note_entry_change(disk, e, created);
    }
    if (n)
        n->refs++;
    h->disk = disk;
    h->node = n;
    h->entry = e;
    h->must_sync_directory = is_new_journal(flags);
    h->base.pMethods = &file_methods;
    disk->open_count++;
    return SQLITE_OK;
}

static int open_locked(fault_vfs *disk, handle *h, const char *path, int flags, int *got)
{
    const verdict v = judge(disk, FAULT_VFS_OPEN);
    if (v.code != SQLITE_OK)
        return v.code;
    if (!path || (flags & SQLITE_OPEN_DELETEONCLOSE))
        return open_entry(disk, h, NULL, path, flags, got);
    if (!get_name(disk, path))
        return SQLITE_CANTOPEN;
    entry *e = find_entry(disk, path);
    return e ? open_entry(disk, h, e, path, flags, got) : SQLITE_IOERR_NOMEM;
}

static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *got)
{
    fault_vfs *disk = get_disk(vfs);
    handle *h = get_handle(file);
    memset(h, 0, sizeof(*h));
    pthread_mutex_lock(&disk->lock);
    const int rc = open_locked(disk, h, path, flags, got);
    pthread_mutex_unlock(&disk->lock);
    return rc;
}

static int delete_locked(fault_vfs *disk, const char *path, int must_sync_directory)
{
    const verdict v = judge(disk, FAULT_VFS_DELETE);
    if (v.code != SQLITE_OK && !v.is_cutting)
        return v.code;
    if (!get_name(disk, path))
        return v.is_cutting ? v.code : disk->real->xDelete(disk->real, path, 0);

    entry *e = find_entry(disk, path);
    entry_change *deleted = calloc(1, sizeof(*deleted));
    int rc = e && deleted ? v.code : SQLITE_IOERR_NOMEM;
    if (rc == SQLITE_OK)
        rc = disk->real->xDelete(disk->real, path, 0);
    if (e && deleted && get_node_now(e) && (rc == SQLITE_OK || v.is_cutting)) {
        note_entry_change(disk, e, deleted);
        deleted = NULL;
    }
    free(deleted);
    if (rc == SQLITE_OK && (must_sync_directory & 1))
        settle_directory(disk);
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
    const int rc = judge_alone(disk, FAULT_VFS_ACCESS);
    return rc != SQLITE_OK ? rc : disk->real->xAccess(disk->real, path, flags, result);
}

/* --- what tests call -------------------------------------------------------------------------- */

fault_vfs *fault_vfs_new(const char *dir, uint64_t seed)
{
    static atomic_int made_count;

    fault_vfs *disk = calloc(1, sizeof(*disk));
    if (!disk || !realpath(dir, disk->dir))
        give_up("cannot use as a disk", dir);
    if (sqlite3_initialize() != SQLITE_OK || !(disk->real = sqlite3_vfs_find("unix")))
        give_up("no unix VFS", dir);
    snprintf(disk->name, sizeof(disk->name), "fault-%d", atomic_fetch_add(&made_count, 1) + 1);
    pthread_mutex_init(&disk->lock, NULL);
    prng_init(&disk->random, seed);
    disk->quota_len = FAULT_VFS_NO_QUOTA;

    /* The unix VFS looks at its own address in xOpen alone: its other methods serve as they are. */
    disk->base = *disk->real;
    disk->base.pNext = NULL;
    disk->base.zName = disk->name;
    disk->base.pAppData = disk;
    disk->base.szOsFile = (int)sizeof(handle) + disk->real->szOsFile;
    disk->base.xOpen = open_file;
    disk->base.xDelete = delete_file;
    disk->base.xAccess = access_file;
    if (sqlite3_vfs_register(&disk->base, 0) != SQLITE_OK)
        give_up("cannot register", disk->name);
    return disk;
}

void fault_vfs_free(fault_vfs *disk)
{
    if (!disk)
        return;
    assert(disk->open_count == 0);
    sqlite3_vfs_unregister(&disk->base);
    settle_directory(disk);
    while (disk->entries) {
        entry *gone = disk->entries;
        disk->entries = gone->next;
        unref_node(gone->durable);
        free(gone);
    }
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
    disk->fault = fault;
    disk->fault_seen = 0;
    disk->fault_hits = 0;
    pthread_mutex_unlock(&disk->lock);
}

void fault_vfs_fail_off(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->fault.nth = 0;
    pthread_mutex_unlock(&disk->lock);
}

int64_t fault_vfs_hits(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const int64_t hits = disk->fault_hits;
    pthread_mutex_unlock(&disk->lock);
    return hits;
}

fault_vfs_counters fault_vfs_count(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const fault_vfs_counters counters = disk->counters;
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
    const int64_t used_len = sum_used(disk);
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
    disk->is_cut = true;
    pthread_mutex_unlock(&disk->lock);
}

void fault_vfs_power_cut_at(fault_vfs *disk, fault_vfs_call on, int64_t nth)
{
    pthread_mutex_lock(&disk->lock);
    disk->cut_on = on;
    disk->cut_left = nth;
    pthread_mutex_unlock(&disk->lock);
}

bool fault_vfs_is_cut(fault_vfs *disk)
{
    pthread_mutex_lock(&disk->lock);
    const bool is_cut = disk->is_cut;
    pthread_mutex_unlock(&disk->lock);
    return is_cut;
}

/* --- images ----------------------------------------------------------------------------------- */

/* KEEP_PREFIX stops at one of the unsynced changes, or after the last. */
static uint64_t draw_stop(const fault_vfs *disk, prng *p)
{
    uint64_t oldest = disk->serial;
    for (const entry *e = disk->entries; e; e = e->next) {
        if (e->first && e->first->serial < oldest)
            oldest = e->first->serial;
        const node *n = get_node_now(e);
        if (n && n->first && n->first->serial < oldest)
            oldest = n->first->serial;
    }
    return oldest + prng_below(p, disk->serial - oldest + 1);
}

static node *draw_node(const entry *e, const lottery *l)
{
    node *n = e->durable;
    for (const entry_change *c = e->first; c && draw_fate(l, c->serial) == FATE_KEPT; c = c->next)
        n = c->to;
    return n;
}

static void write_image(const node *n, const lottery *l, const char *path)
{
    content c = {.len = n->durable.len};
    if (!reserve_content(&c, n->durable.room + 1))
        give_up("no memory", path);
    assert(c.bytes);
    if (n->durable.bytes)
        memcpy(c.bytes, n->durable.bytes, c.len);
    for (const change *w = n->first; w; w = w->next)
        apply_change(&c, w, draw_fate(l, w->serial), l->random);

    FILE *file = fopen(path, "wbx");
    if (!file || fwrite(c.bytes, 1, c.len, file) != c.len || fclose(file) != 0)
        give_up("cannot write", path);
    free(c.bytes);
}

/* A -wal left from another image would be taken for this one's. */
static void check_empty(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        give_up("cannot read", path);
    for (const struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            give_up("not empty", path);
    closedir(dir);
}

void fault_vfs_image(fault_vfs *disk, fault_vfs_survival survival, prng *p, const char *dir)
{
    check_empty(dir);
    pthread_mutex_lock(&disk->lock);
    assert(disk->is_cut);
    lottery l = open_lottery(survival, p);
    if (survival == FAULT_VFS_KEEP_PREFIX)
        l.torn = draw_stop(disk, p);
    for (const entry *e = disk->entries; e; e = e->next) {
        char path[PATH_MAX];
        const node *n = draw_node(e, &l);
        if (snprintf(path, sizeof(path), "%s/%s", dir, e->name) >= (int)sizeof(path))
            give_up("path too long", dir);
        if (n)
            write_image(n, &l, path);
    }
    pthread_mutex_unlock(&disk->lock);
}

int64_t fault_vfs_flip_bit(const char *path, int64_t first, int64_t len, prng *p)
{
    FILE *file = fopen(path, "r+b");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0)
        give_up("cannot open", path);
    assert(first >= 0 && len > 0 && first < st.st_size);
    if (len > st.st_size - first)
        len = st.st_size - first;

    const int64_t bit = (first * 8) + (int64_t)prng_below(p, (uint64_t)len * 8);
    unsigned char byte;
    if (fseek(file, bit / 8, SEEK_SET) != 0 || fread(&byte, 1, 1, file) != 1)
        give_up("cannot read", path);
    byte ^= (unsigned char)(1u << (bit % 8));
    if (fseek(file, bit / 8, SEEK_SET) != 0 || fwrite(&byte, 1, 1, file) != 1 || fclose(file) != 0)
        give_up("cannot write", path);
    return bit;
}
