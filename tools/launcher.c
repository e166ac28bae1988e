/* launcher.c - bin/tidemark of a relocatable tree (make dist): starts libexec/tidemark beside bin/.
 *
 * The loader finds the libraries of libexec/tidemark by its run path, $ORIGIN/../lib, and learns
 * what $ORIGIN is from /proc/self/exe. A bare chroot has no /proc; there the loader takes the
 * directory from LD_ORIGIN_PATH. This program needs nothing but libc, so it starts without either
 * and passes the directory on. The program removes the variable again before it starts a process of
 * its own (src/cli/frame/main.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program_path.h"

enum { NOT_STARTED = 127 }; /* as a shell ends when it cannot find a program */

static int fail(const char *what, const char *path)
{
    (void)fprintf(stderr, "tidemark: cannot %s%s: %s\n", what, path, strerror(errno));
    return NOT_STARTED;
}

static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

int main(int argc, char **argv)
{
    (void)argc;
    static const char name[] = "/tidemark";
    char place[PATH_MAX];
    char program[PATH_MAX + sizeof "/libexec" + sizeof name];
    if (!tide_program_file(place))
        return fail("find its own directory", "");
    cut_name(place); /* bin */
    cut_name(place);
    char *end = stpcpy(stpcpy(program, place), "/libexec");
    /* Where /proc is mounted the loader does not read the variable. */
    if (access("/proc/self/exe", F_OK) != 0 && setenv("LD_ORIGIN_PATH", program, 1) != 0)
        return fail("start ", program);
    memcpy(end, name, sizeof name);
    (void)execv(program, argv);
    return fail("start ", program);
}
