/* colony_fresh.c - how old a record is when the colony's store shows it: from the agent's acknowledgement to the first answer of a query that
 * counts it, one record at a time, on systems that do nothing else.
 *
 * A `tidemark agent` process is sent single spans over OTLP/HTTP; a `tidemark colony` process polls it (a long poll: no interval). How many
 * spans there are is asked again and again: of the colony by its Query call, of PostgreSQL by a connection of our own. The time of
 * one such question is part of what is seen, and is printed beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "colony_place.h"
#include "raw_pg.h"

enum {
    RECORDS = 300,
    RECORDS_QUICK = 50,
    WARM_UP = 10,
    PAUSE_US = 20000,
    GIVE_UP_US = 30000000,
    EXPECTED_US = 100000,
};

static const char span[] =
    "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":"
    "\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\",\"name\":\"get\","
    "\"kind\":2,\"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":"
    "\"1700000000100000000\"}]}]}]}";
static const char count_spans[] = "SELECT count(*) FROM spans";

/* One of the two. */
typedef struct looker {
    tide_client *colony;
    PGconn *pg;
} looker;

typedef struct latencies {
    bench_latencies fresh;
    bench_latencies question;
} latencies;

/* Until the query counts this many; returns when the answer came. */
static int64_t wait_for(const looker *by, int64_t wanted, bench_latencies *questions)
{
    const int64_t until_us = bench_now_us() + GIVE_UP_US;
    for (;;) {
        const int64_t asked_us = bench_now_us();
        const int64_t seen =
            by->pg ? raw_pg_ask(by->pg, count_spans) : colony_ask(by->colony, count_spans);
        const int64_t now_us = bench_now_us();
        bench_latencies_add(questions, now_us - asked_us);
        if (seen >= wanted)
            return now_us;
        if (now_us > until_us)
            bench_die("%lld of %lld spans after 30 s", (long long)seen, (long long)wanted);
    }
}

static void run_engine(colony_engine engine, running_agent *agent, int records, int64_t *sent,
                       latencies *out)
{
    colony_place place;
    running_agent colony;
    looker by = {.colony = NULL};
    tide_error err = {.status = TIDE_OK};
    if (!colony_place_open(&place, engine))
        return;
    colony_place_serve(&place, agent, 1, NULL, &colony);
    bench_must(running_agent_client(&colony, &by.colony, &err), &err, "a client");
    if (engine == COLONY_POSTGRES)
        by.pg = raw_pg_connect(place.url);
    (void)wait_for(&by, *sent, &out->question);
    for (int i = -WARM_UP; i < records; i++) {
        (void)usleep(PAUSE_US);
        if (running_agent_http(agent, "/v1/traces", span) != 200)
            bench_die("the agent does not take a span");
        const int64_t acked_us = bench_now_us();
        const int64_t seen_us = wait_for(&by, ++*sent, &out->question);
        if (i >= 0)
            bench_latencies_add(&out->fresh, seen_us - acked_us);
    }
    PQfinish(by.pg);
    tide_client_close(by.colony);
    colony_place_stop(&colony);
    colony_place_close(&place);
}

static void print_engine(colony_engine engine, latencies *l)
{
    if (l->fresh.count == 0)
        return;
    const int64_t p99_us = bench_latencies_at(&l->fresh, 0.99);
    (void)printf("%-12s p50 %6.1f ms   p99 %6.1f ms (expected < 100): %s   max %6.1f ms;"
                 " one question takes %.1f ms\n",
                 colony_engine_name(engine), (double)bench_latencies_at(&l->fresh, 0.5) / 1e3,
                 (double)p99_us / 1e3, p99_us < EXPECTED_US ? "met" : "not met",
                 (double)bench_latencies_at(&l->fresh, 1) / 1e3,
                 (double)bench_latencies_at(&l->question, 0.5) / 1e3);
    bench_latencies_done(&l->fresh);
    bench_latencies_done(&l->question);
}

int main(int argc, char **argv)
{
    const bool is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !is_quick)
        bench_die("usage: %s [--quick]", argv[0]);
    tide_error err;
    tempdir dir;
    running_agent agent;
    int64_t sent = 0;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    colony_agents_start(&agent, 1, &dir, "agent", 0);
    (void)printf("From the agent's acknowledgement to the colony's store, %d single records\n",
                 is_quick ? RECORDS_QUICK : RECORDS);
    for (int i = 0; i < COLONY_ENGINES; i++) {
        latencies l = {.fresh = {0}};
        run_engine((colony_engine)i, &agent, is_quick ? RECORDS_QUICK : RECORDS, &sent, &l);
        print_engine((colony_engine)i, &l);
    }
    colony_agents_stop(&agent, 1);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
