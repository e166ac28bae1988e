/* budget.h - one bound for memory that many take.
 *
 * Everything that holds bytes of unfinished requests or of answers takes them from a budget of the
 * server first and gives them back with the memory. What does not fit is refused, never waited for:
 * uploads that wait for each other's memory would wait for ever.
 *
 * A budget may be a share of another one (peer_quota.h: what one address may hold): what is taken
 * from the share is taken from the whole. A part of each, its reserve, is left to small holders, of
 * at most TIDE_BUDGET_SMALL_LEN bytes: large ones that come in slowly do not keep out the many that
 * are small and soon over.
 *
 * A lenient budget lets whoever comes first have more than there is: one answer that is larger than
 * the bound is given while nothing else is held, instead of never.
 *
 * Threads: safe. */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    TIDE_BUDGET_SMALL_LEN = 65536, /* bytes; who holds more is large */
    TIDE_BUDGET_RESERVE_PART = 16, /* this part of a budget is for small holders */
};

typedef struct tide_budget {
    atomic_size_t used;
    size_t max;
    size_t reserve; /* of max */
    bool is_lenient;
    struct tide_budget *whole; /* that this is a share of; NULL: none */
} tide_budget;

static inline void tide_budget_give(tide_budget *budget, size_t len)
{
    for (; budget; budget = budget->whole) {
        const size_t before = atomic_fetch_sub_explicit(&budget->used, len, memory_order_relaxed);
        assert(before >= len);
        (void)before;
    }
}

static inline bool tide_budget_take_one(tide_budget *budget, size_t len, size_t held_len)
{
    const size_t max =
        held_len > TIDE_BUDGET_SMALL_LEN ? budget->max - budget->reserve : budget->max;
    size_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
    do {
        const bool has_room = len <= max && used <= max - len;
        if (!has_room && !(budget->is_lenient && used == 0))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->used, &used, used + len,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* len bytes more for a holder that will then have held_len. */
static inline bool tide_budget_take_for(tide_budget *budget, size_t len, size_t held_len)
{
    for (tide_budget *at = budget; at; at = at->whole) {
        if (tide_budget_take_one(at, len, held_len))
            continue;
        for (tide_budget *undone = budget; undone != at; undone = undone->whole)
            (void)atomic_fetch_sub_explicit(&undone->used, len, memory_order_relaxed);
        return false;
    }
    return true;
}

/* ... and where refusing would cost more than the bytes do. */
static inline void tide_budget_force(tide_budget *budget, size_t len)
{
    for (; budget; budget = budget->whole)
        (void)atomic_fetch_add_explicit(&budget->used, len, memory_order_relaxed);
}

static inline bool tide_budget_take(tide_budget *budget, size_t len)
{
    return tide_budget_take_for(budget, len, len);
}

/* Would len bytes of one large holder fit if nothing else were held? */
static inline bool tide_budget_could_hold(const tide_budget *budget, size_t len)
{
    for (; budget; budget = budget->whole)
        if (len > budget->max - budget->reserve)
            return false;
    return true;
}

static inline size_t tide_budget_used(const tide_budget *budget)
{
    return atomic_load_explicit((atomic_size_t *)&budget->used, memory_order_relaxed);
}

/* What a large holder could take now. */
static inline size_t tide_budget_left(const tide_budget *budget)
{
    size_t left = (size_t)-1;
    for (; budget; budget = budget->whole) {
        const size_t max = budget->max - budget->reserve;
        const size_t used = tide_budget_used(budget);
        const size_t here = used < max ? max - used : 0;
        left = here < left ? here : left;
    }
    return left;
}
