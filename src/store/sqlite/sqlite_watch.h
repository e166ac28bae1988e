/* sqlite_watch.h - the thread that notices other processes' commits to a SQLite file. */
#pragma once

#include "store/engine.h"

typedef struct tide_sqlite_watcher {
    tide_watcher watcher; /* first: the thread is given this */
    const char *path;
} tide_sqlite_watcher;

/* The thread's function; given a tide_sqlite_watcher. */
void *tide_sqlite_watch(void *arg);

/* A descriptor that becomes readable when somebody writes to the log of the file at path; -1:
 * none. */
int tide_sqlite_watch_log(const char *path);
void tide_sqlite_forget_events(int fd); /* takes -1 */
