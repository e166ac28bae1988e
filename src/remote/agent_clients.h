/* agent_clients.h - a client per agent, all on one hub.
 *
 * Threads: get and drop from any thread; a link that was got stays until it is put back. */
#pragma once

#include "colony/poller.h"
#include "colony/registry.h"
#include "net/client/client.h"
#include "runtime/metrics.h"

typedef struct tide_agent_clients tide_agent_clients;

/* How agents are spoken to. */
typedef struct tide_scheduler_security {
    const char *ca_file; /* NULL: plain connections, unless the address says https:// */
    const char *cert_file;
    const char *key_file;
    const char *token_file;
    bool is_insecure;
} tide_scheduler_security;

/* metrics: calls are counted there; NULL: nowhere. */
TIDE_MUST_CHECK tide_status tide_agent_clients_open(tide_agent_clients **out,
                                                    const tide_scheduler_security *security,
                                                    tide_metrics *metrics, tide_env *env,
                                                    tide_error *err);
void tide_agent_clients_close(
    tide_agent_clients *links); /* every client must have been closed; takes NULL */

/* A client of HOST:PORT, http://..., https://... or unix:PATH. TIDE_E_INVALID: no such address, or
 * a token that may not be sent there. To be closed with tide_client_close. */
TIDE_MUST_CHECK tide_status tide_agent_clients_client(tide_agent_clients *links,
                                                      const char *address, tide_client **out,
                                                      tide_error *err);

/* Bytes of answers that have come and are not complete. */
int64_t tide_agent_clients_held(const tide_agent_clients *links);

/* Ask a registered agent and wait for its answer. TIDE_E_NOT_FOUND: there is no such agent. */
TIDE_MUST_CHECK tide_status tide_agent_clients_call(tide_agent_clients *links, tide_store *store,
                                                    const char *agent_id, const char *path,
                                                    tide_view request, tide_buffer *answer,
                                                    tide_error *err);
