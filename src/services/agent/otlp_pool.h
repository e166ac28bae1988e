/* otlp_pool.h - OTLP decoders for the threads of a server.
 *
 * A decoder belongs to one thread at a time, and remembers the series of metrics it has seen. So there are a few for traces, logs and profiles,
 * taken by whoever comes, and a single one for metrics: a series continues wherever its next point comes in.
 *
 * Threads: any. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/feed.h>

#include "otlp/otlp.h"

typedef struct tide_otlp_pool tide_otlp_pool;

/* The feed numbers the frames of profiles, and outlives the pool. */
TIDE_MUST_CHECK tide_status tide_otlp_pool_new(tide_otlp_pool **out, tide_env *env, tide_feed *feed,
                                               double sample_fraction, tide_error *err);
void tide_otlp_pool_free(tide_otlp_pool *pool); /* takes NULL */

/* As tide_otlp_decode; waits for a decoder. */
TIDE_MUST_CHECK tide_status tide_otlp_pool_decode(tide_otlp_pool *pool, tide_otlp_signal signal,
                                                  tide_otlp_format format, tide_view request,
                                                  tide_otlp_output *output, tide_error *err);

/* The records were not stored. */
void tide_otlp_pool_undo(tide_otlp_pool *pool, tide_otlp_signal signal, tide_otlp_output *output);
