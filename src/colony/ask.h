/* ask.h - one question to an agent, and the look into what it answered.
 *
 * A question is a page of one stream: numbers above start_seq (a poll), or a bounded range (recovery). tide_ask_encode
 * makes the protobuf request of the type's call; tide_reply_read looks through the bytes that came back.
 *
 * Agents that we did not write know start_seq_id and max_records, and answer records, max_seq_id and session_id;
 * has_state tells them apart. They have no bounds: recovery asks from start - 1 for as many records as the range is wide, and
 * keeps what lies inside.
 *
 * Nothing an agent says is trusted. A reply is refused as a whole, and nothing of it is used:
 *   TIDE_E_DAMAGED   the bytes are no such answer: not protobuf, more than the limits below, numbers above 2^63-1, texts
 *                    that are too long or not UTF-8
 *   TIDE_E_INVALID   sound, but against the rules: no session id; two different records with one number; records
 *                    or holes that overlap, or lie above scanned_through; scanned_through above stable, stable above
 *                    head, oldest above head + 1; epochs that do not ascend or do not end in the stated one
 * Records need not be in order: the reply sorts them by number. One that comes twice with the same bytes is kept once. A
 * record whose insides cannot be read is dead: it keeps its number if that can be read, otherwise it has number 0.
 * seq_id may stand anywhere in a record, padded or not.
 *
 * Threads: pure. Memory: a reply holds 56 bytes per record beside the answer's own bytes, which it borrows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/feed.h>
#include <tidemark/identity.h>
#include <tidemark/view.h>

#include "base/buffer.h"
#include "colony/type.h"

enum {
    TIDE_ASK_BYTES_DEFAULT = 1 << 20, /* target of a page */
    TIDE_ASK_BYTES_MAX = 16 << 20,
    TIDE_REPLY_BYTES_MAX = 64 << 20,
    TIDE_REPLY_RECORDS_MAX = 50000,
    TIDE_REPLY_HOLES_MAX = TIDE_FEED_HOLES_MAX,
    TIDE_REPLY_EPOCHS_MAX = 64,                       /* the latest are kept */
    TIDE_REPLY_FRAMES_MAX = TIDE_FEED_FRAMES_MAX + 1, /* an agent has no more */
    TIDE_AGENT_ID_MAX = 128,                          /* bytes */
};

typedef struct tide_ask {
    const tide_colony_type *type;
    const char *data_type; /* the stream's name, also of a built-in one */
    int64_t start_seq;
    /* The request starts before this number, at or below start_seq, and asks for as many records more:
     * of a foreign agent (poll/overlap.c); 0: none. */
    int64_t overlap_seq;
    int64_t last_seq; /* bounded range; 0: none */
    int64_t max_records;
    int64_t max_bytes;      /* 0: TIDE_ASK_BYTES_DEFAULT */
    int64_t wait_us;        /* long poll */
    const char *session_id; /* "": any */
    int64_t epoch;          /* 0: any */
    const char *epoch_id;   /* of that epoch, as we know it; NULL, "": not known */
    const tide_feed_point *points;
    int point_count;
    const char *reader;  /* NULL: nobody's position is noted (recovery) */
    int64_t lease_token; /* 0: none */
    int64_t
        sent_us; /* when it was sent, monotonic; 0: as good as when the answer came. Not part of the request */
} tide_ask;

/* Append the request. TIDE_E_LIMIT, TIDE_E_NOMEM of the buffer. */
TIDE_MUST_CHECK tide_status tide_ask_encode(tide_buffer *out, const tide_ask *ask, tide_error *err);

typedef struct tide_reply_record {
    int64_t seq;     /* 0: could not be read */
    tide_view bytes; /* tag, length, message: what the chain is made of */
    tide_view message;
    bool is_dead;       /* the message cannot be decoded as its type; why is in reason */
    const char *reason; /* static; NULL unless is_dead */
} tide_reply_record;

typedef struct tide_reply_hole {
    int64_t first_seq;
    int64_t last_seq;
    char reason[16]; /* as the agent says; cut; never "" */
} tide_reply_hole;

typedef struct tide_reply_epoch {
    int64_t epoch;
    int64_t first_seq;
    char epoch_id[TIDE_SESSION_ID_SIZE];
    char reason
        [16]; /* why it was begun: created, restored, copied, failover, diverged, operator; "": not told */
} tide_reply_epoch;

typedef struct tide_reply_frame {
    uint64_t id;
    tide_view name;
} tide_reply_frame;

typedef struct tide_reply {
    char session_id[65]; /* as the agent says; ours are UUIDs, others' need not be; never "" */
    int64_t max_seq;
    tide_reply_record *records; /* ascending by number; those with number 0 first */
    int record_count;
    tide_reply_frame *frames; /* of profiles */
    int frame_count;
    size_t len; /* of the answer */

    bool has_state; /* everything below; without it, all is 0 */
    int64_t epoch;
    int64_t epoch_first_seq;
    char epoch_id[TIDE_SESSION_ID_SIZE];
    tide_reply_epoch
        *epochs; /* ascending, the last is `epoch`; told when the question named another epoch */
    int epoch_count;
    int64_t oldest_seq;
    int64_t stable_seq;
    int64_t head_seq;
    int64_t scanned_through_seq;
    tide_reply_hole *holes; /* ascending, disjoint */
    int hole_count;
    bool has_chain; /* the digest at scanned_through is known */
    unsigned char chain[TIDE_FEED_DIGEST_SIZE];
    bool has_more;
    int64_t filtered;
    int64_t next_arrived_ms;
    int64_t head_arrived_ms;
    int64_t now_ms;
    int64_t retention_ms;
    tide_feed_standing standing;
    int64_t matched_seq;
} tide_reply;

/* bytes stay the caller's and must outlive the reply. On failure *out holds nothing. Statuses: above; TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_reply_read(tide_reply *out, const tide_colony_type *type,
                                            tide_view bytes, tide_error *err);
void tide_reply_done(tide_reply *reply); /* fits TIDE_CLEANUP */
