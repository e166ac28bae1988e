/* net/client/curl_api.h against curl's own header. What differs in a constant or in the type of a
 * function does not compile. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define TIDE_CURL_TYPES_ARE_DECLARED
#include "net/client/curl_api.h"
#include "net/client/curl_layout.h"
#include "support/check.h"

#define SAME_VALUE(name, value) _Static_assert((name) == (value), #name);
TIDE_CURL_CODES(SAME_VALUE)
TIDE_CURL_OPTIONS(SAME_VALUE)
TIDE_CURL_MULTI_OPTIONS(SAME_VALUE)
TIDE_CURL_INFOS(SAME_VALUE)
TIDE_CURL_CONSTANTS(SAME_VALUE)
TIDE_CURL_MULTI_CODES(SAME_VALUE)
TIDE_CURL_MESSAGES(SAME_VALUE)

/* curl's header hides these behind macros. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt
#define SAME_TYPE(result, name, parameters)                                                        \
    _Static_assert(__builtin_types_compatible_p(                                                   \
                       __typeof__(&(name)),                                                        \
                       result(*) parameters), /* NOLINT(bugprone-macro-parentheses): a type */     \
                   #name);
TIDE_CURL_FUNCTIONS(SAME_TYPE)

const size_t curl_layout_theirs[CURL_LAYOUT_COUNT] = CURL_LAYOUT;

static void structs_are_laid_out_as_in_curls_own_header(void **state)
{
    (void)state;
    for (int i = 0; i < CURL_LAYOUT_COUNT; i++)
        if (curl_layout_ours[i] != curl_layout_theirs[i])
            fail_msg("entry %d of CURL_LAYOUT: %zu here, %zu there", i, curl_layout_ours[i],
                     curl_layout_theirs[i]);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(structs_are_laid_out_as_in_curls_own_header),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
