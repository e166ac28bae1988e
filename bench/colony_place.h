/* colony_place.h - stores, agents and colonies of the benchmarks of the colony: real processes, as in production.
 *
 * A place is an empty store of one engine with the colony's tables in it, made anew for every round. Agents are `tidemark agent`
 * processes on files that were filled before, by tide_feed_commit; they keep their records, and a new store is a new reader
 * that gets all of them.
 *
 *     colony_place place;
 *     if (colony_place_open(&place, COLONY_DUCKDB, &dir)) {
 *         const double seconds = colony_place_poll(&place, agents, count);
 *         colony_place_close(&place);
 *     }
 *
 * Whatever fails ends the program.
 * Threads: the main thread's. */
#pragma once

#include "feed_load.h"
#include "services/agent/running_agent.h"
#include "support/postgres/pg_cluster.h"
#include "support/tempdir.h"

typedef enum colony_engine {
    COLONY_SQLITE,
    COLONY_POSTGRES,
    COLONY_DUCKDB,
    COLONY_ENGINES,
} colony_engine;

enum { COLONY_PAGE = 10000, COLONY_AGENTS_MAX = 100, COLONY_SERVICES = 10 };

typedef struct colony_place {
    colony_engine engine;
    tempdir dir;
    char url[PG_CLUSTER_URL_MAX];
    char path[TEMPDIR_PATH_MAX]; /* of the file with the rows; "" on PostgreSQL */
    char database[PG_CLUSTER_NAME_MAX];
} colony_place;

const char *colony_engine_name(colony_engine engine);

/* False: the engine is not installed, and that was said. */
bool colony_place_open(colony_place *place, colony_engine engine);
void colony_place_close(colony_place *place);

/* Agents name0, name1, ... with so many spans each, of COLONY_SERVICES services, one per millisecond, a thousand per commit. */
void colony_agents_start(running_agent *agents, int count, const tempdir *dir, const char *name,
                         int64_t spans);
void colony_agents_stop(running_agent *agents, int count);

/* Run `tidemark colony poll --once` on the place until all of these agents are caught up; returns its seconds, from start to end. */
double colony_place_poll(const colony_place *place, const running_agent *agents, int count);

/* Start `tidemark colony` on the place; file: of agents, as --agents, or NULL. */
void colony_place_serve(const colony_place *place, const running_agent *agents, int count,
                        const char *file, running_agent *colony);
void colony_place_stop(running_agent *colony);

/* One number that the colony answers to a statement. Upper bound of the wait: of an ordinary call. */
int64_t colony_ask(tide_client *client, const char *sql);
