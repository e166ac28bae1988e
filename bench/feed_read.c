/* feed_read.c - reading a feed: from the start, and through a filter; beside a DuckDB table of the same spans, paged through by number.
 *
 * Batches of 1,000 spans, pages of 10,000. The filter lets 1 in 100 records pass: once when each batch has one service, so that batches are
 * passed over by their set, and once when every service is in every batch, so that every record is looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/feed.h>

#include "bench.h"
#include "feed_load.h"
#include "raw_duckdb.h"

enum {
    BATCH = 1000,
    SERVICES = 100,
    BATCHES = 500,
    PAGE = 10000,
};

static const double seconds = 1;

typedef struct library {
    tide_store *store;
    tide_feed *feed;
} library;

static library open_library(const tempdir *dir, const char *file)
{
    library l;
    char path[TEMPDIR_PATH_MAX];
    tide_error err;
    tempdir_join(dir, file, path);
    l.store = bench_open_store(path, dir);
    bench_must(tide_feed_open(&l.feed, l.store, NULL, &err), &err, "feed");
    return l;
}

static void close_library(library *l)
{
    tide_feed_close(l->feed);
    tide_store_close(l->store);
}

static void append(library *l, feed_load *load)
{
    tide_error err;
    tide_feed_records records = tide_record_batch_feed(&load->batch, NULL);
    bench_must(tide_feed_commit(l->feed, &records, 1, &err), &err, "commit");
}

/* Reads everything, again and again; returns records looked at per second. */
static double read_all(library *l, const char *service, double length_s)
{
    int64_t scanned = 0;
    const int64_t begin_us = bench_now_us();
    while ((double)(bench_now_us() - begin_us) < length_s * 1e6) {
        tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "telemetry",
                                     .max_records = PAGE, .max_bytes = 32 << 20};
        request.services = service ? &service : NULL;
        request.service_count = service ? 1 : 0;
        bool has_more = true;
        while (has_more) {
            tide_feed_answer answer = {0};
            tide_error err;
            bench_must(tide_feed_read(l->feed, &request, &answer, &err), &err, "read");
            request.start_seq = answer.scanned_through_seq;
            has_more = answer.has_more;
            tide_feed_answer_done(&answer);
        }
        scanned += request.start_seq;
    }
    return (double)scanned / ((double)(bench_now_us() - begin_us) / 1e6);
}

/* Goes on where the last stretch ended: a pass takes longer than a stretch. */
static double read_duckdb(raw_duckdb *db, int64_t *after, double length_s)
{
    int64_t rows = 0;
    const int64_t begin_us = bench_now_us();
    while ((double)(bench_now_us() - begin_us) < length_s * 1e6) {
        const int64_t got = raw_duckdb_page(db, *after, PAGE);
        *after = got > 0 ? *after + got : 0;
        rows += got;
    }
    return (double)rows / ((double)(bench_now_us() - begin_us) / 1e6);
}

static void fill(library *mixed, library *apart, raw_duckdb *db)
{
    feed_load all;
    feed_load_init(&all, BATCH, SERVICES, 0, 1);
    for (int i = 0; i < BATCHES; i++)
        append(mixed, &all);
    for (int i = 0; i < BATCHES; i++) {
        feed_load one;
        feed_load_init(&one, BATCH, 1, i % SERVICES, (uint64_t)i);
        append(apart, &one);
        feed_load_done(&one);
    }
    if (db)
        raw_duckdb_fill(db, &all, BATCHES);
    feed_load_done(&all);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    tide_error err;
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    library mixed = open_library(&dir, "mixed.db");
    library apart = open_library(&dir, "apart.db");
    tempdir_join(&dir, "spans.duckdb", path);
    raw_duckdb *db = raw_duckdb_open(path);
    fill(&mixed, &apart, db);
    (void)printf("DuckDB %s\n", db ? raw_duckdb_version(db) : "is not here: make setup");

    bench_series plain = {.name = "tide_feed_read from the start, pages of 10,000"};
    bench_series table = {.name = "DuckDB, WHERE seq_id > ? ORDER BY seq_id LIMIT 10000"};
    bench_series walked = {.name = "filter of 1 %, every service in every batch"};
    bench_series skipped = {.name = "filter of 1 %, one service per batch"};
    bench_series million = {.name = "1,000,000 records/s"};
    int64_t after = 0;
    for (int round = 0; round < options.rounds; round++) {
        bench_add(&plain, read_all(&mixed, NULL, options.seconds / 2));
        if (db)
            bench_add(&table, read_duckdb(db, &after, options.seconds / 2));
        bench_add(&walked, read_all(&mixed, "service-7", options.seconds / 2));
        bench_add(&skipped, read_all(&apart, "service-7", options.seconds / 2));
        bench_add(&million, 1e6);
    }
    bench_print_heading("Reading 500,000 spans", "records/s, passed over ones included");
    bench_print_series(&plain);
    if (db)
        bench_print_series(&table);
    bench_print_series(&walked);
    bench_print_series(&skipped);
    (void)printf("\n");
    bench_print_ratio("from the start / 1,000,000 records/s", &plain, &million, 1);
    if (db)
        bench_print_ratio("from the start / DuckDB", &plain, &table, 5);
    bench_print_ratio("filter, every service in every batch / no filter", &walked, &plain, 0);
    bench_print_ratio("filter, one service per batch / no filter", &skipped, &plain, 0);

    raw_duckdb_close(db);
    close_library(&mixed);
    close_library(&apart);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
