/* query_process.c - what a process around a caller's SQL costs: `SELECT 1` in a warm query process
 * beside the same statement, under the same limits, in the process of the daemon.
 *
 *     SQLite store    tide_readonly_query_run          / tide_query_process_run
 *     colony          the query of the colony's sink   / tide_query_process_run
 *     lake            tide_lake_query with its own DuckDB / with the process as its runner
 *
 * One query at a time. Each row also has what the engine alone does on a connection that stays
 * open. The process is the built program (build/tidemark, or $TIDEMARK_PROGRAM). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench.h"
#include "colony/duckdb/duckdb_place.h"
#include "colony/sink.h"
#include "lake/catalog.h"
#include "lake/data.h"
#include "runtime/query/query_process.h"
#include "store/duckdb/duckdb.h"
#include "store/readonly_query.h"

enum { MEMORY_LEN = 512 << 20, ROW_MAX = 10000, BYTES_MAX = 1 << 20 };

#define TIMEOUT_US INT64_C(30000000)

static const char text[] = "SELECT 1";

typedef struct contest {
    tempdir dir;
    tide_store *store;
    tide_sink *sink;
    tide_lake *lake;
    tide_lake_data *data;   /* with a DuckDB of this process */
    tide_lake_data *remote; /* with the process as its runner */
    tide_duckdb *duckdb;
    tide_query_process *process;
    int64_t rows;
} contest;

static tide_status ignore_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static tide_status count_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    int64_t *rows = arg;
    (void)err;
    if (count != 1 || cells[0].kind != TIDE_SQL_VALUE_I64 || cells[0].i64 != 1)
        bench_die("SELECT 1 is not 1");
    ++*rows;
    return TIDE_OK;
}

/* ---- contestants ---- */

static void run_readonly(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    tide_error err;
    const tide_readonly_query query = {.sql = text,
                                       .row_max = ROW_MAX,
                                       .bytes_max = BYTES_MAX,
                                       .timeout_us = TIMEOUT_US,
                                       .columns = ignore_columns,
                                       .row = count_row,
                                       .arg = &c->rows};
    bench_must(tide_readonly_query_run(c->store, &query, &err), &err, text);
}

static void run_sink(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    tide_error err;
    const tide_sink_query query = {.sql = text, .row_max = ROW_MAX, .timeout_us = TIMEOUT_US};
    const tide_sink_rows rows = {.columns = ignore_columns, .row = count_row, .arg = &c->rows};
    bench_must(c->sink->ops->query(c->sink, &query, &rows, &err), &err, text);
}

static void run_process(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    tide_error err;
    const tide_lake_sandbox_query query = {.text = text,
                                           .row_max = ROW_MAX,
                                           .bytes_max = BYTES_MAX,
                                           .timeout_us = TIMEOUT_US,
                                           .columns = ignore_columns,
                                           .row = count_row,
                                           .arg = &c->rows};
    bench_must(tide_query_process_run(c->process, &query, NULL, &err), &err, text);
}

static void run_lake_with(contest *c, tide_lake_data *data)
{
    tide_error err;
    const tide_lake_ask ask = {.text = text,
                               .at = "",
                               .row_max = ROW_MAX,
                               .bytes_max = BYTES_MAX,
                               .timeout_us = TIMEOUT_US,
                               .columns = ignore_columns,
                               .row = count_row,
                               .arg = &c->rows};
    bench_must(tide_lake_query(data, c->lake, &ask, &err), &err, text);
}

static void run_lake(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    run_lake_with(c, c->data);
}

static void run_lake_process(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    run_lake_with(c, c->remote);
}

static void run_duckdb(void *context, int thread, int64_t n)
{
    (void)thread;
    (void)n;
    contest *c = context;
    tide_error err;
    const tide_duck_ask ask = {.text = text,
                               .row_max = ROW_MAX,
                               .bytes_max = BYTES_MAX,
                               .timeout_us = TIMEOUT_US,
                               .columns = ignore_columns,
                               .row = count_row,
                               .arg = &c->rows};
    bench_must(tide_duckdb_ask(c->duckdb, &ask, &err), &err, text);
}

/* ---- rows of the table ---- */

static void open_process(contest *c, const tide_query_target *target)
{
    tide_error err;
    const char *program = getenv("TIDEMARK_PROGRAM");
    const tide_query_process_options options = {.target = *target,
                                                .program = program ? program : "build/tidemark",
                                                .memory_len = MEMORY_LEN,
                                                .cancel_fd = -1};
    bench_must(tide_query_process_open(&c->process, &options, &err), &err, "a query process");
}

typedef struct contestant {
    const char *name;
    bench_step_fn *step;
} contestant;

static void run_contest(contest *c, const char *title, const contestant *inside,
                        const contestant *apart, const contestant *engine,
                        const bench_options *options)
{
    bench_series here = {.name = inside->name};
    bench_series there = {.name = apart->name};
    bench_series bare = {.name = engine ? engine->name : ""};
    apart->step(c, 0, 1); /* the process starts with the first query */
    for (int round = 0; round < options->rounds; round++) {
        bench_add(&there, bench_run(1, options->seconds, apart->step, c));
        bench_add(&here, bench_run(1, options->seconds, inside->step, c));
        if (engine)
            bench_add(&bare, bench_run(1, options->seconds, engine->step, c));
    }
    bench_print_heading(title, "queries/s");
    bench_print_series(&here);
    bench_print_series(&there);
    if (engine)
        bench_print_series(&bare);
    (void)printf("\n");
    bench_print_ratio("warm query process / in process", &there, &here, 0.5);
    if (engine)
        bench_print_ratio("warm query process / engine alone", &there, &bare, 0);
}

static void run_sqlite(contest *c, const bench_options *options)
{
    static const contestant readonly = {"in process", run_readonly};
    static const contestant sink = {"in process, by the colony's sink", run_sink};
    static const contestant apart = {"warm query process", run_process};
    char path[TEMPDIR_PATH_MAX];
    tide_error err;
    tempdir_join(&c->dir, "query.db", path);
    c->store = bench_open_store(path, &c->dir);
    bench_must(tide_sink_open_sql(&c->sink, c->store, &err), &err, "a sink");
    open_process(c, &(tide_query_target){.kind = TIDE_QUERY_SQLITE, .path = path});
    run_contest(c, "SQLite store: SELECT 1", &readonly, &apart, NULL, options);
    run_contest(c, "colony on SQLite: SELECT 1", &sink, &apart, NULL, options);
    tide_query_process_close(c->process);
    tide_sink_close(c->sink);
    tide_store_close(c->store);
}

static void run_lakes(contest *c, const bench_options *options)
{
    static const contestant inside = {"in process", run_lake};
    static const contestant apart = {"warm query process", run_lake_process};
    static const contestant engine = {"DuckDB alone, kept open", run_duckdb};
    char path[TEMPDIR_PATH_MAX];
    char data_dir[TEMPDIR_PATH_MAX];
    tide_error err;
    bool existed = false;
    duckdb_place();
    tempdir_join(&c->dir, "lake.db", path);
    tempdir_join(&c->dir, "lake", data_dir);
    c->store = bench_open_store(path, &c->dir);
    bench_must(tide_lake_init(c->store, data_dir, &existed, &err), &err, "a lake");
    bench_must(tide_lake_open(&c->lake, c->store, &err), &err, "a lake");
    const char *dir = tide_lake_data_dir(c->lake);
    const char *library = getenv("TIDEMARK_DUCKDB");
    open_process(c, &(tide_query_target){.kind = TIDE_QUERY_LAKE, .path = dir, .library = library});
    const tide_lake_data_options remote = {.runner = tide_query_process_runner(c->process),
                                           .is_remote = true};
    bench_must(tide_lake_data_open(&c->data, dir, NULL, &err), &err, "DuckDB");
    bench_must(tide_lake_data_open(&c->remote, dir, &remote, &err), &err, "a runner");
    bench_must(tide_duckdb_open(&c->duckdb, NULL, NULL, &err), &err, "DuckDB");
    run_contest(c, "lake: SELECT 1", &inside, &apart, &engine, options);
    tide_duckdb_close(c->duckdb);
    tide_lake_data_close(c->remote);
    tide_lake_data_close(c->data);
    tide_query_process_close(c->process);
    tide_lake_close(c->lake);
    tide_store_close(c->store);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    tide_error err;
    contest c = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* as a daemon */
    bench_must(tempdir_make(&c.dir, &err), &err, "a directory");
    run_sqlite(&c, &options);
    run_lakes(&c, &options);
    TIDE_IGNORE(tempdir_remove(&c.dir, &err));
    return EXIT_SUCCESS;
}
