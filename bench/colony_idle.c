/* colony_idle.c - what an idle agent costs a colony: 10,000 of them on one.
 *
 * This program answers for all agents: it listens on every address of the loopback network, and each agent has one of its own, so the
 * colony keeps a connection, a long poll and positions for each. What is answered was said by a real agent with one span: which
 * streams there are, the page with the span, the page behind it; watches are parked, as an agent parks them. The colony is a `tidemark
 * colony` process on SQLite.
 *
 * Shown: when the last agent had been polled and was waited for, then resident memory and processor time per agent, while nothing happens
 * but watches that end and are asked again. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "colony_place.h"
#include "net/server/server.h"

#define AGENT_PATH "/tidemark.agent.v1.AgentService/"

enum {
    AGENTS = 10000,
    AGENTS_QUICK = 1000,
    IDLE_S = 50, /* two watches of each agent */
    IDLE_QUICK_S = 26,
    GIVE_UP_S = 600,
    LOOK_US = 20000,
    PER_NET = 250,
    SETTLE_S = 2,
};

static const char span[] =
    "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":"
    "\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\",\"name\":\"get\","
    "\"kind\":2,\"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":"
    "\"1700000000100000000\"}]}]}]}";

/* ---- what a real agent says ---- */

typedef struct answers {
    tide_client_response streams;
    tide_client_response page;
    tide_client_response behind; /* the page */
} answers;

static void ask(tide_client *client, const char *path, const ProtobufCMessage *request,
                tide_client_response *out)
{
    uint8_t bytes[1024];
    tide_error err = {.status = TIDE_OK};
    if (protobuf_c_message_get_packed_size(request) > sizeof bytes)
        bench_die("a long request");
    const tide_client_request call = {
        .path = path, .message = tide_view_bytes(bytes, protobuf_c_message_pack(request, bytes))};
    tide_client_response_init(out);
    bench_must(tide_client_call(client, &call, out, &err), &err, path);
}

static void hear_answers(const tempdir *dir, answers *out)
{
    Tidemark__Agent__V1__WatchStreamsRequest watch =
        TIDEMARK__AGENT__V1__WATCH_STREAMS_REQUEST__INIT;
    Tidemark__Agent__V1__QueryTelemetryRequest query =
        TIDEMARK__AGENT__V1__QUERY_TELEMETRY_REQUEST__INIT;
    Tidemark__Agent__V1__Position position = TIDEMARK__AGENT__V1__POSITION__INIT;
    running_agent agent;
    tide_client *client = NULL;
    tide_error err = {.status = TIDE_OK};
    colony_agents_start(&agent, 1, dir, "agent", 0);
    if (running_agent_http(&agent, "/v1/traces", span) != 200)
        bench_die("the agent does not take a span");
    bench_must(running_agent_client(&agent, &client, &err), &err, "a client");
    ask(client, AGENT_PATH "WatchStreams", &watch.base, &out->streams);
    query.position = &position;
    ask(client, AGENT_PATH "QueryTelemetry", &query.base, &out->page);
    query.start_seq_id = 1;
    ask(client, AGENT_PATH "QueryTelemetry", &query.base, &out->behind);
    tide_client_close(client);
    colony_agents_stop(&agent, 1);
}

/* ---- ten thousand that say the same ---- */

typedef struct parked {
    struct parked *next;
    tide_call *call;
    int64_t until_us;
} parked;

typedef struct crowd {
    answers answers;
    atomic_int watches; /* that were parked, ever */
    atomic_int pages;
    pthread_mutex_t lock; /* of what follows */
    parked *first;        /* all wait equally long: in the order of their ends */
    parked **last;
    bool is_over;
} crowd;

static void answer_watch(tide_call *call, tide_view message, void *arg)
{
    crowd *c = arg;
    Tidemark__Agent__V1__WatchStreamsRequest *request =
        tidemark__agent__v1__watch_streams_request__unpack(NULL, message.len,
                                                           (const uint8_t *)message.ptr);
    if (!request)
        bench_die("a watch that is none");
    if (request->n_seen == 0 || request->wait_ms == 0) {
        tide_call_respond(call, tide_buffer_view(&c->answers.streams.message));
    } else {
        parked *p = bench_alloc(sizeof *p);
        *p = (parked){.call = call, .until_us = bench_now_us() + request->wait_ms * INT64_C(1000)};
        tide_call_hold(call);
        pthread_mutex_lock(&c->lock);
        *c->last = p;
        c->last = &p->next;
        pthread_mutex_unlock(&c->lock);
        atomic_fetch_add(&c->watches, 1);
    }
    tidemark__agent__v1__watch_streams_request__free_unpacked(request, NULL);
}

static void answer_page(tide_call *call, tide_view message, void *arg)
{
    crowd *c = arg;
    Tidemark__Agent__V1__QueryTelemetryRequest *request =
        tidemark__agent__v1__query_telemetry_request__unpack(NULL, message.len,
                                                             (const uint8_t *)message.ptr);
    if (!request)
        bench_die("a question that is none");
    tide_call_respond(call,
                      tide_buffer_view(request->start_seq_id == 0 ? &c->answers.page.message
                                                                  : &c->answers.behind.message));
    atomic_fetch_add(&c->pages, 1);
    tidemark__agent__v1__query_telemetry_request__free_unpacked(request, NULL);
}

static const tide_method methods[] = {
    {.path = AGENT_PATH "WatchStreams", .run = answer_watch},
    {.path = AGENT_PATH "QueryTelemetry", .run = answer_page},
    {.path = NULL},
};

/* Those whose time is over, or all. */
static parked *take_due(crowd *c, bool *is_over)
{
    pthread_mutex_lock(&c->lock);
    const int64_t now_us = bench_now_us();
    *is_over = c->is_over;
    parked *list = c->first;
    parked **end = &list;
    while (*end && (c->is_over || (*end)->until_us <= now_us))
        end = &(*end)->next;
    c->first = *end;
    *end = NULL;
    if (!c->first)
        c->last = &c->first;
    pthread_mutex_unlock(&c->lock);
    return list;
}

static void *end_watches(void *arg)
{
    crowd *c = arg;
    for (bool is_over = false; !is_over;) {
        parked *list = take_due(c, &is_over);
        while (list) {
            parked *p = list;
            list = p->next;
            tide_call_respond(p->call, tide_buffer_view(&c->answers.streams.message));
            tide_call_release(p->call);
            free(p);
        }
        (void)usleep(LOOK_US);
    }
    return NULL;
}

/* ---- the colony ---- */

static void write_agents(const char *path, int count, const char *address)
{
    const char *port = strrchr(address, ':');
    FILE *file = fopen(path, "we");
    if (!file || !port)
        bench_die("cannot write %s", path);
    for (int i = 0; i < count; i++)
        (void)fprintf(file, "agent-%05d=127.1.%d.%d%s\n", i, i / PER_NET, i % PER_NET + 1, port);
    if (fclose(file) != 0)
        bench_die("cannot write %s", path);
}

static double read_number(const running_agent *colony, const char *file, const char *name)
{
    char path[64];
    char line[256];
    double value = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)colony->process.pid, file);
    FILE *in = fopen(path, "re");
    if (!in)
        bench_die("the colony has ended");
    while (fgets(line, sizeof line, in))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtod(line + strlen(name), NULL);
    (void)fclose(in);
    return value;
}

static double cpu_s(const running_agent *colony)
{
    char path[64];
    char line[1024] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)colony->process.pid);
    FILE *in = fopen(path, "re");
    const char *at = in && fgets(line, sizeof line, in) ? strrchr(line, ')') : NULL;
    if (in)
        (void)fclose(in);
    /* Behind the name in brackets: eleven fields, then user and system time in ticks. */
    for (int i = 0; at && i < 12; i++)
        at = strchr(at + 1, ' ');
    char *rest = NULL;
    const double user = at ? strtod(at, &rest) : 0;
    return (user + (rest ? strtod(rest, NULL) : 0)) / (double)sysconf(_SC_CLK_TCK);
}

/* Until every agent has been polled and is waited for. */
static double wait_for_all(crowd *c, int count)
{
    const int64_t started_us = bench_now_us();
    while (atomic_load(&c->watches) < count || atomic_load(&c->pages) < count) {
        (void)usleep(LOOK_US);
        if (bench_now_us() - started_us > GIVE_UP_S * INT64_C(1000000))
            bench_die("after %d s: %d pages, %d watches of %d agents", GIVE_UP_S,
                      atomic_load(&c->pages), atomic_load(&c->watches), count);
    }
    return (double)(bench_now_us() - started_us) / 1e6;
}

static double resident_kb(const running_agent *colony)
{
    return read_number(colony, "status", "VmRSS:") * 1.024;
}

static void measure(crowd *c, const char *address, const tempdir *dir, int count, int idle_s)
{
    colony_place place;
    running_agent colony;
    char file[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "agents", file);
    if (!colony_place_open(&place, COLONY_SQLITE))
        bench_die("no place");
    colony_place_serve(&place, NULL, 0, NULL, &colony);
    (void)sleep(SETTLE_S);
    const double empty_kb = resident_kb(&colony);
    colony_place_stop(&colony);
    write_agents(file, count, address);
    const int64_t started_us = bench_now_us();
    colony_place_serve(&place, NULL, 0, file, &colony);
    const double ready_s = (double)(bench_now_us() - started_us) / 1e6;
    const double polled_s = wait_for_all(c, count);
    const double polled_cpu_s = cpu_s(&colony);
    (void)sleep(SETTLE_S);
    const int watches = atomic_load(&c->watches);
    const int pages = atomic_load(&c->pages);
    const double from_s = cpu_s(&colony);
    const int64_t from_us = bench_now_us();
    (void)sleep((unsigned)idle_s);
    const double elapsed_s = (double)(bench_now_us() - from_us) / 1e6;
    const double used_s = cpu_s(&colony) - from_s;
    const double kb = resident_kb(&colony);
    (void)printf("%d agents: registered and ready after %.1f s; every one polled, stored and "
                 "waited for %.1f s later, %.1f s of processor time in all\n",
                 count, ready_s, polled_s, polled_cpu_s);
    (void)printf("resident: %.1f MB (%.1f MB without agents): %.1f kB per agent; at most %.1f MB\n",
                 kb / 1e3, empty_kb / 1e3, (kb - empty_kb) / count,
                 read_number(&colony, "status", "VmHWM:") * 1.024 / 1e3);
    (void)printf("processor time, idle for %.0f s: %.4f ms/s per agent, %.1f %% of a core in all; "
                 "%d watches, %d pages\n",
                 elapsed_s, used_s * 1e3 / elapsed_s / count, used_s * 100 / elapsed_s,
                 atomic_load(&c->watches) - watches, atomic_load(&c->pages) - pages);
    (void)fflush(stdout);
    colony_place_stop(&colony);
    colony_place_close(&place);
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        bench_die("no limit of files");
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int count_agents(int argc, char **argv, int *idle_s)
{
    struct rlimit limit;
    const bool is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !is_quick)
        bench_die("usage: %s [--quick]", argv[0]);
    int count = is_quick ? AGENTS_QUICK : AGENTS;
    *idle_s = is_quick ? IDLE_QUICK_S : IDLE_S;
    raise_file_limit();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)count + 512) {
        count = (int)limit.rlim_cur - 512;
        (void)printf("only %d agents: a process may have %d files here\n", count,
                     (int)limit.rlim_cur);
    }
    return count;
}

int main(int argc, char **argv)
{
    static crowd c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static const char *const listen[] = {"0.0.0.0:0", NULL};
    int idle_s = 0;
    const int count = count_agents(argc, argv, &idle_s);
    tide_error err = {.status = TIDE_OK};
    tempdir dir;
    tide_routes *routes = NULL;
    tide_server *server = NULL;
    tide_net_limits limits;
    pthread_t thread;
    c.last = &c.first;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    hear_answers(&dir, &c.answers);
    tide_net_limits_init(&limits);
    limits.peer_connections = limits.connections; /* all of them come from one address */
    bench_must(tide_routes_new(&routes, &err), &err, "routes");
    bench_must(tide_routes_add_methods(routes, methods, &c, &err), &err, "routes");
    const tide_server_options options = {
        .listen = listen, .routes = routes, .limits = &limits, .is_insecure = true};
    bench_must(tide_server_open(&server, &options, &err), &err, "listening");
    if (pthread_create(&thread, NULL, end_watches, &c) != 0)
        bench_die("no thread");
    measure(&c, tide_server_address(server, 0), &dir, count, idle_s);
    pthread_mutex_lock(&c.lock);
    c.is_over = true;
    pthread_mutex_unlock(&c.lock);
    (void)pthread_join(thread, NULL);
    tide_server_close(server);
    tide_routes_free(routes);
    tide_client_response_done(&c.answers.streams);
    tide_client_response_done(&c.answers.page);
    tide_client_response_done(&c.answers.behind);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
