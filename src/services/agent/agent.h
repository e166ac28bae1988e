/* agent.h - the agent daemon: telemetry comes in, is numbered and kept, and goes out to whoever reads.
 *
 *     OTLP, ingest ---- decode ---- feed writer ---- feed (store) ---- queries, long polls
 *     /proc  ---- collector ----^                      |
 *                                                      steps: retention, receipts
 *
 * Wiring, and nothing else: its pieces do the work. It is a part of a listener (listener.h), alone there or beside others: on SIGTERM
 * no more calls are taken, what was taken is stored and answered.
 *
 * Survives: kill -9 at any point; what was acknowledged is there. */
#pragma once

#include <tidemark/feed.h>

#include "runtime/listener.h"
#include "services/agent/maintenance.h"

/* Steps of the component, and of the daemon. */
#define TIDE_AGENT_STEPS &tide_step_feed_retention, &tide_step_feed_writes, &tide_step_collect
extern const tide_step *const tidemark_agent_steps[];

#define TIDE_AGENT_COLLECT_US INT64_C(15000000)

typedef struct tide_agent_options {
    tide_listener_options
        listener; /* store, log, env; of tide_agent_run also ports, security, limits */
    tide_feed_options feed;
    const char *name;       /* of this agent */
    int64_t collect_us;     /* between looks at /proc; 0: none */
    double sample_fraction; /* of spans that neither failed nor were slow; 1: all */
    int64_t queue_max;      /* bytes that wait to be stored; 0: the default */
    bool is_declaring;      /* streams are declared by their first record */
} tide_agent_options;

typedef struct tide_agent tide_agent;

/* Add an agent to a listener that is not serving yet. The options must outlive it. */
TIDE_MUST_CHECK tide_status tide_agent_open(tide_agent **out, tide_listener *listener,
                                            const tide_agent_options *options, tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_agent_close(tide_agent *agent);

/* A listener with an agent alone, until a signal ends it. */
TIDE_MUST_CHECK tide_status tide_agent_run(const tide_agent_options *options, tide_error *err);
