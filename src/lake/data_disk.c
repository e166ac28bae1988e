/* Where files lie: directories are made and synced, files get their names when they are whole. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "lake/data_parts.h"
#include "lake/file_digest.h"

tide_status tide_lake_fail_errno(tide_error *err, const char *what, const char *path)
{
    const int why = errno;
    const tide_status status = why == ENOSPC || why == EDQUOT                  ? TIDE_E_FULL
                               : why == EACCES || why == EPERM || why == EROFS ? TIDE_E_DENIED
                               : why == ENOENT                                 ? TIDE_E_NOT_FOUND
                                                                               : TIDE_E_IO;
    return tide_fail(err, status, "cannot %s %s: %s", what, path, strerror(why));
}

char *tide_lake_join(tide_arena *arena, const char *dir, const char *name)
{
    const size_t dir_len = strlen(dir);
    const size_t name_len = strlen(name);
    char *path = tide_arena_alloc(arena, dir_len + name_len + 1);
    if (!path)
        return NULL;
    memcpy(path, dir, dir_len);
    memcpy(path + dir_len, name, name_len + 1);
    return path;
}

char *tide_lake_whole_path(tide_arena *arena, const tide_lake_data *data, const char *path)
{
    return tide_lake_join(arena, path[0] == '/' ? "" : data->data_dir, path);
}

static tide_status sync_path(const char *path, int flags, tide_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return tide_lake_fail_errno(err, "open", path);
    const int result = fsync(fd);
    const tide_status status = result != 0 ? tide_lake_fail_errno(err, "sync", path) : TIDE_OK;
    (void)close(fd);
    return status;
}

static tide_status table_directory(const tide_lake_data *data, const tide_lake_object *table,
                                   char out[PATH_MAX], tide_error *err)
{
    const bool is_whole = table->path[0] == '/';
    const int len = snprintf(out, PATH_MAX, "%s%s", is_whole ? "" : data->data_dir, table->path);
    if (len < 2 || len >= PATH_MAX - 64 || out[len - 1] != '/')
        return tide_fail(err, TIDE_E_INVALID, "the directory of table %s cannot be used: %s",
                         table->name, table->path);
    return TIDE_OK;
}

/* Call for every directory on the way to path, which ends in a slash, without the root. */
static tide_status each_directory(const char *path,
                                  tide_status (*visit)(const char *, tide_error *), tide_error *err)
{
    char part[PATH_MAX];
    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TIDE_TRY(visit(part, err));
        *slash = '/';
    }
    return TIDE_OK;
}

static tide_status make_one(const char *path, tide_error *err)
{
    struct stat there;
    if (stat(path, &there) == 0 || mkdir(path, 0700) == 0 || errno == EEXIST)
        return TIDE_OK;
    return tide_lake_fail_errno(err, "make the directory", path);
}

static tide_status sync_one(const char *path, tide_error *err)
{
    return sync_path(path, O_DIRECTORY, err);
}

/* Sync what holds the table's directory, from the data directory down: who made it may have died before it could. Once per table and handle. */
static tide_status sync_way(tide_lake_data *data, const char *dir, tide_error *err)
{
    if (data->synced_dir && strcmp(data->synced_dir, dir) == 0)
        return TIDE_OK;
    char way[PATH_MAX];
    (void)snprintf(way, sizeof way, "%s", dir);
    const size_t base = strlen(data->data_dir);
    const bool is_below = strncmp(dir, data->data_dir, base) == 0;
    for (char *slash = way + strlen(way) - 1; slash > way;) {
        *slash = '\0';
        slash = strrchr(way, '/'); /* the parent of what was cut off */
        if (!slash || (is_below && (size_t)(slash - way) + 1 < base))
            break;
        slash[1] = '\0';
        TIDE_TRY(sync_one(way, err));
    }
    char *synced = strdup(dir);
    TIDE_NEED_MEMORY(synced, err);
    free(data->synced_dir);
    data->synced_dir = synced;
    return TIDE_OK;
}

tide_status tide_lake_stage_make(tide_lake_data *data, const tide_lake_object *table, char *path,
                                 tide_error *err)
{
    char dir[PATH_MAX];
    path[0] = '\0';
    TIDE_TRY(table_directory(data, table, dir, err));
    TIDE_TRY(each_directory(dir, make_one, err));
    TIDE_TRY(sync_way(data, dir, err));
    tide_uuid uuid;
    char name[TIDE_UUID_TEXT_SIZE];
    tide_uuid_v4(data->env, &uuid);
    tide_uuid_format(&uuid, name);
    char fresh[PATH_MAX];
    if (snprintf(fresh, sizeof fresh, "%s%s.new", dir, name) >= PATH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "the path %s is too long", dir);
    if (mkdir(fresh, 0700) != 0)
        return tide_lake_fail_errno(err, "make the directory", fresh);
    (void)snprintf(path, PATH_MAX, "%s", fresh);
    return TIDE_OK;
}

static int remove_one(const char *path, const struct stat *there, int kind, struct FTW *where)
{
    (void)there;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void tide_lake_stage_remove(const char *path)
{
    if (*path)
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

tide_status tide_lake_place(const tide_lake_data *data, const tide_lake_object *table,
                            tide_lake_new_file *file, tide_arena *memory, tide_error *err)
{
    const char *from = file->path;
    char dir[PATH_MAX];
    char to[PATH_MAX];
    char sha256[TIDE_SHA256_TEXT_SIZE];
    TIDE_TRY(table_directory(data, table, dir, err));
    TIDE_TRY(sync_path(from, 0, err));
    TIDE_TRY(tide_lake_file_sha256(sha256, from, err));
    file->sha256 = tide_arena_text(memory, tide_view_of(sha256));
    TIDE_NEED_MEMORY(file->sha256, err);
    if (snprintf(to, sizeof to, "%s%s", dir, strrchr(from, '/') + 1) >= PATH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "the path %s is too long", dir);
    if (rename(from, to) != 0)
        return tide_lake_fail_errno(err, "name the file", to);
    file->path = strrchr(from, '/') + 1;
    return TIDE_OK;
}

tide_status tide_lake_sync_table(const tide_lake_data *data, const tide_lake_object *table,
                                 tide_error *err)
{
    char dir[PATH_MAX];
    TIDE_TRY(table_directory(data, table, dir, err));
    return sync_path(dir, O_DIRECTORY, err);
}

void tide_lake_unlink(const tide_lake_data *data, const tide_lake_object *table, const char *path)
{
    char dir[PATH_MAX];
    char whole[PATH_MAX];
    if (table_directory(data, table, dir, NULL) == TIDE_OK &&
        snprintf(whole, sizeof whole, "%s%s", dir, path) < PATH_MAX)
        (void)unlink(whole);
}
