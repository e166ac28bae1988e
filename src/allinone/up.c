#include "allinone/up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidemark/journal.h>
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "colony/registry.h"
#include "lake/lake.h"
#include "services/agent/agent.h"
#include "services/journal/number_check.h"
#include "services/lake/laked.h"
#include "services/lake/metrics.h"
#include "services/replica/daemon.h"
#include "services/work/services.h"
#include "services/work/work_metrics.h"
#include "web/web.h"

enum { PATH_SIZE = 4096, PORTS_TRIED = 100 };

/* Short, because a colony that starts after one that was killed waits for its leases. */
#define LEASE_US INT64_C(4000000)

typedef struct up {
    const tide_up_options *options;
    tide_store *agent_store;
    tide_store *colony_store;
    tide_sink *sink;
    tide_listener *listener;
    tide_agent_options agent_options;
    tide_colony_options colony_options;
    tide_agent *agent;
    tide_colonyd *colonyd;
    tide_services *services;
    tide_laked *laked;
    tide_replicas *replicas;
    tide_web *web;
    char about[512];
    char *place; /* JSON; NULL: unknown */
    char colony_id[32];
    char inside[PATH_SIZE];
} up;

/* ---- the directory ---- */

static tide_status make_path(const up *u, const char *name, char out[PATH_SIZE], tide_error *err)
{
    const int len = snprintf(out, PATH_SIZE, "%s/%s", u->options->data_dir, name);
    return len < PATH_SIZE
               ? TIDE_OK
               : tide_fail(err, TIDE_E_INVALID, "the path of the data directory is too long");
}

static tide_status open_store(const up *u, const char *name, tide_store **out, tide_error *err)
{
    char path[PATH_SIZE];
    TIDE_TRY(make_path(u, name, path, err));
    return tide_store_open(
        out, path, &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .env = u->options->listener.env},
        err);
}

static tide_status open_colony_store(const up *u, tide_store **out, tide_error *err)
{
    if (!u->options->store_url)
        return open_store(u, "colony.db", out, err);
    return tide_store_open(
        out, u->options->store_url,
        &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .env = u->options->listener.env}, err);
}

/* Where callers need TLS or tokens, components call each other by a socket of their own. */
static tide_status choose_inside(up *u, tide_listener_options *listener, tide_error *err)
{
    if (!listener->tls_cert && !listener->wants_tokens)
        return TIDE_OK;
    const int len =
        snprintf(u->inside, sizeof u->inside, "unix:%s/%s", u->options->data_dir, TIDE_UP_INSIDE);
    if (len >= (int)sizeof u->inside)
        return tide_fail(err, TIDE_E_INVALID, "the path of the data directory is too long");
    listener->inside = u->inside;
    return TIDE_OK;
}

/* ---- components ---- */

const tide_step *const tidemark_up_steps[] = {
    TIDE_LISTENER_STEPS,
    TIDE_AGENT_STEPS,
    TIDE_COLONY_STEPS,
    TIDE_WORK_STEPS,
    TIDE_REPLICA_STEPS,
    &tide_step_work_figures,
    &tide_step_journal_numbers,
    &tide_step_lake_figures,
    NULL,
};

static uint64_t colony_version(void *arg)
{
    const up *u = arg;
    return tide_colonyd_version(u->colonyd);
}

static uint64_t replicas_version(void *arg)
{
    const up *u = arg;
    return tide_replicas_version(u->replicas);
}

static tide_status begin(void *arg, tide_error *err)
{
    const up *u = arg;
    TIDE_TRY(tide_registry_put(u->colony_store, TIDE_UP_AGENT, tide_listener_inside(u->listener),
                               "option", err));
    return u->options->extra.begin
               ? u->options->extra.begin(u->options->extra.arg, u->colony_store, u->listener, err)
               : TIDE_OK;
}

/* The absolute path of the store, for readers in other directories. A path that is not valid UTF-8
 * is left out. */
static tide_status find_place(up *u, tide_error *err)
{
    char path[PATH_SIZE];
    TIDE_TRY(make_path(u, "colony.db", path, err));
    if (tide_store_engine(u->colony_store) != TIDE_ENGINE_SQLITE)
        return TIDE_OK; /* a URL may contain a password */
    if (u->options->store_url)
        (void)snprintf(path, sizeof path, "%s", u->options->store_url);
    char *whole = realpath(path, NULL);
    const tide_view text = tide_view_of(whole ? whole : path);
    tide_json json;
    TIDE_BUFFER(place, 8 * text.len + 64);
    tide_json_init(&json, &place);
    tide_json_object_begin(&json);
    tide_json_key(&json, "store");
    tide_json_view(&json, text);
    tide_json_object_end(&json);
    u->place =
        tide_utf8_valid(text) && tide_json_finish(&json) == TIDE_OK ? strdup(place.ptr) : NULL;
    free(whole);
    return TIDE_OK;
}

static tide_status open_web(up *u, tide_error *err)
{
    TIDE_TRY(find_place(u, err));
    static char work_topic[64];
    tide_work_topic(work_topic, NULL);
    const tide_web_source sources[] = {
        {.topic = "colony", .version = colony_version, .arg = u},
        {.topic = "work", .store_topic = work_topic},
        {.topic = "journal", .store_topic = TIDE_JOURNAL_TOPIC},
        {.topic = "lake", .store_topic = TIDE_LAKE_TOPIC},
        {.topic = "replica", .version = replicas_version, .arg = u},
    };
    const bool has_replicas = u->options->replicas.count > 0;
    (void)snprintf(u->about, sizeof u->about, "{\"version\":\"%s\",\"views\":[%s%s%s%s]}",
                   u->options->listener.version,
                   "\"fleet\",\"gaps\",\"work\",\"checkpoints\",\"telemetry\",\"query\"",
                   has_replicas ? ",\"replication\"" : "", u->laked ? ",\"lake\"" : "",
                   u->options->extra.views ? u->options->extra.views : "");
    const tide_web_options options = {.store = u->colony_store,
                                      .sources = sources,
                                      .source_count =
                                          sizeof sources / sizeof sources[0] - !has_replicas,
                                      .about = u->about,
                                      .place = u->place ? u->place : "{}"};
    return tide_web_open(&u->web, u->listener, &options, err);
}

/* The metabase of a directory that was copied or moved names the files of the first one, which this
 * process must not change. DuckDB is loaded by the first query. */
static tide_status open_lake(up *u, tide_error *err)
{
    char dir[PATH_SIZE];
    TIDE_TRY(make_path(u, "lake", dir, err));
    const tide_laked_options options = {.store = u->colony_store, .data_dir = dir};
    const tide_status status = tide_laked_open(&u->laked, u->listener, &options, err);
    if (status != TIDE_E_CONFLICT)
        return status;
    tide_ticker_skip(tide_listener_ticker(u->listener), &tide_step_lake_figures);
    tide_log_write(u->options->listener.log, TIDE_LOG_WARN, "lake not served",
                   TIDE_F("why", err->text), TIDE_F_END);
    return TIDE_OK;
}

static tide_status open_replicas(up *u, tide_error *err)
{
    tide_replicas_options options = u->options->replicas;
    if (options.count == 0) {
        static const tide_step *const steps[] = {TIDE_REPLICA_STEPS, NULL};
        for (size_t i = 0; steps[i]; i++)
            tide_ticker_skip(tide_listener_ticker(u->listener), steps[i]);
        return TIDE_OK;
    }
    options.env = u->options->listener.env;
    options.log = u->options->listener.log;
    options.is_tls = u->options->listener.tls_cert;
    return tide_replicas_open(&u->replicas, u->listener, &options, err);
}

static tide_status open_components(up *u, tide_error *err)
{
    const tide_listener_options *listener = &u->options->listener;
    u->agent_options = (tide_agent_options){.listener = *listener,
                                            .name = TIDE_UP_AGENT,
                                            .collect_us = u->options->collect_us,
                                            .feed = u->options->feed,
                                            .sample_fraction = 1,
                                            .is_declaring = true};
    u->agent_options.listener.store = u->agent_store;
    u->colony_options =
        (tide_colony_options){.listener = *listener,
                              .export_dir = u->options->export_dir,
                              .scheduler = {.sink = u->sink,
                                            .is_swept = true, /* by the services */
                                            .env = listener->env,
                                            .log = listener->log,
                                            .colony_id = u->colony_id,
                                            .lease_us = LEASE_US,
                                            .recover_us = u->options->recover_us,
                                            .attempt_max = u->options->attempt_max}};
    (void)snprintf(u->colony_id, sizeof u->colony_id, "up-%d", (int)getpid());
    TIDE_TRY(tide_agent_open(&u->agent, u->listener, &u->agent_options, err));
    /* Before the colony starts, which then finds its first agent. */
    TIDE_TRY(
        tide_listener_join(u->listener, &(tide_listener_component){.start = begin, .arg = u}, err));
    TIDE_TRY(tide_colonyd_open(&u->colonyd, u->listener, &u->colony_options, err));
    tide_work_maintenance_options maintenance = u->options->maintenance;
    maintenance.crash_limit = TIDE_COLONY_CRASH_LIMIT; /* gaps are work items of this store */
    TIDE_TRY(tide_services_open(&u->services, u->listener, u->colony_store, &maintenance, err));
    TIDE_TRY(open_lake(u, err));
    TIDE_TRY(open_replicas(u, err));
    TIDE_TRY(open_web(u, err));
    return u->options->extra.join ? u->options->extra.join(u->options->extra.arg, u->listener, err)
                                  : TIDE_OK;
}

static void up_free(up **up_)
{
    up *u = *up_;
    if (!u)
        return;
    tide_listener_stop(u->listener); /* no calls from here on */
    if (u->options->extra.end)
        u->options->extra.end(u->options->extra.arg);
    tide_web_close(u->web);
    free(u->place);
    tide_replicas_close(u->replicas);
    tide_laked_close(u->laked);
    tide_services_close(u->services);
    tide_colonyd_close(u->colonyd);
    tide_agent_close(u->agent);
    tide_listener_close(u->listener);
    tide_sink_close(u->sink);
    tide_store_close(u->colony_store);
    tide_store_close(u->agent_store);
    free(u);
}

/* Threads of the components have pointers into *u, so it is heap memory: when a second signal ends
 * the process at once, they run until exit and nothing that they read is freed or cleared. */
tide_status tide_up_run(const tide_up_options *options, tide_error *err)
{
    TIDE_CLEANUP(up_free) TIDE_NEW(up, u, err);
    u->options = options;
    TIDE_TRY(open_store(u, "agent.db", &u->agent_store, err));
    TIDE_TRY(open_colony_store(u, &u->colony_store, err));
    TIDE_TRY(tide_sink_open_sql(&u->sink, u->colony_store, err));
    u->sink->keep_us = options->keep_us;
    tide_listener_options listener = options->listener;
    listener.store = u->colony_store;
    listener.ports[0] = (tide_listener_port){.name = "http", .address = options->http};
    listener.port_count = 1;
    listener.agent = TIDE_UP_AGENT;
    listener.steps = tidemark_up_steps;
    TIDE_TRY(choose_inside(u, &listener, err));
    TIDE_TRY(tide_listener_open(&u->listener, &listener, err));
    TIDE_TRY(open_components(u, err));
    const tide_status status = tide_listener_serve(u->listener, err);
    if (status == TIDE_E_INTERRUPTED)
        u = NULL;
    return status;
}

/* ---- ports ---- */

static bool is_free(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int reuse = 1;
    if (fd < 0)
        return false;
    /* As the server binds: a port that was closed a moment ago is free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    const bool is_bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return is_bound;
}

tide_status tide_up_free_port(char out[32], int from, tide_error *err)
{
    for (int port = from; port < from + PORTS_TRIED && port < 65536; port++)
        if (is_free(port)) {
            (void)snprintf(out, 32, "127.0.0.1:%d", port);
            return TIDE_OK;
        }
    return tide_fail_advised(err, TIDE_E_UNAVAILABLE,
                             "no port from %d to %d is free; choose one with --http", from,
                             from + PORTS_TRIED - 1);
}
