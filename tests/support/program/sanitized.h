/* sanitized.h - whether this program is built with a sanitizer.
 *
 * A sanitizer's shadow memory counts as memory of the program, and libraries that are preloaded
 * (libfaketime) do not go with it. gcc defines macros, clang has features. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif
