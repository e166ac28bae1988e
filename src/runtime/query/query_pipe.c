#include "runtime/query/query_pipe.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <tidemark/env.h>

enum { MISSES_MAX = 10 };

#define SPIN_US INT64_C(60)

static bool has_two_processors(void)
{
    static atomic_int known;
    int count = atomic_load_explicit(&known, memory_order_relaxed);
    if (count == 0) {
        cpu_set_t set;
        count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        atomic_store_explicit(&known, count, memory_order_relaxed);
    }
    return count > 1;
}

ssize_t tide_query_pipe_read(int fd, void *at, size_t len, tide_query_spin *spin)
{
    ssize_t n = read(fd, at, len);
    if (!spin || n >= 0 || errno != EAGAIN || !has_two_processors())
        return n;
    if (spin->skip > 0) {
        spin->skip--;
        return n;
    }
    tide_env *env = tide_env_system();
    const int64_t until_us = env->mono_us(env) + SPIN_US;
    while (n < 0 && errno == EAGAIN && env->mono_us(env) < until_us)
        n = read(fd, at, len);
    if (n >= 0) {
        spin->misses = 0;
        return n;
    }
    spin->misses += spin->misses < MISSES_MAX;
    spin->skip = (1 << spin->misses) - 1;
    return n;
}
