/* services.h - what an agent answers: queries by sequence and by time, ingest, OTLP.
 *
 * Tables of methods and routes (net/call/call.h) whose argument is a tide_agent_services. Queries block (they read the
 * store) and run on the server's pool; those that wait for news are parked (services/api/long_poll.h). Ingest decodes on the pool, hands
 * its records to the writer and is answered when they are durable.
 *
 * Threads: everything here may be called from any thread. */
#pragma once

#include <tidemark/feed.h>

#include "net/call/call.h"
#include "net/call/route.h"
#include "services/agent/feed_writer.h"
#include "services/agent/otlp_pool.h"
#include "services/api/long_poll.h"

/* What one round of looks found out about the streams, for all calls that watch them. The waiter's thread alone uses it. */
typedef struct tide_streams_board tide_streams_board;
TIDE_MUST_CHECK tide_status tide_streams_board_new(tide_streams_board **out, tide_error *err);
void tide_streams_board_free(tide_streams_board *board); /* takes NULL */

typedef struct tide_agent_services {
    tide_env *env;
    tide_feed *feed;
    tide_feed_writer *writer;
    tide_long_poll *waiter; /* on TIDE_FEED_TOPIC */
    tide_streams_board *board;
    tide_otlp_pool *otlp;
    tide_metrics *metrics;
    const char *name;     /* of the agent */
    int64_t retention_us; /* told to readers */
    bool is_declaring;    /* IngestRecords declares streams that are not there */
} tide_agent_services;

extern const tide_method tide_agent_queries[];
extern const tide_method tide_agent_streams[];
extern const tide_method tide_agent_ingest[];
extern const tide_method tide_agent_otlp[];
extern const tide_route tide_agent_otlp_routes[];
