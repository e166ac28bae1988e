/* feed_writer.h - everything that wants to be stored at one time is stored by one sync.
 *
 * Whoever has records hands them over and is called back when they are durable. One thread takes all that is there,
 * joins what belongs to one stream into one batch, commits all streams in one transaction, and tells everybody their numbers. While it
 * waits for the disk the next group gathers: the slower the disk, the larger the groups.
 *
 *     reserve ---- records are made ---- put ---- queue ---- group ---- tide_feed_commit ---- done(status, numbers) for each
 *     <------------------------ counted against queue_max, until done ------------------------>
 *
 * Records count from when room is reserved for them, or from the put, until they are done. What does not fit is refused (TIDE_E_BUSY)
 * and changes nothing: the caller tells its client to come again. Large requests become several times their length, so whoever makes
 * records of one reserves room before. Large puts share three quarters of the room, and one that is larger than that is taken when no
 * other large one is there: otherwise it would be refused for ever. The last quarter is always for small ones.
 * When a commit of several fails for what may be the fault of one, each is tried alone, so that one cannot spoil it for the others; an unknown outcome is told to all
 * of its group and not tried again, because its records may be there.
 *
 * Threads: put from any; callbacks come from the writer's thread and must not wait.
 * Limits: queue_max bytes (besides one large put) and TIDE_FEED_WRITER_PUTS_MAX puts; a group has at most what one commit takes. */
#pragma once

#include <tidemark/feed.h>

#include "feed/record.h"
#include "runtime/metrics.h"

enum {
    TIDE_FEED_WRITER_PUTS_MAX = 65536,
    TIDE_FEED_WRITER_SMALL_LEN = 1 << 20, /* a put of more is large */
    TIDE_FEED_PUT_STREAMS_MAX = TIDE_STREAM_BUILT_IN_COUNT,
};

#define TIDE_FEED_WRITER_QUEUE_MAX (INT64_C(64) << 20)

typedef struct tide_feed_writer tide_feed_writer;
typedef struct tide_feed_put tide_feed_put;

/* status: TIDE_OK, and the put's records have their numbers; or why not. */
typedef void tide_feed_put_fn(tide_feed_put *put, tide_status status, const tide_error *err);

/* Kept by the caller until done was called. */
struct tide_feed_put {
    tide_feed_records records[TIDE_FEED_PUT_STREAMS_MAX]; /* numbers are filled in */
    int count;
    tide_feed_put_fn *done;
    /* the writer's own */
    tide_feed_put *next;
    size_t len; /* that is counted for it */
    bool is_large;
};

typedef struct tide_feed_writer_options {
    int64_t queue_max;     /* bytes; 0: TIDE_FEED_WRITER_QUEUE_MAX */
    tide_metrics *metrics; /* NULL: not counted */
    /* Told of commits that take long. NULL: none; must outlive the writer. */
    struct tide_store_watch *watch;
} tide_feed_writer_options;

TIDE_MUST_CHECK tide_status tide_feed_writer_open(tide_feed_writer **out, tide_feed *feed,
                                                  tide_env *env,
                                                  const tide_feed_writer_options *options,
                                                  tide_error *err);

/* Stores what was put, then ends. Takes NULL. */
void tide_feed_writer_close(tide_feed_writer *writer);

/* Can records be stored? false: the last groups, several of them, met damage in the store, and none
 * has been stored since; why->text has what the last one met. */
bool tide_feed_writer_is_healthy(tide_feed_writer *writer, tide_error *why);

/* Groups that could not be stored since it was opened, and what the last of them met. */
int64_t tide_feed_writer_failures(tide_feed_writer *writer, tide_error *last);

/* Room for records of len bytes, about: into a zeroed put. TIDE_E_BUSY: there is none. What was reserved is given back by
 * unreserve, or is the put's: it is counted as long as its records are then, and not refused. */
TIDE_MUST_CHECK tide_status tide_feed_writer_reserve(tide_feed_writer *writer, tide_feed_put *put,
                                                     size_t len, tide_error *err);
void tide_feed_writer_unreserve(tide_feed_writer *writer, tide_feed_put *put);

/* A put without records is done at once. TIDE_E_BUSY: no room, done is not called, and nothing is reserved. */
TIDE_MUST_CHECK tide_status tide_feed_writer_put(tide_feed_writer *writer, tide_feed_put *put,
                                                 tide_error *err);
