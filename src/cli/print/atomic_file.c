#include "cli/print/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/frame/interrupt.h"

void tide_cli_whole_file_drop(tide_cli_whole_file *file)
{
    if (file->fd > STDERR_FILENO)
        (void)close(file->fd);
    if (file->partial[0])
        (void)unlink(file->partial);
    file->fd = -1;
    file->partial[0] = '\0';
    tide_cli_interrupt_partial(NULL);
}

tide_status tide_cli_whole_file_open(tide_cli_whole_file *file, const char *path, tide_error *err)
{
    *file = (tide_cli_whole_file){.path = path, .fd = STDOUT_FILENO};
    if (strcmp(path, "-") == 0)
        return TIDE_OK;
    struct stat found;
    if (lstat(path, &found) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already", path);
    if (snprintf(file->partial, sizeof file->partial, "%s.partial-%ld", path, (long)getpid()) >=
        (int)sizeof file->partial)
        return tide_fail(err, TIDE_E_INVALID, "the file name is too long");
    file->fd = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        const int code = errno;
        file->partial[0] = '\0';
        return tide_fail(err, code == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "cannot create %s: %s",
                         path, strerror(code));
    }
    tide_cli_interrupt_partial(file->partial);
    return TIDE_OK;
}

static tide_status sync_parent(const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *parent = strdup(path);
    TIDE_NEED_MEMORY(parent, err);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent ? 1 : 0] = '\0';
    const int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        const int code = errno;
        if (fd >= 0)
            (void)close(fd);
        return tide_fail(err, TIDE_E_IO, "cannot sync the directory of %s: %s", path,
                         strerror(code));
    }
    (void)close(fd);
    return TIDE_OK;
}

/* link, not rename: a file that appeared under the name meanwhile is not overwritten. */
tide_status tide_cli_whole_file_publish(tide_cli_whole_file *file, tide_error *err)
{
    if (!file->partial[0])
        return TIDE_OK;
    if (fsync(file->fd) != 0)
        return tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_IO, "cannot sync %s: %s",
                         file->path, strerror(errno));
    if (link(file->partial, file->path) != 0)
        return tide_fail(err, errno == EEXIST ? TIDE_E_EXISTS : TIDE_E_IO, "cannot create %s: %s",
                         file->path, strerror(errno));
    return sync_parent(file->path, err);
}

tide_status tide_cli_whole_file_write(const tide_cli_whole_file *file, tide_view bytes,
                                      tide_error *err)
{
    while (bytes.len > 0) {
        const ssize_t written = write(file->fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return tide_fail(err, errno == ENOSPC || errno == EDQUOT ? TIDE_E_FULL : TIDE_E_IO,
                             "cannot write %s: %s", file->path, strerror(errno));
        bytes.ptr += written;
        bytes.len -= (size_t)written;
    }
    return TIDE_OK;
}
