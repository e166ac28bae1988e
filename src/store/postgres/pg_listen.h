/* pg_listen.h - notifications between processes: NOTIFY after the commit, and the LISTEN thread.
 *
 * One channel, `tidemark`; the payload is the topic. The committing thread sends notifications,
 * after the commit and outside of it (inside, 16 clients fell to 0.22x: NOTIFY takes a lock of the
 * whole cluster), and coalesced: while one is being sent, the topics of others collect, and the
 * sender sends them together.
 *
 * A listener that loses its connection signals every watch when it is back: something may have been
 * missed. Behind a pooler and on a standby LISTEN is of no use: every watch is signalled twice a
 * second. */
#pragma once

#include "store/postgres/pg_connection.h"

typedef struct tide_pg_listener {
    tide_watcher watcher; /* first: the thread is given this */
    pthread_mutex_t lock; /* of what follows */
    bool is_sending;
    bool is_overflowing; /* more topics than fit: all are sent as one */
    tide_topics waiting;
} tide_pg_listener;

void tide_pg_listener_init(tide_pg_listener *listener, tide_store *store);
void tide_pg_listener_done(tide_pg_listener *listener);

/* The thread's function. */
void *tide_pg_listen(void *arg);

/* Send a committed transaction's topics on its connection, together with those that others left
 * meanwhile. */
void tide_pg_notify(tide_pg_listener *listener, tide_pg_connection *connection,
                    const tide_topics *topics);
