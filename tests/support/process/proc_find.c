#include "support/process/proc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIND_LEVELS_MAX = 4 };

void proc_self_path(char out[PATH_MAX])
{
    const ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    assert(len > 0);
    out[len] = '\0';
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

tide_status proc_find(const char *name, char out[PATH_MAX], tide_error *err)
{
    const char *given = strcmp(name, "tidemark") == 0 ? getenv("TIDEMARK_BIN") : NULL;
    if (given != NULL) {
        const size_t len = strlen(given);
        if (len >= PATH_MAX || !is_program(given))
            return tide_fail(err, TIDE_E_NOT_FOUND, "TIDEMARK_BIN='%s' is no program", given);
        memcpy(out, given, len + 1);
        return TIDE_OK;
    }
    char directory[PATH_MAX];
    proc_self_path(directory);
    for (int level = 0; level < FIND_LEVELS_MAX; level++) {
        char *slash = strrchr(directory, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
        const int len = snprintf(out, PATH_MAX, "%s/%s", directory, name);
        if (len > 0 && len < PATH_MAX && is_program(out))
            return TIDE_OK;
    }
    proc_self_path(directory);
    return tide_fail(err, TIDE_E_NOT_FOUND, "no program '%s' in or above the directory of %s", name,
                     directory);
}
