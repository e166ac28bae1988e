/* service_fleet.c - all agents at a glance; see service.h.
 *
 * Pages ask for it all the time, and it reads every position: the answer is kept for a second, and whoever asks meanwhile gets the same bytes, as JSON also compressed
 * only once. Who comes while it is being made waits for it. That of a large fleet is kept longer, up to five seconds: for forty times as long as it
 * took, so that making answers never takes more than a fortieth of a core, however many ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "colony/type.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

enum { TYPES_MAX = 64 };
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
        tide_buffer_init(&fleet->answers[i], TIDE_RPC_ANSWER_MAX);
        tide_buffer_init(&fleet->packed[i], TIDE_RPC_ANSWER_MAX);
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

/* ---- what is gathered ---- */

typedef struct cell { /* one agent's stream */
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    int type;
    int64_t records;
    int64_t lag_ms;
    int64_t loss_ms;
    int64_t gaps;
    char hold[32];
} cell;

typedef struct gathered {
    char types[TYPES_MAX][TIDE_FEED_NAME_MAX + 1];
    int type_count;
    cell *cells; /* ascending by agent */
    size_t count;
    int64_t unexplained;
    int64_t pending;
    int64_t open_gaps;
    int64_t lost;
} gathered;

static void gathered_done(gathered *g)
{
    free(g->cells);
}

/* -1: beyond what is shown. */
static int find_type(gathered *g, const char *name)
{
    for (int i = 0; i < g->type_count; i++)
        if (strcmp(g->types[i], name) == 0)
            return i;
    if (g->type_count == TYPES_MAX)
        return -1;
    (void)snprintf(g->types[g->type_count], sizeof g->types[0], "%s", name);
    return g->type_count++;
}

static cell *add_cell(gathered *g)
{
    if (tide_list_room(&g->cells, (int64_t)g->count, sizeof *g->cells, TIDE_LIST_MAX, NULL) <
        TIDE_OK)
        return NULL;
    g->cells[g->count] = (cell){.loss_ms = -1};
    return &g->cells[g->count++];
}

static tide_status add_position(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                                tide_error *err)
{
    gathered *g = arg;
    tide_books books;
    tide_position_books(position, gaps, &books);
    g->unexplained += llabs(books.unexplained);
    g->pending += books.pending;
    g->open_gaps += books.open_gaps;
    g->lost += books.lost;
    const int type = position->closed_at_us == 0 ? find_type(g, position->data_type) : -1;
    if (type < 0)
        return TIDE_OK;
    cell *one = add_cell(g);
    if (!one)
        return tide_no_memory(err);
    (void)snprintf(one->agent_id, sizeof one->agent_id, "%s", position->agent_id);
    one->type = type;
    one->records = books.pending;
    one->gaps = books.open_gaps;
    if (books.unread > 0 && position->next_arrived_ms > 0)
        one->lag_ms = position->agent_now_ms - position->next_arrived_ms;
    if (one->lag_ms < 0)
        one->lag_ms = 0;
    if (books.unread > 0 && position->retention_ms > 0)
        one->loss_ms =
            one->lag_ms < position->retention_ms ? position->retention_ms - one->lag_ms : 0;
    return TIDE_OK;
}

static int compare_agents(const void *a, const void *b)
{
    return strcmp(((const cell *)a)->agent_id, ((const cell *)b)->agent_id);
}

/* The first cell of an agent; NULL: it has none. */
static cell *find_agent(const gathered *g, const char *agent_id)
{
    cell key = {.records = 0};
    (void)snprintf(key.agent_id, sizeof key.agent_id, "%s", agent_id);
    cell *found =
        g->count > 0 ? bsearch(&key, g->cells, g->count, sizeof key, compare_agents) : NULL;
    while (found && found > g->cells && strcmp(found[-1].agent_id, agent_id) == 0)
        found--;
    return found;
}

/* What its slot knows beyond the store: why nothing moves, and what the agent has told of and not given yet. */
static void note_lag(cell *c, const tide_poller_lag *lag)
{
    (void)snprintf(c->hold, sizeof c->hold, "%s", lag->hold);
    if (lag->records <= c->records)
        return;
    c->records = lag->records;
    if (lag->lag_us / 1000 > c->lag_ms)
        c->lag_ms = lag->lag_us / 1000;
    if (lag->loss_us != INT64_MAX)
        c->loss_ms = lag->loss_us / 1000;
}

static void add_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    gathered *g = arg;
    if (!lag->hold[0] && lag->records == 0)
        return;
    const int type = find_type(g, lag->data_type);
    for (cell *c = find_agent(g, agent_id);
         c && c < g->cells + g->count && strcmp(c->agent_id, agent_id) == 0; c++)
        if (c->type == type)
            note_lag(c, lag);
}

/* ---- the answer ---- */

typedef struct answer {
    const gathered *gathered;
    tide_buffer *whole; /* NULL: not asked for */
    tide_buffer *brief;
} answer;

/* Is there anything to tell of it? */
static bool is_behind(const cell *c)
{
    return c->records > 0 || c->lag_ms > 0 || c->gaps > 0 || c->loss_ms >= 0 || c->hold[0];
}

static tide_status put_agent(void *arg, const tide_agent_row *agent, tide_error *err)
{
    const answer *a = arg;
    const gathered *g = a->gathered;
    uint64_t records[TYPES_MAX] = {0};
    uint64_t lags[TYPES_MAX] = {0};
    uint64_t gaps[TYPES_MAX] = {0};
    int64_t losses[TYPES_MAX];
    char *holds[TYPES_MAX];
    bool is_told = false;
    for (int i = 0; i < TYPES_MAX; i++) {
        losses[i] = -1;
        holds[i] = tide_rpc_borrow("");
    }
    for (cell *c = find_agent(g, agent->agent_id);
         c && c < g->cells + g->count && strcmp(c->agent_id, agent->agent_id) == 0; c++) {
        records[c->type] = (uint64_t)c->records;
        lags[c->type] = (uint64_t)c->lag_ms;
        gaps[c->type] = (uint64_t)c->gaps;
        losses[c->type] = c->loss_ms;
        holds[c->type] = c->hold;
        is_told = is_told || is_behind(c);
    }
    const size_t count = (size_t)g->type_count;
    COLONY(FleetLine) line = COLONY_INIT(FLEET_LINE);
    line.agent_id = tide_rpc_borrow(agent->agent_id);
    line.health = tide_rpc_borrow(tide_agent_health_name(agent->health));
    line.error = tide_rpc_borrow(agent->error);
    line.holder = tide_rpc_borrow(agent->holder);
    if (a->brief && !is_told)
        TIDE_TRY(tide_rpc_put_message(a->brief, 2, &line.base, err));
    line.n_lag_records = line.n_lag_ms = line.n_until_loss_ms = line.n_open_gaps = line.n_holds =
        count;
    line.lag_records = records;
    line.lag_ms = lags;
    line.until_loss_ms = losses;
    line.open_gaps = gaps;
    line.holds = holds;
    if (a->brief && is_told)
        TIDE_TRY(tide_rpc_put_message(a->brief, 2, &line.base, err));
    return a->whole ? tide_rpc_put_message(a->whole, 2, &line.base, err) : TIDE_OK;
}

static tide_status put_sums(tide_buffer *out, const COLONY(FleetResponse) * sums, tide_error *err)
{
    return out ? tide_rpc_pack(out, &sums->base, err) : TIDE_OK;
}

static tide_status make_answer(tide_colony *colony, tide_buffer *whole, tide_buffer *brief,
                               tide_error *err)
{
    TIDE_CLEANUP(gathered_done) gathered g = {.count = 0};
    tide_sink *sink = colony->sink;
    for (int kind = TIDE_STREAM_TELEMETRY; kind <= TIDE_STREAM_MEMORY_PROFILE; kind++)
        (void)find_type(&g, tide_colony_type_of((tide_stream_kind)kind)->stream->name);
    TIDE_TRY(sink->ops->positions(sink, NULL, NULL, true, add_position, &g, err));
    if (g.count > 0)
        qsort(g.cells, g.count, sizeof *g.cells, compare_agents);
    if (colony->scheduler)
        tide_scheduler_lags(colony->scheduler, add_lag, &g);
    answer a = {.gathered = &g, .whole = whole, .brief = brief};
    TIDE_TRY(tide_registry_list(sink->store, false, put_agent, &a, err));
    char *types[TYPES_MAX];
    for (int i = 0; i < g.type_count; i++)
        types[i] = g.types[i];
    COLONY(FleetResponse) rest = COLONY_INIT(FLEET_RESPONSE);
    rest.n_data_types = (size_t)g.type_count;
    rest.data_types = types;
    rest.unexplained = (uint64_t)g.unexplained;
    rest.pending = (uint64_t)g.pending;
    rest.open_gaps = (uint64_t)g.open_gaps;
    rest.lost = (uint64_t)g.lost;
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
    return status < TIDE_OK && err && err->status == TIDE_OK
               ? tide_fail(err, status, "no memory for the fleet")
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
            tide_call_reply_shared(call, tide_buffer_view(&fleet->answers[is_brief]),
                                   &fleet->packed[is_brief]);
        (void)pthread_mutex_unlock(&fleet->lock);
    } else if (status >= TIDE_OK) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_ANSWER_MAX);
        status = tide_colony_fleet(colony, request, &out, &err);
        if (status >= TIDE_OK)
            tide_call_reply(call, tide_buffer_view(&out));
    }
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}
