#include "base/interface/sized.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static size_t size_of(const void *in)
{
    size_t size = 0;
    memcpy(&size, in, sizeof size);
    return size;
}

static tide_status check_size(size_t given, size_t size, const char *name, tide_error *err)
{
    if (given < sizeof given)
        return tide_fail(err, TIDE_E_INVALID, "%s.size is %zu; set it to sizeof(%s)", name, given,
                         name);
    if (given > size)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s has %zu bytes, more than the %zu of this library; "
                         "use a libtidemark as new as the headers",
                         name, given, size);
    return TIDE_OK;
}

static void copy(void *out, size_t size, const void *in, size_t given)
{
    memset(out, 0, size);
    memcpy(out, in, given);
    memcpy(out, &size, sizeof size);
}

tide_status tide_sized_check(const void *in, size_t size, const char *name, tide_error *err)
{
    const size_t given = in ? size_of(in) : 0;
    if (given < size)
        return tide_fail(err, TIDE_E_INVALID, "%s.size is %zu; set it to sizeof(%s)", name, given,
                         name);
    return check_size(given, size, name, err);
}

tide_status tide_sized_copy(void *out, size_t size, const void *in, const char *name,
                            tide_error *err)
{
    if (!in)
        return tide_fail(err, TIDE_E_INVALID, "%s is NULL", name);
    return tide_sized_copy_optional(out, size, in, name, err);
}

tide_status tide_sized_copy_optional(void *out, size_t size, const void *in, const char *name,
                                     tide_error *err)
{
    const size_t given = in ? size_of(in) : sizeof given;
    TIDE_TRY(check_size(given, size, name, err));
    copy(out, size, in ? in : &given, given);
    return TIDE_OK;
}

static void *item_at(const void *items, size_t size, int i)
{
    return (char *)items + (size_t)i * size;
}

tide_status tide_sized_list_init(tide_sized_list *list, size_t size, const void *given, int count,
                                 const char *name, tide_error *err)
{
    *list = (tide_sized_list){.size = size, .items = (void *)given};
    if (count < 1)
        return TIDE_OK;
    if (!given)
        return tide_fail(err, TIDE_E_INVALID, "%d %s, and the array is NULL", count, name);
    list->given = list->items;
    list->given_size = size_of(given);
    list->count = count;
    TIDE_TRY(check_size(list->given_size, size, name, err));
    for (int i = 1; i < count; i++) {
        const size_t other = size_of(item_at(given, list->given_size, i));
        if (other != list->given_size)
            return tide_fail(err, TIDE_E_INVALID, "%s.size is %zu in element 0 and %zu in %d", name,
                             list->given_size, other, i);
    }
    if (list->given_size == size)
        return TIDE_OK;
    list->items = calloc((size_t)count, size);
    TIDE_NEED_MEMORY(list->items, err);
    for (int i = 0; i < count; i++)
        copy(item_at(list->items, size, i), size, item_at(given, list->given_size, i),
             list->given_size);
    return TIDE_OK;
}

void tide_sized_list_return(const tide_sized_list *list)
{
    if (list->items == list->given)
        return;
    for (int i = 0; i < list->count; i++)
        memcpy((char *)item_at(list->given, list->given_size, i) + sizeof(size_t),
               (char *)item_at(list->items, list->size, i) + sizeof(size_t),
               list->given_size - sizeof(size_t));
}

void tide_sized_list_done(tide_sized_list *list)
{
    if (list->given && list->items != list->given)
        free(list->items);
    *list = (tide_sized_list){0};
}
