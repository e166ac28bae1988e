/* agent_clients.h - a client per agent, all on one hub.
 *
 * Threads: get and drop from any thread; a link that was got stays until it is put back. */
#ifndef TIDE_REMOTE_AGENT_CLIENTS_H
#define TIDE_REMOTE_AGENT_CLIENTS_H

#include "colony/poller.h"
#include "colony/registry.h"
#include "net/client/client.h"
#include "runtime/metrics.h"

typedef struct tide_links tide_links;

/* How agents are spoken to. */
typedef struct tide_driver_security {
    const char *ca_file; /* NULL: plain connections, unless the address says https:// */
    const char *cert_file;
    const char *key_file;
    const char *token_file;
    bool is_insecure;
} tide_driver_security;

/* metrics: calls are counted there; NULL: nowhere. */
TIDE_MUST_CHECK tide_status tide_links_open(tide_links **out, const tide_driver_security *security,
                                            tide_metrics *metrics, tide_env *env, tide_error *err);
void tide_links_close(tide_links *links); /* every client must have been closed; takes NULL */

/* A client of HOST:PORT, http://..., https://... or unix:PATH. TIDE_E_INVALID: no such address, or a token that may not be
 * sent there. To be closed with tide_client_close. */
TIDE_MUST_CHECK tide_status tide_links_client(tide_links *links, const char *address,
                                              tide_client **out, tide_error *err);

/* Bytes of answers that have come and are not complete. */
int64_t tide_links_held(const tide_links *links);

/* Ask a registered agent and wait for its answer. TIDE_E_NOT_FOUND: there is no such agent. */
TIDE_MUST_CHECK tide_status tide_links_ask(tide_links *links, tide_store *store,
                                           const char *agent_id, const char *path,
                                           tide_view request, tide_buffer *answer, tide_error *err);

#endif
