#include "net/site.h"

#include <stdlib.h>

tide_status tide_site_new(tide_site **out, tide_env *env, const tide_net_limits *limits,
                          const tide_routes *routes, tide_error *err)
{
    tide_net_limits chosen;
    tide_net_limits_init(&chosen);
    if (limits)
        chosen = *limits;
    TIDE_TRY(tide_net_limits_check(&chosen, err));
    tide_site *site = calloc(1, sizeof *site);
    if (!site)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a server");
    atomic_init(&site->refs, 1);
    site->env = env;
    site->limits = chosen;
    site->budget.max = (size_t)chosen.budget_len;
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
    if (site && atomic_fetch_sub_explicit(&site->refs, 1, memory_order_acq_rel) == 1)
        free(site);
}
