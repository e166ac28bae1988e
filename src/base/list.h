/* list.h - growing arrays: the one place that reallocates them.
 *
 *     TIDE_TRY(tide_list_room(&list->rows, list->count, sizeof *list->rows, ROWS_MAX, err));
 *     list->rows[list->count++] = row;
 *
 * A list is a pointer, NULL at first, and a count; the caller owns both and frees the pointer.
 * Its room follows from the count: the next power of two, 8 at least. So a list keeps no capacity,
 * and may be emptied by setting the count to 0.
 *
 * Threads: as the list. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tidemark/error.h>

enum { TIDE_LIST_MAX = INT32_MAX / 2 }; /* of a list whose source has limits of its own */

/* Make room for one more element behind count. list is the address of the pointer, size that of an
 * element. TIDE_E_LIMIT: count has reached max. TIDE_E_NOMEM. Either leaves the list as it is. */
TIDE_MUST_CHECK tide_status tide_list_room(void *list, int64_t count, size_t size, int64_t max,
                                           tide_error *err);

/* Make room for count elements in all, exactly. */
TIDE_MUST_CHECK tide_status tide_list_resize(void *list, size_t count, size_t size,
                                             tide_error *err);
