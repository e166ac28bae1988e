/* lease_list.h - a list of items with the tokens that hold them, given to one statement and answered by it.
 *
 * Sorted by id: statements about the same items then lock them in the same order.
 *
 * Threads: a list belongs to one thread at a time. */
#pragma once

#include "work/item.h"

typedef struct tide_lease_list {
    const char *id;
    int64_t token;
    const char *output; /* NULL: none */
    bool *is_lost;      /* the caller's mark */
    /* Finishing: the caller's mark that items wait for this one, or that it left idempotency keys
     * unanswered. NULL elsewhere. */
    bool *is_needed;
} tide_lease_list;

/* Ids and tokens are checked; is_lost of all becomes true, until tide_lease_list_mark says otherwise. */
TIDE_MUST_CHECK tide_status tide_lease_list_check(const tide_lease_list *list, int count,
                                                  tide_error *err);
void tide_lease_list_sort(tide_lease_list *list, int count);

/* True: an item is named twice. */
bool tide_lease_list_has_twins(const tide_lease_list *list, int count);

/* Forget earlier answers. */
void tide_lease_list_reset(const tide_lease_list *list, int count);

/* Bind [{"id":..,"token":..,"output":..,"digest":..},..] of those that are still marked as lost. */
TIDE_MUST_CHECK tide_status tide_lease_list_bind(tide_query *query, const char *name,
                                                 const tide_lease_list *list, int count,
                                                 tide_error *err);

/* PostgreSQL: bind all of them as arrays: :ids, :tokens, :digests and :outputs. Cheaper for the server than a list of objects. */
TIDE_MUST_CHECK tide_status tide_lease_list_bind_arrays(tide_query *query,
                                                        const tide_lease_list *list, int count,
                                                        tide_error *err);

/* Append an element of a text array: "text", with what is special in it behind a backslash; NULL for
 * none. */
TIDE_MUST_CHECK tide_status tide_lease_list_put_element(tide_buffer *array, const char *text);

/* This one was answered: it is not lost. Returns it; NULL: nobody asked for it. */
const tide_lease_list *tide_lease_list_mark(const tide_lease_list *list, int count, tide_view id,
                                            int64_t token);

int tide_lease_list_count_lost(const tide_lease_list *list, int count);
