/* fleet_shard.h - one database, the colonies that share its agents by leases, and those agents, in simulated time (fleet_sim.c).
 *
 *     a record comes ---- the agent is ready ---- waits for a worker ---- colony's core ---- database's core ---- stored
 *                         (its watch ends)        oldest first            page + rows        page + rows
 *
 * A page takes everything that has come until it is asked for, 10,000 records at most. So a colony with more to do than it can asks less often
 * for more: the time between two pages of an agent grows until rows and pages fit.
 *
 * In the middle things break. After a third of the time a colony is killed, and its agents are nobody's until their leases have run out; then
 * others take them, 256 by each turn. It comes back 40 s later and takes its share. After two thirds the database is away for 20 s.
 * All the while agents are cut off for 30 s and come back.
 *
 * Everything is drawn from the seed and the shard's number. */
#pragma once

#include <stdint.h>

#define FLEET_SECOND INT64_C(1000000)

enum {
    FLEET_COLONIES_MAX = 64,
    FLEET_CORES_MAX = 256,
    FLEET_WINDOWS_MAX = 64,
    FLEET_WINDOW_S = 20,
    FLEET_BUCKETS = 200, /* of lags: a tenth of a power of two each, from 1 ms */
};

typedef struct fleet_options {
    int64_t agents; /* of all shards */
    int shards;
    int colonies; /* of a shard */
    double rate;  /* records a second of an agent, mean */
    int colony_cores;
    int database_cores;
    int64_t seconds;
    uint64_t seed;
    /* microseconds of processor time, from scripts/bench/bench-pages */
    double colony_page_us, colony_row_us, database_page_us, database_row_us;
} fleet_options;

/* What happened in FLEET_WINDOW_S seconds. */
typedef struct fleet_window {
    int64_t pages, rows;
    int64_t nobodys_max; /* agents without a colony */
    double colony_us, database_us;
    int64_t lags
        [FLEET_BUCKETS]; /* of pages: from the arrival of the oldest record to its being stored */
    int64_t lag_max_us;
} fleet_window;

typedef struct fleet_books {
    int64_t came, stored;
    int64_t unexplained; /* must be 0 */
    int64_t oldest_us;   /* when the oldest unread record came */
    uint64_t history;    /* digest of everything that happened */
} fleet_books;

/* Shard number index of those that the options name. windows are added to. */
fleet_books fleet_shard_run(const fleet_options *given, int index,
                            fleet_window windows[FLEET_WINDOWS_MAX]);
