/* demo.h - `tidemark up --demo`: something to look at, and something to break.
 *
 *     agents     the first few are real ones, processes with services that send them traces, metrics, profiles (demo_agent.h); the others are
 *                simulated (demo_fleet.h)
 *     work       tasks with a few items each, done by `tidemark work run` processes that checkpoint, fail now and then, and can be killed (demo_work.h)
 *     databases  two, replicated, with writers that know nothing of it (demo_replica.h)
 *     lake       a catalog that grows, is forked, compacted, expired (demo_lake.h)
 *     faults     on request (tidemark.up.v1.DemoService, `tidemark demo`): demo_fault.h; each heals by itself
 *
 * Everything it keeps is below DIR/demo, DIR/lake and the stores of `up`; a second start goes on with it. It is bounded (tide_demo_tune): left alone for
 * days it stays below about 1 GiB with up to 50 agents.
 *
 * Threads: those of its parts. */
#ifndef TIDE_DEMO_DEMO_H
#define TIDE_DEMO_DEMO_H

#include "allinone/up.h"

enum {
    TIDE_DEMO_AGENTS = 8,
    TIDE_DEMO_AGENTS_MAX = 2000,
    TIDE_DEMO_PROCESSES_MAX = 4, /* of them are processes; and at most every second one */
};

typedef struct tide_demo tide_demo;

typedef struct tide_demo_options {
    const char *program;  /* tidemark: its own path */
    const char *data_dir; /* as of up */
    int agent_count;      /* 0: TIDE_DEMO_AGENTS */
    /* Called when it serves, before `ready`; NULL: nobody. tls_cert as below. */
    void (*greet)(const char *address, const char *tls_cert);
    const char *tls_cert; /* what it serves TLS with; NULL: no TLS */
    tide_env *env;
    tide_log *log;
} tide_demo_options;

TIDE_MUST_CHECK tide_status tide_demo_open(tide_demo **out, const tide_demo_options *options,
                                           tide_error *err);
void tide_demo_close(tide_demo *demo); /* takes NULL; after tide_up_run */

/* What `up` shall take with it: the extra, the databases; gaps that are looked at soon, rows that are kept for half an hour. The demo must outlive it. */
void tide_demo_tune(tide_demo *demo, tide_up_options *options);

#endif
