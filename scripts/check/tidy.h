/* tidy.h - what clang-tidy is told about functions that it cannot look into.
 *
 * tide_fail and its relatives return the status they are given. Without knowing that, the analyzer
 * follows a failed call as if it had succeeded, and reports what the callee has not filled. An
 * assertion of cmocka that fails does not return. Without that, it follows a test behind its end.
 * Included in front of every source by scripts/check/tidy. */
#if __has_include(<tidemark/error.h>)
#include <tidemark/error.h>

#define tide_fail(err, status, ...) ((void)tide_fail(err, status, __VA_ARGS__), (status))
#define tide_fail_advised(err, status, ...)                                                        \
    ((void)tide_fail_advised(err, status, __VA_ARGS__), (status))
#define tide_no_memory(err) ((void)tide_no_memory(err), TIDE_E_NOMEM)
#endif

#if __has_include("support/check.h")
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef assert_true
#define assert_true(condition) ((condition) ? (void)0 : tidy_fail())
#undef assert_false
#define assert_false(condition) assert_true(!(condition))
#undef assert_non_null
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#undef assert_null
#define assert_null(pointer) assert_true((pointer) == NULL)
#define _fail(file, line) ((void)(file), (void)(line), tidy_fail())

__attribute__((noreturn)) void tidy_fail(void);
#endif
