#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIDE_ARENA_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TIDE_ARENA_ASAN 1
#endif

#ifdef TIDE_ARENA_ASAN
/* Not inlined: gcc would take the poisoning of fresh memory for a read of it. */
#include <sanitizer/asan_interface.h>
__attribute__((noinline)) static void forbid(void *ptr, size_t len)
{
    __asan_poison_memory_region(ptr, len);
}
static void allow(void *ptr, size_t len)
{
    __asan_unpoison_memory_region(ptr, len);
}
#else
static void forbid(void *ptr, size_t len)
{
    (void)ptr;
    (void)len;
}
static void allow(void *ptr, size_t len)
{
    (void)ptr;
    (void)len;
}
#endif

enum {
    CHUNK_FIRST_LEN = 4096,
    CHUNK_USUAL_MAX = 65536, /* a larger chunk serves one request and does not survive a reset */
};

struct tide_arena_chunk {
    struct tide_arena_chunk *next;
    size_t len;
    size_t used_len;
    _Alignas(max_align_t) unsigned char bytes[];
};

typedef struct tide_arena_chunk chunk;

static size_t round_up(size_t len)
{
    const size_t unit = _Alignof(max_align_t);
    return (len + unit - 1) / unit * unit;
}

static void free_chunk(chunk *c)
{
    allow(c->bytes, c->len);
    free(c);
}

tide_arena tide_arena_of(size_t max)
{
    return (tide_arena){.max = max};
}

void tide_arena_init(tide_arena *arena, size_t max)
{
    *arena = tide_arena_of(max);
}

void tide_arena_done(tide_arena *arena)
{
    for (chunk *c = arena->chunks; c;) {
        chunk *next = c->next;
        free_chunk(c);
        c = next;
    }
    tide_arena_init(arena, arena->max);
}

void tide_arena_reset(tide_arena *arena)
{
    chunk *kept = NULL;
    for (chunk *c = arena->chunks; c;) {
        chunk *next = c->next;
        if (!kept && c->len <= CHUNK_USUAL_MAX)
            kept = c;
        else
            free_chunk(c);
        c = next;
    }
    if (kept) {
        kept->next = NULL;
        kept->used_len = 0;
        forbid(kept->bytes, kept->len);
    }
    arena->chunks = kept;
    arena->used_len = 0;
}

static chunk *add_chunk(tide_arena *arena, size_t need)
{
    size_t len = CHUNK_FIRST_LEN;
    if (arena->chunks && arena->chunks->len > CHUNK_FIRST_LEN / 2)
        len = arena->chunks->len < CHUNK_USUAL_MAX / 2 ? arena->chunks->len * 2 : CHUNK_USUAL_MAX;
    const size_t allowed = arena->max - arena->used_len; /* at least need */
    if (len > allowed)
        len = allowed;
    if (len < need)
        len = need;
    if (len > SIZE_MAX - sizeof(chunk))
        return NULL;

    chunk *c = malloc(sizeof(chunk) + len);
    if (!c)
        return NULL;
    c->next = arena->chunks;
    c->len = len;
    c->used_len = 0;
    forbid(c->bytes, len);
    arena->chunks = c;
    return c;
}

void *tide_arena_alloc(tide_arena *arena, size_t len)
{
    if (len > arena->max)
        return NULL;
    if (len > SIZE_MAX - _Alignof(max_align_t))
        return NULL;
    const size_t need = round_up(len > 0 ? len : 1);
    if (need > arena->max - arena->used_len)
        return NULL;

    chunk *c = arena->chunks;
    if (!c || need > c->len - c->used_len)
        c = add_chunk(arena, need);
    if (!c)
        return NULL;
    void *memory = c->bytes + c->used_len;
    c->used_len += need;
    arena->used_len += need;
    allow(memory, len);
    return memory;
}

void *tide_arena_copy(tide_arena *arena, const void *ptr, size_t len)
{
    void *memory = tide_arena_alloc(arena, len);
    if (memory && len > 0)
        memcpy(memory, ptr, len);
    return memory;
}

char *tide_arena_text(tide_arena *arena, tide_view text)
{
    if (text.len == SIZE_MAX)
        return NULL;
    char *memory = tide_arena_alloc(arena, text.len + 1);
    if (!memory)
        return NULL;
    if (text.len > 0)
        memcpy(memory, text.ptr, text.len);
    memory[text.len] = '\0';
    return memory;
}
