#include "net/server/site.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>

#include "base/cleanup.h"

#endif

enum {
    FREED_LARGE_LEN = 128 * 1024, /* smaller blocks are used again soon */
    TRIM_LEN = 16 << 20,          /* freed bytes that are worth the search */
    TRIM_HELD_LEN = 8 << 20,      /* more is held: the load is not over */
};

#define TRIM_AFTER_US TIDE_NET_SECOND

tide_status tide_site_new(tide_site **out, tide_env *env, const tide_net_limits *limits,
                          const tide_routes *routes, tide_error *err)
{
    tide_net_limits chosen;
    tide_net_limits_init(&chosen);
    if (limits)
        chosen = *limits;
    TIDE_TRY(tide_net_limits_check(&chosen, err));
    TIDE_NEW(tide_site, site, err);
    atomic_init(&site->refs, 1);
    site->env = env;
    site->limits = chosen;
    tide_budget_init(&site->budget, (size_t)chosen.budget_len, NULL);
    tide_budget_init(&site->answers, (size_t)chosen.answer_len, NULL);
    site->answers.is_lenient = true;
    tide_accounts_init(&site->accounts, &site->budget, &site->answers, &chosen);
    site->routes = routes;
    *out = site;
    return TIDE_OK;
}

void tide_site_hold(tide_site *site)
{
    (void)atomic_fetch_add_explicit(&site->refs, 1, memory_order_relaxed);
}

void tide_site_release(tide_site *site)
{
    if (!site || atomic_fetch_sub_explicit(&site->refs, 1, memory_order_acq_rel) != 1)
        return;
    tide_accounts_done(&site->accounts);
    free(site);
}

void tide_site_note_freed(tide_site *site, size_t len)
{
    if (len >= FREED_LARGE_LEN)
        (void)atomic_fetch_add_explicit(&site->freed_len, len, memory_order_relaxed);
}

void tide_site_trim(tide_site *site)
{
    if (atomic_load_explicit(&site->freed_len, memory_order_relaxed) < TRIM_LEN ||
        tide_budget_used(&site->answers) + tide_budget_used(&site->budget) > TRIM_HELD_LEN)
        return;
    const int64_t now_us = site->env->mono_us(site->env);
    int_fast64_t due_us = atomic_load_explicit(&site->trim_us, memory_order_relaxed);
    if (due_us == 0) { /* others are leaving, too: wait for them */
        (void)atomic_compare_exchange_strong(&site->trim_us, &due_us, now_us + TRIM_AFTER_US);
        return;
    }
    if (now_us < due_us || !atomic_compare_exchange_strong(&site->trim_us, &due_us, 0))
        return;
    atomic_store_explicit(&site->freed_len, 0, memory_order_relaxed);
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
