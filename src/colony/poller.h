/* poller.h - one agent's polling: what to ask next, and what to do with the answer. No threads, no sockets, no waiting.
 *
 *     tide_poller_next    TIDE_OK: ask this, then give what came back to tide_poller_take. TIDE_NONE: nothing to ask before *wake_us
 *     tide_poller_take    an answer, or that there was none: settled and applied (this writes to the sink, and may take its time)
 *
 * The driver (a thread pool in the daemon, the simulator in tests) owns the agent while it calls, one call at a time; different
 * pollers never wait for each other.
 *
 * What is asked, in this order: streams that are known to have unread records, by the smallest number of seconds until the agent
 * drops them; held holes that may have filled (foreign agents); when nothing is unread, one watch call over all streams of the
 * agent, a long poll that ends when any of them has something new (agents with state), or each type at its interval (foreign
 * ones). A page that says there is more is followed by the next at once: a backlog drains in one cycle.
 * A foreign agent may answer less than was asked for: it has more until an answer brings nothing new.
 *
 * A question says what its reader has settled before it: the agent keeps what is unread. So a minute after the last page of a stream that
 * has become quiet one more is asked for, which brings nothing and tells the rest.
 *
 * An agent that does not know the watch call is foreign; it is tried again every ten minutes.
 *
 * Every question for a page names session, epoch and points of the position, so that an agent with another history refuses it
 * before it notes anything for the reader; then, and when the watch tells of another session, one question without them
 * and without the reader's name brings the answer that closes the position.
 *
 * Pages adapt: the aim is a page of TIDE_ASK_BYTES_DEFAULT within a second. A page that was too large for the message limit, or timed
 * out, is asked for again at a quarter of the size, down to one record; each success doubles it, up to the type's page (and
 * four times the bytes, while answers come quickly); one that took more than a second halves it.
 *
 * A record of a foreign agent that is larger than any answer may be does not hold its stream for ever: its number is found by asking behind later
 * ones, it is recorded as lost (too large), and reading goes on behind it (poller_skip.c).
 *
 * Failures: back-off with jitter (0.5 s to 30 s), of the agent when it could not be reached, of the one stream when
 * its answer was refused, brought nothing although it spoke of more, or could not be stored; the log tells the first (again after ten minutes
 * at the earliest), and every eighth in a row as an error. TIDE_E_CONFLICT of the sink: the
 * position is loaded again and the same answer settled again, if it is still the answer to what would be asked.
 * TIDE_E_OUTCOME_UNKNOWN: the position is loaded again. TIDE_E_LEASE_LOST from either end: the poller is over (is_over), unless the
 * agent names a token that the store never issued: then it reads on under a new reader name (registry.h), at most one a minute.
 * Whatever fails, the position stays where it was, and the next question starts there.
 *
 * What others change in the sink (an operator's reset, a recovered gap) is noticed by its version when the next page is applied, by
 * tide_poller_reload at once, and otherwise within about five minutes.
 *
 * Freshness: a record is in the sink one watch, one page and one commit after its acknowledgement.
 *
 * Survives: nothing of its own; everything is in the sink. Memory: a few kB and the positions. */
#pragma once

#include "base/cleanup.h"
#include "colony/registry.h"
#include "colony/report.h"
#include "colony/sink.h"

#define TIDE_POLLER_TIMEOUT_US INT64_C(10000000) /* of a query, beyond its wait */
#define TIDE_POLLER_WATCH_US INT64_C(25000000)   /* of a watch, while nothing happens */

enum {
    TIDE_POLLER_ONCE_TRIES = 5, /* failures in a row after which is_once gives up */
    TIDE_POLLER_TROUBLE_MAX = 200,
};

/* What happened, for metrics and logs; every function may be NULL. Called from tide_poller_take. */
typedef struct tide_poller_events {
    void *arg;
    void (*polled)(void *arg, const char *agent_id, const char *data_type, int64_t elapsed_us,
                   int64_t records, int64_t bytes);
    void (*applied)(void *arg, const tide_change *change);
    void (*failed)(void *arg, const char *agent_id, const char *data_type, tide_status status,
                   const char *text); /* of a question */
    void (*not_stored)(void *arg, const char *agent_id, const char *data_type, tide_status status,
                       const char *text); /* of an apply: checkpoint_update_failures_total */
} tide_poller_events;

typedef struct tide_poller_options {
    tide_sink *sink;
    tide_env *env;
    tide_reporter reporter;
    const char *reader; /* "colony-" and the store's session: one per store */
    int64_t grace_us;   /* 0: TIDE_SETTLE_GRACE_US */
    int64_t watch_us;   /* 0: TIDE_POLLER_WATCH_US */
    /* No watches: over when everything is caught up and no hole is held any more (at most grace_us), or after
     * TIDE_POLLER_ONCE_TRIES failures in a row, and then not caught up. */
    bool is_once;
    const char *const
        *data_types; /* NULL: all that the agent has, and the built-in ones of foreign agents */
    int data_type_count;
    tide_poller_events events;
} tide_poller_options;

typedef struct tide_poller tide_poller;

TIDE_MUST_CHECK tide_status tide_poller_new(tide_poller **out, const tide_held_agent *agent,
                                            const tide_poller_options *options, tide_error *err);
void tide_poller_free(tide_poller *poller);
TIDE_CLEANUP_FN(tide_poller_freep, tide_poller, tide_poller_free)

typedef struct tide_question {
    const char *path;  /* of the call; borrowed until take */
    tide_view request; /* protobuf; borrowed until take */
    int64_t timeout_us;
    int64_t message_max; /* largest answer to accept */
    int64_t bytes;       /* about how many bytes will come: for a budget over all agents */
    bool is_watch;       /* a long poll: it waits at the agent for news */
} tide_question;

/* now: env's clocks. *wake_us: monotonic time. */
TIDE_MUST_CHECK tide_status tide_poller_next(tide_poller *poller, tide_question *out,
                                             int64_t *wake_us, tide_error *err);

/* status TIDE_OK: answer is what came. Otherwise why nothing came (TIDE_E_UNAVAILABLE, TIDE_E_TIMEOUT, TIDE_E_LIMIT: too large for us, TIDE_E_BUSY: the agent has too much to do,
 * TIDE_E_UNSUPPORTED: no such call, ...) in text; retry_after_us: the agent's advice, < 0: none.
 * Returns a failure only if the poller cannot go on at all (no memory); everything else is handled and told by events. */
TIDE_MUST_CHECK tide_status tide_poller_take(tide_poller *poller, tide_status status,
                                             tide_view answer, const char *text,
                                             int64_t retry_after_us, tide_error *err);

/* The driver will not ask after all (a stop): forget the question. */
void tide_poller_drop(tide_poller *poller);

/* Somebody else has changed positions of this agent: load them again before the next question. */
void tide_poller_reload(tide_poller *poller);

bool tide_poller_is_over(const tide_poller *poller); /* lease lost, or once and done */
bool tide_poller_is_caught_up(const tide_poller *poller);
/* Why the answer that was taken last was refused, or could not be stored; NULL: it was neither. Borrowed until the next one. */
const char *tide_poller_trouble(const tide_poller *poller);
/* ... and it was not stored. */
bool tide_poller_is_sink_trouble(const tide_poller *poller);

/* How urgent the next question is: seconds until the agent drops the oldest unread record; INT64_MAX: nothing is unread. */
int64_t tide_poller_loss_us(const tide_poller *poller);

/* Ask for everything now: caught up means from here on, with what the agent has now. */
void tide_poller_refresh(tide_poller *poller);
/* It has failed as often in a row as a single pass would put up with. */
bool tide_poller_is_failing(const tide_poller *poller);
/* The last answer of the agent, or of one of its streams, was a failure. */
bool tide_poller_has_failures(const tide_poller *poller);
/* Our wall clock against the agent's. False: the agent has not stated its time. */
bool tide_poller_clock(const tide_poller *poller, int64_t *offset_us);
/* How long its next watches wait: options.watch_us. */
void tide_poller_set_watch(tide_poller *poller, int64_t watch_us);

/* How the agent stands, per stream, for metrics: fn per position. */
typedef struct tide_poller_lag {
    const char *data_type;
    int64_t records;    /* head - highest */
    int64_t checkpoint; /* everything up to it is settled */
    int64_t head;       /* as far as we were told */
    int64_t
        bytes; /* of them, about: by the mean length of those that have come so far; 0: none has */
    int64_t lag_us;  /* age of the oldest unread record on the agent's clock; 0: caught up */
    int64_t loss_us; /* until the agent drops it; INT64_MAX: nothing unread, or it does not say */
    int64_t age_us;  /* of the oldest unread record alone, where lag_us is more than that */
    /* When the agent stated a head up to which everything was read, on the monotonic clock; 0: it
     * has not, or there is something unread. */
    int64_t proven_us;
    const char
        *hold; /* why nothing moves: "", "held hole", "back-off", "sink", "record too large" */
} tide_poller_lag;
/* The same a while later: what is unread grows older. */
tide_poller_lag tide_poller_lag_after(const tide_poller_lag *lag, int64_t since_us);
/* All of the stream was proven to be read so long ago: lag_us is at least that. */
void tide_poller_lag_unproven(tide_poller_lag *lag, int64_t unproven_us);
void tide_poller_lags(const tide_poller *poller, void (*fn)(void *arg, const tide_poller_lag *lag),
                      void *arg);
