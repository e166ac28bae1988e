#include "support/tempdir.h"

#include <assert.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_DIRECTORIES_MAX = 16 };

static const char *get_root(void)
{
    const char *root = getenv("TMPDIR");
    return root != NULL && root[0] != '\0' ? root : "/tmp";
}

tide_status tempdir_make(tempdir *dir, tide_error *err)
{
    /* The real path, so that it equals what servers and /proc report. */
    char root[PATH_MAX];
    if (realpath(get_root(), root) == NULL)
        return tide_fail(err, TIDE_E_INVALID, "TMPDIR '%s': %s", get_root(), strerror(errno));

    char path[TEMPDIR_PATH_MAX];
    const int len = snprintf(path, sizeof(path), "%s/" TEMPDIR_PREFIX "XXXXXX", root);
    if (len < 0 || (size_t)len >= sizeof(path))
        return tide_fail(err, TIDE_E_INVALID, "TMPDIR '%s' is too long", root);
    if (mkdtemp(path) == NULL)
        return tide_fail(err, TIDE_E_IO, "make '%s': %s", path, strerror(errno));
    memcpy(dir->path, path, sizeof(path));
    return TIDE_OK;
}

/* Ours is: <root>/tidemark-test-<name>, exactly one level below the root, a real directory. */
static tide_status check_ours(const char *path, tide_error *err)
{
    char root[PATH_MAX];
    if (realpath(get_root(), root) == NULL)
        return tide_fail(err, TIDE_E_INVALID, "TMPDIR '%s': %s", get_root(), strerror(errno));

    const size_t root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const size_t prefix_len = strlen(TEMPDIR_PREFIX);
    const bool is_below_root = strncmp(path, root, root_len) == 0 && path[root_len] == '/';
    const char *name = is_below_root ? path + root_len + 1 : "";
    if (strncmp(name, TEMPDIR_PREFIX, prefix_len) != 0 || name[prefix_len] == '\0' ||
        strchr(name, '/') != NULL)
        return tide_fail(err, TIDE_E_INVALID, "'%s' is not a temporary directory of the tests",
                         path);

    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "'%s' is not a directory", path);
    return TIDE_OK;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    /* A server that is just stopping may remove its files itself. */
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

tide_status tempdir_remove(tempdir *dir, tide_error *err)
{
    if (dir->path[0] == '\0')
        return TIDE_OK;
    TIDE_TRY(check_ours(dir->path, err));
    if (nftw(dir->path, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) !=
            0 &&
        errno != ENOENT)
        return tide_fail(err, TIDE_E_IO, "remove '%s': %s", dir->path, strerror(errno));
    dir->path[0] = '\0';
    return TIDE_OK;
}

void tempdir_join(const tempdir *dir, const char *name, char out[TEMPDIR_PATH_MAX])
{
    const int len = snprintf(out, TEMPDIR_PATH_MAX, "%s/%s", dir->path, name);
    assert(len > 0 && len < TEMPDIR_PATH_MAX);
}
