/* maintenance.h - what an agent does without being asked: retention of the feed, and looking at the machine.
 *
 * One thread that calls step functions when they want to be called. A step that fails is logged and tried again
 * later; a disk that stays full is logged once a minute, not at every try.
 *
 * Threads: its own; open and close from the main thread. */
#ifndef TIDE_SERVICES_AGENT_MAINTENANCE_H
#define TIDE_SERVICES_AGENT_MAINTENANCE_H

#include <tidemark/feed.h>

#include "base/log.h"
#include "runtime/listener.h"
#include "runtime/metrics.h"
#include "services/agent/feed_writer.h"

typedef struct tide_keeper tide_keeper;

typedef struct tide_keeper_options {
    tide_feed *feed;
    tide_feed_writer *writer;
    tide_listener *front; /* is told to look whether all is well */
    tide_env *env;
    tide_log *log;
    tide_metrics *metrics;
    int64_t collect_us; /* 0: the machine is not looked at */
} tide_keeper_options;

TIDE_MUST_CHECK tide_status tide_keeper_open(tide_keeper **out, const tide_keeper_options *options,
                                             tide_error *err);
void tide_keeper_close(tide_keeper *keeper); /* takes NULL */

#endif
