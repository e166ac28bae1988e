#include "lake/file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "lake/data_parts.h"
#include "lake/state.h"
#include "lake/state_row.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

enum { PIECE_LEN = 256 << 10, SEEN_MAX = 1 << 16, PAGE = 200 };

/* ---- one file ---- */

tide_status tide_lake_file_sha256(char out[TIDE_SHA256_TEXT_SIZE], const char *path,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_file_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return tide_lake_fail_errno(err, "open", path);
    TIDE_CLEANUP(tide_freep) char *piece = malloc(PIECE_LEN);
    TIDE_NEED_MEMORY(piece, err);
    TIDE_CLEANUP(tide_sha256_done) tide_sha256 sha = {0};
    TIDE_TRY(tide_sha256_init(&sha, err));
    for (ssize_t len; (len = read(fd, piece, PIECE_LEN)) != 0;) {
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return tide_lake_fail_errno(err, "read", path);
        TIDE_TRY(tide_sha256_add(&sha, tide_view_bytes(piece, (size_t)len), err));
    }
    uint8_t bytes[TIDE_SHA256_LEN];
    TIDE_TRY(tide_sha256_finish(&sha, bytes, err));
    tide_hex_encode(out, bytes, sizeof bytes);
    return TIDE_OK;
}

/* ---- the first read ---- */

/* Open addressing without a lock: at most half of the places are taken, or it begins again. An id that two threads meet at once, or
 * that is forgotten meanwhile, is compared once more. */
struct tide_lake_seen_files {
    atomic_int count;
    atomic_int_fast64_t ids[2 * SEEN_MAX]; /* 0: free */
};

tide_status tide_lake_seen_files_new(tide_lake_seen_files **out, tide_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? TIDE_OK : tide_no_memory(err);
}

void tide_lake_seen_files_free(tide_lake_seen_files *seen)
{
    free(seen);
}

/* Its place, or a free one. */
static atomic_int_fast64_t *find_place(tide_lake_seen_files *seen, int64_t id)
{
    size_t at = (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 47);
    for (int64_t there; (there = atomic_load(&seen->ids[at])) != 0 && there != id;)
        at = (at + 1) % (2 * SEEN_MAX);
    return &seen->ids[at];
}

static void remember(tide_lake_seen_files *seen, int64_t id)
{
    if (atomic_fetch_add(&seen->count, 1) >= SEEN_MAX) {
        for (size_t i = 0; i < 2 * SEEN_MAX; i++)
            atomic_store(&seen->ids[i], 0);
        atomic_store(&seen->count, 1);
    }
    atomic_store(find_place(seen, id), id);
}

tide_status tide_lake_seen_files_check(tide_lake_seen_files *seen, int64_t file_id,
                                       const char *path, const char *sha256, tide_error *err)
{
    struct stat info;
    char found[TIDE_SHA256_TEXT_SIZE];
    if (!sha256 || !*sha256 || atomic_load(find_place(seen, file_id)) == file_id ||
        stat(path, &info) != 0 || info.st_size > TIDE_LAKE_CHECK_LEN)
        return TIDE_OK;
    TIDE_TRY(tide_lake_file_sha256(found, path, err));
    if (strcmp(found, sha256) != 0)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "the data file %s is not what was written: restore it from a backup "
                         "(tidemark lake verify --files lists all that are damaged)",
                         path);
    remember(seen, file_id);
    return TIDE_OK;
}

/* ---- all files ---- */

typedef struct stored_file {
    int64_t id;
    char path[2 * TIDE_LAKE_PATH_MAX + TIDE_LAKE_TEXT_SIZE];
    char sha256[TIDE_SHA256_TEXT_SIZE]; /* "": none */
    bool is_elsewhere;                  /* not on a disk of this machine */
} stored_file;

typedef struct walk {
    tide_lake *lake;
    const char *catalog;
    int64_t after;
    int count;
    stored_file files[PAGE];
} walk;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    walk *w = arg;
    const char *dir = tide_lake_data_dir(w->lake);
    tide_lake_catalog catalog = {.catalog_id = 0};
    int64_t tables[PAGE] = {0};
    char relative[PAGE] = {0};
    w->count = 0;
    if (w->catalog)
        TIDE_TRY(tide_lake_find_catalog(tx, w->catalog, &catalog, err));
    {
        TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_FILE_PAGE, err, tide_bind_i64("after", w->after),
                   tide_bind_i64("catalog_id", catalog.catalog_id), tide_bind_i64("limit", PAGE));
        TIDE_EACH(tide_query_step(query, err)) {
            stored_file *file = &w->files[w->count];
            file->id = tide_query_col_i64(query);
            tables[w->count] = tide_query_col_i64(query);
            tide_view_copy(file->path, sizeof file->path, tide_query_col_text(query));
            relative[w->count] = tide_query_col_bool(query);
            (void)tide_query_col_i64(query); /* its length */
            tide_view_copy(file->sha256, sizeof file->sha256, tide_query_col_text(query));
            w->count++;
        }
    }
    for (int i = 0; i < w->count; i++) {
        stored_file *file = &w->files[i];
        char table_path[TIDE_LAKE_TEXT_SIZE] = "";
        char name[TIDE_LAKE_PATH_MAX + 1];
        (void)snprintf(name, sizeof name, "%s", file->path);
        if (relative[i])
            TIDE_TRY(tide_lake_table_path(tx, tables[i], table_path, err));
        file->is_elsewhere = strstr(relative[i] ? table_path : name, "://");
        const bool is_whole = (relative[i] ? table_path : name)[0] == '/' || file->is_elsewhere;
        (void)snprintf(file->path, sizeof file->path, "%s%s%s", is_whole ? "" : dir, table_path,
                       name);
    }
    return TIDE_OK;
}

static tide_status record(tide_lake *lake, const stored_file *file, tide_error *err)
{
    return tide_store_exec(tide_lake_store(lake), TIDE_LAKE_SQL_LAKE_RECORD_FILE_DIGEST, NULL, err,
                           tide_bind_i64("id", file->id), tide_bind_text("sha256", file->sha256));
}

static void report(tide_lake_finding_fn *fn, void *arg, const stored_file *file, const char *why)
{
    char words[sizeof file->path + 128];
    (void)snprintf(words, sizeof words, "file %" PRId64 ", %s: %s", file->id, file->path, why);
    if (fn)
        fn(arg, &(tide_lake_finding){.rule = "digest", .words = words});
}

static tide_status verify_one(tide_lake *lake, stored_file *file, bool is_recording,
                              tide_lake_finding_fn *fn, void *arg, tide_lake_files_checked *out,
                              tide_error *err)
{
    char found[TIDE_SHA256_TEXT_SIZE];
    tide_error why = {0};
    if (file->is_elsewhere || (!*file->sha256 && !is_recording)) {
        out->unchecked++;
        return TIDE_OK;
    }
    const tide_status status = tide_lake_file_sha256(found, file->path, &why);
    if (status < TIDE_OK) {
        out->damaged++;
        report(fn, arg, file, why.text);
        return TIDE_OK;
    }
    if (!*file->sha256) {
        out->recorded++;
        memcpy(file->sha256, found, sizeof found);
        TIDE_TRY(record(lake, file, err));
    }
    out->checked++;
    if (strcmp(found, file->sha256) == 0)
        return TIDE_OK;
    out->damaged++;
    report(fn, arg, file, "not what was written; restore it from a backup");
    return TIDE_OK;
}

tide_status tide_lake_verify_files(tide_lake *lake, const char *catalog, bool is_recording,
                                   tide_lake_finding_fn *fn, void *arg,
                                   tide_lake_files_checked *out, tide_error *err)
{
    *out = (tide_lake_files_checked){0};
    TIDE_CLEANUP(tide_freep) TIDE_NEW(walk, w, err);
    w->lake = lake;
    w->catalog = catalog;
    do {
        TIDE_TRY(tide_store_read_local(tide_lake_store(lake), read_page, w, err));
        for (int i = 0; i < w->count; i++)
            TIDE_TRY(verify_one(lake, &w->files[i], is_recording, fn, arg, out, err));
        if (w->count > 0)
            w->after = w->files[w->count - 1].id;
    } while (w->count == PAGE);
    return out->damaged == 0 ? TIDE_OK
                             : tide_fail(err, TIDE_E_DAMAGED,
                                         "%" PRId64 " files are damaged or gone", out->damaged);
}
