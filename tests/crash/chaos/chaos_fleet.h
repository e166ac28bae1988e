/* chaos_fleet.h - agents, colonies and their PostgreSQL, each agent and colony on a machine of its own (chaos_net.h).
 *
 * The server is in the hub and has an address there, which the colonies use; the test uses its socket. Some machines have clocks that
 * are wrong by an hour, and can be set while their programs run (libfaketime).
 *
 * A node that is wanted and ends by itself is a failure of the test, with one exception: a colony that cannot reach its store
 * when it starts ends and is started again, as a service manager does.
 *
 * Threads: one, but for what is const. */
#pragma once

#include "crash/chaos/chaos_net.h"
#include "support/postgres/pg_cluster.h"

enum {
    CHAOS_AGENTS = 20,
    CHAOS_COLONIES = 3,
    CHAOS_NODES = CHAOS_AGENTS + CHAOS_COLONIES,
    CHAOS_NAME = 8,
    CHAOS_AGENT_HOST = 10, /* of the first */
    CHAOS_COLONY_HOST = 100,
    CHAOS_CLOCKS = 4,     /* every so manieth node has a clock that can be set */
    CHAOS_FORGETFUL = 10, /* ... forgets */
};

#define CHAOS_GRPC_PORT 4317
#define CHAOS_STREAM "load"
/* All colonies, in nftables' words. */
#define CHAOS_COLONY_RANGE CHAOS_NET_PREFIX "100-" CHAOS_NET_PREFIX "102"

typedef struct chaos_node {
    char name[CHAOS_NAME]; /* a00.., c0.. */
    bool is_colony;
    chaos_machine machine;
    proc process;
    bool is_wanted; /* it ought to run */
    bool is_frozen; /* SIGSTOP */
    bool has_clock;
    pid_t clock_pid;   /* of the process that was started last */
    bool is_forgetful; /* an agent that drops after seconds what nobody has read */
    int64_t again_ms;  /* when a colony that found no store is started again; 0: not */
    long log_at;       /* bytes of the log when it was started last */
} chaos_node;

typedef struct chaos_fleet {
    tempdir dir;
    chaos_net net;
    pg_cluster cluster;
    char database[PG_CLUSTER_NAME_MAX];
    char url[PG_CLUSTER_URL_MAX];       /* for colonies: by address */
    char local_url[PG_CLUSTER_URL_MAX]; /* for the test: by socket */
    char program[PATH_MAX];
    chaos_node nodes[CHAOS_NODES]; /* agents first */
} chaos_fleet;

/* Everything runs. After a failure: close. */
TIDE_MUST_CHECK tide_status chaos_fleet_open(chaos_fleet *fleet, tide_error *err);
/* Kill what runs, remove the files (but not where TIDEMARK_KEEP is set). */
void chaos_fleet_close(chaos_fleet *fleet);

/* "<directory>/<name of the node>/<file>" */
void chaos_fleet_path(const chaos_fleet *fleet, const chaos_node *node, const char *file,
                      char out[TEMPDIR_PATH_MAX]);

TIDE_MUST_CHECK tide_status chaos_fleet_start(chaos_fleet *fleet, chaos_node *node,
                                              tide_error *err);
/* kill -9, and gone when this returns. */
void chaos_fleet_kill(chaos_node *node);
void chaos_fleet_freeze(chaos_node *node, bool is_frozen);
/* As `date` would be wrong there: "+1h", "-1h", "+0". Nodes with has_clock only. */
TIDE_MUST_CHECK tide_status chaos_fleet_set_clock(const chaos_fleet *fleet, const chaos_node *node,
                                                  const char *offset, tide_error *err);

/* Whoever ended by itself: told, or started again where that is expected. */
TIDE_MUST_CHECK tide_status chaos_fleet_look(chaos_fleet *fleet, tide_error *err);
/* SIGTERM to all, and all end with 0. */
TIDE_MUST_CHECK tide_status chaos_fleet_stop(chaos_fleet *fleet, int64_t timeout_ms,
                                             tide_error *err);

/* `tidemark VERB... --store URL ...` in the hub; the arguments end with NULL. */
TIDE_MUST_CHECK tide_status chaos_fleet_ask(const chaos_fleet *fleet, const char *const *arguments,
                                            int64_t timeout_ms, proc_result *result,
                                            tide_error *err);
