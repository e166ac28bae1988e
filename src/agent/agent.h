/* agent.h - the agent daemon: telemetry comes in, is numbered and kept, and goes out to whoever reads.
 *
 *     OTLP, ingest ---- decode ---- feed writer ---- feed (store) ---- queries, long polls
 *     /proc  ---- collector ----^                      |
 *                                                      keeper: retention, receipts
 *
 * Wiring, and nothing else: the parts do the work. Runs until a signal ends it (front.h): on SIGTERM no more calls are
 * taken, what was taken is stored and answered, and the store is closed.
 *
 * Survives: kill -9 at any point; what was acknowledged is there. */
#ifndef TIDE_AGENT_AGENT_H
#define TIDE_AGENT_AGENT_H

#include <tidemark/feed.h>

#include "daemon/front.h"

#define TIDE_AGENT_COLLECT_US INT64_C(15000000)

typedef struct tide_agent_options {
    tide_front_options front; /* ports, store, log, env, version, security, limits */
    tide_feed_options feed;
    const char *name;       /* of this agent */
    int64_t collect_us;     /* between looks at /proc; 0: none */
    double sample_fraction; /* of spans that neither failed nor were slow; 1: all */
    int64_t queue_max;      /* bytes that wait to be stored; 0: the default */
    bool is_declaring;      /* streams are declared by their first record */
} tide_agent_options;

TIDE_MUST_CHECK tide_status tide_agent_run(const tide_agent_options *options, tide_error *err);

#endif
