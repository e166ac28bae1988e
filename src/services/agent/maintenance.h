/* maintenance.h - background steps of an agent: retention of the feed, failed writes, metrics of the machine.
 *
 * The ticker of the daemon runs them (runtime/ticker.h).
 *
 * Threads: open, bind and close from the main thread; the steps run on the main lane of the ticker. */
#pragma once

#include <tidemark/feed.h>

#include "runtime/ticker.h"
#include "services/agent/feed_writer.h"

extern const tide_step tide_step_feed_retention;
extern const tide_step tide_step_feed_writes;
extern const tide_step tide_step_collect;

typedef struct tide_agent_maintenance tide_agent_maintenance;

typedef struct tide_agent_maintenance_options {
    tide_feed *feed;
    tide_feed_writer *writer;
    tide_env *env;
    int64_t collect_us; /* 0: no metrics of the machine */
} tide_agent_maintenance_options;

TIDE_MUST_CHECK tide_status tide_agent_maintenance_open(
    tide_agent_maintenance **out, const tide_agent_maintenance_options *options, tide_error *err);
/* After the ticker has stopped. Takes NULL. */
void tide_agent_maintenance_close(tide_agent_maintenance *maintenance);

/* Bind the steps above. */
TIDE_MUST_CHECK tide_status tide_agent_maintenance_bind(tide_agent_maintenance *maintenance,
                                                        tide_ticker *ticker, tide_error *err);
