/* fleet_view.h - what the store knows of a colony's fleet: agents, positions, ledger sums.
 *
 *     tide_fleet_view_collect   reads it from the store, which may take long or hang
 *     tide_collector            has the newest view of a daemon and its age; a step of its own
 *                               thread (tide_step_fleet_view) renews it, the status calls read it
 *
 * A view never changes once it is collected. Readers share it by reference.
 *
 * Freshness: a reader that wants what is in the store now asks for it and waits a moment
 * (TIDE_COLLECTOR_WAIT_US). Where the store is down, it gets the last view at once, with its age.
 * Without readers a view is collected every TIDE_COLLECTOR_US.
 *
 * Survives: nothing. Threads: any; collect on one thread. */
#pragma once

#include <stdatomic.h>

#include "base/cleanup.h"
#include "colony/registry.h"
#include "colony/sink.h"
#include "runtime/store_watch.h"
#include "runtime/ticker.h"

enum { TIDE_FLEET_TYPES_MAX = 64 };
#define TIDE_COLLECTOR_US INT64_C(5000000)
#define TIDE_COLLECTOR_WAIT_US INT64_C(1500000)

/* One stream of one agent. */
typedef struct tide_fleet_stream {
    char agent_id[TIDE_AGENT_ID_MAX + 1];
    int type; /* index of types */
    int64_t records;
    int64_t lag_ms;
    int64_t loss_ms; /* until the agent drops its oldest unread record; -1: it does not */
    int64_t gaps;
    int64_t lost; /* records that are lost and that no operator has accepted, all epochs */
    bool is_open; /* it has a current position */
    int64_t checkpoint;
    int64_t head;
    int64_t unread;
} tide_fleet_stream;

typedef struct tide_fleet_view {
    atomic_int references;
    int64_t collected_us; /* monotonic: when collecting began */
    char types[TIDE_FLEET_TYPES_MAX][TIDE_FEED_NAME_MAX + 1];
    int type_count;
    tide_fleet_stream *streams; /* ascending by agent, then by type */
    size_t stream_count;
    tide_agent_row *agents; /* ascending by name, removed ones too */
    size_t agent_count;
    int64_t unexplained;
    int64_t pending;
    int64_t open_gaps;
    int64_t lost;      /* of the ledger */
    int64_t lost_open; /* ... that no operator has accepted */
} tide_fleet_view;

TIDE_MUST_CHECK tide_status tide_fleet_view_collect(tide_fleet_view **out, tide_sink *sink,
                                                    tide_env *env, tide_error *err);
void tide_fleet_view_release(tide_fleet_view *view); /* takes NULL */
TIDE_CLEANUP_FN(tide_fleet_view_releasep, tide_fleet_view, tide_fleet_view_release)

/* The first stream of an agent, the others follow; NULL: it has none. */
const tide_fleet_stream *tide_fleet_view_streams(const tide_fleet_view *view, const char *agent_id);
/* -1: unknown, or beyond TIDE_FLEET_TYPES_MAX. */
int tide_fleet_view_type(const tide_fleet_view *view, const char *data_type);
/* NULL: there is no such agent. */
const tide_agent_row *tide_fleet_view_agent(const tide_fleet_view *view, const char *agent_id);

/* ---- the newest one ---- */

typedef struct tide_collector tide_collector;

typedef struct tide_collector_options {
    tide_sink *sink;
    tide_env *env;
    tide_store_watch *watch;
    tide_ticker *ticker;
    /* Called on the collecting thread with each new view. before: the one it replaces; NULL: it is
     * the first. */
    void (*on_view)(void *arg, const tide_fleet_view *view, const tide_fleet_view *before);
    void *arg;
} tide_collector_options;

/* Binds the step. */
TIDE_MUST_CHECK tide_status tide_collector_open(tide_collector **out,
                                                const tide_collector_options *options,
                                                tide_error *err);
/* Collect the first view on this thread, before the ticker starts: the first scrape has all series.
 * A failure is left to the step. */
void tide_collector_begin(tide_collector *collector);
void tide_collector_close(tide_collector *collector); /* takes NULL; after the ticker stopped */

/* The newest view, at most max_age_us old if the store answers in time. NULL: none was collected
 * yet. The caller releases it. max_age_us INT64_MAX: no wait. */
tide_fleet_view *tide_collector_get(tide_collector *collector, int64_t max_age_us);
