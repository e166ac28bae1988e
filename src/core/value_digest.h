/* value_digest.h - digest of a stored value: a changed byte is reported, not served.
 *
 * 64 bits over what the value is (kind), whose it is (the row's name) and its bytes, each behind its
 * length, so that a value that was moved to another row does not match either. It finds accidents; it
 * is no defence against people.
 *
 * A row with several values has the XOR of their digests, where a value that is NULL counts as 0: so
 * a statement that sets one of them changes the digest without reading the others.
 *
 * Threads: pure; tide_values_verify as safe as the store. */
#pragma once

#include <stdint.h>

#include <tidemark/store.h>
#include <tidemark/view.h>

#include "store/statement.h"

enum { TIDE_ROW_VALUES_MAX = 2 };

/* Of a view of NULL: 0. */
int64_t tide_value_digest(const char *kind, tide_view name, tide_view value);

/* The digest found in a row against the one stored with it. TIDE_E_DAMAGED: "the stored WHAT 'NAME'
 * is not what was written". */
TIDE_MUST_CHECK tide_status tide_value_digest_check(int64_t stored, int64_t found, const char *what,
                                                    tide_view name, tide_error *err);

/* Rows with digests: a page of them behind :after, at most :limit, by name. Columns: name, a value
 * per kind, digest. */
typedef struct tide_value_table {
    const tide_sql *page;
    const char *what;
    const char *kinds[TIDE_ROW_VALUES_MAX]; /* ends with NULL, or is full */
} tide_value_table;

/* Compare all rows; fn is called per finding, *out is added to. TIDE_E_DAMAGED: there were findings.
 * A store whose schema is older than this program has no digests. */
TIDE_MUST_CHECK tide_status tide_values_verify(tide_store *store, const tide_value_table *table,
                                               tide_store_finding_fn *fn, void *arg,
                                               tide_values_checked *out, tide_error *err);
