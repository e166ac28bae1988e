#include "crash/copying.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "re");
    FILE *out = fopen(to, "we");
    assert(in && out);
    char bytes[65536];
    size_t len = 0;
    while ((len = fread(bytes, 1, sizeof bytes, in)) > 0) {
        const size_t written = fwrite(bytes, 1, len, out);
        assert(written == len);
        (void)written;
    }
    (void)fclose(in);
    const int closed = fclose(out);
    assert(closed == 0);
    (void)closed;
}

void remove_store(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-wal.lost", "-shm", "-door", "-journal"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char name[TEMPDIR_PATH_MAX + 16];
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
}

void restore_image(const tempdir *image, const tempdir *dir, const char *name)
{
    static const char *const ends[] = {"", "-wal", "-journal"};
    char file[64];
    char from[TEMPDIR_PATH_MAX];
    char to[TEMPDIR_PATH_MAX];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%s", name, ends[i]);
        tempdir_join(image, file, from);
        tempdir_join(dir, file, to);
        if (access(from, F_OK) == 0)
            copy_file(from, to);
        else
            (void)unlink(to);
    }
    (void)snprintf(file, sizeof file, "%s-shm", name);
    tempdir_join(dir, file, to);
    (void)unlink(to);
}
