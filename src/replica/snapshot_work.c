/* snapshot_work.c - files and directories of snapshots: see snapshot.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replica/snapshot_parts.h"

tide_status tide_snapshot_tell(const tide_snapshot_watch *watch, const char *what, int64_t done,
                               int64_t total, tide_error *err)
{
    if (!watch)
        return TIDE_OK;
    if (watch->is_over && watch->is_over(watch->arg))
        return tide_fail(err, TIDE_E_INTERRUPTED, "the snapshot was interrupted: nothing is left");
    if (watch->progress)
        watch->progress(watch->arg, what, done, total);
    return TIDE_OK;
}

static tide_status fail_errno(const char *what, const char *path, tide_error *err)
{
    const int code = errno;
    const tide_status status = code == ENOSPC || code == EDQUOT    ? TIDE_E_FULL
                               : code == EACCES || code == EPERM   ? TIDE_E_DENIED
                               : code == ENOENT || code == ENOTDIR ? TIDE_E_NOT_FOUND
                               : code == EEXIST                    ? TIDE_E_EXISTS
                                                                   : TIDE_E_IO;
    return tide_fail(err, status, "%s %s: %s", what, path, strerror(code));
}

/* ---- the place of work ---- */

/* A directory that has this file is ours to empty; it comes first and goes last. */
#define MARKER ".tidemark-snapshot"

static DIR *open_listing(int fd)
{
    const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir && copy >= 0)
        (void)close(copy);
    return dir;
}

static bool is_file_of_work(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
           strcmp(entry->d_name, MARKER) != 0;
}

/* Only files lie there: one level. */
static void empty_directory(int fd)
{
    DIR *dir = open_listing(fd);
    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (is_file_of_work(entry))
            (void)unlinkat(fd, entry->d_name, 0);
    (void)closedir(dir);
}

/* Somebody else's, if there is something in it that we have not marked. */
static bool is_foreign(int fd)
{
    if (faccessat(fd, MARKER, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    DIR *dir = open_listing(fd);
    bool is_any = !dir;
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        is_any = is_any || is_file_of_work(entry);
    if (dir)
        (void)closedir(dir);
    return is_any;
}

/* The directory is locked: make it ours, and empty. */
static tide_status take_directory(int fd, const char *path, tide_error *err)
{
    if (is_foreign(fd))
        return tide_fail(err, TIDE_E_EXISTS,
                         "the work needs the directory %s, which is there with files of others: "
                         "move it away, or give another name",
                         path);
    const int marker = openat(fd, MARKER, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (marker < 0)
        return fail_errno("cannot write to", path, err);
    (void)close(marker);
    empty_directory(fd);
    return TIDE_OK;
}

/* Whoever ended meanwhile has removed the directory that we have just locked: is ours still the one that has the name? */
static bool has_name(int fd, const char *dir)
{
    struct stat open_one;
    struct stat named;
    return fstat(fd, &open_one) == 0 && stat(dir, &named) == 0 && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

tide_status tide_snapshot_work_begin(tide_snapshot_work *work, const char *path, const char *suffix,
                                     tide_error *err)
{
    enum { TRIES = 10 };
    *work = (tide_snapshot_work){.fd = -1};
    if ((size_t)snprintf(work->dir, sizeof work->dir, "%s%s", path, suffix) >=
        sizeof work->dir - 64) {
        work->dir[0] = '\0';
        return tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", path);
    }
    for (int i = 0; i < TRIES; i++) {
        if (mkdir(work->dir, 0700) != 0 && errno != EEXIST) {
            const tide_status status = fail_errno("cannot make", work->dir, err);
            work->dir[0] = '\0';
            return status;
        }
        const int fd = open(work->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, work->dir)) {
            const tide_status status = take_directory(fd, work->dir, err);
            if (status < TIDE_OK) {
                (void)close(fd);
                work->dir[0] = '\0';
                return status;
            }
            work->fd = fd;
            return TIDE_OK;
        }
        (void)close(fd);
    }
    const tide_status status =
        tide_fail(err, TIDE_E_BUSY, "another process works in %s", work->dir);
    work->dir[0] = '\0';
    return status;
}

void tide_snapshot_work_end(tide_snapshot_work *work)
{
    if (work->fd < 0)
        return;
    empty_directory(work->fd);
    (void)unlinkat(work->fd, MARKER, 0);
    (void)rmdir(work->dir);
    (void)close(work->fd);
    *work = (tide_snapshot_work){.fd = -1};
}

tide_status tide_snapshot_work_path(const tide_snapshot_work *work, const char *name,
                                    char out[TIDE_SNAPSHOT_PATH_MAX], tide_error *err)
{
    return (size_t)snprintf(out, TIDE_SNAPSHOT_PATH_MAX, "%s/%s", work->dir, name) <
                   TIDE_SNAPSHOT_PATH_MAX
               ? TIDE_OK
               : tide_fail(err, TIDE_E_LIMIT, "the path is too long: %.80s...", work->dir);
}

/* ---- names ---- */

static tide_status sync_directory_of(const char *path, tide_error *err)
{
    char dir[TIDE_SNAPSHOT_PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = '\0';
    const int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno("cannot open", slash ? dir : ".", err);
    const int code = fsync(fd);
    (void)close(fd);
    return code == 0 ? TIDE_OK : fail_errno("cannot sync", slash ? dir : ".", err);
}

tide_status tide_snapshot_publish(const char *from, const char *to, tide_error *err)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
        if (errno != EINVAL && errno != ENOSYS)
            return fail_errno("cannot name", to, err);
        /* A file system without it: a second name, which also never replaces one, then the first goes. */
        if (link(from, to) != 0 || unlink(from) != 0)
            return fail_errno("cannot name", to, err);
    }
    return sync_directory_of(to, err);
}

/* ---- reading ---- */

tide_status tide_snapshot_input_open(tide_snapshot_input *input, const char *path, tide_error *err)
{
    struct stat info;
    *input = (tide_snapshot_input){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (input->fd < 0)
        return fail_errno("cannot open", path, err);
    if (fstat(input->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return tide_fail(err, TIDE_E_FOREIGN, "%s is no file", path);
    input->bytes = info.st_size;
    tide_status status =
        tide_snapshot_reader_init(&input->reader, tide_snapshot_read_fd, &input->fd, err);
    if (status >= TIDE_OK)
        status = tide_snapshot_decoder_init(&input->decoder, &input->reader, err);
    if (status < TIDE_OK)
        TIDE_IGNORE(tide_fail_context(err, status, "%s", path));
    return status;
}

void tide_snapshot_input_close(tide_snapshot_input *input)
{
    tide_snapshot_decoder_done(&input->decoder);
    tide_snapshot_reader_done(&input->reader);
    if (input->fd >= 0)
        (void)close(input->fd);
    *input = (tide_snapshot_input){.fd = -1};
}
