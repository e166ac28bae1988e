/* settle_parts.h - what the parts of settling share. See settle.h.
 *
 *     settle.c           which rule applies
 *     settle_page.c      a page of the history that we follow
 *     settle_epoch.c     the history that we followed has ended: sessions, epochs, divergence
 *     settle_gap.c       recovery of one gap
 *     settle_operator.c  acts of people
 *     settle_parts.c     rows, gap records, closing: what all of them do */
#pragma once

#include "colony/settle.h"

typedef struct tide_settling {
    tide_change *change;
    const tide_position *at;
    tide_position *to; /* what is settled for: change->to, or change->closed once it closes */
    const tide_ask *asked;
    const tide_reply *reply;
    const tide_gap_list *gaps;
    int64_t grace_us;
    int64_t now_us;
    int64_t mono_us;
    int64_t limit; /* the highest number that belongs to `to` */
} tide_settling;

/* change->from and change->to become copies of at. */
TIDE_MUST_CHECK tide_status tide_settling_begin(tide_settling *s, tide_change *change,
                                                const tide_position *at, int64_t now_us,
                                                tide_error *err);

/* A record whose number is new, or was missing: a row or a dead letter, and counted. Room is there for each record of the reply. */
TIDE_MUST_CHECK tide_status tide_settling_take(tide_settling *s, const tide_reply_record *record,
                                               int64_t seq, tide_error *err);
/* A dead letter without a number: kept, not counted. */
TIDE_MUST_CHECK tide_status tide_settling_keep_unnumbered(tide_settling *s,
                                                          const tide_reply_record *record,
                                                          tide_error *err);

/* A gap record for first..last of `to`. */
TIDE_MUST_CHECK tide_status tide_settling_open_gap(tide_settling *s, tide_interval numbers,
                                                   tide_gap_status status, const char *reason,
                                                   tide_error *err);
/* Gap records for what is unsettled of after+1..last. The cursor stays. */
TIDE_MUST_CHECK tide_status tide_settling_open_gaps(tide_settling *s, int64_t after, int64_t last,
                                                    tide_gap_status status, const char *reason,
                                                    tide_error *err);
/* The same, and they are settled. */
TIDE_MUST_CHECK tide_status tide_settling_give_up(tide_settling *s, int64_t after, int64_t last,
                                                  tide_gap_status status, const char *reason,
                                                  tide_error *err);

/* The next unsettled interval of after+1..last; false: there is none. */
bool tide_settling_next(const tide_cursor *cursor, int64_t after, int64_t last, tide_interval *out);

/* Of more holes than may be held the oldest become gaps. After the page: none of its numbers lies in them. */
TIDE_MUST_CHECK tide_status tide_settling_trim(tide_settling *s, tide_error *err);
/* What is not there below the lowest number seen was before our time. */
void tide_settling_decide_first(tide_settling *s);

/* A gap record that is taken apart, from its start to its end. */
typedef struct tide_gap_pieces {
    tide_settling *s;
    const tide_gap *gap; /* NULL: none under way */
    tide_gap piece;      /* the one that may still grow */
    int64_t through;     /* pieces reach to here */
} tide_gap_pieces;

void tide_gap_pieces_begin(tide_gap_pieces *pieces, tide_settling *s, const tide_gap *gap);
/* The next piece ends at last; status, reason: what becomes of it; reason NULL: as the gap's. */
TIDE_MUST_CHECK tide_status tide_gap_pieces_put(tide_gap_pieces *pieces, int64_t last,
                                                tide_gap_status status, const char *reason,
                                                tide_error *err);
/* The rest stays what it was. */
TIDE_MUST_CHECK tide_status tide_gap_pieces_end(tide_gap_pieces *pieces, tide_error *err);

/* `to` becomes closed: everything up to common that is unsettled is a gap (detected), everything above it up to the head lost for
 * this reason. change->to is then a new position, without a session. */
TIDE_MUST_CHECK tide_status tide_settling_close(tide_settling *s, int64_t common,
                                                const char *reason, tide_error *err);

/* settle_page.c: the page, for `to`, up to limit. */
TIDE_MUST_CHECK tide_status tide_settling_page(tide_settling *s, tide_error *err);
/* What the reply says of the stream as a whole. */
void tide_settling_describe(tide_position *to, const tide_reply *reply);

/* settle_epoch.c */
TIDE_MUST_CHECK tide_status tide_settling_begin_contact(tide_settling *s, tide_error *err);
TIDE_MUST_CHECK tide_status tide_settling_change_session(tide_settling *s, tide_error *err);
/* The agent has state, and the session is ours. */
TIDE_MUST_CHECK tide_status tide_settling_follow(tide_settling *s, tide_error *err);
/* The first number after the epochs that are at or below `epoch`; INT64_MAX: they last. *next (may be NULL): which epoch begins
 * there; one without a number of its own is passed over. */
int64_t tide_settling_next_epoch(const tide_reply *reply, int64_t epoch, tide_reply_epoch *next);
