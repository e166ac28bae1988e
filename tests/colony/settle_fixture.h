/* settle_fixture.h - answers of agents, byte by byte, and a ledger that carries out changes like a sink.
 *
 * An answer is built in the wire format and read by tide_reply_read, so that what is tested is what comes from a
 * network. Records are spans whose timestamp (uid) tells histories apart.
 *
 * The ledger keeps positions, gap records and the fate of every number up to LEDGER_SEQ_MAX, and checks after each change:
 * the totals of every position close, every number has exactly one fate, none is stored twice, cursors do not go back. */
#pragma once

#include "base/buffer.h"
#include "colony/settle.h"

enum {
    LEDGER_SEQ_MAX = 4096, /* numbers whose fate is kept */
    LEDGER_SOURCES_MAX = 512,
    LEDGER_GAPS_MAX = 4096,
    ANSWER_MAX = 4 << 20,
    SECOND = 1000000,
};

/* ---- answers ---- */

typedef struct answer {
    tide_buffer body;
    tide_buffer state;
    bool has_state;
    char *bytes; /* once it is read */
} answer;

void answer_begin(answer *a, const char *session);
void answer_done(answer *a);
/* As agents write it that we did not write: the number last, as short as it is. */
void answer_foreign(answer *a, int64_t seq, int64_t uid);
/* As ours do: the number first, padded. */
void answer_record(answer *a, int64_t seq, int64_t uid);
/* first..last, each with its number as uid. */
void answer_foreign_run(answer *a, int64_t first, int64_t last);
void answer_record_run(answer *a, int64_t first, int64_t last);
/* A span whose insides are broken; seq 0: its number too. */
void answer_dead(answer *a, int64_t seq);
void answer_state(answer *a, int64_t epoch, int64_t oldest, int64_t scanned, int64_t head);
void answer_number(answer *a, uint32_t field, uint64_t value); /* any field of the state */
void answer_hole(answer *a, int64_t first, int64_t last, const char *reason);
void answer_epoch(answer *a, int64_t epoch, int64_t first, const char *id, const char *reason);
void answer_chain(answer *a, const unsigned char digest[TIDE_FEED_DIGEST_SIZE]);
/* Everything of the answer; borrowed until answer_done. */
tide_view answer_bytes(answer *a);
tide_status answer_read(answer *a, tide_reply *out, tide_error *err);

/* The bytes of a record of ours, as the chain has them. */
void record_bytes(tide_buffer *out, int64_t seq, int64_t uid);

/* ---- the ledger ---- */

typedef enum fate { UNKNOWN, STORED, DEAD } fate;

typedef struct source {
    tide_position position; /* the current one or a closed one */
    unsigned char *fates;   /* by number */
    int64_t *uids;
    int64_t contiguous;
    int64_t last_seq;
} source;

typedef struct ledger {
    source sources[LEDGER_SOURCES_MAX];
    int source_count;
    int current; /* index; -1: nothing stored yet */
    tide_position empty;
    tide_gap *gaps;
    int gap_count;
    int64_t next_id;
    int64_t letters; /* dead letters without a number */
    int64_t now_us;
    int64_t mono_us;
    int64_t grace_us;
    bool may_go_back; /* an operator, or a session that came back, moved it */
    tide_change last; /* for looking at */
} ledger;

void ledger_init(ledger *l);
void ledger_done(ledger *l);
const tide_position *ledger_at(const ledger *l);
/* Carries out a change and checks everything; takes it over. */
void ledger_apply(ledger *l, tide_change *change);
/* Settles and applies. Whatever status came: on a failure nothing has changed. */
tide_status ledger_settle(ledger *l, const tide_ask *asked, const tide_reply *reply,
                          tide_error *err);
/* Reads the answer to a question above start, settles and applies. */
tide_status ledger_poll(ledger *l, int64_t start, answer *a);
tide_status ledger_recover(ledger *l, int64_t gap_id, int64_t start, int attempt_max, answer *a);
tide_gap *ledger_gap(ledger *l, int64_t id);
/* The gap of this source that begins there; NULL: none. */
tide_gap *ledger_gap_at(ledger *l, int64_t source_id, int64_t start);
source *ledger_source(ledger *l, int64_t source_id);
void ledger_totals(const ledger *l, const tide_position *position, tide_ledger *out);
/* "1-3 5" of what is stored of the current position. */
void assert_stored(const ledger *l, const char *want);
/* "4-4 detected missing; 7-9 permanent expired" of all gap records of the current position, by start. */
void assert_gaps(const ledger *l, const char *want);
