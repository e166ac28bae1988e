/* view.h - borrowed bytes: a pointer and a length.
 *
 * Owns nothing. Whoever hands one out says until when it is valid. The bytes need no terminator. */
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
    return (tide_view){.ptr = text, .len = text ? strlen(text) : 0};
}

static inline tide_view tide_view_bytes(const void *ptr, size_t len)
{
    return (tide_view){.ptr = ptr, .len = len};
}

static inline bool tide_view_equal(tide_view a, tide_view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

#endif
