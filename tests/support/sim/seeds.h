/* seeds.h - the seeds of a random test that ever failed, kept in a file beside the test.
 *
 *     # what is behind # is for people
 *     925               always runs, before the seeds of the commit
 *     3735928645 red replica   fails today; the issue that will repair it
 *
 * A red seed is run too, and must fail: once it passes, the test fails until its mark is removed.
 * While a test has a red seed, the seeds that it takes from the commit would find the same failure
 * again and again, so it begins at seed 1 and prints that it does; without red seeds it begins at
 * prng_first_seed().
 *
 * Threads: none. Limits: SEEDS_MAX. A file that cannot be read ends the program: seeds that failed
 * once must not be passed over in silence. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEEDS_MAX = 256, SEEDS_ISSUE_MAX = 32 };

typedef struct seeds_line {
    uint64_t seed;
    bool is_red;
    char issue[SEEDS_ISSUE_MAX]; /* of a red one */
} seeds_line;

typedef struct seeds {
    seeds_line lines[SEEDS_MAX];
    size_t count;
    size_t red;
    uint64_t first; /* of the others */
} seeds;

/* The path is relative to the source directory; NULL: there is no file. Prints what will run. */
void seeds_read(seeds *out, const char *path);

/* Run this very program with TIDEMARK_SEED. True: it failed. */
bool seeds_fail_again(uint64_t seed);

/* "seed N is red as marked", or that the mark is to be removed, which is a failure: false. */
bool seeds_judge_red(const seeds_line *line, bool has_failed);
