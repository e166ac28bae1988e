/* rig.h - agents and a colony in one process, on clocks that the test holds.
 *
 * A rig_agent is a real feed on a SQLite file with clocks of its own. rig_ask answers (path, request) as the agent's query
 * service does, with the service's own decoding and encoding (services/agent/query.h); what can go wrong between the two goes wrong on
 * demand. A rig_script is an agent that nobody here wrote: it knows what the telemetry document knows (start_seq_id, max_records;
 * records, max_seq_id, session_id), and its rows are whatever the test says, also nonsense.
 *
 * rig_poll drives a poller over virtual time: questions are answered, waits move the clocks, until it has caught up. */
#pragma once

#include <tidemark/feed.h>
#include <tidemark/tidemark.h>

#include "base/buffer.h"
#include "base/log.h"
#include "colony/audit.h"
#include "colony/poller.h"
#include "colony/recover.h"
#include "support/store_fixture.h"

#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)

typedef enum rig_fault {
    RIG_FINE,
    RIG_AWAY,          /* cannot be reached; did nothing */
    RIG_SILENT,        /* never answers: the time-out passes */
    RIG_LOST,          /* does its work, and the answer is lost */
    RIG_LATE,          /* the same, after the time-out */
    RIG_GARBAGE,       /* bytes that are no answer */
    RIG_CUT,           /* the first half of its answer */
    RIG_HUGE,          /* larger than the message limit, whatever is asked for */
    RIG_NO_SESSION,    /* an answer without a session id */
    RIG_OTHER_SESSION, /* another session id with every answer */
    RIG_REFUSES,       /* denied */
} rig_fault;

enum { RIG_SCRIPT_ROWS = 64 };

typedef struct rig_row {
    uint64_t seq;
    int64_t from_us; /* visible from then on, on the colony's clock; 0: always */
    bool is_gone;
    int version;    /* another record with this number */
    bool is_broken; /* its inside cannot be decoded */
} rig_row;

typedef struct rig_script {
    char session_id[65];
    rig_row rows[RIG_SCRIPT_ROWS]; /* answered in this order */
    int count;
    int page_max; /* records that it gives at a time, whatever is asked for; 0: no limit */
} rig_script;

typedef struct rig_agent {
    char name[TIDE_AGENT_ID_MAX + 1];
    virtual_env clock;
    tide_env *env;   /* &clock.env, or a simulator's */
    const char *vfs; /* NULL: the default */
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    char state_dir[TEMPDIR_PATH_MAX]; /* of the identity marker; "": none */
    tide_store *store;
    tide_feed *feed;
    tide_feed_options feed_options;
    int64_t put; /* records of all streams, ever */

    rig_script *script; /* NULL: the feed answers */

    rig_fault fault;
    int fault_count;    /* answers that it still spoils; < 0: all */
    int64_t answer_max; /* answers longer than this are HUGE; 0: none */
    int64_t slow_us;    /* how long an answer takes */
    bool has_no_watch;

    int64_t asked; /* questions that reached it */
    int64_t pages;
    int64_t last_start; /* of the last page that was asked for */
    int64_t last_max;
    int64_t last_token;
} rig_agent;

typedef struct rig rig;
struct rig {
    store_test *t;
    tide_sink *sink;
    rig_agent *agents;
    int agent_count;
    tide_log log;
    FILE *log_file;
    char *log_text;
    size_t log_len;
    tide_error err;
    /* what pollers and recovery told */
    int64_t polled, applied, failed, not_stored;
    int64_t stored, repeated, detected, recovered, permanent, voided;
    char last_failure[TIDE_ERROR_TEXT_MAX];
};

/* A sink on the case's store, and agents a0, a1, ... registered with addresses of the same name. */
rig *rig_new(store_test *t, int agent_count);
void rig_free(rig *r);
const char *rig_log_text(rig *r);

/* All clocks move. */
void rig_advance(rig *r, int64_t us);

/* ---- agents ---- */

/* Commit count records of telemetry, logs, system_metrics or a user's stream; returns the first one's number. Their trace_id (body, name)
 * is "NAME-n", with n counted by the agent. */
int64_t rig_put(rig_agent *agent, const char *stream, int count);
tide_status rig_try_put(rig_agent *agent, const char *stream, int count, int64_t *first_seq,
                        tide_error *err);
void rig_agent_close(rig_agent *agent);
void rig_agent_open(rig_agent *agent);
tide_status rig_agent_try_open(rig_agent *agent, tide_error *err);
void rig_agent_restart(rig_agent *agent);
/* A new, empty store: another session. */
void rig_agent_wipe(rig_agent *agent);
/* A copy of the file, to be put back later. with_evidence: as a new file, which the agent notices when it opens; without: the bytes of the
 * old one are overwritten and the identity marker is gone, as a volume put back does. */
void rig_agent_backup(rig_agent *agent);
void rig_agent_restore(rig_agent *agent, bool with_evidence);
/* Retention runs until there is nothing to do. */
void rig_agent_retain(rig_agent *agent);
int64_t rig_agent_head(rig_agent *agent, const char *stream);
/* From now on this agent is a foreign one with these rows. */
void rig_agent_script(rig_agent *agent, rig_script *script);
/* Rows 1 .. count of a script, without those in but (ended by 0). */
void rig_script_fill(rig_script *script, int count, const uint64_t *but);
/* One more row, in its place. */
void rig_script_add(rig_script *script, uint64_t seq);

/* What the agent says to a question; no network, no faults. TIDE_NONE: a watch without news, which waits *wait_us, and *out is what it
 * would say then. */
tide_status rig_answer(rig_agent *agent, const char *path, tide_view request, tide_buffer *out,
                       int64_t *wait_us, tide_error *err);
/* Ask an agent as a client would. */
tide_status rig_ask(rig *r, rig_agent *agent, const tide_question *question, tide_buffer *answer,
                    tide_error *err);
/* Fits tide_audit; arg is the rig. */
tide_status rig_audit_ask(void *arg, const char *agent_id, const char *path, tide_view request,
                          tide_buffer *answer, tide_error *err);

/* ---- the colony ---- */

tide_poller_options rig_options(rig *r);
tide_poller *rig_poller(rig *r, rig_agent *agent);
tide_poller *rig_poller_with(rig *r, rig_agent *agent, tide_poller_options options, int64_t token);

/* One question and its answer. TIDE_NONE: nothing to ask now; *wake_us. */
tide_status rig_turn(rig *r, rig_agent *agent, tide_poller *poller, int64_t *wake_us);
/* Until it has caught up, or is over; fails the case when max_us of virtual time did not suffice. */
void rig_catch_up(rig *r, rig_agent *agent, tide_poller *poller, int64_t max_us);
/* For so long, whatever happens. */
void rig_poll_for(rig *r, rig_agent *agent, tide_poller *poller, int64_t us);
/* A poller of its own, for one catch up. */
void rig_catch_up_once(rig *r, rig_agent *agent);

tide_recover_options rig_recover_options(rig *r);
/* Plan, then every item that is due. Returns how many questions were asked. */
int rig_recover(rig *r, const tide_recover_options *options);

/* ---- looking ---- */

int64_t rig_query(rig *r, const char *sql); /* one number */
tide_position rig_position(rig *r, const rig_agent *agent, const char *stream);
int64_t rig_last_seq(rig *r, const rig_agent *agent, const char *stream);
int64_t rig_count_gaps(rig *r, tide_gap_status status);
/* Every position balances, rows are there, digests agree. */
void rig_assert_balanced(rig *r);
/* Rows of telemetry from this agent's present session: exactly the numbers first .. last. */
void rig_assert_rows(rig *r, const rig_agent *agent, int64_t first, int64_t last);
