/* feed.h - streams of numbered records, kept until they were read or are too old.
 *
 * A stream is a sequence and the records that carry its numbers. Records are written in batches: one commit of one
 * stream is one row, whose body is the records as they will be answered. So a read copies bytes. A record is encoded
 * before it is numbered (record.h): its seq_id is the first field, padded to ten bytes, and is patched by the commit.
 *
 *     number      1 ........ floor ...................... head
 *                 dropped,   oldest                        highest given
 *                 receipts   (holes in between: damaged, with receipts)
 *
 * d(n) = XXH3-128(d(n-1), record n) chains a stream's records (d(0) = 0): two histories that share a number and a digest share
 * everything below. A batch stores d at its last number.
 *
 * A reader with a name keeps its unread records from being dropped, up to the hard cap and until it was idle too
 * long. What is dropped unread, or found damaged, leaves a receipt in the stream `loss_receipts` and is a hole for ever.
 *
 * Survives: a crash at any point. Records are there when tide_feed_commit has returned, in order, under their
 * numbers; a number is never used twice, also when its record never became durable.
 * Threads: a tide_feed is safe from any thread.
 * Engines: SQLite. Others: TIDE_E_UNSUPPORTED. */
#ifndef TIDEMARK_FEED_H
#define TIDEMARK_FEED_H

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_FEED_NAME_MAX = 64,
    TIDE_FEED_STREAMS_MAX = 256,
    TIDE_FEED_RECORD_MAX = 4 << 20, /* bytes of one record */
    TIDE_FEED_BATCH_RECORDS_MAX = 65536,
    TIDE_FEED_BATCH_BYTES_MAX = 16 << 20,
    TIDE_FEED_PAGE_RECORDS_MAX = 50000,
    TIDE_FEED_POINTS_MAX = 32,
    TIDE_FEED_DIGEST_SIZE = 16,
    TIDE_FEED_READER_MAX = 128,
};

typedef struct tide_feed tide_feed;

typedef struct tide_feed_options {
    int64_t keep_us; /* by arrival; 1 h */
    int64_t
        keep_bytes; /* of all streams; 1 GiB; unread records are kept beyond it up to hard_bytes */
    int64_t hard_bytes;     /* 4 GiB */
    int64_t hard_us;        /* unread records are dropped after so long all the same; 24 h */
    int64_t reader_idle_us; /* readers are forgotten after so long; 24 h */
    int64_t reserve_bytes;  /* kept free in the file, so that receipts fit on a full disk; 1 MiB */
    const char *codec;      /* "lz4" (default), "zstd", "none" */
} tide_feed_options;

/* The store stays the caller's and outlives the feed. Options may be NULL. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_open(tide_feed **out, tide_store *store,
                                                    const tide_feed_options *options,
                                                    tide_error *err);
TIDE_API void tide_feed_close(tide_feed *feed);
TIDE_API void tide_feed_closep(tide_feed **feed);

/* ---- writing ---- */

/* Encoded records of one stream, one behind the other (record.h). */
typedef struct tide_feed_records {
    const char *stream;
    char *bytes; /* the commit patches numbers in them */
    size_t len;
    int count;
    int64_t min_time_ms; /* of the records */
    int64_t max_time_ms;
    tide_view
        services; /* the set of service names, each with a terminating NUL; empty: not known */
    /* out */
    int64_t first_seq;
    int64_t last_seq;
} tide_feed_records;

/* Number and store records of several streams in one durable transaction, all or nothing; each stream at most once.
 * A declared or built-in stream: others are TIDE_E_NOT_FOUND. TIDE_E_FULL: no room; nothing was written.
 * TIDE_E_OUTCOME_UNKNOWN: they may be there. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_commit(tide_feed *feed, tide_feed_records *records,
                                                      int count, tide_error *err);

/* Declare a stream of opaque records. Declaring it again is fine. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_declare(tide_feed *feed, const char *stream,
                                                       tide_error *err);

/* ---- reading ---- */

typedef struct tide_feed_point {
    int64_t seq;
    int64_t epoch;
    unsigned char digest[TIDE_FEED_DIGEST_SIZE];
} tide_feed_point;

typedef struct tide_feed_request {
    const char *stream;
    int64_t start_seq;     /* records with a number above it */
    int64_t last_seq;      /* bounded range: and not above this one; 0: no bound */
    int64_t start_time_ms; /* by time: records with start <= time < end; both 0: by sequence */
    int64_t end_time_ms;
    int64_t max_records; /* <= 0: the stream's page; clamped to TIDE_FEED_PAGE_RECORDS_MAX */
    int64_t max_bytes;   /* of records; 0: 4 MiB; the first record is always given */
    const char *const
        *services; /* only records of these; matched against the stream's service column */
    int service_count;
    const char *session; /* NULL: any; another than the store's: TIDE_E_CONFLICT */
    const tide_feed_point *points;
    int point_count;
    const char *reader;  /* NULL: nobody's; start_seq is what this reader has settled */
    int64_t lease_token; /* lower than seen before from this reader: TIDE_E_LEASE_LOST */
} tide_feed_request;

typedef struct tide_feed_hole {
    int64_t first_seq;
    int64_t last_seq;
    const char *reason; /* expired, evicted, damaged, lost; static */
} tide_feed_hole;

typedef enum tide_feed_standing {
    TIDE_FEED_STANDING_NONE, /* no points were shown */
    TIDE_FEED_STANDING_OK,
    TIDE_FEED_STANDING_DIVERGED,
    TIDE_FEED_STANDING_UNKNOWN,
} tide_feed_standing;

typedef struct tide_feed_answer {
    char *bytes; /* records as they were encoded, one behind the other */
    size_t len;
    int64_t count;
    int64_t max_seq; /* 0: none */
    char session[37];
    char epoch_id[37];
    int64_t epoch;
    int64_t epoch_first_seq;
    int64_t oldest_seq;
    int64_t stable_seq;
    int64_t head_seq;
    int64_t scanned_through_seq;
    tide_feed_hole
        *holes; /* between start and scanned_through, joined, at most TIDE_FEED_HOLES_MAX: then
                            * scanned_through ends at the last one */
    int hole_count;
    unsigned char chain[TIDE_FEED_DIGEST_SIZE]; /* at scanned_through */
    bool has_more;
    int64_t next_arrived_us; /* of the first record behind scanned_through; 0: none */
    int64_t head_arrived_us;
    int64_t filtered;
    tide_feed_standing standing;
    int64_t matched_seq;
} tide_feed_answer;

/* One page. A damaged batch is skipped, with a receipt, and is a hole of the answer. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_read(tide_feed *feed,
                                                    const tide_feed_request *request,
                                                    tide_feed_answer *answer, tide_error *err);
TIDE_API void tide_feed_answer_done(tide_feed_answer *answer);

/* ---- looking after ---- */

/* One bounded turn of retention: drops what is too old or too much, forgets idle readers, writes receipts. *next_us: when
 * it wants to run again, from now. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_step(tide_feed *feed, int64_t *next_us,
                                                    tide_error *err);

TIDE_END_DECLS

#endif
