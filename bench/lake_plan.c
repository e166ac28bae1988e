/* lake_plan.c - what a question costs before DuckDB sees it, and what a commit costs, in catalogs of 10^3 to 10^6 snapshots and files.
 *
 * A table of 100 files is asked about while its catalog grows by commits and files of another one, written in bulk behind the library's back. Shown per size: finding a
 * snapshot by its number and by a time, planning (catalog, schema, table, columns, files with their deletes), planning with pruning by statistics, one append's commit.
 * What is shown stays above the fastest tenth of the calls: a busy machine slows the others for reasons of its own. Growth is the largest size's figure beside the
 * smallest's: 1 is flat. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench.h"
#include "lake/catalog.h"
#include "lake/change.h"
#include "raw_pg.h"
#include "support/postgres/pg_cluster.h"

enum { FILES = 100, CALLS = 100, SIZES = 4 };

static const int64_t sizes[SIZES] = {1000, 10000, 100000, 1000000};

typedef enum question {
    BY_NUMBER,
    BY_TIME,
    PLAN,
    PRUNED,
    COMMIT,
    QUESTIONS,
} question;

static const char *const names[QUESTIONS] = {[BY_NUMBER] = "a snapshot by its number",
                                             [BY_TIME] = "a snapshot by a time",
                                             [PLAN] = "planning: a table of 100 files",
                                             [PRUNED] = "planning with pruning: 1 of 100 files",
                                             [COMMIT] = "an append's commit, durable"};

typedef struct arena {
    tide_engine engine;
    pg_cluster cluster;
    tempdir dir;
    char url[PG_CLUSTER_URL_MAX];
    tide_store *store;
    tide_lake *lake;
    tide_lake_catalog catalog;
    int64_t table;
    int64_t filler;
    tide_lake_column column;
    int64_t filled;
    double fast[QUESTIONS][SIZES]; /* us */
} arena;

/* ---- the questions ---- */

typedef struct asked {
    arena *a;
    question what;
    int files;
} asked;

static tide_status count_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)file;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

static tide_status plan(tide_tx *tx, asked *q, tide_error *err)
{
    tide_lake_catalog catalog;
    tide_lake_object schema;
    tide_lake_object table = {.sql = NULL};
    tide_lake_partition partition;
    TIDE_TRY(tide_lake_find_catalog(tx, "books", &catalog, err));
    TIDE_TRY(tide_lake_find_schema(tx, catalog.catalog_id, catalog.head, "main", &schema, err));
    TIDE_TRY(tide_lake_find_object(tx, catalog.catalog_id, catalog.head, schema.id, "asked", &table,
                                   err));
    TIDE_CLEANUP(tide_freep) tide_lake_column *columns = NULL;
    int count = 0;
    TIDE_TRY(tide_lake_read_columns(tx, catalog.catalog_id, catalog.head, table.id, &columns,
                                    &count, err));
    TIDE_TRY(
        tide_lake_read_partition(tx, catalog.catalog_id, catalog.head, table.id, &partition, err));
    if (q->what == PRUNED)
        return tide_lake_each_file_where(tx, catalog.catalog_id, catalog.head, table.id,
                                         &columns[0], "=", "4250", count_file, &q->files, err);
    return tide_lake_each_file(tx, catalog.catalog_id, catalog.head, table.id, count_file,
                               &q->files, err);
}

static tide_status ask(tide_tx *tx, void *arg, tide_error *err)
{
    asked *q = arg;
    int64_t found = 0;
    char at[32];
    tide_lake_catalog catalog;
    q->files = 0;
    if (q->what == PLAN || q->what == PRUNED)
        return plan(tx, q, err);
    TIDE_TRY(tide_lake_find_catalog(tx, "books", &catalog, err));
    if (q->what == BY_NUMBER)
        (void)snprintf(at, sizeof at, "%lld", (long long)(catalog.head - q->a->filled / 2));
    else
        (void)snprintf(at, sizeof at, "2020-01-01 00:00:01");
    return tide_lake_find_snapshot(tx, &catalog, at, &found, err);
}

static void append(arena *a, int64_t table, int64_t first, int column_count)
{
    tide_error err;
    char path[40];
    char low[24];
    char high[24];
    unsigned char random[16];
    tide_env *env = tide_store_env(a->store);
    env->random(env, random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(path + 2 * i, 3, "%02x", random[i]);
    (void)snprintf(low, sizeof low, "%lld", (long long)first);
    (void)snprintf(high, sizeof high, "%lld", (long long)first + 99);
    const tide_lake_column_stats stats = {.column_id = a->column.id,
                                          .size_bytes = 800,
                                          .value_count = 100,
                                          .min_value = low,
                                          .max_value = high};
    const tide_lake_new_file file = {.path = path,
                                     .record_count = 100,
                                     .file_size_bytes = 2000,
                                     .footer_size = 300,
                                     .stats = &stats,
                                     .stat_count = column_count};
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    tide_lake_committed done;
    bench_must(tide_lake_begin(&change, a->lake, "books", 0, &err), &err, "begin");
    bench_must(tide_lake_add_file(change, table, &file, &err), &err, "a file");
    bench_must(tide_lake_commit(change, NULL, &done, &err), &err, "commit");
}

static double measure(arena *a, question what)
{
    bench_latencies latencies = {0};
    for (int i = 0; i < CALLS; i++) {
        tide_error err;
        asked q = {.a = a, .what = what};
        const int64_t began_us = bench_now_us();
        if (what == COMMIT)
            append(a, a->filler, 0, 0);
        else
            bench_must(tide_store_read_local(a->store, ask, &q, &err), &err, names[what]);
        bench_latencies_add(&latencies, bench_now_us() - began_us);
        if ((what == PLAN && q.files != FILES) || (what == PRUNED && q.files != 1))
            bench_die("%s: %d files", names[what], q.files);
    }
    const double fast = (double)bench_latencies_at(&latencies, 0.1);
    bench_latencies_done(&latencies);
    return fast;
}

/* ---- growing ---- */

/* 1: how many, 2: the catalog, 3: the table that they go to. */
static const char pg_fill[] =
    "WITH first AS (SELECT (SELECT last_value FROM ducklake_snapshot_id_seq) AS s, (SELECT "
    "last_value FROM ducklake_file_id_seq) AS f),"
    " n AS MATERIALIZED (SELECT s + i AS s, f + i AS f, i FROM first, generate_series(1, #1) "
    "i),"
    " a AS (INSERT INTO ducklake_snapshot SELECT s, '2020-01-01'::timestamptz + i * interval '1 "
    "ms', 1, 1000, f + 1, #2 FROM n),"
    " b AS (INSERT INTO ducklake_snapshot_changes SELECT s, 'inserted_into_table:#3', NULL, "
    "NULL, NULL, #2 FROM n),"
    " c AS (INSERT INTO lake_commit SELECT s, #2, s - 1, s - 1, 0, 0, 'fill-' || s, NULL, "
    "100, false, now(), NULL FROM n),"
    " d AS (INSERT INTO lake_mark SELECT #2, 'insert #3', s FROM n)"
    " INSERT INTO ducklake_data_file SELECT f, #3, s, NULL, NULL, 'fill-' || f, true, "
    "'parquet', 100, 2000, 300, 0, NULL, NULL, NULL, NULL, #2 FROM n;"
    "SELECT setval('ducklake_snapshot_id_seq', (SELECT max(snapshot_id) FROM ducklake_snapshot)),"
    " setval('ducklake_file_id_seq', (SELECT max(data_file_id) FROM ducklake_data_file));"
    "UPDATE lake_head SET parent_snapshot_id = snapshot_id, snapshot_id = (SELECT "
    "max(snapshot_id) FROM ducklake_snapshot), digest_a = 0, digest_b = 0"
    " WHERE catalog_id = #2; ANALYZE;";

static const char sqlite_fill[] =
    "BEGIN IMMEDIATE;"
    "CREATE TEMP TABLE n AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE "
    "i < #1)"
    " SELECT (SELECT last FROM lake_sequence WHERE name = 'snapshot') + i AS s, (SELECT last "
    "FROM lake_sequence WHERE name = 'file') + i AS f, i FROM r;"
    "INSERT INTO ducklake_snapshot SELECT s, strftime('%Y-%m-%d %H:%M:%f000', 1577836800 + "
    "i / 1000.0, 'unixepoch'), 1, 1000, f + 1, #2 FROM n;"
    "INSERT INTO ducklake_snapshot_changes SELECT s, 'inserted_into_table:#3', NULL, NULL, "
    "NULL, #2 FROM n;"
    "INSERT INTO lake_commit SELECT s, #2, s - 1, s - 1, 0, 0, 'fill-' || s, NULL, 100, 0, "
    "'2020-01-01 00:00:00.000000', NULL FROM n;"
    "INSERT INTO lake_mark SELECT #2, 'insert #3', s FROM n;"
    "INSERT INTO ducklake_data_file SELECT f, #3, s, NULL, NULL, 'fill-' || f, 1, 'parquet', "
    "100, 2000, 300, 0, NULL, NULL, NULL, NULL, #2 FROM n;"
    "UPDATE lake_sequence SET last = (SELECT max(s) FROM n) WHERE name = 'snapshot';"
    "UPDATE lake_sequence SET last = (SELECT max(f) FROM n) WHERE name = 'file';"
    "UPDATE lake_head SET parent_snapshot_id = snapshot_id, snapshot_id = (SELECT max(s) FROM "
    "n), digest_a = 0, digest_b = 0 WHERE catalog_id = #2;"
    "DROP TABLE n; COMMIT;";

static void fill_sqlite(arena *a, const char *text)
{
    sqlite3 *db = NULL;
    char *complaint = NULL;
    if (sqlite3_open(a->url, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 60000) != SQLITE_OK ||
        sqlite3_exec(db, text, NULL, NULL, &complaint) != SQLITE_OK)
        bench_die("filling: %s", complaint ? complaint : sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

static void fill_pg(arena *a, const char *text)
{
    PGconn *pg = raw_pg_connect(a->url);
    PGresult *result = PQexec(pg, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("filling: %s", PQerrorMessage(pg));
    PQclear(result);
    PQfinish(pg);
}

/* #1, #2, #3 are the values. */
static void write_text(char *out, size_t size, const char *form, const int64_t *values)
{
    size_t len = 0;
    for (; *form && len + 24 < size; form++) {
        if (form[0] == '#' && form[1] >= '1' && form[1] <= '3')
            len +=
                (size_t)snprintf(out + len, size - len, "%lld", (long long)values[*++form - '1']);
        else
            out[len++] = *form;
    }
    out[len] = '\0';
    if (*form)
        bench_die("a statement of more than %zu bytes", size);
}

static void grow(arena *a, int64_t size)
{
    char text[4096];
    const int64_t values[] = {size - a->filled, a->catalog.catalog_id, a->filler};
    const bool is_pg = a->engine == TIDE_ENGINE_POSTGRES;
    write_text(text, sizeof text, is_pg ? pg_fill : sqlite_fill, values);
    if (is_pg)
        fill_pg(a, text);
    else
        fill_sqlite(a, text);
    a->filled = size;
}

/* ---- the lake ---- */

static tide_status read_catalog(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_lake_find_catalog(tx, "books", arg, err);
}

static int64_t make_table(arena *a, const char *name)
{
    static const tide_lake_column_def column = {.name = "id", .type = "int64"};
    tide_error err;
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {.columns = NULL};
    tide_lake_committed done;
    bench_must(tide_lake_begin(&change, a->lake, "books", 0, &err), &err, "begin");
    bench_must(tide_lake_create_table(change, "main", name, &column, 1, &err), &err, "a table");
    bench_must(tide_lake_change_table(change, "main", name, &seen, &err), &err, "a table");
    a->column = seen.columns[0];
    bench_must(tide_lake_commit(change, NULL, &done, &err), &err, "commit");
    return seen.table.id;
}

static void set_up(arena *a, tide_engine engine)
{
    tide_error err;
    char data[TEMPDIR_PATH_MAX];
    char state[TEMPDIR_PATH_MAX];
    a->engine = engine;
    bench_must(tempdir_make(&a->dir, &err), &err, "a directory");
    tempdir_join(&a->dir, "data", data);
    tempdir_join(&a->dir, "state", state);
    tempdir_join(&a->dir, "lake.db", a->url);
    if (engine == TIDE_ENGINE_POSTGRES) {
        bench_must(pg_cluster_start(&a->cluster, NULL, &err), &err, "a PostgreSQL cluster");
        bench_must(pg_cluster_create_database(&a->cluster, "lake", NULL, &err), &err, "a database");
        pg_cluster_url(&a->cluster, "lake", a->url);
    }
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = state};
    bool was_there = false;
    tide_lake_created created;
    bench_must(tide_store_open(&a->store, a->url, &options, &err), &err, "the store");
    bench_must(tide_lake_init(a->store, data, &was_there, &err), &err, "a lake");
    bench_must(tide_lake_open(&a->lake, a->store, &err), &err, "the lake");
    bench_must(tide_lake_create_catalog(a->lake, "books", false, NULL, &created, &err), &err,
               "a catalog");
    a->filler = make_table(a, "filler");
    a->table = make_table(a, "asked");
    for (int i = 0; i < FILES; i++)
        append(a, a->table, (int64_t)i * 100, 1);
    bench_must(tide_store_read(a->store, read_catalog, &a->catalog, &err), &err, "the catalog");
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

static void run_engine(tide_engine engine, int count)
{
    arena *a = bench_alloc(sizeof *a);
    set_up(a, engine);
    for (int i = 0; i < count; i++) {
        grow(a, sizes[i]);
        for (int what = 0; what < QUESTIONS; what++)
            (void)measure(a, (question)what); /* what is read first, is read from the disk */
        for (int what = 0; what < QUESTIONS; what++)
            a->fast[what][i] = measure(a, (question)what);
    }
    (void)printf("\n%s: ms, the fastest tenth of %d calls stays below\n  %-40s",
                 engine == TIDE_ENGINE_POSTGRES ? "PostgreSQL" : "SQLite", CALLS,
                 "snapshots, files");
    for (int i = 0; i < count; i++)
        (void)printf(" %10lld", (long long)sizes[i]);
    (void)printf("     growth\n");
    for (int what = 0; what < QUESTIONS; what++) {
        (void)printf("  %-40s", names[what]);
        for (int i = 0; i < count; i++)
            (void)printf(" %10.3f", a->fast[what][i] / 1000);
        (void)printf(" %10.2f\n", a->fast[what][count - 1] / a->fast[what][0]);
    }
    tear_down(a);
    free(a);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    const int count = options.seconds < 0.5 ? SIZES - 1 : SIZES; /* --quick */
    run_engine(TIDE_ENGINE_SQLITE, count);
    run_engine(TIDE_ENGINE_POSTGRES, count);
    return EXIT_SUCCESS;
}
