/* reserve.c - room for receipts on a disk that is full.
 *
 * A store writes ahead: on a full disk not even a row that would fit into the file's free pages can be written, because the
 * log has to grow first, and not even the log can be emptied, because the file has to grow for that. So a file of zeros lies
 * beside the store, and is cut to nothing when a receipt, or a transaction that makes room, meets a full disk. It is made by
 * the first step of retention and removed with the feed; one that a killed process left behind is taken over.
 *
 * Where a reserve is not shorter than the log, the log can always be emptied with its help, and gives back at least what that took:
 * so it is made again before anybody else writes (tide_reserve_is_lent). On a disk that has not room for all of it, a half
 * of it is made, or a half of that: what is left for the log is then shorter still.
 *
 * It is written through the store's own VFS, as everything that shares the store's disk. */
#include "feed/parts.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/sqlite/sqlite_engine.h"

enum {
    CHUNK = 65536,
    PART = 8 * CHUNK, /* what one shrinking gives back */
    LEN_MIN = 4 * CHUNK,
};

static const int64_t retry_us = INT64_C(60) * 1000000;

struct tide_reserve {
    tide_store *store;
    sqlite3_vfs *vfs;
    int64_t len;
    _Atomic int64_t held; /* bytes of the file */
    _Atomic int64_t aim;  /* what is made again: as much as the disk had room for at first */
    atomic_bool is_lent;  /* given back to a full disk, and not yet made again */
    _Atomic int64_t lent_until_us; /* monotonic */
    _Atomic int64_t next_try_us;   /* monotonic */
    char path[];
};

static sqlite3_file *open_file(tide_reserve *reserve, int more_flags)
{
    sqlite3_file *file = calloc(1, (size_t)reserve->vfs->szOsFile);
    int flags = SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_READWRITE | more_flags;
    if (file &&
        reserve->vfs->xOpen(reserve->vfs, reserve->path, file, flags, &flags) != SQLITE_OK) {
        free(file);
        return NULL;
    }
    return file;
}

static void close_file(sqlite3_file *file)
{
    if (file->pMethods)
        (void)file->pMethods->xClose(file);
    free(file);
}

/* What a killed process left behind is there when the disk is full now. */
static void take_over(tide_reserve *reserve)
{
    sqlite3_int64 len = 0;
    int is_there = 0;
    if (reserve->vfs->xAccess(reserve->vfs, reserve->path, SQLITE_ACCESS_EXISTS, &is_there) !=
            SQLITE_OK ||
        !is_there)
        return;
    sqlite3_file *file = open_file(reserve, 0);
    if (!file)
        return;
    if (file->pMethods->xFileSize(file, &len) == SQLITE_OK)
        atomic_store(&reserve->held, len < reserve->len ? len : reserve->len);
    atomic_store(&reserve->aim, atomic_load(&reserve->held));
    close_file(file);
}

void tide_reserve_open(tide_reserve **out, tide_store *store, int64_t len)
{
    static const char SUFFIX[] = "-reserve";
    *out = NULL;
    const tide_sqlite_engine *engine = store->engine;
    sqlite3_vfs *vfs = sqlite3_vfs_find(store->options.sqlite_vfs);
    if (!vfs || store->options.mode == TIDE_STORE_AS_IS)
        return;
    /* SQLite wants two terminators behind a name. */
    const size_t size = strlen(engine->path) + sizeof SUFFIX + 1;
    tide_reserve *reserve = calloc(1, sizeof *reserve + size);
    if (!reserve)
        return;
    reserve->store = store;
    reserve->vfs = vfs;
    reserve->len = len;
    (void)snprintf(reserve->path, size, "%s%s", engine->path, SUFFIX);
    take_over(reserve);
    *out = reserve;
}

static bool fill_file(sqlite3_file *file, int64_t len)
{
    sqlite3_int64 at = 0;
    if (file->pMethods->xFileSize(file, &at) != SQLITE_OK)
        return false;
    TIDE_CLEANUP(tide_freep) char *zeros = calloc(1, CHUNK);
    int code = zeros ? SQLITE_OK : SQLITE_NOMEM;
    while (code == SQLITE_OK && at < len) {
        const int part = len - at < CHUNK ? (int)(len - at) : CHUNK;
        code = file->pMethods->xWrite(file, zeros, part, at);
        at += part;
    }
    if (code == SQLITE_OK)
        code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    return code == SQLITE_OK;
}

/* All of it, or a half, or a half of that. What was held before is not given up for more. */
static int64_t fill_afresh(sqlite3_file *file, int64_t len, int64_t held)
{
    for (; len >= LEN_MIN && len > held; len /= 2) {
        if (fill_file(file, len))
            return len;
        (void)file->pMethods->xTruncate(file, held);
    }
    return held;
}

/* As much of it as the disk has. */
static int64_t fill_up(sqlite3_file *file, int64_t len)
{
    sqlite3_int64 filled = 0;
    if (fill_file(file, len))
        return len;
    if (file->pMethods->xFileSize(file, &filled) != SQLITE_OK)
        return 0;
    filled -= filled % CHUNK;
    return file->pMethods->xTruncate(file, filled) == SQLITE_OK ? filled : 0;
}

/* Commits wait until there is as much as before. If it cannot be had for long, others have taken it: then less has to do. */
static void fill_again(tide_reserve *reserve, sqlite3_file *file, int64_t now_us)
{
    const int64_t aim = atomic_load(&reserve->aim);
    const int64_t held = fill_up(file, aim);
    atomic_store(&reserve->held, held);
    if (held >= aim || now_us >= atomic_load(&reserve->lent_until_us)) {
        atomic_store(&reserve->aim, held);
        atomic_store(&reserve->is_lent, false);
    }
}

void tide_reserve_restore(tide_reserve *reserve)
{
    if (!reserve || atomic_load(&reserve->held) == reserve->len)
        return;
    tide_env *env = tide_store_env(reserve->store);
    const int64_t now_us = env->mono_us(env);
    const int64_t held = atomic_load(&reserve->held);
    const bool is_short = atomic_load(&reserve->is_lent) || held < atomic_load(&reserve->aim);
    if (!is_short && now_us < atomic_load(&reserve->next_try_us))
        return;
    atomic_store(&reserve->next_try_us, now_us + retry_us);
    sqlite3_file *file = open_file(reserve, SQLITE_OPEN_CREATE);
    if (!file)
        return;
    if (is_short) {
        fill_again(reserve, file, now_us);
    } else {
        atomic_store(&reserve->held, fill_afresh(file, reserve->len, held));
        atomic_store(&reserve->aim, atomic_load(&reserve->held));
    }
    close_file(file);
}

bool tide_reserve_is_lent(const tide_reserve *reserve)
{
    return reserve && atomic_load(&reserve->is_lent);
}

/* Cut the file to len. */
static bool cut(tide_reserve *reserve, int64_t len)
{
    tide_env *env = tide_store_env(reserve->store);
    atomic_store(&reserve->next_try_us, env->mono_us(env) + retry_us);
    sqlite3_file *file = open_file(reserve, SQLITE_OPEN_CREATE);
    if (!file)
        return false;
    const bool is_given = file->pMethods->xTruncate(file, len) == SQLITE_OK;
    close_file(file);
    return is_given;
}

int64_t tide_reserve_release(tide_reserve *reserve)
{
    const int64_t held = reserve ? atomic_exchange(&reserve->held, 0) : 0;
    if (held <= 0)
        return 0;
    tide_env *env = tide_store_env(reserve->store);
    if (!atomic_exchange(&reserve->is_lent, true))
        atomic_store(&reserve->lent_until_us, env->mono_us(env) + retry_us);
    return cut(reserve, 0) ? held : 0;
}

bool tide_reserve_shrink(tide_reserve *reserve)
{
    if (!reserve)
        return false;
    int64_t held = atomic_load(&reserve->held);
    do
        if (held - PART < atomic_load(&reserve->aim) / 4)
            return false;
    while (!atomic_compare_exchange_weak(&reserve->held, &held, held - PART));
    return cut(reserve, held - PART);
}

void tide_reserve_close(tide_reserve *reserve)
{
    if (!reserve)
        return;
    if (atomic_load(&reserve->held) > 0)
        (void)reserve->vfs->xDelete(reserve->vfs, reserve->path, 0);
    free(reserve);
}
