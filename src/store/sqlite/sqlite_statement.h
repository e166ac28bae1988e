/* sqlite_statement.h - prepared statements of one SQLite connection, and values in and out of them.
 *
 * A cache belongs to a connection, of our own files (sqlite_connection.h) or of an application's
 * (foreign_db.h), and finds a statement by its text. A statement is lent to one user at a time: a
 * second user of the same text gets a statement of its own, which is finalized when it is returned.
 * When TIDE_SQLITE_STATEMENTS_MAX statements are prepared, the idle ones are finalized.
 *
 * Functions return SQLite's result codes, because callers name their files differently in errors.
 *
 * Threads: belongs to one connection. */
#pragma once

#include <stdbool.h>

#include <sqlite3.h>

#include "base/sql_value.h"

enum {
    TIDE_SQLITE_SLOTS = 256,
    TIDE_SQLITE_STATEMENTS_MAX = 1024,
};

typedef struct tide_sqlite_statement {
    sqlite3_stmt *handle;
    char *text; /* NULL: of one user, in no cache */
    bool is_lent;
    struct tide_sqlite_statement *next; /* of its slot */
} tide_sqlite_statement;

typedef struct tide_sqlite_statements {
    tide_sqlite_statement *slots[TIDE_SQLITE_SLOTS];
    int count;
} tide_sqlite_statements;

/* Finalizes all, also those that are lent. */
void tide_sqlite_statements_done(tide_sqlite_statements *cache);

/* Is the text a statement of this database? Prepares it unless it is cached. */
int tide_sqlite_statements_prepare(tide_sqlite_statements *cache, sqlite3 *db, const char *text);

/* Lend the statement of a text, reset and without values. */
int tide_sqlite_statements_lend(tide_sqlite_statement **out, tide_sqlite_statements *cache,
                                sqlite3 *db, const char *text);

/* Takes NULL. */
void tide_sqlite_statement_return(tide_sqlite_statement *statement);

/* Bind by position, from 1. is_static: the bytes outlive the statement's run. Otherwise they are
 * copied. SQLITE_MISUSE: a time outside the years 1 to 9999. */
int tide_sqlite_bind(sqlite3_stmt *handle, int position, const tide_sql_value *value,
                     bool is_static);

/* A column of the current row, from 0, in its own storage class: bytes are borrowed until the next
 * step. */
tide_sql_value tide_sqlite_value(sqlite3_stmt *handle, int column);
