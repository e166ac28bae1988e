/* feed.h - streams of numbered records, kept until they were read or are too old.
 *
 * A stream is a sequence and the records that carry its numbers. Records are written in batches:
 * one commit of one stream is one row, whose body is the records as they will be answered. So a
 * read copies bytes. A record is encoded before it is numbered (tide_feed_records): its seq_id is
 * the first field, padded to ten bytes, and is patched by the commit.
 *
 *     number      1 ........ floor ...................... head
 *                 dropped,   oldest                        highest given
 *                 receipts   (holes in between: damaged, with receipts)
 *
 * d(n) = XXH3-128(d(n-1), record n) chains a stream's records (d(0) = 0): two histories that share
 * a number and a digest share everything below. A batch stores d at its last number, and before its
 * first.
 *
 * A reader with a name keeps its unread records from being dropped, up to the hard caps and until
 * it was idle too long. What is dropped unread, or found damaged, leaves a receipt in the stream
 * `loss_receipts` and is a hole for ever. Records that everybody has read, or that nobody reads, go
 * without a receipt when they are too old or too many.
 *
 * Time: records have times of their own, which nobody trusts; retention goes by arrival, on the
 * clock of leases (lease.h), which setting the wall clock does not move. Beside the numbers arrival
 * does not go back, but for a boot whose clock was found to have been minutes ahead: records that
 * came with such a stamp are reckoned from when retention first saw them.
 *
 * Counters: the streams' sequences are those of sequence.h (seq_otel_spans, ...). They can be read
 * there, and refuse to be taken from there.
 *
 * Survives: a crash at any point. Records are there when tide_feed_commit has returned, in order,
 * under their numbers; a number is never used twice, also when its record never became durable. A
 * damaged batch costs its own records and nobody else's.
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
    TIDE_FEED_COMMIT_STREAMS_MAX = 32, /* of one commit */
    TIDE_FEED_COMMIT_RECORDS_MAX = 4 << 20,
    TIDE_FEED_COMMIT_BYTES_MAX = 128 << 20,
    TIDE_FEED_PAGE_RECORDS_MAX = 50000,
    TIDE_FEED_PAGE_BYTES_DEFAULT = 4 << 20,
    TIDE_FEED_PAGE_BYTES_MAX = 32 << 20,
    TIDE_FEED_SCAN_BYTES_MAX = 64 << 20, /* that one read looks through for a filter */
    TIDE_FEED_SERVICES_MAX = 256,        /* names of one filter */
    TIDE_FEED_POINTS_MAX = 32,
    TIDE_FEED_EPOCHS_MAX = 64,  /* of one answer */
    TIDE_FEED_HOLES_MAX = 1024, /* of one answer */
    TIDE_FEED_DIGEST_SIZE = 16,
    TIDE_FEED_READER_MAX = 128,  /* bytes of a name */
    TIDE_FEED_READERS_MAX = 256, /* of one stream */
    TIDE_FEED_FRAMES_MAX = 1000000,
    TIDE_FEED_FRAME_NAME_MAX = 65536, /* bytes of a frame's name */
    TIDE_FEED_BINARIES_MAX = 10000,
};

typedef struct tide_feed tide_feed;

/* Zero means the default everywhere. */
typedef struct tide_feed_options {
    size_t size;            /* TIDE_FEED_OPTIONS_INIT */
    int64_t keep_us;        /* by arrival; 1 h. Receipts are kept for hard_us */
    int64_t keep_bytes;     /* of all streams; 1 GiB; unread records are kept beyond it */
    int64_t hard_bytes;     /* unread records are dropped beyond it all the same; 4 GiB */
    int64_t hard_us;        /* and after so long; 24 h */
    int64_t reader_idle_us; /* readers are forgotten after so long; 24 h */
    /* kept beside the file, so that receipts fit on a full disk; 1 MiB; -1: none. With 16 MiB, or
     * more than half of what the disk has, the log can be emptied on a full disk whatever it
     * holds */
    int64_t reserve_bytes;
    const char *codec; /* "lz4" (default), "zstd", "none" */
    /* Told of losses once they are noted, on the thread that noted them; NULL: nobody. reason is
     * static. */
    void (*on_loss)(void *arg, const char *stream, const char *reason, int64_t records);
    void *on_loss_arg;
} tide_feed_options;
#define TIDE_FEED_OPTIONS_INIT .size = sizeof(tide_feed_options)

/* The store stays the caller's and outlives the feed. Options may be NULL. A counter that stands
 * below a sound batch of its stream is raised (unless the store is opened as it is): no number is
 * given twice.
 * TIDE_E_UNSUPPORTED: not on SQLite. TIDE_E_INVALID: an unknown codec, a hard cap below its soft
 * one. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_open(tide_feed **out, tide_store *store,
                                                    const tide_feed_options *options,
                                                    tide_error *err);
TIDE_API void tide_feed_close(tide_feed *feed);
TIDE_API void tide_feed_closep(tide_feed **feed);
TIDE_API tide_store *tide_feed_store(const tide_feed *feed);
/* With the defaults filled in. Borrowed until close. */
TIDE_API const tide_feed_options *tide_feed_get_options(const tide_feed *feed);

/* What this feed has done since it was opened; every number only rises. */
typedef struct tide_feed_counters {
    int64_t commits;
    int64_t records;
    int64_t raw_bytes;
    int64_t stored_bytes;
    int64_t redone;   /* batches that were numbered again inside the transaction */
    int64_t damaged;  /* batches found damaged */
    int64_t receipts; /* written */
    int64_t dropped;  /* batches, by retention */
    int64_t raised;   /* streams whose counter stood below their batches when it was opened */
} tide_feed_counters;
TIDE_API void tide_feed_count(const tide_feed *feed, tide_feed_counters *out);

/* ---- writing ---- */

/* Encoded records of one stream, one behind the other. Of a declared (opaque) stream each is
 *
 *     0a LEN   20 80 80 80 80 80 80 80 80 80 00   [08 TIME]   12 LEN DATA
 *
 * with lengths and the time (Unix ms) as protobuf varints; the eleven bytes behind the first length
 * are the place of the number. Built-in streams: the messages of tidemark.agent.v1, with seq_id
 * first and padded in the same way. */
typedef struct tide_feed_records {
    size_t size; /* TIDE_FEED_RECORDS_INIT */
    const char *stream;
    char *bytes; /* the commit patches numbers in them */
    size_t len;
    int count;
    int64_t min_time_ms; /* of the records */
    int64_t max_time_ms;
    tide_view services; /* the set of names, each with a terminating NUL; empty: not known */
    /* out */
    int64_t first_seq;
    int64_t last_seq;
} tide_feed_records;
#define TIDE_FEED_RECORDS_INIT .size = sizeof(tide_feed_records)

/* Number and store records of several streams in one durable transaction, all or nothing; each
 * stream at most once. More records of a stream than a batch takes (TIDE_FEED_BATCH_*) become
 * several batches, and have numbers without a gap. Who watches tide_feed_topic is told.
 * TIDE_E_NOT_FOUND: a stream that is neither built in nor declared. TIDE_E_INVALID: no records, a
 * stream twice, bytes that are not records. TIDE_E_LIMIT: too many records or bytes. TIDE_E_FULL:
 * no room on the disk, or the reserve has yet to be built up again (tide_feed_step does), or
 * retention is far behind hard_bytes; nothing was written, try again later. TIDE_E_OUTCOME_UNKNOWN:
 * they may be there. Whoever cannot look (head_seq before and after) says so to its client, which
 * sends again and may have them twice, under two numbers; nothing is lost. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_commit(tide_feed *feed, tide_feed_records *records,
                                                      int count, tide_error *err);

/* Declare a stream of opaque records. Declaring it again is fine. TIDE_E_INVALID: not a name.
 * TIDE_E_EXISTS: a built-in stream, or its sequence is used by somebody. TIDE_E_LIMIT:
 * TIDE_FEED_STREAMS_MAX. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_declare(tide_feed *feed, const char *stream,
                                                       tide_error *err);

/* Every commit notifies this topic (watch.h), whichever streams it wrote to. */
#define TIDE_FEED_TOPIC "feed"

/* ---- reading ---- */

typedef struct tide_feed_point {
    int64_t seq;
    int64_t epoch; /* 0: not known */
    unsigned char digest[TIDE_FEED_DIGEST_SIZE];
} tide_feed_point;

typedef struct tide_feed_request {
    size_t size; /* TIDE_FEED_REQUEST_INIT */
    const char *stream;
    int64_t start_seq; /* records with a number above it */
    int64_t last_seq;  /* bounded range: and not above this one; 0: no bound */
    /* by time: records with start <= time < end; both 0: by sequence alone */
    int64_t start_time_ms;
    int64_t end_time_ms;
    int64_t max_records; /* <= 0: the stream's page; clamped to TIDE_FEED_PAGE_RECORDS_MAX */
    /* of records; <= 0: 4 MiB; clamped to 32 MiB; the first record is always given */
    int64_t max_bytes;
    /* Only records whose service is one of these (system_metrics: whose metric_name). */
    const char *const *services;
    int service_count;
    /* Only records in which this text column has this value; NULL: all. TIDE_E_INVALID: no such
     * column. */
    const char *where_column;
    const char *where_value;
    const char *session; /* NULL: any; another than the store's: TIDE_E_CONFLICT */
    /* In which start_seq was read; 0: not said. */
    int64_t epoch;
    /* what the reader knows it by, who then looks at `standing`; NULL: nothing */
    const char *epoch_id;
    const tide_feed_point *points;
    int point_count;
    const char *reader;  /* NULL: nobody's; start_seq is what this reader has settled */
    int64_t lease_token; /* lower than seen before from this reader: TIDE_E_LEASE_LOST */
} tide_feed_request;
#define TIDE_FEED_REQUEST_INIT .size = sizeof(tide_feed_request)

typedef struct tide_feed_hole {
    int64_t first_seq;
    int64_t last_seq;
    const char *reason; /* expired, evicted, damaged, lost; static */
} tide_feed_hole;

typedef struct tide_feed_epoch {
    int64_t epoch;
    int64_t first_seq;
    char epoch_id[37];
    /* as identity.h has it; restored and copied: what came before is what was there */
    char reason[16];
} tide_feed_epoch;

typedef enum tide_feed_standing {
    TIDE_FEED_STANDING_NONE, /* no points were shown */
    TIDE_FEED_STANDING_OK,   /* the highest point shown is of this history */
    /* a point is not; matched_seq is the highest one that is, 0: none that can be checked */
    TIDE_FEED_STANDING_DIVERGED,
    TIDE_FEED_STANDING_UNKNOWN, /* too old to be checked, or in a hole */
    /* No points were shown, and start_seq is above the head: this history never gave that
     * number. */
    TIDE_FEED_STANDING_AHEAD,
} tide_feed_standing;

typedef struct tide_feed_answer {
    char *bytes; /* records as they were encoded, one behind the other */
    size_t len;
    int64_t count;
    int64_t max_seq; /* of these records; 0: none */
    char session[37];
    char epoch_id[37];
    int64_t epoch;
    int64_t epoch_first_seq;
    int64_t oldest_seq; /* lowest number that is still there; head + 1 when nothing is */
    int64_t stable_seq; /* everything up to here is durable and final: the head */
    int64_t head_seq;
    /* everything up to here is in the answer, filtered out or a hole */
    int64_t scanned_through_seq;
    /* between start and scanned_through, joined, in order; when there are TIDE_FEED_HOLES_MAX,
     * scanned_through ends at the last one */
    tide_feed_hole *holes;
    int hole_count;
    unsigned char chain[TIDE_FEED_DIGEST_SIZE]; /* d(scanned_through); zeros: not known, or of 0 */
    bool has_more;                              /* there are numbers behind scanned_through */
    int64_t next_arrived_us; /* of the first record behind scanned_through; 0: none */
    int64_t head_arrived_us; /* 0: none has arrived yet */
    int64_t now_us;          /* on the clock of arrivals */
    int64_t filtered;        /* records left out by services, column and time */
    tide_feed_standing standing;
    int64_t matched_seq;
    /* The epochs of this stream, ascending: when the request named another epoch than the present
     * one, or diverged. Of more than TIDE_FEED_EPOCHS_MAX the newest half of so many, and as many
     * from the request's epoch on (0: from the oldest number's). */
    tide_feed_epoch *epochs;
    int epoch_count;
} tide_feed_answer;

/* A reader that names an epoch has diverged, also without a point that tells, when we never had
 * that epoch or know it by another id, or when its start lies behind the end of that epoch as we
 * have it. So has a reader with a name whose point can no longer be checked, and lies above what
 * there was when the store was first opened after this reader came last. One that shows neither
 * points nor the epoch's id may not look at `standing`, and gets TIDE_E_CONFLICT.
 *
 * A reader of this session that diverged though no epoch of ours tells of a cut there has seen what
 * was taken back unnoticed (a volume put back to an earlier state): a new epoch begins before it is
 * answered, above every epoch that it has shown, so that no two histories share one. At most once
 * in TIDE_FEED_RAISE_US, and for each eight epochs that it was ahead as long again, so that nobody
 * uses them all up; until then it is told DIVERGED in the present epoch. */
#define TIDE_FEED_RAISE_US INT64_C(60000000)

/* One page. A damaged batch is skipped, with a receipt, and is a hole of the answer. An answer may
 * be empty and still have_more, when a filter has looked through TIDE_FEED_SCAN_BYTES_MAX. The
 * answer is filled on TIDE_OK alone.
 * TIDE_E_NOT_FOUND: no such stream. TIDE_E_INVALID: a bad request. TIDE_E_CONFLICT,
 * TIDE_E_LEASE_LOST: see the request.
 * TIDE_E_DAMAGED: the stream's row, or behind start_seq neither the batches nor their index, can be
 * read. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_read(tide_feed *feed,
                                                    const tide_feed_request *request,
                                                    tide_feed_answer *answer, tide_error *err);
TIDE_API void tide_feed_answer_done(tide_feed_answer *answer);

/* The head of a stream as this feed's own commits have left it, from memory; -1: it has not
 * committed to it yet. Never above the true one: enough to know that nothing is new. */
TIDE_API int64_t tide_feed_head(const tide_feed *feed, const char *stream);

/* ---- looking ---- */

typedef struct tide_feed_stream {
    char name[TIDE_FEED_NAME_MAX + 1];
    char sequence[TIDE_FEED_NAME_MAX + 8];
    bool is_built_in;
    int64_t created_at_us; /* 0: built in */
    int64_t oldest_seq;
    int64_t head_seq;
    int64_t batches;
    int64_t bytes; /* as they are stored */
    int64_t epoch;
    int64_t epoch_first_seq;
    int64_t oldest_arrived_us; /* 0: nothing is there */
    int64_t head_arrived_us;   /* 0: nothing has ever arrived */
    int64_t settled_seq;       /* what all readers have settled; -1: nobody reads */
} tide_feed_stream;

/* TIDE_E_NOT_FOUND: no such stream. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_show(tide_feed *feed, const char *stream,
                                                    tide_feed_stream *out, tide_error *err);
/* Every stream, the built-in ones first; fn returns a failure to stop. */
typedef tide_status tide_feed_stream_fn(void *arg, const tide_feed_stream *stream, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_list(tide_feed *feed, tide_feed_stream_fn *fn,
                                                    void *arg, tide_error *err);

/* The head of every stream, in one look. */
typedef tide_status tide_feed_head_fn(void *arg, tide_view stream, int64_t head_seq,
                                      tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_heads(tide_feed *feed, tide_feed_head_fn *fn,
                                                     void *arg, tide_error *err);

typedef struct tide_feed_reader {
    char name[TIDE_FEED_READER_MAX + 1];
    int64_t epoch;
    int64_t position;
    int64_t lease_token;
    int64_t seen_at_us;
} tide_feed_reader;
typedef tide_status tide_feed_reader_fn(void *arg, const tide_feed_reader *reader, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_readers(tide_feed *feed, const char *stream,
                                                       tide_feed_reader_fn *fn, void *arg,
                                                       tide_error *err);
/* Nothing is kept for this reader any more. TIDE_NONE: it was not known. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_forget(tide_feed *feed, const char *stream,
                                                      const char *reader, tide_error *err);

/* ---- looking after ---- */

/* One bounded turn of retention: forgets idle readers, drops what is too old or too much, writes
 * receipts. *next_us: when it wants to run again, from now; 0: there is more to do. A full disk is
 * met with the reserve (reserve_bytes): with it the log is emptied and free pages at the end of the
 * file are given back, and then it is built up again, before commits go on.
 * TIDE_E_DAMAGED: a stream cannot be cut, because the index of its batches is damaged. It is left
 * out until the feed is opened again; everything else was done. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_step(tide_feed *feed, int64_t *next_us,
                                                    tide_error *err);

/* Read every batch of a stream (NULL: of all) and hold it against its checksums, its numbers, its
 * chain and the stream's counters. fn is called per finding. TIDE_OK: sound. TIDE_E_DAMAGED: there
 * were findings; one that is not about a stream names a table instead. Others may go on writing
 * meanwhile. */
typedef void tide_feed_finding_fn(void *arg, const char *stream, const char *finding);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_verify(tide_feed *feed, const char *stream,
                                                      tide_feed_finding_fn *fn, void *arg,
                                                      tide_error *err);

typedef struct tide_feed_salvaged {
    int64_t streams;
    int64_t batches;
    int64_t records;
    int64_t lost_batches; /* unreadable */
    /* numbers that could not be saved, holes that were known before not counted */
    int64_t lost_records;
} tide_feed_salvaged;

/* Copy what is readable into a new store at path, which must not exist: the same streams, numbers
 * and chains under a new session. What cannot be read becomes a hole there, with a receipt. A
 * stream whose row cannot be read is copied if it is built in, and otherwise counted as one lost
 * batch. *out may be NULL. TIDE_E_EXISTS: there is something at path. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_salvage(tide_feed *feed, const char *path,
                                                       tide_feed_salvaged *out, tide_error *err);

typedef struct tide_feed_dump_request {
    size_t size; /* TIDE_FEED_DUMP_REQUEST_INIT */
    const char *stream;
    int64_t first_seq; /* 0: from the oldest */
    int64_t last_seq;  /* 0: to the head */
} tide_feed_dump_request;
#define TIDE_FEED_DUMP_REQUEST_INIT .size = sizeof(tide_feed_dump_request)

/* Records of a stream as lines of JSON, without the newline. Damaged
 * batches are passed over, as in tide_feed_read. fn returns a failure to stop; the line is borrowed
 * for the call. */
typedef tide_status tide_feed_line_fn(void *arg, tide_view line, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_dump(tide_feed *feed,
                                                    const tide_feed_dump_request *request,
                                                    tide_feed_line_fn *fn, void *arg,
                                                    tide_error *err);

/* ---- frames and binaries of profiles ---- */

#define TIDE_FEED_FRAME_FURTHER "[further frames]"

/* The numbers of frames by name, given where they are new; durable when it returns. names: valid
 * UTF-8. Where there are TIDE_FEED_FRAMES_MAX already, new ones share the number behind them, which
 * is called TIDE_FEED_FRAME_FURTHER.
 * TIDE_E_LIMIT: a name is longer than TIDE_FEED_FRAME_NAME_MAX. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_frames_put(tide_feed *feed, const tide_view *names,
                                                          uint64_t *ids, int count,
                                                          tide_error *err);
/* The names of frames, one call each in the order of ids; those that are not known are passed over,
 * and those that are longer than TIDE_FEED_FRAME_NAME_MAX, of which older stores may have some.
 * Reads many in slices, so it takes no more memory than a page. */
typedef tide_status tide_feed_frame_fn(void *arg, uint64_t id, tide_view name, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_frames_get(tide_feed *feed, const uint64_t *ids,
                                                          int count, tide_feed_frame_fn *fn,
                                                          void *arg, tide_error *err);

typedef struct tide_feed_binary {
    tide_view build_id;
    tide_view service_id;
    tide_view binary_path;
    int64_t first_seen_us; /* 0 when put: now */
    int64_t last_seen_us;
    bool has_debug_info;
} tide_feed_binary;
/* TIDE_E_LIMIT: there are TIDE_FEED_BINARIES_MAX. */
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_binaries_put(tide_feed *feed,
                                                            const tide_feed_binary *binaries,
                                                            int count, tide_error *err);
typedef tide_status tide_feed_binary_fn(void *arg, const tide_feed_binary *binary, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_feed_binaries_get(tide_feed *feed,
                                                            tide_feed_binary_fn *fn, void *arg,
                                                            tide_error *err);

TIDE_END_DECLS

#endif
