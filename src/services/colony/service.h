/* service.h - tidemark.colony.v1: what a colony can be asked and told, over the network or in the same process.
 *
 * A method is a function from a request's message to the bytes of its answer. The daemon serves them (tide_colony_methods); the
 * command line calls them directly on a store that it opened itself, or sends them to the daemon that holds it
 * (tide_colony_call): so both do exactly the same.
 *
 * Threads: methods may run side by side. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "net/call/call.h"
#include "remote/agent_clients.h"
#include "runtime/query/query_pool.h"
#include "services/colony/fleet_view.h"
#include "services/colony/scheduler.h"
#include "services/colony/status_board.h"
#include "tidemark_colony_v1_colony.pb-c.h"

#define COLONY(type_) Tidemark__Colony__V1__##type_
#define COLONY_INIT(type_) TIDEMARK__COLONY__V1__##type_##__INIT

/* What the methods work on. */
typedef struct tide_colony {
    tide_sink *sink;
    tide_env *env;
    tide_agent_clients *links;     /* for audits that ask agents; NULL: digests are not compared */
    tide_scheduler *scheduler;     /* NULL: no daemon runs here */
    tide_board *board;             /* of that daemon; the same */
    tide_collector *collector;     /* the same: NULL: status calls read the store themselves */
    tide_store_watch *store_watch; /* the same */
    const char *duckdb_library;    /* for exports; NULL: where it usually is */
    /* Exports of callers by the network are below it; NULL: they are refused. */
    const char *export_dir;
    tide_query_pool *queries;       /* of callers by the network; NULL: no daemon runs here */
    tide_query_target query_target; /* path NULL: the store runs queries itself */
    bool is_sql_trusted;            /* callers with role admin may run SQL inside the daemon */
    struct tide_fleet *fleet; /* what Fleet has answered last; NULL: it is made anew each time */
} tide_colony;

/* The argument is a tide_colony. */
extern const tide_method tide_colony_methods[];

/* Call a method of the table by its name ("ListGaps") in this process. out: the encoded response.
 * TIDE_E_NOT_FOUND: what was asked for is not there. */
TIDE_MUST_CHECK tide_status tide_colony_call(tide_colony *colony, const char *method,
                                             const ProtobufCMessage *request, tide_buffer *out,
                                             tide_error *err);

/* ---- the methods, by file ---- */

typedef tide_status tide_colony_fn(tide_colony *colony, const ProtobufCMessage *request,
                                   tide_buffer *out, tide_error *err);

/* service_agents.c */
tide_colony_fn tide_colony_list_agents;
tide_colony_fn tide_colony_put_agent;
tide_colony_fn tide_colony_remove_agent;
tide_colony_fn tide_colony_poll;
/* service_fleet.c */
tide_colony_fn tide_colony_fleet;
/* What the store knows of the fleet, at most max_age_us old if the store answers. Release it. */
TIDE_MUST_CHECK tide_status tide_colony_view(tide_colony *colony, int64_t max_age_us,
                                             tide_fleet_view **out, tide_error *err);
/* The method by the network: its JSON is compressed once for all who ask. arg: the colony. */
void tide_colony_run_fleet(tide_call *call, tide_view message, void *arg);
/* NULL: no memory. */
struct tide_fleet *tide_fleet_new(void);
void tide_fleet_free(struct tide_fleet *fleet); /* takes NULL */
/* service_checkpoints.c */
tide_colony_fn tide_colony_list_checkpoints;
tide_colony_fn tide_colony_checkpoint_history;
tide_colony_fn tide_colony_reset_checkpoints;
tide_colony_fn tide_colony_move_checkpoint;
/* service_gaps.c */
tide_colony_fn tide_colony_list_gaps;
tide_colony_fn tide_colony_get_gap;
tide_colony_fn tide_colony_retry_gap;
tide_colony_fn tide_colony_accept_gap;
tide_colony_fn tide_colony_list_incidents;
/* service_rows.c */
tide_colony_fn tide_colony_audit;
tide_colony_fn tide_colony_repair;
tide_colony_fn tide_colony_get_trace;
/* Restore what is missing of an agent's data type (NULL: all). Does nothing where no agent can be
 * asked; what cannot be had is no failure. */
TIDE_MUST_CHECK tide_status tide_colony_restore_rows(tide_colony *colony, const char *agent_id,
                                                     const char *data_type, tide_error *err);
tide_colony_fn tide_colony_query;
/* The method by the network: it waits for a thread of its own. arg: the colony. */
void tide_colony_run_query(tide_call *call, tide_view message, void *arg);
tide_colony_fn tide_colony_export;

/* Numbers of a request: TIDE_E_INVALID above 2^63-1. */
TIDE_MUST_CHECK tide_status tide_colony_number(int64_t *out, uint64_t number, const char *what,
                                               tide_error *err);
/* Names that a request chooses by; NULL or "": all. TIDE_E_NOT_FOUND: there never was such an agent. TIDE_E_INVALID: there is no such data type, and
 * the words list them. */
TIDE_MUST_CHECK tide_status tide_colony_check_names(tide_colony *colony, const char *agent_id,
                                                    const char *data_type, tide_error *err);
void tide_colony_ledger(COLONY(Ledger) * out, const tide_ledger *ledger);
