/* reserve.c - room for receipts on a disk that is full.
 *
 * A store writes ahead: on a full disk not even a row that would fit into the file's free pages can be written, because the
 * log has to grow first. So a file of zeros lies beside the store, and is cut to nothing when a receipt, or a transaction
 * that makes room, meets a full disk. It is made by the first step of retention and removed with the feed; one that a killed
 * process left behind is taken over.
 *
 * It is written through the store's own VFS, as everything that shares the store's disk. */
#include "feed/parts.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/sqlite_engine.h"

enum {
    CHUNK = 65536,
    PART = 8 * CHUNK, /* what one shrinking gives back */
};

static const int64_t retry_us = INT64_C(60) * 1000000;

struct tide_reserve {
    tide_store *store;
    sqlite3_vfs *vfs;
    int64_t len;
    _Atomic int64_t held;        /* bytes of the file */
    _Atomic int64_t next_try_us; /* monotonic */
    char path[];
};

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
    *out = reserve;
}

static sqlite3_file *open_file(tide_reserve *reserve)
{
    sqlite3_file *file = calloc(1, (size_t)reserve->vfs->szOsFile);
    int flags = SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
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

void tide_reserve_restore(tide_reserve *reserve)
{
    if (!reserve || atomic_load(&reserve->held) == reserve->len)
        return;
    tide_env *env = tide_store_env(reserve->store);
    if (env->mono_us(env) < atomic_load(&reserve->next_try_us))
        return;
    atomic_store(&reserve->next_try_us, env->mono_us(env) + retry_us);
    sqlite3_file *file = open_file(reserve);
    if (!file)
        return;
    const bool is_filled = fill_file(file, reserve->len);
    if (!is_filled)
        (void)file->pMethods->xTruncate(file, 0);
    close_file(file);
    atomic_store(&reserve->held, is_filled ? reserve->len : 0);
}

/* Cut the file to len. */
static bool cut(tide_reserve *reserve, int64_t len)
{
    tide_env *env = tide_store_env(reserve->store);
    atomic_store(&reserve->next_try_us, env->mono_us(env) + retry_us);
    sqlite3_file *file = open_file(reserve);
    if (!file)
        return false;
    const bool is_given = file->pMethods->xTruncate(file, len) == SQLITE_OK;
    close_file(file);
    return is_given;
}

bool tide_reserve_release(tide_reserve *reserve)
{
    return reserve && atomic_exchange(&reserve->held, 0) > 0 && cut(reserve, 0);
}

bool tide_reserve_shrink(tide_reserve *reserve)
{
    if (!reserve)
        return false;
    int64_t held = atomic_load(&reserve->held);
    do
        if (held - PART < reserve->len / 4)
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

tide_status tide_feed_write_firmly(tide_feed *feed, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const tide_status status = tide_write(feed->store, fn, arg, err);
    /* A disk without a byte left cannot even tell that nothing was written. What comes here may run twice: it goes by numbers. */
    const bool may_be_full = status == TIDE_E_FULL || status == TIDE_E_OUTCOME_UNKNOWN;
    if (may_be_full && tide_reserve_release(feed->reserve))
        return tide_write(feed->store, fn, arg, err);
    return status;
}
