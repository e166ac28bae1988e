#include "net/client/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "net/client/client_internal.h"
#include "net/server/auth.h"
#include "net/server/tls.h"

bool tide_client_is_stopping(tide_client *client)
{
    TIDE_HOLD(&client->lock);
    return client->is_stopping;
}

void tide_client_stop(tide_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_stopping = true;
    pthread_cond_broadcast(&client->stopped);
    pthread_mutex_unlock(&client->lock);
    tide_client_hub_stop(client);
}

/* ---- open, close ---- */

static tide_status copy_text(tide_client *client, int at, const char **text, tide_error *err)
{
    if (!*text)
        return TIDE_OK;
    client->texts[at] = strdup(*text);
    *text = client->texts[at];
    return *text ? TIDE_OK : tide_no_memory(err);
}

static tide_status copy_options(tide_client *client, const tide_client_options *options,
                                tide_error *err)
{
    tide_client_options *own = &client->options;
    *own = *options;
    client->env = options->env ? options->env : tide_env_system();
    own->timeout_us = own->timeout_us ? own->timeout_us : TIDE_CLIENT_TIMEOUT_US;
    own->connect_us = own->connect_us ? own->connect_us : TIDE_CLIENT_CONNECT_US;
    own->message_max = own->message_max ? own->message_max : (size_t)TIDE_CLIENT_MESSAGE_MAX;
    own->queue_len = own->queue_len ? own->queue_len : (size_t)TIDE_CLIENT_QUEUE_LEN;
    own->try_max = own->try_max ? own->try_max : TIDE_CLIENT_TRY_MAX;
    own->connection_max = own->connection_max ? own->connection_max : TIDE_CLIENT_CONNECTIONS;
    own->user_agent = own->user_agent ? own->user_agent : "tidemark";
    if (own->backoff.base_us == 0)
        own->backoff = (tide_backoff){.base_us = 100000, .cap_us = 5000000};
    TIDE_TRY(copy_text(client, 0, &own->target, err));
    TIDE_TRY(copy_text(client, 1, &own->ca_file, err));
    TIDE_TRY(copy_text(client, 2, &own->cert_file, err));
    TIDE_TRY(copy_text(client, 3, &own->key_file, err));
    TIDE_TRY(copy_text(client, 4, &own->token, err));
    TIDE_TRY(copy_text(client, 5, &own->token_file, err));
    return copy_text(client, 6, &own->user_agent, err);
}

const char *tide_client_scheme(const char *address, bool is_tls)
{
    if (strstr(address, "://") || strncmp(address, "unix:", strlen("unix:")) == 0)
        return "";
    return is_tls ? "https://" : "http://";
}

/* http://HOST:PORT without anything behind it. */
static tide_status check_target(const char *target, const char *host, tide_error *err)
{
    const size_t len = strcspn(host, "/?#@ \t\r\n\\");
    if (len == 0 || host[len] != '\0' || strlen(host) > 300)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is not http://HOST:PORT, https://HOST:PORT or unix:PATH", target);
    return TIDE_OK;
}

static tide_status set_target(tide_client *client, tide_error *err)
{
    const char *target = client->options.target;
    if (!target)
        return tide_fail(err, TIDE_E_INVALID, "a client without a target");
    if (strncmp(target, "unix:", 5) == 0 && target[5]) {
        client->socket_path = strdup(target + 5);
        client->base_url = strdup("http://localhost");
        return client->socket_path && client->base_url ? TIDE_OK : tide_no_memory(err);
    }
    client->is_https = strncmp(target, "https://", 8) == 0;
    const size_t scheme_len = client->is_https ? 8 : 7;
    if (!client->is_https && strncmp(target, "http://", 7) != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is not http://HOST:PORT, https://HOST:PORT or unix:PATH", target);
    client->base_url = strdup(target);
    TIDE_NEED_MEMORY(client->base_url, err);
    size_t len = strlen(client->base_url);
    if (len > scheme_len && client->base_url[len - 1] == '/')
        client->base_url[len - 1] = '\0';
    TIDE_TRY(check_target(target, client->base_url + scheme_len, err));
    const bool has_token = client->options.token || client->options.token_file;
    if (has_token && !client->is_https && !client->options.is_insecure &&
        !tide_auth_is_local(client->base_url + scheme_len))
        return tide_fail(err, TIDE_E_INVALID,
                         "a token is not sent to %s without TLS: use https, or insist (insecure)",
                         target);
    return TIDE_OK;
}

/* libcurl would find fault with the files at every connection, in fewer words. */
static tide_status check_files(const tide_client *client, tide_error *err)
{
    if (!client->is_https)
        return TIDE_OK;
    TIDE_CLEANUP(tide_tls_closep) tide_tls *tls = NULL;
    const tide_tls_options options = {.cert_file = client->options.cert_file,
                                      .key_file = client->options.key_file,
                                      .ca_file = client->options.ca_file};
    return tide_tls_open_client(&tls, &options, err);
}

static tide_status join_hub(tide_client *client, tide_error *err)
{
    TIDE_ALLOC(client->sockets, 1, err);
    const tide_client_hub_options options = {.connection_max = client->options.connection_max};
    if (!client->options.hub)
        TIDE_TRY(tide_client_hub_open(&client->own_hub, &options, err));
    client->sockets->hub = client->own_hub ? client->own_hub : client->options.hub;
    tide_client_hub_join(client->sockets->hub, client);
    return TIDE_OK;
}

tide_status tide_client_open(tide_client **out, const tide_client_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_client_closep) TIDE_NEW(tide_client, client, err);
    (void)pthread_mutex_init(&client->lock, NULL);
    (void)pthread_cond_init(&client->stopped, NULL);
    client->waiting_end = &client->waiting;
    TIDE_TRY(copy_options(client, options, err));
    TIDE_TRY(set_target(client, err));
    TIDE_TRY(check_files(client, err));
    TIDE_TRY(join_hub(client, err));
    *out = TIDE_TAKE(client);
    return TIDE_OK;
}

void tide_client_close(tide_client *client)
{
    if (!client)
        return;
    if (client->hub) {
        tide_client_stop(client);
        tide_client_hub_leave(client); /* and with it go the sockets' count */
    } else {
        free(client->sockets);
    }
    assert(!client->running);
    tide_client_hub_close(client->own_hub);
    for (size_t i = 0; i < sizeof client->texts / sizeof client->texts[0]; i++)
        free(client->texts[i]);
    free(client->base_url);
    free(client->socket_path);
    explicit_bzero(client->token, sizeof client->token);
    (void)pthread_cond_destroy(&client->stopped);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}
