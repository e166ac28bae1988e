/* listener.h - what every daemon shows the world: its ports, who may use them, its health and its figures.
 *
 *     tide_listener_open      settings, certificates, tokens, metrics, health, reflection; nothing listens yet
 *     tide_listener_add       the methods and routes of its components
 *     tide_listener_join      components that begin and end with it: a daemon may have several (an agent, a colony, a dashboard)
 *     tide_listener_ticker    runs the background steps of the daemon (ticker.h); components bind their steps when they start
 *     tide_listener_serve     listens, says `ready NAME=ADDRESS ...`, and returns when it is over: SIGTERM drains, SIGHUP reloads
 *     tide_listener_close
 *
 * Besides what is added there are /healthz (the process lives), /readyz (200 from `ready` on, 503 while it drains or is not well), /metrics,
 * grpc.health.v1 and reflection; they need no credentials, except /metrics, which wants the role read.
 *
 * Who may come in: callers of this machine may do everything, unless tokens are demanded or it may be a web page's doing
 * (net/server/auth.h); others need a token of the store
 * or of the token file, or a certificate. Without TLS nobody but this machine is listened to, unless somebody insists.
 *
 * Threads: open, add, serve and close from the main thread, in this order. */
#ifndef TIDE_RUNTIME_LISTENER_H
#define TIDE_RUNTIME_LISTENER_H

#include <tidemark/store.h>

#include "base/log.h"
#include "net/call/route.h"
#include "net/http/limits.h"
#include "net/server/tls.h"
#include "runtime/metrics.h"
#include "runtime/ticker.h"

/* Steps that every daemon has. */
extern const tide_step tide_step_token_uses;
#define TIDE_LISTENER_STEPS &tide_step_token_uses

/* For components with is_healthy: grpc.health.v1 and the log follow it without being asked. */
extern const tide_step tide_step_health;

enum {
    TIDE_LISTENER_PORTS_MAX = 4,
    TIDE_LISTENER_COMPONENTS_MAX = 32,
};

typedef struct tide_listener tide_listener;

typedef struct tide_listener_port {
    const char *name;    /* "grpc": for the ready line */
    const char *address; /* HOST:PORT, [HOST]:PORT, unix:PATH */
} tide_listener_port;

typedef struct tide_listener_options {
    tide_listener_port ports[TIDE_LISTENER_PORTS_MAX];
    int port_count;
    const tide_step *const *
        steps; /* the list of the daemon, TIDE_LISTENER_STEPS among them; must outlive the listener */
    tide_store
        *store; /* of tokens; must outlive the listener; NULL: those of the token file alone */
    tide_log *log;
    tide_env *env;
    const char *version;
    tide_net_limits limits;
    const char *tls_cert; /* NULL: no TLS */
    const char *tls_key;
    const char *tls_ca;
    tide_tls_verify verify;
    const char *token_file; /* NULL: none */
    bool wants_tokens;      /* from callers of this machine, too */
    bool is_insecure;
    const char *const
        *hosts; /* names of this machine besides addresses and localhost; see net/server/auth.h */
    size_t host_count;
    int64_t drain_us; /* 0: the default of service.h */
    const char *
        inside; /* unix:PATH, for the daemon's own user alone: the same services without TLS and credentials, for components that call each other; NULL: none */
} tide_listener_options;

TIDE_MUST_CHECK tide_status tide_listener_open(tide_listener **out,
                                               const tide_listener_options *options,
                                               tide_error *err);
/* Close the ports, if they are open: from here on nobody is called, and metrics are still there. Takes NULL. */
void tide_listener_stop(tide_listener *listener);
void tide_listener_close(tide_listener *listener); /* takes NULL */
void tide_listener_closep(tide_listener **listener);

tide_metrics *tide_listener_metrics(tide_listener *listener);
/* The families of the network server, for the reference. */
const tide_metric_row *tide_listener_metric_rows(size_t *count);

/* Log and count epoch changes and failures of this store (store_watch.h); the first one named is watched, and
 * options.store is the first. It must outlive the listener. */
void tide_listener_watch_store(tide_listener *listener, tide_store *store);

/* Runs from the end of all `start` to tide_listener_stop. Borrowed. */
tide_ticker *tide_listener_ticker(tide_listener *listener);

/* Where a port really is, with its number: from `start` on. Borrowed. */
const char *tide_listener_address(const tide_listener *listener, int port);

/* Where the daemon's own components reach each other, whatever strangers have to show: inside, or the first port. From `start` on. Borrowed. */
const char *tide_listener_inside(const tide_listener *listener);

/* The tables must outlive the listener. */
TIDE_MUST_CHECK tide_status tide_listener_add(tide_listener *listener, const tide_method *methods,
                                              const tide_route *routes, void *arg, tide_error *err);

/* What begins and ends with the listener. */
typedef struct tide_listener_component {
    /* Called when everything listens and before `ready`, in the order of joining; a failure ends it. NULL: nothing. */
    tide_status (*start)(void *arg, tide_error *err);
    /* Called when it is told to stop, from a thread that sees signals: let nobody wait for news any more. NULL: nothing. */
    void (*leave)(void *arg);
    /* Asked by /readyz and tide_listener_check_health, from any thread: can it do its work? NULL: always. */
    bool (*is_healthy)(void *arg);
    void *arg;
} tide_listener_component;

/* Before serve. TIDE_E_LIMIT: too many. */
TIDE_MUST_CHECK tide_status tide_listener_join(tide_listener *listener,
                                               const tide_listener_component *component,
                                               tide_error *err);

/* Ask is_healthy of all components, and let grpc.health.v1 and the log say what has changed. To be called now and then, from any thread. */
void tide_listener_check_health(tide_listener *listener);

/* TIDE_OK: it ended in good order. TIDE_E_INTERRUPTED: calls were cut off. */
TIDE_MUST_CHECK tide_status tide_listener_serve(tide_listener *listener, tide_error *err);

/* A daemon of one component: a listener, and the one thing that it shows (an agent, a colony, a lake, ...).
 *
 *     TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
 *     TIDE_TRY(tide_listener_open(&single.listener, options, err));
 *     TIDE_TRY(tide_agent_open(&agent, single.listener, options, err));
 *     single.component = agent;
 *     return tide_single_service_serve(&single, err);
 *
 * Whatever happens, the end has its order: the listener stops, so that nobody is called any more; then the component is closed; then the listener.
 *
 * Threads: as of the listener. */
typedef struct tide_single_service {
    tide_listener *listener;
    void *component; /* NULL: it was not opened */
    void (*close)(void *component);
} tide_single_service;

/* Fits TIDE_CLEANUP; takes one of which nothing was opened. */
void tide_single_service_done(tide_single_service *single);

/* As tide_listener_serve. TIDE_E_INTERRUPTED: somebody is in a hurry, so nothing is closed by tide_single_service_done, and the process ends as it is. */
TIDE_MUST_CHECK tide_status tide_single_service_serve(tide_single_service *single, tide_error *err);

#endif
