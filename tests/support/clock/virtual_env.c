#include "support/clock/virtual_env.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static virtual_env *lock_env(tide_env *env)
{
    virtual_env *v = (virtual_env *)env;
    const int rc = pthread_mutex_lock(&v->lock);
    assert(rc == 0);
    return v;
}

static void unlock_env(virtual_env *v)
{
    const int rc = pthread_mutex_unlock(&v->lock);
    assert(rc == 0);
}

static int64_t read_wall(tide_env *env)
{
    virtual_env *v = lock_env(env);
    const int64_t now_us = v->wall_us;
    unlock_env(v);
    return now_us;
}

static int64_t read_mono(tide_env *env)
{
    virtual_env *v = lock_env(env);
    const int64_t now_us = v->mono_us;
    unlock_env(v);
    return now_us;
}

static int64_t read_boot(tide_env *env)
{
    virtual_env *v = lock_env(env);
    const int64_t now_us = v->boot_us;
    unlock_env(v);
    return now_us;
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    virtual_env *v = lock_env(env);
    memcpy(out, v->boot_id, TIDE_BOOT_ID_SIZE);
    unlock_env(v);
}

static void draw_random(tide_env *env, void *out, size_t len)
{
    virtual_env *v = lock_env(env);
    prng_fill(&v->random, out, len);
    unlock_env(v);
}

static void sleep_virtually(tide_env *env, int64_t us)
{
    virtual_env_advance((virtual_env *)env, us > 0 ? us : 0);
}

void virtual_env_init(virtual_env *v, uint64_t seed)
{
    *v = (virtual_env){
        .env = {TIDE_ENV_INIT, .wall_us = read_wall, .mono_us = read_mono, .boot_us = read_boot,
                .boot_id = read_boot_id, .random = draw_random, .sleep_us = sleep_virtually},
        .wall_us = VIRTUAL_ENV_WALL_US,
        .mono_us = VIRTUAL_ENV_UP_US,
        .boot_us = VIRTUAL_ENV_UP_US,
    };
    const int rc = pthread_mutex_init(&v->lock, NULL);
    assert(rc == 0);
    prng_init(&v->random, seed);
    virtual_env_make_boot_id(&v->random, v->boot_id);
}

void virtual_env_done(virtual_env *v)
{
    const int rc = pthread_mutex_destroy(&v->lock);
    assert(rc == 0);
}

void virtual_env_advance(virtual_env *v, int64_t us)
{
    assert(us >= 0);
    lock_env(&v->env);
    v->wall_us += us;
    v->mono_us += us;
    v->boot_us += us;
    unlock_env(v);
}

void virtual_env_suspend(virtual_env *v, int64_t us)
{
    assert(us >= 0);
    lock_env(&v->env);
    v->wall_us += us;
    v->boot_us += us;
    unlock_env(v);
}

void virtual_env_set_wall(virtual_env *v, int64_t wall_us)
{
    lock_env(&v->env);
    v->wall_us = wall_us;
    unlock_env(v);
}

void virtual_env_reboot(virtual_env *v)
{
    lock_env(&v->env);
    v->mono_us = 0;
    v->boot_us = 0;
    virtual_env_make_boot_id(&v->random, v->boot_id);
    unlock_env(v);
}

void virtual_env_make_boot_id(prng *random, char out[TIDE_BOOT_ID_SIZE])
{
    const uint64_t high = prng_u64(random);
    const uint64_t low = prng_u64(random);
    const int len =
        snprintf(out, TIDE_BOOT_ID_SIZE, "%08x-%04x-4%03x-%04x-%012" PRIx64, (unsigned)(high >> 32),
                 (unsigned)(high >> 16) & 0xffffU, (unsigned)high & 0xfffU,
                 0x8000U | ((unsigned)(low >> 48) & 0x3fffU), low & UINT64_C(0xffffffffffff));
    assert(len == TIDE_BOOT_ID_SIZE - 1);
}
