#include "support/program/test_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/check.h"

enum { EXIT_USAGE = 2 };

#define TESTS_FOLDER "tests/"
#define ENDING "_test.c"

static test_file *files;
static char running[PATH_MAX];
static char **arguments; /* behind --, ended by NULL */

void test_file_add(test_file *file)
{
    file->next = files;
    files = file;
}

/* The path below tests/, without the ending. */
static void get_name(const test_file *file, char out[PATH_MAX])
{
    const char *path = file->source;
    for (const char *at = path; (at = strstr(at, TESTS_FOLDER)) != NULL; path = at)
        at += strlen(TESTS_FOLDER);
    const size_t len = strlen(path) - strlen(ENDING);
    (void)snprintf(out, PATH_MAX, "%.*s", (int)len, path);
}

/* A file is named by its whole path below tests/, or by the last parts of it. */
static bool is_named(const char *name, const char *wanted)
{
    const size_t name_len = strlen(name);
    const size_t wanted_len = strlen(wanted);
    if (wanted_len > name_len || strcmp(name + name_len - wanted_len, wanted) != 0)
        return false;
    return wanted_len == name_len || name[name_len - wanted_len - 1] == '/';
}

static int print_files(FILE *out)
{
    for (const test_file *file = files; file != NULL; file = file->next) {
        char name[PATH_MAX];
        get_name(file, name);
        (void)fprintf(out, "%s\n", name);
    }
    return EXIT_USAGE;
}

static const test_file *find_file(const char *wanted)
{
    const test_file *found = NULL;
    for (const test_file *file = files; file != NULL; file = file->next) {
        char name[PATH_MAX];
        get_name(file, name);
        if (strcmp(name, wanted) == 0)
            return file;
        if (!is_named(name, wanted))
            continue;
        if (found != NULL) {
            (void)fprintf(stderr, "several test files end with \"%s\"; name one of:\n", wanted);
            return NULL;
        }
        found = file;
    }
    if (found == NULL)
        (void)fprintf(stderr, "no test file \"%s\"; name one of:\n", wanted);
    return found;
}

int test_file_main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s FILE [CASE PATTERN] [-- ARGUMENT...]\n",
                      program_invocation_name);
        return print_files(stderr);
    }
    const test_file *file = find_file(argv[1]);
    if (file == NULL)
        return print_files(stderr);
    get_name(file, running);
    if (file->skip != NULL)
        cmocka_set_skip_filter(file->skip);
    int next = 2;
    if (next < argc && strcmp(argv[next], "--") != 0)
        cmocka_set_test_filter(argv[next++]);
    if (next < argc && strcmp(argv[next], "--") == 0)
        arguments = argv + next + 1;
    return file->run();
}

const char *test_file_name(void)
{
    return running;
}

const char *test_file_command(void)
{
    static char command[2 * PATH_MAX];
    (void)snprintf(command, sizeof command, "%s%s%s", program_invocation_name,
                   running[0] != '\0' ? " " : "", running);
    return command;
}

const char *test_file_argument(int index)
{
    for (int i = 0; arguments != NULL && arguments[i] != NULL; i++)
        if (i == index)
            return arguments[i];
    return NULL;
}
