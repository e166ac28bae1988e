/* demo.h - `tidemark up --demo`: something to look at, and something to break.
 *
 *     agents     real ones, with services that send them traces, metrics, profiles (demo_agent.h)
 *     work       tasks with a few items each, done by `tidemark work run` processes that checkpoint, fail now and then, and can be killed
 *     faults     on request (tidemark.up.v1.DemoService): pause, drop, wipe, kill; each heals by itself
 *
 * Everything it keeps is below DIR/demo; a second start goes on with it.
 *
 * Threads: those of its agents, and one that hands out work. */
#ifndef TIDE_UP_DEMO_H
#define TIDE_UP_DEMO_H

#include "up/up.h"

enum {
    TIDE_DEMO_AGENTS = 5,
    TIDE_DEMO_AGENTS_MAX = 50,
};

typedef struct tide_demo tide_demo;

typedef struct tide_demo_options {
    const char *program;  /* tidemark: its own path */
    const char *data_dir; /* as of up */
    int agent_count;      /* 0: TIDE_DEMO_AGENTS */
    tide_env *env;
    tide_log *log;
} tide_demo_options;

TIDE_MUST_CHECK tide_status tide_demo_open(tide_demo **out, const tide_demo_options *options,
                                           tide_error *err);
void tide_demo_close(tide_demo *demo); /* takes NULL; after tide_up_run */

/* What `up` shall take with it. */
tide_up_extra tide_demo_extra(tide_demo *demo);

#endif
