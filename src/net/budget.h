/* budget.h - one bound for memory that many take.
 *
 * Everything that holds bytes of unfinished requests takes them from the server's budget first and gives them back
 * with the memory. What does not fit is refused, never waited for: uploads that wait for each other's memory would
 * wait for ever.
 *
 * Threads: safe. */
#ifndef TIDE_NET_BUDGET_H
#define TIDE_NET_BUDGET_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tide_budget {
    atomic_size_t used;
    size_t max;
} tide_budget;

static inline bool tide_budget_take(tide_budget *budget, size_t len)
{
    size_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
    do {
        if (len > budget->max || used > budget->max - len)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->used, &used, used + len,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static inline void tide_budget_give(tide_budget *budget, size_t len)
{
    const size_t before = atomic_fetch_sub_explicit(&budget->used, len, memory_order_relaxed);
    assert(before >= len);
    (void)before;
}

static inline size_t tide_budget_left(const tide_budget *budget)
{
    const size_t used = atomic_load_explicit((atomic_size_t *)&budget->used, memory_order_relaxed);
    return used < budget->max ? budget->max - used : 0;
}

#endif
