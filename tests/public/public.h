/* public.h - a program per public header: main (public.c) opens a store and a file of the system's SQLite, and calls check. */
#pragma once

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/store.h>

/* What the program is about. db is app.db in the directory dir, with a table notes (id, text) that has two rows. */
tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err);

#define WANT(truth)                                                                                \
    do {                                                                                           \
        if (!(truth))                                                                              \
            return tide_fail(err, TIDE_E_FAILED, "%s:%d: %s", __FILE__, __LINE__, #truth);         \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        const tide_status done = (call);                                                           \
        if (done < TIDE_OK)                                                                        \
            return done;                                                                           \
    } while (0)
