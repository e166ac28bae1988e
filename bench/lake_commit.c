/* lake_commit.c - what order, checks and fairness cost: commits per second of many writers, beside what others do to number a snapshot.
 *
 * Every writer appends a file to a table of its own, again and again: begin (reads the head), the file with statistics of two columns, commit, durable. Ours writes more
 * rows than the peers (marks that conflicts are checked against, the commit's digest and key) into tables with indexes. All writers of ours are threads of one
 * process, as in a service; each peer has a connection of its own.
 *
 * Printed: commits/s, the slowest writer's commits beside the fastest's, latencies, tries beyond the first, commits given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench.h"
#include "lake/catalog.h"
#include "lake/change.h"
#include "lake_cost.h"
#include "lake_peers.h"
#include "raw_pg.h"
#include "support/history.h"
#include "support/postgres/pg_cluster.h"

enum { CATALOGS = 64, WRITERS = 64 };

static const int crowds[] = {1, 4, 16, 64};
enum { CROWDS = sizeof crowds / sizeof crowds[0] };

typedef enum contestant {
    OURS,
    OURS_APART, /* every writer in a catalog of its own */
    LATEST,
    LINEAGE,
    NEXTVAL,
    CONTESTANTS,
} contestant;

static const char *const names[TIDE_ENGINE_COUNT][CONTESTANTS] = {
    [TIDE_ENGINE_POSTGRES] = {[OURS] = "tide_lake_commit, one catalog",
                              [OURS_APART] = "tide_lake_commit, a catalog each",
                              [LATEST] = "latest + 1, DuckLake's tries",
                              [LINEAGE] = "sequence + lineage compare-and-swap",
                              [NEXTVAL] = "bare nextval, no order"},
    [TIDE_ENGINE_SQLITE] = {[OURS] = "tide_lake_commit, one catalog",
                            [OURS_APART] = "tide_lake_commit, a catalog each",
                            [LATEST] = "latest + 1, deferred, DuckLake's tries",
                            [NEXTVAL] = "BEGIN IMMEDIATE and a counter"},
};

typedef struct figures { /* of one crowd and contestant, over all rounds */
    bench_series rate;
    bench_series fairness;
    bench_latencies latencies;
    int64_t commits;
    int64_t retries;
    int64_t given_up;
    lake_cost cost;
} figures;

typedef struct arena {
    tide_engine engine;
    pg_cluster cluster;
    tempdir dir;
    char url[PG_CLUSTER_URL_MAX];      /* the lake's store */
    char peer_url[PG_CLUSTER_URL_MAX]; /* URL or path */
    tide_store *store;
    tide_lake *lake;
    int64_t tables[2][WRITERS]; /* in one catalog; in one each */
    int64_t columns[2][WRITERS];
    figures all[CROWDS][CONTESTANTS];
} arena;

typedef struct writer {
    _Alignas(64) int64_t commits;
    int64_t retries;
    int64_t given_up;
    bench_latencies latencies;
    lake_peer *peer;
} writer;

typedef struct crowd {
    arena *arena;
    contestant who;
    writer writers[WRITERS];
} crowd;

/* ---- one commit ---- */

static void name_catalog(char out[16], bool is_apart, int i)
{
    (void)snprintf(out, 16, is_apart ? "c%d" : "shared", i);
}

static void write_commit(tide_engine engine, const char *catalog, const char *key, int64_t snapshot,
                         int64_t begin_ns)
{
    history_line line;
    char name[32];
    (void)snprintf(name, sizeof name, "%d %s", (int)engine, catalog);
    history_begin_at(&line, key, "commit", begin_ns);
    history_text(&line, "catalog", name);
    history_text(&line, "key", key);
    history_number(&line, "snapshot", snapshot);
    history_end(&line, bench_history(), HISTORY_OK);
}

static void commit_ours(crowd *c, int thread)
{
    arena *a = c->arena;
    const bool is_apart = c->who == OURS_APART;
    tide_error err;
    char catalog[16];
    char path[64];
    unsigned char random[16];
    name_catalog(catalog, is_apart, thread);
    tide_env *env = tide_store_env(a->store);
    env->random(env, random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(path + 2 * i, 3, "%02x", random[i]);
    const int64_t column = a->columns[is_apart][thread];
    const tide_lake_column_stats stats[] = {{.column_id = column,
                                             .size_bytes = 8000,
                                             .value_count = 1000,
                                             .min_value = "1",
                                             .max_value = "1000"},
                                            {.column_id = column + 1,
                                             .size_bytes = 12000,
                                             .value_count = 1000,
                                             .min_value = "a",
                                             .max_value = "z"}};
    const tide_lake_new_file file = {.path = path,
                                     .record_count = 1000,
                                     .file_size_bytes = 20000,
                                     .footer_size = 500,
                                     .stats = stats,
                                     .stat_count = 2};
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    tide_lake_committed done = {0};
    const int64_t begin_ns = history_now_ns();
    bench_must(tide_lake_begin(&change, a->lake, catalog, 0, &err), &err, "begin");
    bench_must(tide_lake_add_file(change, a->tables[is_apart][thread], &file, &err), &err,
               "a file");
    bench_must(tide_lake_commit(change, NULL, &done, &err), &err, "commit");
    c->writers[thread].retries += done.tries - 1;
    if (bench_history() > 0)
        write_commit(a->engine, catalog, path, done.snapshot_id, begin_ns);
}

static void commit_one(void *context, int thread, int64_t n)
{
    crowd *c = context;
    writer *w = &c->writers[thread];
    const int64_t began_us = bench_now_us();
    bool is_done = true;
    if (c->who == OURS || c->who == OURS_APART)
        commit_ours(c, thread);
    else
        is_done = lake_peer_commit(w->peer, thread, n, &w->retries);
    bench_latencies_add(&w->latencies, bench_now_us() - began_us);
    w->commits += is_done;
    w->given_up += !is_done;
}

/* ---- one stretch ---- */

static void open_peers(crowd *c, int writers)
{
    static const lake_peer_kind kinds[CONTESTANTS] = {
        [LATEST] = LAKE_PEER_LATEST, [LINEAGE] = LAKE_PEER_LINEAGE, [NEXTVAL] = LAKE_PEER_NEXTVAL};
    for (int i = 0; i < writers && c->who >= LATEST; i++)
        c->writers[i].peer = c->arena->engine == TIDE_ENGINE_POSTGRES
                                 ? lake_peer_open_pg(c->arena->peer_url, kinds[c->who])
                                 : lake_peer_open_sqlite(c->arena->peer_url, kinds[c->who]);
}

/* bench_run lets a step that was begun go on to its end: what counts here is what each has committed. */
static void gather(crowd *c, int writers, figures *into)
{
    int64_t slowest = INT64_MAX;
    int64_t fastest = 0;
    for (int i = 0; i < writers; i++) {
        writer *w = &c->writers[i];
        slowest = w->commits < slowest ? w->commits : slowest;
        fastest = w->commits > fastest ? w->commits : fastest;
        into->commits += w->commits;
        into->retries += w->retries;
        into->given_up += w->given_up;
        for (int k = 0; k < w->latencies.count; k++)
            bench_latencies_add(&into->latencies, w->latencies.us[k]);
        bench_latencies_done(&w->latencies);
        lake_peer_close(w->peer);
    }
    bench_add(&into->fairness, fastest > 0 ? (double)slowest / (double)fastest : 0);
}

static void measure(arena *a, int crowd_no, contestant who, double seconds)
{
    crowd *c = bench_alloc(sizeof *c);
    c->arena = a;
    c->who = who;
    const int writers = crowds[crowd_no];
    open_peers(c, writers);
    const pid_t server = a->engine == TIDE_ENGINE_POSTGRES ? a->cluster.server.pid : 0;
    static lake_cost_mark before;
    static lake_cost_mark after;
    lake_cost_now(&before, server, a->url);
    const double rate = bench_run(writers, seconds, commit_one, c);
    lake_cost_now(&after, server, a->url);
    lake_cost_add(&a->all[crowd_no][who].cost, &after, &before);
    bench_add(&a->all[crowd_no][who].rate, rate);
    gather(c, writers, &a->all[crowd_no][who]);
    free(c);
}

/* ---- setting up ---- */

static void make_tables(arena *a, bool is_apart)
{
    static const tide_lake_column_def columns[] = {{.name = "id", .type = "int64"},
                                                   {.name = "name", .type = "varchar"}};
    tide_error err;
    tide_lake_created created;
    for (int i = 0; i < WRITERS; i++) {
        char catalog[16];
        char table[16];
        name_catalog(catalog, is_apart, i);
        (void)snprintf(table, sizeof table, "t%d", i);
        if (is_apart || i == 0)
            bench_must(tide_lake_create_catalog(a->lake, catalog, false, NULL, &created, &err),
                       &err, "a catalog");
        TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
        TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {.columns = NULL};
        tide_lake_committed done;
        bench_must(tide_lake_begin(&change, a->lake, catalog, 0, &err), &err, "begin");
        bench_must(tide_lake_create_table(change, "main", table, columns, 2, &err), &err,
                   "a table");
        bench_must(tide_lake_change_table(change, "main", table, &seen, &err), &err, "a table");
        a->tables[is_apart][i] = seen.table.id;
        a->columns[is_apart][i] = seen.columns[0].id;
        bench_must(tide_lake_commit(change, NULL, &done, &err), &err, "commit");
    }
}

/* Peers connect and prepare their statements before they are measured: so do we. */
static void warm_up(arena *a)
{
    for (int who = OURS; who <= OURS_APART; who++) {
        crowd *c = bench_alloc(sizeof *c);
        c->arena = a;
        c->who = (contestant)who;
        (void)bench_run(WRITERS, 0.5, commit_one, c);
        for (int i = 0; i < WRITERS; i++)
            bench_latencies_done(&c->writers[i].latencies);
        free(c);
    }
}

static void set_up(arena *a, tide_engine engine)
{
    tide_error err;
    a->engine = engine;
    bench_must(tempdir_make(&a->dir, &err), &err, "a directory");
    char data[TEMPDIR_PATH_MAX];
    char state[TEMPDIR_PATH_MAX];
    tempdir_join(&a->dir, "data", data);
    tempdir_join(&a->dir, "state", state);
    if (engine == TIDE_ENGINE_POSTGRES) {
        static const char *const settings[] = {"max_connections=200", NULL};
        const pg_cluster_options options = {.settings = settings};
        bench_must(pg_cluster_start(&a->cluster, &options, &err), &err, "a PostgreSQL cluster");
        bench_must(pg_cluster_create_database(&a->cluster, "lake", NULL, &err), &err, "a database");
        bench_must(pg_cluster_create_database(&a->cluster, "peers", NULL, &err), &err,
                   "a database");
        pg_cluster_url(&a->cluster, "lake", a->url);
        pg_cluster_url(&a->cluster, "peers", a->peer_url);
        lake_peers_make_pg(a->peer_url, WRITERS);
    } else {
        tempdir_join(&a->dir, "lake.db", a->url);
        tempdir_join(&a->dir, "peers.db", a->peer_url);
        lake_peers_make_sqlite(a->peer_url, WRITERS);
    }
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = state,
                                        .connection_max = WRITERS + 2};
    bool was_there = false;
    bench_must(tide_store_open(&a->store, a->url, &options, &err), &err, "the store");
    bench_must(tide_lake_init(a->store, data, &was_there, &err), &err, "a lake");
    bench_must(tide_lake_open(&a->lake, a->store, &err), &err, "the lake");
    make_tables(a, false);
    make_tables(a, true);
    warm_up(a);
}

static void tear_down(arena *a)
{
    tide_error err;
    tide_lake_close(a->lake);
    tide_store_close(a->store);
    if (a->engine == TIDE_ENGINE_POSTGRES)
        pg_cluster_stop(&a->cluster);
    TIDE_IGNORE(tempdir_remove(&a->dir, &err));
}

/* ---- what is told ---- */

static void print_crowd(arena *a, int crowd_no)
{
    char title[96];
    (void)snprintf(title, sizeof title, "%s: %d writer%s",
                   a->engine == TIDE_ENGINE_POSTGRES ? "PostgreSQL" : "SQLite", crowds[crowd_no],
                   crowds[crowd_no] > 1 ? "s" : "");
    bench_print_heading(title, "commits/s");
    for (int who = 0; who < CONTESTANTS; who++) {
        figures *f = &a->all[crowd_no][who];
        if (f->rate.count == 0)
            continue;
        bench_print_series(&f->rate);
        (void)printf("      p50 %.1f ms, p99 %.1f ms; slowest/fastest writer %.2f; retries %lld, "
                     "given up %lld\n",
                     (double)bench_latencies_at(&f->latencies, 0.5) / 1000,
                     (double)bench_latencies_at(&f->latencies, 0.99) / 1000,
                     bench_median(&f->fairness), (long long)f->retries, (long long)f->given_up);
        const double commits = f->commits > 0 ? (double)f->commits : 1;
        (void)printf("      per commit: processor %.0f us of the writers, %.0f us of the server; "
                     "%.0f bytes of WAL\n",
                     f->cost.client_us / commits, f->cost.server_us / commits,
                     f->cost.wal_bytes / commits);
    }
}

static void print_ratios(const arena *a, int crowd_no)
{
    const figures *f = a->all[crowd_no];
    const bool is_pg = a->engine == TIDE_ENGINE_POSTGRES;
    const bool is_judged = crowds[crowd_no] == 16;
    char name[96];
    const char *engine = is_pg ? "PostgreSQL" : "SQLite";
    (void)snprintf(name, sizeof name, "%s, %d writers: ours / %s", engine, crowds[crowd_no],
                   is_pg ? "bare nextval" : "BEGIN IMMEDIATE");
    bench_print_ratio(name, &f[OURS].rate, &f[NEXTVAL].rate, is_judged ? 0.8 : 0);
    if (is_pg) {
        (void)snprintf(name, sizeof name, "%s, %d writers: ours / lineage", engine,
                       crowds[crowd_no]);
        bench_print_ratio(name, &f[OURS].rate, &f[LINEAGE].rate, is_judged ? 3 : 0);
    }
    (void)snprintf(name, sizeof name, "%s, %d writers: ours / latest + 1", engine,
                   crowds[crowd_no]);
    bench_print_ratio(name, &f[OURS].rate, &f[LATEST].rate, 0);
    if (crowds[crowd_no] > 1)
        (void)printf("fairness %s, %d writers: slowest/fastest %.2f (expected >= 0.5): %s\n",
                     engine, crowds[crowd_no], bench_median(&f[OURS].fairness),
                     bench_median(&f[OURS].fairness) >= 0.5 ? "met" : "not met");
}

static void run_engine(tide_engine engine, const bench_options *options)
{
    arena *a = bench_alloc(sizeof *a);
    set_up(a, engine);
    for (int i = 0; i < CROWDS; i++)
        for (int who = 0; who < CONTESTANTS; who++)
            a->all[i][who].rate.name = names[engine][who] ? names[engine][who] : "";
    const char *only = getenv("TIDEMARK_BENCH_WRITERS"); /* "16": that crowd alone */
    for (int round = 0; round < options->rounds; round++)
        for (int i = 0; i < CROWDS; i++)
            for (int who = 0; who < CONTESTANTS; who++)
                if ((!only || strtol(only, NULL, 10) == crowds[i]) &&
                    names[engine][(round + who) % CONTESTANTS])
                    measure(a, i, (contestant)((round + who) % CONTESTANTS), options->seconds);
    for (int i = 0; i < CROWDS; i++)
        if (a->all[i][OURS].rate.count > 0)
            print_crowd(a, i);
    (void)printf("\n");
    for (int i = 0; i < CROWDS; i++)
        if (a->all[i][OURS].rate.count > 0)
            print_ratios(a, i);
    tear_down(a);
    for (int i = 0; i < CROWDS; i++)
        for (int who = 0; who < CONTESTANTS; who++)
            bench_latencies_done(&a->all[i][who].latencies);
    free(a);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1.5);
    const char *only = getenv("TIDEMARK_BENCH_ENGINE"); /* "sqlite" or "postgres": that one alone */
    if (!only || strcmp(only, "postgres") == 0)
        run_engine(TIDE_ENGINE_POSTGRES, &options);
    if (!only || strcmp(only, "sqlite") == 0)
        run_engine(TIDE_ENGINE_SQLITE, &options);
    bench_judge("catalog.py");
    return EXIT_SUCCESS;
}
