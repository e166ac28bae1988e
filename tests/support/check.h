/* check.h - cmocka, and assertions about statuses.
 *
 * Includes cmocka with everything it wants before it, so a test includes this and not <cmocka.h>.
 * A failed assertion prints the names of the statuses ("want OK, got E_BUSY"), the text of the
 * tide_error when one was given, and the source text of the call.
 *
 * Threads: cmocka can fail a case only on the thread that runs it. Other threads hand their
 * status back. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tidemark/error.h>
#include <tidemark/status.h>

#include "support/program/test_file.h"

/* The call returned TIDE_OK; TIDE_NONE is not ok. */
#define assert_ok(call) assert_status(TIDE_OK, call)
#define assert_ok_err(call, err) assert_status_err(TIDE_OK, call, err)

/* The call returned exactly this status. The _err form also prints *err, which the call filled. */
#define assert_status(expected, call)                                                              \
    check_status((expected), (call), NULL, #call, __FILE__, __LINE__)
#define assert_status_err(expected, call, err)                                                     \
    check_status((expected), (call), (err), #call, __FILE__, __LINE__)

/* The text contains the part: for messages, whose exact text is no contract. */
#define assert_contains(text, part) check_contains((text), (part), __FILE__, __LINE__)

/* The number that a text printed by a program is: decimal, a newline may follow. */
#define assert_number(text) check_number((text), __FILE__, __LINE__)

/* make soak is at work (TIDEMARK_SOAK): do much more of it. */
bool is_soak(void);

void check_status(tide_status expected, tide_status actual, const tide_error *err, const char *call,
                  const char *file, int line);
void check_contains(const char *text, const char *part, const char *file, int line);

int64_t check_number(const char *text, const char *file, int line);

/* Nothing may be skipped: the environment has CI=true (or any value but "", "0" and "false"). */
bool check_is_ci(void);
