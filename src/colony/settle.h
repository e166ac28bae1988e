/* settle.h - what an answer means: rows to store, numbers to account for, where to go on.
 *
 * Pure: from a position, the question and the reply it computes a change, which a sink then carries out in one
 * transaction. The rules, in the order in which they are tried:
 *
 *   first contact          an agent with state: first = its oldest number, and the page is taken. A foreign one: see position.h.
 *   another session        the position closes: what is unsettled up to its head, and its open gaps, are lost (session changed);
 *                          a new one begins at 1, also where the agent has dropped its first records already. The page is asked for again.
 *   a later epoch          numbers below the next epoch's first, F, still belong to this position; when they are settled it closes, and
 *                          the next epoch begins at F. Its open gaps stay open: the agent still has that history. What was read or stated
 *                          from F on belongs to a history that was cut off: kept, and what was not read of it is lost
 *                          (restored). One step per answer: what lies beyond is asked for again.
 *   diverged               the agent's history forked below our highest number: the position closes. What is unsettled above the last common
 *                          number is lost (diverged), what is unsettled below is a gap that can be recovered. The next one begins
 *                          behind the common number, in the first epoch after ours. The last common number is matched_seq; or F - 1, when
 *                          the agent tells our epoch by its id and that the next one was begun for a reason that it had evidence of
 *                          (restored, copied, failover), and none of our points lies between: matched_seq is only a sample, and behind it rows would
 *                          be read twice. (An agent that was put back unnoticed, wrote on, and then found evidence of something else is believed
 *                          too much there: the records between the two go unread.) An agent that has not raised its epoch yet: TIDE_E_CONFLICT.
 *                          What an earlier epoch of the session settled, which the agent tells by its id, is not read again either: after two
 *                          restores of one backup no point need be left below the cut. And the next epoch is higher than any that is
 *                          closed: a number stands for one epoch.
 *   records                new numbers are stored or dead letters; settled ones that lie in a gap recover it, also when it had
 *                          ended as void or permanent; others were seen before and only move last_seq.
 *   holes told             lost at once, with the agent's reason, or void if it says so; below `first` they are none of ours.
 *   missing and not told   an agent with state says that everything up to scanned_through is final: filtered when the count is
 *                          right, dead letters when as many records had no readable number, else a gap, detected. A
 *                          foreign one: held for grace_us on the colony's clock, and then, if an answer that was asked for after that still lacks
 *                          it, a gap, detected.
 *
 * The chain is recomputed where the records follow one another from a point we hold; a digest that differs from the stated one
 * makes the answer TIDE_E_DAMAGED.
 *
 * Nothing moves when the answer is refused, and no gap is recorded. TIDE_E_CONFLICT: the answer is not for this question or this history
 * (records outside the range; a head below the highest number seen, an epoch below ours, another id of our epoch, without divergence being told).
 * TIDE_E_INVALID: it contradicts itself (more filtered than is missing, holes outside the range).
 *
 * Gaps are intervals: one 10^8 wide costs what one of width 1 does.
 *
 * Threads: pure. Memory: bounded by the reply's, and by the cursor's hole_max. */
#pragma once

#include "colony/position.h"

#define TIDE_SETTLE_GRACE_US INT64_C(10000000)

/* X(status, name in table, JSON and metrics) */
#define TIDE_GAP_STATUSES(X)                                                                       \
    X(DETECTED, "detected")                                                                        \
    X(RECOVERING, "recovering")                                                                    \
    X(RECOVERED, "recovered")                                                                      \
    X(PERMANENT, "permanent")                                                                      \
    X(VOID, "void")

typedef enum tide_gap_status {
#define TIDE_GAP_ENUM(status, name) TIDE_GAP_##status,
    TIDE_GAP_STATUSES(TIDE_GAP_ENUM)
#undef TIDE_GAP_ENUM
        TIDE_GAP_STATUS_COUNT,
} tide_gap_status;

enum { TIDE_GAP_REASON_MAX = 64, TIDE_GAP_EVIDENCE_MAX = 256 };

/* A row of sequence_gaps. */
typedef struct tide_gap {
    int64_t id; /* 0: new */
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    char data_type[TIDE_FEED_NAME_MAX + 1];
    char session_id[TIDE_POSITION_ID_MAX + 1];
    int64_t epoch;
    int64_t source_id;
    int64_t start_seq; /* both ends belong to it */
    int64_t end_seq;
    tide_gap_status status;
    /* expired, evicted, damaged, lost: as the agent says. missing (not there, not told), rolled back, presumed (void, of a foreign
     * agent: to be asked again), retention, undecodable, session changed, restored, diverged, unreachable, unanswered, too large
     * (of a foreign agent: no answer may be so long), operator, removed */
    char reason[TIDE_GAP_REASON_MAX + 1];
    char evidence[TIDE_GAP_EVIDENCE_MAX + 1];
    int attempts;
    int64_t detected_at_us;
    int64_t recovered_at_us; /* 0: not */
    int64_t last_attempt_us; /* 0: none */
    int64_t settled_at_us;   /* when it ended, however; 0: open */
} tide_gap;

const char *tide_gap_status_name(tide_gap_status status);
bool tide_gap_is_open(tide_gap_status status);

typedef struct tide_dead_letter {
    int64_t seq; /* 0: not known */
    const char *reason;
    tide_view bytes;
} tide_dead_letter;

/* What a sink carries out in one transaction. Borrows the reply's bytes.
 * Settling leaves source_id and version as they were (0 of a new position); the sink fills and raises them. */
typedef struct tide_change {
    tide_position
        from; /* as it was: source_id and version decide; may be closed already (recovery of its gaps) */
    /* As it shall be; when from closes, the one that follows: of the new session or epoch, or one that is opened again (its
     * source_id is not 0). session_id "": none follows. */
    tide_position to;
    bool is_closing; /* from goes to history as `closed` says */
    tide_position closed;

    /* rows of `to` (or of `closed`, when is_closing: an answer never brings rows of both); ascending */
    const tide_reply_record **rows;
    int row_count;
    tide_dead_letter *dead; /* those without a number are kept, but not counted in the position */
    int dead_count;
    const tide_reply_frame *frames;
    int frame_count;
    bool is_repair; /* rows that were stored before, and are gone: no rollups, no batch */

    /* Gap records to be changed (by id; start_seq never changes) or written (id 0); of `to`, or of `closed` when
     * is_closing. */
    tide_gap *gaps;
    int gap_count;
    /* Open gaps of `closed` with end_seq > closes_gaps_above end as permanent with its closed_reason; those in `gaps` have their
     * own say. */
    bool closes_all_gaps;
    int64_t closes_gaps_above;

    /* Under which lease this is written; NULL: none. */
    const char *lease_name;
    int64_t lease_token;

    /* Why this is done, for polling_checkpoint_history; "": an ordinary page. */
    char note[64];

    /* For metrics and logs. */
    int64_t stored; /* numbers newly stored */
    int64_t repeated;
    int64_t detected;  /* gap records that were opened, also those that ended at once */
    int64_t recovered; /* that ended so; without those of closes_all_gaps */
    int64_t permanent;
    int64_t voided;
} tide_change;

void tide_change_done(tide_change *change); /* fits TIDE_CLEANUP */

/* Gap records of a position, ascending. What tide_settle wants: all that are not `recovered` (void and permanent ones can be revised)
 * and touch the range that tide_settle_wants_gaps names; a settled number that is in none of them is taken for stored. Gaps that
 * clean-up has folded into the position's counts are gone, and a number that comes so late is passed over. */
typedef struct tide_gap_list {
    tide_gap *gaps;
    int count;
    /* Of the session's closed positions, for an answer that tells of divergence (tide_settle_note_past): */
    int64_t
        past_through;   /* the agent's numbers up to here are settled there already; 0: not known */
    int64_t past_epoch; /* the highest epoch; 0: there is none */
} tide_gap_list;

/* Do settled numbers come again, so that it matters what became of them? Of an ordinary page: no. */
bool tide_settle_wants_gaps(const tide_position *at, const tide_ask *asked, const tide_reply *reply,
                            tide_interval *range);

/* Does it matter what was settled in earlier epochs of the session, which are closed? */
bool tide_settle_wants_past(const tide_position *at, const tide_reply *reply);
/* Takes one closed position of the agent's stream into account. True: list->past_through is now what this one has settled; what of it was given
 * up when it closed can be read again: gaps of it up to there lower it (tide_settle_lower_past). */
bool tide_settle_note_past(tide_gap_list *list, const tide_position *at,
                           const tide_position *closed, const tide_reply *reply);
void tide_settle_lower_past(tide_gap_list *list, const tide_gap *gaps, int count);

/* A poll's answer. gaps: see above; NULL: none. now_us: wall; mono_us: when the answer came, monotonic: what holes are aged by, with
 * asked->sent_us. TIDE_OK: *out is to be applied, and out->to is then the position. TIDE_NONE: nothing has changed, except perhaps
 * last_poll_us. On failure and TIDE_NONE *out holds nothing (and may be given to tide_change_done). asked->start_seq may lie anywhere up to the
 * cursor's highest: the answer speaks of what lies above it. */
TIDE_MUST_CHECK tide_status tide_settle(tide_change *out, const tide_position *at,
                                        const tide_gap_list *gaps, const tide_ask *asked,
                                        const tide_reply *reply, int64_t grace_us, int64_t now_us,
                                        int64_t mono_us, tide_error *err);

/* A session that the agent had before is back (or the agent itself, removed and added again: `at` was never polled, and nothing
 * closes): `at` closes as for another session, and `earlier`, the closed position of the reply's session (of several the one of
 * the epoch that the agent is in, else the one with the highest), is opened again and read from its start; rows are recognised, and what had been given up as lost and still comes
 * recovers its gaps. TIDE_E_INVALID: earlier is not of that session, or not closed. */
TIDE_MUST_CHECK tide_status tide_settle_return(tide_change *out, const tide_position *at,
                                               const tide_position *earlier,
                                               const tide_reply *reply, int64_t now_us,
                                               tide_error *err);

/* The answer to a recovery's question for a gap of this position, which may be closed. Rows inside the gap are stored; the rest is split:
 * told as a hole: permanent with the agent's reason; not told by an agent with state, whose stable number lies above: void (rolled back); a
 * foreign agent's: stays open until attempt_max tries, then void (presumed) where the answer has numbers below the gap, else
 * permanent (retention): so the last try begins somewhat below the gap. What the answer did not reach stays open, and is asked for again. A
 * reply of another session ends the gap as permanent (session changed), a diverged one (diverged), numbers that a later epoch has given out
 * again (restored). The piece that begins where the gap began keeps its id. A void or permanent gap may be asked for as well: what came recovers it,
 * the rest stays as it was. TIDE_E_INVALID: not a gap of this position, or recovered. */
TIDE_MUST_CHECK tide_status tide_settle_gap(tide_change *out, const tide_position *at,
                                            const tide_gap *gap, const tide_ask *asked,
                                            const tide_reply *reply, int attempt_max,
                                            int64_t now_us, tide_error *err);

/* An attempt that brought no answer (the agent is away): counted; after attempt_max tries it stays detected while the agent may
 * come back, and becomes permanent (unreachable) once give_up_us have passed since it was detected. */
TIDE_MUST_CHECK tide_status tide_settle_miss(tide_change *out, const tide_position *at,
                                             const tide_gap *gap, const char *why, int attempt_max,
                                             int64_t give_up_us, int64_t now_us, tide_error *err);

/* Numbers of a foreign agent that cannot be fetched: what is unsettled behind `after` up to `through` is permanent for this reason. The reply is the
 * one to a question behind `through`, and tells the session. TIDE_E_CONFLICT: it is another than the position's. */
TIDE_MUST_CHECK tide_status tide_settle_skip(tide_change *out, const tide_position *at,
                                             const tide_reply *reply, int64_t after,
                                             int64_t through, const char *reason, int64_t now_us,
                                             tide_error *err);

/* A foreign agent's history has parted from ours behind common: the position closes as diverged, and
 * the next one, in the position's epoch + 1, begins behind it. */
TIDE_MUST_CHECK tide_status tide_settle_fork(tide_change *out, const tide_position *at,
                                             int64_t common, int64_t now_us, tide_error *err);

/* ---- acts of an operator; each is noted in history ---- */

/* Read again behind seq (0: from the start). Rows that are stored are recognised. Forward: what is skipped becomes permanent
 * (operator). TIDE_NONE: it stands there. TIDE_E_INVALID: never polled, closed, or above the head. */
TIDE_MUST_CHECK tide_status tide_settle_move(tide_change *out, const tide_position *at, int64_t seq,
                                             int64_t now_us, tide_error *err);
/* Close the position for good (agent removed); what is unsettled and its open gaps are lost for that reason. No other follows. */
TIDE_MUST_CHECK tide_status tide_settle_close(tide_change *out, const tide_position *at,
                                              const char *reason, int64_t now_us, tide_error *err);
/* Try an ended gap again (detected, attempts 0), or give an open one up (permanent, operator). TIDE_NONE: it is so already.
 * TIDE_E_INVALID: recovered, or not of this position. */
TIDE_MUST_CHECK tide_status tide_settle_retry(tide_change *out, const tide_position *at,
                                              const tide_gap *gap, int64_t now_us, tide_error *err);
TIDE_MUST_CHECK tide_status tide_settle_accept(tide_change *out, const tide_position *at,
                                               const tide_gap *gap, const char *note,
                                               int64_t now_us, tide_error *err);
