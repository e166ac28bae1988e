#include "support/sim/seeds.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/prng.h"
#include "support/program/test_file.h"

static void end_badly(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(2);
}

static void read_line(seeds *out, char *line, const char *path)
{
    line[strcspn(line, "#\n")] = '\0';
    if (line[strspn(line, " \t")] == '\0')
        return;
    if (out->count == SEEDS_MAX)
        end_badly(path, "too many seeds");
    seeds_line *to = &out->lines[out->count++];
    char *rest = NULL;
    errno = 0;
    to->seed = strtoull(line, &rest, 0);
    char red[8] = "";
    const int fields = sscanf(rest, " %7s %31s", red, to->issue);
    to->is_red = fields == 2 && strcmp(red, "red") == 0;
    if (errno != 0 || rest == line || (fields > 0 && !to->is_red))
        end_badly(path, "want a seed per line, with 'red ISSUE' behind one that fails");
    out->red += to->is_red;
}

void seeds_read(seeds *out, const char *path)
{
    *out = (seeds){.first = prng_first_seed()};
    if (!path)
        return;
    const char *source = getenv("TIDEMARK_SOURCE_DIR");
    char whole[PATH_MAX];
    char line[256];
    (void)snprintf(whole, sizeof whole, "%s/%s", source ? source : ".", path);
    FILE *in = fopen(whole, "re");
    if (!in)
        end_badly(whole, "cannot be read; set TIDEMARK_SOURCE_DIR");
    while (fgets(line, sizeof line, in))
        read_line(out, line, whole);
    (void)fclose(in);
    if (out->red > 0) {
        out->first = 1;
        fprintf(stderr, "%zu seeds of %s are red: beginning at seed 1, not at that of the commit\n",
                out->red, path);
    }
}

bool seeds_fail_again(uint64_t seed)
{
    char number[32];
    (void)snprintf(number, sizeof number, "%" PRIu64, seed);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("TIDEMARK_SEED", number, 1);
        /* A case that fails leaves its world behind, and that is no finding. Later options take
         * precedence. */
        const char *asan = getenv("ASAN_OPTIONS");
        char options[512];
        (void)snprintf(options, sizeof options, "%s:detect_leaks=0", asan ? asan : "");
        (void)setenv("ASAN_OPTIONS", options, 1);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(0);
        (void)execl("/proc/self/exe", program_invocation_name, test_file_name(), (char *)NULL);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

bool seeds_judge_red(const seeds_line *line, bool has_failed)
{
    if (has_failed)
        fprintf(stderr, "seed %" PRIu64 " is red as marked (%s)\n", line->seed, line->issue);
    else
        fprintf(stderr, "seed %" PRIu64 " passes: remove its mark 'red %s'\n", line->seed,
                line->issue);
    return has_failed;
}
