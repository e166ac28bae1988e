/* keeper.h - what an agent does without being asked: retention of the feed, and looking at the machine.
 *
 * One thread that calls step functions when they want to be called. A step that fails is logged and tried again
 * later; a disk that stays full is logged once a minute, not at every try.
 *
 * Threads: its own; open and close from the main thread. */
#ifndef TIDE_AGENT_KEEPER_H
#define TIDE_AGENT_KEEPER_H

#include <tidemark/feed.h>

#include "agent/feed_writer.h"
#include "base/log.h"
#include "daemon/front.h"
#include "daemon/metrics.h"

typedef struct tide_keeper tide_keeper;

typedef struct tide_keeper_options {
    tide_feed *feed;
    tide_feed_writer *writer;
    tide_front *front; /* is told to look whether all is well */
    tide_env *env;
    tide_log *log;
    tide_metrics *metrics;
    int64_t collect_us; /* 0: the machine is not looked at */
} tide_keeper_options;

TIDE_MUST_CHECK tide_status tide_keeper_open(tide_keeper **out, const tide_keeper_options *options,
                                             tide_error *err);
void tide_keeper_close(tide_keeper *keeper); /* takes NULL */

#endif
