#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PIECE_LEN = 16384 };

void tide_file_closep(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static tide_status fail_errno(const char *path, tide_error *err)
{
    const int reason = errno;
    tide_status status = TIDE_E_IO;
    if (reason == ENOENT || reason == ENOTDIR)
        status = TIDE_E_NOT_FOUND;
    else if (reason == EACCES || reason == EPERM)
        status = TIDE_E_DENIED;
    else if (reason == EISDIR)
        status = TIDE_E_INVALID;
    else if (reason == ENOMEM)
        status = TIDE_E_NOMEM;
    else if (reason == ENOSPC || reason == EDQUOT)
        status = TIDE_E_FULL;
    return tide_fail(err, status, "%s: %s", path, strerror(reason));
}

static tide_status fail_append(tide_status status, const tide_buffer *out, const char *path,
                               tide_error *err)
{
    if (status == TIDE_E_LIMIT)
        return tide_fail(err, TIDE_E_INVALID, "%s: is larger than the %zu bytes that are allowed",
                         path, out->max);
    return tide_buffer_check(status, err);
}

/* One allocation where the size is known: what may be a secret is not copied around. */
static tide_status make_room(tide_buffer *out, int fd, const char *path, tide_error *err)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return fail_errno(path, err);
    if (!S_ISREG(facts.st_mode) || facts.st_size <= 0)
        return TIDE_OK;
    const tide_status status = tide_buffer_reserve(out, (size_t)facts.st_size);
    return status < TIDE_OK ? fail_append(status, out, path, err) : TIDE_OK;
}

static tide_status read_all(tide_buffer *out, int fd, const char *path, tide_error *err)
{
    char piece[PIECE_LEN];
    TIDE_TRY(make_room(out, fd, path, err));
    for (;;) {
        const ssize_t len = read(fd, piece, sizeof piece);
        if (len == 0)
            break;
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return fail_errno(path, err);
        const tide_status status = tide_buffer_append(out, piece, (size_t)len);
        if (status < TIDE_OK)
            return fail_append(status, out, path, err);
    }
    explicit_bzero(piece, sizeof piece);
    return TIDE_OK;
}

/* Pipes and devices have no users of their own. */
static tide_status check_mode(const struct stat *info, const char *path, tide_error *err)
{
    if (!S_ISREG(info->st_mode) || (info->st_mode & (S_IROTH | S_IWOTH)) == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DENIED,
                     "%s holds a secret, and other users can %s it (mode %04o): chmod 600 %s", path,
                     info->st_mode & S_IROTH ? "read" : "change", info->st_mode & 07777, path);
}

static tide_status read_file(tide_buffer *out, const char *path, bool is_private, tide_error *err)
{
    const size_t before_len = out->len;
    TIDE_CLEANUP(tide_file_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0)
        return fail_errno(path, err);
    if (is_private)
        TIDE_TRY(check_mode(&info, path, err));
    const tide_status status = read_all(out, fd, path, err);
    if (status < TIDE_OK)
        tide_buffer_truncate(out, before_len);
    return status;
}

tide_status tide_file_read(tide_buffer *out, const char *path, tide_error *err)
{
    return read_file(out, path, false, err);
}

tide_status tide_file_read_private(tide_buffer *out, const char *path, tide_error *err)
{
    return read_file(out, path, true, err);
}

/* Users who may write to a directory can put a link in the place of what is in it, at any moment.
 * In one with the sticky bit that holds for what is their own, which is not entered. */
static tide_status check_unshared(int fd, const char *path, tide_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return fail_errno(path, err);
    const bool is_ours = info.st_uid == geteuid() || info.st_uid == 0;
    const bool is_shared =
        (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) == 0;
    if (is_ours && !is_shared)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DENIED,
                     "%s: other users can change the directory; make it this user's (chown), for "
                     "its owner alone to write (chmod go-w)",
                     path);
}

/* One step below *fd, which becomes the directory's. */
static tide_status enter_directory(int *fd, const char *name, const char *path, tide_error *err)
{
    if (strcmp(name, "..") == 0)
        return tide_fail(err, TIDE_E_DENIED, "%s leads out with '..'", path);
    if (mkdirat(*fd, name, 0700) != 0 && errno != EEXIST)
        return fail_errno(path, err);
    const int inner = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0 && (errno == ELOOP || errno == ENOTDIR))
        return tide_fail(err, TIDE_E_DENIED,
                         "%s: '%s' is not a directory itself, but a link or file", path, name);
    if (inner < 0)
        return fail_errno(path, err);
    tide_file_closep(fd);
    *fd = inner;
    return check_unshared(inner, path, err);
}

tide_status tide_file_make_beneath(const char *root, const char *relative, tide_error *err)
{
    char parts[PATH_MAX];
    if (*relative == '/')
        return tide_fail(err, TIDE_E_DENIED, "%s is not below %s", relative, root);
    if (snprintf(parts, sizeof parts, "%s", relative) >= (int)sizeof parts)
        return tide_fail(err, TIDE_E_INVALID, "%s: too long a path", relative);
    TIDE_CLEANUP(tide_file_closep) int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(root, err);
    TIDE_TRY(check_unshared(fd, root, err));
    char *rest = parts;
    for (const char *name; (name = strsep(&rest, "/"));)
        if (*name && strcmp(name, ".") != 0)
            TIDE_TRY(enter_directory(&fd, name, relative, err));
    return TIDE_OK;
}

static tide_status write_all(int fd, tide_view bytes, const char *path, tide_error *err)
{
    while (bytes.len > 0) {
        const ssize_t len = write(fd, bytes.ptr, bytes.len);
        if (len < 0 && errno != EINTR)
            return fail_errno(path, err);
        bytes.ptr += len > 0 ? len : 0;
        bytes.len -= len > 0 ? (size_t)len : 0;
    }
    return fsync(fd) == 0 ? TIDE_OK : fail_errno(path, err);
}

tide_status tide_file_replace(const char *path, tide_view bytes, tide_error *err)
{
    char partial[PATH_MAX];
    if (snprintf(partial, sizeof partial, "%s.part", path) >= (int)sizeof partial)
        return tide_fail(err, TIDE_E_INVALID, "%s: too long a path", path);
    TIDE_CLEANUP(tide_file_closep)
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_errno(partial, err);
    tide_status status = write_all(fd, bytes, partial, err);
    if (status >= TIDE_OK && rename(partial, path) != 0)
        status = fail_errno(path, err);
    if (status < TIDE_OK)
        (void)unlink(partial);
    return status;
}
