#include "net/client.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/auth.h"
#include "net/client_parts.h"
#include "net/tls.h"

enum { POLL_MS = 1000, IDLE_CONNECTIONS = 32 };

/* ---- the thread ---- */

static void unlink_running(tide_client_stream *stream)
{
    *stream->running_link = stream->next_running;
    if (stream->next_running)
        stream->next_running->running_link = stream->running_link;
}

static void link_running(tide_client *client, tide_client_stream *stream)
{
    stream->next_running = client->running;
    stream->running_link = &client->running;
    if (client->running)
        client->running->running_link = &stream->next_running;
    client->running = stream;
}

/* The thread is through with it. */
static void drop(tide_client *client, tide_client_stream *stream, CURLcode result)
{
    (void)curl_multi_remove_handle(client->multi, stream->easy);
    unlink_running(stream);
    tide_client_connect_end(stream);
    tide_client_finish(stream, result);
    tide_client_release(stream);
}

static bool is_given_up(tide_client_stream *stream)
{
    pthread_mutex_lock(&stream->client->lock);
    const bool is_stopping = stream->client->is_stopping;
    pthread_mutex_unlock(&stream->client->lock);
    pthread_mutex_lock(&stream->lock);
    if (is_stopping)
        stream->is_cancelled = true;
    const bool is_cancelled = stream->is_cancelled;
    pthread_mutex_unlock(&stream->lock);
    return is_cancelled;
}

/* New, resumed or cancelled; the reference of the list of pending ones is ours now. */
static void look_at(tide_client *client, tide_client_stream *stream)
{
    const bool is_new = !stream->is_added;
    if (is_new) {
        stream->is_added = true;
        link_running(client, stream);
        atomic_fetch_add(&stream->refs, 1);
        tide_client_connect_start(stream);
    }
    pthread_mutex_lock(&stream->lock);
    const bool is_over = stream->is_over;
    pthread_mutex_unlock(&stream->lock);
    if (!is_over && is_given_up(stream))
        drop(client, stream, CURLE_ABORTED_BY_CALLBACK);
    else if (!is_over && !is_new)
        (void)curl_easy_pause(stream->easy, CURLPAUSE_CONT);
    tide_client_release(stream);
}

static bool take_pending(tide_client *client)
{
    pthread_mutex_lock(&client->lock);
    tide_client_stream *list = client->pending;
    client->pending = NULL;
    client->pending_end = &client->pending;
    for (tide_client_stream *stream = list; stream; stream = stream->next_pending)
        stream->is_pending = false;
    const bool is_closing = client->is_closing;
    pthread_mutex_unlock(&client->lock);
    /* Once is_pending is false a stream may be put into the list again: its link is read first, by nobody else. */
    while (list) {
        tide_client_stream *stream = list;
        list = stream->next_pending;
        look_at(client, stream);
    }
    return is_closing;
}

static void take_results(tide_client *client)
{
    int left = 0;
    const CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(client->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        char *of = NULL;
        const CURLcode result = message->data.result;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of);
        tide_client_stream *stream = (tide_client_stream *)(void *)of;
        if (!tide_client_connect_again(stream, result))
            drop(client, stream, result);
    }
}

static void give_up_all(tide_client *client)
{
    while (client->running) {
        tide_client_stream *stream = client->running;
        (void)is_given_up(stream);
        drop(client, stream, CURLE_ABORTED_BY_CALLBACK);
    }
}

static bool is_stopping(tide_client *client)
{
    pthread_mutex_lock(&client->lock);
    const bool stopping = client->is_stopping;
    pthread_mutex_unlock(&client->lock);
    return stopping;
}

static void *move_bytes(void *arg)
{
    tide_client *client = arg;
    int running_count = 0;
    for (;;) {
        const bool is_closing = take_pending(client);
        if (is_stopping(client))
            give_up_all(client);
        if (is_closing)
            break;
        (void)curl_multi_perform(client->multi, &running_count);
        take_results(client);
        tide_client_connect_step(client);
        (void)curl_multi_poll(client->multi, NULL, 0, POLL_MS, NULL);
    }
    return NULL;
}

void tide_client_wake(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    pthread_mutex_lock(&client->lock);
    if (!stream->is_pending) {
        stream->is_pending = true;
        stream->next_pending = NULL;
        atomic_fetch_add(&stream->refs, 1);
        *client->pending_end = stream;
        client->pending_end = &stream->next_pending;
    }
    pthread_mutex_unlock(&client->lock);
    (void)curl_multi_wakeup(client->multi);
}

void tide_client_stop(tide_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_stopping = true;
    pthread_cond_broadcast(&client->stopped);
    pthread_mutex_unlock(&client->lock);
    (void)curl_multi_wakeup(client->multi);
}

/* ---- open, close ---- */

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static tide_status copy_text(tide_client *client, int at, const char **text, tide_error *err)
{
    if (!*text)
        return TIDE_OK;
    client->texts[at] = strdup(*text);
    *text = client->texts[at];
    return *text ? TIDE_OK : tide_fail(err, TIDE_E_NOMEM, "no memory for a client");
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
        return client->socket_path && client->base_url
                   ? TIDE_OK
                   : tide_fail(err, TIDE_E_NOMEM, "no memory for a client");
    }
    client->is_https = strncmp(target, "https://", 8) == 0;
    const size_t scheme_len = client->is_https ? 8 : 7;
    if (!client->is_https && strncmp(target, "http://", 7) != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is not http://HOST:PORT, https://HOST:PORT or unix:PATH", target);
    client->base_url = strdup(target);
    if (!client->base_url)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a client");
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

static tide_status start_thread(tide_client *client, tide_error *err)
{
    client->multi = curl_multi_init();
    if (!client->multi)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a client");
    (void)curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                            (long)client->options.connection_max);
    (void)curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    if (pthread_create(&client->thread, NULL, move_bytes, client) != 0)
        return tide_fail(err, TIDE_E_NOMEM, "no thread for a client");
    client->has_thread = true;
    return TIDE_OK;
}

tide_status tide_client_open(tide_client **out, const tide_client_options *options, tide_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_curl);
    TIDE_CLEANUP(tide_client_closep) tide_client *client = calloc(1, sizeof *client);
    if (!client)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a client");
    (void)pthread_mutex_init(&client->lock, NULL);
    (void)pthread_cond_init(&client->stopped, NULL);
    client->pending_end = &client->pending;
    client->waiting_end = &client->waiting;
    TIDE_TRY(copy_options(client, options, err));
    TIDE_TRY(set_target(client, err));
    TIDE_TRY(check_files(client, err));
    TIDE_TRY(start_thread(client, err));
    *out = TIDE_TAKE(client);
    return TIDE_OK;
}

void tide_client_close(tide_client *client)
{
    if (!client)
        return;
    if (client->has_thread) {
        pthread_mutex_lock(&client->lock);
        client->is_closing = true;
        pthread_mutex_unlock(&client->lock);
        tide_client_stop(client);
        (void)pthread_join(client->thread, NULL);
    }
    assert(!client->running && !client->pending);
    if (client->multi)
        (void)curl_multi_cleanup(client->multi);
    for (size_t i = 0; i < sizeof client->texts / sizeof client->texts[0]; i++)
        free(client->texts[i]);
    free(client->base_url);
    free(client->socket_path);
    explicit_bzero(client->token, sizeof client->token);
    (void)pthread_cond_destroy(&client->stopped);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}

void tide_client_closep(tide_client **client)
{
    tide_client_close(*client);
}
