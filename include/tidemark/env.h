/* env.h - the machine as a struct of functions: clocks, randomness, waiting.
 *
 * Only src/base/env_system.c asks the machine. All other code receives a tide_env, so that tests
 * and the simulator can run the same code on a virtual clock and a seeded generator.
 *
 * Times are int64 microseconds. wall_us counts from the Unix epoch and may jump; mono_us never goes
 * back and stops while the machine sleeps; boot_us never goes back, counts sleep, and starts anew
 * with each boot_id. */
#ifndef TIDEMARK_ENV_H
#define TIDEMARK_ENV_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/export.h>

TIDE_BEGIN_DECLS

enum { TIDE_BOOT_ID_SIZE = 37 }; /* a UUID as text, with the terminator */

typedef struct tide_env tide_env;

/* Borrowed by the store or node that is opened with it. Every function is needed. */
struct tide_env {
    size_t size; /* TIDE_ENV_INIT */
    int64_t (*wall_us)(tide_env *env);
    int64_t (*mono_us)(tide_env *env);
    int64_t (*boot_us)(tide_env *env);
    void (*boot_id)(tide_env *env, char out[TIDE_BOOT_ID_SIZE]);
    void (*random)(tide_env *env, void *out, size_t len);
    void (*sleep_us)(tide_env *env, int64_t us); /* at least us; a virtual clock only advances */
};
#define TIDE_ENV_INIT .size = sizeof(tide_env)

/* The real machine; shared, immutable, safe from any thread. */
TIDE_API tide_env *tide_env_system(void);

TIDE_END_DECLS

#endif
