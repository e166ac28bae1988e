/* disk.c - the machine's disk, for expire.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/data.h"
#include "lake/expire.h"
#include "lake/owner.h"

enum { DEPTH_MAX = 64 }; /* of directories below the data directory */

static tide_status fail_errno(tide_error *err, const char *verb, const char *path)
{
    const int code = errno;
    return tide_fail(err, code == EACCES || code == EPERM ? TIDE_E_DENIED : TIDE_E_IO,
                     "cannot %s %s: %s", verb, path, strerror(code));
}

/* The directory of a writer that died goes with the last of its files. */
static void remove_stage(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t end_len = strlen(TIDE_LAKE_STAGE);
    const size_t len = slash ? (size_t)(slash - path) : 0;
    if (len <= end_len || len >= sizeof dir ||
        memcmp(path + len - end_len, TIDE_LAKE_STAGE, end_len) != 0)
        return;
    memcpy(dir, path, len);
    dir[len] = '\0';
    (void)rmdir(dir);
}

static tide_status remove_file(void *context, const char *path, int64_t *bytes, tide_error *err)
{
    (void)context;
    struct stat info;
    *bytes = 0;
    if (lstat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TIDE_NONE : fail_errno(err, "look at", path);
    if (S_ISDIR(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is a directory, not a data file", path);
    if (unlink(path) != 0)
        return errno == ENOENT ? TIDE_NONE : fail_errno(err, "remove", path);
    *bytes = info.st_size;
    remove_stage(path);
    return TIDE_OK;
}

typedef struct walk {
    char path[PATH_MAX]; /* relative to where it began */
    size_t len;
    tide_lake_disk_fn *fn;
    void *arg;
} walk;

static void close_dirp(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

static tide_status walk_dir(walk *w, int fd, int depth, tide_error *err);

/* What vanishes while it is looked at is somebody else's doing, and fine. */
static tide_status walk_entry(walk *w, int fd, const char *name, int depth, tide_error *err)
{
    struct stat info;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "look at", w->path);
    if (S_ISREG(info.st_mode)) {
        const int64_t changed_at_us =
            (int64_t)info.st_mtim.tv_sec * 1000000 + info.st_mtim.tv_nsec / 1000;
        const tide_lake_disk_file file = {w->path, info.st_size, changed_at_us};
        return w->fn(w->arg, &file, err);
    }
    if (!S_ISDIR(info.st_mode))
        return TIDE_OK;
    if (depth == DEPTH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%s: directories nest more than %d deep", w->path,
                         DEPTH_MAX);
    const int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "open", w->path);
    return walk_dir(w, inner, depth + 1, err);
}

/* Takes fd over. */
static tide_status walk_dir(walk *w, int fd, int depth, tide_error *err)
{
    TIDE_CLEANUP(close_dirp) DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return fail_errno(err, "read", w->path);
    }
    const size_t len = w->len;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno == 0 ? TIDE_OK : fail_errno(err, "read", w->path);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (depth == 0 && (strcmp(entry->d_name, TIDE_LAKE_EXPORTS) == 0 ||
                            strcmp(entry->d_name, TIDE_LAKE_OWNER_FILE) == 0)))
            continue;
        const int added = snprintf(w->path + len, sizeof w->path - len, "%s%s", len > 0 ? "/" : "",
                                   entry->d_name);
        if ((size_t)added >= sizeof w->path - len)
            return tide_fail(err, TIDE_E_LIMIT, "a path below %.*s is too long", (int)len, w->path);
        w->len = len + (size_t)added;
        TIDE_TRY(walk_entry(w, dirfd(dir), entry->d_name, depth, err));
        w->len = len;
        w->path[len] = '\0';
    }
}

static tide_status walk_files(void *context, const char *dir, tide_lake_disk_fn *fn, void *arg,
                              tide_error *err)
{
    (void)context;
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? TIDE_OK : fail_errno(err, "open", dir);
    walk w = {.fn = fn, .arg = arg};
    return walk_dir(&w, fd, 0, err);
}

const tide_lake_disk *tide_lake_disk_system(void)
{
    static const tide_lake_disk disk = {.remove = remove_file, .walk = walk_files};
    return &disk;
}
