/* status.h - how a call ended: one table for texts, retries, gRPC, HTTP and exit codes.
 *
 * Below 0 a failure, 0 TIDE_OK, above 0 "fine, but nothing there". Everything that is ever said
 * about a status (to a person, a script, a gRPC or HTTP peer) comes from TIDE_STATUS_TABLE and from
 * nowhere else.
 *
 * Threads: constant data. */
#ifndef TIDEMARK_STATUS_H
#define TIDEMARK_STATUS_H

#include <stdbool.h>

#include <tidemark/export.h>

TIDE_BEGIN_DECLS

/* The exit codes of the command line, one meaning each. */
typedef enum tide_exit {
    TIDE_EXIT_OK = 0,
    TIDE_EXIT_FAILED = 1,
    TIDE_EXIT_USAGE = 2,
    TIDE_EXIT_NOT_FOUND = 3,
    TIDE_EXIT_CONFLICT = 4,
    TIDE_EXIT_DENIED = 5,
    TIDE_EXIT_UNAVAILABLE = 6,
    TIDE_EXIT_PARTIAL = 7,
    TIDE_EXIT_DAMAGED = 8,
    TIDE_EXIT_INTERRUPTED = 130,
} tide_exit;

/* X(name, value, retryable, gRPC code, HTTP code, exit code, text, what to do next)
 *
 * retryable: running the same call again, unchanged, may succeed and cannot do harm. An unknown
 * outcome is not retryable in this sense: it needs a caller that knows its call to be
 * idempotent. */
#define TIDE_STATUS_TABLE(X)                                                                       \
    X(OK, 0, false, 0, 200, OK, "ok", "")                                                          \
    X(NONE, 1, false, 5, 404, NOT_FOUND, "nothing there", "")                                      \
    X(E_FAILED, -1, false, 13, 500, FAILED, "failed",                                              \
      "this is unexpected: please report it with the message above")                               \
    X(E_INVALID, -2, false, 3, 400, USAGE, "invalid input",                                        \
      "correct the value; nothing was changed")                                                    \
    X(E_NOT_FOUND, -3, false, 5, 404, NOT_FOUND, "not found",                                      \
      "check the name and the --store it is looked up in")                                         \
    X(E_EXISTS, -4, false, 6, 409, CONFLICT, "already exists", "choose another name or address")   \
    X(E_CONFLICT, -5, false, 10, 409, CONFLICT, "conflict",                                        \
      "read the current state and try again")                                                      \
    X(E_LEASE_LOST, -6, false, 9, 412, CONFLICT, "lease lost",                                     \
      "another holder may have taken over: stop this work and claim again")                        \
    X(E_MISMATCH, -7, false, 9, 409, CONFLICT, "mismatch", "compare both sides and try again")     \
    X(E_DENIED, -8, false, 7, 403, DENIED, "permission denied",                                    \
      "check the owner and the permissions")                                                       \
    X(E_UNAUTHENTICATED, -9, false, 16, 401, DENIED, "not authenticated",                          \
      "present valid credentials")                                                                 \
    X(E_UNAVAILABLE, -10, true, 14, 503, UNAVAILABLE, "unavailable", "try again in a moment")      \
    X(E_BUSY, -11, true, 14, 503, UNAVAILABLE, "busy", "try again in a moment")                    \
    X(E_TIMEOUT, -12, true, 4, 504, UNAVAILABLE, "timed out", "try again, or allow more time")     \
    X(E_OUTCOME_UNKNOWN, -13, false, 2, 500, PARTIAL, "outcome unknown",                           \
      "the change may or may not be stored: look before you repeat it")                            \
    X(E_SERIALIZATION, -14, true, 10, 409, UNAVAILABLE, "serialization failure",                   \
      "try again in a moment")                                                                     \
    X(E_LIMIT, -15, false, 8, 413, FAILED, "limit exceeded", "ask for less, or raise the limit")   \
    X(E_FULL, -16, true, 8, 507, UNAVAILABLE, "no space left", "free disk space, then try again")  \
    X(E_NOMEM, -17, true, 8, 503, UNAVAILABLE, "out of memory", "free memory, then try again")     \
    X(E_IO, -18, false, 13, 500, FAILED, "input/output error",                                     \
      "check the disk and the system log, then run 'tidemark store verify'")                       \
    X(E_DAMAGED, -19, false, 15, 500, DAMAGED, "damaged data",                                     \
      "restore from a backup; keep the damaged file for inspection")                               \
    X(E_FOREIGN, -20, false, 9, 400, FAILED, "not a Tidemark database",                            \
      "name another --store, or a path that does not exist yet to create one")                     \
    X(E_NEWER, -21, false, 9, 400, FAILED, "newer than this program",                              \
      "use a newer tidemark; this one changed nothing")                                            \
    X(E_UNSUPPORTED, -22, false, 12, 501, USAGE, "not supported", "see 'tidemark help'")           \
    X(E_EXHAUSTED, -23, false, 11, 400, FAILED, "numbers exhausted",                               \
      "numbers end at 9223372036854775807: start a new sequence, task or store")                   \
    X(E_PARTIAL, -24, false, 2, 207, PARTIAL, "partly done", "see which parts failed")             \
    X(E_INTERRUPTED, -25, false, 1, 499, INTERRUPTED, "interrupted", "")

typedef enum tide_status {
#define TIDE_STATUS_ENUM(name, value, retryable, grpc, http, exit_code, text, next)                \
    TIDE_##name = (value),
    TIDE_STATUS_TABLE(TIDE_STATUS_ENUM)
#undef TIDE_STATUS_ENUM
} tide_status;

typedef struct tide_status_row {
    tide_status status;
    const char *name; /* "E_INVALID" */
    const char *text; /* "invalid input" */
    const char *next; /* what the user can do now; "" where there is nothing to say */
    bool is_retryable;
    int grpc_code;
    int http_code;
    tide_exit exit_code;
} tide_status_row;

/* The row of a status. Never NULL: a number outside the table gets the row of TIDE_E_FAILED. */
TIDE_API const tide_status_row *tide_status_get(tide_status status);

TIDE_END_DECLS

#endif
