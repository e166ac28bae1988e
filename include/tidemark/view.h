/* view.h - borrowed bytes: a pointer and a length.
 *
 * Owns nothing. The function that returns one documents until when it is valid. The bytes need no
 * terminator. */
#ifndef TIDEMARK_VIEW_H
#define TIDEMARK_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct tide_view {
    const char *ptr;
    size_t len;
} tide_view;

static inline tide_view tide_view_of(const char *text)
{
    tide_view view;
    view.ptr = text;
    view.len = text ? strlen(text) : 0;
    return view;
}

static inline tide_view tide_view_bytes(const void *ptr, size_t len)
{
    tide_view view;
    view.ptr = (const char *)ptr;
    view.len = len;
    return view;
}

static inline bool tide_view_equal(tide_view a, tide_view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

#endif
