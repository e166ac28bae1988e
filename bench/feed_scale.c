/* feed_scale.c - does a record cost the same when there are many? Appended and read at 10^5, 10^6, 10^7 records; 10^8 with `--long`.
 *
 * 10,000 spans per sync, nothing is dropped. At each decade: what the next 500,000 take (several checkpoints of the log are among them), and
 * pages of 10,000 read at the start, in the middle and at the head. The disk changes its pace: beside the appends stands a stretch of
 * write + fdatasync of the same bytes, taken right behind them. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/feed.h>

#include "bench.h"
#include "feed_load.h"

enum {
    BATCH = 10000,
    PAGES = 40,    /* read at each place */
    MEASURED = 50, /* commits */
    KEPT_LEN = 256 << 20,
};

static const int64_t first = 100000;
static const int64_t most = 10000000;
static const int64_t most_long = 100000000;

typedef struct library {
    tide_store *store;
    tide_feed *feed;
} library;

/* Nanoseconds per record: by the clock, and of processor time, which others on the machine disturb less. */
typedef struct cost {
    double wall_ns;
    double cpu_ns;
} cost;

typedef struct costs {
    cost append;
    cost plain;
    cost start;
    cost middle;
    cost head;
} costs;

typedef struct stopwatch {
    int64_t wall_us;
    int64_t cpu_us;
} stopwatch;

static int64_t read_cpu_us(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static stopwatch begin_cost(void)
{
    return (stopwatch){.wall_us = bench_now_us(), .cpu_us = read_cpu_us()};
}

static cost end_cost(stopwatch begun, int64_t records)
{
    return (cost){.wall_ns = (double)(bench_now_us() - begun.wall_us) * 1000 / (double)records,
                  .cpu_ns = (double)(read_cpu_us() - begun.cpu_us) * 1000 / (double)records};
}

static library open_library(const tempdir *dir)
{
    library l;
    char path[TEMPDIR_PATH_MAX];
    tide_error err;
    tempdir_join(dir, "scale.db", path);
    l.store = bench_open_store(path, dir);
    const tide_feed_options options = {TIDE_FEED_OPTIONS_INIT, .keep_bytes = INT64_C(1) << 40,
                                       .hard_bytes = INT64_C(1) << 40};
    bench_must(tide_feed_open(&l.feed, l.store, &options, &err), &err, "feed");
    return l;
}

static void append(const library *l, feed_load *load)
{
    tide_error err;
    tide_feed_records records = tide_record_batch_feed(&load->batch, NULL);
    bench_must(tide_feed_commit(l->feed, &records, 1, &err), &err, "commit");
}

static cost append_some(const library *l, feed_load *load, int64_t commits)
{
    const stopwatch begun = begin_cost();
    for (int64_t i = 0; i < commits; i++)
        append(l, load);
    return end_cost(begun, commits * load->count);
}

static cost write_plainly(const tempdir *dir, const feed_load *load)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(dir, "plain", path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const size_t len = load->batch.bytes.len;
    const stopwatch begun = begin_cost();
    for (int i = 0; i < MEASURED; i++)
        if (write(fd, load->batch.bytes.ptr, len) != (ssize_t)len || fdatasync(fd) != 0)
            bench_die("cannot write and sync a plain file");
    const cost found = end_cost(begun, (int64_t)MEASURED * load->count);
    (void)close(fd);
    return found;
}

static cost read_at(const library *l, int64_t after, int64_t last)
{
    int64_t records = 0;
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = "telemetry",
                                 .max_bytes = 32 << 20};
    const stopwatch begun = begin_cost();
    for (int i = 0; i < PAGES; i++) {
        tide_feed_answer answer = {0};
        tide_error err;
        if (request.start_seq < after || request.start_seq >= last)
            request.start_seq = after;
        bench_must(tide_feed_read(l->feed, &request, &answer, &err), &err, "read");
        records += answer.count;
        request.start_seq = answer.scanned_through_seq;
        tide_feed_answer_done(&answer);
    }
    return end_cost(begun, records);
}

static void print_costs(const char *what, const costs *c)
{
    const cost all[] = {c->append, c->plain, c->start, c->middle, c->head};
    (void)printf("  %12s", what);
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
        (void)printf("    %6.0f %6.0f", all[i].wall_ns, all[i].cpu_ns);
    (void)printf("\n");
    (void)fflush(stdout);
}

static void print_growth(const char *what, cost begin, cost end)
{
    (void)printf("growth of %s from the first decade to the last: %.2f, in processor time %.2f\n",
                 what, end.wall_ns / begin.wall_ns, end.cpu_ns / begin.cpu_ns);
}

int main(int argc, char **argv)
{
    int64_t target = most;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            target = most / 10;
        else if (strcmp(argv[i], "--long") == 0)
            target = most_long;
        else
            bench_die("usage: %s [--quick|--long]", argv[0]);
    }
    /* The allocator learns with time to keep large blocks: let it know from the beginning, or decades differ by that. */
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_LEN);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_LEN);
    tide_error err;
    tempdir dir;
    bench_must(tempdir_make(&dir, &err), &err, "a directory");
    library l = open_library(&dir);
    feed_load load;
    feed_load_init(&load, BATCH, 100, 0, 1);
    (void)printf("\nCost as records become many, %d per sync: nanoseconds per record, and of "
                 "processor time\n",
                 BATCH);
    (void)printf("  %12s    %13s    %13s    %13s    %13s    %13s\n", "records", "append",
                 "write, sync", "first pages", "middle", "head");
    costs begin = {0};
    costs now = {0};
    int64_t stored = 0;
    for (int64_t decade = first; decade <= target; decade *= 10) {
        (void)append_some(&l, &load, (decade - stored) / BATCH);
        now.append = append_some(&l, &load, MEASURED);
        stored = decade + (int64_t)MEASURED * BATCH;
        now.plain = write_plainly(&dir, &load);
        (void)read_at(&l, 0, stored); /* warms memory and file */
        now.start = read_at(&l, 0, stored);
        now.middle = read_at(&l, stored / 2, stored);
        now.head = read_at(&l, stored - BATCH, stored);
        char name[32];
        (void)snprintf(name, sizeof name, "%lld", (long long)decade);
        print_costs(name, &now);
        if (decade == first)
            begin = now;
    }
    (void)printf("\n");
    print_growth("an append", begin.append, now.append);
    print_growth("a plain write", begin.plain, now.plain);
    print_growth("a read at the start", begin.start, now.start);
    print_growth("a read in the middle", begin.middle, now.middle);
    print_growth("a read at the head", begin.head, now.head);
    feed_load_done(&load);
    tide_feed_close(l.feed);
    tide_store_close(l.store);
    TIDE_IGNORE(tempdir_remove(&dir, &err));
    return EXIT_SUCCESS;
}
