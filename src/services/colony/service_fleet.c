/* service_fleet.c - all agents at a glance; see service.h.
 *
 * Made of the status board and of the newest view of the store (fleet_view.h), with its age. Pages
 * request it all the time: the answer is cached for a second, and callers meanwhile get the same
 * bytes, as JSON also compressed only once. Callers that arrive while it is being made wait for it.
 * That of a large fleet is cached longer, up to five seconds: for forty times as long as it took, so
 * that making answers never takes more than a fortieth of a core. */
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

#define UNPROVEN_US INT64_C(30000000) /* idle streams are proven far more often */
#define FRESH_US INT64_C(1000000)
#define FRESH_MAX_US INT64_C(5000000)
#define FRESH_FACTOR 40

struct tide_fleet {
    pthread_mutex_t lock;
    tide_buffer answers[2]; /* whole, brief */
    tide_buffer packed[2];  /* the same as JSON, compressed; empty: nobody has asked for it so */
    int64_t fresh_until_us; /* monotonic; 0: there is none */
};

struct tide_fleet *tide_fleet_new(void)
{
    struct tide_fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return NULL;
    (void)pthread_mutex_init(&fleet->lock, NULL);
    for (int i = 0; i < 2; i++) {
        tide_buffer_init(&fleet->answers[i], TIDE_RPC_RESPONSE_MAX);
        tide_buffer_init(&fleet->packed[i], TIDE_RPC_RESPONSE_MAX);
    }
    return fleet;
}

void tide_fleet_free(struct tide_fleet *fleet)
{
    if (!fleet)
        return;
    for (int i = 0; i < 2; i++) {
        tide_buffer_done(&fleet->answers[i]);
        tide_buffer_done(&fleet->packed[i]);
    }
    (void)pthread_mutex_destroy(&fleet->lock);
    free(fleet);
}

/* ---- the answer ---- */

/* One stream of one agent: what the store knows, with what the board knows better. */
typedef struct cell {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    int type;
    int64_t records;
    int64_t lag_ms;
    int64_t loss_ms;
    int64_t gaps;
    int64_t lost;
    const char *hold;
} cell;

typedef struct answer {
    const tide_fleet_view *view;
    cell *cells;        /* those of the view's streams, in their order */
    tide_board *board;  /* NULL: none */
    tide_buffer *whole; /* NULL: not wanted */
    tide_buffer *brief;
} answer;

static void answer_done(answer *a)
{
    free(a->cells);
}

static cell *find_cells(const answer *a, const char *agent_id)
{
    const tide_fleet_stream *found = tide_fleet_view_streams(a->view, agent_id);
    return found ? &a->cells[found - a->view->streams] : NULL;
}

static bool is_of(const answer *a, const cell *c, const char *agent_id)
{
    return c && c < a->cells + a->view->stream_count && strcmp(c->agent_id, agent_id) == 0;
}

/* What its slot knows beyond the store: why nothing moves, and what the agent has and the colony has
 * not read yet. */
static void add_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    const answer *a = arg;
    const int type = tide_fleet_view_type(a->view, lag->data_type);
    cell *c = find_cells(a, agent_id);
    while (is_of(a, c, agent_id) && c->type != type)
        c++;
    if (!is_of(a, c, agent_id))
        return;
    c->hold = lag->hold;
    if (lag->records > c->records) {
        c->records = lag->records;
        if (lag->loss_us != INT64_MAX)
            c->loss_ms = lag->loss_us / 1000;
    }
    if (lag->records > 0 && lag->age_us / 1000 > c->lag_ms)
        c->lag_ms = lag->age_us / 1000;
    if (lag->lag_us >= UNPROVEN_US && lag->lag_us / 1000 > c->lag_ms)
        c->lag_ms = lag->lag_us / 1000;
}

static tide_status make_cells(answer *a, tide_error *err)
{
    const tide_fleet_view *view = a->view;
    TIDE_ALLOC(a->cells, view->stream_count + 1, err);
    for (size_t i = 0; i < view->stream_count; i++) {
        const tide_fleet_stream *stream = &view->streams[i];
        a->cells[i] = (cell){.type = stream->type,
                             .records = stream->records,
                             .lag_ms = stream->lag_ms,
                             .loss_ms = stream->loss_ms,
                             .gaps = stream->gaps,
                             .lost = stream->lost,
                             .hold = ""};
        memcpy(a->cells[i].agent_id, stream->agent_id, sizeof a->cells[i].agent_id);
    }
    if (a->board)
        tide_board_lags(a->board, add_lag, a);
    return TIDE_OK;
}

/* Is there anything to report of it? */
static bool is_behind(const cell *c)
{
    return c->records > 0 || c->lag_ms > 0 || c->gaps > 0 || c->loss_ms >= 0 || c->lost > 0 ||
           c->hold[0];
}

static tide_status put_agent(const answer *a, const tide_agent_row *given, tide_error *err)
{
    tide_agent_row agent = *given;
    tide_board_state state = {.silent_us = 0};
    uint64_t records[TIDE_FLEET_TYPES_MAX] = {0};
    uint64_t lags[TIDE_FLEET_TYPES_MAX] = {0};
    uint64_t gaps[TIDE_FLEET_TYPES_MAX] = {0};
    uint64_t lost[TIDE_FLEET_TYPES_MAX] = {0};
    int64_t losses[TIDE_FLEET_TYPES_MAX];
    char *holds[TIDE_FLEET_TYPES_MAX];
    bool has_lists = false;
    for (int i = 0; i < TIDE_FLEET_TYPES_MAX; i++) {
        losses[i] = -1;
        holds[i] = tide_rpc_borrow("");
    }
    for (cell *c = find_cells(a, agent.agent_id); is_of(a, c, agent.agent_id); c++) {
        records[c->type] = (uint64_t)c->records;
        lags[c->type] = (uint64_t)c->lag_ms;
        gaps[c->type] = (uint64_t)c->gaps;
        lost[c->type] = (uint64_t)c->lost;
        losses[c->type] = c->loss_ms;
        holds[c->type] = tide_rpc_borrow(c->hold);
        has_lists = has_lists || is_behind(c);
    }
    if (a->board) {
        tide_board_judge(a->board, &agent);
        (void)tide_board_find(a->board, agent.agent_id, &state);
    }
    const size_t count = (size_t)a->view->type_count;
    COLONY(FleetLine) line = COLONY_INIT(FLEET_LINE);
    line.agent_id = tide_rpc_borrow(agent.agent_id);
    line.health = tide_rpc_borrow(tide_agent_health_name(agent.health));
    line.error = tide_rpc_borrow(agent.error);
    line.holder = tide_rpc_borrow(agent.holder);
    line.silent_ms = (uint64_t)state.silent_us / 1000;
    if (a->brief && !has_lists)
        TIDE_TRY(tide_rpc_put_message(a->brief, 2, &line.base, err));
    line.n_lag_records = line.n_lag_ms = line.n_until_loss_ms = line.n_open_gaps = line.n_holds =
        line.n_lost = count;
    line.lag_records = records;
    line.lag_ms = lags;
    line.until_loss_ms = losses;
    line.open_gaps = gaps;
    line.holds = holds;
    line.lost = lost;
    if (a->brief && has_lists)
        TIDE_TRY(tide_rpc_put_message(a->brief, 2, &line.base, err));
    return a->whole ? tide_rpc_put_message(a->whole, 2, &line.base, err) : TIDE_OK;
}

static tide_status put_sums(tide_buffer *out, const COLONY(FleetResponse) * sums, tide_error *err)
{
    return out ? tide_rpc_pack(out, &sums->base, err) : TIDE_OK;
}

tide_status tide_colony_view(tide_colony *colony, int64_t max_age_us, tide_fleet_view **out,
                             tide_error *err)
{
    if (!colony->collector)
        return tide_fleet_view_collect(out, colony->sink, colony->env, err);
    tide_store_state store;
    *out = tide_collector_get(colony->collector, max_age_us);
    if (*out)
        return TIDE_OK;
    tide_store_watch_state(colony->store_watch, &store);
    return tide_fail(err, TIDE_E_UNAVAILABLE, "nothing is known of the fleet yet: %s",
                     store.is_up ? "the store has not been read" : store.reason);
}

static tide_status make_answer(tide_colony *colony, tide_buffer *whole, tide_buffer *brief,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_fleet_view_releasep) tide_fleet_view *view = NULL;
    tide_store_state store = {.is_up = true};
    TIDE_TRY(tide_colony_view(colony, FRESH_US, &view, err));
    if (colony->store_watch)
        tide_store_watch_state(colony->store_watch, &store);
    TIDE_CLEANUP(answer_done)
    answer a = {.view = view, .board = colony->board, .whole = whole, .brief = brief};
    TIDE_TRY(make_cells(&a, err));
    for (size_t i = 0; i < view->agent_count; i++)
        if (!view->agents[i].is_removed)
            TIDE_TRY(put_agent(&a, &view->agents[i], err));
    char *types[TIDE_FLEET_TYPES_MAX];
    for (int i = 0; i < view->type_count; i++)
        types[i] = view->types[i];
    COLONY(FleetResponse) rest = COLONY_INIT(FLEET_RESPONSE);
    rest.n_data_types = (size_t)view->type_count;
    rest.data_types = types;
    rest.unexplained = (uint64_t)view->unexplained;
    rest.pending = (uint64_t)view->pending;
    rest.open_gaps = (uint64_t)view->open_gaps;
    rest.lost = (uint64_t)view->lost;
    rest.lost_unaccepted = (uint64_t)view->lost_open;
    rest.store_up = store.is_up;
    rest.store_reason = store.reason;
    rest.age_ms = (uint64_t)(colony->env->mono_us(colony->env) - view->collected_us) / 1000;
    TIDE_TRY(put_sums(whole, &rest, err));
    return put_sums(brief, &rest, err);
}

/* With the lock held: the answers are fresh. */
static tide_status refresh(tide_colony *colony, struct tide_fleet *fleet, tide_error *err)
{
    const int64_t begun_us = colony->env->mono_us(colony->env);
    if (begun_us < fleet->fresh_until_us)
        return TIDE_OK;
    for (int i = 0; i < 2; i++) {
        tide_buffer_clear(&fleet->answers[i]);
        tide_buffer_clear(&fleet->packed[i]);
    }
    fleet->fresh_until_us = 0;
    TIDE_TRY(make_answer(colony, &fleet->answers[0], &fleet->answers[1], err));
    const int64_t ended_us = colony->env->mono_us(colony->env);
    int64_t fresh_us = FRESH_FACTOR * (ended_us - begun_us);
    if (fresh_us < FRESH_US)
        fresh_us = FRESH_US;
    fleet->fresh_until_us = ended_us + (fresh_us < FRESH_MAX_US ? fresh_us : FRESH_MAX_US);
    return TIDE_OK;
}

tide_status tide_colony_fleet(tide_colony *colony, const ProtobufCMessage *request,
                              tide_buffer *out, tide_error *err)
{
    const bool is_brief = ((const COLONY(FleetRequest) *)request)->brief;
    struct tide_fleet *fleet = colony->fleet;
    if (!fleet)
        return make_answer(colony, is_brief ? NULL : out, is_brief ? out : NULL, err);
    (void)pthread_mutex_lock(&fleet->lock);
    tide_status status = refresh(colony, fleet, err);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(out, tide_buffer_view(&fleet->answers[is_brief]));
    (void)pthread_mutex_unlock(&fleet->lock);
    return status < TIDE_OK && err && err->status == TIDE_OK ? tide_buffer_check(status, err)
                                                             : status;
}

void tide_colony_run_fleet(tide_call *call, tide_view message, void *arg)
{
    tide_colony *colony = arg;
    struct tide_fleet *fleet = colony->fleet;
    tide_error err = {0};
    ProtobufCMessage *request = NULL;
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK && fleet) {
        const bool is_brief = ((const COLONY(FleetRequest) *)request)->brief;
        (void)pthread_mutex_lock(&fleet->lock);
        status = refresh(colony, fleet, &err);
        if (status >= TIDE_OK)
            tide_call_respond_shared(call, tide_buffer_view(&fleet->answers[is_brief]),
                                     &fleet->packed[is_brief]);
        (void)pthread_mutex_unlock(&fleet->lock);
    } else if (status >= TIDE_OK) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
        status = tide_colony_fleet(colony, request, &out, &err);
        if (status >= TIDE_OK)
            tide_call_respond(call, tide_buffer_view(&out));
    }
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}
