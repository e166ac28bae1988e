/* feed.c - the records of an agent's store, straight from its file, as lines of JSON.
 *
 *     feed STORE STREAM POSITION_FILE          what is new in a stream: telemetry, logs, system_metrics, ...
 *
 *     cc feed.c position.c $(pkg-config --cflags --libs tidemark) -o feed
 *     ./feed agent.db telemetry position
 *
 * The agent may be at work meanwhile. To read over the network, and to keep what was not read from being dropped: telemetry.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "position.h"

static tide_status say_line(void *arg, tide_view line, tide_error *err)
{
    (void)arg;
    (void)err;
    printf("%.*s\n", (int)line.len, line.ptr);
    return TIDE_OK;
}

/* Lines behind the position, up to the head of this moment: a reader that has seen n has seen everything below n. */
static tide_status read_new(tide_feed *feed, const char *name, const char *path, tide_error *err)
{
    int64_t position;
    tide_feed_stream stream;
    position_load(path, &position, 1);
    TIDE_TRY(tide_feed_show(feed, name, &stream, err));
    if (stream.oldest_seq > position + 1) /* dropped by retention: told, not passed over */
        (void)fprintf(stderr, "%" PRId64 "..%" PRId64 " are gone\n", position + 1,
                      stream.oldest_seq - 1);
    if (stream.head_seq > position)
        TIDE_TRY(tide_feed_dump(feed,
                                &(tide_feed_dump_request){TIDE_FEED_DUMP_REQUEST_INIT,
                                                          .stream = name, .first_seq = position + 1,
                                                          .last_seq = stream.head_seq},
                                say_line, NULL, err));
    return position_save(path, &stream.head_seq, 1, err);
}

int main(int argc, char **argv)
{
    tide_error err = {0};
    tide_store *store = NULL;
    tide_feed *feed = NULL;
    const tide_store_options look_only = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_AS_IS};
    if (argc != 4) {
        (void)fputs("feed STORE STREAM POSITION_FILE\n", stderr);
        return TIDE_EXIT_USAGE;
    }
    tide_status status = tide_store_open(&store, argv[1], &look_only, &err);
    if (status == TIDE_OK)
        status = tide_feed_open(&feed, store, NULL, &err);
    if (status == TIDE_OK)
        status = read_new(feed, argv[2], argv[3], &err);
    tide_feed_close(feed);
    tide_store_close(store);
    if (status < TIDE_OK)
        (void)fprintf(stderr, "%s: %s\n", err.text, tide_status_get(status)->next);
    return (int)tide_status_get(status)->exit_code;
}
