/* up.h - `tidemark up`: agent, colony, work service, lake, replicated databases and dashboard in
 * one process over a directory.
 *
 *     DIR/agent.db      records of this machine's agent, which the colony polls as agent `local`
 *     DIR/colony.db     rows of the colony; tasks, work items, checkpoints, tokens; metabase; or
 *                       the store that store_url names
 *     DIR/lake/         data files of the lake's tables
 *     DIR/lock          held by the running process (dir_lock.h)
 *     DIR/inside.sock   for calls between its components, where callers need TLS or tokens
 *
 * Everything is on one port: the dashboard, OTLP (gRPC and HTTP), tidemark.agent.v1, colony.v1,
 * work.v1, journal.v1, lake.v1, replica.v1 of each database that is named (replicas.h), /metrics,
 * /healthz.
 *
 * Survives: kill -9 at any point; a second start continues.
 * Threads: called from the main thread; returns when a signal has ended it. */
#pragma once

#include <tidemark/feed.h>

#include "allinone/replicas.h"
#include "runtime/listener.h"
#include "services/colony/daemon.h"
#include "services/work/maintenance.h"

/* The steps of its daemons. */
extern const tide_step *const tidemark_up_steps[];

#define TIDE_UP_AGENT "local"
#define TIDE_UP_INSIDE "inside.sock"

/* A further component (the demonstration). */
typedef struct tide_up_extra {
    /* Called before anything is served, to add components and services. */
    tide_status (*join)(void *arg, tide_listener *listener, tide_error *err);
    /* Called with the colony's store when all ports listen, before `ready`. */
    tide_status (*begin)(void *arg, tide_store *store, const tide_listener *listener,
                         tide_error *err);
    /* Called before that store is closed. */
    void (*end)(void *arg);
    const char *views; /* of the dashboard: ",\"demo\""; NULL: none */
    void *arg;
} tide_up_extra;

typedef struct tide_up_options {
    tide_listener_options listener; /* ports and store are set here */
    const char *data_dir;           /* exists, and is locked (dir_lock.h) */
    const char *store_url;          /* instead of DIR/colony.db; NULL: that one */
    /* HOST:PORT; port 0 of the default: the first free one from TIDE_UP_PORT on. */
    const char *http;
    int64_t collect_us;
    tide_feed_options feed; /* of the agent */
    const char *export_dir; /* of the colony: where callers may export to; NULL: nowhere */
    int64_t keep_us;        /* age limit of the colony's rows; 0: by stream */
    int64_t recover_us;     /* between attempts at a gap; 0: the colony's default */
    int attempt_max;        /* the same */
    tide_work_maintenance_options maintenance;
    tide_replicas_options replicas; /* env and log are the listener's */
    tide_up_extra extra;            /* functions NULL: none */
} tide_up_options;

enum { TIDE_UP_PORT = 8340 };

TIDE_MUST_CHECK tide_status tide_up_run(const tide_up_options *options, tide_error *err);

/* The first free port of 127.0.0.1 from `from` on: "127.0.0.1:8340". TIDE_E_UNAVAILABLE: none of a
 * hundred. */
TIDE_MUST_CHECK tide_status tide_up_free_port(char out[32], int from, tide_error *err);
