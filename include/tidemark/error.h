/* error.h - the text of a failure, on the caller's stack.
 *
 * Every fallible function takes a tide_error as its last parameter (NULL is allowed: the text is
 * then dropped) and returns a tide_status. The text names what failed and with which values; what
 * the user can do next comes from the status table, or ends the text (is_advised). The first
 * failure fills it; callers add context in front only where it helps an operator.
 *
 * Threads: a tide_error belongs to one thread at a time. */
#ifndef TIDEMARK_ERROR_H
#define TIDEMARK_ERROR_H

#include <stdbool.h>

#include <tidemark/export.h>
#include <tidemark/status.h>

TIDE_BEGIN_DECLS

enum { TIDE_ERROR_TEXT_MAX = 512 }; /* bytes, with the terminator; longer texts end in "..." */

typedef struct tide_error {
    tide_status status;
    bool is_advised; /* the text ends with what to do; the status table's advice does not apply */
    char text[TIDE_ERROR_TEXT_MAX];
} tide_error;

/* Fill *err and return status, so that a failing path is one line. */
TIDE_API tide_status tide_fail(tide_error *err, tide_status status, const char *format, ...)
    TIDE_PRINTF(3, 4);

/* As tide_fail, for a text that ends with what to do: sets is_advised. */
TIDE_API tide_status tide_fail_advised(tide_error *err, tide_status status, const char *format, ...)
    TIDE_PRINTF(3, 4);

/* Put "context: " in front of the text already in *err; returns err's status. */
TIDE_API tide_status tide_fail_context(tide_error *err, tide_status status, const char *format, ...)
    TIDE_PRINTF(3, 4);

/* The one text for an allocation that failed. What the memory was for is left out: a caller adds
 * the context that helps an operator. Returns TIDE_E_NOMEM. */
TIDE_API tide_status tide_no_memory(tide_error *err);

/* Pass a failure up; TIDE_OK and TIDE_NONE go on. */
#define TIDE_TRY(call)                                                                             \
    do {                                                                                           \
        const tide_status tide_try_status_ = (call);                                               \
        if (tide_try_status_ < TIDE_OK)                                                            \
            return tide_try_status_;                                                               \
    } while (0)

/* A failure that changes nothing for the caller, said so in the open. */
#define TIDE_IGNORE(call)                                                                          \
    do {                                                                                           \
        const tide_status tide_ignored_status_ = (call);                                           \
        (void)tide_ignored_status_;                                                                \
    } while (0)

TIDE_END_DECLS

#endif
