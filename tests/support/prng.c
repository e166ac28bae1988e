#include "support/prng.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/program/test_file.h"

static uint64_t next_splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

/* Splitmix in between: neighbouring seeds give unrelated states, and no seed gives the all-zero
 * one. */
void prng_init(prng *p, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        p->state[i] = next_splitmix(&seed);
}

uint64_t prng_u64(prng *p)
{
    uint64_t *s = p->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t prng_below(prng *p, uint64_t n)
{
    assert(n > 0);
    /* 2^64 mod n numbers at the bottom are refused, so that every remainder is equally likely. */
    const uint64_t refused = (UINT64_C(0) - n) % n;
    uint64_t x;

    do {
        x = prng_u64(p);
    } while (x < refused);
    return x % n;
}

bool prng_chance(prng *p, uint64_t num, uint64_t den)
{
    return prng_below(p, den) < num;
}

void prng_fill(prng *p, void *out, size_t len)
{
    unsigned char *to = out;

    while (len > 0) {
        const uint64_t x = prng_u64(p);
        const size_t take = len < sizeof(x) ? len : sizeof(x);
        memcpy(to, &x, take);
        to += take;
        len -= take;
    }
}

/* A number from the environment; a value that is none ends the program. */
static bool read_number(const char *name, uint64_t *out)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return false;
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || *text == '-') {
        fprintf(stderr, "%s=%s is not a number of 64 bits\n", name, text);
        exit(2);
    }
    return true;
}

bool prng_repeated_seed(uint64_t *seed)
{
    return read_number("TIDEMARK_SEED", seed);
}

uint64_t prng_first_seed(void)
{
    uint64_t first = 1;
    (void)read_number("TIDEMARK_FIRST_SEED", &first);
    return first;
}

uint64_t prng_first_of(uint64_t *count, uint64_t offset)
{
    uint64_t seed = 0;
    if (!prng_repeated_seed(&seed))
        return prng_first_seed() + offset;
    *count = 1;
    return seed;
}

void prng_print_seed(uint64_t seed)
{
    fprintf(stderr, "seed %" PRIu64 "; repeat: TIDEMARK_SEED=%" PRIu64 " %s\n", seed, seed,
            test_file_command());
}

uint64_t prng_seed_from_env(uint64_t default_seed)
{
    uint64_t seed = default_seed;
    uint64_t first = 0;
    if (!prng_repeated_seed(&seed) && read_number("TIDEMARK_FIRST_SEED", &first))
        seed = first + default_seed; /* several seeds of one program stay different */
    prng_print_seed(seed);
    return seed;
}
