/* sized.h - structs that callers fill and that begin with their size.
 *
 * The first member, `size_t size`, is the sizeof of the struct where the caller was compiled
 * (TIDE_<STRUCT>_INIT sets it). A later release adds members at the end, behind the padding of the
 * earlier one. A smaller size is an older caller: the members that it lacks are zero, the default.
 * 0, or a size that this library does not know, is TIDE_E_INVALID: the size was not set, or the
 * caller is newer and its new members would be ignored.
 *
 * Threads: no state. */
#pragma once

#include <stddef.h>

#include <tidemark/error.h>

/* Copy a caller's struct to *out, which has size bytes. name is that of the type, for the error. in
 * NULL: TIDE_E_INVALID. */
TIDE_MUST_CHECK tide_status tide_sized_copy(void *out, size_t size, const void *in,
                                            const char *name, tide_error *err);

/* For options that may be NULL: *out is then all defaults. */
TIDE_MUST_CHECK tide_status tide_sized_copy_optional(void *out, size_t size, const void *in,
                                                     const char *name, tide_error *err);

/* For a struct that is borrowed, not copied: it has size bytes. */
TIDE_MUST_CHECK tide_status tide_sized_check(const void *in, size_t size, const char *name,
                                             tide_error *err);

#define TIDE_SIZED_COPY(out, in, type, err) tide_sized_copy((out), sizeof(type), (in), #type, (err))
#define TIDE_SIZED_COPY_OPTIONAL(out, in, type, err)                                               \
    tide_sized_copy_optional((out), sizeof(type), (in), #type, (err))

/* An array of them, all of one size. items is the caller's array if the size is ours, else a
 * copy. */
typedef struct tide_sized_list {
    void *items;
    void *given;
    int count;
    size_t size;
    size_t given_size;
} tide_sized_list;

/* given may be NULL if count is below 1. End it with tide_sized_list_done (fits TIDE_CLEANUP). */
TIDE_MUST_CHECK tide_status tide_sized_list_init(tide_sized_list *list, size_t size,
                                                 const void *given, int count, const char *name,
                                                 tide_error *err);
void tide_sized_list_done(tide_sized_list *list);

/* Write what the library has stored in items to the caller's array, which then is not const. */
void tide_sized_list_return(const tide_sized_list *list);

#define TIDE_SIZED_LIST(list, given, count, type, err)                                             \
    tide_sized_list_init((list), sizeof(type), (given), (count), #type, (err))
