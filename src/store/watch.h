/* watch.h - the store's side of <tidemark/watch.h>: watchers and their topics. */
#pragma once

#include <pthread.h>

#include <tidemark/watch.h>

/* Topics of one transaction, each once. */
typedef struct tide_topics {
    int count;
    char names[TIDE_TX_TOPIC_MAX][TIDE_TOPIC_MAX + 1];
} tide_topics;

/* False: there is no room. */
TIDE_MUST_CHECK bool tide_topics_add(tide_topics *topics, const char *topic);

/* Make the watches of a topic ready; NULL: all watches of the store. */
void tide_watch_signal(tide_store *store, const char *topic);
void tide_watch_signal_topics(tide_store *store, const tide_topics *topics);

/* A thread of an engine that looks after news from other processes. Its stop_fd becomes readable
 * when it is to end; it calls tide_watch_signal. */
typedef struct tide_watcher {
    tide_store *store;
    int stop_fd;
    pthread_t thread;
    bool is_running;
} tide_watcher;

TIDE_MUST_CHECK tide_status tide_watcher_start(tide_watcher *watcher, tide_store *store,
                                               void *(*run)(void *watcher), tide_error *err);
void tide_watcher_stop(tide_watcher *watcher);

/* Wait for fd to become readable. 1: it is; 0: time is up; -1: the watcher is to end. */
int tide_watcher_poll(const tide_watcher *watcher, int fd, int timeout_ms);
