/* cleanup.h - leaving a scope: release by attribute, and the ways to return early.
 *
 *     TIDE_CLEANUP(tide_freep) char *name = strdup(text);
 *     TIDE_NEED_MEMORY(name, err);
 *     ...                             every return from here on frees it
 *     *out = TIDE_TAKE(name);         unless it is handed over
 *
 * The function named in TIDE_CLEANUP receives a pointer to the variable and must accept a variable
 * that holds NULL. The variable must be initialised where it is declared: the attribute runs in any
 * case. By habit a type tide_x offers tide_x_freep (or _endp, _closep) for pointers to it; types
 * that live in the caller's memory name their _done function directly. TIDE_CLEANUP_FN defines
 * the former. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include <tidemark/error.h>

#define TIDE_CLEANUP(function) __attribute__((cleanup(function)))

/* Defines a function for TIDE_CLEANUP: it calls end with what a variable of type * holds. No
 * semicolon follows. */
#define TIDE_CLEANUP_FN(name, type, end)                                                           \
    static inline void name(type **variable) /* NOLINT(bugprone-macro-parentheses): a type */      \
    {                                                                                              \
        end(*variable);                                                                            \
    }

/* The same for a public type: NULL is fine, and so is a variable that holds NULL, which it does
 * then. */
#define TIDE_CLOSE_FN(name, type, end)                                                             \
    void name(type **variable) /* NOLINT(bugprone-macro-parentheses): a type */                    \
    {                                                                                              \
        if (variable) {                                                                            \
            end(*variable);                                                                        \
            *variable = NULL;                                                                      \
        }                                                                                          \
    }

/* The value of a pointer variable, which becomes NULL: ownership leaves the scope. */
#define TIDE_TAKE(variable)                                                                        \
    __extension__({                                                                                \
        __typeof__(variable) tide_taken_ = (variable);                                             \
        (variable) = NULL;                                                                         \
        tide_taken_;                                                                               \
    })

/* Return TIDE_E_NOMEM if an allocation failed, that is, if the condition is false. */
#define TIDE_NEED_MEMORY(condition, err)                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return tide_no_memory(err);                                                            \
    } while (0)

/* Allocate count zeroed elements of the pointer's type, or return TIDE_E_NOMEM. */
#define TIDE_ALLOC(pointer, count, err)                                                            \
    do {                                                                                           \
        (pointer) = calloc((count), sizeof *(pointer));                                            \
        TIDE_NEED_MEMORY((pointer), (err));                                                        \
    } while (0)

/* Declare a pointer to one zeroed element, or return TIDE_E_NOMEM. TIDE_CLEANUP may precede it. */
#define TIDE_NEW(type, name, err)                                                                  \
    type *name = calloc(1, sizeof *name); /* NOLINT(bugprone-macro-parentheses): a type */         \
    TIDE_NEED_MEMORY(name, err)

/* As TIDE_TRY, but TIDE_NONE is returned too: only TIDE_OK continues. */
#define TIDE_TRY_FOUND(call)                                                                       \
    do {                                                                                           \
        const tide_status tide_try_status_ = (call);                                               \
        if (tide_try_status_ != TIDE_OK)                                                           \
            return tide_try_status_;                                                               \
    } while (0)

/* As TIDE_TRY, but TIDE_NONE ends the function with TIDE_OK: there is nothing to do. */
#define TIDE_OK_IF_NONE(call)                                                                      \
    do {                                                                                           \
        const tide_status tide_try_status_ = (call);                                               \
        if (tide_try_status_ != TIDE_OK)                                                           \
            return tide_try_status_ < TIDE_OK ? tide_try_status_ : TIDE_OK;                        \
    } while (0)

/* A loop over what steps: TIDE_OK gives an element, TIDE_NONE is the end, and a failure is returned
 * from the function, as TIDE_TRY does.
 *
 *     TIDE_EACH(tide_query_step(query, err))
 *         count += tide_query_col_i64(query); */
#define TIDE_EACH_NAME_(line) tide_step_##line
#define TIDE_EACH_(step, name)                                                                     \
    for (tide_status name; (name = (step)) != TIDE_NONE;) /* NOLINT(bugprone-macro-parentheses) */ \
        if (name < TIDE_OK) /* NOLINT(bugprone-macro-parentheses): TIDE_EACH_NAME_ */              \
            return name;                                                                           \
        else
#define TIDE_EACH_AT_(step, line) TIDE_EACH_(step, TIDE_EACH_NAME_(line))
#define TIDE_EACH(step) TIDE_EACH_AT_(step, __LINE__)

/* For memory from malloc and its relatives. Takes any `T **`; copied bytewise because T is
 * unknown. */
static inline void tide_freep(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}
