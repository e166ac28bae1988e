/* watch.h - notifications of changes, instead of polling.
 *
 * A transaction notifies *topics*; a watch on a topic becomes ready when such a transaction has
 * become durable, in this process or another one. It is a hint and nothing else: notifications are
 * sent after the commit, coalesced, may come twice, may come for nothing (SQLite reports only that
 * the file changed, not what), and a crash can lose one. So a waiter looks again from time to time
 * as well, and nothing that must be safe depends on a notification arriving.
 *
 *     open the watch - look - nothing there? - wait - look - ...
 *
 * What is notified after the watch was opened, or since its last wait, is not missed by the next
 * wait.
 *
 * How: within a store directly; between processes by LISTEN/NOTIFY on PostgreSQL, and on SQLite by
 * inotify on the write-ahead log, then data_version, with a slow look behind it. The first watch of
 * a store starts a thread.
 *
 * Threads: a watch belongs to one thread at a time. */
#ifndef TIDEMARK_WATCH_H
#define TIDEMARK_WATCH_H

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_TOPIC_MAX = 63,   /* bytes, without the terminator */
    TIDE_TX_TOPIC_MAX = 8, /* topics one transaction may notify */
};

typedef struct tide_watch tide_watch;

/* Notify all watches of topic, once this write transaction is durable. */
TIDE_API TIDE_MUST_CHECK tide_status tide_tx_notify(tide_tx *tx, const char *topic,
                                                    tide_error *err);

TIDE_API TIDE_MUST_CHECK tide_status tide_watch_open(tide_watch **out, tide_store *store,
                                                     const char *topic, tide_error *err);
TIDE_API void tide_watch_close(tide_watch *watch); /* before its store is closed; takes NULL */
TIDE_API void tide_watch_closep(tide_watch **watch);

/* TIDE_OK: something may have changed. TIDE_NONE: timeout_us have passed without a sign of it. */
TIDE_API TIDE_MUST_CHECK tide_status tide_watch_wait(tide_watch *watch, int64_t timeout_us,
                                                     tide_error *err);

/* For event loops: readable when a wait would return TIDE_OK at once. Borrowed until close. */
TIDE_API int tide_watch_fd(const tide_watch *watch);

TIDE_END_DECLS

#endif
