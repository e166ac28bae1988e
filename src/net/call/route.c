#include "net/call/route.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct tide_routes {
    size_t count;
    tide_route_entry *entries[TIDE_ROUTES_MAX];
};

tide_status tide_routes_new(tide_routes **out, tide_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? TIDE_OK : tide_no_memory(err);
}

void tide_routes_free(tide_routes *routes)
{
    if (!routes)
        return;
    for (size_t i = 0; i < routes->count; i++)
        free(routes->entries[i]);
    free(routes);
}

const char *tide_route_entry_path(const tide_route_entry *entry)
{
    return entry->method ? entry->method->path : entry->route->path;
}

static const char *method_of(const tide_route_entry *entry)
{
    return entry->method ? "POST" : entry->route->method;
}

static bool is_prefix(const tide_route_entry *entry)
{
    return entry->route && entry->route->is_prefix;
}

static tide_status add_entry(tide_routes *routes, const tide_method *method,
                             const tide_route *route, void *arg, tide_error *err)
{
    assert(method || route);
    const char *path = method ? method->path : route->path;
    if (!path || path[0] != '/')
        return tide_fail(err, TIDE_E_INVALID, "route path '%s' must begin with /",
                         path ? path : "");
    if (routes->count == TIDE_ROUTES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d routes", TIDE_ROUTES_MAX);
    TIDE_NEW(tide_route_entry, entry, err);
    entry->method = method;
    entry->route = route;
    entry->arg = arg;
    for (size_t i = 0; i < routes->count; i++) {
        const tide_route_entry *other = routes->entries[i];
        if (strcmp(tide_route_entry_path(other), path) == 0 &&
            strcmp(method_of(other), method_of(entry)) == 0 &&
            is_prefix(other) == is_prefix(entry)) {
            free(entry);
            return tide_fail(err, TIDE_E_INVALID, "route %s twice", path);
        }
    }
    entry->index = routes->count;
    routes->entries[routes->count++] = entry;
    return TIDE_OK;
}

tide_status tide_routes_add_methods(tide_routes *routes, const tide_method *table, void *arg,
                                    tide_error *err)
{
    for (; table->path; table++)
        TIDE_TRY(add_entry(routes, table, NULL, arg, err));
    return TIDE_OK;
}

tide_status tide_routes_add(tide_routes *routes, const tide_route *table, void *arg,
                            tide_error *err)
{
    for (; table->method; table++)
        TIDE_TRY(add_entry(routes, NULL, table, arg, err));
    return TIDE_OK;
}

static bool takes_method(const tide_route_entry *entry, const char *method)
{
    const char *own = method_of(entry);
    return strcmp(own, method) == 0 || (strcmp(own, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* How well the entry fits: 0 not at all, otherwise the longer the better, an exact path best. */
static size_t fit_path(const tide_route_entry *entry, const char *path)
{
    const char *own = tide_route_entry_path(entry);
    if (!is_prefix(entry))
        return strcmp(own, path) == 0 ? SIZE_MAX : 0;
    const size_t len = strlen(own);
    return strncmp(own, path, len) == 0 ? len : 0;
}

tide_route_entry *tide_routes_find(const tide_routes *routes, const char *method, const char *path,
                                   bool *has_path, const char **allow)
{
    tide_route_entry *best = NULL;
    size_t best_fit = 0;
    *has_path = false;
    *allow = "";
    for (size_t i = 0; i < routes->count; i++) {
        tide_route_entry *entry = routes->entries[i];
        const size_t fit = fit_path(entry, path);
        if (fit == 0)
            continue;
        *has_path = true;
        *allow = strcmp(method_of(entry), "GET") == 0 ? "GET, HEAD" : method_of(entry);
        if (fit > best_fit && takes_method(entry, method)) {
            best = entry;
            best_fit = fit;
        }
    }
    return best;
}

size_t tide_routes_count(const tide_routes *routes)
{
    return routes->count;
}

const tide_route_entry *tide_routes_at(const tide_routes *routes, size_t index)
{
    assert(index < routes->count);
    return routes->entries[index];
}
