/* prng.h - random numbers that repeat: the one source of chance in tests.
 *
 * xoshiro256** seeded through splitmix64. The same seed gives the same numbers on every machine,
 * so a failing run is repeated by its seed. A test program asks prng_seed_from_env() once; it
 * prints the seed in use, and TIDEMARK_SEED in the environment overrides the default.
 *
 * Threads: a prng belongs to one thread at a time. Not for secrets. */
#ifndef TIDEMARK_TESTS_PRNG_H
#define TIDEMARK_TESTS_PRNG_H

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

/* The seed of this run: TIDEMARK_SEED (decimal, 0x hexadecimal or 0 octal) or default_seed;
 * printed on stderr with the words that repeat it. A TIDEMARK_SEED that is no number ends the
 * program: a run that was meant to repeat another must not silently be a different one. */
uint64_t prng_seed_from_env(uint64_t default_seed);

#endif
