/* health.h - grpc.health.v1: is a service ready to serve? Asked once (Check) or told of changes
 * (Watch).
 *
 * The program sets the status of services by name; "" is the process as a whole and exists from
 * the beginning, as NOT_SERVING. Check of a name that was never set is NOT_FOUND; Watch of one says
 * SERVICE_UNKNOWN and continues until the service appears. A watcher receives the status at
 * once and then every change, in order, and ends when its client does, or with tide_health_close.
 *
 * Watchers occupy a held call each, no thread.
 *
 * Threads: everything may be called from any thread; tide_health_free last, when the server that
 * runs the methods has stopped.
 * Limits: TIDE_HEALTH_SERVICES_MAX names, TIDE_HEALTH_WATCHERS_MAX watchers; more are refused as
 * RESOURCE_EXHAUSTED. */
#pragma once

#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "base/cleanup.h"
#include "net/call/call.h"

enum {
    TIDE_HEALTH_SERVICES_MAX = 64,
    TIDE_HEALTH_NAME_MAX = 200, /* bytes */
    TIDE_HEALTH_WATCHERS_MAX = 1000,
};

/* The numbers of the protocol. */
typedef enum tide_health_status {
    TIDE_HEALTH_UNKNOWN = 0,
    TIDE_HEALTH_SERVING = 1,
    TIDE_HEALTH_NOT_SERVING = 2,
    TIDE_HEALTH_SERVICE_UNKNOWN = 3, /* only told, never set */
} tide_health_status;

typedef struct tide_health tide_health;

/* Rows of Check and Watch; their argument is the tide_health. */
extern const tide_method tide_health_methods[];

/* TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_health_new(tide_health **out, tide_error *err);
void tide_health_free(tide_health *health);
TIDE_CLEANUP_FN(tide_health_freep, tide_health, tide_health_free)

/* TIDE_E_INVALID: a name that is too long. TIDE_E_LIMIT: too many names. After tide_health_close
 * nothing changes any more. */
TIDE_MUST_CHECK tide_status tide_health_set(tide_health *health, const char *name,
                                            tide_health_status status, tide_error *err);

/* Something that all services need is missing: until it is back, those that are set as SERVING are
 * reported as NOT_SERVING. */
void tide_health_set_impaired(tide_health *health, bool is_impaired);

/* TIDE_HEALTH_SERVICE_UNKNOWN: never set. */
tide_health_status tide_health_get(tide_health *health, tide_view name);

/* The process is going: every service becomes NOT_SERVING, watchers are notified and ended. */
void tide_health_close(tide_health *health);
