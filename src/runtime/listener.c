#include "runtime/listener.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "net/call/health.h"
#include "net/call/reflection.h"
#include "net/server/server.h"
#include "runtime/lifecycle.h"
#include "services/access/access.h"

struct tide_listener {
    tide_listener_options options;
    tide_listener_component parts[TIDE_LISTENER_PARTS_MAX];
    int part_count;
    tide_metrics *metrics;
    tide_ticker *ticker;
    tide_routes *routes;
    tide_health *health;
    tide_reflection *reflection;
    tide_tls *tls;
    tide_access *access;
    tide_server *server;
    tide_server *inside; /* NULL: there is none */
    tide_lifecycle *service;
    pthread_t drainer;
    bool has_drainer;
    atomic_bool is_ready;
    atomic_bool is_unwell;
    tide_series **durations;        /* by index of the route */
    atomic_uint_fast64_t lost_seen; /* lines of the log that are in the metrics */
};

/* ---- figures ---- */

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

static void write_counters(tide_listener *front, tide_metrics_writer *writer)
{
    const tide_net_counters *counters = tide_server_counters(front->server);
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

/* Why credentials opened nothing. */
static void write_auth(tide_listener *front, tide_metrics_writer *writer)
{
    const tide_net_counters *counters = tide_server_counters(front->server);
    const struct {
        const char *reason;
        int64_t count;
    } rows[] = {{"unauthenticated", tide_counted(&counters->refused_unauthenticated)},
                {"denied", tide_counted(&counters->refused_denied)},
                {"guessing", tide_counted(&counters->refused_guessing)}};
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_AUTH_FAILURES]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tide_metrics_sample(writer, (const char *const[]){rows[i].reason}, rows[i].count);
}

static void write_calls(tide_listener *front, tide_metrics_writer *writer)
{
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_RPC_CALLS]);
    for (size_t i = 0; i < tide_routes_count(front->routes); i++) {
        const tide_route_entry *entry = tide_routes_at(front->routes, i);
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

static void write_net(void *arg, tide_metrics_writer *writer)
{
    tide_listener *front = arg;
    if (!front->server)
        return;
    write_counters(front, writer);
    write_auth(front, writer);
    write_calls(front, writer);
}

static void observe_call(void *arg, const tide_route_entry *entry, int grpc_code, int64_t took_us)
{
    (void)grpc_code;
    const tide_listener *front = arg;
    tide_series_observe(front->durations[entry->index], took_us);
}

/* Series are found once: counting takes no lock. */
static tide_status find_series(tide_listener *front, tide_error *err)
{
    const size_t count = tide_routes_count(front->routes);
    front->durations = calloc(count + 1, sizeof(void *));
    if (!front->durations)
        return tide_no_memory(err);
    for (size_t i = 0; i < count; i++)
        front->durations[i] =
            tide_metrics_series(front->metrics, TIDE_METRIC_RPC_DURATION,
                                tide_route_entry_path(tide_routes_at(front->routes, i)));
    return TIDE_OK;
}

/* The log counts for itself; what is new since somebody looked last comes to the metric. */
static void count_lost_lines(tide_listener *front)
{
    if (!front->options.log)
        return;
    const uint_fast64_t lost = atomic_load(&front->options.log->lost);
    uint_fast64_t seen = atomic_load(&front->lost_seen);
    while (seen < lost && !atomic_compare_exchange_weak(&front->lost_seen, &seen, lost)) {
    }
    if (seen < lost)
        tide_metrics_add(front->metrics, TIDE_METRIC_LOG_LOST, (int64_t)(lost - seen));
}

static void serve_metrics(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    tide_listener *front = arg;
    tide_error err = {0};
    const tide_metrics_format format = tide_metrics_choose(tide_call_metadata(call, "accept"));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = {0};
    tide_buffer_init(&text, TIDE_METRICS_TEXT_MAX);
    count_lost_lines(front);
    if (front->tls)
        tide_metrics_set(front->metrics, TIDE_METRIC_CERTIFICATE_EXPIRY,
                         tide_tls_expires_us(front->tls));
    const tide_status status = tide_metrics_write(front->metrics, format, &text, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
    else
        tide_call_http_reply(call, 200, tide_metrics_content_type(format), tide_buffer_view(&text));
}

/* ---- health ---- */

static void serve_healthz(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    (void)arg;
    tide_call_http_reply(call, 200, "text/plain; charset=utf-8", tide_view_of("ok\n"));
}

void tide_listener_look(tide_listener *front)
{
    const tide_listener_options *options = &front->options;
    bool is_unwell = false;
    for (const tide_listener_component *part = front->parts;
         part < front->parts + front->part_count; part++)
        is_unwell |= part->is_well && !part->is_well(part->arg);
    if (atomic_exchange(&front->is_unwell, is_unwell) == is_unwell)
        return;
    tide_health_set_impaired(front->health, is_unwell);
    if (is_unwell)
        tide_log_write(options->log, TIDE_LOG_ERROR, "not ready: the store takes nothing",
                       TIDE_F_END);
    else
        tide_log_write(options->log, TIDE_LOG_INFO, "ready again", TIDE_F_END);
}

static void serve_readyz(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    tide_listener *front = arg;
    tide_listener_look(front);
    const bool is_ready = atomic_load(&front->is_ready) && !atomic_load(&front->is_unwell);
    tide_call_http_reply(call, is_ready ? 200 : 503, "text/plain; charset=utf-8",
                         tide_view_of(is_ready ? "ready\n" : "not ready\n"));
}

static const tide_route own_routes[] = {
    {.method = "GET",
     .path = "/metrics",
     .role = TIDE_ROLE_READ,
     .is_blocking = true,
     .run = serve_metrics},
    {.method = "GET", .path = "/healthz", .role = TIDE_ROLE_NONE, .run = serve_healthz},
    {.method = "GET", .path = "/readyz", .role = TIDE_ROLE_NONE, .run = serve_readyz},
    {.method = NULL},
};

/* ---- steps ---- */

#define TOKEN_USES_US INT64_C(1000000)
#define HEALTH_US INT64_C(1000000)

static tide_status write_token_uses(void *arg, int64_t *next_us, tide_error *err)
{
    *next_us = TOKEN_USES_US;
    return tide_access_write_uses(arg, err);
}

const tide_step tide_step_token_uses = {
    .name = "token_uses", .summary = "store when tokens were last used", .run = write_token_uses};

static tide_status check_health(void *arg, int64_t *next_us, tide_error *err)
{
    (void)err;
    *next_us = HEALTH_US;
    tide_listener_look(arg);
    return TIDE_OK;
}

const tide_step tide_step_health = {
    .name = "health", .summary = "report whether the components are well", .run = check_health};

static tide_status open_ticker(tide_listener *front, tide_error *err)
{
    static const tide_step *const own[] = {TIDE_LISTENER_STEPS, NULL};
    const tide_listener_options *options = &front->options;
    TIDE_TRY(tide_ticker_new(&front->ticker,
                             &(tide_ticker_options){.steps = options->steps ? options->steps : own,
                                                    .env = options->env,
                                                    .log = options->log,
                                                    .metrics = front->metrics},
                             err));
    if (!options->store) { /* the tokens of a file have no uses */
        tide_ticker_skip(front->ticker, &tide_step_token_uses);
        return TIDE_OK;
    }
    return tide_ticker_bind(front->ticker, &tide_step_token_uses,
                            &(tide_step_binding){.arg = front->access, .delay_us = TOKEN_USES_US},
                            err);
}

/* ---- opening ---- */

/* A file that an option names is not there: that is a mistake in the options, whatever else is looked up by name. */
static tide_status blame_option(tide_status status, const char *option, tide_error *err)
{
    if (status != TIDE_E_NOT_FOUND)
        return status;
    tide_error found = *err;
    return tide_fail(err, TIDE_E_INVALID, "%s: %s", option, found.text);
}

static tide_status open_tls(tide_listener *front, tide_error *err)
{
    const tide_listener_options *options = &front->options;
    if (!options->tls_cert) {
        if (options->tls_key || options->tls_ca || options->verify != TIDE_TLS_VERIFY_NONE)
            return tide_fail(err, TIDE_E_INVALID,
                             "a key, an authority or client certificates need --tls-cert");
        return TIDE_OK;
    }
    const tide_tls_options tls = {.cert_file = options->tls_cert,
                                  .key_file = options->tls_key,
                                  .ca_file = options->tls_ca,
                                  .verify = options->verify,
                                  .env = options->env};
    return blame_option(tide_tls_open_server(&front->tls, &tls, err),
                        "--tls-cert, --tls-key or --tls-ca", err);
}

static tide_status open_access(tide_listener *front, tide_error *err)
{
    const tide_listener_options *options = &front->options;
    const tide_access_options access = {.token_file = options->token_file,
                                        .certificate_role = TIDE_ROLE_WRITE,
                                        .is_required = options->wants_tokens,
                                        .is_insecure = options->is_insecure,
                                        .hosts = options->hosts,
                                        .host_count = options->host_count,
                                        .env = options->env};
    return blame_option(tide_access_open(&front->access, options->store, &access, err),
                        "--token-file", err);
}

static tide_status open_parts(tide_listener *front, tide_error *err)
{
    const tide_listener_options *options = &front->options;
    TIDE_TRY(tide_metrics_new(&front->metrics, options->version, options->env, err));
    tide_metrics_add_source(front->metrics, write_net, front);
    TIDE_TRY(tide_health_new(&front->health, err));
    TIDE_TRY(tide_reflection_new(&front->reflection, tide_view_bytes(NULL, 0), err));
    TIDE_TRY(tide_routes_new(&front->routes, err));
    TIDE_TRY(open_tls(front, err));
    TIDE_TRY(open_access(front, err));
    TIDE_TRY(open_ticker(front, err));
    TIDE_TRY(tide_routes_add(front->routes, own_routes, front, err));
    TIDE_TRY(tide_routes_add_methods(front->routes, tide_health_methods, front->health, err));
    TIDE_TRY(
        tide_routes_add_methods(front->routes, tide_reflection_methods, front->reflection, err));
    TIDE_TRY(tide_reflection_add_methods(front->reflection, tide_health_methods, err));
    return tide_reflection_add_methods(front->reflection, tide_reflection_methods, err);
}

/* As many connections as the system lets us have, not as many as a shell thinks right. */
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
    tide_listener *front = calloc(1, sizeof *front);
    if (!front)
        return tide_no_memory(err);
    front->options = *options;
    raise_file_limit();
    tide_status status = tide_lifecycle_open(
        &front->service,
        &(tide_lifecycle_options){
            .log = options->log, .env = options->env, .drain_us = options->drain_us},
        err);
    if (status >= TIDE_OK)
        status = open_parts(front, err);
    if (status < TIDE_OK) {
        tide_listener_close(front);
        return status;
    }
    *out = front;
    return TIDE_OK;
}

tide_status tide_listener_join(tide_listener *front, const tide_listener_component *part,
                               tide_error *err)
{
    if (front->part_count == TIDE_LISTENER_PARTS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "a daemon has at most %d parts",
                         TIDE_LISTENER_PARTS_MAX);
    front->parts[front->part_count++] = *part;
    return TIDE_OK;
}

static void close_servers(tide_listener *front)
{
    tide_server_close(front->server);
    front->server = NULL;
    tide_server_close(front->inside); /* the parts call until they are told to leave */
    front->inside = NULL;
}

void tide_listener_stop(tide_listener *front)
{
    if (!front)
        return;
    if (front->has_drainer)
        (void)pthread_join(front->drainer, NULL);
    front->has_drainer = false;
    close_servers(front);
    tide_ticker_stop(front->ticker);
}

void tide_listener_close(tide_listener *front)
{
    if (!front)
        return;
    tide_listener_stop(front);
    tide_ticker_free(front->ticker);
    tide_access_close(front->access);
    tide_tls_close(front->tls);
    tide_routes_free(front->routes);
    free(front->durations);
    tide_reflection_free(front->reflection);
    tide_health_free(front->health);
    tide_metrics_free(front->metrics);
    tide_lifecycle_close(front->service);
    free(front);
}

void tide_listener_closep(tide_listener **front)
{
    tide_listener_close(*front);
}

tide_metrics *tide_listener_metrics(tide_listener *front)
{
    return front->metrics;
}

tide_ticker *tide_listener_ticker(tide_listener *front)
{
    return front->ticker;
}

const char *tide_listener_address(const tide_listener *front, int port)
{
    return tide_server_address(front->server, (size_t)port);
}

const char *tide_listener_inside(const tide_listener *front)
{
    return front->inside ? tide_server_address(front->inside, 0) : tide_listener_address(front, 0);
}

/* Services are told healthy by their names: what stands between the slashes of a path. */
static tide_status set_health(tide_listener *front, const tide_method *methods,
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
        TIDE_TRY(tide_health_set(front->health, name, health, err));
    }
    return TIDE_OK;
}

tide_status tide_listener_add(tide_listener *front, const tide_method *methods,
                              const tide_route *routes, void *arg, tide_error *err)
{
    if (methods) {
        TIDE_TRY(tide_routes_add_methods(front->routes, methods, arg, err));
        TIDE_TRY(tide_reflection_add_methods(front->reflection, methods, err));
        TIDE_TRY(set_health(front, methods, TIDE_HEALTH_SERVING, err));
    }
    return routes ? tide_routes_add(front->routes, routes, arg, err) : TIDE_OK;
}

/* ---- serving ---- */

static tide_status reload(void *arg, tide_error *err)
{
    tide_listener *front = arg;
    tide_error tls_err = {0};
    const tide_status tls = front->tls ? tide_tls_reload(front->tls, &tls_err) : TIDE_OK;
    const tide_status tokens = tide_access_reload(front->access, err);
    const bool is_good = tls >= TIDE_OK && tokens >= TIDE_OK;
    tide_series_add(
        tide_metrics_series(front->metrics, TIDE_METRIC_RELOADS, is_good ? "ok" : "failed"), 1);
    if (tls < TIDE_OK)
        *err = tls_err;
    return tls < TIDE_OK ? tls : tokens;
}

/* Closing waits for running calls, so it has a thread of its own: run goes on seeing signals. */
static void *drain_server(void *arg)
{
    tide_listener *front = arg;
    close_servers(front);
    tide_lifecycle_finish(front->service);
    return NULL;
}

static void drain(void *arg)
{
    tide_listener *front = arg;
    atomic_store(&front->is_ready, false);
    tide_health_close(front->health);
    tide_server_drain(front->server);
    if (front->inside)
        tide_server_drain(front->inside);
    for (int i = 0; i < front->part_count; i++)
        if (front->parts[i].leave)
            front->parts[i].leave(front->parts[i].arg);
    front->has_drainer = tide_thread_start(&front->drainer, drain_server, front, NULL) == TIDE_OK;
    if (!front->has_drainer)
        tide_lifecycle_finish(front->service);
}

static void say_ready(tide_listener *front)
{
    char line[TIDE_SERVICE_LINE_MAX] = "";
    size_t len = 0;
    for (int i = 0; i < front->options.port_count && len < sizeof line; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s=%s", i > 0 ? " " : "",
                                front->options.ports[i].name,
                                tide_server_address(front->server, (size_t)i));
    tide_lifecycle_ready(front->service, "%s", line);
}

/* Nobody else can open the file: who comes by it need not show anything. */
static tide_status listen_inside(tide_listener *front, tide_error *err)
{
    const char *listen[] = {front->options.inside, NULL};
    tide_net_limits limits = front->options.limits;
    limits.loops = 1;
    if (!front->options.inside)
        return TIDE_OK;
    TIDE_TRY(tide_server_open(&front->inside,
                              &(tide_server_options){.listen = listen,
                                                     .routes = front->routes,
                                                     .limits = &limits,
                                                     .env = front->options.env,
                                                     .on_ended = observe_call,
                                                     .on_ended_arg = front},
                              err));
    const char *path = front->options.inside + strlen("unix:");
    return chmod(path, S_IRUSR | S_IWUSR) == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_IO, "%s: %s", path, strerror(errno));
}

static tide_status listen_all(tide_listener *front, tide_error *err)
{
    TIDE_TRY(find_series(front, err));
    TIDE_TRY(listen_inside(front, err));
    const char *listen[TIDE_LISTENER_PORTS_MAX + 1] = {NULL};
    for (int i = 0; i < front->options.port_count; i++)
        listen[i] = front->options.ports[i].address;
    return tide_server_open(&front->server,
                            &(tide_server_options){.listen = listen,
                                                   .routes = front->routes,
                                                   .limits = &front->options.limits,
                                                   .env = front->options.env,
                                                   .authorise = tide_auth_check,
                                                   .authorise_arg = tide_access_auth(front->access),
                                                   .on_ended = observe_call,
                                                   .on_ended_arg = front,
                                                   .tls = front->tls,
                                                   .is_insecure = front->options.is_insecure},
                            err);
}

tide_status tide_listener_serve(tide_listener *front, tide_error *err)
{
    TIDE_TRY(listen_all(front, err));
    TIDE_TRY(tide_health_set(front->health, "", TIDE_HEALTH_SERVING, err));
    for (int i = 0; i < front->part_count; i++)
        if (front->parts[i].start)
            TIDE_TRY(front->parts[i].start(front->parts[i].arg, err));
    TIDE_TRY(tide_ticker_start(front->ticker, err));
    atomic_store(&front->is_ready, true);
    say_ready(front);
    const tide_status status = tide_lifecycle_run(
        front->service, &(tide_lifecycle_calls){.reload = reload, .drain = drain, .arg = front},
        err);
    atomic_store(&front->is_ready, false);
    if (status == TIDE_E_INTERRUPTED)
        return status; /* somebody is in a hurry: the process ends as it is */
    tide_listener_stop(front);
    return status;
}
