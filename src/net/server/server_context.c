#include "net/server/server_context.h"

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

tide_status tide_server_context_new(tide_server_context **out, tide_env *env,
                                    const tide_net_limits *limits, const tide_routes *routes,
                                    tide_error *err)
{
    tide_net_limits chosen;
    tide_net_limits_init(&chosen);
    if (limits)
        chosen = *limits;
    TIDE_TRY(tide_net_limits_check(&chosen, err));
    TIDE_NEW(tide_server_context, context, err);
    atomic_init(&context->refs, 1);
    context->env = env;
    context->limits = chosen;
    tide_budget_init(&context->budget, (size_t)chosen.budget_len, NULL);
    tide_budget_init(&context->answers, (size_t)chosen.answer_len, NULL);
    context->answers.is_lenient = true;
    tide_peer_quotas_init(&context->quotas, &context->budget, &context->answers, &chosen);
    context->routes = routes;
    *out = context;
    return TIDE_OK;
}

void tide_server_context_hold(tide_server_context *context)
{
    (void)atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
}

void tide_server_context_release(tide_server_context *context)
{
    if (!context || atomic_fetch_sub_explicit(&context->refs, 1, memory_order_acq_rel) != 1)
        return;
    tide_peer_quotas_done(&context->quotas);
    free(context);
}

void tide_server_context_note_freed(tide_server_context *context, size_t len)
{
    if (len >= FREED_LARGE_LEN)
        (void)atomic_fetch_add_explicit(&context->freed_len, len, memory_order_relaxed);
}

void tide_server_context_trim(tide_server_context *context)
{
    if (atomic_load_explicit(&context->freed_len, memory_order_relaxed) < TRIM_LEN ||
        tide_budget_used(&context->answers) + tide_budget_used(&context->budget) > TRIM_HELD_LEN)
        return;
    const int64_t now_us = context->env->mono_us(context->env);
    int_fast64_t due_us = atomic_load_explicit(&context->trim_us, memory_order_relaxed);
    if (due_us == 0) { /* others are leaving, too: wait for them */
        (void)atomic_compare_exchange_strong(&context->trim_us, &due_us, now_us + TRIM_AFTER_US);
        return;
    }
    if (now_us < due_us || !atomic_compare_exchange_strong(&context->trim_us, &due_us, 0))
        return;
    atomic_store_explicit(&context->freed_len, 0, memory_order_relaxed);
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
