#include "base/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { LEAST = 8 };

tide_status tide_list_resize(void *list, size_t count, size_t size, tide_error *err)
{
    void *items = NULL;
    size_t len = 0;
    memcpy(&items, list, sizeof items); /* bytewise, because the element's type is unknown */
    if (__builtin_mul_overflow(count, size, &len))
        return tide_no_memory(err);
    void *grown = realloc(items, len ? len : 1);
    TIDE_NEED_MEMORY(grown, err);
    memcpy(list, &grown, sizeof grown);
    return TIDE_OK;
}

tide_status tide_list_room(void *list, int64_t count, size_t size, int64_t max, tide_error *err)
{
    if (count >= max)
        return tide_fail(err, TIDE_E_LIMIT, "more than %" PRId64 " elements in a list", max);
    void *items = NULL;
    memcpy(&items, list, sizeof items);
    if (items && (count < LEAST || (count & (count - 1)) != 0))
        return TIDE_OK;
    return tide_list_resize(list, count == 0 ? LEAST : 2 * (size_t)count, size, err);
}
