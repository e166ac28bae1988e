/* client_hub.h - one thread that moves the bytes of many clients.
 *
 * A client without a hub has one of its own. A process with thousands of servers gives one hub to
 * all their clients: a connection then costs its socket and no thread, and an idle one costs
 * nothing (libevent wakes for what has happened, never for what waits).
 *
 *     tide_client_hub_open(&hub, &(tide_client_hub_options){.connection_max = 8}, err)
 *     tide_client_open(&client, &(tide_client_options){.hub = hub, ...}, err)
 *     ...
 *     tide_client_close(client)      every client first
 *     tide_client_hub_close(hub)
 *
 * Threads: clients may be opened and closed while others speak, from any thread but the hub's
 * own. */
#pragma once

#include <tidemark/error.h>

#include "base/cleanup.h"

typedef struct tide_client_hub tide_client_hub;

typedef struct tide_client_hub_options {
    int connection_max; /* to one server; 0: TIDE_CLIENT_CONNECTIONS */
    int idle_max;       /* idle connections that are retained, to all servers; 0: 32 */
} tide_client_hub_options;

/* options may be NULL. TIDE_E_NOMEM: no memory or no thread. */
TIDE_MUST_CHECK tide_status tide_client_hub_open(tide_client_hub **out,
                                                 const tide_client_hub_options *options,
                                                 tide_error *err);
void tide_client_hub_close(tide_client_hub *hub); /* takes NULL */
TIDE_CLEANUP_FN(tide_client_hub_closep, tide_client_hub, tide_client_hub_close)
