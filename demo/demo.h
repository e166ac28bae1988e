/* demo.h - demonstration of `tidemark up --demo`: agents, work, replicas and a lake, with faults on
 * request.
 *
 *     agents     the first few are processes with services that send them traces, metrics and
 *                profiles (demo_agent.h); the others are simulated (demo_fleet.h)
 *     work       tasks with a few items each, done by `tidemark work run` processes, which
 *                checkpoint, fail at times, and can be killed (demo_work.h)
 *     databases  two, replicated, with writers that do not know it (demo_replica.h)
 *     lake       a catalog that grows, is forked, compacted, expired (demo_lake.h)
 *     faults     on request (tidemark.up.v1.DemoService, `tidemark demo`; demo_fault.h); each ends
 *                by itself
 *
 * Its files are below DIR/demo, DIR/lake and in the stores of `up`; a second start continues. It is
 * bounded (tide_demo_tune): with up to 50 agents it stays below about 1 GiB for days.
 *
 * Threads: those of its components. */
#pragma once

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
    /* Called when it serves, before `ready`. NULL: not called. tls_cert as below. */
    void (*greet)(const char *address, const char *tls_cert);
    const char *tls_cert; /* what it serves TLS with; NULL: no TLS */
    tide_env *env;
    tide_log *log;
} tide_demo_options;

TIDE_MUST_CHECK tide_status tide_demo_open(tide_demo **out, const tide_demo_options *options,
                                           tide_error *err);
void tide_demo_close(tide_demo *demo); /* takes NULL; after tide_up_run */

/* What `up` shall take with it: the extra, the databases; gaps that are looked at soon, rows that
 * are kept for half an hour. The demo must outlive it. */
void tide_demo_tune(tide_demo *demo, tide_up_options *options);
