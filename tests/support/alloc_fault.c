#include "support/alloc_fault.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* The names that ld's --wrap gives: a call of malloc arrives at __wrap_malloc, and __real_malloc
 * is what malloc was before. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static atomic_bool is_armed;
static atomic_bool is_lasting;
static _Atomic int64_t failing_number;
static _Atomic int64_t seen_count;
static _Atomic int64_t failed_count;

/* Number this allocation; true when it is one that must fail. */
static bool take_failure(void)
{
    if (!atomic_load(&is_armed))
        return false;

    const int64_t number = atomic_fetch_add(&seen_count, 1) + 1;
    const int64_t failing = atomic_load(&failing_number);
    if (failing == 0 || number < failing || (number > failing && !atomic_load(&is_lasting)))
        return false;

    atomic_fetch_add(&failed_count, 1);
    errno = ENOMEM;
    return true;
}

static void arm_fault(int64_t nth, bool lasting)
{
    assert(nth >= 0);
    atomic_store(&is_armed, false);
    atomic_store(&failing_number, nth);
    atomic_store(&is_lasting, lasting);
    atomic_store(&seen_count, 0);
    atomic_store(&failed_count, 0);
    atomic_store(&is_armed, true);
}

void alloc_fault_at(int64_t nth)
{
    arm_fault(nth, false);
}

void alloc_fault_from(int64_t nth)
{
    arm_fault(nth, true);
}

void alloc_fault_off(void)
{
    atomic_store(&is_armed, false);
}

int64_t alloc_fault_count(void)
{
    return atomic_load(&seen_count);
}

int64_t alloc_fault_hit(void)
{
    return atomic_load(&failed_count);
}

int64_t alloc_fault_sweep(void (*arm)(int64_t nth), alloc_fault_scenario *scenario, void *arg,
                          int64_t max)
{
    for (int64_t n = 1; n <= max; n++) {
        arm(n);
        scenario(arg);
        alloc_fault_off();
        if (alloc_fault_hit() == 0)
            return n - 1;
    }
    return -1;
}

void *__wrap_malloc(size_t size)
{
    return take_failure() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return take_failure() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return take_failure() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return take_failure() ? NULL : __real_strdup(text);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return take_failure() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return take_failure() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}
