/* colony_rate.c - records per second from agents into a colony's store, beside the bulk insert of that store alone.
 *
 * Two `tidemark agent` processes with a backlog, and `tidemark colony poll --once` on an empty store, timed from its start to its end: pages are
 * asked for, decoded, checked for gaps, stored as rows with their summaries per minute, and the checkpoint moves with them. Beside it
 * colony_raw.h: the same rows into the same tables, and nothing else.
 *
 * --only ENGINE: sqlite, postgres or duckdb alone (for profilers). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench.h"
#include "colony_place.h"
#include "colony_raw.h"

enum { AGENTS = 2, PAGES = 10, ROUNDS_QUICK = 1 };

typedef struct contest {
    char name[64];
    char raw_name[64];
    bench_series ours;
    bench_series raw;
} contest;

static running_agent agents[AGENTS];
static contest contests[COLONY_ENGINES];

static void run_round(colony_engine engine, const feed_load *pages)
{
    static const double records = (double)AGENTS * PAGES * COLONY_PAGE;
    contest *c = &contests[engine];
    colony_place place;
    if (!colony_place_open(&place, engine))
        return;
    bench_add(&c->ours, records / colony_place_poll(&place, agents, AGENTS));
    colony_place_close(&place);
    if (!colony_place_open(&place, engine))
        return;
    bench_add(&c->raw, records / colony_raw_insert(&place, pages, AGENTS, PAGES));
    colony_place_close(&place);
}

static void name_contests(void)
{
    static const char *const raw[COLONY_ENGINES] = {"prepared INSERT", "COPY", "appender"};
    for (int i = 0; i < COLONY_ENGINES; i++) {
        const char *engine = colony_engine_name((colony_engine)i);
        (void)snprintf(contests[i].name, sizeof contests[i].name, "agents to colony, %s", engine);
        (void)snprintf(contests[i].raw_name, sizeof contests[i].raw_name, "%s, %s alone", engine,
                       raw[i]);
        contests[i].ours.name = contests[i].name;
        contests[i].raw.name = contests[i].raw_name;
    }
}

static void print_contests(void)
{
    bench_print_heading("Agents to colony, beside the store's bulk insert", "records/s");
    for (int i = 0; i < COLONY_ENGINES; i++)
        if (contests[i].raw.count > 0) {
            bench_print_series(&contests[i].ours);
            bench_print_series(&contests[i].raw);
        }
    (void)printf("\n");
    for (int i = 0; i < COLONY_ENGINES; i++) {
        char name[160];
        (void)snprintf(name, sizeof name, "%.63s / %.63s", contests[i].name, contests[i].raw_name);
        if (contests[i].raw.count > 0)
            bench_print_ratio(name, &contests[i].ours, &contests[i].raw, 0.5);
    }
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    int rounds = BENCH_ROUNDS;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            rounds = ROUNDS_QUICK;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            bench_die("usage: %s [--quick] [--only sqlite | postgres | duckdb]", argv[0]);
    }
    static feed_load pages[PAGES];
    tide_error err;
    tempdir dir;
    name_contests();
    for (int i = 0; i < PAGES; i++)
        feed_load_init_at(&pages[i], COLONY_PAGE, COLONY_SERVICES, 1, (uint64_t)i,
                          FEED_LOAD_START_MS + (int64_t)i * COLONY_PAGE);
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    colony_agents_start(agents, AGENTS, &dir, "agent", (int64_t)PAGES * COLONY_PAGE);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < COLONY_ENGINES; i++)
            if (!only || strncasecmp(only, colony_engine_name((colony_engine)i), strlen(only)) == 0)
                run_round((colony_engine)i, pages);
    print_contests();
    colony_agents_stop(agents, AGENTS);
    for (int i = 0; i < PAGES; i++)
        feed_load_done(&pages[i]);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
