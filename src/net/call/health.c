#include "net/call/health.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/lock.h"
#include "net/codec/protobuf_wire.h"

#include "grpc_health_v1_health.pb-c.h"

enum {
    REQUEST_SERVICE = 1,
    RESPONSE_STATUS = 1,
};

typedef struct service {
    char name[TIDE_HEALTH_NAME_MAX + 1];
    tide_health_status status;
} service;

/* A call that waits for changes; it holds its call. */
typedef struct watcher {
    struct watcher *next;
    tide_call *call;
    char name[TIDE_HEALTH_NAME_MAX + 1];
    bool is_told; /* once at least */
    tide_health_status told;
} watcher;

/* Two locks. `state` guards everything below it and is never held while a call is spoken to: a
 * transport may run our cancel function from inside. `telling` is held from a change until the last
 * watcher was notified, so that all watchers see changes in order; it is locked first. */
struct tide_health {
    pthread_mutex_t telling;
    pthread_mutex_t state;
    service services[TIDE_HEALTH_SERVICES_MAX];
    size_t service_count;
    watcher *watchers;
    size_t watcher_count;
    bool is_closed;
    bool is_impaired;
};

tide_status tide_health_new(tide_health **out, tide_error *err)
{
    TIDE_NEW(tide_health, made, err);
    (void)pthread_mutex_init(&made->telling, NULL);
    (void)pthread_mutex_init(&made->state, NULL);
    made->services[made->service_count++] = (service){.status = TIDE_HEALTH_NOT_SERVING};
    *out = made;
    return TIDE_OK;
}

void tide_health_free(tide_health *health)
{
    if (!health)
        return;
    tide_health_close(health);
    (void)pthread_mutex_destroy(&health->telling);
    (void)pthread_mutex_destroy(&health->state);
    free(health);
}

/* --- under the state lock --- */

static service *find_service(tide_health *health, tide_view name)
{
    for (size_t i = 0; i < health->service_count; i++) {
        if (tide_view_equal(tide_view_of(health->services[i].name), name))
            return &health->services[i];
    }
    return NULL;
}

static tide_health_status get_status(tide_health *health, tide_view name)
{
    const service *found = find_service(health, name);
    if (!found)
        return TIDE_HEALTH_SERVICE_UNKNOWN;
    return health->is_impaired && found->status == TIDE_HEALTH_SERVING ? TIDE_HEALTH_NOT_SERVING
                                                                       : found->status;
}

/* Take out the watcher of a call. NULL: it is out already. */
static watcher *unlink_watcher(tide_health *health, const tide_call *call)
{
    for (watcher **at = &health->watchers; *at; at = &(*at)->next) {
        watcher *found = *at;
        if (found->call == call) {
            *at = found->next;
            health->watcher_count--;
            return found;
        }
    }
    return NULL;
}

/* --- telling --- */

static void free_watcher(watcher *gone)
{
    if (!gone)
        return;
    tide_call_release(gone->call);
    free(gone);
}

static void send_status(tide_call *call, tide_health_status status)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    (void)tide_call_send_message(call, &response.base);
}

/* A watcher that has not received the present status of its service; *call is held. */
static bool next_news(tide_health *health, tide_call **call, tide_health_status *status)
{
    TIDE_HOLD(&health->state);
    bool is_news = false;
    for (watcher *w = health->watchers; w && !is_news; w = w->next) {
        *status = get_status(health, tide_view_of(w->name));
        is_news = !w->is_told || *status != w->told;
        if (is_news) {
            w->is_told = true;
            w->told = *status;
            *call = w->call;
            tide_call_hold(*call);
        }
    }
    return is_news;
}

/* The telling lock is held. */
static void notify_watchers(tide_health *health)
{
    tide_call *call = NULL;
    tide_health_status status = TIDE_HEALTH_UNKNOWN;
    while (next_news(health, &call, &status)) {
        send_status(call, status);
        tide_call_release(call);
    }
}

/* --- what the program says --- */

static tide_status put_status(tide_health *health, const char *name, tide_health_status status,
                              tide_error *err)
{
    if (health->is_closed)
        return TIDE_OK;
    service *found = find_service(health, tide_view_of(name));
    if (!found && health->service_count == TIDE_HEALTH_SERVICES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d services", TIDE_HEALTH_SERVICES_MAX);
    if (!found) {
        found = &health->services[health->service_count++];
        memcpy(found->name, name, strlen(name) + 1);
    }
    found->status = status;
    return TIDE_OK;
}

tide_status tide_health_set(tide_health *health, const char *name, tide_health_status status,
                            tide_error *err)
{
    if (strlen(name) > TIDE_HEALTH_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a service name of more than %d bytes",
                         TIDE_HEALTH_NAME_MAX);
    (void)pthread_mutex_lock(&health->telling);
    (void)pthread_mutex_lock(&health->state);
    const tide_status outcome = put_status(health, name, status, err);
    (void)pthread_mutex_unlock(&health->state);
    notify_watchers(health);
    (void)pthread_mutex_unlock(&health->telling);
    return outcome;
}

void tide_health_set_impaired(tide_health *health, bool is_impaired)
{
    (void)pthread_mutex_lock(&health->telling);
    (void)pthread_mutex_lock(&health->state);
    health->is_impaired = is_impaired;
    (void)pthread_mutex_unlock(&health->state);
    notify_watchers(health);
    (void)pthread_mutex_unlock(&health->telling);
}

tide_health_status tide_health_get(tide_health *health, tide_view name)
{
    TIDE_HOLD(&health->state);
    return get_status(health, name);
}

static watcher *move_watchers(tide_health *health)
{
    TIDE_HOLD(&health->state);
    watcher *all = health->watchers;
    health->watchers = NULL;
    health->watcher_count = 0;
    return all;
}

void tide_health_close(tide_health *health)
{
    (void)pthread_mutex_lock(&health->telling);
    (void)pthread_mutex_lock(&health->state);
    health->is_closed = true;
    for (size_t i = 0; i < health->service_count; i++)
        health->services[i].status = TIDE_HEALTH_NOT_SERVING;
    (void)pthread_mutex_unlock(&health->state);
    notify_watchers(health);
    tide_error err = {0};
    const tide_status status = tide_fail(&err, TIDE_E_UNAVAILABLE, "the server is shutting down");
    for (watcher *gone = move_watchers(health); gone;) {
        watcher *next = gone->next;
        tide_call_end(gone->call, status, &err);
        free_watcher(gone);
        gone = next;
    }
    (void)pthread_mutex_unlock(&health->telling);
}

/* --- what clients ask --- */

static tide_status read_service(tide_view message, tide_view *name, tide_error *err)
{
    *name = tide_view_of("");
    tide_reader reader = tide_reader_of(message);
    tide_wire_field field;
    TIDE_EACH(tide_wire_next(&reader, &field, err)) {
        if (field.number == REQUEST_SERVICE && field.type == TIDE_WIRE_BYTES)
            *name = field.bytes;
    }
    return TIDE_OK;
}

static void run_check(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    tide_view name;
    tide_status outcome = read_service(message, &name, &err);
    tide_health_status status = TIDE_HEALTH_SERVICE_UNKNOWN;
    if (outcome == TIDE_OK) {
        status = tide_health_get(arg, name);
        if (status == TIDE_HEALTH_SERVICE_UNKNOWN)
            outcome = tide_fail(&err, TIDE_E_NOT_FOUND, "unknown service");
    }
    if (outcome != TIDE_OK) {
        tide_call_end(call, outcome, &err);
        return;
    }
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    tide_call_respond_message(call, &response.base);
}

/* The client left. */
static void leave(tide_call *call, void *arg)
{
    tide_health *health = arg;
    (void)pthread_mutex_lock(&health->state);
    watcher *gone = unlink_watcher(health, call);
    (void)pthread_mutex_unlock(&health->state);
    if (!gone)
        return;
    tide_call_end(call, TIDE_E_INTERRUPTED, NULL);
    free_watcher(gone);
}

static tide_status link_watcher(tide_health *health, watcher *added, tide_error *err)
{
    if (health->is_closed)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "the server is shutting down");
    if (health->watcher_count == TIDE_HEALTH_WATCHERS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d watchers", TIDE_HEALTH_WATCHERS_MAX);
    tide_call_hold(added->call);
    added->next = health->watchers;
    health->watchers = added;
    health->watcher_count++;
    return TIDE_OK;
}

static tide_status begin_watch(tide_health *health, tide_call *call, tide_view message,
                               tide_error *err)
{
    tide_view name;
    TIDE_TRY(read_service(message, &name, err));
    if (name.len > TIDE_HEALTH_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a service name of more than %d bytes",
                         TIDE_HEALTH_NAME_MAX);
    TIDE_NEW(watcher, added, err);
    added->call = call;
    memcpy(added->name, name.ptr, name.len);
    (void)pthread_mutex_lock(&health->telling);
    (void)pthread_mutex_lock(&health->state);
    const tide_status status = link_watcher(health, added, err);
    (void)pthread_mutex_unlock(&health->state);
    if (status == TIDE_OK)
        notify_watchers(health);
    else
        free(added);
    (void)pthread_mutex_unlock(&health->telling);
    return status;
}

static void run_watch(tide_call *call, tide_view message, void *arg)
{
    tide_error err = {0};
    const tide_status status = begin_watch(arg, call, message, &err);
    if (status != TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    tide_call_on_cancel(call, leave, arg);
    if (tide_call_is_cancelled(call))
        leave(call, arg);
}

const tide_method tide_health_methods[] = {
    {
        .path = "/grpc.health.v1.Health/Check",
        .kind = TIDE_CALL_UNARY,
        .role = TIDE_ROLE_NONE,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .run = run_check,
    },
    {
        .path = "/grpc.health.v1.Health/Watch",
        .kind = TIDE_CALL_SERVER_STREAM,
        .role = TIDE_ROLE_NONE,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .run = run_watch,
    },
    {0},
};
