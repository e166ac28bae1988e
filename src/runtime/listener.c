#include "runtime/listener.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"
#include "net/call/health.h"
#include "net/call/reflection.h"
#include "net/server/server.h"
#include "runtime/lifecycle.h"
#include "runtime/store_watch.h"
#include "services/access/access.h"

struct tide_listener {
    tide_listener_options options;
    tide_listener_component components[TIDE_LISTENER_COMPONENTS_MAX];
    int component_count;
    tide_metrics *metrics;
    tide_ticker *ticker;
    tide_routes *routes;
    tide_health *health;
    tide_reflection *reflection;
    tide_tls *tls;
    tide_access *access;
    tide_server *server;
    tide_server *inside;         /* NULL: there is none */
    pthread_mutex_t server_lock; /* of what follows */
    tide_server *counted;        /* the server, from its opening to the begin of its closing */
    tide_query_pool *queries;    /* NULL: no component has asked */
    tide_lifecycle *service;
    pthread_t drainer;
    bool has_drainer;
    atomic_bool is_ready;
    atomic_bool is_unhealthy;
    tide_store_watch store_watch;
    tide_series **durations;        /* by index of the route */
    atomic_uint_fast64_t lost_seen; /* lines of the log that are in the metrics */
};

/* ---- metrics ---- */

#define NET_ROW(name_, kind_, help_)                                                               \
    {.name = "tidemark_net_" #name_,                                                               \
     .type = TIDE_METRIC_##kind_,                                                                  \
     .unit = "",                                                                                   \
     .labels = "",                                                                                 \
     .help = (help_)},
static const tide_metric_row net_rows[] = {TIDE_NET_COUNTER_TABLE(NET_ROW)};

const tide_metric_row *tide_listener_metric_rows(size_t *count)
{
    *count = sizeof net_rows / sizeof net_rows[0];
    return net_rows;
}
#undef NET_ROW

static void write_counters(const tide_net_counters *counters, tide_metrics_writer *writer)
{
    const int64_t values[] = {
#define NET_VALUE(name_, ...) tide_counted(&counters->name_),
        TIDE_NET_COUNTER_TABLE(NET_VALUE)
#undef NET_VALUE
    };
    for (size_t i = 0; i < sizeof net_rows / sizeof net_rows[0]; i++) {
        tide_metrics_family(writer, &net_rows[i]);
        tide_metrics_sample(writer, NULL, values[i]);
    }
}

/* Why credentials were refused. */
static void write_auth(const tide_net_counters *counters, tide_metrics_writer *writer)
{
    const struct {
        const char *reason;
        int64_t count;
    } rows[] = {{"unauthenticated", tide_counted(&counters->refused_unauthenticated)},
                {"denied", tide_counted(&counters->refused_denied)},
                {"guessing", tide_counted(&counters->refused_guessing)},
                {"unchecked", tide_counted(&counters->refused_unchecked)}};
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_AUTH_FAILURES]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tide_metrics_sample(writer, (const char *const[]){rows[i].reason}, rows[i].count);
}

static void write_calls(tide_listener *listener, tide_metrics_writer *writer)
{
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_RPC_CALLS]);
    for (size_t i = 0; i < tide_routes_count(listener->routes); i++) {
        const tide_route_entry *entry = tide_routes_at(listener->routes, i);
        for (int code = 0; code < TIDE_GRPC_CODES; code++) {
            char text[8];
            const int64_t count = tide_counted(&entry->ended[code]);
            (void)snprintf(text, sizeof text, "%d", code);
            if (count > 0)
                tide_metrics_sample(
                    writer, (const char *const[]){tide_route_entry_path(entry), text}, count);
        }
    }
}

static void write_store(tide_listener *listener, tide_metrics_writer *writer)
{
    tide_store_state state;
    if (!listener->store_watch.store)
        return;
    const char *const labels[] = {tide_store_name(listener->store_watch.store)};
    tide_store_watch_state(&listener->store_watch, &state);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_STORE_UP]);
    tide_metrics_sample(writer, labels, state.is_up);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_STORE_AGE]);
    tide_metrics_sample(writer, labels, state.age_us);
    if (state.disk_free < 0)
        return;
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_DISK_FREE]);
    tide_metrics_sample(writer, labels, state.disk_free);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_DISK_SIZE]);
    tide_metrics_sample(writer, labels, state.disk_size);
}

static void write_net(void *arg, tide_metrics_writer *writer)
{
    tide_listener *listener = arg;
    write_store(listener, writer);
    TIDE_HOLD(&listener->server_lock); /* the server may answer before its opening has returned */
    if (!listener->counted)
        return;
    const tide_net_counters *counters = tide_server_counters(listener->counted);
    write_counters(counters, writer);
    write_auth(counters, writer);
    write_calls(listener, writer);
}

static void observe_call(void *arg, const tide_route_entry *entry, int grpc_code, int64_t took_us)
{
    (void)grpc_code;
    const tide_listener *listener = arg;
    tide_series_observe(listener->durations[entry->index], took_us);
}

/* Series are found once: counting takes no lock. */
static tide_status find_series(tide_listener *listener, tide_error *err)
{
    const size_t count = tide_routes_count(listener->routes);
    listener->durations = calloc(count + 1, sizeof(void *));
    TIDE_NEED_MEMORY(listener->durations, err);
    for (size_t i = 0; i < count; i++)
        listener->durations[i] =
            tide_metrics_series(listener->metrics, TIDE_METRIC_RPC_DURATION,
                                tide_route_entry_path(tide_routes_at(listener->routes, i)));
    return TIDE_OK;
}

/* The log counts lost lines itself; the metric gets those since the last scrape. */
static void count_lost_lines(tide_listener *listener)
{
    if (!listener->options.log)
        return;
    const uint_fast64_t lost = atomic_load(&listener->options.log->lost);
    uint_fast64_t seen = atomic_load(&listener->lost_seen);
    while (seen < lost && !atomic_compare_exchange_weak(&listener->lost_seen, &seen, lost)) {
    }
    if (seen < lost)
        tide_metrics_add(listener->metrics, TIDE_METRIC_LOG_LOST, (int64_t)(lost - seen));
}

static void serve_metrics(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    tide_listener *listener = arg;
    tide_error err = {0};
    const tide_metrics_format format = tide_metrics_choose(tide_call_metadata(call, "accept"));
    TIDE_BUFFER(text, TIDE_METRICS_TEXT_MAX);
    count_lost_lines(listener);
    if (listener->tls)
        tide_metrics_set(listener->metrics, TIDE_METRIC_CERTIFICATE_EXPIRY,
                         tide_tls_expires_us(listener->tls));
    const tide_status status = tide_metrics_write(listener->metrics, format, &text, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    else
        tide_call_http_respond(call, 200, tide_metrics_content_type(format),
                               tide_buffer_view(&text));
}

/* ---- health ---- */

static void serve_healthz(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    (void)arg;
    tide_call_http_respond(call, 200, "text/plain; charset=utf-8", tide_view_of("ok\n"));
}

/* False: why->text has the reason. */
static bool is_healthy(tide_listener *listener, tide_error *why)
{
    tide_store_state store;
    tide_store_watch_state(&listener->store_watch, &store);
    if (!store.is_up) {
        TIDE_IGNORE(tide_fail(why, TIDE_E_UNAVAILABLE, "store is down: %s", store.reason));
        return false;
    }
    for (const tide_listener_component *component = listener->components;
         component < listener->components + listener->component_count; component++)
        if (component->is_healthy && !component->is_healthy(component->arg, why))
            return false;
    return true;
}

static bool check_health(tide_listener *listener, tide_error *why)
{
    const tide_listener_options *options = &listener->options;
    const bool is_unhealthy = !is_healthy(listener, why);
    if (atomic_exchange(&listener->is_unhealthy, is_unhealthy) == is_unhealthy)
        return !is_unhealthy;
    tide_health_set_impaired(listener->health, is_unhealthy);
    if (is_unhealthy)
        tide_log_write(options->log, TIDE_LOG_ERROR, "not ready", TIDE_F("reason", why->text),
                       TIDE_F_END);
    else
        tide_log_write(options->log, TIDE_LOG_INFO, "ready again", TIDE_F_END);
    return !is_unhealthy;
}

/* Look at the state of the store and call is_healthy of all components; report a change by
 * grpc.health.v1 and the log. From any thread; tide_step_health calls it every second. */
static void listener_check_health(tide_listener *listener)
{
    tide_error why = {0};
    tide_store_watch_check(&listener->store_watch);
    (void)check_health(listener, &why);
}

static void serve_readyz(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    tide_listener *listener = arg;
    tide_error why = {0};
    char text[TIDE_ERROR_TEXT_MAX + 32] = "ready\n";
    const bool is_healthy = check_health(listener, &why);
    const bool is_ready = atomic_load(&listener->is_ready) && is_healthy;
    if (!is_healthy)
        (void)snprintf(text, sizeof text, "not ready: %s\n", why.text);
    else if (!is_ready)
        (void)snprintf(text, sizeof text, "not ready: starting or draining\n");
    tide_call_http_respond(call, is_ready ? 200 : 503, "text/plain; charset=utf-8",
                           tide_view_of(text));
}

static const tide_route own_routes[] = {
    {.method = "GET",
     .path = "/metrics",
     .role = TIDE_ROLE_ANY,
     .is_blocking = true,
     .run = serve_metrics},
    {.method = "GET", .path = "/healthz", .role = TIDE_ROLE_NONE, .run = serve_healthz},
    {.method = "GET", .path = "/readyz", .role = TIDE_ROLE_NONE, .run = serve_readyz},
    {.method = NULL},
};

/* ---- steps ---- */

#define TOKEN_USES_US INT64_C(1000000)
#define HEALTH_US INT64_C(1000000)
#define PROBE_US INT64_C(1000000)

static tide_status write_token_uses(void *arg, int64_t *next_us, tide_error *err)
{
    *next_us = TOKEN_USES_US;
    return tide_access_write_uses(arg, err);
}

const tide_step tide_step_token_uses = {
    .name = "token_uses", .summary = "store when tokens were last used", .run = write_token_uses};

static tide_status run_health(void *arg, int64_t *next_us, tide_error *err)
{
    (void)err;
    *next_us = HEALTH_US;
    listener_check_health(arg);
    return TIDE_OK;
}

const tide_step tide_step_health = {.name = "health",
                                    .summary = "report whether store and components are well",
                                    .run = run_health,
                                    .lane = TIDE_LANE_OWN};

/* The state of the store has the failure; reported here it would be logged twice. */
static tide_status probe_store(void *arg, int64_t *next_us, tide_error *err)
{
    *next_us = PROBE_US;
    return tide_store_watch_probe(arg, err) >= TIDE_OK ? TIDE_OK : TIDE_NONE;
}

const tide_step tide_step_store_probe = {.name = "store_probe",
                                         .summary = "find out whether the store answers",
                                         .run = probe_store,
                                         .lane = TIDE_LANE_OWN};

/* The store is known when the daemon starts. */
static tide_status bind_probe(tide_listener *listener, tide_error *err)
{
    if (!listener->store_watch.store) {
        tide_ticker_skip(listener->ticker, &tide_step_store_probe);
        tide_ticker_skip(listener->ticker, &tide_step_store_verify);
        return TIDE_OK;
    }
    TIDE_TRY(tide_ticker_bind(listener->ticker, &tide_step_store_probe,
                              &(tide_step_binding){.arg = &listener->store_watch}, err));
    return tide_ticker_bind(
        listener->ticker, &tide_step_store_verify,
        &(tide_step_binding){.arg = &listener->store_watch, .delay_us = TIDE_VERIFY_FIRST_US}, err);
}

static tide_status open_ticker(tide_listener *listener, tide_error *err)
{
    static const tide_step *const own[] = {TIDE_LISTENER_STEPS, NULL};
    const tide_listener_options *options = &listener->options;
    TIDE_TRY(tide_ticker_new(&listener->ticker,
                             &(tide_ticker_options){.steps = options->steps ? options->steps : own,
                                                    .env = options->env,
                                                    .log = options->log,
                                                    .metrics = listener->metrics},
                             err));
    TIDE_TRY(tide_ticker_bind(listener->ticker, &tide_step_health,
                              &(tide_step_binding){.arg = listener}, err));
    if (!options->store) { /* the tokens of a file have no uses */
        tide_ticker_skip(listener->ticker, &tide_step_token_uses);
        return TIDE_OK;
    }
    return tide_ticker_bind(
        listener->ticker, &tide_step_token_uses,
        &(tide_step_binding){.arg = listener->access, .delay_us = TOKEN_USES_US}, err);
}

/* ---- opening ---- */

/* A file that an option names does not exist: that is a mistake in the options, not
 * TIDE_E_NOT_FOUND of what a call names. */
static tide_status fail_option(tide_status status, const char *option, tide_error *err)
{
    if (status != TIDE_E_NOT_FOUND)
        return status;
    tide_error found = *err;
    return tide_fail(err, TIDE_E_INVALID, "%s: %s", option, found.text);
}

static tide_status open_tls(tide_listener *listener, tide_error *err)
{
    const tide_listener_options *options = &listener->options;
    if (!options->tls_cert) {
        if (options->tls_key || options->tls_ca || options->verify != TIDE_TLS_VERIFY_NONE)
            return tide_fail(err, TIDE_E_INVALID,
                             "--tls-key, --tls-ca and --client-certs need --tls-cert");
        return TIDE_OK;
    }
    const tide_tls_options tls = {.cert_file = options->tls_cert,
                                  .key_file = options->tls_key,
                                  .ca_file = options->tls_ca,
                                  .verify = options->verify,
                                  .env = options->env};
    return fail_option(tide_tls_open_server(&listener->tls, &tls, err),
                       "--tls-cert, --tls-key or --tls-ca", err);
}

static tide_status open_access(tide_listener *listener, tide_error *err)
{
    const tide_listener_options *options = &listener->options;
    const tide_access_options access = {.token_file = options->token_file,
                                        .certificate_role = TIDE_ROLE_WRITE,
                                        .is_required = options->wants_tokens,
                                        .local_role = options->local_role,
                                        .agent = options->agent,
                                        .hosts = options->hosts,
                                        .host_count = options->host_count,
                                        .env = options->env,
                                        .log = options->log};
    return fail_option(tide_access_open(&listener->access, options->store, &access, err),
                       "--token-file", err);
}

tide_status tide_listener_queries(tide_listener *listener, tide_query_pool **out, tide_error *err)
{
    const tide_query_pool_options options = {.limits = &listener->options.limits,
                                             .program = listener->options.query_program,
                                             .metrics = listener->metrics};
    if (!listener->queries)
        TIDE_TRY(tide_query_pool_open(&listener->queries, &options, err));
    *out = listener->queries;
    return TIDE_OK;
}

const char *tide_listener_query_program(const tide_listener *listener)
{
    return listener->options.query_program;
}

void tide_listener_watch_store(tide_listener *listener, tide_store *store)
{
    if (!listener->store_watch.store)
        tide_store_watch_init(&listener->store_watch, store, listener->options.env,
                              listener->options.log, listener->metrics);
}

static tide_status open_components(tide_listener *listener, tide_error *err)
{
    const tide_listener_options *options = &listener->options;
    TIDE_TRY(tide_metrics_new(&listener->metrics, options->version, options->env, err));
    tide_metrics_add_source(listener->metrics, write_net, listener);
    if (options->store)
        tide_listener_watch_store(listener, options->store);
    TIDE_TRY(tide_health_new(&listener->health, err));
    TIDE_TRY(tide_reflection_new(&listener->reflection, tide_view_bytes(NULL, 0), err));
    TIDE_TRY(tide_routes_new(&listener->routes, err));
    TIDE_TRY(open_tls(listener, err));
    TIDE_TRY(open_access(listener, err));
    TIDE_TRY(open_ticker(listener, err));
    TIDE_TRY(tide_routes_add(listener->routes, own_routes, listener, err));
    TIDE_TRY(tide_routes_add_methods(listener->routes, tide_health_methods, listener->health, err));
    TIDE_TRY(tide_routes_add_methods(listener->routes, tide_reflection_methods,
                                     listener->reflection, err));
    TIDE_TRY(tide_reflection_add_methods(listener->reflection, tide_health_methods, err));
    return tide_reflection_add_methods(listener->reflection, tide_reflection_methods, err);
}

/* Raise the soft limit of descriptors, which a shell sets low, to the hard one. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

tide_status tide_listener_open(tide_listener **out, const tide_listener_options *options,
                               tide_error *err)
{
    TIDE_NEW(tide_listener, listener, err);
    listener->options = *options;
    (void)pthread_mutex_init(&listener->server_lock, NULL);
    raise_file_limit();
    tide_status status =
        tide_lifecycle_open(&listener->service,
                            &(tide_lifecycle_options){.log = options->log,
                                                      .env = options->env,
                                                      .drain_us = options->drain_us,
                                                      .end_us = options->end_us,
                                                      .is_resumed = options->is_resumed},
                            err);
    if (status >= TIDE_OK)
        status = open_components(listener, err);
    if (status < TIDE_OK) {
        tide_listener_close(listener);
        return status;
    }
    *out = listener;
    return TIDE_OK;
}

tide_status tide_listener_join(tide_listener *listener, const tide_listener_component *component,
                               tide_error *err)
{
    if (listener->component_count == TIDE_LISTENER_COMPONENTS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a daemon has at most %d components",
                         TIDE_LISTENER_COMPONENTS_MAX);
    listener->components[listener->component_count++] = *component;
    return TIDE_OK;
}

static void set_counted(tide_listener *listener, tide_server *server)
{
    TIDE_HOLD(&listener->server_lock);
    listener->counted = server;
}

static void close_servers(tide_listener *listener)
{
    set_counted(listener, NULL);
    tide_server_close(listener->server);
    listener->server = NULL;
    tide_server_close(listener->inside); /* components call it until they have left */
    listener->inside = NULL;
}

void tide_listener_stop(tide_listener *listener)
{
    if (!listener)
        return;
    if (listener->has_drainer)
        (void)pthread_join(listener->drainer, NULL);
    listener->has_drainer = false;
    close_servers(listener);
    tide_query_pool_close(TIDE_TAKE(listener->queries));
    tide_ticker_stop(listener->ticker);
}

void tide_listener_close(tide_listener *listener)
{
    if (!listener)
        return;
    tide_listener_stop(listener);
    tide_store_watch_done(&listener->store_watch);
    tide_ticker_free(listener->ticker);
    tide_access_close(listener->access);
    tide_tls_close(listener->tls);
    tide_routes_free(listener->routes);
    free(listener->durations);
    tide_reflection_free(listener->reflection);
    tide_health_free(listener->health);
    tide_metrics_free(listener->metrics);
    tide_lifecycle_close(listener->service);
    (void)pthread_mutex_destroy(&listener->server_lock);
    free(listener);
}

tide_log *tide_listener_log(const tide_listener *listener)
{
    return listener->options.log;
}

tide_metrics *tide_listener_metrics(tide_listener *listener)
{
    return listener->metrics;
}

tide_store_watch *tide_listener_store_watch(tide_listener *listener)
{
    return &listener->store_watch;
}

tide_ticker *tide_listener_ticker(tide_listener *listener)
{
    return listener->ticker;
}

const char *tide_listener_address(const tide_listener *listener, int port)
{
    return tide_server_address(listener->server, (size_t)port);
}

const char *tide_listener_inside(const tide_listener *listener)
{
    return listener->inside ? tide_server_address(listener->inside, 0)
                            : tide_listener_address(listener, 0);
}

/* The name of a service in grpc.health.v1 is what is between the slashes of a path. */
static tide_status set_health(tide_listener *listener, const tide_method *methods,
                              tide_health_status health, tide_error *err)
{
    for (const tide_method *method = methods; method->path; method++) {
        char name[TIDE_HEALTH_NAME_MAX + 1];
        const char *slash = strchr(method->path + 1, '/');
        const size_t len = slash ? (size_t)(slash - method->path - 1) : 0;
        if (len == 0 || len > TIDE_HEALTH_NAME_MAX)
            continue;
        memcpy(name, method->path + 1, len);
        name[len] = '\0';
        TIDE_TRY(tide_health_set(listener->health, name, health, err));
    }
    return TIDE_OK;
}

tide_status tide_listener_add(tide_listener *listener, const tide_method *methods,
                              const tide_route *routes, void *arg, tide_error *err)
{
    if (methods) {
        TIDE_TRY(tide_routes_add_methods(listener->routes, methods, arg, err));
        TIDE_TRY(tide_reflection_add_methods(listener->reflection, methods, err));
        TIDE_TRY(set_health(listener, methods, TIDE_HEALTH_SERVING, err));
    }
    return routes ? tide_routes_add(listener->routes, routes, arg, err) : TIDE_OK;
}

/* ---- serving ---- */

static tide_status reload(void *arg, tide_error *err)
{
    tide_listener *listener = arg;
    tide_error tls_err = {0};
    const tide_status tls = listener->tls ? tide_tls_reload(listener->tls, &tls_err) : TIDE_OK;
    const tide_status tokens = tide_access_reload(listener->access, err);
    const bool is_good = tls >= TIDE_OK && tokens >= TIDE_OK;
    tide_series_add(
        tide_metrics_series(listener->metrics, TIDE_METRIC_RELOADS, is_good ? "ok" : "failed"), 1);
    if (tls < TIDE_OK)
        *err = tls_err;
    return tls < TIDE_OK ? tls : tokens;
}

/* Closing waits for running calls, so it has a thread of its own: the main thread keeps handling
 * signals. */
static void *drain_server(void *arg)
{
    tide_listener *listener = arg;
    close_servers(listener);
    tide_lifecycle_finish(listener->service);
    return NULL;
}

static void drain(void *arg)
{
    tide_listener *listener = arg;
    atomic_store(&listener->is_ready, false);
    tide_health_close(listener->health);
    tide_server_drain(listener->server);
    if (listener->inside)
        tide_server_drain(listener->inside);
    for (int i = 0; i < listener->component_count; i++)
        if (listener->components[i].leave)
            listener->components[i].leave(listener->components[i].arg);
    listener->has_drainer =
        tide_thread_start(&listener->drainer, drain_server, listener, NULL) == TIDE_OK;
    if (!listener->has_drainer)
        tide_lifecycle_finish(listener->service);
}

static void print_ready(tide_listener *listener)
{
    char line[TIDE_LIFECYCLE_LINE_MAX] = "";
    size_t len = 0;
    for (int i = 0; i < listener->options.port_count && len < sizeof line; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s=%s", i > 0 ? " " : "",
                                listener->options.ports[i].name,
                                tide_server_address(listener->server, (size_t)i));
    tide_lifecycle_ready(listener->service, "%s", line);
}

/* Only the daemon's user can open the socket, so its callers need no credentials. */
static tide_status listen_inside(tide_listener *listener, tide_error *err)
{
    const char *listen[] = {listener->options.inside, NULL};
    tide_net_limits limits = listener->options.limits;
    limits.loops = 1;
    if (!listener->options.inside)
        return TIDE_OK;
    TIDE_TRY(tide_server_open(&listener->inside,
                              &(tide_server_options){.listen = listen,
                                                     .routes = listener->routes,
                                                     .limits = &limits,
                                                     .env = listener->options.env,
                                                     .on_ended = observe_call,
                                                     .on_ended_arg = listener},
                              err));
    const char *path = listener->options.inside + strlen("unix:");
    return chmod(path, S_IRUSR | S_IWUSR) == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_IO, "%s: %s", path, strerror(errno));
}

static tide_status listen_all(tide_listener *listener, tide_error *err)
{
    TIDE_TRY(find_series(listener, err));
    TIDE_TRY(listen_inside(listener, err));
    const char *listen[TIDE_LISTENER_PORTS_MAX + 1] = {NULL};
    for (int i = 0; i < listener->options.port_count; i++)
        listen[i] = listener->options.ports[i].address;
    TIDE_TRY(
        tide_server_open(&listener->server,
                         &(tide_server_options){.listen = listen,
                                                .routes = listener->routes,
                                                .limits = &listener->options.limits,
                                                .env = listener->options.env,
                                                .authorise = tide_auth_check,
                                                .authorise_arg = tide_access_auth(listener->access),
                                                .on_ended = observe_call,
                                                .on_ended_arg = listener,
                                                .tls = listener->tls,
                                                .is_insecure = listener->options.is_insecure},
                         err));
    set_counted(listener, listener->server);
    return TIDE_OK;
}

tide_status tide_listener_serve(tide_listener *listener, tide_error *err)
{
    TIDE_TRY(listen_all(listener, err));
    TIDE_TRY(tide_health_set(listener->health, "", TIDE_HEALTH_SERVING, err));
    for (int i = 0; i < listener->component_count; i++)
        if (listener->components[i].start)
            TIDE_TRY(listener->components[i].start(listener->components[i].arg, err));
    TIDE_TRY(bind_probe(listener, err));
    TIDE_TRY(tide_ticker_start(listener->ticker, err));
    atomic_store(&listener->is_ready, true);
    print_ready(listener);
    const tide_status status = tide_lifecycle_run(
        listener->service,
        &(tide_lifecycle_calls){.reload = reload, .drain = drain, .arg = listener}, err);
    atomic_store(&listener->is_ready, false);
    if (status == TIDE_E_INTERRUPTED)
        return status; /* a second signal: the process ends as it is */
    tide_listener_stop(listener);
    return status;
}

void tide_listener_finish(tide_listener *listener)
{
    tide_lifecycle_finish(listener->service);
}

/* ---- a daemon of one part ---- */

void tide_single_service_done(tide_single_service *single)
{
    tide_listener_stop(single->listener); /* no calls from here on */
    if (single->component)
        single->close(single->component);
    tide_listener_close(single->listener);
    *single = (tide_single_service){.listener = NULL};
}

tide_status tide_single_service_serve(tide_single_service *single, tide_error *err)
{
    const tide_status status = tide_listener_serve(single->listener, err);
    if (status == TIDE_E_INTERRUPTED)
        *single = (tide_single_service){.listener = NULL};
    return status;
}
