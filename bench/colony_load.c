/* colony_load.c - a colony that collects from many agents: the load and the catch-up of the telemetry document, beside the limits
 * that it sets.
 *
 *     load       100 agents, 60,000 spans each since the last poll, pages of 10,000: 5 s per agent
 *     catch-up   a colony that was down for 30 minutes: 30,000 spans per agent as the document counts them, 1.8 million as its own
 *                1,000 per second make them; all of 100 agents within 5 minutes
 *
 * Everything is real: agents are `tidemark agent` processes, the colony is `tidemark colony poll --once`, timed from its start to its end,
 * into an empty store. By default a tenth of the agents is there and the rest is projected from it, agent by agent; --full
 * has all of them. What 1.8 million per agent take is projected from the pace of the load (the catch-up of a store that grows is colony_rate's
 * question and nobody's here). The limits leave the agents a machine each; here they share one with the colony. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "colony_place.h"

enum {
    AGENTS_ALL = 100,
    AGENTS_SLICE = 10,
    LOAD_SPANS = 60000,
    CATCH_UP_SPANS = 30000,
    ROUNDS = 3,
};

static const double load_limit_s = 5;       /* per agent */
static const double catch_up_limit_s = 300; /* of all agents */
static const double long_spans = 1.8e6;

typedef struct figures {
    bench_series load_s; /* of one agent's share */
    bench_series catch_up_s;
    bench_series long_s;
    bench_series rate;
} figures;

static running_agent agents[AGENTS_ALL];

static double poll_fresh(colony_engine engine, int count, bool *is_there)
{
    colony_place place;
    *is_there = colony_place_open(&place, engine);
    if (!*is_there)
        return 0;
    const double seconds = colony_place_poll(&place, agents, count);
    colony_place_close(&place);
    return seconds;
}

static void run_load(figures *all, int count, int rounds, bool is_catch_up)
{
    for (int round = 0; round < rounds; round++)
        for (int engine = 0; engine < COLONY_ENGINES; engine++) {
            bool is_there = false;
            figures *f = &all[engine];
            const double seconds = poll_fresh((colony_engine)engine, count, &is_there);
            if (!is_there)
                continue;
            if (is_catch_up) {
                bench_add(&f->catch_up_s, seconds * AGENTS_ALL / count);
                continue;
            }
            const double rate = (double)LOAD_SPANS * count / seconds;
            bench_add(&f->rate, rate);
            bench_add(&f->load_s, seconds / count);
            bench_add(&f->long_s, long_spans * AGENTS_ALL / rate);
        }
}

static void fill_limit(bench_series *limit, double value, int count)
{
    limit->count = 0;
    for (int i = 0; i < count; i++)
        bench_add(limit, value);
}

static void print_against(const char *what, const bench_series *seconds, double limit_s,
                          double expected)
{
    bench_series limit = {.name = "limit"};
    fill_limit(&limit, limit_s, seconds->count);
    bench_print_ratio(what, &limit, seconds, expected);
}

static void print_figures(figures *all, int count)
{
    bench_print_heading("Collected from agents that have a backlog", "records/s");
    for (int i = 0; i < COLONY_ENGINES; i++)
        if (all[i].rate.count > 0)
            bench_print_series(&all[i].rate);
    (void)printf("\n");
    for (int i = 0; i < COLONY_ENGINES; i++) {
        const char *name = colony_engine_name((colony_engine)i);
        char what[160];
        if (all[i].rate.count == 0)
            continue;
        (void)printf("%s: %.3f s per agent with 60,000 spans; 100 agents with 30,000 spans each: "
                     "%.1f s%s; with 1.8 million each: %.0f s, projected\n",
                     name, bench_median(&all[i].load_s), bench_median(&all[i].catch_up_s),
                     count == AGENTS_ALL ? "" : ", projected", bench_median(&all[i].long_s));
        (void)snprintf(what, sizeof what, "%s, load: 5 s per agent / seen", name);
        print_against(what, &all[i].load_s, load_limit_s, 20);
        (void)snprintf(what, sizeof what, "%s, catch-up: 5 minutes / seen", name);
        print_against(what, &all[i].catch_up_s, catch_up_limit_s, 10);
        (void)snprintf(what, sizeof what, "%s, catch-up of 1.8 million per agent", name);
        print_against(what, &all[i].long_s, catch_up_limit_s, 0);
    }
}

static void with_agents(figures *all, int count, int rounds, bool is_catch_up)
{
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    colony_agents_start(agents, count, &dir, "agent", is_catch_up ? CATCH_UP_SPANS : LOAD_SPANS);
    run_load(all, count, rounds, is_catch_up);
    colony_agents_stop(agents, count);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
}

int main(int argc, char **argv)
{
    static figures all[COLONY_ENGINES];
    const bool is_full = argc == 2 && strcmp(argv[1], "--full") == 0;
    const bool is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !is_full && !is_quick)
        bench_die("usage: %s [--full | --quick]", argv[0]);
    const int count = is_full ? AGENTS_ALL : AGENTS_SLICE;
    const int rounds = is_full || is_quick ? 1 : ROUNDS;
    for (int i = 0; i < COLONY_ENGINES; i++)
        all[i].rate.name = colony_engine_name((colony_engine)i);
    (void)printf("%d agents%s\n", count, is_full ? "" : ", a tenth; --full has all of them");
    with_agents(all, count, rounds, false);
    with_agents(all, count, rounds, true);
    print_figures(all, count);
    return EXIT_SUCCESS;
}
