/* tidy.h - what clang-tidy is told about functions that it cannot look into.
 *
 * tide_fail returns the status it is given. Without knowing that, the analyzer follows a failed call as if it had
 * succeeded, and reports what the callee has not filled. Included in front of every source by scripts/check/tidy. */
#if __has_include(<tidemark/error.h>)
#include <tidemark/error.h>

#define tide_fail(err, status, ...) ((void)tide_fail(err, status, __VA_ARGS__), (status))
#endif
