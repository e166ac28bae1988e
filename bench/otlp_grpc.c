/* otlp_grpc.c - records taken in by a running agent over OTLP/gRPC, beside Redis Streams and NATS JetStream: the same spans for
 * everybody, and every answer after the sync.
 *
 * The agent decodes each span, gives it a number and a place in the chain; the others store its bytes as they are. Everybody gets eight
 * connections with thousands of records under way, and is a process of its own with its defaults. Beside the rates: what the server
 * spent per record, and the agent's memory, idle and under load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "load.h"
#include "load_server.h"

enum { CONNECTIONS = 8, IDLE_US = 1000000 };

static const double seconds = 0.7;

typedef enum kind { AGENT, REDIS, NATS, KINDS } kind;

typedef struct contestant {
    const char *name;
    kind kind;
    const load_protocol *protocol;
    int batch;
    int64_t window; /* records, of one connection */
    load_connection connections[CONNECTIONS];
    bench_series rate;
    bench_series cpu_us; /* of the server, per record */
} contestant;

static contestant all[] = {
    {"tidemark agent, 100 spans per request", AGENT, &load_grpc, 100, 3200, .rate = {0}},
    {"tidemark agent, 1,000 spans per request", AGENT, &load_grpc, 1000, 8000, .rate = {0}},
    {"Redis XADD, pipelines of 100", REDIS, &load_redis, 100, 800, .rate = {0}},
    {"Redis XADD, pipelines of 1,000", REDIS, &load_redis, 1000, 4000, .rate = {0}},
    {"NATS JetStream, single messages", NATS, &load_nats, 1, 50, .rate = {0}},
    {"NATS JetStream, atomic batches of 1,000", NATS, &load_nats_batch, 1000, 2000, .rate = {0}},
};
enum { CONTESTANTS = sizeof all / sizeof all[0] };

static bool is_there[KINDS];
static load_server servers[KINDS];

static void open_contestant(contestant *c, const load_spans *spans)
{
    c->rate.name = c->name;
    c->cpu_us.name = c->name;
    for (int i = 0; i < CONNECTIONS; i++)
        c->connections[i] = (load_connection){
            .protocol = c->protocol, .spans = spans, .batch = c->batch, .window = c->window};
    load_open(c->connections, CONNECTIONS, servers[c->kind].port);
}

static int64_t count_acked(const contestant *c)
{
    int64_t acked = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        acked += c->connections[i].acked;
    return acked;
}

static void run_contestant(contestant *c, double length_s)
{
    const int64_t acked = count_acked(c);
    const double cpu_s = load_server_cpu_s(&servers[c->kind]);
    bench_add(&c->rate, load_run(c->connections, CONNECTIONS, length_s));
    const double used_s = load_server_cpu_s(&servers[c->kind]) - cpu_s;
    const int64_t records = count_acked(c) - acked;
    bench_add(&c->cpu_us, records > 0 ? used_s * 1e6 / (double)records : 0);
}

static void start_servers(const tempdir *dir)
{
    is_there[AGENT] = true;
    load_server_start_agent(&servers[AGENT], dir);
    is_there[REDIS] = load_server_start_redis(&servers[REDIS], dir);
    is_there[NATS] = load_server_start_nats(&servers[NATS], dir);
    if (!is_there[REDIS])
        (void)printf("there is no redis-server here: scripts/bench/bench-peers --install\n");
    if (!is_there[NATS])
        (void)printf(
            "there is no nats-server 2.10 or later here: scripts/bench/bench-peers --install\n");
    for (int i = 0; i < KINDS; i++)
        if (is_there[i])
            (void)printf("%s\n", servers[i].version);
}

static void print_memory(double idle_mb)
{
    const double load_mb = load_server_highest_mb(&servers[AGENT]);
    (void)printf("agent, resident: idle %.1f MB (expected < 20): %s; at most under load %.1f MB "
                 "(expected < 200): %s\n",
                 idle_mb, idle_mb < 20 ? "met" : "not met", load_mb,
                 load_mb < 200 ? "met" : "not met");
}

/* The fastest of a kind. */
static const contestant *find_best(kind wanted, kind or_else)
{
    const contestant *best = NULL;
    for (int i = 0; i < CONTESTANTS; i++)
        if ((all[i].kind == wanted || all[i].kind == or_else) &&
            (!best || bench_median(&all[i].rate) > bench_median(&best->rate)))
            best = &all[i];
    return best;
}

static void print_results(void)
{
    bench_print_heading("Taken in, on disk before the answer", "records/s");
    for (int i = 0; i < CONTESTANTS; i++)
        if (all[i].rate.count > 0)
            bench_print_series(&all[i].rate);
    bench_print_heading("Processor time of the server", "microseconds per record");
    for (int i = 0; i < CONTESTANTS; i++)
        if (all[i].rate.count > 0)
            bench_print_series(&all[i].cpu_us);
    (void)printf("\n");
    const contestant *peer = find_best(REDIS, NATS);
    for (int i = 0; i < CONTESTANTS; i++) {
        char name[160];
        (void)snprintf(name, sizeof name, "%s / %s", all[i].name, peer->name);
        if (all[i].kind == AGENT && peer->rate.count > 0)
            bench_print_ratio(name, &all[i].rate, &peer->rate, 2);
    }
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    static load_spans spans;
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    load_spans_init(&spans);
    start_servers(&dir);
    (void)usleep(IDLE_US);
    const double idle_mb = load_server_resident_mb(&servers[AGENT]);
    for (int i = 0; i < CONTESTANTS; i++)
        if (is_there[all[i].kind])
            open_contestant(&all[i], &spans);
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < CONTESTANTS; i++)
            if (is_there[all[i].kind])
                run_contestant(&all[i], options.seconds);
    (void)printf("%.0f bytes per span\n", (double)spans.bytes.len / LOAD_SPANS);
    print_results();
    print_memory(idle_mb);
    int64_t refused = 0;
    for (int i = 0; i < CONTESTANTS; i++)
        for (int j = 0; j < CONNECTIONS; j++)
            refused += all[i].connections[j].refused;
    if (refused > 0)
        (void)printf("%lld records were told to come again later\n", (long long)refused);
    for (int i = 0; i < CONTESTANTS; i++)
        if (is_there[all[i].kind])
            load_close(all[i].connections, CONNECTIONS);
    for (int i = 0; i < KINDS; i++)
        if (is_there[i])
            load_server_stop(&servers[i]);
    load_spans_done(&spans);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
