/* route.h - which function serves which path.
 *
 * Methods (call.h) are reached as gRPC and by POST; routes are plain HTTP: they see the body's
 * bytes and answer with any status and type. A route for GET serves HEAD too. Paths are compared
 * exactly; a prefix route takes what no exact path takes, the longest prefix first. Each entry
 * counts its calls by gRPC code.
 *
 * Threads: filled before the server opens, then constant, except for the counts, which are atomics.
 * Limits: TIDE_ROUTES_MAX entries. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "base/cleanup.h"
#include "net/call/call.h"
#include "net/http/grpc.h"

enum { TIDE_ROUTES_MAX = 1024 };

typedef struct tide_route {
    const char *method; /* "GET", "POST", ...; NULL ends a table */
    const char *path;
    bool is_prefix;
    tide_call_role role;
    bool is_blocking;
    tide_call_fn *run;
} tide_route;

/* One of the two is set. */
typedef struct tide_route_entry {
    const tide_method *method;
    const tide_route *route;
    void *arg;
    size_t index;                               /* of tide_routes_at */
    atomic_int_fast64_t ended[TIDE_GRPC_CODES]; /* calls by gRPC code */
    atomic_int_fast64_t busy_us;                /* sum of their durations */
} tide_route_entry;

typedef struct tide_routes tide_routes;

TIDE_MUST_CHECK tide_status tide_routes_new(tide_routes **out, tide_error *err);
void tide_routes_free(tide_routes *routes);
TIDE_CLEANUP_FN(tide_routes_freep, tide_routes, tide_routes_free)

/* The tables must outlive the routes; arg is handed to their functions. TIDE_E_INVALID: a path
 * twice, or none. TIDE_E_LIMIT. */
TIDE_MUST_CHECK tide_status tide_routes_add_methods(tide_routes *routes, const tide_method *table,
                                                    void *arg, tide_error *err);
TIDE_MUST_CHECK tide_status tide_routes_add(tide_routes *routes, const tide_route *table, void *arg,
                                            tide_error *err);

/* The entry for a request, or NULL. *has_path: some entry has the path, for another method; *allow
 * then names the methods that it has ("GET, HEAD"), borrowed. */
tide_route_entry *tide_routes_find(const tide_routes *routes, const char *method, const char *path,
                                   bool *has_path, const char **allow);

/* Every entry, for metrics. */
size_t tide_routes_count(const tide_routes *routes);
const tide_route_entry *tide_routes_at(const tide_routes *routes, size_t index);
const char *tide_route_entry_path(const tide_route_entry *entry);
