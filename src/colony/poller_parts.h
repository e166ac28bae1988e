/* poller_parts.h - what the files of the poller share; nobody else includes it.
 *
 *     poller.c        next and take: the life of a question
 *     poller_take.c   a page's answer: read, settled, applied
 *     poller_plan.c   which stream is asked next, and when
 *     poller_page.c   how much is asked for
 *     poller_skip.c   a record that is too large for any answer
 *     poller_watch.c  the watch call: request and answer
 *     poller_report.c  reports about gaps; also recovery's
 *     poll/session_check.c  which agent answers
 *     poll/overlap.c        has a foreign agent's history parted from ours? */
#pragma once

#include "colony/poller.h"

/* ---- pages ---- */

#define TIDE_POLL_PAGE_AIM_US INT64_C(1000000) /* a page that takes longer was too large */
#define TIDE_POLL_PAGE_QUICK_US INT64_C(250000)

enum {
    TIDE_POLL_PAGE_BYTES_MIN = 4096, /* below it the number of records decides */
    TIDE_POLL_PAGE_BYTES_MAX = 4 * TIDE_ASK_BYTES_DEFAULT,
};

typedef struct tide_poll_page {
    int64_t records_max; /* the type's */
    int64_t records;
    int64_t bytes;
} tide_poll_page;

void tide_poll_page_init(tide_poll_page *page, const tide_colony_type *type);
/* An answer came, after elapsed_us. */
void tide_poll_page_grow(tide_poll_page *page, int64_t elapsed_us);
/* It was too large, or too slow. False: it was as small as can be. */
bool tide_poll_page_shrink(tide_poll_page *page);
/* The largest answer to accept: of a single record it may be as large as there are. */
int64_t tide_poll_page_message_max(const tide_poll_page *page);

/* ---- watch ---- */

#define TIDE_POLL_WATCH_PATH "/tidemark.agent.v1.AgentService/WatchStreams"

enum {
    TIDE_POLL_WATCH_ANSWER_MAX = 4 << 20,
    TIDE_POLL_WATCH_STREAMS_MAX = 2 * TIDE_FEED_STREAMS_MAX,
};

typedef struct tide_poll_watch_seen {
    const char *stream;
    int64_t head;
} tide_poll_watch_seen;

TIDE_MUST_CHECK tide_status tide_poll_watch_encode(tide_buffer *out,
                                                   const tide_poll_watch_seen *seen, int count,
                                                   const char *session_id, int64_t wait_us,
                                                   tide_error *err);

/* What the watch says of a stream; of StreamState. */
typedef struct tide_poll_watch_stream {
    char stream[TIDE_FEED_NAME_MAX + 1];
    int64_t epoch;
    int64_t head_seq;
    int64_t oldest_seq;
    int64_t head_arrived_ms;
    int64_t now_ms;
    int64_t retention_ms;
} tide_poll_watch_stream;

typedef tide_status tide_poll_watch_fn(void *arg, const tide_poll_watch_stream *stream,
                                       tide_error *err);

/* session_id is filled before fn is called. TIDE_E_DAMAGED: no such answer, or beyond the limits above; fn has not been called.
 * TIDE_E_INVALID: no session id. */
TIDE_MUST_CHECK tide_status tide_poll_watch_read(tide_view bytes,
                                                 char session_id[TIDE_POSITION_ID_MAX + 1],
                                                 tide_poll_watch_fn *fn, void *arg,
                                                 tide_error *err);

/* ---- the poller ---- */

#define TIDE_POLLER_RELOAD_US INT64_C(300000000)
#define TIDE_POLLER_PROBE_US INT64_C(600000000) /* a foreign agent is asked for a watch again */
#define TIDE_POLLER_LEAD_US                                                                        \
    INT64_C(60000000) /* foreign: how often is looked below `first`, as long as void gaps are */
#define TIDE_POLLER_TELL_US                                                                        \
    INT64_C(60000000) /* how soon an agent is told what was settled, at the latest */

typedef enum tide_poller_mode {
    TIDE_POLLER_PROBE,   /* what it can is not known */
    TIDE_POLLER_WATCH,   /* it tells of news */
    TIDE_POLLER_FOREIGN, /* it only answers pages: each type is asked for at its interval */
} tide_poller_mode;

/* A closed epoch that the agent tells by its id, and may have left somewhere in the middle: how much of it is common is found out by showing its
 * points, in a question of its own. */
typedef struct tide_poll_past {
    bool is_asking;
    bool is_known; /* through: of this epoch */
    int64_t epoch; /* 0: none */
    char epoch_id[TIDE_SESSION_ID_SIZE];
    int64_t through;
    tide_feed_point points[TIDE_FEED_POINTS_MAX];
    int point_count;
} tide_poll_past;

typedef struct tide_poll_stream {
    char name[TIDE_FEED_NAME_MAX + 1];
    const tide_colony_type *type;
    bool is_ignored; /* not collected: only its head is kept, so that no watch ends because of it */
    bool is_loaded;  /* the position is the sink's */
    bool is_met;     /* an answer was accepted since the poller began */
    bool is_anew;    /* ask once without session, epoch and points */
    int refused;     /* questions of our history, in a row, while the agent states it */
    bool is_more;    /* the last page said that there is more, or (foreign) brought something new */
    bool is_turned;  /* foreign: the last answer was of another session than the one before */
    bool is_absent;  /* the agent has no such call or stream; retry_us: when to try again */
    bool is_told;    /* the agent has stated head and epoch */
    bool is_listed;  /* the last watch told of it */
    int64_t head;    /* as stated last */
    int64_t oldest;  /* as the watch stated it */
    int64_t epoch;
    int64_t
        arrived_ms;  /* when the first unread record arrived, on the agent's clock; 0: not known */
    int64_t now_ms;  /* the agent's clock */
    int64_t told_us; /* when all this was stated, on ours */
    int64_t page_us; /* when a page of it last arrived */
    int64_t retention_ms;
    tide_position position;
    tide_poll_page page;
    int64_t came_records; /* in answers so far, and their bytes */
    int64_t came_bytes;
    int failures;            /* in a row */
    int64_t retry_us;        /* not before */
    int64_t due_us;          /* foreign: the next look */
    int64_t lead_us;         /* foreign: the next look below `first`; see poller_plan.c */
    int64_t lead_seq;        /* found there: what follows is read behind it; 0: nothing */
    int64_t lead_through;    /* ... up to here */
    int64_t asked_us;        /* whose turn it is, where nothing else decides */
    int64_t settled;         /* what the agent knows this reader to have settled */
    bool is_sink_hold;       /* the last failure was the sink's */
    bool is_too_large;       /* an answer of one record was */
    bool is_skipping;        /* which one is it? see poller_skip.c */
    int64_t skip_from;       /* what was asked for behind it */
    int64_t skip_low;        /* too large behind it */
    int64_t skip_high;       /* fits behind it; 0: nothing yet */
    int64_t told_refusal_us; /* when a refused answer was logged last; 0: never */
    int64_t
        past_epoch; /* the highest closed one of the session, when that matters; 0: it does not */
    char past_epoch_id[TIDE_SESSION_ID_SIZE];
    tide_poll_past *past; /* NULL: none */
    bool is_forking;      /* which of our points does the agent still have? see poll/overlap.c */
    int fork_point;       /* the one that is asked for; -1: none is left */
    int64_t begun_epoch;  /* that the agent began last, when one was closed for it */
    int64_t begun_us;     /* since when they are counted */
    int begun_count;
} tide_poll_stream;

/* Which session the responses state (poll/session_check.c). */
typedef struct tide_poll_stated {
    char session_id[TIDE_POSITION_ID_MAX + 1]; /* of the last response; "": none yet */
    char before[TIDE_POSITION_ID_MAX + 1];     /* another one, before it */
    int count; /* responses in a row that stated it, up to CONFIRM */
    int turns; /* changes in a row before it was confirmed */
    int64_t since_us;
    char left[TIDE_POSITION_ID_MAX + 1]; /* the one that was left last */
    int64_t left_us;
    int returns; /* to a session that was left just before */
} tide_poll_stated;

typedef enum tide_asked_kind {
    TIDE_ASKED_NOTHING,
    TIDE_ASKED_WATCH,
    TIDE_ASKED_PAGE,
} tide_asked_kind;

struct tide_poller {
    tide_poller_options options;
    tide_held_agent agent;
    char reader[TIDE_FEED_READER_MAX + 1];
    char lease_name[TIDE_AGENT_ID_MAX + 16];
    char **data_types; /* NULL: all */
    int data_type_count;

    tide_poller_mode mode;
    char session_id[TIDE_POSITION_ID_MAX + 1]; /* as stated last; "": not yet */
    tide_poll_stated stated;
    tide_poll_stream *streams;
    int count;

    tide_asked_kind asked;
    int asked_stream; /* index */
    bool is_lead;     /* the question looks below `first` */
    tide_ask ask;
    int64_t asked_us;
    int64_t wait_us; /* of the watch */
    tide_buffer request;

    int failures; /* of the agent, in a row */
    int64_t retry_us;
    int idle_watches; /* that ended early, in a row, and nothing new was read since */
    int64_t watch_us; /* no watch before */
    int64_t probe_us; /* foreign: when a watch is tried again */
    int64_t reload_us;
    int64_t renamed_us; /* when the reader took another name; 0: never */
    bool has_clock;
    int64_t clock_offset_us; /* our wall clock against the agent's, when it stated its time last */
    bool is_stale;           /* what the agent has told was before a refresh */
    bool is_lease_lost;
    bool is_given_up;
    char trouble[TIDE_POLLER_TROUBLE_MAX]; /* of the last answer; "": none */
    bool is_sink_trouble;                  /* ... it is the sink's */
};

int64_t tide_poller_mono(const tide_poller *poller);
/* The agent has stated its wall clock; 0: it has not. */
void tide_poller_note_clock(tide_poller *poller, int64_t now_ms);

/* The stream of this name, added if it is not there. TIDE_E_LIMIT: too many. */
/* The stream's position is this one from now on; takes it over. */
void tide_poller_replace(tide_poll_stream *stream, tide_position *by);
/* The position from the sink, unless it is there. */
TIDE_MUST_CHECK tide_status tide_poller_load(tide_poller *poller, tide_poll_stream *stream,
                                             tide_error *err);

/* ---- plan ---- */

/* Is there something to be read? Of a loaded stream. */
bool tide_poll_plan_is_unread(const tide_poller *poller, const tide_poll_stream *stream);
/* Everything settled, nothing held, nothing failing. */
bool tide_poll_plan_is_settled(const tide_poller *poller, const tide_poll_stream *stream);
/* Until the agent drops its oldest unread record; INT64_MAX: it does not say. */
int64_t tide_poll_plan_loss_us(const tide_poll_stream *stream, int64_t mono_us);
/* The stream to ask now; -1: none, and *wake_us says when there may be one (INT64_MAX: not known). */
int tide_poll_plan_choose(const tide_poller *poller, int64_t mono_us, int64_t *wake_us);
/* When a foreign agent's stream is to be looked at again, after an answer. */
int64_t tide_poll_plan_due(const tide_poller *poller, const tide_poll_stream *stream,
                           int64_t mono_us);
/* Of a foreign agent: is it time to look whether numbers below `first` have come? */
bool tide_poll_plan_wants_lead(const tide_poller *poller, const tide_poll_stream *stream);
/* The question for a stream. */
void tide_poll_plan_ask(const tide_poller *poller, const tide_poll_stream *stream, tide_ask *out);

/* ---- take ---- */

/* A page's answer: read, settled, applied; what goes wrong is noted at the stream. TIDE_E_NOMEM alone is returned. */
TIDE_MUST_CHECK tide_status tide_poller_take_page(tide_poller *poller, tide_poll_stream *stream,
                                                  tide_view answer, int64_t elapsed_us,
                                                  tide_error *err);
/* Back-off of one stream. */
void tide_poller_hold_stream(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                             const char *text);

/* ---- a foreign agent's history ---- */

/* Let the request start one record early, where a digest of that record is known. */
void tide_poll_overlap_ask(const tide_poll_stream *stream, tide_ask *ask);
/* The record that overlaps is another one: the search for the last common one begins. Otherwise what
 * was asked for once more leaves the reply. */
bool tide_poll_overlap_differs(tide_poller *poller, tide_poll_stream *stream, tide_reply *reply);
/* The search's next question, and its answer. TIDE_E_NOMEM. */
void tide_poll_fork_ask(const tide_poll_stream *stream, tide_ask *ask);
TIDE_MUST_CHECK tide_status tide_poll_fork_take(tide_poller *poller, tide_poll_stream *stream,
                                                const tide_reply *reply, tide_error *err);

/* ---- who answers ---- */

/* A response has stated its session. */
void tide_poller_note_session(tide_poller *poller, const char *session_id);
/* May a response of this session be settled for the position? TIDE_NONE: not before it is stated again.
 * TIDE_E_MISMATCH: two agents answer in turn. */
TIDE_MUST_CHECK tide_status tide_poller_check_session(const tide_poller *poller,
                                                      const tide_position *at,
                                                      const char *session_id, tide_error *err);
/* The stream is asked again in a moment. */
void tide_poller_ask_again(tide_poller *poller, tide_poll_stream *stream);
/* A position of the stream was closed for this response. */
void tide_poller_note_closed(tide_poller *poller, tide_poll_stream *stream,
                             const tide_change *change, const tide_reply *reply);
/* Hold the stream of an agent that begins too many epochs. */
void tide_poller_slow(tide_poller *poller, tide_poll_stream *stream);

/* ---- reports ---- */

void tide_poller_report(const tide_reporter *reporter, const tide_report *report);

/* What a change that was applied means for its gaps: found, recovered, void, PERMANENT DATA LOSS. ended: gaps that were open and end
 * with their position (closes_all_gaps); NULL: none. */
void tide_poller_report_change(const tide_reporter *reporter, const tide_change *change,
                               const tide_gap_list *ended);
/* How many of them the change does not count itself. */
int64_t tide_poller_count_ended(const tide_change *change, const tide_gap_list *ended);
/* Those of a change that is about to be applied; at most 1,000 are named. */
TIDE_MUST_CHECK tide_status tide_poller_find_ended(tide_sink *sink, const tide_change *change,
                                                   tide_gap_list *out, tide_error *err);

/* ---- records that are too large ---- */

/* The answer to the question for one record was too large. */
void tide_poll_skip_begin(tide_poller *poller, tide_poll_stream *stream);
/* The next question of the search, in place of a page. */
void tide_poll_skip_ask(const tide_poll_stream *stream, tide_ask *ask);
/* What came of it: too large again, or an answer. TIDE_E_NOMEM. */
void tide_poll_skip_large(tide_poller *poller, tide_poll_stream *stream);
TIDE_MUST_CHECK tide_status tide_poll_skip_fits(tide_poller *poller, tide_poll_stream *stream,
                                                const tide_reply *reply, tide_error *err);
/* poller_take.c: apply a change of the stream's position under the agent's lease; its position is the stream's then. */
TIDE_MUST_CHECK tide_status tide_poller_apply(tide_poller *poller, tide_poll_stream *stream,
                                              tide_change *change, tide_error *err);
