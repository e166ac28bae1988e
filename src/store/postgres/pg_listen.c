#include "store/postgres/pg_listen.h"

#include <string.h>

#include "base/backoff.h"
#include "base/cond_wait.h"
#include "tidemark_sql.h"

enum {
    QUIET_MS = 30000, /* between checks of an idle connection */
    ROUND_MAX = 16,   /* how often one sender sends for others */
    POLL_MS = 500,    /* between signals where LISTEN is of no use */
    POLLS = 120,      /* signals before LISTEN is tried again */
};

static const tide_backoff reconnect_policy = {.base_us = 50000, .cap_us = 2000000};

/* The payload for all topics. A topic cannot be empty. */
static const char all_topics[] = "";

void tide_pg_listener_init(tide_pg_listener *listener, tide_store *store)
{
    *listener = (tide_pg_listener){.watcher = {.store = store}};
    (void)pthread_mutex_init(&listener->lock, NULL);
}

void tide_pg_listener_done(tide_pg_listener *listener)
{
    tide_watcher_stop(&listener->watcher);
    (void)pthread_mutex_destroy(&listener->lock);
}

/* ---- listening ---- */

/* *must_poll: there is a server, but LISTEN is of no use: behind a pooler, which shares its
 * sessions, and on a standby, which refuses it. */
static tide_pg_connection *connect_listener(tide_pg_listener *listener, bool *must_poll)
{
    tide_store *store = listener->watcher.store;
    tide_pg_connection *connection = NULL;
    tide_error ignored;
    *must_poll = false;
    if (tide_pg_connection_open(&connection, store, false, tide_cond_until(store->options.wait_us),
                                &ignored) < TIDE_OK)
        return NULL;
    *must_poll = connection->is_pooled || connection->is_on_standby;
    if (*must_poll ||
        tide_pg_send(connection, TIDE_PG_LISTEN, (tide_pg_expectation){0}, &ignored) < TIDE_OK ||
        tide_pg_sync(connection, &ignored) < TIDE_OK) {
        tide_pg_connection_close(connection);
        return NULL;
    }
    return connection;
}

/* Signal every watch, twice a second. False: the thread is to end. */
static bool poll_for_a_while(tide_pg_listener *listener)
{
    for (int i = 0; i < POLLS; i++) {
        if (tide_watcher_poll(&listener->watcher, -1, POLL_MS) < 0)
            return false;
        tide_watch_signal(listener->watcher.store, NULL);
    }
    return true;
}

static void signal_notifications(tide_pg_listener *listener, tide_pg_connection *connection)
{
    for (PGnotify *news = tide_pq.notifies(connection->pg); news;
         news = tide_pq.notifies(connection->pg)) {
        const bool is_all = strcmp(news->extra, all_topics) == 0;
        tide_watch_signal(listener->watcher.store, is_all ? NULL : news->extra);
        tide_pq.freemem(news);
    }
}

/* Returns when the connection is lost (true) or the thread is to end (false). */
static bool listen_while_connected(tide_pg_listener *listener, tide_pg_connection *connection)
{
    for (;;) {
        const int found =
            tide_watcher_poll(&listener->watcher, tide_pq.socket(connection->pg), QUIET_MS);
        if (found < 0)
            return false;
        if (!tide_pg_connection_is_alive(connection))
            return true;
        signal_notifications(listener, connection);
    }
}

void *tide_pg_listen(void *arg)
{
    tide_pg_listener *listener = arg;
    tide_env *env = listener->watcher.store->env;
    int attempt = 0;
    bool is_wanted = true;
    while (is_wanted) {
        bool must_poll = false;
        tide_pg_connection *connection = connect_listener(listener, &must_poll);
        if (connection) {
            attempt = 0;
            tide_watch_signal(listener->watcher.store, NULL);
            is_wanted = listen_while_connected(listener, connection);
            tide_pg_connection_close(connection);
        } else if (must_poll) {
            attempt = 0;
            is_wanted = poll_for_a_while(listener);
        } else {
            const int64_t wait_us = tide_backoff_next(&reconnect_policy, attempt++, env);
            is_wanted = tide_watcher_poll(&listener->watcher, -1, (int)(wait_us / 1000)) >= 0;
        }
    }
    return NULL;
}

/* ---- notifying ---- */

static void send_topics(tide_pg_connection *connection, const tide_topics *topics, bool is_all)
{
    tide_error ignored;
    for (int i = 0; i < topics->count || (i == 0 && is_all); i++) {
        const char *const topic = is_all ? all_topics : topics->names[i];
        if (tide_pg_send_texts(connection, TIDE_PG_NOTIFY, &topic, 1, (tide_pg_expectation){0},
                               &ignored) < TIDE_OK)
            return;
        if (is_all)
            break;
    }
    TIDE_IGNORE(tide_pg_sync(connection, &ignored));
}

void tide_pg_notify(tide_pg_listener *listener, tide_pg_connection *connection,
                    const tide_topics *topics)
{
    (void)pthread_mutex_lock(&listener->lock);
    for (int i = 0; i < topics->count; i++)
        if (!tide_topics_add(&listener->waiting, topics->names[i]))
            listener->is_overflowing = true;
    for (int round = 0; !listener->is_sending && listener->waiting.count > 0 && round < ROUND_MAX;
         round++) {
        const tide_topics mine = listener->waiting;
        const bool is_all = listener->is_overflowing;
        listener->waiting.count = 0;
        listener->is_overflowing = false;
        listener->is_sending = true;
        (void)pthread_mutex_unlock(&listener->lock);
        send_topics(connection, &mine, is_all);
        (void)pthread_mutex_lock(&listener->lock);
        listener->is_sending = false;
    }
    (void)pthread_mutex_unlock(&listener->lock);
}
