/* feed_read.c - reading a feed: from the start, through a filter, and whether the cost of a record stays the same as records
 * become many.
 *
 * Batches of 1,000 spans, pages of 10,000. The filter lets 1 in 100 records pass: once when each batch has one service, so that batches are
 * passed over by their set, and once when every service is in every batch, so that every record is looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/feed.h>

#include "bench.h"
#include "feed_load.h"

enum {
    BATCH = 1000,
    SERVICES = 100,
    READ_BATCHES = 500,
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

/* Reads everything; returns records looked at per second. */
static double read_all(library *l, const char *service, double length_s)
{
    int64_t scanned = 0;
    const int64_t begin_us = bench_now_us();
    while ((double)(bench_now_us() - begin_us) < length_s * 1e6) {
        tide_feed_request request = {.stream = "telemetry", .max_bytes = 32 << 20};
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

static void bench_reading(const bench_options *options, const tempdir *dir)
{
    library mixed = open_library(dir, "mixed.db");
    library apart = open_library(dir, "apart.db");
    feed_load all;
    feed_load_init(&all, BATCH, SERVICES, 0, 1);
    for (int i = 0; i < READ_BATCHES; i++)
        append(&mixed, &all);
    for (int i = 0; i < READ_BATCHES; i++) {
        feed_load one;
        feed_load_init(&one, BATCH, 1, i % SERVICES, (uint64_t)i);
        append(&apart, &one);
        feed_load_done(&one);
    }
    bench_series plain = {.name = "from the start, pages of 10,000"};
    bench_series walked = {.name = "filter of 1 %, every service in every batch"};
    bench_series skipped = {.name = "filter of 1 %, one service per batch"};
    for (int round = 0; round < options->rounds; round++) {
        bench_add(&plain, read_all(&mixed, NULL, options->seconds / 3));
        bench_add(&walked, read_all(&mixed, "service-7", options->seconds / 3));
        bench_add(&skipped, read_all(&apart, "service-7", options->seconds / 3));
    }
    bench_print_heading("Reading 500,000 spans", "records/s, passed over ones included");
    bench_print_series(&plain);
    bench_print_series(&walked);
    bench_print_series(&skipped);
    bench_series million = {.name = "1,000,000 records/s"};
    for (int i = 0; i < plain.count; i++)
        bench_add(&million, 1e6);
    (void)printf("\n");
    bench_print_ratio("from the start / 1,000,000 records/s", &plain, &million, 1);
    bench_print_ratio("filter, one service per batch / every service in every batch", &skipped,
                      &walked, 0);
    feed_load_done(&all);
    close_library(&mixed);
    close_library(&apart);
}

/* The last tenth of each decade, in nanoseconds per record; and a page at its end. */
static void bench_scale(const tempdir *dir, bool is_quick)
{
    const char *soak = getenv("TIDEMARK_SOAK");
    const int64_t most = is_quick ? 1000000 : soak && *soak ? 100000000 : 10000000;
    library l = open_library(dir, "scale.db");
    feed_load load;
    feed_load_init(&load, 10000, SERVICES, 0, 1);
    (void)printf("\nCost as records become many (10,000 per sync)\n");
    int64_t stored = 0;
    for (int64_t decade = 100000; decade <= most; decade *= 10) {
        int64_t begin_us = bench_now_us();
        int64_t from = stored;
        while (stored < decade) {
            if (stored < decade - decade / 10) {
                begin_us = bench_now_us();
                from = stored;
            }
            append(&l, &load);
            stored += load.count;
        }
        const double append_ns =
            (double)(bench_now_us() - begin_us) * 1000 / (double)(stored - from);
        tide_feed_request request = {.stream = "telemetry", .start_seq = stored - 10000};
        begin_us = bench_now_us();
        for (int i = 0; i < 20; i++) {
            tide_feed_answer answer = {0};
            tide_error err;
            bench_must(tide_feed_read(l.feed, &request, &answer, &err), &err, "read");
            tide_feed_answer_done(&answer);
        }
        const double read_ns = (double)(bench_now_us() - begin_us) * 1000 / (20 * 10000.0);
        (void)printf("  %10lld records: append %.0f ns, read at the head %.0f ns per record\n",
                     (long long)stored, append_ns, read_ns);
    }
    feed_load_done(&load);
    close_library(&l);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, seconds);
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    bench_reading(&options, &dir);
    bench_scale(&dir, argc > 1 && strcmp(argv[1], "--quick") == 0);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
