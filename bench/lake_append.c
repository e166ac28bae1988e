/* lake_append.c - what field ids, statistics, checks and syncs cost: rows into a lake's Parquet files beside DuckDB's own COPY of the same rows.
 *
 * Both read the same source with the same number of threads and write Parquet with DuckDB's defaults. Ours also looks at the source's columns, gives
 * field ids, reads the statistics of every column, begins new files beyond 128 MiB, and syncs files and directory before it tells of them;
 * DuckDB's COPY syncs nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "bench.h"
#include "lake/data.h"

#include "colony/duckdb/duckdb_place.h"

typedef struct contest {
    tempdir dir;
    char data_dir[TEMPDIR_PATH_MAX];
    char source[TEMPDIR_PATH_MAX];
    char target[TEMPDIR_PATH_MAX];
    tide_lake_data *data;
    tide_duckdb *db;
    tide_duck *duck;
    tide_lake_column columns[5];
    tide_lake_table_seen table;
} contest;

static const struct {
    const char *name;
    const char *type;
} shape[] = {{"id", "int64"},
             {"name", "varchar"},
             {"price", "float64"},
             {"at", "timestamptz"},
             {"bucket", "int32"}};
static const char rows_sql[] =
    "SELECT range AS id, 'name ' || (range * 7919) %% 100003 AS name, hash(range) / 1e9 AS price, "
    "TIMESTAMPTZ '2024-01-01' + to_microseconds(range * 1000) AS at, (range %% 1000)::INTEGER AS "
    "bucket "
    "FROM range(%d)";

static void make_table(contest *c)
{
    c->table = (tide_lake_table_seen){.columns = c->columns, .column_count = 5};
    (void)snprintf(c->table.table.name, sizeof c->table.table.name, "t");
    (void)snprintf(c->table.table.path, sizeof c->table.table.path, "main/t/");
    for (int i = 0; i < 5; i++) {
        tide_lake_column *column = &c->columns[i];
        *column = (tide_lake_column){.id = i + 1, .nulls_allowed = true};
        (void)snprintf(column->name, sizeof column->name, "%s", shape[i].name);
        (void)snprintf(column->type, sizeof column->type, "%s", shape[i].type);
        (void)snprintf(column->initial_default, sizeof column->initial_default, "NULL");
        (void)snprintf(column->default_value, sizeof column->default_value, "NULL");
    }
}

static void run_text(contest *c, const char *text)
{
    tide_error err;
    tide_duck_query *query = NULL;
    bench_must(tide_duck_query_begin_made(&query, c->duck, "bench", text, &err), &err,
               "a statement");
    bench_must(tide_duck_query_run(query, NULL, &err), &err, "a statement");
    tide_duck_query_end(query);
}

static void make_source(contest *c, const char *end, int rows)
{
    char select[1024];
    char text[4096];
    char name[64];
    (void)snprintf(name, sizeof name, "source%s", end);
    tempdir_join(&c->dir, name, c->source);
    (void)snprintf(select, sizeof select, rows_sql, rows);
    (void)snprintf(text, sizeof text, "COPY (%s) TO '%s'", select, c->source);
    run_text(c, text);
}

static double write_ours(contest *c, int rows)
{
    tide_error err;
    tide_lake_written written;
    const int64_t began = bench_now_us();
    bench_must(
        tide_lake_write_rows(c->data, &c->table, c->source, TIDE_LAKE_BY_NAME, &written, &err),
        &err, "appending");
    const double rate = rows / ((double)(bench_now_us() - began) / 1e6);
    if (written.rows != rows)
        bench_die("%lld rows of %d were written", (long long)written.rows, rows);
    tide_lake_written_discard(c->data, &c->table.table, &written);
    tide_lake_written_done(&written);
    return rate;
}

static double copy_theirs(contest *c, int rows)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "COPY (SELECT * FROM '%s') TO '%s' (FORMAT parquet)",
                   c->source, c->target);
    const int64_t began = bench_now_us();
    run_text(c, text);
    const double rate = rows / ((double)(bench_now_us() - began) / 1e6);
    (void)unlink(c->target);
    return rate;
}

static void compare(contest *c, const bench_options *options, const char *end, int rows,
                    double expected)
{
    bench_series ours = {.name = "tide_lake_write_rows, synced"};
    bench_series theirs = {.name = "DuckDB's COPY, not synced"};
    make_source(c, end, rows);
    (void)write_ours(c, rows); /* the source is in memory for both */
    for (int round = 0; round < options->rounds; round++) {
        bench_add(&ours, write_ours(c, rows));
        bench_add(&theirs, copy_theirs(c, rows));
    }
    char title[128];
    (void)snprintf(title, sizeof title, "%d rows of 5 columns from %s", rows, end);
    bench_print_heading(title, "rows/s");
    bench_print_series(&ours);
    bench_print_series(&theirs);
    (void)printf("\n");
    bench_print_ratio("append / COPY", &ours, &theirs, expected);
    (void)unlink(c->source);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    const int share = options.seconds < 0.5 ? 10 : 1; /* --quick */
    tide_error err;
    contest c = {0};
    duckdb_place();
    bench_must(tempdir_make(&c.dir, &err), &err, "a directory");
    tempdir_join(&c.dir, "data", c.data_dir);
    tempdir_join(&c.dir, "target.parquet", c.target);
    (void)mkdir(c.data_dir, 0777);
    const tide_lake_data_options lake = {.threads = 2};
    const tide_duckdb_options raw = {.threads = 2, .may_touch_files = true, .keeps_order = true};
    bench_must(tide_lake_data_open(&c.data, c.data_dir, &lake, &err), &err, "the lake's files");
    bench_must(tide_duckdb_open(&c.db, NULL, &raw, &err), &err, "DuckDB");
    bench_must(tide_duck_connect(&c.duck, c.db, &err), &err, "DuckDB");
    make_table(&c);
    compare(&c, &options, ".parquet", 5000000 / share, 0.8);
    compare(&c, &options, ".csv", 2000000 / share, 0.8);
    compare(&c, &options, ".parquet", 1000, 0);
    tide_duck_close(c.duck);
    tide_duckdb_close(c.db);
    tide_lake_data_close(c.data);
    TIDE_IGNORE(tempdir_remove(&c.dir, &err));
    return EXIT_SUCCESS;
}
