#include "remote/agent_clients.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "runtime/client_metrics.h"

enum { IDLE_MAX = 65536, TARGET_MAX = TIDE_AGENT_ADDRESS_MAX + 16 };

struct tide_agent_clients {
    tide_scheduler_security security;
    tide_metrics *metrics;
    tide_env *env;
    tide_client_hub *hub;
    atomic_llong held;
};

tide_status tide_agent_clients_open(tide_agent_clients **out,
                                    const tide_scheduler_security *security, tide_metrics *metrics,
                                    tide_env *env, tide_error *err)
{
    TIDE_NEW(tide_agent_clients, links, err);
    links->security = *security;
    links->metrics = metrics;
    links->env = env;
    const tide_client_hub_options options = {.connection_max = 4, .idle_max = IDLE_MAX};
    const tide_status status = tide_client_hub_open(&links->hub, &options, err);
    if (status < TIDE_OK) {
        free(links);
        return status;
    }
    *out = links;
    return TIDE_OK;
}

void tide_agent_clients_close(tide_agent_clients *links)
{
    if (!links)
        return;
    tide_client_hub_close(links->hub);
    free(links);
}

int64_t tide_agent_clients_held(const tide_agent_clients *links)
{
    return atomic_load(&links->held);
}

tide_status tide_agent_clients_client(tide_agent_clients *links, const char *address,
                                      tide_client **out, tide_error *err)
{
    char target[TARGET_MAX];
    /* Certificates mean TLS. */
    const bool is_tls = links->security.ca_file || links->security.cert_file;
    (void)snprintf(target, sizeof target, "%s%s", tide_client_scheme(address, is_tls), address);
    const tide_client_options options = {
        .target = target,
        .hub = links->hub,
        .env = links->env,
        .ca_file = links->security.ca_file,
        .cert_file = links->security.cert_file,
        .key_file = links->security.key_file,
        .token_file = links->security.token_file,
        .is_insecure = links->security.is_insecure,
        .message_max = TIDE_REPLY_BYTES_MAX,
        .user_agent = "tidemark-colony",
        .count = links->metrics ? tide_client_metrics_count : NULL,
        .count_arg = links->metrics,
        .held = &links->held,
    };
    return tide_client_open(out, &options, err);
}

tide_status tide_agent_clients_call(tide_agent_clients *links, tide_store *store,
                                    const char *agent_id, const char *path, tide_view request,
                                    tide_buffer *answer, tide_error *err)
{
    tide_agent_row row;
    const tide_status status = tide_registry_find(store, agent_id, &row, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no agent '%s'", agent_id);
    TIDE_CLEANUP(tide_client_closep) tide_client *client = NULL;
    TIDE_TRY(tide_agent_clients_client(links, row.address, &client, err));
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    const tide_client_request call = {.path = path,
                                      .message = request,
                                      .is_idempotent = true,
                                      .timeout_us = TIDE_POLLER_TIMEOUT_US};
    TIDE_TRY(tide_client_call(client, &call, &reply, err));
    const tide_buffer spare = *answer;
    *answer = reply.message;
    reply.message = spare;
    return TIDE_OK;
}
