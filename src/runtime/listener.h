/* listener.h - ports of a daemon with what each daemon serves: authorisation, health, metrics.
 *
 *     tide_listener_open      settings, certificates, tokens, metrics, health, reflection
 *     tide_listener_add       methods and routes of its components
 *     tide_listener_join      components that start and stop with it: an agent, a colony, ...
 *     tide_listener_ticker    background steps of the daemon (ticker.h)
 *     tide_listener_serve     listens, prints `ready NAME=ADDRESS ...`, returns at the end:
 *                             SIGTERM drains, SIGHUP reloads
 *     tide_listener_close
 *
 * Besides what is added it serves /healthz (the process lives), /readyz (200 from `ready` on, 503
 * with the reason while it drains, its store is down or a component is unhealthy), /metrics,
 * grpc.health.v1 and reflection. These need no credentials, except /metrics, which needs the role
 * read. None of them calls the store (store_watch.h).
 *
 * Authorisation: callers of this machine have every role, unless tokens are required or the call
 * may come from a web page (net/server/auth.h). Other callers need a token of the store or of the
 * token file, or a certificate. Without TLS it listens on loopback addresses only, unless
 * is_insecure.
 *
 * Threads: open, add, serve and close from the main thread, in this order. */
#pragma once

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "net/call/route.h"
#include "net/http/limits.h"
#include "net/server/tls.h"
#include "runtime/metrics.h"
#include "runtime/query/query_pool.h"
#include "runtime/store_verify.h"
#include "runtime/ticker.h"

/* Steps that every daemon has. Health and the probe have threads of their own: the first never
 * waits for the store, the second may hang in it. */
extern const tide_step tide_step_token_uses;
extern const tide_step tide_step_health;
extern const tide_step tide_step_store_probe;
#define TIDE_LISTENER_STEPS                                                                        \
    &tide_step_token_uses, &tide_step_health, &tide_step_store_probe, &tide_step_store_verify

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
    /* The list of the daemon, TIDE_LISTENER_STEPS among them. Must outlive the listener. */
    const tide_step *const *steps;
    /* Of tokens; must outlive the listener. NULL: only those of the token file. */
    tide_store *store;
    tide_log *log;
    tide_env *env;
    const char *version;
    tide_net_limits limits;
    const char *tls_cert; /* NULL: no TLS */
    const char *tls_key;
    const char *tls_ca;
    tide_tls_verify verify;
    const char *token_file;    /* NULL: none */
    bool wants_tokens;         /* also from callers of this machine */
    const char *agent;         /* the agent that the daemon is; NULL: none */
    tide_call_role local_role; /* of other users of this machine, who show no token */
    bool is_insecure;          /* other machines may be served without TLS */
    /* Names of this machine besides addresses and localhost (net/server/auth.h). */
    const char *const *hosts;
    size_t host_count;
    int64_t drain_us;          /* 0: TIDE_LIFECYCLE_DRAIN_US */
    int64_t end_us;            /* as tide_lifecycle_options */
    const char *query_program; /* file of query processes; NULL: that of this process */
    bool is_resumed;           /* another listener of this process has printed the ready line */
    /* unix:PATH that only the daemon's own user can open: the same services without TLS and
     * credentials, for components that call each other. NULL: none. */
    const char *inside;
} tide_listener_options;

TIDE_MUST_CHECK tide_status tide_listener_open(tide_listener **out,
                                               const tide_listener_options *options,
                                               tide_error *err);
/* Close the ports, if they are open, and stop the ticker. No component is called from here on;
 * metrics still exist. Takes NULL. */
void tide_listener_stop(tide_listener *listener);
void tide_listener_close(tide_listener *listener); /* takes NULL */
TIDE_CLEANUP_FN(tide_listener_closep, tide_listener, tide_listener_close)

tide_metrics *tide_listener_metrics(tide_listener *listener);
tide_log *tide_listener_log(const tide_listener *listener); /* NULL: none */
/* The families of the network server, for the reference. */
const tide_metric_row *tide_listener_metric_rows(size_t *count);

/* The threads and processes for SQL of callers, made when the first component wants them. They end
 * with tide_listener_stop, before the components are closed. Borrowed. */
TIDE_MUST_CHECK tide_status tide_listener_queries(tide_listener *listener, tide_query_pool **out,
                                                  tide_error *err);

/* File of query processes, as in the options. */
const char *tide_listener_query_program(const tide_listener *listener);

/* Log and count epoch changes and failures of this store (store_watch.h); the first one named is
 * watched, and options.store is the first. It must outlive the listener. */
void tide_listener_watch_store(tide_listener *listener, tide_store *store);

/* Runs from the end of all `start` to tide_listener_stop. Borrowed. */
tide_ticker *tide_listener_ticker(tide_listener *listener);

/* Address of a port with the number that was chosen. From `start` on. Borrowed. */
const char *tide_listener_address(const tide_listener *listener, int port);

/* Address by which components of the daemon call each other: inside, or the first port. From
 * `start` on. Borrowed. */
const char *tide_listener_inside(const tide_listener *listener);

/* The tables must outlive the listener. */
TIDE_MUST_CHECK tide_status tide_listener_add(tide_listener *listener, const tide_method *methods,
                                              const tide_route *routes, void *arg, tide_error *err);

/* A part of the daemon that starts and stops with the listener. */
typedef struct tide_listener_component {
    /* Called when all ports listen and before `ready`, in the order of joining. A failure ends
     * the daemon. NULL: nothing. */
    tide_status (*start)(void *arg, tide_error *err);
    /* Called at the begin of a drain, on the thread that handles signals: end the calls that wait
     * for changes. NULL: nothing. */
    void (*leave)(void *arg);
    /* Can it do its work? False: why->text has the reason. Called by /readyz and
     * tide_listener_check_health, from any thread; it must not wait. NULL: always. */
    bool (*is_healthy)(void *arg, tide_error *why);
    void *arg;
} tide_listener_component;

/* Before serve. TIDE_E_LIMIT: too many. */
TIDE_MUST_CHECK tide_status tide_listener_join(tide_listener *listener,
                                               const tide_listener_component *component,
                                               tide_error *err);

/* The state of the store; borrowed. Never NULL: without a store it is always up. */
struct tide_store_watch *tide_listener_store_watch(tide_listener *listener);

/* TIDE_OK: every call was finished. TIDE_E_INTERRUPTED: calls were cut off. */
TIDE_MUST_CHECK tide_status tide_listener_serve(tide_listener *listener, tide_error *err);

/* Make serve return TIDE_OK, as after a drain. From any thread, while it serves. */
void tide_listener_finish(tide_listener *listener);

/* A daemon with one component: a listener and an agent, a colony, a lake, ...
 *
 *     TIDE_CLEANUP(tide_single_service_done)
 *     tide_single_service single = {.close = close_component};
 *     TIDE_TRY(tide_listener_open(&single.listener, options, err));
 *     TIDE_TRY(tide_agent_open(&agent, single.listener, options, err));
 *     single.component = agent;
 *     return tide_single_service_serve(&single, err);
 *
 * The order of the end is fixed: the listener stops, so that the component is not called any more;
 * then the component is closed, then the listener.
 *
 * Threads: as the listener. */
typedef struct tide_single_service {
    tide_listener *listener;
    void *component; /* NULL: it was not opened */
    void (*close)(void *component);
} tide_single_service;

/* Fits TIDE_CLEANUP; takes one of which nothing was opened. */
void tide_single_service_done(tide_single_service *single);

/* As tide_listener_serve. TIDE_E_INTERRUPTED: a second signal; tide_single_service_done closes
 * nothing, and the process ends as it is. */
TIDE_MUST_CHECK tide_status tide_single_service_serve(tide_single_service *single, tide_error *err);
