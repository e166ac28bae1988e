#include "cli/frame/context_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static tide_status fail_errno(const char *path, tide_error *err)
{
    const int code = errno;
    const tide_status status = code == EACCES || code == EPERM || code == EROFS ? TIDE_E_DENIED
                               : code == ENOSPC || code == EDQUOT               ? TIDE_E_FULL
                               : code == EEXIST                                 ? TIDE_E_EXISTS
                                                                                : TIDE_E_IO;
    return tide_fail(err, status, "%s: %s", path, strerror(code));
}

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

tide_status tide_cli_context_make_directory(const char *path, tide_error *err)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        const int len = slash ? (int)(slash - path) : (int)strlen(path);
        (void)snprintf(part, sizeof part, "%.*s", len, path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return fail_errno(part, err);
        if (!slash)
            return TIDE_OK;
    }
}

tide_status tide_cli_context_check_owner(const char *path, tide_error *err)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TIDE_NONE : fail_errno(path, err);
    if (found.st_uid != geteuid() && found.st_uid != 0)
        return tide_fail(err, TIDE_E_DENIED, "%s belongs to somebody else: it is not trusted",
                         path);
    if (found.st_mode & (S_IWGRP | S_IWOTH))
        return tide_fail(err, TIDE_E_DENIED, "%s can be written by others: chmod 600 it", path);
    return TIDE_OK;
}

static tide_status fill(int fd, tide_view text, const char *path, tide_error *err)
{
    while (text.len > 0) {
        const ssize_t len = write(fd, text.ptr, text.len);
        if (len < 0 && errno != EINTR)
            return fail_errno(path, err);
        text.ptr += len > 0 ? len : 0;
        text.len -= len > 0 ? (size_t)len : 0;
    }
    return fsync(fd) == 0 ? TIDE_OK : fail_errno(path, err);
}

/* The new name is on disk, too. */
static tide_status sync_directory(const char *path, int len, tide_error *err)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%.*s", len, path);
    TIDE_CLEANUP(close_fd) const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? TIDE_OK : fail_errno(directory, err);
}

tide_status tide_cli_context_write_file(const char *path, tide_view text, bool is_replaced,
                                        tide_error *err)
{
    char partial[PATH_MAX];
    const int directory_len = (int)(strrchr(path, '/') - path);
    if (snprintf(partial, sizeof partial, "%.*s/.new-XXXXXX", directory_len, path) >=
        (int)sizeof partial)
        return tide_fail(err, TIDE_E_INVALID, "%s: too long a path", path);
    TIDE_CLEANUP(close_fd) const int fd = mkostemp(partial, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return fail_errno(partial, err);
    tide_status status = fill(fd, text, partial, err);
    if (status >= TIDE_OK && (is_replaced ? rename(partial, path) : link(partial, path)) != 0)
        status = fail_errno(path, err);
    if (status < TIDE_OK || !is_replaced)
        (void)unlink(partial);
    return status < TIDE_OK ? status : sync_directory(path, directory_len, err);
}
