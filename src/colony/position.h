/* position.h - how far a colony has come with one stream of one agent, and what became of every number.
 *
 * A position belongs to (agent, data type, session, epoch); one of them is current per (agent, data type), the others
 * are closed and kept as history. An epoch owns the numbers from its first to the next one's.
 *
 *     before | first .................. highest ......... head
 *            | stored, dead, filtered,  unread
 *            | gaps, held holes
 *
 * settled   numbers whose fate is recorded: their row is stored, they are a dead letter, were filtered, or lie in a gap
 *           record. Kept as a cursor (cursor.h): a prefix, and holes beyond it.
 * held      the cursor's holes: not there yet, may still come (agents that number before commit), not a gap
 *           yet. Since when each has been seen is kept on the colony's monotonic clock, in memory alone: a
 *           restart holds them a little longer.
 * before    numbers below `first` are from before our time: at first contact the agent did not have them any more. An
 *           agent with state says so (first = its oldest, also when it is empty: first = head + 1). Of a foreign one's
 *           first page the lower numbers may still come: `first` stays 0 (not decided), they are held like any hole, and when the
 *           grace is over they were before our time. The ledger counts from 1 as long as it is 0. In a session that began
 *           under our eyes nothing was before our time: first = 1.
 * gap       a record in sequence_gaps; its numbers are settled for the cursor, and still owed until it ends as
 *           recovered, void or permanent.
 *
 * The ledger: head - first + 1 = stored + dead + filtered + void + lost + pending, where pending =
 * held + open gaps + unread (head - highest), each counted by itself, never as a remainder. Counts of ended gaps are
 * those of their records plus what clean-up has folded into folded_void and folded_lost.
 *
 * last_seq is where reading goes on: the cursor's prefix, or below it after an operator's reset, until it has caught up. What is read
 * again is recognised by the cursor and not stored twice. It goes back by an operator's act alone, or when a session
 * that was left comes back.
 *
 * A closed position is settled up to its head; its open gaps are still recovered where the agent's history has them (a
 * plain change of epoch), and it stays closed then.
 *
 * Every change raises version; a store accepts a position only in place of the version it was made from.
 *
 * Survives: it is stored as a row, in the transaction of the rows it speaks of (sink.h). Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/cursor.h>

#include "colony/ask.h"

enum {
    TIDE_POSITION_HELD_MAX =
        1024, /* holes that are held at a time; more: the oldest become gaps at once */
    TIDE_POSITION_HOLES_MAX = TIDE_POSITION_HELD_MAX + TIDE_REPLY_RECORDS_MAX +
                              1, /* hole_max of its cursor: a page may open as many for a moment */
    TIDE_POSITION_RECENT_POINTS = 16,
    TIDE_POSITION_ID_MAX = 64, /* bytes of a session id */
};

typedef struct tide_held_hole {
    tide_interval numbers;
    int64_t since_us; /* colony's monotonic clock */
} tide_held_hole;

typedef struct tide_position {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char session_id[TIDE_POSITION_ID_MAX + 1]; /* "": never polled */
    int64_t epoch;                             /* 0: the agent has none */
    char epoch_id[TIDE_SESSION_ID_SIZE];       /* "": not known */
    int64_t source_id; /* of the row in polling_sources; 0: not stored yet */
    int64_t version;   /* 0: not stored yet */

    int64_t first; /* 0: not decided yet; before = first - 1 */
    int64_t last_seq;
    tide_cursor cursor; /* numbers below first are settled by definition */
    int64_t head;       /* highest number that the agent has stated, or highest seen */
    int64_t stored;
    int64_t dead;
    int64_t filtered;
    int64_t folded_void;
    int64_t folded_lost;
    int64_t folded_recovered; /* shown; recovered numbers are in stored */
    int64_t expired;          /* of stored: rows that retention has removed */

    tide_feed_point points[TIDE_FEED_POINTS_MAX]; /* ascending */
    int point_count;

    bool is_foreign;         /* its agent answers without state */
    int64_t next_arrived_ms; /* as last stated; the agent's clock */
    int64_t head_arrived_ms;
    int64_t agent_now_ms;
    int64_t retention_ms;
    int64_t oldest; /* lowest number that the agent still has */

    int64_t created_at_us;
    int64_t updated_at_us;
    int64_t last_poll_us; /* when an answer was accepted last, also an empty one */
    int64_t closed_at_us; /* 0: current */
    char closed_reason
        [32]; /* session changed, epoch changed, restored, diverged, removed, operator */

    tide_held_hole *held; /* ascending; matches the cursor's holes; not stored */
    int held_count;
} tide_position;

/* A position of which nothing is known yet. */
void tide_position_init(tide_position *position, const char *agent_id, const char *data_type);
void tide_position_done(tide_position *position); /* fits TIDE_CLEANUP */
TIDE_MUST_CHECK tide_status tide_position_copy(tide_position *out, const tide_position *from,
                                               tide_error *err);

/* Make held match the cursor's holes: those that were held keep their age, new ones begin now. */
TIDE_MUST_CHECK tide_status tide_position_hold(tide_position *position, int64_t mono_us,
                                               tide_error *err);

/* Remember the digest at seq, read in the position's epoch; keeps the newest 16, older ones at doubling distances. */
void tide_position_point(tide_position *position, int64_t seq,
                         const unsigned char digest[TIDE_FEED_DIGEST_SIZE]);

/* The digest at seq; NULL: not known. Borrowed until the position changes. */
const unsigned char *tide_position_digest(const tide_position *position, int64_t seq);

typedef struct tide_ledger {
    int64_t head;
    int64_t first;
    int64_t before;
    int64_t stored;
    int64_t dead;
    int64_t filtered;
    int64_t voided;
    int64_t lost;
    int64_t pending;
    int64_t held; /* parts of pending */
    int64_t open_gaps;
    int64_t unread;
    int64_t unexplained; /* head - first + 1 minus the sum of the rest; 0: they close */
} tide_ledger;

/* What sequence_gaps holds of a position, in numbers, by status. */
typedef struct tide_gap_sums {
    int64_t open; /* detected, recovering */
    int64_t voided;
    int64_t permanent;
    int64_t recovered;
    int64_t accepted; /* of permanent: an operator has accepted the loss */
} tide_gap_sums;

/* Records behind the highest that was read, up to head. */
int64_t tide_position_unread(const tide_position *position, int64_t head);
void tide_position_ledger(const tide_position *position, const tide_gap_sums *gaps,
                          tide_ledger *out);
