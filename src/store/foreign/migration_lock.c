#include "store/foreign/migration_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool name_file(char out[static 4096], const char *database)
{
    return snprintf(out, 4096, "%s-tide-migrate", database) < 4096;
}

/* The one who had it may have removed the file between our open and our lock. */
static bool is_still_there(int fd, const char *path)
{
    struct stat open_file;
    struct stat named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

tide_status tide_foreign_pause_begin(tide_foreign_pause *pause, const char *database,
                                     tide_error *err)
{
    pause->fd = -1;
    if (!name_file(pause->path, database))
        return tide_fail(err, TIDE_E_INVALID, "the name of %s is too long", database);
    for (;;) {
        const int fd = open(pause->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return tide_fail(err, errno == EACCES ? TIDE_E_DENIED : TIDE_E_IO,
                             "%s cannot be made: %s", pause->path, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            (void)close(fd);
            return tide_fail(err, TIDE_E_BUSY, "a migration of %s is under way", database);
        }
        if (is_still_there(fd, pause->path)) {
            pause->fd = fd;
            return TIDE_OK;
        }
        (void)close(fd);
    }
}

void tide_foreign_pause_end(tide_foreign_pause *pause)
{
    if (pause->fd < 0)
        return;
    (void)unlink(pause->path);
    (void)close(pause->fd);
    pause->fd = -1;
}

bool tide_foreign_is_paused(const char *database)
{
    char path[4096];
    if (!name_file(path, database))
        return false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)close(fd);
    return is_held;
}
