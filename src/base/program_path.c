#include "base/program_path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

bool tide_program_file(char out[PATH_MAX])
{
    const ssize_t len = readlink(TIDE_PROGRAM_RUNNING, out, PATH_MAX - 1);
    if (len > 0 && out[0] == '/') {
        out[len] = '\0';
        return true;
    }
    const char *given = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
    return given && realpath(given, out);
}

bool tide_program_was_replaced(void)
{
    char file[PATH_MAX];
    struct stat running;
    struct stat named;
    return stat(TIDE_PROGRAM_RUNNING, &running) == 0 && tide_program_file(file) &&
           (stat(file, &named) != 0 || named.st_dev != running.st_dev ||
            named.st_ino != running.st_ino);
}

bool tide_program_command(char out[PATH_MAX])
{
    static const char inner[] = "/libexec/tidemark";
    static const char launcher[] = "/bin/tidemark"; /* shorter than inner */
    if (!tide_program_file(out))
        return false;
    const size_t len = strlen(out);
    if (len < sizeof inner - 1 || strcmp(out + len - (sizeof inner - 1), inner) != 0)
        return true;
    char *end = out + len - (sizeof inner - 1);
    memcpy(end, launcher, sizeof launcher);
    if (access(out, X_OK) != 0)
        memcpy(end, inner, sizeof inner);
    return true;
}
