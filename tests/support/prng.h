/* prng.h - random numbers that repeat: the one source of chance in tests.
 *
 * xoshiro256** seeded through splitmix64. The same seed gives the same numbers on every machine,
 * so a failing run is repeated by its seed.
 *
 * Where seeds come from: make test sets TIDEMARK_FIRST_SEED to the first 32 bits of the commit, so
 * that every commit is tested with other seeds; a test that is started by hand uses its default.
 * TIDEMARK_SEED repeats one seed. A test prints the seed it uses and the line that repeats it.
 *
 * Threads: a prng belongs to one thread at a time. Not for secrets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct prng {
    uint64_t state[4];
} prng;

void prng_init(prng *p, uint64_t seed);

uint64_t prng_u64(prng *p);

/* A number in [0, n), each equally likely. n must be above 0. */
uint64_t prng_below(prng *p, uint64_t n);

/* True in num of den cases. */
bool prng_chance(prng *p, uint64_t num, uint64_t den);

/* Fill len bytes. */
void prng_fill(prng *p, void *out, size_t len);

/* The seed of this run: TIDEMARK_SEED (decimal, 0x hexadecimal or 0 octal); else
 * TIDEMARK_FIRST_SEED plus default_seed; else default_seed. Printed on stderr with the line that
 * repeats it. A value that is no number ends the program: a run that was meant to repeat another
 * must not silently be a different one. */
uint64_t prng_seed_from_env(uint64_t default_seed);

/* For tests that run many seeds. The one seed to repeat, if TIDEMARK_SEED names one; and the first
 * of all others: TIDEMARK_FIRST_SEED, or 1. */
bool prng_repeated_seed(uint64_t *seed);
uint64_t prng_first_seed(void);
/* The first of *count seeds: prng_first_seed() plus an offset of the test; or the one to repeat,
 * and *count is 1. */
uint64_t prng_first_of(uint64_t *count, uint64_t offset);
/* "seed N; repeat: TIDEMARK_SEED=N program" on stderr. */
void prng_print_seed(uint64_t seed);
