/* program_path.h - the file of the running program.
 *
 * Linux names it in /proc/self/exe. Where /proc is not mounted, as in a bare chroot, it is the path
 * that was given to execve (AT_EXECFN), which must still be valid: ask before the working directory
 * changes.
 *
 * A relocatable tree (make dist) starts PREFIX/libexec/tidemark through PREFIX/bin/tidemark
 * (tools/launcher.c). The latter is the program as users know it, and the file to start again.
 *
 * Threads: pure. */
#pragma once

#include <limits.h>
#include <stdbool.h>

/* Starts the running program, also when its file was replaced. */
#define TIDE_PROGRAM_RUNNING "/proc/self/exe"

/* The absolute path of the file being run. false: it cannot be determined. */
bool tide_program_file(char out[PATH_MAX]);

/* Is there another file, or none, where this program was started from? A package replaces files of
 * running programs. false where /proc is not mounted. */
bool tide_program_was_replaced(void);

/* The absolute path by which the program can be started again: the launcher of a relocatable tree,
 * or else the file itself. false: it cannot be determined. */
bool tide_program_command(char out[PATH_MAX]);
