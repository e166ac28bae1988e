/* colony_store.h - the colony that --store names, opened here or asked for at the daemon that holds it.
 *
 *     FILE, sqlite:PATH, postgres://...   everything is in that store
 *     duckdb:PATH                         rows, checkpoints and gaps in PATH; registry, leases and work in PATH-books.db beside it
 *
 * DuckDB admits one process. While a daemon has the file, it tells how to reach it in PATH-colony.address, and what is asked for here is sent
 * there. Otherwise the file is opened.
 *
 *     https://127.0.0.1:4320              http://..., or unix:PATH
 *     ca /etc/tidemark/colony.pem         whom to trust: the daemon's own certificate
 *
 * --address asks a service that runs somewhere, whatever its store is. The daemon of a SQLite file tells its address in the same way; only a pass
 * beside it needs that (tide_cli_colony_reach).
 *
 * A daemon that demands tokens is shown the one of --token-file (its first line) or $TIDEMARK_TOKEN. A certificate that is not for the address
 * is reached by its name: $TIDEMARK_COLONY=https://NAME:PORT.
 *
 * Threads: one. */
#pragma once

#include "cli/frame/cli.h"
#include "services/colony/service.h"

enum { TIDE_CLI_COLONY_PATH_MAX = 4096 };

typedef struct tide_cli_colony {
    tide_store *store;
    tide_sink *sink;
    tide_agent_clients *links;
    tide_colony colony;
    tide_client *remote;                         /* NULL: opened here */
    char address_file[TIDE_CLI_COLONY_PATH_MAX]; /* "": none is needed */
} tide_cli_colony;

/* is_daemon: nobody else is asked, and a writer thread is started. */
TIDE_MUST_CHECK tide_status tide_cli_colony_open(tide_cli *cli, tide_cli_colony *out,
                                                 tide_store_mode mode, bool is_daemon,
                                                 tide_error *err);
/* The daemon of --store's file, if one has told its address. TIDE_NONE: it has not. */
TIDE_MUST_CHECK tide_status tide_cli_colony_reach(tide_cli *cli, tide_cli_colony *out,
                                                  tide_error *err);
void tide_cli_colony_done(tide_cli_colony *colony); /* fits TIDE_CLEANUP on {0} */

/* A client of the service at an address, as --token-file and --service-... say. Connects to nobody yet. */
TIDE_MUST_CHECK tide_status tide_cli_service_open(tide_client **out, const tide_cli *cli,
                                                  const char *address, tide_error *err);

/* Speak to agents as the options --agent-ca, --agent-token-file, ... say. */
tide_scheduler_security tide_cli_colony_security(const tide_cli *cli);
#define TIDE_CLI_SERVICE_OPTIONS                                                                   \
    TOKEN_FILE, ADDRESS, SERVICE_CA, SERVICE_CERT, SERVICE_KEY, SERVICE_INSECURE
#define TIDE_CLI_COLONY_OPTIONS DUCKDB_LIBRARY, TIDE_CLI_SERVICE_OPTIONS
#define TIDE_CLI_COLONY_TOKEN                                                                      \
    {                                                                                              \
        .id = TIDE_CLI_TOKEN_FILE,                                                                 \
        .help = "the token for the service, in its first line; $TIDEMARK_TOKEN"                    \
    }
#define TIDE_CLI_AGENT_SECURITY                                                                    \
    AGENT_CA, AGENT_CERT, AGENT_KEY, AGENT_TOKEN_FILE, AGENT_INSECURE, DUCKDB_LIBRARY

/* Call a method, here or there. *response is to be freed with protobuf_c_message_free_unpacked. */
TIDE_MUST_CHECK tide_status tide_cli_colony_call(tide_cli_colony *colony, const char *method,
                                                 const ProtobufCMessage *request,
                                                 const ProtobufCMessageDescriptor *answers,
                                                 ProtobufCMessage **response, tide_error *err);

/* The colony's fleet (tidemark.colony.v1 Fleet), asked for and added up: for status, check and top. */

typedef struct tide_cli_fleet {
    tide_cli_colony colony;
    COLONY(FleetResponse) * answer;
} tide_cli_fleet;

TIDE_MUST_CHECK tide_status tide_cli_fleet_ask(tide_cli *cli, tide_cli_fleet *out, tide_error *err);
void tide_cli_fleet_done(tide_cli_fleet *fleet); /* fits TIDE_CLEANUP on {0} */

/* What an agent's streams come to. */
typedef struct tide_cli_standing {
    int64_t lag_records;
    int64_t lag_ms;        /* the greatest */
    int64_t until_loss_ms; /* the least; -1: nothing is threatened */
    int64_t open_gaps;
    const char *hold; /* of one of them; "": none */
} tide_cli_standing;
tide_cli_standing tide_cli_fleet_standing(const COLONY(FleetLine) * line);

/* A text of a request, borrowed; NULL: the empty one. */
static inline char *tide_cli_colony_text(const char *text)
{
    return (char *)(text ? text : protobuf_c_empty_string);
}

/* What a verb asks, in one call: opens the colony, calls the method, hands the response to fn (may
 * be NULL) and frees it. What fn returns is returned. asks_agents: a colony that is opened here has
 * clients of agents, too. */
typedef tide_status tide_cli_colony_fn(tide_cli *cli, const ProtobufCMessage *response,
                                       tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_colony_ask_with(tide_cli *cli, tide_store_mode mode,
                                                     bool asks_agents, const char *method,
                                                     const ProtobufCMessage *request,
                                                     const ProtobufCMessageDescriptor *answers,
                                                     tide_cli_colony_fn *fn, tide_error *err);
#define tide_cli_colony_ask(cli, ...)                                                              \
    tide_cli_colony_ask_with((cli), TIDE_STORE_EXISTING, false, __VA_ARGS__)
