/* feed_writer.c - a process that appends to a feed until it is killed: URL STATE_DIR HISTORY CYCLE CHILD. See
 * feed_load.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/feed.h>
#include <tidemark/store.h>

#include "crash/feed_load.h"
#include "support/history.h"

static int report(const char *what, const tide_error *err)
{
    (void)fprintf(stderr, "feed-writer: %s: %s\n", what, err->text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return EXIT_FAILURE;
    const int64_t cycle = strtoll(argv[4], NULL, 10);
    const int64_t child = strtoll(argv[5], NULL, 10);
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = argv[2]};
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    tide_error err;
    if (tide_store_open(&store, argv[1], &options, &err) < TIDE_OK)
        return report("open", &err);
    if (tide_feed_open(&feed, store, NULL, &err) < TIDE_OK)
        return report("feed", &err);
    const feed_load_history history = {
        .fd = history_open(argv[3]), .sequence = "logs", .is_announced = true};
    for (int64_t n = 1;; n++) {
        int64_t first = 0;
        int64_t next_us = 0;
        if (feed_load_commit(feed, &history, cycle, child, n, &first, &err) < TIDE_OK)
            return report("commit", &err);
        (void)printf("ack %" PRId64 "\n", first);
        (void)fflush(stdout);
        if (n % 16 == 0 && tide_feed_step(feed, &next_us, &err) < TIDE_OK)
            return report("step", &err);
    }
}
