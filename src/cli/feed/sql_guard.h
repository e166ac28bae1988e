/* sql_guard.h - what SQL from the command line may do to a store.
 *
 *     reading    SELECT, EXPLAIN, pragmas that only tell
 *     writing    besides, rows may be inserted, updated and deleted, and temporary tables made. The schema, transactions (everything is one)
 *                and other files are out of bounds
 *
 * SQLite asks the guard about every part of a statement while it is prepared, also inside of triggers, functions and virtual
 * tables. What was refused first is kept in words.
 *
 * Threads: one. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

typedef struct tide_cli_sql_guard {
    bool is_writing;
    bool is_write_wanted; /* what was refused would have been let through with is_writing */
    char refused[256];    /* "": nothing */
} tide_cli_sql_guard;

/* The guard must live until it is taken away (NULL). */
void tide_cli_sql_guard_put(sqlite3 *db, tide_cli_sql_guard *guard);
