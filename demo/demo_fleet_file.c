#include "demo/demo_fleet_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/cleanup.h"

enum { PATH_SIZE = 4200, LINE_SIZE = 160 };

static void close_file(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static tide_status fail(const char *path, const char *what, tide_error *err)
{
    return tide_fail(err, TIDE_E_IO, "%s cannot be %s: %s", path, what, strerror(errno));
}

tide_status tide_demo_fleet_save(const char *file, const tide_sim *sims, int count, int64_t spare,
                                 tide_error *err)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s.new", file);
    TIDE_CLEANUP(close_file) FILE *out = fopen(path, "we");
    if (!out)
        return fail(path, "written", err);
    for (int i = 0; i < count; i++)
        (void)fprintf(out, "%s %s %" PRId64 "\n", sims[i].name, sims[i].session,
                      sims[i].tick + spare);
    if (fflush(out) != 0 || ferror(out) || fdatasync(fileno(out)) != 0 || rename(path, file) != 0)
        return fail(path, "written", err);
    return TIDE_OK;
}

tide_status tide_demo_fleet_load(const char *file, tide_sim *sims, int count, tide_error *err)
{
    char line[LINE_SIZE];
    TIDE_CLEANUP(close_file) FILE *in = fopen(file, "re");
    if (!in)
        return errno == ENOENT ? TIDE_OK : fail(file, "read", err);
    int next = 0; /* lines stand in the order of agents, unless there were others */
    while (fgets(line, sizeof line, in)) {
        char name[TIDE_SIM_NAME_SIZE];
        char session[37];
        int at = 0;
        char *end = NULL;
        const bool is_named = sscanf(line, "%31s %36s %n", name, session, &at) == 2 && at > 0;
        const int64_t tick = is_named ? strtoll(line + at, &end, 10) : -1;
        if (tick < 0 || end == line + at || *end != '\n')
            return tide_fail(err, TIDE_E_DAMAGED, "%s has a line that is none: %s", file, line);
        for (int i = 0; i < count; i++) {
            tide_sim *sim = &sims[(next + i) % count];
            if (strcmp(sim->name, name) != 0)
                continue;
            memcpy(sim->session, session, sizeof session);
            sim->tick = tick;
            next = (next + i + 1) % count;
            break;
        }
    }
    return ferror(in) ? fail(file, "read", err) : TIDE_OK;
}
