#include "support/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void check_status(tide_status expected, tide_status actual, const tide_error *err, const char *call,
                  const char *file, int line)
{
    if (expected == actual)
        return;
    print_error("%s\n    want %s, got %s (%d)\n", call, tide_status_get(expected)->name,
                tide_status_get(actual)->name, (int)actual);
    /* A success leaves *err as it was, so its text would belong to an earlier call. */
    if (err != NULL && actual < TIDE_OK)
        print_error("    %s\n", err->text);
    _fail(file, line);
}

void check_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) != NULL)
        return;
    print_error("\"%s\"\n    does not contain \"%s\"\n", text, part);
    _fail(file, line);
}

int64_t check_number(const char *text, const char *file, int line)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || errno != 0 || end[strspn(end, "\n")] != '\0') {
        print_error("\"%s\" is not a number\n", text);
        _fail(file, line);
    }
    return number;
}

bool check_is_ci(void)
{
    const char *ci = getenv("CI");
    return ci != NULL && strcmp(ci, "") != 0 && strcmp(ci, "0") != 0 && strcmp(ci, "false") != 0;
}

bool is_soak(void)
{
    const char *text = getenv("TIDEMARK_SOAK");
    return text && *text && strcmp(text, "0") != 0;
}
