#include "demo/demo_fleet.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/text/uuid.h"
#include "base/thread.h"
#include "demo/demo_sim.h"
#include "net/server/server.h"
#include "tidemark_agent_v1_agent.pb-c.h"

/* ---- the file: a line `NAME SESSION TICKS` for each agent ---- */

enum { PATH_SIZE = 4200, LINE_SIZE = 160 };

static void close_file(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static tide_status fail(const char *path, const char *what, tide_error *err)
{
    return tide_fail(err, TIDE_E_IO, "%s cannot be %s: %s", path, what, strerror(errno));
}

tide_status tide_demo_fleet_save(const char *file, const tide_sim *sims, int count, int64_t spare,
                                 tide_error *err)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s.new", file);
    TIDE_CLEANUP(close_file) FILE *out = fopen(path, "we");
    if (!out)
        return fail(path, "written", err);
    for (int i = 0; i < count; i++)
        (void)fprintf(out, "%s %s %" PRId64 "\n", sims[i].name, sims[i].session,
                      sims[i].tick + spare);
    if (fflush(out) != 0 || ferror(out) || fdatasync(fileno(out)) != 0 || rename(path, file) != 0)
        return fail(path, "written", err);
    return TIDE_OK;
}

tide_status tide_demo_fleet_load(const char *file, tide_sim *sims, int count, tide_error *err)
{
    char line[LINE_SIZE];
    TIDE_CLEANUP(close_file) FILE *in = fopen(file, "re");
    if (!in)
        return errno == ENOENT ? TIDE_OK : fail(file, "read", err);
    int next = 0; /* lines stand in the order of agents, unless there were others */
    while (fgets(line, sizeof line, in)) {
        char name[TIDE_SIM_NAME_SIZE];
        char session[37];
        int at = 0;
        char *end = NULL;
        const bool is_named = sscanf(line, "%31s %36s %n", name, session, &at) == 2 && at > 0;
        const int64_t tick = is_named ? strtoll(line + at, &end, 10) : -1;
        if (tick < 0 || end == line + at || *end != '\n')
            return tide_fail(err, TIDE_E_DAMAGED, "%s has a line that is none: %s", file, line);
        for (int i = 0; i < count; i++) {
            tide_sim *sim = &sims[(next + i) % count];
            if (strcmp(sim->name, name) != 0)
                continue;
            memcpy(sim->session, session, sizeof session);
            sim->tick = tick;
            next = (next + i + 1) % count;
            break;
        }
    }
    return ferror(in) ? fail(file, "read", err) : TIDE_OK;
}

enum {
    TURN_MS = 100,
    LATE_TICKS = 2,
    AHEAD_TICKS = 3,
    WATCH_MS_MAX = 60000,
    RESPONSE_MAX = 8 << 20,
};
#define TICK_US INT64_C(3000000) /* of a small fleet */
/* With each agent a tick is longer: a large fleet costs no more than a small one. */
#define TICK_AGENT_US INT64_C(100000)
#define SAVE_US INT64_C(10000000)

typedef Tidemark__Agent__V1__WatchStreamsRequest watch_request;

/* The call that waits at an agent: one at a time, its reader's. A second one is answered at
 * once. */
typedef struct watcher {
    tide_call *call; /* NULL: none */
    bool is_query;   /* that was never answered, because the agent is paused */
    int64_t until_us;
} watcher;

typedef struct member {
    tide_sim *sim;
    int64_t due_us; /* the next tick */
    int64_t until_us[TIDE_DEMO_FAULT_COUNT];
    bool is_wiping;
    watcher watcher;
} member;

struct tide_demo_fleet {
    tide_demo_fleet_options options;
    pthread_mutex_t lock; /* of members */
    tide_sim *sims;
    member *members;
    int *by_name; /* indexes, in the order of names */
    int64_t tick_us;
    int64_t save_us; /* when the next time is */
    tide_routes *routes;
    tide_server *server;
    int port;
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
};

static int64_t mono_us(const tide_demo_fleet *fleet)
{
    return fleet->options.env->mono_us(fleet->options.env);
}

static bool is_under(const tide_demo_fleet *fleet, const member *m, tide_demo_fault fault)
{
    return mono_us(fleet) < m->until_us[fault];
}

static tide_sim_time time_of(const tide_demo_fleet *fleet)
{
    return (tide_sim_time){.now_ms = fleet->options.env->wall_us(fleet->options.env) / 1000,
                           .tick_us = fleet->tick_us};
}

/* ---- the agent of a call ---- */

static int compare_names(const void *a, const void *b, void *arg)
{
    const tide_sim *sims = arg;
    return strcmp(sims[*(const int *)a].name, sims[*(const int *)b].name);
}

static member *find_member(tide_demo_fleet *fleet, const char *name, size_t len)
{
    int low = 0;
    int high = fleet->options.count - 1;
    while (low <= high) {
        const int middle = (low + high) / 2;
        member *m = &fleet->members[fleet->by_name[middle]];
        const int order = strncmp(m->sim->name, name, len);
        if (order == 0 && m->sim->name[len] == '\0')
            return m;
        if (order < 0)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return NULL;
}

/* NULL: the call was ended. */
static member *meet(tide_demo_fleet *fleet, tide_call *call)
{
    tide_error err = {0};
    const char *host = tide_call_metadata(call, ":authority");
    if (!host)
        host = tide_call_metadata(call, "host");
    member *m = host ? find_member(fleet, host, strcspn(host, ".:")) : NULL;
    if (!m)
        tide_call_end(call, tide_fail(&err, TIDE_E_NOT_FOUND, "no agent is called so here"), &err);
    else if (is_under(fleet, m, TIDE_DEMO_DROP)) {
        tide_call_end(call, tide_fail(&err, TIDE_E_UNAVAILABLE, "the connection broke off"), &err);
        m = NULL;
    }
    return m;
}

/* ---- calls ---- */

static void respond_or_end(tide_call *call, tide_status status, const tide_buffer *out,
                           const tide_error *err)
{
    if (status < TIDE_OK)
        tide_call_end(call, status, err);
    else
        tide_call_respond(call, tide_buffer_view(out));
}

static void end_watch(tide_demo_fleet *fleet, member *m);

/* A question that is not answered: the caller's own patience ends it. */
static void mute(tide_demo_fleet *fleet, member *m, tide_call *call)
{
    end_watch(fleet, m);
    tide_call_hold(call);
    m->watcher =
        (watcher){.call = call, .is_query = true, .until_us = m->until_us[TIDE_DEMO_PAUSE]};
}

static void run_query(tide_call *call, tide_view message, void *arg)
{
    tide_demo_fleet *fleet = arg;
    tide_error err = {0};
    tide_sim_question question;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(RESPONSE_MAX);
    TIDE_HOLD(&fleet->lock);
    member *m = meet(fleet, call);
    if (m && is_under(fleet, m, TIDE_DEMO_PAUSE)) {
        mute(fleet, m, call);
    } else if (m) {
        const tide_sim_time time = time_of(fleet);
        tide_status status = tide_sim_read_question(&question, tide_call_path(call), message, &err);
        if (status >= TIDE_OK)
            status = tide_sim_respond(m->sim, &question, &time, &out, &err);
        respond_or_end(call, status, &out, &err);
    }
}

static void report_streams(tide_demo_fleet *fleet, const member *m, tide_call *call)
{
    tide_error err = {0};
    const tide_sim_time time = time_of(fleet);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(RESPONSE_MAX);
    respond_or_end(call, tide_sim_list(m->sim, &time, &out, &err), &out, &err);
}

static bool has_news(const member *m, const watch_request *request)
{
    if (*request->session_id && strcmp(request->session_id, m->sim->session) != 0)
        return true;
    for (int kind = 0; kind < TIDE_SIM_STREAMS; kind++) {
        const int64_t head = tide_sim_head(m->sim, (tide_stream_kind)kind);
        const char *name = tide_stream_type_of((tide_stream_kind)kind)->name;
        bool was_seen = false;
        for (size_t i = 0; i < request->n_seen && !was_seen; i++)
            was_seen = strcmp(request->seen[i]->stream, name) == 0 &&
                       request->seen[i]->head_seq_id == (uint64_t)head;
        if (!was_seen)
            return true;
    }
    return false;
}

static void end_watch(tide_demo_fleet *fleet, member *m)
{
    tide_call *call = m->watcher.call;
    if (!call)
        return;
    const bool is_query = m->watcher.is_query;
    tide_error err = {0};
    m->watcher = (watcher){.call = NULL};
    if (is_query)
        tide_call_end(call, tide_fail(&err, TIDE_E_UNAVAILABLE, "it was paused: ask again"), &err);
    else
        report_streams(fleet, m, call);
    tide_call_release(call);
}

static void run_watch(tide_call *call, tide_view message, void *arg)
{
    tide_demo_fleet *fleet = arg;
    tide_error err = {0};
    ProtobufCMessage *decoded = NULL;
    const tide_status status = tide_call_decode(call, message, &decoded, &err);
    if (status < TIDE_OK) {
        tide_call_end(call, status, &err);
        return;
    }
    const watch_request *request = (const watch_request *)decoded;
    TIDE_HOLD(&fleet->lock);
    member *m = meet(fleet, call);
    if (m && (has_news(m, request) || request->wait_ms == 0)) {
        report_streams(fleet, m, call);
    } else if (m) {
        const uint32_t wait_ms =
            request->wait_ms < WATCH_MS_MAX ? request->wait_ms : (uint32_t)WATCH_MS_MAX;
        end_watch(fleet, m);
        tide_call_hold(call);
        m->watcher = (watcher){.call = call, .until_us = mono_us(fleet) + (int64_t)wait_ms * 1000};
    }
}

static void run_list(tide_call *call, tide_view message, void *arg)
{
    tide_demo_fleet *fleet = arg;
    (void)message;
    TIDE_HOLD(&fleet->lock);
    member *m = meet(fleet, call);
    if (m)
        report_streams(fleet, m, call);
}

#define QUERY(path_)                                                                               \
    {                                                                                              \
        .path = "/tidemark.agent.v1." path_, .role = TIDE_ROLE_READ, .run = run_query              \
    }

static const tide_method methods[] = {
    QUERY("AgentService/QueryTelemetry"),
    QUERY("AgentService/QuerySystemMetrics"),
    QUERY("AgentService/QueryEbpfMetrics"),
    QUERY("AgentDebugService/QueryCPUProfileSamples"),
    QUERY("AgentDebugService/QueryMemoryProfileSamples"),
    {.path = "/tidemark.agent.v1.AgentService/WatchStreams",
     .role = TIDE_ROLE_READ,
     .request = &tidemark__agent__v1__watch_streams_request__descriptor,
     .response = &tidemark__agent__v1__list_streams_response__descriptor,
     .run = run_watch},
    {.path = "/tidemark.agent.v1.AgentService/ListStreams",
     .role = TIDE_ROLE_READ,
     .request = &tidemark__agent__v1__list_streams_request__descriptor,
     .response = &tidemark__agent__v1__list_streams_response__descriptor,
     .run = run_list},
    {.path = NULL},
};

/* ---- time ---- */

static void wipe(tide_demo_fleet *fleet, member *m)
{
    tide_uuid id;
    tide_uuid_v4(fleet->options.env, &id);
    tide_uuid_format(&id, m->sim->session);
    m->sim->tick = m->sim->ahead = 0;
    m->sim->is_late = m->is_wiping = false;
    m->due_us = mono_us(fleet) + fleet->tick_us;
    fleet->save_us = 0;
}

static void pass_time(tide_demo_fleet *fleet, member *m, int64_t now_us)
{
    const bool is_kept = m->watcher.is_query && now_us < m->until_us[TIDE_DEMO_PAUSE];
    bool has_moved = false;
    if (m->is_wiping && now_us >= m->until_us[TIDE_DEMO_WIPE]) {
        wipe(fleet, m);
        has_moved = true;
    }
    if (m->sim->is_late && now_us >= m->until_us[TIDE_DEMO_LATE])
        m->sim->is_late = false;
    if (!m->is_wiping && now_us >= m->due_us) {
        m->sim->tick++;
        m->due_us += fleet->tick_us;
        if (m->due_us < now_us)
            m->due_us = now_us + fleet->tick_us;
        has_moved = true;
    }
    if (m->watcher.call && !is_kept && (has_moved || now_us >= m->watcher.until_us))
        end_watch(fleet, m);
}

static void save(tide_demo_fleet *fleet, bool is_last)
{
    tide_error err = {0};
    const int64_t spare = is_last ? 0 : 2 + 2 * SAVE_US / fleet->tick_us;
    const tide_status status =
        tide_demo_fleet_save(fleet->options.file, fleet->sims, fleet->options.count, spare, &err);
    if (status < TIDE_OK)
        tide_log_write(fleet->options.log, TIDE_LOG_WARN, "the simulated fleet was not saved",
                       TIDE_F("error", err.text), TIDE_F_END);
    fleet->save_us = mono_us(fleet) + SAVE_US;
}

static void *run(void *arg)
{
    tide_demo_fleet *fleet = arg;
    while (!atomic_load(&fleet->is_over)) {
        (void)pthread_mutex_lock(&fleet->lock);
        const int64_t now_us = mono_us(fleet);
        for (int i = 0; i < fleet->options.count; i++)
            pass_time(fleet, &fleet->members[i], now_us);
        if (now_us >= fleet->save_us)
            save(fleet, false);
        (void)pthread_mutex_unlock(&fleet->lock);
        struct pollfd waker = {.fd = fleet->waker, .events = POLLIN};
        eventfd_t ignored = 0;
        if (poll(&waker, 1, TURN_MS) > 0)
            (void)eventfd_read(fleet->waker, &ignored);
    }
    return NULL;
}

/* ---- faults ---- */

void tide_demo_fleet_disturb(tide_demo_fleet *fleet, int index, tide_demo_fault fault,
                             int64_t for_us)
{
    TIDE_HOLD(&fleet->lock);
    member *m = &fleet->members[index];
    const int64_t until_us = mono_us(fleet) + for_us;
    if (fault == TIDE_DEMO_RESUME) {
        m->until_us[TIDE_DEMO_PAUSE] = m->until_us[TIDE_DEMO_DROP] = 0;
    } else {
        m->until_us[fault] = until_us;
    }
    if (fault == TIDE_DEMO_LATE) {
        m->sim->is_late = true;
        m->sim->late_first = m->sim->tick + 1;
        m->sim->late_last = m->sim->tick + LATE_TICKS;
        /* They come now, not when their time would be. */
        m->sim->tick += LATE_TICKS + 1;
        fleet->save_us = 0;
        end_watch(fleet, m);
    } else if (fault == TIDE_DEMO_WIPE) {
        m->is_wiping = true;
        m->sim->ahead = AHEAD_TICKS; /* it is in the middle of writing */
        end_watch(fleet, m);
    }
    (void)eventfd_write(fleet->waker, 1);
}

tide_demo_standing tide_demo_fleet_show(tide_demo_fleet *fleet, int index)
{
    static const struct {
        tide_demo_fault fault;
        const char *state;
    } states[] = {{TIDE_DEMO_PAUSE, "paused"},
                  {TIDE_DEMO_DROP, "dropped"},
                  {TIDE_DEMO_WIPE, "wiping"},
                  {TIDE_DEMO_LATE, "late"}};
    tide_demo_standing out = {.state = "well"};
    TIDE_HOLD(&fleet->lock);
    const member *m = &fleet->members[index];
    for (size_t i = 0; i < sizeof states / sizeof states[0] && out.for_us == 0; i++)
        if (is_under(fleet, m, states[i].fault))
            out = (tide_demo_standing){.state = states[i].state,
                                       .for_us = m->until_us[states[i].fault] - mono_us(fleet)};
    return out;
}

/* ---- life ---- */

static void place_members(tide_demo_fleet *fleet)
{
    assert(fleet->members && fleet->sims && fleet->by_name);
    for (int i = 0; i < fleet->options.count; i++) {
        member *m = &fleet->members[i];
        m->sim = &fleet->sims[i];
        (void)snprintf(m->sim->name, sizeof m->sim->name, "%s", fleet->options.names[i]);
        m->sim->number = i;
        /* Spread, so that they do not all speak at once. */
        m->due_us = mono_us(fleet) + fleet->tick_us * (i + 1) / fleet->options.count;
        fleet->by_name[i] = i;
    }
    qsort_r(fleet->by_name, (size_t)fleet->options.count, sizeof fleet->by_name[0], compare_names,
            fleet->sims);
}

static tide_status begin_sessions(tide_demo_fleet *fleet, tide_error *err)
{
    TIDE_TRY(tide_demo_fleet_load(fleet->options.file, fleet->sims, fleet->options.count, err));
    for (int i = 0; i < fleet->options.count; i++)
        if (!fleet->sims[i].session[0]) {
            tide_uuid id;
            tide_uuid_v4(fleet->options.env, &id);
            tide_uuid_format(&id, fleet->sims[i].session);
        }
    return TIDE_OK;
}

static tide_status serve(tide_demo_fleet *fleet, tide_error *err)
{
    static const char *const listen[] = {"127.0.0.1:0", NULL};
    TIDE_TRY(tide_routes_new(&fleet->routes, err));
    TIDE_TRY(tide_routes_add_methods(fleet->routes, methods, fleet, err));
    TIDE_TRY(tide_server_open(&fleet->server,
                              &(tide_server_options){.listen = listen,
                                                     .routes = fleet->routes,
                                                     .env = fleet->options.env},
                              err));
    const char *colon = strrchr(tide_server_address(fleet->server, 0), ':');
    fleet->port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
    save(fleet, false); /* before the first number is sent */
    TIDE_TRY(tide_thread_start(&fleet->thread, run, fleet, err));
    fleet->has_thread = true;
    return TIDE_OK;
}

tide_status tide_demo_fleet_open(tide_demo_fleet **out, const tide_demo_fleet_options *options,
                                 tide_error *err)
{
    TIDE_NEW(tide_demo_fleet, fleet, err);
    fleet->options = *options;
    const int64_t tick_us = TICK_AGENT_US * options->count;
    fleet->tick_us = tick_us > TICK_US ? tick_us : TICK_US;
    (void)pthread_mutex_init(&fleet->lock, NULL);
    fleet->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fleet->sims = calloc((size_t)options->count, sizeof *fleet->sims);
    fleet->members = calloc((size_t)options->count, sizeof *fleet->members);
    fleet->by_name = calloc((size_t)options->count, sizeof *fleet->by_name);
    tide_status status = TIDE_OK;
    if (!fleet->sims || !fleet->members || !fleet->by_name)
        status = tide_no_memory(err);
    if (status >= TIDE_OK) {
        place_members(fleet);
        status = begin_sessions(fleet, err);
    }
    if (status >= TIDE_OK)
        status = serve(fleet, err);
    if (status < TIDE_OK) {
        tide_demo_fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return TIDE_OK;
}

void tide_demo_fleet_close(tide_demo_fleet *fleet)
{
    if (!fleet)
        return;
    atomic_store(&fleet->is_over, true);
    (void)eventfd_write(fleet->waker, 1);
    if (fleet->has_thread)
        (void)pthread_join(fleet->thread, NULL);
    (void)pthread_mutex_lock(&fleet->lock);
    for (int i = 0; fleet->members && i < fleet->options.count; i++)
        end_watch(fleet, &fleet->members[i]);
    (void)pthread_mutex_unlock(&fleet->lock);
    tide_server_close(fleet->server);
    if (fleet->has_thread)
        save(fleet, true);
    tide_routes_free(fleet->routes);
    (void)close(fleet->waker);
    (void)pthread_mutex_destroy(&fleet->lock);
    free(fleet->by_name);
    free(fleet->members);
    free(fleet->sims);
    free(fleet);
}

void tide_demo_fleet_address(const tide_demo_fleet *fleet, int index, char *out)
{
    (void)snprintf(out, TIDE_DEMO_ADDRESS_SIZE, "%s.localhost:%d", fleet->sims[index].name,
                   fleet->port);
}
