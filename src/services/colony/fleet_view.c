#include "services/colony/fleet_view.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/list.h"
#include "base/lock.h"
#include "colony/type.h"

enum { COST_FACTOR = 40 };

/* ---- collecting ---- */

int tide_fleet_view_type(const tide_fleet_view *view, const char *data_type)
{
    for (int i = 0; i < view->type_count; i++)
        if (strcmp(view->types[i], data_type) == 0)
            return i;
    return -1;
}

static int find_or_add_type(tide_fleet_view *view, const char *name)
{
    const int found = tide_fleet_view_type(view, name);
    if (found >= 0 || view->type_count == TIDE_FLEET_TYPES_MAX)
        return found;
    (void)snprintf(view->types[view->type_count], sizeof view->types[0], "%s", name);
    return view->type_count++;
}

/* Positions arrive by agent and data type: those of one stream, closed ones too, follow each other. */
static tide_fleet_stream *get_stream(tide_fleet_view *view, const tide_position *position, int type)
{
    tide_fleet_stream *last =
        view->stream_count > 0 ? &view->streams[view->stream_count - 1] : NULL;
    if (last && last->type == type && strcmp(last->agent_id, position->agent_id) == 0)
        return last;
    if (tide_list_room(&view->streams, (int64_t)view->stream_count, sizeof *view->streams,
                       TIDE_LIST_MAX, NULL) < TIDE_OK)
        return NULL;
    last = &view->streams[view->stream_count++];
    *last = (tide_fleet_stream){.type = type, .loss_ms = -1};
    (void)snprintf(last->agent_id, sizeof last->agent_id, "%s", position->agent_id);
    return last;
}

static void describe(tide_fleet_stream *stream, const tide_position *position,
                     const tide_ledger *ledger)
{
    stream->is_open = true;
    stream->records = ledger->pending;
    stream->unread = ledger->unread;
    stream->gaps = ledger->open_gaps;
    stream->checkpoint = position->cursor.contiguous;
    stream->head = position->head;
    if (ledger->unread > 0 && position->next_arrived_ms > 0)
        stream->lag_ms = position->agent_now_ms - position->next_arrived_ms;
    if (stream->lag_ms < 0)
        stream->lag_ms = 0;
    if (ledger->unread > 0 && position->retention_ms > 0)
        stream->loss_ms =
            stream->lag_ms < position->retention_ms ? position->retention_ms - stream->lag_ms : 0;
}

static tide_status add_position(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                                tide_error *err)
{
    tide_fleet_view *view = arg;
    tide_ledger ledger;
    tide_position_ledger(position, gaps, &ledger);
    const int64_t lost = gaps->permanent - gaps->accepted;
    view->unexplained += llabs(ledger.unexplained);
    view->pending += ledger.pending;
    view->open_gaps += ledger.open_gaps;
    view->lost += ledger.lost;
    view->lost_open += lost;
    if (position->closed_at_us != 0 && lost == 0)
        return TIDE_OK;
    const int type = find_or_add_type(view, position->data_type);
    if (type < 0)
        return TIDE_OK;
    tide_fleet_stream *stream = get_stream(view, position, type);
    TIDE_NEED_MEMORY(stream, err);
    stream->lost += lost;
    if (position->closed_at_us == 0)
        describe(stream, position, &ledger);
    return TIDE_OK;
}

static tide_status add_agent(void *arg, const tide_agent_row *agent, tide_error *err)
{
    tide_fleet_view *view = arg;
    TIDE_TRY(tide_list_room(&view->agents, (int64_t)view->agent_count, sizeof *view->agents,
                            TIDE_LIST_MAX, err));
    view->agents[view->agent_count++] = *agent;
    return TIDE_OK;
}

static int compare_streams(const void *a, const void *b)
{
    const tide_fleet_stream *x = a;
    const tide_fleet_stream *y = b;
    const int order = strcmp(x->agent_id, y->agent_id);
    return order != 0 ? order : (x->type > y->type) - (x->type < y->type);
}

static int compare_agents(const void *a, const void *b)
{
    return strcmp(((const tide_agent_row *)a)->agent_id, ((const tide_agent_row *)b)->agent_id);
}

tide_status tide_fleet_view_collect(tide_fleet_view **out, tide_sink *sink, tide_env *env,
                                    tide_error *err)
{
    TIDE_CLEANUP(tide_fleet_view_releasep) TIDE_NEW(tide_fleet_view, view, err);
    atomic_init(&view->references, 1);
    view->collected_us = env->mono_us(env);
    for (int kind = TIDE_STREAM_TELEMETRY; kind <= TIDE_STREAM_MEMORY_PROFILE; kind++)
        (void)find_or_add_type(view, tide_colony_type_of((tide_stream_kind)kind)->stream->name);
    TIDE_TRY(sink->ops->positions(sink, NULL, NULL, true, add_position, view, err));
    TIDE_TRY(tide_registry_list(sink->store, true, add_agent, view, err));
    /* A database may have another order of texts than C. */
    if (view->stream_count > 0)
        qsort(view->streams, view->stream_count, sizeof *view->streams, compare_streams);
    if (view->agent_count > 0)
        qsort(view->agents, view->agent_count, sizeof *view->agents, compare_agents);
    *out = TIDE_TAKE(view);
    return TIDE_OK;
}

void tide_fleet_view_release(tide_fleet_view *view)
{
    if (!view || atomic_fetch_sub(&view->references, 1) > 1)
        return;
    free(view->streams);
    free(view->agents);
    free(view);
}

const tide_fleet_stream *tide_fleet_view_streams(const tide_fleet_view *view, const char *agent_id)
{
    size_t low = 0;
    size_t high = view->stream_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(view->streams[middle].agent_id, agent_id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const bool is_found =
        low < view->stream_count && strcmp(view->streams[low].agent_id, agent_id) == 0;
    return is_found ? &view->streams[low] : NULL;
}

const tide_agent_row *tide_fleet_view_agent(const tide_fleet_view *view, const char *agent_id)
{
    tide_agent_row key = {.health = TIDE_AGENT_UNSEEN};
    (void)snprintf(key.agent_id, sizeof key.agent_id, "%s", agent_id);
    return view->agent_count > 0
               ? bsearch(&key, view->agents, view->agent_count, sizeof key, compare_agents)
               : NULL;
}

/* ---- the newest one ---- */

struct tide_collector {
    tide_collector_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tide_fleet_view *view; /* NULL: none yet */
    uint64_t failures;     /* that ended without a view */
};

static tide_status collect(void *arg, int64_t *next_us, tide_error *err)
{
    tide_collector *collector = arg;
    const tide_collector_options *options = &collector->options;
    const int64_t begun_us = options->env->mono_us(options->env);
    tide_fleet_view *view = NULL;
    const tide_status status = tide_fleet_view_collect(&view, options->sink, options->env, err);
    if (status >= TIDE_OK && options->on_view)
        options->on_view(options->arg, view, collector->view); /* only this thread replaces it */
    /* That of a large fleet is collected less often: never more than a fortieth of a core. */
    const int64_t took_us = options->env->mono_us(options->env) - begun_us;
    *next_us =
        COST_FACTOR * took_us > TIDE_COLLECTOR_US ? COST_FACTOR * took_us : TIDE_COLLECTOR_US;
    (void)pthread_mutex_lock(&collector->lock);
    tide_fleet_view *old = view ? collector->view : NULL;
    if (view)
        collector->view = view;
    else
        collector->failures++;
    (void)pthread_cond_broadcast(&collector->changed);
    (void)pthread_mutex_unlock(&collector->lock);
    tide_fleet_view_release(old);
    /* The state of the store has the failure; reported here it would be logged twice. */
    return status >= TIDE_OK ? TIDE_OK : TIDE_NONE;
}

const tide_step tide_step_fleet_view = {
    .name = "fleet_view",
    .summary = "collect what the store knows of the fleet, for status calls and metrics",
    .run = collect,
    .lane = TIDE_LANE_OWN,
};

tide_status tide_collector_open(tide_collector **out, const tide_collector_options *options,
                                tide_error *err)
{
    TIDE_NEW(tide_collector, collector, err);
    collector->options = *options;
    (void)pthread_mutex_init(&collector->lock, NULL);
    (void)pthread_cond_init(&collector->changed, NULL);
    const tide_status status = tide_ticker_bind(options->ticker, &tide_step_fleet_view,
                                                &(tide_step_binding){.arg = collector}, err);
    if (status < TIDE_OK) {
        tide_collector_close(collector);
        return status;
    }
    *out = collector;
    return TIDE_OK;
}

void tide_collector_begin(tide_collector *collector)
{
    tide_error err = {0};
    int64_t next_us = 0;
    TIDE_IGNORE(collect(collector, &next_us, &err));
}

void tide_collector_close(tide_collector *collector)
{
    if (!collector)
        return;
    tide_fleet_view_release(collector->view);
    (void)pthread_cond_destroy(&collector->changed);
    (void)pthread_mutex_destroy(&collector->lock);
    free(collector);
}

/* Under the lock. */
static bool is_fresh(const tide_collector *collector, int64_t since_us)
{
    return collector->view && collector->view->collected_us >= since_us;
}

/* Ends also when the store turns out to be down: the last view is all there is then. */
static void wait_for_fresh(tide_collector *collector, int64_t since_us)
{
    const uint64_t failures = collector->failures;
    const int64_t until = tide_cond_until(TIDE_COLLECTOR_WAIT_US);
    while (!is_fresh(collector, since_us) && collector->failures == failures &&
           tide_cond_wait(&collector->changed, &collector->lock, until)) {
        /* One that was under way when we came began too early: another one is wanted. */
        if (!is_fresh(collector, since_us))
            tide_ticker_wake(collector->options.ticker, tide_step_fleet_view.name);
    }
}

tide_fleet_view *tide_collector_get(tide_collector *collector, int64_t max_age_us)
{
    const tide_collector_options *options = &collector->options;
    tide_store_state store;
    tide_store_watch_state(options->watch, &store);
    const int64_t now_us = options->env->mono_us(options->env);
    const int64_t since_us = max_age_us == INT64_MAX ? INT64_MIN : now_us - max_age_us;
    TIDE_HOLD(&collector->lock);
    if (max_age_us != INT64_MAX && !is_fresh(collector, since_us)) {
        tide_ticker_wake(options->ticker, tide_step_fleet_view.name);
        if (store.is_up)
            wait_for_fresh(collector, since_us);
    }
    tide_fleet_view *view = collector->view;
    if (view)
        atomic_fetch_add(&view->references, 1);
    return view;
}
