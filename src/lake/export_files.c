/* export_files.c - see export_files.h. */
#include "lake/export_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "store/sql_template.h"
#include "tidemark_lake_sql.h"

enum { SCRIPT_MAX = 16 << 10, COPY_MAX = 1 << 30 };

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static tide_status sync_directory(const char *path, tide_error *err)
{
    TIDE_CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return tide_lake_fail_errno(err, "sync", path);
    return TIDE_OK;
}

/* Make the directories on the way to a file, and sync the ones above those that are new. */
static tide_status make_way(const char *path, tide_error *err)
{
    char part[PATH_MAX];
    char above[PATH_MAX] = "/";
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) == 0)
            TIDE_TRY(sync_directory(above, err));
        else if (errno != EEXIST)
            return tide_lake_fail_errno(err, "make", part);
        memcpy(above, part, strlen(part) + 1);
        *slash = '/';
    }
    return TIDE_OK;
}

tide_status tide_lake_export_directory(const char *data_dir, bool is_forced, bool *is_empty,
                                       tide_error *err)
{
    TIDE_TRY(make_way(data_dir, err));
    DIR *dir = opendir(data_dir);
    if (!dir)
        return tide_lake_fail_errno(err, "open", data_dir);
    *is_empty = true;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        *is_empty =
            *is_empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    (void)closedir(dir);
    if (*is_empty || is_forced)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_EXISTS,
                     "directory %s is not empty: name another one with --data, or take it over "
                     "with --force",
                     data_dir);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

void tide_lake_export_undo(const char *data_dir)
{
    enum { OPEN_MAX_FDS = 16 };
    (void)nftw(data_dir, remove_one, OPEN_MAX_FDS, FTW_DEPTH | FTW_PHYS);
}

static tide_status copy_bytes(int from, int to, const char *target, tide_error *err)
{
    for (;;) {
        const ssize_t sent = sendfile(to, from, NULL, COPY_MAX);
        if (sent == 0)
            break;
        if (sent < 0 && errno != EINTR)
            return tide_lake_fail_errno(err, "write", target);
    }
    return fsync(to) == 0 ? TIDE_OK : tide_lake_fail_errno(err, "sync", target);
}

static tide_status copy_file(const char *source, const char *target, tide_error *err)
{
    TIDE_CLEANUP(close_fd) int from = open(source, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return tide_lake_fail_errno(err, "open", source);
    TIDE_CLEANUP(close_fd)
    int to = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to < 0)
        return tide_lake_fail_errno(err, "write", target);
    return copy_bytes(from, to, target, err);
}

/* Parquet files do not change, so two names of one do no harm; removing one leaves the other. */
static tide_status place_file(const char *source, const char *target, tide_error *err)
{
    TIDE_TRY(make_way(target, err));
    if (unlink(target) != 0 && errno != ENOENT) /* of an export that died */
        return tide_lake_fail_errno(err, "replace", target);
    if (link(source, target) != 0) {
        if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP)
            return tide_lake_fail_errno(err, "link", source);
        TIDE_TRY(copy_file(source, target, err));
    }
    char copy[PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", target);
    return sync_directory(dirname(copy), err);
}

static tide_status place_row(tide_foreign_query *query, const char *source_dir,
                             const char *data_dir, tide_error *err)
{
    char source[PATH_MAX];
    char target[PATH_MAX];
    const tide_view from = tide_foreign_col_bytes(query);
    const bool is_whole = from.len > 0 && *(const char *)from.ptr == '/';
    const int source_len = snprintf(source, sizeof source, "%s%.*s", is_whole ? "" : source_dir,
                                    (int)from.len, (const char *)from.ptr);
    const tide_view to = tide_foreign_col_bytes(query);
    const int target_len =
        snprintf(target, sizeof target, "%s%.*s", data_dir, (int)to.len, (const char *)to.ptr);
    if (source_len >= PATH_MAX || target_len >= PATH_MAX || strstr(target, "/../"))
        return tide_fail(err, TIDE_E_INVALID, "the path of a data file cannot be used: %.200s",
                         source);
    return place_file(source, target, err);
}

static tide_status fill(tide_buffer *out, const tide_template *text, tide_error *err)
{
    const tide_template_context nothing = {.flags = ""};
    return tide_template_fill(out, text, &nothing, err);
}

static tide_status place_rows(tide_foreign_tx *file, const char *source_dir, const char *data_dir,
                              int64_t *count, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(SCRIPT_MAX);
    TIDE_TRY(fill(&text, TIDE_TEMPLATE_LAKE_FILE_PLACES, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, file, tide_buffer_text(&text), err);
    TIDE_EACH(tide_foreign_step(query, err)) {
        TIDE_TRY(place_row(query, source_dir, data_dir, err));
        ++*count;
    }
    return TIDE_OK;
}

tide_status tide_lake_export_files(tide_foreign_tx *file, const char *source_dir,
                                   const char *data_dir, int64_t *count, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer owns = tide_buffer_of(SCRIPT_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer directory = tide_buffer_of(SCRIPT_MAX);
    *count = 0;
    TIDE_TRY(place_rows(file, source_dir, data_dir, count, err));
    TIDE_TRY(fill(&owns, TIDE_TEMPLATE_LAKE_FILE_OWNS, err));
    TIDE_TRY(tide_foreign_script(file, tide_buffer_text(&owns), err));
    TIDE_TRY(fill(&directory, TIDE_TEMPLATE_LAKE_FILE_DIRECTORY, err));
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_begin, file, tide_buffer_text(&directory), err);
    const tide_sql_value path = {.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(data_dir)};
    tide_foreign_bind_at(query, 1, path);
    return tide_foreign_run(query, NULL, err);
}
