/* fleet_sim.c - a fleet of agents polled by colonies over several databases, in simulated time: how far behind is who?
 *
 * Agents are dealt out to shards (fleet_shard.h), which know nothing of each other. What a page and a row cost, of a colony and of a database,
 * are the figures of scripts/bench/bench-pages; docs/scale.md has the arithmetic that this holds against. At the end the books are closed: what came is stored
 * or waits. The same options print the same lines.
 *
 * Options: --agents N --shards N --colonies N (of a shard) --rate R (records a second of an agent, mean) --colony-cores N --database-cores N
 * --seconds N --seed N --quick (one shard). */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fleet_shard.h"

typedef fleet_options options;

static double lag_seconds(const fleet_window *w, double share)
{
    int64_t left = (int64_t)(share * (double)w->pages);
    for (int i = 0; i < FLEET_BUCKETS; i++)
        if ((left -= w->lags[i]) < 0)
            return 0.001 * exp2((i + 1) / 10.0);
    return (double)w->lag_max_us / 1e6;
}

static void print_windows(const options *o, const fleet_window *windows)
{
    printf("\n%-10s %10s %10s %9s %8s %8s %8s %8s %8s %10s\n", "seconds", "pages/s", "rows/s",
           "rows/page", "lag p50", "p99", "max s", "colonies", "database", "nobody's");
    const double colony_us = 1e6 * FLEET_WINDOW_S * o->shards * o->colonies * o->colony_cores;
    const double database_us = 1e6 * FLEET_WINDOW_S * o->shards * o->database_cores;
    for (int i = 0; i < FLEET_WINDOWS_MAX && (int64_t)(i + 1) * FLEET_WINDOW_S <= o->seconds; i++) {
        const fleet_window *w = &windows[i];
        printf("%3d..%-5d %10" PRId64 " %10" PRId64
               " %9.1f %8.2f %8.2f %8.2f %7.0f%% %7.0f%% %10" PRId64 "\n",
               i * FLEET_WINDOW_S, (i + 1) * FLEET_WINDOW_S, w->pages / FLEET_WINDOW_S,
               w->rows / FLEET_WINDOW_S, w->pages ? (double)w->rows / (double)w->pages : 0.0,
               lag_seconds(w, 0.5), lag_seconds(w, 0.99), (double)w->lag_max_us / 1e6,
               100 * w->colony_us / colony_us, 100 * w->database_us / database_us, w->nobodys_max);
    }
}

static bool read_options(options *o, int argc, char **argv)
{
    static const struct option names[] = {
        {"agents", required_argument, NULL, 'a'},
        {"shards", required_argument, NULL, 's'},
        {"colonies", required_argument, NULL, 'c'},
        {"rate", required_argument, NULL, 'r'},
        {"colony-cores", required_argument, NULL, 'k'},
        {"database-cores", required_argument, NULL, 'd'},
        {"seconds", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 'e'},
        {"quick", no_argument, NULL, 'q'},
        {0},
    };
    for (int c = 0; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        const double value = optarg ? strtod(optarg, NULL) : 0;
        if (c == 'a')
            o->agents = (int64_t)value;
        else if (c == 's')
            o->shards = (int)value;
        else if (c == 'c')
            o->colonies = (int)value;
        else if (c == 'r')
            o->rate = value;
        else if (c == 'k')
            o->colony_cores = (int)value;
        else if (c == 'd')
            o->database_cores = (int)value;
        else if (c == 't')
            o->seconds = (int64_t)value;
        else if (c == 'e')
            o->seed = (uint64_t)value;
        else if (c == 'q')
            o->agents = o->agents / o->shards, o->shards = 1;
        else
            return false;
    }
    return o->shards >= 1 && o->agents >= o->shards && o->colonies >= 1 &&
           o->colonies <= FLEET_COLONIES_MAX && o->rate > 0 && o->colony_cores >= 1 &&
           o->colony_cores <= FLEET_CORES_MAX && o->database_cores >= 1 &&
           o->database_cores <= FLEET_CORES_MAX && o->seconds >= FLEET_WINDOW_S &&
           o->seconds <= FLEET_WINDOWS_MAX * FLEET_WINDOW_S;
}

int main(int argc, char **argv)
{
    options o = {.agents = 1000000,
                 .shards = 25,
                 .colonies = 4,
                 .rate = 1,
                 .colony_cores = 2,
                 .database_cores = 8,
                 .seconds = 240,
                 .seed = 1,
                 .colony_page_us = 1022,
                 .colony_row_us = 1.9,
                 .database_page_us = 1300,
                 .database_row_us = 11.2};
    if (!read_options(&o, argc, argv)) {
        fprintf(stderr, "fleet_sim: bad options; see the head of bench/fleet_sim.c\n");
        return EXIT_FAILURE;
    }
    static fleet_window windows[FLEET_WINDOWS_MAX];
    fleet_books all = {.oldest_us = o.seconds * FLEET_SECOND};
    printf("%" PRId64 " agents, %d shards of %d colonies with %d cores and a database with %d, %g "
           "records/s of an agent\n",
           o.agents, o.shards, o.colonies, o.colony_cores, o.database_cores, o.rate);
    for (int i = 0; i < o.shards; i++) {
        const fleet_books books = fleet_shard_run(&o, i, windows);
        all.came += books.came;
        all.stored += books.stored;
        all.unexplained += books.unexplained;
        all.oldest_us = books.oldest_us < all.oldest_us ? books.oldest_us : all.oldest_us;
        all.history = all.history * 31 + books.history;
    }
    print_windows(&o, windows);
    printf("\nbooks: %" PRId64 " came = %" PRId64 " stored + %" PRId64 " pending, %" PRId64
           " unexplained; oldest unread %.1f s; history %016" PRIx64 "\n",
           all.came, all.stored, all.came - all.stored, all.unexplained,
           (double)(o.seconds * FLEET_SECOND - all.oldest_us) / 1e6, all.history);
    return all.unexplained == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
