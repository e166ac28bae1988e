/* caller.h - checks of what a caller of the public interface passes and what its functions return.
 *
 * A program in another language can pass NULL where a pointer is needed, and its functions can
 * return any number. Both are answered with TIDE_E_INVALID, and not with a crash or a guess. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/error.h>

/* Return TIDE_E_INVALID unless all pointers are set: TIDE_NEED(store && out, err). */
#define TIDE_NEED(pointers, err)                                                                   \
    do {                                                                                           \
        if (!(pointers))                                                                           \
            return tide_fail((err), TIDE_E_INVALID, "%s: NULL, want %s", __func__, #pointers);     \
    } while (0)

/* The name of an enumerator in a table; a number that has none is "unknown". */
#define TIDE_NAME_AT(names, number)                                                                \
    ((unsigned)(number) < sizeof(names) / sizeof(names)[0] && (names)[number] ? (names)[number]    \
                                                                              : "unknown")

/* TIDE_E_INVALID: of another size, or a function is missing. */
TIDE_MUST_CHECK tide_status tide_env_check(const tide_env *env, tide_error *err);

/* The status that a caller's function returned, if it is one. Else TIDE_E_INVALID, with a text that
 * names the number: by its sign alone it would pass for success or for a failure. */
TIDE_MUST_CHECK tide_status tide_callback_check(tide_status status, tide_error *err);
