/* parts.h - what the files of the feed share: the feed itself, and where a stream stands in a transaction.
 *
 *     record*.c   bytes of records           open.c     the feed, its streams, counters
 *     batch.c     bytes of batches           commit.c   records in, numbered
 *     stream.c    where a stream stands      page.c     one response, points; read.c around it
 *     loss.c      holes and receipts         reader.c   positions of readers
 *     retain.c    what is dropped            reserve.c  room for receipts on a full disk; room.c: what is done with it
 *     verify.c, salvage.c, dump.c            profile.c  frames and binaries
 *
 * Threads: the feed is constant after its opening, but for counters. */
#pragma once

#include <stdatomic.h>

#include <tidemark/feed.h>

#include "feed/batch.h"
#include "feed/record.h"

/* Beside the numbers arrival does not go back by less than this. By more: the clock was ahead, and is right again. */
#define TIDE_FEED_AHEAD_US (INT64_C(300) * 1000000)

typedef struct tide_reserve tide_reserve;

/* What this process knows of a stream's head without looking. The guess is where its last commit left the head: the next
 * is prepared for that place without a look. Whoever finds it held does without. */
typedef struct tide_feed_known {
    atomic_int is_named; /* 0: no, 1: being written, 2: yes, and name stays as it is */
    char name[TIDE_FEED_NAME_MAX + 1];
    _Atomic int64_t head_seq;
    atomic_bool is_guess_held;
    struct {
        const tide_stream_type *type; /* NULL: none */
        int64_t head_seq;
        tide_digest128 chain;
        int looks_left; /* somebody else writes there too: look, so often, before guessing again */
    } guess;
} tide_feed_known;

struct tide_feed {
    tide_store *store;
    tide_feed_options options; /* defaults filled in; codec is not used */
    tide_codec codec;
    tide_reserve *reserve; /* NULL: none is kept */
    _Atomic int64_t
        bytes; /* of all streams, as of the last step or commit: for back-pressure alone */
    _Atomic int64_t commits;
    _Atomic int64_t records;
    _Atomic int64_t raw_bytes;
    _Atomic int64_t stored_bytes;
    _Atomic int64_t redone;
    _Atomic int64_t damaged;
    _Atomic int64_t receipts;
    _Atomic int64_t dropped;
    _Atomic int64_t raised;
    atomic_int notes; /* of readers, under way */
    _Atomic int64_t
        diverged_at_us;       /* when a reader last made an epoch begin; monotonic, 0: never */
    _Atomic int64_t since_us; /* the first look of retention, on the clock of leases; 0: not yet */
    atomic_bool has_told_retention;                   /* in db_metadata */
    atomic_bool is_full;                              /* the disk, when it was last written to */
    tide_feed_known heads[TIDE_FEED_STREAMS_MAX + 1]; /* by the streams' ids */
    /* By the place in tide_stream_names: retention cannot cut it, and does not try again until the feed is opened anew. */
    atomic_bool is_left_out[TIDE_FEED_STREAMS_MAX];
};

/* ---- stream.c ---- */

/* A stream as one transaction sees it. */
typedef struct tide_stream_state {
    int64_t id;
    const tide_stream_type *type;
    char name[TIDE_FEED_NAME_MAX + 1];
    char sequence[TIDE_FEED_NAME_MAX + 8];
    int64_t head_seq;
    int64_t floor_seq;
    tide_digest128 floor_chain;
    int64_t floor_arrived_us; /* 0: nothing was dropped yet */
    int64_t floor_bytes;
    int64_t epoch;           /* the store's */
    int64_t written_epoch;   /* the last one that wrote to the stream; 0: none */
    int64_t epoch_first_seq; /* of the store's epoch */
    /* of the head; see tide_stream_read_head */
    tide_digest128 chain;   /* zeros: not known, or nothing was written */
    int64_t arrived_us;     /* 0: nothing was written */
    int64_t stored_through; /* bytes */
} tide_stream_state;

/* TIDE_E_NOT_FOUND: no such stream. TIDE_E_DAMAGED: its row cannot be read, or contradicts itself. */
TIDE_MUST_CHECK tide_status tide_stream_find(tide_stream_state *out, tide_tx *tx, const char *name,
                                             tide_error *err);
/* By a name of tide_stream_names: one that is not found is TIDE_E_DAMAGED. */
TIDE_MUST_CHECK tide_status tide_stream_find_listed(tide_stream_state *out, tide_tx *tx,
                                                    const char *name, tide_error *err);

/* Fill in what the last batch says: chain, arrival, bytes. A last batch that is damaged leaves the chain unknown. TIDE_E_DAMAGED: its
 * row cannot even be read, and the transaction is doomed. */
TIDE_MUST_CHECK tide_status tide_stream_read_head(tide_stream_state *state, tide_tx *tx,
                                                  tide_error *err);

/* The digest at seq. TIDE_NONE: it cannot be told any more (below the floor, in a hole, above the head). */
TIDE_MUST_CHECK tide_status tide_stream_digest_at(const tide_stream_state *state, tide_tx *tx,
                                                  int64_t seq, tide_digest128 *out,
                                                  tide_error *err);

/* The epoch whose numbers hold seq; 0: before the first. */
TIDE_MUST_CHECK tide_status tide_stream_epoch_of(const tide_stream_state *state, tide_tx *tx,
                                                 int64_t seq, int64_t *epoch, tide_error *err);

/* The body of a batch, checked against its head and unpacked into *raw, which is cleared before. TIDE_E_DAMAGED: what is stored is
 * not what was written; the text says why. */
TIDE_MUST_CHECK tide_status tide_stream_read_body(tide_tx *tx, const tide_stream_type *type,
                                                  const tide_batch_head *head, tide_buffer *raw,
                                                  bool *is_row_readable, tide_error *err);

/* The names of all streams, in the order of their making; fits tide_store_read. */
typedef struct tide_stream_name_list {
    char names[TIDE_FEED_STREAMS_MAX][TIDE_FEED_NAME_MAX + 1];
    int count;
} tide_stream_name_list;
TIDE_MUST_CHECK tide_status tide_stream_names(tide_tx *tx, void *name_list, tide_error *err);
/* Add the built-in streams that a damaged list lacks: every store has them. */
void tide_stream_names_complete(tide_stream_name_list *list);

/* ---- commit.c ---- */

/* Records on their way into a batch: numbered and packed for one place in the stream, and again for another. */
typedef struct tide_draft {
    tide_feed_records *records;
    const tide_stream_type *type;
    int64_t stream_id;
    bool is_ready;
    bool is_next;   /* goes on with the stream of the draft before it */
    bool is_redone; /* the head stood elsewhere than it was made for */
    int64_t first_seq;
    tide_digest128 chain_before;
    tide_digest128 chain;
    tide_codec codec; /* of the body; NONE: it is records->bytes */
    tide_buffer body;
    uint32_t body_crc;
} tide_draft;

void tide_draft_done(tide_draft *draft);

/* Append to a stream inside a write transaction, behind its head; *state moves on. now_us: tide_lease_now. */
TIDE_MUST_CHECK tide_status tide_feed_append(tide_feed *feed, tide_tx *tx, tide_stream_state *state,
                                             tide_draft *draft, int64_t now_us, tide_error *err);

/* ---- loss.c ---- */

typedef struct tide_loss {
    int64_t first_seq;
    int64_t last_seq;
    const char *reason; /* static */
    char detail[160];
} tide_loss;

/* The first loss that ends above after. TIDE_NONE: there is none. */
TIDE_MUST_CHECK tide_status tide_loss_next(tide_tx *tx, int64_t stream_id, int64_t after,
                                           tide_loss *out, tide_error *err);

/* Note losses of a stream, with one receipt each, in this write transaction. Numbers that a loss already covers are left out, so
 * that noting one twice changes nothing. Losses of the stream of receipts get no receipt. */
/* Receipts for numbers that an epoch lost with the end of the log. TIDE_NONE: there are none. */
TIDE_MUST_CHECK tide_status tide_loss_receipt_tails(tide_feed *feed, tide_error *err);
TIDE_MUST_CHECK tide_status tide_loss_note(tide_feed *feed, tide_tx *tx,
                                           const tide_stream_state *state, const tide_loss *losses,
                                           int count, int64_t now_us, tide_error *err);

/* Tell whoever asked in the options, once the losses are durable. */
void tide_loss_tell(const tide_feed *feed, const char *stream, const tide_loss *losses, int count);

/* ---- reader.c ---- */

/* How a request's points fit this history. */
typedef struct tide_reader_standing {
    tide_feed_standing standing;
    int64_t matched_seq;
} tide_reader_standing;

/* Is a reader's row to be written? */
typedef enum tide_reader_due {
    TIDE_READER_NOT_DUE,
    TIDE_READER_MAY,  /* its position moved, or it was not seen for long */
    TIDE_READER_MUST, /* it is new, or comes with a higher token */
} tide_reader_due;

/* Is this reader welcome? TIDE_E_LEASE_LOST: a higher token was seen. */
TIDE_MUST_CHECK tide_status tide_reader_check(tide_feed *feed, tide_tx *tx,
                                              const tide_stream_state *state,
                                              const tide_feed_request *request, int64_t now_us,
                                              tide_reader_due *due, tide_error *err);
/* In a transaction of its own. */
TIDE_MUST_CHECK tide_status tide_reader_note(tide_feed *feed, const tide_feed_request *request,
                                             const tide_reader_standing *standing, tide_error *err);
/* What this reader can have of this history, and has in common with it if it has more: so much was there when the store was first
 * opened after the reader came last. TIDE_NONE: it has no row. */
TIDE_MUST_CHECK tide_status tide_reader_given(tide_tx *tx, const tide_stream_state *state,
                                              const char *reader, int64_t *given, tide_error *err);
/* The store is opened: what has been given so far is noted for every reader that came since it was opened last. False: that cannot be
 * written, and they are believed. */
bool tide_reader_open_all(tide_feed *feed);
/* What all readers of a stream have settled; INT64_MAX: nobody reads it. */
TIDE_MUST_CHECK tide_status tide_reader_settled(tide_tx *tx, int64_t stream_id, int64_t *out,
                                                tide_error *err);

/* ---- reserve.c ---- */

/* A file beside the store that holds nothing but room. *out is NULL when it could not be made: that is no failure. */
void tide_reserve_open(tide_reserve **out, tide_store *store, int64_t len);
void tide_reserve_close(tide_reserve *reserve);
/* Give the room back to the disk; returns how much there was. Both do nothing with NULL. */
int64_t tide_reserve_release(tide_reserve *reserve);
/* Give a part of it back, and never the last: for what must be certain on a full disk, but is no receipt. */
bool tide_reserve_shrink(tide_reserve *reserve);
/* It was given to a full disk and could not be taken again: what is not to make room waits. */
bool tide_reserve_is_lent(const tide_reserve *reserve);
/* Take it again, if it is gone and the disk has it. */
void tide_reserve_restore(tide_reserve *reserve);

/* ---- room.c ---- */

int64_t tide_feed_log_len(const tide_feed *feed); /* bytes that are not yet in the file */

/* The disk is full: give the reserve to it, and empty the log with its help. */
void tide_feed_make_room(tide_feed *feed);
/* What makes room on a full disk is done while the log is held (tide_sqlite_writer_hold_log). */
void tide_feed_hold_log(tide_feed *feed);
void tide_feed_release_log(tide_feed *feed);
/* Move the log into the file as far as there is room, and cut it off. */
/* Give free pages back to the disk, if there are many; if it is full, all that can be had. */
void tide_feed_shorten(tide_feed *feed, bool is_full);

/* Write; if the disk is full, with the reserve's help. For what must fit: receipts and what makes room. fn
 * may run again after it has taken effect, and then changes nothing. */
TIDE_MUST_CHECK tide_status tide_feed_write_firmly(tide_feed *feed, tide_tx_fn *fn, void *arg,
                                                   tide_error *err);
