/* pg_ordered.c - what order costs on PostgreSQL, and what it is worth.
 *
 * 16 clients insert numbered rows, each durable before its client goes on. Contestants: tide_store_write
 * (counter taken last, lock released before the flush, one flush for all), the counter's lock held
 * through the flush in one statement, and the database's own sequence, which keeps no order. Then
 * once more with a tailer beside the writers, which counts what it would have skipped.
 *
 * What the guard costs (the proof of epoch and timeline, and SET LOCAL) is the same store without it, in turn.
 * Behind PgBouncer in transaction mode each commit is synchronous: beside it is the counter locked through
 * the flush, through the same PgBouncer.
 *
 * The cluster is our own: fsync on, over its socket. Stretches of one contestant share its tables.
 * */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "raw_pg.h"
#include "store/postgres/pg_engine.h"
#include "support/postgres/pg_bouncer.h"
#include "support/postgres/pg_cluster.h"
#include "support/store_fixture.h"

enum { CLIENTS = 16 };

static const double seconds = 2;

typedef enum contestant {
    ORDERED,
    UNGUARDED,
    HELD,
    NEXTVAL,
    POOLED,
    HELD_POOLED,
    CONTESTANTS,
} contestant;

static const char *const tables[CONTESTANTS] = {
    [ORDERED] = "appended", [UNGUARDED] = "appended", [HELD] = "held",
    [NEXTVAL] = "plain",    [POOLED] = "appended",    [HELD_POOLED] = "held"};

static const char *const names[CONTESTANTS] = {
    [ORDERED] = "tide_store_write, ordered",
    [UNGUARDED] = "the same without guard and SET LOCAL",
    [HELD] = "counter locked through the flush, one statement",
    [NEXTVAL] = "nextval, no order",
    [POOLED] = "tide_store_write, behind PgBouncer",
    [HELD_POOLED] = "counter locked through the flush, behind PgBouncer"};

static bool is_ours(contestant who)
{
    return who == ORDERED || who == UNGUARDED || who == POOLED;
}

typedef struct arena {
    pg_cluster cluster;
    tempdir dir;
    pg_bouncer bouncer;
    char url[PG_CLUSTER_URL_MAX];
    char pooled_url[PG_CLUSTER_URL_MAX];
    PGconn *observer;
    int stretches; /* so far: rows of each get names of their own */
    bench_series rates[CONTESTANTS];
    bench_series commits_per_sync[CONTESTANTS];
} arena;

typedef struct clients {
    tide_store *store;
    PGconn *raw[CLIENTS];
    int64_t first_n;
    bool is_unnamed;
} clients;

static void write_ordered(void *context, int thread, int64_t n)
{
    const clients *all = context;
    bench_write_numbered(all->store, thread, all->first_n + n);
}

static void write_raw(void *context, int thread, int64_t n)
{
    const clients *all = context;
    char writer[32];
    (void)snprintf(writer, sizeof writer, "writer-%02d", thread);
    if (all->is_unnamed)
        raw_pg_write_unnamed(all->raw[thread], RAW_PG_HELD, writer, all->first_n + n);
    else
        raw_pg_write(all->raw[thread], writer, all->first_n + n);
}

static void open_clients(clients *all, arena *a, contestant who)
{
    *all = (clients){.first_n = (int64_t)++a->stretches << 32};
    tide_pg_is_unguarded = who == UNGUARDED;
    if (is_ours(who)) {
        all->store = bench_open_store(who == POOLED ? a->pooled_url : a->url, &a->dir);
        return;
    }
    all->is_unnamed = who == HELD_POOLED;
    for (int i = 0; i < CLIENTS && all->is_unnamed; i++)
        all->raw[i] = raw_pg_connect(a->pooled_url);
    for (int i = 0; i < CLIENTS && !all->is_unnamed; i++)
        all->raw[i] = raw_pg_open_writer(a->url, who == HELD ? RAW_PG_HELD : RAW_PG_NEXTVAL);
}

/* Backends add what they counted to the shared figures at the latest when they end. */
static void close_clients(clients *all)
{
    tide_store_close(all->store);
    for (int i = 0; i < CLIENTS; i++)
        PQfinish(all->raw[i]);
}

static double run(arena *a, contestant who, double length_s)
{
    clients all;
    open_clients(&all, a, who);
    const double rate =
        bench_run(CLIENTS, length_s, is_ours(who) ? write_ordered : write_raw, &all);
    close_clients(&all);
    return rate;
}

static int64_t count_syncs(const arena *a)
{
    return raw_pg_ask(a->observer, "SELECT wal_sync FROM pg_stat_wal");
}

static int64_t count_rows(const arena *a, contestant who)
{
    char query[64];
    (void)snprintf(query, sizeof query, "SELECT count(*) FROM %s", tables[who]);
    return raw_pg_ask(a->observer, query);
}

static void measure(arena *a, contestant who, double length_s)
{
    const int64_t rows = count_rows(a, who);
    const int64_t syncs = count_syncs(a);
    bench_add(&a->rates[who], run(a, who, length_s));
    const int64_t made = count_syncs(a) - syncs;
    bench_add(&a->commits_per_sync[who],
              (double)(count_rows(a, who) - rows) / (double)(made > 0 ? made : 1));
}

static void watch(arena *a, contestant who, double length_s)
{
    raw_pg_tailer tailer;
    raw_pg_tailer_start(&tailer, a->url, tables[who]);
    (void)run(a, who, length_s);
    int64_t total = 0;
    const int64_t skipped = raw_pg_tailer_stop(&tailer, &total);
    (void)printf("  %-58s skipped %lld of %lld\n", a->rates[who].name, (long long)skipped,
                 (long long)total);
}

static void set_up(arena *a)
{
    tide_error err;
    bench_must(tempdir_make(&a->dir, &err), &err, "a directory");
    bench_must(pg_cluster_start(&a->cluster, NULL, &err), &err, "a PostgreSQL cluster");
    bench_must(pg_cluster_create_database(&a->cluster, "bench", NULL, &err), &err, "a database");
    pg_cluster_url(&a->cluster, "bench", a->url);
    bench_must(pg_bouncer_start(&a->bouncer, &a->cluster, "default_pool_size=16", &err), &err,
               "PgBouncer");
    pg_bouncer_url(&a->bouncer, "bench", a->pooled_url);
    tide_store *store = bench_open_store(a->url, &a->dir);
    store_test_add_tables(store);
    tide_store_close(store);
    raw_pg_make_tables(a->url);
    a->observer = raw_pg_connect(a->url);
    for (int who = 0; who < CONTESTANTS; who++)
        (void)run(a, (contestant)who, 0.2);
}

static void tear_down(arena *a)
{
    tide_error err;
    PQfinish(a->observer);
    pg_bouncer_stop(&a->bouncer);
    pg_cluster_stop(&a->cluster);
    TIDE_IGNORE(tempdir_remove(&a->dir, &err));
}

int main(int argc, char **argv)
{
    static arena a;
    for (int who = 0; who < CONTESTANTS; who++) {
        a.rates[who].name = names[who];
        a.commits_per_sync[who].name = names[who];
    }
    const bench_options options = bench_read_options(argc, argv, seconds);
    set_up(&a);
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < CONTESTANTS; i++)
            measure(&a, (contestant)((round + i) % CONTESTANTS), options.seconds);

    bench_print_heading(
        "PostgreSQL: numbered rows of 16 clients, each durable before its client goes on",
        "commits/s");
    for (int who = 0; who < CONTESTANTS; who++)
        bench_print_series(&a.rates[who]);
    bench_print_heading("Commits that shared a sync", "commits per sync");
    for (int who = 0; who < CONTESTANTS; who++)
        bench_print_series(&a.commits_per_sync[who]);
    (void)printf("\nA tailer reading `> last` beside 16 writers\n");
    for (int who = 0; who < CONTESTANTS; who++)
        watch(&a, (contestant)who, options.seconds);
    tear_down(&a);
    bench_judge("sequences.py");

    (void)printf("\n");
    bench_print_ratio("ordered / lock held through the flush", &a.rates[ORDERED], &a.rates[HELD],
                      2);
    bench_print_ratio("ordered / nextval", &a.rates[ORDERED], &a.rates[NEXTVAL], 0.35);
    bench_print_ratio("with guard and SET LOCAL / without", &a.rates[ORDERED], &a.rates[UNGUARDED],
                      0.9);
    bench_print_ratio("behind PgBouncer: ordered / lock held through the flush", &a.rates[POOLED],
                      &a.rates[HELD_POOLED], 0.8);
    return EXIT_SUCCESS;
}
