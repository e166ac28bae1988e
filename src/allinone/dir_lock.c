#include "allinone/dir_lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

static tide_status fail(const char *what, const char *path, tide_error *err)
{
    return tide_fail_advised(
        err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO,
        "cannot %s %s: %s; correct that, or choose another directory with --data or "
        "TIDEMARK_DATA",
        what, path, strerror(errno));
}

/* The words name who holds it: the holder has written its number there. */
static tide_status report_holder(int fd, const char *path, tide_error *err)
{
    char text[32] = "";
    if (pread(fd, text, sizeof text - 1, 0) < 0)
        text[0] = '\0';
    return tide_fail_advised(err, TIDE_E_BUSY,
                             "%s is held by another process (%s); stop it or pass another --data",
                             path, text[0] ? text : "unknown");
}

static tide_status lock_directory(int fd, const char *path, tide_error *err)
{
    char text[32];
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return report_holder(fd, path, err);
    const int len = snprintf(text, sizeof text, "%d", (int)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)len, 0) != len)
        return fail("write", path, err);
    return TIDE_OK;
}

tide_status tide_dir_lock(int *out, const char *dir, tide_error *err)
{
    char path[PATH_SIZE];
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return fail("create directory", dir, err);
    if (snprintf(path, sizeof path, "%s/lock", dir) >= PATH_SIZE)
        return tide_fail(err, TIDE_E_INVALID, "the directory's name is too long");
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail("open", path, err);
    const tide_status status = lock_directory(fd, path, err);
    if (status < TIDE_OK) {
        (void)close(fd);
        return status;
    }
    *out = fd;
    return TIDE_OK;
}
