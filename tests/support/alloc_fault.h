/* alloc_fault.h - memory that runs out at a chosen allocation.
 *
 * The linker puts this module in front of the allocator: a test program linked with
 *
 *     -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
 *     -Wl,--wrap=aligned_alloc,--wrap=posix_memalign
 *
 * sends every such call made by code linked into the program itself (the test, the library's
 * objects, a static SQLite) through here. Shared libraries (libc's own strndup, asprintf, getline;
 * libpq; cmocka) keep the real allocator and are neither counted nor failed. The sanitizers'
 * allocators stand behind this one and go on working. With link-time optimisation the linker may
 * resolve calls before it wraps them: build without.
 *
 * Between arming and alloc_fault_off() allocations are numbered 1, 2, 3...; a failed one returns
 * NULL with errno ENOMEM (posix_memalign returns ENOMEM), and realloc leaves the old block as it
 * was. Before and after, the module only passes through.
 *
 * The sweep is the point of it: run a scenario with allocation 1 failing, then 2, then 3, until
 * a run no longer reaches the failing one. A scenario builds and destroys everything it uses,
 * reports nothing but by assertion, and must hold in two cases: it was given an error, or the
 * failure did not matter and the result is right. Leaks are left to the sanitizer.
 *
 * Threads: one armed fault per program; counting is atomic, so allocations of all threads are
 * numbered together and exactly one gets each number. A test that is left by a failing assertion
 * stays armed: call alloc_fault_off() in the teardown. */
#pragma once

#include <stdint.h>

/* Fail the nth allocation from now, once. 0 fails none and only counts. */
void alloc_fault_at(int64_t nth);

/* Fail the nth allocation from now and all that follow. 0 fails none and only counts. */
void alloc_fault_from(int64_t nth);

void alloc_fault_off(void);

/* Allocations seen since the last arming; the number stays readable after alloc_fault_off(). */
int64_t alloc_fault_count(void);

/* How many of them were failed; stays readable likewise. */
int64_t alloc_fault_hit(void);

/* Run scenario(arg) with n = 1, 2, 3... armed by arm (alloc_fault_at or alloc_fault_from) until
 * a run ends without a failed allocation. Returns how many runs had one: with alloc_fault_at and
 * a scenario that allocates the same each time, every allocation was failed exactly once.
 * Returns -1 when run number max still had one: the scenario allocates more than expected, or
 * retries for ever. */
typedef void alloc_fault_scenario(void *arg);
int64_t alloc_fault_sweep(void (*arm)(int64_t nth), alloc_fault_scenario *scenario, void *arg,
                          int64_t max);

/* Both sweeps, one failure and lasting failure; for use inside a cmocka case. */
#define ALLOC_FAULT_SWEEP(scenario, arg, max)                                                      \
    do {                                                                                           \
        assert_true(alloc_fault_sweep(alloc_fault_at, (scenario), (arg), (max)) > 0);              \
        assert_true(alloc_fault_sweep(alloc_fault_from, (scenario), (arg), (max)) > 0);            \
    } while (0)
