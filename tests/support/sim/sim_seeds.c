#include "support/sim/sim.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "support/program/test_file.h"
#include "support/sim/seeds.h"

static bool run_one(uint64_t seed, sim_run_fn run, void *arg)
{
    if (run(seed, false, arg))
        return true;
    fprintf(stderr, "seed %" PRIu64 " failed; repeat: TIDEMARK_SEED=%" PRIu64 " %s\n", seed, seed,
            test_file_command());
    return false;
}

/* Those that ever failed. */
static bool run_lines(const seeds *known, sim_run_fn run, void *arg)
{
    for (size_t i = 0; i < known->count; i++) {
        const seeds_line *line = &known->lines[i];
        const bool is_fine = line->is_red ? seeds_judge_red(line, seeds_fail_again(line->seed))
                                          : run_one(line->seed, run, arg);
        if (!is_fine)
            return false;
    }
    return true;
}

bool sim_seeds(const char *world, uint64_t count, sim_run_fn run, void *arg)
{
    uint64_t repeated = 0;
    if (prng_repeated_seed(&repeated))
        return run_one(repeated, run, arg);
    const char *asked = getenv("TIDEMARK_SIM_SEEDS");
    if (asked && *asked)
        count = strtoull(asked, NULL, 0);
    char path[PATH_MAX];
    seeds known;
    (void)snprintf(path, sizeof path, "tests/sim/%s/seeds.txt", world ? world : "");
    seeds_read(&known, world ? path : NULL);
    fprintf(stderr, "seeds %" PRIu64 " to %" PRIu64 ", and %zu that failed before\n", known.first,
            known.first + count - 1, known.count);
    if (!run_lines(&known, run, arg))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!run_one(known.first + i, run, arg))
            return false;
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
