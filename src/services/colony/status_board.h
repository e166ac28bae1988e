/* status_board.h - what a colony knows of its agents, in memory: answers, failures, lag.
 *
 * /metrics, /readyz, ListAgents and Fleet read the board and never wait for the store or an agent.
 * Slots write it: a question went out, an answer arrived, how each stream stands.
 *
 *     entry    an agent that this colony polls, or polled until its store went away. It is dropped
 *              only when the store names another holder, or the agent was removed: while the store
 *              is away no series vanishes, and the lag of each stream grows.
 *     failing  an answer was refused, could not be stored or did not arrive, and since then no
 *              stream was read without a failure
 *     silent   a question is out for longer than twice the period in which the agent must answer
 *
 * checkpoint_lag_seconds of a stream is the larger of the age of its oldest unread record and the
 * time since the agent last stated a head up to which everything was read.
 *
 * The first failure of an agent and its recovery are one log line each, by tide_board_log. Beyond
 * TIDE_BOARD_LINES lines in a minute the rest of the minute is one line with the numbers of agents.
 *
 * Survives: nothing. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "colony/poller.h"

enum { TIDE_BOARD_LINES = 5 };

typedef struct tide_board tide_board;
typedef struct tide_board_agent tide_board_agent;

TIDE_MUST_CHECK tide_status tide_board_new(tide_board **out, tide_env *env, tide_log *log,
                                           tide_error *err);
void tide_board_free(tide_board *board); /* takes NULL */

/* ---- slots write ---- */

/* An agent has a slot from here to tide_board_end. The entry is made if there is none. NULL: no
 * memory, which the functions below take. */
tide_board_agent *tide_board_begin(tide_board *board, const char *agent_id);
void tide_board_end(tide_board *board, tide_board_agent *agent);

/* A question is out; an answer is due within period_us. */
void tide_board_asked(tide_board *board, tide_board_agent *agent, int64_t period_us);
/* It is not out any more: an answer arrived, or there will be none. */
void tide_board_answered(tide_board *board, tide_board_agent *agent);
/* What came of it. */
void tide_board_failed(tide_board *board, tide_board_agent *agent, const char *reason);
void tide_board_succeeded(tide_board *board, tide_board_agent *agent);
/* Since tide_board_failed, and until tide_board_succeeded. False without an entry. */
bool tide_board_is_failing(tide_board *board, const tide_board_agent *agent);
/* How the streams stand now. */
void tide_board_put_lags(tide_board *board, tide_board_agent *agent, const tide_poller *poller);

/* ---- what the store says ---- */

/* The store has a position of this stream; the agent need not have answered yet. */
void tide_board_put_stream(tide_board *board, const char *agent_id, const char *data_type,
                           int64_t checkpoint, int64_t head, int64_t unread);
/* The store names another holder, or the agent was removed. */
void tide_board_drop(tide_board *board, const char *agent_id);

/* ---- reading ---- */

/* How a stream stands now, one call per stream, with the board's lock held. */
typedef void tide_board_lag_fn(void *arg, const char *agent_id, const tide_poller_lag *lag);
void tide_board_lags(tide_board *board, tide_board_lag_fn *fn, void *arg);

typedef struct tide_board_state {
    const char *agent_id;
    bool is_polled;    /* it has a slot here */
    bool is_bad;       /* failing, or silent */
    int64_t good_us;   /* monotonic: when it was last read without a failure; 0: never */
    int64_t age_us;    /* since then, or since its entry was made */
    int64_t silent_us; /* 0: it is not silent */
    char reason[TIDE_AGENT_ERROR_MAX + 1]; /* "": it is well */
} tide_board_state;
typedef void tide_board_state_fn(void *arg, const tide_board_state *state);
void tide_board_agents(tide_board *board, tide_board_state_fn *fn, void *arg);
/* False: there is no such entry. agent_id of *out is the caller's. */
bool tide_board_find(tide_board *board, const char *agent_id, tide_board_state *out);

/* What the registry knows of an agent, with what the board knows better. */
void tide_board_judge(tide_board *board, tide_agent_row *row);

/* The colony's wall clock against the median of its agents' clocks. False: no agent has stated its
 * time. */
#define TIDE_BOARD_CLOCK_US INT64_C(600000000) /* beyond it the colony's clock is suspect */
bool tide_board_clock(tide_board *board, int64_t *offset_us);

/* Log failures that began or ended since the last call, and a clock that became suspect. Every
 * second. */
void tide_board_log(tide_board *board);
/* The daemon is ending: that calls to its agents end is no news from now on. */
void tide_board_end_log(tide_board *board);
