/* sqlite_watch.c - noticing that another process has committed to the file.
 *
 * A commit writes to the log before it becomes visible. inotify on the log wakes the thread; then
 * data_version of a connection of its own, which changes with every commit that others made
 * visible, is read for up to 5 ms. Behind that stands a slow look, for what inotify does not tell
 * (a log that was replaced, a network file system). */
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "store/sqlite/sqlite_connection.h"
#include "store/sqlite/sqlite_watch.h"

enum {
    SLOW_LOOK_MS = 500,
    VISIBLE_US = 5000,
    LOOK_EVERY_US = 200,
};

int tide_sqlite_watch_log(const char *path)
{
    char log[4096];
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && snprintf(log, sizeof log, "%s-wal", path) < (int)sizeof log)
        (void)inotify_add_watch(fd, log, IN_MODIFY);
    return fd;
}

void tide_sqlite_forget_events(int fd)
{
    char events[4096];
    while (fd >= 0 && read(fd, events, sizeof events) > 0) {
    }
}

/* True: another connection has committed since the last look. */
static bool has_changed(tide_sqlite_connection *connection, char last[TIDE_SQLITE_VALUE_SIZE])
{
    char version[TIDE_SQLITE_VALUE_SIZE];
    tide_error ignored;
    if (tide_sqlite_ask(connection, "PRAGMA data_version", version, &ignored) < TIDE_OK ||
        strcmp(version, last) == 0)
        return false;
    (void)snprintf(last, TIDE_SQLITE_VALUE_SIZE, "%s", version);
    return true;
}

static bool changes_soon(tide_sqlite_connection *connection, char last[TIDE_SQLITE_VALUE_SIZE])
{
    tide_env *env = connection->store->env;
    for (int64_t waited_us = 0; waited_us <= VISIBLE_US; waited_us += LOOK_EVERY_US) {
        if (has_changed(connection, last))
            return true;
        env->sleep_us(env, LOOK_EVERY_US);
    }
    return false;
}

void *tide_sqlite_watch(void *arg)
{
    tide_sqlite_watcher *self = arg;
    tide_watcher *watcher = &self->watcher;
    tide_sqlite_connection *connection = NULL;
    tide_error ignored;
    if (tide_sqlite_connection_open(&connection, watcher->store, self->path, TIDE_SQLITE_READER,
                                    &ignored) < TIDE_OK)
        return NULL; /* what happens in this process is still told */
    connection->budget_until_us = 0;
    char last[TIDE_SQLITE_VALUE_SIZE] = "";
    const int fd = tide_sqlite_watch_log(self->path);
    (void)has_changed(connection, last);
    /* What was committed between the opening of the first watch and here. */
    tide_watch_signal(watcher->store, NULL);
    int found = 0;
    while ((found = tide_watcher_poll(watcher, fd, SLOW_LOOK_MS)) >= 0) {
        tide_sqlite_forget_events(fd);
        if (found > 0 ? changes_soon(connection, last) : has_changed(connection, last))
            tide_watch_signal(watcher->store, NULL);
    }
    if (fd >= 0)
        (void)close(fd);
    tide_sqlite_connection_close(connection);
    return NULL;
}
