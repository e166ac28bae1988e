#include "services/colony/status_board.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/text/utf8.h"

#define MINUTE_US INT64_C(60000000)

typedef struct board_stream {
    char data_type[TIDE_FEED_NAME_MAX + 1];
    tide_poller_lag lag; /* without its data_type */
    int64_t stated_us;   /* when the lag was noted */
    int64_t proven_us;   /* when the agent stated a head up to which all was read; or the begin */
} board_stream;

struct tide_board_agent {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    int slots;       /* of this agent: one that leaves may overlap with its successor */
    bool is_dropped; /* as soon as it has no slot */
    int64_t begun_us;
    int64_t asked_us; /* 0: no question is out */
    int64_t period_us;
    int64_t good_us;
    int64_t failed_us; /* the first failure since then; 0: none */
    char reason[TIDE_AGENT_ERROR_MAX + 1];
    bool has_clock;
    int64_t clock_offset_us;
    bool is_logged_bad;
    int64_t logged_us;
    board_stream *streams;
    int stream_count;
};

struct tide_board {
    tide_env *env;
    tide_log *log;
    pthread_mutex_t lock;
    tide_board_agent **agents; /* ascending by name */
    int count;
    /* Of tide_board_log. */
    int64_t minute_us; /* when the current minute of lines began */
    int lines;
    int64_t failed; /* agents beyond the lines of this minute */
    int64_t recovered;
    bool is_clock_suspect;
    char first[TIDE_AGENT_ID_MAX + 1];
    char first_reason[TIDE_AGENT_ERROR_MAX + 1];
};

static int64_t get_now(const tide_board *board)
{
    return board->env->mono_us(board->env);
}

tide_status tide_board_new(tide_board **out, tide_env *env, tide_log *log, tide_error *err)
{
    TIDE_NEW(tide_board, board, err);
    board->env = env;
    board->log = log;
    (void)pthread_mutex_init(&board->lock, NULL);
    *out = board;
    return TIDE_OK;
}

static void free_agent(tide_board_agent *agent)
{
    free(agent->streams);
    free(agent);
}

void tide_board_free(tide_board *board)
{
    if (!board)
        return;
    for (int i = 0; i < board->count; i++)
        free_agent(board->agents[i]);
    free(board->agents);
    (void)pthread_mutex_destroy(&board->lock);
    free(board);
}

/* ---- entries; under the lock ---- */

/* Where it is, or would be. */
static int find_index(const tide_board *board, const char *agent_id, bool *is_found)
{
    int low = 0;
    int high = board->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(board->agents[middle]->agent_id, agent_id);
        if (order == 0) {
            *is_found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_found = false;
    return low;
}

static tide_board_agent *find_agent(const tide_board *board, const char *agent_id)
{
    bool is_found = false;
    const int index = find_index(board, agent_id, &is_found);
    return is_found ? board->agents[index] : NULL;
}

static tide_board_agent *find_or_add(tide_board *board, const char *agent_id)
{
    bool is_found = false;
    const int index = find_index(board, agent_id, &is_found);
    if (is_found)
        return board->agents[index];
    if (tide_list_room(&board->agents, board->count, sizeof(tide_board_agent *), TIDE_LIST_MAX,
                       NULL) < TIDE_OK)
        return NULL;
    tide_board_agent *agent = calloc(1, sizeof *agent);
    if (!agent)
        return NULL;
    (void)snprintf(agent->agent_id, sizeof agent->agent_id, "%s", agent_id);
    agent->begun_us = get_now(board);
    memmove(board->agents + index + 1, board->agents + index,
            (size_t)(board->count - index) * sizeof(tide_board_agent *));
    board->agents[index] = agent;
    board->count++;
    return agent;
}

static void remove_agent(tide_board *board, const char *agent_id)
{
    bool is_found = false;
    const int index = find_index(board, agent_id, &is_found);
    if (!is_found)
        return;
    free_agent(board->agents[index]);
    board->count--;
    memmove(board->agents + index, board->agents + index + 1,
            (size_t)(board->count - index) * sizeof(tide_board_agent *));
}

static board_stream *find_stream(tide_board_agent *agent, const char *data_type)
{
    for (int i = 0; i < agent->stream_count; i++)
        if (strcmp(agent->streams[i].data_type, data_type) == 0)
            return &agent->streams[i];
    return NULL;
}

static board_stream *find_or_add_stream(tide_board_agent *agent, const char *data_type)
{
    board_stream *stream = find_stream(agent, data_type);
    if (stream || tide_list_room(&agent->streams, agent->stream_count, sizeof *agent->streams,
                                 TIDE_LIST_MAX, NULL) < TIDE_OK)
        return stream;
    stream = &agent->streams[agent->stream_count++];
    *stream = (board_stream){.lag = {.loss_us = INT64_MAX, .hold = ""},
                             .stated_us = agent->begun_us,
                             .proven_us = agent->begun_us};
    (void)snprintf(stream->data_type, sizeof stream->data_type, "%s", data_type);
    return stream;
}

/* ---- writing ---- */

tide_board_agent *tide_board_begin(tide_board *board, const char *agent_id)
{
    TIDE_HOLD(&board->lock);
    tide_board_agent *agent = find_or_add(board, agent_id);
    if (agent) {
        agent->slots++;
        agent->is_dropped = false;
    }
    return agent;
}

void tide_board_end(tide_board *board, tide_board_agent *agent)
{
    if (!agent)
        return;
    TIDE_HOLD(&board->lock);
    agent->asked_us = 0;
    if (--agent->slots == 0 && agent->is_dropped)
        remove_agent(board, agent->agent_id);
}

void tide_board_asked(tide_board *board, tide_board_agent *agent, int64_t period_us)
{
    if (!agent)
        return;
    TIDE_HOLD(&board->lock);
    agent->asked_us = get_now(board);
    agent->period_us = period_us;
}

void tide_board_answered(tide_board *board, tide_board_agent *agent)
{
    if (!agent)
        return;
    TIDE_HOLD(&board->lock);
    agent->asked_us = 0;
}

void tide_board_failed(tide_board *board, tide_board_agent *agent, const char *reason)
{
    if (!agent)
        return;
    const tide_view cut = tide_utf8_cut(tide_view_of(reason), sizeof agent->reason - 1);
    TIDE_HOLD(&board->lock);
    if (agent->failed_us == 0)
        agent->failed_us = get_now(board);
    (void)snprintf(agent->reason, sizeof agent->reason, "%.*s", (int)cut.len, cut.ptr);
}

void tide_board_succeeded(tide_board *board, tide_board_agent *agent)
{
    if (!agent)
        return;
    TIDE_HOLD(&board->lock);
    agent->good_us = get_now(board);
    agent->failed_us = 0;
    agent->reason[0] = '\0';
}

bool tide_board_is_failing(tide_board *board, const tide_board_agent *agent)
{
    if (!agent)
        return false;
    TIDE_HOLD(&board->lock);
    return agent->failed_us != 0;
}

typedef struct putting {
    const tide_board *board;
    tide_board_agent *agent;
    int64_t now_us;
} putting;

static void put_lag(void *arg, const tide_poller_lag *lag)
{
    const putting *p = arg;
    board_stream *stream = find_or_add_stream(p->agent, lag->data_type);
    if (!stream)
        return; /* no memory: it is for status alone */
    stream->lag = *lag;
    stream->lag.data_type = NULL;
    stream->stated_us = p->now_us;
    if (lag->proven_us > stream->proven_us)
        stream->proven_us = lag->proven_us;
}

void tide_board_put_lags(tide_board *board, tide_board_agent *agent, const tide_poller *poller)
{
    if (!agent)
        return;
    TIDE_HOLD(&board->lock);
    putting p = {.board = board, .agent = agent, .now_us = get_now(board)};
    tide_poller_lags(poller, put_lag, &p);
    agent->has_clock = tide_poller_clock(poller, &agent->clock_offset_us);
}

void tide_board_put_stream(tide_board *board, const char *agent_id, const char *data_type,
                           int64_t checkpoint, int64_t head, int64_t unread)
{
    TIDE_HOLD(&board->lock);
    tide_board_agent *agent = find_agent(board, agent_id);
    if (agent && !find_stream(agent, data_type)) {
        board_stream *stream = find_or_add_stream(agent, data_type);
        if (stream) {
            stream->lag.checkpoint = checkpoint;
            stream->lag.head = head;
            stream->lag.records = unread;
        }
    }
}

void tide_board_drop(tide_board *board, const char *agent_id)
{
    TIDE_HOLD(&board->lock);
    tide_board_agent *agent = find_agent(board, agent_id);
    if (agent && agent->slots > 0)
        agent->is_dropped = true;
    else if (agent)
        remove_agent(board, agent_id);
}

/* ---- reading ---- */

void tide_board_lags(tide_board *board, tide_board_lag_fn *fn, void *arg)
{
    TIDE_HOLD(&board->lock);
    const int64_t now_us = get_now(board);
    for (int i = 0; i < board->count; i++) {
        const tide_board_agent *agent = board->agents[i];
        for (int k = 0; k < agent->stream_count; k++) {
            const board_stream *stream = &agent->streams[k];
            tide_poller_lag lag = tide_poller_lag_after(&stream->lag, now_us - stream->stated_us);
            lag.data_type = stream->data_type;
            lag.proven_us = stream->proven_us;
            tide_poller_lag_unproven(&lag, now_us - stream->proven_us);
            fn(arg, agent->agent_id, &lag);
        }
    }
}

static void get_state(const tide_board_agent *agent, int64_t now_us, tide_board_state *out)
{
    const int64_t waited_us = agent->asked_us != 0 ? now_us - agent->asked_us : 0;
    *out = (tide_board_state){.agent_id = agent->agent_id,
                              .is_polled = agent->slots > 0,
                              .good_us = agent->good_us,
                              .age_us =
                                  now_us - (agent->good_us != 0 ? agent->good_us : agent->begun_us),
                              .silent_us = waited_us > 2 * agent->period_us ? waited_us : 0};
    out->is_bad = agent->failed_us != 0 || out->silent_us > 0;
    if (agent->failed_us != 0)
        (void)snprintf(out->reason, sizeof out->reason, "%s", agent->reason);
    else if (out->silent_us > 0)
        (void)snprintf(out->reason, sizeof out->reason, "silent for %" PRId64 " s",
                       out->silent_us / 1000000);
}

void tide_board_agents(tide_board *board, tide_board_state_fn *fn, void *arg)
{
    tide_board_state state;
    TIDE_HOLD(&board->lock);
    const int64_t now_us = get_now(board);
    for (int i = 0; i < board->count; i++) {
        get_state(board->agents[i], now_us, &state);
        fn(arg, &state);
    }
}

bool tide_board_find(tide_board *board, const char *agent_id, tide_board_state *out)
{
    (void)pthread_mutex_lock(&board->lock);
    const tide_board_agent *agent = find_agent(board, agent_id);
    if (agent)
        get_state(agent, get_now(board), out);
    (void)pthread_mutex_unlock(&board->lock);
    if (agent)
        out->agent_id = agent_id;
    return agent != NULL;
}

void tide_board_judge(tide_board *board, tide_agent_row *row)
{
    tide_board_state state;
    if (!tide_board_find(board, row->agent_id, &state))
        return;
    if (state.is_bad) {
        if (row->health != TIDE_AGENT_UNSEEN)
            row->health =
                state.age_us < TIDE_AGENT_DEGRADED_US ? TIDE_AGENT_DEGRADED : TIDE_AGENT_AWAY;
        memcpy(row->error, state.reason, sizeof row->error);
    } else if (state.good_us != 0 && state.is_polled) {
        row->health = TIDE_AGENT_HEALTHY;
        row->error[0] = '\0';
    } else if (state.good_us != 0) {
        /* The store went away, and with it the lease: nothing is known of the agent since. */
        if (state.age_us >= TIDE_AGENT_HEALTHY_US)
            row->health =
                state.age_us < TIDE_AGENT_DEGRADED_US ? TIDE_AGENT_DEGRADED : TIDE_AGENT_AWAY;
        (void)snprintf(row->error, sizeof row->error, "not polled for %" PRId64 " s",
                       state.age_us / 1000000);
    }
}

static int compare_i64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Under the lock. */
static bool get_clock(const tide_board *board, int64_t *offset_us)
{
    size_t count = 0;
    int64_t *offsets = calloc((size_t)board->count + 1, sizeof *offsets);
    for (int i = 0; offsets && i < board->count; i++)
        if (board->agents[i]->has_clock)
            offsets[count++] = board->agents[i]->clock_offset_us;
    if (count > 0) {
        qsort(offsets, count, sizeof *offsets, compare_i64);
        *offset_us = offsets[count / 2];
    }
    free(offsets);
    return count > 0;
}

bool tide_board_clock(tide_board *board, int64_t *offset_us)
{
    TIDE_HOLD(&board->lock);
    return get_clock(board, offset_us);
}

/* ---- the log ---- */

static void log_clock(tide_board *board)
{
    int64_t offset_us = 0;
    const bool is_suspect = get_clock(board, &offset_us) && llabs(offset_us) > TIDE_BOARD_CLOCK_US;
    if (is_suspect == board->is_clock_suspect)
        return;
    board->is_clock_suspect = is_suspect;
    tide_log_write(board->log, is_suspect ? TIDE_LOG_WARN : TIDE_LOG_INFO,
                   is_suspect ? "clock suspect: it differs from the agents' clocks"
                              : "clock agrees with the agents' clocks again",
                   TIDE_FI("ahead_seconds", offset_us / 1000000), TIDE_F_END);
}

static void log_line(const tide_board *board, const tide_board_state *state, int64_t bad_us)
{
    if (state->is_bad)
        tide_log_write(board->log, TIDE_LOG_WARN, "agent failed", TIDE_F("agent", state->agent_id),
                       TIDE_F("reason", state->reason), TIDE_F_END);
    else
        tide_log_write(board->log, TIDE_LOG_INFO, "agent recovered",
                       TIDE_F("agent", state->agent_id), TIDE_FI("after_seconds", bad_us / 1000000),
                       TIDE_F_END);
}

/* Beyond the lines of a minute agents are only counted. */
static void note_turn(tide_board *board, const tide_board_state *state, int64_t bad_us)
{
    if (board->lines < TIDE_BOARD_LINES) {
        board->lines++;
        log_line(board, state, bad_us);
        return;
    }
    if (state->is_bad && board->failed++ == 0) {
        (void)snprintf(board->first, sizeof board->first, "%s", state->agent_id);
        memcpy(board->first_reason, state->reason, sizeof board->first_reason);
    }
    board->recovered += state->is_bad ? 0 : 1;
}

static void end_minute(tide_board *board, int64_t now_us)
{
    if (now_us - board->minute_us < MINUTE_US)
        return;
    if (board->failed + board->recovered > 0)
        tide_log_write(board->log, board->failed > 0 ? TIDE_LOG_WARN : TIDE_LOG_INFO,
                       "further agents failed or recovered within a minute",
                       TIDE_FI("failed", board->failed), TIDE_FI("recovered", board->recovered),
                       TIDE_F("agent", board->first), TIDE_F("reason", board->first_reason),
                       TIDE_F_END);
    /* As long as there are that many, a minute has one line. */
    board->lines = board->failed + board->recovered > 0 ? TIDE_BOARD_LINES : 0;
    board->minute_us = now_us;
    board->failed = 0;
    board->recovered = 0;
    board->first[0] = '\0';
    board->first_reason[0] = '\0';
}

void tide_board_end_log(tide_board *board)
{
    TIDE_HOLD(&board->lock);
    board->log = NULL;
}

void tide_board_log(tide_board *board)
{
    (void)pthread_mutex_lock(&board->lock);
    if (!board->log) {
        (void)pthread_mutex_unlock(&board->lock);
        return;
    }
    const int64_t now_us = get_now(board);
    end_minute(board, now_us);
    log_clock(board);
    for (int i = 0; i < board->count; i++) {
        tide_board_agent *agent = board->agents[i];
        tide_board_state state;
        get_state(agent, now_us, &state);
        if (state.is_bad == agent->is_logged_bad)
            continue;
        note_turn(board, &state, now_us - agent->logged_us);
        agent->is_logged_bad = state.is_bad;
        agent->logged_us = now_us;
    }
    (void)pthread_mutex_unlock(&board->lock);
}
