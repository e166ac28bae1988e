#include "support/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* A number from the environment; a value that is none ends the program, a replay must not turn
 * into another run. */
static bool read_env_number(const char *name, uint64_t *out)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return false;
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || text[0] == '-') {
        fprintf(stderr, "%s='%s' is not a number\n", name, text);
        exit(2);
    }
    return true;
}

bool sim_seeds(uint64_t first, uint64_t count, sim_run_fn run, void *arg)
{
    read_env_number("TIDEMARK_SIM_SEEDS", &count);
    if (read_env_number("TIDEMARK_SEED", &first))
        count = 1;
    for (uint64_t i = 0; i < count; i++)
        if (!run(first + i, false, arg)) {
            fprintf(stderr, "seed %" PRIu64 " failed (number %" PRIu64 " of %" PRIu64 ")\n",
                    first + i, i + 1, count);
            return false;
        }
    return true;
}

bool sim_find_failure(uint64_t first, uint64_t count, sim_run_fn run, void *arg,
                      uint64_t *failing_seed)
{
    for (uint64_t i = 0; i < count; i++)
        if (!run(first + i, true, arg)) {
            *failing_seed = first + i;
            return true;
        }
    return false;
}
