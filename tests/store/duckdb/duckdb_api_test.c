/* store/duckdb/duckdb_api.h against the header that DuckDB ships. What differs in a constant or in the type
 * of a function does not compile. */
#include <duckdb.h>

#define TIDE_DUCKDB_TYPES_ARE_DECLARED
#include "store/duckdb/duckdb_api.h"

#include "store/duckdb/duckdb_layout.h"
#include "support/check.h"

#define SAME_VALUE(name, value) _Static_assert((name) == (value), #name);
TIDE_DUCKDB_STATES(SAME_VALUE)
TIDE_DUCKDB_TYPES(SAME_VALUE)
TIDE_DUCKDB_ERROR_TYPES(SAME_VALUE)
TIDE_DUCKDB_STATEMENT_TYPES(SAME_VALUE)

#define SAME_SIZE(name) _Static_assert(sizeof(name) == sizeof(void *), #name);
TIDE_DUCKDB_HANDLES(SAME_SIZE)

#define SAME_TYPE(result, name, parameters)                                                        \
    _Static_assert(__builtin_types_compatible_p(                                                   \
                       __typeof__(&duckdb_##name),                                                 \
                       result(*) parameters), /* NOLINT(bugprone-macro-parentheses): a type */     \
                   #name);
TIDE_DUCKDB_FUNCTIONS(SAME_TYPE)

const size_t duckdb_layout_theirs[DUCKDB_LAYOUT_COUNT] = DUCKDB_LAYOUT;

static void structs_are_laid_out_as_in_duckdbs_own_header(void **state)
{
    (void)state;
    for (int i = 0; i < DUCKDB_LAYOUT_COUNT; i++)
        if (duckdb_layout_ours[i] != duckdb_layout_theirs[i])
            fail_msg("entry %d of DUCKDB_LAYOUT: %zu here, %zu there", i, duckdb_layout_ours[i],
                     duckdb_layout_theirs[i]);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(structs_are_laid_out_as_in_duckdbs_own_header),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
